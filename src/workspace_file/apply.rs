//! Brings a workspace to what its file declares.
//!
//! What there is and what is declared are compared; the difference is a list of changes,
//! which is what is printed, and what is done in one transaction. Applied again, the same
//! file makes an empty list.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use serde::Serialize;
use uuid::Uuid;

use crate::app::App;
use crate::scim::tokens::TokenError;
use crate::workspace_file::change::{Change, Options};
use crate::workspace_file::declare_campaigns;
use crate::workspace_file::declare_catalogs::{self, DeclareError};
use crate::workspace_file::file::{Declaration, DeclaredKey, FileError};
pub use crate::workspace_file::plan::unusual;
use crate::workspace_file::plan::{Current, Plan, Step};
use crate::workspaces::groups;
use crate::workspaces::keys::{self, KeyError, NewKey};
use crate::workspaces::storage::{self, Settings, StorageError};
use crate::workspaces::{Workspace, channel_rows, channels, key_rows, rows};
use kit::retry::Retry;
use objects::{ObjectError, probe};
use store::{StoreError, Tx};

/// What became of one document.
#[derive(Serialize)]
pub struct Applied {
    /// The name of the workspace, or of the company.
    #[serde(rename = "workspace")]
    pub what: String,
    pub changes: Vec<Change>,
    /// What the operator should know beside the changes.
    pub notes: Vec<String>,
    /// The callback secret, if it was created just now: shown this once.
    pub callback_secret: Option<String>,
    /// All secrets that were created just now, by where they would be in the file: shown this once.
    pub secrets: BTreeMap<&'static str, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("key {name}: {error}")]
    Key { name: String, error: KeyError },
    #[error("key {0}: another key of that name was made by `key create`; revoke it first")]
    NotDeclared(String),
    #[error("app {0}: another workspace has an app of that id")]
    AppTaken(Uuid),
    #[error(
        "control_group.percent is {wanted} and the active group has {active}: \
         another percentage is another group, with another segment id. Put {active} back into \
         the file, or run `longshore control-group renew --percent {wanted}` first"
    )]
    Percent { active: i32, wanted: i32 },
    #[error("scim_token {name}: {error}")]
    Token { name: String, error: TokenError },
    #[error(
        "scim_token {0}: another one of that name was made by `scim-token create`; revoke it first"
    )]
    TokenNotDeclared(String),
    #[error(
        "dashboard_user {0}: a user whom the file does not declare has that name; delete it over SCIM first, or take it out of the file"
    )]
    UserNotDeclared(String),
    #[error("dashboard_user {user}: there is no workspace {workspace}")]
    NoWorkspace { user: String, workspace: String },
    #[error("storage.{kind}: {error}")]
    Probe { kind: &'static str, error: ObjectError },
    #[error(transparent)]
    Catalogs(#[from] DeclareError),
    /// What campaigns send cannot be sent as the workspace is declared.
    #[error(transparent)]
    Messages(#[from] FileError),
    #[error(
        "webhooks.secret and {0} are the same: webhooks of messages sign what their senders write, \
         so their secret must sign nothing else"
    )]
    SharedSecret(&'static str),
    #[error("storage.{0} was changed by somebody else at the same time: apply again")]
    Meanwhile(&'static str),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Storage(error.into())
    }
}

impl Retry for ApplyError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Storage(error) => error.can_retry(),
            Self::Key { error, .. } => error.can_retry(),
            Self::Probe { error, .. } => error.can_retry(),
            Self::Catalogs(error) => error.can_retry(),
            Self::Messages(error) => error.can_retry(),
            Self::Meanwhile(_) => true,
            Self::Token { error, .. } => error.can_retry(),
            Self::NotDeclared(_)
            | Self::AppTaken(_)
            | Self::Percent { .. }
            | Self::TokenNotDeclared(_)
            | Self::UserNotDeclared(_)
            | Self::NoWorkspace { .. }
            | Self::SharedSecret(_) => false,
        }
    }
}

/// Brings the store to what `declaration` says, in one transaction; storage that is new or
/// changed is tried first.
pub async fn apply(
    app: &App,
    declaration: &Declaration,
    options: Options,
) -> Result<Applied, ApplyError> {
    let files = declare_catalogs::look(&declaration.catalogs).await?;
    let mut tx = app.store.snapshot().await?;
    let current = Current::read(&mut tx, app, &declaration.name).await?;
    tx.commit().await?;
    let mut plan = Plan::make(declaration, &current, &files, options, &app.config)?;
    let mut notes = channels::private_addresses(&declaration.channels, &app.config);
    if declaration.channels.contains_key(&channels::Part::Email) {
        notes.extend(channels::unsubscribing(&app.config));
    }
    if options.dry_run {
        plan.notes.append(&mut notes);
        // A secret that was made for nothing is not shown.
        let secrets = BTreeMap::new();
        return Ok(Applied { callback_secret: None, secrets, ..plan.finished(declaration) });
    }
    if plan.changes.is_empty() {
        plan.notes.append(&mut notes);
        return Ok(plan.finished(declaration));
    }
    let tried: Vec<&Settings> = plan.storages().collect();
    for settings in &tried {
        notes.extend(try_out(settings).await?);
    }

    let mut tx = app.store.write().await?;
    let (workspace, is_new) = make_or_lock(&mut tx, app, declaration).await?;
    // Looked at again, now that nobody else can change it.
    let mut current = Current::read(&mut tx, app, &declaration.name).await?;
    current.is_new = is_new;
    let mut plan = Plan::make(declaration, &current, &files, options, &app.config)?;
    if let Some(settings) = plan.storages().find(|settings| !tried.contains(settings)) {
        return Err(ApplyError::Meanwhile(settings.kind()));
    }
    plan.carry_out(&mut tx, app, workspace, declaration).await?;
    tx.commit().await?;
    plan.notes.extend(notes);
    Ok(plan.finished(declaration))
}

/// The id of the workspace, and whether it was made just now; until the transaction ends
/// nobody else applies to it.
async fn make_or_lock(
    tx: &mut Tx,
    app: &App,
    declaration: &Declaration,
) -> Result<(i32, bool), StoreError> {
    let new = declared_workspace(declaration, None);
    if let Some(id) = rows::insert(tx, &new, app.clock.now_ms()).await? {
        return Ok((id, true));
    }
    let id = rows::by_name(tx, &declaration.name).await?.map(|workspace| workspace.id);
    let id = id.ok_or_else(|| StoreError::Corrupt("a workspace came and went".into()))?;
    rows::lock(tx, id).await?;
    Ok((id, false))
}

/// The workspace as declared, with the id and storage that it has.
fn declared_workspace(declaration: &Declaration, current: Option<&Workspace>) -> Workspace {
    Workspace {
        id: current.map_or(0, |workspace| workspace.id),
        name: declaration.name.clone(),
        currency: declaration.currency.clone(),
        exchange_rates: declaration.exchange_rates.clone(),
        time_zone: declaration.time_zone.clone(),
        ip_allowlist: declaration.ip_allowlist.clone(),
        rate_limits: declaration.rate_limits.clone(),
        frequency_capping: declaration.frequency_capping.clone(),
        export_users_limit: declaration.export_users_limit,
        export_bytes_limit: declaration.export_bytes_limit,
        s3_storage: current.and_then(|workspace| workspace.s3_storage),
        azure_storage: current.and_then(|workspace| workspace.azure_storage),
        azure_is_default: declaration
            .azure_is_default
            .unwrap_or_else(|| current.is_some_and(|workspace| workspace.azure_is_default)),
    }
}

impl Plan<'_> {
    async fn carry_out(
        &self,
        tx: &mut Tx,
        app: &App,
        id: i32,
        declared: &Declaration,
    ) -> Result<(), ApplyError> {
        let now = app.clock.now_ms();
        let is = rows::by_id(tx, id).await?;
        let mut workspace = declared_workspace(declared, is.as_ref());
        // Files of items can be long: before anything is locked that calls wait for.
        declare_catalogs::carry_out(tx, id, &self.catalogs, now).await?;
        for step in &self.steps {
            match step {
                Step::NewKey(key) => key.insert(tx, app, id).await?,
                Step::UpdateKey(id, key) => {
                    key_rows::update(tx, *id, &key.permissions, &key.allow).await?;
                }
                Step::RevokeKey(id) => {
                    key_rows::revoke(tx, *id, now).await?;
                }
                Step::PutApp(new) => {
                    if !rows::put_app(tx, id, new).await? {
                        return Err(ApplyError::AppTaken(new.id));
                    }
                }
                Step::DeleteApp(app) => rows::delete_app(tx, id, *app).await?,
                Step::PutStorage(kind, settings) => {
                    let new = storage::insert(tx, &app.secrets, id, settings, now).await?;
                    *kind.of(&mut workspace) = Some(new);
                }
                Step::DropStorage(kind) => *kind.of(&mut workspace) = None,
                Step::PutChannel(part, channel) => {
                    channels::put(tx, &app.secrets, id, *part, channel).await?;
                }
                Step::DeleteChannel(part) => {
                    channel_rows::delete_channel(tx, id, part.path()).await?;
                }
                Step::PutSubscriptionGroup(group) => {
                    channel_rows::put_subscription_group(tx, id, group).await?;
                }
                Step::DeleteSubscriptionGroup(group) => {
                    channel_rows::delete_subscription_group(tx, id, *group).await?;
                }
                Step::PutSegment(segment) => channel_rows::put_segment(tx, id, segment).await?,
                Step::DeleteSegment(segment) => {
                    channel_rows::delete_segment(tx, id, *segment).await?;
                }
                Step::MakeGroup(percent) => {
                    groups::renew(tx, id, *percent, now).await?;
                }
            }
        }
        rows::update(tx, &workspace).await?;
        declare_campaigns::carry_out(tx, id, &self.campaigns, now).await?;
        Ok(())
    }
}

impl DeclaredKey {
    async fn insert(&self, tx: &mut Tx, app: &App, workspace: i32) -> Result<(), ApplyError> {
        let key = NewKey {
            workspace,
            name: &self.name,
            permissions: &self.permissions,
            allow: &self.allow,
            declared: true,
        };
        keys::create_with_secret(tx, &app.clock, key, self.secret.expose_secret())
            .await
            .map_err(|error| ApplyError::Key { name: self.name.clone(), error })?;
        Ok(())
    }
}

/// Tries storage with real requests: one that cannot be written is refused, and what goes
/// without is noted.
async fn try_out(settings: &Settings) -> Result<Vec<String>, ApplyError> {
    let kind = settings.kind();
    let refused = |error| ApplyError::Probe { kind, error };
    let objects = settings.connect().await.map_err(refused)?;
    let limits = probe::own_storage(&objects).await.map_err(refused)?;
    Ok(limits.into_iter().map(|limit| format!("storage.{kind}: {limit}")).collect())
}

//! What is declared, compared with what there is: the changes to print and the steps to take.

mod channels;
mod messages;

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use uuid::Uuid;

use self::channels::CurrentChannels;
use crate::app::App;
use crate::campaigns::{self, Campaign};
use crate::catalogs;
use crate::config::Config;
use crate::config::network::networks;
use crate::workspace_file::apply::{Applied, ApplyError};
use crate::workspace_file::change::{Change, Options};
use crate::workspace_file::declare_campaigns;
use crate::workspace_file::declare_catalogs;
use crate::workspace_file::file::{Declaration, DeclaredKey};
use crate::workspaces::channels::{Created, DeclaredPart, Part};
use crate::workspaces::groups::{ControlGroup, USUAL_PERCENT};
use crate::workspaces::keys::{self, KeyInfo};
use crate::workspaces::settings::SubscriptionGroup;
use crate::workspaces::storage::{self, Settings, StorageError};
use crate::workspaces::{DeclaredApp, Limit, Segment, Workspace, rows};
use kit::money;
use store::Tx;

/// What there is of a workspace.
pub(crate) struct Current {
    pub is_new: bool,
    workspace: Option<Workspace>,
    keys: Vec<KeyInfo>,
    apps: Vec<DeclaredApp>,
    s3: Option<Settings>,
    azure: Option<Settings>,
    group: Option<ControlGroup>,
    catalogs: Vec<catalogs::rows::Stored>,
    channels: CurrentChannels,
    campaigns: Vec<Campaign>,
}

impl Current {
    pub async fn read(tx: &mut Tx, app: &App, name: &str) -> Result<Self, StorageError> {
        let Some(workspace) = rows::by_name(tx, name).await? else {
            return Ok(Self {
                is_new: true,
                workspace: None,
                keys: Vec::new(),
                apps: Vec::new(),
                s3: None,
                azure: None,
                group: None,
                catalogs: Vec::new(),
                channels: CurrentChannels::default(),
                campaigns: Vec::new(),
            });
        };
        let id = workspace.id;
        let mut keys = keys::list(tx, Some(id)).await?;
        keys.retain(|key| key.revoked_at.is_none());
        Ok(Self {
            is_new: false,
            keys,
            apps: rows::apps(tx, id).await?,
            s3: settings(tx, app, workspace.s3_storage).await?,
            azure: settings(tx, app, workspace.azure_storage).await?,
            group: rows::control_group(tx, id).await?,
            catalogs: catalogs::rows::stored(tx, id).await?,
            channels: CurrentChannels::read(tx, &app.secrets, id).await?,
            campaigns: campaigns::stored(tx, id).await?,
            workspace: Some(workspace),
        })
    }
}

async fn settings(
    tx: &mut Tx,
    app: &App,
    id: Option<Uuid>,
) -> Result<Option<Settings>, StorageError> {
    match id {
        Some(id) => Ok(Some(storage::settings(tx, &app.secrets, id).await?)),
        None => Ok(None),
    }
}

/// One thing to do.
pub(crate) enum Step<'a> {
    NewKey(&'a DeclaredKey),
    UpdateKey(Uuid, &'a DeclaredKey),
    RevokeKey(Uuid),
    PutApp(&'a DeclaredApp),
    DeleteApp(Uuid),
    PutStorage(StorageKind, &'a Settings),
    DropStorage(StorageKind),
    PutChannel(Part, DeclaredPart),
    DeleteChannel(Part),
    PutSubscriptionGroup(&'a SubscriptionGroup),
    DeleteSubscriptionGroup(Uuid),
    PutSegment(&'a Segment),
    DeleteSegment(Uuid),
    MakeGroup(i32),
}

#[derive(Clone, Copy)]
pub(crate) enum StorageKind {
    S3,
    Azure,
}

#[derive(Default)]
pub(crate) struct Plan<'a> {
    pub changes: Vec<Change>,
    pub steps: Vec<Step<'a>>,
    pub catalogs: Vec<declare_catalogs::Step<'a>>,
    pub campaigns: Vec<declare_campaigns::Step<'a>>,
    pub notes: Vec<String>,
    created: Created,
}

impl<'a> Plan<'a> {
    pub fn make(
        declared: &'a Declaration,
        current: &Current,
        files: &declare_catalogs::Files,
        options: Options,
        config: &Config,
    ) -> Result<Self, ApplyError> {
        messages::check(declared, &channels::settings_after(declared, current, options, config))?;
        let mut plan = Self::default();
        if current.is_new {
            plan.change('+', format!("workspace {}", declared.name), "");
        }
        if let Some(workspace) = current.workspace.as_ref().filter(|_| !current.is_new) {
            plan.compare_workspace(workspace, declared);
        }
        plan.compare_keys(declared, current, options)?;
        plan.compare_apps(declared, current, options);
        plan.compare_storage(StorageKind::S3, declared.s3.as_ref(), current.s3.as_ref(), options);
        plan.compare_storage(
            StorageKind::Azure,
            declared.azure.as_ref(),
            current.azure.as_ref(),
            options,
        );
        plan.compare_group(declared, current)?;
        plan.compare_catalogs(declared, current, files, options)?;
        plan.compare_channels(declared, &current.channels, options)?;
        plan.compare_subscription_groups(declared, &current.channels, options);
        plan.compare_segments(declared, &current.channels, options);
        plan.compare_campaigns(declared, current, options);
        Ok(plan)
    }

    fn change(&mut self, sign: char, what: impl Into<String>, detail: impl Into<String>) {
        self.changes.push(Change { sign, what: what.into(), detail: detail.into() });
    }

    fn compare_workspace(&mut self, is: &Workspace, declared: &Declaration) {
        let mut compare = |what: &str, is: String, declared: String| {
            if is != declared {
                self.change('~', what, format!("{is} -> {declared}"));
            }
        };
        let number = |number: i64| number.to_string();
        compare("currency", is.currency.clone(), declared.currency.clone());
        compare("exchange_rates", rates(&is.exchange_rates), rates(&declared.exchange_rates));
        compare("time_zone", is.time_zone.clone(), declared.time_zone.clone());
        compare("ip_allowlist", networks(&is.ip_allowlist), networks(&declared.ip_allowlist));
        compare("rate_limits", limits(&is.rate_limits), limits(&declared.rate_limits));
        compare(
            "export_limits.users",
            number(is.export_users_limit),
            number(declared.export_users_limit),
        );
        compare(
            "export_limits.bytes",
            number(is.export_bytes_limit),
            number(declared.export_bytes_limit),
        );
        compare(
            "frequency_capping",
            channels::capping(&is.frequency_capping),
            channels::capping(&declared.frequency_capping),
        );
        compare(
            "storage.azure.default_export_destination",
            is.azure_is_default.to_string(),
            declared.azure_is_default.unwrap_or(is.azure_is_default).to_string(),
        );
    }

    fn compare_keys(
        &mut self,
        declared: &'a Declaration,
        current: &Current,
        options: Options,
    ) -> Result<(), ApplyError> {
        let is_declared = |key: &KeyInfo| declared.keys.iter().any(|new| new.name == key.name);
        // First what ends, so that a secret can move to another name.
        for key in current.keys.iter().filter(|key| key.declared && !is_declared(key)) {
            let what = format!("key {}", key.name);
            if options.prune {
                self.change('-', what, "revoked");
                self.steps.push(Step::RevokeKey(key.id));
            } else {
                self.notes.push(format!("{what} is no longer in the file: --prune revokes it"));
            }
        }
        let mut made = Vec::new();
        for new in &declared.keys {
            let what = format!("key {}", new.name);
            match current.keys.iter().find(|key| key.name == new.name) {
                None => {
                    self.change('+', what, new.permissions.join(", "));
                    made.push(Step::NewKey(new));
                }
                Some(key) if !key.declared => {
                    return Err(ApplyError::NotDeclared(new.name.clone()));
                }
                Some(key) if !new.is_secret_of(key) => {
                    self.change('~', what, "another secret; the former one is revoked");
                    self.steps.push(Step::RevokeKey(key.id));
                    made.push(Step::NewKey(new));
                }
                Some(key) if key.permissions != new.permissions || key.allow != new.allow => {
                    let detail =
                        format!("{}; from {}", new.permissions.join(", "), networks(&new.allow));
                    self.change('~', what, detail);
                    self.steps.push(Step::UpdateKey(key.id, new));
                }
                Some(_) => {}
            }
        }
        self.steps.extend(made);
        Ok(())
    }

    fn compare_apps(&mut self, declared: &'a Declaration, current: &Current, options: Options) {
        for new in &declared.apps {
            let sign = match current.apps.iter().find(|app| app.id == new.id) {
                Some(app) if app == new => continue,
                Some(_) => '~',
                None => '+',
            };
            self.change(sign, format!("app {}", new.name), new.id.to_string());
            self.steps.push(Step::PutApp(new));
        }
        let gone = |app: &&DeclaredApp| !declared.apps.iter().any(|new| new.id == app.id);
        for app in current.apps.iter().filter(gone) {
            let what = format!("app {}", app.name);
            if options.prune {
                self.change('-', what, app.id.to_string());
                self.steps.push(Step::DeleteApp(app.id));
            } else {
                self.notes.push(format!("{what} is no longer in the file: --prune removes it"));
            }
        }
    }

    fn compare_catalogs(
        &mut self,
        declared: &'a Declaration,
        current: &Current,
        files: &declare_catalogs::Files,
        options: Options,
    ) -> Result<(), ApplyError> {
        let (new, is) = (&declared.catalogs, &current.catalogs);
        let plan = declare_catalogs::Plan::make(new, files, is, options.prune)?;
        self.changes.extend(plan.changes);
        self.notes.extend(plan.notes);
        self.catalogs = plan.steps;
        Ok(())
    }

    fn compare_campaigns(
        &mut self,
        declared: &'a Declaration,
        current: &Current,
        options: Options,
    ) {
        let (new, is) = (&declared.campaigns, &current.campaigns);
        let plan = declare_campaigns::Plan::make(new, is, options.prune);
        self.changes.extend(plan.changes);
        self.notes.extend(plan.notes);
        self.campaigns = plan.steps;
    }

    fn compare_storage(
        &mut self,
        kind: StorageKind,
        new: Option<&'a Settings>,
        current: Option<&Settings>,
        options: Options,
    ) {
        let what = match kind {
            StorageKind::S3 => "storage.s3",
            StorageKind::Azure => "storage.azure",
        };
        match (new, current) {
            (Some(new), Some(current)) if new == current => {}
            (Some(new), Some(current)) => {
                self.change('~', what, current.difference(new));
                self.steps.push(Step::PutStorage(kind, new));
            }
            (Some(new), None) => {
                self.change('+', what, new.place());
                self.steps.push(Step::PutStorage(kind, new));
            }
            (None, Some(current)) if options.prune => {
                self.change('-', what, current.place());
                self.steps.push(Step::DropStorage(kind));
            }
            (None, Some(_)) => {
                self.notes.push(format!("{what} is no longer in the file: --prune removes it"));
            }
            (None, None) => {}
        }
    }

    fn compare_group(
        &mut self,
        declared: &Declaration,
        current: &Current,
    ) -> Result<(), ApplyError> {
        match (declared.percent, &current.group) {
            (Some(wanted), Some(group)) if group.percent != wanted => {
                return Err(ApplyError::Percent { active: group.percent, wanted });
            }
            (Some(percent), None) => {
                self.change('+', "control_group", format!("{percent}%"));
                self.notes.extend(unusual(percent));
                self.steps.push(Step::MakeGroup(percent));
            }
            _ => {}
        }
        Ok(())
    }

    /// The storages that are new or changed.
    pub fn storages(&self) -> impl Iterator<Item = &'a Settings> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::PutStorage(_, settings) => Some(*settings),
            _ => None,
        })
    }

    pub fn finished(self, declared: &Declaration) -> Applied {
        Applied {
            what: declared.name.clone(),
            changes: self.changes,
            notes: self.notes,
            callback_secret: self.created.get(Part::Callbacks.path()).cloned(),
            secrets: self.created,
        }
    }
}

impl StorageKind {
    pub fn of(self, workspace: &mut Workspace) -> &mut Option<Uuid> {
        match self {
            Self::S3 => &mut workspace.s3_storage,
            Self::Azure => &mut workspace.azure_storage,
        }
    }
}

impl DeclaredKey {
    fn is_secret_of(&self, key: &KeyInfo) -> bool {
        key.has_secret(self.secret.expose_secret())
    }
}

/// What is to be said of a group larger than live ones are.
pub fn unusual(percent: i32) -> Option<String> {
    (percent > USUAL_PERCENT).then(|| {
        format!("a control group of {percent}% is large: a live one has 1 to {USUAL_PERCENT}%")
    })
}

fn rates(rates: &BTreeMap<String, i64>) -> String {
    let each = rates.iter().map(|(code, rate)| format!("{code} {}", money::format(*rate)));
    or(each.collect::<Vec<_>>().join(", "), "none")
}

fn limits(limits: &BTreeMap<String, Limit>) -> String {
    let each = limits
        .iter()
        .map(|(budget, Limit { requests, seconds })| format!("{budget} {requests} in {seconds} s"));
    or(each.collect::<Vec<_>>().join(", "), "the default ones")
}

fn or(text: String, nothing: &str) -> String {
    if text.is_empty() { nothing.into() } else { text }
}

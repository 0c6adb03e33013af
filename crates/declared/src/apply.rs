//! Applies a workspace's file.
//!
//! Compares the stored workspace with the declared one; the difference is a list of changes, which
//! is printed, and applied in one transaction. Applying the same file again gives an empty list.

use std::collections::{BTreeMap, BTreeSet};

use secrecy::ExposeSecret as _;
use serde::Serialize;

use crate::catalogs::{self as catalog_steps, CatalogSteps, Files};
use crate::change::{Change, Options};
use crate::declared_items::Channel;
use crate::document::{Declaration, Key};
use crate::error::ApplyError;
use crate::lost::Settled;
use crate::messages;
use crate::plan::{ChangeList, Declared, HasEntry as _, Steps, Target, widened};
use crate::touched::{Changes, Touched};
use crate::values::shown_duration;
use content::campaigns::{self, Campaign};
use content::catalogs::{self, rows::StoredCatalog};
use gateway::workspaces::channels::{self, Channels, CreatedSecrets, Part};
use gateway::workspaces::email_templates::EmailTemplate;
use gateway::workspaces::groups::{self, ControlGroup, MAX_USUAL_PERCENT};
use gateway::workspaces::keys::{self, KeyInfo};
use gateway::workspaces::settings::{self, CappingRule, SubscriptionGroup};
use gateway::workspaces::signing;
use gateway::workspaces::storage::{self, NamedStorage, Settings, StorageError};
use gateway::workspaces::template_data::{self, CatalogSelection, ContentBlock};
use gateway::workspaces::{
    DeclaredApp, Limit, Segment, Workspace, channel_rows, rows, template_rows,
};
use kit::money;
use objects::probe;
use runtime::audit;
use runtime::config::network::networks;
use runtime::credentials::revoked::SecretKind;
use sending::app::App;
use sending::schedules;
use store::{StoreError, Tx};

/// The result of applying one document.
#[derive(Serialize)]
pub struct Applied {
    /// The name of the workspace, or of the company.
    #[serde(rename = "workspace")]
    pub name: String,
    pub changes: Vec<Change>,
    /// Notes for the operator, in addition to the changes.
    pub notes: Vec<String>,
    /// The running sends and pending schedules that the changes touch, and how.
    pub touched: Vec<String>,
    /// The callback secret, if it was just created: shown only once.
    pub callback_secret: Option<String>,
    /// All secrets that were just created, by their paths in the file: shown only once.
    pub secrets: BTreeMap<&'static str, String>,
}

/// Applies `declaration` in one transaction; tests new or changed storage first.
pub async fn apply(
    app: &App,
    declaration: &Declaration,
    options: Options,
) -> Result<Applied, ApplyError> {
    let files = catalog_steps::read_files(&declaration.catalogs).await?;
    let mut tx = app.store.snapshot().await?;
    let current = Current::read(&mut tx, app, &declaration.name).await?;
    check_secrets(&mut tx, declaration, &current.keys).await?;
    tx.commit().await?;
    let mut plan = WorkspacePlan::make(app, declaration, &current, &files, options)?;
    let declared = declaration.channels();
    let mut notes = channels::private_address_warnings(&declared, &app.config);
    if declared.contains_key(&Part::Email) {
        notes.extend(channels::unsubscribe_warning(&app.config));
    }
    notes.extend(names_used_twice(&declaration.campaigns()));
    if options.dry_run || plan.list.changes.is_empty() {
        // A created secret that is not stored is not shown.
        plan.created.clear();
        plan.list.notes.append(&mut notes);
        let mut tx = app.store.snapshot().await?;
        plan.touched = plan.touched(&mut tx, &current).await?.lines;
        tx.commit().await?;
        return Ok(plan.finished(declaration));
    }
    let probed = plan.storages_to_write();
    for (label, settings) in &probed {
        notes.extend(probe_storage(label, settings).await?);
    }

    let mut tx = app.store.write().await?;
    let (workspace, is_new) = create_or_lock(&mut tx, app, declaration).await?;
    // Compared again, now that it is locked.
    let current = Current { is_new, ..Current::read(&mut tx, app, &declaration.name).await? };
    check_secrets(&mut tx, declaration, &current.keys).await?;
    let mut plan = WorkspacePlan::make(app, declaration, &current, &files, options)?;
    let mut to_write = plan.storages_to_write().into_iter();
    if let Some((label, _)) = to_write.find(|storage| !probed.contains(storage)) {
        return Err(ApplyError::ChangedConcurrently(label));
    }
    let touched = plan.touched(&mut tx, &current).await?;
    if !options.confirmed && !touched.removals.is_empty() {
        return Err(ApplyError::RunningSends(touched.removals.join("; ")));
    }
    plan.touched = touched.lines;
    let (now, prune) = (app.clock.now_ms(), options.prune);
    plan.execute(declaration, &mut Target { tx: &mut tx, app, workspace, now, prune }).await?;
    if !plan.list.changes.is_empty() {
        let change = ("workspace.apply", &*declaration.name);
        let details = plan.list.audit_details(prune);
        audit::record_command(&mut tx, now, Some(workspace), change, details).await?;
    }
    tx.commit().await?;
    plan.list.notes.extend(notes);
    Ok(plan.finished(declaration))
}

/// One note for each name that several campaigns or Canvases have: commands that take a name do not
/// find them.
fn names_used_twice(campaigns: &[Campaign]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for campaign in campaigns {
        by_name.entry(&campaign.name).or_default().push(campaign.id.to_string());
    }
    let used_twice = by_name.into_iter().filter(|(_, ids)| ids.len() > 1);
    let note = |(name, ids): (&str, Vec<String>)| {
        format!("{} campaigns have the name {name:?}: {}", ids.len(), ids.join(", "))
    };
    used_twice.map(note).collect()
}

/// Rejects new secrets of keys that were revoked before.
async fn check_secrets(
    tx: &mut Tx,
    declared: &Declaration,
    current: &[KeyInfo],
) -> Result<(), ApplyError> {
    for key in &declared.keys {
        let secret = key.secret.expose_secret();
        if !current.iter().any(|old| old.name == *key.name && old.has_secret(secret)) {
            keys::check_not_revoked(tx, SecretKind::Key, secret)
                .await
                .map_err(|error| ApplyError::Key { name: key.name.to_string(), error })?;
        }
    }
    Ok(())
}

/// The id of the workspace, and whether it was just created; locked until the transaction ends.
async fn create_or_lock(
    tx: &mut Tx,
    app: &App,
    declaration: &Declaration,
) -> Result<(i32, bool), StoreError> {
    if let Some(id) = rows::insert(tx, &declaration.name, app.clock.now_ms()).await? {
        return Ok((id, true));
    }
    let id = rows::by_name(tx, &declaration.name).await?.map(|workspace| workspace.id);
    let id = id.ok_or_else(|| {
        StoreError::Corrupt("a workspace was created and deleted at the same time".into())
    })?;
    rows::lock(tx, id).await?;
    Ok((id, false))
}

/// The stored workspace.
#[derive(Default)]
struct Current {
    is_new: bool,
    workspace: Option<Workspace>,
    keys: Vec<KeyInfo>,
    apps: Vec<DeclaredApp>,
    storage: Vec<Settings>,
    storages: Vec<NamedStorage>,
    has_signing_key: bool,
    group: Option<ControlGroup>,
    catalogs: Vec<StoredCatalog>,
    channels: Channels,
    groups: Vec<SubscriptionGroup>,
    segments: Vec<Segment>,
    blocks: Vec<ContentBlock>,
    selections: Vec<CatalogSelection>,
    email_templates: Vec<EmailTemplate>,
    campaigns: Vec<Campaign>,
}

impl Current {
    async fn read(tx: &mut Tx, app: &App, name: &str) -> Result<Self, StorageError> {
        let Some(workspace) = rows::by_name(tx, name).await? else {
            return Ok(Self { is_new: true, ..Self::default() });
        };
        let id = workspace.id;
        let mut keys = keys::list(tx, Some(id)).await?;
        keys.retain(|key| key.revoked_at.is_none());
        let mut storage = Vec::new();
        for id in [workspace.s3_storage, workspace.azure_storage].into_iter().flatten() {
            storage.push(storage::settings(tx, &app.secrets, id).await?);
        }
        Ok(Self {
            is_new: false,
            keys,
            apps: rows::apps(tx, id).await?,
            storage,
            storages: storage::named(tx, &app.secrets, id).await?,
            has_signing_key: signing::exists(tx, id).await?,
            group: rows::control_group(tx, id).await?,
            catalogs: catalogs::rows::stored(tx, id).await?,
            channels: channels::stored(tx, &app.secrets, id).await?,
            groups: channel_rows::subscription_groups(tx, id).await?,
            segments: channel_rows::segments(tx, id).await?,
            blocks: template_rows::blocks(tx, id).await?,
            selections: template_rows::selections(tx, id).await?,
            email_templates: template_rows::email_templates(tx, id).await?,
            campaigns: campaigns::stored(tx, id).await?,
            workspace: Some(workspace),
        })
    }
}

/// The changes of a workspace, and the steps of each kind of thing in it.
struct WorkspacePlan {
    list: ChangeList,
    keys: Steps<Key>,
    apps: Steps<DeclaredApp>,
    storage: Steps<Settings>,
    storages: Steps<NamedStorage>,
    /// The percentage of a new control group.
    group: Option<i32>,
    catalogs: CatalogSteps,
    channels: Steps<Channel>,
    created: CreatedSecrets,
    groups: Steps<SubscriptionGroup>,
    segments: Steps<Segment>,
    blocks: Steps<ContentBlock>,
    selections: Steps<CatalogSelection>,
    email_templates: Steps<EmailTemplate>,
    campaigns: Steps<Campaign>,
    settled: Settled,
    touched: Vec<String>,
}

impl WorkspacePlan {
    fn make(
        app: &App,
        declared: &Declaration,
        current: &Current,
        files: &Files,
        options: Options,
    ) -> Result<Self, ApplyError> {
        let email_templates = declared.email_templates();
        let templates = all_after(&email_templates, &current.email_templates, options);
        let mut campaigns = declared.campaigns();
        messages::fill(&mut campaigns, &templates);
        let settings = settings_after(app, declared, current, options);
        messages::check(declared, &campaigns, &settings)?;
        messages::check_template_data(&settings)?;
        check_notified(&settings)?;
        let mut list = ChangeList::new(options);
        match &current.workspace {
            Some(workspace) if !current.is_new => {
                compare_workspace(&mut list, workspace, declared);
                // Releases before signing keys applied workspaces without one.
                if !current.has_signing_key {
                    list.change('+', "signing_key", "");
                }
            }
            _ => list.change('+', format!("workspace {}", declared.name), ""),
        }
        let is_declared = |name: &String| declared.keys.iter().any(|key| key.name == *name);
        let (keys, others): (Vec<_>, Vec<_>) =
            current.keys.iter().cloned().partition(|key| key.declared);
        if let Some(other) = others.into_iter().find(|key| is_declared(&key.name)) {
            return Err(ApplyError::NotDeclared(other.name));
        }
        let storage: Vec<Settings> = declared.storage.settings().collect();
        let (parts, created) =
            channels::with_created_secrets(&declared.channels(), &current.channels);
        let after = after(&parts, &current.channels, options);
        if let Some(part) = channels::shares_with_webhooks(&after) {
            return Err(ApplyError::SharedSecret(part.path()));
        }
        let none = CreatedSecrets::new();
        Ok(Self {
            keys: list.compare(&declared.keys, &keys)?,
            apps: list.compare(&declared.apps, &current.apps)?,
            storage: list.compare(&storage, &current.storage)?,
            storages: list.compare(&declared.named_storages(), &current.storages)?,
            group: compare_group(&mut list, declared, current)?,
            catalogs: CatalogSteps::make(&mut list, &declared.catalogs, files, &current.catalogs)?,
            channels: list.compare(
                &Channel::all(&parts, &created),
                &Channel::all(&current.channels, &none),
            )?,
            groups: list.compare(&declared.subscription_groups, &current.groups)?,
            segments: list.compare(&declared.segments, &current.segments)?,
            blocks: list.compare(&declared.blocks(), &current.blocks)?,
            selections: list.compare(&declared.catalog_selections, &current.selections)?,
            email_templates: list.compare(&email_templates, &current.email_templates)?,
            campaigns: list.compare(&campaigns, &current.campaigns)?,
            settled: Settled { before: settings_before(app, current), after: settings },
            created,
            touched: Vec::new(),
            list,
        })
    }

    /// The running sends and pending schedules that the changes touch.
    async fn touched(&self, tx: &mut Tx, current: &Current) -> Result<Touched, StoreError> {
        let Some(workspace) = &current.workspace else { return Ok(Touched::default()) };
        let changes = Changes::new(&self.campaigns, &self.blocks, &self.segments, &self.settled);
        changes.touched(tx, workspace.id, (&current.blocks, &current.campaigns)).await
    }

    async fn execute(
        &self,
        declared: &Declaration,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        // Files of items can be long, so they are read before anything that requests wait for is
        // locked.
        self.catalogs.execute(target).await?;
        self.keys.execute(target).await?;
        self.apps.execute(target).await?;
        self.storage.execute(target).await?;
        self.storages.execute(target).await?;
        if let Some(percent) = self.group {
            groups::renew(target.tx, target.workspace, percent, target.now).await?;
        }
        let secrets = &target.app.secrets;
        signing::active(target.tx, secrets, target.workspace, target.now).await?;
        self.channels.execute(target).await?;
        self.groups.execute(target).await?;
        self.segments.execute(target).await?;
        self.blocks.execute(target).await?;
        self.selections.execute(target).await?;
        self.email_templates.execute(target).await?;
        if let Some(stored) = rows::by_id(target.tx, target.workspace).await? {
            rows::update(target.tx, &declared_workspace(declared, stored)).await?;
        }
        self.campaigns.execute(target).await?;
        if !self.campaigns.is_empty() {
            // Cancels the scheduled messages of deleted Canvases.
            schedules::rows::cancel_orphans(target.tx, target.workspace, target.now).await?;
        }
        Ok(())
    }

    /// The new and changed storages, with their labels.
    fn storages_to_write(&self) -> Vec<(String, Settings)> {
        let own = self.storage.to_write.iter().map(|(new, _)| (new.label(), new.clone()));
        let named = self.storages.to_write.iter();
        let named = named.map(|(new, _)| (new.label(), new.settings.clone()));
        own.chain(named).collect()
    }

    fn finished(self, declared: &Declaration) -> Applied {
        Applied {
            name: declared.name.clone(),
            changes: self.list.changes,
            notes: self.list.notes,
            touched: self.touched,
            callback_secret: self.created.get(Part::Callbacks.path()).cloned(),
            secrets: self.created,
        }
    }
}

/// The workspace as declared, and its undeclared parts as stored.
fn declared_workspace(declared: &Declaration, stored: Workspace) -> Workspace {
    let azure = declared.storage.azure.as_ref();
    Workspace {
        currency: declared.currency.clone(),
        exchange_rates: declared.exchange_rates.clone(),
        time_zone: declared.time_zone.clone(),
        ip_allowlist: declared.ip_allowlist.clone(),
        rate_limits: declared.rate_limits.clone(),
        frequency_capping: declared.frequency_capping.clone(),
        aliases: declared.aliases.clone(),
        export_users_limit: declared.export_limits.users,
        export_bytes_limit: declared.export_limits.bytes,
        export_late_ms: declared.export_late_after,
        // If the file declares no Azure storage, the stored one keeps its switch.
        azure_is_default: azure
            .map_or(stored.azure_is_default, |azure| azure.default_export_destination),
        ..stored
    }
}

fn compare_workspace(list: &mut ChangeList, stored: &Workspace, declared: &Declaration) {
    let new = declared_workspace(declared, stored.clone());
    list.notes.extend(uncounted_revenue_note(stored, &new));
    list.notes.extend(former_rates_note(stored, &new));
    let allowed = widened(&[], &[], Some(&stored.ip_allowlist), &new.ip_allowlist);
    list.widen("ip_allowlist".to_owned(), allowed);
    for ((label, old), (_, new)) in shown_values(stored).into_iter().zip(shown_values(&new)) {
        list.compare_value(label, &old, &new);
    }
}

/// The note on currencies whose revenue counted before, and does not count with the new settings.
fn uncounted_revenue_note(stored: &Workspace, new: &Workspace) -> Option<String> {
    let counted = stored.exchange_rates.keys().chain([&stored.currency]);
    let uncounted: BTreeSet<&str> = counted
        .filter(|code| **code != new.currency && !new.exchange_rates.contains_key(*code))
        .map(String::as_str)
        .collect();
    let codes = uncounted.into_iter().collect::<Vec<_>>().join(", ");
    (!codes.is_empty()).then(|| {
        format!(
            "exchange_rates has no rate of {codes}: total_revenue no longer includes tracked and \
             imported revenue in this currency. To include it, add its value in {}",
            new.currency
        )
    })
}

/// The note on rates that stayed the same when the currency changed to which they convert.
fn former_rates_note(stored: &Workspace, new: &Workspace) -> Option<String> {
    let is_unchanged =
        |(code, rate): &(&String, &i64)| stored.exchange_rates.get(*code) == Some(*rate);
    let unchanged: Vec<&str> =
        new.exchange_rates.iter().filter(is_unchanged).map(|(code, _)| code.as_str()).collect();
    (stored.currency != new.currency && !unchanged.is_empty()).then(|| {
        format!(
            "exchange_rates are values in {}, but the rates of {} are those in {}: check them",
            new.currency,
            unchanged.join(", "),
            stored.currency
        )
    })
}

/// The values of a workspace by their path in the file, as the list of changes shows them.
fn shown_values(workspace: &Workspace) -> [(&'static str, String); 11] {
    let service_id = workspace.aliases.service_id.clone().unwrap_or_default();
    [
        ("currency", workspace.currency.clone()),
        ("exchange_rates", rates(&workspace.exchange_rates)),
        ("time_zone", workspace.time_zone.clone()),
        ("ip_allowlist", networks(&workspace.ip_allowlist)),
        ("rate_limits", limits(&workspace.rate_limits)),
        ("export_limits.users", workspace.export_users_limit.to_string()),
        ("export_limits.bytes", workspace.export_bytes_limit.to_string()),
        ("export_late_after", shown_duration(workspace.export_late_ms)),
        ("frequency_capping", capping(&workspace.frequency_capping)),
        ("aliases.service_id", service_id),
        ("storage.azure.default_export_destination", workspace.azure_is_default.to_string()),
    ]
}

/// Rejects notifications by email that have no relay or no sender.
fn check_notified(settings: &settings::Settings) -> Result<(), ApplyError> {
    let missing = match &settings.email {
        None => "email.smtp and email.from",
        Some(email) if email.from.is_none() => "email.from",
        Some(_) => return Ok(()),
    };
    let by_email = settings.notify.iter().position(|receiver| receiver.email.is_some());
    by_email.map_or(Ok(()), |index| Err(ApplyError::NoRelay { index, missing }))
}

/// The percentage of a control group to create.
fn compare_group(
    list: &mut ChangeList,
    declared: &Declaration,
    current: &Current,
) -> Result<Option<i32>, ApplyError> {
    let Some(wanted) = declared.control_group.as_ref().map(|group| group.percent) else {
        return Ok(None);
    };
    match current.group.as_ref().map(|group| group.percent) {
        Some(active) if active != wanted => Err(ApplyError::Percent { active, wanted }),
        Some(_) => Ok(None),
        None => {
            list.change('+', "control_group", format!("{wanted}%"));
            list.notes.extend(large_group_note(wanted));
            Ok(Some(wanted))
        }
    }
}

/// The workspace's channel settings before the change.
fn settings_before(app: &App, current: &Current) -> settings::Settings {
    let (groups, apps) = (current.groups.clone(), current.apps.clone());
    let stored = current.catalogs.iter().map(|stored| stored.catalog.name.clone());
    settings::Settings {
        blocks: template_data::by_name(current.blocks.clone()),
        selections: current.selections.clone(),
        aliases: current.workspace.as_ref().map(|old| old.aliases.clone()).unwrap_or_default(),
        catalogs: stored.collect(),
        ..channels::assemble(&current.channels, Vec::new(), groups, apps, &app.config)
    }
}

/// The workspace's channel settings: the declared ones, and without `--prune` the existing ones.
fn settings_after(
    app: &App,
    declared: &Declaration,
    current: &Current,
    options: Options,
) -> settings::Settings {
    let groups = all_after(&declared.subscription_groups, &current.groups, options);
    let apps = all_after(&declared.apps, &current.apps, options);
    let channels = after(&declared.channels(), &current.channels, options);
    let capping = declared.frequency_capping.clone();
    let stored = current.catalogs.iter().filter(|_| !options.prune);
    let stored = stored.map(|stored| stored.catalog.name.clone());
    let catalogs = declared.catalogs.iter().map(|catalog| catalog.name.clone());
    settings::Settings {
        blocks: template_data::by_name(all_after(&declared.blocks(), &current.blocks, options)),
        selections: all_after(&declared.catalog_selections, &current.selections, options),
        aliases: declared.aliases.clone(),
        catalogs: stored.chain(catalogs).collect(),
        ..channels::assemble(&channels, capping, groups, apps, &app.config)
    }
}

fn all_after<D: Declared<Stored = D>>(declared: &[D], stored: &[D], options: Options) -> Vec<D> {
    let is_kept = |old: &&D| !options.prune && !declared.iter().any(|new| new.key() == old.key());
    declared.iter().chain(stored.iter().filter(is_kept)).cloned().collect()
}

/// The channels after the change.
fn after(declared: &Channels, current: &Channels, options: Options) -> Channels {
    let mut after = if options.prune { Channels::new() } else { current.clone() };
    after.extend(declared.clone());
    after
}

/// The note on an unusually large group.
pub fn large_group_note(percent: i32) -> Option<String> {
    (percent > MAX_USUAL_PERCENT).then(|| {
        format!(
            "a control group of {percent}% is large: usual control groups have 1 to \
                 {MAX_USUAL_PERCENT}%"
        )
    })
}

fn rates(rates: &BTreeMap<String, i64>) -> String {
    text_or("none", rates.iter().map(|(code, rate)| format!("{code} {}", money::format(*rate))))
}

fn limits(limits: &BTreeMap<String, Limit>) -> String {
    let texts = limits
        .iter()
        .map(|(budget, Limit { requests, seconds })| format!("{budget} {requests} in {seconds} s"));
    text_or("the defaults", texts)
}

fn capping(rules: &[CappingRule]) -> String {
    let rule = |CappingRule { messages, days, channel }: &CappingRule| {
        let by_channel =
            channel.map(|channel| format!(" by {}", channel.name())).unwrap_or_default();
        format!("{messages} in {days} days{by_channel}")
    };
    text_or("none", rules.iter().map(rule))
}

/// The texts, separated by commas; `placeholder` if there are none.
fn text_or(placeholder: &str, texts: impl Iterator<Item = String>) -> String {
    let text = texts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { placeholder.into() } else { text }
}

/// Tests storage with real requests: rejects one that is not writable, and notes missing features.
async fn probe_storage(label: &str, settings: &Settings) -> Result<Vec<String>, ApplyError> {
    let probe_error = |error| ApplyError::Probe { label: label.to_owned(), error };
    let objects = settings.connect().await.map_err(probe_error)?;
    let limits = probe::own_storage(&objects).await.map_err(probe_error)?;
    Ok(limits.into_iter().map(|limit| format!("{label}: {limit}")).collect())
}

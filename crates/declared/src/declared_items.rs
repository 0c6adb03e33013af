//! Compares, writes and deletes each kind of thing that a workspace declares.

use secrecy::ExposeSecret as _;

use crate::document::Key;
use crate::error::ApplyError;
use crate::plan::{ChangeList, Declared, Entry, HasEntry, Target, widened};
use content::campaigns::{self, Campaign};
use gateway::workspaces::channels::{self, Channels, CreatedSecrets, DeclaredPart, Part};
use gateway::workspaces::email_templates::EmailTemplate;
use gateway::workspaces::keys::{self, KeyInfo, NewKey};
use gateway::workspaces::settings::SubscriptionGroup;
use gateway::workspaces::storage::{self, NamedStorage, Settings};
use gateway::workspaces::template_data::{CatalogSelection, ContentBlock};
use gateway::workspaces::{
    DeclaredApp, Segment, channel_rows, differing, key_rows, rows, template_rows,
};
use kit::json;
use runtime::audit::{self, Change};
use runtime::config::network::networks;
use runtime::credentials::revoked::{RevokedCredential, SecretKind};

type Result<T> = std::result::Result<T, ApplyError>;

impl HasEntry for Key {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("key {}", self.name), self.permissions.join(", "))
    }
}

impl HasEntry for KeyInfo {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("key {}", self.name), "revoked")
    }
}

impl Declared for Key {
    type Stored = KeyInfo;

    const REMOVED_NOTE: &str = "is no longer in the file: --prune revokes it";

    fn difference(&self, stored: &KeyInfo, _: &mut ChangeList) -> Result<Option<String>> {
        if !stored.has_secret(self.secret.expose_secret()) {
            return Ok(Some("new secret; the previous one is revoked".into()));
        }
        let differs = stored.permissions != self.permissions || stored.allow != self.allow;
        Ok(differs.then(|| format!("{}; from {}", self.detail(), networks(&self.allow))))
    }

    fn widens(&self, stored: Option<&KeyInfo>) -> Vec<String> {
        let permissions = stored.map_or(&[][..], |stored| &stored.permissions);
        let networks = stored.map(|stored| &stored.allow[..]);
        widened(permissions, &self.permissions, networks, &self.allow)
    }

    /// A secret can move to another name.
    async fn release_unique_values(&self, stored: &KeyInfo, target: &mut Target<'_>) -> Result<()> {
        if stored.has_secret(self.secret.expose_secret()) {
            Ok(())
        } else {
            Self::delete(stored, target).await
        }
    }

    async fn put(&self, stored: Option<&KeyInfo>, target: &mut Target<'_>) -> Result<()> {
        let Self { name, secret, permissions, allow } = self;
        if let Some(stored) = stored.filter(|key| key.has_secret(secret.expose_secret())) {
            return Ok(key_rows::update(target.tx, stored.id, permissions, allow).await?);
        }
        let key = NewKey { workspace: target.workspace, name, permissions, allow, declared: true };
        keys::create_with_secret(target.tx, &target.app.clock, key, secret.expose_secret())
            .await
            .map_err(|error| ApplyError::Key { name: name.clone(), error })?;
        Ok(())
    }

    async fn delete(stored: &KeyInfo, target: &mut Target<'_>) -> Result<()> {
        let actor = audit::command_actor();
        // Keys are also revoked without the workspace's lock.
        if !key_rows::revoke(target.tx, stored.id, target.now, &actor).await? {
            return Err(ApplyError::ChangedConcurrently(format!("key {}", stored.name)));
        }
        let revoked = RevokedCredential {
            kind: SecretKind::Key,
            id: stored.id,
            name: stored.name.clone(),
            workspace_id: Some(target.workspace),
        };
        record_revoked(&revoked, target).await
    }
}

/// Records a revocation by the file. The entry about the file names its changes only together.
pub(crate) async fn record_revoked(
    revoked: &RevokedCredential,
    target: &mut Target<'_>,
) -> Result<()> {
    let Change { action, object, details } = revoked.change("workspace file");
    let (now, workspace) = (target.now, revoked.workspace_id);
    let change = (action, object);
    Ok(audit::record_command(target.tx, now, workspace, change, details).await?)
}

impl HasEntry for DeclaredApp {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("app {}", self.name), self.id)
    }
}

impl Declared for DeclaredApp {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| self.detail()))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        if rows::put_app(target.tx, target.workspace, self).await? {
            Ok(())
        } else {
            Err(ApplyError::AppTaken(self.id))
        }
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(rows::delete_app(target.tx, target.workspace, stored.id).await?)
    }
}

impl HasEntry for Settings {
    fn entry(&self) -> Entry {
        Entry::new(&self.kind(), format!("storage.{}", self.kind()), self.location())
    }
}

impl Declared for Settings {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| stored.difference(self)))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        let id =
            storage::insert(target.tx, &target.app.secrets, target.workspace, self, target.now)
                .await?;
        Ok(rows::set_storage(target.tx, target.workspace, self.kind(), Some(id)).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(rows::set_storage(target.tx, target.workspace, stored.kind(), None).await?)
    }
}

impl HasEntry for NamedStorage {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("storages.{}", self.name), self.settings.location())
    }
}

impl Declared for NamedStorage {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| stored.settings.difference(&self.settings)))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        let (secrets, settings) = (&target.app.secrets, &self.settings);
        let id =
            storage::insert(target.tx, secrets, target.workspace, settings, target.now).await?;
        Ok(rows::put_named_storage(target.tx, target.workspace, &self.name, id).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(rows::delete_named_storage(target.tx, target.workspace, &stored.name).await?)
    }
}

/// A part of the channels.
#[derive(Clone)]
pub(crate) struct Channel {
    pub part: Part,
    pub value: DeclaredPart,
    /// The note on its secret, if that was created.
    pub created: Option<&'static str>,
}

impl Channel {
    pub fn all(channels: &Channels, created: &CreatedSecrets) -> Vec<Self> {
        let channel = |(part, value): (&Part, &DeclaredPart)| Self {
            part: *part,
            value: value.clone(),
            created: part.created(created),
        };
        channels.iter().map(channel).collect()
    }

    fn with_created(&self, detail: String) -> String {
        match self.created {
            None => detail,
            Some(created) if detail.is_empty() => created.to_owned(),
            Some(created) => format!("{detail}; {created}"),
        }
    }
}

impl HasEntry for Channel {
    fn entry(&self) -> Entry {
        Entry::new(&self.part.path(), self.part.path(), self.with_created(self.value.destination()))
    }
}

impl Declared for Channel {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        let is_different = self.value != stored.value;
        Ok(is_different.then(|| self.with_created(stored.value.difference(&self.value))))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        Ok(channels::put(target.tx, &target.app.secrets, target.workspace, self.part, &self.value)
            .await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::delete_channel(target.tx, target.workspace, stored.part.path()).await?)
    }
}

impl HasEntry for SubscriptionGroup {
    fn entry(&self) -> Entry {
        Entry::new(
            &self.id,
            format!("subscription_group {}", self.id),
            format!("{} from {}", self.channel.name(), self.from),
        )
    }
}

impl Declared for SubscriptionGroup {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| format!("{} -> {}", stored.detail(), self.detail())))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::put_subscription_group(target.tx, target.workspace, self).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::delete_subscription_group(target.tx, target.workspace, stored.id).await?)
    }
}

impl HasEntry for Segment {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("segment {}", self.name), self.id)
    }
}

impl Declared for Segment {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        let was = (stored.name != self.name).then(|| format!("was {}", stored.name));
        // Earlier versions stored the fields in another order.
        let [old, new] =
            [&stored.audience, &self.audience].map(|text| json::canonical(text.as_str()));
        let audience = (old != new).then(|| "audience".to_owned());
        let all: Vec<String> = audience.into_iter().chain(was).collect();
        Ok((!all.is_empty()).then(|| all.join("; ")))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::put_segment(target.tx, target.workspace, self).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::delete_segment(target.tx, target.workspace, stored.id).await?)
    }
}

impl HasEntry for ContentBlock {
    fn entry(&self) -> Entry {
        let detail = format!("{} bytes", self.body.len());
        Entry::new(&self.name, format!("content_block {}", self.name), detail)
    }
}

impl Declared for ContentBlock {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| self.detail()))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::put_block(target.tx, target.workspace, self).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::delete_block(target.tx, target.workspace, &stored.name).await?)
    }
}

impl HasEntry for CatalogSelection {
    fn entry(&self) -> Entry {
        let Self { catalog, name, filters, .. } = self;
        let detail = format!("{} filters", filters.len());
        Entry::new(&format!("{catalog} {name}"), format!("selection {catalog} {name}"), detail)
    }
}

impl Declared for CatalogSelection {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| differing(stored, self)))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::put_selection(target.tx, target.workspace, self).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::delete_selection(target.tx, target.workspace, stored).await?)
    }
}

impl HasEntry for EmailTemplate {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("email_template {}", self.name), self.id)
    }
}

impl Declared for EmailTemplate {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| differing(stored, self)))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::put_email_template(target.tx, target.workspace, self).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::delete_email_template(target.tx, target.workspace, stored.id).await?)
    }
}

impl HasEntry for Campaign {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("{} {}", self.kind.label(), self.name), self.id)
    }
}

impl Declared for Campaign {
    type Stored = Self;

    fn difference(&self, stored: &Self, _: &mut ChangeList) -> Result<Option<String>> {
        Ok((self != stored).then(|| differing(stored, self)))
    }

    async fn put(&self, _: Option<&Self>, target: &mut Target<'_>) -> Result<()> {
        let last = campaigns::rows::last_number(target.tx, target.workspace).await?;
        Ok(campaigns::rows::put(target.tx, target.workspace, last + 1, self, target.now).await?)
    }

    async fn delete(stored: &Self, target: &mut Target<'_>) -> Result<()> {
        Ok(campaigns::rows::remove(target.tx, target.workspace, stored.id).await?)
    }
}

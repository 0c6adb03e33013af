//! Compares, writes and deletes each kind of thing that a workspace declares.

use secrecy::ExposeSecret as _;

use crate::document::Key;
use crate::error::ApplyError;
use crate::plan::{Declared, Entry, Item, Plan, Target};
use content::campaigns::{self, Campaign};
use gateway::workspaces::channels::{self, Channels, CreatedSecrets, DeclaredPart, Part};
use gateway::workspaces::email_templates::EmailTemplate;
use gateway::workspaces::keys::{self, KeyInfo, NewKey};
use gateway::workspaces::settings::SubscriptionGroup;
use gateway::workspaces::storage::{self, Settings};
use gateway::workspaces::template_data::{CatalogSelection, ContentBlock};
use gateway::workspaces::{
    DeclaredApp, Segment, channel_rows, differing, key_rows, rows, template_rows,
};
use runtime::config::network::networks;

type Result<T> = std::result::Result<T, ApplyError>;

impl Item for Key {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("key {}", self.name), self.permissions.join(", "))
    }
}

impl Item for KeyInfo {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("key {}", self.name), "revoked")
    }
}

impl Declared for Key {
    type Stored = KeyInfo;

    const REMOVED_NOTE: &str = "is no longer in the file: --prune revokes it";

    fn difference(&self, is: &KeyInfo, _: &mut Plan) -> Result<Option<String>> {
        if !is.has_secret(self.secret.expose_secret()) {
            return Ok(Some("new secret; the previous one is revoked".into()));
        }
        let differs = is.permissions != self.permissions || is.allow != self.allow;
        Ok(differs.then(|| format!("{}; from {}", self.detail(), networks(&self.allow))))
    }

    /// A secret can move to another name.
    async fn give_up(&self, is: &KeyInfo, to: &mut Target<'_>) -> Result<()> {
        match is.has_secret(self.secret.expose_secret()) {
            true => Ok(()),
            false => Self::delete(is, to).await,
        }
    }

    async fn put(&self, is: Option<&KeyInfo>, to: &mut Target<'_>) -> Result<()> {
        let Self { name, secret, permissions, allow } = self;
        if let Some(is) = is.filter(|is| is.has_secret(secret.expose_secret())) {
            return Ok(key_rows::update(to.tx, is.id, permissions, allow).await?);
        }
        let key = NewKey { workspace: to.workspace, name, permissions, allow, declared: true };
        keys::create_with_secret(to.tx, &to.app.clock, key, secret.expose_secret())
            .await
            .map_err(|error| ApplyError::Key { name: name.clone(), error })?;
        Ok(())
    }

    async fn delete(is: &KeyInfo, to: &mut Target<'_>) -> Result<()> {
        key_rows::revoke(to.tx, is.id, to.now).await?;
        Ok(())
    }
}

impl Item for DeclaredApp {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("app {}", self.name), self.id)
    }
}

impl Declared for DeclaredApp {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| self.detail()))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        match rows::put_app(to.tx, to.workspace, self).await? {
            true => Ok(()),
            false => Err(ApplyError::AppTaken(self.id)),
        }
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(rows::delete_app(to.tx, to.workspace, is.id).await?)
    }
}

impl Item for Settings {
    fn entry(&self) -> Entry {
        Entry::new(&self.kind(), format!("storage.{}", self.kind()), self.place())
    }
}

impl Declared for Settings {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| is.difference(self)))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        let id = storage::insert(to.tx, &to.app.secrets, to.workspace, self, to.now).await?;
        Ok(rows::set_storage(to.tx, to.workspace, self.kind(), Some(id)).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(rows::set_storage(to.tx, to.workspace, is.kind(), None).await?)
    }
}

/// A part of the channels.
#[derive(Clone)]
pub(crate) struct Channel {
    pub part: Part,
    pub is: DeclaredPart,
    /// The note on its secret, if that was created.
    pub created: Option<&'static str>,
}

impl Channel {
    pub fn all(channels: &Channels, created: &CreatedSecrets) -> Vec<Self> {
        let channel = |(part, is): (&Part, &DeclaredPart)| Self {
            part: *part,
            is: is.clone(),
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

impl Item for Channel {
    fn entry(&self) -> Entry {
        Entry::new(&self.part.path(), self.part.path(), self.with_created(self.is.place()))
    }
}

impl Declared for Channel {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self.is != is.is).then(|| self.with_created(is.is.difference(&self.is))))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        Ok(channels::put(to.tx, &to.app.secrets, to.workspace, self.part, &self.is).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::delete_channel(to.tx, to.workspace, is.part.path()).await?)
    }
}

impl Item for SubscriptionGroup {
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

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| format!("{} -> {}", is.detail(), self.detail())))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::put_subscription_group(to.tx, to.workspace, self).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::delete_subscription_group(to.tx, to.workspace, is.id).await?)
    }
}

impl Item for Segment {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("segment {}", self.name), self.id)
    }
}

impl Declared for Segment {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        let was = (is.name != self.name).then(|| format!("was {}", is.name));
        let audience = (is.audience != self.audience).then(|| "audience".to_owned());
        Ok((self != is).then(|| audience.into_iter().chain(was).collect::<Vec<_>>().join("; ")))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::put_segment(to.tx, to.workspace, self).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(channel_rows::delete_segment(to.tx, to.workspace, is.id).await?)
    }
}

impl Item for ContentBlock {
    fn entry(&self) -> Entry {
        let detail = format!("{} bytes", self.body.len());
        Entry::new(&self.name, format!("content_block {}", self.name), detail)
    }
}

impl Declared for ContentBlock {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| self.detail()))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::put_block(to.tx, to.workspace, self).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::delete_block(to.tx, to.workspace, &is.name).await?)
    }
}

impl Item for CatalogSelection {
    fn entry(&self) -> Entry {
        let Self { catalog, name, filters, .. } = self;
        let detail = format!("{} filters", filters.len());
        Entry::new(&format!("{catalog} {name}"), format!("selection {catalog} {name}"), detail)
    }
}

impl Declared for CatalogSelection {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| differing(is, self)))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::put_selection(to.tx, to.workspace, self).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::delete_selection(to.tx, to.workspace, is).await?)
    }
}

impl Item for EmailTemplate {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("email_template {}", self.name), self.id)
    }
}

impl Declared for EmailTemplate {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| differing(is, self)))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::put_email_template(to.tx, to.workspace, self).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(template_rows::delete_email_template(to.tx, to.workspace, is.id).await?)
    }
}

impl Item for Campaign {
    fn entry(&self) -> Entry {
        Entry::new(&self.id, format!("{} {}", self.kind.in_words(), self.name), self.id)
    }
}

impl Declared for Campaign {
    type Stored = Self;

    fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>> {
        Ok((self != is).then(|| differing(is, self)))
    }

    async fn put(&self, _: Option<&Self>, to: &mut Target<'_>) -> Result<()> {
        let last = campaigns::rows::last_number(to.tx, to.workspace).await?;
        Ok(campaigns::rows::put(to.tx, to.workspace, last + 1, self, to.now).await?)
    }

    async fn delete(is: &Self, to: &mut Target<'_>) -> Result<()> {
        Ok(campaigns::rows::remove(to.tx, to.workspace, is.id).await?)
    }
}

//! The company document of the workspace file: the dashboard's users and the SCIM tokens, which
//! belong to no workspace.

use std::collections::{BTreeMap, HashSet};

use secrecy::ExposeSecret as _;

use crate::apply::Applied;
use crate::change::Options;
use crate::document::company::{Company, DashboardUser, PermissionSet, Token};
use crate::error::ApplyError;
use crate::plan::{Declared, Entry, Item, Plan, Steps, Target};
use gateway::workspaces::list;
use runtime::config::network::networks;
use scim::group::{self, Group};
use scim::resource::{Name, Resource as _, Stored, User, folded};
use scim::tokens::{self, NewToken, TokenInfo};
use sending::app::App;
use store::{Tx, settings};

/// The setting with the company's name.
const NAME: &str = "company";

/// Applies the company document, in one transaction.
pub async fn apply_company(
    app: &App,
    company: &Company,
    options: Options,
) -> Result<Applied, ApplyError> {
    let mut tx = app.store.snapshot().await?;
    let plan = CompanyPlan::make(&mut tx, company, options).await?;
    tx.commit().await?;
    if options.dry_run || plan.plan.changes.is_empty() {
        return Ok(plan.finished(company));
    }
    let mut tx = app.store.write().await?;
    // Locked until the transaction ends.
    settings::lock(&mut tx, NAME).await?;
    // The locks also keep requests from changing the users that it compares.
    scim::lock_declared::<Group>(&mut tx).await?;
    scim::lock_declared::<User>(&mut tx).await?;
    let plan = CompanyPlan::make(&mut tx, company, options).await?;
    settings::put(&mut tx, NAME, &company.name).await?;
    let (now, prune) = (app.clock.now_ms(), options.prune);
    let mut to = Target { tx: &mut tx, app, workspace: 0, now, prune };
    plan.tokens.execute(&mut to).await?;
    plan.sets.execute(&mut to).await?;
    plan.users.execute(&mut to).await?;
    tx.commit().await?;
    Ok(plan.finished(company))
}

struct CompanyPlan {
    plan: Plan,
    tokens: Steps<Token>,
    sets: Steps<PermissionSet>,
    users: Steps<DeclaredUser>,
}

impl CompanyPlan {
    async fn make(tx: &mut Tx, company: &Company, options: Options) -> Result<Self, ApplyError> {
        let mut plan = Plan::new(options);
        match settings::get(tx, NAME).await?.filter(|name| !name.is_empty()) {
            Some(is) if is == company.name => {}
            is => {
                let sign = if is.is_some() { '~' } else { '+' };
                let detail = is.map_or(String::new(), |is| format!("was {is}"));
                plan.change(sign, format!("company {}", company.name), detail);
            }
        }
        let mut tokens = tokens::list(tx).await?;
        tokens.retain(|token| token.revoked_at.is_none());
        let (declared, others): (Vec<_>, Vec<_>) =
            tokens.into_iter().partition(|token| token.declared);
        let is_declared = |name: &String| company.scim_tokens.iter().any(|new| new.name == *name);
        if let Some(other) = others.into_iter().find(|token| is_declared(&token.name)) {
            return Err(ApplyError::TokenNotDeclared(other.name));
        }
        check_secrets(tx, company, &declared).await?;
        let tokens = plan.compare(&company.scim_tokens, &declared)?;
        check_workspaces(tx, company).await?;
        let sets = plan.compare(&company.permission_sets, &scim::list_declared(tx).await?)?;
        let users: Vec<DeclaredUser> =
            company.dashboard_users.iter().map(DashboardUser::user).map(DeclaredUser).collect();
        let stored = identified(&users, scim::list_declared(tx).await?);
        check_users(tx, &users, &stored, options).await?;
        let users = plan.compare(&users, &stored)?;
        Ok(Self { plan, tokens, sets, users })
    }

    fn finished(self, company: &Company) -> Applied {
        Applied {
            what: company.name.clone(),
            changes: self.plan.changes,
            notes: self.plan.notes,
            callback_secret: None,
            secrets: BTreeMap::new(),
        }
    }
}

impl Item for Token {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("scim_token {}", self.name), String::new())
    }
}

impl Item for TokenInfo {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("scim_token {}", self.name), "revoked")
    }
}

impl Declared for Token {
    type Stored = TokenInfo;

    const REMOVED_NOTE: &str = "is no longer in the file: --prune revokes it";

    fn difference(&self, is: &TokenInfo, _: &mut Plan) -> Result<Option<String>, ApplyError> {
        if !is.has_secret(self.secret.expose_secret()) {
            return Ok(Some("new secret; the previous one is revoked".into()));
        }
        let mut changes = Vec::new();
        if is.allow != self.allow {
            changes.push(format!("from {}", networks(&self.allow)));
        }
        if is.requires_origin != self.require_origin {
            changes.push(format!("require_origin {}", self.require_origin));
        }
        Ok((!changes.is_empty()).then(|| changes.join(", ")))
    }

    /// A secret can move to another name.
    async fn give_up(&self, is: &TokenInfo, to: &mut Target<'_>) -> Result<(), ApplyError> {
        match is.has_secret(self.secret.expose_secret()) {
            true => Ok(()),
            false => Self::delete(is, to).await,
        }
    }

    async fn put(&self, is: Option<&TokenInfo>, to: &mut Target<'_>) -> Result<(), ApplyError> {
        let Self { name, secret, allow, require_origin: requires_origin } = self;
        let requires_origin = *requires_origin;
        if let Some(is) = is.filter(|is| is.has_secret(secret.expose_secret())) {
            return Ok(tokens::update(to.tx, is.id, allow, requires_origin).await?);
        }
        let token = NewToken { name, allow, requires_origin, declared: true };
        tokens::create_with_secret(to.tx, &to.app.clock, token, secret.expose_secret())
            .await
            .map_err(|error| ApplyError::Token { name: name.clone(), error })?;
        Ok(())
    }

    async fn delete(is: &TokenInfo, to: &mut Target<'_>) -> Result<(), ApplyError> {
        tokens::revoke(to.tx, &to.app.clock, &is.id.to_string())
            .await
            .map_err(|error| ApplyError::Token { name: is.name.clone(), error })?;
        Ok(())
    }
}

impl Item for PermissionSet {
    fn entry(&self) -> Entry {
        Entry::new(&folded(&self.name), format!("permission_set {}", self.name), String::new())
    }
}

impl Item for Stored<Group> {
    fn entry(&self) -> Entry {
        let name = &self.value.display_name;
        Entry::new(&self.value.key(), format!("permission_set {name}"), String::new())
    }
}

impl Declared for PermissionSet {
    type Stored = Stored<Group>;

    fn difference(&self, is: &Self::Stored, _: &mut Plan) -> Result<Option<String>, ApplyError> {
        let fields = [
            ("name", is.value.display_name != self.name),
            ("permissions", is.value.permissions.as_ref() != Some(&self.permissions.granted())),
        ];
        let differing = fields.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
        let differing: Vec<&str> = differing.collect();
        Ok((!differing.is_empty()).then(|| differing.join(", ")))
    }

    async fn put(&self, _: Option<&Self::Stored>, to: &mut Target<'_>) -> Result<(), ApplyError> {
        Ok(group::declare(to.tx, &self.name, self.permissions.granted(), to.now).await?)
    }

    async fn delete(is: &Self::Stored, to: &mut Target<'_>) -> Result<(), ApplyError> {
        Ok(group::undeclare(to.tx, &is.value.key(), to.now).await?)
    }
}

/// A user as the file declares it.
#[derive(Clone)]
struct DeclaredUser(User);

impl DeclaredUser {
    /// The new stored user.
    fn after(&self, is: &Stored<User>) -> Stored<User> {
        // The file does not have the other fields.
        let new = self.0.clone();
        let others = is.value.name.as_ref().map(|name| name.others.clone()).unwrap_or_default();
        let name = Name { others, ..new.name.unwrap_or_default() };
        let value = User {
            user_name: new.user_name,
            name: (name != Name::default()).then_some(name),
            department: new.department,
            permissions: new.permissions,
            ..is.value.clone()
        };
        Stored { value, declared_key: Some(self.0.key()), ..is.clone() }
    }
}

/// A user that the file declared before, by the key of the declared name that identifies it.
#[derive(Clone)]
struct IdentifiedUser {
    key: String,
    is: Stored<User>,
}

impl Item for DeclaredUser {
    fn entry(&self) -> Entry {
        Entry::new(&self.0.key(), format!("dashboard_user {}", self.0.user_name), String::new())
    }
}

impl Item for IdentifiedUser {
    fn entry(&self) -> Entry {
        Entry::new(&self.key, format!("dashboard_user {}", self.is.value.user_name), String::new())
    }
}

impl Declared for DeclaredUser {
    type Stored = IdentifiedUser;

    fn difference(
        &self,
        stored: &Self::Stored,
        _: &mut Plan,
    ) -> Result<Option<String>, ApplyError> {
        let (is, new) = (&stored.is, self.after(&stored.is));
        let fields = [
            ("name in the file", is.declared_key != new.declared_key),
            ("user_name", is.value.user_name != new.value.user_name),
            ("name", is.value.name != new.value.name),
            ("department", is.value.department != new.value.department),
            ("permissions", is.value.permissions != new.value.permissions),
        ];
        let differing = fields.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
        Ok((*is != new).then(|| differing.collect::<Vec<_>>().join(", ")))
    }

    /// Two users can change names with each other.
    async fn give_up(&self, stored: &Self::Stored, to: &mut Target<'_>) -> Result<(), ApplyError> {
        if stored.is.value.key() != self.0.key() {
            scim::free_name(to.tx, stored.is.id).await?;
        }
        Ok(())
    }

    async fn put(
        &self,
        stored: Option<&Self::Stored>,
        to: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        match stored {
            None => {
                scim::insert(to.tx, &self.0, true, to.now).await?;
            }
            Some(stored) => {
                let after = self.after(&stored.is);
                let user = after.value.clone();
                scim::update(to.tx, after, user, to.now).await?;
            }
        }
        Ok(())
    }

    async fn delete(stored: &Self::Stored, to: &mut Target<'_>) -> Result<(), ApplyError> {
        User::unlink(to.tx, stored.is.id, to.now).await?;
        Ok(scim::delete(to.tx, stored.is.clone(), to.now).await?)
    }
}

/// The declared users so far, each with its key.
///
/// The key is the name with which a user was declared, even after a change over SCIM. A name that
/// was never declared identifies its current user, so that the file can follow such a change. All
/// other users were removed from the file.
fn identified(declared: &[DeclaredUser], stored: Vec<Stored<User>>) -> Vec<IdentifiedUser> {
    let names: HashSet<String> = declared.iter().map(DeclaredUser::key).collect();
    let (known, others): (Vec<_>, Vec<_>) = stored
        .into_iter()
        .partition(|is| is.declared_key.as_ref().is_some_and(|key| names.contains(key)));
    let known = known.into_iter();
    let mut identified: Vec<IdentifiedUser> = known
        .map(|is| IdentifiedUser { key: is.declared_key.clone().unwrap_or_default(), is })
        .collect();
    for is in others {
        let key = is.value.key();
        let is_free = !identified.iter().any(|other| other.key == key);
        // A name has no control characters.
        let key = if is_free && names.contains(&key) { key } else { format!("\n{}", is.id) };
        identified.push(IdentifiedUser { key, is });
    }
    identified
}

/// Rejects new secrets of tokens that were revoked before.
async fn check_secrets(
    tx: &mut Tx,
    company: &Company,
    current: &[TokenInfo],
) -> Result<(), ApplyError> {
    for token in &company.scim_tokens {
        let secret = token.secret.expose_secret();
        if !current.iter().any(|old| old.name == *token.name && old.has_secret(secret)) {
            tokens::check_not_revoked(tx, secret)
                .await
                .map_err(|error| ApplyError::Token { name: token.name.to_string(), error })?;
        }
    }
    Ok(())
}

/// Rejects permissions in workspaces that do not exist.
async fn check_workspaces(tx: &mut Tx, company: &Company) -> Result<(), ApplyError> {
    let workspaces = list(tx).await?;
    let is_workspace = |name: &String| {
        company.same_file.contains(name) || workspaces.iter().any(|is| is.name == *name)
    };
    let users = company.dashboard_users.iter();
    let users = users.map(|user| (format!("dashboard_user {}", user.user_name), &user.permissions));
    let sets = company.permission_sets.iter();
    let sets = sets.map(|set| (format!("permission_set {}", set.name), &set.permissions));
    for (what, permissions) in users.chain(sets) {
        let mut names = permissions.workspaces.iter().map(|one| &one.workspace);
        if let Some(unknown) = names.find(|name| !is_workspace(name)) {
            return Err(ApplyError::NoWorkspace { what, workspace: unknown.clone() });
        }
    }
    Ok(())
}

/// Rejects names that other users have and keep.
async fn check_users(
    tx: &mut Tx,
    users: &[DeclaredUser],
    stored: &[IdentifiedUser],
    options: Options,
) -> Result<(), ApplyError> {
    for DeclaredUser(new) in users {
        let key = new.key();
        let has_name = |other: &&IdentifiedUser| other.is.value.key() == key;
        let is_free = stored.iter().find(has_name).is_some_and(|other| {
            let is_gone = !users.iter().any(|new| new.key() == other.key);
            if is_gone { options.prune } else { true }
        });
        if !is_free && scim::is_taken(tx, new).await? {
            return Err(ApplyError::UserNotDeclared(new.user_name.clone()));
        }
    }
    Ok(())
}

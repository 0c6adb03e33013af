//! The company document of the workspace file: the dashboard's users and the SCIM tokens, which
//! belong to no workspace.

use std::collections::{BTreeMap, HashSet};

use secrecy::ExposeSecret as _;

use crate::apply::Applied;
use crate::change::Options;
use crate::declared_items::record_revoked;
use crate::document::company::{Company, DashboardUser, PermissionSet, Token};
use crate::error::ApplyError;
use crate::plan::{ChangeList, Declared, Entry, HasEntry, Steps, Target, widened};
use gateway::COMPANY;
use gateway::workspaces::list;
use runtime::audit;
use runtime::config::network::networks;
use runtime::credentials::revoked::{RevokedCredential, SecretKind};
use scim::group::{self, Group};
use scim::resource::{Name, Permissions, Resource as _, Stored, User, folded};
use scim::sign_in;
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
    if options.dry_run || plan.list.changes.is_empty() {
        return Ok(plan.finished(company));
    }
    let mut tx = app.store.write().await?;
    // Locked until the transaction ends.
    settings::lock(&mut tx, NAME).await?;
    // Over SCIM, the users and groups that the plan compares do not change until then.
    scim::lock_declared::<Group>(&mut tx).await?;
    scim::lock_declared::<User>(&mut tx).await?;
    // Compared again, now that it is locked.
    let plan = CompanyPlan::make(&mut tx, company, options).await?;
    settings::put(&mut tx, NAME, &company.name).await?;
    let (now, prune) = (app.clock.now_ms(), options.prune);
    let mut target = Target { tx: &mut tx, app, workspace: COMPANY, now, prune };
    plan.tokens.execute(&mut target).await?;
    plan.sets.execute(&mut target).await?;
    plan.users.execute(&mut target).await?;
    if !plan.list.changes.is_empty() {
        let change = ("company.apply", &*company.name);
        let details = plan.list.audit_details(prune);
        audit::record_command(&mut tx, now, None, change, details).await?;
    }
    tx.commit().await?;
    Ok(plan.finished(company))
}

struct CompanyPlan {
    list: ChangeList,
    tokens: Steps<Token>,
    sets: Steps<PermissionSet>,
    users: Steps<DeclaredUser>,
}

impl CompanyPlan {
    async fn make(tx: &mut Tx, company: &Company, options: Options) -> Result<Self, ApplyError> {
        let mut list = ChangeList::new(options);
        match settings::get(tx, NAME).await?.filter(|name| !name.is_empty()) {
            Some(name) if name == company.name => {}
            former => {
                let sign = if former.is_some() { '~' } else { '+' };
                let detail = former.map_or(String::new(), |name| format!("was {name}"));
                list.change(sign, format!("company {}", company.name), detail);
            }
        }
        let mut tokens = tokens::list(tx).await?;
        tokens.retain(|token| token.revoked_at.is_none());
        let (stored_declared, others): (Vec<_>, Vec<_>) =
            tokens.into_iter().partition(|token| token.declared);
        let is_in_file = |name: &String| company.scim_tokens.iter().any(|new| new.name == *name);
        if let Some(other) = others.into_iter().find(|token| is_in_file(&token.name)) {
            return Err(ApplyError::TokenNotDeclared(other.name));
        }
        check_secrets(tx, company, &stored_declared).await?;
        let tokens = list.compare(&company.scim_tokens, &stored_declared)?;
        check_workspaces(tx, company).await?;
        let sets = list.compare(&company.permission_sets, &scim::list_declared(tx).await?)?;
        let users: Vec<DeclaredUser> =
            company.dashboard_users.iter().map(DashboardUser::user).map(DeclaredUser).collect();
        let stored = identified(&users, scim::list_declared(tx).await?);
        check_users(tx, &users, &stored, options).await?;
        let users = list.compare(&users, &stored)?;
        Ok(Self { list, tokens, sets, users })
    }

    fn finished(self, company: &Company) -> Applied {
        Applied {
            name: company.name.clone(),
            changes: self.list.changes,
            notes: self.list.notes,
            touched: Vec::new(),
            callback_secret: None,
            secrets: BTreeMap::new(),
        }
    }
}

impl HasEntry for Token {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("scim_token {}", self.name), String::new())
    }
}

impl HasEntry for TokenInfo {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("scim_token {}", self.name), "revoked")
    }
}

impl Declared for Token {
    type Stored = TokenInfo;

    const REMOVED_NOTE: &str = "is no longer in the file: --prune revokes it";

    fn difference(
        &self,
        stored: &TokenInfo,
        _: &mut ChangeList,
    ) -> Result<Option<String>, ApplyError> {
        if !stored.has_secret(self.secret.expose_secret()) {
            return Ok(Some("new secret; the previous one is revoked".into()));
        }
        let mut changes = Vec::new();
        if stored.allow != self.allow {
            changes.push(format!("from {}", networks(&self.allow)));
        }
        if stored.requires_origin != self.require_origin {
            changes.push(format!("require_origin {}", self.require_origin));
        }
        Ok((!changes.is_empty()).then(|| changes.join(", ")))
    }

    fn widens(&self, stored: Option<&TokenInfo>) -> Vec<String> {
        widened(&[], &[], stored.map(|stored| &stored.allow[..]), &self.allow)
    }

    /// A secret can move to another name.
    async fn release_unique_values(
        &self,
        stored: &TokenInfo,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        if stored.has_secret(self.secret.expose_secret()) {
            Ok(())
        } else {
            Self::delete(stored, target).await
        }
    }

    async fn put(
        &self,
        stored: Option<&TokenInfo>,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        let Self { name, secret, allow, require_origin: requires_origin } = self;
        let requires_origin = *requires_origin;
        if let Some(stored) = stored.filter(|token| token.has_secret(secret.expose_secret())) {
            return Ok(tokens::update(target.tx, stored.id, allow, requires_origin).await?);
        }
        let token = NewToken { name, allow, requires_origin, declared: true };
        tokens::create_with_secret(target.tx, &target.app.clock, token, secret.expose_secret())
            .await
            .map_err(|error| ApplyError::Token { name: name.clone(), error })?;
        Ok(())
    }

    async fn delete(stored: &TokenInfo, target: &mut Target<'_>) -> Result<(), ApplyError> {
        // Tokens are also revoked without the company's lock.
        if !tokens::revoke_by_id(target.tx, stored.id, target.now).await? {
            return Err(ApplyError::ChangedConcurrently(format!("scim_token {}", stored.name)));
        }
        let revoked = RevokedCredential {
            kind: SecretKind::ScimToken,
            id: stored.id,
            name: stored.name.clone(),
            workspace_id: None,
        };
        record_revoked(&revoked, target).await
    }
}

impl HasEntry for PermissionSet {
    fn entry(&self) -> Entry {
        Entry::new(&folded(&self.name), format!("permission_set {}", self.name), String::new())
    }
}

impl HasEntry for Stored<Group> {
    fn entry(&self) -> Entry {
        let name = &self.value.display_name;
        Entry::new(&self.value.key(), format!("permission_set {name}"), String::new())
    }
}

impl Declared for PermissionSet {
    type Stored = Stored<Group>;

    fn difference(
        &self,
        stored: &Self::Stored,
        _: &mut ChangeList,
    ) -> Result<Option<String>, ApplyError> {
        let fields = [
            ("name", stored.value.display_name != self.name),
            ("permissions", stored.value.permissions.as_ref() != Some(&self.permissions.granted())),
        ];
        let differing = differing_names(&fields);
        Ok((!differing.is_empty()).then_some(differing))
    }

    fn widens(&self, stored: Option<&Self::Stored>) -> Vec<String> {
        let former = stored.and_then(|stored| stored.value.permissions.as_ref());
        new_permissions(former, Some(&self.permissions.granted()))
    }

    async fn put(
        &self,
        _: Option<&Self::Stored>,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        Ok(group::declare(target.tx, &self.name, self.permissions.granted(), target.now).await?)
    }

    async fn delete(stored: &Self::Stored, target: &mut Target<'_>) -> Result<(), ApplyError> {
        Ok(group::undeclare(target.tx, &stored.value.key(), target.now).await?)
    }
}

/// The permissions that the former ones lack, by their names and places.
fn new_permissions(former: Option<&Permissions>, new: Option<&Permissions>) -> Vec<String> {
    let names =
        |permissions: Option<&Permissions>| permissions.map(Permissions::names).unwrap_or_default();
    let former = names(former);
    names(new).into_iter().filter(|name| !former.contains(name)).collect()
}

/// The names of the fields that differ.
fn differing_names(fields: &[(&str, bool)]) -> String {
    let differing = fields.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
    differing.collect::<Vec<_>>().join(", ")
}

/// A user as the file declares it.
#[derive(Clone)]
struct DeclaredUser(User);

impl DeclaredUser {
    /// The new stored user.
    fn after(&self, stored: &Stored<User>) -> Stored<User> {
        // The file does not have the other fields.
        let new = self.0.clone();
        let others = stored.value.name.as_ref().map(|name| name.others.clone()).unwrap_or_default();
        let name = Name { others, ..new.name.unwrap_or_default() };
        let value = User {
            user_name: new.user_name,
            name: (name != Name::default()).then_some(name),
            department: new.department,
            permissions: new.permissions,
            ..stored.value.clone()
        };
        Stored { value, declared_key: Some(self.0.key()), ..stored.clone() }
    }
}

/// A user that the file declared before, by the key of the declared name that identifies it.
#[derive(Clone)]
struct IdentifiedUser {
    key: String,
    user: Stored<User>,
}

impl HasEntry for DeclaredUser {
    fn entry(&self) -> Entry {
        Entry::new(&self.0.key(), format!("dashboard_user {}", self.0.user_name), String::new())
    }
}

impl HasEntry for IdentifiedUser {
    fn entry(&self) -> Entry {
        Entry::new(
            &self.key,
            format!("dashboard_user {}", self.user.value.user_name),
            String::new(),
        )
    }
}

impl Declared for DeclaredUser {
    type Stored = IdentifiedUser;

    fn difference(
        &self,
        stored: &Self::Stored,
        _: &mut ChangeList,
    ) -> Result<Option<String>, ApplyError> {
        let (old, new) = (&stored.user, self.after(&stored.user));
        let fields = [
            ("name in the file", old.declared_key != new.declared_key),
            ("user_name", old.value.user_name != new.value.user_name),
            ("name", old.value.name != new.value.name),
            ("department", old.value.department != new.value.department),
            ("permissions", old.value.permissions != new.value.permissions),
        ];
        Ok((*old != new).then(|| differing_names(&fields)))
    }

    fn widens(&self, stored: Option<&Self::Stored>) -> Vec<String> {
        let former = stored.and_then(|stored| stored.user.value.permissions.as_ref());
        new_permissions(former, self.0.permissions.as_ref())
    }

    /// Two users can change names with each other.
    async fn release_unique_values(
        &self,
        stored: &Self::Stored,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        if stored.user.value.key() != self.0.key() {
            scim::free_name(target.tx, stored.user.id).await?;
        }
        Ok(())
    }

    async fn put(
        &self,
        stored: Option<&Self::Stored>,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        match stored {
            None => {
                scim::insert(target.tx, &self.0, true, target.now).await?;
            }
            Some(stored) => {
                let after = self.after(&stored.user);
                let user = after.value.clone();
                let changed = scim::update(target.tx, after, user, target.now).await?;
                sign_in::follow_name(target.tx, &changed, &stored.user.value).await?;
            }
        }
        Ok(())
    }

    async fn delete(stored: &Self::Stored, target: &mut Target<'_>) -> Result<(), ApplyError> {
        User::unlink(target.tx, stored.user.id, target.now).await?;
        Ok(scim::delete(target.tx, stored.user.clone(), target.now).await?)
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
        .partition(|user| user.declared_key.as_ref().is_some_and(|key| names.contains(key)));
    let known = known.into_iter();
    let mut identified: Vec<IdentifiedUser> = known
        .map(|user| IdentifiedUser { key: user.declared_key.clone().unwrap_or_default(), user })
        .collect();
    for user in others {
        let key = user.value.key();
        let is_free = !identified.iter().any(|other| other.key == key);
        // Otherwise a key that no user in the file has: no name contains a line break. So the user
        // counts as removed from the file.
        let key = if is_free && names.contains(&key) { key } else { format!("\n{}", user.id) };
        identified.push(IdentifiedUser { key, user });
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
        company.same_file.contains(name)
            || workspaces.iter().any(|workspace| workspace.name == *name)
    };
    let users = company.dashboard_users.iter();
    let users = users.map(|user| (format!("dashboard_user {}", user.user_name), &user.permissions));
    let sets = company.permission_sets.iter();
    let sets = sets.map(|set| (format!("permission_set {}", set.name), &set.permissions));
    for (label, permissions) in users.chain(sets) {
        let mut names = permissions.workspaces.iter().map(|granted| &granted.workspace);
        if let Some(unknown) = names.find(|name| !is_workspace(name)) {
            return Err(ApplyError::NoWorkspace { label, workspace: unknown.clone() });
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
        let has_name = |other: &&IdentifiedUser| other.user.value.key() == key;
        let is_free = stored.iter().find(has_name).is_some_and(|other| {
            let is_declared = users.iter().any(|new| new.key() == other.key);
            is_declared || options.prune
        });
        if !is_free && scim::is_taken(tx, new).await? {
            return Err(ApplyError::UserNotDeclared(new.user_name.clone()));
        }
    }
    Ok(())
}

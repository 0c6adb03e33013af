//! The company document of the workspace file: what is of no one workspace, which are the
//! dashboard's users and the SCIM tokens.

use std::collections::{BTreeMap, HashMap, HashSet};

use ipnet::IpNet;
use secrecy::ExposeSecret as _;
use uuid::Uuid;

use crate::app::App;
use crate::config::network::networks;
use crate::scim::resource::{User, UserAppGroup};
use crate::scim::tokens::{self, NewToken, TokenInfo};
use crate::scim::{self, NewUser, StoredUser};
use crate::workspace_file::apply::{Applied, ApplyError};
use crate::workspace_file::change::{Change, Options};
use crate::workspace_file::file::company::{Company, DeclaredToken};
use crate::workspaces::list;
use store::{Tx, settings};

/// The setting that is the company's name.
const NAME: &str = "company";

/// Brings the installation to what its document says, in one transaction.
pub async fn apply_company(
    app: &App,
    company: &Company,
    options: Options,
) -> Result<Applied, ApplyError> {
    let mut tx = app.store.snapshot().await?;
    let plan = Plan::make(&mut tx, company, options).await?;
    tx.commit().await?;
    if options.dry_run || plan.changes.is_empty() {
        return Ok(plan.finished(company));
    }
    let mut tx = app.store.write().await?;
    // Until the transaction ends nobody else applies it.
    settings::lock(&mut tx, NAME).await?;
    // Nor do calls change those whom it compares.
    scim::lock_declared(&mut tx).await?;
    let mut plan = Plan::make(&mut tx, company, options).await?;
    for step in std::mem::take(&mut plan.steps) {
        step.carry_out(&mut tx, app).await?;
    }
    tx.commit().await?;
    Ok(plan.finished(company))
}

/// One thing to do.
enum Step<'a> {
    Name(&'a str),
    NewToken(&'a DeclaredToken),
    AllowToken(Uuid, &'a [IpNet]),
    RevokeToken(TokenInfo),
    NewUser(&'a User),
    /// Before others get the names that were of these.
    FreeName(Uuid),
    UpdateUser(StoredUser),
    DeleteUser(StoredUser),
}

#[derive(Default)]
struct Plan<'a> {
    changes: Vec<Change>,
    steps: Vec<Step<'a>>,
    notes: Vec<String>,
}

impl<'a> Plan<'a> {
    async fn make(tx: &mut Tx, company: &'a Company, options: Options) -> Result<Self, ApplyError> {
        let mut plan = Self::default();
        match settings::get(tx, NAME).await?.filter(|name| !name.is_empty()) {
            Some(is) if is == company.name => {}
            is => {
                let sign = if is.is_some() { '~' } else { '+' };
                let detail = is.map_or(String::new(), |is| format!("it was {is}"));
                plan.change(sign, format!("company {}", company.name), detail);
                plan.steps.push(Step::Name(&company.name));
            }
        }
        plan.compare_tokens(company, tokens::list(tx).await?, options)?;
        plan.compare_users(tx, company, options).await?;
        Ok(plan)
    }

    fn change(&mut self, sign: char, what: impl Into<String>, detail: impl Into<String>) {
        self.changes.push(Change { sign, what: what.into(), detail: detail.into() });
    }

    fn compare_tokens(
        &mut self,
        company: &'a Company,
        current: Vec<TokenInfo>,
        options: Options,
    ) -> Result<(), ApplyError> {
        let current: Vec<TokenInfo> =
            current.into_iter().filter(|token| token.revoked_at.is_none()).collect();
        let is_declared = |is: &&TokenInfo| company.tokens.iter().any(|new| new.name == is.name);
        // First what ends, so that a secret can move to another name.
        for token in current.iter().filter(|token| token.declared && !is_declared(token)) {
            let what = format!("scim_token {}", token.name);
            if options.prune {
                self.change('-', what, "revoked");
                self.steps.push(Step::RevokeToken(token.clone()));
            } else {
                self.notes.push(format!("{what} is no longer in the file: --prune revokes it"));
            }
        }
        let mut made = Vec::new();
        for new in &company.tokens {
            let what = format!("scim_token {}", new.name);
            match current.iter().find(|is| is.name == new.name) {
                Some(is) if !is.declared => {
                    return Err(ApplyError::TokenNotDeclared(is.name.clone()));
                }
                Some(is) if !is.has_secret(new.secret.expose_secret()) => {
                    self.change('~', what, "another secret; the former one is revoked");
                    self.steps.push(Step::RevokeToken(is.clone()));
                    made.push(Step::NewToken(new));
                }
                Some(is) if is.allow != new.allow => {
                    self.change('~', what, format!("from {}", networks(&new.allow)));
                    self.steps.push(Step::AllowToken(is.id, &new.allow));
                }
                Some(_) => {}
                None => {
                    self.change('+', what, "");
                    made.push(Step::NewToken(new));
                }
            }
        }
        self.steps.extend(made);
        Ok(())
    }

    async fn compare_users(
        &mut self,
        tx: &mut Tx,
        company: &'a Company,
        options: Options,
    ) -> Result<(), ApplyError> {
        let workspaces = list(tx).await?;
        let users = DeclaredUsers::of(company, scim::list_declared(tx).await?);
        for gone in &users.gone {
            let what = format!("dashboard_user {}", gone.user.user_name);
            if options.prune {
                self.change('-', what, "");
                self.steps.push(Step::DeleteUser(gone.clone()));
            } else {
                self.notes.push(format!("{what} is no longer in the file: --prune removes it"));
            }
        }
        let mut made = Vec::new();
        for new in &company.users {
            let groups = new.permissions.iter().flat_map(|permissions| &permissions.app_group);
            let is_workspace = |group: &&UserAppGroup| {
                let name = &group.app_group_name;
                company.beside.contains(name) || workspaces.iter().any(|is| is.name == *name)
            };
            if let Some(unknown) = groups.into_iter().find(|group| !is_workspace(group)) {
                return Err(ApplyError::NoWorkspace {
                    user: new.user_name.clone(),
                    workspace: unknown.app_group_name.clone(),
                });
            }
            let key = new.key();
            let is = users.meant.get(&key);
            if is.is_none_or(|is| is.user.key() != key)
                && !users.frees(&key, options)
                && scim::is_taken(tx, new).await?
            {
                return Err(ApplyError::UserNotDeclared(new.user_name.clone()));
            }
            made.extend(self.compare_user(new, is));
        }
        self.steps.extend(made);
        Ok(())
    }

    /// What is to be done once the names are free that users have who get others.
    fn compare_user(&mut self, new: &'a User, is: Option<&StoredUser>) -> Option<Step<'a>> {
        let what = format!("dashboard_user {}", new.user_name);
        let Some(is) = is else {
            self.change('+', what, "");
            return Some(Step::NewUser(new));
        };
        let key = new.key();
        let new = StoredUser {
            user: User {
                // The file says nothing of these.
                external_id: is.user.external_id.clone(),
                active: is.user.active,
                ..new.clone()
            },
            declared_key: Some(key.clone()),
            ..is.clone()
        };
        if new == *is {
            return None;
        }
        self.change('~', what, difference(is, &new));
        if is.user.key() != key {
            self.steps.push(Step::FreeName(is.id));
        }
        Some(Step::UpdateUser(new))
    }

    fn finished(self, company: &Company) -> Applied {
        Applied {
            what: company.name.clone(),
            changes: self.changes,
            notes: self.notes,
            callback_secret: None,
            secrets: BTreeMap::new(),
        }
    }
}

/// The users that were declared so far, beside what the file declares now.
struct DeclaredUsers {
    /// Those whom it means, by the keys of the names that it has.
    meant: HashMap<String, StoredUser>,
    gone: Vec<StoredUser>,
}

impl DeclaredUsers {
    /// Whatever a user is called since a change over SCIM: meant is who was declared by the name.
    /// A name that nobody was declared by means who has it now, so that the file can follow such
    /// a change.
    fn of(company: &Company, current: Vec<StoredUser>) -> Self {
        let names: HashSet<String> = company.users.iter().map(User::key).collect();
        let (mut meant, mut gone) = (HashMap::new(), Vec::new());
        let mut others = Vec::new();
        for is in current {
            match is.declared_key.clone().filter(|key| names.contains(key)) {
                Some(key) => {
                    meant.insert(key, is);
                }
                None => others.push(is),
            }
        }
        for is in others {
            let key = is.user.key();
            if names.contains(&key) && !meant.contains_key(&key) {
                meant.insert(key, is);
            } else {
                gone.push(is);
            }
        }
        Self { meant, gone }
    }

    /// Whether one of them has a name now who will not have it any more.
    fn frees(&self, key: &str, options: Options) -> bool {
        let has = |is: &StoredUser| is.user.key() == key;
        let is_renamed = self.meant.iter().any(|(name, is)| name != key && has(is));
        is_renamed || options.prune && self.gone.iter().any(has)
    }
}

/// Which members of a user differ.
fn difference(is: &StoredUser, new: &StoredUser) -> String {
    let members = [
        ("name in the file", is.declared_key != new.declared_key),
        ("user_name", is.user.user_name != new.user.user_name),
        ("name", is.user.name != new.user.name),
        ("department", is.user.department != new.user.department),
        ("permissions", is.user.permissions != new.user.permissions),
    ];
    let different = members.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
    different.collect::<Vec<_>>().join(", ")
}

impl Step<'_> {
    async fn carry_out(self, tx: &mut Tx, app: &App) -> Result<(), ApplyError> {
        let now = app.clock.now_ms();
        match self {
            Self::Name(name) => settings::put(tx, NAME, name).await?,
            Self::NewToken(DeclaredToken { name, secret, allow }) => {
                let token = NewToken { name, allow, declared: true };
                tokens::create_with_secret(tx, &app.clock, token, secret.expose_secret())
                    .await
                    .map_err(|error| ApplyError::Token { name: name.clone(), error })?;
            }
            Self::AllowToken(id, allow) => tokens::allow(tx, id, allow).await?,
            Self::RevokeToken(token) => {
                tokens::revoke(tx, &app.clock, &token.id.to_string())
                    .await
                    .map_err(|error| ApplyError::Token { name: token.name, error })?;
            }
            Self::NewUser(user) => {
                scim::insert(tx, NewUser { user, declared: true }, now).await?;
            }
            Self::FreeName(id) => scim::free_name(tx, id).await?,
            Self::UpdateUser(wanted) => {
                let user = wanted.user.clone();
                scim::update(tx, wanted, user, now).await?;
            }
            Self::DeleteUser(is) => scim::delete(tx, is.id).await?,
        }
        Ok(())
    }
}

//! Dashboard users who sign in to the console with an identity provider
//! (docs/explanation/console.md).
//!
//! The first sign-in of a user stores the subject that the provider's token has. From then on, only
//! this subject signs the user in: whoever gets the user's email address later is another person.

use uuid::Uuid;

use super::permissions::Permissions;
use super::resource::{Resource as _, Stored, User};
use super::rows;
use super::sign_in_rows;
use store::{StoreError, Tx};

/// A dashboard user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardUser {
    pub id: Uuid,
    pub user_name: String,
    /// The name for people, if SCIM has one.
    pub display_name: Option<String>,
    pub is_active: bool,
    /// The user's own permissions, and those of the user's groups.
    pub permissions: Permissions,
    /// In milliseconds since the Unix epoch.
    pub last_sign_in_at: Option<i64>,
}

/// Who somebody is at an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    pub subject: String,
}

/// Whether an identity may sign a user in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// It is the user's identity from now on: the user had none of this issuer.
    First,
    /// It is the user's identity.
    Same,
    /// The user has another identity of this issuer, or the identity has another user.
    Other,
}

impl From<Stored<User>> for DashboardUser {
    fn from(stored: Stored<User>) -> Self {
        let Stored { id, value, .. } = stored;
        Self {
            id,
            is_active: value.is_active(),
            permissions: value.all_permissions(),
            display_name: value.shown_name(),
            last_sign_in_at: value.last_sign_in_at,
            user_name: value.user_name,
        }
    }
}

/// The user with that `userName`, regardless of case. The row is locked until the transaction ends,
/// so that no sign-in crosses the user's deactivation.
pub async fn by_name_locked(tx: &mut Tx, name: &str) -> Result<Option<DashboardUser>, StoreError> {
    let key = super::resource::folded(name);
    Ok(rows::by_key_locked::<User>(tx, &key).await?.map(DashboardUser::from))
}

/// The user with that id.
pub async fn by_id(tx: &mut Tx, id: Uuid) -> Result<Option<DashboardUser>, StoreError> {
    Ok(rows::by_id::<User>(tx, id).await?.map(DashboardUser::from))
}

/// The users after `after`, the last of the previous page, in the order of their creation.
pub async fn list(
    tx: &mut Tx,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<DashboardUser>, StoreError> {
    let mut users = rows::after::<User>(tx, after, limit).await?;
    User::complete(tx, &mut users).await?;
    Ok(users.into_iter().map(DashboardUser::from).collect())
}

/// Binds a locked user to an identity if the user has none of this issuer, and stores the time of
/// the sign-in, which SCIM shows as `lastSignInAt`.
pub async fn bind(
    tx: &mut Tx,
    user: Uuid,
    identity: &Identity,
    now: i64,
) -> Result<Binding, StoreError> {
    let stored = sign_in_rows::subject(tx, user, &identity.issuer).await?;
    let binding = if stored.is_none() { Binding::First } else { Binding::Same };
    let owner = sign_in_rows::owner(tx, identity).await?;
    if stored.is_some_and(|subject| subject != identity.subject)
        || owner.is_some_and(|owner| owner != user)
    {
        return Ok(Binding::Other);
    }
    sign_in_rows::record(tx, user, identity, now).await?;
    super::members::touch_users(tx, &[user], now).await?;
    Ok(binding)
}

/// Gives the sessions of a changed user the new name: lists and commands find the sessions of a
/// person by the name.
pub async fn follow_name(
    tx: &mut Tx,
    user: &Stored<User>,
    former: &User,
) -> Result<(), StoreError> {
    let name = &user.value.user_name;
    if *name == former.user_name {
        return Ok(());
    }
    sign_in_rows::rename_sessions(tx, user.id, name).await
}

/// Removes the identities of a user, so that the next sign-in binds another one, and ends the
/// sessions that they began; returns how many identities.
pub async fn unbind(tx: &mut Tx, user: Uuid) -> Result<u64, StoreError> {
    sign_in_rows::end_sessions(tx, user).await?;
    sign_in_rows::remove(tx, user).await
}

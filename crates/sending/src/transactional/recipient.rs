//! The user who gets an email.

use uuid::Uuid;

use super::rows::Email;
use messages::recipient::User;
use people::users::rows::{For, StoredUser, find_identifiers, find_users};
use people::users::{Recipient, merged_rows, suppressions};
use store::documents::parsed;
use store::{StoreError, Tx};

/// The user, in the current state, with the `service_id` of the first attempt: the email's id, which
/// reports refer to, contains it.
pub(super) async fn find(tx: &mut Tx, email: &Email) -> Result<Option<Recipient>, StoreError> {
    let workspace = email.workspace_id;
    let service_id = match (email.service_id, &email.recipient) {
        (Some(id), _) => Some(id),
        (None, Some(recipient)) => {
            let user: User =
                parsed("transactional_emails.recipient", email.dispatch_id, recipient)?;
            let (kind, value) = user.key();
            let identifiers = find_identifiers(tx, workspace, kind, &[&value]).await?;
            identifiers.first().map(|identifier| identifier.service_id)
        }
        (None, None) => None,
    };
    let Some(id) = service_id else { return Ok(None) };
    let Some(user) = find_kept(tx, workspace, id).await? else { return Ok(None) };
    let id = email.service_id.unwrap_or(user.service_id);
    let recipient = suppressions::recipient(tx, workspace, &user).await?;
    Ok(Some(Recipient { service_id: id, ..recipient }))
}

/// The user with an id, or the one into which that user was merged. Another transaction may commit a
/// merge between the queries, so the users who exist are read first.
async fn find_kept(
    tx: &mut Tx,
    workspace: i32,
    mut id: Uuid,
) -> Result<Option<StoredUser>, StoreError> {
    loop {
        if let Some(user) = find_users(tx, workspace, &[id], For::Reading).await?.pop() {
            return Ok(Some(user));
        }
        let kept = merged_rows::present(tx, workspace, id).await?;
        if kept == id {
            return Ok(None);
        }
        id = kept;
    }
}

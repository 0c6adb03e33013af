//! Bounces of a dispatch suppress addresses, or show that the relay is the cause.

use uuid::Uuid;

use super::{part_rows, rows};
use people::users::suppressions::bounces::{self, Bounce};
use store::{StoreError, Tx};

/// Stores bounces of a dispatch, each once. Locks rows after all others of the transaction.
pub(super) async fn store(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
    bounced: Vec<Bounce>,
) -> Result<(), StoreError> {
    if bounced.is_empty() {
        return Ok(());
    }
    bounces::count(tx, dispatch, &bounced).await?;
    apply(tx, workspace, dispatch, bounced).await
}

/// Decides for a dispatch that has ended whether the relay is the cause of its bounces.
pub(super) async fn decide(tx: &mut Tx, workspace: i32, dispatch: Uuid) -> Result<(), StoreError> {
    apply(tx, workspace, dispatch, Vec::new()).await
}

async fn apply(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
    bounced: Vec<Bounce>,
) -> Result<(), StoreError> {
    let sent = part_rows::sent_emails(tx, dispatch).await?;
    for status in bounces::apply(tx, workspace, dispatch, bounced, sent).await? {
        let status = Some(status.name()).filter(|name| !name.is_empty()).unwrap_or("bounced");
        let note = format!(
            "the relay is the cause: more than 5% of the emails failed alike ({status}), so no \
             address is suppressed for it"
        );
        if rows::set_note(tx, dispatch, &note).await? {
            tracing::error!(dispatch = %dispatch.simple(), "{note}");
            metrics::counter!("longshore_relay_faults_total").increment(1);
        }
    }
    Ok(())
}

//! Bounces of transactional emails suppress addresses, or show that the relay is the cause.

use kit::smtp::AddressBounce;
use uuid::Uuid;

use super::rows::{self, Email};
use messages::MessageId;
use people::users::suppressions::Hash;
use people::users::suppressions::bounces::{self, Bounce};
use store::{StoreError, Tx, on};

const HOUR_MS: i64 = 60 * 60 * 1_000;

/// Suppresses the address of an email that bounced. If too many emails of the campaign that were
/// received in the same hour bounced alike, suppresses none of them. The row of the campaign's
/// statistics, which this transaction has changed, makes others wait.
pub async fn store(
    tx: &mut Tx,
    email: &Email,
    status: AddressBounce,
    period: i64,
) -> Result<(), StoreError> {
    let (workspace, campaign) = (email.workspace_id, email.campaign_id);
    let hour = email.received_at - email.received_at.rem_euclid(HOUR_MS);
    let received = (hour, hour + HOUR_MS);
    let mut alike = bounced(tx, (workspace, campaign), received).await?;
    alike.retain(|(_, reason)| AddressBounce::from_report(None, reason.as_deref()) == Some(status));
    let count = alike.len() as i64;
    let enough = bounces::enough_emails(count);
    let emails = count_sent(tx, (workspace, campaign), received, enough).await?;
    if bounces::is_relay_cause(count, emails) {
        let name = status.name();
        tracing::error!(
            %campaign, status = name, count, emails,
            "the relay is the cause: emails failed alike, so no address is suppressed for it"
        );
        metrics::counter!("longshore_relay_faults_total").increment(1);
        let ids: Vec<Uuid> = alike.into_iter().map(|(id, _)| id).collect();
        return bounces::remove(tx, workspace, &ids, status).await;
    }
    let Some(address) = address(tx, email).await? else { return Ok(()) };
    let bounce = Bounce { address, status, period };
    bounces::suppress(tx, workspace, email.dispatch_id, vec![bounce]).await
}

/// The address to which an email was sent; none if the workspace has no such email.
pub async fn email_address(
    tx: &mut Tx,
    workspace: i32,
    id: &MessageId,
) -> Result<Option<Hash>, StoreError> {
    let found = rows::by_id(tx, id.dispatch_id).await?;
    let is_same =
        |email: &Email| email.workspace_id == workspace && email.service_id == Some(id.service_id);
    match found.filter(is_same) {
        Some(email) => address(tx, &email).await,
        None => Ok(None),
    }
}

async fn address(tx: &mut Tx, email: &Email) -> Result<Option<Hash>, StoreError> {
    let stored = email.address.as_deref().and_then(|address| address.try_into().ok());
    match (stored, email.service_id) {
        (Some(address), _) => Ok(Some(address)),
        (None, Some(user)) => {
            let sent_at = email.sent_at.unwrap_or(email.received_at);
            bounces::address_at(tx, email.workspace_id, user, sent_at).await
        }
        (None, None) => Ok(None),
    }
}

/// The emails of a campaign that were received in an interval and bounced, with their reasons.
async fn bounced(
    tx: &mut Tx,
    (workspace, campaign): (i32, Uuid),
    received: (i64, i64),
) -> Result<Vec<(Uuid, Option<String>)>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT dispatch_id, reason FROM transactional_emails
         WHERE received_at >= $3 AND received_at < $4 AND workspace_id = $1 AND campaign_id = $2
           AND state = 'bounced'",
    )
    .bind(workspace).bind(campaign).bind(received.0).bind(received.1).fetch_all(c).await?))
}

/// The number of emails of a campaign, received in an interval, that the relay accepted or
/// rejected: counted up to a limit.
async fn count_sent(
    tx: &mut Tx,
    (workspace, campaign): (i32, Uuid),
    received: (i64, i64),
    limit: i64,
) -> Result<i64, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT count(*) FROM (
             SELECT 1 FROM transactional_emails
             WHERE received_at >= $3 AND received_at < $4 AND workspace_id = $1
               AND campaign_id = $2 AND state IN ('sent', 'processed', 'delivered', 'bounced')
             LIMIT $5) AS sent",
    )
    .bind(workspace).bind(campaign).bind(received.0).bind(received.1).bind(limit)
    .fetch_one(c).await?))
}

//! Bounces: an address that rejects emails for good gets none for some time.
//!
//! If more than 5% of the recipients of a dispatch fail alike, the relay is the cause, and the bounces
//! of this dispatch apply to nobody. While the dispatch runs, each bounce decides that again, by the
//! emails that were sent until then; so does the end of the dispatch.

use kit::smtp::AddressBounce;
use uuid::Uuid;

use super::{Address, Hash};
use crate::users::consent::{Consent, Topic};
use crate::users::merged_rows;
use crate::users::profile::Profile;
use crate::users::rows::{For, find_users};
use crate::users::suppression_rows::{self, NewBounce};
use store::{StoreError, Tx, claims};

/// The largest share of recipients who fail alike because of their addresses: 1 of this number.
const ALIKE_SHARE: i64 = 20;

/// An email that its address rejected for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounce {
    pub address: Hash,
    pub status: AddressBounce,
    /// How long the address gets no emails, in milliseconds.
    pub period: i64,
}

/// What a dispatch has sent.
#[derive(Clone, Copy, Debug)]
pub struct SentEmails {
    /// Emails that the relay accepted or rejected.
    pub emails: i64,
    pub has_ended: bool,
}

/// Whether so many of these emails failed alike that the relay is the cause.
pub fn is_relay_cause(alike: i64, emails: i64) -> bool {
    alike >= 2 && alike.saturating_mul(ALIKE_SHARE) > emails
}

/// The number of emails among which so many failures alike need no other cause.
pub fn enough_emails(alike: i64) -> i64 {
    alike.saturating_mul(ALIKE_SHARE)
}

/// Counts bounces of a dispatch, and locks the counts: the transaction that counts last sees all.
pub async fn count(tx: &mut Tx, dispatch: Uuid, bounces: &[Bounce]) -> Result<(), StoreError> {
    for status in AddressBounce::ALL {
        let alike = bounces.iter().filter(|bounce| bounce.status == status).count() as i64;
        if alike > 0 {
            suppression_rows::count_bounces(tx, dispatch, status.name(), alike).await?;
        }
    }
    Ok(())
}

/// Suppresses the addresses of counted bounces. Returns how the recipients failed if the relay is
/// the cause, once the dispatch has ended.
pub async fn apply(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
    mut bounces: Vec<Bounce>,
    sent: SentEmails,
) -> Result<Vec<AddressBounce>, StoreError> {
    let counts = suppression_rows::bounce_counts(tx, dispatch).await?;
    let mut by_relay = Vec::new();
    for (status, alike, was_relay) in counts {
        let is_relay = is_relay_cause(alike, sent.emails);
        if is_relay != was_relay {
            suppression_rows::mark_relay(tx, dispatch, &status, is_relay).await?;
        }
        by_relay.extend(AddressBounce::from_name(&status).filter(|_| is_relay));
    }
    if !sent.has_ended {
        suppress(tx, workspace, dispatch, bounces).await?;
        return Ok(Vec::new());
    }
    bounces.retain(|bounce| !by_relay.contains(&bounce.status));
    suppress(tx, workspace, dispatch, bounces).await?;
    for status in &by_relay {
        suppression_rows::remove_bounces(tx, workspace, &[dispatch], status.name()).await?;
    }
    Ok(by_relay)
}

/// Suppresses addresses, unless an earlier bounce of an address still applies.
pub async fn suppress(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
    mut bounces: Vec<Bounce>,
) -> Result<(), StoreError> {
    if bounces.is_empty() {
        return Ok(());
    }
    // In the order in which rows are locked.
    bounces.sort_unstable_by_key(|bounce| bounce.address);
    bounces.dedup_by_key(|bounce| bounce.address);
    let now = claims::now(tx).await?;
    let new = |bounce: Bounce| NewBounce {
        who: bounce.address,
        until: now.saturating_add(bounce.period),
        status: bounce.status.name(),
    };
    let new: Vec<NewBounce> = bounces.into_iter().map(new).collect();
    suppression_rows::put_bounces(tx, workspace, dispatch, &new, now).await
}

/// Ends the suppressions by emails of these dispatches that failed alike.
pub async fn remove(
    tx: &mut Tx,
    workspace: i32,
    dispatches: &[Uuid],
    status: AddressBounce,
) -> Result<(), StoreError> {
    suppression_rows::remove_bounces(tx, workspace, dispatches, status.name()).await
}

/// The address of a user, or of the one into which that user was merged; none if it is known that the
/// user had another one at that time. For emails whose address was not stored.
pub async fn address_at(
    tx: &mut Tx,
    workspace: i32,
    user: Uuid,
    at: i64,
) -> Result<Option<Hash>, StoreError> {
    let present = merged_rows::present(tx, workspace, user).await?;
    let Some(user) = find_users(tx, workspace, &[present], For::Reading).await?.pop() else {
        return Ok(None);
    };
    let Ok(profile) = Profile::parse(&user.doc) else { return Ok(None) };
    let had_address = Consent::read(&profile).is_of_present_address(Topic::Email, at);
    let Some(email) = user.email.filter(|_| had_address) else { return Ok(None) };
    let key = suppression_rows::ensure_key(tx, workspace).await?;
    Ok(Some(key.hash(&Address::Email(email.into()))))
}

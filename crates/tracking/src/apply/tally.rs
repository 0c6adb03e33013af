//! Counts of applied objects, reported after the commit.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::super::Kind;
use super::products::Listed;
use runtime::traces;

kit::named! {
    /// Why an object had no effect.
    #[derive(PartialOrd, Ord)]
    pub enum Dropped {
        /// The identifier is unknown, and the object creates no user.
        UnknownUser = "unknown_user",
        /// The user was erased after the object was accepted.
        Erased = "erased",
        /// The profile would be too large.
        TooLarge = "too_large",
        /// An identifier belongs to another user, or does not fit the change.
        Conflict = "conflict",
    }
}

/// A change that did not match, for the log.
#[derive(Debug)]
struct Mismatch {
    user: Uuid,
    /// Index of the object among those that are applied together, until the request is known.
    object_index: usize,
    request_id: Option<String>,
}

/// The outcome of objects.
#[derive(Debug, Default)]
pub struct Tally {
    applied: [u64; Kind::ALL.len()],
    dropped: BTreeMap<(&'static str, Dropped), u64>,
    pub users_created: u64,
    /// Changes of custom attributes that did not match the types of the values.
    mismatches: u64,
    /// The first of these changes.
    first_mismatch: Option<Mismatch>,
    /// Names of products and events that were removed because a user has too many.
    pub names_evicted: u64,
    /// Purchases of products that are not listed.
    pub unlisted: u64,
    /// Purchases outside of all conversion windows.
    pub outside_windows: u64,
    /// Purchases whose revenue did not fit into the user's sum.
    pub revenue_at_maximum: u64,
    /// Orders that purchases started.
    pub triggered: u64,
    /// Campaign starts that were skipped because the purchases were too old.
    pub stale_triggers: u64,
    /// The changes of the product lists.
    pub listed: Vec<Listed>,
    /// Purchases by currency for which the workspace has no exchange rate.
    without_rate: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn apply(&mut self, kind: Kind) {
        self.applied[kind as usize] += 1;
    }

    /// Objects of all kinds that were applied.
    pub(super) fn objects_applied(&self) -> u64 {
        self.applied.iter().sum()
    }

    pub(super) fn drop(&mut self, kind: Kind, reason: Dropped) {
        *self.dropped.entry((kind.name(), reason)).or_default() += 1;
    }

    /// Records changes of one object that did not match.
    pub(super) fn mismatch(&mut self, changes: u64, object_index: usize, user: Uuid) {
        self.mismatches += changes;
        self.first_mismatch.get_or_insert(Mismatch { user, object_index, request_id: None });
    }

    /// Records the request of the first mismatch. `requests` are the requests of the batch, each
    /// with its number of objects.
    pub(super) fn set_request_of_first_mismatch<'r>(
        &mut self,
        requests: impl Iterator<Item = (usize, &'r str)>,
    ) {
        let mismatch =
            self.first_mismatch.as_mut().filter(|mismatch| mismatch.request_id.is_none());
        let Some(Mismatch { object_index, request_id, .. }) = mismatch else { return };
        let mut end = 0;
        for (objects, request) in requests {
            end += objects;
            if *object_index < end {
                *request_id = Some(request.to_owned());
                return;
            }
        }
    }

    /// Whether an object had no effect for this reason.
    pub fn dropped_for(&self, reason: Dropped) -> bool {
        self.dropped.keys().any(|(_, dropped)| *dropped == reason)
    }

    pub fn without_rate(&mut self, currency: &str) {
        match self.without_rate.get_mut(currency) {
            Some(count) => *count += 1,
            None => _ = self.without_rate.insert(currency.to_owned(), 1),
        }
    }

    /// Updates the metrics.
    pub fn emit(self) {
        for kind in Kind::ALL {
            metrics::counter!("longshore_track_applied_total", "array" => kind.name())
                .increment(self.applied[kind as usize]);
        }
        for ((array, reason), count) in self.dropped {
            metrics::counter!(
                "longshore_track_dropped_total", "array" => array, "reason" => reason.name()
            )
            .increment(count);
        }
        metrics::counter!("longshore_track_users_created_total").increment(self.users_created);
        metrics::counter!("longshore_track_changes_ignored_total").increment(self.mismatches);
        if let Some(Mismatch { user, request_id, .. }) = self.first_mismatch {
            tracing::warn!(
                changes = self.mismatches,
                %user,
                request_id = request_id.as_deref().map(traces::without_trace),
                "changes of custom attributes ignored: they do not match the type of the stored \
                 values"
            );
        }
        metrics::counter!("longshore_track_activity_names_evicted_total")
            .increment(self.names_evicted);
        metrics::counter!("longshore_track_purchases_over_product_limit_total")
            .increment(self.unlisted);
        metrics::counter!("longshore_track_revenue_outside_windows_total")
            .increment(self.outside_windows);
        metrics::counter!("longshore_track_revenue_at_maximum_total")
            .increment(self.revenue_at_maximum);
        metrics::counter!("longshore_track_sends_triggered_total").increment(self.triggered);
        metrics::counter!("longshore_track_stale_triggers_total").increment(self.stale_triggers);
        for (currency, count) in self.without_rate {
            metrics::counter!("longshore_track_revenue_without_rate_total", "currency" => currency)
                .increment(count);
        }
    }
}

//! The counts of applying, reported once it is committed.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::super::Kind;
use super::products::Listed;
use crate::traces;

kit::named! {
    /// Why an object had no effect.
    #[derive(PartialOrd, Ord)]
    pub enum Dropped {
        /// Unknown identifier, and the object creates no user.
        UnknownUser = "unknown_user",
        /// The user was erased after the object was accepted.
        Erased = "erased",
        /// The profile would be too large.
        TooLarge = "too_large",
        /// An identifier is another user's, or of no use to the change.
        Conflict = "conflict",
    }
}

/// A change that did not match, for the log.
#[derive(Debug)]
struct Misfit {
    user: Uuid,
    /// The object's place among those that were applied together, until the request is known.
    at: usize,
    request_id: Option<String>,
}

/// The outcome of objects.
#[derive(Debug, Default)]
pub struct Tally {
    applied: [u64; Kind::ALL.len()],
    dropped: BTreeMap<(&'static str, Dropped), u64>,
    pub users_created: u64,
    /// Changes of custom attributes that did not fit their values.
    misfits: u64,
    /// The first of them.
    first_misfit: Option<Misfit>,
    /// Names of products and events that went since a user has too many.
    pub names_forgotten: u64,
    /// Purchases of products that are not listed.
    pub unlisted: u64,
    /// Purchases that lie within no conversion window.
    pub outside_windows: u64,
    /// Orders to send that purchases came to.
    pub triggered: u64,
    /// Starts of campaigns that purchases were too old for.
    pub stale_triggers: u64,
    /// The new state of the lists.
    pub listed: Vec<Listed>,
    /// Purchases in currencies that the workspace has no rate for.
    without_rate: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn apply(&mut self, kind: Kind) {
        self.applied[kind as usize] += 1;
    }

    pub(super) fn drop(&mut self, kind: Kind, why: Dropped) {
        *self.dropped.entry((kind.name(), why)).or_default() += 1;
    }

    /// Notes changes of one object that did not fit.
    pub(super) fn misfit(&mut self, changes: u64, at: usize, user: Uuid) {
        self.misfits += changes;
        self.first_misfit.get_or_insert(Misfit { user, at, request_id: None });
    }

    /// Notes which request the first misfit is of; `requests` are those of the objects that were
    /// applied together, each with how many it has.
    pub(super) fn name_request<'r>(&mut self, requests: impl Iterator<Item = (usize, &'r str)>) {
        let misfit = self.first_misfit.as_mut().filter(|misfit| misfit.request_id.is_none());
        let Some(Misfit { at, request_id, .. }) = misfit else { return };
        let mut end = 0;
        for (objects, request) in requests {
            end += objects;
            if *at < end {
                *request_id = Some(request.to_owned());
                return;
            }
        }
    }

    /// Whether an object had no effect for this reason.
    pub fn dropped_for(&self, why: Dropped) -> bool {
        self.dropped.keys().any(|(_, reason)| *reason == why)
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
        for ((array, why), count) in self.dropped {
            metrics::counter!(
                "longshore_track_dropped_total", "array" => array, "reason" => why.name()
            )
            .increment(count);
        }
        metrics::counter!("longshore_track_users_created_total").increment(self.users_created);
        metrics::counter!("longshore_track_changes_ignored_total").increment(self.misfits);
        if let Some(Misfit { user, request_id, .. }) = self.first_misfit {
            tracing::warn!(
                changes = self.misfits,
                %user,
                request_id = request_id.as_deref().map(traces::bare),
                "changes of custom attributes ignored: they do not match the type of the stored \
                 values"
            );
        }
        metrics::counter!("longshore_track_names_forgotten_total").increment(self.names_forgotten);
        metrics::counter!("longshore_track_products_unlisted_total").increment(self.unlisted);
        metrics::counter!("longshore_track_revenue_outside_windows_total")
            .increment(self.outside_windows);
        metrics::counter!("longshore_track_sends_triggered_total").increment(self.triggered);
        metrics::counter!("longshore_track_stale_triggers_total").increment(self.stale_triggers);
        for (currency, count) in self.without_rate {
            metrics::counter!("longshore_track_revenue_without_rate_total", "currency" => currency)
                .increment(count);
        }
    }
}

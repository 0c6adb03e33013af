//! Log lines with the reason why messages are not accepted: at most one per minute for each
//! dispatch and channel, however many messages have the reason.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use uuid::Uuid;

use super::message_rows::Settled;
use super::state::{Counts, RowState};
use crate::workspaces::Channel;

/// Between two lines about the same.
const EVERY: Duration = Duration::from_secs(60);

/// What is remembered before what is older than that is dropped.
const REMEMBERED: usize = 1_000;

type About = (Uuid, Channel, RowState);

/// A reason for each channel and state that an operator should know of.
pub(super) type Reasons = BTreeMap<(Channel, RowState), String>;

/// The reasons of messages that wait or failed, the last of each.
pub(super) fn reasons(settled: &[Settled]) -> Reasons {
    let mut reasons = Reasons::new();
    for one in settled.iter().rev() {
        if let (RowState::Waiting | RowState::Failed, Some(reason)) = (one.state, &one.reason) {
            reasons.entry((one.channel, one.state)).or_insert_with(|| reason.clone());
        }
    }
    reasons
}

/// The logged reasons, and the counts since then.
#[derive(Default)]
pub(super) struct Complaints {
    said: Mutex<HashMap<About, (Option<Instant>, i64)>>,
}

impl Complaints {
    /// Logs the errors of stored messages, unless it just did: then the next line counts them.
    pub fn say(&self, dispatch: Uuid, counts: &Counts, reasons: &Reasons) {
        for ((channel, state), reason) in reasons {
            let count = counts.by_channel.get(&(*channel, *state)).copied().unwrap_or(0);
            let about = (dispatch, *channel, *state);
            let Some(count) = self.due(about, count, Instant::now()) else { continue };
            let (dispatch, channel) = (dispatch.simple(), channel.name());
            match state {
                RowState::Waiting => {
                    tracing::warn!(%dispatch, channel, count, reason, "messages wait");
                }
                _ => tracing::warn!(%dispatch, channel, count, reason, "messages failed"),
            }
        }
    }

    /// Number of messages that the next log line covers; none if the last line is too recent.
    fn due(&self, about: About, count: i64, now: Instant) -> Option<i64> {
        if count == 0 {
            return None;
        }
        let mut said = self.said.lock();
        if said.len() >= REMEMBERED {
            let is_new = |at: Instant| now.saturating_duration_since(at) < EVERY;
            said.retain(|_, (at, _)| at.is_some_and(is_new));
        }
        let (at, unsaid) = said.entry(about).or_default();
        *unsaid += count;
        if at.is_some_and(|at| now.saturating_duration_since(at) < EVERY) {
            return None;
        }
        *at = Some(now);
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_complaints_are_logged_once_a_minute() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        let about = (Uuid::nil(), Channel::Email, RowState::Waiting);
        assert_eq!(complaints.due(about, 0, now), None);
        assert_eq!(complaints.due(about, 3, now), Some(3));
        assert_eq!(complaints.due(about, 2, later(1)), None);
        assert_eq!(complaints.due(about, 4, later(59)), None);
        assert_eq!(complaints.due(about, 1, later(60)), Some(7));
        assert_eq!(complaints.due(about, 1, later(120)), Some(1));
        for other in [
            (Uuid::nil(), Channel::Sms, RowState::Waiting),
            (Uuid::nil(), Channel::Email, RowState::Failed),
            (Uuid::max(), Channel::Email, RowState::Waiting),
        ] {
            assert_eq!(complaints.due(other, 1, later(120)), Some(1));
        }
    }

    #[test]
    fn the_last_reason_of_each_state_is_kept() {
        let one = |channel, state, why: &str| {
            Settled::ended(Uuid::nil(), channel, state, Some(why.to_owned()))
        };
        let settled = [
            one(Channel::Email, RowState::Waiting, "busy"),
            one(Channel::Email, RowState::Waiting, "away"),
            one(Channel::Email, RowState::Failed, "refused"),
            one(Channel::Sms, RowState::Unreachable, "no phone number"),
        ];
        let told = [
            ((Channel::Email, RowState::Waiting), "away".to_owned()),
            ((Channel::Email, RowState::Failed), "refused".to_owned()),
        ];
        assert_eq!(reasons(&settled), Reasons::from(told));
    }

    #[test]
    fn old_complaints_are_evicted() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        for number in 0..3 * REMEMBERED as u128 {
            let about = (Uuid::from_u128(number), Channel::Email, RowState::Waiting);
            let at = now + Duration::from_secs(number as u64);
            assert_eq!(complaints.due(about, 1, at), Some(1));
        }
        assert!(complaints.said.lock().len() <= REMEMBERED + 1);
    }
}

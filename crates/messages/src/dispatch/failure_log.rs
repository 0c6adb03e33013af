//! Logs why messages are not accepted: at most one line a minute for each dispatch, channel and
//! state, however many messages are affected.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use super::message_rows::Settled;
use super::state::{Counts, RowState};
use gateway::workspaces::Channel;
use kit::moment::Moment;

/// Minimum interval between two lines about the same.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// Number of entries above which those older than the interval are dropped.
const MAX_ENTRIES: usize = 1_000;

type FailureKey = (Uuid, Channel, RowState);

/// A reason for each channel and state, for the operator.
pub(super) type Reasons = BTreeMap<(Channel, RowState), String>;

/// The last reason of messages that wait, and of messages that failed.
pub(super) fn reasons(settled: &[Settled]) -> Reasons {
    let mut reasons = Reasons::new();
    for message in settled.iter().rev() {
        let (channel, state) = (message.channel, message.state);
        if let (RowState::Waiting | RowState::Failed, Some(reason)) = (state, &message.reason) {
            reasons.entry((channel, state)).or_insert_with(|| reason.clone());
        }
    }
    reasons
}

/// The logged reasons, and the counts since then.
#[derive(Default)]
pub(super) struct FailureLog {
    logged: Mutex<HashMap<FailureKey, (Option<Moment>, i64)>>,
}

impl FailureLog {
    /// Logs the reasons. If the last line is too recent, the next line counts these messages.
    pub fn log(&self, dispatch: Uuid, counts: &Counts, reasons: &Reasons) {
        for ((channel, state), reason) in reasons {
            let count = counts.by_channel.get(&(*channel, *state)).copied().unwrap_or(0);
            let key = (dispatch, *channel, *state);
            let Some(count) = self.count_to_log(key, count, Moment::now()) else { continue };
            let (dispatch, channel) = (dispatch.simple(), channel.name());
            match state {
                RowState::Waiting => {
                    tracing::warn!(%dispatch, channel, count, reason, "messages deferred");
                }
                _ => tracing::warn!(%dispatch, channel, count, reason, "messages failed"),
            }
        }
    }

    /// Number of messages that the next log line covers; none if the last line is too recent.
    fn count_to_log(&self, key: FailureKey, count: i64, now: Moment) -> Option<i64> {
        if count == 0 {
            return None;
        }
        let mut logged = self.logged.lock();
        if logged.len() >= MAX_ENTRIES {
            let is_new = |at: Moment| now.duration_since(at) < MIN_INTERVAL;
            logged.retain(|_, (at, _)| at.is_some_and(is_new));
        }
        let (at, unlogged) = logged.entry(key).or_default();
        *unlogged += count;
        if at.is_some_and(|at| now.duration_since(at) < MIN_INTERVAL) {
            return None;
        }
        *at = Some(now);
        Some(std::mem::take(unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_failures_are_logged_once_a_minute() {
        let (failure_log, now) = (FailureLog::default(), Moment::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        let key = (Uuid::nil(), Channel::Email, RowState::Waiting);
        assert_eq!(failure_log.count_to_log(key, 0, now), None);
        assert_eq!(failure_log.count_to_log(key, 3, now), Some(3));
        assert_eq!(failure_log.count_to_log(key, 2, later(1)), None);
        assert_eq!(failure_log.count_to_log(key, 4, later(59)), None);
        assert_eq!(failure_log.count_to_log(key, 1, later(60)), Some(7));
        assert_eq!(failure_log.count_to_log(key, 1, later(120)), Some(1));
        for other in [
            (Uuid::nil(), Channel::Sms, RowState::Waiting),
            (Uuid::nil(), Channel::Email, RowState::Failed),
            (Uuid::max(), Channel::Email, RowState::Waiting),
        ] {
            assert_eq!(failure_log.count_to_log(other, 1, later(120)), Some(1));
        }
    }

    #[test]
    fn the_last_reason_of_each_state_is_kept() {
        let message = |channel, state, why: &str| {
            Settled::ended(Uuid::nil(), channel, state, Some(why.to_owned()))
        };
        let settled = [
            message(Channel::Email, RowState::Waiting, "busy"),
            message(Channel::Email, RowState::Waiting, "away"),
            message(Channel::Email, RowState::Failed, "refused"),
            message(Channel::Sms, RowState::Unreachable, "no phone number"),
        ];
        let expected = [
            ((Channel::Email, RowState::Waiting), "away".to_owned()),
            ((Channel::Email, RowState::Failed), "refused".to_owned()),
        ];
        assert_eq!(reasons(&settled), Reasons::from(expected));
    }

    #[test]
    fn old_failures_are_evicted() {
        let (failure_log, now) = (FailureLog::default(), Moment::now());
        for number in 0..3 * MAX_ENTRIES as u128 {
            let key = (Uuid::from_u128(number), Channel::Email, RowState::Waiting);
            let at = now + Duration::from_secs(number as u64);
            assert_eq!(failure_log.count_to_log(key, 1, at), Some(1));
        }
        assert!(failure_log.logged.lock().len() <= MAX_ENTRIES + 1);
    }
}

//! Frequency capping: a maximum number of messages in a number of days (`frequency_capping` of the
//! workspace file).

use std::collections::HashMap;

use uuid::Uuid;

use super::message_rows::{self, PartContext};
use gateway::workspaces::Channel;
use gateway::workspaces::settings::CappingRule;
use people::users::service_id;
use store::{StoreError, Tx};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// How many messages users can still be sent.
pub(super) struct Allowance<'a> {
    rules: &'a [CappingRule],
    now: i64,
    /// Channel and time of the messages that each user was sent, as far back as the rules look.
    sent: HashMap<Uuid, Vec<(Channel, i64)>>,
}

impl<'a> Allowance<'a> {
    /// Loads the messages that users were sent. Locks the users until the end of the transaction,
    /// so that two concurrent sends cannot both use the last free message.
    pub async fn load(
        tx: &mut Tx,
        context: PartContext,
        rules: &'a [CappingRule],
        users: Vec<Uuid>,
        now: i64,
    ) -> Result<Self, StoreError> {
        let mut slices: Vec<i16> = users
            .iter()
            .filter_map(|id| service_id::bucket(id).map(service_id::slice_of))
            .collect();
        slices.sort_unstable();
        slices.dedup();
        message_rows::lock_capping(tx, context.workspace, &slices).await?;
        Self::read(tx, context, rules, &users, now).await
    }

    /// The same for a time in the past, without locks: later messages do not count.
    pub async fn at(
        tx: &mut Tx,
        context: PartContext,
        rules: &'a [CappingRule],
        user: Uuid,
        at: i64,
    ) -> Result<Self, StoreError> {
        let mut allowance = Self::read(tx, context, rules, &[user], at).await?;
        let all = allowance.sent.values_mut();
        all.for_each(|sent| sent.retain(|(_, sent_at)| *sent_at <= at));
        Ok(allowance)
    }

    async fn read(
        tx: &mut Tx,
        context: PartContext,
        rules: &'a [CappingRule],
        users: &[Uuid],
        now: i64,
    ) -> Result<Self, StoreError> {
        let days = rules.iter().map(|rule| rule.days).max().unwrap_or(0);
        let since = now.saturating_sub(i64::from(days) * DAY_MS);
        let sent = message_rows::sent_since(tx, context, users, since).await?;
        Ok(Self { rules, now, sent })
    }

    /// Whether a user can be sent a message by a channel. If so, counts the message.
    pub fn take(&mut self, user: Uuid, channel: Channel) -> bool {
        let sent = self.sent.entry(user).or_default();
        let is_allowed = self.rules.iter().all(|rule| {
            let applies_to =
                |channel: Channel| rule.channel.is_none_or(|limited| limited == channel);
            if !applies_to(channel) {
                return true;
            }
            let since = self.now.saturating_sub(i64::from(rule.days) * DAY_MS);
            let counts = |(channel, at): &&(Channel, i64)| *at > since && applies_to(*channel);
            (sent.iter().filter(counts).count() as u64) < u64::from(rule.messages)
        });
        if is_allowed {
            sent.push((channel, self.now));
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_by_channel_and_over_all() {
        let rule = |messages, days, channel| CappingRule { messages, days, channel };
        let rules = [rule(2, 7, Some(Channel::Email)), rule(3, 1, None)];
        let (user, now) = (Uuid::from_u128(1), 100 * DAY_MS);
        let sent = vec![
            (Channel::Email, now - 8 * DAY_MS),
            (Channel::Email, now - 6 * DAY_MS),
            (Channel::Sms, now - DAY_MS),
        ];
        let mut allowance = Allowance { rules: &rules, now, sent: HashMap::from([(user, sent)]) };
        assert!(allowance.take(user, Channel::Email));
        assert!(!allowance.take(user, Channel::Email));
        assert!(allowance.take(user, Channel::Sms) && allowance.take(user, Channel::Webhook));
        assert!(!allowance.take(user, Channel::Sms));
        assert!(allowance.take(Uuid::from_u128(2), Channel::Email));
    }
}

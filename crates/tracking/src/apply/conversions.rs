//! Decides which purchases count as revenue if a campaign or a Canvas declares a conversion window:
//! those within the window after the user was sent its message.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use uuid::Uuid;

use super::bulk::UserAction;
use super::campaign_rules::CampaignRules;
use super::user_set::UserSet;
use messages::dispatch;
use store::{StoreError, Tx};

/// The windows of users in which purchases count.
#[derive(Debug)]
pub(super) enum Windows {
    /// No window is declared: every purchase counts.
    Everything,
    ByUser(HashMap<Uuid, Vec<RangeInclusive<i64>>>),
}

impl Windows {
    /// Looks up the windows of the buyers.
    pub async fn look_up(
        tx: &mut Tx,
        workspace: i32,
        rules: &CampaignRules,
        actions: &[UserAction<'_>],
        user_set: &UserSet<'_>,
    ) -> Result<Self, StoreError> {
        let Some(longest) = rules.windows.values().max() else { return Ok(Self::Everything) };
        let purchases = actions
            .iter()
            .filter_map(|action| Some((user_set.service_id(action.user), action.purchase()?.time)));
        let (mut buyers, times): (Vec<Uuid>, Vec<i64>) = purchases.unzip();
        buyers.dedup();
        let Some(earliest) = times.into_iter().min() else {
            return Ok(Self::ByUser(HashMap::new()));
        };
        let since = earliest.saturating_sub(*longest);
        let mut windows: HashMap<Uuid, Vec<RangeInclusive<i64>>> = HashMap::new();
        for receipt in dispatch::receipts(tx, workspace, &buyers, since).await? {
            if let Some(window) = rules.windows.get(&receipt.campaign_id) {
                let end = receipt.sent_at.saturating_add(*window);
                windows.entry(receipt.service_id).or_default().push(receipt.sent_at..=end);
            }
        }
        Ok(Self::ByUser(windows))
    }

    /// Whether a purchase of a user at a time counts.
    pub fn contains(&self, user: Uuid, time: i64) -> bool {
        match self {
            Self::Everything => true,
            Self::ByUser(windows) => {
                let windows = windows.get(&user).map(Vec::as_slice).unwrap_or_default();
                windows.iter().any(|window| window.contains(&time))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_the_message() {
        let (ann, bob) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let windows = Windows::ByUser(HashMap::from([(ann, vec![10..=20, 50..=60])]));
        for (time, counts) in [(9, false), (10, true), (20, true), (21, false), (55, true)] {
            assert_eq!(windows.contains(ann, time), counts, "{time}");
            assert!(!windows.contains(bob, time) && Windows::Everything.contains(bob, time));
        }
    }
}

//! Counts of excluded users: the order selects them, but they get none or not all of its messages.
//! Updated in the transaction that advances the part, so that each user counts once.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::Serialize;

use store::from_row;

/// Number of exclusions by reason. If several reasons apply, the first one counts, in the order
/// here. Users of another wave are not excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Listed users who do not exist. If there are several waves, they are counted in the last one.
    pub unknown: i64,
    /// Users outside the segment or the audience.
    pub not_in_audience: i64,
    /// Users of the global control group who match the audience.
    pub control_group: i64,
    /// Users of the audience whose local time had passed when the send could start, so they never
    /// get its messages. 0 unless the send is at local times.
    pub too_late: i64,
    /// Messages to users whose subscription does not allow them.
    pub unsubscribed: i64,
    /// Messages that frequency capping does not allow.
    pub capped: i64,
}
from_row! { LeftOut { unknown, not_in_audience, control_group, too_late, unsubscribed, capped } }

/// Why a user is not a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exclusion {
    /// The user belongs to another wave.
    OtherWave,
    NotInAudience,
    ControlGroup,
    /// The user's local time had passed.
    TooLate,
}

impl LeftOut {
    /// The counts, each with its name.
    pub fn by_reason(&self) -> [(&'static str, i64); 6] {
        [
            ("unknown", self.unknown),
            ("not_in_audience", self.not_in_audience),
            ("control_group", self.control_group),
            ("too_late", self.too_late),
            ("unsubscribed", self.unsubscribed),
            ("capped", self.capped),
        ]
    }

    pub(super) fn add(&mut self, why: Exclusion) {
        match why {
            Exclusion::OtherWave => {}
            Exclusion::NotInAudience => self.not_in_audience += 1,
            Exclusion::ControlGroup => self.control_group += 1,
            Exclusion::TooLate => self.too_late += 1,
        }
    }

    /// Updates metrics, after the commit.
    pub(super) fn emit(&self) {
        for (reason, count) in self.by_reason().into_iter().filter(|(_, count)| *count > 0) {
            metrics::counter!("longshore_dispatch_excluded_total", "reason" => reason)
                .increment(count.unsigned_abs());
        }
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.unknown += other.unknown;
        self.not_in_audience += other.not_in_audience;
        self.control_group += other.control_group;
        self.too_late += other.too_late;
        self.unsubscribed += other.unsubscribed;
        self.capped += other.capped;
    }
}

//! Who is left out of a dispatch, counted: those whom the order means at first and who get none of
//! its messages, or not all of them. In the transaction that moves the part on past them, so that
//! each counts once.

use std::ops::AddAssign;

use serde::Serialize;

use store::from_row;

/// How many were left out for what. Of those whom several things keep out the first one counts, in
/// the order that is here. Who is in another wave is not left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Users who are named and are not there; in the last wave, where there are several.
    pub unknown: i64,
    /// Users outside the segment or the audience.
    pub not_in_audience: i64,
    /// Users of the global control group, who would be in the audience.
    pub control_group: i64,
    /// Messages to users whose subscription does not let them pass.
    pub unsubscribed: i64,
    /// Messages that frequency capping keeps back.
    pub capped: i64,
}
from_row! { LeftOut { unknown, not_in_audience, control_group, unsubscribed, capped } }

/// Why a user is not meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotMeant {
    /// Another wave is theirs.
    OtherWave,
    NotInAudience,
    ControlGroup,
}

impl LeftOut {
    /// What is counted, by its name.
    pub fn by_reason(&self) -> [(&'static str, i64); 5] {
        [
            ("unknown", self.unknown),
            ("not_in_audience", self.not_in_audience),
            ("control_group", self.control_group),
            ("unsubscribed", self.unsubscribed),
            ("capped", self.capped),
        ]
    }

    pub(super) fn add(&mut self, why: NotMeant) {
        match why {
            NotMeant::OtherWave => {}
            NotMeant::NotInAudience => self.not_in_audience += 1,
            NotMeant::ControlGroup => self.control_group += 1,
        }
    }

    /// Tells metrics, once all is committed.
    pub(super) fn emit(&self) {
        for (reason, count) in self.by_reason().into_iter().filter(|(_, count)| *count > 0) {
            metrics::counter!("longshore_dispatch_left_out_total", "reason" => reason)
                .increment(count.unsigned_abs());
        }
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.unknown += other.unknown;
        self.not_in_audience += other.not_in_audience;
        self.control_group += other.control_group;
        self.unsubscribed += other.unsubscribed;
        self.capped += other.capped;
    }
}

//! A time in its zone, for the whole calendar: a timestamp of `jiff` lacks its first and last day.

use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

#[derive(Clone, Debug)]
pub(super) struct Moment {
    since_epoch: SignedDuration,
    /// In the zone.
    local: DateTime,
    offset: Offset,
    zone: TimeZone,
}

impl Moment {
    /// None if the calendar of the zone lacks the time.
    pub fn new(since_epoch: SignedDuration, zone: TimeZone) -> Option<Self> {
        let offset = zone.to_offset(nearest(since_epoch));
        let local = since_epoch.checked_add(duration(offset))?;
        let local = EPOCH.checked_add(local).ok()?;
        Some(Self { since_epoch, local, offset, zone })
    }

    /// A local time with that offset, in a zone that can have another one.
    pub fn from_local(local: DateTime, offset: Offset, zone: TimeZone) -> Option<Self> {
        Self::new(local.duration_since(EPOCH).checked_sub(duration(offset))?, zone)
    }

    pub fn in_zone(&self, zone: TimeZone) -> Option<Self> {
        Self::new(self.since_epoch, zone)
    }

    pub fn date(&self) -> Date {
        self.local.date()
    }

    pub fn since_epoch(&self) -> SignedDuration {
        self.since_epoch
    }

    /// The abbreviation of the zone; an offset has none.
    pub fn zone_name(&self) -> String {
        if self.zone != TimeZone::UTC && self.zone.iana_name().is_none() {
            return String::new();
        }
        self.zone.to_offset_info(nearest(self.since_epoch)).abbreviation().to_owned()
    }

    /// Formats the time; none if the format needs more than the local time and its offset.
    pub fn format(&self, format: &str) -> Option<String> {
        let mut parts = BrokenDownTime::from(self.local);
        parts.set_offset(Some(self.offset));
        parts.to_string(format).ok()
    }
}

/// The timestamp that is nearest to a time.
fn nearest(since_epoch: SignedDuration) -> Timestamp {
    let end = if since_epoch.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_duration(since_epoch).unwrap_or(end)
}

fn duration(offset: Offset) -> SignedDuration {
    SignedDuration::from_secs(offset.seconds().into())
}

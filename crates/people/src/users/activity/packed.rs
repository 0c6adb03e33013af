//! The packed form of activity.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};

use super::{Activity, ActivityError, DAY_MS, MAX_DAY, Series, Tally};

const VERSION: u8 = 1;

impl<'a> Activity<'a> {
    /// The packed form.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(&(VERSION, self)).expect("writing to a vector cannot fail")
    }

    /// Fails if the packed form has a version that this program does not know.
    pub fn is_known(bytes: &[u8]) -> Result<(), ActivityError> {
        match bytes.first() {
            Some(&version) if version != VERSION => Err(ActivityError::Version(version)),
            _ => Ok(()),
        }
    }

    /// Reads the packed form. Allocates no more than a small multiple of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ActivityError> {
        let packed: Packed<'a> = match bytes.split_first() {
            None => return Err(ActivityError::Damaged("it is empty")),
            Some((&VERSION, packed)) => match postcard::take_from_bytes(packed) {
                Ok((packed, [])) => packed,
                Ok(_) => return Err(ActivityError::Damaged("data after its end")),
                Err(_) => return Err(ActivityError::Damaged("it cannot be decoded")),
            },
            Some((&version, _)) => return Err(ActivityError::Version(version)),
        };
        if !packed.revenue.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(ActivityError::Damaged("currencies are out of order"));
        }
        Ok(Self {
            purchases: unpack(packed.purchases)?,
            events: unpack(packed.events)?,
            revenue: packed
                .revenue
                .into_iter()
                .map(|(currency, millionths)| (Cow::Borrowed(currency), millionths))
                .collect(),
        })
    }
}

/// Version 1 of the packing.
#[derive(Deserialize)]
struct Packed<'a> {
    #[serde(borrow)]
    purchases: Vec<PackedSeries<'a>>,
    #[serde(borrow)]
    events: Vec<PackedSeries<'a>>,
    #[serde(borrow)]
    revenue: Vec<(&'a str, i64)>,
}

#[derive(Deserialize)]
struct PackedSeries<'a> {
    name: &'a str,
    days: Vec<PackedDay>,
    #[serde(borrow)]
    properties: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct PackedDay {
    /// Days since the day before in the list; since the epoch for the first one.
    distance: i32,
    /// Milliseconds from the day's start to the first moment, and from there to the last.
    first: u32,
    span: u32,
    count: u64,
}

/// Writes days as [`PackedDay`]s.
pub(super) fn pack_days<S: Serializer>(days: &[Tally], serializer: S) -> Result<S::Ok, S::Error> {
    let mut before = 0;
    serializer.collect_seq(days.iter().map(|tally| {
        let day = tally.day();
        let packed = PackedDay {
            // These fit: days lie within MAX_DAY, moments within a day.
            distance: (day - before) as i32,
            first: (tally.first - day * DAY_MS) as u32,
            span: (tally.last - tally.first) as u32,
            count: tally.count,
        };
        before = day;
        packed
    }))
}

fn unpack<'a>(packed: Vec<PackedSeries<'a>>) -> Result<Vec<Series<'a>>, ActivityError> {
    let mut all: Vec<Series<'a>> = Vec::with_capacity(packed.len());
    for PackedSeries { name, days, properties } in packed {
        if all.last().is_some_and(|before| before.name.as_ref() >= name) {
            return Err(ActivityError::Damaged("names are out of order"));
        }
        let properties = properties.map(Cow::Borrowed);
        all.push(Series { name: Cow::Borrowed(name), days: unpack_days(days)?, properties });
    }
    Ok(all)
}

/// Both types have the same size, so that the days stay where they were decoded.
fn unpack_days(packed: Vec<PackedDay>) -> Result<Vec<Tally>, ActivityError> {
    if packed.is_empty() {
        return Err(ActivityError::Damaged("a name has no day"));
    }
    let mut day: i32 = 0;
    let days = packed.into_iter().enumerate().map(|(index, packed)| {
        if index > 0 && packed.distance <= 0 {
            return Err(ActivityError::Damaged("days are out of order"));
        }
        day = day
            .checked_add(packed.distance)
            .filter(|day| (-MAX_DAY..=MAX_DAY).contains(day))
            .ok_or(ActivityError::Damaged("a day is not a date"))?;
        let end = i64::from(packed.first) + i64::from(packed.span);
        if end >= DAY_MS || packed.count == 0 {
            return Err(ActivityError::Damaged("a day is impossible"));
        }
        let start = i64::from(day) * DAY_MS;
        Ok(Tally { first: start + i64::from(packed.first), last: start + end, count: packed.count })
    });
    days.collect()
}

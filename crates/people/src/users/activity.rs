//! The activity of a user: purchases and custom events by name and UTC day, and revenue by
//! currency.
//!
//! Each user has one packed row. Its first byte is the version of the packing; the rest is written
//! by `postcard`: for each name its days, each as the distance from the day before, the first
//! moment within the day, and the span to the last one. Days are kept for [`KEPT_DAYS`], revenue
//! forever. For each name, the properties of the latest purchase or event are kept, up to
//! [`MAX_PROPERTIES`]. If the names exceed [`MAX_BYTES`], those that occurred longest ago are
//! removed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::civil::{Date, date};
use serde::{Deserialize, Serialize, Serializer};

use kit::clock;
use kit::retry::Retry;

/// UTC days of purchases and events in a record, including the day on which it is created
/// (docs/reference/api/user-record.md).
pub const WINDOW_DAYS: i64 = 90;

/// Number of days for which activity is kept: [`WINDOW_DAYS`], and some more for exports in
/// progress and for clocks that differ.
pub const KEPT_DAYS: i32 = 100;

/// Maximum bytes of properties of a user: enough for the largest nested ones, and little enough to
/// read and write with the rest. The latest ones that fit are kept.
pub const MAX_PROPERTIES: usize = 64 << 10;

/// Maximum bytes of the purchases and events of a user, with [`DAY_BYTES`] for each day of a name.
/// No person reaches it; it limits an id that many people share.
pub const MAX_BYTES: usize = 2 << 20;

/// Maximum bytes of a packed day of a name: a number of 64 bits, and three of 32.
const DAY_BYTES: usize = 10 + 3 * 5;

const VERSION: u8 = 1;
const DAY_MS: i64 = 86_400_000;
/// Days since the epoch after which there are no calendar dates.
const MAX_DAY: i32 = 3_000_000;

/// Why packed activity cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    #[error(
        "packed activity has version {0}, which this version does not support: it waits for a \
         newer longshore"
    )]
    Version(u8),
    #[error("packed activity is damaged: {0}")]
    Damaged(&'static str),
}

impl Retry for ActivityError {
    fn can_retry(&self) -> bool {
        self.needs_newer_version()
    }

    fn needs_newer_version(&self) -> bool {
        matches!(self, Self::Version(_))
    }
}

/// The activity of a user. When decoded, it borrows the names from the bytes, because copies of
/// them would be most of the memory that a worker allocates. Its fields and those of its series are
/// serialized in the order in which [`Packed`] reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity<'a> {
    purchases: Vec<Series<'a>>,
    events: Vec<Series<'a>>,
    /// Ascending by currency; millionths.
    revenue: Vec<(Cow<'a, str>, i64)>,
}

/// The days of one name, ascending, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Series<'a> {
    name: Cow<'a, str>,
    #[serde(serialize_with = "pack_days")]
    days: Vec<Tally>,
    /// The properties of the latest occurrence, a JSON object; none if it had none.
    properties: Option<Cow<'a, str>>,
}

/// The occurrences on one UTC day: `first` and `last` are on the same day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    /// Milliseconds since the epoch.
    first: i64,
    last: i64,
    count: u64,
}

/// The occurrences of one name in a window of days: as JSON, an entry of `purchases` or
/// `custom_events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary<'a> {
    pub name: &'a str,
    /// Milliseconds since the epoch.
    #[serde(serialize_with = "clock::serialize_time")]
    pub first: i64,
    #[serde(serialize_with = "clock::serialize_time")]
    pub last: i64,
    pub count: u64,
}

/// Revenue in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revenue<'a> {
    /// Millionths of the requested currency.
    pub millionths: i64,
    /// Currencies without a known exchange rate: kept, but not included in the sum.
    pub uncounted: Vec<&'a str>,
}

impl<'a> Activity<'a> {
    pub fn is_empty(&self) -> bool {
        self.purchases.is_empty() && self.events.is_empty() && self.revenue.is_empty()
    }

    /// Counts `count` purchases of `name` at `at` (milliseconds since the epoch), and keeps their
    /// properties, a JSON object, if no purchase was later. A time outside of the calendar counts
    /// at the nearest time within it.
    pub fn record_purchase(&mut self, name: &str, at: i64, count: u64, properties: Option<&str>) {
        record(&mut self.purchases, name, at, count, properties);
    }

    /// Counts `count` custom events `name` at `at`.
    pub fn record_event(&mut self, name: &str, at: i64, count: u64, properties: Option<&str>) {
        record(&mut self.events, name, at, count, properties);
    }

    /// Adds `millionths` (not negative) of `currency`, and returns whether the sum fits; one that
    /// does not stays at the maximum.
    pub fn record_revenue(&mut self, currency: &str, millionths: i64) -> bool {
        match self.revenue.binary_search_by(|(c, _)| c.as_ref().cmp(currency)) {
            Ok(index) => {
                let (_, sum) = &mut self.revenue[index];
                let new = sum.checked_add(millionths);
                *sum = new.unwrap_or(i64::MAX);
                new.is_some()
            }
            Err(index) => {
                self.revenue.insert(index, (Cow::Owned(currency.to_owned()), millionths));
                true
            }
        }
    }

    /// Adds another user's activity to this one's.
    pub fn absorb(&mut self, other: &Activity<'_>) {
        absorb(&mut self.purchases, &other.purchases);
        absorb(&mut self.events, &other.events);
        for (currency, sum) in other.revenue() {
            self.record_revenue(currency, sum);
        }
    }

    /// Deletes the days that have expired on `today`, and expired properties; returns whether there
    /// were any.
    pub fn prune(&mut self, today: Date) -> bool {
        let oldest = day_number(today) - i64::from(KEPT_DAYS) + 1;
        let mut has_expired = self.prune_properties();
        for all in [&mut self.purchases, &mut self.events] {
            if all.iter().any(|series| series.days.iter().any(|tally| tally.day() < oldest)) {
                has_expired = true;
                all.retain_mut(|series| {
                    series.days.retain(|tally| tally.day() >= oldest);
                    !series.days.is_empty()
                });
            }
        }
        has_expired
    }

    /// Deletes the names that occurred longest ago, above [`MAX_BYTES`]; returns how many.
    pub fn prune_names(&mut self) -> u64 {
        let all = self.purchases.iter().chain(&self.events);
        let mut bytes: usize = all.map(Series::max_bytes).sum();
        if bytes <= MAX_BYTES {
            return 0;
        }
        let mut all: Vec<&mut Series<'_>> =
            self.purchases.iter_mut().chain(&mut self.events).collect();
        all.sort_by_key(|series| series.last());
        let mut removed = 0;
        for series in all {
            if bytes <= MAX_BYTES {
                break;
            }
            bytes -= series.max_bytes();
            series.days.clear();
            removed += 1;
        }
        for all in [&mut self.purchases, &mut self.events] {
            all.retain(|series| !series.days.is_empty());
        }
        removed
    }

    fn prune_properties(&mut self) -> bool {
        let all = || self.purchases.iter().chain(&self.events);
        let bytes = |series: &Series<'_>| series.properties.as_ref().map_or(0, |p| p.len());
        if all().map(bytes).sum::<usize>() <= MAX_PROPERTIES {
            return false;
        }
        let mut latest_first: Vec<&mut Series<'_>> =
            self.purchases.iter_mut().chain(&mut self.events).collect();
        latest_first.sort_by_key(|series| std::cmp::Reverse(series.last()));
        let mut total = 0;
        for series in latest_first {
            let with_series = total + bytes(series);
            if with_series <= MAX_PROPERTIES {
                total = with_series;
            } else {
                series.properties = None;
            }
        }
        true
    }

    /// The time of the latest purchase of a product, and its properties, a JSON object.
    pub fn purchase_properties(&self, product: &str) -> Option<(i64, &str)> {
        properties(&self.purchases, product)
    }

    /// The properties of every product whose latest purchase had some, ascending by product.
    pub fn all_purchase_properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.purchases
            .iter()
            .filter_map(|series| Some((series.name.as_ref(), series.properties.as_deref()?)))
    }

    /// The time and the properties of the latest custom event of a name.
    pub fn event_properties(&self, name: &str) -> Option<(i64, &str)> {
        properties(&self.events, name)
    }

    /// Purchases from `first_day` to `last_day` (both included), ascending by name; names without
    /// purchases on these days are absent.
    pub fn purchases(&self, first_day: Date, last_day: Date) -> impl Iterator<Item = Summary<'_>> {
        window(&self.purchases, first_day, last_day)
    }

    /// Custom events from `first_day` to `last_day`, in the same form.
    pub fn events(&self, first_day: Date, last_day: Date) -> impl Iterator<Item = Summary<'_>> {
        window(&self.events, first_day, last_day)
    }

    /// The times of all known occurrences: for each name, the first and the last of each day.
    pub fn moments(&self) -> impl Iterator<Item = i64> {
        let days = self.purchases.iter().chain(&self.events).flat_map(|series| &series.days);
        days.flat_map(|day| [Some(day.first), (day.last != day.first).then_some(day.last)])
            .flatten()
    }

    /// Revenue by currency in millionths, ascending by currency.
    pub fn revenue(&self) -> impl Iterator<Item = (&str, i64)> {
        self.revenue.iter().map(|(currency, millionths)| (currency.as_ref(), *millionths))
    }

    pub fn has_revenue(&self) -> bool {
        !self.revenue.is_empty()
    }

    /// The sum of all revenue in `currency`; `rates` has the value of other currencies in
    /// millionths. None without revenue. Rounded once, half to even.
    pub fn total_revenue(
        &self,
        currency: &str,
        rates: &BTreeMap<String, i64>,
    ) -> Option<Revenue<'_>> {
        if self.revenue.is_empty() {
            return None;
        }
        let mut uncounted = Vec::new();
        let mut sum: i128 = 0;
        for (other, millionths) in self.revenue() {
            match rates.get(other) {
                _ if other == currency => sum += i128::from(millionths) * 1_000_000,
                Some(rate) => sum += i128::from(millionths) * i128::from(*rate),
                None => uncounted.push(other),
            }
        }
        Some(Revenue { millionths: divide_half_even(sum, 1_000_000), uncounted })
    }

    /// The packed form.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![VERSION]).expect("writing to a vector cannot fail")
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

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Activity<'static> {
        let owned = |series: Vec<Series<'a>>| {
            let owned = |s: Series<'a>| Series {
                name: Cow::Owned(s.name.into()),
                days: s.days,
                properties: s.properties.map(|properties| Cow::Owned(properties.into())),
            };
            series.into_iter().map(owned).collect()
        };
        Activity {
            purchases: owned(self.purchases),
            events: owned(self.events),
            revenue: self.revenue.into_iter().map(|(c, m)| (Cow::Owned(c.into()), m)).collect(),
        }
    }
}

impl Tally {
    fn day(&self) -> i64 {
        self.first.div_euclid(DAY_MS)
    }

    fn merge(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.count = self.count.saturating_add(other.count);
    }
}

impl Series<'_> {
    /// An upper bound of its packed size.
    fn max_bytes(&self) -> usize {
        let properties = self.properties.as_ref().map_or(0, |properties| properties.len());
        self.name.len() + properties + self.days.len() * DAY_BYTES + 3 * 5
    }

    /// The time of the latest occurrence.
    fn last(&self) -> i64 {
        self.days.last().map_or(i64::MIN, |tally| tally.last)
    }
}

fn properties<'s>(all: &'s [Series<'_>], name: &str) -> Option<(i64, &'s str)> {
    let index = all.binary_search_by(|series| series.name.as_ref().cmp(name)).ok()?;
    Some((all[index].last(), all[index].properties.as_deref()?))
}

fn record(all: &mut Vec<Series<'_>>, name: &str, at: i64, count: u64, properties: Option<&str>) {
    if count == 0 {
        return;
    }
    let latest = (i64::from(MAX_DAY) + 1) * DAY_MS - 1;
    let at = at.clamp(-i64::from(MAX_DAY) * DAY_MS, latest);
    let tally = Tally { first: at, last: at, count };
    match all.binary_search_by(|series| series.name.as_ref().cmp(name)) {
        Err(index) => {
            let properties = properties.map(|properties| Cow::Owned(properties.to_owned()));
            let name = Cow::Owned(name.to_owned());
            all.insert(index, Series { name, days: vec![tally], properties });
        }
        Ok(index) => {
            let series = &mut all[index];
            if at >= series.last() {
                series.properties = properties.map(|properties| Cow::Owned(properties.to_owned()));
            }
            let days = &mut series.days;
            match days.binary_search_by_key(&tally.day(), Tally::day) {
                Ok(day) => days[day].merge(tally),
                Err(day) => days.insert(day, tally),
            }
        }
    }
}

fn absorb(all: &mut Vec<Series<'_>>, others: &[Series<'_>]) {
    for other in others {
        let Ok(index) = all.binary_search_by(|series| series.name.cmp(&other.name)) else {
            let index = all.partition_point(|series| series.name < other.name);
            let owned = |text: &Cow<'_, str>| Cow::Owned(text.as_ref().to_owned());
            let (name, properties) = (owned(&other.name), other.properties.as_ref().map(owned));
            all.insert(index, Series { name, days: other.days.clone(), properties });
            continue;
        };
        let series = &mut all[index];
        if other.last() > series.last() {
            series.properties =
                other.properties.as_ref().map(|p| Cow::Owned(p.as_ref().to_owned()));
        }
        for tally in &other.days {
            match series.days.binary_search_by_key(&tally.day(), Tally::day) {
                Ok(day) => series.days[day].merge(*tally),
                Err(day) => series.days.insert(day, *tally),
            }
        }
    }
}

fn window<'s>(
    all: &'s [Series<'_>],
    first_day: Date,
    last_day: Date,
) -> impl Iterator<Item = Summary<'s>> {
    let days = day_number(first_day)..=day_number(last_day);
    all.iter().filter_map(move |series| {
        let mut within = series.days.iter().filter(|tally| days.contains(&tally.day()));
        let mut sum = *within.next()?;
        within.for_each(|tally| sum.merge(*tally));
        Some(Summary { name: &series.name, first: sum.first, last: sum.last, count: sum.count })
    })
}

/// Days since the epoch.
fn day_number(day: Date) -> i64 {
    i64::from((day - date(1970, 1, 1)).get_days())
}

fn divide_half_even(dividend: i128, divisor: i128) -> i64 {
    let (quotient, rest) = (dividend.div_euclid(divisor), dividend.rem_euclid(divisor));
    let up = match (rest * 2).cmp(&divisor) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    let rounded = quotient + i128::from(up);
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
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
fn pack_days<S: Serializer>(days: &[Tally], serializer: S) -> Result<S::Ok, S::Error> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(activity: &Activity<'_>) -> Vec<(String, i64, i64, u64)> {
        let ever = (date(-9999, 1, 1), date(9999, 12, 31));
        activity
            .purchases(ever.0, ever.1)
            .chain(activity.events(ever.0, ever.1))
            .map(|s| (s.name.to_owned(), s.first, s.last, s.count))
            .collect()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Purchase(String, i64, u64),
        Event(String, i64, u64),
        Revenue(String, i64),
    }

    #[test]
    fn activity_of_another_user_is_added() {
        let record = |all: &[(&str, i64, &str)]| {
            let mut activity = Activity::default();
            for (name, at, properties) in all {
                activity.record_event(name, *at, 1, Some(properties));
                activity.record_revenue("EUR", 5);
            }
            activity
        };
        let (first, second) = ([("b", 9, "1"), ("c", 3, "2")], [("a", 1, "3"), ("b", 7, "4")]);
        let mut merged = record(&first);
        merged.absorb(&record(&second));
        let mut both = second.to_vec();
        both.extend(first);
        assert_eq!(merged, record(&both));
        merged.absorb(&Activity::default());
        assert_eq!(merged, record(&both));
    }

    fn step() -> impl Strategy<Value = Step> {
        let time = 1_600_000_000_000..1_620_000_000_000i64;
        prop_oneof![
            ("[a-cé]{0,2}", time.clone(), 0..5u64).prop_map(|(n, t, c)| Step::Purchase(n, t, c)),
            ("[a-c]{0,2}", time, 1..5u64).prop_map(|(n, t, c)| Step::Event(n, t, c)),
            ("EUR|USD|JPY", 0..i64::MAX).prop_map(|(c, m)| Step::Revenue(c, m)),
        ]
    }

    fn activity(steps: &[Step]) -> Activity<'static> {
        let mut activity = Activity::default();
        for step in steps {
            match step {
                Step::Purchase(name, at, count) => {
                    activity.record_purchase(name, *at, *count, None);
                }
                Step::Event(name, at, count) => activity.record_event(name, *at, *count, None),
                Step::Revenue(currency, m) => _ = activity.record_revenue(currency, *m),
            }
        }
        activity
    }

    proptest! {
        #[test]
        fn the_order_of_recording_does_not_matter(
            (steps, shuffled) in prop::collection::vec(step(), 0..40)
                .prop_flat_map(|steps| (Just(steps.clone()), Just(steps).prop_shuffle()))
        ) {
            prop_assert_eq!(activity(&steps), activity(&shuffled));
        }

        #[test]
        fn encoded_activity_is_decoded(steps in prop::collection::vec(step(), 0..40)) {
            let activity = activity(&steps);
            let bytes = activity.encode();
            prop_assert_eq!(Activity::decode(&bytes), Ok(activity));
        }

        #[test]
        fn any_bytes_are_read_or_rejected(
            steps in prop::collection::vec(step(), 0..10),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            tail in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = activity(&steps).encode();
            bytes.extend(&tail);
            for (index, byte) in flips {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            if let Ok(activity) = Activity::decode(&bytes) {
                let again = activity.encode();
                prop_assert_eq!(Activity::decode(&again), Ok(activity.clone()));
            }
        }

        #[test]
        fn windows_count_only_their_days(
            times in prop::collection::vec(1_600_000_000_000..1_620_000_000_000i64, 0..40),
            from in 0..300i64,
            days in 0..300i64,
        ) {
            let mut activity = Activity::default();
            times.iter().for_each(|at| activity.record_event("e", *at, 1, None));
            let first_day = date(2020, 8, 1) + jiff::Span::new().days(from);
            let last_day = first_day + jiff::Span::new().days(days);
            let day = |at: i64| kit::clock::utc_date(kit::clock::from_ms(at));
            let inside: Vec<i64> = times
                .iter()
                .copied()
                .filter(|at| (first_day..=last_day).contains(&day(*at)))
                .collect();
            let seen: Vec<_> = activity.events(first_day, last_day).collect();
            match (inside.iter().min(), inside.iter().max()) {
                (Some(&first), Some(&last)) => prop_assert_eq!(
                    seen,
                    [Summary { name: "e", first, last, count: inside.len() as u64 }]
                ),
                _ => prop_assert!(seen.is_empty()),
            }
        }
    }

    #[test]
    fn hostile_lengths_are_rejected() {
        // A list of 2^63 series, a name of 2^62 bytes.
        for hostile in [
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
            &[1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, b'a'][..],
            &[1, 1, 1, b'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
        ] {
            assert!(matches!(Activity::decode(hostile), Err(ActivityError::Damaged(_))));
        }
        assert!(Activity::decode(&[]).is_err());
        assert_eq!(Activity::decode(&[9, 0]), Err(ActivityError::Version(9)));
    }

    #[test]
    fn old_days_are_pruned_and_revenue_stays() {
        let today = date(2024, 5, 1);
        let noon = |days_ago: i64| (day_number(today) - days_ago) * DAY_MS + DAY_MS / 2;
        let mut activity = Activity::default();
        for days_ago in [0, 99, 100, 200] {
            activity.record_purchase("shoes", noon(days_ago), 1, None);
        }
        activity.record_event("seen", noon(100), 1, None);
        activity.record_revenue("EUR", 5);
        assert!(activity.prune(today));
        assert!(!activity.prune(today));
        assert_eq!(all(&activity), [("shoes".to_owned(), noon(99), noon(0), 2)]);
        assert_eq!(activity.revenue().collect::<Vec<_>>(), [("EUR", 5)]);
    }

    #[test]
    fn the_latest_properties_of_a_name_are_kept_up_to_a_limit() {
        let mut activity = Activity::default();
        activity.record_purchase("tea", 50, 1, Some("{\"n\":2}"));
        activity.record_purchase("tea", 49, 1, Some("{\"n\":1}"));
        activity.record_event("tea", 7, 1, Some("{}"));
        let bytes = activity.encode();
        let mut read = Activity::decode(&bytes).unwrap();
        assert_eq!(read, activity);
        assert_eq!(read.purchase_properties("tea"), Some((50, "{\"n\":2}")));
        assert_eq!(read.event_properties("tea"), Some((7, "{}")));
        assert_eq!(read.purchase_properties("milk"), None);
        // The latest had none.
        read.record_purchase("tea", 50, 1, None);
        assert_eq!(read.purchase_properties("tea"), None);

        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_PROPERTIES / 3));
        for (name, at) in [("b", 3), ("a", 2), ("c", 1)] {
            read.record_purchase(name, at, 1, Some(&large));
        }
        assert!(read.prune(date(1970, 1, 1)));
        assert!(!read.prune(date(1970, 1, 1)));
        let has_properties = |name| read.purchase_properties(name).is_some();
        assert_eq!(["a", "b", "c"].map(has_properties), [true, true, false]);
        assert_eq!(read.event_properties("tea"), Some((7, "{}")));
    }

    #[test]
    fn the_oldest_names_are_evicted() {
        let mut activity = Activity::default();
        activity.record_revenue("EUR", 5);
        for n in 0..20_000 {
            // The later half happened first.
            let at = DAY_MS * if n < 10_000 { 1 } else { 0 };
            activity.record_purchase(&format!("{n:0>50}"), at, 1, None);
            activity.record_event(&format!("{n:0>50}"), at + 1, 1, None);
        }
        let before = activity.clone();
        let removed = activity.prune_names();
        assert_eq!(activity.prune_names(), 0);
        let remaining = activity.purchases.len() + activity.events.len();
        assert_eq!(remaining + removed as usize, 40_000);
        // As many as there is room for, the latest ones.
        assert!((20_000..30_000).contains(&remaining), "{remaining}");
        assert!(activity.purchases.iter().zip(&before.purchases).take(10_000).all(|(a, b)| a == b));
        assert!(activity.events.iter().zip(&before.events).take(10_000).all(|(a, b)| a == b));
        let packed = activity.encode();
        assert!(packed.len() <= MAX_BYTES, "{}", packed.len());
        assert_eq!(Activity::decode(&packed).unwrap(), activity);
        assert_eq!(activity.revenue().collect::<Vec<_>>(), [("EUR", 5)]);
    }

    #[test]
    fn revenue_stays_at_its_maximum() {
        let mut activity = Activity::default();
        assert!(activity.record_revenue("EUR", i64::MAX - 1));
        assert!(activity.record_revenue("EUR", 1));
        assert!(!activity.record_revenue("EUR", 1) && activity.record_revenue("USD", 1));
        assert_eq!(activity.revenue().collect::<Vec<_>>(), [("EUR", i64::MAX), ("USD", 1)]);
    }

    #[test]
    fn revenue_is_summed_at_the_rates_known() {
        let rates = BTreeMap::from([("EUR".to_owned(), 1_080_000)]);
        assert_eq!(Activity::default().total_revenue("USD", &rates), None);
        let mut activity = Activity::default();
        for (currency, millionths) in [("USD", 2_000_000), ("EUR", 10_000_000), ("JPY", 7)] {
            activity.record_revenue(currency, millionths);
        }
        let total = Revenue { millionths: 12_800_000, uncounted: vec!["JPY"] };
        assert_eq!(activity.total_revenue("USD", &rates), Some(total));
        assert_eq!([5, 15, 25, -5].map(|n| divide_half_even(n, 10)), [0, 2, 2, 0]);
    }
}

//! The activity of a user: purchases and custom events by name and UTC day, and revenue by
//! currency.
//!
//! Each user has one packed row. Its first byte is the version of the packing; the rest is written
//! by `postcard`: for each name its days, each as the distance from the day before, the first
//! moment within the day, and the span to the last one. Days are kept for [`KEPT_DAYS`], revenue
//! forever. For each name, the properties of the latest purchase or event are kept, up to
//! [`MAX_PROPERTIES`]. If the names exceed [`MAX_BYTES`], those that occurred longest ago are
//! removed.

mod packed;
pub mod timeline;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::civil::{Date, date};
use serde::Serialize;

use self::packed::pack_days;
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
/// serialized in the order in which [`packed`] reads them.
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
        let oldest = oldest_day(today);
        let mut has_expired = self.prune_properties();
        for all in [&mut self.purchases, &mut self.events] {
            if all.iter().any(|series| series.has_day_before(oldest)) {
                has_expired = true;
                all.retain_mut(|series| {
                    series.days.retain(|tally| tally.day() >= oldest);
                    !series.days.is_empty()
                });
            }
        }
        has_expired
    }

    /// The same without what has expired on `today`; a copy only if something has.
    pub fn pruned(&self, today: Date) -> Cow<'_, Self> {
        let has_expired = self.property_bytes() > MAX_PROPERTIES || {
            let oldest = oldest_day(today);
            self.all().any(|series| series.has_day_before(oldest))
        };
        if !has_expired {
            return Cow::Borrowed(self);
        }
        let mut pruned = self.clone();
        pruned.prune(today);
        Cow::Owned(pruned)
    }

    /// Deletes the names that occurred longest ago, above [`MAX_BYTES`]; returns how many.
    pub fn prune_names(&mut self) -> u64 {
        let mut bytes: usize = self.all().map(Series::max_bytes).sum();
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
        if self.property_bytes() <= MAX_PROPERTIES {
            return false;
        }
        let mut latest_first: Vec<&mut Series<'_>> =
            self.purchases.iter_mut().chain(&mut self.events).collect();
        latest_first.sort_by_key(|series| std::cmp::Reverse(series.last()));
        let mut total = 0;
        for series in latest_first {
            let with_series = total + series.property_bytes();
            if with_series <= MAX_PROPERTIES {
                total = with_series;
            } else {
                series.properties = None;
            }
        }
        true
    }

    fn all(&self) -> impl Iterator<Item = &Series<'a>> {
        self.purchases.iter().chain(&self.events)
    }

    fn property_bytes(&self) -> usize {
        self.all().map(Series::property_bytes).sum()
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
        let days = self.all().flat_map(|series| &series.days);
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
        self.name.len() + self.property_bytes() + self.days.len() * DAY_BYTES + 3 * 5
    }

    fn property_bytes(&self) -> usize {
        self.properties.as_ref().map_or(0, |properties| properties.len())
    }

    fn has_day_before(&self, day: i64) -> bool {
        self.days.first().is_some_and(|tally| tally.day() < day)
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
            // An import adds two days.
            let mut days = Vec::with_capacity(2);
            days.push(tally);
            all.insert(index, Series { name, days, properties });
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

/// The first of the days that are kept on `today`, in days since the epoch.
fn oldest_day(today: Date) -> i64 {
    day_number(today) - i64::from(KEPT_DAYS) + 1
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

#[cfg(test)]
mod tests;

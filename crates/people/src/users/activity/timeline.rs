//! The activity of a user as a list, the latest first, in pages by key.

use std::cmp::Reverse;

use sha2::{Digest as _, Sha256};

use super::{Activity, Series};
use store::text_enum;

text_enum! {
    pub enum EntryKind {
        Purchase = "purchase",
        Event = "event",
        /// A session of an app, from the profile.
        Session = "session",
    }
}

/// The occurrences of one name on one UTC day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub kind: EntryKind,
    pub name: &'a str,
    /// Milliseconds since the epoch.
    pub first: i64,
    pub last: i64,
    pub count: u64,
}

/// The position of an entry: the time of its last occurrence, and a hash of the kind and the name.
/// An address must not have what a user bought.
pub type Key = (i64, u64);

impl Entry<'_> {
    pub fn key(&self) -> Key {
        let hash = Sha256::new().chain_update(self.kind.name()).chain_update([0]);
        let hash = hash.chain_update(self.name).finalize();
        let first = hash.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
        (self.last, first)
    }
}

impl Activity<'_> {
    /// Purchases and events, day by day, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let purchases = self.purchases.iter().map(|series| (EntryKind::Purchase, series));
        let events = self.events.iter().map(|series| (EntryKind::Event, series));
        purchases.chain(events).flat_map(|(kind, series)| series_entries(kind, series))
    }
}

fn series_entries<'s>(kind: EntryKind, series: &'s Series<'_>) -> impl Iterator<Item = Entry<'s>> {
    series.days.iter().map(move |day| Entry {
        kind,
        name: &series.name,
        first: day.first,
        last: day.last,
        count: day.count,
    })
}

/// The latest entries after a position, up to `limit`. Of a full activity, it sorts only those that
/// can be on the page.
pub fn page<'a>(
    entries: impl Iterator<Item = Entry<'a>>,
    after: Option<Key>,
    limit: usize,
) -> Vec<Entry<'a>> {
    let is_after = |entry: &Entry<'_>| match after {
        Some((last, _)) if entry.last != last => entry.last < last,
        Some(key) => entry.key() < key,
        None => true,
    };
    let mut found: Vec<Entry<'a>> = entries.filter(is_after).collect();
    if (1..found.len()).contains(&limit) {
        let (_, last, _) = found.select_nth_unstable_by_key(limit - 1, |entry| Reverse(entry.last));
        let oldest = last.last;
        found.retain(|entry| entry.last >= oldest);
    }
    found.sort_by_cached_key(|entry| Reverse(entry.key()));
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn pages_have_each_entry_once_the_latest_first() {
        let mut activity = Activity::default();
        for day in 0..5 {
            for name in ["a", "b", "c"] {
                // Several entries have the same time.
                activity.record_purchase(name, day * DAY_MS, 2, None);
                activity.record_event(name, day * DAY_MS + 1, 1, None);
            }
        }
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let entries = page(activity.entries(), after, 4);
            let Some(last) = entries.last() else { break };
            after = Some(last.key());
            found.extend(entries);
        }
        assert_eq!(found.len(), 30);
        assert!(found.is_sorted_by(|a, b| a.key() > b.key()));
        assert!(found.iter().all(|entry| entry.count == 1 + u64::from(entry.last % 2 == 0)));
        assert_eq!(page(activity.entries(), None, 0), []);
        assert_eq!(page(activity.entries(), None, 100).len(), 30);
    }
}

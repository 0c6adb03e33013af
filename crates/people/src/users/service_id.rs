//! `service_id`: a UUID of version 7 that contains its user's bucket.
//!
//! ```text
//! 48 bits milliseconds │ version 7 │ 12 bits counter │ variant │ 14 bits bucket │ 48 bits random
//! ```
//!
//! The id shows the slice of its user, and ids of one slice are in order of creation.

use parking_lot::Mutex;
use rand::RngExt as _;
use uuid::{Uuid, Variant};

use super::BUCKETS;
use store::StoreError;

/// Maximum number of ids in one millisecond.
const COUNTERS: u16 = 1 << 12;

/// The id of a user created at `ms` (milliseconds since the epoch) in `bucket`. `counter` (12 bits)
/// and `random` (48 bits) distinguish users of the same millisecond; further bits are dropped.
pub fn new(ms: i64, counter: u16, bucket: u16, random: u64) -> Uuid {
    let ms = ms.clamp(0, (1 << 48) - 1) as u128;
    let counter = u128::from(counter % COUNTERS);
    let bucket = u128::from(bucket & 0x3fff);
    let random = u128::from(random & 0xffff_ffff_ffff);
    Uuid::from_u128(ms << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | bucket << 48 | random)
}

/// The bucket, 0 to 9999; none if the layout differs.
pub fn bucket(id: &Uuid) -> Option<u16> {
    let bucket = (id.as_u128() >> 48) as u16 & 0x3fff;
    let ours = id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122;
    (ours && bucket < BUCKETS).then_some(bucket)
}

/// The slice of a bucket, which holds its users.
pub fn slice_of(bucket: u16) -> i16 {
    (bucket / 100) as i16
}

/// The moment of creation, in milliseconds since the epoch.
pub fn millis(id: &Uuid) -> i64 {
    (id.as_u128() >> 80) as i64
}

/// The counter within the millisecond, 12 bits.
pub fn counter(id: &Uuid) -> u16 {
    (id.as_u128() >> 64) as u16 % COUNTERS
}

/// Creates ascending ids, however the clock moves.
#[derive(Debug, Default)]
pub struct Generator {
    last: Mutex<(i64, u16)>,
}

impl Generator {
    /// The next id, for a user created at `now_ms`; slightly later if that millisecond is full or
    /// past.
    pub fn next(&self, now_ms: i64, bucket: u16) -> Uuid {
        let (ms, counter) = {
            let mut last = self.last.lock();
            *last = match *last {
                (ms, _) if ms < now_ms => (now_ms, 0),
                (ms, counter) if counter + 1 < COUNTERS => (ms, counter + 1),
                (ms, _) => (ms + 1, 0),
            };
            *last
        };
        new(ms, counter, bucket, rand::rng().random())
    }

    /// [`next`](Self::next) in a random bucket.
    pub fn next_anywhere(&self, now_ms: i64) -> Uuid {
        self.next(now_ms, rand::rng().random_range(0..BUCKETS))
    }
}

/// The slice of a stored user.
pub fn slice(id: &Uuid) -> Result<i16, StoreError> {
    bucket(id)
        .map(slice_of)
        .ok_or_else(|| StoreError::Corrupt(format!("{id} is not a Longshore service_id")))
}

/// Rows of users, each with the slice of its user.
pub fn with_slices<T>(rows: &[T], id: impl Fn(&T) -> &Uuid) -> Result<Vec<(i16, &T)>, StoreError> {
    rows.iter().map(|row| Ok((slice(id(row))?, row))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_survive_a_round_trip(
            ms in 0..1i64 << 48, count in 0..COUNTERS, number in 0..BUCKETS, random: u64,
        ) {
            let id = new(ms, count, number, random);
            prop_assert_eq!(millis(&id), ms);
            prop_assert_eq!(counter(&id), count);
            prop_assert_eq!(bucket(&id), Some(number));
            prop_assert_eq!(id.get_version_num(), 7);
        }

        #[test]
        fn any_id_is_looked_at_calmly(id: u128) {
            let id = Uuid::from_u128(id);
            prop_assert!(bucket(&id).is_none_or(|bucket| bucket < BUCKETS));
        }
    }

    #[test]
    fn other_layouts_have_no_bucket() {
        assert_eq!(bucket(&Uuid::nil()), None);
        assert_eq!(bucket(&Uuid::from_u128(new(1, 1, 1, 1).as_u128() ^ 1 << 78)), None);
        assert_eq!(bucket(&Uuid::from_u128(new(1, 1, 1, 1).as_u128() ^ 1 << 63)), None);
        assert_eq!(bucket(&new(1, 1, 10_000, 1)), None);
    }

    #[test]
    fn ids_always_ascend() {
        let generator = Generator::default();
        let mut ids: Vec<Uuid> = (0..10_000).map(|_| generator.next(1_000, 42)).collect();
        ids.push(generator.next(500, 42));
        ids.push(generator.next(2_000, 42));
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(ids.last().map(millis), Some(2_000));
    }
}

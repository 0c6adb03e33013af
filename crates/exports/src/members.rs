//! The users of a part of an audience's export, as the plan found them.
//!
//! A part is a range of users, in which those of the audience are the *members*. The plan writes
//! down either the members or the others, whichever are fewer, so that membership does not change
//! after the plan: 12 bytes for each.

use std::cmp::Ordering;

use uuid::Uuid;

use super::ExportError;
use people::users::service_id;
use store::StoreError;

/// The first byte of the stored form.
const VERSION: u8 = 1;

/// In a range of which at most this part are members, they are looked up one by one; in others the
/// whole range is read.
const SPARSE: usize = 4;

/// The members of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Whether `listed` are the members; otherwise they are the users of the range who are not.
    are_listed: bool,
    /// In order of position.
    listed: Vec<Uuid>,
    /// Users in the range.
    range_users: usize,
}

/// How a part finds its users.
#[derive(Debug)]
pub enum Selection {
    /// All users of the range.
    All,
    /// These users, in order of position.
    Only(Vec<Uuid>),
    /// The users of the range that pass.
    Filter(Filter),
}

impl Selection {
    /// The memory that it holds.
    pub fn bytes(&self) -> usize {
        let ids = match self {
            Self::All => 0,
            Self::Only(ids) => ids.len(),
            Self::Filter(filter) => filter.listed.len(),
        };
        ids * size_of::<Uuid>()
    }
}

/// Decides for each user of a range.
#[derive(Debug)]
pub struct Filter {
    are_members: bool,
    /// In order of position.
    listed: Vec<Uuid>,
}

impl Filter {
    /// Begins with the first user of the range.
    pub fn begin(&self) -> FilterCursor<'_> {
        FilterCursor { are_members: self.are_members, rest: &self.listed }
    }
}

/// Decides for the users of a range in order of position.
#[derive(Debug)]
pub struct FilterCursor<'f> {
    are_members: bool,
    /// Those that are not before the last user.
    rest: &'f [Uuid],
}

impl FilterCursor<'_> {
    pub fn passes(&mut self, user: &Uuid) -> bool {
        // Listed users who were erased after the plan are not read.
        while let Some((first, rest)) = self.rest.split_first()
            && by_position(first, user).is_lt()
        {
            self.rest = rest;
        }
        (self.rest.first() == Some(user)) == self.are_members
    }
}

/// The order of users in an export.
fn by_position(a: &Uuid, b: &Uuid) -> Ordering {
    let slice = |id| service_id::bucket(id).map(service_id::slice_of);
    slice(a).cmp(&slice(b)).then_with(|| a.cmp(b))
}

/// Collects the members of a range, user by user, in order.
#[derive(Debug)]
pub struct Collector {
    max_members: usize,
    members: Vec<Uuid>,
    /// Held only while they may be fewer than the members.
    others: Vec<Uuid>,
    range_users: usize,
}

impl Collector {
    /// For ranges of `max_members`.
    pub fn new(max_members: usize) -> Self {
        Self { max_members, members: Vec::new(), others: Vec::new(), range_users: 0 }
    }

    pub fn add(&mut self, user: Uuid, is_member: bool) {
        self.range_users += 1;
        if is_member {
            self.members.push(user);
        } else if self.others.len() < self.max_members {
            self.others.push(user);
        }
    }

    pub fn members(&self) -> usize {
        self.members.len()
    }

    pub fn is_full(&self) -> bool {
        self.members.len() >= self.max_members
    }

    /// The members of the users so far; the next ones start another range.
    pub fn take(&mut self) -> Members {
        let next = Self::new(self.max_members);
        let Self { members, others, range_users, .. } = std::mem::replace(self, next);
        let are_listed = members.len() <= others.len();
        Members { are_listed, listed: if are_listed { members } else { others }, range_users }
    }
}

impl Members {
    /// How to read them.
    pub fn selection(self) -> Selection {
        if !self.are_listed && self.listed.is_empty() {
            Selection::All
        } else if self.are_listed && self.listed.len() * SPARSE <= self.range_users {
            Selection::Only(self.listed)
        } else {
            Selection::Filter(Filter { are_members: self.are_listed, listed: self.listed })
        }
    }

    /// The stored form: version, kind, counts, and the difference of each id's upper half to the
    /// one before with the lower half.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 13 * self.listed.len());
        out.extend([VERSION, u8::from(self.are_listed)]);
        write_number(&mut out, self.range_users as u64);
        write_number(&mut out, self.listed.len() as u64);
        let mut before = 0;
        for id in &self.listed {
            let (upper, lower) = id.as_u64_pair();
            write_number(&mut out, upper.wrapping_sub(before));
            out.extend(lower.to_be_bytes());
            before = upper;
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, ExportError> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => read(rest).ok_or_else(|| {
                StoreError::Corrupt("the members of an export's part".into()).into()
            }),
            _ => Err(StoreError::Newer("the members of an export's part".into()).into()),
        }
    }
}

fn read(bytes: &[u8]) -> Option<Members> {
    let (kind, mut rest) = bytes.split_first()?;
    let range_users = usize::try_from(read_number(&mut rest)?).ok()?;
    let count = usize::try_from(read_number(&mut rest)?).ok()?;
    // Each id has at least nine bytes.
    if count > rest.len() / 9 {
        return None;
    }
    let mut listed = Vec::with_capacity(count);
    let mut upper = 0_u64;
    for _ in 0..count {
        upper = upper.wrapping_add(read_number(&mut rest)?);
        let lower;
        (lower, rest) = rest.split_first_chunk()?;
        listed.push(Uuid::from_u64_pair(upper, u64::from_be_bytes(*lower)));
    }
    let is_ascending = listed.is_sorted_by(|a, b| by_position(a, b).is_lt());
    let members = Members { are_listed: *kind == 1, listed, range_users };
    (rest.is_empty() && is_ascending).then_some(members)
}

/// Seven bits in each byte, the lowest first; the highest bit of a byte says that another follows.
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use people::users::BUCKETS;

    /// Users in order of position, and whether each is a member.
    fn users(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(Uuid, bool)>> {
        let id = (0..5_i64, 0..BUCKETS, any::<u64>())
            .prop_map(|(ms, bucket, random)| service_id::new(ms, 0, bucket, random));
        proptest::collection::vec((id, any::<bool>()), count).prop_map(|mut users| {
            users.sort_by(|(a, _), (b, _)| by_position(a, b));
            users.dedup_by_key(|(id, _)| *id);
            users
        })
    }

    fn collected(users: &[(Uuid, bool)]) -> Members {
        let mut collector = Collector::new(users.len());
        users.iter().for_each(|(user, is_member)| collector.add(*user, *is_member));
        collector.take()
    }

    fn selected(users: &[(Uuid, bool)]) -> Vec<Uuid> {
        match Members::decode(&collected(users).encode()).unwrap().selection() {
            Selection::All => users.iter().map(|(user, _)| *user).collect(),
            Selection::Only(listed) => listed,
            Selection::Filter(filter) => {
                let mut filter = filter.begin();
                users.iter().map(|(user, _)| *user).filter(|user| filter.passes(user)).collect()
            }
        }
    }

    proptest! {
        #[test]
        fn members_survive_a_round_trip(users in users(0..200)) {
            let members: Vec<Uuid> =
                users.iter().filter(|(_, is_member)| *is_member).map(|(user, _)| *user).collect();
            prop_assert_eq!(selected(&users), members);
        }

        /// Erased users are not read, whichever side is listed.
        #[test]
        fn a_filter_skips_erased_users(
            users in users(1..200),
            erased in proptest::collection::vec(any::<bool>(), 200),
        ) {
            let Members { are_listed, listed, .. } = collected(&users);
            let filter = Filter { are_members: are_listed, listed };
            let mut cursor = filter.begin();
            for ((user, is_member), is_erased) in users.iter().zip(erased) {
                if !is_erased {
                    prop_assert_eq!(cursor.passes(user), *is_member);
                }
            }
        }

        #[test]
        fn hostile_bytes_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Members::decode(&[&[VERSION], &bytes[..]].concat());
            prop_assert!(Members::decode(&bytes).is_err() || bytes[0] == VERSION);
        }
    }

    #[test]
    fn the_smaller_side_is_stored() {
        let users = |members: u128| -> Vec<(Uuid, bool)> {
            (0..1_000).map(|n| (service_id::new(n as i64, 0, 7, n as u64), n < members)).collect()
        };
        assert!(matches!(collected(&users(1_000)).selection(), Selection::All));
        assert!(matches!(collected(&users(250)).selection(), Selection::Only(_)));
        assert!(matches!(collected(&users(251)).selection(), Selection::Filter(_)));
        assert!(collected(&users(990)).encode().len() < 150);
        assert_eq!(selected(&users(990)).len(), 990);
    }
}

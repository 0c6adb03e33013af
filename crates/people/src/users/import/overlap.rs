//! Which batches may be written at the same time: those that have no user in common.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use uuid::Uuid;

use crate::users::address::compared;
use crate::users::profile::Alias;
use crate::users::record::Record;
use crate::users::rows::Kind;
use crate::users::tokens::TokenKey;

/// What identifies users, as hashes: equal hashes of different values only make a batch wait.
#[derive(Debug, Default)]
pub struct Identities(HashSet<u64, BuildHasherDefault<Unchanged>>);

/// The hash of a number that is a hash.
#[derive(Debug, Default)]
struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Identities {
    /// What the records say. It identifies every user that they can change.
    pub fn from_records(records: &[Record]) -> Self {
        /// Most records have at most this many.
        const PER_RECORD: usize = 3;
        let capacity = records.len() * PER_RECORD;
        let mut identities = Self(HashSet::with_capacity_and_hasher(capacity, Default::default()));
        for record in records {
            record.service_id.iter().for_each(|id| identities.add_id(*id));
            record.external_id.iter().for_each(|id| identities.add(Kind::ExternalId, id));
            record.aliases.iter().for_each(|alias| identities.add_alias(alias));
            record.email.iter().for_each(|email| identities.add_email(email));
            record.push_tokens.iter().for_each(|token| identities.add_token(token));
        }
        identities
    }

    pub fn add_id(&mut self, id: Uuid) {
        self.add_hash(&id);
    }

    pub fn add(&mut self, kind: Kind, value: &str) {
        self.add_hash(&(kind, value));
    }

    pub fn add_alias(&mut self, alias: &Alias) {
        self.add(Kind::Alias, &alias.key());
    }

    pub fn add_email(&mut self, email: &str) {
        self.add_hash(&("email", compared(email)));
    }

    pub fn add_token(&mut self, token: &TokenKey) {
        self.add_hash(token);
    }

    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether the two have one in common.
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    fn add_hash(&mut self, value: &impl Hash) {
        self.0.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(value));
    }
}

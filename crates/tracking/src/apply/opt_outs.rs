//! Email addresses whose users unsubscribed. They stay unsubscribed when another user gets the
//! address, or when the user who has it is not created yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use people::users::optout_rows;
use store::{StoreError, Tx};

/// The last decision of a batch about an address, and when it was received.
#[derive(Clone, Copy, Debug)]
enum Change {
    Unsubscribed(i64),
    Subscribed(i64),
}

/// The addresses of a batch, in the form in which emails are compared.
#[derive(Debug, Default)]
pub struct OptOuts {
    /// When they were unsubscribed, for those that are.
    known: HashMap<String, i64>,
    changed: BTreeMap<String, Change>,
    /// Those that a request unsubscribed by address.
    by_address: BTreeSet<String>,
}

impl OptOuts {
    pub async fn look_up(tx: &mut Tx, workspace: i32, emails: &[&str]) -> Result<Self, StoreError> {
        let known = optout_rows::find(tx, workspace, emails).await?;
        Ok(Self { known, ..Self::default() })
    }

    /// When the user of an address unsubscribed.
    pub fn unsubscribed_at(&self, email: &str) -> Option<i64> {
        self.known.get(email).copied()
    }

    pub fn unsubscribe(&mut self, email: &str, at: i64) {
        let known = self.known.entry(email.to_owned()).or_insert(at);
        *known = at.max(*known);
        self.changed.insert(email.to_owned(), Change::Unsubscribed(*known));
    }

    pub fn unsubscribe_by_address(&mut self, email: &str, at: i64) {
        self.unsubscribe(email, at);
        self.by_address.insert(email.to_owned());
    }

    pub fn subscribe(&mut self, email: &str, at: i64) {
        if self.unsubscribed_at(email).is_some_and(|known| known >= at) {
            return;
        }
        self.known.remove(email);
        self.changed.insert(email.to_owned(), Change::Subscribed(at));
    }

    /// Whether the batch knew of the state of an address, or changed it.
    pub fn is_known(&self, email: &str) -> bool {
        self.known.contains_key(email) || self.changed.contains_key(email)
    }

    pub fn unsubscribed(&self) -> Vec<&str> {
        let is_out = |change: &Change| matches!(change, Change::Unsubscribed(_));
        let changed = self.changed.iter().filter(|(_, change)| is_out(change));
        changed.map(|(email, _)| email.as_str()).collect()
    }

    pub fn decided_by_address(&self) -> Vec<&str> {
        self.by_address.iter().map(String::as_str).collect()
    }

    pub async fn write(&self, tx: &mut Tx, workspace: i32) -> Result<(), StoreError> {
        let (mut new, mut gone) = (Vec::new(), Vec::new());
        for (email, change) in &self.changed {
            match change {
                Change::Unsubscribed(at) => new.push((email.as_str(), *at)),
                Change::Subscribed(at) => gone.push((email.as_str(), *at)),
            }
        }
        optout_rows::remove(tx, workspace, &gone).await?;
        optout_rows::put(tx, workspace, &new).await
    }
}

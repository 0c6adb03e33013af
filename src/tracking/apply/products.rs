//! The products that a workspace lists: the first [`MOST`] that were bought (api.md, Limits).
//! A purchase of another one counts for its user all the same.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::rows;
use crate::store::{Store, StoreError};

/// Products that a workspace lists at most.
pub const MOST: usize = 5_000;

/// What this process knows of the lists, which only grow.
#[derive(Debug, Default)]
pub struct Products {
    known: Mutex<HashMap<i32, HashSet<Box<str>>>>,
}

impl Products {
    fn known(&self) -> MutexGuard<'_, HashMap<i32, HashSet<Box<str>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists what is bought, as far as there is room; answers how many of the purchases are
    /// of products that are not listed. Asks the store only about products that this process
    /// has not seen.
    pub async fn list<'a>(
        &self,
        store: &Store,
        workspace: i32,
        bought: impl Iterator<Item = &'a str>,
    ) -> Result<u64, StoreError> {
        let unknown = self.unknown(workspace, bought);
        if !unknown.is_empty() && !self.is_full(workspace) {
            let new: BTreeSet<&str> = unknown.iter().copied().collect();
            self.add(store, workspace, new).await?;
        }
        Ok(self.unknown(workspace, unknown.into_iter()).len() as u64)
    }

    fn unknown<'a>(&self, workspace: i32, bought: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        match self.known().get(&workspace) {
            Some(known) => bought.filter(|product| !known.contains(*product)).collect(),
            None => bought.collect(),
        }
    }

    fn is_full(&self, workspace: i32) -> bool {
        self.known().get(&workspace).is_some_and(|known| known.len() >= MOST)
    }

    async fn add(
        &self,
        store: &Store,
        workspace: i32,
        mut new: BTreeSet<&str>,
    ) -> Result<(), StoreError> {
        let mut tx = store.write().await?;
        rows::lock_products(&mut tx, workspace).await?;
        let listed = rows::products(&mut tx, workspace).await?;
        listed.iter().for_each(|product| _ = new.remove(product.as_str()));
        let room = MOST.saturating_sub(listed.len());
        let new: Vec<&str> = new.into_iter().take(room).collect();
        if !new.is_empty() {
            rows::add_products(&mut tx, workspace, &new).await?;
        }
        tx.commit().await?;
        let mut known = self.known();
        let known = known.entry(workspace).or_default();
        known.extend(listed.into_iter().map(String::into_boxed_str));
        known.extend(new.into_iter().map(Box::from));
        Ok(())
    }
}

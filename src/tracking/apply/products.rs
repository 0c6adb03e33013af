//! The products that a workspace lists: the first [`MOST`] that were bought.
//! A purchase of another one counts for its user all the same.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::rows;
use crate::store::{StoreError, Tx};

/// Products that a workspace lists at most.
pub const MOST: usize = 5_000;

/// What this process knows of the lists, which only grow.
#[derive(Debug, Default)]
pub struct Products {
    known: Mutex<HashMap<i32, HashSet<Box<str>>>>,
}

/// What became of purchases of a workspace.
#[derive(Debug, Default)]
pub struct Listed {
    workspace: i32,
    /// All that are listed now, where the store was asked.
    products: HashSet<Box<str>>,
    /// Purchases of products that are not listed.
    pub unlisted: u64,
}

impl Products {
    fn known(&self) -> MutexGuard<'_, HashMap<i32, HashSet<Box<str>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists what was bought, as far as there is room. Asks the store only about products that
    /// this process has not seen; whoever else lists any waits for the end of the transaction.
    pub async fn list<'a>(
        &self,
        tx: &mut Tx,
        workspace: i32,
        bought: impl Iterator<Item = &'a str>,
    ) -> Result<Listed, StoreError> {
        let unknown = self.unknown(workspace, bought);
        let mut listed = Listed { workspace, ..Listed::default() };
        if !unknown.is_empty() && !self.is_full(workspace) {
            listed.products = all_with(tx, workspace, unknown.iter().copied().collect()).await?;
        }
        let is_unlisted = |product: &&&str| !listed.products.contains(**product);
        listed.unlisted = unknown.iter().filter(is_unlisted).count() as u64;
        Ok(listed)
    }

    /// Takes note of what is listed, once that is committed.
    pub fn learn(&self, listed: Listed) {
        if !listed.products.is_empty() {
            self.known().entry(listed.workspace).or_default().extend(listed.products);
        }
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
}

/// The list of a workspace with what of `new` there was room for.
async fn all_with(
    tx: &mut Tx,
    workspace: i32,
    mut new: BTreeSet<&str>,
) -> Result<HashSet<Box<str>>, StoreError> {
    rows::lock_products(tx, workspace).await?;
    let listed = rows::products(tx, workspace).await?;
    listed.iter().for_each(|product| _ = new.remove(product.as_str()));
    let room = MOST.saturating_sub(listed.len());
    let new: Vec<&str> = new.into_iter().take(room).collect();
    if !new.is_empty() {
        rows::add_products(tx, workspace, &new).await?;
    }
    let listed = listed.into_iter().map(String::into_boxed_str);
    Ok(listed.chain(new.into_iter().map(Box::from)).collect())
}

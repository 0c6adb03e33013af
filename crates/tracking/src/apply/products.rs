//! The product list of a workspace: the first [`MAX`] products that were bought. Purchases of other
//! products still count for their users.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;

use super::rows;
use store::{StoreError, Tx};

/// Maximum number of products in the list of a workspace.
pub const MAX: usize = 5_000;

/// Maximum bytes of names in each of the two generations of [`Known`].
const MAX_BYTES: usize = 4 << 20;

/// Bytes of a name's entry in the map, in addition to its text.
const NAME_OVERHEAD: usize = 48;

/// This process's cache of the lists.
#[derive(Debug, Default)]
pub struct Products {
    known: Mutex<Known>,
}

/// Names of products, by workspace, and whether each is listed. A listed product stays listed, and
/// a product for which there was no room is never listed.
type Names = HashMap<i32, HashMap<Box<str>, bool>>;

/// The recently used names, in two generations: a new one starts when the current one is full, and
/// names that are not used in a whole generation are dropped.
#[derive(Debug, Default)]
struct Known {
    current: Names,
    former: Names,
    /// Bytes of the current names.
    bytes: usize,
}

impl Known {
    /// Whether a product is listed; none if that is unknown.
    fn is_listed(&mut self, workspace: i32, product: &str) -> Option<bool> {
        let find = |names: &Names| names.get(&workspace)?.get(product).copied();
        if let Some(is_listed) = find(&self.current) {
            return Some(is_listed);
        }
        let is_listed = find(&self.former)?;
        self.learn(workspace, product, is_listed);
        Some(is_listed)
    }

    fn learn(&mut self, workspace: i32, product: &str, is_listed: bool) {
        let names = self.current.entry(workspace).or_default();
        if names.insert(product.into(), is_listed).is_some() {
            return;
        }
        self.bytes += product.len() + NAME_OVERHEAD;
        if self.bytes >= MAX_BYTES {
            self.former = std::mem::take(&mut self.current);
            self.bytes = 0;
        }
    }
}

/// The outcome of purchases of a workspace.
#[derive(Debug, Default)]
pub struct Listed {
    workspace: i32,
    /// The products that were looked up in the store, and whether each is listed now.
    products: BTreeMap<Box<str>, bool>,
    /// Number of purchases of products that are not listed.
    pub unlisted: u64,
}

impl Products {
    /// Lists the bought products, as far as there is room. Queries the store only about products
    /// that this process has not seen recently; other writers wait for the end of the transaction.
    /// A commit that lists a product waits for the disk, so that every product that any process
    /// knows stays listed after a crash of the database.
    pub async fn list<'a>(
        &self,
        tx: &mut Tx,
        workspace: i32,
        bought: impl Iterator<Item = &'a str>,
    ) -> Result<Listed, StoreError> {
        let mut listed = Listed { workspace, ..Listed::default() };
        let unknown = self.unknown(&mut listed, bought);
        if !unknown.is_empty() {
            let products: BTreeSet<&str> = unknown.iter().copied().collect();
            listed.products = list_new(tx, workspace, products).await?;
        }
        let is_unlisted = |product: &&&str| listed.products.get(**product) == Some(&false);
        listed.unlisted += unknown.iter().filter(is_unlisted).count() as u64;
        Ok(listed)
    }

    /// Clears the cache: the database lost commits, and not only those that did not wait for the
    /// disk, if an asynchronous standby has replaced it.
    pub fn clear(&self) {
        *self.known.lock() = Known::default();
    }

    /// Updates the cache after the commit.
    pub fn learn(&self, Listed { workspace, products, .. }: Listed) {
        let mut known = self.known.lock();
        for (product, is_listed) in products {
            known.learn(workspace, &product, is_listed);
        }
    }

    /// The purchases whose products are unknown to the cache. Counts those of products that are
    /// known not to be listed.
    fn unknown<'a>(
        &self,
        listed: &mut Listed,
        bought: impl Iterator<Item = &'a str>,
    ) -> Vec<&'a str> {
        let mut known = self.known.lock();
        let mut unknown = Vec::new();
        for product in bought {
            match known.is_listed(listed.workspace, product) {
                None => unknown.push(product),
                Some(is_listed) => listed.unlisted += u64::from(!is_listed),
            }
        }
        unknown
    }
}

/// Adds products to the list, as far as there is room; returns for each whether it is listed now.
async fn list_new(
    tx: &mut Tx,
    workspace: i32,
    products: BTreeSet<&str>,
) -> Result<BTreeMap<Box<str>, bool>, StoreError> {
    let names: Vec<&str> = products.iter().copied().collect();
    let mut new = without(products, &rows::find_listed(tx, workspace, &names).await?);
    // A list never gets shorter, so a full one needs no lock.
    if !new.is_empty() && rows::count_products(tx, workspace).await? < MAX {
        rows::lock_products(tx, workspace).await?;
        // Other writers may have listed some before the lock was granted.
        let names: Vec<&str> = new.iter().copied().collect();
        new = without(new, &rows::find_listed(tx, workspace, &names).await?);
        let free = MAX.saturating_sub(rows::count_products(tx, workspace).await?);
        let added: Vec<&str> = new.iter().copied().take(free).collect();
        if !added.is_empty() {
            rows::add_products(tx, workspace, &added).await?;
            tx.commit_synchronously().await?;
        }
        new = new.into_iter().skip(free).collect();
    }
    Ok(names.into_iter().map(|name| (name.into(), !new.contains(name))).collect())
}

fn without<'a>(mut names: BTreeSet<&'a str>, listed: &[String]) -> BTreeSet<&'a str> {
    listed.iter().for_each(|name| _ = names.remove(name.as_str()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_products_are_bounded_over_all_workspaces() {
        let mut known = Known::default();
        let name = |number: usize| format!("{number:0200}");
        for workspace in 0..100 {
            for number in 0..MAX {
                known.learn(workspace, &name(number), number % 2 == 0);
            }
        }
        let names = known.current.values().chain(known.former.values());
        let bytes: usize = names.flat_map(|names| names.keys()).map(|name| name.len()).sum();
        assert!(bytes <= 2 * MAX_BYTES, "{bytes}");
        // The last names are still known.
        assert_eq!(known.is_listed(99, &name(MAX - 1)), Some(false));
        assert_eq!(known.is_listed(99, &name(MAX - 2)), Some(true));
        assert_eq!(known.is_listed(0, &name(0)), None);
    }

    #[test]
    fn products_in_use_stay_cached() {
        let mut known = Known::default();
        known.learn(1, "tea", true);
        for number in 0..300_000 {
            known.learn(2, &number.to_string(), false);
            assert_eq!(known.is_listed(1, "tea"), Some(true));
        }
    }
}

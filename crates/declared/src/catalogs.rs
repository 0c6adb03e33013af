//! Applies the catalogs of the workspace file.
//!
//! A file of items is checked completely before anything is changed. It is loaded if its hash has
//! changed since the last load: then each of its items replaces the stored one completely,
//! including edits. Until then edits stay, however often the workspace file is applied.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::mpsc;

use crate::document::DeclaredCatalog;
use crate::error::{ApplyError, DeclareError};
use crate::plan::{ChangeList, Declared, Entry, HasEntry, Steps, Target};
use content::catalogs::items::{self, Digest, ItemDocument};
use content::catalogs::rows::{self, StoredCatalog, StoredItem};
use content::catalogs::{Catalog, Field, Fields};
use kit::words::count;
use store::{StoreError, Tx};

/// Items of one page while fields are removed from them.
const PAGE: i64 = 1_000;

/// The files of items, by catalog.
pub type Files = BTreeMap<String, Digest>;

/// Checks every file of items, and changes nothing.
pub async fn read_files(declared: &[DeclaredCatalog]) -> Result<Files, DeclareError> {
    let mut files = Files::new();
    for catalog in declared.iter().filter(|catalog| catalog.items.is_some()) {
        let digest = read(catalog, |_| true).await?;
        files.insert(catalog.name.clone(), digest);
    }
    Ok(files)
}

/// Reads a catalog's file on a separate thread.
async fn read(
    catalog: &DeclaredCatalog,
    take: impl FnMut(Vec<ItemDocument>) -> bool + Send + 'static,
) -> Result<Digest, DeclareError> {
    let path = catalog.items.clone().unwrap_or_default();
    let fields = Fields::from(catalog.fields.clone());
    let read = tokio::task::spawn_blocking(move || items::read(&path, &fields, take)).await;
    let read = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    read.map_err(|error| DeclareError::Items { catalog: catalog.name.clone(), error })
}

impl HasEntry for DeclaredCatalog {
    fn entry(&self) -> Entry {
        Entry::new(&self.name, format!("catalog {}", self.name), items::in_words(&self.fields))
    }
}

impl HasEntry for StoredCatalog {
    fn entry(&self) -> Entry {
        Entry::new(
            &self.catalog.name,
            format!("catalog {}", self.catalog.name),
            count(self.items as u64, "item"),
        )
    }
}

impl DeclaredCatalog {
    /// The fields that the file no longer has.
    fn undeclared_fields(&self, stored: &Catalog) -> Vec<Field> {
        let is_undeclared = |field: &&Field| !self.fields.iter().any(|new| new.name == field.name);
        stored.fields.all().iter().filter(is_undeclared).cloned().collect()
    }

    /// Its fields after the change.
    fn fields_after(&self, stored: &Catalog, prune: bool) -> Vec<Field> {
        let undeclared = if prune { Vec::new() } else { self.undeclared_fields(stored) };
        self.fields.iter().cloned().chain(undeclared).collect()
    }
}

impl Declared for DeclaredCatalog {
    type Stored = StoredCatalog;

    fn difference(
        &self,
        stored: &StoredCatalog,
        list: &mut ChangeList,
    ) -> Result<Option<String>, ApplyError> {
        let StoredCatalog { catalog, items, .. } = stored;
        for field in &self.fields {
            if let Some(kind) = catalog.fields.kind(&field.name)
                && kind != field.kind
                && *items > 0
            {
                return Err(ApplyError::Catalogs(DeclareError::Type {
                    catalog: catalog.name.clone(),
                    field: field.name.clone(),
                    stored: kind.name(),
                    declared: field.kind.name(),
                }));
            }
        }
        if !list.prune {
            let note = |field: Field| {
                format!("field {} of catalog {} {}", field.name, catalog.name, Self::REMOVED_NOTE)
            };
            list.notes.extend(self.undeclared_fields(catalog).into_iter().map(note));
        }
        let after = self.fields_after(catalog, list.prune);
        Ok((after != catalog.fields.all()).then(|| items::in_words(&after)))
    }

    async fn put(
        &self,
        stored: Option<&StoredCatalog>,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        let Some(StoredCatalog { catalog, .. }) = stored else {
            rows::insert(target.tx, target.workspace, &self.name, &self.fields, target.now).await?;
            return Ok(());
        };
        rows::set_fields(target.tx, catalog.id, &self.fields_after(catalog, target.prune)).await?;
        let undeclared = self.undeclared_fields(catalog);
        if target.prune && !undeclared.is_empty() {
            let names: Vec<String> = undeclared.into_iter().map(|field| field.name).collect();
            remove_fields(target.tx, catalog.id, &names).await?;
        }
        Ok(())
    }

    async fn delete(stored: &StoredCatalog, target: &mut Target<'_>) -> Result<(), ApplyError> {
        Ok(rows::delete(target.tx, stored.catalog.id).await?)
    }
}

/// The file of a catalog's items.
#[derive(Clone)]
struct File {
    catalog: DeclaredCatalog,
    /// The expected content of the load.
    digest: Digest,
}

/// Stored items of a catalog.
#[derive(Clone)]
struct Loaded {
    stored: StoredCatalog,
    /// The number of these items.
    items: i64,
}

impl HasEntry for File {
    fn entry(&self) -> Entry {
        Entry::new(
            &self.catalog.name,
            format!("items of catalog {}", self.catalog.name),
            count(self.digest.items, "item"),
        )
    }
}

impl HasEntry for Loaded {
    fn entry(&self) -> Entry {
        Entry::new(
            &self.stored.key(),
            format!("items of catalog {}", self.stored.catalog.name),
            count(self.items as u64, "item"),
        )
    }
}

impl Declared for File {
    type Stored = Loaded;

    const REMOVED_NOTE: &str = "are no longer in the file: --prune removes them";

    fn difference(
        &self,
        loaded: &Loaded,
        _: &mut ChangeList,
    ) -> Result<Option<String>, ApplyError> {
        let is_loaded = loaded.stored.items_hash.as_deref() == Some(&self.digest.hash[..]);
        Ok((!is_loaded).then(|| self.detail()))
    }

    async fn put(&self, _: Option<&Loaded>, target: &mut Target<'_>) -> Result<(), ApplyError> {
        let name = &self.catalog.name;
        let names = rows::names(target.tx, target.workspace).await?;
        let id = names.into_iter().find(|(_, other)| other == name).map(|(id, _)| id);
        let id = id.ok_or_else(|| DeclareError::ChangedConcurrently(name.clone()))?;
        let load = rows::begin_load(target.tx, id, Some(&self.digest.hash)).await?;
        if target.tx.is_postgres() {
            rows::load_staged(target.tx, id, name, load).await?;
        } else {
            read_into(target.tx, LoadTarget::Catalog { id, load }, self).await?;
        }
        if target.prune {
            rows::delete_stale_items(target.tx, id).await?;
        }
        Ok(())
    }

    async fn delete(loaded: &Loaded, target: &mut Target<'_>) -> Result<(), ApplyError> {
        let id = loaded.stored.catalog.id;
        rows::begin_load(target.tx, id, None).await?;
        rows::delete_stale_items(target.tx, id).await?;
        Ok(())
    }
}

/// The changes of catalogs and their items.
pub(crate) struct CatalogSteps {
    catalogs: Steps<DeclaredCatalog>,
    files: Steps<File>,
    /// Catalogs that lose the items that were not in the last load.
    with_stale_items: Vec<i32>,
}

impl CatalogSteps {
    pub fn make(
        list: &mut ChangeList,
        declared: &[DeclaredCatalog],
        digests: &Files,
        stored: &[StoredCatalog],
    ) -> Result<Self, ApplyError> {
        let catalogs = list.compare(declared, stored)?;
        let file = |catalog: &DeclaredCatalog| {
            let digest = *digests.get(&catalog.name)?;
            Some(File { catalog: catalog.clone(), digest })
        };
        let files: Vec<File> = declared.iter().filter_map(file).collect();
        let mut with_stale_items = Vec::new();
        let mut loaded = Vec::new();
        for old in stored.iter().filter(|old| declared.iter().any(|new| new.name == old.key())) {
            let file = files.iter().find(|file| file.key() == old.key());
            // Items that were not loaded from a file count if the catalog declares no file.
            if old.items_hash.is_some() && file.is_some() || old.items > 0 && file.is_none() {
                loaded.push(Loaded { stored: old.clone(), items: old.items });
            }
            let hash = file.map(|file| &file.digest.hash[..]);
            if hash.is_some() && hash == old.items_hash.as_deref() && old.stale_items > 0 {
                let stale = Loaded { stored: old.clone(), items: old.stale_items };
                if list.prune {
                    list.prune_or_note(&stale, "");
                    with_stale_items.push(old.catalog.id);
                } else {
                    list.notes.push(format!(
                        "{} of catalog {} are no longer in its file: --prune removes them",
                        stale.detail(),
                        old.catalog.name
                    ));
                }
            }
        }
        Ok(Self { catalogs, files: list.compare(&files, &loaded)?, with_stale_items })
    }

    /// Applies the changes, in a transaction that has locked the workspace. Edits wait from the
    /// time when the files are read.
    pub async fn execute(&self, target: &mut Target<'_>) -> Result<(), ApplyError> {
        self.stage(target.tx).await?;
        let changed = self.catalogs.to_write.iter().filter_map(|(_, old)| old.as_ref());
        let catalogs = changed.chain(&self.catalogs.to_delete).map(|old| old.catalog.id);
        let loaded = self.files.to_write.iter().filter_map(|(_, old)| old.as_ref());
        let loaded = loaded.chain(&self.files.to_delete).map(|loaded| loaded.stored.catalog.id);
        let to_lock: BTreeSet<i32> =
            catalogs.chain(loaded).chain(self.with_stale_items.iter().copied()).collect();
        if !to_lock.is_empty() {
            rows::lock(target.tx, &Vec::from_iter(to_lock)).await?;
        }
        self.catalogs.execute(target).await?;
        self.files.execute(target).await?;
        for id in &self.with_stale_items {
            rows::delete_stale_items(target.tx, *id).await?;
        }
        Ok(())
    }

    /// Stages the files to load, if the database can do that before anything is locked.
    async fn stage(&self, tx: &mut Tx) -> Result<(), DeclareError> {
        if self.files.to_write.is_empty() || !tx.is_postgres() {
            return Ok(());
        }
        rows::begin_staging(tx).await?;
        for (file, _) in &self.files.to_write {
            read_into(tx, LoadTarget::Staged, file).await?;
        }
        Ok(rows::end_staging(tx).await?)
    }
}

/// The destination of the items of a file.
#[derive(Clone, Copy)]
enum LoadTarget {
    Staged,
    Catalog { id: i32, load: i32 },
}

impl LoadTarget {
    async fn write(
        self,
        tx: &mut Tx,
        catalog: &str,
        batch: Vec<ItemDocument>,
    ) -> Result<(), StoreError> {
        let Self::Catalog { id, load } = self else {
            return rows::stage_items(tx, catalog, &batch).await;
        };
        let stored = |item: ItemDocument| StoredItem {
            catalog_id: id,
            item_id: item.id,
            load,
            version: 0,
            doc: item.doc,
        };
        rows::load_items(tx, &batch.into_iter().map(stored).collect::<Vec<_>>()).await
    }
}

/// Writes the items of a file as they are read.
async fn read_into(
    tx: &mut Tx,
    destination: LoadTarget,
    File { catalog, digest }: &File,
) -> Result<(), DeclareError> {
    let (sender, mut batches) = mpsc::channel::<Vec<ItemDocument>>(2);
    let reading = read(catalog, move |batch| sender.blocking_send(batch).is_ok());
    let writing = async {
        while let Some(batch) = batches.recv().await {
            if let Err(error) = destination.write(tx, &catalog.name, batch).await {
                // This stops the reader.
                batches.close();
                while batches.recv().await.is_some() {}
                return Err(error);
            }
        }
        Ok(())
    };
    let (read, written) = tokio::join!(reading, writing);
    written?;
    match read? {
        found if found == *digest => Ok(()),
        _ => Err(DeclareError::ChangedConcurrently(catalog.name.clone())),
    }
}

/// Removes fields from all items.
async fn remove_fields(tx: &mut Tx, id: i32, fields: &[String]) -> Result<(), DeclareError> {
    let mut after = String::new();
    loop {
        let page = rows::items_after(tx, id, &after, PAGE).await?.items;
        let Some(last) = page.last() else { return Ok(()) };
        after.clone_from(&last.item_id);
        let mut changed = Vec::new();
        for item in page {
            let doc = items::without(&item.doc, fields)
                .map_err(|why| DeclareError::Unreadable(item.item_id.clone(), why))?;
            changed.extend(doc.map(|doc| StoredItem { version: item.version + 1, doc, ..item }));
        }
        rows::update_items(tx, &changed).await?;
    }
}

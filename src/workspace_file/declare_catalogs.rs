//! Brings catalogs to what the workspace file says.
//!
//! A file of items is checked whole before anything is changed. It is loaded when what it says
//! has changed since it was loaded last, which a hash of it tells: then each of its items
//! replaces the stored one as a whole, edits with it. Until then edits stay, however often the
//! workspace file is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tokio::sync::mpsc;

use crate::catalogs::items::{self, Digest, ItemsError, Row};
use crate::catalogs::rows::{self, Stored, StoredItem};
use crate::catalogs::{Catalog, Field, Fields};
use crate::workspace_file::change::Change;
use kit::retry::Retry;
use kit::words::count;
use store::{StoreError, Tx};

/// Items of one page while fields are taken out of them.
const PAGE: i64 = 1_000;

/// A catalog as the workspace file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredCatalog {
    pub name: String,
    pub fields: Fields,
    /// The file of its items.
    pub items: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    #[error("catalog {catalog}: {error}")]
    Items { catalog: String, error: ItemsError },
    #[error(
        "catalog {catalog}: field {field} is of type {is} and the file says {declared}, which the \
         items that there are may not fit: declare a field of another name, or remove the items \
         first (apply the file without `items`, with --prune)"
    )]
    Type { catalog: String, field: String, is: &'static str, declared: &'static str },
    #[error("catalog {0}: its items, or their file, were changed at the same time: apply again")]
    Meanwhile(String),
    #[error("item {0} cannot be read: {1}")]
    Unreadable(String, serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for DeclareError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Meanwhile(_) => true,
            Self::Store(error) => error.can_retry(),
            Self::Items { .. } | Self::Type { .. } | Self::Unreadable(..) => false,
        }
    }
}

/// The files of items, by catalog.
pub type Files = BTreeMap<String, Digest>;

/// Checks every file of items, and changes nothing.
pub async fn look(declared: &[DeclaredCatalog]) -> Result<Files, DeclareError> {
    let mut files = Files::new();
    for catalog in declared.iter().filter(|catalog| catalog.items.is_some()) {
        let digest = read(catalog, |_| true).await?;
        files.insert(catalog.name.clone(), digest);
    }
    Ok(files)
}

/// Reads a catalog's file on a thread of its own.
async fn read(
    catalog: &DeclaredCatalog,
    take: impl FnMut(Vec<Row>) -> bool + Send + 'static,
) -> Result<Digest, DeclareError> {
    let (path, fields) = (catalog.items.clone().unwrap_or_default(), catalog.fields.clone());
    let read = tokio::task::spawn_blocking(move || items::read(&path, &fields, take)).await;
    let read = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    read.map_err(|error| DeclareError::Items { catalog: catalog.name.clone(), error })
}

/// One thing to do.
#[derive(Debug)]
pub enum Step<'a> {
    Make(&'a DeclaredCatalog),
    /// The fields of a catalog from now on, and those that its items lose.
    SetFields(i32, Vec<Field>, Vec<String>),
    /// With what the file must hold then.
    Load(&'a DeclaredCatalog, Digest),
    /// All items go.
    Empty(i32),
    /// The items that the last load did not have go.
    DropLeft(&'a str),
    Remove(i32),
}

impl Step<'_> {
    /// The catalog that is there already and whose edits must wait, by the ids that there are.
    fn touches(&self, ids: &BTreeMap<String, i32>) -> Option<i32> {
        match self {
            Self::Make(_) => None,
            Self::SetFields(id, ..) | Self::Empty(id) | Self::Remove(id) => Some(*id),
            Self::Load(new, _) => ids.get(&new.name).copied(),
            Self::DropLeft(name) => ids.get(*name).copied(),
        }
    }
}

/// What is to be done, and said of it.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    pub changes: Vec<Change>,
    pub steps: Vec<Step<'a>>,
    pub notes: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Compares what is declared with what there is.
    pub fn make(
        declared: &'a [DeclaredCatalog],
        files: &Files,
        stored: &[Stored],
        prune: bool,
    ) -> Result<Self, DeclareError> {
        let mut plan = Self::default();
        for new in declared {
            let is = stored.iter().find(|is| is.catalog.name == new.name);
            match is {
                Some(is) => plan.compare_fields(new, is, prune)?,
                None => {
                    let what = format!("catalog {}", new.name);
                    plan.change('+', what, items::in_words(new.fields.all()));
                    plan.steps.push(Step::Make(new));
                }
            }
            plan.compare_items(new, files.get(&new.name), is, prune);
        }
        let is_declared = |is: &Stored| declared.iter().any(|new| new.name == is.catalog.name);
        for is in stored.iter().filter(|is| !is_declared(is)) {
            let what = format!("catalog {}", is.catalog.name);
            if prune {
                plan.change('-', what, count(is.items as u64, "item"));
                plan.steps.push(Step::Remove(is.catalog.id));
            } else {
                plan.notes.push(format!("{what} is no longer in the file: --prune removes it"));
            }
        }
        Ok(plan)
    }

    fn change(&mut self, sign: char, what: String, detail: String) {
        self.changes.push(Change { sign, what, detail });
    }

    fn compare_fields(
        &mut self,
        new: &DeclaredCatalog,
        is: &Stored,
        prune: bool,
    ) -> Result<(), DeclareError> {
        let Catalog { id, name, fields, .. } = &is.catalog;
        for field in new.fields.all() {
            match fields.kind(&field.name) {
                Some(kind) if kind != field.kind && is.items > 0 => {
                    return Err(DeclareError::Type {
                        catalog: name.clone(),
                        field: field.name.clone(),
                        is: kind.name(),
                        declared: field.kind.name(),
                    });
                }
                _ => {}
            }
        }
        let gone = fields.all().iter().filter(|field| new.fields.kind(&field.name).is_none());
        let gone: Vec<Field> = gone.cloned().collect();
        let names: Vec<String> = gone.iter().map(|field| field.name.clone()).collect();
        let mut wanted = new.fields.all().to_vec();
        if !prune {
            wanted.extend(gone);
            self.notes.extend(names.iter().map(|field| {
                format!(
                    "field {field} of catalog {name} is no longer in the file: --prune removes it"
                )
            }));
        }
        if wanted != fields.all() {
            self.change('~', format!("catalog {name}"), items::in_words(&wanted));
            let names = if prune { names } else { Vec::new() };
            self.steps.push(Step::SetFields(*id, wanted, names));
        }
        Ok(())
    }

    fn compare_items(
        &mut self,
        new: &'a DeclaredCatalog,
        file: Option<&Digest>,
        is: Option<&Stored>,
        prune: bool,
    ) {
        let what = format!("items of catalog {}", new.name);
        let loaded = is.and_then(|is| is.items_hash.as_deref());
        let (all, left) = is.map_or((0, 0), |is| (is.items as u64, is.left as u64));
        match file {
            Some(file) if loaded != Some(&file.hash[..]) => {
                let sign = if loaded.is_none() { '+' } else { '~' };
                self.change(sign, what, count(file.items, "item"));
                self.steps.push(Step::Load(new, *file));
                if prune {
                    self.steps.push(Step::DropLeft(&new.name));
                }
            }
            Some(_) if left > 0 && prune => {
                self.change('-', what, count(left, "item"));
                self.steps.push(Step::DropLeft(&new.name));
            }
            Some(_) if left > 0 => {
                let left = count(left, "item");
                self.notes.push(format!(
                    "{left} of catalog {} are no longer in its file: --prune removes them",
                    new.name
                ));
            }
            None if all > 0 => match is.filter(|_| prune) {
                Some(is) => {
                    self.change('-', what, count(all, "item"));
                    self.steps.push(Step::Empty(is.catalog.id));
                }
                None => {
                    self.notes
                        .push(format!("{what} are no longer in the file: --prune removes them"));
                }
            },
            _ => {}
        }
    }
}

/// Does it, in a transaction that has the workspace for itself. Edits wait once the files are
/// read.
pub async fn carry_out(
    tx: &mut Tx,
    workspace: i32,
    steps: &[Step<'_>],
    now: i64,
) -> Result<(), DeclareError> {
    if steps.is_empty() {
        return Ok(());
    }
    stage(tx, steps).await?;
    let names = rows::names(tx, workspace).await?;
    let mut ids: BTreeMap<String, i32> = names.into_iter().map(|(id, name)| (name, id)).collect();
    let touched = steps.iter().filter_map(|step| step.touches(&ids));
    let touched: Vec<i32> = touched.collect::<BTreeSet<i32>>().into_iter().collect();
    rows::lock(tx, &touched).await?;
    let id = |ids: &BTreeMap<String, i32>, name: &str| {
        ids.get(name).copied().ok_or_else(|| DeclareError::Meanwhile(name.to_owned()))
    };
    for step in steps {
        match step {
            Step::Make(new) => {
                let made = rows::insert(tx, workspace, &new.name, new.fields.all(), now).await?;
                ids.insert(new.name.clone(), made);
            }
            Step::SetFields(id, fields, gone) => {
                rows::set_fields(tx, *id, fields).await?;
                if !gone.is_empty() {
                    take_out(tx, *id, gone).await?;
                }
            }
            Step::Load(new, digest) => load(tx, id(&ids, &new.name)?, new, digest).await?,
            Step::Empty(id) => {
                rows::begin_load(tx, *id, None).await?;
                rows::delete_left(tx, *id).await?;
            }
            Step::DropLeft(name) => _ = rows::delete_left(tx, id(&ids, name)?).await?,
            Step::Remove(id) => rows::delete(tx, *id).await?,
        }
    }
    Ok(())
}

/// Reads the files that are to be loaded, where that can be done before anybody must wait.
async fn stage(tx: &mut Tx, steps: &[Step<'_>]) -> Result<(), DeclareError> {
    let loads = steps.iter().filter_map(|step| match step {
        Step::Load(new, digest) => Some((*new, digest)),
        _ => None,
    });
    let loads: Vec<(&DeclaredCatalog, &Digest)> = loads.collect();
    if loads.is_empty() || !tx.is_postgres() {
        return Ok(());
    }
    rows::begin_staging(tx).await?;
    for (new, digest) in loads {
        read_into(tx, Target::Staged, new, digest).await?;
    }
    Ok(rows::end_staging(tx).await?)
}

async fn load(
    tx: &mut Tx,
    id: i32,
    catalog: &DeclaredCatalog,
    digest: &Digest,
) -> Result<(), DeclareError> {
    let load = rows::begin_load(tx, id, Some(&digest.hash)).await?;
    match tx.is_postgres() {
        true => Ok(rows::load_staged(tx, id, &catalog.name, load).await?),
        false => read_into(tx, Target::Catalog { id, load }, catalog, digest).await,
    }
}

/// Where the items of a file go.
#[derive(Clone, Copy)]
enum Target {
    Staged,
    Catalog { id: i32, load: i32 },
}

impl Target {
    async fn write(self, tx: &mut Tx, catalog: &str, batch: Vec<Row>) -> Result<(), StoreError> {
        let Self::Catalog { id, load } = self else {
            return rows::stage_items(tx, catalog, &batch).await;
        };
        let item = |(item_id, doc)| StoredItem { catalog_id: id, item_id, load, version: 0, doc };
        rows::load_items(tx, &batch.into_iter().map(item).collect::<Vec<_>>()).await
    }
}

/// Writes the items of a file as they are read.
async fn read_into(
    tx: &mut Tx,
    target: Target,
    catalog: &DeclaredCatalog,
    digest: &Digest,
) -> Result<(), DeclareError> {
    let (sender, mut batches) = mpsc::channel::<Vec<Row>>(2);
    let reading = read(catalog, move |batch| sender.blocking_send(batch).is_ok());
    let writing = async {
        while let Some(batch) = batches.recv().await {
            if let Err(error) = target.write(tx, &catalog.name, batch).await {
                // Whoever reads is told by this that no more are wanted.
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
        _ => Err(DeclareError::Meanwhile(catalog.name.clone())),
    }
}

/// Takes fields out of all items.
async fn take_out(tx: &mut Tx, id: i32, fields: &[String]) -> Result<(), DeclareError> {
    let mut after = String::new();
    loop {
        let page = rows::items_after(tx, id, &after, PAGE).await?;
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

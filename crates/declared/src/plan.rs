//! Compares the declared with the stored things, by keys: the changes to print, and the steps that
//! apply them.

use std::collections::{HashMap, HashSet};

use crate::change::{Change, Options};
use crate::error::ApplyError;
use sending::app::App;
use store::Tx;

/// A declared or stored thing, as the list of changes shows it.
pub(crate) struct Entry {
    /// A declared and a stored thing are the same if they have the same key.
    key: String,
    /// Such as `segment VIP`.
    what: String,
    /// The text next to it when it is created or deleted; may be empty.
    detail: String,
}

impl Entry {
    pub fn new(key: &impl ToString, what: impl ToString, detail: impl ToString) -> Self {
        Self { key: key.to_string(), what: what.to_string(), detail: detail.to_string() }
    }
}

pub(crate) trait Item {
    fn entry(&self) -> Entry;

    fn key(&self) -> String {
        self.entry().key
    }

    fn detail(&self) -> String {
        self.entry().detail
    }
}

/// A kind of thing that the file declares.
pub(crate) trait Declared: Item + Clone {
    /// The stored form.
    type Stored: Item + Clone;

    /// The note on a thing that the file does not have, without `--prune`.
    const REMOVED_NOTE: &str = "is no longer in the file: --prune removes it";

    /// The changes from the stored thing, as text, without credentials; none without changes.
    fn difference(&self, is: &Self::Stored, plan: &mut Plan) -> Result<Option<String>, ApplyError>;

    /// Releases the unique values of the stored thing, so that others can use them before this one
    /// is written.
    async fn give_up(&self, _is: &Self::Stored, _to: &mut Target<'_>) -> Result<(), ApplyError> {
        Ok(())
    }

    /// Writes it, over the stored one if there is one.
    async fn put(&self, is: Option<&Self::Stored>, to: &mut Target<'_>) -> Result<(), ApplyError>;

    async fn delete(is: &Self::Stored, to: &mut Target<'_>) -> Result<(), ApplyError>;
}

/// The destination of steps.
pub(crate) struct Target<'a> {
    pub tx: &'a mut Tx,
    pub app: &'a App,
    /// Zero for the company.
    pub workspace: i32,
    /// Milliseconds since the epoch.
    pub now: i64,
    pub prune: bool,
}

/// The changes, and notes for the operator.
#[derive(Default)]
pub(crate) struct Plan {
    pub prune: bool,
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

impl Plan {
    pub fn new(options: Options) -> Self {
        Self { prune: options.prune, ..Self::default() }
    }

    pub fn change(&mut self, sign: char, what: impl Into<String>, detail: impl Into<String>) {
        self.changes.push(Change { sign, what: what.into(), detail: detail.into() });
    }

    /// A change of a single value.
    pub fn compare_value(&mut self, what: &str, is: &str, declared: &str) {
        if is != declared {
            self.change('~', what, format!("{is} -> {declared}"));
        }
    }

    /// Whether to delete a thing that the file no longer has. If not, adds a note.
    pub fn prunes(&mut self, is: &impl Item, gone: &str) -> bool {
        let Entry { what, detail, .. } = is.entry();
        match self.prune {
            true => self.change('-', what, detail),
            false => self.notes.push(format!("{what} {gone}")),
        }
        self.prune
    }

    /// Compares all things of a kind.
    pub fn compare<D: Declared>(
        &mut self,
        declared: &[D],
        stored: &[D::Stored],
    ) -> Result<Steps<D>, ApplyError> {
        let mut steps = Steps { put: Vec::new(), delete: Vec::new() };
        let keys: HashSet<String> = declared.iter().map(D::key).collect();
        for is in stored.iter().filter(|is| !keys.contains(&is.key())) {
            if self.prunes(is, D::REMOVED_NOTE) {
                steps.delete.push(is.clone());
            }
        }
        let stored: HashMap<String, &D::Stored> = stored.iter().map(|is| (is.key(), is)).collect();
        for new in declared {
            let Entry { key, what, detail } = new.entry();
            let is = stored.get(&key).copied();
            match is {
                None => self.change('+', what, detail),
                Some(is) => match new.difference(is, self)? {
                    Some(detail) => self.change('~', what, detail),
                    None => continue,
                },
            }
            steps.put.push((new.clone(), is.cloned()));
        }
        Ok(steps)
    }
}

/// The steps for all things of a kind.
pub(crate) struct Steps<D: Declared> {
    /// New or changed things, with their stored form.
    pub put: Vec<(D, Option<D::Stored>)>,
    pub delete: Vec<D::Stored>,
}

impl<D: Declared> Steps<D> {
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }

    pub async fn execute(&self, to: &mut Target<'_>) -> Result<(), ApplyError> {
        for is in &self.delete {
            D::delete(is, to).await?;
        }
        for (new, is) in &self.put {
            if let Some(is) = is {
                new.give_up(is, to).await?;
            }
        }
        for (new, is) in &self.put {
            new.put(is.as_ref(), to).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for (u8, &'static str) {
        fn entry(&self) -> Entry {
            Entry::new(&self.0, format!("thing {}", self.0), self.1)
        }
    }

    impl Declared for (u8, &'static str) {
        type Stored = Self;

        fn difference(&self, is: &Self, _: &mut Plan) -> Result<Option<String>, ApplyError> {
            Ok((self != is).then(|| format!("{} -> {}", is.1, self.1)))
        }

        async fn put(&self, _: Option<&Self>, _: &mut Target<'_>) -> Result<(), ApplyError> {
            Ok(())
        }

        async fn delete(_: &Self, _: &mut Target<'_>) -> Result<(), ApplyError> {
            Ok(())
        }
    }

    #[test]
    fn differences_are_put_and_prune_deletes_the_rest() {
        let (declared, stored) = ([(1, "a"), (2, "b"), (3, "c")], [(2, "b"), (3, "x"), (4, "d")]);
        let said = |prune| {
            let mut plan = Plan::new(Options { dry_run: false, prune });
            let steps = plan.compare(&declared, &stored).unwrap();
            assert_eq!(steps.put, [(declared[0], None), (declared[2], Some(stored[1]))]);
            assert_eq!(steps.delete, if prune { &stored[2..] } else { &[] });
            let changes = plan.changes.iter().map(ToString::to_string);
            changes.chain(plan.notes).collect::<Vec<_>>()
        };
        let kept = "thing 4 is no longer in the file: --prune removes it";
        assert_eq!(said(false), ["+ thing 1 (a)", "~ thing 3 (x -> c)", kept]);
        assert_eq!(said(true), ["- thing 4 (d)", "+ thing 1 (a)", "~ thing 3 (x -> c)"]);
        let mut plan = Plan::default();
        assert!(plan.compare(&stored, &stored).unwrap().is_empty() && plan.changes.is_empty());
    }
}

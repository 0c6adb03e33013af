//! Compares the declared with the stored things, by keys: the changes to print, and the steps that
//! apply them.

use std::collections::{BTreeMap, HashMap, HashSet};

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::change::{Change, Options};
use crate::error::ApplyError;
use sending::app::App;
use store::Tx;

/// A declared or stored thing, as the list of changes shows it.
pub(crate) struct Entry {
    /// A declared and a stored thing are the same if they have the same key.
    key: String,
    /// Such as `segment VIP`.
    label: String,
    /// The text next to it when it is created or deleted; may be empty.
    detail: String,
}

impl Entry {
    pub fn new(key: &impl ToString, label: impl ToString, detail: impl ToString) -> Self {
        Self { key: key.to_string(), label: label.to_string(), detail: detail.to_string() }
    }
}

/// A declared or stored thing with its entry.
pub(crate) trait HasEntry {
    fn entry(&self) -> Entry;

    fn key(&self) -> String {
        self.entry().key
    }

    fn label(&self) -> String {
        self.entry().label
    }

    fn detail(&self) -> String {
        self.entry().detail
    }
}

/// A kind of thing that the file declares.
pub(crate) trait Declared: HasEntry + Clone {
    /// The stored form.
    type Stored: HasEntry + Clone;

    /// The note on a thing that the file does not have, without `--prune`.
    const REMOVED_NOTE: &str = "is no longer in the file: --prune removes it";

    /// The changes from the stored thing, as text, without credentials; none without changes.
    fn difference(
        &self,
        stored: &Self::Stored,
        list: &mut ChangeList,
    ) -> Result<Option<String>, ApplyError>;

    /// What it allows that the stored thing did not allow, or that nothing allowed before: names of
    /// permissions, and networks. For the audit log.
    fn widens(&self, _stored: Option<&Self::Stored>) -> Vec<String> {
        Vec::new()
    }

    /// Releases the unique values of the stored thing, so that others can use them before this one
    /// is written.
    async fn release_unique_values(
        &self,
        _stored: &Self::Stored,
        _target: &mut Target<'_>,
    ) -> Result<(), ApplyError> {
        Ok(())
    }

    /// Writes it, over the stored one if there is one.
    async fn put(
        &self,
        stored: Option<&Self::Stored>,
        target: &mut Target<'_>,
    ) -> Result<(), ApplyError>;

    async fn delete(stored: &Self::Stored, target: &mut Target<'_>) -> Result<(), ApplyError>;
}

/// The open transaction and the workspace that the steps write to.
pub(crate) struct Target<'a> {
    pub tx: &'a mut Tx,
    pub app: &'a App,
    /// [`COMPANY`](gateway::COMPANY) for the company document.
    pub workspace: i32,
    /// Milliseconds since the epoch.
    pub now: i64,
    pub prune: bool,
}

/// The changes, and notes for the operator.
#[derive(Default)]
pub(crate) struct ChangeList {
    pub prune: bool,
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
    /// What the changes allow that was not allowed before, by their labels.
    pub widened: BTreeMap<String, Vec<String>>,
}

impl ChangeList {
    pub fn new(options: Options) -> Self {
        Self { prune: options.prune, ..Self::default() }
    }

    pub fn change(&mut self, sign: char, label: impl Into<String>, detail: impl Into<String>) {
        self.changes.push(Change { sign, label: label.into(), detail: detail.into() });
    }

    /// What the audit log has about the changes: their names, without values, and what they allow.
    pub fn audit_details(&self, prune: bool) -> Value {
        let name = |Change { sign, label, .. }: &Change| format!("{sign} {label}");
        let names: Vec<String> = self.changes.iter().map(name).collect();
        json!({ "changes": names, "prune": prune, "widened": self.widened })
    }

    pub fn widen(&mut self, label: String, allowed: Vec<String>) {
        if !allowed.is_empty() {
            self.widened.insert(label, allowed);
        }
    }

    /// A change of a single value.
    pub fn compare_value(&mut self, label: &str, stored: &str, declared: &str) {
        if stored != declared {
            self.change('~', label, format!("{stored} -> {declared}"));
        }
    }

    /// Adds the deletion of a thing that the file no longer has; without `--prune`, adds a note
    /// instead. Returns whether to delete it.
    pub fn prune_or_note(&mut self, old: &impl HasEntry, note: &str) -> bool {
        let Entry { label, detail, .. } = old.entry();
        if self.prune {
            self.change('-', label, detail);
        } else {
            self.notes.push(format!("{label} {note}"));
        }
        self.prune
    }

    /// Compares all things of a kind, and adds the changes.
    pub fn compare<D: Declared>(
        &mut self,
        declared: &[D],
        stored: &[D::Stored],
    ) -> Result<Steps<D>, ApplyError> {
        let mut steps = Steps { to_write: Vec::new(), to_delete: Vec::new() };
        let keys: HashSet<String> = declared.iter().map(D::key).collect();
        for old in stored.iter().filter(|old| !keys.contains(&old.key())) {
            if self.prune_or_note(old, D::REMOVED_NOTE) {
                steps.to_delete.push(old.clone());
            }
        }
        let stored: HashMap<String, &D::Stored> =
            stored.iter().map(|old| (old.key(), old)).collect();
        for new in declared {
            let Entry { key, label, detail } = new.entry();
            let old = stored.get(&key).copied();
            let (widened, name) = (new.widens(old), label.clone());
            match old {
                None => self.change('+', label, detail),
                Some(old) => match new.difference(old, self)? {
                    Some(detail) => self.change('~', label, detail),
                    None => continue,
                },
            }
            self.widen(name, widened);
            steps.to_write.push((new.clone(), old.cloned()));
        }
        Ok(steps)
    }
}

/// The steps for all things of a kind.
pub(crate) struct Steps<D: Declared> {
    /// New or changed things, with their stored form.
    pub to_write: Vec<(D, Option<D::Stored>)>,
    pub to_delete: Vec<D::Stored>,
}

impl<D: Declared> Steps<D> {
    pub fn is_empty(&self) -> bool {
        self.to_write.is_empty() && self.to_delete.is_empty()
    }

    /// Deletions and releases come first, because what is written may use their unique values.
    pub async fn execute(&self, target: &mut Target<'_>) -> Result<(), ApplyError> {
        for old in &self.to_delete {
            D::delete(old, target).await?;
        }
        for (new, old) in &self.to_write {
            if let Some(old) = old {
                new.release_unique_values(old, target).await?;
            }
        }
        for (new, old) in &self.to_write {
            new.put(old.as_ref(), target).await?;
        }
        Ok(())
    }
}

/// The permissions and networks that are new. Without networks, a thing is allowed everywhere.
pub(crate) fn widened(
    old_permissions: &[String],
    new_permissions: &[String],
    old_networks: Option<&[IpNet]>,
    new_networks: &[IpNet],
) -> Vec<String> {
    let is_new = |permission: &&String| !old_permissions.contains(permission);
    let mut widened: Vec<String> = new_permissions.iter().filter(is_new).cloned().collect();
    let is_everywhere = old_networks.is_some_and(|old| old.is_empty());
    let was_allowed = |network: &IpNet| {
        is_everywhere || old_networks.unwrap_or_default().iter().any(|old| old.contains(network))
    };
    if new_networks.is_empty() && !is_everywhere {
        widened.push("from everywhere".to_owned());
    }
    let networks = new_networks.iter().filter(|network| !was_allowed(network));
    widened.extend(networks.map(|network| format!("from {network}")));
    widened
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasEntry for (u8, &'static str) {
        fn entry(&self) -> Entry {
            let (key, value) = self;
            Entry::new(key, format!("thing {key}"), value)
        }
    }

    impl Declared for (u8, &'static str) {
        type Stored = Self;

        fn difference(
            &self,
            stored: &Self,
            _: &mut ChangeList,
        ) -> Result<Option<String>, ApplyError> {
            let ((_, new), (_, old)) = (self, stored);
            Ok((new != old).then(|| format!("{old} -> {new}")))
        }

        async fn put(&self, _: Option<&Self>, _: &mut Target<'_>) -> Result<(), ApplyError> {
            Ok(())
        }

        async fn delete(_: &Self, _: &mut Target<'_>) -> Result<(), ApplyError> {
            Ok(())
        }
    }

    #[test]
    fn wider_networks_and_new_permissions_are_named() {
        let networks = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let [a, b] = ["a", "b"].map(str::to_owned);
        let (a, both) = (std::slice::from_ref(&a), &[a.clone(), b][..]);
        for (before, after, old, new, expected) in [
            (a, both, Some(&[][..]), &[][..], &["b"][..]),
            (both, a, Some(&[]), &["10.0.0.0/8"], &[]),
            (a, a, Some(&["10.0.0.0/8"]), &["10.1.0.0/16", "::1/128"], &["from ::1/128"]),
            (a, a, Some(&["10.0.0.0/8"]), &[], &["from everywhere"]),
            (&[], a, None, &[], &["a", "from everywhere"]),
            (&[], a, None, &["10.0.0.0/8"], &["a", "from 10.0.0.0/8"]),
        ] {
            let old = old.map(networks);
            let found = widened(before, after, old.as_deref(), &networks(new));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn differences_are_put_and_prune_deletes_the_rest() {
        let (declared, stored) = ([(1, "a"), (2, "b"), (3, "c")], [(2, "b"), (3, "x"), (4, "d")]);
        let lines = |prune| {
            let mut list = ChangeList::new(Options { dry_run: false, prune, confirmed: false });
            let steps = list.compare(&declared, &stored).unwrap();
            assert_eq!(steps.to_write, [(declared[0], None), (declared[2], Some(stored[1]))]);
            assert_eq!(steps.to_delete, if prune { &stored[2..] } else { &[] });
            let changes = list.changes.iter().map(ToString::to_string);
            changes.chain(list.notes).collect::<Vec<_>>()
        };
        let note = "thing 4 is no longer in the file: --prune removes it";
        assert_eq!(lines(false), ["+ thing 1 (a)", "~ thing 3 (x -> c)", note]);
        assert_eq!(lines(true), ["- thing 4 (d)", "+ thing 1 (a)", "~ thing 3 (x -> c)"]);
        let mut list = ChangeList::default();
        assert!(list.compare(&stored, &stored).unwrap().is_empty() && list.changes.is_empty());
    }
}

//! What this process tells an operator for as long as it is so: at `/readyz`, a line each.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The notices of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    lines: BTreeMap<&'static str, Vec<String>>,
    /// Whether each subject that was tried has ever worked.
    worked: BTreeMap<&'static str, bool>,
}

impl Notices {
    /// Says what is so about `subject` now; none takes back what was said.
    pub fn set(&self, subject: &'static str, lines: Vec<String>) {
        self.0.lock().lines.insert(subject, lines);
    }

    /// What the process needs works, and from now on counts as set up right.
    pub fn works(&self, subject: &'static str) {
        self.0.lock().worked.insert(subject, true);
    }

    /// What the process needs was tried and failed.
    pub fn has_failed(&self, subject: &'static str) {
        self.0.lock().worked.entry(subject).or_default();
    }

    /// Whether something that the process needs was tried and has never worked.
    pub fn never_worked(&self) -> bool {
        self.0.lock().worked.values().any(|worked| !worked)
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().lines.values().flatten().cloned().collect()
    }
}

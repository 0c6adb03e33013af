//! Current conditions of this process that an operator should know about: one per line at
//! `/readyz`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The warnings of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HealthWarnings(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    lines: BTreeMap<&'static str, Vec<String>>,
    /// Whether each tried dependency has ever worked.
    worked: BTreeMap<&'static str, bool>,
}

impl HealthWarnings {
    /// Sets the current warnings about `subject`; an empty list clears them.
    pub fn set(&self, subject: &'static str, lines: Vec<String>) {
        self.0.lock().lines.insert(subject, lines);
    }

    /// A dependency works, and so counts as set up correctly from now on.
    pub fn works(&self, subject: &'static str) {
        self.0.lock().worked.insert(subject, true);
    }

    /// A dependency was tried and failed.
    pub fn has_failed(&self, subject: &'static str) {
        self.0.lock().worked.entry(subject).or_default();
    }

    /// Whether a tried dependency has never worked.
    pub fn never_worked(&self) -> bool {
        self.0.lock().worked.values().any(|worked| !worked)
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().lines.values().flatten().cloned().collect()
    }
}

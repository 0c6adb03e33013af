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

    /// All warnings, in the order of their subjects.
    pub fn all(&self) -> Vec<String> {
        self.by_subject().into_iter().map(|(_, line)| line).collect()
    }

    /// The same with their subjects.
    pub fn by_subject(&self) -> Vec<(&'static str, String)> {
        let kept = self.0.lock();
        let with_subject = |(subject, lines): (&&'static str, &Vec<String>)| {
            let subject = *subject;
            lines.clone().into_iter().map(move |line| (subject, line))
        };
        kept.lines.iter().flat_map(with_subject).collect()
    }
}

//! What this process tells an operator for as long as it is so: at `/readyz`, a line each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The notices of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>);

impl Notices {
    /// Says what is so about `subject` now; none takes back what was said.
    pub fn set(&self, subject: &'static str, lines: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(subject, lines);
    }

    pub fn all(&self) -> Vec<String> {
        let notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notices.values().flatten().cloned().collect()
    }
}

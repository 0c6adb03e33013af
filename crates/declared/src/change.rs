//! How a workspace file is applied, and what changes.

use std::fmt;

use serde::Serialize;

/// Options of an apply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only show the changes.
    pub dry_run: bool,
    /// Also delete or revoke what the file no longer declares: declared keys, apps, storage,
    /// catalogs with their fields and items, selections, content blocks, email templates, connected
    /// content, email, providers, subscription groups, segments, campaigns, Canvases, SCIM tokens,
    /// dashboard users.
    pub prune: bool,
    /// Whether campaigns and Canvases with running sends may be removed.
    pub confirmed: bool,
}

/// A changed thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `+` created, `~` changed, `-` deleted.
    pub sign: char,
    /// Such as `key integrator` or `storage.s3`.
    #[serde(rename = "what")]
    pub label: String,
    /// Without credentials; may be empty.
    pub detail: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sign, self.label)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

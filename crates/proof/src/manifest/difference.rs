//! What is wrong with an export.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

store::named! {
    /// What differs.
    #[derive(JsonSchema, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum DifferenceKind {
        Manifest = "manifest",
        Checksums = "checksums",
        Signature = "signature",
        Missing = "missing",
        Added = "added",
        Size = "size",
        Hash = "hash",
        Count = "count",
        Range = "range",
        Record = "record",
    }
}

/// A difference between an export and what its manifest states, or within the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ExportDifference")]
pub struct Difference {
    /// The object, relative to the folder of the manifest.
    pub file: String,
    pub kind: DifferenceKind,
    /// One line for a person; empty if the kind is enough.
    pub detail: String,
}

impl Difference {
    pub fn new(file: impl Into<String>, kind: DifferenceKind, detail: impl Into<String>) -> Self {
        Self { file: file.into(), kind, detail: detail.into() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, kind, detail } = self;
        // Names come from the checked objects: none may write to the terminal.
        let file = file.escape_debug();
        let kind = kind.name();
        if detail.is_empty() {
            write!(f, "{file}: {kind}")
        } else {
            write!(f, "{file}: {kind}: {detail}")
        }
    }
}

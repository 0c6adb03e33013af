//! Proof that an export is complete: what it states about itself, and the check of it.
//!
//! ```text
//! exports    files, counts ──> Manifest ──> SHA256SUMS, signature, manifest.json
//! a reader   these objects, public keys ──> verify ──> Report: the differences
//! ```
//!
//! | module | is about |
//! |---|---|
//! | [`fields`] | `fields_to_export`: the fields of a line |
//! | [`Format`] | ZIP or gzip |
//! | [`manifest`] | what was asked for, how many users there are, each file with its hash; whether it agrees with itself |
//! | [`record`] | a line as a type, and its JSON Schema |
//! | [`verify`] | checks an export from its objects alone |
//!
//! It promises:
//!
//! - The same manifest has the same bytes, and so the same signature.
//! - A manifest without a signature that counts is not read further, and nothing that it states is
//!   trusted.
//! - An export without differences has the listed files with the listed bytes, and its folder has
//!   no others. If the records are read and have ids, they are the users of their range, each at
//!   most once.
//! - The check needs no installation: only the objects of the export and a public key.
//!
//! Nothing here writes an export or knows its job: the crate `exports` does, and serves the schema
//! and the public keys. Start with [`Manifest`](manifest::Manifest), then
//! [`verify()`](verify::verify). For readers: docs/how-to/verify-an-export.md and
//! docs/reference/export-manifest.md.

pub mod fields;
mod format;
pub mod manifest;
pub mod record;
pub mod verify;

pub use format::Format;

//! The workspace file: reads it, checks it, compares it with the stored state, and applies it.
//!
//! | module | is about |
//! |---|---|
//! | [`document`] | the types of the file, which define its JSON Schema and the stored form |
//! | [`file`](mod@file) | parses the documents, and checks their fields together |
//! | [`apply`] | applies a workspace's document; [`company`] applies that of the installation |
//! | `plan` | compares what is declared and stored by keys: changes, and steps |
//! | `declared_items`, `catalogs` | how each kind of declaration is compared, written and deleted |
//! | `touched` | the running sends and pending schedules that a change touches |
//! | `messages` | checks campaigns' messages and email templates |
//! | `values`, `expand` | single values, and `${NAME}` in them |
//! | [`change`], [`error`] | a change as it is printed, and why a document cannot be applied |
//!
//! It promises: one run reports all errors of a file, with their lines and without secrets. Each
//! document is applied in one transaction, and applying the same file again changes nothing.
//! Without `--prune`, nothing that the file no longer declares is deleted.
//!
//! Start with [`apply::apply`].

pub mod apply;
mod catalogs;
pub mod change;
pub mod company;
mod declared_items;
pub mod document;
pub mod error;
mod expand;
pub mod file;
mod lost;
mod messages;
mod plan;
mod touched;
mod values;

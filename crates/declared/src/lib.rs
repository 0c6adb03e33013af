//! The workspace file: reads it, checks it, compares it with the stored state, and applies it.
//!
//! | module | is about |
//! |---|---|
//! | [`document`] | the types of the file, which define its JSON Schema and the stored form |
//! | [`file`](mod@file) | parses the documents, and checks their fields together |
//! | [`apply`] | applies a workspace's document; [`company`] applies that of the installation |
//! | `plan` | compares what is declared and stored by keys: changes, and steps |
//! | `declared_items`, `catalogs` | how each kind of thing is compared, written and deleted |
//! | `messages` | checks campaigns' messages and email templates |
//! | `values`, `expand` | single values, and `${NAME}` in them |

pub mod apply;
mod catalogs;
pub mod change;
pub mod company;
mod declared_items;
pub mod document;
pub mod error;
mod expand;
pub mod file;
mod messages;
mod plan;
mod values;

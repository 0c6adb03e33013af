//! The workspace file: read and checked, compared with what is stored, and applied.
//!
//! | module | is about |
//! |---|---|
//! | [`document`] | the types of the file, which are its JSON Schema and what is stored |
//! | [`file`](mod@file) | reads the documents, and checks what their fields are together |
//! | [`apply`] | brings a workspace to its document; [`company`] the installation to its own |
//! | `plan` | compares what is declared and stored by keys: changes, and steps |
//! | `things`, `catalogs` | how each kind of thing is compared, written and deleted |
//! | `messages` | what campaigns send, checked with what the workspace sends by |
//! | `values`, `expand` | single values, and `${NAME}` in them |

pub mod apply;
mod catalogs;
pub mod change;
pub mod company;
pub mod document;
pub mod error;
mod expand;
pub mod file;
mod messages;
mod plan;
mod things;
mod values;

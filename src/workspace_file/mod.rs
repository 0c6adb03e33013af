//! The workspace file: read and checked, compared with what is stored, and applied.
//!
//! [`file`](mod@file) reads and checks it, [`apply`] brings the store to it, and [`company`] does
//! both with the document that is of no workspace.

pub mod apply;
pub mod change;
pub mod company;
pub mod declare_campaigns;
pub mod declare_catalogs;
pub mod expand;
pub mod file;
pub mod plan;
pub mod schema;
pub mod values;

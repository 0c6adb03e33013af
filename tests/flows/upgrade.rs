//! Programs of two versions on one installation: schemas that are newer, messages and rows that
//! are, and what former releases left ([`corpus`], `tests/upgrade`).

mod corpus;
mod dump;
mod installed;
mod locks;
mod made;
mod newer;
pub mod restore;
mod schema;
mod shapes;
mod suppressions;

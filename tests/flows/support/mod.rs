//! What the flows share.

pub mod place;
pub mod receiver;

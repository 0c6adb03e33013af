//! What the flows share.

pub mod servers;
pub mod stores;

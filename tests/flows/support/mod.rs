//! What the flows share.

pub mod servers;

//! What the flows share.

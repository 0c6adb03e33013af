//! One binary of flows through the public surface, on real servers. A test whose server is
//! missing fails and says how to start it: `scripts/services start`.

mod claims;
mod commands;
mod export_api;
mod export_faults;
mod exports;
mod log;
mod objects;
mod parts;
mod shares;
mod support;
mod workspaces;

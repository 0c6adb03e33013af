//! One binary of flows through the public surface, on real servers. A test whose server is
//! missing fails and says how to start it: `scripts/services start`.

mod claims;
mod commands;
mod deliveries;
mod export_api;
mod export_faults;
mod export_rows;
mod exports;
mod gateway;
mod log;
mod lost_commit;
mod objects;
mod parts;
mod shares;
mod support;
mod users;
mod workspaces;

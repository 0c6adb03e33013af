//! One binary of flows through the public surface, on real servers. A test whose server is
//! missing fails and says how to start it: `scripts/services start`.

mod claims;
mod shares;
mod objects;
mod log;
mod parts;
mod support;
mod workspaces;

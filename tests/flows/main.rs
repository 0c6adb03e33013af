//! One binary of flows through the public surface, on real servers. A test whose server is
//! missing fails and says how to start it: `scripts/services start`.

mod deliveries;
mod gateway;
mod support;

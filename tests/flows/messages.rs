//! Messages, from the calls that send them to the channels that take them.

mod schedule_api;
mod send_api;
mod send_limits;

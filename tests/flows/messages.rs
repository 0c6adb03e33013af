//! Messages: from the call, the schedule or the purchase that starts them to a real receiver.

mod conversions;
mod firing;
mod live_activity;
mod sending;
mod triggers;
mod waves;

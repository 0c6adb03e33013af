//! Messages: from the call, the schedule or the purchase that starts them to a real receiver.

mod conversions;
mod firing;
mod sending;
mod settings;
mod triggers;
mod waves;

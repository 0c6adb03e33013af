//! Messages: from the call, the schedule or the purchase that starts them to a real receiver.

mod addresses;
mod audit;
mod campaign_previews;
mod cancelling;
mod channels;
mod conversions;
#[cfg(debug_assertions)]
mod crashes;
mod dispatch;
mod dispatch_commands;
mod dispatches_api;
mod dry_runs;
mod email_templates;
mod erasing;
mod external_data;
mod fairness;
mod firing;
mod hostile;
mod identity_changes;
mod kept_texts;
mod live_activity;
mod opting_out;
mod reports;
mod schedule_api;
mod segments;
mod send_api;
mod send_limits;
mod send_repeats;
pub mod sending;
mod settings;
mod tls;
mod transactional;
mod triggers;
mod uncertain;
mod waves;
mod whats_app;

//! Messages: from the call to whoever takes them.

mod live_activity;

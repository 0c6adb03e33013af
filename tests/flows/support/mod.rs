//! What the flows share.

use std::time::{Duration, Instant};

pub mod api;
pub mod archives;
pub mod callbacks;
pub mod certificates;
pub mod channel_receivers;
pub mod checker;
pub mod console;
pub mod contract;
pub mod events;
pub mod export_world;
pub mod files;
pub mod fleet;
pub mod http_proxy;
pub mod identity_provider;
pub mod installation;
pub mod local_api;
pub mod mail;
pub mod open_work;
pub mod order_log;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod python;
pub mod reader;
pub mod receiver;
pub mod scripted_relay;
pub mod servers;
pub mod storage;
pub mod stores;
pub mod temporary;
pub mod tracked;
pub mod user_records;
pub mod workspace;

pub use api::Api;
pub use workspace::WorkspaceFile;

/// Waits until `condition` holds; the generous deadline is there to end a test that fails,
/// not to time one that passes. A look that costs much is taken less often.
pub async fn eventually<F: Future<Output = bool>>(
    expectation: &str,
    mut condition: impl FnMut() -> F,
) {
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        let start = Instant::now();
        if condition().await {
            return;
        }
        assert!(Instant::now() < deadline, "still not so after three minutes: {expectation}");
        tokio::time::sleep(Duration::from_millis(20).max(2 * start.elapsed())).await;
    }
}

/// Tests that are calls of their module's `killed_at`, each with its arguments. Each point is in
/// one of them every day; those of another backend are ignored but with `--all`.
#[cfg(debug_assertions)]
macro_rules! killed {
    ($($(#[$attribute:meta])* $test:ident: $($argument:expr),+;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        $(#[$attribute])*
        async fn $test() {
            killed_at($($argument),+).await;
        })+
    };
}
#[cfg(debug_assertions)]
pub(crate) use killed;

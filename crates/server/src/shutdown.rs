//! The signals that end a process.

use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::telemetry::lines;

/// Waits for `work`. A signal ends the process immediately, as by default, after printing the
/// result of `hint`.
pub async fn with_hint<T>(
    work: impl Future<Output = T>,
    hint: impl FnOnce() -> String,
) -> std::io::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Pinned here, so that database work is not dropped half way before the process ends.
    let mut work = pin!(work);
    tokio::select! {
        result = &mut work => return Ok(result),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // On a new line after a bar and the terminal's ^C.
    lines::write_line(&format!("\nlongshore: {}", hint()));
    std::process::exit(130)
}

/// A token that SIGTERM or SIGINT cancels. A second signal ends the process immediately, with the
/// exit status that shells use for SIGINT. After `timeout` the process ends as if all work had
/// ended: a dead connection can delay the end, and other processes repeat the work.
pub fn signals(timeout: Duration) -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping; a second signal ends the process immediately");
        stop.cancel();
        tokio::select! {
            _ = terminate.recv() => exit(130),
            _ = interrupt.recv() => exit(130),
            () = tokio::time::sleep(timeout) => {}
        }
        tracing::warn!("stopped before all work had ended");
        exit(0);
    });
    Ok(token)
}

fn exit(status: i32) -> ! {
    lines::flush();
    std::process::exit(status)
}

//! Removes from the log what was worked on long ago.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use kit::clock::{hours, millis};
use kit::retry;
use log::{LogError, Topic, offsets};
use store::StoreError;
use store::claims;

/// Between two passes over a topic.
const EVERY: Duration = hours(1);

/// Before the first: what was just started has something better to do.
const FIRST: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum TrimError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Removes what `group` is done with and was appended to `topic` more than `log.keep_days` ago,
/// every now and then until `shutdown`. Each worker does: what another one has removed is no work.
pub(super) async fn keep_short(
    app: App,
    group: &'static str,
    topic: Topic,
    shutdown: CancellationToken,
) {
    // Kafka need not hear all the workers of a fleet at once, so the pauses differ.
    retry::wait(retry::pause(1, FIRST, FIRST), &shutdown).await;
    let pause = retry::pause(1, EVERY, EVERY);
    let failed = format!("old messages of {} stay in the log for now", topic.name());
    retry::repeat(pause, &shutdown, &failed, || trim(&app, group, topic)).await;
}

async fn trim(app: &App, group: &str, topic: Topic) -> Result<(), TrimError> {
    // What the log loses must not be taken back by a crash of the database.
    let mut tx = app.store.write().await?;
    tx.flush().await?;
    // By the database's clock: a worker whose own is years ahead would leave nothing to go back to.
    let now = app.clock.moved(claims::now(&mut tx).await?);
    let places = offsets::places(&mut tx, topic).await?;
    tx.commit().await?;
    let kept = hours(24) * app.config.log.keep_days;
    let before = (now - millis(kept)).max(0);
    let messages = app.log.trim(group, topic, &places, before).await?;
    if messages > 0 {
        tracing::info!(topic = topic.name(), messages, "old messages were removed");
    }
    Ok(())
}

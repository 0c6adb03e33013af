//! Deletes processed messages from the log.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use kit::clock::{hours, millis};
use kit::retry;
use log::{LogError, Topic, offsets};
use store::StoreError;

/// Interval between two passes of a topic.
const INTERVAL: Duration = hours(1);

/// Pause before the first pass: a new process has more urgent work.
const INITIAL_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum TrimError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Until `shutdown`, regularly removes the messages of `topic` that `group` has applied and that
/// were appended more than `log.keep_days` ago. Every worker does this; messages that another one
/// has removed cost nothing.
pub(super) async fn trim_periodically(
    app: App,
    group: &'static str,
    topic: Topic,
    shutdown: CancellationToken,
) {
    // The workers of a fleet must not query Kafka at the same time, so the pauses differ.
    retry::wait(retry::backoff(1, INITIAL_PAUSE, INITIAL_PAUSE), &shutdown).await;
    let pause = retry::backoff(1, INTERVAL, INTERVAL);
    let failed = format!("cannot delete old messages of {} from the log; retrying", topic.name());
    retry::repeat(pause, &shutdown, &failed, || trim(&app, group, topic)).await;
}

async fn trim(app: &App, group: &str, topic: Topic) -> Result<(), TrimError> {
    // A crash of the database must not revert positions whose messages were deleted.
    let mut tx = app.store.write().await?;
    tx.flush().await?;
    // By the database's clock: a worker whose own clock is years ahead would remove everything that
    // a restore needs.
    let now = app.database_now(&mut tx).await?;
    let positions = offsets::positions(&mut tx, topic).await?;
    tx.commit().await?;
    let retention = hours(24) * app.config.log.keep_days;
    let before = (now - millis(retention)).max(0);
    let messages = app.log.trim(group, topic, &positions, before).await?;
    if messages > 0 {
        tracing::info!(topic = topic.name(), messages, "old messages deleted");
    }
    Ok(())
}

//! Dead letters: retried by the handler of their topic, and those of a workspace over HTTP.

pub mod api;

use uuid::Uuid;

use crate::app::App;
use crate::catalogs::apply::ApplyEdits;
use crate::engine::batches::dead_letters::{self, DeadLetterError};
use crate::erase;
use crate::exports::intake::PlanExports;
use crate::messages::dispatch::OrderHandler;
use crate::topics;
use crate::tracking::apply::Ingest;

/// Applies a dead letter, and removes it in the same transaction.
pub async fn retry(app: &App, id: Uuid) -> Result<(), DeadLetterError> {
    let store = &app.store;
    match dead_letters::topic(store, id).await? {
        topics::TRACKING => {
            let ingest = Ingest::new(app).with_erase_hook(erase::erase_rows);
            dead_letters::retry(store, &ingest, id).await
        }
        topics::CATALOGS => dead_letters::retry(store, &ApplyEdits::new(app), id).await,
        topics::MESSAGES => dead_letters::retry(store, &OrderHandler, id).await,
        _ => dead_letters::retry(store, &PlanExports, id).await,
    }
}

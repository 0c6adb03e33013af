//! Starts the planning of a new job.
//!
//! The planning is offered in the transaction that writes the job, to start after
//! `exports.requeue_seconds`. The message that is appended next starts it immediately, so a lost
//! message only delays an export.

use std::time::Duration;

use tracing::Instrument as _;
use uuid::Uuid;

use super::{ExportError, Job, rows};
use gateway::app::App;
use log::{Message, NewMessage, PayloadError, payload};
use runtime::engine::batches::Handler;
use runtime::kinds;
use runtime::topics;
use store::claims;
use store::{StoreError, Tx};

/// How long a caller waits for the append of its message. The job is durable by then.
const TIMEOUT: Duration = Duration::from_secs(2);

fn message(job: &Job) -> NewMessage {
    let id = job.id.to_string().into_bytes();
    NewMessage {
        topic: topics::EXPORTS,
        key: id.clone(),
        partition: None,
        payload: id,
        request_id: job.request_id.clone(),
    }
}

/// The job of such a message. A payload with a version field, like those of the other topics, comes
/// from a newer program.
pub fn job_of(message: &Message) -> Result<Uuid, PayloadError> {
    const NO_VERSION: u32 = 0;
    Uuid::try_parse_ascii(&message.payload).or_else(|_| {
        let payload = message.payload.as_slice();
        payload::read(topics::EXPORTS, NO_VERSION, payload, |_: &Uuid| None)
    })
}

/// Writes a new job, and offers its planning in case its message is lost.
pub async fn insert(app: &App, tx: &mut Tx, job: &Job) -> Result<(), StoreError> {
    rows::insert(tx, job).await?;
    let delay = Duration::from_secs(app.config.exports.requeue_seconds);
    let claim = claims::Job::new(job.workspace_id, job.id);
    claims::offer(tx, kinds::EXPORT_PLAN, claim, 0, delay).await
}

/// Appends the message of a new job. A slow append continues in the background. After a failure the
/// job is planned later: an error would only make the client request a second export.
pub(super) async fn announce(app: &App, job: &Job) {
    let (log, message) = (app.log.clone(), message(job));
    let append = async move {
        if let Err(error) = log.append(vec![message]).await {
            tracing::warn!(%error, "cannot append the export's message; the export is planned \
                                    later");
        }
    };
    let append = tokio::spawn(append.in_current_span());
    if tokio::time::timeout(TIMEOUT, append).await.is_err() {
        tracing::warn!("the log is slow; the export waits for its message");
    }
}

/// Makes the exports of [`topics::EXPORTS`] start their planning immediately.
pub struct PlanExports;

impl Handler for PlanExports {
    type Error = ExportError;
    type Prepared<'m> = Vec<Uuid>;
    type Applied = ();

    async fn prepare(&self, messages: &[Message]) -> Result<Vec<Uuid>, ExportError> {
        messages.iter().map(|message| Ok(job_of(message)?)).collect()
    }

    /// A message can be about a job that was planned long ago, which then does not change.
    async fn apply(&self, tx: &mut Tx, jobs: &Self::Prepared<'_>) -> Result<(), ExportError> {
        for job in jobs {
            if let Some(workspace) = rows::needs_planning(tx, *job).await? {
                let job = claims::Job::new(workspace, *job);
                claims::bring_forward(tx, kinds::EXPORT_PLAN, job, 0).await?;
            }
        }
        Ok(())
    }
}

/// Offers the planning of jobs from the previous release, which does not offer it; returns how
/// many. Its workers may be planning them already, which is harmless.
pub async fn offer_missing(app: &App) -> Result<usize, StoreError> {
    // An idle SQLite never takes the write lock for this.
    let jobs = rows::without_plan_claim(&mut app.store.snapshot().await?).await?;
    if jobs.is_empty() {
        return Ok(0);
    }
    let mut tx = app.store.write().await?;
    for job in &jobs {
        if let Some(workspace) = rows::needs_planning(&mut tx, *job).await? {
            let job = claims::Job::new(workspace, *job);
            claims::offer(&mut tx, kinds::EXPORT_PLAN, job, 0, Duration::ZERO).await?;
        }
    }
    tx.commit().await?;
    Ok(jobs.len())
}

//! Requests an ended export again for an operator (docs/runbooks/export-failed.md).

use std::time::Duration;

use uuid::Uuid;

use super::request::RequestedUsers;
use super::{Audience, Job, api, destination, rows};
use gateway::ApiError;
use gateway::app::App;
use runtime::kinds;
use store::Tx;
use store::claims;

/// Writes a new job with the request of `former`: the same audience, fields, format, destination and
/// callback. A control group is the one that is active now, and the destination's storage the one
/// that is declared now. The job starts as soon as a worker is free; it needs no message in the log.
pub async fn request_again(app: &App, tx: &mut Tx, former: &Job) -> Result<Job, ApiError> {
    let segment_id = former.segment_id;
    let users = match &former.audience {
        Audience::ControlGroup => RequestedUsers::ControlGroup,
        Audience::Segment => RequestedUsers::Segment { segment_id },
        Audience::Connected(conditions) => {
            RequestedUsers::Audience { conditions: conditions.clone(), segment_id }
        }
    };
    let (workspace, audience, segment_id) = api::resolve(tx, former.workspace_id, users).await?;
    let now = app.clock.now();
    let job = Job {
        id: Uuid::now_v7(),
        object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
        audience,
        segment_id,
        storage_id: destination::storage(tx, &workspace, former.destination.as_deref()).await?,
        request_id: Uuid::now_v7().to_string(),
        requested_at: now.as_millisecond(),
        ..former.clone()
    };
    rows::insert(tx, &job).await?;
    let claim = claims::Job::new(job.workspace_id, job.id);
    claims::offer(tx, kinds::EXPORT_PLAN, claim, 0, Duration::ZERO).await?;
    Ok(job)
}

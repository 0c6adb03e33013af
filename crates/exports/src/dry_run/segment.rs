//! How many users a segment or an audience has, and some of them. Read like the estimate of an
//! export: exact in a small workspace, and with a range in a large one.

use uuid::Uuid;

use super::estimate::{self, Users};
use super::sample::{Effort, SampleSpec, take};
use super::{api_error, attributes};
use crate::app::App;
use crate::archive::Shape;
use crate::request::RequestedUsers;
use crate::{create, plan};
use gateway::ApiError;
use gateway::warnings::Warning;
use kit::clock::from_ms;

/// Users of a segment or an audience.
#[derive(Debug)]
pub struct SegmentSample {
    pub users: Users,
    /// The service_ids of some of them, in no order.
    pub service_ids: Vec<Uuid>,
    /// Warnings about custom attributes that none of the users has who were read.
    pub unknown_attributes: Vec<Warning>,
}

/// Counts or estimates the users of a segment of the workspace, and returns at most `limit` of
/// them.
pub async fn sample_segment(
    app: &App,
    workspace: i32,
    segment_id: Uuid,
    limit: usize,
) -> Result<SegmentSample, ApiError> {
    let users = RequestedUsers::Segment { segment_id };
    sample(app, workspace, users, (limit, Vec::new()), Effort::Estimate).await
}

/// Counts the users of a segment of the workspace: reads all of its users, however long that takes.
pub async fn count_segment(
    app: &App,
    workspace: i32,
    segment_id: Uuid,
) -> Result<SegmentSample, ApiError> {
    let (users, nothing) = (RequestedUsers::Segment { segment_id }, (0, Vec::new()));
    sample(app, workspace, users, nothing, Effort::Exact).await
}

/// [`sample_segment`] for the users of a request. Looks for custom attributes in all users that are
/// read. Waits for its turn among the estimates of the process.
pub(crate) async fn sample_users(
    app: &App,
    workspace: i32,
    users: RequestedUsers,
    limit: usize,
    attributes: Vec<String>,
) -> Result<SegmentSample, ApiError> {
    sample(app, workspace, users, (limit, attributes), Effort::Estimate).await
}

async fn sample(
    app: &App,
    workspace: i32,
    users: RequestedUsers,
    (limit, attributes): (usize, Vec<String>),
    effort: Effort,
) -> Result<SegmentSample, ApiError> {
    let turn = app.dry_runs.estimates.wait(workspace).await?;
    let mut tx = app.request_queue.snapshot().await?;
    let (_, audience, segment_id) = create::resolve(&mut tx, workspace, users).await?;
    let scope = plan::scope(&app.cores, &mut tx, workspace, &audience, segment_id).await;
    let scope = scope.map_err(api_error)?;
    let has_condition = scope.matcher.is_some();
    let now = from_ms(app.database_now(&mut tx).await?);
    let spec = SampleSpec {
        workspace,
        slices: scope.slices,
        matcher: scope.matcher,
        line_activity: false,
        projector: None,
        shape: Shape::Zip,
        users_per_file: 1,
        now,
        kept: limit,
        attributes,
        effort,
    };
    let sample = take(&app.cores, spec, tx, turn).await.map_err(api_error)?;
    let users = estimate::users(&sample, has_condition);
    let unknown_attributes = attributes::warnings(&sample);
    Ok(SegmentSample { users, service_ids: sample.kept, unknown_attributes })
}

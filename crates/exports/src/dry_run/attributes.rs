//! Custom attributes that a request names and no user seems to have: such a name may be misspelt.

use super::sample::{Effort, Sample, SampleSpec, take};
use crate::app::App;
use crate::archive::Shape;
use crate::request::RequestedUsers;
use crate::{ExportError, create, plan, warnings};
use gateway::warnings::Warning;
use kit::clock::from_ms;

/// Warnings about the custom attributes of a request, for the response to it: reads a few users of
/// the segment, and does not compute its condition. An export never fails because of it: if no
/// turn is free, or the users cannot be read, there are no warnings.
pub async fn unknown_attributes(
    app: &App,
    workspace: i32,
    users: &RequestedUsers,
    fields: &[String],
) -> Vec<Warning> {
    let attributes = warnings::named_attributes(fields);
    if attributes.is_empty() {
        return Vec::new();
    }
    match glance(app, workspace, users.clone(), attributes).await {
        Ok(sample) => sample.map(|sample| self::warnings(&sample)).unwrap_or_default(),
        Err(error) => {
            tracing::debug!(%error, "no users read to look for custom attributes");
            Vec::new()
        }
    }
}

async fn glance(
    app: &App,
    workspace: i32,
    users: RequestedUsers,
    attributes: Vec<String>,
) -> Result<Option<Sample>, ExportError> {
    let Some(turn) = app.dry_runs.estimates.try_take(workspace) else { return Ok(None) };
    let mut tx = app.request_queue.snapshot().await?;
    // A request for unknown users is rejected elsewhere.
    let Ok((_, audience, segment_id)) = create::resolve(&mut tx, workspace, users).await else {
        return Ok(None);
    };
    let scope = plan::scope(&app.cores, &mut tx, workspace, &audience, segment_id).await?;
    let spec = SampleSpec {
        workspace,
        slices: scope.slices,
        matcher: None,
        line_activity: false,
        projector: None,
        shape: Shape::Zip,
        users_per_file: 1,
        now: from_ms(app.clock.now_ms()),
        kept: 0,
        attributes,
        effort: Effort::Glance,
    };
    take(&app.cores, spec, tx, turn).await.map(Some)
}

/// Warnings about the attributes that no user of a sample has. If none of the users is in the
/// audience, all who were read count.
pub(super) fn warnings(sample: &Sample) -> Vec<Warning> {
    let read: i64 = sample.stretches.iter().map(|stretch| stretch.read).sum();
    let matched: i64 = sample.stretches.iter().map(|stretch| stretch.matched).sum();
    let (users, is_all) = match matched {
        0 if read == 0 => return Vec::new(),
        0 => (read, false),
        _ => (matched, read >= sample.counts.users),
    };
    let attributes = sample.unseen_attributes.iter();
    attributes.map(|name| warnings::unknown_attribute(name, users, is_all)).collect()
}

//! The size of a segment or an audience, and a sample of its users
//! (docs/reference/api/segment-size.md). Both read a bounded number of users in a bounded time.

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::dry_run::{EstimatedUsers, SegmentSample, sample_users};
use crate::ids::records::{MAX_BYTES, Records, ResponseMemory, Unreadable, too_large};
use crate::ids::{append_users, projector};
use crate::request::{FieldNames, RequestedUsers, Target, too_costly, unknown_segment};
use crate::warnings::named_attributes;
use gateway::formats::{Limit, SuccessText, exactly_one};
use gateway::openapi::Tag;
use gateway::warnings::{Warned, Warning, Warnings};
use gateway::{self, Access, ApiError, Caller, JsonText, Operation, Routes, fields};
use proof::fields::{self as record_fields, FieldSet};

const SIZE: &str = "segments.size";
const SAMPLE: &str = "segments.sample";

/// The tag of the other requests about segments.
const TAG: Tag = Tag {
    name: "Segments",
    about: "What the workspace file declares, and the segment of all users.",
};

/// Default and maximum number of users in a sample.
const USERS: i64 = 10;
const MAX_USERS: i64 = 100;

/// The bounds of the work, in the words of the reference.
const BOUNDS: &str = "Counts all users if there are few or if the index has the number; otherwise \
                      reads up to 20,000 users of all ages, for about two seconds, and estimates. \
                      A workspace has one or two such requests at a time on a gateway, dry runs \
                      included: others wait for up to 5 seconds, and then get 503.";

/// The routes.
pub fn routes() -> Routes<App> {
    Routes::new()
        .route("/segments/size", gateway::protected(SIZE, post(size)), [describe_size()])
        .route("/segments/sample", gateway::protected(SAMPLE, post(sample)), [describe_sample()])
}

fn size_example() -> Value {
    json!({
        "estimated": 30120, "exact": false, "between": [27800, 32440],
        "based_on": { "source": "sample", "count": 20000 },
    })
}

fn describe_size() -> Operation {
    let operation =
        Operation::new(Method::POST, "countSegment", TAG, "Count the users of a segment");
    operation
        .by(Access::Key(SIZE))
        .about(format!("Counts the users of a segment or an audience, as of now. {BOUNDS}"))
        .takes::<SizeRequest>("A segment", json!({ "segment_id": EXAMPLE }))
        .returns::<Warned<Size>>(StatusCode::OK, "The number of users.")
        .with_example(json!({ "message": "success", "size": size_example() }))
        .refuses(&unknown_segment(), "The segment does not exist")
        .refuses(&too_costly(), "The regular expressions take too long")
}

fn describe_sample() -> Operation {
    let operation =
        Operation::new(Method::POST, "sampleSegment", TAG, "Get some users of a segment");
    operation
        .by(Access::Key(SAMPLE))
        .about(format!(
            "Returns the records of random users of a segment or an audience, as an export has \
             them, and its size. Of a small part of many users, it may find fewer than `limit`. \
             {BOUNDS}"
        ))
        .takes::<SampleRequest>(
            "Five users of a segment",
            json!({
                "segment_id": EXAMPLE, "limit": 5, "fields_to_export": ["external_id", "email"],
            }),
        )
        .returns::<SampledUsers>(StatusCode::OK, "The users.")
        .with_example(json!({
            "message": "success",
            "users": [{ "external_id": "ann", "email": "ann@example.com" }],
            "size": size_example(),
        }))
        .refuses(&unknown_segment(), "The segment does not exist")
        .refuses(&too_costly(), "The regular expressions take too long")
        .refuses(&too_large(MAX_BYTES), "The records are too large")
}

/// The segment in the examples.
const EXAMPLE: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";

/// The users to count.
#[derive(JsonSchema)]
#[schemars(rename = "SegmentSizeRequest", transform = exactly_one(&["segment_id", "audience"]))]
struct SizeRequest {
    #[serde(flatten)]
    _target: Target,
}

/// The users to sample.
#[derive(JsonSchema)]
#[schemars(rename = "SegmentSampleRequest", transform = exactly_one(&["segment_id", "audience"]))]
struct SampleRequest {
    #[serde(flatten)]
    _target: Target,
    #[serde(flatten)]
    _options: SampleOptions,
}

/// How many users to return, and what of them.
#[derive(Debug, Deserialize, JsonSchema)]
struct SampleOptions {
    /// Maximum number of users.
    limit: Option<Limit<USERS, MAX_USERS>>,
    /// Without it: all fields, except those that an export contains only on request.
    fields_to_export: Option<FieldNames>,
}

/// The number of users of a segment.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SegmentSize")]
struct Size {
    message: SuccessText,
    size: EstimatedUsers,
}

/// Some users of a segment.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "described only: the records are written as they are in files")]
struct SampledUsers {
    message: SuccessText,
    /// The user records.
    users: Vec<Map<String, Value>>,
    #[schemars(flatten)]
    rest: Rest,
}

/// The end of the response.
#[derive(Serialize, JsonSchema)]
struct Rest {
    size: EstimatedUsers,
    /// Users who exist, and whose stored data cannot be read. They are not among `users`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Unreadable>,
    /// Parts of the request that have no effect; at most 20. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// `POST /segments/size`.
async fn size(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: JsonText,
) -> Result<Json<Warned<Size>>, ApiError> {
    let workspace = caller.workspace.id;
    let members = body.object_in_place(&app)?;
    // Compiles regular expressions.
    let (users, warnings) = app.cores.compute_here(workspace, || read_size(&members, workspace))?;
    drop((members, body));
    let sample = sample_users(&app, workspace, users, 0, Vec::new()).await?;
    let response = Size { message: SuccessText::Success, size: sample.users };
    Ok(Json(Warned { response, warnings: warnings.into_vec() }))
}

/// `POST /segments/sample`.
async fn sample(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let workspace = &caller.workspace;
    let mut members = body.object_in_place(&app)?;
    record_fields::note_alias(&mut members, workspace.aliases.service_id.as_deref());
    let read = || read_sample(&members, workspace.id);
    let Sampling { users, options, set, mut warnings } =
        app.cores.compute_here(workspace.id, read)?;
    // The response takes the memory of the body.
    drop((members, body));
    let FieldNames(names) = options.fields_to_export.unwrap_or_default();
    let Limit(limit) = options.limit.unwrap_or_default();
    let attributes = named_attributes(&names);
    let SegmentSample { users: size, service_ids, unknown_attributes } =
        sample_users(&app, workspace.id, users, limit as usize, attributes).await?;
    warnings.extend(unknown_attributes);
    let warnings = warnings.into_vec();
    let mut memory = ResponseMemory::reserve(&app, workspace.id)?;
    let mut tx = app.request_queue.snapshot().await?;
    let mut records = Records::new(projector(&app, &mut tx, &set, workspace).await?);
    let ids = (workspace.id, &service_ids[..]);
    append_users(&app, &mut tx, ids, &set, &mut records, &mut memory).await?;
    tx.commit().await?;
    tracing::info!(users = records.users, "users of a segment sampled");
    let json = [(header::CONTENT_TYPE, "application/json")];
    let body = memory.hold(records.finish_with(|errors| Rest { size, errors, warnings })?);
    Ok((StatusCode::OK, json, body).into_response())
}

/// Reads the fields of a request for a size. Compiles regular expressions.
fn read_size(
    members: &Map<String, Value>,
    workspace: i32,
) -> Result<(RequestedUsers, Warnings), ApiError> {
    let target = fields::read::<Target>(members)?;
    let warnings = warnings(members, fields::names::<Target>(), &target);
    Ok((target.read(workspace)?, warnings))
}

/// A request for a sample.
struct Sampling {
    users: RequestedUsers,
    options: SampleOptions,
    set: FieldSet,
    warnings: Warnings,
}

/// Reads the fields of a request for a sample.
fn read_sample(members: &Map<String, Value>, workspace: i32) -> Result<Sampling, ApiError> {
    let (target, options) = fields::read_both::<Target, SampleOptions>(members)?;
    let set = match &options.fields_to_export {
        Some(FieldNames(names)) => FieldSet::parse(names),
        None => FieldSet::parse(&record_fields::record().map(str::to_owned).collect::<Vec<_>>()),
    };
    let set = set.map_err(|error| ApiError::invalid_field(format!("fields_to_export {error}")))?;
    let known = [fields::names::<Target>(), fields::names::<SampleOptions>()].concat();
    let warnings = warnings(members, &known, &target);
    Ok(Sampling { users: target.read(workspace)?, options, set, warnings })
}

/// The warnings about a request that knows these fields.
fn warnings(members: &Map<String, Value>, known: &[&str], target: &Target) -> Warnings {
    let mut warnings = Warnings::from(fields::warnings_about_unknown(members, known));
    warnings.extend(target.warnings());
    warnings
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn read(mut body: Value) -> Result<(RequestedUsers, i64), String> {
        if body.get("audience").is_none() && body.get("segment_id").is_none() {
            body["segment_id"] = json!(Uuid::from_u128(7));
        }
        let read = read_sample(body.as_object().unwrap(), 1);
        let limit = |options: &SampleOptions| options.limit.as_ref().map_or(USERS, |limit| limit.0);
        read.map(|read| (read.users, limit(&read.options)))
            .map_err(|error| error.message().into_owned())
    }

    #[test]
    fn a_sample_has_a_limit_and_fields() {
        let segment = RequestedUsers::Segment { segment_id: Uuid::from_u128(7) };
        assert_eq!(read(json!({})), Ok((segment.clone(), USERS)));
        let body = json!({ "limit": MAX_USERS, "fields_to_export": ["email"] });
        assert_eq!(read(body), Ok((segment, MAX_USERS)));
    }

    #[test]
    fn errors_name_the_invalid_field() {
        for (field, wrong) in [
            ("limit", json!(0)),
            ("limit", json!(101)),
            ("limit", json!(1.5)),
            ("limit", json!("5")),
            ("fields_to_export", json!([])),
            ("fields_to_export", json!(["x"])),
            ("segment_id", json!("gold")),
            ("audience", json!({ "AND": [] })),
            ("external_ids", json!(["a"])),
        ] {
            let error = read(json!({ field: wrong.clone() })).expect_err(field);
            assert!(error.starts_with(field), "{wrong}: {error}");
        }
    }
}

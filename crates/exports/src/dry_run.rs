//! A dry run of a request (`dry_run`): estimates the export, and tests whether its destination can
//! be written to. Creates nothing (docs/reference/api/export-dry-run.md).
//!
//! The estimate is read in one snapshot: counts from the index, past exports, and a sample of users
//! for what these do not say.

mod attributes;
mod estimate;
mod sample;
mod segment;
mod test_write;

pub use attributes::unknown_attributes;
pub use estimate::{Estimate, Users as EstimatedUsers};
pub(crate) use segment::sample_users;
pub use segment::{SegmentSample, count_segment, sample_segment};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use self::estimate::{Measured, Speed, Users};
use self::sample::{Effort, Sample, SampleSpec};
use self::test_write::{TestWrite, Tested};
use super::app::App;
use super::archive::Shape;
use super::dry_run_rows::{self, PastExport, SameRequest};
use super::plan::{self, Scope, window};
use super::project::Projector;
use super::request::{ExportOptions, RequestedUsers};
use super::{Audience, ExportError, Failure, Format, create, destination, rows, warnings};
use gateway::ApiError;
use gateway::formats::SuccessText;
use gateway::memory::Turns;
use gateway::warnings::{Warning, Warnings};
use gateway::workspaces::storage::{self, AZURE, S3, URL};
use gateway::workspaces::{StorageError, Workspace};
use kit::clock::from_ms;
use kit::compute::Cores;
use kit::retry::Retry as _;
use proof::fields::FieldSet;
use runtime::fairness::{Holder, Reservation, SLOT_BYTES, SharedMemory};
use store::{Tx, to_json};

/// Estimates of this process at the same time, of exports and of segments: each reads users, and
/// computes. One workspace uses at most half, also of the processors.
const MAX_ESTIMATES: usize = 4;
const MIN_ESTIMATES: usize = 2;

/// Test writes of this process at the same time: each may wait for a slow storage.
const TEST_WRITES: usize = 16;

/// Past exports that are older say little about the users of now.
const PAST_DAYS: i64 = 30;

/// What the dry runs of a process share.
pub(crate) struct DryRunSlots {
    estimates: Turns,
    test_writes: SharedMemory,
}

impl DryRunSlots {
    pub fn new(cores: &Cores) -> Self {
        let estimates = cores.count().clamp(MIN_ESTIMATES, MAX_ESTIMATES);
        Self {
            estimates: Turns::new(estimates),
            test_writes: SharedMemory::halves(TEST_WRITES * SLOT_BYTES),
        }
    }

    /// Slots for an estimate and a test write.
    async fn reserve(&self, workspace: i32) -> Result<(Reservation, Reservation), ApiError> {
        let holder = Holder::Workspace(workspace);
        let test_write = self.test_writes.try_reserve(holder, SLOT_BYTES);
        let test_write = test_write.ok_or(ApiError::Overloaded)?;
        Ok((self.estimates.wait(workspace).await?, test_write))
    }
}

/// The description of the response to a dry run (described only). OpenAPI Generator uses the type
/// of the lowest successful status for all of them, so this type can hold the others, too.
#[derive(JsonSchema)]
#[schemars(rename = "ExportDryRun", description = "The response to a dry run.")]
pub(super) struct DescribedDryRun {
    #[serde(flatten)]
    _dry_run: Option<DryRun>,
    /// Always absent: a dry run creates no export.
    #[serde(rename = "object_prefix", skip_serializing_if = "Option::is_none")]
    _object_prefix: Option<String>,
    /// Always absent.
    #[serde(rename = "url", skip_serializing_if = "Option::is_none")]
    _url: Option<String>,
}

/// The response to a dry run.
#[derive(Serialize, JsonSchema)]
pub struct DryRun {
    message: SuccessText,
    /// Always true.
    #[schemars(extend("const" = true))]
    dry_run: bool,
    pub users: Users,
    /// The files, from `users` and the users in a file. Without own storage, the files in the ZIP.
    #[schemars(range(min = 0))]
    pub files: i64,
    /// The bytes of all files, compressed.
    pub bytes: Estimate,
    /// The seconds from the start of the export to its end, if no other export is in progress.
    pub seconds: Estimate,
    /// Exports of the workspace that have not ended. They share the workers with this one.
    #[schemars(range(min = 0))]
    pub exports_in_progress: i64,
    pub destination: TestedDestination,
    /// The maximum of an export without own storage. Absent if the files go to own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Parts of the request that have no effect, and conditions under which the export fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// Where the files go, and whether a test file could be written there.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DryRunDestination")]
pub struct TestedDestination {
    /// The `destination` of the request. Absent if the request had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Absent if the stored settings are unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [S3, AZURE, URL]))]
    pub kind: Option<&'static str>,
    /// The bucket and its region, or the container. Absent without own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    pub is_writable: bool,
    /// Why the test file could not be written, with the storage's own error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The maximum of an export without own storage.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DryRunLimit")]
pub struct Limit {
    #[schemars(range(min = 0))]
    pub users: i64,
    #[schemars(range(min = 0))]
    pub bytes: i64,
}

/// The response in the API's document.
pub(super) fn example() -> Value {
    json!({
        "message": "success", "dry_run": true,
        "users": {
            "estimated": 30120, "exact": false, "between": [27800, 32440],
            "based_on": { "source": "sample", "count": 20000 },
        },
        "files": 7,
        "bytes": { "estimated": 1084320, "based_on": { "source": "sample", "count": 200 } },
        "seconds": { "estimated": 11, "based_on": { "source": "past_exports", "count": 5 } },
        "exports_in_progress": 0,
        "destination": {
            "name": "warehouse", "kind": "s3", "location": "bucket acme-warehouse, eu-west-1",
            "is_writable": false,
            "error": "The files could not be written to your cloud storage: bucket \
                      acme-warehouse: access denied",
        },
    })
}

/// Estimates the export of a request that was checked, and tests its destination.
pub async fn run(
    app: &App,
    workspace: i32,
    users: RequestedUsers,
    options: ExportOptions,
) -> Result<DryRun, ApiError> {
    let (slot, test_slot) = app.dry_runs.reserve(workspace).await?;
    let mut tx = app.request_queue.snapshot().await?;
    let (workspace, audience, segment_id) = create::resolve(&mut tx, workspace, users).await?;
    let storage = destination::storage(&mut tx, &workspace, options.destination.as_deref()).await?;
    let (kind, location) = describe(app, &mut tx, storage).await?;
    let scope = plan::scope(&app.cores, &mut tx, workspace.id, &audience, segment_id).await;
    let scope = scope.map_err(api_error)?;
    let test = TestWrite::start(app, storage, test_slot);
    let request = Request { workspace, audience, segment_id, storage, options };
    let estimates = estimate(app, &request, scope, tx, slot).await.map_err(api_error)?;
    let (is_writable, error, limits) = match test.result(storage.is_some()).await? {
        Tested::Writable(limits) => (true, None, limits),
        Tested::Refused(error) => (false, Some(error), Vec::new()),
    };
    let warnings = request.warnings(&estimates, limits);
    let Request { workspace, options, .. } = request;
    let Estimates { users, files, bytes, seconds, exports_in_progress, .. } = estimates;
    let users_limit = workspace.export_users_limit;
    let limit = Limit { users: users_limit, bytes: workspace.export_bytes_limit };
    tracing::info!(users = users.estimated, is_writable, "export estimated");
    Ok(DryRun {
        message: SuccessText::Success,
        dry_run: true,
        users,
        files,
        bytes,
        seconds,
        exports_in_progress,
        destination: TestedDestination {
            name: options.destination,
            kind,
            location,
            is_writable,
            error,
        },
        limit: storage.is_none().then_some(limit),
        warnings,
    })
}

/// The kind and the location of a destination.
async fn describe(
    app: &App,
    tx: &mut Tx,
    storage: Option<Uuid>,
) -> Result<(Option<&'static str>, Option<String>), ApiError> {
    let Some(storage) = storage else { return Ok((Some(URL), None)) };
    match storage::settings(tx, &app.secrets, storage).await {
        Ok(settings) => Ok((Some(settings.kind()), Some(settings.container()))),
        Err(StorageError::Store(error)) => Err(error.into()),
        // The test write fails, too, and says why.
        Err(_) => Ok((None, None)),
    }
}

/// The request, checked as one for an export.
struct Request {
    workspace: Workspace,
    audience: Audience,
    segment_id: Uuid,
    storage: Option<Uuid>,
    options: ExportOptions,
}

struct Estimates {
    users: Users,
    files: i64,
    bytes: Estimate,
    seconds: Estimate,
    exports_in_progress: i64,
    /// Sampled users whose stored profile is unreadable.
    broken_users: i64,
    /// Warnings about custom attributes that no sampled user has.
    unknown_attributes: Vec<Warning>,
}

/// The parts of a request that warnings name.
const DESTINATION: &str = "destination";
const AUDIENCE: &str = "audience";

/// Estimates the export in one snapshot.
async fn estimate(
    app: &App,
    request: &Request,
    scope: Scope,
    mut tx: Tx,
    slot: Reservation,
) -> Result<Estimates, ExportError> {
    let fields = FieldSet::parse(&request.options.fields)
        .map_err(|error| ExportError::Permanent(Failure::internal(error)))?;
    let now = app.database_now(&mut tx).await?;
    let past = request.past(&mut tx, now).await?;
    let others = other_speeds(&mut tx).await?;
    let exports_in_progress = dry_run_rows::unfinished(&mut tx, request.workspace.id).await?;
    let users_per_file =
        request.options.users_per_file.unwrap_or(app.config.exports.users_per_file);
    let has_condition = scope.matcher.is_some();
    let projector = past.is_empty().then(|| {
        let Workspace { currency, exchange_rates, .. } = &request.workspace;
        Projector::for_days(&fields, window(now), currency, exchange_rates)
    });
    let spec = SampleSpec {
        workspace: request.workspace.id,
        slices: scope.slices,
        matcher: scope.matcher,
        line_activity: fields.needs_activity(),
        projector,
        shape: request.shape(),
        users_per_file,
        now: from_ms(now),
        kept: 0,
        attributes: warnings::named_attributes(&request.options.fields),
        effort: Effort::Estimate,
    };
    let sample: Sample = sample::take(&app.cores, spec, tx, slot).await?;
    let users = estimate::users(&sample, has_condition);
    let files = estimate::files(users.estimated, users_per_file);
    let speed = Speed {
        fields: &fields,
        checked_users: if has_condition { sample.counts.users } else { 0 },
        past: &past,
        others: &others,
    };
    Ok(Estimates {
        users,
        files,
        bytes: estimate::bytes(users.estimated, files, &past, &sample.lines),
        seconds: estimate::seconds(users.estimated, &speed),
        exports_in_progress,
        broken_users: sample.broken,
        unknown_attributes: attributes::warnings(&sample),
    })
}

/// The speed of the installation's latest exports.
async fn other_speeds(tx: &mut Tx) -> Result<Vec<Measured>, ExportError> {
    let measured = |(users, ms, fields): (i64, i64, String)| {
        let fields: Vec<String> = serde_json::from_str(&fields).ok()?;
        let expected = estimate::expected_ms(users, &FieldSet::parse(&fields).ok()?);
        Some(Measured { expected, ms })
    };
    Ok(dry_run_rows::speeds(tx).await?.into_iter().filter_map(measured).collect())
}

impl Request {
    /// The latest exports of the same users and fields, to the same kind of destination.
    async fn past(&self, tx: &mut Tx, now: i64) -> Result<Vec<PastExport>, ExportError> {
        let request = SameRequest {
            workspace: self.workspace.id,
            segment_id: self.segment_id,
            fields: &to_json(&self.options.fields)?,
            users_per_file: self.options.users_per_file,
            format: &rows::stored_format(&self.audience, self.options.format),
            has_own_storage: self.storage.is_some(),
            since: now - PAST_DAYS * 86_400_000,
        };
        Ok(dry_run_rows::past_exports(tx, &request).await?)
    }

    fn shape(&self) -> Shape {
        match self.options.format {
            _ if self.storage.is_none() => Shape::Segment,
            Format::Zip => Shape::Zip,
            Format::Gzip => Shape::Gzip,
        }
    }

    /// Why parts of the request have no effect, or why the export may fail.
    fn warnings(&self, estimates: &Estimates, storage_limits: Vec<String>) -> Vec<Warning> {
        let Estimates { users, files, bytes, broken_users, unknown_attributes, .. } = estimates;
        let mut all = Warnings::default();
        let mut fails = |field, message| all.push(warnings::export_fails(field, message));
        // Before the others: a response has a limited number of warnings.
        for limit in storage_limits {
            fails(DESTINATION, limit);
        }
        let (users_limit, bytes_limit) =
            (self.workspace.export_users_limit, self.workspace.export_bytes_limit);
        let will_or_may = if users.exact { "The export would fail" } else { "The export may fail" };
        if *files > plan::MAX_FILES as i64 {
            let failure = Failure::too_many_files(plan::MAX_FILES);
            fails("users_per_file", format!("{will_or_may}: {}", failure.message));
        }
        if self.storage.is_none() && users.estimated > users_limit {
            let failure = Failure::too_many_users(&self.audience, users.estimated, users_limit);
            fails(AUDIENCE, format!("{will_or_may}: {}", failure.message));
        }
        if self.storage.is_none() && bytes.estimated > bytes_limit {
            let message = format!(
                "The export may fail: it has about {} bytes, and an export without your own cloud \
                 storage can have at most {bytes_limit}. Request fewer fields, or add S3 or Azure \
                 credentials to the workspace.",
                bytes.estimated
            );
            fails("fields_to_export", message);
        }
        if *broken_users > 0 {
            let message = format!(
                "The export would fail: the stored profiles of at least {broken_users} users are \
                 unreadable. A failed export names the users."
            );
            fails(AUDIENCE, message);
        }
        all.extend(self.options.warnings.clone());
        all.extend(
            warnings::ignored_format(self.storage, self.options.format).into_iter().collect(),
        );
        all.extend(unknown_attributes.clone());
        all.into_vec()
    }
}

/// The error of a request whose estimate failed.
fn api_error(error: ExportError) -> ApiError {
    match error {
        ExportError::Store(error) => error.into(),
        ExportError::Costly(error) => error.into(),
        error if error.can_retry() => ApiError::Unavailable(error.to_string()),
        error => ApiError::Internal(error.to_string()),
    }
}

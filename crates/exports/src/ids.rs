//! `POST /users/export/ids`: the records of up to 50 named users, in the response.

pub(crate) mod records;
mod request;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use uuid::Uuid;

use self::records::{ExportedUsers, MAX_BYTES, Records, ResponseMemory, too_large};
pub use self::request::{UsersRequest, read};
use super::api::TAG;
use super::plan::window;
use super::project::Projector;
use gateway::app::App;
use gateway::warnings::Warnings;
use gateway::workspaces::{self, Workspace};
use gateway::{self, Access, ApiError, Caller, JsonText, Operation, Routes};
use people::users::activity_rows;
use people::users::mentions::{self, MentionError};
use people::users::rows::{self, For, StoredUser};
use people::users::scan::UserRow;
use people::users::suppressions::AddressStates;
use proof::fields::FieldSet;
use store::{StoreError, Tx};

const PERMISSION: &str = "users.export.ids";

/// Maximum number of users in a response: an address or a number may belong to several.
const MAX_USERS: usize = 100;

/// Users that are read together; each may have a megabyte.
const PAGE: usize = 5;

/// Stored bytes that are projected on the current thread, without moving its other tasks.
const INLINE_BYTES: usize = 64 << 10;

/// The route.
pub(super) fn routes() -> Routes<App> {
    let route = gateway::protected(PERMISSION, post(export));
    Routes::new().route("/users/export/ids", route, [describe()])
}

fn describe() -> Operation {
    let some = |body: Value| read(body.as_object().cloned().unwrap_or_default(), None);
    Operation::new(Method::POST, "exportUsers", TAG, "Export named users")
        .by(Access::Key(PERMISSION))
        .about(
            "Returns the records of the users with these identifiers, as an export has them. The \
             response has each user once, in the order in which the request first names them. \
             Users with the same email address or phone number are in the order of their creation. \
             Data that was received a moment before may be missing.",
        )
        .takes::<UsersRequest>(
            "Two users, and some fields",
            json!({
                "external_ids": ["ann"],
                "email_addresses": ["bob@example.com"],
                "fields_to_export": ["external_id", "email", "purchases"],
            }),
        )
        .returns::<ExportedUsers>(StatusCode::CREATED, "The users.")
        .with_example(json!({
            "message": "success",
            "users": [{ "external_id": "ann", "email": "ann@example.com" }],
            "invalid_user_ids": ["bob@example.com"],
        }))
        .refuses_some([some(json!({}))], "No identifier, or too many")
        .refuses_some(
            [some(json!({ "emails": ["ann@example.com"] }))],
            "A field is missing or invalid",
        )
        .refuses(&too_many_users(), "An address or a number belongs to many users")
        .refuses(&too_large(MAX_BYTES), "The records are too large")
}

/// `POST /users/export/ids`.
async fn export(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let alias = caller.workspace.aliases.service_id.as_deref();
    let (request, warnings) = read(body.object_in_place(&app)?, alias)?;
    // The response takes the memory of the body.
    drop(body);
    let set = request.fields()?;
    let (mentions, given): (Vec<_>, Vec<_>) = request.mentions().into_iter().unzip();
    let mut tx = app.request_queue.snapshot().await?;
    // The caller's copy may be a few seconds old, from before an `apply`.
    let workspace = workspaces::by_id(&mut tx, caller.workspace.id)
        .await?
        .ok_or_else(|| ApiError::Invalid("The workspace was deleted".into()))?;
    let found =
        mentions::find(&mut tx, workspace.id, &mentions).await.map_err(|error| match error {
            MentionError::TooMany => too_many_users(),
            MentionError::Store(error) => error.into(),
        })?;
    let ids = in_order(&found);
    if ids.len() > MAX_USERS {
        return Err(too_many_users());
    }
    let mut memory = ResponseMemory::reserve(&app, workspace.id)?;
    let records = Records::new(projector(&app, &mut tx, &set, &workspace).await?);
    let mut records = records.looking_for(request.attributes());
    let users = (workspace.id, &ids[..]);
    append_users(&app, &mut tx, users, &set, &mut records, &mut memory).await?;
    tx.commit().await?;
    let invalid_user_ids: Vec<Value> =
        given.into_iter().zip(&found).filter(|(_, ids)| ids.is_empty()).map(|(id, _)| id).collect();
    tracing::info!(users = records.users, unknown = invalid_user_ids.len(), "users exported");
    let json = [(header::CONTENT_TYPE, "application/json")];
    let mut all = Warnings::from(warnings);
    all.extend(records.unknown_attributes());
    let body = memory.hold(records.finish(invalid_user_ids, all.into_vec())?);
    Ok((StatusCode::CREATED, json, body).into_response())
}

/// Creates the records of a workspace's users. Only activity depends on the day.
pub(crate) async fn projector(
    app: &App,
    tx: &mut Tx,
    fields: &FieldSet,
    Workspace { currency, exchange_rates, .. }: &Workspace,
) -> Result<Projector, StoreError> {
    let now =
        if fields.needs_activity() { app.database_now(tx).await? } else { app.clock.now_ms() };
    Ok(Projector::for_days(fields, window(now), currency, exchange_rates))
}

/// Appends the records of a workspace's users, some at a time.
pub(crate) async fn append_users(
    app: &App,
    tx: &mut Tx,
    (workspace, ids): (i32, &[Uuid]),
    fields: &FieldSet,
    records: &mut Records,
    memory: &mut ResponseMemory,
) -> Result<(), ApiError> {
    for ids in ids.chunks(PAGE) {
        let page = read_users(tx, workspace, ids, fields).await?;
        let stored: usize = page.iter().map(ReadUser::bytes).sum();
        let mut append = || page.iter().for_each(|user| records.append(&user.row()));
        if stored > INLINE_BYTES {
            app.cores.compute_here(workspace, append);
        } else {
            append();
        }
        memory.grow(records.bytes())?;
    }
    Ok(())
}

fn too_many_users() -> ApiError {
    ApiError::Invalid(format!(
        "The addresses and numbers in the request belong to more than {MAX_USERS} users. Use \
         external_ids or service_ids, or export a segment"
    ))
}

/// The users of all mentions, each once, in the order of their first mention.
fn in_order(found: &[BTreeSet<Uuid>]) -> Vec<Uuid> {
    let mut seen = BTreeSet::new();
    found.iter().flatten().copied().filter(|id| seen.insert(*id)).collect()
}

/// A user, read from the database.
struct ReadUser {
    user: StoredUser,
    activity: Option<Vec<u8>>,
}

impl ReadUser {
    fn bytes(&self) -> usize {
        self.user.doc.len() + self.activity.as_ref().map_or(0, Vec::len)
    }

    fn row(&self) -> UserRow<'_> {
        UserRow {
            service_id: self.user.service_id,
            doc: &self.user.doc,
            activity: self.activity.as_deref(),
        }
    }
}

/// Reads users in the order of their ids in `ids`.
async fn read_users(
    tx: &mut Tx,
    workspace: i32,
    ids: &[Uuid],
    fields: &FieldSet,
) -> Result<Vec<ReadUser>, StoreError> {
    let mut users = rows::find_users(tx, workspace, ids, For::Reading).await?;
    if fields.needs_addresses() {
        let documents = users.iter().map(|user| (user.service_id, user.doc.as_str()));
        let addresses = AddressStates::look_up(tx, workspace, documents).await?;
        for user in &mut users {
            let state = addresses.of_user(user.service_id);
            if let Some(document) = state.and_then(|state| state.applied(&user.doc)) {
                user.doc = document;
            }
        }
    }
    let mut users: BTreeMap<Uuid, StoredUser> =
        users.into_iter().map(|user| (user.service_id, user)).collect();
    let mut activity: HashMap<Uuid, Vec<u8>> = HashMap::new();
    if fields.needs_activity() {
        activity.extend(activity_rows::find_activities(tx, workspace, ids).await?);
    }
    let read =
        |id: &Uuid| Some(ReadUser { user: users.remove(id)?, activity: activity.remove(id) });
    Ok(ids.iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_is_in_the_order_of_its_first_mention() {
        let [a, b, c] = [1, 2, 3].map(Uuid::from_u128);
        let found = [BTreeSet::from([b]), BTreeSet::new(), BTreeSet::from([a, b, c])];
        assert_eq!(in_order(&found), [b, a, c]);
    }
}

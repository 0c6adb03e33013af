//! Requests that change users' identities: `/users/delete`, `/users/identify`, `/users/merge`,
//! `/users/alias/…` and `/users/external_ids/…`. Each is a type that returns its
//! changes, which go through the log like tracked objects.

mod external_ids;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use self::external_ids::{RemoveIds, RenameIds};
use super::message::{Identity, IdentityChange, Object};
use super::{Request, messages};
use gateway::formats::{self, Identifier, List, SuccessText, exactly_one};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::Warned;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes, fields,
};
use messages::app::App;
use people::users::mentions::{self, Mention, MentionError};
use people::users::{identifier, selector};
use runtime::audit::Change;

const TAG: Tag = Tag {
    name: "Identities",
    about: "Change users' identities: add aliases, rename external ids, merge and delete users.",
};

/// Maximum number of entries of a request.
const MAX: usize = 50;

/// How long a request waits for the number of users.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

/// Part of the description of all these requests.
const DESCRIPTION: &str = "At most 50 entries. The response is sent once the changes are durable. \
     They are applied soon after. A change is applied after all data for the same identifiers \
     that was accepted before the change was sent. If a change needs the result of another one, such as merging a user \
     who is being renamed, send it after that one was applied. An entry for an unknown user has no \
     effect.";

/// The routes of identities.
pub(super) fn routes() -> Routes<App> {
    let routes = route::<DeleteUsers>(Routes::new());
    let routes = route::<IdentifyUsers>(routes);
    let routes = route::<MergeUsers>(routes);
    let routes = route::<NewAliases>(routes);
    let routes = route::<UpdateAliases>(routes);
    let routes = route::<RenameIds>(routes);
    route::<RemoveIds>(routes)
}

/// The body of a request.
trait Body: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    type Response: Serialize + JsonSchema + Send + 'static;
    const PATH: &'static str;
    const PERMISSION: &'static str;
    const ID: &'static str;
    const SUMMARY: &'static str;
    /// The beginning of the description, before the shared part.
    const DESCRIPTION: &'static str;
    const STATUS: StatusCode = StatusCode::CREATED;

    fn example() -> Value;

    /// The response, and the changes. The error is about fields that conflict with each other.
    fn changes(self) -> Result<(Self::Response, Vec<Identity<'static>>), String>;

    /// The field of the response with the number of existing users that the changes name, if
    /// it has one.
    fn existing_users(_: &mut Self::Response) -> Option<&mut Option<usize>> {
        None
    }
}

fn route<B: Body>(routes: Routes<App>) -> Routes<App> {
    let operation = Operation::new(Method::POST, B::ID, TAG, B::SUMMARY)
        .by(Access::Key(B::PERMISSION))
        .about(format!("{} {DESCRIPTION}", B::DESCRIPTION))
        .repeatable()
        .takes::<B>("An entry", B::example())
        .returns::<Warned<B::Response>>(B::STATUS, "The changes are durable.");
    let route = gateway::protected(B::PERMISSION, post(change::<B>));
    routes.route(B::PATH, route, [operation])
}

async fn change<B: Body>(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let turn = match idempotency::begin_append(&app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let mut members = turn.in_place(JsonText::object)?;
    selector::rename_alias(&mut members, caller.workspace.aliases.service_id.as_deref())?;
    let read = fields::read_request::<B>(&members);
    let (request, warnings) = read.map_err(|error| turn.rejected(error))?;
    let (mut answer, changes) = request.changes().map_err(ApiError::invalid_field)?;
    drop(members);
    if let Some(count) = B::existing_users(&mut answer) {
        *count = count_existing(&app, caller.workspace.id, &changes).await;
    }
    // Only deletions are recorded. Not the ids, which are data of users.
    let change = Change::new(B::PERMISSION, B::PATH, json!({ "entries": changes.len() }));
    let recording = caller.record_after(change);
    let request = Request {
        workspace: caller.workspace.id,
        received_at: turn.received().at,
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
        alias: None,
    };
    let messages = messages(
        changes.into_iter().flat_map(Identity::copies).map(Object::Identity).collect(),
        &request,
    )
    .map_err(|error| ApiError::Internal(format!("cannot serialize a message: {error}")))?;
    let answer = Warned { response: answer, warnings };
    let response = StoredResponse::json(B::STATUS, &answer)?.recorded(recording);
    turn.append(messages, response).await
}

/// The number of different existing users that the changes name. None if the database does
/// not answer soon: the changes need only the log.
async fn count_existing(app: &App, workspace: i32, changes: &[Identity<'static>]) -> Option<usize> {
    let mentions: Vec<Mention<'_>> = changes.iter().map(|change| (&change.user).into()).collect();
    let read = async {
        let mut tx = app.request_queue.snapshot().await?;
        let found = mentions::find(&mut tx, workspace, &mentions).await?;
        tx.commit().await?;
        Ok::<_, MentionError>(found.into_iter().flatten().collect::<BTreeSet<_>>().len())
    };
    match tokio::time::timeout(COUNT_TIMEOUT, read).await {
        Ok(Ok(count)) => Some(count),
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot count the users of a request");
            None
        }
        Err(_) => {
            tracing::warn!("cannot count the users of a request: the database did not answer");
            None
        }
    }
}

fn by_id(id: Identifier) -> identifier::Identifier<'static> {
    identifier::Identifier::ExternalId(id.0.into())
}

fn to_alias(alias: formats::UserAlias) -> identifier::UserAlias<'static> {
    let formats::UserAlias { alias_name, alias_label } = alias;
    identifier::UserAlias { alias_name: alias_name.0.into(), alias_label: alias_label.0.into() }
}

fn by_alias(alias: formats::UserAlias) -> identifier::Identifier<'static> {
    identifier::Identifier::UserAlias(to_alias(alias))
}

// Deleting -------------------------------------------------------------------------------

/// Users to delete: at most 50 in total.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DeleteUsersRequest")]
struct DeleteUsers {
    external_ids: Option<List<Identifier, 0, MAX>>,
    user_aliases: Option<List<formats::UserAlias, 0, MAX>>,
    /// The `service_id` of a merged user identifies the user who was kept.
    service_ids: Option<List<Uuid, 0, MAX>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsersDeleted")]
struct Deleted {
    /// Number of users in the request that existed when it was received, each counted once. Users
    /// whose first data was accepted shortly before may not exist yet: they are deleted, but not
    /// counted. Absent if the database is unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<usize>,
    message: SuccessText,
}

impl Body for DeleteUsers {
    type Response = Deleted;
    const PATH: &'static str = "/users/delete";
    const PERMISSION: &'static str = "users.delete";
    const ID: &'static str = "deleteUsers";
    const SUMMARY: &'static str = "Delete users";
    const DESCRIPTION: &'static str = "Deletes each user and all of their data. Data received before \
         the request cannot create the user again; data received later can.";

    fn example() -> Value {
        json!({ "external_ids": ["ann", "bob"] })
    }

    fn changes(self) -> Result<(Deleted, Vec<Identity<'static>>), String> {
        let ids = self.external_ids.unwrap_or_default().0.into_iter().map(by_id);
        let aliases = self.user_aliases.unwrap_or_default().0.into_iter().map(by_alias);
        let service_ids = self.service_ids.unwrap_or_default().0.into_iter();
        let service_ids = service_ids.map(identifier::Identifier::ServiceId);
        let erase = |user| Identity::new(user, IdentityChange::Erase);
        let all: Vec<_> = ids.chain(aliases).chain(service_ids).map(erase).collect();
        if !(1..=MAX).contains(&all.len()) {
            return Err(format!(
                "external_ids, user_aliases and service_ids must have 1 to {MAX} users in total"
            ));
        }
        Ok((Deleted { deleted: None, message: SuccessText::Success }, all))
    }

    fn existing_users(response: &mut Deleted) -> Option<&mut Option<usize>> {
        Some(&mut response.deleted)
    }
}

// Identifying and merging -------------------------------------------------------------------

/// Users who have only an alias or an email, and the external ids to give them. At most
/// 50 in total.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "IdentifyUsersRequest")]
struct IdentifyUsers {
    aliases_to_identify: Option<List<AliasToIdentify, 0, MAX>>,
    emails_to_identify: Option<List<EmailToIdentify, 0, MAX>>,
    /// Only `merge` is supported.
    #[expect(dead_code, reason = "there is one value")]
    merge_behavior: Option<MergeBehavior>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum MergeBehavior {
    Merge,
}

/// A user who is identified by an alias.
#[derive(Deserialize, JsonSchema)]
struct AliasToIdentify {
    external_id: Identifier,
    user_alias: formats::UserAlias,
}

/// A user who is identified by email.
#[derive(Deserialize, JsonSchema)]
struct EmailToIdentify {
    external_id: Identifier,
    email: Email,
    /// What happens if several users without an external id have the email. With
    /// `["unidentified"]`, no user is changed. With `["unidentified", "most_recently_updated"]`,
    /// which is the default, the user who was updated last gets the external id.
    prioritization: Option<Prioritization>,
}

/// Which of several users without an external id gets one.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
enum Prioritization {
    OnlyMatch,
    UpdatedLast,
}

const UNIDENTIFIED: &str = "unidentified";
const UPDATED_LAST: &str = "most_recently_updated";

impl TryFrom<Vec<String>> for Prioritization {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names.as_slice() {
            [UNIDENTIFIED] => Ok(Self::OnlyMatch),
            [UNIDENTIFIED, UPDATED_LAST] => Ok(Self::UpdatedLast),
            _ => Err(format!(
                "must be [\"{UNIDENTIFIED}\"] or [\"{UNIDENTIFIED}\", \"{UPDATED_LAST}\"]"
            )),
        }
    }
}

impl JsonSchema for Prioritization {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Prioritization".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": { "type": "string", "enum": [UNIDENTIFIED, UPDATED_LAST] },
            "minItems": 1, "maxItems": 2, "uniqueItems": true,
            "not": { "enum": [[UPDATED_LAST], [UPDATED_LAST, UNIDENTIFIED]] },
        })
    }
}

/// An email address.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
struct Email(String);

impl TryFrom<String> for Email {
    type Error = String;

    fn try_from(email: String) -> Result<Self, String> {
        people::users::profile::check::email(&email).map(|()| Self(email))
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AliasesProcessed")]
struct Processed {
    /// Number of accepted entries.
    aliases_processed: usize,
    message: SuccessText,
}

fn processed(
    changes: Vec<Identity<'static>>,
) -> Result<(Processed, Vec<Identity<'static>>), String> {
    let answer = Processed { aliases_processed: changes.len(), message: SuccessText::Success };
    Ok((answer, changes))
}

impl Body for IdentifyUsers {
    type Response = Processed;
    const PATH: &'static str = "/users/identify";
    const PERMISSION: &'static str = "users.identify";
    const ID: &'static str = "identifyUsers";
    const SUMMARY: &'static str = "Give users external ids";
    const DESCRIPTION: &'static str = "Gives the external id to a user who has only an alias or an \
         email. If another user already has it, the first user is merged into that user, as by \
         `POST /users/merge`, unless both have an alias with the same label.";

    fn example() -> Value {
        let alias = json!({ "alias_name": "c-17", "alias_label": "crm" });
        json!({ "aliases_to_identify": [{ "external_id": "ann", "user_alias": alias }] })
    }

    fn changes(self) -> Result<(Processed, Vec<Identity<'static>>), String> {
        let aliases = self.aliases_to_identify.unwrap_or_default().0.into_iter();
        let identify =
            |user, Identifier(id)| Identity::new(user, IdentityChange::Identify(id.into()));
        let aliases = aliases.map(|entry| identify(by_alias(entry.user_alias), entry.external_id));
        let emails = self.emails_to_identify.unwrap_or_default().0.into_iter();
        let emails = emails.map(|entry| {
            let user = identifier::Identifier::Email(entry.email.0.into());
            let needs_one_match = entry.prioritization == Some(Prioritization::OnlyMatch);
            Identity { needs_one_match, ..identify(user, entry.external_id) }
        });
        let all: Vec<_> = aliases.chain(emails).collect();
        if !(1..=MAX).contains(&all.len()) {
            return Err(format!(
                "aliases_to_identify and emails_to_identify must have 1 to {MAX} users in total"
            ));
        }
        processed(all)
    }
}

/// Users to merge.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MergeUsersRequest")]
struct MergeUsers {
    merge_updates: List<Merge, 1, MAX>,
}

#[derive(Deserialize, JsonSchema)]
struct Merge {
    /// The user to merge into the other one, and to remove.
    identifier_to_merge: Named,
    /// The user to keep.
    identifier_to_keep: Named,
}

/// A user, identified by exactly one of `external_id` and `user_alias`.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "NamedFields")]
#[schemars(with = "NamedFields", inline)]
struct Named(identifier::Identifier<'static>);

/// A user, identified by exactly one of `external_id` and `user_alias`.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NamedUser", transform = exactly_one(&["external_id", "user_alias"]))]
struct NamedFields {
    external_id: Option<Identifier>,
    user_alias: Option<formats::UserAlias>,
}

impl TryFrom<NamedFields> for Named {
    type Error = String;

    fn try_from(NamedFields { external_id, user_alias }: NamedFields) -> Result<Self, String> {
        match (external_id, user_alias) {
            (Some(id), None) => Ok(Self(by_id(id))),
            (None, Some(alias)) => Ok(Self(by_alias(alias))),
            _ => Err("must have exactly one of external_id and user_alias".to_owned()),
        }
    }
}

impl Body for MergeUsers {
    type Response = formats::Success;
    const PATH: &'static str = "/users/merge";
    const PERMISSION: &'static str = "users.merge";
    const ID: &'static str = "mergeUsers";
    const SUMMARY: &'static str = "Merge users";
    const DESCRIPTION: &'static str = "The user to keep gets the fields and custom attributes that only \
         the other user has, the other user's aliases, and the combined events, purchases and \
         revenue. The other user is removed.";
    const STATUS: StatusCode = StatusCode::ACCEPTED;

    fn example() -> Value {
        json!({ "merge_updates": [{
            "identifier_to_merge": { "external_id": "ann-2" },
            "identifier_to_keep": { "external_id": "ann" },
        }] })
    }

    fn changes(self) -> Result<(formats::Success, Vec<Identity<'static>>), String> {
        let merge =
            |Merge { identifier_to_merge: Named(gone), identifier_to_keep: Named(kept) }| {
                Identity::new(gone, IdentityChange::MergeInto(kept))
            };
        let changes = self.merge_updates.0.into_iter().map(merge).collect();
        Ok((formats::Success::default(), changes))
    }
}

// Aliases ------------------------------------------------------------------------------------

/// Aliases to add.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewAliasesRequest")]
struct NewAliases {
    user_aliases: List<NewAlias, 1, MAX>,
}

/// An alias, and the user to give it to. Without an external id, a user who has only this alias is
/// created.
#[derive(Deserialize, JsonSchema)]
struct NewAlias {
    external_id: Option<Identifier>,
    alias_name: Identifier,
    alias_label: Identifier,
}

impl Body for NewAliases {
    type Response = Processed;
    const PATH: &'static str = "/users/alias/new";
    const PERMISSION: &'static str = "users.alias.new";
    const ID: &'static str = "addAliases";
    const SUMMARY: &'static str = "Add aliases";
    const DESCRIPTION: &'static str = "An alias is not added if another user has it, or if the \
         user has an alias with the same label.";

    fn example() -> Value {
        json!({ "user_aliases": [
            { "external_id": "ann", "alias_name": "c-17", "alias_label": "crm" },
        ] })
    }

    fn changes(self) -> Result<(Processed, Vec<Identity<'static>>), String> {
        let add = |NewAlias { external_id, alias_name, alias_label }| {
            let alias = to_alias(formats::UserAlias { alias_name, alias_label });
            let by_alias = || identifier::Identifier::UserAlias(alias.clone());
            let user = external_id.map_or_else(by_alias, by_id);
            Identity::new(user, IdentityChange::AddAlias(alias))
        };
        processed(self.user_aliases.0.into_iter().map(add).collect())
    }
}

/// Aliases to rename.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "UpdateAliasesRequest")]
struct UpdateAliases {
    alias_updates: List<UpdateAlias, 1, MAX>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AliasUpdate")]
struct UpdateAlias {
    alias_label: Identifier,
    old_alias_name: Identifier,
    new_alias_name: Identifier,
}

impl Body for UpdateAliases {
    type Response = Processed;
    const PATH: &'static str = "/users/alias/update";
    const PERMISSION: &'static str = "users.alias.update";
    const ID: &'static str = "updateAliases";
    const SUMMARY: &'static str = "Rename aliases";
    const DESCRIPTION: &'static str =
        "An alias is not renamed if another user has the new name under the same label.";

    fn example() -> Value {
        json!({ "alias_updates": [
            { "alias_label": "crm", "old_alias_name": "c-17", "new_alias_name": "c-18" },
        ] })
    }

    fn changes(self) -> Result<(Processed, Vec<Identity<'static>>), String> {
        let rename = |UpdateAlias { alias_label, old_alias_name, new_alias_name }| {
            let alias = formats::UserAlias { alias_name: old_alias_name, alias_label };
            let change = IdentityChange::RenameAlias(new_alias_name.0.into());
            Identity::new(by_alias(alias), change)
        };
        processed(self.alias_updates.0.into_iter().map(rename).collect())
    }
}

//! Requests that read and set users' subscriptions: `/subscription/status/get` and `…/set`, and
//! `/email/status`. Their changes go through the log, like attributes. Opt-outs are also applied
//! [immediately](RequestOptOuts).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use super::immediate::RequestOptOuts;
use super::message::{Attributes, DecidedAddress, Entries, Json, Object};
use super::{Request, messages};
use gateway::formats::{Identifier, List, Success, SuccessText};
use gateway::idempotency::{self, Begun, Received, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::{Warned, Warning};
use gateway::workspaces::settings::{self, Settings};
use gateway::{
    self, Access, ApiError, Caller, Code, IdempotencyKey, JsonText, Operation, Routes, fields,
};
use kit::email_address::{compared, mailbox};
use kit::words::about_field;
use log::NewMessage;
use messages::app::App;
use people::users::email_owners;
use people::users::identifier;
use people::users::profile::{Field, check};
use people::users::recipient::Recipient;
use people::users::rows::{self, For, Kind, StoredUser};
use people::users::search;
use people::users::selector::Phone;
use people::users::suppressions::{AddressStates, Contact};

const GET: &str = "subscription.status.get";
const SET: &str = "subscription.status.set";
const EMAIL: &str = "email.status";

/// Maximum number of users in a request.
const MAX: usize = 50;

const TAG: Tag = Tag { name: "Subscriptions", about: "Users' subscriptions." };

pub(super) fn routes() -> Routes<App> {
    let set = |endpoint: Endpoint| gateway::protected(SET, post(set).layer(Extension(endpoint)));
    Routes::new()
        .route("/subscription/status/get", gateway::protected(GET, get(status)), [describe_get()])
        .route("/subscription/status/set", set(Endpoint::One), [describe_set()])
        .route("/v2/subscription/status/set", set(Endpoint::Many), [describe_set_many()])
        .route("/email/status", gateway::protected(EMAIL, post(email)), [describe_email()])
}

/// One string, or an array of `MIN` to [`MAX`] strings.
struct OneOrMany<const MIN: usize>(Vec<String>);

impl<'de, const MIN: usize> Deserialize<'de> for OneOrMany<MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor<const MIN: usize>;

        impl<'de, const MIN: usize> Visitor<'de> for OneOrManyVisitor<MIN> {
            type Value = OneOrMany<MIN>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                let List(texts) =
                    List::<String, MIN, MAX>::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(OneOrMany(texts))
            }
        }

        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

impl<const MIN: usize> JsonSchema for OneOrMany<MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OneOrMany".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let many = generator.subschema_for::<List<String, MIN, MAX>>();
        json_schema!({ "anyOf": [{ "type": "string" }, many] })
    }
}

/// Whether users get the messages of a subscription group.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum GroupState {
    Subscribed,
    Unsubscribed,
}

impl GroupState {
    fn json(self) -> &'static str {
        match self {
            Self::Subscribed => "\"subscribed\"",
            Self::Unsubscribed => "\"unsubscribed\"",
        }
    }
}

// The state in a group -----------------------------------------------------------------------

fn describe_get() -> Operation {
    Operation::new(Method::GET, "getSubscription", TAG, "Get users' state in a subscription group")
        .by(Access::Key(GET))
        .about(format!(
            "Returns the states of at most {MAX} users, by `external_id`, `email` or `phone`. To \
             list several users, repeat a parameter, with or without `[]`. An opt-out of a number \
             counts for each user who has the number. The state is `Unknown` if the user has no \
             state or does not exist."
        ))
        .requires_in_query(
            "subscription_group_id",
            "The id of the subscription group.",
            json!({ "type": "string" }),
        )
        .in_query("external_id", "The user's external id.", json!({ "type": "string" }))
        .in_query("email", "The user's email address.", json!({ "type": "string" }))
        .in_query(
            "phone",
            "The user's phone number, with its country code.",
            json!({ "type": "string" }),
        )
        .returns::<States>(StatusCode::OK, "The states, by external id, email or phone number.")
        .with_example(json!({ "message": "success", "status": { "ann": "Subscribed" } }))
        .refuses_some([parse_query("")], "A required parameter is missing")
        .refuses_some([parse_query("user_alias=ann")], "A parameter would select other users")
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SubscriptionStates")]
struct States {
    message: SuccessText,
    #[schemars(with = "BTreeMap<String, String>")]
    status: BTreeMap<String, &'static str>,
}

/// The parameters of a query about states.
#[derive(Debug, Default)]
struct StateQuery {
    group: String,
    external_ids: Vec<String>,
    emails: Vec<String>,
    phones: Vec<Phone>,
}

fn parse_query(query: &str) -> Result<StateQuery, ApiError> {
    let (mut group, mut found) = (None, StateQuery::default());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match name.strip_suffix("[]").unwrap_or(&name) {
            "subscription_group_id" => group = Some(value.into_owned()),
            "external_id" => found.external_ids.push(value.into_owned()),
            "email" => found.emails.push(value.into_owned()),
            "phone" => found.phones.push(phone(value.into_owned())?),
            other => fields::check_selector(other)?,
        }
    }
    found.group = group.ok_or_else(|| missing("subscription_group_id"))?;
    match found.external_ids.len() + found.emails.len() + found.phones.len() {
        0 => Err(missing(USERS)),
        1..=MAX => Ok(found),
        _ => {
            let text = format!("external_id, email and phone must have at most {MAX} users");
            Err(ApiError::invalid_field(text))
        }
    }
}

async fn status(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<States>, ApiError> {
    let query = parse_query(query.as_deref().unwrap_or_default())?;
    let workspace = caller.workspace.id;
    let group = check_group(&*settings::find(&app, workspace).await?, &query.group)?.to_string();
    let mut tx = app.request_queue.snapshot().await?;
    let values: Vec<&str> = query.external_ids.iter().map(String::as_str).collect();
    let known = rows::find_identifiers(&mut tx, workspace, Kind::ExternalId, &values).await?;
    let owners: Vec<Uuid> = known.iter().map(|known| known.service_id).collect();
    let users = rows::find_users(&mut tx, workspace, &owners, For::Reading).await?;
    let addresses = AddressStates::look_up(&mut tx, workspace, documents(&users)).await?;
    let mut status = BTreeMap::new();
    for id in query.external_ids {
        let owner = known.iter().find(|known| known.value == id).map(|known| known.service_id);
        let user = users.iter().filter(|user| Some(user.service_id) == owner);
        status.insert(id, group_state(user, &addresses, &group));
    }
    for email in query.emails {
        let owners = email_owners::find(&mut tx, workspace, &[&email], |_| true).await?;
        let owner: Vec<Uuid> = owners.into_values().map(|owner| owner.service_id).collect();
        let owner = rows::find_users(&mut tx, workspace, &owner, For::Reading).await?;
        let addresses = AddressStates::look_up(&mut tx, workspace, documents(&owner)).await?;
        status.insert(email, group_state(owner.iter(), &addresses, &group));
    }
    for Phone { text, number } in query.phones {
        let holders = search::phone_holders(&mut tx, workspace, &number).await?;
        let addresses = AddressStates::look_up(&mut tx, workspace, documents(&holders)).await?;
        let contact = Contact { email: None, phone: Some(number.into()) };
        let decided = AddressStates::of_address(&mut tx, workspace, contact).await?;
        let decided = decided.group(&group).map(|decision| in_words(Some(&decision.state)));
        let state = match decided {
            Some(state) if holders.is_empty() => state,
            _ => group_state(holders.iter(), &addresses, &group),
        };
        status.insert(text, state);
    }
    Ok(axum::Json(States { message: SuccessText::Success, status }))
}

fn documents(users: &[StoredUser]) -> impl Iterator<Item = (Uuid, &str)> {
    users.iter().map(|user| (user.service_id, user.doc.as_str()))
}

/// The state of users; if there are several, that of one who is unsubscribed.
fn group_state<'u>(
    users: impl Iterator<Item = &'u StoredUser>,
    addresses: &AddressStates,
    group: &str,
) -> &'static str {
    let state = |user: &StoredUser| {
        let mut recipient = Recipient::read(user.service_id, &user.doc).ok()?;
        addresses.apply(&mut recipient, &user.doc);
        recipient.group_state(group).map(str::to_owned)
    };
    let states: Vec<Option<String>> = users.map(state).collect();
    let opt_out = states.iter().flatten().find(|state| *state != "subscribed");
    in_words(opt_out.or(states.iter().flatten().next()).map(String::as_str))
}

fn in_words(state: Option<&str>) -> &'static str {
    match state {
        Some("subscribed") => "Subscribed",
        Some(_) => "Unsubscribed",
        None => "Unknown",
    }
}

/// Parses the id of a group; the workspace must declare it.
pub(super) fn check_group(settings: &Settings, id: &str) -> Result<Uuid, ApiError> {
    let id = Uuid::try_parse(id).ok();
    let id = id.filter(|id| settings.subscription_groups.iter().any(|group| group.id == *id));
    id.ok_or_else(|| {
        let text = "subscription_group_id does not match a subscription group in this workspace";
        ApiError::invalid_field(text)
    })
}

/// The two forms of a request.
#[derive(Clone, Copy)]
enum Endpoint {
    One,
    Many,
}

/// The new state in a subscription group: of the users in `external_id` and `email`, and of the
/// numbers in `phone`.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SetSubscriptionRequest")]
struct SetOne {
    subscription_group_id: String,
    subscription_state: GroupState,
    external_id: Option<OneOrMany<0>>,
    email: Option<OneOrMany<0>>,
    phone: Option<OneOrMany<0>>,
}

/// The new states of users in several subscription groups.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SetSubscriptionsRequest")]
struct SetMany {
    subscription_groups: List<GroupUsers, 1, MAX>,
}

/// The new state in a subscription group: of the users in `external_ids` and `emails`, and of the
/// numbers in `phones`.
#[derive(Deserialize, JsonSchema)]
struct GroupUsers {
    subscription_group_id: String,
    subscription_state: GroupState,
    external_ids: Option<List<String, 0, MAX>>,
    emails: Option<List<String, 0, MAX>>,
    phones: Option<List<String, 0, MAX>>,
}

impl From<SetOne> for GroupUsers {
    fn from(set: SetOne) -> Self {
        Self {
            subscription_group_id: set.subscription_group_id,
            subscription_state: set.subscription_state,
            external_ids: set.external_id.map(|OneOrMany(ids)| List(ids)),
            emails: set.email.map(|OneOrMany(emails)| List(emails)),
            phones: set.phone.map(|OneOrMany(phones)| List(phones)),
        }
    }
}

const SET_ABOUT: &str = "At most 50 users and numbers. The response is sent once the change is \
                         durable. The change is applied soon after. Of several states for a user \
                         and a group, the one that was received last holds, whatever identifier \
                         named the user. `unsubscribed` also holds for the user's number, and so \
                         for all users who have it, now or later. A number becomes `subscribed` \
                         again only by `phone`. Unknown users are skipped. States in other groups \
                         do not change.";

fn describe_set() -> Operation {
    Operation::new(Method::POST, "setSubscription", TAG, "Set users' state in a subscription group")
        .by(Access::Key(SET))
        .about(SET_ABOUT)
        .repeatable()
        .takes::<SetOne>(
            "A user",
            json!({
                "subscription_group_id": "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90",
                "subscription_state": "subscribed", "external_id": ["ann"],
            }),
        )
        .returns::<Warned<Success>>(StatusCode::CREATED, "The change is durable.")
}

fn describe_set_many() -> Operation {
    let summary = "Set users' states in subscription groups";
    Operation::new(Method::POST, "setSubscriptions", TAG, summary)
        .by(Access::Key(SET))
        .about(SET_ABOUT)
        .repeatable()
        .takes::<SetMany>(
            "A user in a group",
            json!({ "subscription_groups": [{
                "subscription_group_id": "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90",
                "subscription_state": "unsubscribed", "external_ids": ["ann"],
            }] }),
        )
        .returns::<Warned<Success>>(StatusCode::CREATED, "The change is durable.")
}

async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(endpoint): Extension<Endpoint>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let turn = match idempotency::begin_append(&app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let settings = settings::find(&app, caller.workspace.id).await?;
    let members = turn.in_place(JsonText::object)?;
    let objects = group_states(&members, endpoint, &settings);
    let (objects, warnings) = objects.map_err(|error| turn.rejected(error))?;
    drop(members);
    let (messages, opt_outs) = to_log(objects, &app, caller, turn.received())?;
    let answer = Warned { response: Success::default(), warnings };
    let response = StoredResponse::json(StatusCode::CREATED, &answer)?;
    let (response, log_times) = turn.append_timed(messages, response).await?;
    opt_outs.apply(&app, &log_times).await;
    Ok(response)
}

/// The users of a request with their new states in groups.
fn group_states(
    members: &Map<String, Value>,
    endpoint: Endpoint,
    settings: &Settings,
) -> Result<(Vec<Object<'static>>, Vec<Warning>), ApiError> {
    let (groups, warnings) = match endpoint {
        Endpoint::One => {
            let (set, warnings) = fields::read_request::<SetOne>(members)?;
            (vec![set.into()], warnings)
        }
        Endpoint::Many => {
            let (set, warnings) = fields::read_request::<SetMany>(members)?;
            (set.subscription_groups.0, warnings)
        }
    };
    let (mut objects, mut keys) = (Vec::new(), HashSet::new());
    for users in groups {
        let group = check_group(settings, &users.subscription_group_id)?;
        let ids = users.external_ids.unwrap_or_default().0.into_iter().map(|id| {
            let id = Identifier::try_from(id);
            let id = id.map_err(|why| ApiError::invalid_field(format!("external_id {why}")))?;
            Ok(identifier::Identifier::ExternalId(id.0.into()))
        });
        let mut ids = ids.collect::<Result<Vec<_>, ApiError>>()?;
        for email in users.emails.unwrap_or_default().0 {
            ids.extend(by_email(&email)?);
        }
        let phones = users.phones.unwrap_or_default().0.into_iter().map(phone);
        let phones = phones.collect::<Result<Vec<_>, ApiError>>()?;
        if ids.is_empty() && phones.is_empty() {
            return Err(missing(USERS));
        }
        keys.extend(ids.iter().map(|id| match id {
            identifier::Identifier::Email(email) => mailbox(email).into_owned(),
            id => id.key(),
        }));
        keys.extend(phones.iter().map(|phone| phone.number.clone()));
        if keys.len() > MAX {
            let text = format!("subscription_groups must have at most {MAX} users in total");
            return Err(ApiError::invalid_field(text));
        }
        let states = || {
            let state = json_text(users.subscription_state.json())?;
            Ok::<_, ApiError>(Entries(vec![(Cow::Owned(group.to_string()), state)]))
        };
        for user in ids {
            let attributes = Attributes::states(user, Entries::default(), states()?);
            objects.push(Object::Attributes(attributes));
        }
        for Phone { number, .. } in phones {
            let address = DecidedAddress::Phone(number.into());
            let attributes = Attributes::about_address(address, Entries::default(), states()?);
            objects.push(Object::Attributes(attributes));
        }
    }
    Ok((objects, warnings))
}

/// The fields that select users.
const USERS: &str = "external_id, email or phone";

fn missing(name: &str) -> ApiError {
    ApiError::Field(Code::MissingField, format!("{name} is required"))
}

/// The users of an email address: also those who have another spelling of its mailbox.
fn by_email(email: &str) -> Result<Vec<identifier::Identifier<'static>>, ApiError> {
    check::email(email).map_err(|why| ApiError::invalid_field(about_field("email", &why)))?;
    let mut spellings = vec![email.to_owned()];
    if mailbox(email) != compared(email) {
        spellings.push(mailbox(email).into_owned());
    }
    Ok(spellings.into_iter().map(|email| identifier::Identifier::Email(email.into())).collect())
}

fn phone(text: String) -> Result<Phone, ApiError> {
    let shown = text.clone();
    Phone::try_from(text)
        .map_err(|why| ApiError::invalid_field(format!("phone {why}, not {shown:?}")))
}

fn json_text(text: &'static str) -> Result<Json<'static>, ApiError> {
    Json::compact(text.into()).map_err(ApiError::Internal)
}

// Emails -------------------------------------------------------------------------------------

/// Email addresses, and the new email subscription of their users.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "EmailStatusRequest")]
struct EmailStatus {
    email: OneOrMany<1>,
    subscription_state: EmailState,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum EmailState {
    OptedIn,
    Subscribed,
    Unsubscribed,
}

fn describe_email() -> Operation {
    Operation::new(Method::POST, "setEmailStatus", TAG, "Set users' email subscription")
        .by(Access::Key(EMAIL))
        .about(
            "Sets the state of the address, and so of all users who have it, now or later. Only this \
             request ends an opt-out of the address: a user's own state does not. At most 50 \
             addresses. The response is sent once the change is durable. The change is applied \
             soon after. It has no effect if a later one was received.",
        )
        .repeatable()
        .takes::<EmailStatus>(
            "An address",
            json!({ "email": "ann@example.com", "subscription_state": "unsubscribed" }),
        )
        .returns::<Warned<Success>>(StatusCode::CREATED, "The change is durable.")
}

async fn email(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let turn = match idempotency::begin_append(&app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let read = fields::read_request::<EmailStatus>(&turn.in_place(JsonText::object)?);
    let (status, warnings) = read.map_err(|error| turn.rejected(error))?;
    let EmailStatus { email, subscription_state } = status;
    let state = match subscription_state {
        EmailState::OptedIn => "\"opted_in\"",
        EmailState::Subscribed => "\"subscribed\"",
        EmailState::Unsubscribed => "\"unsubscribed\"",
    };
    let OneOrMany(emails) = email;
    let objects = emails.into_iter().map(|email| {
        check::email(&email).map_err(|why| ApiError::invalid_field(about_field("email", &why)))?;
        let entry = (Cow::Borrowed(Field::EmailSubscribe.name()), json_text(state)?);
        let (address, states) = (DecidedAddress::Email(email.into()), Entries(vec![entry]));
        let attributes = Attributes::about_address(address, states, Entries::default());
        Ok(Object::Attributes(attributes))
    });
    let objects = objects.collect::<Result<Vec<_>, ApiError>>()?;
    let (messages, opt_outs) = to_log(objects, &app, caller, turn.received())?;
    let answer = Warned { response: Success::default(), warnings };
    let response = StoredResponse::json(StatusCode::CREATED, &answer)?;
    let (response, log_times) = turn.append_timed(messages, response).await?;
    opt_outs.apply(&app, &log_times).await;
    Ok(response)
}

/// The messages of a request, and its opt-outs, to be applied after they are appended.
fn to_log(
    objects: Vec<Object<'static>>,
    app: &App,
    caller: Caller,
    received: Received,
) -> Result<(Vec<NewMessage>, RequestOptOuts), ApiError> {
    let workspace = caller.workspace.id;
    let request = Request {
        workspace,
        received_at: received.at,
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
        alias: None,
    };
    let messages = messages(objects, &request)
        .map_err(|error| ApiError::Internal(format!("cannot serialize a message: {error}")))?;
    let opt_outs = RequestOptOuts::among(workspace, received.at, &messages);
    Ok((messages, opt_outs))
}

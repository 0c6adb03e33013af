//! Requests about addresses that get no messages: `/suppressions/…`
//! (docs/reference/api/suppressions.md).

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::form_urlencoded;

use gateway::formats::{List, Success, SuccessText};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::workspaces::settings;
use gateway::{
    self, Access, ApiError, Caller, Code, IdempotencyKey, JsonText, Operation, Routes, fields,
};
use kit::clock::format_time;
use kit::words::about_field;
use messages::app::App;
use people::users::consent::UNSUBSCRIBED;
use people::users::profile::check;
use people::users::selector::Phone;
use people::users::suppressions::{self, Address, EMAIL, KnownState, NewDecision, group_scope};
use runtime::audit::Change;
use store::claims;

const LIST: &str = "suppressions.list";
const EDIT: &str = "suppressions.edit";

/// Maximum number of addresses in a request.
const MAX: usize = 50;

const TAG: Tag = Tag { name: "Suppressions", about: "Addresses that get no messages." };

pub(super) fn routes() -> Routes<App> {
    let edit = |edit: Edit| gateway::protected(EDIT, post(change).layer(Extension(edit)));
    Routes::new()
        .route("/suppressions/count", gateway::protected(LIST, get(count)), [describe_count()])
        .route(
            "/suppressions/check",
            gateway::protected(LIST, get(check_address)),
            [describe_check()],
        )
        .route("/suppressions/add", edit(Edit::Add), [describe_add()])
        .route("/suppressions/lift", edit(Edit::Lift), [describe_lift()])
}

// Counts -------------------------------------------------------------------------------------

#[derive(Serialize, JsonSchema)]
struct SuppressionCounts {
    message: SuccessText,
    suppressions: Vec<SuppressionCount>,
}

/// Addresses of one scope that get no messages for one reason.
#[derive(Serialize, JsonSchema)]
struct SuppressionCount {
    /// `email`, or the id of a subscription group.
    scope: String,
    /// `decision` or `complaint`.
    reason: String,
    addresses: i64,
}

fn describe_count() -> Operation {
    Operation::new(Method::GET, "countSuppressions", TAG, "Count suppressed addresses")
        .by(Access::Key(LIST))
        .about("Counts the addresses that get no messages, by scope and reason.")
        .returns::<SuppressionCounts>(StatusCode::OK, "The counts.")
        .with_example(json!({
            "message": "success",
            "suppressions": [{ "scope": "email", "reason": "decision", "addresses": 12 }],
        }))
}

async fn count(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<SuppressionCounts>, ApiError> {
    let mut tx = app.request_queue.snapshot().await?;
    let counts = suppressions::counts(&mut tx, caller.workspace.id).await?;
    let suppressions = counts.into_iter().map(|count| SuppressionCount {
        scope: count.scope,
        reason: count.reason.name().to_owned(),
        addresses: count.addresses,
    });
    let suppressions = suppressions.collect();
    Ok(axum::Json(SuppressionCounts { message: SuccessText::Success, suppressions }))
}

// One address --------------------------------------------------------------------------------

#[derive(Serialize, JsonSchema)]
struct CheckedAddress {
    message: SuccessText,
    /// Whether a message of some scope is not sent to the address.
    suppressed: bool,
    states: Vec<ShownState>,
}

/// What is known about the address for one scope.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SuppressionState")]
struct ShownState {
    /// `email`, or the id of a subscription group.
    scope: String,
    /// `decision` or `complaint`.
    reason: String,
    /// `unsubscribed`, `subscribed` or `opted_in`; `suppressed` for a complaint.
    state: String,
    at: String,
}

impl From<KnownState> for ShownState {
    fn from(known: KnownState) -> Self {
        Self {
            scope: known.scope,
            reason: known.reason.name().to_owned(),
            state: known.state,
            at: format_time(known.at).to_string(),
        }
    }
}

fn describe_check() -> Operation {
    Operation::new(Method::GET, "checkSuppression", TAG, "Check an address")
        .by(Access::Key(LIST))
        .about("Returns what is known about one email address or phone number.")
        .in_query("email", "The email address.", json!({ "type": "string" }))
        .in_query("phone", "The phone number, with its country code.", json!({ "type": "string" }))
        .returns::<CheckedAddress>(StatusCode::OK, "What is known about the address.")
        .with_example(json!({
            "message": "success", "suppressed": true,
            "states": [{
                "scope": "email", "reason": "decision", "state": "unsubscribed",
                "at": "2026-11-21T08:58:43.000Z",
            }],
        }))
        .refuses_some([read_query("")], "Not exactly one address")
}

fn read_query(query: &str) -> Result<Address<'static>, ApiError> {
    let mut addresses = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "email" => addresses.push(email(value.into_owned())?),
            "phone" => addresses.push(phone(value.into_owned())?),
            other => fields::check_selector(other)?,
        }
    }
    match <[_; 1]>::try_from(addresses) {
        Ok([address]) => Ok(address),
        Err(_) => {
            let text = "exactly one of email and phone is required";
            Err(ApiError::Field(Code::MissingField, text.to_owned()))
        }
    }
}

async fn check_address(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<CheckedAddress>, ApiError> {
    let address = read_query(query.as_deref().unwrap_or_default())?;
    let mut tx = app.request_queue.snapshot().await?;
    let known = suppressions::check(&mut tx, caller.workspace.id, &address).await?;
    let suppressed = known.iter().any(KnownState::is_suppressed);
    let states = known.into_iter().map(ShownState::from).collect();
    Ok(axum::Json(CheckedAddress { message: SuccessText::Success, suppressed, states }))
}

fn email(email: String) -> Result<Address<'static>, ApiError> {
    check::email(&email).map_err(|why| ApiError::invalid_field(about_field("email", &why)))?;
    Ok(Address::Email(email.into()))
}

fn phone(text: String) -> Result<Address<'static>, ApiError> {
    let shown = text.clone();
    let phone = Phone::try_from(text)
        .map_err(|why| ApiError::invalid_field(format!("phone {why}, not {shown:?}")))?;
    Ok(Address::Phone(phone.number.into()))
}

// Changes ------------------------------------------------------------------------------------

/// What a request does.
#[derive(Clone, Copy)]
enum Edit {
    Add,
    Lift,
}

/// Addresses. Those in `emails` are about emails, those in `phones` about the messages of a
/// subscription group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SuppressionRequest")]
struct Addresses {
    emails: Option<List<String, 0, MAX>>,
    phones: Option<List<String, 0, MAX>>,
    /// Required with `phones`.
    subscription_group_id: Option<String>,
}

fn example() -> serde_json::Value {
    json!({ "emails": ["ann@example.com"] })
}

fn describe_add() -> Operation {
    Operation::new(Method::POST, "addSuppressions", TAG, "Suppress addresses")
        .by(Access::Key(EDIT))
        .about(
            "Unsubscribes at most 50 addresses of each kind. The users who have them, now or \
             later, get no messages. The addresses need not belong to users.",
        )
        .repeatable()
        .takes::<Addresses>("An address", example())
        .returns_success(StatusCode::CREATED, "The addresses are suppressed.")
}

fn describe_lift() -> Operation {
    Operation::new(Method::POST, "liftSuppressions", TAG, "End the suppression of addresses")
        .by(Access::Key(EDIT))
        .about(
            "Ends the opt-outs of at most 50 addresses of each kind, and for emails also complaints. \
             Do this only if the person asked for it.",
        )
        .repeatable()
        .takes::<Addresses>("An address", example())
        .returns_success(StatusCode::CREATED, "The addresses are no longer suppressed.")
}

async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(edit): Extension<Edit>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let Addresses { emails, phones, subscription_group_id } =
        fields::read(&body.object_in_place(&app)?)?;
    let workspace = caller.workspace.id;
    let emails = emails.unwrap_or_default().0.into_iter().map(email);
    let emails = emails.collect::<Result<Vec<_>, ApiError>>()?;
    let phones = phones.unwrap_or_default().0.into_iter().map(phone);
    let phones = phones.collect::<Result<Vec<_>, ApiError>>()?;
    if emails.is_empty() && phones.is_empty() {
        return Err(ApiError::Field(Code::MissingField, "emails or phones is required".to_owned()));
    }
    let group = match subscription_group_id {
        Some(id) => {
            let settings = settings::find(&app, workspace).await?;
            Some(super::subscriptions::check_group(&settings, &id)?.to_string())
        }
        None if phones.is_empty() => None,
        None => {
            let text = "subscription_group_id is required with phones";
            return Err(ApiError::Field(Code::MissingField, text.to_owned()));
        }
    };
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // The order of decisions is that of the database's clock.
    let now = claims::now(&mut turn.tx).await?;
    let group = group.unwrap_or_default();
    let (email_count, phone_count) = (emails.len(), phones.len());
    let addresses: Vec<(Address<'_>, String)> = emails
        .into_iter()
        .map(|email| (email, EMAIL.to_owned()))
        .chain(phones.into_iter().map(|phone| (phone, group.clone())))
        .collect();
    let mut lifted = 0;
    match edit {
        Edit::Add => {
            let decisions = opt_outs(&addresses, now);
            suppressions::decide(&mut turn.tx, workspace, &decisions).await?;
        }
        Edit::Lift => {
            lifted = suppressions::lift(&mut turn.tx, workspace, &addresses, now).await?;
        }
    }
    // Not the addresses, which are those of users.
    let (emails, phones) = (email_count, phone_count);
    let change = match edit {
        Edit::Add => {
            Change::new("suppressions.add", "", json!({ "emails": emails, "phones": phones }))
        }
        Edit::Lift => {
            let details = json!({ "emails": emails, "phones": phones, "lifted": lifted });
            Change::new("suppressions.lift", "", details)
        }
    };
    let recording = caller.record(&mut turn.tx, app.clock.now_ms(), change).await?;
    let response =
        turn.commit(StoredResponse::json(StatusCode::CREATED, &Success::default())?).await?;
    Ok(response.recorded(recording))
}

/// Opt-outs of addresses in their scopes.
pub fn opt_outs<'a>(addresses: &[(Address<'a>, String)], at: i64) -> Vec<NewDecision<'a>> {
    let opt_out = |(address, scope): &(Address<'a>, String)| NewDecision {
        address: address.clone(),
        scope: group_scope(scope).into_owned().into(),
        state: UNSUBSCRIBED.into(),
        at,
    };
    addresses.iter().map(opt_out).collect()
}

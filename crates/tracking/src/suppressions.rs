//! Requests about addresses that get no messages: `/suppressions/…`
//! (docs/reference/api/suppressions.md).

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::subscriptions::check_group;
use gateway::formats::{List, Success, SuccessText};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::{Warned, Warning};
use gateway::workspaces::settings::{self, Settings};
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
    /// `decision`, `complaint` or `bounce`.
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
    /// `decision`, `complaint` or `bounce`.
    reason: String,
    /// `unsubscribed`, `subscribed` or `opted_in`; `suppressed` for a complaint or a bounce.
    state: String,
    at: String,
    /// When a bounce ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The dispatch of the email that bounced.
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch_id: Option<String>,
}

impl From<KnownState> for ShownState {
    fn from(known: KnownState) -> Self {
        Self {
            scope: known.scope,
            reason: known.reason.name().to_owned(),
            state: known.state,
            at: format_time(known.at).to_string(),
            until: known.until.map(|until| format_time(until).to_string()),
            dispatch_id: known.dispatch_id.map(|id| id.simple().to_string()),
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

/// The addresses of a request, with their scopes.
struct NewStates {
    addresses: Vec<(Address<'static>, String)>,
    warnings: Vec<Warning>,
}

impl NewStates {
    fn read(members: &Map<String, Value>, settings: &Settings) -> Result<Self, ApiError> {
        let missing = |text: &str| ApiError::Field(Code::MissingField, text.to_owned());
        let (request, warnings) = fields::read_request::<Addresses>(members)?;
        let Addresses { emails, phones, subscription_group_id: group } = request;
        let emails = emails.unwrap_or_default().0.into_iter();
        let phones = phones.unwrap_or_default().0;
        let group = group.map(|id| check_group(settings, &id)).transpose()?;
        let scope = match group {
            Some(group) => group.to_string(),
            None if phones.is_empty() => String::new(),
            None => return Err(missing("subscription_group_id is required with phones")),
        };
        let emails = emails.map(|text| Ok((email(text)?, EMAIL.to_owned())));
        let phones = phones.into_iter().map(|text| Ok((phone(text)?, scope.clone())));
        let addresses = emails.chain(phones).collect::<Result<Vec<_>, ApiError>>()?;
        if addresses.is_empty() {
            return Err(missing("emails or phones is required"));
        }
        Ok(Self { addresses, warnings })
    }
}

fn example() -> Value {
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
        .returns::<Warned<Success>>(StatusCode::CREATED, "The addresses are suppressed.")
}

fn describe_lift() -> Operation {
    Operation::new(Method::POST, "liftSuppressions", TAG, "End the suppression of addresses")
        .by(Access::Key(EDIT))
        .about(
            "Ends the opt-outs of at most 50 addresses of each kind, and for emails also complaints and \
             bounces. \
             Do this only if the person asked for it.",
        )
        .repeatable()
        .takes::<Addresses>("An address", example())
        .returns::<Warned<Success>>(StatusCode::CREATED, "The addresses are no longer suppressed.")
}

async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(edit): Extension<Edit>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let workspace = caller.workspace.id;
    let settings = settings::find(&app, workspace).await?;
    let request = NewStates::read(&body.object_in_place(&app)?, &settings);
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let NewStates { addresses, warnings } = request?;
    // The order of decisions is that of the database's clock.
    let now = claims::now(&mut turn.tx).await?;
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
    let emails = addresses.iter().filter(|(_, scope)| scope == EMAIL).count();
    let phones = addresses.len() - emails;
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
    let answer = Warned { response: Success::default(), warnings };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &answer)?).await?;
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

#[cfg(test)]
mod tests {
    use content::sms::PhoneNumber;
    use people::users::profile::Field;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Profiles, lists of numbers, and requests about numbers.
        #[test]
        fn all_that_read_numbers_read_the_same_one(
            text in "(\\+|00)?([ (.)/-]{0,2}[1-9]){7,15}[ .]?"
        ) {
            let number = Phone::try_from(text.clone()).unwrap().number;
            let listed = PhoneNumber::parse(&text).unwrap();
            prop_assert_eq!(listed.e164(), &number);
            prop_assert_eq!(phone(text.clone()).unwrap(), Address::Phone((&*number).into()));
            let stored = check::value(Field::Phone, &json!(text).to_string(), &mut Vec::new());
            prop_assert_eq!(stored, Ok(Some(json!(number).to_string())));
        }
    }
}

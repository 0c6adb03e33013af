//! `POST /sms/invalid_phone_numbers/remove`.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{PhoneNumber, rows};
use crate::app::App;
use gateway::formats::{List, Success};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes, fields,
};
use runtime::audit::Change;

const PERMISSION: &str = "sms.invalid_phone_numbers.remove";

const TAG: Tag = Tag { name: "SMS", about: "Phone numbers that are known to be invalid." };

/// The routes of phone numbers.
pub fn routes() -> Routes<App> {
    let route = gateway::protected(PERMISSION, post(remove));
    let operation = Operation::new(
        Method::POST,
        "removeInvalidNumbers",
        TAG,
        "Remove phone numbers from the list of invalid numbers",
    )
    .by(Access::Key(PERMISSION))
    .about(
        "A number that is not on the list is not an error. If one number is invalid, none is \
         removed.",
    )
    .repeatable()
    .takes::<PhoneNumbers>("Two numbers", json!({ "phone_numbers": ["+15550100", "+15550101"] }))
    .returns_success(StatusCode::CREATED, "The numbers are no longer on the list.");
    Routes::new().route("/sms/invalid_phone_numbers/remove", route, [operation])
}

/// Phone numbers to remove from the list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PhoneNumbers {
    pub phone_numbers: List<PhoneNumber, 1, 50>,
}

async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let PhoneNumbers { phone_numbers } = fields::read(&body.object_in_place(&app)?)?;
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let removed = rows::remove(&mut turn.tx, caller.workspace.id, &phone_numbers.0).await?;
    // Not the numbers, which are those of users.
    let change = Change::new("invalid_numbers.remove", "", json!({ "removed": removed }));
    let recording = caller.record(&mut turn.tx, app.clock.now_ms(), change).await?;
    let response =
        turn.commit(StoredResponse::json(StatusCode::CREATED, &Success::default())?).await?;
    tracing::info!(removed, "phone numbers removed from the list of invalid numbers");
    Ok(response.recorded(recording))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use gateway::Code;

    fn read(body: Value) -> Result<Vec<PhoneNumber>, (Code, String)> {
        fields::read(body.as_object().unwrap())
            .map(|PhoneNumbers { phone_numbers }| phone_numbers.0)
            .map_err(|error| (error.code(), error.message().into_owned()))
    }

    #[test]
    fn names_the_number_that_is_wrong() {
        let numbers = read(json!({ "phone_numbers": ["+15550100", "15550100"] })).unwrap();
        assert!(numbers.len() == 2 && numbers[0] == numbers[1]);
        assert!(read(json!({ "phone_numbers": vec!["+15550100"; 50] })).is_ok());
        for (body, code, beginning) in [
            (json!({}), Code::MissingField, "phone_numbers "),
            (json!({ "phone_numbers": null }), Code::MissingField, "phone_numbers "),
            (json!({ "phone_number": ["+15550100"] }), Code::MissingField, "phone_numbers "),
            (json!({ "phone_numbers": "+15550100" }), Code::InvalidField, "phone_numbers "),
            (json!({ "phone_numbers": [] }), Code::InvalidField, "phone_numbers must have 1 to 50"),
            (
                json!({ "phone_numbers": vec!["+15550100"; 51] }),
                Code::InvalidField,
                "phone_numbers must have 1 to 50",
            ),
            (json!({ "phone_numbers": [15550100] }), Code::InvalidField, "phone_numbers[0] "),
            (
                json!({ "phone_numbers": ["+15550100", null] }),
                Code::MissingField,
                "phone_numbers[1] ",
            ),
            (
                json!({ "phone_numbers": ["+15550100", "555"] }),
                Code::InvalidField,
                "phone_numbers[1]: \"555\" is not a valid phone number",
            ),
        ] {
            let (given, text) = read(body.clone()).unwrap_err();
            assert!(given == code && text.starts_with(beginning), "{body}: {given:?} {text}");
        }
    }
}

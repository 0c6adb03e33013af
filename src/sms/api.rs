//! `POST /sms/invalid_phone_numbers/remove`.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Map, Value};

use super::{PhoneNumber, openapi, rows};
use crate::app::App;
use crate::gateway::idempotency::{self, Answer};
use crate::gateway::{self, ApiError, Caller, IdempotencyKey, JsonText, Routes};

pub(super) const PERMISSION: &str = "sms.invalid_phone_numbers.remove";

/// Numbers of one request at most.
pub(super) const MOST: usize = 50;

/// The routes of phone numbers.
pub fn routes() -> Routes {
    let remove = gateway::protected(PERMISSION, post(remove));
    Routes::new().route("/sms/invalid_phone_numbers/remove", remove, [openapi::remove()])
}

async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Answer, ApiError> {
    let numbers = read(&body.object_beside(&app)?).map_err(ApiError::Invalid)?;
    let workspace = caller.workspace.id;
    idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            let removed = rows::remove(tx, workspace, &numbers).await?;
            tracing::info!(removed, "phone numbers taken off the invalid ones");
            Ok::<_, ApiError>(Answer {
                status: StatusCode::CREATED,
                body: r#"{"message":"success"}"#.into(),
            })
        })
    })
    .await
}

/// Reads the numbers; the error names the one that is wrong.
pub(crate) fn read(body: &Map<String, Value>) -> Result<Vec<PhoneNumber>, String> {
    let numbers = body.get("phone_numbers").filter(|value| !value.is_null());
    let numbers = numbers.ok_or("phone_numbers is required")?;
    let numbers = numbers.as_array().ok_or("phone_numbers must be an array of strings")?;
    if !(1..=MOST).contains(&numbers.len()) {
        return Err(format!("phone_numbers must have 1 to {MOST} numbers"));
    }
    let number = |(i, value): (usize, &Value)| {
        let text = value.as_str().ok_or("must be a string".to_owned());
        text.and_then(PhoneNumber::parse).map_err(|error| format!("phone_numbers[{i}]: {error}"))
    };
    numbers.iter().enumerate().map(number).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_json(body: Value) -> Result<Vec<PhoneNumber>, String> {
        read(body.as_object().unwrap())
    }

    #[test]
    fn each_number_is_checked_and_named() {
        let numbers = read_json(json!({ "phone_numbers": ["+15550100", "15550100"] })).unwrap();
        assert!(numbers.len() == 2 && numbers[0] == numbers[1]);
        assert!(read_json(json!({ "phone_numbers": vec!["+15550100"; 50] })).is_ok());
        for (body, text) in [
            (json!({}), "phone_numbers is required"),
            (json!({ "phone_numbers": null }), "phone_numbers is required"),
            (json!({ "phone_number": ["+15550100"] }), "phone_numbers is required"),
            (json!({ "phone_numbers": "+15550100" }), "phone_numbers must be an array of strings"),
            (json!({ "phone_numbers": [] }), "phone_numbers must have 1 to 50 numbers"),
            (json!({ "phone_numbers": vec!["1"; 51] }), "phone_numbers must have 1 to 50 numbers"),
            (json!({ "phone_numbers": [15550100] }), "phone_numbers[0]: must be a string"),
            (json!({ "phone_numbers": ["+15550100", null] }), "phone_numbers[1]: must be a string"),
            (
                json!({ "phone_numbers": ["+15550100", "555"] }),
                "phone_numbers[1]: \"555\" is no phone number: expected + and 7 to 15 digits",
            ),
        ] {
            assert_eq!(read_json(body.clone()).unwrap_err(), text, "{body}");
        }
    }
}

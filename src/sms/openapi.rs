//! `POST /sms/invalid_phone_numbers/remove` as it is described.

use axum::http::{Method, StatusCode};
use serde_json::json;

use super::DIGITS;
use super::api::{MOST, PERMISSION, read};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{Success, members, shape};
use crate::gateway::{Access, Operation};

const TAG: Tag = Tag { name: "SMS", about: "Phone numbers that are known to be invalid." };

pub(super) fn remove() -> Operation {
    let operation = Operation::new(
        Method::POST,
        "removeInvalidNumbers",
        TAG,
        "Take phone numbers off the list of invalid ones",
    )
    .by(Access::Key(PERMISSION))
    .about("A number that is not on the list is no error.")
    .repeatable()
    .takes::<PhoneNumbers>([(
        "Two numbers",
        json!({ "phone_numbers": ["+15550100", "+15550101"] }),
    )])
    .answers::<Success>(
        StatusCode::CREATED,
        "They are not on the list.",
        json!({ "message": "success" }),
    );
    let wrong = [json!(null), json!("+15550100"), json!([]), json!(["+15550100", "555"])];
    let wrong = wrong.map(|numbers| read(&members(json!({ "phone_numbers": numbers }))));
    operation.refuses_some(wrong, "A number is wrong; none is taken off")
}

shape! {
    /// The numbers.
    PhoneNumbers = |_| json!({
        "type": "object",
        "properties": { "phone_numbers": {
            "type": "array", "minItems": 1, "maxItems": MOST,
            "items": {
                "type": "string", "description": "E.164; the plus may be missing.",
                "pattern": format!(r"^\+?[0-9]{{{},{}}}$", DIGITS.start(), DIGITS.end()),
            },
        } },
        "required": ["phone_numbers"],
    })
}

//! `POST /users/track`: check, append, respond.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{MethodRouter, post};
use serde_json::json;

use super::intake::{
    self, Answer, Body, Intake, NOTHING_VALID, ReportedRejection, Request, TOO_MANY,
};
use super::{Kind, identities, products, subscriptions, suppressions, telemetry};
use gateway::formats::Errors;
use gateway::idempotency::{Derived, Received, StoredResponse};
use gateway::openapi::Tag;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes, idempotency,
};
use messages::app::App;

const PERMISSION: &str = "users.track";

pub const PATH: &str = "/users/track";

const TAG: Tag = Tag { name: "Tracking", about: "Attributes, events and purchases of users." };

/// The routes of tracking.
pub fn routes() -> Routes<App> {
    let route = gateway::protected(PERMISSION, unprotected());
    Routes::new()
        .route(PATH, route, [describe()])
        .merge(identities::routes())
        .merge(subscriptions::routes())
        .merge(suppressions::routes())
        .merge(products::routes())
}

fn describe() -> Operation {
    let rejection =
        json!({ "type": "price must not be negative", "input_array": "purchases", "index": 1 });
    Operation::new(Method::POST, "track", TAG, "Track attributes, events and purchases")
        .by(Access::Key(PERMISSION))
        .about(
            "Objects are checked one by one: valid objects are accepted; the others are rejected \
             and reported in `errors`. Accepted objects are applied in this order: attributes, \
             events, purchases, each array from its start.\n\nThe response is sent once every \
             accepted object is durable; workers apply them soon after. After a 503, some objects \
             may have been accepted: send the request again with the same `Idempotency-Key`.",
        )
        .repeatable()
        .takes::<Body<'_>>(
            "Attributes, an event and a purchase",
            json!({
                "attributes": [
                    { "external_id": "ann", "email": "ann@example.com", "loyalty_tier": "gold",
                      "visits": { "inc": 1 } },
                ],
                "events": [
                    { "external_id": "ann", "name": "viewed_product",
                      "time": "2026-11-21T08:00:00Z" },
                ],
                "purchases": [
                    { "external_id": "ann", "product_id": "shoes", "currency": "EUR",
                      "price": 59.9, "quantity": 2, "time": "2026-11-21T08:05:00+01:00",
                      "properties": { "size": 42, "colour": "blue" } },
                ],
            }),
        )
        .returns::<Answer>(StatusCode::CREATED, "Every valid object was accepted.")
        .refuses(
            &ApiError::InvalidMany(NOTHING_VALID.into(), vec![rejection]),
            "The request has no valid object",
        )
        .refuses(&ApiError::Invalid(TOO_MANY.into()), "An array has too many objects")
        .refuses_in::<Errors<'_, ReportedRejection>>(StatusCode::BAD_REQUEST)
}

/// The route without authentication: the user of this function must add the [`Caller`].
pub fn unprotected() -> MethodRouter<App> {
    post(track)
}

async fn track(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let derive = |body: &JsonText, received: Received| {
        let request = Request {
            workspace: caller.workspace.id,
            received_at: received.at,
            partitions: app.config.log.partitions,
            request_id: caller.request_id.clone(),
            alias: caller.workspace.aliases.service_id.clone(),
        };
        let Intake { answer, messages } =
            intake::read(body, &request, |currency| caller.workspace.has_rate(currency))?;
        let response = StoredResponse::json(StatusCode::CREATED, &answer)?;
        Ok(Derived { messages, response, outcome: answer })
    };
    let (response, answer) = idempotency::append_derived(&app, key, body, derive).await?;
    if let Some(answer) = answer {
        for kind in Kind::ALL {
            telemetry::accepted(kind, answer.processed(kind));
        }
        telemetry::rejected(&answer.rejected);
    }
    Ok(response)
}

//! Content cards: what a user is shown in an app until it expires (Messages object,
//! `content_card`). A card is a row; `longshore cards` reads them.

mod rows;
mod sweep;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(crate) use rows::forget_user;
pub use rows::{Card, of_user};
pub use sweep::sweep_old;

use super::together::Together;
use crate::app::App;
use crate::clock::parse_time;
use crate::messages::{MessageId, Outcome, Outgoing};

/// The longest that a card is kept, in seconds: ten years.
const LONGEST_LIFE: i64 = 10 * 365 * 86_400;

/// Bytes of a card.
const MOST_BYTES: usize = 256 << 10;

/// Cards that wait to be stored.
pub type Waiting = Together<rows::NewCard>;

/// Stores a card; one that is there already stays as it is.
pub async fn send(app: &App, message: &Outgoing<'_>) -> Outcome {
    let now = app.clock.now_ms();
    let object = &message.rendered.object;
    let expires_at = match expiry(object, now) {
        Ok(expires_at) => expires_at,
        Err(why) => return Outcome::Failed(why),
    };
    let card = Value::Object(object.clone()).to_string();
    if card.len() > MOST_BYTES {
        return Outcome::Failed(format!("the card has more than {MOST_BYTES} bytes"));
    }
    let card = rows::NewCard {
        workspace_id: message.workspace_id,
        service_id: message.id.service_id,
        id: card_id(&message.id),
        dispatch_id: message.id.dispatch_id,
        campaign_id: message.campaign_id,
        variation_id: message.rendered.variation_id.clone(),
        card,
        created_at: now,
        expires_at,
    };
    let store = app.store.clone();
    let stored = app.channels.cards.write(card, move |cards| {
        let store = store.clone();
        async move {
            let mut tx = store.write().await?;
            rows::insert(&mut tx, &cards).await?;
            tx.commit().await
        }
    });
    match stored.await {
        Ok(()) => Outcome::Sent,
        Err(failed) if failed.can_retry => Outcome::Later { reason: failed.reason, after: None },
        Err(failed) => Outcome::Failed(failed.reason),
    }
}

/// When a card expires; the error says what is wrong.
fn expiry(object: &Map<String, Value>, now: i64) -> Result<i64, String> {
    let given = |name: &str| object.get(name).filter(|value| !value.is_null());
    let expires_at = match (given("time_to_live"), given("expire_at")) {
        (Some(seconds), None) => {
            let seconds = match seconds {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            let seconds = seconds.filter(|seconds: &f64| *seconds > 0.0);
            let seconds = seconds.ok_or("time_to_live must be a number of seconds above 0")?;
            now + (seconds.min(LONGEST_LIFE as f64) * 1_000.0) as i64
        }
        (None, Some(time)) => {
            let time = time.as_str().ok_or("expire_at must be a time")?;
            parse_time(time.trim()).map_err(|why| format!("expire_at: {why}"))?
        }
        _ => return Err("one of time_to_live and expire_at is meant".into()),
    };
    if expires_at <= now {
        return Err("expire_at is past".into());
    }
    Ok(expires_at.min(now + LONGEST_LIFE * 1_000))
}

/// The same for a message however often it is sent.
fn card_id(id: &MessageId) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(id.to_string())[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_card_expires() {
        let now = 1_700_000_000_000;
        let read = |object: Value| expiry(object.as_object().unwrap(), now);
        assert_eq!(read(json!({ "time_to_live": 60 })), Ok(now + 60_000));
        assert_eq!(read(json!({ "time_to_live": "1.5", "expire_at": null })), Ok(now + 1_500));
        assert_eq!(read(json!({ "expire_at": "2023-11-14T22:13:21Z" })), Ok(now + 1_000));
        let latest = now + LONGEST_LIFE * 1_000;
        assert_eq!(read(json!({ "time_to_live": 1e300 })), Ok(latest));
        assert_eq!(read(json!({ "expire_at": "9999-01-01" })), Ok(latest));
        for wrong in [
            json!({}),
            json!({ "time_to_live": 0 }),
            json!({ "time_to_live": -1 }),
            json!({ "time_to_live": "NaN" }),
            json!({ "time_to_live": "soon" }),
            json!({ "time_to_live": [] }),
            json!({ "time_to_live": 1, "expire_at": "2100-01-01" }),
            json!({ "expire_at": 7 }),
            json!({ "expire_at": "soon" }),
            json!({ "expire_at": "2023-11-14T22:13:20Z" }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}

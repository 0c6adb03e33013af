//! Content cards: shown to a user in an app until they expire
//! (docs/reference/api/message-objects.md). A card is a row; `longshore cards` lists them.

mod rows;

use serde_json::{Map, Value};
use uuid::Uuid;

pub use rows::{Card, erase_user, list_for_user, move_to, sweep};

use crate::app::App;
use crate::{MessageId, Outcome, Outgoing};
use kit::clock::parse_time;
use kit::derived_ids;
use store::write_batcher::WriteBatcher;

/// How long a card is kept at most, in seconds: ten years.
const MAX_LIFETIME_SECONDS: u64 = 10 * 365 * 86_400;

/// Maximum bytes of a card.
const MAX_BYTES: usize = 256 << 10;

/// Cards that wait to be stored.
pub type CardWriter = WriteBatcher<rows::NewCard>;

/// Stores a card; an existing one stays unchanged.
pub async fn send(app: &App, message: &Outgoing<'_>) -> Outcome {
    let now = app.clock.now_ms();
    let object = &message.rendered.object;
    let expires_at = match expiry(object, now) {
        Ok(expires_at) => expires_at,
        Err(why) => return Outcome::Failed(why),
    };
    let card = Value::Object(object.clone()).to_string();
    if card.len() > MAX_BYTES {
        return Outcome::Failed(format!("the card has more than {MAX_BYTES} bytes"));
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
    let stored = app.cards.write(card, move |cards| {
        let store = store.clone();
        async move {
            let mut tx = store.write().await?;
            rows::insert(&mut tx, &cards).await?;
            tx.commit().await
        }
    });
    match stored.await {
        Ok(()) => Outcome::Sent,
        Err(failed) if failed.is_busy => Outcome::Later { reason: failed.reason, after: None },
        // The commit may have arrived.
        Err(failed) if failed.can_retry => {
            Outcome::NoResponse { reason: failed.reason, after: None }
        }
        Err(failed) => Outcome::Failed(failed.reason),
    }
}

/// When a card expires; the error says what is wrong.
fn expiry(object: &Map<String, Value>, now: i64) -> Result<i64, String> {
    let expires_at = match object.get("time_to_live").and_then(Value::as_u64) {
        Some(seconds) => now + seconds.min(MAX_LIFETIME_SECONDS).cast_signed() * 1_000,
        None => {
            let time = object.get("expire_at").and_then(Value::as_str);
            let time = time.ok_or("exactly one of time_to_live and expire_at is required")?;
            parse_time(time).map_err(|why| format!("expire_at: {why}"))?
        }
    };
    if expires_at <= now {
        return Err("expire_at is in the past".into());
    }
    Ok(expires_at.min(now + MAX_LIFETIME_SECONDS.cast_signed() * 1_000))
}

/// The id of a card: the same each time the message is sent.
fn card_id(id: &MessageId) -> Uuid {
    derived_ids::v8(&[id.to_string().as_bytes()])
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
        assert_eq!(read(json!({ "expire_at": "2023-11-14T22:13:21Z" })), Ok(now + 1_000));
        let latest = now + MAX_LIFETIME_SECONDS.cast_signed() * 1_000;
        assert_eq!(read(json!({ "time_to_live": u64::MAX })), Ok(latest));
        assert_eq!(read(json!({ "expire_at": "9999-01-01" })), Ok(latest));
        for wrong in [
            json!({}),
            json!({ "time_to_live": 0 }),
            json!({ "expire_at": "soon" }),
            json!({ "expire_at": "2023-11-14T22:13:20Z" }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_id_of_a_card_never_changes() {
        let message =
            "0192f3a04b5c7def8123456789abcdef.0192f3a04b5c7def8fedcba987654321.content_card";
        let id = card_id(&MessageId::parse(message).unwrap());
        assert_eq!(id.to_string(), "8ac336d8-0d94-8a1d-9f81-bb3ce1395d9b");
    }
}

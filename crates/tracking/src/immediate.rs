//! Attributes that are applied immediately.
//!
//! - Attributes in another request, for one user. They are parsed and applied like those of `POST
//!   /users/track`, but in the transaction that uses them.
//! - Opt-outs of requests about subscriptions. They go through the log, where other objects may
//!   wait before them for long: those of all workspaces share its partitions. So they are applied
//!   now, too, as if their partition was ahead. Decisions are applied in any order, and the copy in
//!   the log has the same time: it changes nothing.

use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::Kind;
use super::apply::order_time::OrderTime;
use super::apply::{ApplyError, Dropped, Ingest, Tally};
use super::limits::IDENTIFIERS;
use super::message::{Attributes, Batch, Object};
use super::object::{self, AcceptedObject, IgnoredField};
use kit::json;
use log::NewMessage;
use messages::app::App;
use people::users::consent::UNSUBSCRIBED;
use people::users::identifier::{Identifier, UserAlias};
use store::{ByteBudget, Tx, within_timeout};

/// How long a request waits until its opt-outs are applied.
const OPT_OUT_WAIT: Duration = Duration::from_secs(1);

/// Maximum age of opt-outs that are applied immediately, in milliseconds since their receipt. The
/// log may have applied older ones, and changes after them: a merge makes an opt-out that is
/// applied again hold for the merged user.
const MAX_OPT_OUT_AGE_MS: i64 = 3_000;

/// Maximum number of opt-outs of one request, and of bytes of their users' profiles. Each profile
/// is in memory about three times.
const MAX_OPT_OUTS: usize = 100;
const MAX_OPT_OUT_BYTES: usize = 2 << 20;

/// Fields with a special meaning, which cannot be set.
const RESERVED: [&str; 4] =
    [IDENTIFIERS[0], IDENTIFIERS[1], IDENTIFIERS[2], "_update_existing_only"];

/// Checks an attribute object, as JSON, of a user identified next to it. Returns it in the form for
/// [`apply`], with the fields that have no effect; the error names the invalid field. An alias
/// creates no user.
pub fn check(
    workspace: i32,
    user: &Identifier<'_>,
    attributes: &str,
    received_at: i64,
) -> Result<(String, Vec<IgnoredField>), String> {
    // The values stay text: in a tree, they could take many times the memory of the request.
    let attributes = json::fields(attributes, json::MAX_JSON_FIELDS)?;
    for name in RESERVED {
        if attributes.get(name).is_some_and(|value| value != "null") {
            return Err(format!("{name} cannot be set"));
        }
    }
    let (name, value) = match user {
        Identifier::ExternalId(id) => ("external_id", json!(id)),
        Identifier::ServiceId(id) => ("service_id", json!(id)),
        Identifier::UserAlias(UserAlias { alias_name, alias_label }) => {
            ("user_alias", json!({ "alias_name": alias_name, "alias_label": alias_label }))
        }
        Identifier::Email(email) => ("email", json!(email)),
    };
    let mut text = format!("{{\"{name}\":{value}");
    let is_reserved = |other: &str| other == name || RESERVED.contains(&other);
    for (other, value) in attributes.0.iter().filter(|(other, _)| !is_reserved(other)) {
        text.push(',');
        json::push_string(&mut text, other);
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    let text = RawValue::from_string(text).map_err(|error| error.to_string())?;
    let AcceptedObject { object, ignored, .. } =
        object::read(Kind::Attributes, &text, received_at, None).map_err(|rejections| {
            rejections.into_iter().next().map_or_else(String::new, |first| first.text)
        })?;
    let batch = Batch::new(workspace, received_at, vec![object]);
    let text = serde_json::to_string(&batch).map_err(|error| error.to_string())?;
    Ok((text, ignored))
}

/// The outcome of attributes, [reported](Self::committed) after the commit.
#[derive(Debug)]
pub struct Applied(Tally);

impl Applied {
    /// Whether nothing was changed because the profile would be too large.
    pub fn is_too_large(&self) -> bool {
        self.0.dropped_for(Dropped::TooLarge)
    }

    pub fn committed(self) {
        self.0.emit();
    }
}

/// Applies the output of [`check`], which was received at a time: by the database's clock, because
/// the log does not have it.
pub async fn apply(
    ingest: &Ingest,
    tx: &mut Tx,
    checked: &str,
    at: i64,
) -> Result<Applied, ApplyError> {
    let batch = Batch::decode(checked.as_bytes())?;
    debug_assert!(matches!(batch.objects.as_slice(), [Object::Attributes(_)]));
    // An earlier release has only the gateway's time.
    let at = OrderTime::by_gateway(at);
    Ok(Applied(ingest.apply_now(tx, vec![(batch, at)], &mut ByteBudget::unlimited()).await?))
}

/// The messages of a request about subscriptions, which change only decisions, and create no users.
#[derive(Debug)]
pub struct RequestOptOuts {
    workspace: i32,
    received_at: i64,
    payloads: Vec<Vec<u8>>,
}

impl RequestOptOuts {
    /// Those in a request's messages.
    pub fn among(workspace: i32, received_at: i64, messages: &[NewMessage]) -> Self {
        let payloads = messages.iter().map(|message| message.payload.clone()).collect();
        Self { workspace, received_at, payloads }
    }

    /// Applies them, when all of the request's messages are in the log, with their times there.
    /// Waits for a short time. If there are too many, or the database is busy or unavailable, only
    /// the log applies them. So it does for a repeated request, which has no times: the log may
    /// have them since the first one.
    pub async fn apply(self, app: &App, log_times: &[Option<i64>]) {
        let Self { workspace, received_at, payloads } = self;
        let age = app.clock.now_ms() - received_at;
        if age > MAX_OPT_OUT_AGE_MS || log_times.len() != payloads.len() {
            return;
        }
        let count: usize = payloads.iter().map(|payload| opt_outs(payload).objects.len()).sum();
        if !(1..=MAX_OPT_OUTS).contains(&count) {
            return;
        }
        let Some(turn) = app.opt_out_turns.try_take(workspace) else { return };
        let (app, log_times) = (app.clone(), log_times.to_vec());
        let work = async move {
            let applied = apply_opt_outs(&app, received_at, &payloads, &log_times).await;
            drop(turn);
            applied
        };
        if let Err(error) = within_timeout(work, sleep(OPT_OUT_WAIT)).await {
            tracing::debug!(%error, "opt-outs were left to the log");
        }
    }
}

/// The objects are not counted: the log counts them.
async fn apply_opt_outs(
    app: &App,
    received_at: i64,
    payloads: &[Vec<u8>],
    log_times: &[Option<i64>],
) -> Result<(), ApplyError> {
    let time = |at: &Option<i64>| at.map_or(OrderTime::by_gateway(received_at), OrderTime::by_log);
    let batches = payloads.iter().map(|payload| opt_outs(payload)).zip(log_times.iter().map(time));
    let batches = batches.filter(|(batch, _)| !batch.objects.is_empty()).collect();
    let mut tx = app.store.write_by_keys().await?;
    let mut budget = ByteBudget::new(MAX_OPT_OUT_BYTES);
    Ingest::new(app).apply_now(&mut tx, batches, &mut budget).await?;
    // It may have waited for other transactions.
    if app.clock.now_ms() - received_at <= MAX_OPT_OUT_AGE_MS {
        tx.commit().await?;
    }
    Ok(())
}

/// A message of a request about subscriptions, with only its opt-outs.
fn opt_outs(payload: &[u8]) -> Batch<'_> {
    let mut batch = Batch::decode(payload).unwrap_or_else(|_| Batch::new(0, 0, Vec::new()));
    batch.objects.retain(is_opt_out);
    batch
}

/// Whether an object of a request about subscriptions unsubscribes its user.
fn is_opt_out(object: &Object<'_>) -> bool {
    let Object::Attributes(Attributes { fields, groups, .. }) = object else { return false };
    let mut states = fields.0.iter().chain(&groups.0).map(|(_, state)| state.get());
    states.all(|state| state.trim_matches('"') == UNSUBSCRIBED)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn checked(attributes: Value) -> Result<String, String> {
        checked_text(&attributes.to_string())
    }

    fn checked_text(attributes: &str) -> Result<String, String> {
        let checked = check(7, &Identifier::ExternalId("ann".into()), attributes, 5);
        checked.map(|(text, _)| text)
    }

    #[test]
    fn attributes_become_a_message_of_tracking() {
        let text = checked(json!({
            "first_name": "Ann", "email": "ann@acme.example", "tier": "gold", "external_id": null,
        }));
        let text = text.unwrap();
        let expected = "{\"v\":1,\"workspace\":7,\"received_at\":5,\"objects\":[{\"attributes\":\
                        {\"user\":{\"external_id\":\"ann\"},\"fields\":{";
        assert!(text.starts_with(expected), "{text}");
        for part in [r#""first_name":"Ann""#, r#""email":"ann@acme.example""#, r#""tier":"gold""#] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(Batch::decode(text.as_bytes()).is_ok());
        let nothing = checked(json!({})).unwrap();
        assert!(nothing.ends_with(r#"[{"attributes":{"user":{"external_id":"ann"}}}]}"#));
    }

    #[test]
    fn attributes_keep_their_order_and_digits() {
        let attributes = r#"{"z":1.10,"m":{"y":12345678901234567890123,"b":[2.50]},"a":1}"#;
        let text = checked_text(attributes).unwrap();
        assert!(text.contains(&attributes[1..attributes.len() - 1]), "{text}");
    }

    #[test]
    fn an_alias_creates_no_user() {
        let alias = UserAlias { alias_name: "a".into(), alias_label: "l".into() };
        let (text, _) = check(7, &Identifier::UserAlias(alias), "{}", 5).unwrap();
        assert!(text.contains(r#""update_only":true"#), "{text}");
    }

    #[test]
    fn only_opt_outs_do_not_wait_for_the_log() {
        let payload = br#"{"v":2,"workspace":7,"received_at":5,"objects":[
            {"attributes":{"user":{"external_id":"a"},"groups":{"g":"unsubscribed"}}},
            {"attributes":{"user":{"external_id":"b"},"groups":{"g":"subscribed"}}},
            {"attributes":{"user":{"email":"c@d"},"fields":{"email_subscribe":"unsubscribed"}}},
            {"attributes":{"user":{"email":"e@f"},"fields":{"email_subscribe":"opted_in"}}}]}"#;
        let Batch { objects, .. } = Batch::decode(payload).unwrap();
        assert_eq!(opt_outs(payload).objects, [objects[0].clone(), objects[2].clone()]);
    }

    #[test]
    fn errors_name_the_invalid_field() {
        for (attributes, text) in [
            (json!({ "external_id": "bob" }), "external_id cannot be set"),
            (json!({ "user_alias": {} }), "user_alias cannot be set"),
            (json!({ "_update_existing_only": true }), "_update_existing_only cannot be set"),
            (json!({ "purchases": [] }), "purchases cannot be set"),
            (json!({ "email": "nowhere" }), "email: "),
            (json!({ "first_name": 5 }), "first_name: "),
            (json!({ "tier": { "inc": "x" } }), "custom_attributes.tier: "),
        ] {
            let error = checked(attributes).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}

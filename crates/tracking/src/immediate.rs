//! Attributes in another request, for one user. They are parsed and applied like those of `POST
//! /users/track`, but immediately, in the transaction that uses them.

use serde_json::json;
use serde_json::value::RawValue;

use super::Kind;
use super::apply::{ApplyError, Dropped, Ingest, Tally};
use super::limits::IDENTIFIERS;
use super::message::{Batch, Object};
use super::object::{self, AcceptedObject};
use kit::json::{Tree, TreeObject};
use people::users::identifier::{Identifier, UserAlias};
use store::Tx;

/// Fields with a special meaning, which cannot be set.
const RESERVED: [&str; 4] =
    [IDENTIFIERS[0], IDENTIFIERS[1], IDENTIFIERS[2], "_update_existing_only"];

/// Checks an attribute object of a user identified next to it. Returns it in the form for
/// [`apply`]; the error names the invalid field. An alias creates no user.
pub fn check(
    workspace: i32,
    user: &Identifier<'_>,
    attributes: &TreeObject,
    received_at: i64,
) -> Result<String, String> {
    for name in RESERVED {
        if attributes.get(name).is_some_and(|value| *value != Tree::Null) {
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
    let user = (name.into(), Tree::parse(&value.to_string())?);
    let others = attributes.iter().filter(|(name, _)| !RESERVED.contains(name));
    let others = others.map(|(name, value)| (name.into(), value.clone()));
    let text = RawValue::from_string(TreeObject::new(others.chain([user])).to_json())
        .map_err(|error| error.to_string())?;
    let AcceptedObject { object, .. } = object::read(Kind::Attributes, &text, received_at, None)
        .map_err(|rejections| {
            rejections.into_iter().next().map_or_else(String::new, |first| first.text)
        })?;
    let batch = Batch::new(workspace, received_at, vec![object]);
    serde_json::to_string(&batch).map_err(|error| error.to_string())
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

/// Applies the output of [`check`].
pub async fn apply(ingest: &Ingest, tx: &mut Tx, checked: &str) -> Result<Applied, ApplyError> {
    let batch = Batch::decode(checked.as_bytes())?;
    debug_assert!(matches!(batch.objects.as_slice(), [Object::Attributes(_)]));
    Ok(Applied(ingest.apply_one(tx, batch).await?))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn checked(attributes: Value) -> Result<String, String> {
        checked_text(&attributes.to_string())
    }

    fn checked_text(attributes: &str) -> Result<String, String> {
        let attributes = TreeObject::parse(attributes).unwrap();
        check(7, &Identifier::ExternalId("ann".into()), &attributes, 5)
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
        let text = check(7, &Identifier::UserAlias(alias), &TreeObject::default(), 5).unwrap();
        assert!(text.contains(r#""update_only":true"#), "{text}");
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

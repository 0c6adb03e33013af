//! Parses requests that schedule a Canvas (docs/reference/api/canvas.md).

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::users::removed_id;
use gateway::formats::{Identifier, List, UserAlias, exactly_one};
use gateway::warnings::{Warning, Warnings};
use gateway::{ApiError, Code, fields};
use messages::When;
use messages::order::{Named, Who};
use messages::recipient::{IDENTIFIER_FIELDS, MAX_USERS, Members, Properties, User};
use messages::when::ScheduleObject;
use people::audience::Audience;

/// The Canvas, the time and the users. The users are `recipients`, optionally limited to an
/// audience; or, with `broadcast`, an audience or all users.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "ScheduleRequest")]
pub struct CanvasRequest {
    #[serde(flatten)]
    pub canvas: ScheduledCanvas,
    #[serde(flatten)]
    pub target: Target,
}

/// The Canvas and the time.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScheduledCanvas {
    /// The id of a Canvas that the workspace file declares.
    pub canvas_id: String,
    #[schemars(with = "ScheduleObject")]
    pub schedule: When,
}

/// The users and their data; stored as JSON with the names of the request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = recipients_or_broadcast)]
pub struct Target {
    /// Must be true to send to all users or to a whole audience, and must not be true if
    /// `recipients` are given.
    #[schemars(extend("default" = false))]
    broadcast: Option<bool>,
    /// Users, each identified by exactly one of `external_user_id` and `user_alias`.
    #[serde(skip_serializing_if = "Option::is_none")]
    recipients: Option<List<Recipient, 0, MAX_USERS>>,
    /// Limits the `recipients` to those in this audience; with `broadcast`, selects the users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    /// Templates of all users can read these as `canvas_entry_properties`. At most 50 KiB of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canvas_entry_properties: Option<Properties>,
    /// Who asked, as in the audit log: only in the stored form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub requested_by: Option<String>,
}

/// A user, identified by exactly one of `external_user_id` and `user_alias`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = exactly_one(IDENTIFIER_FIELDS))]
struct Recipient {
    #[serde(skip_serializing_if = "Option::is_none")]
    external_user_id: Option<Identifier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_alias: Option<UserAlias>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_properties: Option<Properties>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canvas_entry_properties: Option<Properties>,
}

/// A request to send a Canvas now. It selects users like a request to schedule a Canvas.
#[derive(Debug, JsonSchema)]
pub struct CanvasSendRequest {
    #[serde(flatten)]
    pub canvas: CanvasKey,
    #[serde(flatten)]
    pub target: Target,
}

/// The Canvas.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CanvasKey {
    /// The id of a Canvas that the workspace file declares.
    pub canvas_id: String,
}

impl CanvasSendRequest {
    /// Reads the fields of a body.
    pub fn read(body: &Members) -> Result<(Self, Vec<Warning>), ApiError> {
        let ((canvas, target), warnings) = fields::read_request_both::<_, Target>(body)?;
        let (target, warnings) = target.checked(warnings)?;
        Ok((Self { canvas, target }, warnings))
    }
}

impl CanvasRequest {
    /// Reads the fields of a body. Does not check whether the time is in the past.
    pub fn read(body: &Members) -> Result<(Self, Vec<Warning>), ApiError> {
        let ((canvas, target), warnings) = fields::read_request_both::<_, Target>(body)?;
        let (target, warnings) = target.checked(warnings)?;
        Ok((Self { canvas, target }, warnings))
    }
}

impl Target {
    /// Adds the warnings about the audience to those about unknown fields.
    fn checked(mut self, unknown: Vec<Warning>) -> Result<(Self, Vec<Warning>), ApiError> {
        self.requested_by = None;
        // The stored form has the field always.
        self.broadcast.get_or_insert(false);
        self.recipients = self.recipients.filter(|recipients| !recipients.0.is_empty());
        self.check().map_err(|text| ApiError::Field(Code::InvalidField, text))?;
        let mut warnings = Warnings::from(unknown);
        if let Some(audience) = &self.audience {
            warnings.extend(audience.warnings("audience"));
        }
        Ok((self, warnings.into_vec()))
    }

    fn check(&self) -> Result<(), String> {
        let users = self.users()?;
        let text = match (self.broadcast.unwrap_or_default(), users.is_empty(), &self.audience) {
            (true, false, _) => "broadcast must not be true if recipients are given",
            (false, true, Some(_)) => "Set broadcast to true to send to a whole audience",
            (false, true, None) => {
                "one of recipients, audience with broadcast, and broadcast is required"
            }
            _ => return Ok(()),
        };
        Err(text.into())
    }

    /// The listed users.
    pub fn users(&self) -> Result<Vec<Named>, String> {
        let recipients = self.recipients.iter().flat_map(|recipients| &recipients.0).enumerate();
        let users = recipients.map(|(index, recipient)| {
            recipient.named().map_err(|error| format!("recipients[{index}] {error}"))
        });
        users.collect()
    }

    /// The listed users without their properties, of a stored request.
    pub(super) fn identifiers(&self) -> Vec<Who> {
        let recipients = self.recipients.iter().flat_map(|recipients| &recipients.0);
        recipients.filter_map(|recipient| recipient.user().ok()).map(Who::from).collect()
    }

    /// Removes users with their properties ([`super::users`]).
    pub(super) fn remove_users(&mut self, is_selected: impl Fn(&Who) -> bool) {
        for recipient in self.recipients.iter_mut().flat_map(|recipients| &mut recipients.0) {
            if recipient.user().is_ok_and(|user| is_selected(&Who::from(user))) {
                *recipient = Recipient {
                    external_user_id: Some(Identifier(removed_id())),
                    user_alias: None,
                    trigger_properties: None,
                    canvas_entry_properties: None,
                };
            }
        }
    }
}

/// The conditions that [`Target::check`] checks.
fn recipients_or_broadcast(schema: &mut Schema) {
    schema.insert(
        "anyOf".into(),
        json!([
            {
                "properties": {
                    "recipients": { "type": "array", "minItems": 1 },
                    "broadcast": { "enum": [false, null] },
                },
                "required": ["recipients"],
            },
            {
                "properties": {
                    "broadcast": { "const": true },
                    "recipients": { "type": ["array", "null"], "maxItems": 0 },
                    "audience": { "type": "object" },
                },
                "required": ["broadcast"],
            },
        ]),
    );
}

impl Recipient {
    fn user(&self) -> Result<User, String> {
        User::from_fields(self.external_user_id.clone(), self.user_alias.clone())
    }

    fn named(&self) -> Result<Named, String> {
        let user = self.user()?;
        let properties = |properties: &Option<Properties>| {
            properties.clone().map(|Properties(properties)| properties)
        };
        Ok(Named {
            trigger_properties: properties(&self.trigger_properties),
            canvas_entry_properties: properties(&self.canvas_entry_properties),
            ..user.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// A body with these fields over those that are right.
    fn read(members: Value) -> Result<CanvasRequest, String> {
        let mut body = json!({
            "canvas_id": "c", "schedule": { "time": "2026-11-21T10:00:00Z" },
        });
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let read = CanvasRequest::read(body.as_object().unwrap());
        read.map(|(request, _)| request).map_err(|error| error.message().into_owned())
    }

    #[test]
    fn targets_are_stored_with_their_field_names() {
        let audience = json!({ "last_used_app": { "comparison": "after", "value": "2026-01-01" } });
        let target = json!({
            "broadcast": false,
            "recipients": [
                { "external_user_id": "ann", "trigger_properties": { "a": 1 } },
                { "user_alias": { "alias_name": "a", "alias_label": "l" },
                  "canvas_entry_properties": {} },
            ],
            "audience": audience,
            "canvas_entry_properties": { "b": [null] },
        });
        let mut given = target.clone();
        given["recipients"][0]["user_alias"] = Value::Null;
        given["recipients"][0]["unknown"] = json!(5);
        let stored = serde_json::to_value(read(given).unwrap().target).unwrap();
        assert_eq!(stored, target);
        let to_all = json!({ "broadcast": true, "recipients": [] });
        let stored = serde_json::to_value(read(to_all).unwrap().target).unwrap();
        assert_eq!(stored, json!({ "broadcast": true }));
    }

    #[test]
    fn errors_name_the_invalid_field() {
        let ann = json!({ "external_user_id": "ann" });
        let alone = json!({ "custom_attribute": {
            "custom_attribute_name": "x", "comparison": "exists"
        }});
        for (members, text) in [
            (json!({}), "one of recipients, audience with broadcast, and broadcast is required"),
            (json!({ "recipients": [] }), "one of recipients, "),
            (json!({ "audience": alone }), "Set broadcast to true"),
            (json!({ "broadcast": true, "audience": null }), "audience must not be null"),
            (json!({ "broadcast": true, "recipients": [ann] }), "broadcast must not be true"),
            (
                json!({ "recipients": vec![ann.clone(); 51] }),
                "recipients must have at most 50 elements",
            ),
            (
                json!({ "recipients": [{}] }),
                "recipients[0] must have exactly one of external_user_id and",
            ),
            (
                json!({ "recipients": [{
                    "external_user_id": "a",
                    "user_alias": { "alias_name": "a", "alias_label": "l" },
                }] }),
                "recipients[0] must have exactly one of",
            ),
            (
                json!({ "broadcast": true, "audience": [] }),
                "audience: expected an object with one condition",
            ),
            (
                json!({ "broadcast": true, "audience": { "AND": [] } }),
                "audience.AND: expected a non-empty array",
            ),
        ] {
            let error = read(members.clone()).unwrap_err();
            assert!(error.starts_with(text), "{members}: {error}");
        }
        assert!(read(json!({ "recipients": vec![ann.clone(); 50] })).is_ok());
        assert!(read(json!({ "broadcast": true, "audience": alone })).is_ok());
        assert!(read(json!({ "recipients": [ann], "audience": alone })).is_ok());
    }
}

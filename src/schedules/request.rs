//! What a call asks to be sent later (src/gateway/README.md, Scheduling a Canvas).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::messages::When;
use crate::messages::members::{self, Members, User, member, required_text};
use crate::messages::order::Named;

/// The members of `POST /canvas/trigger/schedule/create`, checked.
#[derive(Debug)]
pub struct CanvasRequest {
    pub canvas_id: String,
    pub when: When,
    pub target: Target,
}

/// To whom, and with what; kept as JSON of the names that the call has.
#[derive(Debug, Serialize, Deserialize)]
pub struct Target {
    pub broadcast: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<Recipient>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canvas_entry_properties: Option<Members>,
}

/// A user who is named.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipient {
    #[serde(flatten)]
    pub user: User,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_properties: Option<Members>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canvas_entry_properties: Option<Members>,
}

impl CanvasRequest {
    /// Reads the members of a body; the error names the one that is wrong. Unknown ones are
    /// ignored, and an explicit null means absent. Whether the time is past is not looked at.
    pub fn read(body: &Members) -> Result<Self, String> {
        let canvas_id = required_text(body, "canvas_id")?;
        let schedule = member(body, "schedule").ok_or("schedule is required")?;
        let target = Target {
            broadcast: members::switch(body, "broadcast")?,
            recipients: members::users(body, "recipients", "objects", recipient)?,
            audience: members::audience(body, "audience")?.map(|audience| audience.to_json()),
            canvas_entry_properties: members::properties(body, "canvas_entry_properties", "")?,
        };
        target.check()?;
        Ok(Self { canvas_id, when: When::read(schedule)?, target })
    }
}

impl Target {
    fn check(&self) -> Result<(), String> {
        let refused = match (self.broadcast, self.recipients.is_empty(), &self.audience) {
            (true, false, _) => "broadcast must not be true where recipients are named",
            (false, true, Some(_)) => "broadcast must be true where an audience is named alone",
            (false, true, None) => {
                "one of recipients, audience with broadcast, and broadcast is required"
            }
            _ => return Ok(()),
        };
        Err(refused.into())
    }
}

impl From<Recipient> for Named {
    fn from(recipient: Recipient) -> Self {
        let Recipient { user, trigger_properties, canvas_entry_properties } = recipient;
        Self { trigger_properties, canvas_entry_properties, ..members::named(user) }
    }
}

/// The two ids of `POST /canvas/trigger/schedule/delete`: of the Canvas and of the schedule.
pub fn read_delete(body: &Members) -> Result<(String, String), String> {
    Ok((required_text(body, "canvas_id")?, required_text(body, "schedule_id")?))
}

fn recipient(value: &Value, path: &str) -> Result<Recipient, String> {
    let members = value.as_object().ok_or_else(|| format!("{path} must be an object"))?;
    let user = members::user(members, path)?;
    let properties = |name| members::properties(members, name, &format!("{path}."));
    Ok(Recipient {
        user,
        trigger_properties: properties("trigger_properties")?,
        canvas_entry_properties: properties("canvas_entry_properties")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A body with these members over those that are right.
    fn read(members: Value) -> Result<CanvasRequest, String> {
        let mut body = json!({
            "canvas_id": "c", "schedule": { "time": "2026-11-21T10:00:00Z" },
        });
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        CanvasRequest::read(body.as_object().unwrap())
    }

    #[test]
    fn what_is_asked_is_kept_by_its_names() {
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
        let kept = serde_json::to_value(read(given).unwrap().target).unwrap();
        assert_eq!(kept, target);
        let all = read(json!({ "broadcast": true, "recipients": [], "audience": null })).unwrap();
        assert_eq!(serde_json::to_value(all.target).unwrap(), json!({ "broadcast": true }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let ann = json!({ "external_user_id": "ann" });
        let alone = json!({ "custom_attribute": {
            "custom_attribute_name": "x", "comparison": "exists"
        }});
        for (members, text) in [
            (json!({ "canvas_id": null }), "canvas_id is required"),
            (json!({ "canvas_id": 5 }), "canvas_id must be a string"),
            (json!({ "schedule": null }), "schedule is required"),
            (json!({}), "one of recipients, audience with broadcast, and broadcast is required"),
            (json!({ "recipients": [] }), "one of recipients, "),
            (json!({ "audience": alone }), "broadcast must be true where an audience"),
            (json!({ "broadcast": "true" }), "broadcast must be true or false"),
            (json!({ "broadcast": true, "recipients": [ann] }), "broadcast must not be true"),
            (json!({ "recipients": {} }), "recipients must be an array of objects"),
            (
                json!({ "recipients": vec![ann.clone(); 51] }),
                "recipients must have at most 50 users",
            ),
            (json!({ "recipients": [ann, "bob"] }), "recipients[1] must be an object"),
            (json!({ "recipients": [{}] }), "recipients[0] must have one of external_user_id and"),
            (
                json!({ "recipients": [{ "external_user_id": "a", "user_alias": {} }] }),
                "recipients[0] must have one of",
            ),
            (
                json!({ "recipients": [{ "external_user_id": "" }] }),
                "recipients[0].external_user_id is empty",
            ),
            (
                json!({ "recipients": [{ "external_user_id": 7 }] }),
                "recipients[0].external_user_id must be",
            ),
            (
                json!({ "recipients": [{ "external_user_id": "a\u{0}" }] }),
                "recipients[0].external_user_id has a control character",
            ),
            (
                json!({ "recipients": [{ "user_alias": { "alias_name": "a" } }] }),
                "recipients[0].user_alias.alias_label is required",
            ),
            (
                json!({ "recipients": [{ "external_user_id": "a", "trigger_properties": [] }] }),
                "recipients[0].trigger_properties must be an object",
            ),
            (
                json!({ "broadcast": true, "audience": [] }),
                "audience: expected an object with one condition",
            ),
            (
                json!({ "broadcast": true, "audience": { "AND": [] } }),
                "audience.AND: expected an array",
            ),
            (
                json!({ "broadcast": true, "canvas_entry_properties": "x" }),
                "canvas_entry_properties must be an object",
            ),
            (json!({ "broadcast": true, "schedule": {} }), "schedule.time is required"),
        ] {
            let error = read(members.clone()).unwrap_err();
            assert!(error.starts_with(text), "{members}: {error}");
        }
        assert!(read(json!({ "recipients": vec![ann.clone(); 50] })).is_ok());
        assert!(read(json!({ "broadcast": true, "audience": alone })).is_ok());
        assert!(read(json!({ "recipients": [ann], "audience": alone })).is_ok());
    }
}

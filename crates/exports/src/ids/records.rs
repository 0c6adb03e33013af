//! The response of `POST /users/export/ids`.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::project::{Broken, Projector};
use crate::warnings;
use gateway::ApiError;
use gateway::app::App;
use gateway::formats::{SuccessText, UserAlias};
use gateway::warnings::Warning;
use people::users::scan::UserRow;
use runtime::fairness::{Holder, Reservation};

/// Maximum bytes of a response.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// What the response begins with.
const BEGINNING: &[u8] = br#"{"message":"success","users":["#;

/// The users of a request.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "described only: the records are written as they are in files")]
pub(super) struct ExportedUsers {
    message: SuccessText,
    /// The user records, each user once.
    users: Vec<Map<String, Value>>,
    #[schemars(flatten)]
    rest: Rest,
}

/// The end of the response.
#[derive(Debug, Serialize, JsonSchema)]
struct Rest {
    /// The identifiers without a user, as in the request: an alias is an object, the others are
    /// strings.
    #[schemars(with = "Vec<UnknownUser>")]
    invalid_user_ids: Vec<Value>,
    /// Users who exist, and whose stored data cannot be read. They are not among `users`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Unreadable>,
    /// Parts of the request that have no effect; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// An identifier without a user.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "described only")]
enum UnknownUser {
    Text(String),
    Alias(UserAlias),
}

/// A user whose stored data cannot be read.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "UnreadableUser")]
pub(crate) struct Unreadable {
    /// The problem, for people to read.
    r#type: &'static str,
    service_id: Uuid,
}

impl Unreadable {
    /// Logs the reason for the operator.
    fn report(Broken { service_id, reason, needs_newer_version }: Broken) -> Self {
        tracing::warn!(%service_id, reason, "a user was left out of a response: unreadable");
        let problem = if needs_newer_version {
            "A newer version of the service has written this user, please retry later"
        } else {
            "The stored data of this user is damaged"
        };
        Self { r#type: problem, service_id }
    }
}

pub(crate) fn too_large(max_bytes: usize) -> ApiError {
    ApiError::Invalid(format!(
        "The records of these users have more than {max_bytes} bytes. Request fewer users, or \
         fewer fields with fields_to_export"
    ))
}

/// A response in progress.
pub(crate) struct Records {
    projector: Projector,
    json: Vec<u8>,
    pub users: usize,
    errors: Vec<Unreadable>,
    /// Custom attributes that no record has yet, each as in a record.
    unseen: Vec<(String, String)>,
}

impl Records {
    pub fn new(projector: Projector) -> Self {
        let (json, errors, unseen) = (BEGINNING.to_vec(), Vec::new(), Vec::new());
        Self { projector, json, users: 0, errors, unseen }
    }

    /// The same; looks for custom attributes in the records.
    pub fn looking_for(self, attributes: Vec<String>) -> Self {
        Self { unseen: warnings::as_in_documents(attributes), ..self }
    }

    /// The warnings about attributes that no record has.
    pub fn unknown_attributes(&self) -> Vec<Warning> {
        let unseen = self.unseen.iter().filter(|_| self.users > 0);
        unseen.map(|(_, name)| warnings::unknown_attribute(name, self.users as i64, true)).collect()
    }

    /// Appends the line that an export has for a user, as an element of `users`.
    pub fn append(&mut self, user: &UserRow<'_>) {
        let start = self.json.len();
        if self.users > 0 {
            self.json.push(b',');
        }
        match self.projector.line(user, &mut self.json) {
            Ok(()) => {
                // The line break.
                self.json.pop();
                self.users += 1;
                if !self.unseen.is_empty() {
                    let record = String::from_utf8_lossy(&self.json[start..]);
                    self.unseen.retain(|(text, _)| !record.contains(text.as_str()));
                }
            }
            Err(broken) => {
                self.json.truncate(start);
                self.errors.push(Unreadable::report(broken));
            }
        }
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> usize {
        self.json.len()
    }

    pub fn finish(
        self,
        invalid_user_ids: Vec<Value>,
        warnings: Vec<Warning>,
    ) -> Result<Vec<u8>, ApiError> {
        self.finish_with(|errors| Rest { invalid_user_ids, errors, warnings })
    }

    /// The response with these fields after `users`; there is at least one.
    pub fn finish_with<Rest: Serialize>(
        mut self,
        rest: impl FnOnce(Vec<Unreadable>) -> Rest,
    ) -> Result<Vec<u8>, ApiError> {
        let rest = serde_json::to_vec(&rest(std::mem::take(&mut self.errors)))
            .map_err(|error| ApiError::Internal(format!("cannot serialize a response: {error}")))?;
        self.json.extend_from_slice(b"],");
        // Without its brace.
        self.json.extend_from_slice(&rest[1..]);
        Ok(self.json)
    }
}

/// The memory of a response, which counts like that of a request's body (`gateway.memory_bytes`).
pub(crate) struct ResponseMemory {
    reserved: Reservation,
    limit: usize,
}

impl ResponseMemory {
    pub fn reserve(app: &App, workspace: i32) -> Result<Self, ApiError> {
        const FIRST: usize = 64 << 10;
        let memory = &app.capacity.body_memory;
        let (_, limit) = memory.used_and_limit();
        let reserved = memory.try_reserve(Holder::Workspace(workspace), FIRST);
        let reserved = reserved.ok_or(ApiError::Overloaded)?;
        Ok(Self { reserved, limit: limit.min(MAX_BYTES) })
    }

    /// Reserves at least this many bytes.
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes > self.limit {
            Err(too_large(self.limit))
        } else if self.reserved.try_grow(bytes) {
            Ok(())
        } else {
            Err(ApiError::Overloaded)
        }
    }

    /// A body whose memory stays reserved until it is sent.
    pub fn hold(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(HeldBytes { bytes, _memory: self })
    }
}

struct HeldBytes {
    bytes: Vec<u8>,
    _memory: ResponseMemory,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::civil::date;
    use serde_json::json;

    use super::*;
    use proof::fields::FieldSet;

    #[test]
    fn users_are_the_lines_of_an_export_without_the_unreadable_ones() {
        let set = FieldSet::parse(&["email".to_owned()]).unwrap();
        let days = (date(2026, 8, 24), date(2026, 11, 21));
        let finish = |docs: &[&str], invalid: Vec<Value>| {
            let mut records =
                Records::new(Projector::for_days(&set, days, "USD", &BTreeMap::new()));
            for (n, doc) in docs.iter().enumerate() {
                let service_id = Uuid::from_u128(n as u128);
                records.append(&UserRow { service_id, doc, activity: None });
            }
            String::from_utf8(records.finish(invalid, Vec::new()).unwrap()).unwrap()
        };
        assert_eq!(
            finish(&[], vec![]),
            r#"{"message":"success","users":[],"invalid_user_ids":[]}"#
        );
        assert_eq!(
            finish(&[r#"{"email":"a","phone":"b"}"#, "{}"], vec![json!("x")]),
            r#"{"message":"success","users":[{"email":"a"},{}],"invalid_user_ids":["x"]}"#
        );
        let broken = finish(&["{", r#"{"email":"a"}"#, r#"{"email":"#], vec![]);
        let broken: Value = serde_json::from_str(&broken).unwrap();
        assert_eq!(broken["users"], json!([{ "email": "a" }]));
        let ids: Vec<&Value> =
            broken["errors"].as_array().unwrap().iter().map(|error| &error["service_id"]).collect();
        assert_eq!(ids, [&json!(Uuid::from_u128(0)), &json!(Uuid::from_u128(2))]);
    }
}

//! The audience of a dispatch, for lists in which a person looks for one send of many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use gateway::workspaces::segments;
use store::documents;

/// The users that a dispatch is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DispatchAudience {
    /// `users`: listed users, of which a segment or an audience may leave some out. `segment`: a
    /// segment, which an audience may limit. `audience`: a connected audience. `recipients`: the
    /// recipients of an earlier dispatch. `all`: all users.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["users", "segment", "audience", "recipients", "all"]))]
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_id: Option<Uuid>,
    /// The segment's current name; absent if the segment was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_name: Option<String>,
    /// Whether only users in the `audience` of the request get messages.
    pub is_limited: bool,
    /// The earlier dispatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch_id: Option<String>,
    /// The outcomes of the earlier dispatch's messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<String>,
}

/// [`PastRecipients`](messages::order::PastRecipients) to show, also if a newer release wrote
/// outcomes that this one does not know.
#[derive(Debug, Deserialize)]
pub(super) struct ShownRecipients {
    pub dispatch_id: Uuid,
    pub outcomes: Vec<String>,
}

impl DispatchAudience {
    fn new(
        segment_id: Option<Uuid>,
        is_limited: bool,
        past: Option<ShownRecipients>,
        is_listed: bool,
    ) -> Self {
        let kind = match past {
            Some(_) => "recipients",
            None if is_listed => "users",
            None if segment_id.is_some() => "segment",
            None if is_limited => "audience",
            None => "all",
        };
        let (dispatch_id, outcomes) =
            past.map(|past| (past.dispatch_id.simple().to_string(), past.outcomes)).unzip();
        let outcomes = outcomes.unwrap_or_default();
        Self { kind, segment_id, segment_name: None, is_limited, dispatch_id, outcomes }
    }

    /// One listed user.
    pub(super) fn one_user() -> Self {
        Self::new(None, false, None, true)
    }

    /// With the name of the built-in segment, which has no row, if it is for this one.
    fn with_built_in_name(mut self, workspace: i32) -> Self {
        if self.segment_id == Some(segments::all_users_id(workspace)) {
            self.segment_name = Some(segments::ALL_USERS.to_owned());
        }
        self
    }

    /// In one line, for a table.
    pub fn in_words(&self) -> String {
        let limit = if self.is_limited && self.kind != "audience" { ", limited" } else { "" };
        match (&self.segment_id, &self.dispatch_id) {
            (_, Some(dispatch)) => format!("{} of {dispatch}", self.kind),
            (Some(id), _) if self.kind == "segment" => match &self.segment_name {
                Some(name) => format!("segment {name}{limit}"),
                None => format!("segment {id}{limit}"),
            },
            _ => format!("{}{limit}", self.kind),
        }
    }
}

macro_rules! read_from {
    ($row:ty) => {
        impl sqlx::FromRow<'_, $row> for DispatchAudience {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                let id: Uuid = row.try_get("id")?;
                let (segment, past): (Option<&str>, Option<&str>) =
                    (row.try_get("segment_id")?, row.try_get("recipients_of")?);
                let read = |text| documents::column("dispatches.order_json", &id, text);
                let audience = Self::new(
                    segment.and_then(|text| Uuid::try_parse(text).ok()),
                    row.try_get("is_limited")?,
                    past.map(read).transpose()?,
                    row.try_get("is_listed")?,
                );
                let segment_name: Option<String> = row.try_get("segment_name")?;
                let workspace: i32 = row.try_get("workspace_id")?;
                Ok(match segment_name {
                    Some(name) => Self { segment_name: Some(name), ..audience },
                    None => audience.with_built_in_name(workspace),
                })
            }
        }
    };
}
read_from!(sqlx::postgres::PgRow);
read_from!(sqlx::sqlite::SqliteRow);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_send_to_all_users_has_the_name_of_their_segment() {
        let to = |segment| DispatchAudience::new(Some(segment), false, None, false);
        let all = to(segments::all_users_id(7)).with_built_in_name(7);
        assert_eq!(all.in_words(), "segment All users");
        assert_eq!(to(Uuid::nil()).with_built_in_name(7).segment_name, None);
    }

    #[test]
    fn each_target_has_its_type() {
        // The second outcome is that of a newer release.
        let past = json!({ "dispatch_id": Uuid::nil(), "outcomes": ["sent", "opened"] });
        let past: ShownRecipients = serde_json::from_value(past).unwrap();
        let segment = Some(Uuid::nil());
        for (segment, is_limited, past, is_listed, kind) in [
            (None, false, None, false, "all"),
            (None, false, None, true, "users"),
            (segment, false, None, false, "segment"),
            (segment, true, None, false, "segment"),
            (segment, true, None, true, "users"),
            (None, true, None, false, "audience"),
            (None, false, Some(past), false, "recipients"),
        ] {
            let audience = DispatchAudience::new(segment, is_limited, past, is_listed);
            assert_eq!((audience.kind, audience.is_limited), (kind, is_limited));
            let outcomes: &[&str] = if kind == "recipients" { &["sent", "opened"] } else { &[] };
            assert_eq!(audience.outcomes, outcomes);
            assert!(audience.in_words().starts_with(kind));
            let named = DispatchAudience { segment_name: Some("Gold".into()), ..audience };
            assert_eq!(named.in_words().starts_with("segment Gold"), kind == "segment");
        }
    }
}

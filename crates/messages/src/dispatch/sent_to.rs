//! The audience of a dispatch, for lists in which a person looks for one send of many.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::state::MessageOutcome;
use crate::order::PastRecipients;
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
    #[schemars(with = "Vec<String>")]
    pub outcomes: Vec<MessageOutcome>,
}

impl DispatchAudience {
    fn new(
        segment_id: Option<Uuid>,
        is_limited: bool,
        past: Option<PastRecipients>,
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
                Ok(Self { segment_name: row.try_get("segment_name")?, ..audience })
            }
        }
    };
}
read_from!(sqlx::postgres::PgRow);
read_from!(sqlx::sqlite::SqliteRow);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_its_type() {
        let past = PastRecipients {
            dispatch_id: Uuid::nil(),
            outcomes: vec![MessageOutcome::Sent, MessageOutcome::Delivered],
        };
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
            assert!(audience.in_words().starts_with(kind));
            let named = DispatchAudience { segment_name: Some("Gold".into()), ..audience };
            assert_eq!(named.in_words().starts_with("segment Gold"), kind == "segment");
        }
    }
}

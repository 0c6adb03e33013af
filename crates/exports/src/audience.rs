//! The users of an export.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use gateway::workspaces::{Budget, segments};
use kit::derived_ids;
use kit::json::ObjectText;

/// The users of an export, as requested; stored as JSON in the job's row. Users who match at the
/// moment of the plan are in the export, whatever they do later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// The global control group, whose segment id is that of the job.
    #[default]
    ControlGroup,
    /// A segment of the workspace, by the segment id of the job.
    Segment,
    /// A connected audience in the request.
    Connected(ObjectText),
}

impl Audience {
    /// The names of the kinds.
    pub const NAMES: [&str; 3] = ["control_group", "segment", "connected"];

    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ControlGroup => Self::NAMES[0],
            Self::Segment => Self::NAMES[1],
            Self::Connected(_) => Self::NAMES[2],
        }
    }

    /// The permission of a request for it, and of reading its status.
    pub fn permission(&self) -> &'static str {
        AudienceKind::from(self).permission()
    }

    /// The budget of requests for it.
    pub fn budget(&self) -> Budget {
        match self {
            Self::ControlGroup => Budget::UsersExport,
            Self::Segment | Self::Connected(_) => Budget::UsersExportSegment,
        }
    }
}

store::text_enum! {
    /// The kind of an export's audience.
    pub enum AudienceKind {
        ControlGroup = "control-group",
        Segment = "segment",
        Connected = "connected",
    }
}

impl From<&Audience> for AudienceKind {
    fn from(audience: &Audience) -> Self {
        match audience {
            Audience::ControlGroup => Self::ControlGroup,
            Audience::Segment => Self::Segment,
            Audience::Connected(_) => Self::Connected,
        }
    }
}

impl AudienceKind {
    /// The permission of requests for such audiences, and of reading the status of their exports.
    pub fn permission(self) -> &'static str {
        match self {
            Self::ControlGroup => CONTROL_GROUP,
            Self::Segment | Self::Connected => SEGMENT,
        }
    }
}

/// The permissions of exports.
pub const CONTROL_GROUP: &str = "users.export.global_control_group";
pub const SEGMENT: &str = "users.export.segment";

/// Each of them shows the exports that it may request.
pub const PERMISSIONS: [&str; 2] = [CONTROL_GROUP, SEGMENT];

/// The segment id in the paths of a connected audience's files: the same for the same audience of
/// a workspace, so that its exports lie together.
pub fn id_of_connected(workspace: i32, audience: &ObjectText) -> Uuid {
    let all_users = segments::all_users_id(workspace);
    derived_ids::v8(&[all_users.as_bytes(), audience.as_str().as_bytes()])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn connected(json: &str) -> ObjectText {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn audiences_survive_a_round_trip() {
        for (audience, stored) in [
            (Audience::ControlGroup, json!("control_group")),
            (Audience::Segment, json!("segment")),
            (
                Audience::Connected(connected(r#"{"AND":[]}"#)),
                json!({ "connected": { "AND": [] } }),
            ),
        ] {
            assert_eq!(json!(audience), stored);
            assert_eq!(serde_json::from_value::<Audience>(stored).unwrap(), audience);
        }
    }

    #[test]
    fn the_budget_is_that_of_the_permission() {
        for audience in
            [Audience::ControlGroup, Audience::Segment, Audience::Connected(connected("{}"))]
        {
            assert_eq!(Budget::from_permission(audience.permission()), Some(audience.budget()));
        }
    }

    #[test]
    fn the_same_audience_has_the_same_folder() {
        let id = |workspace, text: &str| id_of_connected(workspace, &connected(text));
        assert_eq!(id(1, r#"{"OR":[{"a":1}]}"#), id(1, r#"{ "OR": [ {"a": 1} ] }"#));
        assert_ne!(id(1, r#"{"OR":[]}"#), id(2, r#"{"OR":[]}"#));
        let stored = "658fdc9e-b523-85f4-90a2-ad00b0259a07";
        assert_eq!(id(1, r#"{"OR":[]}"#).to_string(), stored, "it is in the paths of files");
    }
}

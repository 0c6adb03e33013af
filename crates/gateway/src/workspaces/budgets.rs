//! The rate limits of a workspace: budgets, and their limits (docs/reference/api/rate-limits.md).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{self, number};

/// A limit of requests in a window of time. Windows begin at whole multiples of their length since
/// the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Maximum number of requests in a window.
    #[serde(deserialize_with = "rules::requests")]
    #[schemars(schema_with = "number")]
    pub requests: u32,
    /// Length of a window in seconds. It must divide a day.
    #[serde(deserialize_with = "rules::window")]
    #[schemars(schema_with = "number")]
    pub seconds: u32,
}

const fn limit(requests: u32, seconds: u32) -> Limit {
    Limit { requests, seconds }
}

impl Limit {
    /// The lowest limit that allows everything that either of two limits allows.
    pub(crate) fn combine(first: Self, second: Self) -> Self {
        let seconds = first.seconds.max(second.seconds);
        let requests = |limit: Self| {
            // Windows that do not fit into the longer one begin before it, and end after it.
            let windows = match seconds % limit.seconds {
                0 => seconds / limit.seconds,
                _ => seconds / limit.seconds + 2,
            };
            limit.requests.saturating_mul(windows)
        };
        Self { requests: requests(first).saturating_add(requests(second)), seconds }
    }
}

const MINUTE: u32 = 60;
const HOUR: u32 = 3_600;
pub(crate) const DAY: u32 = 86_400;

/// The budget against which requests are counted: one for each endpoint, except those that share
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    CampaignsList,
    CanvasScheduleCreate,
    CanvasScheduleDelete,
    /// Every endpoint of catalog items.
    Catalogs,
    LiveActivityStart,
    MessagesSchedule,
    /// `/messages/send` to listed users.
    MessagesSend,
    /// `/messages/send` with only a segment or an audience; sends to the recipients of a dispatch.
    MessagesSendAudience,
    /// `/messages/send`, before its body selects one of the two.
    MessagesSendAny,
    /// Every endpoint that has no budget of its own.
    Others,
    SmsNumbersRemove,
    TemplatesPreview,
    /// Requests for an export, and those that show and cancel exports.
    UsersExport,
    /// `/users/export/ids`.
    UsersExportIds,
    /// `/users/export/segment`.
    UsersExportSegment,
    /// Requests that rename and remove external ids.
    UsersExternalIds,
    /// Requests that delete, identify and merge users, and change aliases.
    UsersIdentities,
    UsersTrack,
    /// Every SCIM endpoint, of the whole installation.
    Scim,
}

impl Budget {
    /// The budgets of a workspace, which can declare other limits for them.
    pub const OF_WORKSPACES: [Self; 17] = [
        Self::CampaignsList,
        Self::CanvasScheduleCreate,
        Self::CanvasScheduleDelete,
        Self::Catalogs,
        Self::LiveActivityStart,
        Self::MessagesSchedule,
        Self::MessagesSend,
        Self::MessagesSendAudience,
        Self::Others,
        Self::SmsNumbersRemove,
        Self::TemplatesPreview,
        Self::UsersExport,
        Self::UsersExportIds,
        Self::UsersExportSegment,
        Self::UsersExternalIds,
        Self::UsersIdentities,
        Self::UsersTrack,
    ];

    /// The name in the workspace file, in the store and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::CampaignsList => "campaigns.list",
            Self::CanvasScheduleCreate => "canvas.trigger.schedule.create",
            Self::CanvasScheduleDelete => "canvas.trigger.schedule.delete",
            Self::Catalogs => "catalogs",
            Self::LiveActivityStart => "messages.live_activity.start",
            Self::MessagesSchedule => "messages.schedule.create",
            Self::MessagesSend => "messages.send",
            Self::MessagesSendAudience => "messages.send.audience",
            Self::MessagesSendAny => "messages.send.any",
            Self::Others => "others",
            Self::SmsNumbersRemove => "sms.invalid_phone_numbers.remove",
            Self::TemplatesPreview => "templates.preview",
            Self::UsersExport => "users.export.global_control_group",
            Self::UsersExportIds => "users.export.ids",
            Self::UsersExportSegment => "users.export.segment",
            Self::UsersExternalIds => "users.external_ids",
            Self::UsersIdentities => "users.identities",
            Self::UsersTrack => "users.track",
            Self::Scim => "scim",
        }
    }

    /// The limit of a workspace that declares none.
    pub fn default_limit(self) -> Limit {
        match self {
            Self::UsersTrack => limit(3_000, 3),
            Self::Catalogs => limit(16_000, MINUTE),
            Self::UsersIdentities => limit(20_000, MINUTE),
            Self::UsersExternalIds => limit(1_000, MINUTE),
            // At most 150,000 an hour, which is below the family's other limit for these requests.
            Self::UsersExportIds | Self::UsersExportSegment => limit(2_500, MINUTE),
            Self::MessagesSendAudience | Self::TemplatesPreview => limit(250, MINUTE),
            Self::Scim => limit(5_000, DAY),
            _ => limit(250_000, HOUR),
        }
    }

    /// The workspaces' budget with that name; the error lists the names.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::OF_WORKSPACES.into_iter().find(|budget| budget.name() == name).ok_or_else(|| {
            let names = Self::OF_WORKSPACES.map(Self::name).join(", ");
            format!("unknown rate limit; expected one of {names}")
        })
    }

    /// The budget of requests that need a permission, which are counted before their body is read.
    /// None if the body decides ([`messages.send`](Self::MessagesSend), where the handler counts),
    /// and for transactional requests, which are never limited.
    pub fn from_permission(permission: &str) -> Option<Self> {
        match permission {
            "campaigns.trigger.send" | "messages.send" | "transactional.send" => None,
            "messages.dispatches.send" => Some(Self::MessagesSendAudience),
            name if name.starts_with("catalogs.") => Some(Self::Catalogs),
            "users.external_ids.remove" | "users.external_ids.rename" => {
                Some(Self::UsersExternalIds)
            }
            "users.alias.new" | "users.alias.update" | "users.delete" | "users.identify"
            | "users.merge" => Some(Self::UsersIdentities),
            name => Some(Self::parse(name).unwrap_or(Self::Others)),
        }
    }

    /// The budget of requests that need a permission, before their body is read, if the body
    /// decides between two others.
    pub(crate) fn before_body(permission: &str) -> Option<(Self, [Self; 2])> {
        let budgets = [Self::MessagesSend, Self::MessagesSendAudience];
        Self::is_by_body(permission).then_some((Self::MessagesSendAny, budgets))
    }

    /// The budget of requests that need a permission, if the body decides but is not read: for lack
    /// of the permission, for example.
    pub fn for_unread_body(permission: &str) -> Option<Self> {
        Self::is_by_body(permission).then_some(Self::MessagesSend)
    }

    /// All budgets of requests that need a permission; none for those that are never limited.
    pub fn all_from_permission(permission: &str) -> Vec<Self> {
        match Self::before_body(permission) {
            Some((_, by_body)) => by_body.to_vec(),
            None => Self::from_permission(permission).into_iter().collect(),
        }
    }

    fn is_by_body(permission: &str) -> bool {
        matches!(permission, "campaigns.trigger.send" | "messages.send")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspaces::keys::PERMISSIONS;

    #[test]
    fn combined_limits_allow_what_either_limit_allows() {
        assert_eq!(Limit::combine(limit(250_000, HOUR), limit(250, MINUTE)), limit(265_000, HOUR));
        assert_eq!(Limit::combine(limit(3, 60), limit(5, 60)), limit(8, 60));
        assert_eq!(Limit::combine(limit(1, 40), limit(1, 60)), limit(4, 60));
        let highest = Limit::combine(limit(u32::MAX, 1), limit(1, DAY));
        assert_eq!(highest, limit(u32::MAX, DAY));
    }

    #[test]
    fn every_permission_has_its_budget() {
        let without: Vec<&str> = PERMISSIONS
            .iter()
            .copied()
            .filter(|permission| Budget::from_permission(permission).is_none())
            .collect();
        assert_eq!(without, ["campaigns.trigger.send", "messages.send", "transactional.send"]);
        assert_eq!(Budget::for_unread_body("messages.send"), Some(Budget::MessagesSend));
        assert_eq!(Budget::for_unread_body("transactional.send"), None);
        let by_body = [Budget::MessagesSend, Budget::MessagesSendAudience];
        assert_eq!(Budget::all_from_permission("messages.send"), by_body);
        assert_eq!(Budget::all_from_permission("users.track"), [Budget::UsersTrack]);
        assert!(Budget::all_from_permission("transactional.send").is_empty());
        let catalogs = Budget::from_permission("catalogs.update_items").unwrap();
        assert_eq!(catalogs.default_limit(), limit(16_000, 60));
        for budget in Budget::OF_WORKSPACES {
            assert_eq!(Budget::parse(budget.name()), Ok(budget));
            assert!(DAY.is_multiple_of(budget.default_limit().seconds));
        }
        assert!(Budget::parse("scim").is_err(), "it is no workspace's");
    }
}

//! What a message can go by.

use serde::{Deserialize, Serialize};

/// A channel, by its member of the messages object (src/gateway/README.md, Message objects); a live
/// activity has a call of its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type,
)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Channel {
    ApplePush,
    AndroidPush,
    KindlePush,
    WebPush,
    Email,
    Webhook,
    ContentCard,
    Sms,
    WhatsApp,
    LiveActivity,
}

impl Channel {
    /// Those of the messages object.
    pub const OF_MESSAGES: [Self; 9] = [
        Self::ApplePush,
        Self::AndroidPush,
        Self::KindlePush,
        Self::WebPush,
        Self::Email,
        Self::Webhook,
        Self::ContentCard,
        Self::Sms,
        Self::WhatsApp,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ApplePush => "apple_push",
            Self::AndroidPush => "android_push",
            Self::KindlePush => "kindle_push",
            Self::WebPush => "web_push",
            Self::Email => "email",
            Self::Webhook => "webhook",
            Self::ContentCard => "content_card",
            Self::Sms => "sms",
            Self::WhatsApp => "whats_app",
            Self::LiveActivity => "live_activity",
        }
    }

    /// The channel of that [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "live_activity" => Some(Self::LiveActivity),
            name => Self::OF_MESSAGES.into_iter().find(|channel| channel.name() == name),
        }
    }

    /// Whether it goes to devices through the push provider.
    pub fn is_push(self) -> bool {
        matches!(
            self,
            Self::ApplePush
                | Self::AndroidPush
                | Self::KindlePush
                | Self::WebPush
                | Self::LiveActivity
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_everywhere() {
        for channel in Channel::OF_MESSAGES.into_iter().chain([Channel::LiveActivity]) {
            assert_eq!(Channel::from_name(channel.name()), Some(channel));
            assert_eq!(serde_json::to_value(channel).unwrap(), channel.name());
        }
        assert_eq!(Channel::from_name("fax"), None);
    }
}

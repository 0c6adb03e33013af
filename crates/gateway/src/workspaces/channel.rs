//! The channels of messages.

use store::text_enum;

text_enum! {
    /// A channel, by its field of the messages object (docs/reference/api/message-objects.md);
    /// live activities have a separate endpoint.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Channel {
        ApplePush = "apple_push",
        AndroidPush = "android_push",
        KindlePush = "kindle_push",
        WebPush = "web_push",
        Email = "email",
        Webhook = "webhook",
        ContentCard = "content_card",
        Sms = "sms",
        WhatsApp = "whats_app",
        LiveActivity = "live_activity",
    }
}

impl Channel {
    /// The channels of the messages object.
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

    /// Whether its messages go to devices through the push provider.
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

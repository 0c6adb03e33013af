//! The known fields of each channel's message object, for parsing and for the API description.
//! Unknown ones are kept and sent.

use crate::workspaces::Channel;

/// A member of a message object.
#[derive(Debug)]
pub(super) struct Member {
    pub name: &'static str,
    pub kind: Kind,
    pub is_required: bool,
    pub about: &'static str,
}

/// What a member's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A template.
    Text,
    /// An email address, perhaps with a name before it: a template of a single line. What is
    /// printed in several is not sent, for an address with a line break in it would be another.
    /// One that is no template is checked at once.
    Mailbox,
    /// Several of them, with commas between.
    Mailboxes,
    /// A template; a line break becomes a space.
    Subject,
    /// The address of a webhook: a line, too. One that is no template is checked at once.
    Address,
    /// The text of a push message, or an object with it.
    Alert,
    /// An object whose values are lines.
    Headers,
    /// An object whose texts, at any depth, are templates.
    Object,
    /// A name that is taken as it is written.
    Id,
    /// One of these, likewise.
    OneOf(&'static [&'static str]),
    /// The UUID of a subscription group that the workspace declares for the channel, likewise.
    Group,
    /// A whole number of seconds, from 1.
    Seconds,
    /// ISO 8601; a template, too.
    Time,
}

/// The most seconds that something may live: a hundred years.
pub(super) const MAX_SECONDS: u64 = 100 * 365 * 86_400;

const fn must(name: &'static str, kind: Kind, about: &'static str) -> Member {
    Member { name, kind, is_required: true, about }
}

const fn may(name: &'static str, kind: Kind, about: &'static str) -> Member {
    Member { name, kind, is_required: false, about }
}

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE"];
const CARDS: &[&str] = &["CLASSIC", "CAPTIONED_IMAGE", "BANNER"];

const APP: &str = "A label of the app.";
const GROUP: &str = "ID of a subscription group that the workspace file declares for the channel.";

/// What every message object may have.
pub(super) const VARIATION: Member =
    may("message_variation_id", Kind::Id, "Identifies the variation in statistics.");

const APPLE_PUSH: &[Member] =
    &[VARIATION, must("alert", Kind::Alert, "The text, or an object like Apple's `alert`.")];

const PUSH: &[Member] = &[
    VARIATION,
    must("alert", Kind::Text, "The text."),
    must("title", Kind::Text, "The title above the text."),
];

const EMAIL: &[Member] = &[
    VARIATION,
    must("app_id", Kind::Id, APP),
    must("from", Kind::Mailbox, "The sender, such as `Acme <hello@acme.example>`."),
    must("body", Kind::Text, "HTML."),
    may("subject", Kind::Subject, "The subject."),
    may("reply_to", Kind::Mailbox, "Address for replies."),
    may("bcc", Kind::Mailboxes, "Addresses that get a blind copy."),
    may("plaintext_body", Kind::Text, "The body as plain text."),
    may("preheader", Kind::Subject, "The text that mailboxes show after the subject."),
    may("headers", Kind::Headers, "Additional headers."),
    may("extras", Kind::Object, "Passed on."),
];

const WEBHOOK: &[Member] = &[
    VARIATION,
    must("url", Kind::Address, "URL of the request: http or https, not a private address."),
    must("request_method", Kind::OneOf(METHODS), "How."),
    may("request_headers", Kind::Headers, "Headers of the request."),
    may("body", Kind::Text, "The body of the request."),
];

const CONTENT_CARD: &[Member] = &[
    VARIATION,
    must("type", Kind::OneOf(CARDS), "Layout of the card."),
    must("title", Kind::Text, "The title above the text."),
    must("description", Kind::Text, "The text."),
    may(TIME_TO_LIVE, Kind::Seconds, "How long the card is shown; exclusive with `expire_at`."),
    may(EXPIRE_AT, Kind::Time, "When the card expires; exclusive with `time_to_live`."),
];

/// Of which a content card has one.
pub(super) const TIME_TO_LIVE: &str = "time_to_live";
pub(super) const EXPIRE_AT: &str = "expire_at";

const SMS: &[Member] = &[
    VARIATION,
    must("subscription_group_id", Kind::Group, GROUP),
    must("body", Kind::Text, "The text."),
    must("app_id", Kind::Id, APP),
];

const WHATS_APP: &[Member] = &[
    VARIATION,
    must("app_id", Kind::Id, APP),
    must("subscription_group_id", Kind::Group, GROUP),
    must("message_type", Kind::Id, "Type of `message`."),
    must("message", Kind::Object, "The message in the provider's format."),
];

/// The members of a channel's message object.
pub(super) fn members(channel: Channel) -> &'static [Member] {
    match channel {
        Channel::ApplePush => APPLE_PUSH,
        Channel::AndroidPush | Channel::KindlePush | Channel::WebPush => PUSH,
        Channel::Email => EMAIL,
        Channel::Webhook => WEBHOOK,
        Channel::ContentCard => CONTENT_CARD,
        Channel::Sms => SMS,
        Channel::WhatsApp => WHATS_APP,
        Channel::LiveActivity => &[],
    }
}

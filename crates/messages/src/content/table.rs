//! The known fields of each channel's message object, for parsing and for the API description.
//! Unknown fields are also accepted, rendered, and sent to providers.

use gateway::workspaces::Channel;

/// A known field of a message object.
#[derive(Debug)]
pub(super) struct FieldSpec {
    pub name: &'static str,
    pub kind: Kind,
    pub is_required: bool,
    pub about: &'static str,
}

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A template.
    Text,
    /// A template of an email address, optionally with a name before it. The rendered text must be
    /// one line, because a line break would make it a different address. A constant address is
    /// checked when the request is read.
    Mailbox,
    /// Several email addresses, separated by commas.
    Mailboxes,
    /// A template; a line break becomes a space.
    Subject,
    /// A template of the URL of a webhook, which must also be one line. A constant URL is checked
    /// when the request is read.
    Address,
    /// The text of a push message, or an object that contains it.
    Alert,
    /// An object whose values are templates of one line.
    Headers,
    /// An object whose strings, at any depth, are templates.
    Object,
    /// An identifier, which is not a template.
    Id,
    /// One of these names, which is not a template.
    OneOf(&'static [&'static str]),
    /// The UUID of a subscription group that the workspace declares for the channel; not a
    /// template.
    Group,
    /// A whole number of seconds, from 1.
    Seconds,
    /// A template of a time in ISO 8601.
    Time,
}

/// Maximum `time_to_live`, in seconds: a hundred years.
pub(super) const MAX_SECONDS: u64 = 100 * 365 * 86_400;

const fn must(name: &'static str, kind: Kind, about: &'static str) -> FieldSpec {
    FieldSpec { name, kind, is_required: true, about }
}

const fn may(name: &'static str, kind: Kind, about: &'static str) -> FieldSpec {
    FieldSpec { name, kind, is_required: false, about }
}

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE"];
const CARDS: &[&str] = &["CLASSIC", "CAPTIONED_IMAGE", "BANNER"];

const APP: &str = "A label for the app.";
const GROUP: &str = "ID of a subscription group that the workspace file declares for the channel.";

/// A field that every message object can have.
pub(super) const VARIATION: FieldSpec =
    may("message_variation_id", Kind::Id, "Identifies the variation in statistics.");

const APPLE_PUSH: &[FieldSpec] = &[
    VARIATION,
    must("alert", Kind::Alert, "The text, or an object in the format of Apple's `alert`."),
];

const PUSH: &[FieldSpec] = &[
    VARIATION,
    must("alert", Kind::Text, "The text."),
    must("title", Kind::Text, "The title above the text."),
];

const EMAIL: &[FieldSpec] = &[
    VARIATION,
    must("app_id", Kind::Id, APP),
    must("from", Kind::Mailbox, "The sender, such as `Acme <hello@acme.example>`."),
    must("body", Kind::Text, "The body as HTML."),
    may("subject", Kind::Subject, "The subject."),
    may("reply_to", Kind::Mailbox, "Address for replies."),
    may("bcc", Kind::Mailboxes, "Addresses that get a blind copy."),
    may("plaintext_body", Kind::Text, "The body as plain text."),
    may("preheader", Kind::Subject, "The text that mailboxes show after the subject."),
    may("headers", Kind::Headers, "Additional headers."),
    may("extras", Kind::Object, "Accepted, but not part of the email."),
];

const WEBHOOK: &[FieldSpec] = &[
    VARIATION,
    must("url", Kind::Address, "URL of the request: http or https, not a private address."),
    must("request_method", Kind::OneOf(METHODS), "The HTTP method of the request."),
    may("request_headers", Kind::Headers, "Headers of the request."),
    may("body", Kind::Text, "The body of the request."),
];

const CONTENT_CARD: &[FieldSpec] = &[
    VARIATION,
    must("type", Kind::OneOf(CARDS), "Layout of the card."),
    must("title", Kind::Text, "The title above the text."),
    must("description", Kind::Text, "The text."),
    may(
        TIME_TO_LIVE,
        Kind::Seconds,
        "Seconds for which the card is shown. Set either this or `expire_at`.",
    ),
    may(EXPIRE_AT, Kind::Time, "Time when the card expires. Set either this or `time_to_live`."),
];

/// A content card has exactly one of these two fields.
pub(super) const TIME_TO_LIVE: &str = "time_to_live";
pub(super) const EXPIRE_AT: &str = "expire_at";

const SMS: &[FieldSpec] = &[
    VARIATION,
    must("subscription_group_id", Kind::Group, GROUP),
    must("body", Kind::Text, "The text."),
    must("app_id", Kind::Id, APP),
];

const WHATS_APP: &[FieldSpec] = &[
    VARIATION,
    must("app_id", Kind::Id, APP),
    must("subscription_group_id", Kind::Group, GROUP),
    must("message_type", Kind::Id, "The type of `message`."),
    must("message", Kind::Object, "The message in the provider's format."),
];

/// The known fields of a channel's message object.
pub(super) fn members(channel: Channel) -> &'static [FieldSpec] {
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

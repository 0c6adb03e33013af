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

const fn required(name: &'static str, kind: Kind, about: &'static str) -> FieldSpec {
    FieldSpec { name, kind, is_required: true, about }
}

const fn optional(name: &'static str, kind: Kind, about: &'static str) -> FieldSpec {
    FieldSpec { name, kind, is_required: false, about }
}

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE"];
const CARDS: &[&str] = &["CLASSIC", "CAPTIONED_IMAGE", "BANNER"];

const APP: &str = "A label for the app.";
const GROUP: &str = "ID of a subscription group that the workspace file declares for the channel.";

/// A field that every message object can have.
pub(super) const VARIATION: FieldSpec =
    optional("message_variation_id", Kind::Id, "Identifies the variation in statistics.");

const APPLE_PUSH: &[FieldSpec] = &[
    VARIATION,
    required("alert", Kind::Alert, "The text, or an object in the format of Apple's `alert`."),
];

const PUSH: &[FieldSpec] = &[
    VARIATION,
    required("alert", Kind::Text, "The text."),
    required("title", Kind::Text, "The title above the text."),
];

const EMAIL: &[FieldSpec] = &[
    VARIATION,
    required("app_id", Kind::Id, APP),
    required("from", Kind::Mailbox, "The sender, such as `Acme <hello@acme.example>`."),
    required("body", Kind::Text, "The body as HTML."),
    optional("subject", Kind::Subject, "The subject."),
    optional("reply_to", Kind::Mailbox, "Address for replies."),
    optional("bcc", Kind::Mailboxes, "Addresses that get a blind copy."),
    optional("plaintext_body", Kind::Text, "The body as plain text."),
    optional("preheader", Kind::Subject, "The text that mailboxes show after the subject."),
    optional("headers", Kind::Headers, "Additional headers."),
    optional("extras", Kind::Object, "Accepted, but not part of the email."),
];

const WEBHOOK: &[FieldSpec] = &[
    VARIATION,
    required("url", Kind::Address, "URL of the request: http or https, not a private address."),
    required("request_method", Kind::OneOf(METHODS), "The HTTP method of the request."),
    optional("request_headers", Kind::Headers, "Headers of the request."),
    optional("body", Kind::Text, "The body of the request."),
];

const CONTENT_CARD: &[FieldSpec] = &[
    VARIATION,
    required("type", Kind::OneOf(CARDS), "Layout of the card."),
    required("title", Kind::Text, "The title above the text."),
    required("description", Kind::Text, "The text."),
    optional(
        TIME_TO_LIVE,
        Kind::Seconds,
        "Seconds for which the card is shown. Set either this or `expire_at`.",
    ),
    optional(
        EXPIRE_AT,
        Kind::Time,
        "Time when the card expires. Set either this or `time_to_live`.",
    ),
];

/// A content card has exactly one of these two fields.
pub(super) const TIME_TO_LIVE: &str = "time_to_live";
pub(super) const EXPIRE_AT: &str = "expire_at";

const SMS: &[FieldSpec] = &[
    VARIATION,
    required("subscription_group_id", Kind::Group, GROUP),
    required("body", Kind::Text, "The text."),
    required("app_id", Kind::Id, APP),
];

const WHATS_APP: &[FieldSpec] = &[
    VARIATION,
    required("app_id", Kind::Id, APP),
    required("subscription_group_id", Kind::Group, GROUP),
    required("message_type", Kind::Id, "The type of `message`."),
    required("message", Kind::Object, "The message in the provider's format."),
];

/// The known fields of a channel's message object.
pub(super) fn known_fields(channel: Channel) -> &'static [FieldSpec] {
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

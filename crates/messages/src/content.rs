//! The message objects of the API (docs/reference/api/message-objects.md): parsed once, and
//! rendered for each user.
//!
//! All strings are [templates](template), at any depth and also in unknown fields; only identifiers
//! are used unchanged. Output in headers and URLs is one line, so that no profile can add a header.
//!
//! `table` has the known fields of each channel; `read` parses and checks message objects by it,
//! and `schema` describes them in the API document. `piece` is a parsed value, and renders it.
//! Start with [`Content::read`], which accepts or rejects each message object, and
//! [`Message::render`].

mod piece;
mod read;
mod schema;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use kit::words::about_field;
use piece::Piece;
use serde_json::{Map, Value};
use template::{RenderBudget, Stop, guarded};

use super::personalization::Scope;
use gateway::workspaces::Channel;
pub use read::check_email_template;
pub use read::{MAX_BYTES, MAX_DEPTH, MAX_VALUES};
pub use schema::Messages;

/// The source of message objects, which decides what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// A request to send now, which allows `whats_app`.
    Send,
    /// A request to schedule messages, which does not allow `whats_app`.
    Schedule,
    /// The workspace file.
    File,
    /// An accepted request. Mistakes in its templates are not reported again; they render as
    /// nothing.
    Stored,
}

/// The message objects of an order, ready to be rendered for users.
#[derive(Clone, Debug, Default)]
pub struct Content {
    messages: Vec<Message>,
    has_unknown_sources: bool,
}

/// A message object of one channel. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Message {
    pub channel: Channel,
    pub variation_id: Option<String>,
    pieces: Arc<[(String, Piece)]>,
}

/// A message object rendered for one user.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    pub channel: Channel,
    pub variation_id: Option<String>,
    /// The fields of the message object, including unknown ones, with all strings rendered and
    /// without nulls.
    pub object: Map<String, Value>,
    /// Keys and values from `message_extras`.
    pub extras: BTreeMap<String, String>,
}

/// An error of a message object; other message objects may be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Such as `messages.email.subject`.
    pub path: String,
    pub text: String,
    /// Whether it fails the whole request, as an invalid template or a private address does.
    pub is_fatal: bool,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&about_field(&self.path, &self.text))
    }
}

impl Content {
    /// The message objects by channel, in the order of the request.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether a template names a source that the workspace's settings do not have, such as a
    /// selection of a catalog.
    pub fn has_unknown_sources(&self) -> bool {
        self.has_unknown_sources
    }
}

impl Message {
    fn new(channel: Channel, variation_id: Option<String>, pieces: Vec<(String, Piece)>) -> Self {
        Self { channel, variation_id, pieces: pieces.into() }
    }

    /// Renders the message for one user. Takes processor time: not for async threads. The limits of
    /// a rendering apply to all its texts together.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Rendered, Stop> {
        let data = scope.data(self.variation_id.as_deref());
        let mut budget = RenderBudget::new(scope.now);
        let object = guarded(|| piece::render(&self.pieces, &data, &mut budget))?;
        let (channel, variation_id) = (self.channel, self.variation_id.clone());
        Ok(Rendered { channel, variation_id, object, extras: budget.into_extras() })
    }
}

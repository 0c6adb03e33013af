//! The message objects of the API (src/gateway/README.md, Message objects): parsed once, and
//! rendered for each user.
//!
//! All their strings are [templates](template), at any depth and in unknown fields, too; only
//! identifiers are used unchanged. Output in headers and URLs is one line, so that no profile can
//! add a header.

mod piece;
mod read;
mod schema;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use piece::Piece;
use serde_json::{Map, Value};
use template::{Stop, Work, guarded};

use super::personalization::Scope;
use crate::workspaces::Channel;
pub use read::{MAX_BYTES, MAX_DEPTH, MAX_VALUES};
pub use schema::Messages;

/// The source of message objects, which decides what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `/messages/send`: `whats_app` too.
    Send,
    /// `/messages/schedule/create`: not `whats_app`.
    Schedule,
    /// The workspace file.
    File,
    /// An accepted request. Mistakes in its templates render as nothing, as they did when it was
    /// accepted.
    Stored,
}

/// The message objects of an order, ready to be rendered for users.
#[derive(Clone, Debug, Default)]
pub struct Content {
    messages: Vec<Message>,
}

/// A message object: by one channel. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Message {
    pub channel: Channel,
    pub variation_id: Option<String>,
    pieces: Arc<[(String, Piece)]>,
}

/// A message object whose templates were filled in for one user.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    pub channel: Channel,
    pub variation_id: Option<String>,
    /// The members as they were given, unknown ones too, each text rendered; none is null.
    pub object: Map<String, Value>,
    /// What `message_extras` noted.
    pub extras: BTreeMap<String, String>,
}

/// Why a message object is rejected; the others may be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Such as `messages.email.subject`.
    pub path: String,
    pub text: String,
    /// It fails the whole request: an invalid template, a private address.
    pub is_fatal: bool,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

impl Content {
    /// By channel, in the order in which the object named them.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

impl Message {
    fn new(channel: Channel, variation_id: Option<String>, pieces: Vec<(String, Piece)>) -> Self {
        Self { channel, variation_id, pieces: pieces.into() }
    }

    /// The message for one user. Takes processor time: not for async threads. The bounds of a
    /// rendering are those of all its texts together.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Rendered, Stop> {
        let (data, mut work) = (scope.data(self.variation_id.as_deref()), Work::new(scope.now));
        let object = guarded(|| piece::render(&self.pieces, &data, &mut work))?;
        let (channel, variation_id) = (self.channel, self.variation_id.clone());
        Ok(Rendered { channel, variation_id, object, extras: work.into_extras() })
    }
}

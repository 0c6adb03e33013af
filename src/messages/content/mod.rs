//! The message objects of the API (Messages object; decisions.md: Messages).

use serde_json::{Map, Value};

use super::Channel;
use super::settings::Settings;
use super::template::{Scope, Stop};

/// Where message objects are written, which decides what is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `/messages/send`: `whats_app` too.
    Send,
    /// `/messages/schedule/create`: not `whats_app`.
    Schedule,
    /// The workspace file.
    File,
}

/// The message objects of an order, ready to be rendered for users.
#[derive(Clone, Debug, Default)]
pub struct Content {
    messages: Vec<Message>,
}

/// A message object: by one channel.
#[derive(Clone, Debug)]
pub struct Message {
    pub channel: Channel,
    pub variation_id: Option<String>,
}

/// A message object whose templates were filled in for one user.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    pub channel: Channel,
    pub variation_id: Option<String>,
    /// The members as they were given, unknown ones too, each text rendered.
    pub object: Map<String, Value>,
}

/// Why a message object is not taken; the rest may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Such as `messages.email.subject`.
    pub path: String,
    pub text: String,
    /// It condemns the request as a whole: a template that does not parse, an address that is
    /// private.
    pub is_fatal: bool,
}

impl Content {
    /// Reads a messages object; answers what can be used, the JSON of just that, and what is
    /// wrong with the rest.
    pub fn read(
        _messages: &Map<String, Value>,
        _place: Place,
        _settings: &Settings,
    ) -> (Self, Map<String, Value>, Vec<Problem>) {
        todo!()
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

impl Message {
    pub fn render(&self, _scope: &Scope<'_>) -> Result<Rendered, Stop> {
        todo!()
    }
}

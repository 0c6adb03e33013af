//! Liquid, bounded in everything that a template or a profile could make grow.

use serde_json::{Map, Value};

/// A template that parses.
#[derive(Clone, Debug)]
pub struct Template;

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct TemplateError {
    /// Both from 1.
    pub line: usize,
    pub column: usize,
    pub text: String,
}

/// What a template may name.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// A stored profile: `{{${first_name}}}`, `{{custom_attribute.${n}}}`.
    pub profile: &'a Map<String, Value>,
    /// `{{event_properties.${p}}}`.
    pub event_properties: Option<&'a Map<String, Value>>,
    pub api_trigger_properties: Option<&'a Map<String, Value>>,
    pub canvas_entry_properties: Option<&'a Map<String, Value>>,
    /// Milliseconds since the epoch: what "now" is.
    pub now: i64,
}

/// Why nothing was rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `{% abort_message("why") %}`.
    Aborted(String),
    /// A bound was reached, or the template asks for what cannot be done.
    Failed(String),
}

impl Template {
    pub fn parse(_source: &str) -> Result<Self, TemplateError> {
        todo!()
    }

    pub fn render(&self, _scope: &Scope<'_>) -> Result<String, Stop> {
        todo!()
    }
}

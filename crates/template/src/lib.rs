//! Liquid, bounded in everything that a template or a profile could make grow.
//!
//! ```text
//! source ──lex──> tokens ──parse──> nodes ──render, with a user's profile──> text
//! ```
//!
//! The language is that of Liquid, with the family's way to name a field (`{{${first_name}}}`,
//! `{{custom_attribute.${n}}}`); the README next to this crate lists what there is, and every bound.
//! It is read and filled in by this module itself, since none of the crates there are can be given
//! to strangers: parsing them takes time that grows with the square of a run of spaces, long
//! conditions and indexes overflow the stack, and numbers end the thread. Here parsing is linear,
//! nesting is counted, and each step of a rendering is paid from a [`Work`] before it is made.
//! What is rendered are views of the profile: nothing is copied that is not printed.

mod expression;
mod filters;
mod lex;
mod node;
mod parse;
mod render;
#[cfg(test)]
mod tests;
mod value;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lex::Wrong;
use node::{Node, Program};
pub use parse::{MAX_NESTING, MAX_SOURCE};
use serde_json::{Map, Value};
pub use work::{MAX_MADE, MAX_OUTPUT, MAX_STEPS, MAX_TIME, Work};

/// A template that parses. Cheap to clone; parsed once, it is rendered for any number of users.
#[derive(Clone, Debug)]
pub struct Template {
    program: Arc<Program>,
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct TemplateError {
    /// Both from 1, in characters of the source as it was given.
    pub line: usize,
    pub column: usize,
    pub text: String,
}

impl kit::retry::Retry for TemplateError {}

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
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let program = parse::parse(source).map_err(|Wrong { at, text }| {
            let before = &source[..at];
            let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
            TemplateError {
                line: before.matches('\n').count() + 1,
                column: before[line_begin..].chars().count() + 1,
                text,
            }
        })?;
        Ok(Self { program: Arc::new(program) })
    }

    /// The text where it is nothing but that: the same for everybody.
    pub fn as_text(&self) -> Option<&str> {
        match &self.program.nodes[..] {
            [] => Some(""),
            [Node::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text for one user. Takes processor time, and no more than [`MAX_TIME`].
    pub fn render(&self, scope: &Scope<'_>) -> Result<String, Stop> {
        guarded(|| self.render_within(scope, &mut Work::new(scope.now)))
    }

    /// The same within what a message may still use.
    pub fn render_within(&self, scope: &Scope<'_>, work: &mut Work) -> Result<String, Stop> {
        const USUALLY_MORE: usize = 64;
        let mut out = String::with_capacity(self.program.text + USUALLY_MORE);
        render::render(&self.program, scope, work, &mut out)?;
        Ok(out)
    }
}

/// Rendering, of which a panic would end no more than itself.
pub fn guarded<T>(render: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    catch_unwind(AssertUnwindSafe(render)).unwrap_or_else(|panic| {
        tracing::error!(panic = kit::panics::text(&*panic), "rendering a template panicked");
        Err(Stop::Failed("the template could not be rendered".into()))
    })
}

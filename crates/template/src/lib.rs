//! Liquid with limits on everything that can grow with a template or a profile.
//!
//! ```text
//! source ──lex──> tokens ──parse──> nodes ──render, with a user's profile──> text
//! ```
//!
//! | module | is about |
//! |---|---|
//! | this file | [`Template`]: parses and renders; the [`Data`] of a rendering |
//! | `lex`, `parse`, `expression`, `sources` | from the source to nodes: tokens; tags; values; tags that read other data |
//! | `node` | the nodes |
//! | `names`, `request` | the names and sources that a template can use; the data that it requests |
//! | `render` | from nodes to text |
//! | `value`, `borrowed`, `moment` | values while rendering; views of the data; times |
//! | `filters` | the filters |
//! | `budget` | the remaining limits of a rendering |
//!
//! The language is Liquid, with `${…}` for the names of fields, as in other services of this family
//! (`{{${first_name}}}`, `{{custom_attribute.${n}}}`). docs/reference/templates.md lists the
//! features and every limit. This crate has its own parser and renderer, because no existing crate
//! is safe for untrusted templates: their parsing time grows with the square of a run of spaces,
//! long conditions and indexes overflow the stack, and some numbers panic.
//!
//! It promises: parsing is linear, nesting is limited, and each step of a rendering is charged to a
//! [`RenderBudget`] before it runs. Rendering uses views of the profile, and copies only what it
//! prints. A panic fails one rendering, not the process ([`guarded`]).
//!
//! Start with [`Template::parse`] and [`Template::render`].

mod borrowed;
mod budget;
mod expression;
mod filters;
mod lex;
mod moment;
mod names;
mod node;
mod parse;
mod render;
mod request;
mod sources;
#[cfg(test)]
mod tests;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use budget::{MAX_CREATED, MAX_EXTRAS, MAX_OUTPUT, MAX_STEPS, MAX_TIME, RenderBudget};
use kit::json::{Tree, TreeObject};
use lex::SyntaxError;
pub use names::{MemberNames, Names, Object, Source, Sources};
use node::{Node, Program};
pub use parse::{MAX_BLOCK_BYTES, MAX_BLOCKS, MAX_NESTING, MAX_SOURCE};
pub use request::{Answer, ContentRequest, MAX_ITEMS, Request};
use serde_json::{Map, Value};

/// A parsed template. Cheap to clone; parsed once, and rendered for any number of users.
#[derive(Clone, Debug)]
pub struct Template {
    program: Arc<Program>,
    mistake: Option<TemplateError>,
}

/// Why a text is not a valid template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct TemplateError {
    /// Line and column count from 1, in characters of the given source.
    pub line: usize,
    pub column: usize,
    pub text: String,
}

impl kit::retry::Retry for TemplateError {}

/// The data that a template is rendered with.
pub trait Data {
    /// The value of `${name}`.
    fn field(&self, name: &str) -> View<'_>;
    /// The value of a name without `${…}`.
    fn object(&self, name: &str) -> View<'_>;
    /// The response to a request; none if it was not fetched yet, which
    /// [stops](Stop::Needs) the rendering.
    fn answer<'d>(&'d self, _request: &Request) -> Option<&'d Answer> {
        Some(&Answer::Nothing)
    }
}

/// A borrowed value of the data.
#[derive(Clone, Debug, Default)]
pub enum View<'a> {
    #[default]
    Nothing,
    Json(&'a Value),
    Object(&'a Map<String, Value>),
    /// Keeps the order of fields and the digits of numbers.
    Tree(&'a Tree),
    TreeObject(&'a TreeObject),
    Text(&'a str),
    List(Vec<View<'a>>),
    Members(Vec<(&'a str, View<'a>)>),
}

impl<'a> From<Option<&'a Value>> for View<'a> {
    fn from(value: Option<&'a Value>) -> Self {
        value.map_or(Self::Nothing, Self::Json)
    }
}

impl<'a> From<Option<&'a Tree>> for View<'a> {
    fn from(tree: Option<&'a Tree>) -> Self {
        tree.map_or(Self::Nothing, Self::Tree)
    }
}

impl<'a> From<Option<&'a TreeObject>> for View<'a> {
    fn from(object: Option<&'a TreeObject>) -> Self {
        object.map_or(Self::Nothing, Self::TreeObject)
    }
}

impl<'a> From<Option<&'a Map<String, Value>>> for View<'a> {
    fn from(object: Option<&'a Map<String, Value>>) -> Self {
        object.map_or(Self::Nothing, Self::Object)
    }
}

/// Why rendering stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `{% abort_message("why") %}`.
    Aborted(String),
    /// A limit was reached, or the template asks for something impossible.
    Failed(String),
    /// The template needs the response to this request: render it again with that response.
    Needs(Box<Request>),
}

impl Template {
    /// Parses a source. A name that is not in `known` is a [mistake](Template::mistake).
    pub fn parse(source: &str, known: &Names<'_>) -> Result<Self, TemplateError> {
        let placed = |SyntaxError { at, text }| {
            let (line, column) = parse::line_and_column(source, at);
            TemplateError { line, column, text }
        };
        let (program, mistake) = parse::parse(source, known).map_err(placed)?;
        Ok(Self { program: Arc::new(program), mistake: mistake.map(placed) })
    }

    /// The first likely error that does not prevent rendering. Examples: a division by zero, or a
    /// name that neither the template nor its data defines, which renders as an empty text.
    pub fn mistake(&self) -> Option<&TemplateError> {
        self.mistake.as_ref()
    }

    /// Whether the template names a catalog, a selection, an address or a credential that
    /// [`Sources`] does not allow. This is also a mistake, but may not be the first one.
    pub fn has_unknown_source(&self) -> bool {
        self.program.has_unknown_source
    }

    /// Bytes of the content blocks in it; a block that is used twice counts twice.
    pub fn bytes_of_blocks(&self) -> usize {
        self.program.blocks
    }

    /// The text, if the template has no markup and so is the same for all users.
    pub fn as_text(&self) -> Option<&str> {
        match &self.program.nodes[..] {
            [] => Some(""),
            [Node::Text(text) | Node::Raw(text)] => Some(text),
            _ => None,
        }
    }

    /// Renders the text for one user; `now` is in milliseconds since the epoch. Uses at most
    /// [`MAX_TIME`] of processor time.
    pub fn render(&self, data: &dyn Data, now: i64) -> Result<String, Stop> {
        guarded(|| self.render_within(data, &mut RenderBudget::new(now)))
    }

    /// Like [`render`](Self::render), within the remaining limits of a message.
    pub fn render_within(
        &self,
        data: &dyn Data,
        budget: &mut RenderBudget,
    ) -> Result<String, Stop> {
        const USUALLY_MORE: usize = 64;
        let mut out = String::with_capacity(self.program.text + USUALLY_MORE);
        render::render(&self.program, data, budget, &mut out)?;
        Ok(out)
    }
}

/// The names of the content blocks that a source includes itself. May have others, such as those in
/// comments.
pub fn block_names(source: &str) -> impl Iterator<Item = &str> {
    source.split(parse::CONTENT_BLOCKS).skip(1).filter_map(|after| {
        let field = after.trim_start().strip_prefix('.')?.trim_start().strip_prefix("${")?;
        let name = field.split_once('}')?.0.trim();
        (!name.is_empty()).then_some(name)
    })
}

/// The names of all filters.
pub fn filter_names() -> impl Iterator<Item = &'static str> {
    filters::FILTERS.iter().map(|filter| filter.name)
}

/// Catches a panic while rendering.
pub fn guarded<T>(render: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    catch_unwind(AssertUnwindSafe(render)).unwrap_or_else(|panic| {
        tracing::error!(panic = kit::panics::text(&*panic), "rendering a template panicked");
        Err(Stop::Failed("the template could not be rendered".into()))
    })
}

//! What a template consists of once it is parsed.

use super::filters::Filter;

/// A parsed template. Names are numbered as they are parsed, so that rendering looks up none.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub nodes: Vec<Node>,
    /// Names that may be assigned.
    pub names: usize,
    pub cycles: usize,
    /// Loops that others go on from.
    pub resumes: usize,
    /// Bytes of text in it: about what it prints.
    pub text: usize,
}

#[derive(Debug)]
pub(super) enum Node {
    Text(Box<str>),
    Print(Chain),
    If(Box<If>),
    Case(Box<Case>),
    For(Box<For>),
    Assign(usize, Chain),
    Capture(usize, Vec<Node>),
    Cycle(Box<Cycle>),
    /// `increment` prints, then counts up; `decrement` counts down, then prints.
    Count {
        name: usize,
        up: bool,
    },
    Break,
    Continue,
    Abort(Option<Chain>),
}

#[derive(Debug)]
pub(super) struct If {
    pub branches: Vec<(Condition, Vec<Node>)>,
    pub otherwise: Vec<Node>,
}

/// Tests that are joined from the right: `a or b and c` is `a or (b and c)`, `a and b or c` is
/// `a and (b or c)`.
#[derive(Debug)]
pub(super) struct Condition {
    pub is_negated: bool,
    pub tests: Vec<(Test, Join)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    And,
    Or,
    /// Nothing follows.
    End,
}

#[derive(Debug)]
pub(super) struct Test {
    pub left: Expression,
    /// Without: whether the value is true.
    pub right: Option<(Operator, Expression)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

#[derive(Debug)]
pub(super) struct Case {
    pub value: Expression,
    pub branches: Vec<(Vec<Expression>, Vec<Node>)>,
    pub otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct For {
    /// `item-collection`, as `forloop.name` says.
    pub label: Box<str>,
    pub item: usize,
    pub collection: Expression,
    pub limit: Option<Expression>,
    pub offset: Offset,
    pub is_reversed: bool,
    /// Where it is noted how far it came.
    pub resume: usize,
    pub kind: LoopKind,
    pub body: Vec<Node>,
    pub otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(super) enum LoopKind {
    For,
    /// `tablerow`, with its columns.
    Table(Option<Expression>),
}

#[derive(Debug)]
pub(super) enum Offset {
    None,
    At(Expression),
    /// `offset:continue`.
    Continue,
}

#[derive(Debug)]
pub(super) struct Cycle {
    /// Those of one group go on together.
    pub group: usize,
    pub values: Vec<Expression>,
}

/// A value, and the filters that it goes through.
#[derive(Debug)]
pub(super) struct Chain {
    pub value: Expression,
    pub filters: Vec<Call>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub filter: &'static Filter,
    pub arguments: Vec<Expression>,
}

#[derive(Debug)]
pub(super) enum Expression {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Empty,
    Blank,
    Range(Box<(Expression, Expression)>),
    Path(Path),
}

#[derive(Debug)]
pub(super) struct Path {
    pub root: Root,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// What the template assigned, counted, or loops over.
    Name(usize),
    /// `forloop`, `tablerowloop`.
    Loop,
    Profile,
    CustomAttribute,
    EventProperties,
    ApiTriggerProperties,
    CanvasEntryProperties,
}

#[derive(Debug)]
pub(super) enum Step {
    Member(Box<str>),
    Index(Expression),
}

impl Root {
    /// What a name stands for, where it is no name of the template's own.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "forloop" | "tablerowloop" => Self::Loop,
            "custom_attribute" => Self::CustomAttribute,
            "event_properties" => Self::EventProperties,
            "api_trigger_properties" => Self::ApiTriggerProperties,
            "canvas_entry_properties" => Self::CanvasEntryProperties,
            _ => return None,
        })
    }
}

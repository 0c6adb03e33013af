//! The nodes of a parsed template.

use super::filters::Filter;

/// A parsed template. Names are numbered as they are parsed, so that rendering looks up none.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub nodes: Vec<Node>,
    /// Names that can have a value: those that the template assigns, and those of its data.
    pub names: Vec<Box<str>>,
    /// The numbers of names whose value comes with the data.
    pub from_data: Vec<usize>,
    /// Number of cycles without a name.
    pub cycles: usize,
    /// Number of loops that another loop can continue.
    pub resumes: usize,
    /// Bytes of text in the template: about as many as it prints.
    pub text: usize,
    /// Bytes of the content blocks in the template.
    pub blocks: usize,
    /// Whether it names a source that it cannot use.
    pub has_unknown_source: bool,
}

#[derive(Debug)]
pub(super) enum Node {
    Text(Box<str>),
    /// The content of a `raw` block, which is never dropped as blank.
    Raw(Box<str>),
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
    /// Printed only if it differs from the last output.
    IfChanged(Vec<Node>),
    Break,
    Continue,
    Abort(Option<Chain>),
    /// A key and its value.
    Extra(Box<(Chain, Chain)>),
    Items(Box<Items>),
    Content(Box<Content>),
}

impl Node {
    /// Whether the node can print only white space.
    pub fn is_blank(&self) -> bool {
        let are_blank = |nodes: &[Self]| nodes.iter().all(Self::is_blank);
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Assign(..)
            | Self::Capture(..)
            | Self::Abort(_)
            | Self::Extra(_)
            | Self::Items(_) => true,
            Self::Content(content) => content.save.is_some(),
            Self::If(node) => {
                node.branches.iter().all(|(_, nodes)| are_blank(nodes))
                    && are_blank(&node.otherwise)
            }
            Self::Case(node) => node.branches.iter().all(|(_, nodes)| are_blank(nodes)),
            Self::For(node) => {
                matches!(node.kind, LoopKind::For)
                    && are_blank(&node.body)
                    && are_blank(&node.otherwise)
            }
            Self::IfChanged(nodes) => are_blank(nodes),
            _ => false,
        }
    }
}

/// Removes the white space of a block that prints nothing else, as in `{% if a %} {% assign b = 1
/// %} {% endif %}`.
pub(super) fn drop_blank(parts: &mut [&mut Vec<Node>]) {
    if parts.iter().all(|nodes| nodes.iter().all(Node::is_blank)) {
        for nodes in parts {
            nodes.retain(|node| !matches!(node, Node::Text(_)));
        }
    }
}

#[derive(Debug)]
pub(super) struct If {
    pub branches: Vec<(Condition, Vec<Node>)>,
    pub otherwise: Vec<Node>,
}

/// Tests associate to the right: `a or b and c` is `a or (b and c)`, `a and b or c` is `a and (b or
/// c)`.
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
    /// If absent, tests whether the value is true.
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
    /// Each branch is printed once for each of its values that matches. A branch without values is
    /// `else`: it is printed if no branch before it matched.
    pub branches: Vec<(Option<Vec<Expression>>, Vec<Node>)>,
}

#[derive(Debug)]
pub(super) struct For {
    /// `item-collection`, the value of `forloop.name`.
    pub label: Box<str>,
    pub item: usize,
    pub collection: Expression,
    pub limit: Option<Expression>,
    pub offset: Offset,
    pub is_reversed: bool,
    /// Index of the stored progress of the loop.
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
    pub group: Group,
    pub values: Vec<Expression>,
}

/// Cycles of one group share their position.
#[derive(Debug)]
pub(super) enum Group {
    /// Cycles with the same values.
    Values(usize),
    Named(Expression),
}

/// Items of a catalog, under a name.
#[derive(Debug)]
pub(super) struct Items {
    pub name: usize,
    pub catalog: Box<str>,
    pub wanted: Wanted,
}

#[derive(Debug)]
pub(super) enum Wanted {
    Ids(Vec<Pattern>),
    Selection(Box<str>),
}

/// A request of `connected_content`.
#[derive(Debug)]
pub(super) struct Content {
    pub url: Pattern,
    pub is_post: bool,
    pub headers: Vec<(Pattern, Pattern)>,
    pub body: Pattern,
    pub content_type: Option<Pattern>,
    pub credential: Option<Box<str>>,
    pub max_age: Option<u32>,
    pub retries: bool,
    /// The name under which the response is saved. If absent, JSON is saved as `connected`, and
    /// text is printed.
    pub save: Option<usize>,
    pub connected: usize,
}

/// Text with values in it.
pub(super) type Pattern = Vec<Part>;

#[derive(Debug)]
pub(super) enum Part {
    Text(Box<str>),
    Value(Chain),
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
    /// The filter's option, if given, is the last one.
    pub arguments: Vec<Expression>,
}

#[derive(Debug)]
pub(super) enum Expression {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A number that neither of them has exactly.
    Exact(Box<str>),
    Text(Box<str>),
    Empty,
    Blank,
    Range(Box<(Expression, Expression)>),
    /// A value in `{{ … }}` with filters.
    Chain(Box<Chain>),
    Path(Path),
}

#[derive(Debug)]
pub(super) struct Path {
    pub root: Root,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) enum Root {
    /// A name that the template assigns, counts or loops over, or that its data has.
    Name(usize),
    /// `["name"]`: the name is known only while rendering.
    Computed(Box<Expression>),
    /// `forloop`, `tablerowloop`.
    Loop { is_table: bool },
    /// `${name}`
    Field(Box<str>),
}

#[derive(Debug)]
pub(super) enum Step {
    Member(Box<str>),
    Index(Expression),
}

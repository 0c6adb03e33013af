//! The nodes of a parsed template.

use super::filters::Filter;

/// A parsed template. Names are numbered as they are parsed, so that rendering looks up none.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub nodes: Vec<Node>,
    /// Names that have a value: the template's own, and those that its data has.
    pub names: Vec<Box<str>>,
    /// The numbers of names whose value comes with the data.
    pub given: Vec<usize>,
    /// Cycles without a name.
    pub cycles: usize,
    /// Loops that others continue.
    pub resumes: usize,
    /// Bytes of text in it: about what it prints.
    pub text: usize,
    /// Bytes of the content blocks in it.
    pub blocks: usize,
}

#[derive(Debug)]
pub(super) enum Node {
    Text(Box<str>),
    /// What a `raw` block has, which is never dropped as blank.
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
    /// Its key and its value.
    Extra(Box<(Chain, Chain)>),
    Items(Box<Items>),
    Content(Box<Content>),
}

impl Node {
    /// Whether it can print only white space.
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

/// Removes the white space of a block whose parts have nothing else, as in `{% if a %} {% assign b
/// = 1 %} {% endif %}`.
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
    /// Each is printed as often as one of its values matches; without values it is `else`, printed
    /// if no branch before it matched.
    pub branches: Vec<(Option<Vec<Expression>>, Vec<Node>)>,
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
    /// Where its progress is stored.
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
    /// Of the same values.
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
    /// The name that the response gets; without, JSON is `connected` and a text is printed.
    pub save: Option<usize>,
    pub connected: usize,
}

/// A text that is written with values in it.
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
    /// With what the filter calls its option last.
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

#[derive(Debug)]
pub(super) enum Root {
    /// What the template assigned, counted, or loops over, or what its data has.
    Name(usize),
    /// `["name"]`, of a name that is only known when it is rendered.
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

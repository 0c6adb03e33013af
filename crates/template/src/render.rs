//! Renders a template.

mod requests;

use std::cmp::Ordering;
use std::collections::HashMap;

use super::budget::RenderBudget;
use super::node::{
    Case, Chain, Condition, Cycle, Expression, For, Group, If, Join, LoopKind, Node, Offset,
    Operator, Path, Program, Root, Step, Test,
};
use super::value::{Value, range_size};
use super::{Data, Stop};

/// Maximum bytes of the reason of an abort.
const MAX_REASON: usize = 500;

/// The reason if the template gives none.
const NO_REASON: &str = "the template aborted the message";

/// Renders `program`, and appends its output to `out`.
pub(super) fn render(
    program: &Program,
    data: &dyn Data,
    budget: &mut RenderBudget,
    out: &mut String,
) -> Result<(), Stop> {
    let mut names = vec![Value::Nil; program.names.len()];
    for number in &program.from_data {
        names[*number] = Value::view(data.object(&program.names[*number]));
    }
    let mut render = Render {
        program,
        data,
        names,
        counters: Vec::new(),
        cycles: vec![0; program.cycles],
        named_cycles: HashMap::new(),
        resumes: vec![0; program.resumes],
        changed: None,
        loops: Vec::new(),
        budget,
    };
    render.nodes(&program.nodes, out).map(|_| ())
}

struct Render<'a, 'w> {
    program: &'a Program,
    data: &'a dyn Data,
    /// Values of names, by number.
    names: Vec<Value<'a>>,
    /// Counters of `increment` and `decrement`, up to the highest index in use.
    counters: Vec<Option<i64>>,
    cycles: Vec<usize>,
    named_cycles: HashMap<String, usize>,
    resumes: Vec<usize>,
    /// The last output of `ifchanged`.
    changed: Option<String>,
    /// The open loops, the innermost last.
    loops: Vec<LoopState<'a>>,
    budget: &'w mut RenderBudget,
}

/// The current iteration of a loop.
struct LoopState<'a> {
    label: &'a str,
    index: usize,
    length: usize,
    /// Number of columns of a `tablerow`.
    columns: Option<usize>,
}

/// How a body ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

impl<'a> Render<'a, '_> {
    fn nodes(&mut self, nodes: &'a [Node], out: &mut String) -> Result<Flow, Stop> {
        for node in nodes {
            let flow = self.node(node, out)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &'a Node, out: &mut String) -> Result<Flow, Stop> {
        match node {
            Node::Text(text) | Node::Raw(text) => self.print(text, out)?,
            Node::Print(chain) => {
                let value = self.chain(chain)?;
                self.print_value(&value, out)?;
            }
            Node::If(node) => return self.condition_block(node, out),
            Node::Case(node) => return self.case(node, out),
            Node::For(node) => return self.loop_block(node, out),
            Node::Assign(name, chain) => self.names[*name] = self.chain(chain)?,
            Node::Capture(name, nodes) => {
                let mut captured = String::new();
                let flow = self.nodes(nodes, &mut captured)?;
                self.budget.make(captured.len())?;
                self.names[*name] = Value::from_text(captured);
                return Ok(flow);
            }
            Node::IfChanged(nodes) => {
                let mut printed = String::new();
                let flow = self.nodes(nodes, &mut printed)?;
                self.budget.make(printed.len())?;
                if self.changed.as_ref() != Some(&printed) {
                    self.print(&printed, out)?;
                    self.changed = Some(printed);
                }
                return Ok(flow);
            }
            Node::Cycle(cycle) => self.cycle(cycle, out)?,
            Node::Count { name, up } => {
                if self.counters.len() <= *name {
                    self.counters.resize(name + 1, None);
                }
                let count = self.counters[*name].unwrap_or(0);
                let (shown, next) = if *up { (count, count + 1) } else { (count - 1, count - 1) };
                self.counters[*name] = Some(next);
                self.print_value(&Value::Int(shown), out)?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
            Node::Extra(extra) => {
                let (key, value) = &**extra;
                self.extra(key, value)?;
            }
            Node::Items(items) => self.items(items)?,
            Node::Content(content) => self.content(content, out)?,
            Node::Abort(reason) => {
                let reason = match reason {
                    Some(reason) => self.chain(reason)?,
                    None => Value::Nil,
                };
                let reason = reason.to_text(self.budget)?;
                let reason = reason.trim();
                let reason = if reason.is_empty() { NO_REASON } else { reason };
                return Err(Stop::Aborted(kit::words::beginning(reason, MAX_REASON).into()));
            }
        }
        Ok(Flow::On)
    }

    fn print(&mut self, text: &str, out: &mut String) -> Result<(), Stop> {
        self.budget.print(text.len())?;
        out.push_str(text);
        Ok(())
    }

    fn print_value(&mut self, value: &Value<'a>, out: &mut String) -> Result<(), Stop> {
        let text = value.to_text(self.budget)?;
        self.print(&text, out)
    }

    fn extra(&mut self, key: &'a Chain, value: &'a Chain) -> Result<(), Stop> {
        let (key, value) = (self.chain(key)?, self.chain(value)?);
        let (key, value) = (key.to_text(self.budget)?, value.to_text(self.budget)?);
        self.budget.extra(key.trim(), value.trim())
    }

    fn cycle(&mut self, cycle: &'a Cycle, out: &mut String) -> Result<(), Stop> {
        let next = match &cycle.group {
            Group::Values(number) => &mut self.cycles[*number],
            Group::Named(name) => {
                let name = self.expression(name)?.to_json(self.budget)?;
                self.named_cycles.entry(name).or_insert(0)
            }
        };
        let index = *next;
        *next = if index + 1 < cycle.values.len() { index + 1 } else { 0 };
        // Another cycle of this name may have more values.
        let Some(value) = cycle.values.get(index) else { return Ok(()) };
        let value = self.expression(value)?;
        self.print_value(&value, out)
    }

    fn condition_block(&mut self, node: &'a If, out: &mut String) -> Result<Flow, Stop> {
        self.budget.step(1)?;
        for (condition, nodes) in &node.branches {
            if self.condition(condition)? {
                return self.nodes(nodes, out);
            }
        }
        self.nodes(&node.otherwise, out)
    }

    fn condition(&mut self, condition: &'a Condition) -> Result<bool, Stop> {
        let mut holds = false;
        for (test, join) in &condition.tests {
            holds = self.test(test)?;
            // Tests associate to the right: the rest no longer matters.
            match join {
                Join::And if !holds => break,
                Join::Or if holds => break,
                _ => {}
            }
        }
        Ok(holds != condition.is_negated)
    }

    fn test(&mut self, test: &'a Test) -> Result<bool, Stop> {
        let left = self.expression(&test.left)?;
        let Some((operator, right)) = &test.right else { return Ok(left.is_true()) };
        let right = self.expression(right)?;
        let ordered = |holds: fn(Ordering) -> bool, budget: &mut RenderBudget| {
            Ok(left.compare(&right, budget)?.is_some_and(holds))
        };
        match operator {
            Operator::Equal => left.equals(&right, self.budget),
            Operator::NotEqual => Ok(!left.equals(&right, self.budget)?),
            Operator::Less => ordered(Ordering::is_lt, self.budget),
            Operator::LessOrEqual => ordered(Ordering::is_le, self.budget),
            Operator::Greater => ordered(Ordering::is_gt, self.budget),
            Operator::GreaterOrEqual => ordered(Ordering::is_ge, self.budget),
            Operator::Contains => left.contains(&right, self.budget),
        }
    }

    fn case(&mut self, node: &'a Case, out: &mut String) -> Result<Flow, Stop> {
        let value = self.expression(&node.value)?;
        let mut has_matched = false;
        for (expressions, nodes) in &node.branches {
            self.budget.step(1)?;
            let mut times = usize::from(expressions.is_none() && !has_matched);
            for expression in expressions.iter().flatten() {
                let other = self.expression(expression)?;
                times += usize::from(value.equals(&other, self.budget)?);
            }
            has_matched |= expressions.is_some() && times > 0;
            for _ in 0..times {
                let flow = self.nodes(nodes, out)?;
                if flow != Flow::On {
                    return Ok(flow);
                }
            }
        }
        Ok(Flow::On)
    }

    fn loop_block(&mut self, node: &'a For, out: &mut String) -> Result<Flow, Stop> {
        let collection = self.expression(&node.collection)?;
        // The size of a range is computed without listing its elements.
        let (values, size) = match &collection {
            Value::Range(from, to) => (None, range_size(*from, *to)),
            other => {
                let values = other.loop_values(self.budget)?;
                let size = values.len();
                (Some(values), size)
            }
        };
        let offset = match &node.offset {
            Offset::None => 0,
            Offset::At(offset) => self.count(offset)?.unwrap_or(0),
            Offset::Continue => self.resumes[node.resume],
        };
        let offset = offset.min(size);
        let limit = match &node.limit {
            Some(limit) => self.count(limit)?,
            None => None,
        };
        let length = limit.unwrap_or(usize::MAX).min(size - offset);
        self.resumes[node.resume] = offset + length;
        if length == 0 && matches!(node.kind, LoopKind::For) {
            return self.nodes(&node.otherwise, out);
        }
        if !collection.is_true() {
            return Ok(Flow::On);
        }
        let columns = match &node.kind {
            LoopKind::Table(Some(columns)) => {
                self.count(columns)?.filter(|columns| *columns > 0).or(Some(length))
            }
            LoopKind::Table(None) => Some(length),
            LoopKind::For => None,
        };
        let outer = std::mem::replace(&mut self.names[node.item], Value::Nil);
        self.loops.push(LoopState { label: &node.label, index: 0, length, columns });
        if columns.is_some() {
            self.print("<tr class=\"row1\">\n", out)?;
        }
        for index in 0..length {
            self.budget.step(1)?;
            let at = offset + if node.is_reversed { length - 1 - index } else { index };
            self.names[node.item] = match &values {
                Some(values) => values[at].clone(),
                None => collection.at(i64::try_from(at).unwrap_or(i64::MAX)),
            };
            if let Some(state) = self.loops.last_mut() {
                state.index = index;
            }
            let flow = match columns {
                Some(columns) => self.cell(node, columns, index, length, out)?,
                None => self.nodes(&node.body, out)?,
            };
            if flow == Flow::Break {
                break;
            }
        }
        if columns.is_some() {
            self.print("</tr>\n", out)?;
        }
        self.loops.pop();
        self.names[node.item] = outer;
        Ok(Flow::On)
    }

    fn cell(
        &mut self,
        node: &'a For,
        columns: usize,
        index: usize,
        length: usize,
        out: &mut String,
    ) -> Result<Flow, Stop> {
        let (row, column) = (index / columns + 1, index % columns + 1);
        self.print(&format!("<td class=\"col{column}\">"), out)?;
        let flow = self.nodes(&node.body, out)?;
        self.print("</td>", out)?;
        if column == columns && index + 1 < length && flow != Flow::Break {
            self.print(&format!("</tr>\n<tr class=\"row{}\">", row + 1), out)?;
        }
        Ok(flow)
    }

    /// A count of elements; negative numbers become 0.
    fn count(&mut self, expression: &'a Expression) -> Result<Option<usize>, Stop> {
        let count = self.expression(expression)?.as_int();
        Ok(count.map(|count| usize::try_from(count.max(0)).unwrap_or(usize::MAX)))
    }

    fn chain(&mut self, chain: &'a Chain) -> Result<Value<'a>, Stop> {
        let mut value = self.expression(&chain.value)?;
        for call in &chain.filters {
            self.budget.step(1)?;
            let mut arguments = [const { Value::Nil }; 2];
            for (argument, expression) in arguments.iter_mut().zip(&call.arguments) {
                *argument = self.expression(expression)?;
            }
            let arguments = &arguments[..call.arguments.len().min(2)];
            value = (call.filter.apply)(self.budget, value, arguments)?;
        }
        Ok(value)
    }

    fn expression(&mut self, expression: &'a Expression) -> Result<Value<'a>, Stop> {
        self.budget.step(1)?;
        Ok(match expression {
            Expression::Path(path) => self.path(path)?,
            Expression::Text(text) => Value::Text(text),
            Expression::Int(int) => Value::Int(*int),
            Expression::Float(float) => Value::Float(*float),
            Expression::Exact(digits) => Value::Exact((&**digits).into()),
            Expression::Chain(chain) => self.chain(chain)?,
            Expression::Bool(bool) => Value::Bool(*bool),
            Expression::Nil => Value::Nil,
            Expression::Empty => Value::Empty,
            Expression::Blank => Value::Blank,
            Expression::Range(ends) => {
                let (from, to) = &**ends;
                let (from, to) = (self.expression(from)?, self.expression(to)?);
                Value::Range(from.as_int().unwrap_or(0), to.as_int().unwrap_or(0))
            }
        })
    }

    fn path(&mut self, path: &'a Path) -> Result<Value<'a>, Stop> {
        let mut value = match &path.root {
            Root::Field(name) => Value::view(self.data.field(name)),
            Root::Name(name) => self.variable(*name),
            Root::Computed(name) => {
                let name = self.expression(name)?;
                let Some(name) = name.as_text() else { return Ok(Value::Nil) };
                self.budget.step(self.program.names.len() as u64)?;
                match self.program.names.iter().position(|known| **known == *name) {
                    Some(name) => self.variable(name),
                    None => {
                        let value = Value::view(self.data.object(name));
                        // Computed on each lookup.
                        let size = value.size(self.budget)?;
                        self.budget.hold(size.unwrap_or_default())?;
                        value
                    }
                }
            }
            Root::Loop { is_table } => return Ok(self.loop_field(*is_table, &path.steps)),
        };
        for step in &path.steps {
            self.budget.step(1)?;
            value = match step {
                Step::Member(name) => value.member(name, self.budget)?,
                Step::Index(index) => match self.expression(index)? {
                    Value::Int(index) => value.at(index),
                    Value::Float(index) => value.at(index as i64),
                    name => match name.as_text() {
                        Some(name) => value.member(name, self.budget)?,
                        None => Value::Nil,
                    },
                },
            };
        }
        Ok(value)
    }

    fn variable(&self, name: usize) -> Value<'a> {
        match (&self.names[name], self.counters.get(name)) {
            (Value::Nil, Some(Some(count))) => Value::Int(*count),
            (value, _) => value.clone(),
        }
    }

    /// A field of `forloop` or `tablerowloop`, of the innermost loop or an enclosing one.
    fn loop_field(&self, is_table: bool, steps: &[Step]) -> Value<'a> {
        let outward = |step: &&Step| matches!(step, Step::Member(name) if &**name == "parentloop");
        let up = steps.iter().take_while(outward).count();
        let mut loops = self.loops.iter().rev().filter(|state| state.columns.is_some() == is_table);
        let (Some(state), [Step::Member(name)]) = (loops.nth(up), &steps[up..]) else {
            return Value::Nil;
        };
        let columns = state.columns.unwrap_or(usize::MAX).max(1);
        let (row, column) = (state.index / columns, state.index % columns);
        match &**name {
            "index" => Value::count(state.index + 1),
            "index0" => Value::count(state.index),
            "rindex" => Value::count(state.length - state.index),
            "rindex0" => Value::count(state.length - state.index - 1),
            "first" => Value::Bool(state.index == 0),
            "last" => Value::Bool(state.index + 1 == state.length),
            "length" => Value::count(state.length),
            "name" => Value::Text(state.label),
            _ if state.columns.is_none() => Value::Nil,
            "row" => Value::count(row + 1),
            "col" => Value::count(column + 1),
            "col0" => Value::count(column),
            "col_first" => Value::Bool(column == 0),
            "col_last" => Value::Bool(column + 1 == columns),
            _ => Value::Nil,
        }
    }
}

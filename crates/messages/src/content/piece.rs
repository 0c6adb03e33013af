//! A message object prepared for many users: its constant parts, separate from its templates.

use serde_json::{Map, Value};

use kit::words::about_field;
use template::{Data, RenderBudget, Stop, Template};

/// A value of a message object.
#[derive(Debug)]
pub(super) enum Piece {
    /// The same for all users.
    Fixed(Value),
    Text(Template, LineBreaks),
    Array(Vec<Piece>),
    Object(Vec<(String, Piece)>),
}

/// How line breaks in a rendered text are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineBreaks {
    Many,
    /// One line: white space around it is removed; a control character inside fails the message.
    One,
    /// Line breaks become spaces.
    Joined,
}

impl Piece {
    /// An array of pieces; fixed if all of them are.
    pub fn array(pieces: Vec<Self>) -> Self {
        if pieces.iter().all(|piece| matches!(piece, Self::Fixed(_))) {
            Self::Fixed(pieces.into_iter().map(Self::into_fixed).collect())
        } else {
            Self::Array(pieces)
        }
    }

    pub fn object(pieces: Vec<(String, Self)>) -> Self {
        if pieces.iter().all(|(_, piece)| matches!(piece, Self::Fixed(_))) {
            let fields = pieces.into_iter().map(|(name, piece)| (name, piece.into_fixed()));
            Self::Fixed(Value::Object(fields.collect()))
        } else {
            Self::Object(pieces)
        }
    }

    fn into_fixed(self) -> Value {
        match self {
            Self::Fixed(value) => value,
            _ => Value::Null,
        }
    }

    pub fn render(&self, data: &dyn Data, budget: &mut RenderBudget) -> Result<Value, Stop> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Text(template, lines) => {
                lines.apply(template.render_within(data, budget)?).map_err(Stop::Failed)?.into()
            }
            Self::Array(pieces) => {
                let values = pieces.iter().map(|piece| piece.render(data, budget));
                Value::Array(values.collect::<Result<_, _>>()?)
            }
            Self::Object(pieces) => Value::Object(render(pieces, data, budget)?),
        })
    }
}

/// The fields of an object.
pub(super) fn render(
    pieces: &[(String, Piece)],
    data: &dyn Data,
    budget: &mut RenderBudget,
) -> Result<Map<String, Value>, Stop> {
    let mut fields = Map::new();
    for (name, piece) in pieces {
        let value = piece.render(data, budget).map_err(|stop| match stop {
            Stop::Failed(text) => Stop::Failed(about_field(name, &text)),
            aborted => aborted,
        })?;
        fields.insert(name.clone(), value);
    }
    Ok(fields)
}

impl LineBreaks {
    /// The text in the allowed form, or the error.
    pub fn apply(self, text: String) -> Result<String, String> {
        match self {
            Self::Many => Ok(text),
            Self::One => match text.trim() {
                line if line.contains(char::is_control) => Err("must be one line".to_owned()),
                line if line.len() < text.len() => Ok(line.to_owned()),
                _ => Ok(text),
            },
            Self::Joined if text.contains(char::is_control) => {
                let lines = text.split(|c: char| c.is_control()).map(str::trim);
                let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
                Ok(lines.join(" "))
            }
            Self::Joined => Ok(text),
        }
    }
}

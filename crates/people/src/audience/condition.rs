//! Conditions on a value.

use kit::clock::parse_time;
use kit::json::{Tree, usual_spelling, whole_number};
use kit::pattern::{Pattern, PatternError};

/// A comparison and its operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub comparison: Comparison,
    pub operand: Operand,
}

/// The operand of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// The comparison takes no operand.
    None,
    Text(String),
    /// A JSON number, with all of its digits.
    Number(Box<str>),
    Boolean(bool),
    /// A point in time, in milliseconds since the epoch, and its original text.
    Time(i64, String),
    Days(u32),
}

impl Comparison {
    /// Whether it is the complement of another comparison, and so is true without a value.
    pub const fn is_negative(self) -> bool {
        matches!(
            self,
            Self::NotEqual
                | Self::DoesNotEqual
                | Self::DoesNotMatchRegex
                | Self::DoesNotIncludeValue
                | Self::DoesNotExist
                | Self::IsNot
        )
    }
}

kit::named! {
    /// A comparison, by its name in JSON.
    pub enum Comparison {
        Equals = "equals",
        NotEqual = "not_equal",
        DoesNotEqual = "does_not_equal",
        MatchesRegex = "matches_regex",
        DoesNotMatchRegex = "does_not_match_regex",
        IncludesValue = "includes_value",
        DoesNotIncludeValue = "does_not_include_value",
        GreaterThan = "greater_than",
        GreaterThanOrEqualTo = "greater_than_or_equal_to",
        LessThan = "less_than",
        LessThanOrEqualTo = "less_than_or_equal_to",
        LessThanDaysAgo = "less_than_x_days_ago",
        GreaterThanDaysAgo = "greater_than_x_days_ago",
        LessThanDaysInTheFuture = "less_than_x_days_in_the_future",
        GreaterThanDaysInTheFuture = "greater_than_x_days_in_the_future",
        After = "after",
        Before = "before",
        Exists = "exists",
        DoesNotExist = "does_not_exist",
        Is = "is",
        IsNot = "is_not",
    }
}

/// The kind of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandKind {
    None,
    Text,
    Regex,
    Number,
    Boolean,
    Time,
    Days,
    Status,
}

/// The comparisons of a leaf, each with the kinds of its operand.
pub(super) type Comparisons = &'static [(Comparison, &'static [OperandKind])];

pub(super) const ATTRIBUTE_COMPARISONS: Comparisons = &[
    (Comparison::Equals, &[OperandKind::Text, OperandKind::Number, OperandKind::Boolean]),
    (Comparison::NotEqual, &[OperandKind::Text, OperandKind::Number]),
    (Comparison::DoesNotEqual, &[OperandKind::Boolean]),
    (Comparison::MatchesRegex, &[OperandKind::Regex]),
    (Comparison::DoesNotMatchRegex, &[OperandKind::Regex]),
    (Comparison::IncludesValue, SCALARS),
    (Comparison::DoesNotIncludeValue, SCALARS),
    (Comparison::GreaterThan, &[OperandKind::Number]),
    (Comparison::GreaterThanOrEqualTo, &[OperandKind::Number]),
    (Comparison::LessThan, &[OperandKind::Number]),
    (Comparison::LessThanOrEqualTo, &[OperandKind::Number]),
    (Comparison::LessThanDaysAgo, &[OperandKind::Days]),
    (Comparison::GreaterThanDaysAgo, &[OperandKind::Days]),
    (Comparison::LessThanDaysInTheFuture, &[OperandKind::Days]),
    (Comparison::GreaterThanDaysInTheFuture, &[OperandKind::Days]),
    (Comparison::After, &[OperandKind::Time]),
    (Comparison::Before, &[OperandKind::Time]),
    (Comparison::Exists, &[OperandKind::None]),
    (Comparison::DoesNotExist, &[OperandKind::None]),
];

pub(super) const SUBSCRIPTION_COMPARISONS: Comparisons =
    &[(Comparison::Is, &[OperandKind::Status]), (Comparison::IsNot, &[OperandKind::Status])];

pub(super) const LAST_USE_COMPARISONS: Comparisons =
    &[(Comparison::After, &[OperandKind::Time]), (Comparison::Before, &[OperandKind::Time])];

/// The kinds of operands for an element of an array.
const SCALARS: &[OperandKind] = &[OperandKind::Text, OperandKind::Number, OperandKind::Boolean];

pub(super) const STATUSES: [&str; 3] = ["opted_in", "subscribed", "unsubscribed"];

/// Maximum number of characters of a pattern.
pub(super) const MAX_PATTERN: usize = 255;

impl OperandKind {
    /// Reads a value of this kind; the error is for an unusable value of this kind.
    pub fn read(self, value: Option<&Tree>) -> Option<Result<Operand, String>> {
        Some(match (self, value) {
            (Self::None, None) => Ok(Operand::None),
            (Self::Text, Some(Tree::Text(text))) => Ok(Operand::Text((&**text).into())),
            (Self::Regex, Some(Tree::Text(text))) => {
                check_pattern(text).map(|()| Operand::Text((&**text).into()))
            }
            (Self::Status, Some(Tree::Text(text))) if STATUSES.contains(&&**text) => {
                Ok(Operand::Text((&**text).into()))
            }
            (Self::Time, Some(Tree::Text(text))) => {
                parse_time(text).map(|at| Operand::Time(at, (&**text).into()))
            }
            (Self::Number, Some(Tree::Number(number))) => {
                Ok(Operand::Number(usual_spelling(number).into()))
            }
            (Self::Days, Some(Tree::Number(number))) => {
                let days = whole_number(number).and_then(|days| u32::try_from(days).ok());
                return days.map(|days| Ok(Operand::Days(days)));
            }
            (Self::Boolean, Some(Tree::Bool(boolean))) => Ok(Operand::Boolean(*boolean)),
            _ => return None,
        })
    }

    /// The expected value, as text.
    pub fn describe(self) -> String {
        match self {
            Self::None => "no value".into(),
            Self::Text => "a string".into(),
            Self::Regex => "a regular expression".into(),
            Self::Number => "a number".into(),
            Self::Boolean => "true or false".into(),
            Self::Time => "a date and time in ISO 8601".into(),
            Self::Days => "a whole number of days from 0".into(),
            Self::Status => format!("one of {}", STATUSES.join(", ")),
        }
    }
}

/// Checks that a pattern can be compiled.
fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.chars().count() > MAX_PATTERN {
        return Err(format!("a regular expression can have at most {MAX_PATTERN} characters"));
    }
    Pattern::check(pattern).map_err(|error| match error {
        PatternError::TooLarge => "the regular expression is too large".into(),
        PatternError::Invalid(reason) => format!("is not a valid regular expression: {reason}"),
    })
}

//! Tells whom an audience means, user by user.

use std::cmp::Ordering;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::number::compare;
use super::test::compile;
use super::{Audience, Comparison, Operand, Test};
use crate::users::Recipient;
use crate::users::activity::Activity;
use crate::users::recipient::Subscription;
use kit::clock::parse_time;

/// Bytes of a text that patterns are held against; a longer one matches none. A match takes time
/// with the text and with the pattern.
const MAX_MATCHED: usize = 16 << 10;

const DAY_MS: i128 = Duration::from_secs(24 * 60 * 60).as_millis() as i128;

/// An audience made ready for many users: its regular expressions are compiled. Of a user it
/// reads what the tree names, and no more of that than decides.
#[derive(Debug)]
pub struct Matcher {
    root: Node,
    needs_activity: bool,
}

#[derive(Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    CustomAttribute {
        name: String,
        question: Question,
    },
    Push(Asked<Subscription>),
    Email(Asked<Subscription>),
    LastUsedApp {
        ordering: Ordering,
        than: i64,
    },
    PurchaseProperty {
        /// Of any product where there is none.
        product_id: Option<String>,
        name: String,
        question: Question,
    },
}

/// A comparison, or that it does not hold.
#[derive(Debug)]
struct Asked<T> {
    of: T,
    is_negated: bool,
}

type Question = Asked<Check>;

/// What a value has to be.
#[derive(Debug)]
enum Check {
    Exists,
    Equals(Value),
    Matches(Regex),
    Includes(Value),
    /// A number that stands so to this one.
    Number(fn(Ordering) -> bool, Number),
    /// A time that stands so to this one.
    Time(Ordering, i64),
    /// A time that is so far from now, before it or after it.
    Days {
        is_past: bool,
        ordering: Ordering,
        than: u32,
    },
    /// What no value is: a test that was not read from JSON.
    Never,
}

/// Who is asked about.
struct User<'a> {
    recipient: &'a Recipient,
    activity: Option<&'a Activity<'a>>,
    now: i64,
}

impl Audience {
    /// Makes ready to be held against users. Takes as long as it takes to compile the regular
    /// expressions: milliseconds at most for those that [`read`](Self::read) lets pass.
    pub fn matcher(&self) -> Matcher {
        Matcher { root: Node::of(self), needs_activity: self.needs_activity() }
    }

    fn needs_activity(&self) -> bool {
        match self {
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().any(Self::needs_activity),
            Self::PurchaseProperty { .. } => true,
            _ => false,
        }
    }
}

impl Matcher {
    /// Whether the audience includes a user. Give the [`Activity`] of a user who has one, if
    /// [`needs_activity`](Self::needs_activity) says so; `now` is what days are counted from, in
    /// milliseconds since the epoch.
    pub fn holds(&self, recipient: &Recipient, activity: Option<&Activity<'_>>, now: i64) -> bool {
        self.root.holds(&User { recipient, activity, now })
    }

    /// Whether there is a question about what users did.
    pub fn needs_activity(&self) -> bool {
        self.needs_activity
    }
}

impl Node {
    fn of(audience: &Audience) -> Self {
        let all = |nodes: &[Audience]| nodes.iter().map(Self::of).collect();
        match audience {
            Audience::And(nodes) => Self::And(all(nodes)),
            Audience::Or(nodes) => Self::Or(all(nodes)),
            Audience::CustomAttribute { name, test } => {
                Self::CustomAttribute { name: name.clone(), question: Question::of(test) }
            }
            Audience::PushSubscriptionStatus(test) => Self::Push(status(test)),
            Audience::EmailSubscriptionStatus(test) => Self::Email(status(test)),
            Audience::LastUsedApp(test) => {
                let ordering = match test.comparison {
                    Comparison::After => Ordering::Greater,
                    _ => Ordering::Less,
                };
                let than = match test.operand {
                    Operand::Time(time, _) => time,
                    // Not read from JSON: nobody.
                    _ => return Self::Or(Vec::new()),
                };
                Self::LastUsedApp { ordering, than }
            }
            Audience::PurchaseProperty { product_id, name, test } => Self::PurchaseProperty {
                product_id: product_id.clone(),
                name: name.clone(),
                question: Question::of(test),
            },
        }
    }

    /// As deep as an audience may be: this calls itself.
    fn holds(&self, user: &User<'_>) -> bool {
        let recipient = user.recipient;
        match self {
            Self::And(nodes) => nodes.iter().all(|node| node.holds(user)),
            Self::Or(nodes) => nodes.iter().any(|node| node.holds(user)),
            Self::CustomAttribute { name, question } => {
                let attributes = recipient.profile.get("custom_attributes");
                question.is_answered([attributes.and_then(|all| all.get(name))], user.now)
            }
            Self::Push(asked) => asked.is(recipient.push_subscription()),
            Self::Email(asked) => asked.is(recipient.email_subscription()),
            Self::LastUsedApp { ordering, than } => {
                recipient.last_used_app().is_some_and(|last| last.cmp(than) == *ordering)
            }
            Self::PurchaseProperty { product_id, name, question } => {
                let properties = purchases(user, product_id.as_deref());
                let values = properties.iter().map(|properties| properties.get(name));
                question.is_answered(values, user.now)
            }
        }
    }
}

/// The properties of the latest purchase of each product, or of one.
fn purchases(user: &User<'_>, product_id: Option<&str>) -> Vec<Map<String, Value>> {
    let Some(activity) = user.activity else { return Vec::new() };
    let read = |properties: &str| serde_json::from_str(properties).ok();
    match product_id {
        None => activity.all_purchase_properties().filter_map(|(_, p)| read(p)).collect(),
        Some(id) => {
            activity.purchase_properties(id).and_then(|(_, p)| read(p)).into_iter().collect()
        }
    }
}

fn status(test: &Test) -> Asked<Subscription> {
    let of = match &test.operand {
        Operand::Text(text) if text == "opted_in" => Subscription::OptedIn,
        Operand::Text(text) if text == "unsubscribed" => Subscription::Unsubscribed,
        _ => Subscription::Subscribed,
    };
    Asked { of, is_negated: test.comparison.is_negative() }
}

impl<T: PartialEq> Asked<T> {
    fn is(&self, value: T) -> bool {
        (self.of == value) != self.is_negated
    }
}

impl Question {
    fn of(test: &Test) -> Self {
        Self { of: Check::of(test), is_negated: test.comparison.is_negative() }
    }

    /// Whether one of the values passes; of a negative comparison, whether none does.
    fn is_answered<'v>(
        &self,
        values: impl IntoIterator<Item = Option<&'v Value>>,
        now: i64,
    ) -> bool {
        let is_there = |value: &&Value| !value.is_null();
        let mut values = values.into_iter().flatten().filter(is_there);
        values.any(|value| self.of.passes(value, now)) != self.is_negated
    }
}

impl Check {
    /// The check of a comparison, or of what its complement is of.
    fn of(test: &Test) -> Self {
        use Comparison as C;
        let days = |is_past, ordering| match &test.operand {
            Operand::Days(than) => Self::Days { is_past, ordering, than: *than },
            _ => Self::Never,
        };
        let time = |ordering| match &test.operand {
            Operand::Time(than, _) => Self::Time(ordering, *than),
            _ => Self::Never,
        };
        let number = |stands| match &test.operand {
            Operand::Number(than) => Self::Number(stands, than.clone()),
            _ => Self::Never,
        };
        match test.comparison {
            C::Exists | C::DoesNotExist => Self::Exists,
            C::Equals | C::NotEqual | C::DoesNotEqual | C::Is | C::IsNot => {
                scalar(&test.operand).map_or(Self::Never, Self::Equals)
            }
            C::IncludesValue | C::DoesNotIncludeValue => {
                scalar(&test.operand).map_or(Self::Never, Self::Includes)
            }
            C::MatchesRegex | C::DoesNotMatchRegex => match &test.operand {
                Operand::Text(pattern) => compile(pattern).map_or(Self::Never, Self::Matches),
                _ => Self::Never,
            },
            C::GreaterThan => number(Ordering::is_gt),
            C::GreaterThanOrEqualTo => number(Ordering::is_ge),
            C::LessThan => number(Ordering::is_lt),
            C::LessThanOrEqualTo => number(Ordering::is_le),
            C::LessThanDaysAgo => days(true, Ordering::Less),
            C::GreaterThanDaysAgo => days(true, Ordering::Greater),
            C::LessThanDaysInTheFuture => days(false, Ordering::Less),
            C::GreaterThanDaysInTheFuture => days(false, Ordering::Greater),
            C::After => time(Ordering::Greater),
            C::Before => time(Ordering::Less),
        }
    }

    fn passes(&self, value: &Value, now: i64) -> bool {
        match self {
            Self::Exists => true,
            Self::Equals(wanted) => is_equal(wanted, value),
            Self::Matches(regex) => {
                value.as_str().is_some_and(|text| text.len() <= MAX_MATCHED && regex.is_match(text))
            }
            Self::Includes(wanted) => {
                let elements = value.as_array().map(Vec::as_slice).unwrap_or_default();
                elements.iter().any(|element| is_equal(wanted, element))
            }
            Self::Number(stands, than) => {
                value.as_number().is_some_and(|number| stands(compare(number, than)))
            }
            Self::Time(ordering, than) => time(value).is_some_and(|at| at.cmp(than) == *ordering),
            Self::Days { is_past, ordering, than } => time(value).is_some_and(|at| {
                let ahead = i128::from(at) - i128::from(now);
                let distance = if *is_past { -ahead } else { ahead };
                distance >= 0 && distance.cmp(&(i128::from(*than) * DAY_MS)) == *ordering
            }),
            Self::Never => false,
        }
    }
}

fn scalar(operand: &Operand) -> Option<Value> {
    match operand {
        Operand::Text(text) => Some(text.as_str().into()),
        Operand::Number(number) => Some(number.clone().into()),
        Operand::Boolean(boolean) => Some((*boolean).into()),
        Operand::None | Operand::Time(..) | Operand::Days(_) => None,
    }
}

fn time(value: &Value) -> Option<i64> {
    value.as_str().and_then(|text| parse_time(text).ok())
}

/// Whether two values are the same: numbers by what they are worth, arrays element by element,
/// objects member by member; a value of one type is none of another.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && has_properties(a, b),
        (a, b) => a == b,
    }
}

/// Whether a purchase's properties have all that are wanted, each with an equal value: what a
/// campaign's `trigger.purchase.properties` asks. Types are never coerced, and a null, which no
/// property is, equals none.
pub fn has_properties(wanted: &Map<String, Value>, properties: &Map<String, Value>) -> bool {
    let is_there = |(name, value): (&String, &Value)| {
        properties.get(name).is_some_and(|property| is_equal(value, property))
    };
    wanted.iter().all(is_there)
}

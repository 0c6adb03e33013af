//! Decides for each user whether an audience includes them.

use std::cmp::Ordering;
use std::time::Duration;

use uuid::Uuid;

use super::document::Fields;
use super::{Audience, Comparison, Condition, Operand};
use crate::users::Recipient;
use crate::users::activity::Activity;
use crate::users::recipient::Subscription;
use kit::clock::parse_time;
use kit::json::{Tree, TreeObject, compare_numbers};
use kit::pattern::{Budget, ItemBudget, Pattern, TooCostly};

/// Maximum bytes of a text that a pattern can match; a longer text never matches.
const MAX_MATCHED_BYTES: usize = 16 << 10;

const DAY_MS: i128 = Duration::from_secs(24 * 60 * 60).as_millis() as i128;

/// An audience prepared for many users: its regular expressions are compiled. It reads only the
/// named values of a user, and only until the result is known.
#[derive(Debug)]
pub struct Matcher {
    root: Node,
    fields: Fields,
    needs_activity: bool,
    /// Of the regular expressions.
    budget: Budget,
}

#[derive(Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    CustomAttribute {
        name: String,
        check: Negatable<Check>,
    },
    Push(Negatable<Subscription>),
    Email(Negatable<Subscription>),
    LastUsedApp {
        ordering: Ordering,
        than: i64,
    },
    PurchaseProperty {
        /// Any product if absent.
        product_id: Option<String>,
        name: String,
        check: Negatable<Check>,
    },
}

/// A comparison, or its complement.
#[derive(Debug)]
struct Negatable<T> {
    positive: T,
    is_negated: bool,
}

/// A check of a value.
#[derive(Debug)]
enum Check {
    Exists,
    Equals(Tree),
    Matches(Box<Pattern>),
    Includes(Tree),
    /// A number that has this order relative to the given one.
    Number(fn(Ordering) -> bool, Box<str>),
    /// A time that has this order relative to the given one.
    Time(Ordering, i64),
    /// A time at this distance from now, before or after it.
    Days {
        is_past: bool,
        ordering: Ordering,
        than: u32,
    },
    /// Never true: a condition that was not read from JSON.
    Never,
}

/// The user to decide about.
struct User<'a> {
    recipient: &'a Recipient,
    activity: Option<&'a Activity<'a>>,
    now: i64,
    budget: ItemBudget<'a>,
}

impl Audience {
    /// Prepares the audience for matching. Compiles its regular expressions, which takes
    /// milliseconds for each: call it on a compute thread.
    pub fn matcher(&self) -> Matcher {
        Matcher {
            root: Node::new(self),
            fields: Fields::in_audience(self),
            needs_activity: self.needs_activity(),
            budget: Budget::default(),
        }
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
    /// Whether the audience includes a user. Pass the user's [`Activity`] if
    /// [`needs_activity`](Self::needs_activity); days count from `now`, in milliseconds since the
    /// epoch. Fails if the regular expressions take more steps than those of a user, or of all
    /// users so far, may take.
    pub fn holds(
        &self,
        recipient: &Recipient,
        activity: Option<&Activity<'_>>,
        now: i64,
    ) -> Result<bool, TooCostly> {
        self.root.holds(&User { recipient, activity, now, budget: self.budget.item() })
    }

    /// Reads a stored document for [`holds`](Self::holds): the user with only the fields that the
    /// audience depends on.
    pub fn read(&self, service_id: Uuid, document: &str) -> Result<Recipient, serde_json::Error> {
        self.fields.read(service_id, document)
    }

    /// Whether a condition depends on what was decided about the user's addresses: then apply the
    /// user's [`AddressStates`](crate::users::suppressions::AddressStates) before
    /// [`holds`](Self::holds).
    pub fn needs_addresses(&self) -> bool {
        self.fields.needs_addresses()
    }

    /// Whether a condition depends on the user's activity.
    pub fn needs_activity(&self) -> bool {
        self.needs_activity
    }
}

impl Node {
    fn new(audience: &Audience) -> Self {
        let all = |nodes: &[Audience]| nodes.iter().map(Self::new).collect();
        match audience {
            Audience::And(nodes) => Self::And(all(nodes)),
            Audience::Or(nodes) => Self::Or(all(nodes)),
            Audience::CustomAttribute { name, condition } => {
                Self::CustomAttribute { name: name.clone(), check: Negatable::new(condition) }
            }
            Audience::PushSubscriptionStatus(condition) => Self::Push(status(condition)),
            Audience::EmailSubscriptionStatus(condition) => Self::Email(status(condition)),
            Audience::LastUsedApp(condition) => {
                let ordering = match condition.comparison {
                    Comparison::After => Ordering::Greater,
                    _ => Ordering::Less,
                };
                let than = match condition.operand {
                    Operand::Time(time, _) => time,
                    // Not read from JSON: matches nobody.
                    _ => return Self::Or(Vec::new()),
                };
                Self::LastUsedApp { ordering, than }
            }
            Audience::PurchaseProperty { product_id, name, condition } => Self::PurchaseProperty {
                product_id: product_id.clone(),
                name: name.clone(),
                check: Negatable::new(condition),
            },
        }
    }

    /// Recursion is limited by the depth of an audience.
    fn holds(&self, user: &User<'_>) -> Result<bool, TooCostly> {
        let recipient = user.recipient;
        Ok(match self {
            Self::And(nodes) => !any(nodes, |node| node.holds(user).map(|holds| !holds))?,
            Self::Or(nodes) => any(nodes, |node| node.holds(user))?,
            Self::CustomAttribute { name, check } => {
                check.passes([recipient.custom.get().get(name)], user)?
            }
            Self::Push(status) => status.matches(recipient.push_subscription()),
            Self::Email(status) => status.matches(recipient.email_subscription()),
            Self::LastUsedApp { ordering, than } => {
                recipient.last_used_app().is_some_and(|last| last.cmp(than) == *ordering)
            }
            Self::PurchaseProperty { product_id, name, check } => {
                let properties = purchases(user, product_id.as_deref());
                let values = properties.iter().map(|properties| properties.get(name));
                check.passes(values, user)?
            }
        })
    }
}

/// Whether something is true of any item.
fn any<T>(
    items: impl IntoIterator<Item = T>,
    is_true: impl Fn(T) -> Result<bool, TooCostly>,
) -> Result<bool, TooCostly> {
    for item in items {
        if is_true(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The properties of the latest purchase of each product, or of one.
fn purchases(user: &User<'_>, product_id: Option<&str>) -> Vec<TreeObject> {
    let Some(activity) = user.activity else { return Vec::new() };
    let read = |properties: &str| TreeObject::parse(properties).ok();
    match product_id {
        None => activity.all_purchase_properties().filter_map(|(_, p)| read(p)).collect(),
        Some(id) => {
            activity.purchase_properties(id).and_then(|(_, p)| read(p)).into_iter().collect()
        }
    }
}

fn status(condition: &Condition) -> Negatable<Subscription> {
    let positive = match &condition.operand {
        Operand::Text(text) if text == "opted_in" => Subscription::OptedIn,
        Operand::Text(text) if text == "unsubscribed" => Subscription::Unsubscribed,
        _ => Subscription::Subscribed,
    };
    Negatable { positive, is_negated: condition.comparison.is_negative() }
}

impl<T: PartialEq> Negatable<T> {
    fn matches(&self, value: T) -> bool {
        (self.positive == value) != self.is_negated
    }
}

impl Negatable<Check> {
    fn new(condition: &Condition) -> Self {
        let is_negated = condition.comparison.is_negative();
        Self { positive: Check::new(condition), is_negated }
    }

    /// Whether one of the values matches; for a negative comparison, whether none does.
    fn passes<'v>(
        &self,
        values: impl IntoIterator<Item = Option<&'v Tree>>,
        user: &User<'_>,
    ) -> Result<bool, TooCostly> {
        let values = values.into_iter().flatten().filter(|value| !value.is_null());
        Ok(any(values, |value| self.positive.passes(value, user))? != self.is_negated)
    }
}

impl Check {
    /// The check of a comparison, or of the comparison that it negates.
    fn new(condition: &Condition) -> Self {
        use Comparison as C;
        let days = |is_past, ordering| match &condition.operand {
            Operand::Days(than) => Self::Days { is_past, ordering, than: *than },
            _ => Self::Never,
        };
        let time = |ordering| match &condition.operand {
            Operand::Time(than, _) => Self::Time(ordering, *than),
            _ => Self::Never,
        };
        let number = |has_order| match &condition.operand {
            Operand::Number(than) => Self::Number(has_order, than.clone()),
            _ => Self::Never,
        };
        match condition.comparison {
            C::Exists | C::DoesNotExist => Self::Exists,
            C::Equals | C::NotEqual | C::DoesNotEqual | C::Is | C::IsNot => {
                scalar(&condition.operand).map_or(Self::Never, Self::Equals)
            }
            C::IncludesValue | C::DoesNotIncludeValue => {
                scalar(&condition.operand).map_or(Self::Never, Self::Includes)
            }
            C::MatchesRegex | C::DoesNotMatchRegex => match &condition.operand {
                Operand::Text(pattern) => Pattern::new(pattern)
                    .map_or(Self::Never, |pattern| Self::Matches(pattern.into())),
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

    fn passes(&self, value: &Tree, user: &User<'_>) -> Result<bool, TooCostly> {
        Ok(match self {
            Self::Exists => true,
            Self::Equals(wanted) => wanted.is_same(value),
            Self::Matches(pattern) => match value.as_text() {
                Some(text) if text.len() <= MAX_MATCHED_BYTES => {
                    pattern.is_match(text, &user.budget)?
                }
                _ => false,
            },
            Self::Includes(wanted) => match value {
                Tree::Array(elements) => elements.iter().any(|element| wanted.is_same(element)),
                _ => false,
            },
            Self::Number(has_order, than) => match value {
                Tree::Number(number) => has_order(compare_numbers(number, than)),
                _ => false,
            },
            Self::Time(ordering, than) => time(value).is_some_and(|at| at.cmp(than) == *ordering),
            Self::Days { is_past, ordering, than } => time(value).is_some_and(|at| {
                let ahead = i128::from(at) - i128::from(user.now);
                let distance = if *is_past { -ahead } else { ahead };
                distance >= 0 && distance.cmp(&(i128::from(*than) * DAY_MS)) == *ordering
            }),
            Self::Never => false,
        })
    }
}

fn scalar(operand: &Operand) -> Option<Tree> {
    match operand {
        Operand::Text(text) => Some(Tree::Text(text.as_str().into())),
        Operand::Number(number) => Some(Tree::Number(number.clone())),
        Operand::Boolean(boolean) => Some(Tree::Bool(*boolean)),
        Operand::None | Operand::Time(..) | Operand::Days(_) => None,
    }
}

fn time(value: &Tree) -> Option<i64> {
    value.as_text().and_then(|text| parse_time(text).ok())
}

/// Whether a purchase has all the given properties with equal values: the condition
/// `trigger.purchase.properties` of a campaign. Types are never coerced. Null equals nothing,
/// because no property is null.
pub fn has_properties(wanted: &TreeObject, properties: &TreeObject) -> bool {
    let has_equal = |(name, value): (&str, &Tree)| {
        properties.get(name).is_some_and(|property| value.is_same(property))
    };
    wanted.iter().all(has_equal)
}

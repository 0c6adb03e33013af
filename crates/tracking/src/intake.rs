//! Converts a request's body to the response and the messages, before any message is appended.
//! Rejected objects are reported in the response, and the others are accepted.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::formats::{AttributeObject, EventObject, Objects, PurchaseObject, one_is_valid};
use super::limits::MAX_OBJECTS;
use super::message::Object;
use super::object::{self, AcceptedObject, Rejection};
use super::telemetry::{self, RejectedObject};
use super::{Kind, partitions};
use gateway::formats::SuccessText;
use gateway::warnings::{Warning, WarningCode, Warnings};
use gateway::{ApiError, JsonText, fields};
use log::NewMessage;

pub const TOO_MANY: &str = "Max Input Length Exceeded";

/// Maximum number of unknown fields that are named.
const MAX_UNKNOWN: usize = 20;

pub const NOTHING_VALID: &str =
    "Valid data must be provided in the 'attributes', 'events', or 'purchases' fields.";

/// The field of a purchase that may have no exchange rate.
const NO_RATE_FIELD: &str = "purchases[].currency";

/// The sender and the time of a body.
#[derive(Clone, Debug)]
pub struct Request {
    pub workspace: i32,
    /// Milliseconds since the epoch.
    pub received_at: i64,
    /// Number of partitions of the log.
    pub partitions: u32,
    pub request_id: String,
    /// Another name of `service_id`, if the workspace declares one.
    pub alias: Option<String>,
}

/// The result of a request: its response, once the messages are in the log.
#[derive(Debug)]
pub struct Intake {
    pub answer: Answer,
    pub messages: Vec<NewMessage>,
}

/// The response to a partly or fully accepted request. Each counter is the number of accepted
/// objects of an array; it is absent if the array was not sent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tracked")]
pub struct Answer {
    message: SuccessText,
    /// Number of accepted objects, including those that change nothing when they are applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes_processed: Option<usize>,
    /// Number of accepted objects, including those that change nothing when they are applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    events_processed: Option<usize>,
    /// Number of accepted objects, including those that change nothing when they are applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    purchases_processed: Option<usize>,
    /// The errors of rejected objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ReportedRejection>,
    /// Fields of accepted objects, and of the request, that have no effect; at most 20. For a field
    /// of objects, `count` and `index` are about its array.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    #[serde(skip)]
    pub rejected: Vec<RejectedObject>,
}

/// An error of a rejected object; at most ten per object.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LeftOut")]
pub struct ReportedRejection {
    /// The error text, with the name of the field.
    #[serde(rename = "type")]
    text: String,
    #[schemars(extend("enum" = Kind::ALL.map(Kind::name)))]
    input_array: &'static str,
    /// The object's position in the array, from 0.
    index: usize,
}

impl Answer {
    /// How many objects of an array were accepted.
    pub fn processed(&self, kind: Kind) -> usize {
        let count = match kind {
            Kind::Attributes => self.attributes_processed,
            Kind::Events => self.events_processed,
            Kind::Purchases => self.purchases_processed,
        };
        count.unwrap_or(0)
    }
}

/// Three arrays, at least one of which must have a valid object.
#[derive(Default, JsonSchema)]
#[schemars(rename = "TrackRequest", transform = one_is_valid)]
pub(super) struct Body<'a> {
    #[schemars(with = "Option<Objects<AttributeObject>>")]
    attributes: Option<Array<'a>>,
    #[schemars(with = "Option<Objects<EventObject>>")]
    events: Option<Array<'a>>,
    #[schemars(with = "Option<Objects<PurchaseObject>>")]
    purchases: Option<Array<'a>>,
    #[schemars(skip)]
    unknown: Vec<Cow<'a, str>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;

        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = Body<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let (mut body, mut seen) = (Body::default(), Vec::new());
                while let Some(name) = members.next_key::<Cow<'_, str>>()? {
                    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                    let array = match kind {
                        Some(kind) if seen.contains(&kind) => {
                            return Err(A::Error::duplicate_field(kind.name()));
                        }
                        Some(Kind::Attributes) => &mut body.attributes,
                        Some(Kind::Events) => &mut body.events,
                        Some(Kind::Purchases) => &mut body.purchases,
                        // Users are selected by the objects.
                        None if fields::is_selector(&name) => {
                            members.next_value::<fields::UnsetSelector>()?;
                            continue;
                        }
                        None => {
                            let value: &RawValue = members.next_value()?;
                            if value.get() != "null" && body.unknown.len() < MAX_UNKNOWN {
                                body.unknown.push(name);
                            }
                            continue;
                        }
                    };
                    *array = members.next_value()?;
                    seen.extend(kind);
                }
                Ok(body)
            }
        }

        deserializer.deserialize_map(BodyVisitor)
    }
}

/// The elements of an array, up to one more than the maximum.
struct Array<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Array<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArrayVisitor;

        impl<'de> Visitor<'de> for ArrayVisitor {
            type Value = Array<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while elements.len() <= MAX_OBJECTS
                    && let Some(element) = seq.next_element()?
                {
                    elements.push(element);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Array(elements))
            }
        }

        deserializer.deserialize_seq(ArrayVisitor)
    }
}

/// Parses a body without side effects: the result depends only on the body and the time. Fully
/// rejected requests are counted here, also if the key then has another response. `has_rate`:
/// whether purchases in a currency add to the revenue.
pub fn read(
    body: &JsonText,
    request: &Request,
    has_rate: impl Fn(&str) -> bool,
) -> Result<Intake, ApiError> {
    let names = Kind::ALL.map(Kind::name);
    // An object with duplicate fields is rejected alone.
    let Body { attributes, events, purchases, unknown } = body.parse(&names)?;
    let mut warnings = Warnings::default();
    for name in unknown {
        warnings.push(Warning::unknown_field(&name, &names));
    }
    let arrays =
        [(Kind::Attributes, attributes), (Kind::Events, events), (Kind::Purchases, purchases)];
    let too_many = |Array(elements): &Array<'_>| elements.len() > MAX_OBJECTS;
    if arrays.iter().any(|(_, array)| array.as_ref().is_some_and(too_many)) {
        return Err(ApiError::Invalid(TOO_MANY.into()));
    }
    let mut accepted = Vec::new();
    let (mut errors, mut rejected) = (Vec::new(), Vec::new());
    let processed = arrays.map(|(kind, array)| {
        let before = accepted.len();
        for (index, element) in array?.0.into_iter().enumerate() {
            match object::read(kind, element, request.received_at, request.alias.as_deref()) {
                Ok(object) => {
                    for (field, code) in &object.ignored {
                        warnings.count(&format!("{}[].{field}", kind.name()), *code, index);
                    }
                    if let Object::Purchase(purchase) = &object.object
                        && !has_rate(&purchase.currency)
                    {
                        warnings.count(NO_RATE_FIELD, WarningCode::NoExchangeRate, index);
                    }
                    accepted.push(object);
                }
                Err(rejections) => {
                    let first = rejections.first();
                    rejected
                        .extend(first.map(|first| RejectedObject { kind, reason: first.reason }));
                    errors.extend(report(kind, index, rejections));
                }
            }
        }
        Some(accepted.len() - before)
    });
    if accepted.is_empty() {
        telemetry::rejected(&rejected);
        let errors = errors.iter().map(|error| json!(error)).collect();
        return Err(ApiError::InvalidMany(NOTHING_VALID.into(), errors));
    }
    let [attributes_processed, events_processed, purchases_processed] = processed;
    let answer = Answer {
        message: SuccessText::Success,
        attributes_processed,
        events_processed,
        purchases_processed,
        errors,
        warnings: warnings.into_vec(),
        rejected,
    };
    Ok(Intake { answer, messages: messages(accepted, request)? })
}

fn messages(
    accepted: Vec<AcceptedObject<'_>>,
    request: &Request,
) -> Result<Vec<NewMessage>, ApiError> {
    partitions::messages(accepted, request)
        .map_err(|error| ApiError::Internal(format!("cannot serialize a message: {error}")))
}

fn report(
    kind: Kind,
    index: usize,
    rejections: Vec<Rejection>,
) -> impl Iterator<Item = ReportedRejection> {
    let input_array = kind.name();
    rejections.into_iter().map(move |Rejection { text, .. }| ReportedRejection {
        text,
        input_array,
        index,
    })
}

#[cfg(test)]
mod tests;

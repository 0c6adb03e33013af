//! Reads one object of a request into the form of the log, or rejects it with its errors
//! (docs/reference/api/track.md).

use std::fmt::Display;

use serde_json::value::RawValue;

use super::formats::{APP_ID, CURRENCY, NAME, PRICE, PRODUCT_ID, PROPERTIES, QUANTITY, TIME};
use super::limits::{IDENTIFIERS, RESERVED_ON_PURCHASES};
use super::message::{Event, Object, Purchase};
use super::values::{self, Checked};
use super::{Kind, attributes, properties};
use gateway::fields;
use gateway::warnings::WarningCode;
use kit::json::{self, JsonFields};
use kit::money;
use kit::words::{about_field, beginning};
use people::users::identifier::Identifier;
use people::users::profile::{self, check};

/// Maximum bytes of an event or a purchase, so that it fits into a message.
const MAX_BYTES: usize = 4 << 20;

/// Identifies users in other services of this family; here it is only a field of the profile.
const PHONE: &str = "phone";

/// Maximum number of reported rejections per object.
const MAX_REJECTIONS: usize = 10;

/// Maximum number of noted fields per object that have no effect.
const MAX_IGNORED: usize = 20;

/// If true, no user is created.
const UPDATE_EXISTING_ONLY: &str = "_update_existing_only";

/// Why an object is rejected: one of its errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A field name for metrics, which is never a name that a customer chose.
    pub reason: &'static str,
    /// A text for the customer, without values.
    pub text: String,
}

/// An accepted object.
#[derive(Debug)]
pub struct AcceptedObject<'a> {
    pub object: Object<'a>,
    /// Its identifiers in addition to the deciding one.
    pub other_identifiers: Vec<Identifier<'a>>,
    /// Its fields that have no effect.
    pub ignored: Vec<IgnoredField>,
}

/// A field that has no effect, and why.
pub type IgnoredField = (String, WarningCode);

/// Reads an element of an array. A time after `received_at` becomes `received_at`. `alias` is
/// another name of `service_id`.
pub fn read<'a>(
    kind: Kind,
    element: &'a RawValue,
    received_at: i64,
    alias: Option<&str>,
) -> Result<AcceptedObject<'a>, Vec<Rejection>> {
    let opened = Reader::open(kind, element, received_at, alias);
    let mut reader = opened.map_err(|rejection| vec![rejection])?;
    let object = match kind {
        Kind::Attributes => attributes::read(&mut reader).map(Object::Attributes),
        Kind::Events => event(&mut reader).map(Object::Event),
        Kind::Purchases => purchase(&mut reader).map(Object::Purchase),
    };
    match object {
        Some(object) if reader.rejections.is_empty() => {
            let Reader { other_identifiers, ignored, .. } = reader;
            Ok(AcceptedObject { object, other_identifiers, ignored })
        }
        _ => Err(reader.rejections),
    }
}

/// Notes the fields of an event or a purchase that are not `known`, and rejects duplicate fields
/// inside the fields that are not read.
fn check_others(reader: &mut Reader<'_>, known: &[&str]) {
    let is_known = |name: &str| {
        known.contains(&name)
            || IDENTIFIERS.contains(&name)
            || matches!(name, PROPERTIES | UPDATE_EXISTING_ONLY)
    };
    // Null and an empty selection count as absent.
    let is_absent =
        |name: &str, value: &RawValue| value.get() == "null" || fields::is_selector(name);
    let is_unknown = |name: &str, value: &RawValue| !is_known(name) && !is_absent(name, value);
    let members = reader.members.0.iter();
    let unknown = members.filter(|(name, value)| is_unknown(name, value)).take(MAX_IGNORED);
    reader.ignored =
        unknown.map(|(name, _)| (ShortName(name).to_string(), WarningCode::UnknownField)).collect();
    let is_read = |name: &str| name == PROPERTIES || IDENTIFIERS.contains(&name);
    let mut others = reader.members.0.iter().filter(|(name, _)| !is_read(name));
    let duplicate = others.find_map(|(_, value)| json::duplicate_name(value.get()));
    if let Some(name) = duplicate {
        reader.rejections.push(Rejection { reason: "object", text: json::duplicate(&name) });
    }
}

fn event<'a>(reader: &mut Reader<'a>) -> Option<Event<'a>> {
    let user = reader.user();
    let name = reader.required(NAME.name, values::name);
    let time = reader.time();
    let app_id = reader.optional(APP_ID.name, check::text);
    let properties = properties::read(reader, &[]);
    check_others(reader, &[NAME.name, TIME.name, APP_ID.name]);
    let (user, update_only) = user?;
    Some(Event { user, update_only, name: name?, time: time?, app_id, properties })
}

fn purchase<'a>(reader: &mut Reader<'a>) -> Option<Purchase<'a>> {
    let user = reader.user();
    let product_id = reader.required(PRODUCT_ID.name, values::name);
    let currency = reader.required(CURRENCY.name, values::currency);
    let price = reader.required(PRICE.name, values::price);
    let quantity = reader.optional(QUANTITY.name, values::quantity).unwrap_or(1);
    let is_too_large = |sum: Option<i64>| sum.is_none_or(|sum| sum >= money::LIMIT);
    if price.is_some_and(|price| is_too_large(price.checked_mul(quantity.into()))) {
        reader.reject(PRICE.name, values::price_too_large());
    }
    let time = reader.time();
    let app_id = reader.optional(APP_ID.name, check::text);
    let properties = properties::read(reader, RESERVED_ON_PURCHASES);
    let others = [PRODUCT_ID, CURRENCY, PRICE, QUANTITY, TIME, APP_ID].map(|field| field.name);
    check_others(reader, &others);
    let (user, update_only) = user?;
    Some(Purchase {
        user,
        update_only,
        product_id: product_id?,
        currency: currency?,
        price: price?,
        quantity,
        time: time?,
        app_id,
        properties,
    })
}

fn identifier<'a>(name: &str, json: &'a str) -> Checked<Identifier<'a>> {
    Ok(match name {
        "external_id" => Identifier::ExternalId(check::identifier(json)?),
        "service_id" => Identifier::ServiceId(values::service_id(json)?),
        "user_alias" => Identifier::UserAlias(values::user_alias(json)?),
        _ => Identifier::Email(values::email(json)?),
    })
}

/// An object that is being read.
pub(super) struct Reader<'a> {
    pub members: JsonFields<'a>,
    other_identifiers: Vec<Identifier<'a>>,
    received_at: i64,
    rejections: Vec<Rejection>,
    ignored: Vec<IgnoredField>,
}

impl<'a> Reader<'a> {
    fn open(
        kind: Kind,
        element: &'a RawValue,
        received_at: i64,
        alias: Option<&str>,
    ) -> Result<Self, Rejection> {
        let rejection = |text: String| Rejection { reason: "object", text };
        let max_bytes = if kind == Kind::Attributes { profile::MAX_BYTES } else { MAX_BYTES };
        if element.get().len() > max_bytes {
            let text = format!("the object is larger than {} KiB", max_bytes >> 10);
            return Err(rejection(text));
        }
        let mut members = json::fields(element.get(), json::MAX_JSON_FIELDS)
            .map_err(|why| rejection(format!("the object: {why}")))?;
        if let Some(alias) = alias {
            let aliased = members.0.iter_mut().filter(|(name, _)| name == alias);
            aliased.for_each(|(name, _)| *name = IDENTIFIERS[1].into());
        }
        if let Some(name) = members.repeated() {
            return Err(rejection(json::duplicate(name)));
        }
        // In attributes, such a name is that of a field of the profile or a custom attribute.
        if kind != Kind::Attributes
            && let Some(name) = fields::unsupported_selector(&members, &IDENTIFIERS)
        {
            let text = about_field(name, fields::NO_SELECTOR);
            return Err(Rejection { reason: "identifier", text });
        }
        Ok(Self {
            members,
            other_identifiers: Vec::new(),
            received_at,
            rejections: Vec::new(),
            ignored: Vec::new(),
        })
    }

    /// The value of a field that is present and not null.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.members.get(name).filter(|value| *value != "null")
    }

    /// Reads an optional field. An invalid value is rejected and returned as none.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a str) -> Checked<T>,
    ) -> Option<T> {
        let read = read(self.value(name)?);
        read.map_err(|why| self.reject(name, why)).ok()
    }

    fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a str) -> Checked<T>,
    ) -> Option<T> {
        if self.value(name).is_none() {
            self.reject(name, "is required");
        }
        self.optional(name, read)
    }

    fn time(&mut self) -> Option<i64> {
        self.required(TIME.name, values::time).map(|time| time.min(self.received_at))
    }

    /// The user's identifier, and whether no user can be created. The first of [`IDENTIFIERS`] that
    /// is set decides; the others have no effect. An alias creates no user.
    pub fn user(&mut self) -> Option<(Identifier<'a>, bool)> {
        let update_existing_only =
            self.optional(UPDATE_EXISTING_ONLY, values::boolean).unwrap_or(false);
        let mut names = IDENTIFIERS.into_iter().filter(|name| self.value(name).is_some());
        let Some(first) = names.next() else {
            let mut text =
                "an external_id, a service_id, a user_alias or an email is required".to_owned();
            if self.value(PHONE).is_some() {
                text.push_str("; users are not found by phone");
            }
            self.rejections.push(Rejection { reason: "identifier", text });
            return None;
        };
        let others: Vec<_> = names.filter_map(|name| Some((name, self.value(name)?))).collect();
        let identifiers = others.iter().filter_map(|(name, json)| identifier(name, json).ok());
        self.other_identifiers = identifiers.collect();
        for (name, json) in others {
            if let Some(duplicate) = json::duplicate_name(json) {
                self.reject(name, json::duplicate(&duplicate));
            }
        }
        let user = self.optional(first, |json| identifier(first, json))?;
        let update_only = update_existing_only || matches!(user, Identifier::UserAlias(_));
        Some((user, update_only))
    }

    /// Whether only an email identifies the user. In addition to another identifier, it is a value
    /// to write.
    pub fn is_by_email(&self) -> bool {
        IDENTIFIERS[..3].iter().all(|name| self.value(name).is_none())
    }

    /// Notes a field that has no effect.
    pub fn ignore(&mut self, field: &str, code: WarningCode) {
        if self.ignored.len() < MAX_IGNORED {
            self.ignored.push((field.to_owned(), code));
        }
    }

    /// Rejects the object because of a field.
    pub fn reject(&mut self, field: &'static str, why: impl Display) {
        self.reject_at(field, field, why);
    }

    /// Rejects the object because of a value at a path within the field.
    pub fn reject_at(&mut self, field: &'static str, path: impl Display, why: impl Display) {
        if self.rejections.len() < MAX_REJECTIONS {
            self.rejections.push(Rejection {
                reason: field,
                text: about_field(&path.to_string(), &why.to_string()),
            });
        }
    }
}

/// A name that a customer chose, cut for an error message.
pub(super) struct ShortName<'a>(pub &'a str);

impl Display for ShortName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MAX: usize = 64;
        f.write_str(&beginning(self.0, MAX))
    }
}

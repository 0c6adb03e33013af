//! The descriptions of a request's objects. The modules next to this one parse them.

use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::limits::{IDENTIFIERS, MAX_NESTED_BYTES, MAX_OBJECTS, READ_ONLY, RESERVED_ON_PURCHASES};
use super::values::MAX_QUANTITY;
use gateway::formats::{CONTROLS, Identifier, NO_NUL, Time, UserAlias, first_of};
use kit::json::MAX_LEVELS;
use kit::money;
use kit::money::{LIMIT, MILLION};
use kit::phone;
use kit::words::{MAX_LABEL, MAX_LOCAL};
use people::users::profile::{Field, MAX_BYTES, MAX_TEXT, check, codes};

/// An array of objects. Invalid objects are rejected, and the others accepted.
#[derive(JsonSchema)]
#[schemars(inline, bound = "T: JsonSchema")]
pub(super) struct Objects<T>(#[schemars(schema_with = "objects::<T>")] std::marker::PhantomData<T>);

fn objects<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<T>();
    let rejected = "Any other value is rejected and reported in `errors`.";
    schemars::json_schema!({
        "type": "array", "maxItems": MAX_OBJECTS,
        "items": { "anyOf": [object, { "description": rejected }] },
    })
}

/// At least one object is valid.
pub(super) fn one_is_valid(schema: &mut Schema) {
    let arrays = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let valid = |(name, array): (&String, &Value)| {
        let object = array["items"]["anyOf"][0].clone();
        json!({
            "required": [name],
            "properties": { name.as_str(): { "type": "array", "contains": object } },
        })
    };
    let valid: Vec<Value> = arrays.iter().map(valid).collect();
    schema.insert("anyOf".into(), valid.into());
}

/// The first of `external_id`, `service_id`, `user_alias` and `email` that is set identifies the
/// user. The others are ignored.
// Only described: `object.rs` reads field by field, because it does not check identifiers after the
// first one, and reports every wrong field of an object.
#[derive(JsonSchema)]
#[schemars(transform = first_of(&IDENTIFIERS))]
#[expect(dead_code, reason = "described only")]
struct Identified {
    external_id: Option<Identifier>,
    service_id: Option<Uuid>,
    user_alias: Option<UserAlias>,
    email: Option<Email>,
    /// If true, no user is created; always true for a user identified by `user_alias` or
    /// `service_id`.
    #[serde(rename = "_update_existing_only")]
    update_existing_only: Option<bool>,
}

/// An email address, checked only for its format; without quotes, comments or address literals.
#[derive(JsonSchema)]
#[schemars(with = "String", extend(
    "maxLength" = MAX_TEXT, "pattern" = email_pattern(), "examples" = ["ann@example.com"],
))]
struct Email;

fn email_pattern() -> String {
    let local = format!(r#"[^\s{CONTROLS}"(),:;<>@\[\\\]]{{1,{MAX_LOCAL}}}"#);
    // ASCII characters can only be letters, digits and hyphens; hyphens not at the ends.
    let inside = format!(r"[^\s{CONTROLS}!-,./:-@\[-`{{-~]");
    let end = format!(r"[^\s{CONTROLS}!-/:-@\[-`{{-~]");
    let max_inside = MAX_LABEL - 2;
    let label = format!("{end}(?:{inside}{{0,{max_inside}}}{end})?");
    format!(r"^{local}@{label}(?:\.{label})*$")
}

/// A string with limits on its characters, without NUL.
fn text(min_length: usize, max_length: usize) -> Value {
    json!({ "type": "string", "minLength": min_length, "maxLength": max_length, "pattern": NO_NUL })
}

/// The schema, or null.
fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// The schema, or a value without data.
fn or_empty(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "enum": [null, ""] }] })
}

// Described by its schema, which has the maximum of levels.
#[derive(JsonSchema)]
struct Json(#[schemars(schema_with = "json")] ());

fn json(generator: &mut SchemaGenerator) -> Schema {
    let inside = generator.subschema_for::<Json>();
    schemars::json_schema!({
        "description": format!(
            "Any JSON value. Strings in it must not contain NUL characters or unpaired surrogates, \
             numbers must fit in a double, and nesting must not exceed {MAX_LEVELS} levels.",
        ),
        "anyOf": [
            { "type": ["null", "boolean", "number"] },
            { "type": "string", "pattern": NO_NUL },
            { "type": "array", "items": inside },
            {
                "type": "object", "propertyNames": { "pattern": NO_NUL },
                "additionalProperties": inside,
            },
        ],
    })
}

/// Attributes of a user. Known names are fields of the profile; all others are custom attributes.
/// Null and an empty string remove a field of the profile, but no subscription state. At most 1 MiB.
#[derive(JsonSchema)]
pub(super) struct AttributeObject(#[schemars(schema_with = "attribute_object")] ());

fn attribute_object(generator: &mut SchemaGenerator) -> Schema {
    const { assert!(MAX_BYTES == 1 << 20) };
    let mut object = attributes(&json!(true), generator);
    object.insert("allOf".into(), json!([generator.subschema_for::<Identified>()]));
    object
}

/// Attributes of the recipient: like an object in `attributes` of `POST /users/track`, without
/// identifiers.
#[derive(JsonSchema)]
#[schemars(rename = "AttributesBeside")]
pub struct RecipientAttributes(#[schemars(schema_with = "recipient_attributes")] ());

fn recipient_attributes(generator: &mut SchemaGenerator) -> Schema {
    attributes(&cannot_be_set(), generator)
}

fn cannot_be_set() -> Value {
    json!({ "type": "null", "description": "Cannot be set." })
}

/// The schema of an attribute object; `identifier` is the schema of the identifiers.
fn attributes(identifier: &Value, generator: &mut SchemaGenerator) -> Schema {
    let custom = generator.subschema_for::<CustomAttribute>();
    let mut properties = Map::new();
    for field in Field::ALL.iter().filter(|field| !is_identifier(**field)) {
        if let Some(schema) = field_schema(*field, generator) {
            properties.insert(field.name().into(), or_empty(schema));
        }
    }
    for name in READ_ONLY {
        properties.insert((*name).into(), cannot_be_set());
    }
    let custom_attributes = json!({
        "type": ["object", "null"], "propertyNames": text(1, MAX_TEXT),
        "additionalProperties": custom,
        "description": "Custom attributes, as if they were fields of the attribute object.",
    });
    properties.insert("custom_attributes".into(), custom_attributes);
    for name in IDENTIFIERS.iter().filter(|name| **name != "email") {
        properties.insert((*name).into(), identifier.clone());
    }
    properties.insert("_update_existing_only".into(), identifier.clone());
    for name in ["_merge_objects", "push_token_import"] {
        properties.insert(name.into(), or_null(json!({ "const": false })));
    }
    schemars::json_schema!({
        "type": "object",
        "properties": properties,
        "propertyNames": text(1, MAX_TEXT),
        "additionalProperties": custom,
    })
}

fn is_identifier(field: Field) -> bool {
    matches!(field, Field::ExternalId | Field::ServiceId)
}

/// The schema of a profile field; none for fields that are described elsewhere.
fn field_schema(field: Field, generator: &mut SchemaGenerator) -> Option<Value> {
    let one_of = |about: &str, codes: &mut dyn Iterator<Item = &'static str>| {
        let codes: Vec<&str> = codes.collect();
        json!({ "type": "string", "enum": codes, "description": about })
    };
    let objects = |properties: Value, required: &[&str]| {
        json!({ "type": "array", "items": {
            "type": "object", "properties": properties, "required": required,
        } })
    };
    let degrees =
        |max: u32| json!({ "type": "number", "minimum": -i64::from(max), "maximum": max });
    Some(match field {
        Field::ServiceId
        | Field::ExternalId
        | Field::UserAliases
        | Field::RandomBucket
        | Field::CreatedAt
        | Field::CustomAttributes
        | Field::Apps
        | Field::Devices
        | Field::UninstalledAt
        | Field::DeprecatedExternalIds => return None,
        Field::Email => json!(generator.subschema_for::<Email>()),
        Field::Phone => json!({
            "type": "string", "pattern": phone::PATTERN_WITH_COUNTRY,
            "not": { "pattern": phone::TRUNK_PREFIX },
            "description": "A phone number with its country code and 7 to 15 digits. It may begin \
                            with `+` or `00`, and have spaces and the characters `-./()` between \
                            its digits. It is stored in E.164.",
        }),
        Field::FirstName
        | Field::LastName
        | Field::HomeCity
        | Field::AttributedCampaign
        | Field::AttributedSource
        | Field::AttributedAdgroup
        | Field::AttributedAd => text(0, MAX_TEXT),
        Field::Gender => json!({
            "enum": check::GENDERS,
            "description": "Male, female, other, not applicable, or prefer not to say; `nil` \
                            removes the value.",
        }),
        Field::Dob => json!({ "type": "string", "format": "date" }),
        Field::Country => one_of("ISO 3166-1 alpha-2.", &mut codes::countries()),
        Field::Language => one_of("ISO 639-1.", &mut codes::languages()),
        Field::TimeZone => json!({
            "type": "string", "format": "iana-time-zone", "examples": ["Europe/Oslo"],
            "description": "A name from the IANA time zone database.",
        }),
        Field::LastCoordinates => json!({
            "type": "array", "prefixItems": [degrees(180), degrees(90)],
            "minItems": 2, "maxItems": 2, "description": "Longitude, latitude.",
        }),
        Field::EmailSubscribe | Field::PushSubscribe => json!({ "enum": check::SUBSCRIPTION }),
        Field::PushTokens => objects(
            json!({
                "app_id": text(1, MAX_TEXT), "token": text(1, MAX_TEXT),
                "device_id": or_null(text(0, MAX_TEXT)),
                "kind": or_null(json!({ "enum": check::TOKEN_KINDS })),
            }),
            &["app_id", "token"],
        ),
        Field::SubscriptionGroups => objects(
            json!({
                "subscription_group_id": text(1, MAX_TEXT),
                "subscription_state": or_empty(json!({ "enum": check::GROUP_STATES })),
            }),
            &["subscription_group_id", "subscription_state"],
        ),
        Field::CurrentLocation => json!({
            "type": "object",
            "properties": { "longitude": degrees(180), "latitude": degrees(90) },
            "required": ["longitude", "latitude"],
        }),
        Field::DateOfFirstSession | Field::DateOfLastSession => {
            json!(generator.subschema_for::<Time>())
        }
    })
}

/// Any JSON, stored unchanged; null removes the attribute. An object with only `inc`, `add` (or
/// `$add`) or `remove` changes the stored value instead: it adds a number, adds elements to an
/// array, or removes elements. `add` and `remove` can be together. Within a value, an object with
/// the single field `$time` stands for that time. `$remove`, `$update` and other operators on
/// arrays of objects are rejected.
#[derive(JsonSchema)]
struct CustomAttribute(#[schemars(schema_with = "custom_attribute")] ());

fn custom_attribute(generator: &mut SchemaGenerator) -> Schema {
    let elements = json!({ "type": "array", "items": generator.subschema_for::<Json>() });
    schemars::json_schema!({
        "allOf": [generator.subschema_for::<Json>()],
        "if": {
            "type": "object", "minProperties": 1,
            "propertyNames": { "enum": ["inc", "add", "$add", "remove"] },
        },
        "then": {
            "anyOf": [
                { "maxProperties": 1 },
                {
                    "required": ["remove"], "maxProperties": 2,
                    "propertyNames": { "enum": ["add", "$add", "remove"] },
                },
            ],
            "properties": {
                "inc": { "type": "number" }, "add": elements, "$add": elements,
                "remove": elements,
            },
        },
    })
}

/// A field of an event or a purchase: its parser and its description.
pub(super) struct Member {
    pub name: &'static str,
    is_required: bool,
    about: &'static str,
    schema: fn(&mut SchemaGenerator) -> Value,
}

const fn required(
    name: &'static str,
    about: &'static str,
    schema: fn(&mut SchemaGenerator) -> Value,
) -> Member {
    Member { name, is_required: true, about, schema }
}

const fn optional(
    name: &'static str,
    about: &'static str,
    schema: fn(&mut SchemaGenerator) -> Value,
) -> Member {
    Member { name, is_required: false, about, schema }
}

fn name_schema(_: &mut SchemaGenerator) -> Value {
    text(1, MAX_TEXT)
}

pub(super) const NAME: Member = required("name", "", name_schema);
pub(super) const TIME: Member =
    required("time", "", |generator| json!(generator.subschema_for::<Time>()));
pub(super) const APP_ID: Member = optional("app_id", "", |_| or_null(text(0, MAX_TEXT)));
pub(super) const PRODUCT_ID: Member = required(
    "product_id",
    "The name or category of a product, or the name of an order.",
    name_schema,
);
pub(super) const CURRENCY: Member =
    required("currency", "An active ISO 4217 code.", |_| json!({ "enum": *CURRENCIES }));
pub(super) const PRICE: Member = required(
    "price",
    "Price of one unit, in the currency's base unit. A decimal, rounded half to even to six \
     decimal places. Price times quantity must also be below the maximum.",
    |_| json!({ "type": "number", "minimum": 0, "exclusiveMaximum": LIMIT / MILLION }),
);
pub(super) const QUANTITY: Member = optional(
    "quantity",
    "",
    |_| json!({ "type": ["integer", "null"], "minimum": 1, "maximum": MAX_QUANTITY, "default": 1 }),
);
/// The field that both have, each with its own reserved names.
pub(super) const PROPERTIES: &str = "properties";
const EVENT_PROPERTIES: Member = optional(PROPERTIES, "", |generator| properties(&[], generator));
const PURCHASE_PROPERTIES: Member =
    optional(PROPERTIES, "", |generator| properties(RESERVED_ON_PURCHASES, generator));

/// An object of one user with these fields.
fn object(members: &[Member], generator: &mut SchemaGenerator) -> Schema {
    let identified = generator.subschema_for::<Identified>();
    let properties = members.iter().map(|member| {
        let mut schema = (member.schema)(generator);
        if !member.about.is_empty() {
            schema["description"] = member.about.into();
        }
        (member.name.to_owned(), schema)
    });
    let properties: Map<String, Value> = properties.collect();
    let required = members.iter().filter(|member| member.is_required);
    let required: Vec<&str> = required.map(|member| member.name).collect();
    schemars::json_schema!({
        "type": "object", "allOf": [identified], "properties": properties, "required": required,
    })
}

/// Something that a user did. A time in the future counts as now.
#[derive(JsonSchema)]
pub(super) struct EventObject(#[schemars(schema_with = "event")] ());

fn event(generator: &mut SchemaGenerator) -> Schema {
    object(&[NAME, TIME, APP_ID, EVENT_PROPERTIES], generator)
}

/// One purchase by one user. A quantity of n counts as n purchases.
#[derive(JsonSchema)]
pub(super) struct PurchaseObject(#[schemars(schema_with = "purchase")] ());

fn purchase(generator: &mut SchemaGenerator) -> Schema {
    let members = [PRODUCT_ID, CURRENCY, PRICE, QUANTITY, TIME, APP_ID, PURCHASE_PROPERTIES];
    let mut schema = object(&members, generator);
    // A limit that keeps the product below the maximum.
    let several = json!({
        "properties": { QUANTITY.name: { "type": "integer", "exclusiveMinimum": 1 } },
        "required": [QUANTITY.name],
    });
    let below = LIMIT / MILLION / i64::from(MAX_QUANTITY);
    schema.insert("if".into(), several);
    schema.insert(
        "then".into(),
        json!({ "properties": { PRICE.name: { "exclusiveMaximum": below } } }),
    );
    schema
}

/// All accepted currency codes.
static CURRENCIES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let letters = || 'A'..='Z';
    let pairs = letters().flat_map(|a| letters().map(move |b| (a, b)));
    let codes = pairs.flat_map(|(a, b)| letters().map(move |c| format!("{a}{b}{c}")));
    codes.filter(|code| money::check_currency(code).is_ok()).collect()
});

/// The properties of an event or a purchase, without those whose names are reserved.
fn properties(reserved: &[&str], generator: &mut SchemaGenerator) -> Value {
    let json = generator.subschema_for::<Json>();
    let mut names = text(1, MAX_TEXT);
    names["pattern"] = r"^[^$\u0000][^\u0000]*$".into();
    if !reserved.is_empty() {
        names["not"] = json!({ "enum": reserved });
    }
    json!({
        "type": ["object", "null"],
        "description": format!(
            "Strings can have at most {MAX_TEXT} characters, except in arrays and objects. If \
             there are arrays or objects, all properties together can have at most \
             {MAX_NESTED_BYTES} bytes of JSON. Arrays must not contain datetimes, at any depth. \
             Null values are ignored.",
        ),
        "propertyNames": names,
        "additionalProperties": { "anyOf": [
            text(0, MAX_TEXT),
            { "type": ["number", "boolean", "null"] },
            { "type": "array", "items": json },
            { "type": "object", "propertyNames": { "pattern": NO_NUL }, "additionalProperties": json },
        ] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_states_the_maximum_of_levels() {
        let schema = schemars::schema_for!(Json);
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        assert!(about.contains(&format!("{MAX_LEVELS} levels")), "{about}");
    }
}

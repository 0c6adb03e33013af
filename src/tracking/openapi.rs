//! `POST /users/track` as it is described.

use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::attributes::REFUSED;
use super::intake::{Answer, LeftOut, MOST_OBJECTS, NOTHING_VALID, TOO_MANY};
use super::object::IDENTIFIERS;
use super::properties::{MAX_NESTED_BYTES, RESERVED_ON_PURCHASES};
use super::values::MOST_QUANTITY;
use super::{Kind, api::PERMISSION};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{
    Email, Identifier, Json, NO_NUL, Time, UserAlias, error_with, or_null, saying, shape, text,
};
use crate::gateway::{Access, ApiError, Operation};
use crate::users::profile::{Field, MAX_BYTES, MAX_TEXT, check, codes};
use kit::money;
use kit::money::MILLION;

const TAG: Tag = Tag { name: "Tracking", about: "What customers' servers say about their users." };

pub(super) fn track() -> Operation {
    let nothing = ApiError::InvalidMany(
        NOTHING_VALID.into(),
        vec![json!({ "type": "price: is negative", "input_array": "purchases", "index": 0 })],
    );
    Operation::new(Method::POST, "track", TAG, "Take in attributes, events and purchases")
        .by(Access::Key(PERMISSION))
        .about(
            "Objects are checked one by one: those that are valid are taken, the others are left \
             out and told. They are applied in this order: attributes, events, purchases, each \
             array from its beginning.\n\nAnswered once everything that was taken is durable; it \
             is applied soon after. After a 503 some of it may have been taken: send it again \
             under the same `Idempotency-Key`.",
        )
        .repeatable()
        .takes::<TrackRequest>([("Attributes, an event and a purchase", example())])
        .answers::<Answer>(
            StatusCode::CREATED,
            "Everything that is valid was taken.",
            json!({
                "message": "success", "attributes_processed": 1, "purchases_processed": 2,
                "errors": [
                    { "type": "price: is negative", "input_array": "purchases", "index": 1 },
                ],
            }),
        )
        .refuses(&nothing, "No object is valid, or there is none")
        .refuses(&ApiError::Invalid(TOO_MANY.into()), "An array has too many objects")
        .refuses_in::<TrackError>(StatusCode::BAD_REQUEST)
}

fn example() -> Value {
    json!({
        "attributes": [
            { "external_id": "ann", "email": "ann@example.com", "loyalty_tier": "gold",
              "visits": { "inc": 1 } },
        ],
        "events": [
            { "external_id": "ann", "name": "viewed_product", "time": "2026-11-21T08:00:00Z" },
        ],
        "purchases": [
            { "external_id": "ann", "product_id": "shoes", "currency": "EUR", "price": 59.9,
              "quantity": 2, "time": "2026-11-21T08:05:00+01:00",
              "properties": { "size": 42, "colour": "blue" } },
        ],
    })
}

shape! {
    /// Three arrays, of which one has a valid object.
    TrackRequest = |generator| {
        let arrays = [
            (Kind::Attributes, generator.subschema_for::<AttributeObject>()),
            (Kind::Events, generator.subschema_for::<EventObject>()),
            (Kind::Purchases, generator.subschema_for::<PurchaseObject>()),
        ];
        let left_out = json!({ "description": "Anything else is left out, and told in `errors`." });
        let properties = arrays.iter().map(|(kind, object)| {
            let array = json!({
                "type": ["array", "null"], "maxItems": MOST_OBJECTS,
                "items": { "anyOf": [object, left_out] },
            });
            (kind.name().to_owned(), array)
        });
        let one_is_valid = arrays.iter().map(|(kind, object)| json!({
            "required": [kind.name()],
            "properties": { kind.name(): { "type": "array", "contains": object } },
        }));
        json!({
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "anyOf": one_is_valid.collect::<Vec<_>>(),
        })
    }
}

shape! {
    /// What is wrong, and with which objects.
    TrackError = |generator| error_with::<LeftOut>(generator)
}

shape! {
    /// The first of `external_id`, `service_id`, `user_alias` and `email` that is there decides
    /// who is meant. The others identify nobody, and are not looked at.
    Identified = |generator| {
        let kinds = [
            json!(generator.subschema_for::<Identifier>()),
            json!({ "type": "string", "format": "uuid" }),
            json!(generator.subschema_for::<UserAlias>()),
            json!(generator.subschema_for::<Email>()),
        ];
        let decides = (0..IDENTIFIERS.len()).map(|at| {
            let stronger = IDENTIFIERS[..at].iter().map(|name| {
                ((*name).to_owned(), json!({ "type": "null" }))
            });
            let this = (IDENTIFIERS[at].to_owned(), kinds[at].clone());
            json!({
                "required": [IDENTIFIERS[at]],
                "properties": stronger.chain([this]).collect::<Map<_, _>>(),
            })
        });
        json!({
            "type": "object",
            "properties": { "_update_existing_only": {
                "type": ["boolean", "null"],
                "description": "Whether nobody is made; always so of a user who is named by \
                                `user_alias` or `service_id`.",
            } },
            "anyOf": decides.collect::<Vec<_>>(),
        })
    }
}

shape! {
    /// What is written of a user. Names that the service knows are fields of the profile, all
    /// others are custom attributes. Null and an empty text remove a field. At most 1 MiB.
    AttributeObject = |generator| {
        const { assert!(MAX_BYTES == 1 << 20) };
        let identified = generator.subschema_for::<Identified>();
        let mut object = attributes(&json!(true), generator);
        object["allOf"] = json!([identified]);
        object
    }
}

shape! {
    /// What is written of a user who is named beside it: the same as an object of `attributes` of
    /// `POST /users/track`, without what says who is meant.
    pub(crate) AttributesBeside = |generator| {
        attributes(&saying("Cannot be set.", json!({ "type": "null" })), generator)
    }
}

/// What attributes can be; what says who is meant is of this schema.
fn attributes(who: &Value, generator: &mut SchemaGenerator) -> Value {
    let custom = generator.subschema_for::<CustomAttribute>();
    let mut properties = Map::new();
    for field in Field::ALL.iter().filter(|field| !is_identifier(**field)) {
        if let Some(schema) = field_schema(*field, generator) {
            let removed = json!({ "enum": [null, ""] });
            properties.insert(field.name().into(), json!({ "anyOf": [schema, removed] }));
        }
    }
    for name in REFUSED {
        let refused = saying("Cannot be set.", json!({ "type": "null" }));
        properties.insert((*name).into(), refused);
    }
    let custom_attributes = json!({
        "type": ["object", "null"], "propertyNames": text(1, MAX_TEXT),
        "additionalProperties": custom,
    });
    let about = "Custom attributes, as if they were members of the attribute object.";
    properties.insert("custom_attributes".into(), saying(about, custom_attributes));
    for name in IDENTIFIERS.iter().filter(|name| **name != "email") {
        properties.insert((*name).into(), who.clone());
    }
    properties.insert("_update_existing_only".into(), who.clone());
    json!({
        "type": "object",
        "properties": properties,
        "propertyNames": text(1, MAX_TEXT),
        "additionalProperties": custom,
    })
}

fn is_identifier(field: Field) -> bool {
    matches!(field, Field::ExternalId | Field::ServiceId)
}

/// What a field of the profile may be set to; none of those that are told otherwise.
fn field_schema(field: Field, generator: &mut SchemaGenerator) -> Option<Value> {
    let matching = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let one_of = |codes: &mut dyn Iterator<Item = &'static str>| json!({ "type": "string", "enum": codes.collect::<Vec<_>>() });
    let objects = |properties: Value, required: &[&str]| {
        json!({ "type": "array", "items": {
            "type": "object", "properties": properties, "required": required,
        } })
    };
    let degrees =
        |most: u32| json!({ "type": "number", "minimum": -i64::from(most), "maximum": most });
    Some(match field {
        Field::ServiceId
        | Field::ExternalId
        | Field::UserAliases
        | Field::RandomBucket
        | Field::CreatedAt
        | Field::CustomAttributes
        | Field::Apps
        | Field::Devices
        | Field::UninstalledAt => return None,
        Field::Email => json!(generator.subschema_for::<Email>()),
        Field::Phone => saying("E.164.", matching(r"^\+[1-9][0-9]{6,14}$")),
        Field::FirstName
        | Field::LastName
        | Field::HomeCity
        | Field::AttributedCampaign
        | Field::AttributedSource
        | Field::AttributedAdgroup
        | Field::AttributedAd => text(0, MAX_TEXT),
        Field::Gender => json!({
            "enum": check::GENDERS,
            "description": "Male, female, other, not applicable, prefer not to say; `nil` removes.",
        }),
        Field::Dob => json!({ "type": "string", "format": "date" }),
        Field::Country => saying("ISO 3166-1 alpha-2.", one_of(&mut codes::countries())),
        Field::Language => saying("ISO 639-1.", one_of(&mut codes::languages())),
        Field::TimeZone => json!({
            "type": "string", "format": "iana-time-zone", "examples": ["Europe/Oslo"],
            "description": "A name of the IANA time zone database.",
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
                "subscription_state": { "enum": check::GROUP_STATES },
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

shape! {
    /// Any JSON, kept as it is; null removes the attribute. An object of one member `inc`, `add`
    /// or `remove` changes the value that is there instead: adds a number, adds elements to an
    /// array, or removes them.
    CustomAttribute = |generator| {
        let elements = json!({ "type": "array", "items": generator.subschema_for::<Json>() });
        json!({
            "allOf": [generator.subschema_for::<Json>()],
            "if": {
                "type": "object", "minProperties": 1,
                "propertyNames": { "enum": ["inc", "add", "remove"] },
            },
            "then": {
                "maxProperties": 1,
                "properties": {
                    "inc": { "type": "number" }, "add": elements, "remove": elements,
                },
            },
        })
    }
}

shape! {
    /// Something that a user did. A time that is still to come counts as now.
    EventObject = |generator| {
        let properties = properties(&[], generator);
        json!({
            "type": "object",
            "allOf": [generator.subschema_for::<Identified>()],
            "properties": {
                "name": text(1, MAX_TEXT),
                "time": generator.subschema_for::<Time>(),
                "app_id": or_null(text(0, MAX_TEXT)),
                "properties": properties,
            },
            "required": ["name", "time"],
        })
    }
}

shape! {
    /// One purchase by one user. A quantity counts as so many purchases of one.
    PurchaseObject = |generator| {
        let most = i64::MAX / MILLION;
        let properties = properties(RESERVED_ON_PURCHASES, generator);
        let price = |below: i64| json!({ "properties": { "price": { "exclusiveMaximum": below } } });
        json!({
            "type": "object",
            "allOf": [generator.subschema_for::<Identified>()],
            "properties": {
                "product_id": saying(
                    "A product's name or category, or a name of an order.", text(1, MAX_TEXT),
                ),
                "currency": { "enum": *CURRENCIES, "description": "An active code of ISO 4217." },
                "price": {
                    "type": "number", "minimum": 0, "exclusiveMaximum": most,
                    "description": "Of one, in the currency's base unit. A decimal; digits past \
                                    the sixth after the point are rounded, half to even. Price \
                                    times quantity is below the maximum, too.",
                },
                "quantity": {
                    "type": ["integer", "null"], "minimum": 1, "maximum": MOST_QUANTITY,
                    "default": 1,
                },
                "time": generator.subschema_for::<Time>(),
                "app_id": or_null(text(0, MAX_TEXT)),
                "properties": properties,
            },
            "required": ["product_id", "currency", "price", "time"],
            // On the safe side of what the product may be.
            "if": {
                "properties": { "quantity": { "type": "integer", "exclusiveMinimum": 1 } },
                "required": ["quantity"],
            },
            "then": price(most / i64::from(MOST_QUANTITY)),
        })
    }
}

/// Every code that is taken.
static CURRENCIES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let letters = || 'A'..='Z';
    let pairs = letters().flat_map(|a| letters().map(move |b| (a, b)));
    let codes = pairs.flat_map(|(a, b)| letters().map(move |c| format!("{a}{b}{c}")));
    codes.filter(|code| money::check_currency(code).is_ok()).collect()
});

/// The properties of an event or a purchase.
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
            "Strings have at most {MAX_TEXT} characters, but for those in arrays and objects; \
             where there are any of these, all properties have at most {MAX_NESTED_BYTES} bytes \
             as JSON. No array has a date with a time in it, at any depth. What is null is left \
             out.",
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

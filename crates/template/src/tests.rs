//! Tests of the language, its errors, and its limits.

mod bounds;
mod filters;
mod golden;
mod language;
mod properties;
mod sources;

use serde_json::{Map, Value, json};

use super::*;

/// 2026-11-21T08:05:07.250Z.
const NOW: i64 = 1_795_248_307_250;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn profile() -> Map<String, Value> {
    object(json!({
        "external_id": "ann",
        "service_id": "019a9f3e-7c11-7d22-8e33-9f44a055b166",
        "email": "ann@example.com",
        "phone": "+15550100",
        "first_name": "Ann",
        "gender": "F",
        "dob": "1990-05-17",
        "country": "NO",
        "language": "en",
        "time_zone": "Europe/Oslo",
        "home_city": "Oslo",
        "random_bucket": 4711,
        "last_coordinates": [10.75, 59.9],
        "custom_attributes": {
            "visits": 12, "score": 3.5, "is_vip": true, "is_new": false, "nothing": null,
            "fruits": ["kiwi", "Apple", "plum"], "numbers": [3, 1, 2], "empty": "", "none": [], "huge": 1e308,
            "name with spaces": "spaces", "a-b": "hyphen", "a.b": "dots", "it's \"q\"": "quotes",
            "size": "XL",
            "pets": [{ "name": "Rex", "legs": 4 }, { "name": "Tweety", "legs": 2 }],
            "address": { "city": "Bergen", "geo": { "lat": 60.4 } },
        },
    }))
}

/// The names that templates can use here.
const NAMES: Names<'static> = Names {
    fields: &[
        "external_id",
        "service_id",
        "email",
        "phone",
        "first_name",
        "last_name",
        "gender",
        "dob",
        "country",
        "language",
        "time_zone",
        "home_city",
        "last_coordinates",
    ],
    alias: Some(("crm_id", "service_id")),
    objects: &[
        Object { name: "custom_attribute", members: MemberNames::Any },
        Object { name: "event_properties", members: MemberNames::Any },
        Object { name: "campaign", members: MemberNames::Named(&["name", "api_id"]) },
    ],
    blocks: None,
    sources: None,
    is_open: false,
};

/// A user, and the event that triggered the message.
#[derive(Default)]
struct Sample {
    profile: Map<String, Value>,
    event: Map<String, Value>,
}

impl Data for Sample {
    fn field(&self, name: &str) -> View<'_> {
        self.profile.get(name).into()
    }

    fn object(&self, name: &str) -> View<'_> {
        match name {
            "custom_attribute" => self.profile.get("custom_attributes").into(),
            "event_properties" => View::Object(&self.event),
            "campaign" => View::Members(vec![("name", View::Text("Spring"))]),
            _ => View::Nothing,
        }
    }
}

fn sample() -> Sample {
    let event = object(json!({ "price": 9.99, "products": [{ "name": "Tea" }] }));
    Sample { profile: profile(), event }
}

fn parse(source: &str) -> Result<Template, TemplateError> {
    Template::parse(source, &NAMES)
}

/// Renders for [`sample`].
fn try_render(source: &str) -> Result<String, Stop> {
    let template = parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    template.render(&sample(), NOW)
}

/// The mistake in a template that renders anyway.
fn mistake(source: &str) -> Option<String> {
    parse(source).unwrap().mistake().map(ToString::to_string)
}

fn render(source: &str) -> String {
    try_render(source).unwrap_or_else(|stop| panic!("{source}: {stop:?}"))
}

fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(render(source), *expected, "{source}");
    }
}

fn failure(source: &str) -> String {
    match try_render(source) {
        Err(Stop::Failed(text)) => text,
        other => panic!("{:.100}: {other:?}", source),
    }
}

fn error(source: &str) -> String {
    match parse(source) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{source:.100} parses"),
    }
}

/// The page of the reference about templates.
const PAGE: &str = include_str!("../../../docs/reference/templates.md");

#[test]
fn the_documentation_names_every_filter_and_every_limit() {
    for filter in super::filters::FILTERS {
        assert!(PAGE.contains(&format!("`{}`", filter.name)), "{}", filter.name);
    }
    let bounds = [
        (MAX_SOURCE as u64, "the source of a template | {} bytes"),
        (MAX_NESTING as u64, "nested blocks | {} levels"),
        (expression::MAX_INDEXES as u64, "nested indexes and ranges | {} levels"),
        (expression::MAX_FILTERS as u64, "filters on one value | {} |"),
        (MAX_STEPS, "bytes read or written | {} |"),
        (MAX_OUTPUT as u64, "output, including captures | {} bytes"),
        (MAX_CREATED as u64, "intermediate results of filters, captures and arrays | {} bytes"),
        (MAX_TIME.as_secs(), "processor time | {} second"),
        (MAX_EXTRAS as u64, "`message_extras` | {} bytes"),
        (MAX_BLOCKS as u64, "nested content blocks | {} levels"),
        (MAX_BLOCK_BYTES as u64, "content blocks of a template, counted at each use | {} bytes"),
        (MAX_ITEMS as u64, "items of one `catalog_items` | {} |"),
    ];
    for (bound, row) in bounds {
        let number = kit::words::count(bound, "").trim_end_matches([' ', 's']).to_owned();
        assert!(PAGE.contains(&row.replace("{}", &number)), "{row} {number}");
    }
}

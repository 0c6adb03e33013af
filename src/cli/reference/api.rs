//! Sections of the pages in `docs/reference/api` that come from the API document. A page has the
//! prose around them, and marks each section: `<!-- generated: fields requestExport -->`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::cell;
use crate::config::Config;

const BEGIN: &str = "<!-- generated: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end of generated -->";

/// Types with a section of their own in the book.
const LINKS: [(&str, &str); 7] = [
    ("Time", "[time](times.md)"),
    ("ConnectedAudience", "[connected audience](audiences.md)"),
    ("Messages", "[message objects](message-objects.md)"),
    ("AttributesBeside", "[attributes](track.md#attribute-objects)"),
    ("AttributeObject", "[attribute objects](track.md#attribute-objects)"),
    ("EventObject", "[event objects](track.md#event-objects)"),
    ("PurchaseObject", "[purchase objects](track.md#purchase-objects)"),
];

/// Levels of objects in objects that a table shows.
const DEPTH: usize = 3;

/// Values of an enumeration that a table shows.
const VALUES: usize = 12;

/// The API's document, with default settings.
pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| crate::routes(None).document(&Config::default()));

/// A page with its generated sections as the code has them now.
///
/// # Errors
///
/// If a section has no end marker, or refers to a part that the document does not have.
pub fn renewed(page: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (marker, after) = after.split_once(BEGIN_END).ok_or("a section has no name")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("{marker} has no end"))?;
        let section =
            section(marker).ok_or_else(|| format!("{marker} is not in the API document"))?;
        let _ = write!(out, "{before}{BEGIN}{marker}{BEGIN_END}\n\n{section}\n{END}");
        rest = after;
    }
    Ok(out + rest)
}

fn section(marker: &str) -> Option<String> {
    let (kind, name) = marker.split_once(' ')?;
    match kind {
        "comparisons" => Some(comparisons(field_schema("ConnectedAudience", name)?)),
        "example" => example(operation(name)?.1),
        "fields" => table(schema_of_request(name)?, REQUEST),
        "message" => table(field_schema("Messages", name)?, REQUEST),
        "parameters" => Some(parameters(operation(name)?.1)),
        "response" => {
            // Optionally with the status.
            let (name, status) = name.split_once(' ').unwrap_or((name, "2"));
            table(schema_of_response(operation(name)?.1, status)?, RESPONSE)
        }
        "statuses" => Some(statuses(operation(name)?.1)),
        _ => None,
    }
}

fn operations() -> impl Iterator<Item = (&'static String, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().into_iter().flat_map(Map::values);
    paths.filter_map(Value::as_object).flat_map(Map::iter)
}

fn operation(id: &str) -> Option<(&'static String, &'static Value)> {
    operations().find(|(_, operation)| operation["operationId"] == id)
}

/// The schema of an operation's body, or the one of that name.
fn schema_of_request(name: &str) -> Option<&'static Value> {
    match operation(name) {
        Some((_, operation)) => Some(&content(&operation["requestBody"])?["schema"]),
        None => DOCUMENT["components"]["schemas"].get(name),
    }
}

/// The schema of a type's field. If it has alternatives, the first one; the others accept anything
/// or null.
fn field_schema(name: &str, field: &str) -> Option<&'static Value> {
    let field = DOCUMENT["components"]["schemas"][name]["properties"].get(field)?;
    elements(&field["anyOf"]).next().or(Some(field))
}

/// The comparisons of a condition, those with the same operand in one row.
fn comparisons(condition: &Value) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for test in elements(&condition["anyOf"]) {
        let Value::Object(test) = &test["properties"] else { continue };
        let operand = match &test["value"] {
            none if none["type"] == "null" => "none".to_owned(),
            operand => {
                let kind = kind(operand, false);
                let text = [sentence(operand), limits(operand)].join(" ");
                if text == " " { kind } else { format!("{kind}. {}", text.trim()) }
            }
        };
        let name = code(&test["comparison"]["const"]);
        match rows.iter_mut().find(|(known, _)| *known == operand) {
            Some((_, names)) => names.push(name),
            None => rows.push((operand, vec![name])),
        }
    }
    let mut out = "| `comparison` | `value` |\n|---|---|\n".to_owned();
    for (operand, names) in rows {
        let _ = writeln!(out, "| {} | {} |", names.join(", "), cell(operand.trim()));
    }
    out
}

fn schema_of_response<'a>(operation: &'a Value, status: &str) -> Option<&'a Value> {
    let responses = operation["responses"].as_object()?;
    let (_, response) = responses.iter().find(|(name, _)| name.starts_with(status))?;
    Some(&content(resolved(response))?["schema"])
}

fn content(value: &Value) -> Option<&Value> {
    value["content"].as_object()?.values().next()
}

fn resolved(value: &Value) -> &Value {
    let pointer = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    pointer.and_then(|pointer| DOCUMENT.pointer(pointer)).unwrap_or(value)
}

fn example(operation: &Value) -> Option<String> {
    let source = operation["x-codeSamples"][0]["source"].as_str()?;
    Some(format!("```sh\n{source}\n```\n"))
}

fn parameters(operation: &Value) -> String {
    let mut out = "| Parameter | Type | Description |\n|---|---|---|\n".to_owned();
    for parameter in
        elements(&operation["parameters"]).filter(|parameter| parameter["in"] != "header")
    {
        let Some(name) = parameter["name"].as_str() else { continue };
        let required = if parameter["required"] == true { ", required" } else { "" };
        let schema = &parameter["schema"];
        let text = [sentence(parameter), limits(schema)].join(" ");
        let (kind, text) = (kind(schema, false), cell(text.trim()));
        let _ = writeln!(out, "| `{name}` | {kind}{required} | {text} |");
    }
    out
}

/// The statuses of an operation, without the errors that most operations have.
fn statuses(operation: &Value) -> String {
    let mut out = "| Status | `code` | When |\n|---|---|---|\n".to_owned();
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let response = resolved(response);
        if status.starts_with(['2', '3']) {
            let _ = writeln!(out, "| {status} | | {} |", cell(&sentence(response)));
        }
        let mut rows: Vec<String> = Vec::new();
        for (when, code) in cases(response) {
            let row = format!("| {status} | `{code}` | {} |\n", cell(when));
            if !is_common(status, when) && !rows.contains(&row) {
                rows.push(row);
            }
        }
        out += &rows.concat();
    }
    out
}

/// When a refusal is returned, and its code.
fn cases(response: &Value) -> impl Iterator<Item = (&str, &str)> {
    let examples = content(response).and_then(|content| content["examples"].as_object());
    examples.into_iter().flat_map(Map::values).filter_map(|example| {
        Some((example["summary"].as_str()?, example["value"]["code"].as_str()?))
    })
}

fn is_common(status: &str, when: &str) -> bool {
    let has_case = |operation: &Value| {
        let mut cases = cases(resolved(&operation["responses"][status]));
        cases.any(|(other, _)| other == when)
    };
    let (all, with) = operations().fold((0, 0), |(all, with), (_, operation)| {
        let has_body = operation.get("requestBody").is_some();
        (all + usize::from(has_body), with + usize::from(has_body && has_case(operation)))
    });
    2 * with >= all
}

fn table(schema: &Value, presences: Presences) -> Option<String> {
    let mut rows = String::new();
    fields(&mut rows, schema, presences, "", DEPTH);
    let head = "| Field | Type | Description |\n|---|---|---|\n";
    (!rows.is_empty()).then(|| head.to_owned() + &rows)
}

/// Whether a field is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    Always,
    /// In one of several forms of the object.
    Alternative,
    Optional,
}

/// What follows a type, for each [`Presence`].
type Presences = [&'static str; 3];

const REQUEST: Presences = [", required", ", alternative", ""];
const RESPONSE: Presences = ["", ", optional", ", optional"];

/// A field of an object.
type Field<'a> = (&'a String, &'a Value, Presence);

/// A row for each field of an object, and of the objects in it.
fn fields(rows: &mut String, schema: &Value, presences: Presences, path: &str, depth: usize) {
    let mut found: Vec<Field<'_>> = Vec::new();
    gather(&mut found, resolved(schema), false);
    found.sort_by_key(|(_, _, presence)| *presence);
    for (name, field, presence) in found {
        let text = [sentence(field), limits(field)].join(" ");
        let (kind, text) = (kind(field, false), cell(text.trim()));
        let _ =
            writeln!(rows, "| `{path}{name}` | {kind}{} | {text} |", presences[presence as usize]);
        let (inner, path) = match &some(field)["items"] {
            Value::Null => (field, format!("{path}{name}.")),
            element => (element, format!("{path}{name}[].")),
        };
        if depth > 1 && link(inner).is_none() {
            fields(rows, some(inner), presences, &path, depth - 1);
        }
    }
}

/// The fields of an object, of all its parts, and of the forms of which it has one.
fn gather<'a>(found: &mut Vec<Field<'a>>, schema: &'a Value, is_alternative: bool) {
    let requires =
        |schema: &Value, name: &str| elements(&schema["required"]).any(|required| required == name);
    let alternatives =
        |schema: &'a Value| elements(&schema["anyOf"]).chain(elements(&schema["oneOf"]));
    // Conditions on the fields: one list of alternatives, or several.
    let several = || elements(&schema["if"]["allOf"]).flat_map(alternatives);
    let forms =
        || alternatives(schema).chain(alternatives(&schema["if"])).chain(several()).map(resolved);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let presence = if requires(schema, name) {
            if is_alternative { Presence::Alternative } else { Presence::Always }
        } else if forms().any(|form| requires(form, name)) {
            Presence::Alternative
        } else {
            Presence::Optional
        };
        // `null` alone excludes a field from a form.
        if field["type"] != "null" && !found.iter().any(|(known, _, _)| *known == name) {
            found.push((name, field, presence));
        }
    }
    for part in elements(&schema["allOf"]) {
        gather(found, resolved(part), is_alternative);
    }
    for form in forms() {
        gather(found, form, true);
    }
}

/// A schema without null.
fn some(schema: &Value) -> &Value {
    let schema = resolved(schema);
    let is_something = |form: &&Value| form["type"] != "null" && **form != json!({});
    let mut forms = elements(&schema["anyOf"]).filter(is_something);
    match (forms.next(), forms.next()) {
        (Some(form), None) if schema.get("properties").is_none() => resolved(form),
        _ => schema,
    }
}

fn link(schema: &Value) -> Option<&'static str> {
    let forms = elements(&schema["anyOf"]).chain([schema]);
    let fits = |schema: &Value, name: &str| {
        let known = &DOCUMENT["components"]["schemas"][name];
        let own = &schema["properties"];
        let reference = format!("#/components/schemas/{name}");
        schema["$ref"] == reference || (own.is_object() && *own == known["properties"])
    };
    let mut forms = forms.flat_map(|form| LINKS.iter().map(move |link| (form, link)));
    forms.find(|(form, (name, _))| fits(form, name)).map(|(_, (_, link))| *link)
}

fn kind(schema: &Value, is_many: bool) -> String {
    if let Some(link) = link(schema) {
        return link.to_owned();
    }
    let schema = some(schema);
    let mut kinds: Vec<String> = Vec::new();
    let mut add = |kind: String| {
        if !kind.is_empty() && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    };
    let plural = if is_many { "s" } else { "" };
    let named = match &schema["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        name => Vec::from_iter(name.as_str()),
    };
    for name in named {
        match name {
            "null" => {}
            "array" => add(format!("array{plural} of {}", kind(&schema["items"], true))),
            "integer" => add(format!("whole number{plural}")),
            "string" => match schema["format"].as_str() {
                Some("uuid") => add(format!("UUID{plural}")),
                Some("date-time") => add(format!("date{plural} and time{plural}")),
                _ => add(format!("string{plural}")),
            },
            other => add(format!("{other}{plural}")),
        }
    }
    if kinds.is_empty() {
        for form in elements(&schema["anyOf"]).chain(elements(&schema["allOf"])) {
            let form = kind(form, is_many);
            if !form.starts_with("anything") && !kinds.contains(&form) {
                kinds.push(form);
            }
        }
    }
    if kinds.is_empty() {
        let values = elements(&schema["enum"]);
        let is_text = schema.get("pattern").is_some() || values.clone().any(Value::is_string);
        let is_object = schema["properties"].is_object();
        kinds.push(match (is_text, is_object) {
            (true, _) => format!("string{plural}"),
            (_, true) => format!("object{plural}"),
            _ => "anything".to_owned(),
        });
    }
    kinds.join(" or ")
}

/// A description in one line that ends as a sentence does.
fn sentence(schema: &Value) -> String {
    let own = schema["description"].as_str();
    let text = own.or_else(|| match link(schema) {
        Some(_) => None,
        None => some(schema)["description"].as_str(),
    });
    let text = text.unwrap_or_default().replace('\n', " ");
    let ends = text.is_empty() || text.ends_with(['.', '!', '?']);
    if ends { text } else { text + "." }
}

/// What values may be, in words.
fn limits(schema: &Value) -> String {
    let mut texts = Vec::new();
    let default = &schema["default"];
    if link(schema).is_none() {
        let schema = some(schema);
        let values: Vec<_> = elements(&schema["enum"]).filter(|value| !value.is_null()).collect();
        if (1..=VALUES).contains(&values.len()) {
            let values: Vec<_> = values.iter().map(|value| code(value)).collect();
            let one_of = if values.len() == 1 { "Always" } else { "One of" };
            texts.push(format!("{one_of} {}.", values.join(", ")));
        }
        for (min, max, unit) in [
            ("minLength", "maxLength", " characters"),
            ("minItems", "maxItems", " elements"),
            ("minimum", "maximum", ""),
        ] {
            let min = schema[min].as_f64().filter(|min| *min > 0.0 || unit.is_empty());
            texts.extend(match (min, schema[max].as_f64()) {
                (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}.")),
                (Some(1.0), None) => Some(format!("At least 1{}.", unit.trim_end_matches('s'))),
                (Some(min), None) => Some(format!("At least {min}{unit}.")),
                (None, Some(max)) => Some(format!("At most {max}{unit}.")),
                (None, None) => None,
            });
        }
        if let Some(below) = schema["exclusiveMaximum"].as_f64() {
            texts.push(format!("Below {below}."));
        }
    }
    if !default.is_null() {
        texts.push(format!("Default: {}.", code(default)));
    }
    texts.join(" ")
}

fn code(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> + Clone {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}

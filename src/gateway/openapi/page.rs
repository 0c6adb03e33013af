//! The document as a page of HTML: no script, nothing from elsewhere.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const STYLE: &str = include_str!("page.css");

/// Values of an enumeration that are shown; of longer ones the rest is counted.
const MOST_VALUES: usize = 30;

/// The page. What the document does not have is left out.
pub(super) fn page(document: &Value) -> String {
    let page = Page { document };
    let title = page.document["info"]["title"].as_str().unwrap_or_default();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<nav><h1>{title}</h1>\n"
    );
    page.contents(&mut out);
    out.push_str("</nav>\n<main>\n");
    out.push_str(&prose(&page.document["info"]["description"]));
    out.push_str("<p><a href=\"/openapi.json\">This document as OpenAPI 3.1</a></p>\n");
    page.security(&mut out);
    page.operations(&mut out);
    page.schemas(&mut out);
    out.push_str("</main>\n</html>\n");
    out
}

struct Page<'a> {
    document: &'a Value,
}

impl Page<'_> {
    /// What a value stands for that may be a reference.
    fn meant<'a>(&'a self, value: &'a Value) -> &'a Value {
        let pointer = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    /// Each operation of a tag: path, method, and what is said of it. A request to others has a
    /// name in the place of a path.
    fn of_tag(&self, tag: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
        let name = tag["name"].clone();
        let paths = ["paths", "webhooks"].into_iter().flat_map(|all| members(&self.document[all]));
        let operations = paths.flat_map(|(path, operations)| {
            members(operations).map(move |(method, operation)| (path, method, operation))
        });
        operations.filter(move |(_, _, operation)| operation["tags"][0] == name)
    }

    fn contents(&self, out: &mut String) {
        for tag in elements(&self.document["tags"]) {
            let _ = write!(out, "<h2>{}</h2>\n<ul>", text(&tag["name"]));
            for (path, method, operation) in self.of_tag(tag) {
                let (id, path) = (text(&operation["operationId"]), escaped(path));
                let _ = writeln!(out, "<li><a href=\"#{id}\"><b>{method}</b> {path}</a>");
            }
            out.push_str("</ul>\n");
        }
        out.push_str("<h2>Schemas</h2>\n<ul>");
        for (name, _) in members(&self.document["components"]["schemas"]) {
            let _ = writeln!(out, "<li>{}", schema_link(name));
        }
        out.push_str("</ul>\n");
    }

    fn security(&self, out: &mut String) {
        out.push_str("<h2>Keys and tokens</h2>\n<dl>");
        for (name, scheme) in members(&self.document["components"]["securitySchemes"]) {
            let about = prose(&scheme["description"]);
            let header = match scheme["type"].as_str() {
                Some("apiKey") => text(&scheme["name"]),
                _ => "Authorization: Bearer …".into(),
            };
            let _ = write!(out, "<dt>{}<dd><code>{header}</code>{about}", escaped(name));
        }
        out.push_str("</dl>\n");
    }

    fn operations(&self, out: &mut String) {
        for tag in elements(&self.document["tags"]) {
            let _ = write!(out, "<h2>{}</h2>\n{}", text(&tag["name"]), prose(&tag["description"]));
            for (path, method, operation) in self.of_tag(tag) {
                let (id, path) = (text(&operation["operationId"]), escaped(path));
                let _ = write!(
                    out,
                    "<section id=\"{id}\">\n<h3><b>{method}</b> {path}</h3>\n<p>{}.</p>\n{}",
                    text(&operation["summary"]),
                    prose(&operation["description"]),
                );
                self.operation(out, operation);
                out.push_str("</section>\n");
            }
        }
    }

    fn operation(&self, out: &mut String, operation: &Value) {
        let parameters: String =
            elements(&operation["parameters"]).map(|one| parameter(self.meant(one))).collect();
        if !parameters.is_empty() {
            let _ = writeln!(out, "<h4>Parameters</h4>\n<table>{parameters}</table>");
        }
        if let Some((media_type, media)) = members(&operation["requestBody"]["content"]).next() {
            let _ = writeln!(out, "<h4>Body: {}</h4>", escaped(media_type));
            out.push_str(&schema(&media["schema"]));
            examples(out, media);
        }
        out.push_str("<h4>Answers</h4>\n<table>");
        for (status, response) in members(&operation["responses"]) {
            self.response(out, status, self.meant(response));
        }
        out.push_str("</table>\n");
    }

    fn response(&self, out: &mut String, status: &str, response: &Value) {
        let about = prose(&response["description"]);
        let _ = write!(out, "<tr><td><b>{status}</b><td>{about}");
        let names: Vec<String> =
            members(&response["headers"]).map(|(name, _)| format!("<code>{name}</code>")).collect();
        let _ = write!(out, "<details><summary>Headers, body</summary>{}", names.join(", "));
        if let Some((media_type, media)) = members(&response["content"]).next() {
            let _ = write!(out, "<p>{}</p>{}", escaped(media_type), schema(&media["schema"]));
            examples(out, media);
        }
        out.push_str("</details>\n");
    }

    fn schemas(&self, out: &mut String) {
        out.push_str("<h2>Schemas</h2>\n");
        for (name, shape) in members(&self.document["components"]["schemas"]) {
            let name = escaped(name);
            let _ = write!(
                out,
                "<section id=\"schema-{name}\">\n<h3>{name}</h3>\n{}</section>\n",
                schema(shape)
            );
        }
    }
}

fn parameter(parameter: &Value) -> String {
    let required = if parameter["required"] == true { ", required" } else { "" };
    format!(
        "<tr><td><code>{}</code><td>{}{required}<td>{}{}",
        text(&parameter["name"]),
        text(&parameter["in"]),
        prose(&parameter["description"]),
        schema(&parameter["schema"]),
    )
}

/// A schema: what it is in a line, then its members.
fn schema(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return schema_link(name) + &prose(&schema["description"]);
    }
    let mut out = String::new();
    let limits: Vec<String> = members(schema)
        .filter(|(name, _)| !SHOWN_ELSEWHERE.contains(&name.as_str()))
        .map(|(name, value)| limit(name, value))
        .collect();
    if !limits.is_empty() {
        let _ = write!(out, "<p class=\"limits\">{}</p>", limits.join(", "));
    }
    out.push_str(&prose(&schema["description"]));
    let required = &schema["required"];
    let mut properties = members(&schema["properties"]).peekable();
    if properties.peek().is_some() {
        out.push_str("<dl>");
        for (name, member) in properties {
            let is_required = elements(required).any(|one| one == name);
            let required = if is_required { " <i>required</i>" } else { "" };
            let member = self::schema(member);
            let _ = write!(out, "<dt><code>{}</code>{required}<dd>{member}", escaped(name));
        }
        out.push_str("</dl>\n");
    }
    for (name, heading) in NESTED {
        match &schema[name] {
            Value::Null => {}
            Value::Array(all) => {
                let all: String =
                    all.iter().map(|one| format!("<li>{}", self::schema(one))).collect();
                let _ = write!(out, "<div class=\"nested\">{heading}<ul>{all}</ul></div>");
            }
            one => {
                let _ = write!(out, "<div class=\"nested\">{heading} {}</div>", self::schema(one));
            }
        }
    }
    out
}

/// Keywords with schemas of their own, and what is said before them.
const NESTED: [(&str, &str); 12] = [
    ("items", "each element:"),
    ("prefixItems", "the elements in their order:"),
    ("contains", "with at least one element:"),
    ("additionalProperties", "any other member:"),
    ("propertyNames", "the names of members:"),
    ("allOf", "all of:"),
    ("anyOf", "one or more of:"),
    ("oneOf", "one of:"),
    ("if", "where it is:"),
    ("then", "it is also:"),
    ("else", "and else:"),
    ("not", "not:"),
];

const SHOWN_ELSEWHERE: [&str; 15] = [
    "description",
    "properties",
    "required",
    "items",
    "prefixItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "not",
];

fn limit(name: &str, value: &Value) -> String {
    match (name, value) {
        ("type", Value::String(kind)) => escaped(kind),
        ("type", Value::Array(kinds)) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
        ("const", value) => format!("<code>{}</code>", escaped(&value.to_string())),
        ("enum" | "examples", Value::Array(values)) => {
            let shown = values.iter().take(MOST_VALUES);
            let shown: Vec<String> = shown
                .map(|value| format!("<code>{}</code>", escaped(&value.to_string())))
                .collect();
            let more = match values.len().saturating_sub(MOST_VALUES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let such = if name == "enum" { "one of" } else { "such as" };
            format!("{such} {}{more}", shown.join(" "))
        }
        (name, Value::String(value)) => {
            format!("{} <code>{}</code>", in_words(name), escaped(value))
        }
        (name, value) => format!("{} {}", in_words(name), escaped(&value.to_string())),
    }
}

fn in_words(keyword: &str) -> &str {
    match keyword {
        "minLength" => "characters from",
        "maxLength" => "characters to",
        "minItems" => "elements from",
        "maxItems" => "elements to",
        "minimum" => "from",
        "maximum" => "to",
        "exclusiveMaximum" => "below",
        other => other,
    }
}

fn examples(out: &mut String, media: &Value) {
    let single = media.get("example").map(|value| (String::new(), value));
    let many = members(&media["examples"]).map(|(_, one)| (text(&one["summary"]), &one["value"]));
    for (summary, value) in single.into_iter().chain(many) {
        let value = serde_json::to_string_pretty(value).unwrap_or_default();
        let _ = write!(
            out,
            "<figure><figcaption>{summary}</figcaption><pre>{}</pre></figure>",
            escaped(&value)
        );
    }
}

fn schema_link(name: &str) -> String {
    let name = escaped(name);
    format!("<a href=\"#schema-{name}\">{name}</a>")
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A string's text, escaped; of anything else none.
fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

/// Paragraphs, with what is in backticks as code.
fn prose(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty());
    paragraphs
        .map(|paragraph| {
            let mut out = String::from("<p>");
            for (number, piece) in paragraph.split('`').enumerate() {
                let piece = escaped(piece);
                let is_code = number % 2 == 1;
                out += &if is_code { format!("<code>{piece}</code>") } else { piece };
            }
            out + "</p>\n"
        })
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_is_text_and_never_markup() {
        let nasty = "<script>\"&`<b>`";
        let document = json!({
            "info": { "title": "T", "description": nasty },
            "tags": [{ "name": "t", "description": nasty }],
            "paths": { "/<a>": { "get": {
                "operationId": "o", "tags": ["t"], "summary": nasty,
                "responses": { "200": { "description": nasty, "content": { "a/b": {
                    "schema": { "$ref": "#/components/schemas/S" }, "example": nasty,
                } } } },
            } } },
            "components": { "schemas": { "S": {
                "type": "object", "properties": { nasty: { "pattern": nasty, "enum": [nasty] } },
            } } },
        });
        let page = page(&document);
        assert!(!page.contains("<script>") && !page.contains("<b>`"), "{page}");
        assert!(page.contains("&lt;script&gt;&quot;&amp;<code>&lt;b&gt;</code>"), "{page}");
        assert!(page.contains("<a href=\"#schema-S\">S</a>") && page.contains("id=\"schema-S\""));
    }

    #[test]
    fn long_enumerations_are_cut() {
        let values: Vec<usize> = (0..MOST_VALUES + 7).collect();
        let shown = schema(&json!({ "enum": values }));
        assert!(shown.contains("<code>29</code> and 7 more"), "{shown}");
    }
}

//! Code samples of an operation (`x-codeSamples`), from its example: curl and Python.

use std::fmt::Write as _;

use axum::http::Method;
use serde_json::{Value, json};

use super::Access;
use super::operation::Operation;

/// The samples of an operation at a path. None for requests that are signed: the providers that
/// send them do not copy samples.
pub(super) fn samples(base: &str, path: &str, operation: &Operation) -> Option<Value> {
    if matches!(operation.access, Access::Signed(_)) {
        return None;
    }
    let sample = Sample::new(base, path, operation);
    Some(json!([
        { "lang": "Shell", "label": "curl", "source": sample.curl() },
        { "lang": "Python", "label": "Python", "source": sample.python() },
    ]))
}

struct Sample<'a> {
    method: &'a Method,
    url: String,
    /// The environment variable with the key or the token.
    key: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    body: Option<&'a Value>,
}

impl<'a> Sample<'a> {
    fn new(base: &str, path: &str, operation: &'a Operation) -> Self {
        let mut url = format!("{base}{path}");
        for parameter in &operation.parameters {
            let Some(name) = parameter["name"].as_str().filter(|_| parameter["in"] == "path")
            else {
                continue;
            };
            url = url.replace(&format!("{{{name}}}"), &example_value(name, parameter));
        }
        let key = match operation.access {
            Access::Open | Access::Signed(_) => None,
            Access::Key(_) | Access::AnyKey(_) | Access::OneOf(_) => Some("LONGSHORE_KEY"),
            Access::Scim | Access::ScimDiscovery => Some("LONGSHORE_SCIM_TOKEN"),
        };
        let mut headers = Vec::new();
        if operation.access == Access::Scim {
            headers.push(("X-Request-Origin", "idp.acme.example"));
        }
        let body = operation.body.as_ref().and_then(|body| body.examples.first());
        let body = body.map(|(_, example)| example);
        if body.is_some() {
            headers.push(("Content-Type", operation.access.media_types()[0]));
        }
        Self { method: &operation.method, url, key, headers, body }
    }

    fn curl(&self) -> String {
        let method = match (self.method, self.body) {
            (&Method::GET, None) | (&Method::POST, Some(_)) => String::new(),
            (method, _) => format!("-X {method} "),
        };
        let mut sample = format!("curl -sS {method}'{}'", self.url);
        if let Some(key) = self.key {
            let _ = write!(sample, " \\\n  -H \"Authorization: Bearer ${key}\"");
        }
        for (name, value) in &self.headers {
            let _ = write!(sample, " \\\n  -H '{name}: {value}'");
        }
        if let Some(body) = self.body {
            // In shell, a single quote must be outside of the quoted string: `'\''`.
            let body = format!("{body:#}").replace('\'', r"'\''");
            let _ = write!(sample, " \\\n  -d '{body}'");
        }
        sample
    }

    fn python(&self) -> String {
        let mut sample = String::new();
        if self.key.is_some() {
            sample.push_str("import os\n\n");
        }
        let method = self.method.as_str().to_ascii_lowercase();
        let _ = write!(
            sample,
            "import requests\n\nresponse = requests.{method}(\n    {},\n",
            json!(self.url)
        );
        if self.key.is_some() || !self.headers.is_empty() {
            sample.push_str("    headers={\n");
            if let Some(key) = self.key {
                let _ = writeln!(
                    sample,
                    "        \"Authorization\": f\"Bearer {{os.environ['{key}']}}\","
                );
            }
            for (name, value) in &self.headers {
                let _ = writeln!(sample, "        \"{name}\": \"{value}\",");
            }
            sample.push_str("    },\n");
        }
        if let Some(body) = self.body {
            sample.push_str("    json=");
            literal(&mut sample, body, 1);
            sample.push_str(",\n");
        }
        sample.push_str(
            "    timeout=30,\n)\nresponse.raise_for_status()\nprint(response.status_code, \
             response.text)\n",
        );
        sample
    }
}

/// A value for a parameter: its example, one of its allowed values, or its name in capitals.
fn example_value(name: &str, parameter: &Value) -> String {
    let schema = &parameter["schema"];
    let found = [&parameter["example"], &schema["example"], &schema["examples"][0]];
    let found = found.into_iter().chain([&schema["enum"][0]]).find_map(Value::as_str);
    found.map_or_else(|| name.to_uppercase(), str::to_owned)
}

/// Writes JSON as a Python literal.
fn literal(out: &mut String, value: &Value, depth: usize) {
    let (inner, outer) = ("    ".repeat(depth + 1), "    ".repeat(depth));
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Array(elements) if !elements.is_empty() => {
            out.push_str("[\n");
            for element in elements {
                out.push_str(&inner);
                literal(out, element, depth + 1);
                out.push_str(",\n");
            }
            let _ = write!(out, "{outer}]");
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push_str("{\n");
            for (name, field) in fields {
                let _ = write!(out, "{inner}{}: ", json!(name));
                literal(out, field, depth + 1);
                out.push_str(",\n");
            }
            let _ = write!(out, "{outer}}}");
        }
        // A number or a string is written as in JSON.
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

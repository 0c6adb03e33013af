//! Rewrites schemas for documentation pages and code generators.
//!
//! A type has alternatives (`anyOf`) next to its fields to state which fields can be combined.
//! Pages would repeat the object for each alternative, and generators would create a type for each.
//! So such conditions are moved below `if`, which only validators read. Limits on values of any
//! type are moved, too, because their schemas refer to themselves. Each alternative gets a single
//! type, because many generators fail on several.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// The types of JSON.
const KINDS: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// Rewrites all schemas in a value.
pub(super) fn rewrite_schemas(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, part) in fields.iter_mut() {
                match (name.as_str(), part) {
                    ("example" | "examples", _) => {}
                    ("properties", Value::Object(fields)) => {
                        fields.values_mut().for_each(rewrite_schemas);
                    }
                    (_, part) => rewrite_schemas(part),
                }
            }
            split_types(fields);
            add_elements(fields);
            flatten_alternatives(fields);
            move_limits_of_others(fields);
            move_conditions(fields);
        }
        Value::Array(elements) => elements.iter_mut().for_each(rewrite_schemas),
        _ => {}
    }
}

/// Writes several types as alternatives. A type with null stays as it is.
fn split_types(schema: &mut Object) {
    let Some(kinds) = schema.get("type").and_then(Value::as_array) else { return };
    if kinds.iter().filter(|kind| *kind != "null").count() < 2 || schema.contains_key("anyOf") {
        return;
    }
    let kinds: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
    schema.remove("type");
    schema.insert("anyOf".into(), kinds.into());
}

/// Describes the elements of each array, because generators look for them.
fn add_elements(schema: &mut Object) {
    let is_array = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.contains(&"array".into()),
        kind => kind.is_some_and(|kind| kind == "array"),
    };
    if is_array && !schema.contains_key("prefixItems") {
        schema.entry("items").or_insert_with(|| json!({}));
    }
}

/// Replaces an alternative that only has alternatives with these.
fn flatten_alternatives(schema: &mut Object) {
    if let Some(forms) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        *forms = std::mem::take(forms).into_iter().flat_map(alternatives).collect();
    }
}

/// The alternatives of a schema that has nothing else, or the schema.
fn alternatives(schema: Value) -> Vec<Value> {
    match alternatives_only(&schema) {
        Some(forms) => forms.clone(),
        None => vec![schema],
    }
}

fn alternatives_only(schema: &Value) -> Option<&Vec<Value>> {
    schema.as_object().filter(|schema| schema.len() == 1)?.get("anyOf")?.as_array()
}

/// Moves the limits of the fields that are not named below `if`. Generators state them as those of
/// every field, which the named ones need not fit.
fn move_limits_of_others(schema: &mut Object) {
    let fields = schema.get("properties").and_then(Value::as_object);
    let names_fields = fields.is_some_and(|fields| !fields.is_empty());
    if let Some(limits) = schema.get_mut("additionalProperties").filter(|_| names_fields)
        && limits.get("$ref").is_some()
    {
        *limits = json!({ "if": limits.take(), "else": { "not": {} } });
    }
}

/// Moves the conditions of a value with a type, or of any value, below `if`.
fn move_conditions(schema: &mut Object) {
    if schema.contains_key("if") {
        return;
    }
    let mut conditions = Vec::new();
    if let Some(fields) = fields_of_conditions(schema) {
        conditions.push(json!({ "anyOf": schema.remove("anyOf") }));
        if !fields.is_empty() {
            schema.insert("properties".into(), fields.into());
        }
        if let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
            conditions.extend(parts.extract_if(.., |part| alternatives_only(part).is_some()));
            if parts.is_empty() {
                schema.remove("allOf");
            }
        }
    }
    if schema.contains_key("type")
        && let Some(excluded) = schema.remove("not")
    {
        conditions.push(json!({ "not": excluded }));
    }
    let condition = match conditions.as_mut_slice() {
        [] => return,
        [only] => only.take(),
        _ => json!({ "allOf": conditions }),
    };
    schema.insert("if".into(), condition);
    schema.insert("else".into(), json!({ "not": {} }));
}

/// The fields of a schema and of its alternatives, if all alternatives only state conditions;
/// otherwise `None`.
fn fields_of_conditions(schema: &Object) -> Option<Object> {
    let forms = schema.get("anyOf")?.as_array()?;
    let Some(kind) = schema.get("type") else {
        let is_any = KINDS.iter().all(|kind| forms.iter().any(|form| form["type"] == *kind));
        return is_any.then(Object::new);
    };
    let fields = schema.get("properties").and_then(Value::as_object);
    if !forms.iter().all(is_condition) || (kind == "object") != fields.is_some() {
        return None;
    }
    merged_fields(forms, fields.cloned().unwrap_or_default())
}

/// Whether a schema limits values whose type another schema states.
fn is_condition(form: &Value) -> bool {
    form.get("type").is_none() && form.get("$ref").is_none() && form.get("enum").is_none()
}

/// The fields of an object with those that only its forms have; `None` if the type of a field
/// depends on the form.
fn merged_fields(forms: &[Value], own: Object) -> Option<Object> {
    let mut fields = own.clone();
    for (number, form) in forms.iter().enumerate() {
        for (name, field) in form["properties"].as_object().into_iter().flatten() {
            if is_null(field) {
                continue;
            }
            let others = || {
                let others = forms.iter().enumerate().filter(|(other, _)| *other != number);
                others.map(|(_, form)| &form["properties"][name])
            };
            match fields.get_mut(name) {
                Some(Value::Object(known)) if known.keys().all(|name| name == "description") => {
                    known.insert("anyOf".into(), json!([field, {}]));
                }
                Some(_) if own.contains_key(name) => {}
                None if others().all(is_null) => {
                    fields.insert(name.clone(), nullable(field.clone()));
                }
                // The other forms ignore the field.
                None if others().all(|other| other.is_null() || is_null(other)) => {
                    fields.insert(name.clone(), or(field.clone(), json!({})));
                }
                _ => return None,
            }
        }
    }
    Some(fields)
}

fn is_null(schema: &Value) -> bool {
    schema["type"] == "null"
}

/// The schema of a field that may also be null.
fn nullable(mut schema: Value) -> Value {
    let is_simple = ["anyOf", "enum", "const"].iter().all(|name| schema.get(name).is_none());
    if is_simple && schema["type"].is_string() {
        schema["type"] = json!([schema["type"], "null"]);
        return schema;
    }
    or(schema, json!({ "type": "null" }))
}

/// A field that is of one of two schemas, with the description of the first.
fn or(mut schema: Value, other: Value) -> Value {
    let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let mut forms = alternatives(schema);
    forms.push(other);
    let mut field = json!({ "anyOf": forms });
    if let Some(about) = about {
        field["description"] = about;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(mut schema: Value) -> Value {
        rewrite_schemas(&mut schema);
        schema
    }

    #[test]
    fn conditions_on_fields_are_below_if() {
        let forms = json!([
            { "properties": { "a": { "type": "string", "minLength": 1 } }, "required": ["a"] },
            { "required": ["b"] },
        ]);
        let more = json!({ "anyOf": [{ "required": ["c"] }, { "required": ["d"] }] });
        let fields = json!({ "a": { "type": ["string", "null"] }, "b": { "type": "string" } });
        let mut schema = json!({
            "type": "object", "description": "An object.", "properties": fields, "anyOf": forms,
        });
        let mut expected = json!({
            "type": "object", "description": "An object.", "properties": fields,
            "if": { "anyOf": forms }, "else": { "not": {} },
        });
        assert_eq!(apart(schema.clone()), expected);
        schema["allOf"] = json!([{ "$ref": "#/components/schemas/Other" }, more]);
        expected["allOf"] = json!([{ "$ref": "#/components/schemas/Other" }]);
        expected["if"] = json!({ "allOf": [{ "anyOf": forms }, more] });
        assert_eq!(apart(schema), expected);
        let mut both = json!({ "type": "object", "not": { "required": ["a", "b"] } });
        assert_eq!(apart(both.clone())["if"], json!({ "not": both["not"].take() }));
        let time = json!({ "type": "string", "anyOf": [{ "format": "date" }, { "pattern": "x" }] });
        assert_eq!(apart(time.clone())["if"], json!({ "anyOf": time["anyOf"] }));
    }

    #[test]
    fn fields_of_one_form_are_fields_of_the_object() {
        let list = json!({ "type": "array", "items": { "type": "string" }, "description": "Ids." });
        let reference = json!({ "$ref": "#/components/schemas/Alias" });
        let absent = json!({ "type": "null" });
        let forms = json!([
            { "properties": { "ids": list, "alias": absent }, "required": ["ids"] },
            { "properties": { "ids": absent, "alias": reference }, "required": ["alias"] },
        ]);
        let schema = apart(json!({ "type": "object", "properties": {}, "anyOf": forms }));
        let fields = json!({
            "ids": {
                "type": ["array", "null"], "items": { "type": "string" }, "description": "Ids.",
            },
            "alias": { "anyOf": [reference, absent] },
        });
        assert_eq!(schema["properties"], fields);
        assert_eq!(schema["if"], json!({ "anyOf": forms }));

        let forms = json!([
            { "properties": { "first": { "type": "string" } }, "required": ["first"] },
            { "properties": { "first": absent, "next": reference }, "required": ["next"] },
        ]);
        let schema = apart(json!({ "type": "object", "properties": {}, "anyOf": forms }));
        let fields = json!({
            "first": { "type": ["string", "null"] }, "next": { "anyOf": [reference, {}] },
        });
        assert_eq!(schema["properties"], fields);

        let about = json!({ "sms": { "description": "A message." } });
        let forms = json!([{ "properties": { "sms": list }, "required": ["sms"] }]);
        let schema = apart(json!({ "type": "object", "properties": about, "anyOf": forms }));
        let field = json!({ "description": "A message.", "anyOf": [list, {}] });
        assert_eq!(schema["properties"], json!({ "sms": field }));
    }

    #[test]
    fn alternatives_with_types_of_their_own_stay() {
        for schema in [
            json!({ "type": "object", "anyOf": [{ "properties": { "a": {} } }, { "minProperties": 2 }] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "object", "properties": {} }] }),
            // The type of the field depends on the other one.
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "anyOf": [
                { "properties": { "is": { "const": "more" }, "than": { "type": "number" } } },
                { "properties": { "is": { "const": "like" }, "than": { "type": "string" } } },
            ] }),
        ] {
            assert_eq!(apart(schema.clone()), schema);
        }
    }

    #[test]
    fn limits_on_any_json_are_below_if() {
        let any = json!({ "description": "A value.", "anyOf": [
            { "type": ["null", "boolean", "number"] },
            { "type": "string", "pattern": "x" },
            { "type": "array", "items": { "$ref": "#/components/schemas/Any" } },
            { "type": "object" },
        ] });
        let expected = json!({ "description": "A value.", "if": { "anyOf": [
            { "type": "null" }, { "type": "boolean" }, { "type": "number" },
            { "type": "string", "pattern": "x" },
            { "type": "array", "items": { "$ref": "#/components/schemas/Any" } },
            { "type": "object" },
        ] }, "else": { "not": {} } });
        assert_eq!(apart(any), expected);
    }

    #[test]
    fn limits_of_other_fields_are_not_those_of_the_named_ones() {
        let limits = json!({ "$ref": "#/components/schemas/Any" });
        let named = |others: &Value| {
            let fields = json!({ "id": { "type": "string" } });
            json!({ "type": "object", "properties": fields, "additionalProperties": others })
        };
        let below_if = json!({ "if": limits, "else": { "not": {} } });
        assert_eq!(apart(named(&limits)), named(&below_if));
        let only_others = json!({ "type": "object", "additionalProperties": limits });
        assert_eq!(apart(only_others.clone()), only_others);
    }

    #[test]
    fn alternatives_have_one_type() {
        let schema = json!({ "description": "A value.", "anyOf": [
            { "type": ["null", "boolean", "number"] }, { "type": "string", "pattern": "x" },
        ] });
        let expected = json!({ "description": "A value.", "anyOf": [
            { "type": "null" }, { "type": "boolean" }, { "type": "number" },
            { "type": "string", "pattern": "x" },
        ] });
        assert_eq!(apart(schema), expected);
        let code = json!({ "type": ["string", "integer"], "maxLength": 9 });
        let kinds = json!([{ "type": "string" }, { "type": "integer" }]);
        assert_eq!(apart(code), json!({ "maxLength": 9, "anyOf": kinds }));
        let optional = json!({ "type": ["string", "null"] });
        assert_eq!(apart(optional.clone()), optional);
        for kind in [json!("array"), json!(["array", "null"])] {
            assert_eq!(apart(json!({ "type": kind }))["items"], json!({}));
        }
    }
}

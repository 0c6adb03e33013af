//! Operators within the values of custom attributes: objects whose fields begin with a dollar sign.
//! An operator is executed or rejected, and never stored as a value.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::values::Checked;
use kit::clock::{format_time, parse_time};
use kit::json::{self, JsonFields};

/// A value that is a time: `{"$time": "2026-11-21T08:00:00Z"}`.
const TIME: &str = "$time";

/// Operators that change elements of arrays of objects.
const ARRAY_OPERATORS: [&str; 6] =
    ["$add", "$remove", "$update", "$identifier_key", "$identifier_value", "$new_object"];

/// The value with its `$time` operators replaced by times as strings. The error names an operator
/// that is not supported.
pub(super) fn resolved(json: &str) -> Checked<Cow<'_, str>> {
    // If no name begins with a dollar sign, nothing needs to be done.
    if !json.contains("\"$") && !json.contains("\"\\u0024") {
        return Ok(Cow::Borrowed(json));
    }
    let mut out = String::with_capacity(json.len());
    push(&mut out, json)?;
    Ok(Cow::Owned(out))
}

fn push(out: &mut String, json: &str) -> Checked<()> {
    match json.as_bytes().first() {
        Some(b'{') => object(out, &json::fields(json, json::MAX_JSON_FIELDS)?),
        Some(b'[') => {
            out.push('[');
            for (index, element) in json::parse::<Vec<&RawValue>>(json)?.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                push(out, element.get())?;
            }
            out.push(']');
            Ok(())
        }
        _ => {
            out.push_str(json);
            Ok(())
        }
    }
}

fn object(out: &mut String, JsonFields(members): &JsonFields<'_>) -> Checked<()> {
    if let Some((name, _)) =
        members.iter().find(|(name, _)| ARRAY_OPERATORS.contains(&name.as_ref()))
    {
        return Err(format!("{name} is not supported here"));
    }
    if let Some((_, time)) = members.iter().find(|(name, _)| name == TIME) {
        let text = serde_json::from_str::<String>(time.get()).ok().filter(|_| members.len() == 1);
        let text =
            text.ok_or_else(|| format!("{TIME} must be a date and time, and the only field"))?;
        json::push_string(out, &format_time(parse_time(&text)?));
        return Ok(());
    }
    out.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        json::push_string(out, name);
        out.push(':');
        push(out, value.get())?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_strings_and_other_values_unchanged() {
        for (json, same) in [
            (r#"{"a":[1.10,"$add"]}"#, r#"{"a":[1.10,"$add"]}"#),
            (r#"{"$price":5}"#, r#"{"$price":5}"#),
            (
                r#"{"n":"x","at":{"$time":"2013-07-16T19:20:30+1:00"}}"#,
                r#"{"n":"x","at":"2013-07-16T18:20:30.000Z"}"#,
            ),
            (r#"[{"at":{"\u0024time":"2013-07-16"}}]"#, r#"[{"at":"2013-07-16T00:00:00.000Z"}]"#),
        ] {
            assert_eq!(resolved(json).as_deref(), Ok(same), "{json}");
        }
        assert!(matches!(resolved(r#"{"a":"b"}"#), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn an_operator_is_never_a_value() {
        for json in [
            r#"{"$update":[{"$identifier_key":"id","$identifier_value":1,"$new_object":{}}]}"#,
            r#"{"$remove":[{"$identifier_key":"id","$identifier_value":1}]}"#,
            r#"{"a":{"$add":[1]}}"#,
            r#"{"$add":[1],"b":2}"#,
            r#"{"$time":5}"#,
            r#"{"$time":"soon"}"#,
            r#"{"$time":"2013-07-16","b":1}"#,
        ] {
            assert!(resolved(json).is_err(), "{json}");
        }
    }
}

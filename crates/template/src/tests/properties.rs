//! Properties of every source and every profile.

use proptest::prelude::*;

use super::super::filters::FILTERS;
use super::*;

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(0)].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[0-9.eE+-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|size", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Markup of pieces that roughly fit together.
fn source() -> impl Strategy<Value = String> {
    let words: Vec<&str> = concat!(
        "{{ }} {% %} {{- -}} {%- -%} if elsif else endif unless endunless case when endcase for ",
        "endfor in tablerow endtablerow cols: limit: offset:continue reversed capture endcapture ",
        "assign x = y cycle increment raw endraw comment endcomment # echo break continue ",
        "abort_message ( ) [ ] . .. | : , == != < > contains and or 'a' \"b\" 1 -2 3.5 ${a} ${b c} ",
        "custom_attribute.${a} event_properties.${b} forloop.index nil true empty blank (1..3) ",
        "append: split: sort default: date: size text \u{a0} é liquid ifchanged endifchanged doc enddoc ",
        "message_extras :key :value \n echo"
    )
    .split(' ')
    .collect();
    let piece = prop_oneof![
        6 => prop::sample::select(words).prop_map(str::to_owned),
        2 => prop_oneof![Just(" ".to_owned()), Just("\n".to_owned())],
        1 => "\\PC{0,3}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.join(" "))
}

fn with(template: &Template, value: &Value) -> Result<String, Stop> {
    let profile = object(json!({ "custom_attributes": { "a": value, "b": [value] } }));
    let event = value.as_object().cloned().unwrap_or_default();
    template.render(&Sample { profile, event }, NOW)
}

proptest! {
    #[test]
    fn any_source_is_rendered_or_refused_where_it_is_wrong(source in source(), value in json()) {
        match parse(&source) {
            Ok(template) => {
                let _ = with(&template, &value);
            }
            Err(error) => {
                let line = source.split('\n').nth(error.line - 1);
                prop_assert!(line.is_some_and(|line| error.column <= line.chars().count() + 1), "{error}");
                prop_assert!(!error.text.is_empty() && error.text.len() < 300);
            }
        }
    }

    #[test]
    fn text_without_markup_is_itself(source in "[^{]{0,40}") {
        let template = parse(&source).unwrap();
        prop_assert_eq!(template.as_text(), Some(&*source));
        prop_assert_eq!(with(&template, &Value::Null), Ok(source));
    }

    #[test]
    fn raw_blocks_render_unchanged(source in "[^{]{0,10}(\\{\\{[^{]{0,5}|\\{%[^{a-z]{0,5})?[^{]{0,5}") {
        let raw = format!("{{% raw %}}{source}{{% endraw %}}");
        let template = parse(&raw).unwrap();
        prop_assert_eq!(with(&template, &Value::Null), Ok(source));
    }

    #[test]
    fn every_filter_accepts_every_value(
        filter in prop::sample::select(FILTERS.iter().collect::<Vec<_>>()),
        value in json(), first in json(), second in json(),
    ) {
        let arguments = |count: usize| match count {
            0 => String::new(),
            1 => ": custom_attribute.${one}".to_owned(),
            _ => ": custom_attribute.${one}, custom_attribute.${two}".to_owned(),
        };
        let name = filter.name;
        let profile = object(json!({ "custom_attributes": { "v": value, "one": first, "two": second } }));
        let data = Sample { profile, event: Map::new() };
        for count in filter.arguments.clone() {
            for value in ["custom_attribute.${v}", "(0..3)", "nil", "empty"] {
                let chain = format!("{{{{ {value} | {name}{} | as_json_string }}}}", arguments(count));
                let template = parse(&chain).unwrap();
                // A panic would be an error with another text.
                let rendered = template.render(&data, NOW);
                let is_bound = |stop: &Stop| matches!(stop, Stop::Failed(text) if text.contains("bytes"));
                prop_assert!(rendered.as_ref().map_or_else(is_bound, |_| true), "{chain}: {rendered:?}");
            }
        }
    }

    #[test]
    fn values_render_as_their_json(value in json()) {
        let template = parse("{{ custom_attribute.${a} | as_json_string }}").unwrap();
        let rendered = with(&template, &value).unwrap();
        let reparsed: Value = serde_json::from_str(&rendered).unwrap();
        match value {
            // Numbers are equal to the last digit.
            Value::Number(number) => prop_assert_eq!(rendered.parse().ok(), number.as_f64()),
            Value::String(_) | Value::Bool(_) | Value::Null => prop_assert_eq!(reparsed, value),
            Value::Array(_) => prop_assert!(reparsed.is_array()),
            Value::Object(_) => prop_assert!(reparsed.is_object()),
        }
    }

    #[test]
    fn a_value_equals_itself(value in json()) {
        let source = "{% if custom_attribute.${a} == custom_attribute.${b}[0] %}same{% endif %}";
        let template = parse(source).unwrap();
        prop_assert_eq!(with(&template, &value), Ok("same".to_owned()));
    }
}

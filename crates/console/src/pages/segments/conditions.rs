//! An audience as nested lists, for people to read.

use std::fmt::Display;

use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::page::Page;
use console_frame::parts::{self, Tone};
use kit::json::{Tree, TreeObject};
use people::audience::{Audience, AudienceError, Comparison, Condition, Operand};

/// The tree of a stored audience, or why it cannot be read.
pub fn read(
    page: &Page,
    stored: &Tree,
    read: fn(&Tree) -> Result<Audience, AudienceError>,
) -> Markup {
    // Regular expressions are compiled.
    match page.compute(|| read(stored)) {
        Ok(audience) => tree(&audience, &page.viewer.preferences.zone),
        Err(error) => unreadable(&error, &stored.to_json()),
    }
}

/// [`read`] for JSON.
pub fn read_json(
    page: &Page,
    stored: &str,
    audience: fn(&Tree) -> Result<Audience, AudienceError>,
) -> Markup {
    match page.compute(|| Tree::parse(stored)) {
        Ok(tree) => read(page, &tree, audience),
        Err(error) => unreadable(&error, stored),
    }
}

fn unreadable(error: &dyn Display, stored: &str) -> Markup {
    html! {
        (parts::notice(Tone::Bad, "The conditions cannot be read", html! {
            p { bdi { (parts::cut(&error.to_string())) } }
            p { "A newer release may have written them." }
        }))
        pre.code tabindex="0" { (parts::cut(stored)) }
    }
}

/// The tree of an audience, with its times in `zone`.
fn tree(audience: &Audience, zone: &TimeZone) -> Markup {
    html! { ul.conditions { (node(audience, zone)) } }
}

/// The number of conditions in a stored audience. Does not read it, because that would compile its
/// regular expressions.
pub fn count(stored: &Tree) -> String {
    parts::count_of(leaves(stored) as i64, "condition", "conditions")
}

fn leaves(stored: &Tree) -> usize {
    let mut fields = stored.as_object().into_iter().flat_map(TreeObject::iter);
    match fields.find(|(_, value)| !value.is_null()) {
        Some((_, Tree::Array(nodes))) => nodes.iter().map(leaves).sum(),
        Some(_) => 1,
        None => 0,
    }
}

/// Recursion is limited by the depth of an audience.
fn node(audience: &Audience, zone: &TimeZone) -> Markup {
    let leaf = |subject: Markup, condition: &Condition, absent: &str| {
        html! { li { (subject) " " (sentence(condition, absent, zone)) } }
    };
    match audience {
        // The same as its only node.
        Audience::And(nodes) | Audience::Or(nodes) if nodes.len() == 1 => {
            html! { @for only in nodes { (node(only, zone)) } }
        }
        Audience::And(nodes) => group("All of", nodes, zone),
        Audience::Or(nodes) => group("Any of", nodes, zone),
        Audience::CustomAttribute { name, condition } => {
            let subject = html! { "custom attribute " code { (parts::name(name)) } };
            leaf(subject, condition, ", or has no value")
        }
        Audience::PushSubscriptionStatus(condition) => {
            leaf(html! { "push subscription" }, condition, "")
        }
        Audience::EmailSubscriptionStatus(condition) => {
            leaf(html! { "email subscription" }, condition, "")
        }
        Audience::LastUsedApp(condition) => leaf(html! { "latest use of any app" }, condition, ""),
        Audience::PurchaseProperty { product_id, name, condition } => {
            let subject = html! {
                "property " code { (parts::name(name)) } " of the latest purchase of "
                @match product_id {
                    Some(id) => code { (parts::name(id)) },
                    None => "any product",
                }
            };
            leaf(subject, condition, ", or has no value")
        }
    }
}

fn group(title: &str, nodes: &[Audience], zone: &TimeZone) -> Markup {
    html! {
        li {
            b { (title) ":" }
            ul.conditions { @for inner in nodes { (node(inner, zone)) } }
        }
    }
}

/// The comparison with its operand. `absent` is what also matches a negative comparison.
fn sentence(condition: &Condition, absent: &str, zone: &TimeZone) -> Markup {
    let Condition { comparison, operand } = condition;
    let (verb, end) = words(*comparison);
    let absent = if comparison.is_negative() && *operand != Operand::None { absent } else { "" };
    html! {
        (verb)
        @match operand {
            Operand::None => {}
            Operand::Text(text) if is_quoted(*comparison) => {
                " " code { "\"" (parts::name(text)) "\"" }
            }
            Operand::Text(text) => { " " code { (parts::name(text)) } }
            Operand::Number(number) => { " " code { (number) } }
            Operand::Boolean(boolean) => { " " code { (boolean) } }
            Operand::Time(ms, written) => {
                " " span title=(parts::cut(written)) { (parts::exact_time(*ms, zone)) }
            }
            Operand::Days(days) => { " " (parts::count_of((*days).into(), "day", "days")) }
        }
        (end) (absent)
    }
}

/// Whether a text is a value, which may look like a number. A pattern and a status cannot be
/// mistaken.
fn is_quoted(comparison: Comparison) -> bool {
    use Comparison as C;
    !matches!(comparison, C::Is | C::IsNot | C::MatchesRegex | C::DoesNotMatchRegex)
}

/// The words before and after the operand.
fn words(comparison: Comparison) -> (&'static str, &'static str) {
    use Comparison as C;
    match comparison {
        C::Equals | C::Is => ("is", ""),
        C::NotEqual | C::DoesNotEqual | C::IsNot => ("is not", ""),
        C::MatchesRegex => ("matches", ""),
        C::DoesNotMatchRegex => ("does not match", ""),
        C::IncludesValue => ("includes", ""),
        C::DoesNotIncludeValue => ("does not include", ""),
        C::GreaterThan => ("is greater than", ""),
        C::GreaterThanOrEqualTo => ("is at least", ""),
        C::LessThan => ("is less than", ""),
        C::LessThanOrEqualTo => ("is at most", ""),
        C::LessThanDaysAgo => ("is less than", " ago"),
        C::GreaterThanDaysAgo => ("is more than", " ago"),
        C::LessThanDaysInTheFuture => ("is less than", " from now"),
        C::GreaterThanDaysInTheFuture => ("is more than", " from now"),
        C::After => ("is after", ""),
        C::Before => ("is before", ""),
        C::Exists => ("has a value", ""),
        C::DoesNotExist => ("has no value", ""),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The tree without its elements; each list is in brackets.
    fn text(audience: &Value) -> String {
        let audience = Audience::read_segment(&audience.into()).unwrap();
        let html = tree(&audience, &TimeZone::UTC).into_string();
        let html = html.replace("<ul class=\"conditions\">", "[").replace("</ul>", "]");
        let html = html.replace("</li><li>", "; ");
        let mut text = String::new();
        let mut in_element = false;
        for c in html.chars() {
            match c {
                '<' => in_element = true,
                '>' => in_element = false,
                c if !in_element => text.push(c),
                _ => {}
            }
        }
        text.replace("&quot;", "\"")
    }

    fn attribute(comparison: &str, value: &Value) -> Value {
        json!({ "custom_attribute": {
            "custom_attribute_name": "x", "comparison": comparison, "value": value,
        } })
    }

    #[test]
    fn each_comparison_has_words() {
        let day = json!("2026-11-21");
        for (comparison, value, expected) in [
            ("equals", json!("5"), "is \"5\""),
            ("equals", json!(5), "is 5"),
            ("equals", json!(true), "is true"),
            ("not_equal", json!("a"), "is not \"a\", or has no value"),
            ("does_not_equal", json!(false), "is not false, or has no value"),
            ("matches_regex", json!("^a"), "matches ^a"),
            ("does_not_match_regex", json!("^a"), "does not match ^a, or has no value"),
            ("includes_value", json!("a"), "includes \"a\""),
            ("does_not_include_value", json!(1.5), "does not include 1.5, or has no value"),
            ("greater_than", json!(5), "is greater than 5"),
            ("greater_than_or_equal_to", json!(5), "is at least 5"),
            ("less_than", json!(-5), "is less than -5"),
            ("less_than_or_equal_to", json!(5), "is at most 5"),
            ("less_than_x_days_ago", json!(1), "is less than 1 day ago"),
            ("greater_than_x_days_ago", json!(30), "is more than 30 days ago"),
            ("less_than_x_days_in_the_future", json!(2), "is less than 2 days from now"),
            ("greater_than_x_days_in_the_future", json!(2), "is more than 2 days from now"),
            ("after", day.clone(), "is after 2026-11-21 00:00:00 UTC"),
            ("before", day, "is before 2026-11-21 00:00:00 UTC"),
            ("exists", Value::Null, "has a value"),
            ("does_not_exist", Value::Null, "has no value"),
        ] {
            let expected = format!("[custom attribute x {expected}]");
            assert_eq!(text(&attribute(comparison, &value)), expected, "{comparison}");
        }
    }

    #[test]
    fn each_kind_of_condition_has_a_subject() {
        let status = |value| json!({ "comparison": "is_not", "value": value });
        let after = json!({ "comparison": "after", "value": "2026-11-21T10:00:00+01:00" });
        let property = |product: Value| {
            json!({ "purchase_property": {
                "product_id": product, "property_name": "size", "comparison": "not_equal",
                "value": "L",
            } })
        };
        let is_not_large = "is not \"L\", or has no value";
        for (audience, expected) in [
            (
                json!({ "push_subscription_status": status("opted_in") }),
                "push subscription is not opted_in".to_owned(),
            ),
            (
                json!({ "email_subscription_status": status("unsubscribed") }),
                "email subscription is not unsubscribed".to_owned(),
            ),
            (
                json!({ "last_used_app": after }),
                "latest use of any app is after 2026-11-21 09:00:00 UTC".to_owned(),
            ),
            (
                property(json!("tea")),
                format!("property size of the latest purchase of tea {is_not_large}"),
            ),
            (
                property(Value::Null),
                format!("property size of the latest purchase of any product {is_not_large}"),
            ),
        ] {
            assert_eq!(text(&audience), format!("[{expected}]"));
            assert_eq!(count(&(&audience).into()), "1 condition");
        }
    }

    #[test]
    fn groups_are_nested_and_a_group_of_one_is_its_condition() {
        let leaf = |value: i32| attribute("equals", &json!(value));
        let audience = json!({ "OR": [
            leaf(1), { "AND": [leaf(2), { "OR": [leaf(3)] }] }, { "AND": [leaf(4)] },
        ] });
        let condition = |value: i32| format!("custom attribute x is {value}");
        let inner = format!("All of:[{}; {}]", condition(2), condition(3));
        let expected = format!("[Any of:[{}; {inner}; {}]]", condition(1), condition(4));
        assert_eq!(text(&audience), expected);
        assert_eq!(count(&(&audience).into()), "4 conditions");
        assert_eq!(count(&Tree::Object(TreeObject::default())), "0 conditions");
    }

    #[test]
    fn times_are_in_the_zone_and_hostile_names_are_text() {
        let audience = json!({ "custom_attribute": {
            "custom_attribute_name": "<script>", "comparison": "before",
            "value": "2026-11-21T23:30:00Z",
        } });
        let audience = Audience::read(&(&audience).into()).unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let html = tree(&audience, &zone).into_string();
        assert!(html.contains("2026-11-22 00:30:00 CET"), "{html}");
        assert!(html.contains("title=\"2026-11-21T23:30:00Z\""), "{html}");
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script>"), "{html}");
    }
}

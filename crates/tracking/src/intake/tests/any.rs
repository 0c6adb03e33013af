//! Properties of every input.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::{NOTHING_VALID, NOW, accepted, batches, rejected, track, with};
use crate::Kind;
use crate::message::{Json, Object};
use kit::clock;
use people::users::identifier::Identifier;

/// A JSON number with its exact value in millionths, rounded half to even.
fn decimal() -> impl Strategy<Value = (String, i128)> {
    (0..10i128.pow(11), 0..12u32).prop_map(|(digits, places)| {
        let power = 10i128.pow(places);
        let text =
            format!("{}.{:0width$}", digits / power, digits % power, width = places as usize);
        let scaled = digits * 1_000_000;
        let (floor, rest) = (scaled / power, scaled % power);
        let up = 2 * rest > power || (2 * rest == power && floor % 2 == 1);
        let text = text.trim_end_matches('.').to_owned();
        (if places == 0 { digits.to_string() } else { text }, floor + i128::from(up))
    })
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1e400".to_owned()),
        Just(r#""\ud800""#.to_owned()),
        Just(r#""\u0000""#.to_owned()),
        Just(r#""2021-06-28T17:02:43Z""#.to_owned()),
        Just(r#""USD""#.to_owned()),
        Just(r#""a@b""#.to_owned()),
        any::<String>().prop_map(|text| Value::from(text).to_string()),
        any::<f64>().prop_map(|number| Value::from(number).to_string()),
        (0..200u8).prop_map(|number| number.to_string()),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![
            prop::sample::select(vec![
                "external_id",
                "service_id",
                "user_alias",
                "alias_name",
                "alias_label",
                "email",
                "product_id",
                "currency",
                "price",
                "quantity",
                "time",
                "properties",
                "name",
                "app_id",
                "_update_existing_only",
                "custom_attributes",
                "inc",
                "add",
                "remove",
                "push_tokens",
                "gender",
                "apps",
                "current_location",
                "$",
                "",
            ])
            .prop_map(str::to_owned),
            ".{0,3}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|items| format!("[ {} ]", items.join(" ,"))),
            prop::collection::vec((name, inner), 0..6).prop_map(|members| {
                let members: Vec<_> = members
                    .into_iter()
                    .map(|(name, value)| format!("{} : {value}", Value::from(name)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// A purchase in which fields may be missing or invalid.
fn near_purchase() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec![
            "external_id",
            "price",
            "time",
            "currency",
            "quantity",
            "properties",
            "x",
        ]),
        any_json(),
    )
        .prop_map(|(name, value)| with(name, &value))
}

proptest! {
    #[test]
    fn prices_are_exact((text, millionths) in decimal()) {
        let message = accepted(Kind::Purchases, &with("price", &text));
        prop_assert!(message.contains(&format!("\"price\":{millionths},")), "{} {}", text, message);
    }

    #[test]
    fn quantities_are_1_to_100(quantity in -300..300i64) {
        let object = with("quantity", &quantity.to_string());
        if (1..=100).contains(&quantity) {
            let expected = format!("\"quantity\":{quantity},");
            prop_assert!(accepted(Kind::Purchases, &object).contains(&expected));
        } else {
            prop_assert_eq!(rejected(Kind::Purchases, &object).len(), 1);
        }
    }

    #[test]
    fn texts_have_1_to_255_characters(text in "[aé😀]{0,300}") {
        let object = with("product_id", &Value::from(text.clone()).to_string());
        if (1..=255).contains(&text.chars().count()) {
            let expected = format!("\"product_id\":\"{text}\"");
            prop_assert!(accepted(Kind::Purchases, &object).contains(&expected));
        } else {
            prop_assert_eq!(rejected(Kind::Purchases, &object).len(), 1);
        }
    }

    #[test]
    fn every_instant_is_read_in_both_patterns(ms in -60_000_000_000_000..NOW, hours in -12..14i64) {
        let time = clock::from_ms(ms + hours * 3_600_000).to_string();
        let (seconds, millis) = (&time[..19], ms.rem_euclid(1000));
        let (sign, hours) = (if hours < 0 { '-' } else { '+' }, hours.abs());
        for zone in [format!("{sign}{hours:02}:00"), format!("{sign}{hours:02}00")] {
            for point in ['.', ':'] {
                let time = format!("\"{seconds}{point}{millis:03}{zone}\"");
                let message = accepted(Kind::Purchases, &with("time", &time));
                prop_assert!(message.contains(&format!("\"time\":{ms}")), "{} {}", time, message);
            }
        }
    }

    #[test]
    fn a_datetime_is_rejected_in_an_array_at_any_depth(
        wraps in prop::collection::vec(any::<bool>(), 0..6), date_only: bool,
    ) {
        let mut value = if date_only { "\"2021-06-28\"" } else { "\"2021-06-28T17:02:43Z\"" }.to_owned();
        for is_array in &wraps {
            value = if *is_array { format!("[{value}]") } else { format!(r#"{{"x":{value}}}"#) };
        }
        let object = with("properties", &format!(r#"{{"a":{value}}}"#));
        if !date_only && wraps.contains(&true) {
            prop_assert_eq!(rejected(Kind::Purchases, &object), ["properties.a has a datetime inside an array"]);
        } else {
            prop_assert!(accepted(Kind::Purchases, &object).contains(&value));
        }
    }

    #[test]
    fn every_object_is_accepted_or_reported(
        attributes in prop::collection::vec(any_json(), 0..4),
        events in prop::collection::vec(any_json(), 0..4),
        purchases in prop::collection::vec(prop_oneof![near_purchase(), any_json()], 0..6),
    ) {
        let sent = [("attributes", attributes), ("events", events), ("purchases", purchases)];
        let arrays: Vec<_> = sent.iter().map(|(name, objects)| format!("\"{name}\":[{}]", objects.join(","))).collect();
        let outcome = track(format!("{{{}}}", arrays.join(",")));
        let (processed, errors, payloads) = match outcome {
            Ok((answer, payloads)) => {
                let processed = sent.iter().map(|(name, _)| answer[format!("{name}_processed")].as_u64().unwrap()).sum();
                (processed, answer["errors"].as_array().cloned().unwrap_or_default(), payloads)
            }
            Err((message, errors)) => {
                prop_assert_eq!(message, NOTHING_VALID);
                (0, errors, BTreeMap::new())
            }
        };
        let mut reported: Vec<_> = errors.iter().map(|e| (e["input_array"].to_string(), e["index"].as_u64())).collect();
        reported.dedup();
        let all: usize = sent.iter().map(|(_, objects)| objects.len()).sum();
        prop_assert_eq!(processed as usize + reported.len(), all);
        let batches = batches(&payloads);
        prop_assert_eq!(batches.iter().map(|batch| batch.objects.len()).sum::<usize>(), processed as usize);
        for (batch, payload) in batches.iter().zip(payloads.values()) {
            prop_assert_eq!(&serde_json::to_string(batch).unwrap(), payload);
            for object in &batch.objects {
                prop_assert!(object.update_only() || !matches!(object.user(), Identifier::UserAlias(_)));
                if let Object::Purchase(purchase) = object {
                    prop_assert!(purchase.time <= NOW && purchase.price >= 0);
                    prop_assert_ne!(purchase.properties.as_ref().map(Json::get), Some("{}"));
                }
            }
        }
    }

    #[test]
    fn any_body_is_answered(body in "[-0-9a-z\"\\[\\]{}:,. \\\\]{0,80}", purchases in any_json()) {
        let _ = track(body);
        let _ = track(format!(r#"{{"purchases":{purchases}}}"#));
    }
}

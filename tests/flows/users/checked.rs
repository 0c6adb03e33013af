//! What a record's values may be, and the form in which they are kept.

use serde_json::{Value, json};

use super::World;
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    rejects_values_that_no_reader_or_standard_has,
    times_are_normalized,
);

async fn rejects_values_that_no_reader_or_standard_has(world: World) {
    let line = |member: &str| format!(r#"{{"external_id":"e",{member}}}"#);
    let lines = [
        line(r#""custom_attributes":{"a":{"b":[{"c":1,"c":2}]}}"#),
        line(r#""devices":[{"model":"m","model":"n"}]"#),
        line(r#""user_aliases":[{"alias_name":"n","alias_label":"l","alias_name":"o"}]"#),
        line(r#""current_location":{"longitude":1,"latitude":2,"latitude":3}"#),
        line(
            r#""purchases":[{"name":"a","first":"2026-01-01","last":"2026-01-01","count":1,"name":"b"}]"#,
        ),
        line(r#""email":"a@b.co>""#),
        line(r#""email":"a@b@c.co""#),
        line(r#""email":"a@-b.co""#),
        line(r#""email":"a@b..co""#),
        line(r#""country":"ZZ""#),
        line(r#""language":"zz""#),
    ];
    let (summary, bad) = world.import(&lines).await;
    let numbers: Vec<u64> = bad.iter().map(|bad| bad.line).collect();
    assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>(), "{bad:?}");
    assert_eq!((summary.bad, world.count().await), (lines.len() as u64, 0));
    world
        .import_well(&[
            line(r#""custom_attributes":{"a":[{"c":1},{"c":2}]},"country":"CH","language":"rm""#),
            r#"{"email":"Zoë.o'Hara+x..y@bücher.example"}"#.to_owned(),
        ])
        .await;
    assert_eq!(world.count().await, 2);
}

async fn times_are_normalized(world: World) {
    let record = json!({
        "external_id": "ann", "created_at": "2021-06-28T19:02:43.032+0200",
        "uninstalled_at": "2021-06-28", "date_of_last_session": "2021-06-28T17:02:43:032+0000",
        "apps": [{"name": "a", "first_used": "2021-06-28 17:02:43", "last_used": "2021-06-28T17:02:43.1Z"}],
        "custom_attributes": {"verbatim": "2021-06-28T19:02:43+0200"},
    });
    world.import_well(&[record.to_string()]).await;
    let shown = world.show("ann").await.unwrap();
    for (pointer, time) in [
        ("/created_at", "2021-06-28T17:02:43.032Z"),
        ("/uninstalled_at", "2021-06-28T00:00:00.000Z"),
        ("/date_of_last_session", "2021-06-28T17:02:43.032Z"),
        ("/apps/0/first_used", "2021-06-28T17:02:43.000Z"),
        ("/apps/0/last_used", "2021-06-28T17:02:43.100Z"),
        ("/custom_attributes/verbatim", "2021-06-28T19:02:43+0200"),
    ] {
        assert_eq!(shown.pointer(pointer), Some(&Value::from(time)), "{pointer}");
    }
}

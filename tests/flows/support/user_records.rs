//! Users to import.

use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Records as `generate` writes them, one JSON text each: the same for the same number.
pub async fn generated(count: usize) -> Arc<Vec<String>> {
    // Generated once a run for each number, by whoever is first.
    static GENERATED: Mutex<Vec<(usize, Arc<Vec<String>>)>> = Mutex::new(Vec::new());
    let make = move || {
        let mut generated = GENERATED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, records)) = generated.iter().find(|(number, _)| *number == count) {
            return records.clone();
        }
        let records = Arc::new(generate(count));
        generated.push((count, records.clone()));
        records
    };
    tokio::task::spawn_blocking(make).await.expect("users are generated")
}

fn generate(count: usize) -> Vec<String> {
    // As of yesterday: nothing in the records lies in the future of the import.
    let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
    let yesterday = now.date().yesterday().expect("a date").to_string();
    let number = count.to_string();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command: Command = super::process::command(directory.path(), &Default::default());
    command.args(["generate", "--users", &number, "--seed", "7", "--as-of", &yesterday]);
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("records are UTF-8");
    let records: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(records.len(), count);
    records
}

/// Records at the edges of what a record may be.
pub fn unusual() -> Vec<String> {
    let day = |days_ago: i64, time: &str| {
        let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
        let days = jiff::Span::new().days(days_ago);
        format!("{}T{time}Z", now.date().saturating_sub(days))
    };
    let entry = |name: &str, first: String, last: String, count: u32| json!({ "name": name, "first": first, "last": last, "count": count });
    [
        json!({
            "external_id": "żółw 🐢 \"quoted\" \\ \u{2028}",
            "first_name": "Zo\u{eb}", "last_name": "الخوارزمي", "home_city": "東京",
            "gender": "nil",
            "custom_attributes": {
                "empty": "", "no": false, "zero": 0, "nothing": null, "price": 1.10,
                "large": 12_345_678_901_234_567_890_u64, "list": ["a", "", null, 3],
                "nested": { "purchases": [{ "email": "not@theirs.example" }] },
                "naïve key": "line\nbreak\ttab", "when": "2021-06-28T17:02:43.032Z",
            },
            "user_aliases": { "alias_name": "turtle", "alias_label": "nick" },
            "last_coordinates": [-73.99, 40.7],
        }),
        // Nobody but an email, and nothing that has data.
        json!({
            "email": "Only.Email+tag@Acme.example", "first_name": "", "apps": [], "devices": [],
            "custom_attributes": {}, "user_aliases": [], "phone": null,
        }),
        json!({
            "user_aliases": [
                { "alias_name": "one", "alias_label": "crm" },
                { "alias_name": "two", "alias_label": "crm" },
            ],
            "apps": [{ "name": "Acme", "platform": "iOS", "sessions": 12, "version": "" }],
            "devices": [{ "model": "m", "ad_tracking_enabled": false, "carrier": null }],
        }),
        // One purchase before the window, the others in it; the same name twice; and a
        // name that is out of the window altogether.
        json!({
            "external_id": "at-the-edge-of-the-window",
            "purchases": [
                entry("straddles", day(95, "10:00:00.000"), day(3, "11:30:00.250"), 4),
                entry("twice", day(20, "00:00:00.000"), day(20, "00:00:00.000"), 1),
                entry("twice", day(30, "23:59:59.999"), day(10, "05:00:00.000"), 7),
                entry("long ago", day(400, "00:00:00.000"), day(300, "00:00:00.000"), 9),
            ],
            "custom_events": [
                entry("ended before", day(99, "12:00:00.000"), day(92, "12:00:00.000"), 2),
            ],
            "total_revenue": 1_234.567_891,
        }),
        json!({ "external_id": "nothing-else" }),
    ]
    .iter()
    .map(Value::to_string)
    .collect()
}

/// `count` users: the unusual ones where there is room for them, and generated ones.
pub async fn mixed(count: usize) -> Vec<String> {
    let mut records = if count > 100 { unusual() } else { Vec::new() };
    let others = count - records.len();
    // Smaller crowds are cut out of one that is generated once.
    let generated = generated(others.max(5_001)).await;
    records.extend(generated.iter().take(others).cloned());
    records
}

/// Users with a text of 16 KiB of zeros and ones each.
pub fn with_bits(count: usize) -> Vec<String> {
    let mut state = 1_u64;
    let mut bit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if state >> 40 & 1 == 1 { '1' } else { '0' }
    };
    let mut user = |n: usize| {
        let bits: String = (0..16 << 10).map(|_| bit()).collect();
        json!({ "external_id": format!("u{n}"), "custom_attributes": { "bits": bits } }).to_string()
    };
    (0..count).map(&mut user).collect()
}

/// A small record of a number, in one of its versions.
pub fn simple(number: usize, version: usize) -> String {
    json!({
        "external_id": format!("user-{number:06}"),
        "first_name": format!("version {version}"),
        "email": format!("user-{number}.{version}@acme.example"),
        "custom_attributes": { "number": number, "version": version },
    })
    .to_string()
}

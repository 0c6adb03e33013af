//! Invalid phone numbers on the page of the console; and who looked at them.

use regex::Regex;
use serde_json::json;

use super::audited;
use crate::support::WorkspaceFile;
use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::{Backend, Fleet};

const PAGE: &str = "/w/acme/sms-numbers";
const REASON: &str = "<script>alert(1)</script>";

/// The numbers on a page.
fn numbers(page: &PageResponse) -> Vec<String> {
    assert_eq!(page.status, 200, "{page:?}");
    assert!(!page.text.contains(REASON), "{}", page.text);
    let number = Regex::new(r#"<span class="title">(\+\d+)</span>"#).expect("an expression");
    number.captures_iter(&page.text).map(|number| number[1].to_owned()).collect()
}

async fn add(fleet: &Fleet, workspace: &str, numbers: &[String]) {
    let file = fleet.write_file("numbers.txt", numbers.join("\n").as_bytes());
    let file = file.to_str().expect("a path");
    let add = ["invalid-numbers", "add", file, "--reason", REASON, "--workspace", workspace];
    fleet.run(&add).await;
}

async fn invalid_numbers_are_found_by_their_beginning(backend: Backend) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme"), WorkspaceFile::new("beta")]).await;
    let all: Vec<String> = (0..51).map(|number| format!("+49151123456{number:02}")).collect();
    add(&fleet, "acme", &[&all[..], &["+15550100".to_owned()]].concat()).await;
    add(&fleet, "beta", &["+4420794600".to_owned()]).await;
    let ana = Browser::signed_in(&fleet, "ana", "admin").await;

    let first = ana.get(PAGE).await;
    let mut expected = vec!["+15550100".to_owned()];
    expected.extend_from_slice(&all[..49]);
    assert_eq!(numbers(&first), expected);
    assert!(first.text.contains("&lt;script&gt;"), "{}", first.text);
    let next = Regex::new(r#"name="from" value="(\d+)""#).expect("an expression");
    let from = next.captures(&first.text).expect("another page")[1].to_owned();
    assert_eq!(numbers(&ana.post(PAGE, &[("from", &from)]).await), all[49..]);
    for (text, expected) in [
        ("+1 555", vec!["+15550100"]),
        ("0049 (151) 123-45650", vec!["+4915112345650"]),
        ("4420", vec![]),
    ] {
        assert_eq!(numbers(&ana.post(PAGE, &[("number", text)]).await), expected, "{text}");
    }
    for text in [REASON, "ann", "1234567890123456"] {
        let wrong = ana.post(PAGE, &[("number", text)]).await;
        assert_eq!(wrong.status, 422, "{text}: {wrong:?}");
        assert!(wrong.text.contains("number-error") && !wrong.text.contains(REASON), "{wrong:?}");
    }

    // Each view and each search, also one that found nothing; not the forms with errors.
    let entries = audited(&fleet, "invalid_numbers.view").await;
    let counts: Vec<_> = entries.iter().rev().map(|entry| entry["details"].clone()).collect();
    let views = [50, 2].map(|count| json!({ "numbers": count }));
    let searches = [1, 1, 0].map(|count| json!({ "numbers": count, "is_search": true }));
    assert_eq!(counts, [&views[..], &searches].concat());
    assert!(entries.iter().all(|entry| entry["actor"] == "console:ana"), "{entries:?}");

    // The user of a number is found by the same search as on the page of users.
    fleet
        .import("acme", &[json!({ "external_id": "ann", "phone": "+15550100" }).to_string()])
        .await;
    let found = ana.post("/w/acme/users", &[("identifier", "+15550100")]).await;
    assert_eq!(found.status, 303, "{found:?}");

    let olga = Browser::signed_in(&fleet, "olga", "operator").await;
    assert_eq!(olga.get(PAGE).await.status, 403);
    assert_eq!(olga.post(PAGE, &[("number", "1")]).await.status, 403);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_numbers_are_found_by_their_beginning_on_sqlite() {
    invalid_numbers_are_found_by_their_beginning(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_numbers_are_found_by_their_beginning_on_postgres() {
    invalid_numbers_are_found_by_their_beginning(Backend::Fleet(1)).await;
}

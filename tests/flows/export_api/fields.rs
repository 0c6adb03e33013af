//! Which fields an export has, and in which form.

use serde_json::{Value, json};

use crate::support::api::ALL_FIELDS;
use crate::support::archives::unzip;
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;
use crate::support::{stores, user_records};

/// An export with the consent of users can be corrected and imported, as the ZIP that it is.
#[tokio::test(flavor = "multi_thread")]
async fn consent_is_exported_on_request_and_survives_an_import() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let user = json!({
        "external_id": "ann", "email": "ann@acme.example", "email_subscribe": "unsubscribed",
        "push_subscribe": "opted_in", "push_tokens": [{"app_id": "a", "token": "t"}],
        "subscription_groups": [
            {"subscription_group_id": "g", "subscription_state": "unsubscribed"},
            {"subscription_group_id": "h", "subscription_state": "subscribed"},
        ],
    });
    fleet.import("acme", &[user.to_string()]).await;
    let consent = ["email_subscribe", "push_subscribe", "subscription_groups"];
    let read = async |fields: &[&str]| {
        let accepted = api.export(&json!({ "fields_to_export": fields })).await;
        api.done(&accepted.prefix).await;
        let archive = api.download(accepted.address()).await;
        let files = checker::downloaded(&archive);
        let line: Value = serde_json::from_slice(&files[0].bytes).expect("one line");
        (line, archive)
    };
    let all: Vec<&str> = ALL_FIELDS.to_vec();
    let (line, _) = read(&all).await;
    assert!(consent.iter().all(|field| line.get(field).is_none()), "{line}");
    let (line, archive) = read(&[&all[..], &consent].concat()).await;
    for field in consent {
        assert_eq!(line[field], user[field], "{field}");
    }
    let shown = async || {
        let shown = fleet.run(&["users", "show", "ann", "--json"]).await;
        serde_json::from_str::<Value>(&shown).expect("JSON")
    };
    let before = shown().await;
    let path = fleet.directory().join("export.zip");
    std::fs::write(&path, &archive).expect("the archive is written");
    let imported = fleet.run(&["import", path.to_str().expect("text"), "--json"]).await;
    let imported: Value = serde_json::from_str(&imported).expect("JSON");
    assert_eq!((&imported["replaced"], &imported["bad"]), (&json!(1), &json!(0)), "{imported}");
    assert_eq!(shown().await, before);
    fleet.close().await;
}

/// Each line has the wanted fields and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn only_requested_fields_are_exported() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let records = user_records::mixed(400).await;
    fleet.import("acme", &records).await;
    let identifiers = ["external_id", "user_aliases", "email", "service_id"];
    for more in [
        &["first_name", "custom_attributes.nested", "custom_attributes.empty"][..],
        &["custom_attributes", "custom_attributes.nested"],
        &["custom_attributes.naïve key", "custom_attributes.no"],
        &["purchases"],
        &["custom_events", "total_revenue"],
        &["apps", "devices", "gender", "last_coordinates"],
        &["created_at", "random_bucket"],
    ] {
        let fields = [&identifiers[..], more].concat();
        let accepted = api.export(&json!({ "fields_to_export": fields })).await;
        let status = api.done(&accepted.prefix).await;
        let wanted = ExpectedExport {
            fields: &fields,
            days: checker::export_days(&status),
            prefix: &accepted.prefix,
        };
        let files = checker::downloaded(&api.download(accepted.address()).await);
        let users = checker::lines(&files, &wanted);
        checker::check(&users, checker::exactly(&records), &wanted);
    }
    // Who has none of them is there all the same.
    let nothing = ["custom_attributes.nobody has this"];
    let accepted = api.export(&json!({ "fields_to_export": nothing })).await;
    let status = api.done(&accepted.prefix).await;
    let wanted = ExpectedExport {
        fields: &nothing,
        days: checker::export_days(&status),
        prefix: &accepted.prefix,
    };
    let files = checker::downloaded(&api.download(accepted.address()).await);
    let users = checker::lines(&files, &wanted);
    assert_eq!(users, vec![json!({}); records.len()]);
    fleet.close().await;
}

/// What an earlier version stored comes as what is stored now does.
#[tokio::test(flavor = "multi_thread")]
async fn stored_values_are_exported_in_the_form_of_new_ones() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let record = json!({ "external_id": "ann", "created_at": "2021-06-28T19:02:43+0200" });
    fleet.import("acme", &[record.to_string()]).await;
    let sql = r#"UPDATE users SET doc = replace(doc, '"2021-06-28T17:02:43.000Z"',
                 '"2021-06-28T19:02:43+0200","custom_attributes":{"a":{"b":1,"b":2}}')
                 WHERE doc LIKE '%"2021-06-28T17:02:43.000Z"%'"#;
    assert_eq!(stores::execute(&fleet.database_url(), sql).await, 1);
    let fields = ["external_id", "created_at", "custom_attributes"];
    let accepted = api.export(&json!({ "fields_to_export": fields })).await;
    api.done(&accepted.prefix).await;
    let archive = api.download(accepted.address()).await;
    let lines: Vec<u8> = unzip(&archive).into_iter().flat_map(|file| file.bytes).collect();
    assert_eq!(
        String::from_utf8_lossy(&lines),
        "{\"external_id\":\"ann\",\"created_at\":\"2021-06-28T17:02:43.000Z\",\
         \"custom_attributes\":{\"a\":{\"b\":2}}}\n"
    );
    fleet.close().await;
}

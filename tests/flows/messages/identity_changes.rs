//! Users who are renamed or merged between messages, and between the attempts at one.

use std::iter::repeat_n;

use serde_json::json;

use super::sending::{Sending, campaign, message};
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::receiver::ScriptedResponse;

async fn retries_keep_the_properties_of_their_entry(backend: Backend) {
    let settings = [("LONGSHORE_MESSAGES__RETRY_MS", "50".to_owned())];
    let sending = Sending::start(backend, &settings, |receiver| {
        let messages = message(receiver, "{{api_trigger_properties.${n}}}");
        vec![("campaigns", campaign(&messages))]
    })
    .await;
    sending.import(&[("bob", None)]).await;
    let alias = json!({ "alias_label": "crm", "alias_name": "ann" });
    sending.change("/users/alias/new", &json!({ "user_aliases": [alias] })).await;
    sending.receiver.script(repeat_n(ScriptedResponse::Status(503), 100_000));
    let recipients = json!([
        { "user_alias": alias, "trigger_properties": { "n": "1" } },
        { "external_user_id": "bob", "trigger_properties": { "n": "2" } },
    ]);
    sending.trigger(&recipients).await;
    eventually("both were tried", || async { sending.texts().len() == 2 }).await;

    // The alias of the first entry is that of the second one's user now.
    let rename = json!({ "alias_label": "crm", "old_alias_name": "ann", "new_alias_name": "anna" });
    sending.change("/users/alias/update", &json!({ "alias_updates": [rename] })).await;
    let of_bob = json!({ "alias_label": "crm", "alias_name": "ann", "external_id": "bob" });
    sending.change("/users/alias/new", &json!({ "user_aliases": [of_bob] })).await;
    let open = "SELECT count(*) FROM messages WHERE state IN ('pending', 'waiting')";
    assert_eq!(sending.count(open).await, 2);
    sending.receiver.clear_script();
    sending.at_rest(2).await;
    let texts = [("", "1"), ("bob", "2")];
    assert_eq!(sending.texts(), texts.map(|(user, text)| (user.to_owned(), text.to_owned())));
    assert_eq!(sending.count("SELECT count(*) FROM messages WHERE state = 'sent'").await, 2);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_keep_the_properties_of_their_entry_standalone() {
    retries_keep_the_properties_of_their_entry(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_keep_the_properties_of_their_entry_in_a_fleet() {
    retries_keep_the_properties_of_their_entry(Backend::Fleet(2)).await;
}

async fn caps_count_messages_to_merged_users(backend: Backend) {
    let sending = Sending::start(backend, &[], |receiver| {
        vec![
            ("campaigns", campaign(&message(receiver, "hello"))),
            ("frequency_capping", json!([{ "messages": 1, "days": 7 }])),
        ]
    })
    .await;
    sending.import(&[("ann", None), ("bob", None), ("cy", None)]).await;
    sending.trigger(&json!([{ "external_user_id": "cy" }])).await;
    sending.at_rest(1).await;
    sending.merge("cy", "bob").await;
    sending.merge("bob", "ann").await;
    sending.trigger(&json!([{ "external_user_id": "ann" }])).await;
    let ended = "SELECT count(*) FROM dispatches WHERE finished_at IS NOT NULL";
    sending.wait_for_count(ended, |count| count == 2).await;
    assert_eq!(sending.users(), ["cy"]);
    let capped = "SELECT count(*) FROM dispatch_parts WHERE capped = 1";
    assert_eq!(sending.count(capped).await, 1);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_count_messages_to_merged_users_standalone() {
    caps_count_messages_to_merged_users(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_count_messages_to_merged_users_in_a_fleet() {
    caps_count_messages_to_merged_users(Backend::Fleet(1)).await;
}

//! A user who is merged while an email or its postback is under way: both are completed. Once the
//! kept user is erased, neither is left.

use std::iter::repeat_n;
use std::time::Duration;

use serde_json::json;

use super::{Scene, to};
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::receiver::ScriptedResponse;
use crate::support::scripted_relay::{Action, Step};
use crate::support::stores::{count, execute, wait_for_count};

impl Scene {
    /// With ann, who has got an email.
    async fn with_ann(backend: Backend, settings: &[(&str, String)]) -> Self {
        let scene = Self::with(backend, [], settings).await;
        let dispatch = scene.sent(&to("ann", json!({}))).await;
        scene.first_postback(&dispatch).await;
        scene
    }

    /// Merges bob into ann.
    async fn merge(&self) {
        let merge = json!({ "merge_updates": [{
            "identifier_to_merge": { "external_id": "bob" },
            "identifier_to_keep": { "external_id": "ann" },
        }] });
        assert_eq!(self.api.post("/users/merge", &merge).await.status, 202);
        self.fleet.applied().await;
        let merged = "SELECT count(*) FROM merged_users";
        assert_eq!(count(&self.fleet.database_url(), merged).await, 1);
    }

    /// Erases ann, and closes: nothing of her emails and bob's is left.
    async fn erase(self) {
        self.fleet.run(&["users", "delete", "ann", "--workspace", "acme"]).await;
        let left = "SELECT (SELECT count(*) FROM transactional_emails)
                         + (SELECT count(*) FROM deliveries)
                         + (SELECT count(*) FROM merged_users)";
        assert_eq!(count(&self.fleet.database_url(), left).await, 0);
        self.fleet.close().await;
    }
}

async fn a_waiting_email_goes_to_the_kept_user(backend: Backend) {
    let scene = Scene::with_ann(backend, &[]).await;
    scene.relay.script((0..3).map(|_| (Step::End, Action::Reply(451, "4.3.0 try again later"))));
    let dispatch = scene.sent(&to("bob", json!({}))).await;
    // Not retried before the merge is applied.
    let wait = "UPDATE claims SET due_at = due_at + 3600000
                WHERE kind = 'transactional' AND owner IS NULL
                  AND EXISTS (SELECT 1 FROM transactional_emails WHERE put_off > 0)";
    let url = scene.fleet.database_url();
    eventually("the email waits", || async { execute(&url, wait).await == 1 }).await;
    scene.merge().await;
    assert_eq!(scene.relay.accepted().len(), 1);
    execute(&url, "UPDATE claims SET due_at = 0 WHERE kind = 'transactional'").await;
    let postback = scene.first_postback(&dispatch).await;
    assert_eq!(postback["status"], "sent", "{postback}");
    let email = scene.taken(2).await.remove(1);
    assert_eq!(email.to, ["ann@acme.example"]);
    assert!(email.header("Message-ID").unwrap().contains(&dispatch), "{}", email.text);
    scene.erase().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_email_goes_to_the_kept_user_standalone() {
    a_waiting_email_goes_to_the_kept_user(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_email_goes_to_the_kept_user_in_a_fleet() {
    a_waiting_email_goes_to_the_kept_user(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_that_the_relay_is_given_during_a_merge_has_its_postback() {
    let scene = Scene::with_ann(Backend::Embedded, &[]).await;
    scene.relay.script([(Step::End, Action::Delay(Duration::from_secs(5)))]);
    let dispatch = scene.sent(&to("bob", json!({}))).await;
    let given = || scene.relay.received_commands().iter().filter(|line| *line == "DATA").count();
    eventually("the relay is given the email", || async { given() == 2 }).await;
    scene.merge().await;
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    assert_eq!(scene.taken(2).await.len(), 2);
    scene.erase().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_postbacks_outlive_a_merge() {
    let settings = [("LONGSHORE_DELIVERIES__RETRY_MS", "50".to_owned())];
    let scene = Scene::with_ann(Backend::Embedded, &settings).await;
    scene.receiver.script(repeat_n(ScriptedResponse::Status(503), 100_000));
    let dispatch = scene.sent(&to("bob", json!({}))).await;
    assert_eq!(scene.first_postback(&dispatch).await["status"], "sent");
    scene.merge().await;
    let pending = "SELECT count(*) FROM deliveries WHERE state = 'pending'";
    let url = scene.fleet.database_url();
    assert_eq!(count(&url, pending).await, 1);
    scene.receiver.clear_script();
    wait_for_count(&url, pending, |count| count == 0).await;
    scene.erase().await;
}

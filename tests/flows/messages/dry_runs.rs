//! Only exports have dry runs: a request that would send or schedule is rejected with `dry_run`.

use serde_json::{Value, json};

use super::sending::{CAMPAIGN, CANVAS, CREATE, Sending, message};
use crate::support::fleet::Backend;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_dry_run_sends_and_schedules_nothing() {
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        let campaign = json!({ "id": CAMPAIGN, "name": "News", "type": "api",
                               "messages": message(receiver, "hello") });
        vec![("campaigns", json!([campaign]))]
    })
    .await;
    sending.import(&[("ann", None)]).await;
    let messages = message(&sending.receiver, "hello");
    let listed = json!({ "external_user_ids": ["ann"], "messages": messages });
    let recipients = json!([{ "external_user_id": "ann" }]);
    let campaign = json!({ "campaign_id": CAMPAIGN, "recipients": recipients });
    let canvas = json!({ "canvas_id": CANVAS, "recipients": recipients });
    let later = |body: &Value| {
        let mut body = body.clone();
        body["schedule"] = json!({ "time": "2127-01-01T09:00:00Z" });
        body
    };
    for (path, mut body) in [
        ("/messages/send", listed.clone()),
        ("/messages/schedule/create", later(&listed)),
        ("/campaigns/trigger/send", campaign.clone()),
        ("/campaigns/trigger/schedule/create", later(&campaign)),
        ("/canvas/trigger/send", canvas.clone()),
        (CREATE, later(&canvas)),
    ] {
        body["dry_run"] = true.into();
        let answer = sending.api.post(path, &body).await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        assert_eq!(answer.body["code"], "invalid-field", "{path}: {answer:?}");
        let text = answer.body["message"].as_str().unwrap_or_default();
        assert!(text.starts_with("dry_run"), "{path}: {answer:?}");
    }
    // One that would be accepted without it, to know that nothing else was wrong.
    let sent = sending.api.post("/canvas/trigger/send", &canvas).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    sending.at_rest(1).await;
    assert_eq!(sending.users(), ["ann"]);
    assert_eq!(sending.count("SELECT count(*) FROM dispatches").await, 1);
    // The row of the Canvas that was sent.
    assert_eq!(sending.count("SELECT count(*) FROM schedules").await, 1);
    sending.fleet.close().await;
}

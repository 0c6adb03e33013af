//! The messages of a user.

use serde_json::{Value, json};

use super::{GOLD, World};
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::receiver::Receiver;

const PATH: &str = "/users/messages";

impl World {
    async fn import_people(&self) {
        let user = |id: &str, tier: &str| {
            json!({ "external_id": id, "email": "shared@acme.example",
                    "custom_attributes": { "tier": tier } })
        };
        let mut ann = user("ann", "gold");
        ann["email"] = "ann@acme.example".into();
        ann["phone"] = "+15550100".into();
        ann["user_aliases"] = json!([{ "alias_name": "7", "alias_label": "crm" }]);
        let people = [ann, user("bob", "basic"), user("cid", "basic")];
        self.fleet.import("acme", &people.map(|person| person.to_string())).await;
    }

    /// Sends a webhook; returns the dispatch_id.
    async fn send(&self, receiver: &Receiver, mut body: Value) -> String {
        let webhook =
            json!({ "url": receiver.url("/hook"), "request_method": "POST", "body": "x" });
        body["messages"] = json!({ "webhook": webhook });
        let sent = self.acme.post("/messages/send", &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
    }

    /// The page of a request that must succeed.
    async fn messages(&self, body: Value) -> Value {
        let page = self.acme.post(PATH, &body).await;
        assert_eq!(page.status, 200, "{body}: {page:?}");
        page.body
    }

    async fn wait_until_sent(&self, dispatch: &str) {
        let body = json!({ "external_id": "ann", "dispatch_id": dispatch });
        eventually("the message is sent", || async {
            let page = self.acme.post(PATH, &body).await;
            page.body["messages"][0]["outcome"] == "sent" && page.body["why_not"] == json!([])
        })
        .await;
    }
}

async fn a_user_is_found_by_each_identifier_and_nobody_elses(backend: Backend) {
    let world = World::start(backend).await;
    let receiver = Receiver::start([]).await;
    world.import_people().await;
    let dispatch = world.send(&receiver, json!({ "external_user_ids": ["ann"] })).await;
    world.wait_until_sent(&dispatch).await;
    let first = world.messages(json!({ "external_id": "ann" })).await;
    let service_id = first["user"]["service_id"].clone();
    assert_eq!(first["user"]["external_id"], "ann");
    let [message] = first["messages"].as_array().expect("an array").as_slice() else {
        panic!("{first}")
    };
    assert_eq!(
        (&message["dispatch_id"], &message["channel"]),
        (&json!(dispatch), &json!("webhook"))
    );
    assert_eq!((&message["attempts"], &message["is_transactional"]), (&json!(1), &json!(false)));
    assert!(message["sent_at"].is_string() && first.get("why_not").is_none(), "{first}");
    let alias = json!({ "alias_name": "7", "alias_label": "crm" });
    for user in [
        json!({ "service_id": service_id }),
        json!({ "user_alias": alias }),
        json!({ "email": "ANN@acme.example" }),
        json!({ "phone": "15550100" }),
        json!({ "phone": "001 (555) 01-00" }),
    ] {
        assert_eq!(world.messages(user).await, first);
    }
    // Others, and other workspaces, do not have this user.
    let several = world.acme.post(PATH, &json!({ "email": "shared@acme.example" })).await;
    assert_eq!((several.status.as_u16(), &several.body["code"]), (400, &json!("invalid-request")));
    for (api, body, status) in [
        (&world.acme, json!({ "external_id": "nobody" }), 404),
        (&world.beta, json!({ "service_id": service_id }), 404),
        (&world.beta, json!({ "external_id": "ann", "dispatch_id": dispatch }), 404),
        (&world.few, json!({ "external_id": "ann" }), 403),
        (&world.acme, json!({}), 400),
        (&world.acme, json!({ "external_id": "ann", "email": "ann@acme.example" }), 400),
        (&world.acme, json!({ "external_ids": ["ann"] }), 400),
        (&world.acme, json!({ "external_id": "ann", "cursor": "x" }), 400),
        (&world.acme, json!({ "external_id": "ann", "limit": 101 }), 400),
        (&world.acme, json!({ "external_id": "a".repeat(10_000) }), 400),
        (&world.acme, json!({ "email": "' OR 1=1 --" }), 400),
    ] {
        let response = api.post(PATH, &body).await;
        assert_eq!(response.status, status, "{body}: {response:?}");
    }
    world.close().await;
}

async fn pages_have_each_message_once_while_others_are_sent(backend: Backend) {
    let world = World::start(backend).await;
    let receiver = Receiver::start([]).await;
    world.import_people().await;
    let mut sent = Vec::new();
    for _ in 0..5 {
        let dispatch = world.send(&receiver, json!({ "external_user_ids": ["ann"] })).await;
        world.wait_until_sent(&dispatch).await;
        sent.insert(0, dispatch);
    }
    let all_in_one = world.messages(json!({ "external_id": "ann", "limit": 5 })).await;
    assert_eq!(all_in_one["messages"].as_array().map(Vec::len), Some(5), "{all_in_one}");
    assert!(all_in_one.get("next_cursor").is_none(), "{all_in_one}");
    let (mut found, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let body = json!({ "external_id": "ann", "limit": 2, "cursor": cursor });
        let page = world.messages(body).await;
        let messages = page["messages"].as_array().expect("an array").clone();
        found.extend(
            messages
                .iter()
                .filter_map(|message| message["dispatch_id"].as_str().map(str::to_owned)),
        );
        let later = world.send(&receiver, json!({ "external_user_ids": ["ann"] })).await;
        world.wait_until_sent(&later).await;
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(found, sent);
    world.close().await;
}

async fn it_is_explained_why_a_user_got_nothing(backend: Backend) {
    let world = World::start(backend).await;
    let receiver = Receiver::start([]).await;
    world.import_people().await;
    let listed = world.send(&receiver, json!({ "external_user_ids": ["ann"] })).await;
    let to_segment = json!({ "broadcast": true, "segment_id": GOLD });
    let segment = world.send(&receiver, to_segment).await;
    let some_of_list = json!({ "external_user_ids": ["ann", "bob"], "segment_id": GOLD });
    let some_of_list = world.send(&receiver, some_of_list).await;
    for dispatch in [&listed, &segment, &some_of_list] {
        world.wait_until_sent(dispatch).await;
    }
    for (dispatch, reason) in
        [(&listed, "not_listed"), (&segment, "not_in_audience"), (&some_of_list, "not_in_audience")]
    {
        let body = json!({ "external_id": "bob", "dispatch_id": dispatch });
        eventually("it has ended, and is explained", || async {
            let page = world.messages(body.clone()).await;
            page["messages"] == json!([]) && page["why_not"] == json!([{ "reason": reason }])
        })
        .await;
    }
    let unknown = json!({ "external_id": "bob", "dispatch_id": "0".repeat(32) });
    assert_eq!(world.acme.post(PATH, &unknown).await.status, 404);
    world.close().await;
}

macro_rules! on_both_backends {
    ($($test:ident: $embedded:ident, $fleet:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $embedded() {
            $test(Backend::Embedded).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $fleet() {
            $test(Backend::Fleet(1)).await;
        }
    )+};
}

on_both_backends! {
    a_user_is_found_by_each_identifier_and_nobody_elses:
        a_user_is_found_by_each_identifier_on_sqlite,
        a_user_is_found_by_each_identifier_on_postgres;
    pages_have_each_message_once_while_others_are_sent:
        pages_have_each_message_once_on_sqlite,
        pages_have_each_message_once_on_postgres;
    it_is_explained_why_a_user_got_nothing:
        it_is_explained_why_a_user_got_nothing_on_sqlite,
        it_is_explained_why_a_user_got_nothing_on_postgres;
}

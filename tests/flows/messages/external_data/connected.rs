//! Connected content: servers that respond, fail, or do harm.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{SEND, World, ann};
use crate::support::{WorkspaceFile, eventually};

/// The memory that nothing here may take a process beyond, in bytes.
const ROOM: u64 = 600 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn connected_content_is_off_unless_it_is_declared() {
    let world =
        World::start_with(&[ann()], |file| file.with("connected_content", json!(null))).await;
    let text = format!("{{% connected_content {} %}}", world.server.url("/text"));
    world.refuses(&text, "does not allow").await;
    assert!(world.server.requests("/text").is_empty());
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_content_is_read_and_cached() {
    let users: Vec<Value> = (0..5).map(|n| json!({ "external_id": format!("u{n}") })).collect();
    let world = World::start(&users).await;
    let url = |path: &str| world.server.url(path);
    let all = ["u0", "u1", "u2", "u3", "u4"];
    let text = format!(
        "{{% connected_content {}?q={{{{ 'a b' | url_param_escape }}}} :save got :basic_auth crm %}}\
         {{{{ got.city }}}} {{{{ got.list[1] }}}} {{{{ got.query }}}} {{{{ got.__http_status__ }}}} \
         {{% connected_content {} %}} {{% connected_content {} %}}{{{{ connected[1] }}}}",
        url("/json"),
        url("/text"),
        url("/list"),
    );
    world.send(&all, &text).await;
    world.wait_until_idle(1).await;
    assert_eq!(world.texts(), ["Oslo 2 q=a%20b 200 plain text b"; 5]);
    for path in ["/json", "/text", "/list"] {
        assert_eq!(world.server.requests(path).len(), 1, "{path}");
    }
    let authorization = world.server.requests("/json")[0].0["authorization"].clone();
    assert_eq!(authorization, "Basic bG9uZ3Nob3JlOnRoZS1wYXNzd29yZC1vZi10aGUtY3Jt");
    // Requests that change something are made each time.
    let text = format!(
        "{{% capture body %}}id={{{{${{user_id}}}}}}&n=1{{% endcapture %}}{{% connected_content {} \
         :method post :headers {{ \"X-Id\": \"{{{{${{user_id}}}}}}\" }} :body {{{{ body }}}} \
         :content_type application/json :save got %}}{{{{ got.id }}}}",
        url("/echo"),
    );
    world.send(&all, &text).await;
    world.wait_until_idle(2).await;
    let echoed = world.server.requests("/echo");
    assert_eq!(echoed.len(), 5);
    for (headers, body) in &echoed {
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body, json!({ "id": headers["x-id"].to_str().unwrap(), "n": "1" }));
        assert_eq!(headers["content-type"], "application/json");
    }
    assert_eq!(world.texts()[5..], all);
    let text = format!("{{% connected_content {} :no_cache %}}", url("/text"));
    world.send(&all, &text).await;
    world.wait_until_idle(3).await;
    assert_eq!(world.server.requests("/text").len(), 6);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_responses_render_as_empty() {
    let world = World::start(&[ann()]).await;
    let got = |path: &str| {
        let url = world.server.url(path);
        format!(
            "{{% connected_content {url} :save got %}}[{{{{ got.__http_status__ }}}}{{{{ got.why }}}}]"
        )
    };
    for (path, expected) in [("/404", "[]"), ("/500", "[]"), ("/418", "[418tea]"), ("/list", "[]")]
    {
        world.renders(&got(path), expected).await;
    }
    let unreachable = "{% assign u = 'http://10.1.2.3/' %}{% connected_content {{ u }} %}[]";
    world.renders(unreachable, "[]").await;
    let text = got("/404")
        + "{% if got.__http_status__ != 200 %}{% abort_message('no data') %}{% endif %}";
    assert_eq!(world.preview(&text).await["aborted"], "no data");
    world.send(&["ann"], &text).await;
    world.wait_until_idle(1).await;
    assert_eq!(world.states().await, BTreeMap::from([("aborted", 1)]));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_fail_only_their_requests() {
    let world = World::start(&[ann()]).await;
    for path in ["/large", "/endless", "/trickle", "/hang", "/redirect", "/deep"] {
        let url = world.server.url(path);
        let text = format!("{{% connected_content {url} :save got %}}[{{{{ got }}}}]");
        world.renders(&text, "[]").await;
        world.send(&["ann"], &text).await;
    }
    assert!(world.server.requests("/target").is_empty(), "a redirect is not followed");
    let url = world.server.url("/wide");
    let loops = format!(
        "{{% connected_content {url} :save got %}}{{% for a in got %}}{{% for b in got %}}x{{% endfor %}}\
         {{% endfor %}}"
    );
    assert!(world.preview(&loops).await["failed"].is_string());
    let many = format!(
        "{{% for i in (1..20) %}}{{% connected_content {url}?{{{{ i }}}} %}}{{% endfor %}}"
    );
    let failed = world.preview(&many).await["failed"].to_string();
    assert!(failed.contains("more than 10 times"), "{failed}");
    world.wait_until_idle(6).await;
    assert_eq!(world.texts(), ["[]"; 6]);
    let peak = world.fleet.peak("standalone");
    assert!(peak < ROOM, "{} MB resident", peak >> 20);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_makes_a_message_wait_for_its_server() {
    let world = World::start(&[ann()]).await;
    let retry = |path: &str| format!("{{% connected_content {} :retry %}}", world.server.url(path));
    world.send(&["ann"], &retry("/flaky")).await;
    world.send(&["ann"], &retry("/500")).await;
    world.wait_until_idle(2).await;
    assert_eq!(world.texts(), ["at last"]);
    assert_eq!(world.server.requests("/flaky").len(), 3);
    assert_eq!(world.server.requests("/500").len(), 5);
    assert_eq!(world.states().await, BTreeMap::from([("aborted", 1), ("sent", 1)]));
    let preview = world.preview(&retry("/500")).await;
    assert!(preview["failed"].as_str().unwrap().contains("would be retried"), "{preview}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_data_delays_no_other_message() {
    let users: Vec<Value> = (0..40).map(|n| json!({ "external_id": format!("u{n}") })).collect();
    let slow = |file: WorkspaceFile, address: &str| {
        file.with("connected_content", json!({ "hosts": [address], "requests_per_second": 1 }))
    };
    let mut world = World::start(&users).await;
    let file = slow(
        WorkspaceFile::new("acme").with_percent(None).permitted(&["messages.send"]),
        &world.server.address,
    );
    let api = world.fleet.apply(&[file]).await.remove(0);
    let names: Vec<String> = (0..40).map(|n| format!("u{n}")).collect();
    let text = format!("{{% connected_content {} :no_cache %}}", world.server.url("/text"));
    let body = json!({ "external_user_ids": names, "messages": world.message(&text) });
    // A new process knows the new limit at once.
    world.fleet.terminate("standalone").await;
    world.fleet.launch("standalone").await;
    assert_eq!(api.post(SEND, &body).await.status, 201);
    eventually("the slow send has begun", || async { !world.server.requests("/text").is_empty() })
        .await;
    let quick = json!({ "external_user_ids": ["u1"], "messages": world.message("quick") });
    assert_eq!(api.post(SEND, &quick).await.status, 201);
    eventually("the quick one has come", || async { world.texts().contains(&"quick".to_owned()) })
        .await;
    assert!(world.server.requests("/text").len() < 40, "the slow ones went first");
    world.wait_until_idle(2).await;
    assert_eq!(world.texts().len(), 41);
    world.close().await;
}

//! An export that has ended is requested again over HTTP; the list of exports in one state.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::api::{Api, ApiResponse, EXPORT, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::support::{WorkspaceFile, checker};

const SEGMENT_EXPORT: &str = "users.export.segment";

async fn repeat(api: &Api, prefix: &str, key: &str) -> ApiResponse {
    let path = format!("/users/export/{prefix}/repeat");
    answer(api.request(Method::POST, &path).header("idempotency-key", key)).await
}

fn prefix_of(response: &ApiResponse) -> String {
    assert_eq!(response.status, 201, "{response:?}");
    response.body["object_prefix"].as_str().expect("an object_prefix").to_owned()
}

/// The workspace's exports in a state; all without one.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("/users/export{query}")).await;
    assert_eq!(page.status, 200, "{query}: {page:?}");
    let exports = page.body["exports"].as_array().expect("an array").iter();
    exports.map(|export| export["object_prefix"].as_str().expect("text").to_owned()).collect()
}

fn users() -> Vec<String> {
    ["ann", "bob", "cid"].map(|id| json!({ "external_id": id }).to_string()).into()
}

/// The external_ids behind a download address.
async fn downloaded(api: &Api, url: &Value) -> Vec<String> {
    let bytes = api.download(url.as_str().expect("a URL")).await;
    let files = checker::downloaded(&bytes);
    let lines = files.iter().flat_map(|file| file.bytes.split(|byte| *byte == b'\n'));
    let lines = lines.filter(|line| !line.is_empty());
    let mut ids: Vec<String> = lines
        .map(|line| serde_json::from_slice::<Value>(line).expect("JSON"))
        .map(|user| user["external_id"].as_str().expect("an id").to_owned())
        .collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_export_succeeds_when_it_is_repeated_without_its_cause() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let file = WorkspaceFile::new("acme");
    let limited = file.clone().with("export_limits", json!({ "users": 1 }));
    let api = fleet.apply(&[limited]).await.remove(0);
    fleet.import("acme", &users()).await;
    let failed = api.export(&json!({ "fields_to_export": ["external_id"] })).await.prefix;
    api.failed(&failed).await;
    // The cause is still there.
    let again = prefix_of(&repeat(&api, &failed, "first").await);
    api.failed(&again).await;
    let large = json!({ "users": 1_000 });
    fleet.apply(&[file.with("export_limits", large)]).await;
    let repeated = repeat(&api, &failed, "second").await;
    let prefix = prefix_of(&repeated);
    api.done(&prefix).await;
    assert_eq!(downloaded(&api, &repeated.body["url"]).await, ["ann", "bob", "cid"]);
    // The former one is as it was.
    assert_eq!(api.status(&failed).await["state"], "failed");
    for (query, expected) in [
        ("?state=failed", vec![&again, &failed]),
        ("?state=done", vec![&prefix]),
        ("?state=failed&limit=1", vec![&again]),
        ("?state=queued", vec![]),
        ("", vec![&prefix, &again, &failed]),
    ] {
        assert_eq!(listed(&api, query).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    // From page to page within the state.
    let first = api.get("/users/export?state=failed&limit=1").await;
    let cursor = first.body["next_cursor"].as_str().expect("a cursor");
    let second = listed(&api, &format!("?state=failed&limit=1&cursor={cursor}")).await;
    assert_eq!(second, [failed]);
    for wrong in ["state=", "state=ended", "state=Failed", "state=done&state=failed"] {
        let refused = api.get(&format!("/users/export?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
        assert_eq!(refused.body["code"], "invalid-request", "{wrong}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_export_is_repeated_once_for_each_key() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let files = [
        WorkspaceFile::new("acme"),
        WorkspaceFile::new("beta"),
        WorkspaceFile::new("few").permitted(&["users.track"]),
    ];
    let [acme, beta, few]: [Api; 3] = fleet.apply(&files).await.try_into().ok().expect("three");
    fleet.import("acme", &users()).await;
    let create = ["key", "create", "--workspace", "acme", "--name", "segments"];
    let created = fleet.run(&[&create[..], &["--permission", SEGMENT_EXPORT]].concat()).await;
    let of_segments = Api::new(fleet.base(), created.trim());

    fleet.stop("worker-1");
    let body = json!({ "fields_to_export": ["external_id"], "users_per_file": 2 });
    let former = acme.export(&body).await.prefix;
    let early = repeat(&acme, &former, "early").await;
    assert_eq!((early.status.as_u16(), &early.body["code"]), (409, &json!("conflict")));
    let cancelled = acme.delete(&format!("/users/export/{former}")).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let unknown = format!("{}-1795249527", uuid::Uuid::nil());
    for (api, prefix, status) in [
        (&acme, unknown.as_str(), 404),
        (&acme, "unknown", 404),
        (&beta, &former, 404),
        // It may request other exports than this one.
        (&of_segments, &former, 404),
        (&few, &former, 403),
    ] {
        let refused = repeat(api, prefix, "refused").await;
        assert_eq!(refused.status, status, "{prefix}: {refused:?}");
    }
    assert_eq!(listed(&acme, "").await, [former.as_str()], "nothing was requested");

    let first = repeat(&acme, &former, "once").await;
    let prefix = prefix_of(&first);
    assert_eq!(first.body["message"], "success");
    let second = repeat(&acme, &former, "once").await;
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(repeat(&of_segments, &former, "once").await.status, 404, "also of a stored one");
    let path = format!("/users/export/{former}/repeat");
    let with_body = acme.request(Method::POST, &path).header("idempotency-key", "once");
    let other_body = answer(with_body.json(&json!({}))).await;
    assert_eq!((other_body.status.as_u16(), &other_body.body["code"]), (422, &json!("key-reused")));
    // The key is of one export: for another one it is new.
    let early = repeat(&acme, &prefix, "once").await;
    assert_eq!((early.status.as_u16(), listed(&acme, "").await.len()), (409, 2), "{early:?}");
    assert_eq!(listed(&acme, "?state=cancelled").await, [former.as_str()]);
    fleet.resume("worker-1");
    let done = acme.done(&prefix).await;
    assert_eq!((&done["users"]["done"], &done["files"]["done"]), (&json!(3), &json!(2)), "{done}");
    assert_eq!(downloaded(&acme, &first.body["url"]).await, ["ann", "bob", "cid"]);
    let third = prefix_of(&repeat(&acme, &prefix, "once").await);
    assert_eq!(listed(&acme, "").await, [&*third, &*prefix, &*former]);
    fleet.close().await;
}

/// The users would go to another kind of destination than the one that was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_after_a_change_of_the_default_destination_is_refused() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let file = WorkspaceFile::new("acme");
    let api = fleet.apply(std::slice::from_ref(&file)).await.remove(0);
    fleet.import("acme", &users()).await;
    let fields = json!(["external_id"]);
    let by_default = json!({ "fields_to_export": fields });
    let to_url = json!({ "fields_to_export": fields, "destination": "url" });
    let (default_url, chosen_url) = (api.export(&by_default).await, api.export(&to_url).await);
    for export in [&default_url, &chosen_url] {
        api.done(&export.prefix).await;
    }
    let (s3, other_s3, azure) =
        (TestStorage::s3().await, TestStorage::s3().await, TestStorage::azure().await);
    fleet.apply(&[file.clone().with_storage(&s3)]).await;
    let default_s3 = api.export(&by_default).await.prefix;
    api.done(&default_s3).await;
    let refused = repeat(&api, &default_url.prefix, "to-s3").await;
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (409, &json!("conflict")));
    assert!(repeat(&api, &chosen_url.prefix, "chosen").await.body["url"].is_string());
    // Other settings of the same kind, such as a bucket whose name was wrong before.
    fleet.apply(&[file.clone().with_storage(&other_s3)]).await;
    api.done(&prefix_of(&repeat(&api, &default_s3, "other-s3").await)).await;
    assert!(!other_s3.list().await.is_empty());
    fleet.apply(&[file.with_storage(&azure)]).await;
    let before = listed(&api, "").await.len();
    for (index, former) in [&default_url.prefix, &default_s3].into_iter().enumerate() {
        let refused = repeat(&api, former, &format!("to-azure-{index}")).await;
        assert_eq!(refused.status, 409, "{refused:?}");
    }
    assert_eq!(listed(&api, "").await.len(), before);
    assert!(azure.list().await.is_empty());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_counts_against_the_rate_limit_of_its_users() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let limit = |requests: u32| json!({ "requests": requests, "seconds": 86_400 });
    let limits = json!({
        "users.export.segment": limit(2), "users.export.global_control_group": limit(700),
    });
    let permissions = [SEGMENT_EXPORT, "users.export.global_control_group"];
    let file = WorkspaceFile::new("acme").permitted(&permissions).with("rate_limits", limits);
    let api = fleet.apply(&[file]).await.remove(0);
    fleet.import("acme", &users()).await;
    let of_group = api.export(&json!({ "fields_to_export": ["external_id"] })).await.prefix;
    let audience =
        json!({ "email_subscription_status": { "comparison": "is", "value": "subscribed" } });
    let body = json!({ "fields_to_export": ["external_id"], "audience": audience });
    let of_segment = prefix_of(&api.post("/users/export/segment", &body).await);
    for prefix in [&of_group, &of_segment] {
        api.done(prefix).await;
    }
    let header = |response: &ApiResponse, name: &str| {
        response.headers[name].to_str().expect("text").parse::<i64>().expect("a number")
    };
    let second = repeat(&api, &of_segment, "second").await;
    prefix_of(&second);
    assert_eq!(header(&second, "x-ratelimit-limit"), 2);
    assert_eq!(header(&second, "x-ratelimit-remaining"), 0);
    let third = repeat(&api, &of_segment, "third").await;
    assert_eq!((third.status.as_u16(), &third.body["code"]), (429, &json!("rate-limited")));
    assert_eq!(listed(&api, "").await.len(), 3, "nothing was requested");
    // The other budget has not changed, and counts the requests that end before their users are
    // known.
    let unknown = format!("{}-1795249527", uuid::Uuid::nil());
    let before = header(&repeat(&api, &of_group, "of-group").await, "x-ratelimit-remaining");
    let refused = repeat(&api, &unknown, "unknown").await;
    assert_eq!((refused.status.as_u16(), header(&refused, "x-ratelimit-limit")), (404, 700));
    assert_eq!(header(&refused, "x-ratelimit-remaining"), before - 1);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_export_of_a_segment_needs_the_permission_of_segments() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let file = WorkspaceFile::new("acme").permitted(&[SEGMENT_EXPORT]);
    let api = fleet.apply(&[file]).await.remove(0);
    fleet.import("acme", &users()).await;
    let create = ["key", "create", "--workspace", "acme", "--name", "group"];
    let permission = ["--permission", "users.export.global_control_group"];
    let created = fleet.run(&[&create[..], &permission].concat()).await;
    let of_group = Api::new(fleet.base(), created.trim());
    let audience =
        json!({ "email_subscription_status": { "comparison": "is", "value": "subscribed" } });
    let body = json!({ "fields_to_export": ["external_id"], "audience": audience });
    let accepted = api.post("/users/export/segment", &body).await;
    let former = prefix_of(&accepted);
    let former_status = api.done(&former).await;
    assert_eq!(repeat(&of_group, &former, "k").await.status, 404);
    assert_eq!(of_group.post(EXPORT, &json!({ "fields_to_export": ["email"] })).await.status, 201);
    let repeated = api.done(&prefix_of(&repeat(&api, &former, "k").await)).await;
    for field in ["audience", "segment_id", "users"] {
        assert_eq!(repeated[field], former_status[field], "{field}");
    }
    fleet.close().await;
}

//! Schedules of Canvases: made and deleted by calls, shown and cancelled by commands; on SQLite
//! and on PostgreSQL.

use std::io::Cursor;

use jiff::Timestamp;
use longshore::schedules::sweep;
use longshore::users::import::{Importer, Input};
use longshore::workspaces;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::installation::Installation;
use crate::support::local_api::LocalApi;
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(World =>
    a_schedule_can_be_seen_at_once_and_deleted,
    invalid_schedules_are_rejected,
    local_times_are_accepted_until_past_everywhere,
    unknown_schedules_cannot_be_deleted,
    a_call_under_a_key_is_done_once,
    schedules_go_with_their_canvas,
    operators_see_and_cancel_schedules,
    erased_users_are_removed_from_schedules_for_later,
    schedules_that_have_ended_are_deleted,
);

const KEY: &str = "key-that-may-schedule-canvases";
const OTHER_KEY: &str = "key-of-the-other-workspace";
const CREATE: &str = "/canvas/trigger/schedule/create";
const DELETE: &str = "/canvas/trigger/schedule/delete";
const CANVAS: &str = "aaaa0000-0000-4000-8000-000000000001";
const SECOND_CANVAS: &str = "aaaa0000-0000-4000-8000-000000000002";
const CAMPAIGN: &str = "aaaa0000-0000-4000-8000-000000000003";

/// Noon.
const NOW: i64 = 1_795_262_400_000;

struct World {
    installation: Installation,
    api: LocalApi,
}

fn file() -> String {
    let key = |secret: &str| {
        let permissions = [
            "canvas.trigger.schedule.create",
            "canvas.trigger.schedule.delete",
            "messages.schedule.create",
        ];
        json!([{ "name": "k", "secret": secret, "permissions": permissions }])
    };
    let acme = json!({
        "workspace": "acme",
        "keys": key(KEY),
        "campaigns": [{ "id": CAMPAIGN, "name": "Welcome", "type": "api" }],
        "canvases": [
            { "id": CANVAS, "name": "Onboarding" }, { "id": SECOND_CANVAS, "name": "Second" },
        ],
    });
    // The same Canvas, as that of another workspace.
    let other = json!({
        "workspace": "other", "keys": key(OTHER_KEY),
        "canvases": [{ "id": CANVAS, "name": "Onboarding" }],
    });
    format!("{acme}\n---\n{other}\n")
}

/// A body with these members over those that are right.
fn body(members: Value) -> Value {
    let mut body = json!({
        "canvas_id": CANVAS,
        "schedule": { "time": "2026-11-21T18:00:00Z" },
        "recipients": [{ "external_user_id": "ann" }],
    });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, &file(), |_| {}).await;
        let world = Self { api: LocalApi::new(&installation.app, KEY), installation };
        world.at(NOW);
        world
    }

    fn at(&self, ms: i64) {
        self.installation.app.clock.set(Timestamp::from_millisecond(ms).unwrap());
    }

    /// Makes a schedule far in the future, and answers its id.
    async fn make(&self) -> String {
        let far = body(json!({ "schedule": { "time": "2099-01-01T00:00:00Z" } }));
        let (status, answer) = self.api.post(CREATE, &far).await;
        assert_eq!(status, 201, "{answer}");
        answer["schedule_id"].as_str().unwrap().to_owned()
    }

    async fn sweep(&self) {
        sweep::sweep(&self.installation.app, &CancellationToken::new()).await.unwrap();
    }

    async fn execute(&self, sql: &'static str) {
        on_pool!(&self.installation.app.store, pool => {
            sqlx::query(sql).execute(pool).await.unwrap();
        });
    }

    async fn listed(&self) -> Vec<Value> {
        let lines = self.installation.printed(&["schedules", "list", "--json"]).await;
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn states(&self) -> Vec<String> {
        let listed = self.listed().await;
        listed.iter().map(|schedule| schedule["state"].as_str().unwrap().to_owned()).collect()
    }
}

async fn a_schedule_can_be_seen_at_once_and_deleted(world: World) {
    // An instant from now on: the clock ticks.
    let asked = body(json!({
        "schedule": { "time": "2026-11-21T14:00:00+01:00" },
        "audience": { "last_used_app": { "comparison": "after", "value": "2026-01-01" } },
        "canvas_entry_properties": { "a": [1, null] },
        "unknown": 5,
    }));
    let (status, answer) = world.api.post(CREATE, &asked).await;
    assert_eq!((status, &answer["message"]), (201, &json!("success")), "{answer}");
    let dispatch = answer["dispatch_id"].as_str().unwrap();
    assert!(dispatch.len() == 32 && dispatch.bytes().all(|b| b.is_ascii_hexdigit()), "{answer}");
    let id = answer["schedule_id"].as_str().unwrap();
    assert!(Uuid::parse_str(id).is_ok_and(|id| id.to_string() == answer["schedule_id"]));

    let listed = world.listed().await;
    let [schedule] = listed.as_slice() else { panic!("{listed:?}") };
    for (name, value) in [
        ("id", json!(id)),
        ("workspace", json!("acme")),
        ("dispatch_id", json!(dispatch)),
        ("canvas_id", json!(CANVAS)),
        ("state", json!("pending")),
        ("timing", json!("instant")),
        ("time", json!("2026-11-21T13:00:00.000Z")),
        ("ended_at", Value::Null),
    ] {
        assert_eq!(schedule[name], value, "{schedule}");
    }
    let kept = json!({
        "broadcast": false,
        "recipients": asked["recipients"],
        "audience": asked["audience"],
        "canvas_entry_properties": asked["canvas_entry_properties"],
        "requested_by": "key:k",
    });
    assert_eq!(schedule["request"], kept);

    let delete = json!({ "canvas_id": CANVAS, "schedule_id": id });
    // Again it has the same response.
    for _ in 0..2 {
        let answer = world.api.post(DELETE, &delete).await;
        assert_eq!(answer, (201, json!({ "message": "success" })));
    }
    assert_eq!(world.states().await, ["cancelled"]);
}

async fn invalid_schedules_are_rejected(world: World) {
    let recipients = |count: usize| vec![json!({ "external_user_id": "ann" }); count];
    for (members, status, named) in [
        (
            json!({ "schedule": { "time": "2026-11-21T11:59:59Z" } }),
            400,
            "schedule.time is in the past",
        ),
        (json!({ "schedule": { "time": "tomorrow" } }), 400, "schedule.time: "),
        (json!({ "schedule": null }), 400, "schedule is required"),
        (json!({ "recipients": recipients(51) }), 400, "recipients must have at most 50"),
        (json!({ "broadcast": true }), 400, "broadcast must not be true"),
        (
            json!({ "recipients": [{ "user_alias": { "alias_name": "a" } }] }),
            400,
            "recipients[0].user_alias.alias_label",
        ),
        (json!({ "audience": { "OR": [{ "AND": [] }] } }), 400, "audience.OR[0].AND: "),
        (json!({ "canvas_id": 7 }), 400, "canvas_id must be a string"),
        (json!({ "canvas_id": "no-uuid" }), 404, "No Canvas has this canvas_id"),
        (json!({ "canvas_id": Uuid::new_v4() }), 404, "No Canvas has this canvas_id"),
        (json!({ "canvas_id": CAMPAIGN }), 404, "No Canvas has this canvas_id"),
    ] {
        let text = world.api.refusal(CREATE, &body(members.clone()), status).await;
        assert!(text.starts_with(named), "{members}: {text}");
    }
    let other = world.api.with_key(OTHER_KEY);
    other.refusal(CREATE, &body(json!({ "canvas_id": SECOND_CANVAS })), 404).await;
    assert!(world.listed().await.is_empty());
    for members in [
        json!({ "recipients": recipients(50), "schedule": { "time": "2099-01-01" } }),
        json!({ "recipients": null, "broadcast": true, "schedule": { "time": "2099-01-01" } }),
    ] {
        let (status, answer) = world.api.post(CREATE, &body(members)).await;
        assert_eq!(status, 201, "{answer}");
    }
    assert_eq!(world.listed().await.len(), 2);
}

async fn local_times_are_accepted_until_past_everywhere(world: World) {
    let at = |time: &str, switch: &str| body(json!({ "schedule": { "time": time, switch: true } }));
    for switch in ["in_local_time", "at_optimal_time"] {
        // It is noon in UTC, and midnight in the last zone.
        let midnight = at("2026-11-21T01:00:00+09:00", switch);
        let (status, answer) = world.api.post(CREATE, &midnight).await;
        assert_eq!(status, 201, "{answer}");
        let past = world.api.refusal(CREATE, &at("2026-11-20T23:59:59-11:00", switch), 400).await;
        assert_eq!(past, "schedule.time is in the past");
    }
    let listed = world.listed().await;
    let timings: Vec<&Value> = listed.iter().map(|schedule| &schedule["timing"]).collect();
    assert_eq!(timings, ["optimal", "local"]);
    assert_eq!(listed[0]["time"], "2026-11-21T01:00:00.000Z");
}

async fn unknown_schedules_cannot_be_deleted(world: World) {
    let id = world.make().await;
    let unknown = Uuid::new_v4().to_string();
    let no_schedule = "No schedule of this Canvas has this schedule_id";
    for (canvas, schedule, status, named) in [
        (json!(null), json!(id), 400, "canvas_id is required"),
        (json!(CANVAS), json!(null), 400, "schedule_id is required"),
        (json!(CANVAS), json!(5), 400, "schedule_id must be a string"),
        (json!(unknown), json!(id), 404, "No Canvas has this canvas_id"),
        (json!(CAMPAIGN), json!(id), 404, "No Canvas has this canvas_id"),
        (json!("x"), json!(id), 404, "No Canvas has this canvas_id"),
        (json!(CANVAS), json!(unknown), 404, no_schedule),
        (json!(CANVAS), json!("x"), 404, no_schedule),
        (json!(SECOND_CANVAS), json!(id), 404, no_schedule),
    ] {
        let body = json!({ "canvas_id": canvas, "schedule_id": schedule });
        assert_eq!(world.api.refusal(DELETE, &body, status).await, named, "{body}");
    }
    let delete = json!({ "canvas_id": CANVAS, "schedule_id": id });
    let other = world.api.with_key(OTHER_KEY);
    assert_eq!(other.refusal(DELETE, &delete, 404).await, no_schedule);
    assert_eq!(world.states().await, ["pending"]);

    on_pool!(&world.installation.app.store, pool => {
        sqlx::query("UPDATE schedules SET state = 'sent', ended_at = 1").execute(pool).await.unwrap();
    });
    let sent = world.api.refusal(DELETE, &delete, 400).await;
    assert_eq!(sent, "The schedule has already been sent");
    let output = world.installation.run(&["schedules", "cancel", &id]).await;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("already"), "{output:?}");
    assert_eq!(world.states().await, ["sent"]);
}

async fn a_call_under_a_key_is_done_once(world: World) {
    let asked = body(json!({ "schedule": { "time": "2026-11-21T13:00:00Z" } }));
    let first = world.api.post_once(CREATE, "k", &asked).await;
    assert_eq!(first.0, 201, "{first:?}");
    // Also when the time has come since.
    world.at(NOW + 7_200_000);
    assert_eq!(world.api.post_once(CREATE, "k", &asked).await, first);
    let (status, _) = world.api.post_once(CREATE, "k", &body(json!({}))).await;
    assert_eq!(status, 422);
    assert_eq!(world.listed().await.len(), 1);
    // What was refused is not kept.
    let (status, _) = world.api.post_once(CREATE, "late", &asked).await;
    assert_eq!(status, 400);
    world.at(NOW);
    assert_eq!(world.api.post_once(CREATE, "late", &asked).await.0, 201);

    let delete = json!({ "canvas_id": CANVAS, "schedule_id": first.1["schedule_id"] });
    for _ in 0..2 {
        // The same key means another thing to another call.
        let answer = world.api.post_once(DELETE, "k", &delete).await;
        assert_eq!(answer, (201, json!({ "message": "success" })));
    }
    assert_eq!(world.states().await.iter().filter(|state| *state == "cancelled").count(), 1);
}

async fn schedules_go_with_their_canvas(world: World) {
    world.make().await;
    let other = world.api.with_key(OTHER_KEY);
    let far = body(json!({ "schedule": { "time": "2099-01-01T00:00:00Z" } }));
    assert_eq!(other.post(CREATE, &far).await.0, 201);
    let without = "workspace: acme\n";
    world.installation.apply(without, false).await;
    assert_eq!(world.states().await, ["pending", "pending"]);
    world.installation.apply(without, true).await;
    let listed = world.listed().await;
    for schedule in &listed {
        let expected = if schedule["workspace"] == "acme" { "cancelled" } else { "pending" };
        assert_eq!(schedule["state"], expected, "{schedule}");
    }
    assert_eq!(listed.len(), 2);

    let users = async || {
        let listed = world.listed().await.into_iter();
        let user = |schedule: Value| {
            let is_listed = schedule["request"].to_string().contains("\"ann\"");
            (schedule["workspace"] == "acme", is_listed)
        };
        let mut users: Vec<(bool, bool)> = listed.map(user).collect();
        users.sort_unstable();
        users
    };
    assert_eq!(users().await, [(false, true), (true, true)]);
    // Whatever the time is.
    world.execute("UPDATE schedules SET ended_at = 9000000000000 WHERE ended_at IS NOT NULL").await;
    world.sweep().await;
    assert_eq!(users().await, [(false, true), (true, false)]);
    // A worker of an earlier version ends the other one after this pass.
    world
        .execute(
            "UPDATE schedules SET state = 'sent', ended_at = 9000000000000 WHERE ended_at IS NULL",
        )
        .await;
    world.sweep().await;
    assert_eq!(users().await, [(false, false), (true, false)]);
}

async fn operators_see_and_cancel_schedules(world: World) {
    let (first, second) = (world.make().await, world.make().await);
    let lines = world.installation.printed(&["schedules", "list", "--workspace", "acme"]).await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].starts_with(&second) && lines[2].starts_with(&first), "{lines:?}");
    assert!(lines[1].contains("2099-01-01T00:00:00Z") && lines[1].ends_with(CANVAS), "{lines:?}");
    let other =
        world.installation.printed(&["schedules", "list", "--workspace", "other", "--json"]).await;
    assert!(other.is_empty());

    let shown = world.installation.printed(&["schedules", "show", &first]).await.join("\n");
    assert!(shown.contains("pending") && shown.contains("\"external_user_id\":\"ann\""), "{shown}");
    assert_eq!(
        world.installation.printed(&["schedules", "cancel", &first]).await,
        [format!("{first} cancelled")]
    );
    let pending = ["schedules", "list", "--state", "pending", "--json"];
    assert_eq!(world.installation.printed(&pending).await.len(), 1);
    let unknown = Uuid::new_v4().to_string();
    let output = world.installation.run(&["schedules", "cancel", &unknown, &second]).await;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 2"), "{output:?}");
    assert_eq!(world.states().await, ["cancelled", "cancelled"]);
}

async fn erased_users_are_removed_from_schedules_for_later(world: World) {
    let app = &world.installation.app;
    let alias = json!({ "alias_label": "crm", "alias_name": "ann-9" });
    let ann = json!({ "external_id": "ann-7", "user_aliases": alias }).to_string();
    let mut tx = app.store.snapshot().await.unwrap();
    let acme = workspaces::by_id(&mut tx, world.installation.workspace).await.unwrap().unwrap();
    drop(tx);
    let importer = Importer::new(app.store.clone(), app.clock.clone(), acme);
    let input = Input::new("ann", Cursor::new(ann.into_bytes()));
    assert_eq!(importer.run(vec![input], |_| {}).await.unwrap().bad, 0);

    let far = json!({ "time": "2099-01-01T00:00:00Z" });
    let webhook = json!({
        "url": "https://acme.example/hook", "request_method": "POST", "body": "hello",
    });
    let bodies = [
        (
            CREATE,
            body(json!({
                "schedule": far, "canvas_entry_properties": { "city": "Oslo" },
                "recipients": [
                    { "external_user_id": "ann-7", "trigger_properties": { "of": "ann-7" } },
                    { "external_user_id": "bob-8", "trigger_properties": { "of": "bob-8" } },
                ],
            })),
        ),
        (
            CREATE,
            body(json!({
                "schedule": far, "canvas_entry_properties": { "city": "Rome" },
                "recipients": [{ "user_alias": alias }],
            })),
        ),
        (
            "/messages/schedule/create",
            json!({
                "schedule": far, "messages": { "webhook": webhook },
                "external_user_ids": ["ann-7", "bob-8"], "user_aliases": [alias],
            }),
        ),
    ];
    for (path, body) in &bodies {
        let (status, answer) = world.api.post(path, body).await;
        assert_eq!(status, 201, "{answer}");
    }
    world.execute("UPDATE schedules SET created_at = 0").await;
    world.installation.printed(&["users", "delete", "ann-7", "--workspace", "acme"]).await;
    // A user who gets the identifier after the erasure is another one.
    assert_eq!(world.api.post(CREATE, &bodies[0].1).await.0, 201);
    world.execute("UPDATE schedules SET created_at = 9000000000000 WHERE created_at > 0").await;
    world.sweep().await;

    let mut listed = world.listed().await;
    let later = listed.remove(0);
    assert!(later["request"].to_string().contains("ann-7"), "{later}");
    let mut counts = Vec::new();
    for schedule in &listed {
        let request = schedule["request"].to_string();
        assert!(!request.contains("ann-") && !request.contains("Rome"), "{request}");
        // The properties of all users are still needed for the other one.
        let is_for_bob = request.contains("bob-8");
        assert_eq!(request.contains("Oslo"), is_for_bob && !schedule["canvas_id"].is_null());
        let users = match &schedule["request"]["recipients"] {
            Value::Null => &schedule["request"]["target"]["users"],
            recipients => recipients,
        };
        counts.push((users.as_array().map_or(0, Vec::len), is_for_bob));
        assert_eq!(schedule["state"], "pending");
    }
    counts.sort_unstable();
    assert_eq!(counts, [(1, false), (2, true), (3, true)]);

    // A schedule that is cancelled needs none of them.
    for schedule in &listed {
        let id = schedule["id"].as_str().unwrap();
        world.installation.printed(&["schedules", "cancel", id]).await;
    }
    for schedule in &world.listed().await[1..] {
        let request = schedule["request"].to_string();
        assert!(!request.contains("bob-8") && !request.contains("Oslo"), "{request}");
    }
}

async fn schedules_that_have_ended_are_deleted(world: World) {
    let (first, second, pending) = (world.make().await, world.make().await, world.make().await);
    world.installation.printed(&["schedules", "cancel", &first]).await;
    // `ended_at * 0` keeps NULL.
    world.execute("UPDATE schedules SET created_at = 0, ended_at = ended_at * 0").await;
    world.installation.printed(&["schedules", "cancel", &second]).await;
    world.execute("UPDATE schedules SET ended_at = 9000000000000 WHERE ended_at > 0").await;
    world.sweep().await;
    let listed = world.listed().await;
    let id = |schedule: &Value| schedule["id"].as_str().unwrap().to_owned();
    let mut ids: Vec<String> = listed.iter().map(id).collect();
    ids.sort_unstable();
    let mut kept = [second, pending];
    kept.sort_unstable();
    assert_eq!(ids, kept);
}

//! What is tracked becomes profiles and activity, on both databases: messages are handed to
//! the worker's handler as a runner does.

mod bounds;
mod consent;
mod erasing;
mod identities;
mod importing;
mod model;
mod push_tokens;
mod racing;
mod shared_addresses;

use kit::clock::Clock;
use kit::retry::Retry as _;
use log::Message;
use longshore::app::App;
use longshore::engine::batches::Handler as _;
use longshore::erase;
use longshore::kinds;
use longshore::topics;
use longshore::tracking::apply::{ApplyError, Ingest};
use longshore::users::activity::{Activity, MAX_BYTES, MAX_PROPERTIES};
use longshore::users::import::{Importer, Input, Summary};
use longshore::users::sweep;
use longshore::workspaces::{Workspace, by_id};
use serde_json::{Value, json};
use store::claims::{self};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::eventually;
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(World =>
    every_identifier_finds_its_user,
    an_email_identifies_the_last_user_with_an_external_id,
    earlier_objects_of_a_batch_count_for_later_ones,
    attributes_change_the_profile_and_its_lookups,
    increments_add_as_decimals_do,
    purchases_and_events_count_with_their_latest_properties,
    any_split_into_batches_matches_the_model,
    invalid_messages_change_nothing,
    messages_of_a_newer_version_are_retried,
);

const DAY: i64 = 86_400_000;

struct World {
    app: App,
    ingest: Ingest,
    workspace: Workspace,
    test: TestStore,
}

impl World {
    async fn new(test: TestStore) -> Self {
        let app = App::open(test.config.clone()).await.unwrap();
        let id = test.workspace("acme").await;
        let workspace = by_id(&mut app.store.snapshot().await.unwrap(), id).await.unwrap().unwrap();
        Self { ingest: Ingest::new(&app), app, workspace, test }
    }

    /// Another workspace, that has nobody.
    async fn another(&mut self, name: &str) {
        let id = self.test.workspace(name).await;
        let mut tx = self.app.store.snapshot().await.unwrap();
        self.workspace = by_id(&mut tx, id).await.unwrap().unwrap();
    }

    async fn execute(&self, sql: &'static str) {
        on_pool!(&self.app.store, pool => { sqlx::query(sql).execute(pool).await.unwrap(); });
    }

    /// One skip every slice, as the workers make each day.
    async fn sweep(&self) {
        let store = &self.app.store;
        sweep::offer(store).await.unwrap();
        self.execute("UPDATE claims SET due_at = 0 WHERE kind = 'activity_sweep'").await;
        let lease = std::time::Duration::from_secs(60);
        let claims =
            claims::take(store, kinds::ACTIVITY_SWEEP, 200, 200, lease, &[]).await.unwrap().claims;
        assert_eq!(claims.len(), 100);
        for claim in &claims {
            sweep::sweep(&self.app, claim, &CancellationToken::new()).await.unwrap();
        }
        assert!(
            claims::take(store, kinds::ACTIVITY_SWEEP, 200, 200, lease, &[])
                .await
                .unwrap()
                .claims
                .is_empty()
        );
    }

    /// A message with objects that were accepted at a time.
    fn message(&self, received_at: i64, objects: &[Value]) -> Message {
        let batch = json!({
            "v": 1, "workspace": self.workspace.id, "received_at": received_at, "objects": objects
        });
        message(batch.to_string())
    }

    async fn apply(&self, messages: &[Message]) {
        apply(&self.ingest, &self.app, messages).await;
    }

    /// Applies objects that are accepted now, each as a message of its own batch.
    async fn track(&self, objects: &[Value]) {
        for object in objects {
            let message = self.message(self.app.clock.now_ms(), std::slice::from_ref(object));
            self.apply(&[message]).await;
        }
    }

    async fn import(&self, records: &[Value]) {
        let summary = self.try_import(records).await;
        assert_eq!((summary.lines, summary.bad), (records.len() as u64, 0), "{summary:?}");
    }

    async fn try_import(&self, records: &[Value]) -> Summary {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        let input = Input::new("records", std::io::Cursor::new(lines.join("\n").into_bytes()));
        let store = self.app.store.clone();
        let importer = Importer::new(store, self.app.clock.clone(), self.workspace.clone());
        importer.run(vec![input], |_| {}).await.unwrap()
    }

    async fn show(&self, id: &str) -> Value {
        let shown =
            longshore::users::find::show(&self.app.store, &self.app.clock, &self.workspace, id)
                .await;
        serde_json::from_str(&shown.unwrap()).unwrap()
    }

    /// How often a user bought something.
    async fn bought(&self, id: &str, product: &str) -> Value {
        let user = self.show(id).await;
        let purchases = user["purchases"].as_array().cloned().unwrap_or_default();
        let found = purchases.iter().find(|purchase| purchase["name"] == product);
        found.map_or(Value::Null, |found| found["count"].clone())
    }

    async fn ids(&self) -> Vec<Uuid> {
        let sql = "SELECT service_id FROM users WHERE workspace_id = $1";
        on_pool!(&self.app.store, pool => {
            sqlx::query_scalar(sql).bind(self.workspace.id).fetch_all(pool).await
        })
        .unwrap()
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table} WHERE workspace_id = $1");
        let sql = sqlx::AssertSqlSafe(sql);
        on_pool!(&self.app.store, pool => {
            sqlx::query_scalar(sql).bind(self.workspace.id).fetch_one(pool).await
        })
        .unwrap()
    }
}

fn message(payload: String) -> Message {
    Message {
        topic: topics::TRACKING,
        partition: 0,
        offset: 0,
        appended_at: 0,
        log_time: None,
        key: Vec::new(),
        payload: payload.into_bytes(),
        request_id: "a-request".into(),
    }
}

async fn try_apply(ingest: &Ingest, app: &App, messages: &[Message]) -> Result<(), ApplyError> {
    let prepared = ingest.prepare(messages).await?;
    let mut tx = app.store.write().await?;
    let applied = ingest.apply(&mut tx, &prepared).await?;
    tx.commit().await?;
    ingest.applied(applied);
    Ok(())
}

/// As a runner does: again, where that can help.
async fn apply(ingest: &Ingest, app: &App, messages: &[Message]) {
    eventually("the messages are applied", async || match try_apply(ingest, app, messages).await {
        Ok(()) => true,
        Err(error) => {
            assert!(error.can_retry(), "{error}");
            false
        }
    })
    .await;
}

fn by(user: Value) -> impl Fn(&str) -> Value {
    move |product| {
        json!({ "purchase": {
            "user": user, "product_id": product, "currency": "USD", "price": 1_500_000,
            "quantity": 2, "time": Clock::system().now_ms() - DAY,
        }})
    }
}

fn written(user: Value, fields: Value, custom: Value) -> Value {
    json!({ "attributes": { "user": user, "fields": fields, "custom": custom } })
}

fn update_only(mut object: Value) -> Value {
    for (_, object) in object.as_object_mut().unwrap() {
        object["update_only"] = true.into();
    }
    object
}

async fn every_identifier_finds_its_user(world: World) {
    world
        .import(&[json!({
            "external_id": "ann", "email": "Ann@acme.example",
            "user_aliases": [{"alias_name": "a", "alias_label": "crm"}],
        })])
        .await;
    let service_id = world.show("ann").await["service_id"].clone();
    let alias = |name: &str| json!({"user_alias": {"alias_name": name, "alias_label": "crm"}});
    let others = world.ids().await.len();
    for (number, user) in [
        json!({"external_id": "ann"}),
        json!({"service_id": service_id}),
        alias("a"),
        json!({"email": "aNN@acme.example"}),
    ]
    .into_iter()
    .enumerate()
    {
        let product = format!("tea {number}");
        world.track(&[by(user.clone())(&product), update_only(by(user)(&product))]).await;
        assert_eq!(world.bought("ann", &product).await, 4, "{product}");
    }
    assert_eq!(world.ids().await.len(), others, "they all mean one profile");

    // Unknown: dropped, or created.
    for user in [
        update_only(by(json!({"external_id": "bea"}))("tea")),
        update_only(by(json!({"email": "bea@acme.example"}))("tea")),
        by(json!({"service_id": Uuid::new_v4()}))("tea"),
        by(json!({"service_id": longshore::users::service_id::new(5, 1, 77, 9)}))("tea"),
        written(
            json!({"service_id": longshore::users::service_id::new(5, 1, 77, 9)}),
            json!({}),
            json!({"a": 1}),
        ),
        update_only(by(alias("b"))("tea")),
    ] {
        world.track(&[user]).await;
        assert_eq!(world.ids().await.len(), others);
    }
    let made = [json!({"external_id": "bea"}), json!({"email": "Cay@acme.example"})];
    for user in &made {
        world.track(&[by(user.clone())("tea"), by(user.clone())("milk")]).await;
    }
    assert_eq!(world.ids().await.len(), others + 2);
    assert_eq!(world.bought("bea", "tea").await, 2);
    let cay = world.show("cay@acme.example").await;
    assert_eq!((&cay["email"], &cay["external_id"]), (&json!("Cay@acme.example"), &Value::Null));
    assert_eq!(cay["total_revenue"], 6);
    for user in world.ids().await {
        let shown = world.show(&user.to_string()).await;
        assert_eq!(shown["service_id"], user.to_string());
        assert!(shown["random_bucket"].is_u64() && shown["created_at"].is_string(), "{shown}");
    }
}

async fn an_email_identifies_the_last_user_with_an_external_id(world: World) {
    let now = world.app.clock.now_ms();
    let email = json!({"email": "x@acme.example"});
    let write = |user: Value| written(user, json!({"email": "X@acme.example"}), json!({}));
    // Older requests may be applied later: what counts is when they were accepted.
    for (received_at, objects) in [
        (now, vec![by(email.clone())("alone")]),
        (now + 50, vec![write(json!({"external_id": "late"}))]),
        (now + 20, vec![write(json!({"external_id": "early"}))]),
        (now + 60, vec![written(email.clone(), json!({}), json!({"n": 1}))]),
        (now + 70, vec![by(email.clone())("tea")]),
    ] {
        world.apply(&[world.message(received_at, &objects)]).await;
    }
    assert_eq!(world.bought("late", "tea").await, 2);
    assert_eq!(world.show("late").await["custom_attributes"], json!({"n": 1}));
    assert_eq!(world.bought("early", "tea").await, Value::Null);

    // When the address moves, it identifies another user.
    let gone = written(json!({"external_id": "late"}), json!({"email": null}), json!({}));
    world.apply(&[world.message(now + 80, &[gone, by(email.clone())("milk")])]).await;
    assert_eq!(world.bought("early", "milk").await, 2);
    let other =
        written(json!({"external_id": "early"}), json!({"email": "y@acme.example"}), json!({}));
    world.apply(&[world.message(now + 90, &[other])]).await;
    world.apply(&[world.message(now + 91, &[by(email)("jam")])]).await;
    assert_eq!(world.bought("x@acme.example", "jam").await, 2);
    assert_eq!(world.bought("x@acme.example", "alone").await, 2);
    assert_eq!(world.count("emails").await, 2, "former addresses are not hinted at");
}

async fn earlier_objects_of_a_batch_count_for_later_ones(world: World) {
    let ann = || json!({"external_id": "ann"});
    let (first, second) = (json!({"email": "1@acme.example"}), json!({"email": "2@acme.example"}));
    let objects = [
        update_only(by(ann())("before")),
        written(ann(), json!({"email": "1@acme.example"}), json!({})),
        update_only(by(ann())("after")),
        update_only(by(first.clone())("by the first")),
        written(ann(), json!({"email": "2@acme.example"}), json!({})),
        update_only(by(first)("nobody's")),
        written(second.clone(), json!({}), json!({"by": "email"})),
        by(second)("by the second"),
        by(json!({"email": "new@acme.example"}))("tea"),
        update_only(by(json!({"email": "new@acme.example"}))("tea")),
    ];
    world.apply(&[world.message(world.app.clock.now_ms(), &objects)]).await;
    let user = world.show("ann").await;
    let names: Vec<&str> =
        user["purchases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["after", "by the first", "by the second"]);
    assert_eq!(user["custom_attributes"], json!({"by": "email"}));
    assert_eq!(world.bought("new@acme.example", "tea").await, 4);
    assert_eq!(world.ids().await.len(), 2);
}

async fn increments_add_as_decimals_do(world: World) {
    let change = |more: Value| {
        let mut object = json!({"attributes": {"user": {"external_id": "ann"}}});
        object["attributes"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let tenth = || change(json!({"inc": {"n": 0.1}}));
    world.track(&[tenth(), tenth(), tenth()]).await;
    assert_eq!(world.show("ann").await["custom_attributes"]["n"].to_string(), "0.3");
    let set = change(json!({"custom": {"t": "text"}}));
    // What does not fit stays, and the rest of the object is applied.
    world.track(&[set, change(json!({"inc": {"t": 1, "n": -0.3}}))]).await;
    let attributes = world.show("ann").await["custom_attributes"].clone();
    assert_eq!(attributes, json!({"n": 0.0, "t": "text"}));
}

async fn attributes_change_the_profile_and_its_lookups(world: World) {
    let ann = || json!({"external_id": "ann"});
    let change = |more: Value| {
        let mut object = json!({"attributes": {"user": ann()}});
        for (name, value) in more.as_object().unwrap() {
            object["attributes"][name] = value.clone();
        }
        object
    };
    world
        .track(&[
            change(json!({
                "fields": {"first_name": "Ann", "phone": "+15550100", "push_subscribe": "opted_in"},
                "custom": {"n": 1, "t": "x", "list": [1], "f": false, "e": ""},
            })),
            change(json!({
                "fields": {"phone": null, "gender": "F"}, "custom": {"t": null, "new": 1.10},
                "inc": {"n": 41, "m": 2}, "add": {"list": [1, 2]}, "remove": {"none": [1]},
            })),
        ])
        .await;
    let mut user = world.show("ann").await;
    for name in ["service_id", "random_bucket", "created_at"] {
        user.as_object_mut().unwrap().remove(name).unwrap();
    }
    assert_eq!(
        user,
        json!({
            "external_id": "ann", "first_name": "Ann", "gender": "F", "push_subscribe": "opted_in",
            "custom_attributes":
                {"n": 42, "list": [1, 2], "f": false, "e": "", "new": 1.10, "m": 2},
        })
    );
}

async fn purchases_and_events_count_with_their_latest_properties(world: World) {
    let now = world.app.clock.now_ms();
    let event = |time: i64, properties: Value| {
        json!({"event": {
            "user": {"external_id": "ann"}, "name": "seen", "time": time, "properties": properties,
        }})
    };
    let mut tea = by(json!({"external_id": "ann"}))("tea");
    tea["purchase"]["properties"] = json!({"order": {"products": [{"name": "L"}]}});
    let mut euros = by(json!({"external_id": "ann"}))("tea");
    euros["purchase"]["currency"] = "EUR".into();
    euros["purchase"]["time"] = (now - 2 * DAY).into();
    let mut large = by(json!({"external_id": "ann"}))("large");
    large["purchase"]["properties"] = json!({"a": "x".repeat(MAX_PROPERTIES)});
    let objects = [
        tea,
        euros,
        large,
        event(now - 3 * DAY, json!({"n": 1})),
        event(now - 4 * DAY, json!({"n": 2})),
        event(now - 101 * DAY, json!({"n": 3})),
    ];
    world.track(&objects).await;
    let user = world.show("ann").await;
    assert_eq!(user["total_revenue"], 6, "no rate is known for EUR");
    assert_eq!(user["custom_events"][0]["count"], 2, "{user}");
    assert_eq!(world.bought("ann", "tea").await, 4);
    let body: Vec<u8> = on_pool!(&world.app.store, pool => {
        sqlx::query_scalar("SELECT body FROM activity").fetch_one(pool).await
    })
    .unwrap();
    let activity = Activity::decode(&body).unwrap();
    let (_, properties) = activity.purchase_properties("tea").unwrap();
    assert_eq!(properties, r#"{"order":{"products":[{"name":"L"}]}}"#);
    assert_eq!(activity.purchase_properties("large"), None);
    assert_eq!(activity.event_properties("seen"), Some((now - 3 * DAY, r#"{"n":1}"#)));
    let revenue: Vec<_> = activity.revenue().collect();
    assert_eq!(revenue, [("EUR", 3_000_000), ("USD", 6_000_000)]);
}

async fn any_split_into_batches_matches_the_model(mut world: World) {
    for seed in 0..20 {
        world.another(&format!("acme {seed}")).await;
        let mut random = model::Random::new(seed);
        let mut model = model::Model::default();
        world.import(&model::Model::imported()).await;
        let mut received_at = world.app.clock.now_ms();
        let mut batch = Vec::new();
        for _ in 0..25 {
            received_at += 1 + random.below(3);
            let objects: Vec<Value> =
                (0..1 + random.below(5)).map(|_| model::object(&mut random, received_at)).collect();
            objects.iter().for_each(|object| model.apply(received_at, object));
            batch.push(world.message(received_at, &objects));
            if random.below(4) == 0 {
                world.apply(&std::mem::take(&mut batch)).await;
            }
        }
        if !batch.is_empty() {
            world.apply(&batch).await;
        }
        let mut users = Vec::new();
        for id in world.ids().await {
            let mut user = world.show(&id.to_string()).await;
            for name in ["service_id", "random_bucket", "created_at"] {
                user.as_object_mut().unwrap().remove(name).unwrap();
            }
            users.push(user.to_string());
        }
        users.sort_unstable();
        assert_eq!(users, model.users(), "seed {seed}");
    }
}

async fn invalid_messages_change_nothing(world: World) {
    let now = world.app.clock.now_ms();
    world.track(&[by(json!({"external_id": "ann"}))("tea")]).await;
    let good = by(json!({"external_id": "ann"}))("tea");
    let batch = |workspace: i32| json!({"v": 1, "workspace": workspace, "received_at": now, "objects": [good.clone()]});
    for (payload, why) in [
        ("{}".to_owned(), "not a message of tracking"),
        (batch(world.workspace.id + 7).to_string(), "unknown workspace"),
    ] {
        let messages = [world.message(now, std::slice::from_ref(&good)), message(payload)];
        let error = try_apply(&world.ingest, &world.app, &messages).await.unwrap_err();
        assert!(!error.can_retry() && error.to_string().contains(why), "{error}");
    }
    // What is stored and cannot be read is the fault of nobody else's message.
    let broken = "UPDATE users SET doc = 'broken' WHERE external_id = 'ann'";
    on_pool!(&world.app.store, pool => { sqlx::query(broken).execute(pool).await.unwrap(); });
    let object = written(json!({"external_id": "ann"}), json!({}), json!({"a": 1}));
    let messages = [world.message(now, &[by(json!({"external_id": "bea"}))("tea"), object])];
    let error = try_apply(&world.ingest, &world.app, &messages).await.unwrap_err();
    assert!(matches!(error, ApplyError::Profile(..)), "{error}");
    world.execute("UPDATE users SET doc = '{\"custom_attributes\":[1]}'").await;
    let error = try_apply(&world.ingest, &world.app, &messages).await.unwrap_err();
    assert!(matches!(error, ApplyError::Profile(..)), "{error}");
    let broken = "DELETE FROM users WHERE external_id = 'ann'";
    on_pool!(&world.app.store, pool => { sqlx::query(broken).execute(pool).await.unwrap(); });
    let error = try_apply(&world.ingest, &world.app, &messages).await.unwrap_err();
    assert!(matches!(error, ApplyError::NoProfile(_)), "{error}");
    assert_eq!(world.ids().await.len(), 0);
}

async fn messages_of_a_newer_version_are_retried(world: World) {
    let now = world.app.clock.now_ms();
    let good = world.message(now, &[by(json!({"external_id": "ann"}))("tea")]);
    world.apply(std::slice::from_ref(&good)).await;
    let newer = json!({"v": 3, "workspace": world.workspace.id, "objects": {}});
    let messages = [good.clone(), message(newer.to_string())];
    let error = try_apply(&world.ingest, &world.app, &messages).await.unwrap_err();
    assert!(error.can_retry() && error.to_string().contains("version 3"), "{error}");
    let sql = "UPDATE activity SET body = $1";
    on_pool!(&world.app.store, pool => {
        sqlx::query(sql).bind([9u8, 0].as_slice()).execute(pool).await.unwrap();
    });
    let error = try_apply(&world.ingest, &world.app, &[good]).await.unwrap_err();
    assert!(error.can_retry() && error.to_string().contains("version 9"), "{error}");
}

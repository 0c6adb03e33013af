//! Who is erased stays erased, whatever was accepted before.

use longshore::users::find::FindError;

use super::*;

on_both_stores!(World =>
    users_erased_during_ingestion_stay_erased,
    erasing_an_unknown_user_prevents_their_creation,
    erasures_are_kept_while_dead_letters_remain,
    released_emails_create_no_erased_users,
);

async fn users_erased_during_ingestion_stay_erased(world: World) {
    let users: Vec<String> = (0..30).map(|n| format!("user {n}")).collect();
    let taken_in = world.app.clock.now_ms();
    let object = |n: usize| {
        let user = json!({"external_id": users[n]});
        match n % 3 {
            0 => written(user, json!({"email": format!("{n}@acme.example")}), json!({"a": n})),
            _ => by(user)("tea"),
        }
    };
    let all: Vec<Value> = (0..users.len()).map(object).collect();
    let messages = [world.message(taken_in, &all)];
    world.apply(&messages).await;
    let (erased, kept) = users.split_at(20);
    let working = async {
        for _ in 0..10 {
            world.apply(&messages).await;
        }
    };
    let erasing = async {
        for user in erased {
            eventually("the user is erased", async || {
                match erase::erase(&world.app.store, &world.workspace, user).await {
                    Ok(_) => true,
                    Err(error) => {
                        assert!(error.can_retry(), "{error}");
                        false
                    }
                }
            })
            .await;
        }
    };
    tokio::join!(working, erasing);
    // Accepted before, applied after.
    world.apply(&messages).await;
    let by_email = by(json!({"email": "0@acme.example"}))("tea");
    world.apply(&[world.message(taken_in, &[by_email])]).await;
    assert_eq!(world.ids().await.len(), kept.len());
    assert_eq!(world.count("identifiers").await, kept.len() as i64);
    let with_activity = (20..30).filter(|n| n % 3 != 0).count() as i64;
    assert_eq!(world.count("activity").await, with_activity);
    assert_eq!(world.count("emails").await, 10 - with_activity);

    // Who comes back is somebody new.
    world.track(&[by(json!({"external_id": erased[1]}))("tea")]).await;
    assert_eq!(world.bought(&erased[1], "tea").await, 2);
}

async fn erasing_an_unknown_user_prevents_their_creation(world: World) {
    let taken_in = world.app.clock.now_ms() - 1_000;
    for id in ["ann", "BOB@acme.example"] {
        let error = erase::erase(&world.app.store, &world.workspace, id).await.unwrap_err();
        assert!(matches!(&error, FindError::NotFoundYet(_)), "{error}");
        assert!(error.to_string().contains("no accepted request"), "{error}");
    }
    let ann = by(json!({"external_id": "ann"}))("tea");
    let bob = by(json!({"email": "Bob@acme.example"}))("tea");
    world.apply(&[world.message(taken_in, &[ann.clone(), bob.clone()])]).await;
    assert!(world.ids().await.is_empty());
    world.apply(&[world.message(taken_in + 60_000, &[ann, bob])]).await;
    assert_eq!(world.ids().await.len(), 2);
}

async fn erasures_are_kept_while_dead_letters_remain(world: World) {
    let taken_in = world.app.clock.now_ms() - 1_000;
    let ann = by(json!({"external_id": "ann"}))("tea");
    let message = world.message(taken_in, &[ann]);
    assert!(erase::erase(&world.app.store, &world.workspace, "ann").await.is_err());
    // Forty days pass.
    world.execute("UPDATE erased SET erased_at = erased_at - 3456000000").await;
    let sql = "INSERT INTO dead_letters (id, consumer_group, topic, partition, position,
                   appended_at, key, payload, request_id, reason, attempts, created_at)
               VALUES ($1, 'g', 'tracking', 0, 0, $2, $3, $3, 'r', 'x', 1, 0)";
    let appended_at = taken_in + 1_000 - 40 * DAY;
    on_pool!(&world.app.store, pool => {
        let letter = sqlx::query(sql).bind(Uuid::nil()).bind(appended_at).bind(&message.payload);
        letter.execute(pool).await.unwrap();
    });
    world.sweep().await;
    assert!(world.count("erased").await > 0);
    world.execute("DELETE FROM dead_letters").await;
    world.sweep().await;
    assert_eq!(world.count("erased").await, 0);
}

async fn released_emails_create_no_erased_users(world: World) {
    let email = "x@acme.example";
    let write = |user: &str, email: Value| {
        written(json!({"external_id": user}), json!({"email": email}), json!({}))
    };
    world.track(&[write("erased", email.into())]).await;
    let taken_in = world.app.clock.now_ms();
    eventually("time goes on", async || world.app.clock.now_ms() > taken_in).await;
    erase::erase(&world.app.store, &world.workspace, "erased").await.unwrap();
    world.track(&[write("ann", email.into())]).await;
    let gives_it_up = write("ann", Value::Null);
    let of_before = by(json!({"email": email}))("tea");
    world.apply(&[world.message(taken_in, &[gives_it_up, of_before])]).await;
    assert_eq!(world.ids().await.len(), 1);
}

/// The machine of whoever erases may have another time.
#[tokio::test(flavor = "multi_thread")]
async fn erasures_use_the_database_clock() {
    let world = World::new(TestStore::postgres().await).await;
    world.execute("CREATE SCHEMA earlier").await;
    world
        .execute(
            "CREATE FUNCTION earlier.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
             AS $$ SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$",
        )
        .await;
    world
        .execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = earlier, pg_catalog, \
             public', current_database()); END $$",
        )
        .await;
    let store = longshore::app::connect(&world.test.config).await.unwrap();
    assert!(erase::erase(&store, &world.workspace, "ann").await.is_err());
    let taken_in = world.app.clock.now_ms() - 60_000;
    let ann = by(json!({"external_id": "ann"}))("tea");
    world.apply(&[world.message(taken_in, &[ann])]).await;
    assert_eq!(world.ids().await.len(), 1, "taken in after that, as the database has it");
}

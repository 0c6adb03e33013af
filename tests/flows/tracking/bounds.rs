//! What is held to bounds: transactions, activity by bytes and by age, lists of products.

use longshore::users::service_id::Generator;

use super::*;

on_both_stores!(World =>
    activity_stays_within_its_bytes,
    batches_beyond_the_transaction_limit_are_split,
    a_gateway_whose_clock_is_ahead_expires_nothing,
    old_activity_is_removed_from_idle_rows,
    purchases_without_a_user_list_no_products,
    a_workspace_has_a_limit_of_products,
);

async fn activity_stays_within_its_bytes(world: World) {
    let now = world.app.clock.now_ms();
    let seen = |n: i64| {
        let name = format!("{n:0>200}");
        let time = now - DAY + n;
        json!({ "event": { "user": {"external_id": "guest"}, "name": name, "time": time } })
    };
    for from in [0, 5_000] {
        let objects: Vec<Value> = (from..from + 5_000).map(seen).collect();
        world.apply(&[world.message(now, &objects)]).await;
    }
    let sql = "SELECT body FROM activity";
    let body: Vec<u8> =
        on_pool!(&world.app.store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap();
    assert!(body.len() <= MAX_BYTES && body.len() > MAX_BYTES / 2, "{}", body.len());
    let ever = (jiff::civil::date(2000, 1, 1), jiff::civil::date(2200, 1, 1));
    let activity = Activity::decode(&body).unwrap();
    let names: Vec<&str> = activity.events(ever.0, ever.1).map(|event| event.name).collect();
    assert!(names.len() < 10_000 && names.last() == Some(&format!("{:0>200}", 9_999).as_str()));
}

async fn batches_beyond_the_transaction_limit_are_split(world: World) {
    let now = world.app.clock.now_ms();
    let half = async |objects: Vec<Value>| {
        let (first, other) = objects.split_at(objects.len() / 2);
        let messages = [world.message(now, first), world.message(now, other)];
        let error = try_apply(&world.ingest, &world.app, &messages).await.unwrap_err();
        assert!(error.can_retry() && error.is_too_large(), "{error}");
        // A message by itself is as large as it is.
        for message in messages {
            world.apply(&[message]).await;
        }
    };
    // By documents, small and large ones.
    let fill = |n: usize, bytes: usize| {
        let user = json!({"external_id": format!("user {n}")});
        written(user, json!({}), json!({"a": "x".repeat(bytes)}))
    };
    for n in 0..10 {
        world.track(&[fill(n, 900_000)]).await;
    }
    half((0..10).map(|n| fill(n, 1)).collect()).await;
    let small = |bytes: usize| (0..4_600).map(|n| fill(n, bytes)).collect::<Vec<Value>>();
    world.apply(&[world.message(now, &small(1_750))]).await;
    half(small(1)).await;
    // By activity.
    let names: Vec<String> = (0..40).map(|n| format!("{n:0>250}")).collect();
    let buys = |product: &str| {
        (0..900)
            .map(|n| by(json!({"external_id": format!("user {n}")}))(product))
            .collect::<Vec<_>>()
    };
    for names in names.chunks(10) {
        let all: Vec<Value> = names.iter().flat_map(|name| buys(name)).collect();
        world.apply(&[world.message(now, &all)]).await;
    }
    half(buys("tea")).await;
    assert_eq!(world.bought("user 7", &names[3]).await, 2);
    assert_eq!(world.bought("user 899", "tea").await, 2);
    // By push tokens, to which each object adds one.
    let registers = |tokens: std::ops::Range<usize>| {
        let token = |n: usize| json!({"app_id": "app", "token": format!("{n:0>250}")});
        let tokens: Vec<Value> = tokens.map(token).collect();
        written(json!({"external_id": "ben"}), json!({"push_tokens": tokens}), json!({}))
    };
    world.track(&[registers(0..3_000)]).await;
    half((3_000..3_010).map(|n| registers(n..n + 1)).collect()).await;
    // By objects.
    half((0..8_100).map(|_| by(json!({"external_id": "ann"}))("tea")).collect()).await;
    assert_eq!(world.bought("ann", "tea").await, 16_200);
}

async fn a_gateway_whose_clock_is_ahead_expires_nothing(world: World) {
    let ann = by(json!({"external_id": "ann"}));
    world.track(&[ann("tea")]).await;
    let ahead = world.app.clock.now_ms() + 200 * DAY;
    world.apply(&[world.message(ahead, &[ann("milk")])]).await;
    assert_eq!(world.bought("ann", "tea").await, 2);
}

async fn old_activity_is_removed_from_idle_rows(world: World) {
    let now = world.app.clock.now_ms();
    let purchase = |user: &str, days_ago: i64| {
        let mut object = by(json!({"external_id": user}))("tea");
        object["purchase"]["time"] = (now - days_ago * DAY).into();
        object
    };
    // Ten days ago it was not too old.
    for (user, days_ago) in [("old", 105), ("new", 1), ("both", 105), ("both", 1)] {
        let message = world.message(now - 10 * DAY, &[purchase(user, days_ago)]);
        world.apply(&[message]).await;
    }
    let store = &world.app.store;
    // What is old is not for this worker's clock to say.
    world.app.clock.set(kit::clock::from_ms(now + 200 * DAY));
    world.sweep().await;
    let sql = "SELECT users.external_id, activity.body FROM users
               JOIN activity ON activity.service_id = users.service_id ORDER BY 1";
    let rows: Vec<(String, Vec<u8>)> =
        on_pool!(store, pool => sqlx::query_as(sql).fetch_all(pool).await).unwrap();
    let left: Vec<(&str, u64)> = rows
        .iter()
        .map(|(user, body)| {
            let ever = (jiff::civil::date(2000, 1, 1), jiff::civil::date(2200, 1, 1));
            let activity = Activity::decode(body).unwrap();
            (user.as_str(), activity.purchases(ever.0, ever.1).map(|p| p.count).sum())
        })
        .collect();
    assert_eq!(left, [("both", 2), ("new", 2), ("old", 0)]);
    for (_, body) in &rows {
        assert!(Activity::decode(body).unwrap().revenue().next().is_some());
    }
}

async fn purchases_without_a_user_list_no_products(world: World) {
    let id = Generator::default().next_anywhere(world.app.clock.now_ms());
    let nobody = || json!({"user_alias": {"alias_name": "a", "alias_label": "crm"}});
    world
        .track(&[
            update_only(by(nobody())("of an alias")),
            update_only(by(json!({"external_id": "ann"}))("of nobody")),
            by(json!({"service_id": id}))("of no user"),
            by(json!({"external_id": "ann"}))("tea"),
            update_only(by(json!({"external_id": "ann"}))("milk")),
        ])
        .await;
    let sql = "SELECT product_id FROM products ORDER BY 1";
    let listed: Vec<String> =
        on_pool!(&world.app.store, pool => sqlx::query_scalar(sql).fetch_all(pool).await).unwrap();
    assert_eq!(listed, ["milk", "tea"]);
}

async fn a_workspace_has_a_limit_of_products(world: World) {
    let ann = by(json!({"external_id": "ann"}));
    let buy = |products: std::ops::Range<usize>| {
        let objects: Vec<Value> = products.map(|n| ann(&format!("product {n}"))).collect();
        [world.message(world.app.clock.now_ms(), &objects)]
    };
    world.apply(&buy(0..4_990)).await;
    // Of the same list, another process and this one.
    let other = Ingest::new(&world.app);
    apply(&other, &world.app, &buy(4_985..4_995)).await;
    world.apply(&buy(4_990..5_010)).await;
    apply(&other, &world.app, &buy(5_000..5_020)).await;
    assert_eq!(world.count("products").await, 5_000);
    assert_eq!(world.bought("ann", "product 5015").await, 2);
    assert_eq!(world.bought("ann", "product 4990").await, 4);
}

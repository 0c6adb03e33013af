//! A push token belongs to the user who registered it last, in whatever order that is applied.

use super::*;

on_both_stores!(World =>
    a_device_keeps_its_token_when_another_one_registers,
    a_token_moves_to_the_user_who_registers_it_last,
    an_older_registration_does_not_take_a_token_back,
    a_merged_user_keeps_the_tokens,
    tokens_without_an_owner_are_recorded,
);

const AT: i64 = 1_790_000_000_000;

fn registers(user: &str, tokens: &[&str]) -> Value {
    let token = |token: &&str| json!({"app_id": "app", "token": token});
    let tokens: Vec<Value> = tokens.iter().map(token).collect();
    written(json!({"external_id": user}), json!({"push_tokens": tokens}), json!({}))
}

impl World {
    async fn registered(&self, ms: i64, objects: &[Value]) {
        self.apply(&[self.message(AT + ms, objects)]).await;
    }

    /// The tokens of users, by user and token.
    async fn tokens(&self, users: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        for user in users {
            let shown = self.show(user).await;
            let tokens = shown["push_tokens"].as_array().cloned().unwrap_or_default();
            let name = |token: &Value| format!("{user} {}", token["token"].as_str().unwrap());
            all.extend(tokens.iter().map(name));
        }
        all
    }
}

async fn a_device_keeps_its_token_when_another_one_registers(world: World) {
    world.registered(1, &[registers("ann", &["phone"])]).await;
    // In a batch of its own, and in one batch.
    world.registered(2, &[registers("ann", &["tablet"])]).await;
    world.registered(3, &[registers("ann", &["phone"]), registers("ann", &["watch"])]).await;
    assert_eq!(world.tokens(&["ann"]).await, ["ann watch", "ann phone", "ann tablet"]);
    for removed in [Value::Null, json!([])] {
        let fields = json!({"push_tokens": removed});
        world.registered(4, &[written(json!({"external_id": "ann"}), fields, json!({}))]).await;
        assert_eq!(world.tokens(&["ann"]).await, [""; 0]);
        world.registered(5, &[registers("ann", &["phone"])]).await;
        assert_eq!(world.tokens(&["ann"]).await, ["ann phone"]);
    }
}

async fn a_token_moves_to_the_user_who_registers_it_last(world: World) {
    // In a batch, and in batches of their own.
    world.registered(1, &[registers("ann", &["t", "u"]), registers("ben", &["t"])]).await;
    assert_eq!(world.tokens(&["ann", "ben"]).await, ["ann u", "ben t"]);
    world.registered(2, &[registers("cat", &["u"])]).await;
    world.registered(3, &[registers("ann", &["t", "v"])]).await;
    assert_eq!(world.tokens(&["ann", "ben", "cat"]).await, ["ann t", "ann v", "cat u"]);
    // The app counts, in any case.
    let other_case = json!({"push_tokens": [{"app_id": "APP", "token": "t"}]});
    let other_app = json!({"push_tokens": [{"app_id": "other", "token": "u"}]});
    for (user, fields) in [("dan", other_case), ("eve", other_app)] {
        let object = written(json!({"external_id": user}), fields, json!({}));
        world.registered(4, &[object]).await;
    }
    let users = ["ann", "ben", "cat", "dan", "eve"];
    assert_eq!(world.tokens(&users).await, ["ann v", "cat u", "dan t", "eve u"]);
    // An object that is not applied takes nothing.
    let nobody = update_only(registers("nobody", &["u", "w"]));
    world.registered(5, &[nobody]).await;
    assert_eq!(world.tokens(&["cat"]).await, ["cat u"]);
    assert_eq!(world.count("push_tokens").await, 4);
}

async fn an_older_registration_does_not_take_a_token_back(world: World) {
    world.registered(20, &[registers("ben", &["t"])]).await;
    // Received before, in a partition that is behind.
    world.registered(10, &[registers("ann", &["t", "u"])]).await;
    assert_eq!(world.tokens(&["ann", "ben"]).await, ["ann u", "ben t"]);
    // Registered again by the same user, applied in the other order.
    world.registered(40, &[registers("ben", &["t"])]).await;
    world.registered(30, &[registers("ben", &["t"])]).await;
    world.registered(35, &[registers("ann", &["t"])]).await;
    assert_eq!(world.tokens(&["ann", "ben"]).await, ["ann u", "ben t"]);
    // What the last user gave up belongs to nobody else either.
    world.registered(50, &[registers("ben", &[])]).await;
    world.registered(36, &[registers("ann", &["t"])]).await;
    assert_eq!(world.tokens(&["ann", "ben"]).await, ["ann u"]);
    world.registered(60, &[registers("ann", &["t"])]).await;
    assert_eq!(world.tokens(&["ann", "ben"]).await, ["ann t", "ann u"]);
}

async fn a_merged_user_keeps_the_tokens(world: World) {
    world.registered(1, &[registers("gone", &["t", "u"]), registers("kept", &["v"])]).await;
    let copy = json!({"identity": {
        "user": {"external_id": "gone"}, "change": {"merge_into": {"external_id": "kept"}},
    }});
    let mut second = copy.clone();
    second["identity"]["is_second"] = true.into();
    for copy in [copy, second] {
        let batch = json!({
            "v": 2, "workspace": world.workspace.id, "received_at": AT + 10, "objects": [copy],
        });
        world.apply(&[message(batch.to_string())]).await;
    }
    assert_eq!(world.tokens(&["kept"]).await, ["kept v", "kept t", "kept u"]);
    world.registered(0, &[registers("ann", &["t"])]).await;
    world.registered(20, &[registers("ann", &["u"])]).await;
    assert_eq!(world.tokens(&["kept", "ann"]).await, ["kept v", "kept t", "ann u"]);
    // An erased user owns nothing.
    for user in ["kept", "ann"] {
        erase::erase(&world.app.store, &world.workspace, user).await.unwrap();
    }
    assert_eq!(world.count("push_tokens").await, 0);
}

/// Before an upgrade, no owners were recorded.
async fn tokens_without_an_owner_are_recorded(world: World) {
    for (ms, user, tokens) in
        [(1, "ann", &["t", "u", "v"][..]), (3, "ben", &["t"]), (2, "cat", &["u", "w"])]
    {
        world.registered(ms, &[registers(user, tokens)]).await;
        world.execute("DELETE FROM push_tokens").await;
    }
    assert_eq!(world.tokens(&["ann"]).await, ["ann t", "ann u", "ann v"]);
    world.registered(4, &[registers("dan", &["w"])]).await;
    world.sweep().await;
    let users = ["ann", "ben", "cat", "dan"];
    assert_eq!(world.tokens(&users).await, ["ann v", "ben t", "cat u", "dan w"]);
    assert_eq!(world.count("push_tokens").await, 4);
    world.sweep().await;
    assert_eq!(world.tokens(&users).await, ["ann v", "ben t", "cat u", "dan w"]);
    // A token that was recorded so moves like any other.
    world.registered(5, &[registers("eve", &["v"])]).await;
    assert_eq!(world.tokens(&["ann", "eve"]).await, ["eve v"]);
}

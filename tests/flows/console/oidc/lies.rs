//! What no provider and no browser may get past.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_fail_a_check_sign_nobody_in() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
    let now = jiff::Timestamp::now().as_second();
    for claims in [
        json!({"iss": format!("{}/", world.provider.issuer)}),
        json!({"iss": "https://id.evil.example"}),
        json!({"aud": "another client"}),
        json!({"aud": [crate::support::identity_provider::CLIENT_ID, "another client"]}),
        json!({"azp": "another client"}),
        json!({"nonce": "of another sign-in"}),
        json!({"nonce": null}),
        json!({"exp": now - 400}),
        json!({"exp": null}),
        json!({"iat": now - 3_600}),
        json!({"iat": now + 3_600}),
        json!({"sub": null}),
    ] {
        world.refused(Script { claims, ..Script::default() }, "invalid-token").await;
    }
    for algorithm in ["none", "HS256"] {
        world.refused(Script { algorithm, ..Script::default() }, "invalid-token").await;
    }
    for algorithm in ["RS256", "ES256"] {
        let script = Script { algorithm, breaks_signatures: true, ..Script::default() };
        world.refused(script, "invalid-token").await;
    }
    // The key of the other algorithm.
    world.refused(Script { key_id: Some("ec-1"), ..Script::default() }, "invalid-token").await;
    // Small differences between clocks are accepted.
    let claims = json!({"exp": now - 200, "iat": now - 200});
    world.provider.script(Script { claims, ..Script::default() });
    world.sign_in().await;
    let printed = world.fleet.printed();
    assert!(printed.contains("sign-in with OpenID Connect refused"), "{printed}");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_whom_the_provider_does_not_vouch_for_are_refused() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
    let script = |claims: Value| Script { claims, ..Script::default() };
    world.refused(script(json!({"email_verified": false})), "email-not-verified").await;
    let hostile = "<script>alert(1)</script>@acme.example";
    let page = world.refused(script(json!({"email": hostile})), "not-a-dashboard-user").await;
    assert!(page.text.contains("&lt;script&gt;alert(1)") && !page.text.contains(hostile));
    // A token may not say it, and the user info does.
    let silent =
        |info: Value| Script { user_info: info, ..script(json!({"email_verified": null})) };
    let unverified = json!({"sub": "subject-1", "email": ANN, "email_verified": false});
    world.refused(silent(unverified.clone()), "email-not-verified").await;
    // The user info may have the claim, about the same person only.
    let with_info = |user_info: Value| Script { user_info, ..script(json!({"email": null})) };
    world.refused(with_info(json!({"sub": "subject-1"})), "missing-claim").await;
    let other = json!({"sub": "subject-2", "email": ANN});
    world.refused(with_info(other), "invalid-token").await;
    world.refused(with_info(unverified), "email-not-verified").await;
    world.provider.script(with_info(json!({"sub": "subject-1", "email": ANN})));
    world.sign_in().await;
    world.provider.script(silent(json!({"sub": "subject-1"})));
    world.sign_in().await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_belongs_to_one_browser_and_ends_once() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
    // Even a provider that accepts a code twice.
    world.provider.script(Script { repeats_codes: true, ..Script::default() });
    let browser = Browser::new(&world.fleet);
    let callback = world.provider.authorize(&browser.get("/sign-in/oidc").await);
    let [(name, cookie)] = &browser.tagged_cookies(SIGN_IN)[..] else { panic!("no sign-in") };

    let other = Browser::new(&world.fleet);
    let page = other.get(&callback).await;
    assert_refused(&other, &page, "sign-in-expired").await;
    other.get("/sign-in/oidc").await;
    let page = other.get(&callback).await;
    assert_refused(&other, &page, "sign-in-expired").await;
    assert_eq!(other.tagged_cookies(SIGN_IN).len(), 1, "its own one continues");

    assert_eq!(browser.get(&callback).await.status, 303);
    assert_eq!(browser.cookie(SIGN_IN), None);
    let again = Browser::new(&world.fleet);
    again.set_cookie(name, cookie);
    let page = again.get(&callback).await;
    assert_refused(&again, &page, "sign-in-expired").await;

    // A sign-in asks the provider once, also without success.
    let script = Script { repeats_codes: true, ..Script::default() };
    world.provider.script(Script { breaks_signatures: true, ..script.clone() });
    let failing = Browser::new(&world.fleet);
    let callback = world.provider.authorize(&failing.get("/sign-in/oidc").await);
    let [(name, cookie)] = &failing.tagged_cookies(SIGN_IN)[..] else { panic!("no sign-in") };
    assert_refused(&failing, &failing.get(&callback).await, "invalid-token").await;
    world.provider.script(script);
    failing.set_cookie(name, cookie);
    assert_refused(&failing, &failing.get(&callback).await, "sign-in-expired").await;

    // Another site does not replace a session.
    let path = "/sign-in/oidc?next=/audit";
    for (site, beginning) in
        [("cross-site", "/sign-in?next=%2Faudit"), ("same-origin", "http"), ("none", "http")]
    {
        let request = browser.request(Method::GET, path).header("sec-fetch-site", site);
        let sent = browser.send(path, request).await;
        assert!(sent.status == 303 && sent.location().starts_with(beginning), "{site}: {sent:?}");
    }

    // Nor does the provider of another issuer end one, or a person who cancels.
    for (from, to, code) in [
        ("&iss=", "&iss=https%3A%2F%2Fevil.example&was=", "invalid-token"),
        ("&iss=", "&was=", "invalid-token"),
        ("?code=", "?error=access_denied&error_description=%0Ax&was=", "access-denied"),
    ] {
        let browser = Browser::new(&world.fleet);
        let callback = world.provider.authorize(&browser.get("/sign-in/oidc").await);
        let page = browser.get(&callback.replace(from, to)).await;
        assert_refused(&browser, &page, code).await;
    }
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_tabs_sign_in_at_the_same_time() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
    let browser = Browser::new(&world.fleet);
    let begin = async |next: &str| {
        let sent = browser.get(&format!("/sign-in/oidc?next={next}")).await;
        world.provider.authorize(&sent)
    };
    let (first, second) = (begin("/audit").await, begin("/people/users").await);
    for (callback, next) in [(&first, "/audit"), (&second, "/people/users")] {
        let signed_in = browser.get(callback).await;
        assert_eq!((signed_in.status.as_u16(), signed_in.location()), (303, next));
        assert_eq!(browser.get(next).await.status, 200);
    }
    assert_eq!(browser.cookie(SIGN_IN), None);
    // Of many, the browser keeps the last ones: proxies limit the headers of a request.
    let mut callbacks = Vec::new();
    for _ in 0..6 {
        callbacks.push(begin("/").await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(browser.tagged_cookies(SIGN_IN).len(), 4);
    assert_eq!(browser.get(&callbacks[1]).await.status, 400);
    assert_eq!(browser.get(&callbacks[2]).await.status, 303);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_read_again_if_one_is_unknown_but_not_for_each_token() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
    world.sign_in().await;
    world.sign_in().await;
    assert_eq!(world.provider.key_reads(), 1);
    let new = Script { has_new_keys: true, ..Script::default() };
    world.provider.script(new.clone());
    world.sign_in().await;
    assert_eq!(world.provider.key_reads(), 2);
    for _ in 0..5 {
        world.refused(Script { key_id: Some("unknown"), ..new.clone() }, "invalid-token").await;
    }
    assert!(world.provider.key_reads() <= 3, "{}", world.provider.key_reads());
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_replaced_under_the_same_id_or_without_one_is_read_again() {
    for omits_key_ids in [false, true] {
        let world = World::start(Backend::Embedded).await;
        world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
        let script = Script { algorithm: "ES256", omits_key_ids, ..Script::default() };
        world.provider.script(script.clone());
        world.sign_in().await;
        let replaced = Script { replaces_key: true, ..script };
        world.provider.script(replaced.clone());
        world.sign_in().await;
        assert_eq!(world.provider.key_reads(), 2);
        // Signatures that no key verifies do not read them each time.
        for _ in 0..5 {
            let script = Script { breaks_signatures: true, ..replaced.clone() };
            world.refused(script, "invalid-token").await;
        }
        assert!(world.provider.key_reads() <= 3, "{}", world.provider.key_reads());
        world.fleet.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_down_or_has_another_issuer_is_not_used() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["admin"]})).await;
    let issuer = Some("https://id.evil.example");
    world.provider.script(Script { issuer, ..Script::default() });
    let browser = Browser::new(&world.fleet);
    let page = browser.get("/sign-in/oidc").await;
    assert_eq!(page.status, 502);
    assert!(page.text.contains("provider-unavailable") && !page.text.contains("evil"), "{page:?}");
    world.provider.script(Script::default());
    // The failure is remembered for some seconds.
    eventually("the provider is asked again", || async {
        browser.get("/sign-in/oidc").await.status == 303
    })
    .await;
    world.sign_in().await;
    world.fleet.close().await;
}

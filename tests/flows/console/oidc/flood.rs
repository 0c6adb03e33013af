//! Nobody makes the console flood the provider.

use super::*;

/// Sign-ins from a network, which only a proxy can say.
async fn sign_in_from(world: &World, network: &str, code: Option<&str>) -> PageResponse {
    let browser = Browser::new(&world.fleet);
    let get = async |path: &str| {
        let request = browser.request(Method::GET, path).header("x-forwarded-for", network);
        browser.send(path, request).await
    };
    let callback = world.provider.authorize(&get("/sign-in/oidc").await);
    let callback = match code {
        Some(code) => callback.replace("?code=", &format!("?code={code}&was=")),
        None => callback,
    };
    get(&callback).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_whose_codes_are_refused_waits_and_others_sign_in() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["see_reports"]})).await;
    let stranger = "198.51.100.7";
    for number in 0..30 {
        let page = sign_in_from(&world, stranger, Some("guessed")).await;
        let (status, code) =
            if number < 8 { (400, "sign-in-expired") } else { (429, "too-many-sign-ins") };
        assert_eq!(page.status, status, "{number}: {page:?}");
        assert!(page.text.contains(code), "{number}: {}", page.text);
    }
    assert_eq!(world.provider.token_requests(), 8);
    // Also those with a valid code wait.
    assert_eq!(sign_in_from(&world, stranger, None).await.status, 429);
    assert_eq!(sign_in_from(&world, "203.0.113.7", None).await.status, 303);
    // One network of IPv6.
    for host in 1..20 {
        sign_in_from(&world, &format!("2001:db8:0:1::{host}"), Some("guessed")).await;
    }
    assert_eq!(world.provider.token_requests(), 8 + 1 + 8);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sign_in_in_progress_no_code_is_exchanged() {
    let world = World::start(Backend::Embedded).await;
    let browser = Browser::new(&world.fleet);
    for _ in 0..20 {
        let page = browser.get("/sign-in/oidc/callback?code=a&state=b").await;
        assert_refused(&browser, &page, "sign-in-expired").await;
    }
    assert_eq!(world.provider.token_requests(), 0);
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_are_exchanged_at_a_limited_rate() {
    let world = World::start(Backend::Embedded).await;
    let began_at = tokio::time::Instant::now();
    let mut requests = 0;
    // The provider knows the person, and the console does not.
    while sign_in_from(&world, "198.51.100.7", None).await.status == 403 {
        requests += 1;
        let limit = 60 * (1 + began_at.elapsed().as_secs() / 60);
        assert!(requests <= limit, "{requests} in {:?}", began_at.elapsed());
    }
    assert_eq!(u64::from(world.provider.token_requests()), requests);
    // The network has left a part to others.
    assert_eq!(sign_in_from(&world, "203.0.113.7", None).await.status, 403);
    world.fleet.close().await;
}

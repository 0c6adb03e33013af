//! The console behind a proxy: TLS, and a path.

use crate::support::console::{Browser, token};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_may_serve_the_console_below_a_path_and_remove_it_or_not() {
    let listen = format!("127.0.0.1:{}", free_port());
    let settings = [
        ("LONGSHORE_CONSOLE_LISTEN", listen.clone()),
        ("LONGSHORE_CONSOLE_PUBLIC_URL", format!("http://{listen}/ops/console/")),
    ];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let link = fleet.run(&["console", "link"]).await;
    assert!(link.starts_with(&format!("http://{listen}/ops/console/sign-in#lsl_")), "{link}");
    for prefix in ["", "/ops/console"] {
        let browser = Browser::new(&fleet);
        let home = browser.get(&format!("{prefix}/")).await;
        assert_eq!((home.status.as_u16(), home.location()), (303, "/ops/console/sign-in"));
        let token = token(&fleet, "ana", "viewer").await;
        let fields = [("token", token.as_str()), ("next", "/people/sessions")];
        let signed_in = browser.submit(&format!("{prefix}/sign-in"), &fields).await;
        assert_eq!(signed_in.location(), "/ops/console/people/sessions");
        let page = browser.get(&format!("{prefix}/people/sessions")).await;
        assert_eq!(page.status, 200);
        let addresses = page.text.split("=\"").filter_map(|rest| rest.split('"').next());
        let addresses = addresses.filter(|value| value.starts_with('/'));
        for address in addresses {
            // The address to return to is below the base path.
            let is_below = address.starts_with("/ops/console/") || address == "/people/sessions";
            assert!(is_below, "{address} in {}", page.text);
        }
        let style = page.text.split('"').find(|text| text.ends_with(".css")).expect("a style");
        let style = style.strip_prefix("/ops/console").expect("the path");
        let style = browser.get(&format!("{prefix}{style}")).await;
        assert_eq!(style.status, 200);
        assert!(style.headers["cache-control"].to_str().expect("ASCII").contains("immutable"));
    }
    let browser = Browser::new(&fleet);
    assert_eq!(browser.get("/ops/console").await.status, 303);
    assert_eq!(browser.get("/ops/consoles").await.status, 404);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_cookie_is_bound_to_the_host() {
    let settings = [
        ("LONGSHORE_CONSOLE_LISTEN", format!("127.0.0.1:{}", free_port())),
        ("LONGSHORE_CONSOLE_PUBLIC_URL", "https://console.example.com".to_owned()),
        ("LONGSHORE_TRUSTED_PROXIES", "127.0.0.1".to_owned()),
    ];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let browser = Browser::new(&fleet);
    assert_eq!(browser.origin, "https://console.example.com");
    let token = token(&fleet, "ana", "viewer").await;
    let signed_in = browser.sign_in(&token, "/").await;
    let cookie = signed_in.headers["set-cookie"].to_str().expect("ASCII");
    assert!(cookie.starts_with("__Host-longshore.") && cookie.contains("=lsc_"), "{cookie}");
    for flag in ["; Path=/;", "; HttpOnly", "; SameSite=Lax", "; Secure"] {
        assert!(cookie.contains(flag), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    let request = browser
        .request(reqwest::Method::GET, "/people/sessions")
        .header("x-forwarded-for", "198.51.100.7");
    assert_eq!(browser.send("/people/sessions", request).await.status, 200);
    // The name for plain http counts for nothing here.
    let secret = browser.cookie("__Host-longshore").expect("a session");
    let plain = Browser::new(&fleet);
    plain.set_cookie("longshore_console", &secret);
    let (tagged, _) = browser.tagged_cookies("__Host-longshore").swap_remove(0);
    plain.set_cookie(&tagged.replace("__Host-longshore", "longshore_console"), &secret);
    assert_eq!(plain.get("/").await.status, 303);
    fleet.close().await;
}

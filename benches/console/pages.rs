//! Every page of the console, loaded as a browser does.

use std::time::Instant;

use reqwest::{Method, StatusCode};
use sqlx::PgPool;
use web_console::routes;

use crate::figures::Figures;
use crate::fill::WORKSPACE;
use crate::support::console::Browser;

/// What the parameters of addresses are replaced with: the end of an address, and the statement
/// that finds the value of its last parameter.
const EXAMPLES: [(&str, &str); 11] = [
    // Among the latest ones, which people look at.
    (
        "exports/{object_prefix}",
        "SELECT object_prefix FROM export_jobs WHERE state = 'done'
         ORDER BY requested_at DESC LIMIT 1",
    ),
    (
        "sends/{dispatch_id}",
        "SELECT replace(id::text, '-', '') FROM dispatches ORDER BY users DESC LIMIT 1",
    ),
    ("campaigns/{id}", "SELECT id::text FROM campaigns ORDER BY number LIMIT 1"),
    ("catalogs/{catalog}", "SELECT name FROM catalogs LIMIT 1"),
    ("{item}", "SELECT item_id FROM catalog_items ORDER BY item_id OFFSET 5000 LIMIT 1"),
    // The other workspaces have only keys that are declared.
    (
        "keys/{id}",
        "SELECT id::text FROM api_keys WHERE NOT declared AND revoked_at IS NULL LIMIT 1",
    ),
    ("schedules/{id}", "SELECT id::text FROM schedules ORDER BY time LIMIT 1"),
    ("segments/{id}", "SELECT id::text FROM segments ORDER BY name LIMIT 1"),
    (
        "users/{id}",
        "SELECT service_id::text FROM messages GROUP BY service_id ORDER BY count(*) DESC LIMIT 1",
    ),
    (
        "deliveries/{id}",
        "SELECT id::text FROM deliveries WHERE state = 'given_up' ORDER BY created_at DESC LIMIT 1",
    ),
    ("dead-letters/{id}", "SELECT id::text FROM dead_letters ORDER BY created_at DESC LIMIT 1"),
];

/// Pages whose queries differ much with their filters, and pages far back in a list.
const VIEWS: [&str; 15] = [
    "/audit?actor=console%3Aperson-7",
    "/history?span=year",
    "/system?all=1",
    "/w/{workspace}/exports?state=failed",
    "/w/{workspace}/exports?mark=slow",
    "/w/{workspace}/exports?before={export}",
    "/w/{workspace}/sends?until={send_day}",
    "/w/{workspace}/sends/{dispatch_id}/recipients?outcome=failed",
    "/w/{workspace}/deliveries?state=given_up",
    "/w/{workspace}/deliveries?before={delivery}",
    "/w/{workspace}/history?span=year",
    "/w/{workspace}/keys?state=revoked",
    "/w/{workspace}/segments/{id}?count=1",
    "/w/{workspace}/catalogs/{catalog}?search=item-9",
    "/w/{workspace}/schedules?show=missed",
];

/// Rows far back in lists.
const FAR_BACK: [(&str, &str); 3] = [
    ("{export}", "SELECT id::text FROM export_jobs ORDER BY requested_at LIMIT 1 OFFSET 100"),
    (
        "{send_day}",
        "SELECT to_char(to_timestamp(min(accepted_at) / 1000) + interval '10 days', 'YYYY-MM-DD')
         FROM dispatches",
    ),
    // The key of a row, as `gateway::paging::cursor` writes it.
    (
        "{delivery}",
        r#"SELECT translate(encode(convert_to(format('[%s,"%s"]', created_at, id), 'UTF8'), 'base64'),
                            E'+/=\n', '-_')
           FROM deliveries ORDER BY created_at LIMIT 1 OFFSET 100"#,
    ),
];

/// Searches for a user: what the identifier is, and a statement that finds one.
const SEARCHES: [(&str, &str); 3] = [
    ("external_id", "SELECT value FROM identifiers WHERE kind = 1 LIMIT 1"),
    ("email", "SELECT email FROM emails LIMIT 1"),
    ("phone", "SELECT phone FROM phones LIMIT 1"),
];

/// A page that is loaded.
pub struct Load {
    /// The page's name in the table.
    name: String,
    path: String,
    /// What is searched for; none for a page that is only opened.
    search: Option<String>,
}

/// Pages that are opened with a session. The others sign in, or are streams and files.
fn paths() -> Vec<&'static str> {
    let mut paths = Vec::new();
    for action in routes::all().actions() {
        let path = action.path;
        let is_other =
            path.starts_with("/sign-in") || path.ends_with("/live") || path.ends_with("/download");
        if action.method == Method::GET && !is_other {
            paths.push(path);
        }
    }
    paths
}

/// Panics if an address has a parameter without an example.
pub fn check_routes() {
    for path in paths() {
        let path = path.replace("{workspace}", WORKSPACE);
        let left = EXAMPLES.iter().fold(path, |path, (end, _)| filled(&path, end, "x"));
        assert!(!left.contains('{'), "{left}: EXAMPLES in benches/console/pages.rs has no example");
    }
}

/// The path with the last parameter of `end`, if it has `end`, replaced.
fn filled(path: &str, end: &str, value: &str) -> String {
    let kept = end.find('{').map_or(end, |start| &end[..start]);
    path.replace(end, &format!("{kept}{value}"))
}

/// Every page, with the parameters of its address.
pub async fn all(pool: &PgPool) -> Vec<Load> {
    let mut values = Vec::new();
    for (end, sql) in EXAMPLES.into_iter().chain(FAR_BACK) {
        values.push((end, text(pool, sql).await));
    }
    let load = |path: &str| {
        let name = path.trim_start_matches("/w/{workspace}/").to_owned();
        let path = path.replace("{workspace}", WORKSPACE);
        // What is not there has an address that no page has.
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let path = values.iter().fold(path, |path, (end, id)| filled(&path, end, &value(id)));
        Load { name, path, search: None }
    };
    let mut loads: Vec<Load> = paths().into_iter().chain(VIEWS).map(load).collect();
    for (kind, sql) in SEARCHES {
        let Some(identifier) = text(pool, sql).await else { continue };
        loads.push(Load {
            name: format!("users, by {kind}"),
            path: format!("/w/{WORKSPACE}/users"),
            search: Some(identifier),
        });
    }
    loads
}

async fn text(pool: &PgPool, sql: &'static str) -> Option<String> {
    sqlx::query_scalar(sql).fetch_optional(pool).await.expect("an example is looked up")
}

/// What the loads of a page took.
#[derive(Default)]
struct Samples {
    /// In milliseconds, in their order.
    times: Vec<f64>,
    bytes: usize,
    /// The status of a response that is not that of a page.
    failed: Option<StatusCode>,
}

/// Loads all pages in turn, again and again: so no page finds only what its own last load has read.
/// The time is from the request to the last byte of the response.
pub async fn measure(browser: &Browser, loads: &[Load], count: u64, figures: &mut Figures) {
    let form_token = browser.form_token().await;
    let mut samples: Vec<Samples> = loads.iter().map(|_| Samples::default()).collect();
    for _ in 0..count {
        for (load, samples) in loads.iter().zip(&mut samples) {
            let began = Instant::now();
            let response = match &load.search {
                None => browser.get(&load.path).await,
                Some(text) => {
                    let fields = [("form_token", &*form_token), ("identifier", text)];
                    browser.submit(&load.path, &fields).await
                }
            };
            samples.times.push(began.elapsed().as_secs_f64() * 1e3);
            samples.bytes = response.text.len();
            // A search that finds one user leads to the page of the user.
            let is_page = response.status == StatusCode::OK
                || load.search.is_some() && response.status == StatusCode::SEE_OTHER;
            if !is_page {
                samples.failed = Some(response.status);
            }
        }
    }
    for (load, samples) in loads.iter().zip(samples) {
        match samples.failed {
            None => figures.add(&load.name, row(samples)),
            Some(status) => println!("  {} is not measured: {status} at {}", load.name, load.path),
        }
    }
}

fn row(samples: Samples) -> Vec<(&'static str, f64)> {
    let Samples { mut times, bytes, .. } = samples;
    let first = times[0];
    times.sort_by(f64::total_cmp);
    let percentile = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    vec![
        ("first ms", first),
        ("p50 ms", percentile(50)),
        ("p95 ms", percentile(95)),
        ("max ms", percentile(100)),
        ("KB", bytes as f64 / 1e3),
    ]
}

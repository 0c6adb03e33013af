//! Consoles that stay open: what their scripts request costs the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use sqlx::PgPool;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout_at};
use uuid::Uuid;

use crate::GATEWAY;
use crate::figures::Figures;
use crate::fill::WORKSPACE;
use crate::support::console::Browser;
use crate::support::fleet::Fleet;

/// Between changes of each export and send that is in progress.
const CHANGE: Duration = Duration::from_secs(1);

/// Before a stream that has ended is opened again.
const RECONNECT: Duration = Duration::from_secs(2);

pub struct Plan {
    pub consoles: usize,
    pub seconds: u64,
}

/// How a page follows what it shows.
#[derive(Clone)]
enum Follows {
    /// It asks again after a time.
    Polls(String, Duration),
    /// It keeps a stream open.
    Streams(String),
}

/// What all consoles received.
#[derive(Default)]
struct Received {
    updates: AtomicU64,
    bytes: AtomicU64,
}

impl Received {
    fn add(&self, bytes: usize) {
        self.updates.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The gateway alone; then with open consoles while nothing changes; then while each export and
/// send in progress changes every second.
pub async fn measure(fleet: &Fleet, pool: &PgPool, plan: &Plan, figures: &mut Figures) {
    let pages = open_pages(pool).await;
    let mut browsers = Vec::new();
    for number in 0..plan.consoles {
        let browser = Browser::signed_in(fleet, &format!("person-{number}"), "admin").await;
        browsers.push(Arc::new(browser));
    }
    for (case, browsers, changes) in [
        ("no open console", &browsers[..0], false),
        ("open consoles, nothing changes", &browsers[..], false),
        ("open consoles, work in progress", &browsers[..], true),
    ] {
        fleet.reset_peak(GATEWAY);
        let (began, cpu) = (Instant::now(), fleet.cpu(GATEWAY));
        let end = began + Duration::from_secs(plan.seconds);
        let received = Arc::new(Received::default());
        let mut tasks = JoinSet::new();
        for (number, browser) in browsers.iter().enumerate() {
            let (browser, follows) = (browser.clone(), pages[number % pages.len()].clone());
            let received = received.clone();
            tasks.spawn(async move { follow(&browser, &follows, number, end, &received).await });
        }
        if changes {
            let pool = pool.clone();
            tasks.spawn(async move { change(&pool, end).await });
        }
        sleep_until(end).await;
        while let Some(done) = tasks.join_next().await {
            done.expect("a console was followed");
        }
        let seconds = began.elapsed().as_secs_f64();
        let cpu = (fleet.cpu(GATEWAY) - cpu).as_secs_f64();
        figures.add(
            case,
            vec![
                ("% of a core", 100.0 * cpu / seconds),
                ("peak MB", fleet.peak(GATEWAY) as f64 / f64::from(1 << 20)),
                ("updates/s", received.updates.load(Ordering::Relaxed) as f64 / seconds),
                ("KB/s", received.bytes.load(Ordering::Relaxed) as f64 / 1e3 / seconds),
            ],
        );
    }
}

/// The pages that are open, each at as many consoles.
async fn open_pages(pool: &PgPool) -> Vec<Follows> {
    let export = "SELECT object_prefix FROM export_jobs WHERE state = 'running' LIMIT 1";
    let send = "SELECT replace(id::text, '-', '') FROM dispatches WHERE state = 'running' LIMIT 1";
    let text = async |sql: &'static str| -> String {
        sqlx::query_scalar(sql).fetch_one(pool).await.expect("work in progress")
    };
    let (export, send) = (text(export).await, text(send).await);
    let polls = |path: &str, seconds| Follows::Polls(path.to_owned(), Duration::from_secs(seconds));
    let base = format!("/w/{WORKSPACE}");
    vec![
        polls("/overview/live", 5),
        polls(&format!("{base}/exports"), 3),
        Follows::Streams(format!("{base}/exports/{export}/live")),
        polls(&format!("{base}/sends"), 3),
        polls(&format!("{base}/sends/{send}"), 3),
        polls("/system", 5),
    ]
}

async fn follow(
    browser: &Browser,
    follows: &Follows,
    number: usize,
    end: Instant,
    received: &Received,
) {
    match follows {
        Follows::Polls(path, pause) => {
            poll(browser, path, *pause, number, end, received).await;
        }
        Follows::Streams(path) => stream(browser, path, end, received).await,
    }
}

/// Asks as htmx does. The browser has the last response, and asks whether that is still the latest.
async fn poll(
    browser: &Browser,
    path: &str,
    pause: Duration,
    number: usize,
    end: Instant,
    received: &Received,
) {
    // People do not open pages at the same moment.
    let first = Instant::now() + pause.mul_f64((number as f64 * 0.618).fract());
    let mut due = interval_at(first, pause);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = None;
    while timeout_at(end, due.tick()).await.is_ok() {
        let mut request = browser.request(Method::GET, path).header("hx-request", "true");
        if let Some(known) = known.take() {
            request = request.header(IF_NONE_MATCH, known);
        }
        let response = browser.send(path, request).await;
        assert!(response.status == 200 || response.status == 304, "{path}: {response:?}");
        known = response.headers.get(ETAG).cloned();
        received.add(response.text.len());
    }
}

/// Keeps the stream of an export open.
async fn stream(browser: &Browser, path: &str, end: Instant, received: &Received) {
    while Instant::now() < end {
        let address = format!("{path}?view={}", Uuid::new_v4());
        let request = browser.request(Method::GET, &address).header("hx-request", "true");
        let mut response = request.send().await.expect("a stream opens");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        while let Ok(Ok(Some(chunk))) = timeout_at(end, response.chunk()).await {
            received.add(chunk.len());
        }
        if Instant::now() + RECONNECT < end {
            sleep(RECONNECT).await;
        } else {
            break;
        }
    }
}

/// Changes what is in progress, as workers do.
async fn change(pool: &PgPool, end: Instant) {
    while Instant::now() + CHANGE < end {
        for sql in [
            "UPDATE export_counts SET users_done = users_done + 1
             WHERE job_id IN (SELECT id FROM export_jobs WHERE finished_at IS NULL)",
            "UPDATE dispatch_parts SET walked = walked + 1, sent = sent + 1
             WHERE dispatch_id IN (SELECT id FROM dispatches WHERE finished_at IS NULL)",
        ] {
            sqlx::query(sql).execute(pool).await.expect("work goes on");
        }
        sleep(CHANGE).await;
    }
}

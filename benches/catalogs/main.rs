//! Measures whether the whole chain sustains catalog edits at the rate that the API allows:
//! `scripts/bench catalogs`.
//!
//! Everything is local and real: a gateway and a worker of the release build, Kafka, PostgreSQL.
//! Requests come at an even pace, whether the previous ones have a response or not, and their
//! latency counts from when they were due. The report shows the worker's lag at the end, and the
//! time until every item is edited.

#[path = "../figures.rs"]
mod figures;
#[allow(dead_code, reason = "it makes other calls as well")]
#[path = "../load/mod.rs"]
mod load;
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the tests' support serves more than this"
)]
#[path = "../../tests/flows/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use log::Log;
use longshore::topics;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use sqlx::PgPool;

use crate::figures::Figures;
use crate::support::WorkspaceFile;
use crate::support::fleet::{Backend, Fleet};

const WORKER: &str = "worker-1";

/// Different requests, sent over and over.
const REQUESTS: usize = 4_000;

/// Between looks at how far the worker is.
const LOOK: Duration = Duration::from_millis(20);

const WARM_UP: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Arguments {
    /// Requests a minute
    #[arg(long, default_value_t = 16_000)]
    rate: u32,
    /// How long each run is
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How often it is measured; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Items of a request
    #[arg(long, default_value_t = 50)]
    items: usize,
    /// Items of the catalog
    #[arg(long, default_value_t = 50_000)]
    catalog: usize,
    /// Partitions of the topic
    #[arg(long, default_value_t = 64)]
    partitions: u32,
    #[command(flatten)]
    common: load::Common,
}

/// An item's fields next to its id, as requests change some of them.
fn fields(rng: &mut ChaCha8Rng, out: &mut String) {
    let city = ["Oslo", "Porto", "Nara", "Quito"][rng.random_range(0..4)];
    let (rating, seats) = (rng.random_range(0..50), rng.random_range(1..200));
    let open = rng.random_range(0..2) == 0;
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\"City\":\"{city}\",\"Rating\":{}.{},\"Seats\":\"{seats}\",\"Open\":{open},\
         \"Opened_at\":\"2021-06-28T17:{:02}:43+0200\",\"Address\":{{\"street\":\"Main Street\",\
         \"number\":{seats}}}",
        rating / 10,
        rating % 10,
        rng.random_range(0..60),
    );
}

/// A workspace with one catalog.
fn workspace() -> WorkspaceFile {
    let fields = [
        ("City", "string"),
        ("Rating", "number"),
        ("Seats", "number"),
        ("Open", "boolean"),
        ("Opened_at", "time"),
        ("Address", "object"),
        ("Description", "string"),
    ]
    .map(|(name, kind)| json!({ "name": name, "type": kind }));
    let catalog = json!([{ "name": "restaurants", "fields": fields, "items": "items.ndjson" }]);
    WorkspaceFile::new("bench").with("catalogs", catalog)
}

fn requests(arguments: &Arguments, address: SocketAddr, key: &str) -> Arc<Vec<Vec<u8>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let request = |_| {
        let mut body = "{\"items\":[".to_owned();
        // Neighbours of a place at random are distinct.
        let first = rng.random_range(0..arguments.catalog);
        for n in 0..arguments.items {
            let id = (first + n * 7) % arguments.catalog;
            let comma = if n == 0 { "" } else { "," };
            let _ = write!(body, "{comma}{{\"id\":\"restaurant-{id}\",");
            fields(&mut rng, &mut body);
            body.push('}');
        }
        body.push_str("]}");
        let length = body.len();
        format!(
            "PATCH /catalogs/restaurants/items HTTP/1.1\r\nHost: {address}\r\n\
             Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    };
    Arc::new((0..REQUESTS).map(request).collect())
}

struct Bench {
    fleet: Fleet,
    pool: PgPool,
    log: Log,
}

impl Bench {
    /// Messages that are in the log and not applied.
    async fn behind(&self) -> i64 {
        let topic_offsets = self.log.topic_offsets(topics::CATALOGS).await.expect("Kafka answers");
        let end: i64 = topic_offsets.ranges.iter().map(|range| range.end).sum();
        let sql = "SELECT coalesce(sum(next), 0)::bigint FROM log_offsets WHERE topic = 'catalogs'";
        let done: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("offsets");
        end - done
    }

    async fn applied(&self) {
        while self.behind().await > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Items that were edited so far.
    async fn edited(&self) -> i64 {
        let sql = "SELECT coalesce(sum(applied), 0)::bigint FROM catalog_edits";
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("records")
    }
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let settings = load::settings(arguments.partitions, &arguments.common.set);
    let fleet = Fleet::start_with(Backend::Fleet(1), &[], |all| all.extend(settings)).await;
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut items = String::new();
    for id in 0..arguments.catalog {
        let _ = write!(items, "{{\"id\":\"restaurant-{id}\",");
        fields(&mut rng, &mut items);
        let _ = writeln!(items, ",\"Description\":\"{}\"}}", "Good food. ".repeat(20));
    }
    fleet.write_file("items.ndjson", items.as_bytes());
    let began = Instant::now();
    let api = fleet.apply(&[workspace()]).await.remove(0);
    println!("{} items are loaded in {:.2} s", arguments.catalog, began.elapsed().as_secs_f64());
    let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
    let log = fleet.log().await;
    let address = fleet.base().trim_start_matches("http://").parse().expect("an address");
    let calls = requests(&arguments, address, api.key());
    let bench = Bench { fleet, pool, log };

    let pace = Duration::from_secs(60) / arguments.rate;
    let count = |time: Duration| (time.as_secs_f64() / pace.as_secs_f64()) as usize;
    let title = format!("{} requests a minute of {} items", arguments.rate, arguments.items);
    let mut figures = Figures::new(title);
    load::send_at(pace, count(WARM_UP), address, calls.clone()).await;
    bench.applied().await;
    let measured = count(Duration::from_secs(arguments.seconds));
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        bench.fleet.reset_peak("gateway");
        bench.fleet.reset_peak(WORKER);
        let (before, edited) = (bench.fleet.process_usage(), bench.edited().await);
        let sent = load::send_at(pace, measured, address, calls.clone()).await;
        let (ended, behind) = (Instant::now(), bench.behind().await);
        bench.applied().await;
        // To ask takes some time by itself.
        let lag = if behind == 0 { Duration::ZERO } else { ended.elapsed() };
        let all = sent.calls() * arguments.items;
        assert_eq!(bench.edited().await - edited, all as i64, "every item is edited once");
        let after = bench.fleet.process_usage();
        let seconds = sent.seconds + lag.as_secs_f64();
        let cores = |name: &str| (after[name].cpu - before[name].cpu).as_secs_f64() / seconds;
        figures.add(
            "edits of a catalog",
            vec![
                ("requests/min", sent.calls() as f64 * 60.0 / sent.seconds),
                ("items/s", all as f64 / seconds),
                ("p50 ms", sent.percentile(50)),
                ("p99 ms", sent.percentile(99)),
                ("messages left", behind as f64),
                ("lag s", lag.as_secs_f64()),
                ("gateway cores", cores("gateway")),
                ("worker cores", cores(WORKER)),
                ("worker MB", (bench.fleet.peak(WORKER) >> 20) as f64),
            ],
        );
    }
    figures.print();
    println!(
        "\nlag: from the last answer to the last item edited; items/s counts until then, and so do\n\
         the cores."
    );
    if let Some(file) = arguments.common.json {
        figures.write(&file);
    }
    bench.log.close().await;
    bench.pool.close().await;
    bench.fleet.close().await;
}

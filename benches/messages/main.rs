//! How fast messages go out: `scripts/bench messages`.
//!
//! Everything is local and real: a gateway and a worker of the release build, Kafka, PostgreSQL, an
//! HTTP receiver and an SMTP server. A send to an audience that everybody is in is measured from
//! its call to the last webhook at the receiver, next to the bound in the same run. Then
//! transactional emails, one after the other at an even pace, from when each call was due to when
//! the SMTP server has its email: at rest, and while sends and exports continue all the time.

mod bound;
#[path = "../figures.rs"]
mod figures;
#[allow(dead_code, reason = "it makes other calls as well")]
#[path = "../load/mod.rs"]
mod load;
mod receiver;
#[path = "../settle.rs"]
mod settle;
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the tests' support serves more than this"
)]
#[path = "../../tests/flows/support/mod.rs"]
mod support;
mod transactional;

use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::bound::Bound;
use crate::figures::Figures;
use crate::receiver::Receiver;
use crate::settle::settle;
use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile};
use crate::transactional::Transactional;

/// As the program has it: the bound is to have no worse one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORKER: &str = "worker-1";

#[derive(Parser)]
struct Arguments {
    /// How many users
    #[arg(long, default_value_t = 50_000)]
    users: usize,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Transactional emails a second
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// How long they are sent, each time
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Partitions of the topics
    #[arg(long, default_value_t = 16)]
    partitions: u32,
    #[command(flatten)]
    common: load::Common,
}

/// A webhook with a text as customers have them.
fn messages(receiver: &Receiver) -> Value {
    let body = "{\"user\": \"{{${external_id}}}\", \"text\": \"Hello {{${first_name} | default: 'friend'}}, \
                {% if custom_attribute.${loyalty_points} > 1000 %}you have \
                {{custom_attribute.${loyalty_points}}} points{% else %}collect points\
                {% endif %} in {{${home_city} | upcase}}, {{${country}}}\"}";
    json!({ "webhook": {
        "url": format!("http://{}/", receiver.address), "request_method": "POST", "body": body,
        "request_headers": { "content-type": "application/json" },
    } })
}

/// Everybody, by conditions of each kind.
fn audience() -> Value {
    let attribute = |comparison: &str, value: Value| {
        json!({ "custom_attribute": {
            "custom_attribute_name": "no such attribute", "comparison": comparison, "value": value,
        } })
    };
    let subscribed = json!({ "comparison": "is_not", "value": "unsubscribed" });
    json!({ "AND": [
        { "OR": [
            { "email_subscription_status": subscribed },
            attribute("does_not_match_regex", "^x+[a-f]{2,9}$".into()),
        ] },
        attribute("not_equal", 5.into()),
        attribute("does_not_exist", Value::Null),
    ] })
}

struct Bench {
    fleet: Fleet,
    api: Api,
    pool: PgPool,
    receiver: Receiver,
    users: usize,
}

impl Bench {
    async fn new(arguments: &Arguments, transactional: &Transactional) -> Self {
        let settings = load::settings(arguments.partitions, &arguments.common.set);
        let fleet = Fleet::start_with(Backend::Fleet(1), &[], |all| all.extend(settings)).await;
        let workspace = WorkspaceFile::new("bench").permitted(&[
            "messages.send",
            "transactional.send",
            "users.export.global_control_group",
        ]);
        let workspace = transactional.declared(workspace);
        let api = fleet.apply(&[workspace]).await.remove(0);
        let users = arguments.users;
        fleet
            .shell(&format!("\"$LONGSHORE\" generate --users {users} | \"$LONGSHORE\" import -"))
            .await;
        let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
        let receiver = Receiver::start().await;
        let bench = Self { fleet, api, pool, receiver, users };
        settle(&bench.pool).await;
        bench
    }

    async fn send(&self) {
        let (messages, audience) = (messages(&self.receiver), audience());
        // The state of subscription is one of what the audience looks at.
        let body = json!({
            "broadcast": true, "audience": audience, "messages": messages,
            "recipient_subscription_state": "all",
        });
        let answer = self.api.post("/messages/send", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// From the call to the last webhook, in seconds.
    async fn send_to_all(&self) -> f64 {
        let (before, began) = (self.receiver.count(), Instant::now());
        self.send().await;
        self.receiver.has(before + self.users).await;
        began.elapsed().as_secs_f64()
    }

    /// Sends to everybody, and exports everybody, again and again.
    async fn saturate(&self, stop: &CancellationToken) {
        let sends = async {
            while !stop.is_cancelled() {
                self.send_to_all().await;
            }
        };
        let exports = async {
            while !stop.is_cancelled() {
                let accepted = self.api.export_all().await;
                self.api.done(&accepted.prefix).await;
            }
        };
        tokio::join!(sends, exports);
    }
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let transactional = Transactional::start().await;
    println!("{} users are imported…", arguments.users);
    let bench = Bench::new(&arguments, &transactional).await;
    let profiles = bound::profiles(&bench.pool).await;
    let mut figures = Figures::new(format!("{} users", arguments.users));
    // What is done once only, such as opening connections, is not counted.
    bench.send_to_all().await;
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        settle(&bench.pool).await;
        bench.fleet.reset_peak(WORKER);
        let before = bench.fleet.cpu(WORKER);
        let seconds = bench.send_to_all().await;
        let cpu = bench.fleet.cpu(WORKER) - before;
        let worker = (cpu.as_secs_f64() / seconds, bench.fleet.peak(WORKER) >> 20);
        settle(&bench.pool).await;
        let messages = messages(&bench.receiver);
        let Bound { rendering, sending } =
            bound::measure(&profiles, &messages, &bench.receiver).await;
        let rate = |seconds: f64| bench.users as f64 / seconds;
        figures.add(
            "webhooks to an audience",
            vec![
                ("recipients/s", rate(seconds)),
                ("of bound", (rendering + sending) / seconds),
                ("worker cores", worker.0),
                ("worker MB", worker.1 as f64),
            ],
        );
        figures.add("bound", vec![("recipients/s", rate(rendering + sending))]);
        figures.add("bound: rendering alone", vec![("recipients/s", rate(rendering))]);
        figures.add("bound: sending alone", vec![("recipients/s", rate(sending))]);
    }
    let customers: Vec<String> = sqlx::query_scalar(
        "SELECT external_id FROM users WHERE external_id IS NOT NULL AND email IS NOT NULL",
    )
    .fetch_all(&bench.pool)
    .await
    .expect("users");
    let (pace, count) =
        (Duration::from_secs(1) / arguments.rate, (arguments.rate * arguments.seconds) as usize);
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        settle(&bench.pool).await;
        let at_rest = transactional.measure(&bench.api, &customers, pace, count).await;
        figures.add("transactional emails, at rest", at_rest);
        let stop = CancellationToken::new();
        let measured = async {
            // By then both are in the middle.
            let until = bench.receiver.count() + bench.users / 10;
            bench.receiver.has(until).await;
            let measured = transactional.measure(&bench.api, &customers, pace, count).await;
            stop.cancel();
            measured
        };
        let (under_load, ()) = tokio::join!(measured, bench.saturate(&stop));
        figures.add("transactional emails, under load", under_load);
    }
    figures.print();
    println!(
        "\nof bound: speed as a share of that of the same messages rendered alone, then sent alone to the\n\
         same receiver, on all cores. Emails count from when their call was due to when the SMTP\n\
         server has them; under load, sends to and exports of all users continue all the\n\
         time."
    );
    if let Some(file) = arguments.common.json {
        figures.write(&file);
    }
    bench.pool.close().await;
    bench.fleet.close().await;
}

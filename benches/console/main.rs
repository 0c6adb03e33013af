//! How fast the pages of the console are over a large installation, and what open consoles cost a
//! gateway: `scripts/bench console`.
//!
//! Everything is local and real: a gateway of the release build on PostgreSQL and Kafka. Users are
//! imported. One export, one send and so on are real, and a worker completes them. The other ones
//! are copies of their rows, with other times and states.

mod fill;
mod open;
mod pages;

#[path = "../figures.rs"]
#[allow(dead_code, reason = "two are written to one file here")]
mod figures;
#[allow(dead_code, reason = "only its options and settings serve here")]
#[path = "../load/mod.rs"]
mod load;
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

use clap::Parser;
use sqlx::PgPool;

use crate::figures::Figures;
use crate::fill::Sizes;
use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};

const GATEWAY: &str = "gateway";

#[derive(Parser)]
struct Arguments {
    /// Users of the workspace
    #[arg(long, default_value_t = 3_000_000, value_parser = clap::value_parser!(i64).range(1_000..))]
    users: i64,
    /// Exports, each with a delivery
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(100..))]
    exports: i64,
    /// Messages, half of them of one send
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(1_000..))]
    messages: i64,
    /// How often each page is loaded
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    loads: u64,
    /// Consoles that are open at the same time
    #[arg(long, default_value_t = 50)]
    consoles: usize,
    /// How long they are open
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How often everything is measured; the median counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    #[command(flatten)]
    common: load::Common,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    // A new page without an example is found before the hour in which rows are written.
    pages::check_routes();
    let settings = load::settings(4, &arguments.common.set);
    let mut fleet = Fleet::start_with(Backend::Fleet(1), &console::settings(), |all| {
        all.extend(settings);
    })
    .await;
    let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
    let Arguments { users, exports, messages, .. } = arguments;
    fill::fill(&mut fleet, &pool, Sizes { users, exports, messages }).await;

    let loads = pages::all(&pool).await;
    let title = format!(
        "pages of the console: {users} users, {exports} exports, {messages} messages, {} loads each",
        arguments.loads
    );
    let (mut of_pages, mut of_consoles) = (
        Figures::new(title),
        Figures::new(format!("a gateway with {} open consoles", arguments.consoles)),
    );
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        // Nothing is kept from what was loaded before.
        restart(&mut fleet).await;
        let browser = Browser::signed_in(&fleet, "ana", "admin").await;
        pages::measure(&browser, &loads, arguments.loads, &mut of_pages).await;
        restart(&mut fleet).await;
        let plan = open::Plan { consoles: arguments.consoles, seconds: arguments.seconds };
        open::measure(&fleet, &pool, &plan, &mut of_consoles).await;
    }
    of_pages.print();
    of_consoles.print();
    if let Some(file) = arguments.common.json {
        let all = [of_pages.to_json(), of_consoles.to_json()];
        let text = serde_json::to_string_pretty(&all).expect("plain values are JSON");
        std::fs::write(file, text + "\n").expect("the file is written");
    }
    pool.close().await;
    fleet.close().await;
}

/// Starts the gateway again, so that its caches are empty and its memory is that of a start.
async fn restart(fleet: &mut Fleet) {
    fleet.terminate(GATEWAY).await;
    fleet.launch(GATEWAY).await;
}

//! `longshore generate`: realistic user records as newline-delimited JSON.

use std::io::{BufWriter, ErrorKind, Write as _};

use jiff::civil::Date;

use super::CommandResult;
use crate::config::Config;
use crate::users::generate::Users;
use kit::clock::Clock;

/// Write user records to standard output, one per line. The same seed and date give the same users.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore generate --users 50000 > users.ndjson")]
pub struct Arguments {
    /// Number of users
    #[arg(long, value_name = "N")]
    users: u64,
    /// Seed; another seed generates other users
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The UTC day before which all activity happened [default: today]
    #[arg(long, value_name = "DATE")]
    as_of: Option<Date>,
}

pub async fn run(_config: Config, arguments: Arguments) -> CommandResult {
    let today = Clock::system().today();
    let as_of = arguments.as_of.unwrap_or(today);
    if as_of > today {
        return Err(format!("--as-of {as_of} is in the future").into());
    }
    tokio::task::spawn_blocking(move || write(&arguments, as_of)).await??;
    Ok(())
}

fn write(arguments: &Arguments, as_of: Date) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let mut users = Users::new(arguments.seed, as_of);
    let mut line = String::new();
    for number in 0..arguments.users {
        line.clear();
        users.write(number, &mut line);
        line.push('\n');
        match out.write_all(line.as_bytes()) {
            // The reader stopped, like `head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    match out.flush() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        flushed => flushed,
    }
}

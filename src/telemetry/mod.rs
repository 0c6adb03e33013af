//! What an operator sees: tracing, whose [`lines`] hold nobody up, [`metrics`] with their help text,
//! of the [`process`] and of the whole [`fleet`] too, and the operations listener ([`ops`]).

pub mod fleet;
pub mod lines;
pub mod metrics;
pub mod ops;
pub mod process;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{Config, LogFormat};
use kit::retry::Retry;

/// What is logged unless `RUST_LOG` says otherwise: all from `info` on, and of the crates
/// that tell each of their steps only what needs attention.
const DEFAULT_FILTER: &str = "info,aws_config=warn,aws_credential_types=warn,\
     aws_smithy_runtime=warn,azure_core=warn,hyper=warn,hyper_util=warn,librdkafka=warn,\
     rdkafka=warn,reqwest=warn,rustls=warn,sqlx=warn";

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("RUST_LOG cannot be read: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("the metrics cannot be recorded: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    #[error("log lines cannot be written: {0}")]
    Lines(#[from] std::io::Error),
}

impl Retry for TelemetryError {}

/// Begins to write log lines to standard error: text on a terminal, else a JSON object a
/// line, with the fields of the spans around it. From then on panics are log lines, too. Called
/// again, it changes nothing.
pub fn init_tracing(config: &Config) -> Result<(), TelemetryError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.trim().is_empty() => filter,
        _ => DEFAULT_FILTER.to_owned(),
    };
    let filter = EnvFilter::try_new(filter)?;
    let writer = lines::start()?;
    let lines = fmt().with_env_filter(filter).with_writer(move || writer);
    let terminal = std::io::stderr().is_terminal();
    let format = config.log_format.unwrap_or(match terminal {
        true => LogFormat::Text,
        false => LogFormat::Json,
    });
    // It fails where tracing was begun before.
    let begun = match format {
        LogFormat::Text => lines.with_ansi(terminal).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
    if begun.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(())
}

/// The usual hook writes to standard error itself, and would wait for who reads it.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    let at = panic.location().map(ToString::to_string);
    let text = panic.payload_as_str().unwrap_or("no text");
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => {
            tracing::error!(thread, at, text, %backtrace, "a thread panicked");
        }
        _ => tracing::error!(thread, at, text, "a thread panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_filter_can_be_read() {
        assert!(EnvFilter::try_new(DEFAULT_FILTER).is_ok());
    }
}

//! Observability: tracing, whose [`lines`] never block work, [`metrics`] with their help text, of
//! the [`process`] and of the whole [`fleet`], and the operations listener ([`ops`]).

pub mod fleet;
mod json;
pub mod lines;
pub mod metrics;
mod noise;
pub mod ops;
pub mod process;
mod writes;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::json::WithSpan;
use self::noise::WithoutNoise;
use kit::retry::Retry;
use runtime::config::{Config, LogFormat};
use runtime::traces;

/// The default of `RUST_LOG`: everything from `info` on, and only warnings of verbose crates.
const DEFAULT_FILTER: &str = "info,aws_config=warn,aws_credential_types=warn,\
     aws_smithy_runtime=warn,azure_core=warn,hyper=warn,hyper_util=warn,librdkafka=warn,\
     rdkafka=warn,reqwest=warn,rustls=warn,sqlx=warn";

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("invalid RUST_LOG: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("cannot record metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    #[error("cannot record metrics: {0}")]
    Recorder(String),
    #[error(transparent)]
    Traces(#[from] traces::TracesError),
    #[error("cannot write log lines: {0}")]
    Lines(#[from] std::io::Error),
}

impl Retry for TelemetryError {}

/// Begins to write log lines to standard error: text on a terminal, otherwise a JSON object on each
/// line, with the fields of the spans around it. From then on, panics are log lines too. Calling it
/// again changes nothing.
pub fn init_tracing(config: &Config) -> Result<(), TelemetryError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.trim().is_empty() => filter,
        _ => DEFAULT_FILTER.to_owned(),
    };
    let filter = EnvFilter::try_new(filter)?;
    let writer = lines::start()?;
    let lines = fmt::layer().with_writer(move || writer);
    // Fails if tracing is already initialized.
    let lines = match format(config) {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => {
            let json = lines.json().flatten_event(true).with_current_span(false);
            json.with_span_list(false).map_event_format(WithSpan).boxed()
        }
    };
    let traces = traces::layer(&config.traces)?;
    let registry = tracing_subscriber::registry().with(traces).with(lines);
    let begun = registry.with(filter).with(WithoutNoise).try_init();
    if begun.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(())
}

fn format(config: &Config) -> LogFormat {
    let is_terminal = std::io::stderr().is_terminal();
    config.log_format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json })
}

/// Whether log lines are text on a terminal: somebody is probably reading them now.
pub fn is_text_on_terminal(config: &Config) -> bool {
    std::io::stderr().is_terminal() && format(config) == LogFormat::Text
}

/// The default hook writes to standard error directly, and would wait for its reader.
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
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// Log lines in memory.
    #[derive(Clone, Default)]
    pub(super) struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        pub fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_default_filter_can_be_read() {
        assert!(EnvFilter::try_new(DEFAULT_FILTER).is_ok());
    }
}

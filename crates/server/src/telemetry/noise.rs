//! Lines of dependencies that mislead, because they describe an event that this program reports
//! itself.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Targets and the beginnings of their messages.
const NOISE: &[(&str, &str)] = &[
    // A lost connection: its work reports the error.
    ("sqlx_core::pool::connection", "error occurred while testing the connection on-release"),
    // After a commit that failed, sqlx also rolls back.
    ("sqlx::postgres::notice", "there is no transaction in progress"),
];

/// Drops these lines with any `RUST_LOG`.
pub(super) struct WithoutNoise;

impl<S: Subscriber> Layer<S> for WithoutNoise {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let target = event.metadata().target();
        let mut texts = NOISE.iter().filter(|(noisy, _)| *noisy == target).map(|(_, text)| *text);
        texts.next().is_none_or(|text| {
            let mut search = Search { text, is_found: false };
            event.record(&mut search);
            !search.is_found
        })
    }
}

/// Looks for a text at the beginning of an event's message.
struct Search {
    text: &'static str,
    is_found: bool,
}

impl Visit for Search {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_found |= field.name() == "message" && value.starts_with(self.text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.is_found |= format!("{value:?}").starts_with(self.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::tests::Written;
    use super::*;

    #[test]
    fn only_noise_is_dropped() {
        let written = Written::default();
        let to = written.clone();
        let lines = fmt::layer().with_ansi(false).with_writer(move || to.clone());
        let subscriber = tracing_subscriber::registry().with(lines).with(WithoutNoise);
        tracing::subscriber::with_default(subscriber, || {
            let notice = "there is no transaction in progress";
            tracing::warn!(target: "sqlx::postgres::notice", message = notice);
            tracing::warn!(target: "sqlx::postgres::notice", message = "another notice");
            let error = "broken pipe";
            tracing::warn!(
                target: "sqlx_core::pool::connection", %error,
                "error occurred while testing the connection on-release",
            );
            tracing::warn!(target: "sqlx_core::pool::connection", %error, "another event");
            tracing::warn!("there is no transaction in progress");
        });
        let written = written.text();
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines.len(), 3, "{written}");
        assert!(lines[0].contains("another notice") && lines[1].contains("another event"));
        assert!(lines[2].contains("server::telemetry"));
    }
}

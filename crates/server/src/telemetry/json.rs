//! Log lines as JSON objects with the span around them.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Room for most lines.
const LINE_BYTES: usize = 512;

/// Adds `span` to the lines of a format that writes a JSON object: the fields of the span around
/// the event, and its name. The fields are copied as they were written when the span began. The
/// format's own `span` would parse and write them again for each line.
pub(super) struct WithSpan<F>(pub F);

impl<F, S, N> FormatEvent<S, N> for WithSpan<F>
where
    F: FormatEvent<S, N>,
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let parent = event.parent().and_then(|id| context.span(id));
        let Some(span) = parent.or_else(|| context.lookup_current()) else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::with_capacity(LINE_BYTES);
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let Some(object) = line.strip_suffix("}\n") else { return writer.write_str(&line) };
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<N>>();
        let fields = fields.and_then(|fields| fields.strip_prefix('{')?.strip_suffix('}'));
        let fields = fields.unwrap_or_default();
        let comma = if fields.is_empty() { "" } else { "," };
        // Names of spans are literals without characters to escape.
        let name = span.name();
        writeln!(writer, r#"{object},"span":{{{fields}{comma}"name":"{name}"}}}}"#)
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::{Layer, Registry, fmt};

    use super::super::tests::Written;
    use super::*;

    /// The lines of some events.
    fn lines(layer: impl FnOnce(Written) -> Box<dyn Layer<Registry> + Send + Sync>) -> String {
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(layer(written.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(number = 1, "outside of a span");
            let empty = tracing::field::Empty;
            let span = tracing::info_span!("request", path = "/a\"b", id = empty, number = 2);
            span.in_scope(|| tracing::info!(text = "}\n", "inside"));
            span.record("id", "c");
            let inner = tracing::info_span!(parent: &span, "inner");
            tracing::info!(parent: &span, "with a parent");
            inner.in_scope(|| tracing::warn!("in a span without fields"));
        });
        written.text()
    }

    #[test]
    fn lines_have_the_span_as_the_format_itself_writes_it() {
        let format = |span: bool| {
            move |to: Written| {
                let layer = fmt::layer().with_writer(move || to.clone()).json().without_time();
                layer.flatten_event(true).with_current_span(span).with_span_list(false)
            }
        };
        let expected = lines(|to| format(true)(to).boxed());
        let own = lines(|to| format(false)(to).map_event_format(WithSpan).boxed());
        assert_eq!(own, expected);
        assert_eq!(expected.lines().count(), 4);
        assert!(
            expected.contains(r#""span":{"id":"c","number":2,"path":"/a\"b","name":"request"}"#)
        );
    }
}

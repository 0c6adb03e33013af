//! Traces for OpenTelemetry: with `traces.url`, spans go to a collector by OTLP over HTTP.
//!
//! A trace begins with the caller's `traceparent` (W3C Trace Context) or at the gateway. It follows
//! the work as a suffix of the request id, which each message of the log and each row of work has:
//! `ID;TRACEPARENT`. An id contains no semicolon. This needs no column, and an older version reads
//! the whole as an id.

mod export;

use axum::http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry::{Context, trace::Status};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

pub use export::{TracesError, flush, is_on, layer};

const TRACEPARENT: &str = "traceparent";

/// Maximum number of traces that a batch of messages links to.
const LINKS: usize = 32;

/// The id itself, without the trace that follows it.
pub fn without_trace(request_id: &str) -> &str {
    request_id.split_once(';').map_or(request_id, |(id, _)| id)
}

/// Continues the caller's trace in a request's span. Returns the request id with the trace that the
/// request's work continues.
pub fn begin(span: &Span, headers: &HeaderMap, request_id: &str) -> String {
    if !is_on() {
        return request_id.to_owned();
    }
    let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Fails only for a span that is filtered out, which has no trace.
    let _ = span.set_parent(caller);
    match traceparent(&span.context()) {
        Some(traceparent) => format!("{request_id};{traceparent}"),
        None => request_id.to_owned(),
    }
}

/// Adds the request id to the current span, and continues the request's trace in it.
pub fn continue_trace(request_id: &str) {
    let span = Span::current();
    span.record("request_id", without_trace(request_id));
    if let Some(parent) = parent(request_id) {
        let _ = span.set_parent(parent);
    }
}

/// Links a batch's span to the traces of its messages. The batch is part of the first one's.
pub fn link<'a>(span: &Span, request_ids: impl Iterator<Item = &'a str>) {
    if !is_on() {
        return;
    }
    let mut parents = request_ids.filter_map(parent).take(LINKS);
    if let Some(first) = parents.next() {
        let _ = span.set_parent(first);
    }
    parents.for_each(|parent| span.add_link(span_context(&parent)));
}

/// Adds the current span's `traceparent` to the headers of an outgoing request.
pub fn inject(headers: &mut HeaderMap) {
    if is_on() {
        let context = Span::current().context();
        TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(headers));
    }
}

/// The id of the current span's trace, if it is sampled.
pub fn current_trace() -> Option<String> {
    let span = is_on().then(|| span_context(&Span::current().context()))?;
    span.is_sampled().then(|| span.trace_id().to_string())
}

/// Adds a response's status to the current span.
pub fn record_status(status: u16) {
    if is_on() {
        let span = Span::current();
        span.set_attribute("http.response.status_code", i64::from(status));
        if status >= 500 {
            span.set_status(Status::error(""));
        }
    }
}

fn parent(request_id: &str) -> Option<Context> {
    let (_, traceparent) = request_id.split_once(';').filter(|_| is_on())?;
    let context = TraceContextPropagator::new().extract(&TraceparentExtractor(traceparent));
    span_context(&context).is_valid().then_some(context)
}

fn span_context(context: &Context) -> SpanContext {
    context.span().span_context().clone()
}

fn traceparent(context: &Context) -> Option<String> {
    let span = span_context(context);
    // Nobody sees a trace that is not sampled.
    span.is_sampled().then(|| {
        let flags = span.trace_flags().to_u8();
        format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id())
    })
}

/// A `traceparent` outside of headers.
struct TraceparentExtractor<'a>(&'a str);

impl Extractor for TraceparentExtractor<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACEPARENT).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_the_id_from_the_trace() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(without_trace(&format!("a-1;{trace}")), "a-1");
        assert_eq!(without_trace("a-1"), "a-1");
        assert_eq!(without_trace(""), "");
    }

    #[test]
    fn changes_nothing_without_a_collector() {
        let mut headers = HeaderMap::new();
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        headers.insert(TRACEPARENT, trace.parse().unwrap());
        assert_eq!(begin(&Span::none(), &headers, "a-1"), "a-1");
        inject(&mut headers);
        assert_eq!(headers[TRACEPARENT], trace);
    }
}

//! Sends spans to the collector, from a bounded queue: work never waits for the collector.

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanEvents, SpanExporter as _,
    SpanProcessor,
};
use tokio::sync::mpsc;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use crate::config::Traces;
use kit::retry::Retry;

/// Spans that wait for the collector; more are dropped.
const QUEUE: usize = 4096;

/// Maximum number of spans in a request to the collector.
const BATCH: usize = 512;

/// How long spans are collected before a request.
const PAUSE: Duration = Duration::from_millis(500);

/// The timeout of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for sending the last spans when the process stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The running export, if there is one.
static EXPORT: OnceLock<Export> = OnceLock::new();

struct Export {
    provider: SdkTracerProvider,
    stop: CancellationToken,
    task: TaskTracker,
}

#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    #[error("traces.url (LONGSHORE_TRACES_URL): {0}")]
    Exporter(#[from] ExporterBuildError),
    #[error("cannot send traces: {0}")]
    Client(#[from] reqwest::Error),
}

impl Retry for TracesError {}

/// Whether spans go to a collector.
pub fn is_on() -> bool {
    EXPORT.get().is_some()
}

/// Converts spans to those of OpenTelemetry and sends them, if a collector is set. Needs a runtime.
pub fn layer<S>(settings: &Traces) -> Result<Option<OpenTelemetryLayer<S, SdkTracer>>, TracesError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let Some(url) = &settings.url else { return Ok(None) };
    let mut exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(reqwest::Client::builder().timeout(TIMEOUT).build()?)
        .with_endpoint(format!("{}/v1/traces", url.as_str().trim_end_matches('/')))
        .with_timeout(TIMEOUT)
        .with_headers(settings.header_map().unwrap_or_default())
        .build()?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_service_name("longshore").with_attribute(version);
    exporter.set_resource(&resource.build());
    let (sender, receiver) = mpsc::channel(QUEUE);
    // The caller's decision counts; the share is of traces that begin here.
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.share)));
    let provider = SdkTracerProvider::builder()
        .with_span_processor(Queue(sender))
        .with_sampler(sampler)
        .build();
    let export = EXPORT.get_or_init(|| {
        let (stop, task) = (CancellationToken::new(), TaskTracker::new());
        task.spawn(send(exporter, receiver, stop.clone()));
        task.close();
        Export { provider, stop, task }
    });
    let layer = tracing_opentelemetry::layer()
        .with_tracer(export.provider.tracer("longshore"))
        // A span may get its parent after it has begun.
        .with_context_activation(false)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false);
    Ok(Some(layer))
}

/// Sends the last spans, if the collector responds soon.
pub async fn flush() {
    let Some(Export { stop, task, .. }) = EXPORT.get() else { return };
    stop.cancel();
    if time::timeout(FLUSH_TIMEOUT, task.wait()).await.is_err() {
        tracing::warn!("last spans not sent: the collector did not respond");
    }
}

/// The sending side of the queue. It never waits.
#[derive(Debug)]
struct Queue(mpsc::Sender<SpanData>);

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.0.try_send(span).is_err() {
            count_dropped(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends the spans in the queue, until `stop` is cancelled and the queue is empty.
async fn send(
    exporter: opentelemetry_otlp::SpanExporter,
    mut queue: mpsc::Receiver<SpanData>,
    stop: CancellationToken,
) {
    let (mut batch, mut is_failing) = (Vec::new(), false);
    loop {
        tokio::select! {
            () = stop.cancelled(), if !queue.is_closed() => queue.close(),
            count = queue.recv_many(&mut batch, BATCH) => {
                if count == 0 {
                    return;
                }
                batch.iter_mut().for_each(|span| {
                    name(span);
                    // Log lines, which may have contents.
                    span.events = SpanEvents::default();
                });
                match exporter.export(std::mem::take(&mut batch)).await {
                    Ok(()) => is_failing = false,
                    Err(error) => {
                        count_dropped(count);
                        if !is_failing {
                            tracing::warn!(%error, "the collector did not accept spans");
                        }
                        is_failing = true;
                    }
                }
                if count < BATCH {
                    let _ = time::timeout(PAUSE, stop.cancelled()).await;
                }
            }
        }
    }
}

fn count_dropped(spans: usize) {
    metrics::counter!("longshore_spans_dropped_total").increment(spans as u64);
}

/// Names a span as OpenTelemetry's conventions do: a request by its method and route, a claim by
/// its kind, a batch by its topic.
fn name(span: &mut SpanData) {
    let find = |name: &str| {
        let attribute = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
        attribute.map(|attribute| attribute.value.as_str().into_owned()).unwrap_or_default()
    };
    let (name, kind) = match span.name.as_ref() {
        "request" => (format!("{} {}", find("method"), find("path")), SpanKind::Server),
        "claim" => (find("kind"), SpanKind::Consumer),
        "batch" => (format!("process {}", find("topic")), SpanKind::Consumer),
        "delivery" => (format!("POST {}", find("kind")), SpanKind::Client),
        _ => return,
    };
    (span.name, span.span_kind) = (name.trim_end().to_owned().into(), kind);
}

//! What records the metrics and renders them.

use std::time::SystemTime;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;

use super::exemplars::WithExemplars;
use super::{Kind, Metric, all};
use crate::telemetry::TelemetryError;

/// The recorder of this process, once it is installed.
static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// The revision of the program, if the build knows it.
const REVISION: &str = match option_env!("LONGSHORE_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Starts recording, with every metric described, and returns the renderer. Further calls return
/// the same. Traces begin before: with them, histograms have exemplars.
pub fn install() -> Result<PrometheusHandle, TelemetryError> {
    let mut installed = INSTALLED.lock();
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let mut builder = PrometheusBuilder::new();
    for metric in all().filter(|metric| metric.kind == Kind::Histogram) {
        let name = Matcher::Full(metric.name.into());
        builder = builder.set_buckets_for_metric(name, metric.bounds)?;
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(WithExemplars(recorder))
        .map_err(|error| TelemetryError::Recorder(error.to_string()))?;
    all().for_each(describe);
    all().for_each(begin);
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("revision", REVISION)];
    metrics::gauge!("longshore_build_info", &labels).set(1.0);
    metrics::gauge!("process_start_time_seconds").set(since_1970());
    *installed = Some(handle.clone());
    Ok(handle)
}

/// Records the metrics of `emit` separately, and returns their text, which has nothing else.
pub fn render_in_own_recorder(emit: impl FnOnce()) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        all().for_each(describe);
        emit();
    });
    recorder.handle().render()
}

/// The time, in the unit of metrics.
pub fn since_1970() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn describe(metric: &Metric) {
    match metric.kind {
        Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
        Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
        Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
    }
}

fn begin(metric: &Metric) {
    for values in metric.begins_at_0 {
        let labels: Vec<_> = metric.labels.iter().copied().zip(values.iter().copied()).collect();
        metrics::counter!(metric.name, &labels).increment(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_renders_share_no_values() {
        let rendered = |topic: &'static str| {
            render_in_own_recorder(|| {
                metrics::gauge!("longshore_dead_letters", "topic" => topic).set(3.0)
            })
        };
        let first = rendered("exports");
        assert!(first.contains("# HELP longshore_dead_letters Number of dead letters"), "{first}");
        assert!(first.contains("longshore_dead_letters{topic=\"exports\"} 3\n"), "{first}");
        let second = rendered("tracking");
        assert!(second.contains("tracking") && !second.contains("exports"), "{second}");
        assert_eq!(render_in_own_recorder(|| ()), "");
    }
}

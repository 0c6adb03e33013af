//! Exemplars: for each bucket of a histogram, the latest traced value that it counted. A
//! dashboard links from it to the trace. Only OpenMetrics has them, and only while spans go to a
//! collector are they recorded.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use parking_lot::Mutex;

use super::all;
use super::recorder::since_1970;
use runtime::traces;

/// The content type of [`openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Measured below the domains, perhaps before a span continues the trace of its work: asking for
/// the trace earlier would begin another one.
const WITHOUT_TRACE: &[&str] = &["longshore_pool_wait_seconds", "longshore_log_append_seconds"];

/// The exemplars of each series, by the beginning of its lines: the name, and the labels but `le`.
static SERIES: LazyLock<Mutex<HashMap<String, Arc<Series>>>> = LazyLock::new(Mutex::default);

/// A histogram with its labels.
struct Series {
    bounds: &'static [f64],
    /// One for each bucket, the last of which is without an upper bound.
    latest: Mutex<Vec<Option<Exemplar>>>,
}

#[derive(Clone)]
struct Exemplar {
    trace_id: String,
    value: f64,
    /// Seconds since 1970.
    at: f64,
}

/// Records everything in `R`, and exemplars of histograms in addition.
pub struct WithExemplars<R>(pub R);

impl<R: Recorder> Recorder for WithExemplars<R> {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe_counter(name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe_gauge(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe_histogram(name, unit, help);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.0.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.0.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let values = self.0.register_histogram(key, metadata);
        if !traces::is_on() || WITHOUT_TRACE.contains(&key.name()) {
            return values;
        }
        Histogram::from_arc(Arc::new(Traced { values, key: key.clone() }))
    }
}

struct Traced {
    values: Histogram,
    key: Key,
}

impl HistogramFn for Traced {
    fn record(&self, value: f64) {
        self.values.record(value);
        if let Some(trace_id) = traces::current_trace() {
            series(&self.key).note(Exemplar { trace_id, value, at: since_1970() });
        }
    }
}

impl Series {
    fn note(&self, exemplar: Exemplar) {
        let bucket = self.bounds.partition_point(|bound| *bound < exemplar.value);
        self.latest.lock()[bucket] = Some(exemplar);
    }

    /// The exemplar of the bucket with this upper bound, as its line has it.
    fn latest_at(&self, bound: &str) -> Option<Exemplar> {
        let bucket = match bound {
            "+Inf" => self.bounds.len(),
            _ => {
                let bound: f64 = bound.parse().ok()?;
                self.bounds.iter().position(|known| *known == bound)?
            }
        };
        self.latest.lock()[bucket].clone()
    }
}

/// The series of a key. Its name has the form in which its lines begin.
fn series(key: &Key) -> Arc<Series> {
    let mut name = format!("{}_bucket{{", key.name());
    for label in key.labels() {
        let _ = write!(name, "{}=\"{}\",", label.key(), label.value());
    }
    let new = || {
        let metric = all().find(|metric| metric.name == key.name());
        let bounds = metric.map(|metric| metric.bounds).unwrap_or_default();
        Arc::new(Series { bounds, latest: Mutex::new(vec![None; bounds.len() + 1]) })
    };
    SERIES.lock().entry(name).or_insert_with(new).clone()
}

/// Converts the text format of Prometheus to OpenMetrics, with exemplars.
pub fn openmetrics(text: &str) -> String {
    let series = SERIES.lock().clone();
    let mut converted = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match metadata(line) {
            Some((keyword, name, rest)) => {
                let family = name.strip_suffix("_total").unwrap_or(name);
                let _ = writeln!(converted, "# {keyword} {family} {}", rest.replace('"', "\\\""));
            }
            None => {
                converted.push_str(line);
                if let Some(exemplar) = exemplar(line, &series) {
                    let Exemplar { trace_id, value, at } = exemplar;
                    let _ = write!(converted, " # {{trace_id=\"{trace_id}\"}} {value} {at:.3}");
                }
                converted.push('\n');
            }
        }
    }
    converted + "# EOF\n"
}

/// The keyword, the metric's name and the rest of a line that describes a metric.
fn metadata(line: &str) -> Option<(&str, &str, &str)> {
    let (keyword, rest) = line.strip_prefix("# ")?.split_once(' ')?;
    let (name, rest) = rest.split_once(' ')?;
    Some((keyword, name, rest))
}

fn exemplar(line: &str, series: &HashMap<String, Arc<Series>>) -> Option<Exemplar> {
    let (name, rest) = line.rsplit_once("le=\"")?;
    let (bound, _) = rest.split_once('"')?;
    series.get(name)?.latest_at(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_latest_exemplar_that_it_counted() {
        let labels = [("stage", "test")];
        let key = Key::from_parts("longshore_export_stage_seconds", labels.as_slice());
        for (trace, value) in [("aa", 0.002), ("bb", 0.0025), ("cc", 500.0)] {
            series(&key).note(Exemplar { trace_id: trace.into(), value, at: 1.5 });
        }
        let name = "longshore_export_stage_seconds";
        let text = format!(
            "# HELP {name} Time of \"x\"\n# TYPE {name} histogram\n\
             {name}_bucket{{stage=\"test\",le=\"0.001\"}} 0\n\
             {name}_bucket{{stage=\"test\",le=\"0.0025\"}} 2\n\
             {name}_bucket{{stage=\"other\",le=\"0.0025\"}} 2\n\
             {name}_bucket{{stage=\"test\",le=\"+Inf\"}} 3\n\
             {name}_sum{{stage=\"test\"}} 500.0045\n\n\
             # TYPE longshore_x_total counter\nlongshore_x_total 3\n\n"
        );
        let expected = format!(
            "# HELP {name} Time of \\\"x\\\"\n# TYPE {name} histogram\n\
             {name}_bucket{{stage=\"test\",le=\"0.001\"}} 0\n\
             {name}_bucket{{stage=\"test\",le=\"0.0025\"}} 2 # {{trace_id=\"bb\"}} 0.0025 1.500\n\
             {name}_bucket{{stage=\"other\",le=\"0.0025\"}} 2\n\
             {name}_bucket{{stage=\"test\",le=\"+Inf\"}} 3 # {{trace_id=\"cc\"}} 500 1.500\n\
             {name}_sum{{stage=\"test\"}} 500.0045\n\
             # TYPE longshore_x counter\nlongshore_x_total 3\n# EOF\n"
        );
        assert_eq!(openmetrics(&text), expected);
    }
}

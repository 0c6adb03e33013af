//! All metrics, with their labels and help text, and the [`recorder`].
//!
//! A metric is emitted where its event happens, with the macros of the `metrics` crate, and
//! declared here, in its group of the reference. Names end in their unit (`_seconds`, `_bytes`),
//! counters in `_total`; labels have few values: never an id, an address or a customer's name.

pub mod exemplars;
mod exports;
mod fleet;
mod ingestion;
mod log;
mod messages;
mod process;
pub mod recorder;
mod requests;

kit::named! {
    pub enum Kind {
        Counter = "counter",
        Gauge = "gauge",
        Histogram = "histogram",
    }
}

/// A metric as declared.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// With the values of its labels.
    pub help: &'static str,
    /// For a counter, the label values that are exported as 0 from the start: otherwise an increase
    /// from nothing to 1 would be invisible to `increase()`.
    pub begins_at_0: &'static [&'static [&'static str]],
    /// For a histogram, the upper bounds of its buckets.
    pub bounds: &'static [f64],
}

/// Upper bounds of most histograms, in seconds: from a look-up to a large export's part.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Upper bounds for urgent sends, in seconds. The alerts and dashboards of transactional emails
/// select `le="60"`, the minute of the SLA.
const SENDING_SECONDS: &[f64] =
    &[0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];

/// Upper bounds for whole exports and sends, in seconds: from a few users to millions, or to a day
/// of outages.
const EXPORT_SECONDS: &[f64] =
    &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0];

/// Upper bounds for the number of messages in a batch.
const MESSAGES: &[f64] = &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0];

impl Metric {
    const fn begins_at_0(self, begins_at_0: &'static [&'static [&'static str]]) -> Self {
        Self { begins_at_0, ..self }
    }

    const fn bounds(self, bounds: &'static [f64]) -> Self {
        Self { bounds, ..self }
    }
}

/// Metrics that an operator looks for together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub title: &'static str,
    pub metrics: &'static [Metric],
}

/// Every metric.
pub const GROUPS: &[Group] = &[
    fleet::GROUP,
    process::GROUP,
    requests::GROUP,
    log::GROUP,
    exports::GROUP,
    ingestion::GROUP,
    messages::SENDS,
    messages::TRANSACTIONAL,
];

/// Every metric, one after the other.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS.iter().flat_map(|group| group.metrics)
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help, begins_at_0: &[], bounds: &[] }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help, begins_at_0: &[], bounds: &[] }
}

/// A histogram of seconds, unless it gets other [bounds](Metric::bounds).
const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, help, begins_at_0: &[], bounds: SECONDS }
}

#[cfg(test)]
mod tests;

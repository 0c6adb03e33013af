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
}

impl Metric {
    const fn begins_at_0(self, begins_at_0: &'static [&'static [&'static str]]) -> Self {
        Self { begins_at_0, ..self }
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
    Metric { name, kind: Kind::Counter, labels, help, begins_at_0: &[] }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help, begins_at_0: &[] }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, help, begins_at_0: &[] }
}

#[cfg(test)]
mod tests;

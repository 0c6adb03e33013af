//! The log: appends, and the progress of its consumers.

use super::{Group, MESSAGES, Metric, counter, gauge, histogram};

pub const GROUP: Group = Group { title: "The log", metrics: METRICS };

const METRICS: &[Metric] = &[
    histogram(
        "longshore_log_append_seconds",
        &["outcome"],
        "Time in seconds until an append was durable or failed, by outcome (ok, error)",
    ),
    counter(
        "longshore_log_appended_total",
        &["outcome"],
        "Total number of appended messages, by outcome (ok, error)",
    )
    .begins_at_0(&[&["ok"], &["error"]]),
    counter(
        "longshore_log_consumed_total",
        &["topic", "group"],
        "Total number of messages read from the log, by topic and group",
    ),
    gauge(
        "longshore_log_lag_messages",
        &["topic", "group", "partition"],
        "Number of messages of a partition that are not applied yet, by topic (exports, tracking, \
         catalogs, messages), group and partition. Reported by the worker that has the partition; \
         0 from a worker that had it before",
    ),
    gauge(
        "longshore_log_lag_seconds",
        &["topic", "group", "partition"],
        "Age in seconds of the oldest message that is not applied yet, or, before it is read, the \
         time since it was first noticed; 0 if all are applied, and from a worker that had the \
         partition before",
    ),
    gauge(
        "longshore_log_stopped_partitions",
        &["topic", "group"],
        "Number of partitions of this worker that are stopped until an operator resets their \
         position, by topic and group",
    ),
    gauge(
        "longshore_log_waiting_partitions",
        &["topic", "group"],
        "Number of partitions of this worker whose position is not known yet, by topic and group",
    ),
    counter(
        "longshore_log_reverted_total",
        &["topic"],
        "Total number of times that this worker found the stored position of a partition behind \
         its own, by topic (exports, tracking, catalogs, messages): the database lost commits in a \
         crash, or a standby or a backup has replaced it. The worker applies the messages again",
    )
    .begins_at_0(&[&["exports"], &["tracking"], &["catalogs"], &["messages"]]),
    counter(
        "longshore_log_processed_total",
        &["topic", "outcome"],
        "Total number of processed messages of the log, by topic (exports, tracking, catalogs, \
         messages) and outcome: done, dead_letter, repeated. Messages whose commit the database \
         lost in a crash are counted again",
    )
    .begins_at_0(&[
        &["exports", "dead_letter"],
        &["tracking", "dead_letter"],
        &["catalogs", "dead_letter"],
        &["messages", "dead_letter"],
    ]),
    counter(
        "longshore_batches_total",
        &["topic", "outcome"],
        "Total number of batches of messages, by topic (exports, tracking, catalogs, messages) \
         and outcome: done, handed_back, lost to another worker, or reverted, because the \
         database lost the commits before it",
    ),
    histogram("longshore_batch_messages", &["topic"], "Number of messages in a batch, by topic")
        .bounds(MESSAGES),
    histogram(
        "longshore_batch_seconds",
        &["topic"],
        "Time in seconds from reading a batch until it was applied or released, by topic",
    ),
];

//! The log: what is appended, and how far its consumers are.

use super::{Group, Metric, counter, gauge, histogram};

pub const GROUP: Group = Group { title: "The log", metrics: METRICS };

const METRICS: &[Metric] = &[
    histogram(
        "longshore_log_append_seconds",
        &["outcome"],
        "Time until an append was durable or had failed, by outcome (ok, error)",
    ),
    counter(
        "longshore_log_appended_total",
        &["outcome"],
        "Messages appended, by outcome (ok, error)",
    )
    .begins_at_0(&[&["ok"], &["error"]]),
    counter(
        "longshore_log_consumed_total",
        &["topic", "group"],
        "Messages given out to be worked on, by topic and group",
    ),
    gauge(
        "longshore_log_lag_messages",
        &["topic", "group", "partition"],
        "Messages of a partition that are not applied, by topic (exports, tracking, catalogs, \
         messages), group and partition. Told by the worker that has the partition; 0 by one that had it",
    ),
    gauge(
        "longshore_log_lag_seconds",
        &["topic", "group", "partition"],
        "Age of the oldest of them, or, before it was read, how long it is known that there is \
         one; 0 where all are applied, and of a partition that went",
    ),
    gauge(
        "longshore_log_stopped_partitions",
        &["topic", "group"],
        "Partitions of this worker that cannot go on until somebody says where, by topic and group",
    ),
    gauge(
        "longshore_log_waiting_partitions",
        &["topic", "group"],
        "Partitions of this worker of which it is not known yet where to go on, by topic and group",
    ),
    counter(
        "longshore_messages_total",
        &["topic", "outcome"],
        "Messages of the log worked on, by topic (exports, tracking, catalogs, messages) and \
         outcome: done, dead_letter, repeated",
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
        "Batches of messages taken, by topic (exports, tracking, catalogs, messages) and outcome: \
         done, handed_back, or lost to another worker",
    ),
    histogram(
        "longshore_batch_messages",
        &["topic"],
        "Messages of a batch that was taken to be applied, by topic",
    ),
    histogram(
        "longshore_batch_seconds",
        &["topic"],
        "Time from taking a batch until it was applied or let go, by topic",
    ),
];

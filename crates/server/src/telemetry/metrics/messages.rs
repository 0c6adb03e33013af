//! Messages to users: sends to many, and transactional emails.

use super::{EXPORT_SECONDS, Group, SENDING_SECONDS, counter, gauge, histogram};

pub const SENDS: Group = Group {
    title: "Messages to users",
    metrics: &[
        counter(
            "longshore_send_requests_total",
            &["kind"],
            "Total number of accepted send requests, by kind: send, schedule. A request repeated \
             with its Idempotency-Key counts once; live activities and Canvases are not counted",
        ),
        counter(
            "longshore_dispatches_total",
            &["state"],
            "Total number of ended sends, by state (done, failed, cancelled)",
        )
        .begins_at_0(&[&["done"], &["failed"], &["cancelled"]]),
        histogram(
            "longshore_dispatch_duration_seconds",
            &["state"],
            "Time in seconds from accepting a send to its end, by state (done, failed, cancelled)",
        )
        .bounds(EXPORT_SECONDS),
        counter(
            "longshore_dispatch_users_total",
            &[],
            "Total number of users checked as recipients of a send",
        ),
        counter(
            "longshore_dispatch_excluded_total",
            &["reason"],
            "Total number of users and messages excluded from sends, by reason: unknown, \
             not_in_audience, control_group, too_late (users), unsubscribed, capped (messages)",
        ),
        counter(
            "longshore_dispatch_messages_total",
            &["channel", "outcome"],
            "Total number of messages, by channel and outcome: sent, unreachable, aborted, \
             failed, bounced, or waiting for another attempt",
        ),
        counter(
            "longshore_dispatch_parts_total",
            &["outcome"],
            "Total number of send parts that a worker finished with, by outcome: done, waits (for \
             messages to retry), given_up, ended (the send was cancelled or failed)",
        )
        .begins_at_0(&[&["done"], &["waits"], &["given_up"], &["ended"]]),
        histogram(
            "longshore_dispatch_render_seconds",
            &[],
            "Time in seconds to render the messages of a batch of users",
        ),
        counter(
            "longshore_connected_content_requests_total",
            &["outcome"],
            "Total number of HTTP requests for connected_content that the cache could not serve, \
             by outcome: answered, failed",
        )
        .begins_at_0(&[&["answered"], &["failed"]]),
        counter(
            "longshore_schedules_fired_total",
            &["outcome"],
            "Total number of due times of schedules, by outcome: begun, wave (a later time zone \
             of a local time), missed",
        )
        .begins_at_0(&[&["begun"], &["wave"], &["missed"]]),
        histogram(
            "longshore_schedule_delay_seconds",
            &[],
            "Time in seconds from the scheduled time of a send until it started",
        )
        .bounds(SENDING_SECONDS),
        counter(
            "longshore_message_attempts_total",
            &["channel", "outcome"],
            "Total number of messages passed to their channel, by channel and outcome: sent, \
             unreachable, bounced, failed, or later (to retry)",
        ),
        histogram(
            "longshore_message_attempt_seconds",
            &["channel"],
            "Time in seconds from passing a message to its channel until the response or failure, \
             by channel. For emails of sends, without the wait for a connection, unless that wait \
             times out",
        ),
        counter(
            "longshore_message_reports_total",
            &["type"],
            "Total number of reports about messages, by type: invalid_number, \
             unregistered_device, processed, delivered, bounced, failed, unsubscribed",
        ),
        counter(
            "longshore_relay_faults_total",
            &[],
            "Total number of sends, and of bounces of transactional emails, for which the relay is \
             the cause: more than 5% of the emails failed alike, so no address was suppressed",
        ),
        counter(
            "longshore_smtp_connections_total",
            &["outcome"],
            "Total number of connections to relays, by outcome: opened or failed",
        )
        .begins_at_0(&[&["opened"], &["failed"]]),
    ],
};

pub const TRANSACTIONAL: Group = Group {
    title: "Transactional emails",
    metrics: &[
        counter(
            "longshore_transactional_requests_total",
            &["outcome"],
            "Total number of accepted requests for a transactional email, by outcome: new, or \
             repeated (the external_send_id was used before)",
        ),
        counter(
            "longshore_transactional_emails_total",
            &["state"],
            "Total number of transactional emails that reached a state, by state: sent, \
             processed, delivered, bounced, aborted",
        )
        .begins_at_0(&[
            &["sent"],
            &["processed"],
            &["delivered"],
            &["bounced"],
            &["aborted"],
        ]),
        histogram(
            "longshore_transactional_handover_seconds",
            &[],
            "Time from the request for a transactional email until the relay accepted it in \
             seconds. Only accepted emails count; \
             longshore_job_oldest_seconds{kind=\"transactional\"} shows how long others have \
             waited",
        )
        .bounds(SENDING_SECONDS),
        gauge(
            "longshore_transactional_within_minute_ratio",
            &["coverage"],
            "Share (0 to 1) of the transactional emails of the current and the previous hour that \
             the relay accepted within a minute, in the whole fleet, by coverage by their \
             campaigns' packages: covered, beyond. NaN if there are none, or the database does \
             not respond",
        ),
        counter(
            "longshore_transactional_retries_total",
            &[],
            "Total number of attempts at transactional emails that the relay did not accept and \
             that are retried",
        )
        .begins_at_0(&[&[]]),
    ],
};

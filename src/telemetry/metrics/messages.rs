//! Messages to users: sends to many, and transactional emails.

use super::{Group, counter, gauge, histogram};

pub const SENDS: Group = Group {
    title: "Messages to users",
    metrics: &[
        counter(
            "longshore_orders_total",
            &["kind"],
            "Orders to send that were taken in, by kind: send, schedule. One that is repeated \
             under its Idempotency-Key counts once; live activities and Canvases are not counted",
        ),
        counter(
            "longshore_dispatches_total",
            &["state"],
            "Sends that ended, by state (done, failed, cancelled)",
        )
        .begins_at_0(&[&["done"], &["failed"], &["cancelled"]]),
        histogram(
            "longshore_dispatch_duration_seconds",
            &["state"],
            "Time from taking a send to its end, by state (done, failed, cancelled)",
        ),
        counter(
            "longshore_dispatch_users_total",
            &[],
            "Users who were looked at, whether they are sent to",
        ),
        counter(
            "longshore_dispatch_left_out_total",
            &["reason"],
            "Who is left out of sends, by reason: users who are unknown, not_in_audience or of \
             the control_group; messages that are unsubscribed or capped",
        ),
        counter(
            "longshore_dispatch_messages_total",
            &["channel", "outcome"],
            "Messages by channel and outcome: sent, unreachable, aborted, failed, bounced, or \
             waiting for another attempt",
        ),
        counter(
            "longshore_dispatch_parts_total",
            &["outcome"],
            "Parts of sends that a worker left, by outcome: done, waits (for messages that were \
             not taken yet), given_up",
        )
        .begins_at_0(&[&["done"], &["waits"], &["given_up"]]),
        histogram(
            "longshore_dispatch_render_seconds",
            &[],
            "Time of rendering the messages of a batch of users",
        ),
        counter(
            "longshore_connected_content_requests_total",
            &["outcome"],
            "HTTP requests of connected_content that were not answered from the cache, by \
             outcome: answered, failed",
        )
        .begins_at_0(&[&["answered"], &["failed"]]),
        counter(
            "longshore_schedules_fired_total",
            &["outcome"],
            "Moments of schedules that came, by outcome: begun, wave (a later one of a time on \
             the wall), missed",
        )
        .begins_at_0(&[&["begun"], &["wave"], &["missed"]]),
        histogram(
            "longshore_schedule_delay_seconds",
            &[],
            "Time from the moment that something was scheduled for until its sending began",
        ),
        counter(
            "longshore_message_attempts_total",
            &["channel", "outcome"],
            "Messages handed to their channel, by channel and outcome: sent, unreachable, \
             bounced, failed, or later (not taken this time)",
        ),
        histogram(
            "longshore_message_attempt_seconds",
            &["channel"],
            "Time from handing a message to its channel until it was answered or failed, by \
             channel",
        ),
        counter(
            "longshore_message_reports_total",
            &["type"],
            "Reports of what became of messages, by type: invalid_number, unregistered_device, \
             processed, delivered, bounced, failed, unsubscribed",
        ),
        counter(
            "longshore_smtp_connections_total",
            &["outcome"],
            "Connections to relays by outcome: opened, or failed",
        )
        .begins_at_0(&[&["opened"], &["failed"]]),
    ],
};

pub const TRANSACTIONAL: Group = Group {
    title: "Transactional emails",
    metrics: &[
        counter(
            "longshore_transactional_calls_total",
            &["outcome"],
            "Calls of the transactional endpoint that were taken, by outcome: new, or repeated \
             (the external_send_id had its send)",
        ),
        counter(
            "longshore_transactional_emails_total",
            &["state"],
            "Transactional emails that came to a state, by state: sent, processed, delivered, \
             bounced, aborted",
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
            "Time from the call for a transactional email until the relay had it. Only those that \
             a relay has are counted: how long others wait already is \
             longshore_job_oldest_seconds{kind=\"transactional\"}",
        ),
        gauge(
            "longshore_transactional_minute_share",
            &["coverage"],
            "Share (0 to 1) of the transactional emails of the running hour and the last one that \
             were handed over within a minute, over the fleet, by coverage by their campaigns' \
             packages: covered, beyond. NaN where there are none, or the database does not say",
        ),
        counter(
            "longshore_transactional_put_off_total",
            &[],
            "Times that a transactional email was not taken by its relay, and is tried again",
        )
        .begins_at_0(&[&[]]),
    ],
};

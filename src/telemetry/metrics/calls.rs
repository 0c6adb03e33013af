//! Calls of the API, and what refuses them.

use super::{Group, Metric, counter, gauge, histogram};

pub const GROUP: Group = Group { title: "Calls", metrics: METRICS };

const METRICS: &[Metric] = &[
    counter(
        "longshore_http_requests_total",
        &["method", "path", "status"],
        "Calls answered, by method, path and status; path is the route, empty where none matched",
    ),
    histogram(
        "longshore_http_request_seconds",
        &["method", "path"],
        "Time to answer a call, by method and path; path is the route, empty where none matched",
    ),
    gauge("longshore_http_requests_in_flight", &[], "Calls that this gateway has under way"),
    gauge(
        "longshore_http_requests_in_flight_max",
        &[],
        "Calls that it may have under way: one more is answered 503",
    ),
    gauge(
        "longshore_http_body_bytes",
        &[],
        "Bytes of bodies that this gateway holds, each until what came in it is durable",
    ),
    gauge(
        "longshore_http_body_bytes_max",
        &[],
        "Bytes of bodies that it may hold: a call that finds no room is answered 503",
    ),
    counter(
        "longshore_http_refused_total",
        &["reason"],
        "Calls that were answered 503 for want of room, by reason: busy (too many calls under \
         way), memory (for their bodies), unauthenticated (for bodies that are to prove who sends \
         them), store (too many calls wait for the database), keys (too many unknown keys, tokens \
         or workspaces are looked up)",
    )
    .begins_at_0(&[&["busy"], &["memory"], &["unauthenticated"], &["store"], &["keys"]]),
    counter(
        "longshore_http_connections_closed_total",
        &[],
        "Total number of connections without a key, or idle, that were closed to make room for others",
    )
    .begins_at_0(&[&[]]),
    counter(
        "longshore_rate_limit_refused_total",
        &["budget"],
        "Calls answered 429, by the budget that was used up",
    ),
    counter(
        "longshore_rate_limit_alone_total",
        &["budget"],
        "Calls that this gateway counted alone since the database did not answer, by budget",
    ),
    counter(
        "longshore_idempotency_total",
        &["outcome"],
        "Calls with an Idempotency-Key, by what was under it: new, repeated, taken_over, under_way \
         (409), other_body (422), unrepeatable (409)",
    ),
];

//! Requests to the API, and the limits that reject them.

use super::{Group, Metric, counter, gauge, histogram};

pub const GROUP: Group = Group { title: "Requests", metrics: METRICS };

const METRICS: &[Metric] = &[
    counter(
        "longshore_http_requests_total",
        &["method", "path", "status"],
        "Total number of HTTP requests, by method, path and status; path is the route, empty if \
         no route matched",
    ),
    histogram(
        "longshore_http_request_seconds",
        &["method", "path"],
        "Time in seconds from receiving an HTTP request to its response, by method and path; path \
         is the route, empty if no route matched",
    ),
    gauge(
        "longshore_http_requests_in_flight",
        &[],
        "Number of HTTP requests in progress in this \
           gateway",
    ),
    gauge(
        "longshore_http_requests_in_flight_max",
        &[],
        "Maximum number of HTTP requests in progress; a further request gets 503",
    ),
    gauge(
        "longshore_http_body_bytes",
        &[],
        "Memory for request bodies in use in bytes; a body is held until its content is durable",
    ),
    gauge(
        "longshore_http_body_bytes_max",
        &[],
        "Maximum memory for request bodies in bytes; a request that exceeds it gets 503",
    ),
    counter(
        "longshore_http_refused_total",
        &["reason"],
        "Total number of requests that got 503 because of a limit, by reason: busy (too many \
         requests in progress), memory (for their bodies), unauthenticated (memory for bodies \
         whose signature is not checked yet), store (too many requests wait for the database), \
         keys (too many lookups of unknown keys, tokens or workspaces), turns (other expensive \
         requests are in progress)",
    )
    .begins_at_0(&[
        &["busy"],
        &["memory"],
        &["unauthenticated"],
        &["store"],
        &["keys"],
        &["turns"],
    ]),
    counter(
        "longshore_http_connections_closed_total",
        &[],
        "Total number of connections that were closed to make room for others, because they were \
         idle or had not shown a valid key",
    )
    .begins_at_0(&[&[]]),
    counter(
        "longshore_rate_limit_refused_total",
        &["budget"],
        "Total number of requests that got 429, by rate limit. The limit `refused` is that of \
         requests whose key or token may not be used for them",
    ),
    counter(
        "longshore_rate_limit_local_fallback_total",
        &["budget"],
        "Total number of requests that only this gateway counted because the database did not \
         respond, by rate limit",
    ),
    counter(
        "longshore_idempotency_total",
        &["outcome"],
        "Total number of requests with an Idempotency-Key, by outcome: new, repeated, taken_over, \
         under_way (409), other_body (422), unrepeatable (409)",
    ),
];

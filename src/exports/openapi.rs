//! The calls of exports as they are described.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::{
    Accepted, LARGEST_PAGE, NO_GROUP, PAGE, PERMISSION, Page, Status, Wanted, ended, read_page,
    unknown,
};
use super::download::{EXPIRED, not_found, not_yet};
use super::fields::{CUSTOM_ATTRIBUTES, MOST_BYTES, MOST_NAMES, record};
use super::{Failure, Format, State};
use crate::gateway::openapi::shapes::{members, shape};
use crate::gateway::openapi::{SENT_TO_OTHERS, Tag, Webhook};
use crate::gateway::{ADDRESS_REFUSED, Access, ApiError, Operation};
use crate::outbound;

const TAG: Tag = Tag { name: "Exports", about: "The users of the global control group as files." };

const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";

fn prefix_in_path(operation: Operation) -> Operation {
    let schema = json!({
        "type": "string", "examples": [PREFIX],
        "pattern": "^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}-[0-9]{1,19}$",
    });
    operation.in_path("object_prefix", "As the request for the export was answered.", schema)
}

pub(super) fn request() -> Operation {
    let operation = Operation::new(Method::POST, "requestExport", TAG, "Ask for an export")
        .by(Access::Key(PERMISSION))
        .about(
            "Every user of the global control group, one JSON object a line, in files of up to \
             5,000 users. They go to the workspace's own storage (Azure where it is the default \
             destination, else S3), else behind the download address. With a `callback_endpoint` \
             the end is told by a signed POST to it.\n\nEvery call makes another export, unless \
             it has the `Idempotency-Key` of an earlier one.",
        )
        .repeatable()
        .takes::<ExportRequest>([(
            "Some fields, and a callback",
            json!({
                "fields_to_export": ["external_id", "email", "custom_attributes.loyalty_tier"],
                "callback_endpoint": "https://example.com/exports",
            }),
        )])
        .answers::<Accepted<'static>>(
            StatusCode::CREATED,
            "The export is stored and will be made.",
            json!({
                "message": "success", "object_prefix": PREFIX,
                "url": format!(
                    "http://127.0.0.1:8080/users/export/{PREFIX}/download?signature=dqIqj_fo"
                ),
            }),
        )
        .with_link(
            "exportStatus",
            json!({
                "parameters": { "object_prefix": "$response.body#/object_prefix" },
            }),
        )
        .with_link(
            "cancelExport",
            json!({
                "parameters": { "object_prefix": "$response.body#/object_prefix" },
            }),
        );
    operation
        .refuses_some(wrong_requests(), "A member is wrong")
        .refuses(&ApiError::Invalid(NO_GROUP.into()), "There is no active control group")
}

/// Refusals of bodies, each wrong in another way.
fn wrong_requests() -> [Result<Wanted, ApiError>; 4] {
    let email = json!(["email"]);
    let bodies = [
        json!({}),
        json!({ "fields_to_export": ["e-mail", "x"] }),
        json!({ "fields_to_export": email, "output_format": "rar" }),
        json!({ "fields_to_export": email, "callback_endpoint": "http://localhost/" }),
    ];
    let check = |address: &str| {
        outbound::check_address(address, &crate::config::Config::default()).map(String::from)
    };
    bodies.map(|body| Wanted::read(&members(body), check))
}

shape! {
    /// What is asked for.
    ExportRequest = |_| json!({
        "type": "object",
        "properties": {
            "fields_to_export": {
                "type": "array", "minItems": 1, "maxItems": MOST_NAMES,
                "description": format!(
                    "Members of the user record, `{CUSTOM_ATTRIBUTES}` for all custom attributes, \
                     `{CUSTOM_ATTRIBUTES}.<name>` for one. A name given twice counts once. At \
                     most {MOST_BYTES} bytes in all.",
                ),
                "items": { "anyOf": [
                    { "enum": record().collect::<Vec<_>>() },
                    { "type": "string", "pattern": format!(r"^{CUSTOM_ATTRIBUTES}\.[^\u0000]+$") },
                ] },
            },
            "callback_endpoint": {
                "type": ["string", "null"], "maxLength": outbound::LONGEST,
                "pattern": callback_pattern(),
                "not": { "type": "string", "pattern": LOCALHOST },
                "description": "The service sends a POST to this http or https URL when the \
                                export ends. The host must not be in a private network. An empty \
                                string means none.",
            },
            "output_format": {
                "enum": [Format::Zip.name(), Format::Gzip.name(), null], "default": Format::default().name(),
                "description": "Of the files in own storage; behind a download address there is \
                                always one ZIP.",
            },
        },
        "required": ["fields_to_export"],
    })
}

/// An address with a host of this machine.
const LOCALHOST: &str =
    r"^[^:]*://(?:[^/?#]*[.@])?[lL][oO][cC][aA][lL][hH][oO][sS][tT]\.?(?:[:/?#]|$)";

/// What a callback's address looks like, but for literal IPv6 addresses and characters outside
/// ASCII, which are accepted as well.
fn callback_pattern() -> String {
    const LABEL: &str = "[A-Za-z0-9_-]+";
    // A last label that is a number makes an IPv4 address of the host.
    const LAST: &str = "(?:[A-Za-z_-]|[0-9]+[A-WYZa-wyz_-])[A-Za-z0-9_-]*";
    const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const PORT: &str =
        "(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    let host = format!(r"(?:(?:{LABEL}\.)*{LAST}|(?:{BYTE}\.){{3}}{BYTE})\.?");
    let user = "(?:[A-Za-z0-9._~:%-]+@)?";
    format!("^(?:|[hH][tT][tT][pP][sS]?://{user}{host}(?::{PORT})?(?:[/?#][!-~]*)?)$")
}

fn example_status() -> Value {
    json!({
        "object_prefix": PREFIX, "state": State::Done.name(),
        "users": { "done": 2013, "total": 2013 }, "files": { "done": 1, "total": 1 },
        "bytes": 66425, "requested_at": "2026-11-21T08:29:28.910Z",
        "started_at": "2026-11-21T08:29:28.916Z", "finished_at": "2026-11-21T08:29:29.052Z",
        "expires_at": "2026-11-21T12:29:29.052Z",
    })
}

pub(super) fn status() -> Operation {
    let operation = Operation::new(Method::GET, "exportStatus", TAG, "How far an export is")
        .by(Access::Key(PERMISSION))
        .answers::<Status>(StatusCode::OK, "The status.", example_status())
        .refuses(&unknown(), "The workspace has no such export");
    prefix_in_path(operation)
}

pub(super) fn cancel() -> Operation {
    let operation = Operation::new(Method::DELETE, "cancelExport", TAG, "Cancel an export")
        .by(Access::Key(PERMISSION))
        .about(
            "One that is queued, planning or running. What it wrote is removed, and there is no \
             callback. It stays in the list; cancelling again gives the same answer.",
        )
        .answers::<Status>(StatusCode::OK, "The status.", example_status())
        .refuses(&unknown(), "The workspace has no such export")
        .refuses(&ended(State::Done), "It has ended, or is about to");
    prefix_in_path(operation)
}

pub(super) fn list() -> Operation {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE,
    });
    let mut entry = example_status();
    entry["state"] = State::Done.name().into();
    let operation =
        Operation::new(Method::GET, "listExports", TAG, "The workspace's exports, latest first")
            .by(Access::Key(PERMISSION))
            .in_query("limit", "Exports on a page.", limit)
            .in_query(
                "cursor",
                "The `next_cursor` of the page before.",
                json!({ "type": "string", "minLength": 1 }),
            )
            .answers::<Page>(
                StatusCode::OK,
                "A page.",
                json!({ "exports": [entry], "next_cursor": "MTc5NTI0OTc2ODkxMCAwMWEx" }),
            );
    let wrong = ["limit=0", "cursor=x", "limit=1&limit=2"];
    operation.refuses_some(wrong.map(read_page), "A parameter is wrong, or is there twice")
}

/// When a download is refused with [`ADDRESS_REFUSED`].
const ADDRESS: &str = "The sender's address is not on the list of the workspace";

pub(super) fn download() -> Operation {
    let operation = Operation::new(Method::GET, "downloadExport", TAG, "Download an export")
        .about(
            "The `url` that a request without own storage is answered with: one ZIP with all \
             files. It is signed, so whoever has it can download until it expires, from the \
             addresses of the workspace's `ip_allowlist`. Keep it, rather than what it redirects \
             to.",
        )
        .in_query(
            "signature",
            "What shows that the address is the service's.",
            json!({ "type": "string" }),
        )
        .answers_empty(StatusCode::FOUND, "Follow it: a short-lived address of the storage.")
        .with_header("Location", "The address.", json!({ "type": "string", "format": "uri" }))
        .refuses(&not_found(), "The signature is wrong or missing, or there is no such export")
        .refuses(&ApiError::Forbidden(ADDRESS_REFUSED), ADDRESS);
    let ends = [State::Running, State::Failed, State::Cancelled];
    let refusals = ends.into_iter().filter_map(not_yet).chain([ApiError::Forbidden(EXPIRED)]);
    let operation = refusals.fold(operation, |operation, error| {
        operation.refuses(&error, "It cannot be downloaded, yet or any more")
    });
    prefix_in_path(operation)
}

shape! {
    /// The bytes of a file.
    File = |_| json!({})
}

pub(super) fn serve() -> Operation {
    let file = |operation: Operation, status, about| {
        operation.answers_as::<File>(status, about, "application/zip")
    };
    let operation = Operation::new(
        Method::GET,
        "downloadFile",
        TAG,
        "A file, where they are the gateway's",
    )
    .about(
        "What a download redirects to where objects are files: signed, short-lived, and not \
             to be made by clients. It can be asked for in ranges.",
    )
    .in_path("path", "Has slashes.", json!({ "type": "string", "minLength": 1 }))
    .refuses(&not_found(), "The signature is wrong or missing, or there is no such file")
    .refuses(&ApiError::Forbidden(EXPIRED), "The address has expired")
    .refuses(&ApiError::Forbidden(ADDRESS_REFUSED), ADDRESS)
    .answers_empty(StatusCode::NOT_MODIFIED, "What `If-Modified-Since` names is the same.")
    .answers_empty(StatusCode::PRECONDITION_FAILED, "It is not what `If-Unmodified-Since` names.")
    .answers_empty(StatusCode::RANGE_NOT_SATISFIABLE, "The range is outside of the file.");
    let operation = file(operation, StatusCode::OK, "The file.");
    file(operation, StatusCode::PARTIAL_CONTENT, "The range that was asked for.")
}

shape! {
    /// That an export has ended, and how.
    ExportCallback = |_| json!({
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "success": { "const": true },
                    "url": {
                        "type": "string", "format": "uri",
                        "description": "The download address, where the workspace has no storage \
                                        of its own.",
                    },
                },
                "required": ["success"],
            },
            {
                "type": "object",
                "properties": {
                    "success": { "const": false },
                    "error": { "type": "string", "description": "Why it failed." },
                },
                "required": ["success", "error"],
            },
        ],
    })
}

pub(super) fn callback() -> Webhook {
    let done = json!({
        "success": true,
        "url": "https://longshore.example.com/users/export/9d2261c4-4cf3-44b0-909b-455baf540288-1795249898/download?signature=dqIqj_fo",
    });
    let failed = json!({ "success": false, "error": Failure::internal("").message });
    Webhook::new::<ExportCallback>("exportCallback", SENT_TO_OTHERS, "An export has ended")
        .about(
            "To the `callback_endpoint` of the request for it, signed with `callbacks.secret` of \
             the workspace, which signs nothing else. Webhooks that messages send are signed \
             with `webhooks.secret`, under the message's id.",
        )
        .example("Behind a download address", done)
        .example("It failed", failed)
        .retried()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn is_described(address: &str) -> bool {
        let matches = |pattern: &str| Regex::new(pattern).unwrap().is_match(address);
        matches(&callback_pattern()) && !matches(LOCALHOST)
    }

    fn is_accepted(address: &str) -> bool {
        outbound::check_address(address, &crate::config::Config::default()).is_ok()
    }

    #[test]
    fn describes_the_addresses_that_are_accepted() {
        for address in [
            "https://Example.COM/x",
            "http://hooks:65535/",
            "https://3scale.example:50443/?a#b",
            "HTTPS://user:pass@a_b.1and1.example.",
            "http://a.3com",
            "http://8.8.8.8/",
            "http://xn--mnchen-3ya.example/",
        ] {
            assert_eq!((is_described(address), is_accepted(address)), (true, true), "{address}");
        }
        for address in [
            "https://*.example.com/",
            "https://a*b/",
            "https://a..example/",
            "https://.example/",
            "http://a.example:65536/",
            "http://a b.example/",
            "http://256.1.1.1/",
            "http://10.2.3.0x4/",
            "http://LocalHost./",
            "http://x@a.localhost:1/",
            "ftp://a.example/",
            "a.example",
        ] {
            assert_eq!((is_described(address), is_accepted(address)), (false, false), "{address}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn accepts_what_is_described(address in "https?://([a-zA-Z0-9._*@:-]|0x|[lL]ocalhost){1,12}(/[!-~]*)?") {
            let is_literal = url::Url::parse(&address)
                .is_ok_and(|url| matches!(url.host(), Some(url::Host::Ipv4(_))));
            if is_described(&address) && !is_literal && !address.to_lowercase().contains("xn--") {
                prop_assert!(is_accepted(&address), "{address}");
            }
        }
    }
}

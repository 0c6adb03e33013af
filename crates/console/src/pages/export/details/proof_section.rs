//! What proves that the files are whole, and how to check it (docs/how-to/verify-an-export.md).

use jiff::Timestamp;
use maud::{Markup, html};

use super::Shown;
use crate::page::Page;
use console_frame::parts;
use console_frame::shell::{api, command, quoted};
use exports::{State, paths};
use gateway::workspaces::signing::NAMESPACE;
use proof::manifest;

pub fn section(page: &Page, shown: &Shown) -> Markup {
    let progress = &shown.export.progress;
    let is_lost = matches!(progress.state, State::Failed | State::Cancelled);
    html! {
        @if !is_lost {
            section.panel id="proof" {
                div.panel-head { h2 { "Proof" } }
                div.panel-body {
                    @match &progress.manifest_sha256 {
                        Some(sha256) => (proof(page, shown, sha256)),
                        None if progress.state == State::Done => {
                            p.muted {
                                "A worker of an earlier release finished the export: it has no \
                                 manifest."
                            }
                        }
                        None => p.muted {
                            "The manifest and its signature are written when all files are in place."
                        },
                    }
                }
            }
        }
    }
}

fn proof(page: &Page, shown: &Shown, sha256: &[u8]) -> Markup {
    let job = &shown.export.job;
    let workspace = page.workspace_if_any().map_or("", |workspace| &workspace.name);
    let signer = match &shown.signing_key {
        Some(key) => html! {
            span.mono { (key.public_key.fingerprint()) }
            br; span.muted.small { "the workspace's key since " (page.time(key.signs_from)) }
        },
        None => html! { span.muted { "Unknown" } },
    };
    let rows = [
        (
            "Manifest",
            html! {
                span.mono { (hex::encode(sha256)) } br; span.muted.small { "SHA-256" }
            },
        ),
        ("Where", html! { span.mono { (manifest_name(shown)) } }),
        ("Signed with", signer),
    ];
    let keys =
        api(page, &format!("/.well-known/longshore/{}/allowed_signers", parts::encoded(workspace)));
    let prefix = &job.object_prefix;
    let status = command("export status --json", &[], &[prefix]);
    let name = |suffix: &str| quoted(&format!("{}{suffix}", job.object_prefix));
    let signature = name(manifest::SIGNATURE_SUFFIX);
    let manifest_file = name(manifest::MANIFEST_SUFFIX);
    let completed = shown.export.progress.completed_at.unwrap_or(job.requested_at);
    let time = Timestamp::from_millisecond(completed)
        .map_or_else(|_| String::new(), |at| at.strftime("%Y%m%d%H%M%SZ").to_string());
    html! {
        (parts::facts(&rows))
        p { "Get the workspace's public keys once, in a way that you trust:" }
        pre.code tabindex="0" { "curl -sSf " (keys) " -o allowed_signers" }
        p { "Check the signature and every file:" }
        pre.code tabindex="0" {
            @if job.storage_id.is_none() {
                "EXPORT_URL=$(" (status) " | jq -r .url)\n"
            }
            "longshore export verify " (target(shown)) " --allowed-signers allowed_signers"
        }
        p { "Or only the signature, in a folder with the export " code { (prefix) } ":" }
        pre.code tabindex="0" {
            "ssh-keygen -Y verify -f allowed_signers -I " (quoted(workspace)) " -n " (NAMESPACE)
            " -O verify-time=" (time) " -s " (signature) " < " (manifest_file)
        }
    }
}

/// The key of the manifest in own storage, or its name behind the download address.
fn manifest_name(shown: &Shown) -> String {
    let (job, progress) = (&shown.export.job, &shown.export.progress);
    match progress.completion_date().filter(|_| job.storage_id.is_some()) {
        Some(date) => paths::own_proof(&job.folder(date), manifest::MANIFEST_SUFFIX),
        None => format!("{}{}", job.object_prefix, manifest::MANIFEST_SUFFIX),
    }
}

/// What `longshore export verify` reads. The signed address is a secret, so it is not shown.
fn target(shown: &Shown) -> String {
    let (job, progress) = (&shown.export.job, &shown.export.progress);
    match (&shown.destination, progress.completion_date()) {
        (Some(settings), Some(date)) => quoted(&paths::own_address(settings, job.segment_id, date)),
        _ if job.storage_id.is_some() => ".".into(),
        _ => "\"$EXPORT_URL\"".into(),
    }
}

//! Changes over HTTP in the audit log (docs/how-to/audit-log.md).
//!
//! A handler records its change in the transaction of the change ([`Caller::record`]), and says so
//! in its response ([`Recording`]). [`protected`](crate::protected) records what a handler did not,
//! so that no endpoint is missed. Bulk data is never recorded, and costs no write.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::MatchedPath;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponseParts, Response, ResponseParts};
use serde_json::json;
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::Caller;
use crate::app::App;
use kit::log_limit::LogLimit;
use runtime::app::queue::held_by;
use runtime::audit::{self, Change, Entry};
use runtime::fairness::Holder;
use runtime::traces;
use store::{StoreError, Tx};

/// Permissions whose requests are not recorded: users' data and items of catalogs, sends, which
/// have a history of their own, and reads by POST.
const UNRECORDED: &[&str] = &[
    "campaigns.trigger.send",
    "canvas.trigger.send",
    "catalogs.add_items",
    "catalogs.create_item",
    "catalogs.delete_item",
    "catalogs.delete_items",
    "catalogs.replace_item",
    "catalogs.replace_items",
    "catalogs.update_item",
    "catalogs.update_items",
    "email.status",
    "messages.live_activity.start",
    "messages.send",
    "segments.sample",
    "segments.size",
    "subscription.status.set",
    "templates.preview",
    "transactional.send",
    "users.alias.new",
    "users.alias.update",
    "users.export.ids",
    "users.external_ids.remove",
    "users.external_ids.rename",
    "users.identify",
    "users.merge",
    "users.messages",
    "users.track",
];

/// How long a successful response waits for its entry.
const WRITE_WAIT: Duration = Duration::from_secs(2);

static NOT_RECORDED: LogLimit = LogLimit::new();

/// What a handler has done about its entry, in the extensions of its response. Without it, the
/// entry is written after the response, and names only the permission and the route.
#[derive(Clone, Debug)]
#[must_use = "it must be part of the response"]
pub enum Recording {
    /// The entry is written, or the request changes nothing, such as a dry run.
    Settled,
    /// To be written after the response, if it is successful.
    After(Box<Entry>),
}

impl IntoResponseParts for Recording {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

impl Caller {
    /// The key, as the audit log names it.
    pub fn actor(&self) -> String {
        format!("key:{}", self.key_name)
    }

    /// An entry about a change by this caller.
    pub fn entry(&self, change: Change) -> Entry {
        let Change { action, object, mut details } = change;
        details["key_id"] = self.key_id.to_string().into();
        details["request_id"] = traces::without_trace(&self.request_id).into();
        Entry {
            workspace_id: Some(self.workspace.id),
            actor: self.actor(),
            action,
            object,
            address: self.address.map(|address| address.to_string()),
            details,
        }
    }

    /// Records a change, in its transaction; none if the request changes nothing.
    pub async fn record(
        &self,
        tx: &mut Tx,
        now: i64,
        change: impl Into<Option<Change>>,
    ) -> Result<Recording, StoreError> {
        if let Some(change) = change.into() {
            audit::record(tx, now, &self.entry(change)).await?;
        }
        Ok(Recording::Settled)
    }

    /// Records a change that has no transaction, after a successful response.
    pub fn record_after(&self, change: Change) -> Recording {
        Recording::After(Box::new(self.entry(change)))
    }
}

/// A request whose change is recorded.
pub(crate) struct AuditedRequest {
    app: App,
    caller: Caller,
    permission: &'static str,
    route: String,
}

impl AuditedRequest {
    /// None if requests with this method and permission are not recorded.
    pub fn new(app: &App, caller: &Caller, head: &Parts, permission: &'static str) -> Option<Self> {
        // Not the path, which may have an id of a user.
        let route = head.extensions.get::<MatchedPath>();
        is_recorded(&head.method, permission).then(|| Self {
            app: app.clone(),
            caller: caller.clone(),
            permission,
            route: route.map(|route| route.as_str().to_owned()).unwrap_or_default(),
        })
    }

    /// Writes the entry if the request succeeded and its handler has not written one. If that
    /// fails, only the log of the process has the change. A slow database delays the response only
    /// for [`WRITE_WAIT`]; the entry is then written after it.
    pub fn complete(self, response: &Response) -> impl Future<Output = ()> + use<> {
        let recording = response.extensions().get::<Recording>().cloned();
        let is_success = response.status().is_success();
        // Responses cannot be shared between threads, so the future does not have this one.
        async move {
            if !is_success {
                return;
            }
            let Self { app, caller, permission, route } = self;
            let entry = match recording {
                Some(Recording::Settled) => return,
                Some(Recording::After(entry)) => *entry,
                None => caller.entry(Change::new(permission, route, json!({}))),
            };
            let holder = Holder::Workspace(caller.workspace.id);
            let written = held_by(holder, write(app, entry)).in_current_span();
            let _ = timeout(WRITE_WAIT, tokio::spawn(written)).await;
        }
    }
}

/// Writes an entry after the response, or without one.
pub(crate) async fn write(app: App, entry: Entry) {
    let recorded = async {
        let mut tx = app.request_queue.write().await?;
        audit::record(&mut tx, app.clock.now_ms(), &entry).await?;
        tx.commit().await
    };
    if let Err(error) = recorded.await
        && let Some(skipped) = NOT_RECORDED.skipped()
    {
        let Entry { actor, action, object, .. } = &entry;
        tracing::error!(
            %error,
            skipped,
            actor,
            action,
            object,
            "cannot write changes into the audit log"
        );
    }
}

fn is_recorded(method: &Method, permission: &str) -> bool {
    !method.is_safe() && !UNRECORDED.contains(&permission)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspaces::keys::PERMISSIONS;

    #[test]
    fn unrecorded_permissions_exist() {
        for permission in UNRECORDED {
            assert!(PERMISSIONS.contains(permission), "{permission}");
        }
    }

    #[test]
    fn bulk_data_and_reads_are_not_recorded() {
        assert!(!is_recorded(&Method::POST, "users.track"));
        assert!(!is_recorded(&Method::GET, "users.export.segment"));
        assert!(is_recorded(&Method::POST, "users.export.segment"));
        assert!(is_recorded(&Method::DELETE, "catalogs.delete"));
        // An endpoint that nobody listed yet.
        assert!(is_recorded(&Method::POST, "cafes.open"));
    }
}

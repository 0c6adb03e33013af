//! Changes over HTTP in the audit log (docs/how-to/audit-log.md).
//!
//! A handler records its change in the transaction of the change ([`Caller::record`]).
//! [`protected`](crate::protected) records what a handler did not, once the response is known, so that
//! no endpoint is missed. Bulk data is never recorded, and costs no write.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::MatchedPath;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::Caller;
use crate::app::App;
use crate::idempotency::IsReplay;
use kit::log_limit::LogLimit;
use runtime::app::queue::held_by;
use runtime::audit::{self, Entry};
use runtime::fairness::Holder;
use runtime::traces;
use store::{StoreError, Tx};

/// Permissions whose requests are not recorded: users' data and items of catalogs, sends, which have a
/// history of their own, and reads by POST.
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

/// What a handler has done about its entry.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// Nothing yet.
    #[default]
    Open,
    /// It wrote the entry, or there is none to write.
    Settled,
    /// To be written after a successful response.
    After(Entry),
}

impl Caller {
    /// An entry about a change by this caller.
    pub fn entry(
        &self,
        action: &'static str,
        object: impl Into<String>,
        mut details: Value,
    ) -> Entry {
        details["request_id"] = traces::without_trace(&self.request_id).into();
        Entry {
            workspace_id: Some(self.workspace.id),
            actor: format!("key:{}", self.key_name),
            action,
            object: object.into(),
            address: self.address.map(|address| address.to_string()),
            details,
        }
    }

    /// Records a change, in its transaction. `details` is a JSON object.
    pub async fn record(
        &self,
        tx: &mut Tx,
        now: i64,
        (action, object): (&'static str, impl Into<String>),
        details: Value,
    ) -> Result<(), StoreError> {
        self.record_nothing();
        audit::record(tx, now, &self.entry(action, object, details)).await
    }

    /// Records a change that has no transaction, after a successful response.
    pub fn record_after(
        &self,
        (action, object): (&'static str, impl Into<String>),
        details: Value,
    ) {
        *self.recording.0.lock() = State::After(self.entry(action, object, details));
    }

    /// The request changes nothing, such as a dry run.
    pub fn record_nothing(&self) {
        *self.recording.0.lock() = State::Settled;
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

    /// Writes the entry if the request succeeded and its handler has not written one. If that fails,
    /// only the log of the process has the change. A slow database delays the response
    /// only for [`WRITE_WAIT`]; the entry is then written after it.
    pub fn complete(self, response: &Response) -> impl Future<Output = ()> + use<> {
        let is_replay = response.extensions().get::<IsReplay>().is_some();
        let has_changed = response.status().is_success() && !is_replay;
        // Responses cannot be shared between threads, so the future does not have this one.
        async move {
            if has_changed {
                let holder = Holder::Workspace(self.caller.workspace.id);
                let written = tokio::spawn(held_by(holder, self.write()).in_current_span());
                let _ = timeout(WRITE_WAIT, written).await;
            }
        }
    }

    async fn write(self) {
        let entry = match std::mem::take(&mut *self.caller.recording.0.lock()) {
            State::Settled => return,
            State::After(entry) => entry,
            State::Open => self.caller.entry(self.permission, self.route, json!({})),
        };
        let recorded = async {
            let mut tx = self.app.request_queue.write().await?;
            audit::record(&mut tx, self.app.clock.now_ms(), &entry).await?;
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

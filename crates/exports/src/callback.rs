//! The callback of an ended export: its body, and its delivery.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::proof_objects::ManifestReference;
use super::{Failure, Job};
use deliveries::NewDelivery;
use gateway::app::App;
use gateway::openapi::{SENT_TO_OTHERS, Webhook};
use store::{StoreError, Tx};

/// The end of an export.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ExportCallback")]
pub(super) enum Callback {
    Done {
        #[schemars(extend("const" = true))]
        success: bool,
        /// The download URL, if the files do not go to own storage.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(url)]
        url: Option<String>,
        manifest: ManifestReference,
    },
    Failed {
        #[schemars(extend("const" = false))]
        success: bool,
        /// Why it failed.
        error: String,
    },
}

impl Callback {
    pub fn done(url: Option<String>, manifest: ManifestReference) -> Self {
        Self::Done { success: true, url, manifest }
    }

    pub fn failed(failure: &Failure) -> Self {
        Self::Failed { success: false, error: failure.message.clone() }
    }
}

/// The callback's OpenAPI description.
pub(super) fn describe() -> Webhook {
    let url = "https://longshore.example.com/users/export/9d2261c4-4cf3-44b0-909b-455baf540288-1795249898/download?signature=dqIqj_fo";
    let done = Callback::done(Some(url.to_owned()), ManifestReference::example());
    Webhook::new::<Callback>("exportCallback", SENT_TO_OTHERS, "An export has ended")
        .about(
            "Sent to the `callback_endpoint` of the export, signed with the workspace's \
             `callbacks.secret`, which signs nothing else. Webhooks that are messages are signed \
             with `webhooks.secret`.",
        )
        .example("With a download URL", json!(done))
        .retried()
}

/// Stores the callback's delivery; none if the request has no callback.
pub(super) async fn enqueue(
    app: &App,
    tx: &mut Tx,
    job: &Job,
    body: &Callback,
) -> Result<(), StoreError> {
    let Some(url) = &job.callback_endpoint else { return Ok(()) };
    let delivery = NewDelivery {
        workspace_id: job.workspace_id,
        kind: deliveries::EXPORT_CALLBACK,
        subject: job.object_prefix.clone(),
        follows: None,
        url: url.clone(),
        body: json!(body).to_string(),
        request_id: job.request_id.clone(),
    };
    deliveries::enqueue(tx, &app.config, &app.clock, delivery).await?;
    Ok(())
}

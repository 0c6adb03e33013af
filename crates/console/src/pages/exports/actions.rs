//! What the actions on exports share.

use axum::response::Response;
use serde::Deserialize;

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::parts;
use console_frame::rights::Right;
use exports::Job;
use gateway::idempotency::StoredResponse;
use gateway::workspaces::Budget;
use gateway::{ApiError, limits};

/// The response to a request that created an export.
#[derive(Deserialize)]
struct Created {
    object_prefix: String,
}

/// Counts a request against the workspace's budget, which it shares with the API: 429 beyond the
/// limit.
pub async fn count_request(page: &Page, budget: Budget) -> Result<(), PageError> {
    let workspace = page.workspace()?;
    let limit = workspace.rate_limit(budget);
    let counted = limits::count(&page.app, workspace.id, budget, limit).await;
    counted.retry_after.map_or(Ok(()), |seconds| Err(ApiError::RateLimited(seconds).into()))
}

/// Refuses a new export whose callback has the address of its files, unless the person may download
/// them.
pub fn check_callback(page: &Page, job: &Job) -> Result<(), PageError> {
    let shows_files = job.callback_endpoint.is_some() && job.storage_id.is_none();
    if shows_files && !page.may(Right::ExportsDownload) {
        return Err(callback_refused().into());
    }
    Ok(())
}

pub fn callback_refused() -> ApiError {
    ApiError::invalid_field(format!(
        "callback_endpoint: the callback has the download address, and you do not have the right \
         {}. Request an export without a callback, or with own storage as destination",
        Right::ExportsDownload.name()
    ))
}

/// Sends the browser to the page of an export.
pub fn redirect_to_export(page: &Page, object_prefix: &str) -> Result<Response, PageError> {
    let workspace = parts::encoded(&page.workspace()?.name);
    Ok(page.redirect(&format!("/w/{workspace}/exports/{}", parts::encoded(object_prefix))))
}

/// Sends the browser to the export of an earlier response.
pub fn redirect_to_created(page: &Page, response: &StoredResponse) -> Result<Response, PageError> {
    let created: Created = serde_json::from_str(&response.body)
        .map_err(|error| ApiError::Internal(format!("a stored response: {error}")))?;
    redirect_to_export(page, &created.object_prefix)
}

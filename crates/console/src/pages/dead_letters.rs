//! Messages of the log that could not be applied, newest first: of the whole installation, or of a
//! workspace (docs/runbooks/dead-letters.md). The address decides which of the two.

mod view;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::page::VisibleWorkspace;
use console_frame::parts;
use gateway::{ApiError, COMPANY, paging};
use runtime::audit::{self, Entry};
use runtime::engine::batches::dead_letters::{self, ListedDeadLetter};
use store::{StoreError, Tx};

/// Dead letters on a page.
const PAGE: usize = 50;

/// Bytes of a payload on a page.
const PAYLOAD_BYTES: i32 = 64 << 10;

/// The creation and the id of a dead letter: its position in the list.
type Key = (i64, Uuid);

/// What an action had as its result, in the address of the page after it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Done {
    Applied,
    Discarded,
    Failed,
}

impl Done {
    fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Discarded => "discarded",
            Self::Failed => "failed",
        }
    }
}

/// What an address selects.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct View {
    /// Only dead letters that are older than this one.
    before: Option<String>,
    done: Option<Done>,
}

/// A page of the list.
struct Listed {
    dead_letters: Vec<ListedDeadLetter>,
    workspaces: Vec<VisibleWorkspace>,
    before: Option<Key>,
    /// The last one, if others follow.
    last: Option<Key>,
    done: Option<Done>,
}

/// `GET /dead-letters`, `GET /w/{workspace}/dead-letters`.
pub async fn list(
    page: Page,
    view: Result<Query<View>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(View { before, done }) = view.map_err(invalid_query)?;
    let before = before.map(|text| {
        paging::read_cursor(&text).ok_or_else(|| {
            let error = format!("before must be the end of a page of this list, not {text:?}");
            PageError::Invalid(error)
        })
    });
    let before: Option<Key> = before.transpose()?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let dead_letters =
        dead_letters::list_newest(&mut tx, scope(&page), before, PAGE as i64 + 1).await?;
    tx.commit().await?;
    let workspaces = page.visible_workspaces().await?;
    let (dead_letters, has_more) = first_rows(dead_letters, PAGE);
    let last = dead_letters.last().filter(|_| has_more).map(|last| (last.created_at, last.id));
    let listed = Listed { dead_letters, workspaces, before, last, done };
    Ok(page.html("Dead letters", view::list(&page, &listed)))
}

/// The dead letter in the path of an address.
#[derive(Deserialize)]
pub struct DeadLetterPath {
    id: String,
}

/// `GET /dead-letters/{id}`.
pub async fn show(
    page: Page,
    Path(path): Path<DeadLetterPath>,
    view: Result<Query<View>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(View { done, .. }) = view.map_err(invalid_query)?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let dead_letter = find(&page, &mut tx, &path, 0).await?;
    tx.commit().await?;
    let workspaces = page.visible_workspaces().await?;
    Ok(page.html("Dead letter", view::details(&page, &dead_letter, &workspaces, done)))
}

/// `GET /dead-letters/{id}/payload`: after an entry in the audit log, because it has personal data.
pub async fn payload(page: Page, Path(path): Path<DeadLetterPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.write().await?;
    let dead_letter = find(&page, &mut tx, &path, PAYLOAD_BYTES).await?;
    record(&page, &mut tx, &dead_letter, "dead_letter.payload", json!({})).await?;
    tx.commit().await?;
    Ok(page.html("Payload of a dead letter", view::payload(&page, &dead_letter)))
}

/// `POST /dead-letters/{id}/retry`: applies it once, as the command does.
pub async fn retry(page: Page, Path(path): Path<DeadLetterPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let dead_letter = find(&page, &mut tx, &path, 0).await?;
    tx.commit().await?;
    let turn = dead_letter.workspace_id.unwrap_or(COMPANY);
    let entry = entry(&page, &dead_letter, "dead_letter.retry", json!({}));
    let done = match page.app.dead_letters.retry(turn, dead_letter.id, entry).await {
        Ok(()) => Done::Applied,
        // Parts of it may be applied.
        Err(ApiError::Conflict(_)) => Done::Failed,
        Err(error) => return Err(error.into()),
    };
    let below = if done == Done::Failed { format!("/{}", dead_letter.id) } else { String::new() };
    Ok(redirect(&page, &below, done))
}

/// `POST /dead-letters/{id}/discard`: its data is lost.
pub async fn discard(page: Page, Path(path): Path<DeadLetterPath>) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.write().await?;
    let dead_letter = find(&page, &mut tx, &path, 0).await?;
    if !dead_letters::remove(&mut tx, scope(&page), dead_letter.id).await? {
        return Err(PageError::NotFound);
    }
    record(&page, &mut tx, &dead_letter, "dead_letter.discard", json!({})).await?;
    tx.commit().await?;
    Ok(redirect(&page, "", Done::Discarded))
}

fn invalid_query(error: QueryRejection) -> PageError {
    PageError::Invalid(error.body_text())
}

/// The workspace of the address; none: the whole installation.
fn scope(page: &Page) -> Option<i32> {
    page.workspace_if_any().map(|workspace| workspace.id)
}

/// The path of the list, or of something below it.
fn path(page: &Page, below: &str) -> String {
    match page.workspace_if_any() {
        Some(workspace) => {
            format!("/w/{}/dead-letters{below}", parts::encoded(&workspace.name))
        }
        None => format!("/dead-letters{below}"),
    }
}

fn redirect(page: &Page, below: &str, done: Done) -> Response {
    page.redirect(&format!("{}?done={}", path(page, below), done.name()))
}

/// The dead letter of a path, with the beginning of its payload; that of another workspace is
/// unknown.
async fn find(
    page: &Page,
    tx: &mut Tx,
    path: &DeadLetterPath,
    payload_bytes: i32,
) -> Result<ListedDeadLetter, PageError> {
    let id = Uuid::try_parse(&path.id).map_err(|_| PageError::NotFound)?;
    let found = dead_letters::find_listed(tx, scope(page), id, payload_bytes).await?;
    found.ok_or(PageError::NotFound)
}

/// Records an action on a dead letter, in its workspace.
async fn record(
    page: &Page,
    tx: &mut Tx,
    dead_letter: &ListedDeadLetter,
    action: &'static str,
    details: Value,
) -> Result<(), StoreError> {
    let entry = entry(page, dead_letter, action, details);
    audit::record(tx, page.now_ms(), &entry).await
}

/// An entry about an action on a dead letter, in its workspace.
fn entry(
    page: &Page,
    dead_letter: &ListedDeadLetter,
    action: &'static str,
    details: Value,
) -> Entry {
    let entry = page.audit(action, dead_letter.id.to_string(), details);
    Entry { workspace_id: dead_letter.workspace_id, ..entry }
}

//! A send: what it is, what its users got, and its cancellation.

mod details;
mod funnel;

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use uuid::Uuid;

use crate::app::App;
use crate::page::Page;
use crate::pages::labels;
use console_frame::error::PageError;
use console_frame::page::update;
use console_frame::parts;
use dispatches::api::status::{CancelError, cancel_dispatch, may_still_be_sent};
use dispatches::{CountedOutcomes, DispatchSummary, MAX_SCANNED_MESSAGES, Reason};
use gateway::ApiError;
use messages::dispatch::{self, MessageOutcome};
use store::{StoreError, Tx};

/// Messages that a page counts unasked, in some hundredths of a second.
const QUICKLY_COUNTED: i64 = 50_000;

/// The send in the path of an address.
#[derive(Deserialize)]
pub struct SendPath {
    dispatch_id: String,
}

impl SendPath {
    /// An invalid id is unknown, without a query.
    pub(super) fn id(&self) -> Result<Uuid, PageError> {
        let id = Some(&self.dispatch_id).filter(|text| text.len() == 32);
        id.and_then(|text| Uuid::try_parse(text).ok()).ok_or(PageError::NotFound)
    }
}

/// The workspace, and the dispatch.
pub type SendKey = (i32, Uuid);

/// How the page counts messages.
#[derive(Clone, Copy, Default, Deserialize)]
pub struct Counting {
    /// Whether to count also the messages of a large send; any value.
    count: Option<u8>,
}

/// A send, as its page shows it.
pub struct Shown {
    send: DispatchSummary,
    /// The messages by their current outcome; none if they are too many to count.
    outcomes: Option<CountedOutcomes>,
    /// The largest number of messages that may still go out; none while the send is running.
    may_still_be_sent: Option<i64>,
    reasons: Vec<Reason>,
    /// Whether all messages were counted, however long it took.
    is_full: bool,
}

impl Shown {
    /// None if the workspace has no such send.
    async fn read(
        app: App,
        (workspace, id): SendKey,
        is_full: bool,
    ) -> Result<Option<Self>, StoreError> {
        let max = if is_full { MAX_SCANNED_MESSAGES } else { QUICKLY_COUNTED };
        let mut tx = app.request_queue.snapshot().await?;
        let send = dispatches::summary_of_workspace(&mut tx, workspace, id).await?;
        let Some(send) = send else { return Ok(None) };
        let ended_early = send.state.is_early_end();
        let outcomes = dispatches::count_outcomes(&mut tx, id, ended_early, max).await?;
        let may_still_be_sent = may_still_be_sent(&mut tx, id, send.state).await?;
        let reasons = dispatches::reasons(&mut tx, id, max).await?;
        tx.commit().await?;
        Ok(Some(Self { send, outcomes, may_still_be_sent, reasons, is_full }))
    }

    /// Whether the page changes by itself.
    fn runs(&self) -> bool {
        !self.send.state.is_final() || self.in_flight() > 0
    }

    fn in_flight(&self) -> i64 {
        self.may_still_be_sent.unwrap_or(0)
    }

    /// Number of messages with this outcome, if they were counted.
    fn count(&self, outcome: MessageOutcome) -> Option<i64> {
        let counted = &self.outcomes.as_ref()?.by_outcome;
        counted.iter().find(|(counted, _)| *counted == outcome).map(|(_, count)| *count)
    }

    /// Number of messages that were not accepted, as far as is known, but may have been sent.
    fn may_have_been_sent(&self) -> i64 {
        let has_ended = self.may_still_be_sent.is_some();
        let counted = self.outcomes.as_ref().filter(|_| has_ended);
        counted.map_or(0, |counted| counted.may_have_been_sent)
    }

    fn address(&self, page: &Page, path: &str) -> String {
        labels::address(page, self.send.id, path)
    }
}

/// The workspace's send of a path.
pub(super) async fn own_send(
    page: &Page,
    tx: &mut Tx,
    path: &SendPath,
) -> Result<DispatchSummary, PageError> {
    let workspace = page.workspace()?.id;
    dispatches::summary_of_workspace(tx, workspace, path.id()?).await?.ok_or(PageError::NotFound)
}

/// `GET /w/{workspace}/sends/{dispatch_id}`.
pub async fn show(
    page: Page,
    Path(path): Path<SendPath>,
    counting: Result<Query<Counting>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let Query(counting) = counting.map_err(|error| PageError::Invalid(error.body_text()))?;
    let key = (page.workspace()?.id, path.id()?);
    let is_full = counting.count.is_some();
    let read = Shown::read(page.app.clone(), key, is_full);
    let shown = if is_full {
        // It holds a connection for up to some seconds.
        let _turn = page.app.messages.count_turns.wait(key.0).await?;
        Arc::new(read.await?)
    } else {
        page.app.sends.pages.get_for(&page, key, read).await?
    };
    let shown = (*shown).as_ref().ok_or(PageError::NotFound)?;
    let content = details::content(&page, shown);
    if page.is_update {
        return Ok(update(&headers, content));
    }
    let title = labels::title(&shown.send);
    Ok(page.html(&format!("Send of {}", parts::cut(title)), content))
}

/// `POST /w/{workspace}/sends/{dispatch_id}/cancel`. A send that has ended meanwhile is a conflict.
pub async fn cancel(page: Page, Path(path): Path<SendPath>) -> Result<Response, PageError> {
    let (id, workspace) = (path.id()?, page.workspace()?.id);
    let mut tx = page.app.request_queue.write().await?;
    let change = cancel_dispatch(&mut tx, workspace, id).await.map_err(refused)?;
    page.record(&mut tx, change).await?;
    tx.commit().await?;
    let mut tx = page.app.request_queue.write().await?;
    match dispatch::wait_for_batches(&mut tx, id).await {
        // The send is cancelled, and its page follows the messages in flight.
        Err(error) if !error.is_lock_timeout() => return Err(error.into()),
        _ => {}
    }
    drop(tx);
    let workspace = parts::encoded(&page.workspace()?.name);
    Ok(page.redirect(&format!("/w/{workspace}/sends/{}", id.simple())))
}

/// Why a send was not cancelled.
fn refused(error: CancelError) -> PageError {
    match error {
        CancelError::Unknown => PageError::NotFound,
        // A worker that stopped inside a transaction keeps its locks for a minute.
        CancelError::Store(error) if error.is_lock_timeout() => {
            let text = "The send is not cancelled yet: a worker that does not respond holds it. Go \
                        back and cancel it again: the database frees it within a minute";
            ApiError::Conflict(text.to_owned()).into()
        }
        CancelError::Store(error) => error.into(),
        error @ CancelError::Ended(_) => ApiError::from(error).into(),
    }
}

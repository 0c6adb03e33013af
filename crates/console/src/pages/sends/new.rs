//! Sends a campaign to a segment now: the form, what would happen, and the send. What it checks and
//! does is what `longshore campaigns send` checks and does.

mod view;

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use self::view::content;
use crate::page::Page;
use crate::pages::exports::actions::count_request;
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::parts;
use console_frame::rights::Right;
use content::campaigns::{self, Campaign};
use dispatches::orders::count_accepted;
use dispatches::segment_send::{CheckedUsers, SegmentSend, check_users};
use exports::dry_run::{EstimatedUsers, sample_segment};
use gateway::idempotency::{self, Begun, IdempotencyKey, StoredResponse};
use gateway::workspaces::{self, Budget, Segment, segments};
use gateway::{ApiError, RequestId};
use messages::order::Kind;
use sending::user_messages;

/// The fields of the form.
const CAMPAIGN: &str = "campaign";
const SEGMENT: &str = "segment_id";
const REQUEST_KEY: &str = "request_key";

/// Users of the segment whose messages are checked before a send.
const CHECKED_USERS: usize = 100;

/// Whether to offer a send to the person.
pub fn is_offered(page: &Page) -> bool {
    [Right::MessagesSend, Right::MessagesView, Right::SegmentsView]
        .into_iter()
        .all(|right| page.may(right))
}

/// What the person chose, in an address or a form. The check begins once both are there.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Values {
    campaign: Option<String>,
    segment_id: Option<String>,
}

/// Messages about fields, by their names.
type Errors = BTreeMap<String, String>;

/// A campaign that can be sent to a segment.
struct Checked {
    campaign: Campaign,
    segment: Segment,
    send: SegmentSend,
}

/// A checked send, and its users.
struct Review {
    checked: Checked,
    users: EstimatedUsers,
    sample: CheckedUsers,
    has_control_group: bool,
    /// The key under which the form takes effect once.
    request_key: Uuid,
}

/// What the form offers: ids and names.
struct Choices {
    campaigns: Vec<(Uuid, String)>,
    segments: Vec<(Uuid, String)>,
}

/// `GET /w/{workspace}/sends/new`: the form; with a campaign and a segment, what a send would do.
/// If it cannot be sent, the reason (422).
pub async fn show(
    page: Page,
    Extension(RequestId(request_id)): Extension<RequestId>,
    values: Result<Query<Values>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(values) = values.map_err(|error| PageError::Invalid(error.body_text()))?;
    if values.campaign.is_none() || values.segment_id.is_none() {
        return respond(&page, &values, Ok(None)).await;
    }
    let reviewed = match check(&page, &values, &request_id).await? {
        Ok(checked) => Ok(Some(review(&page, checked).await?)),
        Err(errors) => Err(errors),
    };
    respond(&page, &values, reviewed).await
}

/// `POST /w/{workspace}/sends/new`: sends the campaign, once for each form.
pub async fn submit(
    page: Page,
    Extension(RequestId(request_id)): Extension<RequestId>,
    form: Form,
) -> Result<Response, PageError> {
    let value = |name| Some(form.value(name).to_owned());
    let values = Values { campaign: value(CAMPAIGN), segment_id: value(SEGMENT) };
    count_request(&page, Budget::MessagesSendAudience).await?;
    let checked = check(&page, &values, &request_id).await?;
    let workspace = page.workspace()?.id;
    let body = serde_json::to_string(&values)
        .map_err(|error| ApiError::Internal(format!("a form as JSON: {error}")))?;
    let endpoint = "POST console/sends/new".to_owned();
    let key = IdempotencyKey::new(workspace, endpoint, form.value(REQUEST_KEY))?
        .within(&hex::encode(Sha256::digest(&body)));
    let mut turn = match idempotency::begin_change(&page.app, Some(key), body.as_bytes()).await? {
        Begun::Replay(response) => return redirect(&page, &response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: what could be sent then may be paused now.
    let Checked { send, .. } = match checked {
        Ok(checked) => checked,
        Err(errors) => {
            drop(turn);
            return respond(&page, &values, Err(errors)).await;
        }
    };
    let change = send.begin(&mut turn.tx).await?;
    page.record(&mut turn.tx, change).await?;
    let begun = BegunSend { dispatch_id: send.order.dispatch_id };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &begun)?).await?;
    count_accepted(Kind::Send);
    redirect(&page, &response)
}

/// The stored response.
#[derive(Serialize, Deserialize)]
struct BegunSend {
    dispatch_id: Uuid,
}

/// Sends the browser to the page of the send.
fn redirect(page: &Page, response: &StoredResponse) -> Result<Response, PageError> {
    let begun: BegunSend = serde_json::from_str(&response.body)
        .map_err(|error| ApiError::Internal(format!("a stored response: {error}")))?;
    let workspace = parts::encoded(&page.workspace()?.name);
    Ok(page.redirect(&format!("/w/{workspace}/sends/{}", begun.dispatch_id.simple())))
}

/// Finds what the person chose, and checks whether it can be sent. Reports all errors.
async fn check(
    page: &Page,
    values: &Values,
    request_id: &str,
) -> Result<Result<Checked, Errors>, PageError> {
    let workspace = page.workspace()?.id;
    let id = |text: &Option<String>| text.as_deref().and_then(|id| Uuid::try_parse(id).ok());
    let mut tx = page.app.request_queue.snapshot().await?;
    let campaign = match id(&values.campaign) {
        Some(id) => campaigns::by_id(&mut tx, workspace, id).await?,
        None => None,
    };
    let segment = match id(&values.segment_id) {
        Some(id) => segments::segment(&mut tx, workspace, id).await?,
        None => None,
    };
    tx.commit().await?;
    let (campaign, segment) = match (campaign, segment) {
        (Some(campaign), Some(segment)) => (campaign, segment),
        (campaign, segment) => {
            let mut errors = Errors::new();
            if campaign.is_none() {
                errors
                    .insert(CAMPAIGN.to_owned(), "Choose a campaign of this workspace".to_owned());
            }
            if segment.is_none() {
                let text = "Choose a segment of this workspace";
                errors.insert(SEGMENT.to_owned(), text.to_owned());
            }
            return Ok(Err(errors));
        }
    };
    let chosen = (&campaign, segment.id);
    let send =
        SegmentSend::check(&page.app.messages, workspace, chosen, page.actor(), request_id).await;
    match send {
        Ok(send) => Ok(Ok(Checked { campaign, segment, send })),
        Err(error) if error.status() == StatusCode::BAD_REQUEST => {
            let text = error.message().into_owned();
            Ok(Err(Errors::from([(CAMPAIGN.to_owned(), text)])))
        }
        Err(error) => Err(error.into()),
    }
}

/// Counts the users of a send, and checks some of them.
async fn review(page: &Page, checked: Checked) -> Result<Review, PageError> {
    let workspace = page.workspace()?.id;
    let Checked { campaign, segment, send } = &checked;
    let found = sample_segment(&page.app.exports, workspace, segment.id, CHECKED_USERS).await?;
    let (channels, app) = (send.channels(), &page.app.messages);
    let sample = check_users(app, workspace, campaign, &channels, &found.service_ids)
        .await
        .map_err(user_messages::api_error)?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let group = workspaces::control_group(&mut tx, workspace).await?;
    tx.commit().await?;
    Ok(Review {
        users: found.users,
        sample,
        has_control_group: group.is_some(),
        request_key: Uuid::new_v4(),
        checked,
    })
}

async fn respond(
    page: &Page,
    values: &Values,
    reviewed: Result<Option<Review>, Errors>,
) -> Result<Response, PageError> {
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let choices = Choices {
        campaigns: campaigns::api_names(&mut tx, workspace).await?,
        segments: segments::names(&mut tx, workspace).await?,
    };
    tx.commit().await?;
    let (review, errors) = match reviewed {
        Ok(review) => (review, Errors::new()),
        Err(errors) => (None, errors),
    };
    let content = content(page, &choices, values, &errors, review.as_ref());
    let response = page.html("Send a campaign", content);
    if errors.is_empty() {
        Ok(response)
    } else {
        Ok((StatusCode::UNPROCESSABLE_ENTITY, response).into_response())
    }
}

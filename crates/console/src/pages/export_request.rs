//! The form that requests an export, or estimates it. What it checks and does is what the API
//! checks and does: it builds the API's request.

mod form;
mod view;

use axum::Extension;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use self::form::{Errors, Request, Values};
use self::view::Choices;
use crate::page::Page;
use crate::pages::exports::actions::{
    callback_refused, check_callback, count_request, redirect_to_created,
};
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::rights::Right;
use exports::create;
use exports::dry_run::{self, DryRun};
use gateway::RequestId;
use gateway::idempotency::{self, Begun, IdempotencyKey};

/// The value of the button that estimates an export.
const ESTIMATE: &str = "estimate";

/// What is filled in before the person does.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Prefilled {
    segment_id: String,
}

/// `GET /w/{workspace}/exports/new`.
pub async fn show(
    page: Page,
    prefilled: Result<Query<Prefilled>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(prefilled) = prefilled.map_err(|error| PageError::Invalid(error.body_text()))?;
    let choices = Choices::read(&page).await?;
    let values = Values::first(choices.has_control_group, prefilled.segment_id);
    Ok(rendered(&page, &choices, &values, &Errors::default(), None))
}

/// `POST /w/{workspace}/exports/new`: estimates the export, or requests it. An invalid form is
/// shown again (422).
pub async fn submit(
    page: Page,
    Extension(RequestId(request_id)): Extension<RequestId>,
    form: Form,
) -> Result<Response, PageError> {
    let values = Values::read(&form);
    let choices = Choices::read(&page).await?;
    let refused = |errors: &Errors| {
        let form = rendered(&page, &choices, &values, errors, None);
        (StatusCode::UNPROCESSABLE_ENTITY, form).into_response()
    };
    let (request, mut errors) = values.request(&page.app, page.workspace()?);
    choices.check(&values, &mut errors);
    let is_estimate = form.value("do") == ESTIMATE;
    if !is_estimate && choices.shows_files(&values) && !page.may(Right::ExportsDownload) {
        errors.add(&callback_refused(), &values);
    }
    let Some(request) = request.filter(|_| errors.is_empty()) else { return Ok(refused(&errors)) };
    match perform(&page, &values, request, is_estimate, request_id).await {
        Ok(Done::Requested(response)) => Ok(response),
        Ok(Done::Estimated(estimate)) => {
            Ok(rendered(&page, &choices, &values, &Errors::default(), Some(&estimate)))
        }
        Err(PageError::Api(error)) if error.status() == StatusCode::BAD_REQUEST => {
            Ok(refused(&Errors::new(&error, &values)))
        }
        Err(error) => Err(error),
    }
}

/// The effect of a valid form.
enum Done {
    Estimated(DryRun),
    /// The response that shows the export.
    Requested(Response),
}

async fn perform(
    page: &Page,
    values: &Values,
    (users, options): Request,
    is_estimate: bool,
    request_id: String,
) -> Result<Done, PageError> {
    count_request(page, users.budget()).await?;
    if is_estimate {
        let workspace = page.workspace()?.id;
        let estimate = dry_run::run(&page.app.exports, workspace, users, options).await?;
        return Ok(Done::Estimated(estimate));
    }
    request(page, values, (users, options), request_id).await.map(Done::Requested)
}

fn rendered(
    page: &Page,
    choices: &Choices,
    values: &Values,
    errors: &Errors,
    estimate: Option<&DryRun>,
) -> Response {
    page.html("Request an export", view::content(page, choices, values, errors, estimate))
}

/// Creates the export, once for each form and its values.
async fn request(
    page: &Page,
    values: &Values,
    (users, options): Request,
    request_id: String,
) -> Result<Response, PageError> {
    let workspace = page.workspace()?.id;
    let body = values.json();
    // A form that was changed after it was sent is another request.
    let endpoint = "POST console/exports/new".to_owned();
    let key = IdempotencyKey::new(workspace, endpoint, &values.request_key.to_string())?
        .within(&hex::encode(Sha256::digest(&body)));
    let begun = idempotency::begin_change(&page.app, Some(key), body.as_bytes()).await?;
    let mut turn = match begun {
        Begun::Replay(response) => return redirect_to_created(page, &response),
        Begun::Turn(turn) => turn,
    };
    let export =
        create::create(&page.app, &mut turn.tx, workspace, request_id, users, options).await?;
    check_callback(page, &export.job)?;
    page.record(&mut turn.tx, export.change()).await?;
    let response = export.commit(&page.app, turn).await?;
    redirect_to_created(page, &response)
}

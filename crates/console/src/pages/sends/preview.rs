//! What a declared campaign would send to a user: the form, and the rendered messages. Nothing is
//! sent. The user's data is personal, so each preview is in the audit log.

mod view;

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use self::view::content;
use crate::page::Page;
use crate::pages::exports::actions::count_request;
use crate::pages::users::record_search;
use console_frame::error::PageError;
use console_frame::form::Form;
use content::campaigns::{self, Campaign};
use dispatches::preview::{CampaignPreview, Subject, preview_campaign};
use gateway::workspaces::Budget;
use kit::json::TreeObject;
use people::users::find::FindError;
use people::users::rows::{For, StoredUser, find_users};
use people::users::{search, suppressions};
use runtime::audit::Change;
use sending::user_messages;
use store::Tx;

/// The fields of the form.
const CAMPAIGN: &str = "campaign";
const USER: &str = "user";

/// The fields with properties: their names in the form, and in the API.
const PROPERTIES: [(&str, &str); 3] = [
    ("trigger_properties", "api_trigger_properties"),
    ("event_properties", "event_properties"),
    ("canvas_entry_properties", "canvas_entry_properties"),
];

/// Identifiers are no longer than this.
const MAX_IDENTIFIER_CHARS: usize = 511;

/// The values of the form.
#[derive(Clone, Debug, Default)]
struct Values {
    campaign: String,
    user: String,
    /// JSON objects, in the order of [`PROPERTIES`]; empty for none.
    properties: [String; 3],
}

impl Values {
    fn read(form: &Form) -> Self {
        Self {
            campaign: form.value(CAMPAIGN).to_owned(),
            user: form.value(USER).to_owned(),
            properties: PROPERTIES.map(|(field, _)| form.value(field).to_owned()),
        }
    }
}

/// Messages about fields, by their names.
type Errors = BTreeMap<String, String>;

/// A valid form.
struct Checked {
    campaign: Campaign,
    user: StoredUser,
    subject: Subject,
}

/// An invalid form.
struct Rejected {
    errors: Errors,
    /// The users that were found, if any were looked for: the page says whether there are some.
    found: Option<Vec<Uuid>>,
}

/// Why there is no user.
struct NoUser {
    text: String,
    /// The users that were found, if any were looked for.
    found: Option<Vec<Uuid>>,
}

/// The rendered messages of a campaign, for a user.
struct Rendered {
    campaign: String,
    service_id: Uuid,
    external_id: Option<String>,
    preview: CampaignPreview,
}

/// What an address can fill in. No identifier of a user: addresses are in logs and histories.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PreviewQuery {
    campaign: String,
}

/// `GET /w/{workspace}/preview`.
pub async fn show(page: Page, Query(query): Query<PreviewQuery>) -> Result<Response, PageError> {
    let values = Values { campaign: query.campaign, ..Values::default() };
    respond(&page, &values, &Errors::new(), None).await
}

/// `POST /w/{workspace}/preview`: renders the messages. An invalid form is shown again (422).
pub async fn submit(page: Page, form: Form) -> Result<Response, PageError> {
    count_request(&page, Budget::TemplatesPreview).await?;
    let values = Values::read(&form);
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let checked = check(&mut tx, workspace, &values).await?;
    tx.commit().await?;
    let Checked { campaign, user, subject } = match checked {
        Ok(checked) => checked,
        Err(Rejected { errors, found }) => {
            if let Some(found) = found {
                record_search(&page, &found).await?;
            }
            return respond(&page, &values, &errors, None).await;
        }
    };
    let preview = preview_campaign(&page.app.messages, workspace, &campaign, &subject)
        .await
        .map_err(user_messages::api_error)?;
    let Some(preview) = preview else {
        record_search(&page, &[user.service_id]).await?;
        let text = "declares no messages".to_owned();
        return respond(&page, &values, &Errors::from([(CAMPAIGN.to_owned(), text)]), None).await;
    };
    let details = json!({ "campaign_id": campaign.id });
    let mut tx = page.app.request_queue.write().await?;
    page.record(&mut tx, Change::new("user.preview", user.service_id.to_string(), details)).await?;
    tx.commit().await?;
    let rendered = Rendered {
        campaign: campaign.name,
        service_id: user.service_id,
        external_id: user.external_id,
        preview,
    };
    respond(&page, &values, &Errors::new(), Some(&rendered)).await
}

async fn respond(
    page: &Page,
    values: &Values,
    errors: &Errors,
    rendered: Option<&Rendered>,
) -> Result<Response, PageError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let names = campaigns::names(&mut tx, page.workspace()?.id).await?;
    tx.commit().await?;
    let response = page.html("Preview messages", content(page, &names, values, errors, rendered));
    if errors.is_empty() {
        Ok(response)
    } else {
        Ok((StatusCode::UNPROCESSABLE_ENTITY, response).into_response())
    }
}

/// Reads the form; reports all of its errors.
async fn check(
    tx: &mut Tx,
    workspace: i32,
    values: &Values,
) -> Result<Result<Checked, Rejected>, PageError> {
    let mut errors = Errors::new();
    let campaign = match Uuid::try_parse(&values.campaign) {
        Ok(id) => campaigns::by_id(tx, workspace, id).await?,
        Err(_) => None,
    };
    if campaign.is_none() {
        errors.insert(CAMPAIGN.to_owned(), "Choose a campaign or Canvas".to_owned());
    }
    let (user, found) = match find_user(tx, workspace, &values.user).await? {
        Ok(user) => {
            let found = Some(vec![user.service_id]);
            (Some(user), found)
        }
        Err(NoUser { text, found }) => {
            errors.insert(USER.to_owned(), text);
            (None, found)
        }
    };
    let mut properties = [None, None, None];
    for ((text, (field, _)), read) in values.properties.iter().zip(PROPERTIES).zip(&mut properties)
    {
        if text.is_empty() {
            continue;
        }
        match TreeObject::parse(text) {
            Ok(object) => *read = Some(object),
            Err(error) => {
                errors.insert(field.to_owned(), format!("must be a JSON object: {error}"));
            }
        }
    }
    let (Some(campaign), Some(user), true) = (campaign, user, errors.is_empty()) else {
        return Ok(Err(Rejected { errors, found }));
    };
    let [api_trigger_properties, event_properties, canvas_entry_properties] = properties;
    let recipient = suppressions::recipient(tx, workspace, &user).await?;
    let subject = Subject {
        api_trigger_properties,
        event_properties,
        canvas_entry_properties,
        ..Subject::from_recipient(recipient)
    };
    Ok(Ok(Checked { campaign, user, subject }))
}

/// The only user with an identifier of any kind, or why there is none.
async fn find_user(
    tx: &mut Tx,
    workspace: i32,
    text: &str,
) -> Result<Result<StoredUser, NoUser>, PageError> {
    let invalid = |text: String| Ok(Err(NoUser { text, found: None }));
    if text.is_empty() {
        return invalid("Enter an identifier".to_owned());
    }
    if text.chars().count() > MAX_IDENTIFIER_CHARS {
        return invalid(format!("An identifier has at most {MAX_IDENTIFIER_CHARS} characters"));
    }
    let found = match search::identify(tx, workspace, text).await {
        Ok(id) => find_users(tx, workspace, &[id], For::Reading).await?.pop(),
        Err(FindError::Store(error)) => return Err(error.into()),
        Err(FindError::Several(found)) => {
            let text = FindError::Several(found.clone()).to_string();
            return Ok(Err(NoUser { text, found: Some(found) }));
        }
        Err(_) => None,
    };
    Ok(found.ok_or_else(|| NoUser {
        text: "No user of this workspace has this identifier".to_owned(),
        found: Some(Vec::new()),
    }))
}

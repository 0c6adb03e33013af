//! `POST /templates/preview`: renders templates for a user, without sending anything.

mod reasons;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use template::{MAX_SOURCE, RenderBudget, Stop, Template};
use uuid::Uuid;

use content::campaigns::{self, Campaign};
use gateway::formats::{Errors, Identifier, SuccessText, first_of};
use gateway::openapi::Tag;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::{self, Settings};
use gateway::{self, Access, ApiError, Caller, JsonText, Operation, Routes, fields};
use kit::json::{Tree, TreeObject};
use messages::app::App;
use messages::content::{Content, Message, MessageSource, Messages, Problem};
use messages::dispatch::DispatchError;
use messages::external::{Answers, External, RenderError, RenderTime};
use messages::personalization::{Scope, names};
use messages::recipient::{Members, Properties};
use messages::request::{self, MessageProblem, fill_email};
use people::users::mentions::Mention;
use people::users::profile::Field;
use people::users::recipient::{CustomAttributes, Recipient};
use people::users::rows::For;
use people::users::selector::{self, UserSelector};
use people::users::suppressions;
use runtime::outbound;

pub use reasons::{Reason, add_reasons};

const PERMISSION: &str = "templates.preview";

/// The time for a request's renderings: many messages, each rendered again after each
/// request for external data.
const RENDER_TIME: Duration = Duration::from_secs(1);

const TAG: Tag = Tag { name: "Templates", about: "Liquid templates of messages." };

/// The data for rendering a template.
#[derive(Debug, Default)]
pub struct Subject {
    pub profile: Members,
    pub custom: CustomAttributes,
    /// The user of the profile.
    pub service_id: Option<Uuid>,
    /// Why no email may be sent to the user's address.
    pub stopped: Option<suppressions::Stop>,
    pub event_properties: Option<TreeObject>,
    pub api_trigger_properties: Option<TreeObject>,
    pub canvas_entry_properties: Option<TreeObject>,
}

impl Subject {
    /// The profile of a user, without properties.
    pub fn from_recipient(user: Recipient) -> Self {
        let Recipient { service_id, profile, custom, stopped } = user;
        Self { profile, custom, service_id: Some(service_id), stopped, ..Self::default() }
    }
}

/// The template or the message object to render.
#[derive(Clone, Copy, Debug)]
pub enum Draft<'d> {
    Text(&'d Template),
    Message(&'d Message),
}

/// The result of rendering one template or message object. It has exactly one of `rendered`,
/// `aborted` and `failed`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Preview {
    /// The channel of the message object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'static str>,
    /// The rendered text, or the message object with its strings rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered: Option<Value>,
    /// The reason from `abort_message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aborted: Option<String>,
    /// Why the message would not be sent, or would be retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Why the user would not get the message if it was sent now. Empty without a user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why_not: Vec<Reason>,
    /// Keys and values from `message_extras`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub message_extras: BTreeMap<String, String>,
}

impl Preview {
    /// Whether the message would be sent now.
    pub fn is_sent(&self) -> bool {
        self.rendered.is_some() && self.why_not.is_empty()
    }

    /// Hides what a campaign declares for its receiver alone: the values of headers, and the URL of
    /// a webhook after its host, which some receivers use as a password.
    fn hide_secrets(&mut self) {
        let Some(Value::Object(message)) = &mut self.rendered else { return };
        for name in ["headers", "request_headers"] {
            if let Some(Value::Object(headers)) = message.get_mut(name) {
                headers.values_mut().for_each(|value| *value = outbound::HIDDEN.into());
            }
        }
        if self.channel == Some(Channel::Webhook.name())
            && let Some(url) = message.get_mut("url")
        {
            *url = outbound::shown(url.as_str().unwrap_or_default()).into();
        }
    }
}

/// Renders as for sending. Adds warnings for external data that is not available.
pub async fn preview(
    external: &External<'_>,
    draft: Draft<'_>,
    subject: &Subject,
    warnings: &mut Vec<String>,
) -> Preview {
    let now = external.app.clock.now_ms();
    type Shown = (Value, BTreeMap<String, String>);
    let render = |answers: &Answers| -> Result<Shown, Stop> {
        let scope = Scope {
            event_properties: subject.event_properties.as_ref(),
            api_trigger_properties: subject.api_trigger_properties.as_ref(),
            canvas_entry_properties: subject.canvas_entry_properties.as_ref(),
            preview: Some(external.app),
            answers: Some(answers),
            custom: Some(&subject.custom),
            ..Scope::from_profile(&subject.profile, now)
        };
        match draft {
            Draft::Message(message) => {
                let rendered = message.render(&scope)?;
                Ok((Value::Object(rendered.object), rendered.extras))
            }
            Draft::Text(template) => {
                let mut budget = RenderBudget::new(now);
                let data = scope.data(None);
                let text = template::guarded(|| template.render_within(&data, &mut budget))?;
                Ok((Value::String(text), budget.into_extras()))
            }
        }
    };
    let channel = match draft {
        Draft::Message(message) => Some(message.channel.name()),
        Draft::Text(_) => None,
    };
    let empty = Preview { channel, ..Preview::default() };
    match external.render(None, warnings, render).await {
        Ok((rendered, message_extras)) => {
            Preview { rendered: Some(rendered), message_extras, ..empty }
        }
        Err(RenderError::Stopped(Stop::Aborted(reason))) => {
            Preview { aborted: Some(reason), ..empty }
        }
        Err(RenderError::Stopped(Stop::Failed(reason))) => {
            Preview { failed: Some(reason), ..empty }
        }
        Err(RenderError::Stopped(Stop::Needs(_))) => {
            Preview { failed: Some("external data is missing".into()), ..empty }
        }
        Err(RenderError::Later { reason, .. }) => {
            Preview { failed: Some(format!("{reason}; the message would be retried")), ..empty }
        }
    }
}

/// The messages that a campaign or Canvas declares, whatever its state, and the errors of those
/// that would not be sent. None if it declares no messages.
pub fn declared(campaign: &Campaign, settings: &Settings) -> Option<(Content, Vec<Problem>)> {
    let messages = match campaign.kind {
        campaigns::Kind::Transactional => campaign.email(settings)?,
        campaigns::Kind::Api | campaigns::Kind::Triggered | campaigns::Kind::Canvas => {
            campaign.messages()?.clone()
        }
    };
    let (content, _, problems) = Content::read(&messages, MessageSource::Stored, settings);
    Some((content, problems))
}

/// The rendered messages of a campaign or Canvas.
#[derive(Debug)]
pub struct CampaignPreview {
    pub previews: Vec<Preview>,
    /// The errors of messages that would not be sent.
    pub problems: Vec<Problem>,
    /// External data that could not be read.
    pub warnings: Vec<String>,
}

/// Renders the messages that a campaign or Canvas declares, and hides what it declares for their
/// receiver alone. None if it declares no messages.
pub async fn preview_campaign(
    app: &App,
    workspace: i32,
    campaign: &Campaign,
    subject: &Subject,
) -> Result<Option<CampaignPreview>, DispatchError> {
    let settings = settings::find(app, workspace).await?;
    let declared = app.cores.compute_here(workspace, || declared(campaign, &settings));
    let Some((content, problems)) = declared else { return Ok(None) };
    let drafts = content.messages().iter().map(Draft::Message);
    let (mut previews, warnings) = render_all(app, workspace, &settings, drafts, subject).await;
    let rendered = (content.messages(), subject);
    add_reasons(app, (workspace, &settings), Some(campaign), rendered, &mut previews).await?;
    previews.iter_mut().for_each(Preview::hide_secrets);
    Ok(Some(CampaignPreview { previews, problems, warnings }))
}

/// Renders drafts in the time of one request. Also returns warnings.
async fn render_all(
    app: &App,
    workspace_id: i32,
    settings: &Settings,
    drafts: impl Iterator<Item = Draft<'_>>,
    subject: &Subject,
) -> (Vec<Preview>, Vec<String>) {
    let time = RenderTime::new(RENDER_TIME);
    let external = External { app, workspace_id, settings, is_urgent: false, time: Some(&time) };
    let (mut previews, mut warnings) = (Vec::new(), Vec::new());
    for draft in drafts {
        previews.push(preview(&external, draft, subject, &mut warnings).await);
    }
    (previews, warnings)
}

/// The routes of templates.
pub fn routes() -> Routes<App> {
    let route = gateway::protected(PERMISSION, post(handle));
    let mistake = "line 1, column 8: unknown name `${frist_name}`; did you mean `${first_name}`?";
    let invalid_template = ApiError::InvalidMany(
        format!("template: {mistake}"),
        vec![json!({ "type": mistake, "path": "template" })],
    );
    let operation = Operation::new(
        Method::POST,
        "previewTemplates",
        TAG,
        "Render a template, message objects or a campaign",
    )
    .by(Access::Key(PERMISSION))
    .about(
        "Nothing is sent. Templates read catalogs and connected content as in real messages. \
         Without a user, the profile has only the given `attributes`. With a `campaign_id`, it \
         renders the messages that the campaign declares, also if it is paused or archived. \
         `why_not` has the reasons for which the user would not get a message. The address to \
         unsubscribe does nothing.",
    )
    .takes::<PreviewRequest>(
        "A template, for a user who does not exist",
        json!({
            "template": "Hi {{${first_name} | default: 'there'}}, use {{api_trigger_properties.${code}}}",
            "attributes": { "first_name": "Ann" },
            "api_trigger_properties": { "code": "SPRING" },
        }),
    )
    .returns::<Previewed>(StatusCode::OK, "The rendered template or message objects.")
    .with_example(json!({
        "message": "success", "previews": [{ "rendered": "Hi Ann, use SPRING" }],
    }))
    .refuses_in::<Errors<'_, MessageProblem>>(StatusCode::BAD_REQUEST)
    .refuses(&invalid_template, "A template is invalid")
    .refuses(&unknown_user(EXTERNAL_USER_ID), "The user does not exist")
    .refuses(&selector::several("email", &[Uuid::nil(), Uuid::max()]), "Several users have the address")
    .refuses(&ApiError::invalid_field(UNKNOWN_CAMPAIGN), "The campaign does not exist");
    Routes::new().route("/templates/preview", route, [operation])
}

const EXTERNAL_USER_ID: &str = "external_user_id";
const UNKNOWN_CAMPAIGN: &str = "campaign_id does not match a campaign or Canvas in this workspace";
const NO_MESSAGES: &str = "campaign_id: the campaign declares no messages";

fn unknown_user(field: &str) -> ApiError {
    ApiError::invalid_field(format!("{field} does not match a user in this workspace"))
}

/// What to render, and the user.
#[derive(JsonSchema)]
#[schemars(
    transform = first_of(&["template", "messages", "campaign_id"]),
    extend("not" = { "anyOf": excluded() })
)]
pub(crate) struct PreviewRequest {
    #[serde(flatten)]
    _preview: PreviewFields,
    #[serde(flatten)]
    _user: UserSelector,
}

/// Fields that cannot be set together: a campaign and what it declares, and two users.
fn excluded() -> Vec<Value> {
    let users = [&[EXTERNAL_USER_ID][..], &selector::FIELDS[..]].concat();
    let pairs = users.iter().enumerate().flat_map(|(position, first)| {
        users[position + 1..].iter().map(move |second| (*first, *second))
    });
    let object = json!({ "type": "object" });
    let form = |name: &str| match name {
        "user_alias" | "messages" => object.clone(),
        _ => json!({ "type": "string" }),
    };
    [("campaign_id", "template"), ("campaign_id", "messages")]
        .into_iter()
        .chain(pairs)
        .map(|(first, second)| {
            json!({
                "properties": { first: form(first), second: form(second) },
                "required": [first, second],
            })
        })
        .collect()
}

/// What to render. The identifiers of the user are those of a [`UserSelector`].
#[derive(Debug, Deserialize, JsonSchema)]
struct PreviewFields {
    /// A single template.
    #[schemars(length(max = MAX_SOURCE))]
    template: Option<String>,
    /// Ignored if there is a `template`.
    messages: Option<Messages>,
    /// A campaign or Canvas of the workspace, whose declared messages are rendered. Not allowed
    /// together with `template` or `messages`.
    campaign_id: Option<String>,
    /// The `external_id` of the user. At most one identifier is allowed.
    external_user_id: Option<Identifier>,
    /// Fields of the profile for this preview only. Unknown names are custom attributes.
    attributes: Option<Properties>,
    event_properties: Option<Properties>,
    api_trigger_properties: Option<Properties>,
    canvas_entry_properties: Option<Properties>,
}

/// The rendered template or message objects.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Previewed {
    message: SuccessText,
    previews: Vec<Preview>,
    /// The errors of message objects that would not be sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<MessageProblem>,
    /// External data that could not be read; templates get an empty value instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

async fn handle(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: JsonText,
) -> Result<Json<Previewed>, ApiError> {
    let workspace_id = caller.workspace.id;
    let mut members = body.object_in_place(&app)?;
    fill_email(&app, workspace_id, &mut members).await?;
    selector::rename_alias(&mut members, caller.workspace.aliases.service_id.as_deref())?;
    let (preview_fields, user) = fields::read_both::<PreviewFields, UserSelector>(&members)?;
    let PreviewFields {
        template,
        messages,
        campaign_id,
        external_user_id,
        attributes,
        event_properties,
        api_trigger_properties,
        canvas_entry_properties,
    } = preview_fields;
    if campaign_id.is_some() && (template.is_some() || messages.is_some()) {
        let text = "campaign_id must not be set together with template or messages";
        return Err(ApiError::invalid_field(text));
    }
    let user = mention(external_user_id.as_ref(), &user)?;
    let settings = settings::find(&app, workspace_id).await?;
    let text = template.map(|source| {
        app.cores.compute_here(workspace_id, || {
            let template = Template::parse(&source, &names(&settings)).map_err(invalid_template)?;
            match template.mistake() {
                Some(mistake) => Err(invalid_template(mistake)),
                None => Ok(template),
            }
        })
    });
    let text = text.transpose()?;
    let campaign = match &campaign_id {
        Some(id) => Some(find_campaign(&app, workspace_id, id).await?),
        None => None,
    };
    let (content, errors) = match (&text, &campaign) {
        (Some(_), _) => (Content::default(), Vec::new()),
        (None, Some(campaign)) => {
            let declared = app.cores.compute_here(workspace_id, || declared(campaign, &settings));
            let (content, problems) =
                declared.ok_or_else(|| ApiError::invalid_field(NO_MESSAGES))?;
            let errors = problems.into_iter().map(MessageProblem::from).collect();
            (content, errors)
        }
        (None, None) => {
            let messages = messages.as_ref().map(|Messages(messages)| messages);
            let read = || request::contents(messages, MessageSource::Send, &settings);
            app.cores
                .compute_here(workspace_id, read)
                .map(|(content, _, problems)| (content, problems))?
        }
    };
    let properties =
        |given: Option<Properties>| given.map(|Properties(properties)| properties.tree());
    let mut subject = match user {
        Some(user) => find_subject(&app, workspace_id, user).await?,
        None => Subject::default(),
    };
    if let Some(attributes) = properties(attributes) {
        let custom = add_attributes(&mut subject.profile, subject.custom.get(), &attributes);
        subject.custom = custom.into();
    }
    subject.event_properties = properties(event_properties);
    subject.api_trigger_properties = properties(api_trigger_properties);
    subject.canvas_entry_properties = properties(canvas_entry_properties);
    let drafts = text
        .as_ref()
        .map(Draft::Text)
        .into_iter()
        .chain(content.messages().iter().map(Draft::Message));
    let (mut previews, warnings) =
        render_all(&app, workspace_id, &settings, drafts, &subject).await;
    if text.is_none() {
        let (of_workspace, rendered) = ((workspace_id, &*settings), (content.messages(), &subject));
        add_reasons(&app, of_workspace, campaign.as_ref(), rendered, &mut previews)
            .await
            .map_err(user_error)?;
    }
    if campaign.is_some() {
        previews.iter_mut().for_each(Preview::hide_secrets);
    }
    Ok(Json(Previewed { message: SuccessText::Success, previews, errors, warnings }))
}

/// The error of checks of a user.
fn user_error(error: DispatchError) -> ApiError {
    match error {
        DispatchError::Store(error) => error.into(),
        error => ApiError::Internal(error.to_string()),
    }
}

fn invalid_template(error: impl std::borrow::Borrow<template::TemplateError>) -> ApiError {
    let error = error.borrow();
    let problem = Problem { path: "template".into(), text: error.to_string(), is_fatal: true };
    request::rejected(problem.to_string(), &[problem.into()])
}

/// The user of a request, which has at most one: the field, and the users that it mentions.
fn mention<'r>(
    external_user_id: Option<&'r Identifier>,
    user: &'r UserSelector,
) -> Result<Option<(&'static str, Mention<'r>)>, ApiError> {
    let id = external_user_id.map(|Identifier(id)| (EXTERNAL_USER_ID, Mention::ExternalId(id)));
    let mut mentions = id.into_iter().chain(user.mentions());
    match (mentions.next(), mentions.next()) {
        (Some((first, _)), Some((second, _))) => {
            let text = format!("{first} must not be set together with {second}");
            Err(ApiError::invalid_field(text))
        }
        (only, _) => Ok(only),
    }
}

/// The campaign or Canvas with that id, also if it is paused or archived.
async fn find_campaign(app: &App, workspace: i32, id: &str) -> Result<Campaign, ApiError> {
    let unknown = || ApiError::invalid_field(UNKNOWN_CAMPAIGN);
    let id = Uuid::try_parse(id).map_err(|_| unknown())?;
    let mut tx = app.request_queue.snapshot().await?;
    let campaign = campaigns::by_id(&mut tx, workspace, id).await?;
    tx.commit().await?;
    campaign.ok_or_else(unknown)
}

/// The stored profile of a user.
async fn find_subject(
    app: &App,
    workspace: i32,
    user: (&str, Mention<'_>),
) -> Result<Subject, ApiError> {
    let mut tx = app.request_queue.snapshot().await?;
    let found = selector::find(&mut tx, workspace, user, For::Reading).await?;
    let found = found.ok_or_else(|| unknown_user(user.0))?;
    let recipient = suppressions::recipient(&mut tx, workspace, &found).await?;
    tx.commit().await?;
    Ok(Subject::from_recipient(recipient))
}

/// Adds attributes to a profile; returns its custom attributes.
fn add_attributes(
    profile: &mut Members,
    custom: &TreeObject,
    attributes: &TreeObject,
) -> TreeObject {
    const CUSTOM: &str = "custom_attributes";
    let is_field = |name: &str| Field::ALL.iter().any(|field| field.name() == name);
    let mut base = custom;
    let mut added = Vec::new();
    for (name, value) in attributes.iter() {
        match value {
            Tree::Object(object) if name == CUSTOM => base = object,
            value if is_field(name) => {
                // The value was read from JSON, so it can be read again.
                let value = serde_json::from_str(&value.to_json()).unwrap_or_default();
                profile.insert(name.to_owned(), value);
            }
            value => added.push((name.into(), value.clone())),
        }
    }
    base.merged(&TreeObject::new(added))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn attributes_go_where_profiles_have_them() {
        let mut profile = Map::from_iter([("first_name".to_owned(), json!("Old"))]);
        let object = |json: &str| TreeObject::parse(json).unwrap();
        let attributes = object(r#"{"first_name":"Ann","visits":3.10,"z":1}"#);
        let custom = add_attributes(&mut profile, &object(r#"{"z":0,"b":2}"#), &attributes);
        assert_eq!(Value::Object(profile), json!({ "first_name": "Ann" }));
        assert_eq!(custom.to_json(), r#"{"b":2,"visits":3.10,"z":1}"#);
    }
}

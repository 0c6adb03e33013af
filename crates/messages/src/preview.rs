//! `POST /templates/preview`: renders templates for a user, without sending anything.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use template::{MAX_SOURCE, RenderBudget, Stop, Template};
use uuid::Uuid;

use super::api::fill_email;
use super::content::{Content, Message, MessageSource, Messages, Problem};
use super::external::{Answers, External, RenderError, RenderTime};
use super::personalization::{Scope, Unsubscribe, names};
use super::recipient::{Members, Properties, User};
use super::request::{self, MessageProblem};
use crate::app::App;
use gateway::formats::{Errors, Identifier, SuccessText, UserAlias, first_of};
use gateway::openapi::Tag;
use gateway::workspaces::settings;
use gateway::{self, Access, ApiError, Caller, JsonText, Operation, Routes, fields};
use kit::json::{Tree, TreeObject};
use people::users::profile::Field;
use people::users::recipient::{CustomAttributes, Recipient};
use people::users::rows::{For, find_identifiers, find_users};

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
    pub event_properties: Option<TreeObject>,
    pub api_trigger_properties: Option<TreeObject>,
    pub canvas_entry_properties: Option<TreeObject>,
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
    /// Keys and values from `message_extras`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub message_extras: BTreeMap<String, String>,
}

/// Renders as for sending. Adds warnings for external data that is not available.
pub async fn preview(
    external: &External<'_>,
    draft: Draft<'_>,
    subject: &Subject,
    warnings: &mut Vec<String>,
) -> Preview {
    let (app, workspace_id, now) =
        (external.app, external.workspace_id, external.app.clock.now_ms());
    let unsubscribe = |service_id| Unsubscribe { app, workspace_id, service_id };
    type Shown = (Value, BTreeMap<String, String>);
    let render = |answers: &Answers| -> Result<Shown, Stop> {
        let scope = Scope {
            event_properties: subject.event_properties.as_ref(),
            api_trigger_properties: subject.api_trigger_properties.as_ref(),
            canvas_entry_properties: subject.canvas_entry_properties.as_ref(),
            unsubscribe: subject.service_id.map(unsubscribe),
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
        "Render a template or message objects",
    )
    .by(Access::Key(PERMISSION))
    .about(
        "Nothing is sent. Templates read catalogs and connected content as in real messages. \
         Without a user, the profile has only the given `attributes`.",
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
    .refuses(&ApiError::invalid_field(UNKNOWN_USER), "The user does not exist");
    Routes::new().route("/templates/preview", route, [operation])
}

const UNKNOWN_USER: &str = "external_user_id does not match a user in this workspace";
const TWO_USERS: &str = "external_user_id must not be set together with user_alias";
const UNKNOWN_ALIAS: &str = "user_alias does not match a user in this workspace";

/// The template or the message objects to render, and the user.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = first_of(&["template", "messages"]), extend("not" = {
    "properties": {
        "external_user_id": { "type": "string" }, "user_alias": { "type": "object" },
    },
    "required": ["external_user_id", "user_alias"],
}))]
pub(crate) struct PreviewRequest {
    /// A single template.
    #[schemars(length(max = MAX_SOURCE))]
    template: Option<String>,
    /// Ignored if there is a `template`.
    messages: Option<Messages>,
    external_user_id: Option<Identifier>,
    /// Not allowed together with `external_user_id`.
    user_alias: Option<UserAlias>,
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
    let PreviewRequest {
        template,
        messages,
        external_user_id,
        user_alias,
        attributes,
        event_properties,
        api_trigger_properties,
        canvas_entry_properties,
    } = fields::read(&members)?;
    let settings = settings::find(&app, workspace_id).await?;
    let text = template.map(|source| {
        app.cores.compute_here(|| {
            let template = Template::parse(&source, &names(&settings)).map_err(invalid_template)?;
            match template.mistake() {
                Some(mistake) => Err(invalid_template(mistake)),
                None => Ok(template),
            }
        })
    });
    let text = text.transpose()?;
    let (content, errors) = match &text {
        Some(_) => (Content::default(), Vec::new()),
        None => {
            let messages = messages.as_ref().map(|Messages(messages)| messages);
            app.cores
                .compute_here(|| request::contents(messages, MessageSource::Send, &settings))
                .map(|(content, _, problems)| (content, problems))?
        }
    };
    let properties = |given: Option<Properties>| given.map(|Properties(properties)| properties);
    let (service_id, mut profile, mut custom) = match (external_user_id, user_alias) {
        (Some(_), Some(_)) => return Err(ApiError::invalid_field(TWO_USERS)),
        (Some(id), None) => {
            find_profile(&app, workspace_id, User::ExternalUserId(id), UNKNOWN_USER).await?
        }
        (None, Some(alias)) => {
            find_profile(&app, workspace_id, User::UserAlias(alias), UNKNOWN_ALIAS).await?
        }
        (None, None) => (None, Map::new(), CustomAttributes::default()),
    };
    if let Some(attributes) = properties(attributes) {
        custom = add_attributes(&mut profile, custom.get(), &attributes).into();
    }
    let subject = Subject {
        profile,
        custom,
        service_id,
        event_properties: properties(event_properties),
        api_trigger_properties: properties(api_trigger_properties),
        canvas_entry_properties: properties(canvas_entry_properties),
    };
    let time = RenderTime::new(RENDER_TIME);
    let external = External {
        app: &app,
        workspace_id,
        settings: &settings,
        is_urgent: false,
        time: Some(&time),
    };
    let (mut previews, mut warnings) = (Vec::new(), Vec::new());
    let text = text.as_ref().map(Draft::Text);
    for draft in text.into_iter().chain(content.messages().iter().map(Draft::Message)) {
        previews.push(preview(&external, draft, &subject, &mut warnings).await);
    }
    Ok(Json(Previewed { message: SuccessText::Success, previews, errors, warnings }))
}

fn invalid_template(error: impl std::borrow::Borrow<template::TemplateError>) -> ApiError {
    let error = error.borrow();
    let problem = Problem { path: "template".into(), text: error.to_string(), is_fatal: true };
    request::rejected(
        problem.to_string(),
        &[MessageProblem { text: problem.text, path: problem.path }],
    )
}

/// The stored profile of a user.
async fn find_profile(
    app: &App,
    workspace: i32,
    user: User,
    unknown: &str,
) -> Result<(Option<Uuid>, Members, CustomAttributes), ApiError> {
    let (kind, value) = user.key();
    let mut tx = app.request_queue.snapshot().await?;
    let identifiers = find_identifiers(&mut tx, workspace, kind, &[&value]).await?;
    let ids: Vec<Uuid> = identifiers.into_iter().map(|found| found.service_id).collect();
    let users = find_users(&mut tx, workspace, &ids, For::Reading).await?;
    tx.commit().await?;
    let user = users.first().ok_or_else(|| ApiError::invalid_field(unknown))?;
    let Recipient { service_id, profile, custom } = Recipient::read(user.service_id, &user.doc)
        .map_err(|error| {
            ApiError::Internal(format!("users.doc of {}: {error}", user.service_id))
        })?;
    Ok((Some(service_id), profile, custom))
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

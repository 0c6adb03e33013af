//! Checks the messages of campaigns and Canvases, and email templates, once the workspace's channel
//! settings are known.

use serde_json::{Map, Value};
use template::{Names, Template};

use crate::document::{Declaration, SourceLocation};
use crate::file::{FileError, Problem};
use content::campaigns::{Campaign, Kind};
use gateway::workspaces::Channel;
use gateway::workspaces::email_templates::{self, EmailTemplate};
use gateway::workspaces::settings::Settings;
use messages::content::{Content, MessageSource, Problem as MessageProblem, check_email_template};
use messages::personalization;

/// Fills the email objects of campaigns and Canvases from their email templates. An object with an
/// unknown template stays as it is, and [`check`] reports it.
pub(crate) fn fill(campaigns: &mut [Campaign], templates: &[EmailTemplate]) {
    for Campaign { kind, content, .. } in campaigns {
        let email = match kind {
            Kind::Transactional => content.get_mut("email"),
            Kind::Api | Kind::Triggered | Kind::Canvas => content
                .get_mut("messages")
                .and_then(|messages| messages.get_mut(Channel::Email.name())),
        };
        let Some(email) = email.and_then(Value::as_object_mut) else { continue };
        let id = email_templates::template_id(email);
        if let Some(template) =
            id.and_then(|id| templates.iter().find(|template| template.id == id))
        {
            template.fill(email);
        }
    }
}

/// Reports all errors together. `campaigns` are those of the document, after [`fill`].
pub(crate) fn check(
    document: &Declaration,
    campaigns: &[Campaign],
    settings: &Settings,
) -> Result<(), FileError> {
    let campaigns = campaigns.iter().zip(&document.message_locations);
    let in_campaigns =
        campaigns.flat_map(|(campaign, location)| check_campaign(campaign, location, settings));
    let templates = document.email_templates.iter().zip(&document.email_template_locations);
    let in_templates = templates
        .flat_map(|(template, location)| check_template(&template.template(), location, settings));
    let mut problems: Vec<Problem> = in_campaigns.chain(in_templates).collect();
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort();
    Err(FileError { problems })
}

/// Reports unknown names in content blocks and selections, and blocks that include themselves.
pub(crate) fn check_template_data(settings: &Settings) -> Result<(), FileError> {
    let problem = |path: String, text: String| Problem { line: 0, path, text };
    let names = Names { is_open: true, ..personalization::names(settings) };
    let blocks = settings.blocks.keys().filter_map(|name| {
        let read = Template::parse(&format!("{{{{content_blocks.${{{name}}}}}}}"), &names);
        let wrong = read.as_ref().map_or_else(Some, Template::mistake)?;
        Some(problem(format!("content_blocks.{name}"), wrong.text.clone()))
    });
    let selections = settings.selections.iter();
    let selections = selections.filter(|selection| !settings.catalogs.contains(&selection.catalog));
    let selections = selections.map(|selection| {
        let path = format!("catalog_selections.{}", selection.name);
        problem(path, format!("the workspace has no catalog `{}`", selection.catalog))
    });
    let problems: Vec<Problem> = blocks.chain(selections).collect();
    if problems.is_empty() { Ok(()) } else { Err(FileError { problems }) }
}

fn check_campaign(
    campaign: &Campaign,
    location: &SourceLocation,
    settings: &Settings,
) -> Vec<Problem> {
    let messages = match campaign.kind {
        Kind::Transactional => campaign.email(settings),
        Kind::Api | Kind::Triggered | Kind::Canvas => campaign.messages().cloned(),
    };
    let Some(messages) = messages else { return Vec::new() };
    let problem = |path: &str, text: String| {
        // The field in the file is the email itself.
        let path = match campaign.kind {
            Kind::Transactional => path.strip_prefix("messages.").unwrap_or(path),
            Kind::Api | Kind::Triggered | Kind::Canvas => path,
        };
        Problem { line: location.line, path: format!("{}.{path}", location.path), text }
    };
    let (_, _, wrong) = Content::read(&messages, MessageSource::File, settings);
    let wrong = wrong.into_iter().map(|wrong| problem(&wrong.path, with_remedy(wrong.text)));
    let unknown = unknown_variations(campaign, &messages).into_iter();
    let unknown = unknown.map(|(path, text)| problem(&path, text));
    wrong.chain(unknown).collect()
}

fn check_template(
    template: &EmailTemplate,
    location: &SourceLocation,
    settings: &Settings,
) -> Vec<Problem> {
    let wrong = check_email_template(&template.content, &location.path, settings);
    let problem = |MessageProblem { path, text, .. }| Problem { line: location.line, path, text };
    wrong.into_iter().map(problem).collect()
}

/// The error of a private address, with the operator's fix, which API callers do not see.
fn with_remedy(text: String) -> String {
    if text.contains("must not point to ") {
        format!("{text}, unless allow_private (LONGSHORE_ALLOW_PRIVATE) contains its network")
    } else {
        text
    }
}

/// Each message of a campaign with variations belongs to one of them.
fn unknown_variations(campaign: &Campaign, messages: &Map<String, Value>) -> Vec<(String, String)> {
    let declared = campaign.content.get("variations").and_then(Value::as_array);
    let Some(declared) = declared else { return Vec::new() };
    let named = messages.iter().filter_map(|(name, message)| {
        let id = message.get("message_variation_id")?.as_str()?;
        let has_id = |variation: &Value| {
            let declared = variation.get("id").and_then(Value::as_str);
            declared.is_some_and(|declared| declared.eq_ignore_ascii_case(id))
        };
        let path = format!("messages.{name}.message_variation_id");
        let text = format!("{id:?}: the campaign does not declare this variation");
        (!declared.iter().any(has_id)).then_some((path, text))
    });
    named.collect()
}

//! The form and the rendered messages as HTML.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{CAMPAIGN, Errors, PROPERTIES, Rendered, USER, Values};
use crate::page::Page;
use crate::pages::labels;
use crate::pages::sends::new;
use console_frame::parts::{self, Look, Tone, icon};
use console_frame::shell::{post, workspace_command};
use dispatches::preview::{Preview, Reason};
use gateway::workspaces::Channel;

/// Longer texts are cut, in characters.
const MAX_SHOWN_CHARS: usize = 20_000;

/// Longer texts, and those of several lines, have a box of their own.
const MAX_LINE_CHARS: usize = 80;

/// What people look for first in a message.
const FIRST_FIELDS: [&str; 5] = ["subject", "title", "alert", "description", "body"];

pub fn content(
    page: &Page,
    campaigns: &[(Uuid, String)],
    values: &Values,
    errors: &Errors,
    rendered: Option<&Rendered>,
) -> Markup {
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/sends")) { "Sends" }
                }
                h1 { "Preview messages" }
                p.muted {
                    "What a campaign or Canvas would send to a user now. Nothing is sent. The audit \
                     log has which users you look at."
                }
            }
        }
        @if !errors.is_empty() { (summary(errors)) }
        (form(page, campaigns, values, errors))
        @if let Some(rendered) = rendered { (results(page, values, rendered)) }
        (terminal(page, values))
    }
}

/// What is wrong, before everything else.
fn summary(errors: &Errors) -> Markup {
    html! {
        div.notice.bad role="alert" {
            (icon("circle-alert"))
            div {
                @for (field, text) in errors {
                    p { a href=(format!("#{field}")) { (label(field)) } ": " bdi { (text) } }
                }
            }
        }
    }
}

fn label(field: &str) -> &'static str {
    match field {
        CAMPAIGN => "Campaign or Canvas",
        USER => "User",
        "trigger_properties" => "Trigger properties",
        "event_properties" => "Event properties",
        _ => "Canvas entry properties",
    }
}

/// `aria-invalid` and `aria-describedby` of an input.
fn state(errors: &Errors, field: &str) -> (Option<&'static str>, String) {
    if errors.contains_key(field) {
        (Some("true"), parts::error_id(field))
    } else {
        (None, format!("{field}-hint"))
    }
}

fn form(page: &Page, campaigns: &[(Uuid, String)], values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, CAMPAIGN);
    let (is_invalid_user, user_described_by) = state(errors, USER);
    let has_properties = values.properties.iter().any(|text| !text.is_empty());
    html! {
        section.panel aria-label="What to render" {
            form.panel-body method="post" action=(page.workspace_link("/preview")) novalidate {
                (parts::form_token(page))
                div.field.full {
                    label for=(CAMPAIGN) { (label(CAMPAIGN)) }
                    select.input id=(CAMPAIGN) name=(CAMPAIGN) aria-invalid=[is_invalid]
                        aria-describedby=(described_by)
                    {
                        option value="" { "Choose one" }
                        @for (id, name) in campaigns {
                            option value=(id) selected[id.to_string() == values.campaign] {
                                (parts::cut(name))
                            }
                        }
                    }
                    (parts::field_error(errors, CAMPAIGN))
                    p.hint id=(format!("{CAMPAIGN}-hint")) {
                        "As the workspace file declares it now, also if it is paused or archived."
                    }
                }
                div.field.full {
                    label for=(USER) { (label(USER)) }
                    input.input id=(USER) name=(USER) value=(values.user) autocomplete="off"
                        autocapitalize="off" spellcheck="false" dir="auto"
                        aria-invalid=[is_invalid_user] aria-describedby=(user_described_by);
                    (parts::field_error(errors, USER))
                    p.hint id=(format!("{USER}-hint")) {
                        "An external_id, a service_id, an alias as LABEL:NAME, an email address or a \
                         phone number."
                    }
                }
                details.more open[has_properties] {
                    summary { (icon("chevron-right")) "Properties" }
                    div.form {
                        @for ((field, name), text) in PROPERTIES.into_iter().zip(&values.properties) {
                            (properties(field, name, text, errors))
                        }
                    }
                }
                div.actions {
                    button.button.primary type="submit" { "Render" }
                }
            }
        }
    }
}

fn properties(field: &str, name: &str, text: &str, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, field);
    html! {
        div.field.full {
            label for=(field) { (label(field)) }
            textarea.input id=(field) name=(field) rows="3" spellcheck="false"
                aria-invalid=[is_invalid] aria-describedby=(described_by) { (text) }
            (parts::field_error(errors, field))
            p.hint id=(format!("{field}-hint")) {
                "A JSON object for " code { (name) } " in the templates. Optional."
            }
        }
    }
}

fn results(page: &Page, values: &Values, rendered: &Rendered) -> Markup {
    let preview = &rendered.preview;
    html! {
        div.columns id="rendered" {
            h2 {
                (parts::name(&rendered.campaign)) " for "
                a href=(labels::user_address(page, rendered.service_id)) {
                    @match &rendered.external_id {
                        Some(id) => (parts::name(id)),
                        None => (rendered.service_id),
                    }
                }
            }
            @if !preview.problems.is_empty() {
                (parts::notice(Tone::Bad, "Some messages would not be sent", html! {
                    @for problem in &preview.problems { p { (parts::name(&problem.to_string())) } }
                }))
            }
            @if !preview.warnings.is_empty() {
                (parts::notice(Tone::Warning, "Some external data is missing", html! {
                    @for warning in &preview.warnings { p { (parts::name(warning)) } }
                }))
            }
            @for message in &preview.previews { (message_section(message)) }
            @if new::is_offered(page) {
                @let form = format!("/sends/new?campaign={}", values.campaign);
                div.actions {
                    a.button href=(page.workspace_link(&form)) { "Send this campaign" }
                }
            }
        }
    }
}

fn message_section(message: &Preview) -> Markup {
    let name = message.channel.unwrap_or_default();
    let title = Channel::from_name(name).map_or(name, labels::channel_name);
    let look = match message {
        Preview { rendered: Some(_), why_not, .. } if !why_not.is_empty() => {
            Look::bad("Would not be sent")
        }
        Preview { rendered: Some(_), .. } => Look::good("Would be sent"),
        Preview { aborted: Some(_), .. } => Look::ended("Aborted by the template"),
        _ => Look::bad("Would not be sent"),
    };
    let reason = message.aborted.as_ref().or(message.failed.as_ref());
    html! {
        section.panel {
            div.panel-head { h2 { (title) } (look.badge()) }
            div.panel-body {
                @if let Some(reason) = reason { p { bdi { (shortened(reason)) } } }
                @for Reason { reason, text } in &message.why_not {
                    p { bdi { (text) } ". " code.muted { (reason) } }
                }
                @match &message.rendered {
                    Some(Value::Object(object)) => (fields(object)),
                    Some(value) => (value_text(&printed(value))),
                    None => {}
                }
                @if !message.message_extras.is_empty() {
                    dl.facts {
                        @for (name, value) in &message.message_extras {
                            div { dt { "Extra " code { (parts::cut(name)) } } dd { (parts::name(value)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The fields of a message object, with what people look for first. HTML is shown as its text.
fn fields(object: &Map<String, Value>) -> Markup {
    let position = |name: &str| {
        FIRST_FIELDS.iter().position(|first| *first == name).unwrap_or(FIRST_FIELDS.len())
    };
    let mut fields: Vec<(&String, String)> = object
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, printed(value)))
        .collect();
    fields.sort_by_key(|(name, _)| position(name));
    html! {
        dl.facts {
            @for (name, text) in &fields {
                div.stack[is_long(text)] { dt { code { (name) } } dd { (value_text(text)) } }
            }
        }
    }
}

/// A text as it is, another value as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value @ (Value::Object(_) | Value::Array(_)) => format!("{value:#}"),
        value => value.to_string(),
    }
}

fn is_long(text: &str) -> bool {
    text.contains('\n') || text.chars().nth(MAX_LINE_CHARS).is_some()
}

fn value_text(text: &str) -> Markup {
    html! {
        @if is_long(text) {
            pre.code.scroll tabindex="0" dir="auto" { (shortened(text)) }
        } @else {
            bdi { (text) }
        }
    }
}

fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// The same from a terminal. Only the command takes identifiers of every kind.
fn terminal(page: &Page, values: &Values) -> Markup {
    let or =
        |text: &str, name: &str| if text.is_empty() { name.to_owned() } else { text.to_owned() };
    let (campaign, user) = (or(&values.campaign, "CAMPAIGN"), or(&values.user, "USER"));
    let mut options = vec![("user".to_owned(), user.as_str())];
    let mut body = json!({ "campaign_id": campaign, "external_id": user });
    for ((field, name), text) in PROPERTIES.into_iter().zip(&values.properties) {
        if text.is_empty() {
            continue;
        }
        options.push((field.replace('_', "-"), text));
        if let Ok(object) = serde_json::from_str::<Value>(text) {
            body[name] = object;
        }
    }
    let options: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let command = workspace_command(page, "campaigns preview", &options, &[&campaign]);
    parts::terminal(&post(page, "/templates/preview", &body), &command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_is_first_and_html_is_text() {
        let object = json!({ "app_id": "x", "body": "<script>alert(1)</script>", "subject": "Hi" });
        let shown = fields(object.as_object().unwrap()).into_string();
        assert!(shown.find("Hi") < shown.find("&lt;script&gt;"), "{shown}");
        assert!(shown.find("alert") < shown.find("app_id"), "{shown}");
        assert!(!shown.contains("<script>"), "{shown}");
    }
}

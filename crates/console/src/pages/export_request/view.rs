//! The form as HTML.

use maud::{Markup, html};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ESTIMATE;
use super::form::{
    AUDIENCE, CALLBACK, CONTROL_GROUP, DESTINATION, EVERY_FIELD, Errors, FIELD, FIELDS, FORMAT,
    GROUP, Group, MORE_FIELDS, REQUEST_KEY, SEGMENT, USERS_PER_FILE, Values,
};
use crate::page::Page;
use console_frame::error::PageError;
use console_frame::parts::{self, Look, Tone, icon};
use console_frame::shell::{self, post};
use exports::dry_run::{DryRun, EstimatedUsers};
use exports::request::{MAX_USERS_PER_FILE, unknown_segment};
use exports::{Format, destination};
use gateway::ApiError;
use gateway::workspaces::storage::{AZURE, S3, URL};
use gateway::workspaces::{self, segments};
use kit::lists;

/// What the form offers.
pub struct Choices {
    pub has_control_group: bool,
    /// Ids and names.
    segments: Vec<(Uuid, String)>,
    destinations: Vec<String>,
    /// Whether an export without a destination is a download.
    is_download_by_default: bool,
}

impl Choices {
    pub async fn read(page: &Page) -> Result<Self, PageError> {
        let workspace = page.workspace()?;
        let mut tx = page.app.request_queue.snapshot().await?;
        let group = workspaces::control_group(&mut tx, workspace.id).await?;
        let choices = Self {
            has_control_group: group.is_some(),
            segments: segments::names(&mut tx, workspace.id).await?,
            destinations: destination::names(&mut tx, workspace).await?,
            is_download_by_default: workspace.own_storage().is_none(),
        };
        tx.commit().await?;
        Ok(choices)
    }

    /// Adds the errors of values that the form does not offer, which are otherwise found only after
    /// those of the request.
    pub fn check(&self, values: &Values, errors: &mut Errors) {
        let has = |id: &str| self.segments.iter().any(|(segment, _)| segment.to_string() == id);
        if !values.is_control_group && !has(&values.segment_id) {
            errors.add(&unknown_segment(), values);
        }
        let destination = &values.destination;
        if !destination.is_empty() && !self.destinations.contains(destination) {
            let text = format!("{DESTINATION}: {destination:?} does not match a storage");
            errors.add(&ApiError::invalid_field(text), values);
        }
    }

    /// Whether the callback of an export with these values has the address of its files.
    pub fn shows_files(&self, values: &Values) -> bool {
        let is_download = match values.destination.as_str() {
            "" => self.is_download_by_default,
            name => name == URL,
        };
        is_download && !values.callback.is_empty()
    }
}

pub fn content(
    page: &Page,
    choices: &Choices,
    values: &Values,
    errors: &Errors,
    estimate: Option<&DryRun>,
) -> Markup {
    let action = page.workspace_link("/exports/new");
    html! {
        div.head {
            div.head-title {
                nav.crumbs aria-label="Breadcrumb" {
                    a href=(page.workspace_link("/exports")) { "Exports" }
                }
                h1 { "Request an export" }
            }
        }
        form.columns.side-right method="post" action=(action) novalidate {
            (parts::form_token(page))
            input type="hidden" name=(REQUEST_KEY) value=(values.request_key);
            div.form {
                @if !errors.is_empty() { (problem(errors)) }
                (audience(choices, values, errors))
                (fields(values, errors))
                (destinations(choices, values, errors))
                (formats(values, errors))
                (users_per_file(page, values, errors))
                (callback(values, errors))
            }
            aside.panel.sticky aria-label="Estimate" id="estimate" {
                div.panel-head { h2 { "Estimate" } }
                div.panel-body {
                    @match estimate {
                        Some(estimate) => (estimated(page, estimate)),
                        None => {
                            p.muted {
                                "How many users, files and bytes the export has, and how long it \
                                 takes. An estimate creates nothing."
                            }
                        }
                    }
                    div.stack-buttons {
                        // On a narrow page, the estimate is below the fields.
                        button.button type="submit" name="do" value=(ESTIMATE)
                            formaction=(format!("{action}#estimate")) { "Estimate" }
                        button.button.primary type="submit" name="do" value="request" {
                            "Request export"
                        }
                    }
                }
            }
        }
        (terminal(page, values))
    }
}

/// What is wrong, before everything else.
fn problem(errors: &Errors) -> Markup {
    html! {
        div.notice.bad role="alert" {
            (icon("circle-alert"))
            div {
                p { b { "Nothing was requested." } }
                @if let Some(text) = &errors.general { p { bdi { (text) } } }
                @for (field, message) in errors.in_order() {
                    p { a href=(format!("#{field}")) { bdi { (message) } } }
                }
            }
        }
    }
}

/// `aria-invalid` and `aria-describedby` of an input.
fn state<'a>(errors: &Errors, field: &str, hint: &'a str) -> (Option<&'a str>, String) {
    let is_invalid = errors.by_field.contains_key(field);
    let describes = if is_invalid { parts::error_id(field) } else { hint.to_owned() };
    (is_invalid.then_some("true"), describes)
}

fn audience(choices: &Choices, values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, SEGMENT, "audience-hint");
    html! {
        fieldset.field.full {
            legend.legend-title { "Audience" }
            div.choices {
                @if choices.has_control_group {
                    div.choice {
                        label {
                            input type="radio" name=(AUDIENCE) value=(CONTROL_GROUP)
                                checked[values.is_control_group];
                            span {
                                b { "Global control group" }
                                span.hint { "the group that is active now" }
                            }
                        }
                    }
                }
                div.choice {
                    label {
                        input type="radio" name=(AUDIENCE) value="segment"
                            checked[!values.is_control_group];
                        span {
                            b { "A segment" }
                            span.hint id="audience-hint" { "declared in the workspace file" }
                        }
                    }
                    div.choice-more {
                        label.hidden-label for=(SEGMENT) { "Segment" }
                        select.input id=(SEGMENT) name=(SEGMENT) aria-invalid=[is_invalid]
                            aria-describedby=(described_by)
                        {
                            @for (id, name) in &choices.segments {
                                @let is_chosen = values.segment_id == id.to_string();
                                option value=(id) title=[title(name)] selected[is_chosen] {
                                    (parts::cut(name))
                                }
                            }
                        }
                    }
                }
            }
            (parts::field_error(&errors.by_field, SEGMENT))
        }
    }
}

/// A name that is shown cut.
fn title(name: &str) -> Option<&str> {
    (parts::cut(name).len() < name.len()).then_some(name)
}

fn fields(values: &Values, errors: &Errors) -> Markup {
    let (_, described_by) = state(errors, FIELDS, "fields-hint");
    let (is_invalid, more_described_by) = state(errors, MORE_FIELDS, "more-hint");
    let has_every = values.groups.contains(EVERY_FIELD);
    html! {
        fieldset.field.full id=(FIELDS) aria-describedby=(described_by) {
            legend.legend-title { "Fields" }
            div.choices {
                label.check.all {
                    input type="checkbox" name=(GROUP) value=(EVERY_FIELD) checked[has_every];
                    " All fields except consent"
                }
                @for group in Group::ALL { (field_group(group, values)) }
            }
            p.hint id="fields-hint" {
                "A field that a user does not have is absent from the line. Consent is exported only \
                 on request."
            }
            (parts::field_error(&errors.by_field, FIELDS))
        }
        div.field.full {
            label for=(MORE_FIELDS) { "Single custom attributes " span.muted { "optional" } }
            textarea.input id=(MORE_FIELDS) name=(MORE_FIELDS) rows="3" spellcheck="false"
                aria-invalid=[is_invalid] aria-describedby=(more_described_by)
            { (values.more_fields) }
            p.hint id="more-hint" {
                "One a line, such as " code { "custom_attributes.tier" } "."
            }
            (parts::field_error(&errors.by_field, MORE_FIELDS))
        }
    }
}

fn field_group(group: Group, values: &Values) -> Markup {
    let names: Vec<&str> = group.fields().collect();
    let has_all = values.groups.contains(group.name());
    html! {
        fieldset.checks {
            legend { (group.title()) }
            @if names.len() > 1 {
                label.check.all {
                    input type="checkbox" name=(GROUP) value=(group.name()) checked[has_all];
                    " All " (names.len())
                }
            }
            div.checks-grid {
                @for name in names {
                    label.check {
                        input type="checkbox" name=(FIELD) value=(name)
                            checked[values.fields.contains(name)];
                        code { (name) }
                    }
                }
            }
        }
    }
}

fn destinations(choices: &Choices, values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, DESTINATION, "destination-hint");
    let is_known = choices.destinations.contains(&values.destination);
    html! {
        div.field {
            label for=(DESTINATION) { "Destination" }
            select.input id=(DESTINATION) name=(DESTINATION) aria-invalid=[is_invalid]
                aria-describedby=(described_by)
            {
                option value="" selected[!is_known] { "The workspace's default" }
                @for name in &choices.destinations {
                    option value=(name) selected[*name == values.destination] {
                        (destination_text(name))
                    }
                }
            }
            p.hint id="destination-hint" {
                "By default, the workspace's own storage; a download if it has none."
            }
            (parts::field_error(&errors.by_field, DESTINATION))
        }
    }
}

fn destination_text(name: &str) -> String {
    match name {
        URL => "A download from Longshore".to_owned(),
        S3 => "The workspace's S3 storage".to_owned(),
        AZURE => "The workspace's Azure storage".to_owned(),
        name => parts::cut(name).into_owned(),
    }
}

fn formats(values: &Values, errors: &Errors) -> Markup {
    let (_, described_by) = state(errors, FORMAT, "format-hint");
    html! {
        fieldset.field.full id=(FORMAT) aria-describedby=(described_by) {
            legend.legend-title { "Format" }
            div.inline {
                @for format in Format::ALL {
                    label.check {
                        input type="radio" name=(FORMAT) value=(format.name())
                            checked[values.format == format.name()];
                        (format.name())
                    }
                }
            }
            p.hint id="format-hint" { "A download is always one ZIP." }
            (parts::field_error(&errors.by_field, FORMAT))
        }
    }
}

fn users_per_file(page: &Page, values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, USERS_PER_FILE, "users-hint");
    html! {
        div.field {
            label for=(USERS_PER_FILE) { "Users in a file " span.muted { "optional" } }
            input.input.short id=(USERS_PER_FILE) name=(USERS_PER_FILE) inputmode="numeric"
                value=(values.users_per_file) autocomplete="off" aria-invalid=[is_invalid]
                aria-describedby=(described_by);
            p.hint id="users-hint" {
                "1 to " (parts::number(MAX_USERS_PER_FILE.into())) ". Without a number: "
                (parts::number(page.app.config.exports.users_per_file.into())) "."
            }
            (parts::field_error(&errors.by_field, USERS_PER_FILE))
        }
    }
}

fn callback(values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, CALLBACK, "callback-hint");
    html! {
        div.field {
            label for=(CALLBACK) { "Callback address " span.muted { "optional" } }
            input.input id=(CALLBACK) name=(CALLBACK) type="url" value=(values.callback)
                autocomplete="off" aria-invalid=[is_invalid] aria-describedby=(described_by);
            p.hint id="callback-hint" { "Gets a signed POST when the export ends." }
            (parts::field_error(&errors.by_field, CALLBACK))
        }
    }
}

fn estimated(page: &Page, estimate: &DryRun) -> Markup {
    let target = &estimate.destination;
    let destination = html! {
        @match (&target.location, &target.name) {
            (Some(location), _) => (parts::name(location)),
            (None, Some(name)) if name != URL => (parts::name(name)),
            _ => "Download from Longshore",
        }
        br;
        @if target.is_writable {
            (Look::good("A test file was written").badge())
        } @else {
            (Look::bad("A test file could not be written").badge())
            @if let Some(error) = &target.error { p.error { bdi { (error) } } }
        }
    };
    let others = estimate.exports_in_progress;
    let rows = [
        ("Users", users(&estimate.users)),
        ("Files", html! { (parts::number(estimate.files)) }),
        ("Size", html! { "about " (parts::bytes(estimate.bytes.estimated)) }),
        (
            "Time",
            html! {
                "about " (parts::duration(estimate.seconds.estimated.saturating_mul(1_000)))
                @if others > 0 {
                    br; span.muted.small {
                        (parts::count_of(others, "other export is", "other exports are"))
                        " in progress"
                    }
                }
            },
        ),
        ("Destination", destination),
    ];
    html! {
        (parts::facts(&rows))
        @for warning in &estimate.warnings {
            (parts::notice(Tone::Warning, "Warning", html! { p { bdi { (warning.to_line()) } } }))
        }
        p.muted.small { "Estimated " (page.time(page.now_ms())) ". Nothing was created." }
    }
}

fn users(users: &EstimatedUsers) -> Markup {
    html! {
        @if !users.exact { "about " }
        b { (parts::number(users.estimated)) }
        @if let Some([low, high]) = users.between {
            br; span.muted.small { (parts::number(low)) " to " (parts::number(high)) }
        }
    }
}

/// The request of the form from a terminal.
fn terminal(page: &Page, values: &Values) -> Markup {
    let path = if values.is_control_group { CONTROL_GROUP_PATH } else { SEGMENT_PATH };
    let curl = post(page, path, &Value::Object(values.body()));
    parts::terminal(&curl, &command(values))
}

const CONTROL_GROUP_PATH: &str = "/users/export/global_control_group";
const SEGMENT_PATH: &str = "/users/export/segment";

/// The command of the request.
fn command(values: &Values) -> String {
    let (body, names) = (values.body(), values.field_names());
    let names = lists::join(names.iter().map(|name| &**name));
    let mut command = shell::command("export run", &[("fields", &names)], &[]);
    for (option, name) in [
        ("segment", SEGMENT),
        ("format", FORMAT),
        ("destination", DESTINATION),
        ("users-per-file", USERS_PER_FILE),
        ("callback", CALLBACK),
    ] {
        let value = body.get(name).filter(|value| **value != json!(Format::default().name()));
        match value {
            Some(Value::String(text)) if !text.is_empty() => {
                command += &format!(" {}", shell::option(option, text));
            }
            Some(Value::Number(number)) => command += &format!(" --{option}={number}"),
            _ => {}
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_has_the_values_of_the_form() {
        let mut values = Values::first(false, String::new());
        values.segment_id = "s".into();
        values.callback = "https://a.example/$(rm -rf ~)".into();
        values.users_per_file = "7".into();
        values.fields = BTreeSet::from(["email".to_owned()]);
        let text = command(&values);
        assert_eq!(
            text,
            "longshore export run --fields=email --segment=s --users-per-file=7 \
             --callback='https://a.example/$(rm -rf ~)'"
        );
        values.more_fields = "custom_attributes.a,b".into();
        let names = r#"--fields='email,"custom_attributes.a,b"'"#;
        assert!(command(&values).contains(names), "{}", command(&values));
    }
}

//! The messages of a user, and why there is none of a send.

use std::collections::BTreeMap;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use super::{
    Identified, Tab, UserPath, checked_id, head, identify, merged_page, nobody_page, record_view,
};
use crate::page::Page;
use crate::pages::labels::{self, campaign_title, outcome_look};
use console_frame::error::PageError;
use console_frame::lists::first_rows;
use console_frame::parts::{self, Tone, icon};
use console_frame::rights::Right;
use console_frame::shell::{post, workspace_command};
use dispatches::ListedKind;
use gateway::paging;
use gateway::workspaces::Channel;
use messages::dispatch::{Explanation, MessageOutcome};
use people::users::rows::{For, StoredUser};
use sending::user_messages::{self, Key, UserMessage};

/// Messages on a page.
const PAGE: usize = 50;

/// The parameter with a dispatch_id.
const SEND: &str = "send";

/// Which messages a page has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct MessagesQuery {
    /// Only those of the send with this dispatch_id.
    send: String,
    /// Only those after the one with this key.
    after: Option<String>,
}

/// The messages of a page.
struct Listed {
    user: StoredUser,
    /// As in the field.
    send: String,
    is_first_page: bool,
    messages: Vec<UserMessage>,
    /// The key of the last message, if others follow.
    last: Option<Key>,
    /// Why the user has no message by other channels of the send.
    why_not: Option<Vec<Explanation>>,
    errors: BTreeMap<String, String>,
}

/// `GET /w/{workspace}/users/{id}/messages`.
pub async fn show(
    page: Page,
    Path(path): Path<UserPath>,
    Query(query): Query<MessagesQuery>,
) -> Result<Response, PageError> {
    let id = checked_id(&path)?;
    let after = query.after.map(|after| {
        let invalid = || PageError::Invalid(format!("after must be {}", paging::CURSOR));
        paging::read_cursor(&after).ok_or_else(invalid)
    });
    let after: Option<Key> = after.transpose()?;
    let mut tx = page.app.request_queue.snapshot().await?;
    let user = match identify(&page, &mut tx, id, For::ReadingKeys).await? {
        Identified::User(user) => user,
        Identified::Merged(kept) => return Ok(merged_page(&page, id, kept)),
        Identified::Nobody => return Ok(nobody_page(&page, id)),
    };
    let key = (page.workspace()?.id, id);
    let send = query.send.trim().to_owned();
    let mut error = None;
    let (mut dispatch, mut why_not) = (None, None);
    if !send.is_empty() {
        match Uuid::try_parse(&send) {
            Ok(id) => {
                why_not = user_messages::explain(&page.app.messages, &mut tx, key, id)
                    .await
                    .map_err(user_messages::api_error)?;
                dispatch = Some(id);
                if why_not.is_none() {
                    error = Some("No send of this workspace has this dispatch_id");
                }
            }
            Err(_) => error = Some("A dispatch_id has 32 hexadecimal digits"),
        }
    }
    let messages = match error {
        Some(_) => Vec::new(),
        None => user_messages::page(&mut tx, key, dispatch, after, PAGE as i64 + 1).await?,
    };
    tx.commit().await?;
    record_view(&page, id, "messages").await?;
    let (messages, has_more) = first_rows(messages, PAGE);
    let listed = Listed {
        user,
        send,
        is_first_page: after.is_none(),
        last: messages.last().filter(|_| has_more).map(UserMessage::key),
        messages,
        why_not,
        errors: error.into_iter().map(|error| (SEND.to_owned(), error.to_owned())).collect(),
    };
    let shown = page.html(&format!("Messages of user {id}"), content(&page, &listed));
    if listed.errors.is_empty() {
        return Ok(shown);
    }
    Ok((StatusCode::UNPROCESSABLE_ENTITY, shown).into_response())
}

/// The address of the messages of a send, or of all.
fn address(page: &Page, id: Uuid, send: &str, after: Option<&Key>) -> String {
    let after = after.map(paging::cursor);
    let send = Some(send).filter(|send| !send.is_empty());
    let parameters = send.map(|send| (SEND, send)).into_iter();
    let parameters = parameters.chain(after.as_deref().map(|after| ("after", after)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let question = if query.is_empty() { "" } else { "?" };
    page.workspace_link(&format!("/users/{id}/messages{question}{query}"))
}

fn content(page: &Page, listed: &Listed) -> Markup {
    let Listed { user, send, last, .. } = listed;
    let id = user.service_id;
    let newer = (!listed.is_first_page).then(|| address(page, id, send, None));
    let older = last.as_ref().map(|last| address(page, id, send, Some(last)));
    html! {
        (head(page, id, Some((user, Tab::Messages)), html! {}))
        (filter(page, listed))
        @if let Some(reasons) = &listed.why_not { (why_not(page, reasons)) }
        section.panel aria-label="Messages" {
            @if listed.messages.is_empty() {
                (parts::empty(
                    if send.is_empty() { "No messages" } else { "No message of this send" },
                    "Messages appear here when a send selects the user, whatever their outcome. They \
                     are kept for some days (messages.keep_days).",
                ))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Outcome" }
                            th scope="col" { "Message" }
                            th scope="col" { "Channel" }
                            th scope="col" { "Reason" }
                            th.num scope="col" { "Created" }
                        }
                    }
                    tbody { @for message in &listed.messages { (row(page, message)) } }
                }
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
        p { (parts::runbook("docs/runbooks/user-asks-why.md")) }
        (terminal(page, listed))
    }
}

fn filter(page: &Page, listed: &Listed) -> Markup {
    let is_invalid = listed.errors.contains_key(SEND);
    let action = address(page, listed.user.service_id, "", None);
    html! {
        form.filters method="get" action=(action) {
            label.field {
                span.hint { "Send (dispatch_id)" }
                input.input name=(SEND) value=(parts::cut(&listed.send)) spellcheck="false"
                    autocomplete="off" aria-invalid=[is_invalid.then_some("true")]
                    aria-describedby=[is_invalid.then(|| parts::error_id(SEND))];
                (parts::field_error(&listed.errors, SEND))
            }
            button.button type="submit" { (icon("search")) "Show, and why not" }
            @if !listed.send.is_empty() { a.button.quiet href=(action) { "All messages" } }
        }
    }
}

fn why_not(page: &Page, reasons: &[Explanation]) -> Markup {
    html! {
        section.panel aria-label="Why not" {
            div.panel-head {
                h2 { "Why not" }
                span.hint { "the checks of the send, repeated with the data of now" }
            }
            div.panel-body {
                @if reasons.is_empty() {
                    p { "Nothing excludes the user: there is a message by each channel, or there will be." }
                } @else {
                    dl.facts {
                        @for Explanation { why, channel, due_at } in reasons {
                            div {
                                dt { "No message by " (channel.map_or("any channel", Channel::name)) }
                                dd {
                                    (why.in_words())
                                    @if let Some(due_at) = due_at { ": " (page.time(*due_at)) }
                                    ". " code.muted { (why.name()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// An outcome as a state.
fn badge(message: &UserMessage) -> Markup {
    let Some(outcome) = message.outcome() else {
        // A transactional email in progress, or accepted by its queue.
        return parts::badge(Tone::Running, "loader-circle", &parts::cut(&message.state));
    };
    outcome_look(outcome).badge()
}

/// What people call the message's send.
fn title(message: &UserMessage) -> &str {
    // A transactional email is always of a campaign, and has no dispatch.
    let is_transactional = message.attempts.is_none();
    let kind = if is_transactional {
        Some(ListedKind::Transactional)
    } else {
        message.dispatch_kind.map(ListedKind::from)
    };
    campaign_title(message.campaign_id.map(|_| message.campaign.as_deref()), kind)
}

fn row(page: &Page, message: &UserMessage) -> Markup {
    let dispatch = message.dispatch_id.simple();
    let title = title(message);
    // A transactional email has no send, and a send is deleted before its messages.
    let has_page = message.dispatch_state.is_some() && page.may(Right::MessagesView);
    let is_waiting = message.outcome() == Some(MessageOutcome::Waiting);
    html! {
        tr {
            td.c-state {
                (badge(message))
                @if let Some(attempts) = message.attempts.filter(|attempts| *attempts > 1) {
                    div.muted.small { (attempts) " attempts" }
                }
            }
            td.c-main {
                @if has_page {
                    a.title href=(labels::address(page, message.dispatch_id, "")) {
                        (parts::name(title))
                    }
                } @else {
                    span.title { (parts::name(title)) }
                }
                span.mono.sub { (dispatch) }
            }
            td data-label="Channel" { (message.channel.name()) }
            td.c-text data-label="Reason" {
                @if let Some(reason) = &message.reason { (parts::name(reason)) }
                @if let Some(next_at) = message.next_at.filter(|_| is_waiting) {
                    div.muted.small { "Next attempt " (page.time(next_at)) }
                }
            }
            td.num.c-time { (page.time(message.created_at)) }
        }
    }
}

fn terminal(page: &Page, listed: &Listed) -> Markup {
    let id = listed.user.service_id;
    let mut body = json!({ "service_id": id, "limit": PAGE });
    let mut command = workspace_command(page, "messages", &[], &[&id.to_string()]);
    if let (Ok(dispatch), true) = (Uuid::try_parse(&listed.send), listed.errors.is_empty()) {
        let dispatch = dispatch.simple().to_string();
        let options = [("dispatch", dispatch.as_str())];
        command = workspace_command(page, "messages --why", &options, &[&id.to_string()]);
        body["dispatch_id"] = Value::String(dispatch);
    }
    parts::terminal(&post(page, "/users/messages", &body), &command)
}

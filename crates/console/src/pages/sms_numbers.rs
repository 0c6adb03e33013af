//! The invalid phone numbers of a workspace (docs/how-to/console-pages.md): personal data, so each
//! view is in the audit log.
//!
//! Searches and further pages are POSTs: a number is in no address, and so in no log of a proxy and
//! not in the browser's history.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde_json::json;

use crate::page::Page;
use console_frame::error::PageError;
use console_frame::form::Form;
use console_frame::lists::KeyedView;
use console_frame::parts::{self, icon};
use console_frame::shell::{post, workspace_command};
use content::sms::{self, InvalidNumber};
use runtime::audit::Change;

/// Numbers on a page.
const PAGE: usize = 50;

/// The longest number, in digits.
const MAX_DIGITS: usize = 15;

/// The field of the search.
const NUMBER: &str = "number";

/// The hidden field with the number at which a page begins.
const FROM: &str = "from";

/// A page of the list, or a form with an error.
#[derive(Default)]
struct Listed {
    view: KeyedView,
    numbers: Vec<InvalidNumber>,
    /// The number at which the next page begins.
    next: Option<String>,
    errors: BTreeMap<String, String>,
}

/// `GET /w/{workspace}/sms-numbers`.
pub async fn show(page: Page) -> Result<Response, PageError> {
    list(&page, KeyedView::default()).await
}

/// `POST /w/{workspace}/sms-numbers`: a search, or another page.
pub async fn find(page: Page, form: Form) -> Result<Response, PageError> {
    let text = form.value(NUMBER);
    match read_search(text) {
        Ok(search) => list(&page, KeyedView { search, from: form.value(FROM).to_owned() }).await,
        Err(error) => {
            let view = KeyedView { search: parts::cut(text).into_owned(), ..KeyedView::default() };
            let errors = BTreeMap::from([(NUMBER.to_owned(), error)]);
            let listed = Listed { view, errors, ..Listed::default() };
            let response = page.html("SMS numbers", content(&page, &listed));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, response).into_response())
        }
    }
}

/// The digits with which a number begins, of what a person wrote.
fn read_search(text: &str) -> Result<String, String> {
    let is_gap = |c: char| c.is_whitespace() || matches!(c, '-' | '.' | '/' | '(' | ')');
    let text: String = text.chars().filter(|c| !is_gap(*c)).collect();
    // The international prefix, as people dial it.
    let digits = text.strip_prefix('+').or_else(|| text.strip_prefix("00")).unwrap_or(&text);
    let is_number = digits.len() <= MAX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        return Ok(digits.to_owned());
    }
    Err(format!("must be the beginning of a number: + and at most {MAX_DIGITS} digits"))
}

async fn list(page: &Page, view: KeyedView) -> Result<Response, PageError> {
    let workspace = page.workspace()?.id;
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = sms::list_from(&mut tx, workspace, view.start(), PAGE as i64 + 1).await?;
    tx.commit().await?;
    let (numbers, next) = view.page(found, PAGE, |found| &found.number);
    // Also without a result: that a number is not on the list says something of its user. Not the
    // numbers, which are those of users.
    let mut details = json!({ "numbers": numbers.len() });
    if !view.search.is_empty() {
        details["is_search"] = true.into();
    }
    let mut tx = page.app.request_queue.write().await?;
    page.record(&mut tx, Change::new("invalid_numbers.view", "", details)).await?;
    tx.commit().await?;
    let listed = Listed { view, numbers, next, ..Listed::default() };
    Ok(page.html("SMS numbers", content(page, &listed)))
}

fn content(page: &Page, listed: &Listed) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "SMS numbers" }
                p.muted {
                    "Invalid phone numbers: nothing is sent to them. To send to a number again, remove \
                     it over the API or with the command below. Each view of this page is in the audit \
                     log."
                }
            }
        }
        (search_form(page, listed))
        section.panel aria-label="Invalid numbers" {
            @if listed.numbers.is_empty() {
                (empty(listed))
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "Number" }
                            th scope="col" { "Reason" }
                            th.num scope="col" { "Added" }
                            th scope="col" { span.hidden-label { "User" } }
                        }
                    }
                    tbody { @for number in &listed.numbers { (row(page, number)) } }
                }
            }
            (pager(page, listed))
        }
        (terminal(page))
    }
}

fn search_form(page: &Page, listed: &Listed) -> Markup {
    let is_invalid = listed.errors.contains_key(NUMBER);
    html! {
        form.filters method="post" action=(page.workspace_link("/sms-numbers")) role="search" {
            (parts::form_token(page))
            div.field {
                label.hint for=(NUMBER) { "Number begins with" }
                input.input id=(NUMBER) name=(NUMBER) value=(listed.view.search) inputmode="tel"
                    autocomplete="off" placeholder="+49151"
                    aria-invalid=[is_invalid.then_some("true")]
                    aria-describedby=[is_invalid.then(|| parts::error_id(NUMBER))];
                (parts::field_error(&listed.errors, NUMBER))
            }
            button.button type="submit" { (icon("search")) "Search" }
        }
    }
}

fn empty(listed: &Listed) -> Markup {
    if !listed.errors.is_empty() {
        return parts::empty("No numbers", "Correct the search above.");
    }
    if !listed.view.search.is_empty() || !listed.view.is_first() {
        return parts::empty("No numbers here", "No number on the list matches.");
    }
    parts::empty(
        "No invalid numbers",
        "Numbers that a provider reports as invalid, and those that an operator adds, appear here.",
    )
}

fn row(page: &Page, listed: &InvalidNumber) -> Markup {
    let number = format!("+{}", listed.number);
    html! {
        tr {
            td.c-state { span.title { (number) } }
            td.c-text data-label="Reason" { (parts::name(&listed.reason)) }
            td.num.c-time { (page.time(listed.added_at)) }
            td.c-end.c-full {
                // The search for users takes its text in a form, too.
                form method="post" action=(page.workspace_link("/users")) {
                    (parts::form_token(page))
                    input type="hidden" name="identifier" value=(number);
                    button.button.quiet type="submit" {
                        "Find the user" span.hidden-label { " with " (number) }
                    }
                }
            }
        }
    }
}

/// The other pages, as forms.
fn pager(page: &Page, listed: &Listed) -> Markup {
    let is_first = listed.view.is_first();
    html! {
        @if !is_first || listed.next.is_some() {
            nav.pager aria-label="Pages" {
                span { "By number" }
                span.actions {
                    @if !is_first { (page_form(page, listed, "", "First")) }
                    @if let Some(next) = &listed.next { (page_form(page, listed, next, "Next")) }
                }
            }
        }
    }
}

fn page_form(page: &Page, listed: &Listed, from: &str, button: &str) -> Markup {
    html! {
        form method="post" action=(page.workspace_link("/sms-numbers")) {
            (parts::form_token(page))
            input type="hidden" name=(NUMBER) value=(listed.view.search);
            input type="hidden" name=(FROM) value=(from);
            button.button type="submit" { (button) }
        }
    }
}

/// The list, and how to remove a number from it. Without numbers, which people copy.
fn terminal(page: &Page) -> Markup {
    let body = json!({ "phone_numbers": ["+15550100"] });
    parts::terminal(
        &post(page, "/sms/invalid_phone_numbers/remove", &body),
        &format!(
            "{}\n{}",
            workspace_command(page, "invalid-numbers list", &[], &[]),
            workspace_command(page, "invalid-numbers remove", &[], &["+15550100"]),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_the_beginning_of_a_number() {
        for (text, digits) in [
            ("", ""),
            ("+", ""),
            ("+49 151", "49151"),
            ("0049 (151) 12-34", "491511234"),
            ("15550100", "15550100"),
        ] {
            assert_eq!(read_search(text).as_deref(), Ok(digits), "{text}");
        }
        for text in ["ann", "+49x", "++49", "1234567890123456", "٣٣"] {
            assert!(read_search(text).is_err(), "{text}");
        }
    }
}

//! The files of an export, and the users who could not be read.

use maud::{Markup, html};
use url::form_urlencoded;

use super::{BROKEN_USERS, Shown};
use crate::page::Page;
use console_frame::parts::{self, Look, Tone};
use console_frame::rights::Right;
use exports::rows::ListedPart;

pub fn section(page: &Page, shown: &Shown) -> Markup {
    let progress = &shown.export.progress;
    let Some(total) = progress.parts else { return html! {} };
    let is_retried = shown.view.retried.is_some();
    // An export that has ended keeps no rows of its files.
    if shown.files.is_empty() && !is_retried && shown.view.after.is_none() {
        return html! {};
    }
    let address = |after: Option<i64>, retried: bool| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if retried {
            query.append_pair("retried", "1");
        }
        if let Some(after) = after {
            query.append_pair("after", &after.to_string());
        }
        shown.address(page, &format!("?{}#files", query.finish()))
    };
    let left = progress.parts_left.unwrap_or(total);
    let first = shown.view.after.map(|_| address(None, is_retried));
    let last = shown.files.last().filter(|_| shown.has_more_files);
    let next = last.map(|file| address(Some(file.part), is_retried));
    html! {
        section.panel id="files" {
            div.panel-head {
                h2 { "Files" }
                span.muted.small {
                    (parts::number(total - left)) " written, " (parts::number(left)) " left"
                }
            }
            nav.chips aria-label="Filter files" {
                a.chip href=(address(None, false)) aria-current=[(!is_retried).then_some("true")] {
                    "All"
                }
                a.chip href=(address(None, true)) aria-current=[is_retried.then_some("true")] {
                    "With more than one attempt"
                }
            }
            @if shown.files.is_empty() {
                p.panel-body.muted { "No file needed more than one attempt." }
            } @else {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "File" }
                            th scope="col" { "State" }
                            th.num scope="col" { "Attempts" }
                            th.num scope="col" { "Users" }
                            th.num scope="col" { "Size" }
                        }
                    }
                    tbody {
                        @for file in &shown.files {
                            (file_row(file, progress.state.is_final()))
                        }
                    }
                }
            }
            @if first.is_some() || next.is_some() {
                nav.pager aria-label="Pages of files" {
                    span {}
                    span.actions {
                        @if let Some(address) = first { a.button href=(address) { "First" } }
                        @if let Some(address) = next { a.button href=(address) { "Next" } }
                    }
                }
            }
        }
    }
}

fn file_row(file: &ListedPart, has_ended: bool) -> Markup {
    let state = if file.done {
        Look::good("Written")
    } else if has_ended {
        Look::new(Tone::Neutral, "circle", "Not written")
    } else if file.is_held {
        Look::running("In progress")
    } else if file.attempts > 0 {
        Look::new(Tone::Warning, "clock", "Waits for another attempt")
    } else {
        Look::new(Tone::Neutral, "clock", "Waits")
    };
    html! {
        tr {
            td data-label="File" { span.mono { (format!("{:06}", file.part)) } }
            td data-label="State" { (state.badge()) }
            td.num data-label="Attempts" { (file.attempts) }
            td.num data-label="Users" {
                (file.users.map_or_else(String::new, parts::number))
            }
            td.num data-label="Size" { (file.bytes.map_or_else(String::new, parts::bytes)) }
        }
    }
}

pub fn broken_users(page: &Page, shown: &Shown) -> Markup {
    let count = shown.export.progress.broken_users;
    let shows_reasons = page.may(Right::SystemView);
    html! {
        @if count > 0 {
            section.panel {
                div.panel-head {
                    h2 { "Unreadable profiles" }
                    span.muted.small { (parts::count_of(count, "user", "users")) }
                }
                table.list {
                    thead {
                        tr {
                            th scope="col" { "service_id" }
                            @if shows_reasons { th scope="col" { "Reason" } }
                        }
                    }
                    tbody {
                        @for (id, reason) in &shown.broken_users {
                            tr {
                                td.mono data-label="service_id" { (id) }
                                @if shows_reasons {
                                    td.c-full data-label="Reason" { (parts::name(reason)) }
                                }
                            }
                        }
                    }
                }
                @if count > BROKEN_USERS {
                    p.panel-foot { "The first " (BROKEN_USERS) " are shown." }
                }
            }
        }
    }
}

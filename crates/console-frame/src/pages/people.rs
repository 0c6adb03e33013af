//! The sessions of people.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::sign_in::signed_out;
use crate::error::PageError;
use crate::lists::first_rows;
use crate::page::Page;
use crate::parts;
use crate::rights::Right;
use crate::session::{self, IDLE_HOURS, LONGEST_DAYS, Session};
use runtime::audit;

/// Rows on a page.
const PAGE: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SessionsQuery {
    before: Option<Uuid>,
    /// Only sessions of this person.
    person: Option<String>,
}

/// The person's own sessions; those of all people with the right for that.
pub async fn sessions(
    page: Page,
    Query(query): Query<SessionsQuery>,
) -> Result<Response, PageError> {
    let sees_all = page.may(Right::SessionsManage);
    let (person, user_id) =
        if sees_all { (query.person.as_deref(), None) } else { page.viewer.owner() };
    let filter = session::Filter {
        person: person.map(str::to_owned),
        user_id,
        before: query.before,
        limit: PAGE as i64 + 1,
    };
    let mut tx = page.app.request_queue.snapshot().await?;
    let found = session::list(&mut tx, page.now_ms(), &filter).await?;
    tx.commit().await?;
    let (found, has_more) = first_rows(found, PAGE);
    let address = |before: Option<Uuid>| {
        let before = before.map(|before| ("before", before.to_string()));
        let person = query.person.iter().map(|person| ("person", person.clone()));
        let query =
            Serializer::new(String::new()).extend_pairs(before).extend_pairs(person).finish();
        page.link(&format!("/people/sessions?{query}"))
    };
    let older = found.last().filter(|_| has_more).map(|last| address(Some(last.id)));
    let newer = query.before.map(|_| address(None));
    let about = match (sees_all, &query.person) {
        (true, Some(person)) => html! { "Where " (parts::name(person)) " is signed in." },
        (true, None) => html! { "Who is signed in." },
        (false, _) => html! { "Where you are signed in." },
    };
    let content = html! {
        div.head {
            div.head-title {
                h1 { "Sessions" }
                p.muted {
                    (about) " A session ends after " (IDLE_HOURS) " hours without use, and after "
                    (LONGEST_DAYS) " days."
                }
            }
        }
        section.panel aria-label="Sessions" {
            table.list {
                thead {
                    tr {
                        th { "Browser" }
                        th { "From" }
                        th { "Signed in" }
                        th { "Last seen" }
                        th { span.hidden-label { "Action" } }
                    }
                }
                tbody { @for session in &found { (session_row(&page, session)) } }
            }
            @if found.is_empty() {
                (parts::empty("No sessions", "A session appears here when somebody signs in."))
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
        (parts::terminal("", "longshore console sessions\nlongshore console sign-out SESSION"))
    };
    Ok(page.html("Sessions", content))
}

fn session_row(page: &Page, session: &Session) -> Markup {
    let is_own = session.id == page.viewer.session_id;
    let browser = browser(&session.user_agent);
    let action = page.link(&format!("/people/sessions/{}/end", session.id));
    html! {
        tr {
            td.c-main {
                span.title title=(parts::cut(&session.user_agent)) { (browser) }
                span.sub { (parts::name(&session.person)) }
            }
            td data-label="From" { (session.address) }
            td data-label="Signed in" { (page.time(session.created_at)) }
            td data-label="Last seen" { (page.time(session.last_seen_at)) }
            td.c-end.c-full {
                @if is_own {
                    span.mark.plain { "This session" }
                } @else {
                    form method="post" action=(action) {
                        (parts::form_token(page))
                        button.button type="submit" {
                            "Sign out" span.hidden-label { " " (session.person) ", " (browser) }
                        }
                    }
                }
            }
        }
    }
}

/// The name of a browser and of its system, from its `User-Agent`.
fn browser(user_agent: &str) -> String {
    let find = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| user_agent.contains(part)).map(|(_, name)| *name)
    };
    // Each pretends to be those below it.
    let browser = find(&[
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
        ("curl/", "curl"),
    ]);
    let system = find(&[
        ("Windows", "Windows"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Android", "Android"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ]);
    match (browser, system) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => "Unknown browser".to_owned(),
    }
}

/// Ends a session: an own one, or with the right for that anyone's.
pub async fn end_session(page: Page, Path(id): Path<String>) -> Result<Response, PageError> {
    let id = Uuid::try_parse(&id).map_err(|_| PageError::NotFound)?;
    let app = &page.app;
    let viewer = (!page.may(Right::SessionsManage)).then_some(&page.viewer);
    let mut tx = app.request_queue.write().await?;
    let Some(person) = session::end(&mut tx, id, viewer).await? else {
        return Err(PageError::NotFound);
    };
    let entry = page.audit("console.session_end", id.to_string(), json!({"person": person}));
    audit::record(&mut tx, page.now_ms(), &entry).await?;
    tx.commit().await?;
    if id == page.viewer.session_id {
        return Ok(signed_out(app));
    }
    Ok(page.redirect("/people/sessions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_recognized() {
        for (agent, name) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like \
                 Gecko) Chrome/130.0.0.0 Safari/537.36",
                "Chrome on macOS",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 \
                 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            ("curl/8.5.0", "curl"),
            ("", "Unknown browser"),
            ("<script>", "Unknown browser"),
        ] {
            assert_eq!(browser(agent), name, "{agent}");
        }
    }
}

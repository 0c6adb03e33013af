//! What was done and what waited, over a day, a month or a year: of a workspace, and of the whole
//! installation.

mod span;

use axum::extract::RawQuery;
use axum::response::Response;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use url::form_urlencoded;

use self::span::Span;
use crate::page::Page;
use console_frame::chart::{Chart, Series, Times, Unit};
use console_frame::error::PageError;
use console_frame::page::VisibleWorkspace;
use console_frame::parts;
use console_frame::rights::Right;
use console_frame::shell::workspace_command;
use runtime::history::{self, History, Metric, Rollup};
use store::{StoreError, Tx, claims};

/// Workspaces whose values an overview adds up, for a person without rights in all of them.
const MAX_ADDED: usize = 5;

/// `GET /history` and `GET /w/{workspace}/history`.
pub async fn show(page: Page, RawQuery(query): RawQuery) -> Result<Response, PageError> {
    let span = read_span(query.as_deref().unwrap_or_default()).map_err(PageError::Invalid)?;
    let workspace = page.workspace_if_any().map(|workspace| workspace.id);
    let (times, histories) =
        read(&page, |now, zone| span.times(now, zone), &[&[workspace]]).await?;
    let charts = histories.iter().flat_map(|history| charts(&page, &times, history)).collect();
    Ok(page.html("History", content(&page, span, charts)))
}

/// Unknown parameters are ignored.
fn read_span(query: &str) -> Result<Span, String> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let Some((_, value)) = parameters.find(|(name, _)| name == "span") else {
        return Ok(Span::Day);
    };
    Span::from_name(&value).ok_or_else(|| {
        let names = Span::ALL.map(Span::name).join(", ");
        format!("span must be one of {names}, not {value:?}")
    })
}

/// Workspaces whose values are added up; none stands for the whole installation.
type Scope<'a> = &'a [Option<i32>];

/// The values of several scopes at the same time.
async fn read(
    page: &Page,
    times: impl Fn(i64, &TimeZone) -> Times,
    scopes: &[Scope<'_>],
) -> Result<(Times, Vec<History>), StoreError> {
    let mut tx = page.app.request_queue.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    let times = times(now, &page.viewer.preferences.zone);
    let mut found: Vec<History> = Vec::new();
    for (index, scope) in scopes.iter().enumerate() {
        let same = scopes[..index].iter().position(|earlier| earlier == scope);
        found.push(match same {
            Some(same) => found[same].clone(),
            None => read_scope(&mut tx, &times, scope).await?,
        });
    }
    tx.commit().await?;
    Ok((times, found))
}

async fn read_scope(tx: &mut Tx, times: &Times, scope: Scope<'_>) -> Result<History, StoreError> {
    let mut sum: Option<History> = None;
    for workspace in scope {
        let history = history::read(tx, *workspace, &times.window).await?;
        match &mut sum {
            Some(sum) => sum.add(&history),
            None => sum = Some(history),
        }
    }
    Ok(sum.unwrap_or_default())
}

/// The charts that the person may see, of a workspace or of the installation.
fn charts<'a>(page: &'a Page, times: &'a Times, history: &History) -> Vec<Chart<'a>> {
    let mut charts = Vec::new();
    if page.may(Right::ExportsView) {
        charts.push(exports(page, times, history));
        let users = ("Users", Metric::UsersExported);
        charts.push(chart(page, times, history, ("users", "Users exported"), &[users]));
    }
    if page.may(Right::MessagesView) {
        charts.push(messages(page, times, history));
    }
    if page.may(Right::SystemView) {
        let objects = ("Objects", Metric::ObjectsApplied);
        let title = ("objects", "Attributes, events and purchases applied");
        charts.push(chart(page, times, history, title, &[objects]));
    }
    if page.may(Right::SystemView) && page.workspace_if_any().is_none() {
        charts.push(lag(page, times, history));
        let oldest = [("Oldest work", Metric::OldestWorkMs)];
        charts.push(Chart {
            unit: Unit::Duration,
            ..chart(page, times, history, ("oldest-work", "Wait of the oldest work"), &oldest)
        });
        let letters = [("Dead letters", Metric::DeadLetters)];
        charts.push(chart(page, times, history, ("dead-letters", "Dead letters"), &letters));
    }
    charts
}

type MakeChart = for<'a> fn(&'a Page, &'a Times, &History) -> Chart<'a>;

fn exports<'a>(page: &'a Page, times: &'a Times, history: &History) -> Chart<'a> {
    let series = [("Completed", Metric::ExportsDone), ("Failed", Metric::ExportsFailed)];
    chart(page, times, history, ("export-history", "Exports"), &series)
}

fn messages<'a>(page: &'a Page, times: &'a Times, history: &History) -> Chart<'a> {
    let series = [("Sent", Metric::MessagesSent), ("Failed", Metric::MessagesFailed)];
    chart(page, times, history, ("message-history", "Messages"), &series)
}

fn lag<'a>(page: &'a Page, times: &'a Times, history: &History) -> Chart<'a> {
    let series = [("Entries", Metric::LogBehind)];
    chart(page, times, history, ("lag-history", "Entries of the log not applied yet"), &series)
}

/// A chart of counts: its id and title, and the names of its series.
fn chart<'a>(
    page: &'a Page,
    times: &'a Times,
    history: &History,
    (id, title): (&'static str, &'static str),
    series: &[(&'static str, Metric)],
) -> Chart<'a> {
    let rollup = series.first().map_or(Rollup::Sum, |(_, metric)| metric.rollup());
    let shown =
        series.iter().map(|(name, metric)| Series { name, values: history.values(*metric) });
    Chart {
        id,
        title,
        unit: Unit::Count,
        rollup,
        series: shown.collect(),
        times,
        since: history.since,
        zone: &page.viewer.preferences.zone,
    }
}

fn content(page: &Page, span: Span, charts: Vec<Chart<'_>>) -> Markup {
    html! {
        div.head {
            div.head-title {
                h1 { "History" }
                p.muted {
                    @match page.workspace_if_any() {
                        Some(workspace) => (parts::name(&workspace.name)),
                        None => "The whole installation",
                    }
                }
            }
            @if page.workspace_if_any().is_some() && page.viewer.rights.has(Right::SystemView, None) {
                div.actions { a.button href=(page.link("/history")) { "The whole installation" } }
            }
        }
        nav.chips aria-label="Time" {
            @for other in Span::ALL {
                @let current = (other == span).then_some("page");
                a.chip href=(address(page, other)) aria-current=[current] { (other.title()) }
            }
        }
        @if charts.is_empty() {
            @let text = "You have no right to see exports or messages here. Ask an operator for a link \
                         with another role.";
            section.panel { (parts::empty("Nothing to show", text)) }
        } @else {
            div.columns.two { @for chart in &charts { (chart.panel(html! {})) } }
            p.muted.small {
                "Tables have a row for each " (span.rows()) ". Minutes are kept for a day, hours for a \
                 year."
            }
        }
        (terminal(page, span))
    }
}

/// The address of the page of here.
fn path(page: &Page) -> String {
    match page.workspace_if_any() {
        Some(_) => page.workspace_link("/history"),
        None => page.link("/history"),
    }
}

fn address(page: &Page, span: Span) -> String {
    format!("{}?span={}", path(page), span.name())
}

fn terminal(page: &Page, span: Span) -> Markup {
    let options: &[_] = match span {
        Span::Day => &[("by", "hour")],
        Span::Month => &[("by", "day"), ("since", "30d")],
        Span::Year => &[("by", "day"), ("since", "365d")],
    };
    parts::terminal("", &workspace_command(page, "history", options, &[]))
}

/// The charts of the last 24 hours for an overview. The workspaces are those in which the person
/// may see exports and messages; none stands for all of them.
pub async fn overview(
    page: &Page,
    with_exports: Scope<'_>,
    with_messages: Scope<'_>,
    workspaces: &[VisibleWorkspace],
) -> Result<Markup, StoreError> {
    let is_few = |scope: Scope<'_>| (1..=MAX_ADDED).contains(&scope.len());
    let is_operator = page.may(Right::SystemView);
    let kinds: [(bool, Scope<'_>, MakeChart); 3] = [
        (is_few(with_exports), with_exports, exports),
        (is_few(with_messages), with_messages, messages),
        (is_operator, &[None], lag),
    ];
    let shown: Vec<_> = kinds.into_iter().filter(|(is_shown, ..)| *is_shown).collect();
    if shown.is_empty() {
        return Ok(html! {});
    }
    let scopes: Vec<Scope<'_>> = shown.iter().map(|(_, scope, _)| *scope).collect();
    let (times, histories) = read(page, Span::short_day, &scopes).await?;
    let address = match workspaces {
        [workspace] if !is_operator => Some(page.link_in(&workspace.name, "/history")),
        _ => is_operator.then(|| page.link("/history")),
    };
    Ok(html! {
        section.past aria-labelledby="last-24-hours" {
            div.past-head {
                h2 id="last-24-hours" { "The last 24 hours" }
                @if let Some(address) = address { a.link href=(address) { "History" } }
            }
            div.columns.three {
                @for ((_, _, chart), history) in shown.iter().zip(&histories) {
                    (chart(page, &times, history).panel(html! {}))
                }
            }
        }
    })
}

/// How much was behind in the log in the last 24 hours, of the whole installation.
pub async fn lag_panel(page: &Page) -> Result<Markup, StoreError> {
    let (times, histories) = read(page, Span::short_day, &[&[None]]).await?;
    let link = html! { a.link href=(page.link("/history")) { "History" } };
    Ok(html! {
        @for history in &histories { (lag(page, &times, history).panel(link.clone())) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_a_day_unless_the_address_has_another_one() {
        assert_eq!(read_span(""), Ok(Span::Day));
        assert_eq!(read_span("span=year&other=1"), Ok(Span::Year));
        assert_eq!(read_span("other=1"), Ok(Span::Day));
        let error = read_span("span=%3Cscript%3E").unwrap_err();
        assert!(error.contains("day, month, year"), "{error}");
    }
}

//! The activity of a user: sums, and a timeline in pages by key.

use jiff::ToSpan as _;
use maud::{Markup, html};
use uuid::Uuid;

use crate::page::Page;
use console_frame::lists::first_rows;
use console_frame::parts::{self, icon};
use gateway::paging;
use kit::clock::{from_ms, parse_time, utc_date};
use kit::money;
use people::users::activity::timeline::{self, Entry, EntryKind, Key};
use people::users::activity::{Activity, KEPT_DAYS, Summary, WINDOW_DAYS};
use people::users::profile::{Field, Profile};

/// Entries on a page.
const PAGE: usize = 50;

/// Currencies that a page lists.
const MAX_CURRENCIES: usize = 20;

/// Which part of a user's activity a page shows.
pub struct ActivityView<'a> {
    pub id: Uuid,
    pub activity: &'a Activity<'a>,
    /// Has the sessions.
    pub profile: Option<&'a Profile>,
    pub after: Option<Key>,
}

/// What the user bought and did, in numbers.
pub fn sums(page: &Page, activity: &Activity<'_>) -> Markup {
    let today = utc_date(from_ms(page.now_ms()));
    let first_day = today.saturating_sub((WINDOW_DAYS - 1).days());
    let bought = Sum::from_summaries(activity.purchases(first_day, today));
    let seen = Sum::from_summaries(activity.events(first_day, today));
    let text = |sum: &Sum, names: (&str, &str)| {
        let names = parts::count_of(sum.names, names.0, names.1);
        html! { (parts::number(sum.count)) span.muted { " · " (names) } }
    };
    let mut facts = vec![
        ("Revenue", revenue(page, activity)),
        ("Purchases", text(&bought, ("product", "products"))),
        (
            "Last purchase",
            html! { @if let Some(at) = bought.last { (page.time(at)) } @else { "None" } },
        ),
        ("Events", text(&seen, ("name", "names"))),
    ];
    let by_currency: Vec<(&str, i64)> = activity.revenue().take(MAX_CURRENCIES).collect();
    if by_currency.len() > 1 {
        facts.insert(
            1,
            (
                "By currency",
                html! {
                    @for (index, (currency, millionths)) in by_currency.iter().enumerate() {
                        @if index > 0 { ", " }
                        span.nowrap { (money::format(*millionths)) " " (currency) }
                    }
                },
            ),
        );
    }
    html! {
        section.panel aria-label="Sums" {
            div.panel-head { h2 { "Purchases and events" } span.hint { "last " (WINDOW_DAYS) " days; revenue of all time" } }
            div.panel-body { (parts::facts(&facts)) }
        }
    }
}

/// The occurrences of several names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    names: i64,
    count: i64,
    last: Option<i64>,
}

impl Sum {
    fn from_summaries<'a>(summaries: impl Iterator<Item = Summary<'a>>) -> Self {
        summaries.fold(Self::default(), |sum, summary| Self {
            names: sum.names + 1,
            count: sum.count.saturating_add(i64::try_from(summary.count).unwrap_or(i64::MAX)),
            last: sum.last.max(Some(summary.last)),
        })
    }
}

fn revenue(page: &Page, activity: &Activity<'_>) -> Markup {
    let Some(workspace) = page.workspace_if_any() else { return html! {} };
    let total = activity.total_revenue(&workspace.currency, &workspace.exchange_rates);
    html! {
        @match total {
            Some(total) => {
                (money::format(total.millionths)) " " (workspace.currency)
                @if !total.uncounted.is_empty() {
                    span.muted { " · without " (parts::cut(&total.uncounted.join(", "))) ", whose rates are unknown" }
                }
            }
            None => { "None" }
        }
    }
}

/// Purchases, events and sessions, the latest first: an entry for each name and day.
pub fn timeline(page: &Page, view: &ActivityView<'_>) -> Markup {
    let entries = view.activity.entries().chain(view.profile.into_iter().flat_map(sessions));
    let (entries, has_more) = first_rows(timeline::page(entries, view.after, PAGE + 1), PAGE);
    let address = |query: &str| page.workspace_link(&format!("/users/{}{query}#activity", view.id));
    let newer = view.after.map(|_| address(""));
    let last = entries.last().filter(|_| has_more);
    let older = last.map(|last| address(&format!("?after={}", paging::cursor(&last.key()))));
    html! {
        section.panel id="activity" aria-label="Activity" {
            div.panel-head {
                h2 { "Activity" }
                span.hint { "by name and day; kept for " (KEPT_DAYS) " days" }
            }
            @if entries.is_empty() {
                (parts::empty(
                    "No activity",
                    "Purchases and events that are tracked or imported appear here, and the first and \
                     the last session.",
                ))
            } @else {
                div.panel-body {
                    ol.timeline { @for entry in &entries { (item(page, entry)) } }
                }
            }
            (parts::pager(newer.as_deref(), older.as_deref()))
        }
    }
}

/// The sessions that a profile has.
fn sessions(profile: &Profile) -> impl Iterator<Item = Entry<'_>> {
    let fields =
        [(Field::DateOfFirstSession, "First session"), (Field::DateOfLastSession, "Last session")];
    fields.into_iter().filter_map(|(field, name)| {
        let at = parse_time(&profile.text(field)?).ok()?;
        Some(Entry { kind: EntryKind::Session, name, first: at, last: at, count: 1 })
    })
}

fn item(page: &Page, entry: &Entry<'_>) -> Markup {
    let (icon_name, kind) = match entry.kind {
        EntryKind::Purchase => ("shopping-bag", "Purchase"),
        EntryKind::Event => ("activity", "Event"),
        EntryKind::Session => ("monitor", "Session"),
    };
    let zone = &page.viewer.preferences.zone;
    let count = i64::try_from(entry.count).unwrap_or(i64::MAX);
    html! {
        li {
            (icon(icon_name))
            b { (parts::name(entry.name)) }
            (page.time(entry.last))
            span {
                (kind)
                @if count > 1 {
                    ", " (parts::number(count)) " times since " (parts::exact_time(entry.first, zone))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_all_names() {
        let summary = |name, last, count| Summary { name, first: 1, last, count };
        let sum = Sum::from_summaries([summary("a", 5, 2), summary("b", 3, u64::MAX)].into_iter());
        assert_eq!(sum, Sum { names: 2, count: i64::MAX, last: Some(5) });
        assert_eq!(Sum::from_summaries(std::iter::empty()), Sum::default());
    }

    #[test]
    fn sessions_are_read_from_the_profile() {
        let document =
            r#"{"date_of_first_session":"2026-01-01T10:00:00.000Z","date_of_last_session":"?"}"#;
        let profile = Profile::parse(document).unwrap();
        let found: Vec<_> = sessions(&profile).map(|entry| (entry.name, entry.count)).collect();
        assert_eq!(found, [("First session", 1)]);
    }
}

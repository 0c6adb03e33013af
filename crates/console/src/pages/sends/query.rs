//! Which sends the list shows: its parameters.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use url::form_urlencoded;
use uuid::Uuid;

use crate::page::Page;
use dispatches::{Filter, ListPosition, ListedKind};
use gateway::paging::{self, CURSOR};
use messages::dispatch::State;

/// The view that an address selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub state: Option<State>,
    /// None: all but transactional emails, unless the campaign is transactional.
    pub kind: Option<ListedKind>,
    pub campaign: Option<Uuid>,
    /// When the sends were accepted, in milliseconds since the epoch.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// The last send of the page before.
    pub after: Option<ListPosition>,
}

/// The workspace, and the parts of a [`View`].
pub type ListKey =
    (i32, [Option<&'static str>; 2], Option<Uuid>, [Option<i64>; 2], Option<(i64, Uuid)>);

/// Messages about fields of the filter, by their names.
pub type Errors = BTreeMap<String, String>;

impl View {
    /// Reads the parameters; times without a zone are in `zone`. Ignores unknown parameters. An
    /// error about a field of the filter is among the messages; another one names its parameter.
    pub fn read(query: &str, zone: &TimeZone) -> Result<(Self, Errors), String> {
        let (mut view, mut errors) = (Self::default(), Errors::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            match name.as_ref() {
                "state" => {
                    let state = State::from_name(value).ok_or_else(|| {
                        let names = State::ALL.map(State::name).join(", ");
                        format!("state must be one of {names}, not {value:?}")
                    })?;
                    view.state = Some(state);
                }
                "kind" => {
                    let kind = ListedKind::from_name(value).ok_or_else(|| {
                        let names = ListedKind::ALL.map(ListedKind::name).join(", ");
                        format!("kind must be one of {names}, not {value:?}")
                    })?;
                    view.kind = Some(kind);
                }
                "campaign" => match Uuid::try_parse(value) {
                    Ok(id) => view.campaign = Some(id),
                    Err(_) => {
                        errors.insert(name.into(), "must be the id of a campaign".to_owned());
                    }
                },
                "since" | "until" => match read_time(value, zone) {
                    Some(at) if name == "since" => view.since = Some(at),
                    Some(at) => view.until = Some(at),
                    None => {
                        let text = "must be a date and time, such as 2026-11-24T15:00";
                        errors.insert(name.into(), text.to_owned());
                    }
                },
                "cursor" => {
                    let position = paging::read_cursor(value);
                    view.after = Some(position.ok_or_else(|| format!("cursor must be {CURSOR}"))?);
                }
                _ => {}
            }
        }
        if view.range().is_none() {
            errors.insert("until".to_owned(), "must be later than the other time".to_owned());
        }
        Ok((view, errors))
    }

    /// The times of the sends; none if it is empty.
    fn range(&self) -> Option<Range<i64>> {
        let range = self.since.unwrap_or(i64::MIN)..self.until.unwrap_or(i64::MAX);
        (!range.is_empty()).then_some(range)
    }

    pub fn filter(&self, workspace: i32, limit: i64) -> Filter {
        Filter {
            workspace: Some(workspace),
            state: self.state,
            kind: self.kind,
            campaign_id: self.campaign,
            accepted: self.range().unwrap_or(0..0),
            after: self.after.unwrap_or(ListPosition::START),
            limit,
        }
    }

    pub fn key(&self, workspace: i32) -> ListKey {
        let after = self.after.map(|after| (after.accepted_at, after.id));
        let times = [self.since, self.until];
        let names = [self.state.map(State::name), self.kind.map(ListedKind::name)];
        (workspace, names, self.campaign, times, after)
    }

    /// Whether it selects some of all sends.
    pub fn is_filtered(&self) -> bool {
        *self != Self { after: self.after, ..Self::default() }
    }

    /// The filter as parameters with these names for the campaign and the times.
    pub fn parameters(&self, campaign: &'static str) -> Vec<(&'static str, String)> {
        let state = self.state.map(|state| ("state", state.name().to_owned()));
        let kind = self.kind.map(|kind| ("kind", kind.name().to_owned()));
        let campaign = self.campaign.map(|id| (campaign, id.to_string()));
        let since = self.since.map(|at| ("since", utc(at)));
        let until = self.until.map(|at| ("until", utc(at)));
        [state, kind, campaign, since, until].into_iter().flatten().collect()
    }

    /// The address of the view.
    pub fn address(&self, page: &Page) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.parameters("campaign"));
        if let Some(after) = &self.after {
            query.append_pair("cursor", &paging::cursor(after));
        }
        let query = query.finish();
        let question = if query.is_empty() { "" } else { "?" };
        page.workspace_link(&format!("/sends{question}{query}"))
    }
}

/// A time in ISO 8601; without a zone, in `zone`.
fn read_time(text: &str, zone: &TimeZone) -> Option<i64> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_millisecond());
    }
    let local: DateTime = text.parse().ok()?;
    Some(local.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond())
}

/// A time in ISO 8601, in UTC.
fn utc(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |at| at.to_string())
}

/// A time for a field of a form, which has no zone.
pub fn local(ms: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| String::new(),
        |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<(View, Errors), String> {
        View::read(query, &TimeZone::get("Europe/Berlin").unwrap())
    }

    #[test]
    fn times_without_a_zone_are_those_of_the_person() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let (view, errors) = read("since=2026-11-24T15:00&until=2026-11-24T15:00:00Z").unwrap();
        assert_eq!(view.since, Some(at("2026-11-24T14:00:00Z")));
        assert_eq!(view.until, Some(at("2026-11-24T15:00:00Z")));
        assert!(errors.is_empty());
        assert_eq!(local(at("2026-11-24T14:00:00Z"), &TimeZone::UTC), "2026-11-24T14:00");
    }

    #[test]
    fn an_address_leads_back_to_its_view() {
        let view = View {
            state: Some(State::Done),
            kind: Some(ListedKind::Transactional),
            campaign: Some(Uuid::from_u128(7)),
            since: Some(1_795_249_527_123),
            until: None,
            after: Some(ListPosition { accepted_at: 5, id: Uuid::from_u128(9) }),
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(view.parameters("campaign"));
        query.append_pair("cursor", &paging::cursor(&view.after));
        assert_eq!(read(&query.finish()), Ok((view.clone(), Errors::new())));
        assert!(view.is_filtered());
        assert!(!View { after: view.after, ..View::default() }.is_filtered());
    }

    #[test]
    fn errors_are_about_their_fields() {
        for (query, name) in [
            ("campaign=x", "campaign"),
            ("since=yesterday", "since"),
            ("until=1", "until"),
            ("since=2026-01-02&until=2026-01-01", "until"),
        ] {
            let (_, errors) = read(query).unwrap();
            assert_eq!(errors.keys().collect::<Vec<_>>(), [name], "{query}");
        }
        for (query, name) in
            [("state=lost", "state "), ("kind=email", "kind "), ("cursor=x", "cursor ")]
        {
            assert!(read(query).expect_err(query).starts_with(name), "{query}");
        }
        assert_eq!(read("state=&campaign=&since="), Ok((View::default(), Errors::new())));
    }
}

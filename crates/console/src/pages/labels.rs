//! How pages name sends, their audiences, channels, outcomes and users.

use maud::{Markup, html};

use crate::page::Page;
use console_frame::parts::{self, Look, Tone};
use dispatches::{DispatchAudience, DispatchSummary, ListedKind};
use gateway::workspaces::Channel;
use messages::dispatch::{MessageOutcome, OutcomeFilter, State};
use uuid::Uuid;

/// How a state is shown.
pub fn look(state: State) -> Look {
    match state {
        State::Planning => Look::running("Planning"),
        State::Running => Look::running("Running"),
        State::Done => Look::good("Done"),
        State::Failed => Look::bad("Failed"),
        State::Cancelling => Look::new(Tone::Warning, "loader-circle", "Cancelling"),
        State::Cancelled => Look::ended("Cancelled"),
    }
}

/// What people call a send: its campaign's name.
pub fn title(send: &DispatchSummary) -> &str {
    let campaign = send.campaign_id.map(|_| send.campaign.as_deref());
    campaign_title(campaign, Some(send.kind))
}

/// The name of the campaign or Canvas of a send. `campaign` is none without one, and its name is
/// none if it was removed. `kind` is none if the send was deleted.
pub fn campaign_title(campaign: Option<Option<&str>>, kind: Option<ListedKind>) -> &str {
    match (campaign, kind) {
        (Some(Some(name)), _) => name,
        (Some(None), Some(ListedKind::Canvas)) => "Removed Canvas",
        (Some(None), Some(_)) => "Removed campaign",
        (Some(None), None) => "Removed campaign or Canvas",
        (None, Some(ListedKind::LiveActivity)) => "Live activity",
        (None, _) => "Without a campaign",
    }
}

/// What caused a send.
pub fn cause(kind: ListedKind) -> &'static str {
    match kind {
        ListedKind::Send => "Request",
        ListedKind::Schedule => "Schedule",
        ListedKind::Canvas => "Canvas",
        ListedKind::Triggered => "Purchase",
        ListedKind::LiveActivity => "Live activity",
        ListedKind::Transactional => "Transactional email",
    }
}

/// The users of a send. `users` is their number, if they are listed.
pub fn audience(audience: &DispatchAudience, users: i64) -> String {
    let text = match audience.kind {
        "users" => parts::count_of(users, "listed user", "listed users"),
        "segment" => match &audience.segment_name {
            Some(name) => format!("Segment {name}"),
            None => "Removed segment".to_owned(),
        },
        "recipients" => "Recipients of another send".to_owned(),
        "audience" => "Audience of the request".to_owned(),
        _ => "All users".to_owned(),
    };
    let is_limited = audience.is_limited && audience.kind != "audience";
    if is_limited { format!("{text}, limited by an audience") } else { text }
}

/// The channels of a send, in one line.
pub fn channels(channels: &[Channel]) -> String {
    channels.iter().map(|channel| channel_name(*channel)).collect::<Vec<_>>().join(", ")
}

pub fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::ApplePush => "Apple push",
        Channel::AndroidPush => "Android push",
        Channel::KindlePush => "Kindle push",
        Channel::WebPush => "Web push",
        Channel::Email => "Email",
        Channel::Webhook => "Webhook",
        Channel::ContentCard => "Content card",
        Channel::Sms => "SMS",
        Channel::WhatsApp => "WhatsApp",
        Channel::LiveActivity => "Live activity",
    }
}

/// How an outcome is shown.
pub fn outcome_look(outcome: MessageOutcome) -> Look {
    match outcome {
        MessageOutcome::Waiting => Look::new(Tone::Running, "clock", "Waiting"),
        MessageOutcome::Sent => Look::good("Sent"),
        MessageOutcome::Delivered => Look::good("Delivered"),
        MessageOutcome::Bounced => Look::bad("Bounced"),
        MessageOutcome::Unreachable => Look::new(Tone::Warning, "circle-alert", "Unreachable"),
        MessageOutcome::Aborted => Look::ended("Aborted"),
        MessageOutcome::Failed => Look::bad("Failed"),
        MessageOutcome::Cancelled => Look::ended("Cancelled"),
    }
}

/// What an outcome says, as the end of a sentence.
pub fn outcome_meaning(outcome: MessageOutcome) -> &'static str {
    match outcome {
        MessageOutcome::Waiting => "in progress, or waits for another attempt",
        MessageOutcome::Sent => "accepted by the channel, without a later report",
        MessageOutcome::Delivered => "the channel reported that it arrived",
        MessageOutcome::Bounced => "rejected by the channel, at once or later",
        MessageOutcome::Unreachable => "the user has no address",
        MessageOutcome::Aborted => "ended by the template",
        MessageOutcome::Failed => "all attempts failed",
        MessageOutcome::Cancelled => "given up with the send",
    }
}

/// The word of a filter.
pub fn filter_word(filter: OutcomeFilter) -> &'static str {
    filter.outcome().map_or("May have been sent", |outcome| outcome_look(outcome).word)
}

/// What a message that the filter selects is.
pub fn filter_meaning(filter: OutcomeFilter) -> &'static str {
    filter.outcome().map_or("no attempt was accepted, but one may have arrived", outcome_meaning)
}

/// The address of a send's page, or of a path below it.
pub fn address(page: &Page, id: Uuid, path: &str) -> String {
    page.workspace_link(&format!("/sends/{}{path}", id.simple()))
}

/// The address of a user's page.
pub fn user_address(page: &Page, service_id: Uuid) -> String {
    page.workspace_link(&format!("/users/{service_id}"))
}

/// The cell of a table with a user's external_id and service_id.
pub fn user_cell(page: &Page, service_id: Uuid, external_id: Option<&str>) -> Markup {
    html! {
        td.c-main {
            a.title href=(user_address(page, service_id)) {
                (parts::name(external_id.unwrap_or("No external_id")))
            }
            span.mono.sub { (service_id) }
        }
    }
}

/// The cell of a table with a user's email address.
pub fn email_cell(email: Option<&str>) -> Markup {
    html! { td.c-text data-label="Email" { @if let Some(email) = email { (parts::name(email)) } } }
}

/// The id of a send as people copy it.
pub fn id(id: Uuid) -> Markup {
    html! { span.mono { (id.simple()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_campaign_has_the_name_of_its_kind() {
        for (campaign, kind, expected) in [
            (Some(Some("News")), None, "News"),
            (Some(None), Some(ListedKind::Canvas), "Removed Canvas"),
            (Some(None), Some(ListedKind::Triggered), "Removed campaign"),
            (Some(None), None, "Removed campaign or Canvas"),
            (None, Some(ListedKind::LiveActivity), "Live activity"),
            (None, None, "Without a campaign"),
        ] {
            assert_eq!(campaign_title(campaign, kind), expected);
        }
    }

    #[test]
    fn an_audience_is_named_by_what_a_person_knows() {
        let named = |kind, name: Option<&str>, is_limited| DispatchAudience {
            kind,
            segment_id: None,
            segment_name: name.map(str::to_owned),
            is_limited,
            dispatch_id: None,
            outcomes: Vec::new(),
        };
        for (kind, name, is_limited, expected) in [
            ("users", None, false, "1 listed user"),
            ("segment", Some("Gold"), true, "Segment Gold, limited by an audience"),
            ("segment", None, false, "Removed segment"),
            ("audience", None, true, "Audience of the request"),
            ("all", None, false, "All users"),
        ] {
            assert_eq!(audience(&named(kind, name, is_limited), 1), expected);
        }
    }
}

//! How many users and messages each step of a send has: as bars, with their numbers.

use maud::{Markup, html};

use super::Shown;
use crate::page::Page;
use crate::pages::labels;
use crate::pages::sends::recipients;
use console_frame::parts::{self, Tone};
use dispatches::LocalTime;
use messages::dispatch::{LeftOut, MessageOutcome, State};

/// A step: a number of users or messages, and what they are.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    label: &'static str,
    about: &'static str,
    count: i64,
    tone: Tone,
    /// Whether it is taken from the step above.
    is_loss: bool,
    /// The outcome whose messages it counts.
    outcome: Option<MessageOutcome>,
}

impl Step {
    fn new(label: &'static str, count: i64, tone: Tone) -> Self {
        Self { label, about: "", count, tone, is_loss: false, outcome: None }
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn loss(label: &'static str, about: &'static str, count: i64) -> Self {
        let tone = Tone::Neutral;
        Self { label, about, count, tone, is_loss: true, outcome: None }
    }

    fn from_outcome(outcome: MessageOutcome, count: i64) -> Self {
        let look = labels::outcome_look(outcome);
        Self {
            label: look.word,
            about: labels::outcome_meaning(outcome),
            count,
            tone: look.tone,
            is_loss: true,
            outcome: Some(outcome),
        }
    }
}

pub fn section(page: &Page, shown: &Shown) -> Markup {
    let (users, messages) = (user_steps(shown), message_steps(shown));
    let is_first_report = shown.outcomes.is_none();
    html! {
        section.panel id="funnel" {
            div.panel-head { h2 { "From users to messages" } }
            (table(page, shown, "Users", &users))
            (table(page, shown, "Messages", &messages))
            @if let Some(LocalTime { next_at: Some(next_at), last_at, .. }) = shown.send.local_time() {
                p.panel-foot {
                    "The send is at local times: the next users are due " (page.time(next_at))
                    ", the last " (page.time(last_at)) "."
                }
            }
            @if is_first_report {
                p.panel-foot {
                    "The numbers are those that the channels reported first, because the send has \
                     many messages. "
                    a href=(shown.address(page, "?count=1#funnel")) { "Count the messages now" }
                    " to see which were delivered, bounced later, wait or were cancelled. It takes a \
                     second or two."
                }
            }
        }
    }
}

/// The steps of users or of messages.
fn table(page: &Page, shown: &Shown, title: &str, steps: &[Step]) -> Markup {
    let total = steps.first().map_or(0, |step| step.count);
    html! {
        table.funnel {
            thead {
                tr {
                    th scope="col" { (title) }
                    th.c-step scope="col" { span.hidden-label { "Bar" } }
                    th.num scope="col" { span.hidden-label { "Number" } }
                    th.num scope="col" { span.hidden-label { "Share" } }
                }
            }
            tbody { @for step in steps { (step_row(page, shown, step, total)) } }
        }
    }
}

fn step_row(page: &Page, shown: &Shown, step: &Step, total: i64) -> Markup {
    let link = step
        .outcome
        .filter(|_| step.count > 0 && recipients::may_view(page))
        .map(|outcome| shown.address(page, &format!("/recipients?outcome={}", outcome.name())));
    html! {
        tr.loss[step.is_loss] {
            th scope="row" {
                @match link {
                    Some(address) => a href=(address) { (step.label) },
                    None => (step.label),
                }
                @if !step.about.is_empty() { span.sub { (step.about) } }
            }
            td.c-step { (bar(step, total)) }
            td.num { (parts::number(step.count)) }
            td.num.muted { (share(step.count, total)) }
        }
    }
}

/// The share of a step, drawn: its numbers are next to it.
fn bar(step: &Step, total: i64) -> Markup {
    // A step that has anything is visible.
    let width = match permille(step.count, total) {
        0 if step.count > 0 => 4,
        width => width,
    };
    html! {
        svg class={ "step " (step.tone.bar_class()) } viewBox="0 0 1000 10"
            preserveAspectRatio="none" aria-hidden="true" focusable="false"
        {
            rect width=(width) height="10" {}
        }
    }
}

fn permille(count: i64, total: i64) -> i64 {
    let permille = i128::from(count.max(0)) * 1_000 / i128::from(total.max(1));
    i64::try_from(permille.min(1_000)).unwrap_or(1_000)
}

/// A share in percent. Never 0 % of something, nor 100 % of a part.
fn share(count: i64, total: i64) -> String {
    match permille(count, total) {
        _ if total == 0 => String::new(),
        0..10 if count > 0 => "< 1 %".to_owned(),
        990..1_000 => "> 99 %".to_owned(),
        permille => format!("{} %", permille / 10),
    }
}

/// From all users to those who are recipients.
fn user_steps(shown: &Shown) -> Vec<Step> {
    let send = &shown.send;
    let LeftOut { unknown, not_in_audience, control_group, too_late, .. } = send.left_out;
    let not_checked = if send.state.is_early_end() {
        ("Never reached", "the send ended before")
    } else if send.waiting_users() > 0 {
        ("Waiting", "their local time is still to come")
    } else if send.state == State::Done {
        ("Never reached", "their local time was missed, or they were deleted")
    } else {
        ("Not checked yet", "workers check them in parts")
    };
    let losses = [
        Step::loss("Unknown", "listed users who do not exist", unknown),
        Step::loss("Not in the audience", "outside the segment or audience", not_in_audience),
        Step::loss("Control group", "gets no campaigns", control_group),
        Step::loss("Too late", "their local time had passed", too_late),
        Step::loss(not_checked.0, not_checked.1, send.users - send.walked),
    ];
    let mut steps = vec![Step::new("All users of the send", send.users, Tone::Running)];
    steps.extend(losses.into_iter().filter(|step| step.count > 0));
    steps.push(Step::new("In the audience", send.matched, Tone::Running));
    steps
}

/// From the messages that users in the audience would get to their outcomes.
fn message_steps(shown: &Shown) -> Vec<Step> {
    let LeftOut { unsubscribed, capped, .. } = shown.send.left_out;
    let outcomes = outcomes(shown);
    let stored: i64 = outcomes.iter().map(|(_, count)| count).sum();
    let losses = [
        Step::loss("Unsubscribed", "the subscription does not allow it", unsubscribed),
        Step::loss("Capped", "frequency capping does not allow it", capped),
    ];
    let mut steps = vec![
        Step::new("All messages", stored + unsubscribed + capped, Tone::Running)
            .about("to users in the audience, by each channel"),
    ];
    steps.extend(losses.into_iter().filter(|step| step.count > 0));
    let outcomes = outcomes.into_iter().filter(|(_, count)| *count > 0);
    steps.extend(outcomes.map(|(outcome, count)| Step::from_outcome(outcome, count)));
    steps
}

/// Messages by outcome: the current one, or that which the channels reported first.
fn outcomes(shown: &Shown) -> Vec<(MessageOutcome, i64)> {
    if let Some(counted) = &shown.outcomes {
        return counted.by_outcome.clone();
    }
    let messages = &shown.send.messages;
    vec![
        (MessageOutcome::Sent, messages.sent),
        (MessageOutcome::Bounced, messages.bounced),
        (MessageOutcome::Unreachable, messages.unreachable),
        (MessageOutcome::Aborted, messages.aborted),
        (MessageOutcome::Failed, messages.failed),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_neither_nothing_nor_everything_unless_it_is() {
        for (count, total, expected) in [
            (0, 0, ""),
            (0, 5, "0 %"),
            (5, 5, "100 %"),
            (1, 3_000_000, "< 1 %"),
            (2_999_999, 3_000_000, "> 99 %"),
            (1, 3, "33 %"),
        ] {
            assert_eq!(share(count, total), expected, "{count} of {total}");
        }
        assert_eq!(permille(i64::MAX, 1), 1_000);
    }
}

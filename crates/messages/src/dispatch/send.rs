//! Renders and sends stored messages.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::batch::{Batch, DueMessage, User};
use super::guard::Guard;
use super::job::Job;
use super::message_rows::Settled;
use super::starts::Starts;
use super::waiting_users::WaitingUsers;
use crate::app::App;
use crate::channels::RelayPermit;
use crate::content::Rendered;
use crate::dispatch::state::RowState;
use crate::external::{Answers, External, MAX_ATTEMPTS, RenderError};
use crate::order::Named;
use crate::personalization::Scope;
use crate::{MessageId, Outcome, Outgoing, channels};
use gateway::workspaces::Channel;
use kit::clock::{hours, millis};
use kit::compute::work_slice;
use kit::json::{ObjectText, TreeObject};
use kit::moment::Moment;
use kit::panics;
use kit::retry::backoff;
use people::users::Recipient;
use runtime::fairness::SharedMemory;
use template::{Request, Stop};

/// The longest backoff between two attempts at a message.
const MAX_BACKOFF: Duration = Duration::from_secs(3_600);

/// How long messages in progress may still take when the worker must stop.
const GRACE: Duration = Duration::from_secs(2);

/// Approximate bytes of rendered texts that a part holds at a time; twice as many in total, because
/// the next ones are rendered meanwhile.
const MAX_RENDERED_BYTES: usize = 4 << 20;

/// Rendered messages, and the outcomes of those that could not be rendered.
#[derive(Default)]
pub(super) struct Ready {
    users: Vec<User>,
    messages: Vec<ReadyMessage>,
    settled: Vec<Settled>,
    /// Approximate bytes of the rendered texts.
    bytes: usize,
    /// When the users were read.
    read_at: Option<Moment>,
}

struct ReadyMessage {
    /// Index in [`Ready::users`].
    user_index: usize,
    due: DueMessage,
    draft: Draft,
}

/// A message that is rendered, or that needs external data first.
enum Draft {
    Rendered(Rendered),
    /// The first request of the templates, and the time of the rendering.
    Needs(Request, i64),
}

impl Ready {
    /// For messages of a batch; takes the outcomes of those that have ended.
    pub fn new(batch: &mut Batch) -> Self {
        let settled = std::mem::take(&mut batch.ended);
        Self { settled, read_at: batch.read_at, ..Self::default() }
    }

    /// Whether it has as many messages as are held at a time.
    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_RENDERED_BYTES
    }

    /// Renders messages of the batch until this is full, for a slice of time. A message that cannot
    /// be rendered affects only its own user.
    pub fn render(&mut self, job: &Job, batch: &mut Batch, now: i64, halt: &CancellationToken) {
        let mut waiting = std::mem::take(&mut batch.users).into_iter();
        work_slice(&mut waiting, |user| {
            self.render_user(job, user, now);
            if self.is_full() || halt.is_cancelled() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        batch.users = waiting.collect();
    }

    fn render_user(&mut self, job: &Job, user: User, now: i64) {
        for due in &user.messages {
            let draft = match render_message(job, &user, *due, now, &Answers::default()) {
                Ok(rendered) => {
                    self.bytes += rendered.object.values().map(text_bytes).sum::<usize>();
                    Draft::Rendered(rendered)
                }
                Err(Stop::Needs(request)) => {
                    self.bytes += request.bytes();
                    Draft::Needs(*request, now)
                }
                Err(stop) => {
                    self.settled.push(stopped(&user, *due, stop));
                    continue;
                }
            };
            let user_index = self.users.len();
            self.messages.push(ReadyMessage { user_index, due: *due, draft });
        }
        self.users.push(user);
    }
}

/// The outcome of a message whose rendering stopped.
fn stopped(user: &User, due: DueMessage, stop: Stop) -> Settled {
    let (state, reason) = match stop {
        Stop::Aborted(reason) => (RowState::Aborted, reason),
        Stop::Failed(reason) => (RowState::Failed, reason),
        Stop::Needs(_) => (RowState::Failed, "external data is missing".to_owned()),
    };
    Settled::ended(user.recipient.service_id, due.channel, state, Some(reason))
}

fn render_message(
    job: &Job,
    user: &User,
    due: DueMessage,
    now: i64,
    answers: &Answers,
) -> Result<Rendered, Stop> {
    let named = user.named.as_deref();
    let event = named.and_then(|named| named.event_properties.as_ref()).map(ObjectText::tree);
    let trigger = named.and_then(|named| named.trigger_properties.as_ref()).map(ObjectText::tree);
    let entry = entry_properties(job, named);
    let scope = Scope {
        profile: &user.recipient.profile,
        custom: Some(&user.recipient.custom),
        event_properties: event.as_ref(),
        api_trigger_properties: trigger.as_ref().or(job.order.trigger_properties.as_ref()),
        canvas_entry_properties: entry.as_ref().or(job.order.canvas_entry_properties.as_ref()),
        origin: Some(&job.origin),
        unsubscribe: job.unsubscribe(&user.recipient),
        preview: None,
        answers: Some(answers),
        now,
    };
    let message = &job.content.messages()[due.index];
    catch_unwind(AssertUnwindSafe(|| message.render(&scope))).unwrap_or_else(|panic| {
        let text = format!("rendering panicked: {}", panics::text(&*panic));
        tracing::error!(channel = due.channel.name(), "{text}");
        Err(Stop::Failed(text))
    })
}

/// Reads the external data that a message uses, and renders it; otherwise returns its outcome.
/// Meanwhile the message holds no permit to be sent, so that slow servers do not delay other
/// messages.
async fn complete(
    app: &App,
    job: &Job,
    user: &User,
    due: DueMessage,
    (needs, now): (Request, i64),
) -> Result<Rendered, Settled> {
    let workspace_id = job.order.workspace_id;
    let external =
        External { app, workspace_id, settings: &job.settings, is_urgent: false, time: None };
    let render = |answers: &Answers| render_message(job, user, due, now, answers);
    let rendered = external.render(Some(needs), &mut Vec::new(), render).await;
    rendered.map_err(|error| match error {
        RenderError::Stopped(stop) => stopped(user, due, stop),
        RenderError::Later { reason, is_counted: true, .. } if due.attempts + 1 >= MAX_ATTEMPTS => {
            stopped(user, due, Stop::Aborted(reason))
        }
        RenderError::Later { reason, after, .. } => {
            until_retry(app, user.recipient.service_id, due, reason, after)
        }
    })
}

/// Bytes of the strings in a value, as an approximation of its size.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + text_bytes(value)).sum()
        }
        _ => 0,
    }
}

/// The entry properties of all users, overridden by the user's own; none if the user has none.
fn entry_properties(job: &Job, named: Option<&Named>) -> Option<TreeObject> {
    let own = named?.canvas_entry_properties.as_ref()?.tree();
    Some(match &job.order.canvas_entry_properties {
        Some(all) => all.merged(&own),
        None => own,
    })
}

/// Sends messages in parallel, as far as `sends` has permits for the workspace, and reports the
/// outcome of each to `outcomes`. Starts none that the guard or the user does not allow: messages
/// that have not started at the end of the part's turn stay pending. When the worker must stop, it
/// soon abandons those in progress, too: they get no outcome, and are sent again.
pub(super) async fn send(
    app: &App,
    job: &Arc<Job>,
    sends: &SharedMemory,
    ready: Ready,
    (guard, stop): (&Guard, &CancellationToken),
    outcomes: UnboundedSender<Settled>,
) {
    let Ready { users, messages, settled, read_at, .. } = ready;
    let grace = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    }
    .shared();
    let (users, outcomes, limit) = (&users, &outcomes, app.config.messages.sends_in_flight);
    let waiting = messages.iter().map(|message| users[message.user_index].recipient.service_id);
    let waiting = WaitingUsers::new(waiting.collect(), read_at);
    let starts = &Starts::new(app, &job.order, guard, sends, waiting);
    // The receiver outlives the senders.
    let report = |settled| drop(outcomes.send(settled));
    settled.into_iter().for_each(report);
    let messages = futures::stream::iter(messages).enumerate();
    let sending = messages.for_each_concurrent(limit, |(number, message)| {
        let (user, grace) = (&users[message.user_index], grace.clone());
        let sending = send_one(app, job, (guard, starts), user, (number, message), grace);
        sending.map(|settled| settled.into_iter().for_each(report))
    });
    sending.await;
}

/// Sends the message with this number; returns its outcome, unless it did not start, or its `grace`
/// is over. A message is in progress once it reads external data, or has a permit and a connection.
async fn send_one(
    app: &App,
    job: &Arc<Job>,
    (guard, starts): (&Guard, &Starts<'_>),
    user: &User,
    (number, message): (usize, ReadyMessage),
    grace: impl Future<Output = ()>,
) -> Option<Settled> {
    let ReadyMessage { due, draft, .. } = message;
    let (rendered, is_in_progress) = match draft {
        Draft::Rendered(rendered) => (rendered, false),
        Draft::Needs(..) if guard.is_turn_over() => return None,
        Draft::Needs(request, now) => tokio::select! {
            biased;
            () = guard.halt().cancelled() => return None,
            completed = complete(app, job, user, due, (request, now)) => match completed {
                Ok(rendered) => (rendered, true),
                Err(settled) => return Some(settled),
            },
        },
    };
    let (id, channel) = (user.recipient.service_id, due.channel);
    let ended = |(state, why): (RowState, &str)| {
        Some(Settled::ended(id, channel, state, Some(why.to_owned())))
    };
    let _permit = match starts.reserve(number, channel, is_in_progress).await? {
        Ok(permit) => permit,
        Err(why) => return ended(why),
    };
    let reserving = channels::reserve(app, job.order.workspace_id, &job.settings, channel);
    let connection = tokio::select! {
        biased;
        () = guard.closed(is_in_progress) => return None,
        reserved = reserving => match reserved {
            Ok(connection) => connection,
            Err(outcome) => return Some(after_attempt(app, id, due, outcome)),
        },
    };
    let latest = match starts.start(number, channel).await? {
        Ok(latest) => latest,
        Err(why) => return ended(why),
    };
    let recipient = latest.as_deref().unwrap_or(&user.recipient);
    let attempt = send_message(app, job, recipient, due, (&rendered, connection.as_ref()));
    tokio::select! {
        settled = attempt => Some(settled),
        () = grace => None,
    }
}

async fn send_message(
    app: &App,
    job: &Job,
    recipient: &Recipient,
    due: DueMessage,
    (rendered, connection): (&Rendered, Option<&RelayPermit>),
) -> Settled {
    let address = job.address(recipient).filter(|_| due.channel == Channel::Email);
    let outgoing = Outgoing {
        workspace_id: job.order.workspace_id,
        settings: &job.settings,
        id: MessageId {
            dispatch_id: job.order.dispatch_id,
            service_id: recipient.service_id,
            channel: due.channel,
        },
        recipient,
        rendered,
        address,
        is_transactional: false,
        campaign_id: job.order.campaign_id,
        send_id: job.order.send_id.as_deref(),
        request_id: &job.order.request_id,
    };
    let attempt = channels::send_reserved(app, outgoing, connection);
    let attempt = AssertUnwindSafe(attempt).catch_unwind();
    let user = recipient.service_id;
    match attempt.await {
        Ok(outcome) => {
            let bounce = address.and_then(|address| job.bounce(address, &outcome));
            Settled { address, bounce, ..after_attempt(app, user, due, outcome) }
        }
        Err(panic) => {
            let why = format!("sending panicked: {}", panics::text(&*panic));
            let failed = Settled::ended(user, due.channel, RowState::Failed, Some(why));
            Settled { may_have_been_sent: true, ..failed }
        }
    }
}

/// The state of a message after an attempt.
fn after_attempt(app: &App, user: Uuid, due: DueMessage, outcome: Outcome) -> Settled {
    let (now, channel) = (app.clock.now_ms(), due.channel);
    match outcome {
        Outcome::Sent => {
            Settled { sent_at: Some(now), ..Settled::ended(user, channel, RowState::Sent, None) }
        }
        Outcome::Unreachable(why) => {
            Settled::ended(user, channel, RowState::Unreachable, Some(why))
        }
        Outcome::Bounced { reason, .. } => {
            Settled::ended(user, channel, RowState::Bounced, Some(reason))
        }
        Outcome::Failed(why) => Settled::ended(user, channel, RowState::Failed, Some(why)),
        Outcome::Later { reason, after } => until_retry(app, user, due, reason, after),
        Outcome::NoResponse { reason, after } => {
            Settled { may_have_been_sent: true, ..until_retry(app, user, due, reason, after) }
        }
    }
}

/// The state of a message that was not accepted this time. The last attempt happens when its time
/// limit is reached.
fn until_retry(
    app: &App,
    user: Uuid,
    due: DueMessage,
    reason: String,
    after: Option<Duration>,
) -> Settled {
    let (now, config) = (app.clock.now_ms(), &app.config.messages);
    let DueMessage { channel, attempts, created_at, .. } = due;
    let until = created_at.saturating_add(millis(hours(config.retry_hours)));
    if now >= until {
        return Settled::ended(user, channel, RowState::Failed, Some(reason));
    }
    let base = Duration::from_millis(config.retry_ms);
    let attempt = attempts.unsigned_abs().saturating_add(1);
    let wait = backoff(attempt, base, MAX_BACKOFF).max(after.unwrap_or_default());
    let next_at = now.saturating_add(millis(wait)).min(until);
    let waiting = Settled::ended(user, channel, RowState::Waiting, Some(reason));
    Settled { next_at: Some(next_at), ..waiting }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A job for webhooks with this text, and a batch of its users.
    fn webhooks(text: &str, users: u128) -> (Job, Batch) {
        let webhook = json!({
            "url": "https://acme.example/", "request_method": "POST", "body": text,
        });
        let job = Job::from_messages(json!({ "webhook": webhook }).as_object().unwrap());
        let user = |number: u128| {
            let recipient = Recipient::read(Uuid::from_u128(number), "{}").unwrap();
            let channel = Channel::Webhook;
            let due = DueMessage { index: 0, channel, attempts: 0, created_at: 0 };
            User { recipient, named: None, messages: vec![due] }
        };
        (job, Batch { users: (0..users).map(user).collect(), ..Batch::default() })
    }

    #[test]
    fn slow_templates_leave_the_compute_thread_to_others() {
        let slow = "{% for i in (1..100) %}{% for j in (1..4000) %}{% endfor %}{% endfor %}";
        let (job, mut batch) = webhooks(slow, 1_000);
        let mut ready = Ready::new(&mut batch);
        ready.render(&job, &mut batch, 0, &CancellationToken::new());
        assert!(!ready.users.is_empty() && !batch.is_empty());
        assert_eq!(ready.users.len() + batch.users.len(), 1_000);
    }

    #[test]
    fn few_large_messages_are_held_at_once() {
        let (job, mut batch) = webhooks(&"x".repeat(900_000), 23);
        let mut seen = Vec::new();
        while !batch.is_empty() {
            let mut ready = Ready::new(&mut batch);
            while !batch.is_empty() && !ready.is_full() {
                ready.render(&job, &mut batch, 0, &CancellationToken::new());
            }
            assert!((1..=5).contains(&ready.messages.len()), "{}", ready.messages.len());
            let users = ready.messages.iter().map(|message| &ready.users[message.user_index]);
            seen.extend(users.map(|user| user.recipient.service_id.as_u128()));
        }
        assert_eq!(seen, (0..23).collect::<Vec<_>>());
    }
}

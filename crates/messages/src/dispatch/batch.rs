//! A batch of a part: reads and tests users, and stores their messages.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Map;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::capping::Allowance;
use super::error::DispatchError;
use super::job::{Job, NoRecipient};
use super::left_out::{Exclusion, LeftOut};
use super::message_rows::{self, NewMessage, OpenMessage, PartContext, Settled};
use super::named::{Resolved, load_users, resolve, stored_entries};
use super::part_rows::{self, Part, PartProgress, Recipients};
use super::past;
use super::recipient::{
    DELETED, UNKNOWN_ENTRY, check_again, is_subscribed, read_recipient, read_user, without_address,
};
use super::settle;
use super::state::{Counts, RowState};
use crate::app::App;
use crate::order::{Named, PastRecipients, Wave};
use gateway::workspaces::Channel;
use kit::compute::work_slice;
use kit::fail_point;
use kit::moment::Moment;
use kit::pattern::TooCostly;
use people::users::Recipient;
use people::users::activity::Activity;
use people::users::recipient::CustomAttributes;
use people::users::rows::{For, StoredUser, find_users};
use people::users::suppressions::{self, AddressStates};
use people::users::{Position, SLICES, large_rows, scan};
use store::claims::{self, Claim};
use store::{StoreError, Tx};

/// Maximum number of users in a row who do not match and are skipped before the part advances.
const MAX_SKIPPED_USERS: i64 = 5_000;

/// Approximate bytes of profiles that are read at a time.
const PAGE_BYTES: usize = 4 << 20;

/// Number of users in the first page, before the size of their profiles is known.
const FIRST_PAGE_USERS: i64 = 50;

/// A user, and the user's messages.
pub(super) struct User {
    pub recipient: Recipient,
    /// Data for this user only, if the user is listed.
    pub named: Option<Arc<Named>>,
    pub messages: Vec<DueMessage>,
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueMessage {
    /// Index of the message in the order.
    pub index: usize,
    pub channel: Channel,
    /// Number of earlier attempts, and the time of the first.
    pub attempts: i32,
    pub created_at: i64,
}

/// Users whose messages are stored.
#[derive(Default)]
pub(super) struct Batch {
    pub users: Vec<User>,
    /// Messages that can no longer be sent.
    pub ended: Vec<Settled>,
    /// When the users were read.
    pub read_at: Option<Moment>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.ended.is_empty()
    }
}

/// Goes through the users of a part.
pub(super) struct PartReader {
    pub app: App,
    pub job: Arc<Job>,
    pub part: Part,
    pub claim: Claim,
    /// Number of users that are read at a time: fewer if profiles are large.
    limit: i64,
}

/// A user as read from the store.
pub(super) struct LoadedUser {
    pub service_id: Uuid,
    pub doc: String,
    pub named: Option<Arc<Named>>,
}

/// Some users in order, and the position after them.
struct Page {
    users: Vec<LoadedUser>,
    activity: HashMap<Uuid, Vec<u8>>,
    addresses: AddressStates,
    end: Position,
    is_last: bool,
    walked: i64,
    /// Number of unknown identifiers.
    unknown: i64,
    /// Number of identifiers without a user of their own that count in the last wave.
    of_other_waves: i64,
    /// The listed users with their ids, if they are to be stored.
    named: Option<Vec<Named>>,
}

/// A user who matches, with the messages to store.
struct Chosen {
    user: User,
    /// Messages that end without being sent, and why.
    ended: Vec<(Channel, RowState, &'static str)>,
}

impl PartReader {
    pub fn new(app: &App, job: Arc<Job>, part: Part, claim: Claim) -> Self {
        let limit = FIRST_PAGE_USERS.min(i64::from(app.config.messages.batch_users));
        Self { app: app.clone(), job, part, claim, limit }
    }

    /// Adapts the number of users of the next read to the size of the profiles of the last one.
    fn adapt(&mut self, users: usize, bytes: usize) {
        if users > 0 {
            let limit = users * PAGE_BYTES / bytes.max(1);
            self.limit = (limit as i64).clamp(1, i64::from(self.app.config.messages.batch_users));
        }
    }

    /// Resets the attempts of the claim: the work that was in progress is complete.
    pub async fn progress(&self) -> Result<(), DispatchError> {
        let mut tx = self.app.store.write().await?;
        claims::progress(&mut tx, &self.claim, self.app.config.lease()).await?;
        Ok(tx.commit().await?)
    }

    pub fn context(&self) -> PartContext {
        PartContext::new(self.job.order.workspace_id, self.job.order.campaign_id, &self.part)
    }

    /// Stores messages of the next users; none at the end. The batch may be empty.
    pub async fn next(&mut self, stop: &CancellationToken) -> Result<Option<Batch>, DispatchError> {
        if self.part.is_walked {
            return Ok(None);
        }
        let now = self.app.clock.now_ms();
        let (mut read, mut of_other_waves) = (0, 0);
        let (mut chosen, mut left_out) = (Vec::new(), LeftOut::default());
        let (position, is_last, read_at, named) = loop {
            let read_at = Moment::now();
            let mut page = self.page().await?;
            let (position, is_last, named) = (page.end, page.is_last, page.named.take());
            read += page.walked;
            left_out.unknown += page.unknown;
            of_other_waves += page.of_other_waves;
            let choice = self.choose(page, now).await?;
            chosen.extend(choice.chosen);
            left_out += choice.left_out;
            of_other_waves += choice.of_other_waves;
            if !chosen.is_empty() || is_last || read >= MAX_SKIPPED_USERS {
                break (position, is_last, read_at, named);
            }
            if let Recipients::UserRange(from, _) = &mut self.part.recipients {
                *from = position;
            }
            if stop.is_cancelled() {
                return Err(DispatchError::Stopped);
            }
        };
        // Each wave reads all users, and each user counts in one of them.
        let walked = read - of_other_waves;
        let progress = PartProgress { position, is_walked: is_last, walked, left_out, named };
        let batch = self.store_messages(chosen, progress, now).await?;
        self.part.is_walked = is_last;
        if let Recipients::UserRange(from, _) = &mut self.part.recipients {
            *from = position;
        }
        metrics::counter!("longshore_dispatch_users_total").increment(walked.unsigned_abs());
        Ok(Some(Batch { read_at: Some(read_at), ..batch }))
    }

    async fn page(&mut self) -> Result<Page, DispatchError> {
        let mut tx = self.app.store.snapshot().await?;
        let mut page = match (&self.part.recipients, &self.job.order.target.recipients_of) {
            (Recipients::Named(named), _) => self.named(&mut tx, named).await?,
            (Recipients::UserRange(from, _), Some(past)) => {
                self.past_recipients(&mut tx, past, from.service_id).await?
            }
            (Recipients::UserRange(from, to), None) => self.user_range(&mut tx, *from, *to).await?,
        };
        self.adapt(page.users.len(), page.users.iter().map(|user| user.doc.len()).sum());
        if self.job.needs_addresses() {
            let documents = page.users.iter().map(|user| (user.service_id, user.doc.as_str()));
            let workspace = self.job.order.workspace_id;
            page.addresses = AddressStates::look_up(&mut tx, workspace, documents).await?;
        }
        if self.job.needs_activity(self.part.wave.as_ref()) {
            let ids: Vec<Uuid> = page.users.iter().map(|user| user.service_id).collect();
            let bodies = large_rows::bodies(&mut tx, self.job.order.workspace_id, &ids).await?;
            // A user written by a newer worker is not skipped.
            for (id, body) in &bodies {
                Activity::is_known(body)
                    .map_err(|_| StoreError::Newer(format!("the activity of {id}")))?;
            }
            page.activity = bodies.into_iter().collect();
        }
        Ok(page)
    }

    async fn user_range(
        &self,
        tx: &mut Tx,
        from: Position,
        to: Position,
    ) -> Result<Page, StoreError> {
        let workspace = self.job.order.workspace_id;
        let youngest = self.job.youngest.unwrap_or(Uuid::max());
        let slices: Vec<i16> = (0..SLICES).collect();
        let user_range = scan::UserRange {
            workspace,
            slices: &slices,
            after: from,
            up_to: to,
            youngest,
            activity: false,
        };
        let (users, end) = scan::page(tx, &user_range, self.limit).await?;
        let walked = users.len() as i64;
        let read = |(service_id, doc)| LoadedUser { service_id, doc, named: None };
        Ok(Page {
            users: users.into_iter().map(read).collect(),
            activity: HashMap::new(),
            addresses: AddressStates::default(),
            end: end.unwrap_or(to),
            is_last: end.is_none_or(|end| end >= to),
            walked,
            unknown: 0,
            of_other_waves: 0,
            named: None,
        })
    }

    /// Recipients in the part of an earlier dispatch that has the number of this part.
    async fn past_recipients(
        &self,
        tx: &mut Tx,
        past: &PastRecipients,
        after: Uuid,
    ) -> Result<Page, DispatchError> {
        let (workspace, from) = (self.job.order.workspace_id, (self.part.number, after));
        let page = past::page(tx, workspace, past, from, self.limit).await?;
        Ok(Page {
            users: page.users,
            activity: HashMap::new(),
            addresses: AddressStates::default(),
            end: Position { slice: 0, service_id: page.last.unwrap_or(after) },
            is_last: page.walked < self.limit,
            walked: page.walked,
            unknown: page.unknown,
            of_other_waves: 0,
            named: None,
        })
    }

    async fn named(&self, tx: &mut Tx, named: &[Named]) -> Result<Page, StoreError> {
        let workspace = self.job.order.workspace_id;
        let resolved = resolve(tx, workspace, named).await?;
        let with_ids = resolved.with_ids(named);
        let Resolved { users: resolved, unknown } = resolved;
        let known = resolved.len();
        let users = load_users(tx, workspace, resolved).await?;
        // Unknown users are looked up in each wave, but counted only in the last one; and so are
        // users who are listed twice.
        let is_last = self.part.wave.is_none_or(|wave| wave.is_last);
        let (unknown, of_other_waves) = if is_last {
            ((unknown.len() + known - users.len()) as i64, 0)
        } else {
            (0, (named.len() - users.len()) as i64)
        };
        Ok(Page {
            users,
            activity: HashMap::new(),
            addresses: AddressStates::default(),
            end: Position { slice: 0, service_id: Uuid::nil() },
            is_last: true,
            walked: named.len() as i64,
            unknown,
            of_other_waves,
            named: with_ids,
        })
    }

    /// The matching users of a page who may get messages, and how many are excluded.
    async fn choose(&self, page: Page, now: i64) -> Result<Choice, TooCostly> {
        let mut users = page.users.into_iter();
        let (activity, addresses) = (page.activity, page.addresses);
        let mut choice = Choice { activity, addresses, ..Choice::default() };
        while !users.as_slice().is_empty() {
            let (job, wave) = (self.job.clone(), self.part.wave);
            let computing = self.app.compute(self.job.order.workspace_id, move || {
                let failed = work_slice(&mut users, |user| {
                    let chosen = choice.choose(&job, wave.as_ref(), user, now);
                    chosen.map_or_else(ControlFlow::Break, ControlFlow::Continue)
                });
                failed.map_or(Ok((users, choice)), Err)
            });
            (users, choice) = computing.await?;
        }
        Ok(choice)
    }

    /// Stores messages and advances the part, in one transaction.
    async fn store_messages(
        &self,
        mut chosen: Vec<Chosen>,
        mut progress: PartProgress,
        now: i64,
    ) -> Result<Batch, DispatchError> {
        let (job, context) = (&self.job, self.context());
        let mut tx = self.app.store.write().await?;
        claims::progress(&mut tx, &self.claim, self.app.config.lease()).await?;
        if job.is_capped() {
            let due = chosen.iter().filter(|chosen| !chosen.user.messages.is_empty());
            let ids = due.map(|chosen| chosen.user.recipient.service_id).collect();
            let rules = &job.settings.frequency_capping;
            let mut allowance = Allowance::load(&mut tx, context, rules, ids, now).await?;
            for Chosen { user, .. } in &mut chosen {
                let (id, wanted) = (user.recipient.service_id, user.messages.len());
                user.messages.retain(|due| allowance.take(id, due.channel));
                progress.left_out.capped += (wanted - user.messages.len()) as i64;
            }
        }
        let new: Vec<NewMessage> = chosen.iter().flat_map(Chosen::rows).collect();
        let inserted = message_rows::insert(&mut tx, context, &new, now).await?;
        if inserted.len() < new.len() {
            // The others were stored in an earlier wave, or by an attempt whose commit had no
            // response.
            let inserted: HashSet<(Uuid, Channel)> = inserted.into_iter().collect();
            let mut known = 0;
            for chosen in &mut chosen {
                let had_any = !chosen.is_empty();
                chosen.retain(&inserted);
                known += i64::from(had_any && chosen.is_empty());
            }
            // These moved since an earlier wave, and count there.
            if self.part.wave.is_some() {
                progress.walked -= known;
            }
        }
        if !part_rows::advance(&mut tx, context.dispatch, context.part, &progress).await? {
            return Err(DispatchError::Lost);
        }
        let address_key = if job.needs_address_key() {
            Some(suppressions::key(&mut tx, context.workspace).await?)
        } else {
            None
        };
        let mut counts = Counts::default();
        for (channel, state, _) in chosen.iter().flat_map(|chosen| &chosen.ended) {
            counts.add(*channel, *state);
        }
        settle::count(&mut tx, &job.order, context, &counts).await?;
        fail_point!("dispatch::noted");
        tx.commit().await?;
        fail_point!("dispatch::committed");
        address_key.into_iter().for_each(|key| job.set_address_key(key));
        counts.emit();
        progress.left_out.emit();
        let users = chosen.into_iter().map(|chosen| chosen.user);
        Ok(Batch {
            users: users.filter(|user| !user.messages.is_empty()).collect(),
            ..Batch::default()
        })
    }

    /// Messages that were stored before and are due at `now`.
    pub async fn open(&mut self, now: i64) -> Result<Option<Batch>, DispatchError> {
        let (context, limit, read_at) = (self.context(), self.limit, Moment::now());
        let mut tx = self.app.store.snapshot().await?;
        let open = message_rows::open(&mut tx, context.dispatch, context.part, now, limit).await?;
        if open.is_empty() {
            return Ok(None);
        }
        let ids: HashSet<Uuid> = open.iter().map(|message| message.service_id).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let entries = match &self.part.recipients {
            Recipients::Named(named) => {
                stored_entries(&mut tx, context.workspace, named, &ids).await?
            }
            Recipients::UserRange(..) => None,
        };
        let stored = find_users(&mut tx, context.workspace, &ids, For::Reading).await?;
        let documents = stored.iter().map(|user| (user.service_id, user.doc.as_str()));
        let addresses = AddressStates::look_up(&mut tx, context.workspace, documents).await?;
        drop(tx);
        self.adapt(stored.len(), stored.iter().map(|user| user.doc.len()).sum());
        let job = self.job.clone();
        let computing = self
            .app
            .compute(context.workspace, move || reopen(&job, open, stored, &addresses, entries));
        Ok(Some(Batch { read_at: Some(read_at), ..computing.await }))
    }

    /// Whether a message that was stored before was never tried.
    pub async fn has_untried(&self) -> Result<bool, DispatchError> {
        let (mut tx, context) = (self.app.store.snapshot().await?, self.context());
        // Only messages that were tried have a time of their next attempt.
        let open = message_rows::open(&mut tx, context.dispatch, context.part, 0, 1).await?;
        Ok(!open.is_empty())
    }
}

impl Chosen {
    fn rows(&self) -> impl Iterator<Item = NewMessage> {
        let service_id = self.user.recipient.service_id;
        let due = self.user.messages.iter().map(|due| (due.channel, None));
        let ended = self.ended.iter();
        let ended = ended.map(|(channel, state, why)| (*channel, Some((*state, *why))));
        due.chain(ended).map(move |(channel, ended)| NewMessage { service_id, channel, ended })
    }

    fn is_empty(&self) -> bool {
        self.user.messages.is_empty() && self.ended.is_empty()
    }

    /// Keeps only messages that were inserted.
    fn retain(&mut self, inserted: &HashSet<(Uuid, Channel)>) {
        let id = self.user.recipient.service_id;
        self.user.messages.retain(|due| inserted.contains(&(id, due.channel)));
        self.ended.retain(|(channel, ..)| inserted.contains(&(id, *channel)));
    }
}

/// The users of a page who were tested.
#[derive(Default)]
struct Choice {
    /// That of all users of the page.
    activity: HashMap<Uuid, Vec<u8>>,
    addresses: AddressStates,
    chosen: Vec<Chosen>,
    left_out: LeftOut,
    of_other_waves: i64,
}

impl Choice {
    fn choose(
        &mut self,
        job: &Job,
        wave: Option<&Wave>,
        user: LoadedUser,
        now: i64,
    ) -> Result<(), TooCostly> {
        let LoadedUser { service_id, doc, named } = user;
        let activity = self.activity.get(&service_id).map(Vec::as_slice);
        let addresses = &self.addresses;
        let recipient = read_recipient(job, service_id, &doc, activity, addresses, wave, now);
        let recipient = match recipient {
            Ok(recipient) => recipient,
            Err(NoRecipient::Excluded(Exclusion::OtherWave)) => {
                self.of_other_waves += 1;
                return Ok(());
            }
            Err(NoRecipient::Excluded(exclusion)) => {
                self.left_out.add(exclusion);
                return Ok(());
            }
            Err(NoRecipient::Costly(error)) => return Err(error),
            Err(NoRecipient::Unreadable(why)) => {
                // It is unknown whether the user is in the audience, so each message gets the
                // reason.
                let ended = job.content.messages().iter();
                let ended = ended.map(|message| (message.channel, RowState::Failed, why));
                let (profile, custom) = (Map::new(), CustomAttributes::default());
                let recipient = Recipient { service_id, profile, custom, stopped: None };
                let user = User { recipient, named, messages: Vec::new() };
                self.chosen.push(Chosen { user, ended: ended.collect() });
                return Ok(());
            }
        };
        let (mut messages, mut ended) = (Vec::new(), Vec::new());
        for (index, message) in job.content.messages().iter().enumerate() {
            let channel = message.channel;
            if !is_subscribed(&recipient, channel, job.order.subscription_state) {
                self.left_out.unsubscribed += 1;
                continue;
            }
            match without_address(&recipient, channel) {
                Some(why) => ended.push((channel, RowState::Unreachable, why)),
                None => messages.push(DueMessage { index, channel, attempts: 0, created_at: now }),
            }
        }
        if !messages.is_empty() || !ended.is_empty() {
            self.chosen.push(Chosen { user: User { recipient, named, messages }, ended });
        }
        Ok(())
    }
}

/// Messages that were stored before, with the current state of their users, and with their entries
/// if users have data.
fn reopen(
    job: &Job,
    open: Vec<OpenMessage>,
    stored: Vec<StoredUser>,
    addresses: &AddressStates,
    mut entries: Option<HashMap<Uuid, Arc<Named>>>,
) -> Batch {
    let mut read = |user: &StoredUser| -> Result<User, &'static str> {
        let named = match &mut entries {
            None => None,
            Some(entries) => Some(entries.remove(&user.service_id).ok_or(UNKNOWN_ENTRY)?),
        };
        let recipient = read_user(user.service_id, &user.doc, addresses)?;
        Ok(User { recipient, named, messages: Vec::new() })
    };
    let mut users: HashMap<Uuid, Result<User, &'static str>> =
        stored.iter().map(|user| (user.service_id, read(user))).collect();
    let mut ended = Vec::new();
    for OpenMessage { service_id, channel, attempts, created_at } in open {
        let index = job.content.messages().iter().position(|message| message.channel == channel);
        let user = users.get_mut(&service_id);
        let found = user.as_deref().map(|user| match user {
            Ok(user) => Ok(&user.recipient),
            Err(why) => Err(*why),
        });
        // It may be hours after the messages were stored.
        let checked = check_again(found, channel, job.order.subscription_state);
        let (state, why) = match (checked, user, index) {
            (Ok(()), Some(Ok(user)), Some(index)) => {
                user.messages.push(DueMessage { index, channel, attempts, created_at });
                continue;
            }
            (Err(outcome), ..) => outcome,
            _ => DELETED,
        };
        ended.push(Settled::ended(service_id, channel, state, Some(why.to_owned())));
    }
    let users = users.into_values().flatten().filter(|user| !user.messages.is_empty());
    Batch { users: users.collect(), ended, read_at: None }
}

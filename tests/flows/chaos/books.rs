//! The required effects of every acknowledged request of the mixed load, and the possible effects
//! of those without a response. Compared with the outcome at the end; independent of the program.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use uuid::Uuid;

use super::ledger::Ledger;
use super::taken::Taken;
use crate::support::callbacks;
use crate::support::channel_receivers::Mark;

/// By how much clocks on one machine differ.
const TOLERANCE_MS: i64 = 1_000;

/// A callback that must come.
struct Callback {
    secret: Vec<u8>,
    body: Value,
}

/// An export that ended, to be looked at.
pub struct Ended {
    pub workspace: usize,
    pub status: Value,
    pub url: Option<String>,
}

/// How many requests a restored database does not know.
pub struct Lost {
    pub transactional: usize,
    pub schedules: usize,
}

#[derive(Default)]
struct Pages {
    /// The messages that must come over a wire, each once, and not before (milliseconds since
    /// the epoch).
    messages: HashMap<Mark, i64>,
    /// Dispatches that make a content card, and whose.
    cards: BTreeSet<(Uuid, usize)>,
    /// By the path of the receiver.
    callbacks: BTreeMap<String, Callback>,
    /// Users that one call alone is about, and whether it was acknowledged: if not it may have
    /// been done, in whole, or not.
    alone: BTreeMap<usize, bool>,
    /// The last acknowledged value of each catalog item.
    items: BTreeMap<String, u64>,
    tracked: Ledger,
    ended: Vec<Ended>,
    exports: usize,
    /// Sends that are scheduled.
    schedules: BTreeSet<usize>,
    /// What must not be, as text.
    wrong: Vec<String>,
}

#[derive(Default)]
pub struct Books(Mutex<Pages>);

impl Books {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().expect("no test panics here")
    }

    pub fn blame(&self, wrong: String) {
        println!("  !! {wrong}");
        self.pages().wrong.push(wrong);
    }

    /// What must not be, as text, so far.
    pub fn wrong(&self) -> Vec<String> {
        self.pages().wrong.clone()
    }

    /// Messages of a send by channels to users, each to come once and not before a time.
    pub fn expect(&self, send: usize, channels: &[&str], users: &[usize], not_before: i64) {
        let mut pages = self.pages();
        for user in users {
            for channel in channels {
                let mark = (send as u32, (*channel).to_owned(), *user as u32);
                pages.messages.insert(mark, not_before);
            }
        }
    }

    pub fn expect_cards(&self, dispatch: Uuid, users: &[usize]) {
        self.pages().cards.extend(users.iter().map(|user| (dispatch, *user)));
    }

    pub fn expect_schedule(&self, send: usize) {
        self.pages().schedules.insert(send);
    }

    pub fn enter_alone(&self, user: usize, is_acknowledged: bool) {
        self.pages().alone.insert(user, is_acknowledged);
    }

    pub fn enter_items(&self, items: &[String], value: u64) {
        self.pages().items.extend(items.iter().map(|item| (item.clone(), value)));
    }

    pub fn merge(&self, tracked: Ledger) {
        self.pages().tracked.merge(tracked);
    }

    /// An export that is done, and its required callback, to a path.
    pub fn enter_export(&self, ended: Ended, callback: Option<(String, Vec<u8>)>) {
        let mut body = serde_json::json!({ "success": true });
        if let Some(url) = &ended.url {
            body["url"] = url.clone().into();
        }
        let mut pages = self.pages();
        if let Some((path, secret)) = callback {
            pages.callbacks.insert(path, Callback { secret, body });
        }
        pages.exports += 1;
        pages.ended.push(ended);
    }

    /// Exports that nobody has looked at yet.
    pub fn take_ended(&self) -> Vec<Ended> {
        std::mem::take(&mut self.pages().ended)
    }

    /// The messages that must have come by a time, and the callbacks that must come.
    pub fn due(&self, by: i64) -> (Vec<Mark>, Vec<String>) {
        let pages = self.pages();
        let due = pages.messages.iter().filter(|(_, at)| **at <= by);
        (due.map(|(mark, _)| mark.clone()).collect(), pages.callbacks.keys().cloned().collect())
    }

    /// The latest time that a message is to come.
    pub fn last_due(&self) -> i64 {
        self.pages().messages.values().copied().max().unwrap_or_default()
    }

    /// Expects no longer what a restored database cannot know: transactional emails and schedules
    /// that were requested after the moment, and that were not sent before the loss.
    pub fn leave_lost(&self, known: &HashSet<Mark>, taken: &Taken) -> Lost {
        let (mut pages, (messages, _)) = (self.pages(), taken.messages());
        let Pages { messages: expected, schedules, .. } = &mut *pages;
        let mut lost_schedules = BTreeSet::new();
        let mut transactional = 0;
        expected.retain(|mark, _| {
            let (send, channel, _) = mark;
            let is_scheduled = schedules.contains(&(*send as usize));
            let is_lost = !known.contains(mark)
                && !messages.contains_key(mark)
                && (is_scheduled || channel == "transactional");
            if is_lost && is_scheduled {
                lost_schedules.insert(*send as usize);
            }
            transactional += usize::from(is_lost && !is_scheduled);
            !is_lost
        });
        schedules.retain(|send| !lost_schedules.contains(send));
        Lost { transactional, schedules: lost_schedules.len() }
    }

    /// How many of all there is, as text.
    pub fn summary(&self) -> String {
        let pages = self.pages();
        let (purchases, events) = pages.tracked.totals();
        format!(
            "{purchases} purchases, {events} events, {} users of a call without a key, {} catalog \
             items, {} messages, {} cards, {} schedules, {} exports, {} callbacks",
            pages.alone.len(),
            pages.items.len(),
            pages.messages.len(),
            pages.cards.len(),
            pages.schedules.len(),
            pages.exports,
            pages.callbacks.len()
        )
    }

    /// Whether a user that one call is about must be in an export; none where there is no such.
    pub fn alone(&self, user: usize) -> Option<bool> {
        self.pages().alone.get(&user).copied()
    }

    /// All users that one call alone is about and that must be in an export.
    pub fn all_alone(&self) -> BTreeSet<usize> {
        let pages = self.pages();
        pages.alone.iter().filter(|(_, sure)| **sure).map(|(user, _)| *user).collect()
    }

    /// What was tracked is there no more afterwards.
    pub fn take_tracked(&self) -> Ledger {
        std::mem::take(&mut self.pages().tracked)
    }

    /// Each message came, under one id that is no other's, and nothing else; how many came more
    /// than once, always under the same id.
    pub fn check_messages(&self, taken: &Taken) -> usize {
        let (pages, (messages, wrong)) = (self.pages(), taken.messages());
        assert!(wrong.is_empty(), "{} messages are wrong:\n{}", wrong.len(), wrong.join("\n"));
        let missing: Vec<_> =
            pages.messages.keys().filter(|mark| !messages.contains_key(*mark)).collect();
        assert!(missing.is_empty(), "{} did not come: {:?}", missing.len(), &missing[..1]);
        let more: Vec<_> =
            messages.keys().filter(|mark| !pages.messages.contains_key(*mark)).collect();
        assert!(more.is_empty(), "{} that nobody asked for: {:?}", more.len(), &more[..1]);
        let ids: BTreeSet<&str> = messages.values().map(|message| message.id.as_str()).collect();
        assert_eq!(ids.len(), messages.len(), "an id is that of several messages");
        for (mark, message) in &messages {
            let not_before = pages.messages[mark];
            let early = not_before - message.at;
            assert!(early <= TOLERANCE_MS, "{mark:?} came {early} ms before its time");
        }
        messages.values().map(|message| message.times - 1).sum()
    }

    /// Each callback came, signed, under one id, and says what it must; how many came again.
    pub fn check_callbacks(&self, taken: &Taken) -> usize {
        let (pages, told) = (self.pages(), taken.callbacks());
        for (path, callback) in &pages.callbacks {
            let all = told.get(path).unwrap_or_else(|| panic!("no callback at {path}"));
            for received in all {
                assert_eq!(received.id, all[0].id, "{path} has callbacks of two ids");
                assert!(
                    received.is_signed_with(&callback.secret),
                    "{path} is not signed: {received:?}"
                );
                let body: Value = serde_json::from_slice(&received.body).expect("JSON");
                assert_eq!(callbacks::without_manifest(body), callback.body, "{path}");
            }
        }
        let more: Vec<_> =
            told.keys().filter(|path| !pages.callbacks.contains_key(*path)).collect();
        assert!(more.is_empty(), "callbacks that nobody asked for: {more:?}");
        told.values().map(|all| all.len() - 1).sum()
    }

    /// The items as they are stored have their last acknowledged values.
    pub fn check_items(&self, stored: &BTreeMap<String, u64>) {
        for (item, value) in &self.pages().items {
            assert_eq!(stored.get(item), Some(value), "{item}");
        }
    }

    /// The cards in the store are those that must be.
    pub fn check_cards(&self, stored: &[(Uuid, usize)]) {
        let (pages, unique) = (self.pages(), stored.iter().copied().collect::<BTreeSet<_>>());
        assert_eq!(unique.len(), stored.len(), "a card is there twice");
        assert!(unique == pages.cards, "{} cards, and {}", unique.len(), pages.cards.len());
    }
}

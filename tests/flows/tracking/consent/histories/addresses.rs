//! Email addresses and phone numbers, which users get from each other, and decisions about them.

use std::cmp::Reverse;

use longshore::users::suppressions::{Address, hash_to_hex};
use serde_json::{Value, json};

use super::super::super::model::Random;
use super::{History, Person, Received, Request, START, STEP, group, state};

/// The kinds of addresses.
pub const EMAIL: usize = 0;
pub const PHONE: usize = 1;

/// The kind of the address that a topic is about.
pub fn kind(topic: usize) -> Option<usize> {
    match topic {
        0 => Some(EMAIL),
        1 => None,
        _ => Some(PHONE),
    }
}

/// A decision about an address.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    at: i64,
    topic: usize,
    is_out: bool,
    /// The user whose own decision it was.
    by: Option<usize>,
    /// Whether it is about this address for sure: an opt-out by another name of a user can be
    /// applied before or after the user gets another address.
    is_sure: bool,
}

/// All decisions about an address.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Vec<Decision>);

impl Decisions {
    /// The states that the address may have in a topic: whether it may be unsubscribed, and whether
    /// it may not. Of two decisions at the same time, `unsubscribed` holds.
    fn may_be(&self, topic: usize) -> (bool, bool) {
        let mut last: Vec<&Decision> = self.0.iter().filter(|of| of.topic == topic).collect();
        last.sort_by_key(|of| Reverse((of.at, of.is_out)));
        let sure = last.iter().position(|of| of.is_sure);
        let is_out = last[..sure.map_or(last.len(), |at| at + 1)].iter().any(|of| of.is_out);
        (is_out, sure.is_none_or(|at| !last[at].is_out))
    }

    /// The last decision for sure, if it is an opt-in.
    fn opt_in(&self, topic: usize) -> Option<i64> {
        let sure = self.0.iter().filter(|of| of.topic == topic && of.is_sure);
        sure.max_by_key(|of| (of.at, of.is_out)).filter(|of| !of.is_out).map(|of| of.at)
    }

    /// Whether an opt-in was received since a time.
    fn has_opt_in(&self, topic: usize, since: i64) -> bool {
        self.0.iter().any(|of| of.topic == topic && !of.is_out && of.at >= since)
    }
}

impl History {
    pub(super) fn address(&self, kind: usize, address: usize) -> String {
        if kind == EMAIL { self.email(address) } else { self.phone(address) }
    }

    /// Whether a user may be unsubscribed, and whether the user may not, by the user's own decisions
    /// and by those about the user's address.
    pub(super) fn may_be_out(&self, person: &Person, topic: usize) -> (bool, bool) {
        let own = person.topics[topic];
        let (mut may_be_out, mut may_be_in) = (own.is_out || own.is_open, !own.is_out);
        let Some(kind) = kind(topic) else { return (may_be_out, may_be_in) };
        let had = person.had[kind].iter().map(|address| &self.addresses[kind][*address]);
        // An opt-in of an address ends the earlier opt-outs of the users who had it.
        let has_ended = person.has[kind].is_some_and(|address| {
            let opt_in = self.addresses[kind][address].opt_in(topic);
            opt_in.is_some_and(|at| own.at < at && person.got_at[kind] <= at)
        });
        if own.is_out && has_ended {
            (may_be_out, may_be_in) = (person.is_loose[kind], true);
        } else if person.is_loose[kind] && had.clone().any(|of| of.has_opt_in(topic, own.at)) {
            may_be_in = true;
        }
        match person.has[kind].map(|address| self.addresses[kind][address].may_be(topic)) {
            Some((is_out, is_in)) => (may_be_out || is_out, may_be_in && is_in),
            None => (may_be_out, may_be_in),
        }
    }

    fn add(&mut self, kind: usize, address: usize, decision: Decision) {
        self.addresses[kind][address].0.push(decision);
    }

    /// A user's opt-out reaches the user's address. `is_sure` if it is in order with the changes of
    /// addresses.
    pub(super) fn reach(&mut self, by: usize, topic: usize, is_sure: bool) {
        let Some(kind) = kind(topic) else { return };
        let person = &self.persons[by];
        let is_sure = is_sure || !person.is_unsettled(kind);
        let (at, by) = (self.at, Some(by));
        let decision = Decision { at, topic, is_out: true, by, is_sure };
        let addresses = match person.has[kind] {
            Some(address) if is_sure => vec![address],
            None if is_sure => Vec::new(),
            _ => person.had[kind].clone(),
        };
        addresses.into_iter().for_each(|address| self.add(kind, address, decision));
    }

    /// A user's opt-out may reach each address that the user had.
    pub(super) fn may_reach(&mut self, by: usize, topic: usize) {
        let Some(kind) = kind(topic) else { return };
        let decision = Decision { at: self.at, topic, is_out: true, by: Some(by), is_sure: false };
        let had = self.persons[by].had[kind].clone();
        had.into_iter().for_each(|address| self.add(kind, address, decision));
    }

    /// A decision about an address, whoever has it.
    pub(super) fn decide_about(&mut self, kind: usize, address: usize, topic: usize, is_out: bool) {
        let decision = Decision { at: self.at, topic, is_out, by: None, is_sure: true };
        self.add(kind, address, decision);
    }

    /// What a user decided since all was applied can be applied after a change of the user's
    /// address, or not at all.
    pub(super) fn unsettle(&mut self, by: usize, kind: usize) {
        let known_at = self.known_at;
        for address in &mut self.addresses[kind] {
            let own = address.0.iter_mut().filter(|of| of.by == Some(by) && of.at > known_at);
            own.for_each(|of| of.is_sure = false);
        }
        let person = &mut self.persons[by];
        person.is_loose[kind] |= person.has_decided;
        let had = person.had[kind].clone();
        let waiting = person.waiting.iter().filter(|(topic, _)| self::kind(*topic) == Some(kind));
        let waiting: Vec<(usize, i64)> = waiting.copied().collect();
        for (topic, at) in waiting {
            let decision = Decision { at, topic, is_out: true, by: Some(by), is_sure: false };
            had.iter().for_each(|address| self.add(kind, *address, decision));
        }
    }

    /// The user gets another address, or none.
    pub(super) fn take(&mut self, at: usize, kind: usize, address: Option<usize>) {
        if self.persons[at].has[kind] == address {
            return;
        }
        let (now, person) = (self.at, &mut self.persons[at]);
        person.has[kind] = address;
        person.had[kind].extend(address);
        person.has_new[kind] = true;
        if person.has_state(kind) {
            person.got_at[kind] = now;
        }
        // An opt-out by this email can be applied after this.
        if kind == EMAIL && address.is_some_and(|email| self.waiting_emails.contains(&email)) {
            let own = &mut person.topics[0];
            (own.is_open, own.was_out) = (own.is_open || !own.is_out, true);
            person.is_loose[EMAIL] = true;
        }
        self.unsettle(at, kind);
    }

    /// The link in an email to an address that the user has or had. The gateway decides for the
    /// user if it knows that the user still has the address. Links of earlier releases have no
    /// address.
    pub(super) fn link(&mut self, random: &mut Random, at: usize) {
        let person = &self.persons[at];
        if person.service_ids.is_empty() {
            return;
        }
        let id = person.service_ids[random.below(person.service_ids.len() as i64) as usize];
        let known = person.known_email;
        let of_link = match person.had[EMAIL].as_slice() {
            [] => None,
            _ if random.below(3) == 0 => None,
            had => Some(had[random.below(had.len() as i64) as usize]),
        };
        let out = json!({ "fields": { "email_subscribe": "unsubscribed" }, "update_only": true });
        if of_link.is_none() || of_link == known {
            self.set(&id.to_string(), json!({ "service_id": id }), out.clone());
            self.decide(at, 0, true);
            self.reach(at, 0, false);
            if let Some(email) = known {
                let email_text = self.email(email);
                self.set_address(&email_text, json!({ "email": email_text }), out);
                self.decide_about(EMAIL, email, 0, true);
            }
        } else if let Some(email) = of_link {
            let key = self.key.as_ref().expect("a key");
            let hash = hash_to_hex(&key.hash(&Address::Email(self.email(email).into())));
            self.set_address(&hash, json!({ "email_hash": hash }), out);
            self.decide_about(EMAIL, email, 0, true);
        }
    }

    /// A decision by `/email/status`, or about a number by `/subscription/status/set`.
    pub(super) fn status(&mut self, random: &mut Random, topic: usize, is_out: bool) {
        let Some(kind) = kind(topic) else { return };
        let address = random.below(3) as usize;
        let (text, name) = (self.address(kind, address), ["email", "phone"][kind]);
        if kind == PHONE && is_out && random.below(2) == 0 {
            self.told.push(format!("{} stop: {text}, {topic}", (self.at - START) / STEP));
            let received = Received::Stopped(text, group(topic));
            self.requests.push(Request { at: self.at, received });
            return self.decide_about(kind, address, topic, true);
        }
        let mut object = if kind == EMAIL {
            state(random, 0, is_out)
        } else {
            let state = if is_out { "unsubscribed" } else { "subscribed" };
            json!({ "groups": { group(topic): state } })
        };
        object["update_only"] = true.into();
        self.set_address(&text, json!({ name: text }), object);
        self.decide_about(kind, address, topic, is_out);
    }

    /// An opt-out by an email address that identifies a user, if anybody has it.
    pub(super) fn opt_out_by_email(&mut self, random: &mut Random) {
        let email = random.below(3) as usize;
        let text = self.email(email);
        let mut object = state(random, 0, true);
        object["update_only"] = true.into();
        self.set(&text, json!({ "email": text }), object);
        self.decide_about(EMAIL, email, 0, true);
        self.waiting_emails.push(email);
        for at in 0..self.persons.len() {
            if self.persons[at].had[EMAIL].contains(&email) {
                // It is also the own decision of one of them.
                let own = &mut self.persons[at].topics[0];
                (own.is_open, own.was_out) = (own.is_open || !own.is_out, true);
                self.persons[at].is_loose[EMAIL] = true;
                let others: Vec<usize> = self.persons[at].had[EMAIL].clone();
                let is_unsettled = self.persons[at].is_unsettled(EMAIL);
                for other in others.into_iter().filter(|other| is_unsettled && *other != email) {
                    let (at, by) = (self.at, Some(at));
                    let decision = Decision { at, topic: 0, is_out: true, by, is_sure: false };
                    self.add(EMAIL, other, decision);
                }
            }
        }
    }

    /// Some change of the address also sets a state.
    pub(super) fn change_address(
        &mut self,
        random: &mut Random,
        at: usize,
        kind: usize,
        is_out: bool,
    ) {
        let Some(id) = self.persons[at].external_ids.first().cloned() else { return };
        let address = random.below(3) as usize;
        let name = ["email", "phone"][kind];
        let mut object = json!({ "fields": { name: self.address(kind, address) } });
        self.persons[at].has_waiting = true;
        self.take(at, kind, Some(address));
        if random.below(3) == 0 {
            let topic = if kind == EMAIL { 0 } else { 2 + random.below(2) as usize };
            object = state(random, topic, is_out);
            object["fields"][name] = self.address(kind, address).into();
            self.decide(at, topic, is_out);
            if is_out {
                self.reach(at, topic, true);
            }
        }
        self.set(&id, json!({ "external_id": id }), object);
    }

    /// An object about an address.
    fn set_address(&mut self, key: &str, address: Value, mut object: Value) {
        object["address"] = address.clone();
        let user = match address.get("email") {
            Some(email) => json!({ "email": email }),
            None => json!({ "service_id": uuid::Uuid::nil() }),
        };
        self.set(key, user, object);
    }
}

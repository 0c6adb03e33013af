//! The user's decisions to get messages or not: about emails, about push messages, and about each
//! subscription group.
//!
//! The profile has each state in a field, as requests set it, and the times of the decisions in one
//! more field ([`DECISION_TIMES`](super::profile::DECISION_TIMES)). A state without a time counts
//! as decided before all others.
//!
//! - The decision that was received last holds, in whatever order decisions are applied. Of two
//!   that were received at the same time, `unsubscribed` holds.
//! - Where the states of two users [meet](Consent::meet), `unsubscribed` holds, unless the kept
//!   user decided later.
//! - What was decided about an [address](super::suppressions) is stored with the address, and
//!   [applied](Consent::apply_address) when the user is read.
//! - A decision that was received before two users met can be applied after that. Then it is
//!   not known which of them it concerns. `unsubscribed` counts as if it was received when they
//!   met, and any other decision does not end it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::profile::{Field, Profile, check};
use kit::json::push_string;

/// The state in which a user gets no messages.
pub const UNSUBSCRIBED: &str = "unsubscribed";

/// What a user decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'a> {
    Email,
    Push,
    /// A subscription group, by its id in any spelling.
    Group(&'a str),
}

/// A state, and when it was decided, in milliseconds since the epoch; 0 if that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Decision {
    state: Option<String>,
    at: i64,
}

/// A user's decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    email: Decision,
    push: Decision,
    /// By the ids [as they are compared](check::group_id): earlier versions stored any spelling.
    groups: Vec<(String, Decision)>,
    /// When the user's state met that of another user for the last time; else 0.
    met_at: i64,
    /// When the user, who had decided about emails, got another email address for the last time;
    /// else 0.
    address_at: i64,
    /// When the user, who had decided about groups, got another phone number for the last time; else
    /// 0.
    phone_at: i64,
}

/// Times of decisions, by topic; a time that is 0 is absent.
#[derive(Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct TopicTimes {
    #[serde(skip_serializing_if = "is_unknown")]
    email: i64,
    #[serde(skip_serializing_if = "is_unknown")]
    push: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, i64>,
}

/// The stored form of the times; a time that is 0 is absent. Version 0.2.0 changes states but not
/// their times. So the times of opt-outs are in a field of their own: if an opt-out has no time
/// there, version 0.2.0 stored it.
#[derive(Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct Times {
    #[serde(flatten)]
    other: TopicTimes,
    #[serde(skip_serializing_if = "TopicTimes::is_empty")]
    unsubscribed: TopicTimes,
    #[serde(skip_serializing_if = "is_unknown")]
    met: i64,
    #[serde(skip_serializing_if = "is_unknown")]
    address: i64,
    #[serde(skip_serializing_if = "is_unknown")]
    phone: i64,
}

#[derive(Deserialize)]
struct StoredGroup {
    subscription_group_id: String,
    subscription_state: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unknown(time: &i64) -> bool {
    *time == 0
}

/// Whether a profile's field has a state.
pub fn is_state(field: Field) -> bool {
    matches!(field, Field::EmailSubscribe | Field::PushSubscribe | Field::SubscriptionGroups)
}

/// Whether the value of a [field with states](is_state) has none: it changes no state.
pub fn is_empty_state(field: Field, value: &str) -> bool {
    is_state(field) && matches!(value, "null" | "\"\"" | "[]")
}

/// The groups in a value of `subscription_groups`, with their states.
pub fn groups(json: &str) -> Vec<(String, String)> {
    let group = |group: StoredGroup| {
        (check::group_id(&group.subscription_group_id).into_owned(), group.subscription_state)
    };
    stored_groups(json).into_iter().map(group).collect()
}

fn stored_groups(json: &str) -> Vec<StoredGroup> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Whether a group has another spelling than the one that is compared.
fn has_other_spelling(json: &str) -> bool {
    let is_other = |group: &StoredGroup| {
        matches!(check::group_id(&group.subscription_group_id), Cow::Owned(_))
    };
    stored_groups(json).iter().any(is_other)
}

impl TopicTimes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn group(&self, id: &str) -> i64 {
        self.groups.get(id).copied().unwrap_or_default()
    }

    /// The same; of two times of a group, in different spellings, the later one counts.
    fn by_compared_id(mut self) -> Self {
        for (id, at) in std::mem::take(&mut self.groups) {
            let last = self.groups.entry(check::group_id(&id).into_owned()).or_insert(at);
            *last = at.max(*last);
        }
        self
    }
}

impl Times {
    /// The times of decisions like this one.
    fn topic_times(&mut self, decision: &Decision) -> &mut TopicTimes {
        if decision.is_opt_out() { &mut self.unsubscribed } else { &mut self.other }
    }
}

impl Decision {
    /// A stored state, and the times of its topic.
    fn read(state: Option<String>, other: i64, unsubscribed: i64) -> Self {
        let mut decision = Self { state, at: unsubscribed };
        if !decision.is_opt_out() {
            decision.at = unsubscribed.max(other);
        }
        decision
    }

    fn is_opt_out(&self) -> bool {
        self.state.as_deref() == Some(UNSUBSCRIBED)
    }

    fn decide(&mut self, met_at: i64, state: Option<&str>, at: i64) {
        let is_opt_out = state == Some(UNSUBSCRIBED);
        let is_last = at > self.at || (at == self.at && (is_opt_out || !self.is_opt_out()));
        if !is_last {
            return;
        }
        let state = state.map(str::to_owned);
        if at > met_at {
            *self = Self { state, at };
        } else if is_opt_out {
            *self = Self { state, at: met_at };
        } else if !self.is_opt_out() {
            // The state can change, but it must not end an earlier `unsubscribed` that is applied
            // later.
            self.state = state;
        }
    }

    /// Whether this decision was made after a meeting, so that the state of `other` does not
    /// matter.
    fn outlasts(&self, other: &Self, met_at: i64) -> bool {
        self.at > met_at && self.at > other.at
    }

    fn met(&self, other: &Self, at: i64, both_continue: bool) -> Self {
        if self.outlasts(other, at) {
            return self.clone();
        }
        if both_continue && other.outlasts(self, at) {
            return other.clone();
        }
        let opt_outs = [self, other].into_iter().filter(|decision| decision.is_opt_out());
        match opt_outs.map(|decision| decision.at).max() {
            Some(decided) => Self { state: Some(UNSUBSCRIBED.to_owned()), at: decided.max(at) },
            None => Self {
                state: self.state.clone().or_else(|| other.state.clone()),
                at: self.at.min(other.at),
            },
        }
    }

    fn joined(&self, other: &Self) -> Self {
        let is_last = other.at > self.at || (other.at == self.at && other.is_opt_out());
        let last = if is_last { other } else { self };
        Self { state: last.state.clone(), at: last.at }
    }
}

impl Consent {
    /// The decisions in a profile.
    pub fn read(profile: &Profile) -> Self {
        let times = profile.decision_times().and_then(|times| serde_json::from_str(times).ok());
        let Times { other, unsubscribed, met, address, phone } = times.unwrap_or_default();
        let (other, unsubscribed) = (other.by_compared_id(), unsubscribed.by_compared_id());
        let (email, push) =
            (profile.text(Field::EmailSubscribe), profile.text(Field::PushSubscribe));
        let mut consent = Self {
            email: Decision::read(email, other.email, unsubscribed.email),
            push: Decision::read(push, other.push, unsubscribed.push),
            groups: Vec::new(),
            met_at: met,
            address_at: address,
            phone_at: phone,
        };
        for (id, state) in profile.get(Field::SubscriptionGroups).map(groups).unwrap_or_default() {
            let (other, unsubscribed) = (other.group(&id), unsubscribed.group(&id));
            let decision = consent.decision(Topic::Group(&id));
            // A group can be there twice: from a request that named it twice, or in two spellings.
            if !decision.is_opt_out() {
                *decision = Decision::read(Some(state), other, unsubscribed);
            }
        }
        for (id, at) in other.groups.into_iter().chain(unsubscribed.groups) {
            let decision = consent.decision(Topic::Group(&id));
            if decision.state.is_none() {
                decision.at = decision.at.max(at);
            }
        }
        consent
    }

    /// The same; opt-outs without a time count as decided at this one. Version 0.2.0 stores no
    /// times, so that is when the user's attributes were written last.
    pub fn with_opt_outs_at(mut self, attributes_at: i64) -> Self {
        let groups = self.groups.iter_mut().map(|(_, decision)| decision);
        for decision in [&mut self.email, &mut self.push].into_iter().chain(groups) {
            if decision.is_opt_out() && decision.at == 0 {
                decision.at = attributes_at;
            }
        }
        self
    }

    /// The state that was decided; none if no request set one, or if it was removed.
    pub fn state(&self, topic: Topic<'_>) -> Option<&str> {
        let decision = match topic {
            Topic::Email => &self.email,
            Topic::Push => &self.push,
            Topic::Group(id) => {
                let id = check::group_id(id);
                &self.groups.iter().find(|(group, _)| *group == id)?.1
            }
        };
        decision.state.as_deref()
    }

    /// The states that were decided, and when, in milliseconds since the epoch; 0 if that is not
    /// known: of emails, of push messages and of each group.
    pub fn states(&self) -> impl Iterator<Item = (Topic<'_>, &str, i64)> {
        let groups = self.groups.iter().map(|(id, decision)| (Topic::Group(id), decision));
        let all = [(Topic::Email, &self.email), (Topic::Push, &self.push)].into_iter();
        all.chain(groups)
            .filter_map(|(topic, decision)| Some((topic, decision.state.as_deref()?, decision.at)))
    }

    /// The number of topics about which the user gets no messages.
    pub fn opt_outs(&self) -> u64 {
        self.states().filter(|(_, state, _)| *state == UNSUBSCRIBED).count() as u64
    }

    fn decision(&mut self, topic: Topic<'_>) -> &mut Decision {
        let id = match topic {
            Topic::Email => return &mut self.email,
            Topic::Push => return &mut self.push,
            Topic::Group(id) => check::group_id(id),
        };
        let index = self.groups.iter().position(|(group, _)| *group == id).unwrap_or_else(|| {
            self.groups.push((id.into_owned(), Decision::default()));
            self.groups.len() - 1
        });
        &mut self.groups[index].1
    }

    /// Applies a decision that was received at a time. A decision that was received before the
    /// stored one has no effect. Nor has what is none of the three states, such as none and an
    /// empty text.
    pub fn decide(&mut self, topic: Topic<'_>, state: Option<&str>, at: i64) {
        if !state.is_some_and(|state| check::SUBSCRIPTION.contains(&state)) {
            return;
        }
        let met_at = self.met_at;
        self.decision(topic).decide(met_at, state, at);
    }

    /// Applies the value of a [field with states](is_state), received at a time. A list of groups
    /// removes the states of other groups. But this is no decision about them: `unsubscribed`
    /// stays, and the time of the last decision, too. A value [without a state](is_empty_state)
    /// changes nothing.
    pub fn decide_field(&mut self, field: Field, value: Option<&str>, at: i64) {
        if value.is_none_or(|value| is_empty_state(field, value)) {
            return;
        }
        let text = || value.and_then(|value| serde_json::from_str::<String>(value).ok());
        match field {
            Field::EmailSubscribe => self.decide(Topic::Email, text().as_deref(), at),
            Field::PushSubscribe => self.decide(Topic::Push, text().as_deref(), at),
            Field::SubscriptionGroups => {
                let listed = value.map(groups).unwrap_or_default();
                if listed.is_empty() {
                    return;
                }
                let is_listed = |id: &str| listed.iter().any(|(group, _)| group == id);
                for (id, stored) in &mut self.groups {
                    if !is_listed(id) && !stored.is_opt_out() && stored.at < at {
                        stored.state = None;
                    }
                }
                for (id, state) in &listed {
                    self.decide(Topic::Group(id), Some(state), at);
                }
            }
            _ => {}
        }
    }

    /// Notes that the user got another email address at a time.
    pub fn changed_email(&mut self, at: i64) {
        if self.email.state.is_some() {
            self.address_at = self.address_at.max(at);
        }
    }

    /// Notes that the user got another phone number at a time.
    pub fn changed_phone(&mut self, at: i64) {
        if !self.groups.is_empty() {
            self.phone_at = self.phone_at.max(at);
        }
    }

    /// When the user got the address that a topic is about, if a decision was made before; else 0.
    pub(super) fn address_at(&self, topic: Topic<'_>) -> i64 {
        match topic {
            Topic::Email => self.address_at,
            Topic::Push => 0,
            Topic::Group(_) => self.phone_at,
        }
    }

    /// Whether the user had the present address when a decision was made.
    pub fn is_of_present_address(&self, topic: Topic<'_>, at: i64) -> bool {
        self.address_at(topic) <= at
    }

    /// Changes the user's own decision to what applies with the last decision about the user's
    /// address. `unsubscribed` holds. Another state ends an earlier decision of a user who had the
    /// address at that time.
    pub fn apply_address(&mut self, topic: Topic<'_>, state: &str, at: i64) {
        let had_address = self.is_of_present_address(topic, at);
        let decision = self.decision(topic);
        if state == UNSUBSCRIBED {
            *decision = Decision { state: Some(state.to_owned()), at: at.max(decision.at) };
        } else if decision.at < at && had_address {
            *decision = Decision { state: Some(state.to_owned()), at };
        }
    }

    /// Combines the state with that of another user who becomes part of this one, at the time when
    /// the request was received. If the other user's names identify this one from then on, so do
    /// later decisions (`both_continue`).
    pub fn meet(&mut self, other: &Self, at: i64, both_continue: bool) {
        self.combine(other, |decision, others| decision.met(others, at, both_continue));
        self.met_at = self.met_at.max(at);
    }

    /// Combines the state with that of another profile of the same user: the last decisions hold.
    pub fn join(&mut self, other: &Self) {
        self.combine(other, Decision::joined);
    }

    fn combine(&mut self, other: &Self, combined: impl Fn(&Decision, &Decision) -> Decision) {
        self.email = combined(&self.email, &other.email);
        self.push = combined(&self.push, &other.push);
        for (id, _) in &other.groups {
            self.decision(Topic::Group(id));
        }
        let none = Decision::default();
        for (id, decision) in &mut self.groups {
            let others = other.groups.iter().find(|(group, _)| group == id);
            *decision = combined(decision, others.map_or(&none, |(_, others)| others));
        }
        self.met_at = self.met_at.max(other.met_at);
        self.address_at = self.address_at.max(other.address_at);
        self.phone_at = self.phone_at.max(other.phone_at);
    }

    /// Applies the states in an imported profile. A line is older than the time of its import, so
    /// it does not end an opt-out, nor one that was received before and is applied later; topics
    /// that it does not name stay as they are. Returns how many states stay `unsubscribed` although
    /// the line has another one.
    pub fn import(&mut self, line: &Profile, at: i64) -> u64 {
        let (line, mut overruled) = (Self::read(line), 0);
        let email = Some((Topic::Email, &line.email));
        let push = Some((Topic::Push, &line.push));
        let groups = line.groups.iter().map(|(id, decision)| (Topic::Group(id), decision));
        for (topic, decision) in email.into_iter().chain(push).chain(groups) {
            let Some(state) = &decision.state else { continue };
            if self.state(topic) == Some(UNSUBSCRIBED) && !decision.is_opt_out() {
                overruled += 1;
            } else if decision.is_opt_out() {
                self.decide(topic, Some(state), at);
            } else {
                self.decision(topic).state = Some(state.clone());
            }
        }
        overruled
    }

    /// Writes the decisions to a profile; parts that are the same stay as they are.
    pub fn write(&self, profile: &mut Profile) {
        let before = Self::read(profile);
        let set = |profile: &mut Profile, field, decision: &Decision| match &decision.state {
            Some(state) => profile.set_text(field, state),
            None => profile.clear(field),
        };
        if self.email.state != before.email.state {
            set(profile, Field::EmailSubscribe, &self.email);
        }
        if self.push.state != before.push.state {
            set(profile, Field::PushSubscribe, &self.push);
        }
        let stored = profile.get(Field::SubscriptionGroups);
        if self.groups_json() != before.groups_json() || stored.is_some_and(has_other_spelling) {
            match self.groups_json() {
                Some(groups) => profile.set_json(Field::SubscriptionGroups, groups),
                None => profile.clear(Field::SubscriptionGroups),
            }
        }
        profile.replace_decision_times(self.times().map(String::into_boxed_str));
    }

    fn groups_json(&self) -> Option<String> {
        let mut out = String::new();
        for (id, decision) in &self.groups {
            let Some(state) = &decision.state else { continue };
            out.push_str(if out.is_empty() { "[" } else { "," });
            out.push_str(r#"{"subscription_group_id":"#);
            push_string(&mut out, id);
            out.push_str(r#","subscription_state":"#);
            push_string(&mut out, state);
            out.push('}');
        }
        (!out.is_empty()).then_some(out + "]")
    }

    fn times(&self) -> Option<String> {
        let (met, address, phone) = (self.met_at, self.address_at, self.phone_at);
        let mut times = Times { met, address, phone, ..Times::default() };
        times.topic_times(&self.email).email = self.email.at;
        times.topic_times(&self.push).push = self.push.at;
        for (id, decision) in self.groups.iter().filter(|(_, decision)| decision.at != 0) {
            times.topic_times(decision).groups.insert(id.clone(), decision.at);
        }
        (times != Times::default()).then(|| json!(times).to_string())
    }
}

#[cfg(test)]
mod tests;

//! Random histories of users, and a model of the decisions that hold after them.
//!
//! The model reads a history in the order of receipt: users have their own decisions, and
//! [addresses] have decisions of theirs. Where users become one, or get an address, a decision that
//! was received before can be applied after that; then the model knows what may hold.
//!
//! Tracked objects wait in their partitions. [Lines of imports](imports) and [reports about
//! devices](devices) are applied when they are received.

mod addresses;
mod devices;
mod identities;
mod imports;

use std::collections::HashMap;

use longshore::users::address::compared;
use longshore::users::devices::InvalidToken;
use longshore::users::suppressions::Key;
use serde_json::{Value, json};
use uuid::Uuid;

use addresses::{Decisions, EMAIL, PHONE};

use super::super::model::Random;

pub const PARTITIONS: usize = 3;

/// Emails, push messages and two groups.
pub const TOPICS: usize = 4;

/// When the first request is received, and the time between two.
const START: i64 = 1_790_000_000_000;
const STEP: i64 = 60_000;

pub struct Request {
    pub at: i64,
    pub received: Received,
}

pub enum Received {
    /// An object, in its partition.
    Tracked {
        partition: usize,
        object: Value,
    },
    Imported(Value),
    Reported(InvalidToken),
    /// A reply of STOP: the number, and the group.
    Stopped(String, String),
}

/// The copies of a change: the one in the partition of the first user, and that of the second.
pub fn copies(user: Value, change: Value) -> [Value; 2] {
    let copy = json!({ "identity": { "user": user, "change": change } });
    let mut second = copy.clone();
    second["identity"]["is_second"] = true.into();
    [copy, second]
}

/// A user's own last decision about a topic.
#[derive(Clone, Copy, Debug, Default)]
struct Decided {
    is_out: bool,
    at: i64,
    /// Whether the user was ever unsubscribed.
    was_out: bool,
    /// Whether `unsubscribed` may hold, too.
    is_open: bool,
    has_state: bool,
}

impl Decided {
    fn decide(&mut self, is_out: bool, at: i64) {
        let was_out = self.was_out || is_out;
        *self = Self { is_out, at, was_out, is_open: false, has_state: true };
    }

    /// The state of two users who become one.
    fn meet(self, other: Self, at: i64) -> Self {
        let (is_out, was_out) = (self.is_out || other.is_out, self.was_out || other.was_out);
        let has_state = self.has_state || other.has_state;
        Self { is_out, at, was_out, is_open: !is_out && was_out, has_state }
    }
}

#[derive(Clone, Debug, Default)]
struct Person {
    external_ids: Vec<String>,
    alias: Option<String>,
    /// Including those of merged users.
    service_ids: Vec<Uuid>,
    own_id: Option<Uuid>,
    /// The email address and the phone number.
    has: [Option<usize>; 2],
    /// All that the user had.
    had: [Vec<usize>; 2],
    /// When the user, who had decided before, got the present one.
    got_at: [i64; 2],
    topics: [Decided; TOPICS],
    /// Whether a change of names waits, so that no other one should be requested.
    is_changing: bool,
    /// Whether the address is new, so that a partition may not know it yet.
    has_new: [bool; 2],
    /// The email address that the gateway knows, while others wait in the log.
    known_email: Option<usize>,
    /// Whether an address waits in the log.
    has_waiting: bool,
    /// Whether decisions wait in the log.
    has_decided: bool,
    /// The topics and times of the opt-outs that wait in the log.
    waiting: Vec<(usize, i64)>,
    /// Whether the user may have decided before getting the address, or after that.
    is_loose: [bool; 2],
    /// Whether the user came back after an erasure that may not be applied yet.
    is_back: bool,
    is_gone: bool,
}

impl Person {
    fn has_state(&self, kind: usize) -> bool {
        let topics = if kind == EMAIL { &self.topics[..1] } else { &self.topics[2..] };
        topics.iter().any(|topic| topic.has_state)
    }

    /// Whether partitions can take the user to have different addresses.
    fn is_unsettled(&self, kind: usize) -> bool {
        self.has_new[kind] || self.is_changing
    }
}

struct History {
    name: String,
    persons: Vec<Person>,
    /// Emails and phone numbers.
    addresses: [[Decisions; 3]; 2],
    /// Emails by which opt-outs of users wait in the log.
    waiting_emails: Vec<usize>,
    /// The key of the hashes in links.
    key: Option<Key>,
    devices: [devices::Device; devices::COUNT],
    at: i64,
    /// When everything that was received before is applied.
    known_at: i64,
    requests: Vec<Request>,
    told: Vec<String>,
}

pub struct Histories(Vec<History>);

impl Histories {
    /// Histories that begin at a time, in milliseconds after the first ones.
    pub fn new(random: &mut Random, count: usize, ms: i64) -> Self {
        Self((0..count).map(|n| History::new(random, n, START + ms)).collect())
    }

    /// The requests that create the users.
    pub fn start(&mut self) -> Vec<Request> {
        self.taken()
    }

    /// Notes the ids of the users.
    pub fn know_ids(&mut self, documents: &[Value], key: &Key) {
        for history in &mut self.0 {
            history.key = Some(key.clone());
        }
        let mut by_name: HashMap<String, Uuid> = HashMap::new();
        for document in documents {
            let id = document["service_id"].as_str().unwrap().parse().unwrap();
            let name = document["external_id"].as_str();
            let name = name.or(document["user_aliases"][0]["alias_name"].as_str());
            by_name.extend(name.map(|name| (name.to_owned(), id)));
        }
        for person in self.0.iter_mut().flat_map(|history| &mut history.persons) {
            let name = person.external_ids.first().or(person.alias.as_ref()).unwrap();
            person.service_ids = vec![by_name[name]];
            person.own_id = Some(by_name[name]);
        }
    }

    /// More requests; all earlier ones are applied.
    pub fn go_on(&mut self, random: &mut Random) -> Vec<Request> {
        for history in &mut self.0 {
            for person in &mut history.persons {
                (person.is_changing, person.has_new) = (false, [false; 2]);
                (person.known_email, person.has_decided) = (person.has[EMAIL], false);
                (person.is_back, person.has_waiting) = (false, false);
                person.waiting.clear();
            }
            history.know_devices();
            history.waiting_emails.clear();
            for _ in 0..4 + random.below(7) {
                history.step(random);
            }
        }
        self.taken()
    }

    fn taken(&mut self) -> Vec<Request> {
        let requests = self.0.iter_mut().flat_map(|history| std::mem::take(&mut history.requests));
        let mut requests: Vec<Request> = requests.collect();
        requests.sort_by_key(|request| request.at);
        requests
    }

    /// Compares the stored users with the model.
    pub fn check(&self, documents: &[Value], seed: u64) {
        let by_id: HashMap<&str, &Value> = documents
            .iter()
            .filter_map(|user| Some((user["external_id"].as_str()?, user)))
            .collect();
        let mut checked = 0;
        for history in &self.0 {
            for person in history.persons.iter().filter(|person| !person.is_gone) {
                let Some(name) = person.external_ids.last() else { continue };
                let user = by_id.get(name.as_str());
                let user =
                    user.unwrap_or_else(|| panic!("seed {seed}: no {name}: {:#?}", history.told));
                for topic in 0..TOPICS {
                    let is_out = is_out(user, topic);
                    let (may_be_out, may_be_in) = history.may_be_out(person, topic);
                    assert!(
                        if is_out { may_be_out } else { may_be_in },
                        "seed {seed}, topic {topic} of {name}, {person:?}: {user}\n{:?}\n{:#?}",
                        history.addresses,
                        history.told,
                    );
                    checked += 1;
                }
            }
        }
        assert!(checked >= self.0.len() * TOPICS, "{checked}");
        self.check_devices(documents, seed);
    }
}

/// Whether a stored user is unsubscribed.
fn is_out(user: &Value, topic: usize) -> bool {
    let state = match topic {
        0 => &user["email_subscribe"],
        1 => &user["push_subscribe"],
        _ => {
            let mut groups = user["subscription_groups"].as_array().into_iter().flatten();
            let id = group(topic);
            let state = groups.rfind(|of| of["subscription_group_id"] == id);
            state.map_or(&Value::Null, |of| &of["subscription_state"])
        }
    };
    state == "unsubscribed"
}

fn group(topic: usize) -> String {
    format!("7d0c6f5e-4b1a-4e0f-9a55-{topic:012}")
}

/// The same object with another spelling of the groups.
fn respelled(object: &Value) -> Value {
    let respell = |text: String, topic| text.replace(&group(topic), &group(topic).to_uppercase());
    let text = (2..TOPICS).fold(object.to_string(), respell);
    serde_json::from_str(&text).unwrap()
}

/// The part of an attribute object that sets a state.
fn state(random: &mut Random, topic: usize, is_out: bool) -> Value {
    let state = if is_out { "unsubscribed" } else { "subscribed" };
    match topic {
        0 => json!({ "fields": { "email_subscribe": state } }),
        1 => json!({ "fields": { "push_subscribe": state } }),
        _ if random.below(2) == 0 => json!({ "groups": { group(topic): state } }),
        _ => {
            let group =
                json!({ "subscription_group_id": group(topic), "subscription_state": state });
            json!({ "fields": { "subscription_groups": [group] } })
        }
    }
}

impl History {
    fn new(random: &mut Random, n: usize, at: i64) -> Self {
        let mut history = Self {
            name: format!("{n}"),
            persons: Vec::new(),
            addresses: Default::default(),
            waiting_emails: Vec::new(),
            key: None,
            devices: Default::default(),
            at,
            known_at: at,
            requests: Vec::new(),
            told: Vec::new(),
        };
        for person in 0..3 {
            let name = format!("{n}-{person}");
            history.at += STEP;
            let mut of = Person::default();
            let user = if person == 2 {
                let add = json!({ "alias_name": name, "alias_label": "crm" });
                let user = json!({ "user_alias": add });
                let change = json!({ "user": user, "change": { "add_alias": add } });
                history.push(&name, json!({ "identity": change }));
                of.alias = Some(name.clone());
                user
            } else {
                of.external_ids.push(name.clone());
                json!({ "external_id": name })
            };
            history.persons.push(of);
            history.at += STEP;
            let has = [(); 2].map(|()| (random.below(3) > 0).then(|| random.below(3) as usize));
            (0..2).for_each(|kind| history.take(person, kind, has[kind]));
            let topic = random.below(TOPICS as i64 + 1) as usize;
            let mut object = match topic {
                TOPICS => json!({ "fields": {} }),
                topic => {
                    let is_out = random.below(2) == 0;
                    let object = state(random, topic, is_out);
                    history.decide(person, topic, is_out);
                    if is_out {
                        history.reach(person, topic, true);
                    }
                    object
                }
            };
            for (kind, name) in ["email", "phone"].into_iter().enumerate() {
                if let Some(address) = has[kind] {
                    object["fields"][name] = history.address(kind, address).into();
                }
            }
            object["user"] = user;
            history.push(&name, json!({ "attributes": object }));
        }
        // All are applied before anything else is received.
        history.persons.iter_mut().for_each(|person| person.is_loose = [false; 2]);
        history
    }

    /// Whether requests at this time have other spellings of addresses and groups.
    fn is_respelled(&self) -> bool {
        self.at / STEP % 2 == 1
    }

    fn email(&self, email: usize) -> String {
        let host = if self.is_respelled() { "xn--bcher-kva.example" } else { "bücher.example" };
        format!("{}-{email}@{host}", self.name)
    }

    fn phone(&self, phone: usize) -> String {
        format!("+4420{:0>6}{phone}", self.name)
    }

    fn push(&mut self, key: &str, object: Value) {
        // All spellings of an address have the same partition.
        let sum: usize = compared(key).bytes().map(usize::from).sum();
        let (partition, at) = (sum % PARTITIONS, self.at);
        let object = if self.is_respelled() { respelled(&object) } else { object };
        self.told.push(format!("{} in {partition}: {object}", (at - START) / STEP));
        self.requests.push(Request { at, received: Received::Tracked { partition, object } });
    }

    fn set(&mut self, key: &str, user: Value, mut object: Value) {
        object["user"] = user;
        self.push(key, json!({ "attributes": object }));
    }

    /// A user's own decision.
    fn decide(&mut self, at: usize, topic: usize, is_out: bool) {
        let person = &mut self.persons[at];
        person.topics[topic].decide(is_out, self.at);
        person.has_decided = true;
        if is_out {
            person.waiting.push((topic, self.at));
        }
        if let Some(kind) = addresses::kind(topic)
            && (kind == EMAIL || !person.topics[2..].iter().any(|of| of.is_out))
        {
            person.is_loose[kind] = person.is_unsettled(kind);
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.at += STEP;
        let alive: Vec<usize> =
            (0..self.persons.len()).filter(|at| !self.persons[*at].is_gone).collect();
        let at = alive[random.below(alive.len() as i64) as usize];
        let other = alive[random.below(alive.len() as i64) as usize];
        let is_out = random.below(2) == 0;
        let topic = random.below(TOPICS as i64) as usize;
        match random.below(21) {
            0..4 => self.track(random, at, topic, is_out),
            4 => self.link(random, at),
            5 => self.status(random, topic, is_out),
            6 => self.stop(at),
            7 => self.change_address(random, at, EMAIL, is_out),
            17 => self.change_address(random, at, PHONE, is_out),
            18 => self.opt_out_by_email(random),
            19 => self.status(random, 0, is_out),
            20 => self.track_without_state(random, at),
            8 => self.merge(at, other),
            9 => self.identify(at, other),
            10 => self.rename(at),
            11 => self.erase(random, at),
            12..15 => self.import(random, at, topic, is_out),
            15 => self.register(random, at),
            _ => self.report(random),
        }
    }

    /// By any name of the user.
    fn track(&mut self, random: &mut Random, at: usize, topic: usize, is_out: bool) {
        let person = &self.persons[at];
        let ids = person.external_ids.iter().map(|id| (id.clone(), json!({ "external_id": id })));
        let alias = person.alias.iter().map(|name| {
            let alias = json!({ "alias_name": name, "alias_label": "crm" });
            (name.clone(), json!({ "user_alias": alias }))
        });
        let service_ids =
            person.service_ids.iter().map(|id| (id.to_string(), json!({ "service_id": id })));
        let names: Vec<(String, Value)> = ids.chain(alias).chain(service_ids).collect();
        let (key, user) = names[random.below(names.len() as i64) as usize].clone();
        let object = state(random, topic, is_out);
        // The name may still be that of the other user in its partition.
        let is_former = user.get("external_id").is_none() && person.is_changing;
        self.set(&key, user, object);
        self.decide(at, topic, is_out);
        if is_out {
            self.reach(at, topic, false);
        }
        let decided = &mut self.persons[at].topics[topic];
        decided.is_open |= is_former && !is_out && decided.was_out;
    }

    /// A sync with empty fields decides nothing.
    fn track_without_state(&mut self, random: &mut Random, at: usize) {
        let Some(id) = self.persons[at].external_ids.last().cloned() else { return };
        let empty = [json!(null), json!("")][random.below(2) as usize].clone();
        let fields = match random.below(3) {
            0 => json!({ "email_subscribe": empty }),
            1 => json!({ "push_subscribe": empty }),
            _ => json!({ "email_subscribe": empty, "subscription_groups": null }),
        };
        let object = json!({ "fields": fields, "update_only": true });
        self.set(&id, json!({ "external_id": id }), object);
    }

    /// `STOP` in reply to an SMS: the provider's program sets the state of the group.
    fn stop(&mut self, at: usize) {
        let Some(id) = self.persons[at].external_ids.first().cloned() else { return };
        let object = json!({ "groups": { group(2): "unsubscribed" }, "update_only": true });
        self.set(&id, json!({ "external_id": id }), object);
        self.decide(at, 2, true);
        self.reach(at, 2, false);
    }
}

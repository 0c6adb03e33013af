//! Lines of imports. A line ends no opt-out, and keeps the states that it does not name. It
//! replaces the address, or removes it.

use serde_json::{Value, json};

use super::super::super::model::Random;
use super::{History, Person, Received, Request, START, STEP, devices, group};

impl History {
    pub(super) fn import(&mut self, random: &mut Random, at: usize, topic: usize, is_out: bool) {
        let person = &self.persons[at];
        if person.is_back {
            return;
        }
        let names = names(person);
        let mut line = names[random.below(names.len() as i64) as usize].clone();
        // Another address would be replaced by one that waits in the log.
        let is_settled = person.has_new == [false; 2] && !person.has_waiting && !person.is_changing;
        for (kind, name) in ["email", "phone"].into_iter().enumerate() {
            let address = match random.below(4) {
                0 if is_settled => None,
                1 if is_settled => Some(random.below(3) as usize),
                _ => self.persons[at].has[kind],
            };
            if let Some(address) = address {
                line[name] = self.address(kind, address).into();
            }
            self.take(at, kind, address);
            if !is_settled {
                // The address is applied before what waits in the log.
                self.unsettle(at, kind);
            }
        }
        if random.below(2) == 0 {
            let (field, value) = state(topic, is_out);
            line[field] = value;
            self.persons[at].topics[topic].has_state = true;
            if is_out {
                self.decide(at, topic, true);
                self.reach(at, topic, true);
            }
        }
        if random.below(3) == 0 {
            let device = random.below(devices::COUNT as i64) as usize;
            line["push_tokens"] = json!([self.token(device)]);
            self.import_device(at, device);
        }
        self.told.push(format!("{} import: {line}", (self.at - START) / STEP));
        self.requests.push(Request { at: self.at, received: Received::Imported(line) });
    }
}

/// What can identify the user in a line.
fn names(person: &Person) -> Vec<Value> {
    let ids = person.external_ids.iter().map(|id| json!({ "external_id": id }));
    let alias = person
        .alias
        .iter()
        .map(|name| json!({ "user_aliases": [{ "alias_name": name, "alias_label": "crm" }] }));
    let own = person.own_id.iter().map(|id| json!({ "service_id": id }));
    ids.chain(alias).chain(own).collect()
}

fn state(topic: usize, is_out: bool) -> (&'static str, Value) {
    let state = if is_out { "unsubscribed" } else { "subscribed" };
    match topic {
        0 => ("email_subscribe", state.into()),
        1 => ("push_subscribe", state.into()),
        _ => {
            let group =
                json!({ "subscription_group_id": group(topic), "subscription_state": state });
            ("subscription_groups", json!([group]))
        }
    }
}

//! Changes of names: users become one, get another id, or are erased.

use serde_json::{Value, json};

use super::super::super::model::Random;
use super::{History, Person, STEP, copies, state};

impl History {
    /// Pushes the copies of a change.
    fn change(&mut self, keys: [&str; 2], user: Value, change: Value) {
        for (key, copy) in keys.into_iter().zip(copies(user, change)) {
            self.push(key, copy);
        }
    }

    pub(super) fn merge(&mut self, gone: usize, kept: usize) {
        let [of, into] = [gone, kept].map(|at| &self.persons[at]);
        // A merge waits for what was received for the ids that it names, not for former ones.
        let ([id], Some(kept_id)) = (of.external_ids.as_slice(), into.external_ids.first()) else {
            return;
        };
        if gone == kept || of.is_changing || into.is_changing {
            return;
        }
        let (id, kept_id) = (id.clone(), kept_id.clone());
        let change = json!({ "merge_into": { "external_id": kept_id } });
        self.change([&id, &kept_id], json!({ "external_id": id }), change);
        self.become_one(gone, kept);
    }

    pub(super) fn identify(&mut self, gone: usize, kept: usize) {
        let [of, into] = [gone, kept].map(|at| &self.persons[at]);
        let (true, Some(alias)) = (of.external_ids.is_empty(), &of.alias) else { return };
        let Some(kept_id) = into.external_ids.first() else { return };
        if gone == kept || of.is_changing || into.is_changing {
            return;
        }
        let (alias, kept_id) = (alias.clone(), kept_id.clone());
        let user = json!({ "user_alias": { "alias_name": alias, "alias_label": "crm" } });
        self.change([&alias, &kept_id], user, json!({ "identify": kept_id }));
        self.become_one(gone, kept);
    }

    fn become_one(&mut self, gone: usize, kept: usize) {
        self.move_devices(gone, kept);
        let of = self.persons[gone].clone();
        self.persons[gone].is_gone = true;
        let now = self.at;
        let into = &mut self.persons[kept];
        into.is_changing = true;
        into.alias = into.alias.take().or(of.alias);
        into.service_ids.extend(of.service_ids);
        into.waiting.extend(of.waiting);
        into.has_decided |= of.has_decided;
        for (own, other) in into.topics.iter_mut().zip(of.topics) {
            *own = own.meet(other, now);
        }
        for (kind, had) in of.had.into_iter().enumerate() {
            into.has[kind] = into.has[kind].or(of.has[kind]);
            into.had[kind].extend(had);
            into.got_at[kind] = into.got_at[kind].max(of.got_at[kind]);
            into.is_loose[kind] |= of.is_loose[kind];
            into.has_new[kind] = true;
        }
        // The opt-outs of both are of the time of this change from then on. If something that was
        // received before is applied after it, they can reach the kept user's address.
        for topic in [0, 2, 3] {
            let own = self.persons[kept].topics[topic];
            if own.is_out || own.is_open {
                self.may_reach(kept, topic);
            }
        }
        // What the user decided before may also be applied to the kept one.
        self.persons[gone].had = self.persons[kept].had.clone();
        for kind in 0..2 {
            self.unsettle(gone, kind);
            self.unsettle(kept, kind);
        }
    }

    pub(super) fn rename(&mut self, at: usize) {
        let person = &self.persons[at];
        let [id] = person.external_ids.as_slice() else { return };
        if person.is_changing {
            return;
        }
        let (id, new) = (id.clone(), format!("{id}+"));
        let change = json!({ "rename_external_id": new });
        self.change([&id, &new], json!({ "external_id": id }), change);
        let person = &mut self.persons[at];
        person.external_ids.push(new);
        person.is_changing = true;
    }

    /// Erases a user, who may come back.
    pub(super) fn erase(&mut self, random: &mut Random, at: usize) {
        let person = &self.persons[at];
        let [id] = person.external_ids.as_slice() else { return };
        if person.is_changing || self.persons.iter().filter(|person| !person.is_gone).count() < 2 {
            return;
        }
        let id = id.clone();
        self.push(&id, json!({ "identity": { "user": { "external_id": id }, "change": "erase" } }));
        self.persons[at].is_gone = true;
        self.lose_devices(at);
        // An opt-out that the user got from a merged one stays known by this user's address.
        for topic in [0, 2, 3] {
            let own = self.persons[at].topics[topic];
            if own.is_out || own.is_open {
                self.may_reach(at, topic);
            }
        }
        (0..2).for_each(|kind| self.unsettle(at, kind));
        if random.below(3) > 0 {
            self.at += STEP;
            let is_out = random.below(2) == 0;
            let external_ids = vec![id.clone()];
            self.persons.push(Person { external_ids, is_back: true, ..Person::default() });
            let object = state(random, 1, is_out);
            self.set(&id, json!({ "external_id": id }), object);
            self.decide(self.persons.len() - 1, 1, is_out);
        }
    }
}

//! Changes of names: users become one, get another id, or are erased.

use serde_json::{Value, json};

use super::super::super::model::Random;
use super::{Decided, History, Person, STEP, copies, state};

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
        if let Some(former) = of.email
            && self.addresses[former].is_of_user
        {
            // The decision may be applied after this change.
            self.addresses[former].decided.may_be_in = true;
        }
        let into = &mut self.persons[kept];
        into.is_changing = true;
        into.alias = into.alias.take().or(of.alias);
        into.service_ids.extend(of.service_ids);
        into.email = into.email.or(of.email);
        into.emails.extend(of.emails);
        into.has_new_email = true;
        into.is_fragile |= of.is_fragile;
        for (own, other) in into.topics.iter_mut().zip(of.topics) {
            *own = own.meet(other);
        }
        into.topics[0].may_be_in |= of.is_fragile;
        if let Some(email) = into.email {
            let address = &mut self.addresses[email];
            address.decided = address.decided.meet(into.topics[0]);
            address.is_of_user = true;
        }
        if self.persons[kept].topics[0].was_out {
            let emails = self.persons[kept].emails.clone();
            self.reach_others(kept, &emails, true);
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
        let email = self.persons[at].email;
        self.persons[at].is_gone = true;
        self.lose_devices(at);
        if let Some(email) = email {
            // Only its users know of the state, if there are more.
            let was_out = self.addresses[email].decided.was_out;
            self.addresses[email].decided = Decided { was_out, ..Decided::default() };
            let emails = self.persons[at].emails.clone();
            self.reach_others(at, &emails, false);
        }
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

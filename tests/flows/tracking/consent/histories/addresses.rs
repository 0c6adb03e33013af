//! Email addresses, which users get from each other, and decisions by address.

use serde_json::{Value, json};

use super::super::super::model::Random;
use super::{History, state};

impl History {
    /// The link in an email of any age: of the user, and of the address that the gateway knows.
    pub(super) fn link(&mut self, random: &mut Random, at: usize) {
        let person = &self.persons[at];
        if person.service_ids.is_empty() {
            return;
        }
        let id = person.service_ids[random.below(person.service_ids.len() as i64) as usize];
        let out = json!({ "fields": { "email_subscribe": "unsubscribed" }, "update_only": true });
        let known = person.known_email;
        self.set(&id.to_string(), json!({ "service_id": id }), out.clone());
        self.decide(at, 0, true);
        if let Some(email) = known {
            let address = self.email(email);
            self.set(&address, json!({ "email": address }), out);
            self.decide_by_address(email, true, Some(at));
        }
    }

    pub(super) fn email_status(&mut self, random: &mut Random, is_out: bool) {
        let email = random.below(3) as usize;
        let (address, mut object) = (self.email(email), state(random, 0, is_out));
        object["update_only"] = true.into();
        let known = self
            .persons
            .iter()
            .filter(|person| !person.is_gone && person.known_email == Some(email));
        let known: Vec<(String, Value)> = known
            .map(|person| match person.external_ids.first() {
                Some(id) => (id.clone(), json!({ "external_id": id })),
                None => {
                    let id = person.service_ids[0];
                    (id.to_string(), json!({ "service_id": id }))
                }
            })
            .collect();
        for (key, user) in known {
            self.set(&key, user, object.clone());
        }
        self.set(&address, json!({ "email": address }), object);
        self.decide_by_address(email, is_out, None);
    }

    /// A decision for all users who have an address. A link (`of_user`) has no object for the other
    /// users that the gateway knows, so it does not follow them if they get another address.
    pub(super) fn decide_by_address(&mut self, email: usize, is_out: bool, of_user: Option<usize>) {
        for at in 0..self.persons.len() {
            if self.persons[at].is_gone {
                continue;
            }
            let had_address = self.persons[at].emails.contains(&email);
            let is_new = self.persons[at].has_new_email;
            if self.persons[at].email == Some(email) {
                self.decide(at, 0, is_out);
                let decided = &mut self.persons[at].topics[0];
                decided.is_open |= is_new && !is_out && decided.was_out;
                self.persons[at].is_fragile |= is_new || of_user.is_some_and(|user| user != at);
            } else if had_address {
                // A partition that is behind may take the user to have the address still.
                let decided = &mut self.persons[at].topics[0];
                decided.was_out |= is_out;
                decided.is_open |= is_out;
                decided.may_be_in |= !is_out;
                if let Some(own) = self.persons[at].email {
                    let own = &mut self.addresses[own].decided;
                    own.was_out |= is_out;
                    own.may_be_in |= !is_out;
                }
                let emails = self.persons[at].emails.clone();
                self.reach_others(at, &emails, is_out);
            }
        }
        self.addresses[email].decided.decide(is_out);
        self.addresses[email].is_of_user = false;
    }

    pub(super) fn change_email(&mut self, random: &mut Random, at: usize, is_out: bool) {
        let Some(id) = self.persons[at].external_ids.first().cloned() else { return };
        let email = random.below(3) as usize;
        self.persons[at].has_waiting_email = true;
        let mut object = json!({ "fields": { "email": self.email(email) } });
        self.take(at, email);
        if random.below(3) == 0 {
            object = state(random, 0, is_out);
            object["fields"]["email"] = self.email(email).into();
            self.decide(at, 0, is_out);
        }
        self.set(&id, json!({ "external_id": id }), object);
    }

    /// A state of addresses may reach other users who get one of them at about the same time.
    pub(super) fn reach_others(&mut self, at: usize, emails: &[usize], is_out: bool) {
        for (other, person) in self.persons.iter_mut().enumerate() {
            let has_it = emails.iter().any(|email| person.emails.contains(email));
            if other != at && person.has_new_email && has_it {
                let decided = &mut person.topics[0];
                decided.was_out |= is_out;
                decided.is_open |= is_out;
                decided.may_be_in |= !is_out;
            }
        }
    }

    pub(super) fn take(&mut self, at: usize, email: usize) {
        let person = &mut self.persons[at];
        if person.email == Some(email) {
            // Before the change, the user does not have the address yet.
            let decided = &mut person.topics[0];
            decided.was_out |= person.is_changing && self.addresses[email].decided.was_out;
            decided.is_open |= person.is_changing && decided.was_out;
            return;
        }
        let is_second = std::mem::replace(&mut person.has_new_email, true);
        if let Some(former) = person.email.replace(email)
            && self.addresses[former].is_of_user
        {
            // The decision may be applied after this change.
            self.addresses[former].decided.may_be_in = true;
        }
        person.emails.push(email);
        let address = &mut self.addresses[email];
        let was_out = person.topics[0].is_out;
        person.topics[0] = person.topics[0].meet(address.decided);
        person.topics[0].may_be_in |=
            is_second || person.is_fragile || (!was_out && address.is_of_user);
        let decided = person.topics[0];
        address.decided = address.decided.meet(decided);
        address.is_of_user |= decided.is_out;
        if decided.was_out {
            self.reach_others(at, &[email], true);
        }
    }
}

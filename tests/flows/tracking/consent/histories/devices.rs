//! Devices with push tokens: the user who registered a token last has it, and nobody else. A report
//! that a device is gone counts if the token was not registered again after the message.

use std::collections::HashMap;

use longshore::users::devices::InvalidToken;
use serde_json::{Value, json};

use super::super::super::model::Random;
use super::{Histories, History, Received, Request, START, STEP};

pub const COUNT: usize = 2;

#[derive(Clone, Debug, Default)]
pub struct Device {
    /// The user who has the token.
    owner: Option<usize>,
    /// Whether the owner registered it. A line of an import is no registration.
    is_registered: bool,
    was_registered: bool,
    /// Whether another user may have the token, or nobody.
    is_open: bool,
    /// The owner in the applied state.
    known: Option<usize>,
    /// Whether it was registered again since, and whether it was imported again.
    is_renewed: bool,
    is_imported: bool,
}

impl History {
    pub(super) fn token(&self, device: usize) -> Value {
        json!({ "app_id": "app", "token": format!("{}-{device}", self.name) })
    }

    pub(super) fn know_devices(&mut self) {
        self.known_at = self.at;
        for device in &mut self.devices {
            // An import leaves it open who has a token that nobody registered.
            let is_sure = device.is_registered && !device.is_open;
            device.known = device.owner.filter(|_| is_sure);
            (device.is_renewed, device.is_imported) = (false, false);
        }
    }

    /// An app lists all tokens of the user.
    pub(super) fn register(&mut self, random: &mut Random, at: usize) {
        let Some(id) = self.persons[at].external_ids.first().cloned() else { return };
        let new = random.below(COUNT as i64) as usize;
        let mut tokens = Vec::new();
        for device in 0..COUNT {
            let is_own = self.devices[device].owner == Some(at);
            if device == new || is_own {
                tokens.push(self.token(device));
                let known = self.devices[device].known;
                self.devices[device] = Device {
                    owner: Some(at),
                    is_registered: true,
                    was_registered: true,
                    is_renewed: true,
                    known,
                    ..Device::default()
                };
            }
        }
        let object = json!({ "fields": { "push_tokens": tokens } });
        self.set(&id, json!({ "external_id": id }), object);
    }

    pub(super) fn import_device(&mut self, at: usize, device: usize) {
        let device = &mut self.devices[device];
        match device.owner {
            _ if device.is_open => {}
            Some(owner) if owner == at => device.is_imported = true,
            Some(_) if device.is_registered => {}
            None if device.was_registered => device.is_open = true,
            _ => (device.owner, device.is_imported) = (Some(at), true),
        }
    }

    /// About a message of the last time at which all was applied, or of now.
    pub(super) fn report(&mut self, random: &mut Random) {
        let at = random.below(COUNT as i64) as usize;
        let Some(owner) = self.devices[at].known else { return };
        let person = &self.persons[owner];
        let Some(service_id) = person.own_id else { return };
        if person.is_gone {
            return;
        }
        let is_late = random.below(2) == 0;
        let sent_at = if is_late { self.known_at } else { self.at };
        let token = format!("{}-{at}", self.name);
        let app_id = (random.below(2) == 0).then(|| "app".to_owned());
        let told = format!("{} report: {token} at {sent_at}", (self.at - START) / STEP);
        self.told.push(told);
        let gone = InvalidToken { service_id, app_id, token, sent_at };
        self.requests.push(Request { at: self.at, received: Received::Reported(gone) });
        let device = &mut self.devices[at];
        if device.owner == Some(owner) {
            match (device.is_renewed, device.is_imported) {
                (false, false) => device.owner = None,
                (true, _) if is_late => {}
                _ => device.is_open = true,
            }
        }
    }

    pub(super) fn move_devices(&mut self, gone: usize, kept: usize) {
        for device in self.devices.iter_mut().filter(|device| device.owner == Some(gone)) {
            device.owner = Some(kept);
        }
    }

    /// Nothing is known of an erased user, so that an older registration may be applied later.
    pub(super) fn lose_devices(&mut self, at: usize) {
        for device in self.devices.iter_mut().filter(|device| device.owner == Some(at)) {
            (device.owner, device.is_open) = (None, true);
        }
    }
}

impl Histories {
    /// Compares the stored tokens with the model.
    pub(super) fn check_devices(&self, documents: &[Value], seed: u64) {
        let mut names: HashMap<&str, Vec<&str>> = HashMap::new();
        for document in documents {
            let name = document["external_id"].as_str();
            let name = name.or(document["user_aliases"][0]["alias_name"].as_str()).unwrap();
            for token in document["push_tokens"].as_array().into_iter().flatten() {
                names.entry(token["token"].as_str().unwrap()).or_default().push(name);
            }
        }
        for history in &self.0 {
            for (at, device) in history.devices.iter().enumerate() {
                let token = format!("{}-{at}", history.name);
                let found = names.get(token.as_str()).map_or(&[][..], Vec::as_slice);
                let owner = device.owner.map(|owner| &history.persons[owner]);
                let owner = owner.map(|of| of.external_ids.last().or(of.alias.as_ref()).unwrap());
                let is_right = match (found, owner) {
                    ([], None) => true,
                    ([], Some(_)) => device.is_open || !device.is_registered,
                    ([name], owner) => device.is_open || owner.is_some_and(|owner| owner == name),
                    _ => false,
                };
                let told = &history.told;
                assert!(is_right, "seed {seed}, {token}: {found:?}, {device:?}\n{told:#?}");
            }
        }
    }
}

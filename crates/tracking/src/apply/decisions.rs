//! Decisions about addresses in a batch.

use std::borrow::Cow;

use super::bulk::ReceivedObject;
use crate::message::{Attributes, DecidedAddress, Object};
use people::users::consent::UNSUBSCRIBED;
use people::users::identifier::Identifier;
use people::users::profile::Field;
use people::users::suppressions::{Address, EMAIL, NewDecision, group_scope, hash_from_hex};

/// The states of emails, and those of groups with their ids, that an object sets.
fn states<'m>(
    attributes: &'m Attributes<'_>,
) -> impl Iterator<Item = (Option<&'m str>, Cow<'static, str>)> {
    let fields = attributes.fields.0.iter();
    let email = fields.filter(|(name, _)| name == Field::EmailSubscribe.name());
    let email = email.map(|(_, state)| (None, state));
    let groups = attributes.groups.0.iter().map(|(id, state)| (Some(id.as_ref()), state));
    email.chain(groups).filter_map(|(group, state)| {
        let state: String = serde_json::from_str(state.get()).ok()?;
        Some((group, Cow::Owned(state)))
    })
}

/// The decisions of an object about addresses. They need no user: they also apply if no user has
/// the address. `now` is the database's time.
pub fn by_address(received: &ReceivedObject<'_>, now: i64) -> Vec<NewDecision<'static>> {
    let Object::Attributes(attributes) = received.object else { return Vec::new() };
    let at = received.at.decided(now);
    let address = match (&attributes.address, &attributes.user) {
        (Some(DecidedAddress::Email(email)), _) => Address::Email(email.to_string().into()),
        (Some(DecidedAddress::Phone(phone)), _) => Address::Phone(phone.to_string().into()),
        (Some(DecidedAddress::EmailHash(hash)), _) => match hash_from_hex(hash) {
            Some(hash) => Address::Hashed(hash),
            None => return Vec::new(),
        },
        // An opt-out by email holds for the address, even if no user has it.
        (None, Identifier::Email(email)) => {
            let is_opt_out = |(group, state): &(Option<&str>, Cow<'_, str>)| {
                group.is_none() && state == UNSUBSCRIBED
            };
            let opt_outs = states(attributes).filter(is_opt_out);
            return opt_outs.map(|_| NewDecision::email_opt_out(email.to_string(), at)).collect();
        }
        (None, _) => return Vec::new(),
    };
    let decision = |(group, state): (Option<&str>, Cow<'static, str>)| {
        let scope = group.map_or(Cow::Borrowed(EMAIL), |id| group_scope(id).into_owned().into());
        NewDecision { address: address.clone(), scope, state, at }
    };
    states(attributes).map(decision).collect()
}

//! Groups the objects of a request into messages: one for each partition of their users.
//!
//! An object goes to the partition of its deciding identifier, so that requests with that
//! identifier are applied in order. For an external_id there are no exceptions. An object with a
//! weaker identifier follows the latest object before it that has the same identifier: an event by
//! email finds the email that an attribute object has just written.

use std::collections::{BTreeMap, HashMap};

use super::intake::Request;
use super::message::{Batch, DecidedAddress, Object};
use super::object::AcceptedObject;
use log::{MAX_MESSAGE_BYTES, NewMessage, partition_of};
use people::users::identifier::Identifier;
use runtime::topics;

/// Maximum bytes of a payload: the limit of a message, less room for the request's id.
const MAX_PAYLOAD: usize = MAX_MESSAGE_BYTES - 1024;

/// Bytes of most objects in a payload, so that it grows rarely while it is written.
const OBJECT_BYTES: usize = 256;

/// The messages, by partition; each has its objects in the request's order.
pub(super) fn messages(
    accepted: Vec<AcceptedObject<'_>>,
    request: &Request,
) -> Result<Vec<NewMessage>, serde_json::Error> {
    let partitions = partitions(&accepted, request);
    let mut by_partition: BTreeMap<i32, Vec<Object<'_>>> = BTreeMap::new();
    for (AcceptedObject { object, .. }, partition) in accepted.into_iter().zip(partitions) {
        by_partition.entry(partition).or_default().push(object);
    }
    let mut messages = Vec::with_capacity(by_partition.len());
    for (partition, objects) in by_partition {
        let batch = Batch::new(request.workspace, request.received_at, objects);
        write(batch, MAX_PAYLOAD, &mut |payload| {
            messages.push(NewMessage {
                topic: topics::TRACKING,
                key: Vec::new(),
                partition: Some(partition),
                payload,
                request_id: request.request_id.clone(),
            });
        })?;
    }
    Ok(messages)
}

/// Writes a batch as one payload, or as several if that is larger than `max_bytes`.
fn write(
    mut batch: Batch<'_>,
    max_bytes: usize,
    add: &mut impl FnMut(Vec<u8>),
) -> Result<(), serde_json::Error> {
    let mut payload = Vec::with_capacity((batch.objects.len() + 1) * OBJECT_BYTES);
    serde_json::to_writer(&mut payload, &batch)?;
    if payload.len() <= max_bytes || batch.objects.len() < 2 {
        add(payload);
        return Ok(());
    }
    drop(payload);
    let second = Batch { objects: batch.objects.split_off(batch.objects.len() / 2), ..batch };
    write(batch, max_bytes, add)?;
    write(second, max_bytes, add)
}

/// The partition of each object.
fn partitions(accepted: &[AcceptedObject<'_>], request: &Request) -> Vec<i32> {
    let home = |key: &str| {
        let key = format!("{}\u{1f}{key}", request.workspace);
        partition_of(key.as_bytes(), request.partitions)
    };
    // The partition of the latest object with an identifier. An external_id always decides, so it
    // needs no entry.
    let mut latest: HashMap<String, i32> = HashMap::new();
    let mut partitions = Vec::with_capacity(accepted.len());
    for AcceptedObject { object, other_identifiers, .. } in accepted {
        if let Some(DecidedAddress::Phone(address) | DecidedAddress::EmailHash(address)) =
            object.address()
        {
            partitions.push(home(address));
            continue;
        }
        let user = match object {
            Object::Identity(identity) => &identity.partition_identifier(),
            object => object.user(),
        };
        let key = user.key();
        let (partition, own_key) = match user {
            Identifier::ExternalId(_) => (home(&key), None),
            _ => (latest.get(&key).copied().unwrap_or_else(|| home(&key)), Some(key)),
        };
        let keys = other_identifiers.iter().map(Identifier::key).chain(own_key);
        latest.extend(keys.map(|key| (key, partition)));
        partitions.push(partition);
    }
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Event;

    #[test]
    fn large_batches_are_split_in_order() {
        let event = |name: String| {
            let user = Identifier::ExternalId("e".into());
            let (app_id, properties) = (None, None);
            Object::Event(Event {
                user,
                update_only: false,
                name: name.into(),
                time: 0,
                app_id,
                properties,
            })
        };
        let objects: Vec<_> = (0..50).map(|n| event("x".repeat(n * 7))).collect();
        let batch = Batch::new(1, 2, objects.clone());
        let mut payloads = Vec::new();
        write(batch.clone(), 1_000, &mut |payload| payloads.push(payload)).unwrap();
        assert!(payloads.len() > 10 && payloads.iter().all(|payload| payload.len() <= 1_000));
        let batches: Vec<_> = payloads.iter().map(|p| Batch::decode(p).unwrap()).collect();
        assert!(batches.iter().all(|b| (b.workspace, b.received_at) == (1, 2)));
        let again: Vec<_> = batches.into_iter().flat_map(|batch| batch.objects).collect();
        assert_eq!(again, objects);
    }
}

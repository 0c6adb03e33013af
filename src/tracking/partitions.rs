//! From the objects of a request to messages: one for each partition that its users fall on.
//!
//! Objects that name one identifier stay together, so that they are applied in the request's
//! order; a group goes where its strongest identifier always goes, so that what requests say
//! about that identifier is applied in their order. An identifier by which no object of the
//! request decides holds nothing together: a thousand users may write one email.

use std::collections::{BTreeMap, HashMap};

use super::intake::Request;
use super::message::{Batch, Identifier, Object, VERSION};
use super::object::Taken;
use crate::log::{MAX_MESSAGE_BYTES, NewMessage, Topic, partition_of};

/// Bytes of a payload: what a message may have, and room for the request's id.
const MAX_PAYLOAD: usize = MAX_MESSAGE_BYTES - 1024;

/// The messages, by partition; each has its objects in the request's order.
pub(super) fn messages(
    taken: Vec<Taken<'_>>,
    request: &Request,
) -> Result<Vec<NewMessage>, serde_json::Error> {
    let partitions = place(&taken, request);
    let mut by_partition: BTreeMap<i32, Vec<Object<'_>>> = BTreeMap::new();
    for (Taken { object, .. }, partition) in taken.into_iter().zip(partitions) {
        by_partition.entry(partition).or_default().push(object);
    }
    let mut messages = Vec::with_capacity(by_partition.len());
    for (partition, objects) in by_partition {
        let batch = Batch {
            v: VERSION,
            workspace: request.workspace,
            received_at: request.received_at,
            objects,
        };
        fold(batch, MAX_PAYLOAD, &mut |payload| {
            messages.push(NewMessage {
                topic: Topic::Tracking,
                key: Vec::new(),
                partition: Some(partition),
                payload,
                request_id: request.request_id.clone(),
            });
        })?;
    }
    Ok(messages)
}

/// Writes a batch as one payload, or where that is larger than `most`, as several.
fn fold(
    mut batch: Batch<'_>,
    most: usize,
    payload: &mut impl FnMut(Vec<u8>),
) -> Result<(), serde_json::Error> {
    let whole = serde_json::to_vec(&batch)?;
    if whole.len() <= most || batch.objects.len() < 2 {
        payload(whole);
        return Ok(());
    }
    drop(whole);
    let second = Batch { objects: batch.objects.split_off(batch.objects.len() / 2), ..batch };
    fold(batch, most, payload)?;
    fold(second, most, payload)
}

/// The partition of each object.
fn place(taken: &[Taken<'_>], request: &Request) -> Vec<i32> {
    let partition = |identifier: &Identifier<'_>| {
        let key = format!("{}\u{1f}{}", request.workspace, identifier.key());
        partition_of(key.as_bytes(), request.partitions)
    };
    if let [only] = taken {
        return vec![partition(only.object.user())];
    }
    let groups = groups(taken);
    let mut partitions = HashMap::new();
    // The strongest of each group is first.
    let mut order: Vec<usize> = (0..taken.len()).collect();
    order.sort_by_key(|at| taken[*at].object.user().rank());
    for at in order {
        partitions.entry(groups[at]).or_insert_with(|| partition(taken[at].object.user()));
    }
    groups.iter().map(|group| partitions[group]).collect()
}

/// The group of each object, by the place of one of its members.
fn groups(taken: &[Taken<'_>]) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..taken.len()).collect();
    let mut deciding: HashMap<String, usize> = HashMap::with_capacity(taken.len());
    for (at, Taken { object, .. }) in taken.iter().enumerate() {
        groups[at] = *deciding.entry(object.user().key()).or_insert(at);
    }
    for (at, Taken { beside, .. }) in taken.iter().enumerate() {
        for identifier in beside {
            if let Some(other) = deciding.get(&identifier.key()) {
                let (one, other) = (root(&groups, at), root(&groups, *other));
                groups[one.max(other)] = one.min(other);
            }
        }
    }
    (0..taken.len()).map(|at| root(&groups, at)).collect()
}

/// The object that stands for the group: each points at an earlier one, or at itself.
fn root(groups: &[usize], mut at: usize) -> usize {
    while groups[at] != at {
        at = groups[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::message::Event;

    #[test]
    fn what_is_too_large_for_one_message_becomes_several_in_order() {
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
        let batch = Batch { v: VERSION, workspace: 1, received_at: 2, objects: objects.clone() };
        let mut payloads = Vec::new();
        fold(batch.clone(), 1_000, &mut |payload| payloads.push(payload)).unwrap();
        assert!(payloads.len() > 10 && payloads.iter().all(|payload| payload.len() <= 1_000));
        let batches: Vec<_> = payloads.iter().map(|p| Batch::decode(p).unwrap()).collect();
        assert!(batches.iter().all(|b| (b.workspace, b.received_at) == (1, 2)));
        let again: Vec<_> = batches.into_iter().flat_map(|batch| batch.objects).collect();
        assert_eq!(again, objects);
    }
}

//! Splits messages whose payload is a JSON object with an array by its elements, and joins them
//! again, with all other fields of the payload, known to this program or not.

use serde_json::value::RawValue;

use kit::json::{self, JsonFields};
use log::Message;

/// One message for each element of `array`, in order; the message itself if there are fewer than
/// two elements, or it is unreadable.
pub fn split(message: &Message, array: &str) -> Vec<Message> {
    match parts(&message.payload, array) {
        Some((members, elements)) if elements.len() > 1 => elements
            .into_iter()
            .map(|element| with_payload(message, payload(&members, array, &[element])))
            .collect(),
        _ => vec![message.clone()],
    }
}

/// The message with the elements of several parts of a [`split`] one.
pub fn join(parts: &[&Message], array: &str) -> Message {
    match joined(parts, array) {
        Some(payload) => with_payload(parts[0], payload),
        // An unreadable message has only one part.
        None => parts[0].clone(),
    }
}

fn joined(messages: &[&Message], array: &str) -> Option<Vec<u8>> {
    let (members, mut elements) = parts(&messages[0].payload, array)?;
    for message in &messages[1..] {
        let (_, more) = parts(&message.payload, array)?;
        elements.extend(more);
    }
    Some(payload(&members, array, &elements))
}

fn parts<'a>(payload: &'a [u8], array: &str) -> Option<(JsonFields<'a>, Vec<&'a RawValue>)> {
    let members: JsonFields<'_> = serde_json::from_slice(payload).ok()?;
    let elements = serde_json::from_str(members.get(array)?).ok()?;
    Some((members, elements))
}

fn payload(members: &JsonFields<'_>, array: &str, elements: &[&RawValue]) -> Vec<u8> {
    let elements: Vec<&str> = elements.iter().map(|element| element.get()).collect();
    let elements = format!("[{}]", elements.join(","));
    let members = members.0.iter().map(|(name, value)| {
        let value = if name == array { &elements } else { value.get() };
        let mut member = String::with_capacity(name.len() + value.len() + 3);
        json::push_string(&mut member, name);
        member + ":" + value
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()
}

fn with_payload(message: &Message, payload: Vec<u8>) -> Message {
    let Message { topic, partition, offset, appended_at, log_time, .. } = *message;
    let (key, request_id) = (message.key.clone(), message.request_id.clone());
    Message { topic, partition, offset, appended_at, log_time, key, payload, request_id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics;

    fn message(payload: &str) -> Message {
        Message {
            topic: topics::TRACKING,
            partition: 3,
            offset: 7,
            appended_at: 5,
            log_time: Some(5),
            key: b"key".to_vec(),
            payload: payload.as_bytes().to_vec(),
            request_id: "request".to_owned(),
        }
    }

    #[test]
    fn messages_are_split_and_joined() {
        let original =
            message(r#"{"v":1,"more":{"a":1.10},"list":[{"n":1.10},[2],"\"3"],"z":null}"#);
        let parts = split(&original, "list");
        let expected = [r#"{"n":1.10}"#, "[2]", r#""\"3""#].map(|element| {
            message(&format!(r#"{{"v":1,"more":{{"a":1.10}},"list":[{element}],"z":null}}"#))
        });
        assert_eq!(parts, expected);
        let parts: Vec<&Message> = parts.iter().collect();
        assert_eq!(join(&parts, "list"), original);
        let without_second =
            message(r#"{"v":1,"more":{"a":1.10},"list":[{"n":1.10},"\"3"],"z":null}"#);
        assert_eq!(join(&[parts[0], parts[2]], "list"), without_second);
        for single in ["", "{}", "[]", r#"{"list":{}}"#, r#"{"list":[]}"#, r#"{"list":[1]}"#] {
            let single = message(single);
            assert_eq!(split(&single, "list"), std::slice::from_ref(&single));
            assert_eq!(join(&[&single], "list"), single);
        }
    }
}

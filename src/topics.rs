//! The topics of the log.
//!
#![doc = include_str!("topics.md")]

use log::Topic;

/// Exports that wait to be planned; key and payload are the job's id.
pub const EXPORTS: Topic = Topic::new("exports");
/// Accepted objects of `POST /users/track`, and changes of users' identities and subscriptions:
/// [`Batch`](crate::tracking::message::Batch)es.
pub const TRACKING: Topic = Topic::new("tracking");
/// Accepted edits of catalog items: [`Edit`](crate::catalogs::message::Edit)s.
pub const CATALOGS: Topic = Topic::new("catalogs");
/// Accepted orders to send now: [`Order`](crate::messages::order::Order)s.
pub const MESSAGES: Topic = Topic::new("messages");

pub const ALL: &[Topic] = &[EXPORTS, TRACKING, CATALOGS, MESSAGES];

/// The topic of that name.
pub fn from_name(name: &str) -> Option<Topic> {
    ALL.iter().copied().find(|topic| topic.name() == name)
}

#[cfg(test)]
mod tests {
    use log::Message;

    use super::*;
    use crate::catalogs::message::Edit;
    use crate::exports::intake::job_of;
    use crate::messages::order::in_log::{decode, encode};
    use crate::tracking::message::Batch;

    const PAGE: &str = include_str!("topics.md");

    /// The example in the section of a topic.
    fn example(topic: Topic) -> &'static str {
        let section = PAGE.split_once(&format!("\n## `{}`\n", topic.name())).expect("a section").1;
        let (_, block) = section.split_once("```").expect("an example");
        let (example, _) = block.split_once("```").expect("its end");
        example.split_once('\n').expect("a language").1.trim_end()
    }

    #[test]
    fn examples_are_messages_as_they_are_written() {
        for topic in ALL.iter().copied() {
            let example = example(topic);
            let written = match topic {
                TRACKING => {
                    serde_json::to_string(&Batch::decode(example.as_bytes()).unwrap()).unwrap()
                }
                CATALOGS => {
                    serde_json::to_string(&Edit::decode(example.as_bytes()).unwrap()).unwrap()
                }
                MESSAGES => {
                    let order = decode(example.as_bytes()).unwrap();
                    String::from_utf8(encode(&order)).unwrap()
                }
                _ => {
                    let message = Message {
                        topic,
                        partition: 0,
                        offset: 0,
                        appended_at: 0,
                        key: Vec::new(),
                        payload: example.as_bytes().to_vec(),
                        request_id: String::new(),
                    };
                    job_of(&message).unwrap().to_string()
                }
            };
            assert_eq!(written, example);
            assert!(PAGE.contains(&format!("\n| `{}` |", topic.name())), "{topic:?}");
        }
        assert!(PAGE.contains(&format!("at most {} MiB", log::MAX_MESSAGE_BYTES >> 20)));
    }
}

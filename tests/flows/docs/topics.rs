//! The examples of the page about topics are messages as they are written.

use log::{Message, Topic};
use longshore::catalogs::message::Edit;
use longshore::exports::intake::job_of;
use longshore::messages::order::in_log::{decode, encode};
use longshore::topics::{ALL, CATALOGS, MESSAGES, TRACKING};
use longshore::tracking::message::Batch;

const PAGE: &str = include_str!("../../../crates/runtime/src/topics.md");

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
            TRACKING => serde_json::to_string(&Batch::decode(example.as_bytes()).unwrap()).unwrap(),
            CATALOGS => serde_json::to_string(&Edit::decode(example.as_bytes()).unwrap()).unwrap(),
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
                    log_time: None,
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

//! What this program appends to the log has all that it had in every release that there is a
//! corpus of: who reads it there still finds what it reads.

use std::collections::{BTreeMap, BTreeSet};

use longshore::topics;
use serde_json::Value;

use super::corpus::{Line, lines, releases};
use super::installed::Installed;
use super::made::messages;
use crate::support::stores::TestStore;

/// The types that there are at each path; elements of an array are at one.
type Shape = BTreeMap<String, BTreeSet<&'static str>>;

fn add(shape: &mut Shape, path: String, value: &Value) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match value {
        Value::Array(elements) => {
            elements.iter().for_each(|element| add(shape, format!("{path}[]"), element));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| add(shape, format!("{path}.{name}"), member));
        }
        _ => {}
    }
    shape.entry(path).or_default().insert(kind);
}

fn shape(lines: &[Line]) -> Shape {
    let mut shape = Shape::new();
    for line in lines {
        let topic = &line.topic;
        match serde_json::from_str(&line.payload) {
            Ok(payload) => {
                add(&mut shape, topic.clone(), &payload);
                let version = format!("{topic} version {}", payload["v"]);
                shape.entry(version).or_default().insert("there");
            }
            Err(_) => {
                let is_id = line.payload.parse::<uuid::Uuid>().is_ok();
                let kind = if is_id { "an id" } else { "no JSON" };
                shape.entry(topic.clone()).or_default().insert(kind);
            }
        }
        let key = if line.key.is_empty() { "no key" } else { "a key" };
        shape.entry(format!("{topic} key")).or_default().insert(key);
    }
    shape
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_their_fields() {
    let installed = Installed::new(TestStore::sqlite().await).await;
    installed.called().await;
    let data = installed.app().config.data.clone();
    installed.close().await;
    let now = shape(&messages(&data, 0).await);
    for release in releases() {
        let mut lines = lines(&release.join("messages.ndjson"));
        // Nothing is written to a topic that is used no more.
        lines.retain(|line: &Line| topics::from_name(&line.topic).is_some());
        let then = shape(&lines);
        assert!(then.len() > 40, "a corpus of every shape: {then:?}");
        for (path, kinds) in then {
            let found = now.get(&path).unwrap_or_else(|| panic!("{path} is gone: {release:?}"));
            assert_eq!(&kinds, found, "{path} was {kinds:?} in {release:?}");
        }
    }
}

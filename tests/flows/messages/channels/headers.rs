//! Headers as a mail program reads them: exactly the given texts, in lines that servers accept.

use longshore::messages::Outcome;
use serde_json::{Value, json};

use super::{Message, World};
use crate::support::process;
use crate::support::python;
use crate::support::scripted_relay::ScriptedRelay;
use crate::support::stores::{TestStore, on_sqlite};

on_sqlite!(texts_are_read_as_they_were_given,);

/// Texts with what headers are sensitive to.
fn texts() -> Vec<String> {
    let long = "x".repeat(899);
    let mut texts: Vec<String> = [
        "Hello Ann",
        "Grüße, 世界 🎉",
        "=?utf-8?Q?Hi=0D=0ABcc:_mallory@evil.example?=",
        "Hi =?utf-8?b?QW5u?=, how are you?",
        "=?x?= and ?= and =? alone",
        "\"quoted\" \\ (comment) <a@b.example>, x: y;",
        "two  blanks   and more",
        &long,
        "word after word after word after word after word after word after word after word and on",
        "Ünï çödé wörds thät äre löng enöugh tö be földéd mörè thän önce bécäuse thèy dö nöt fït",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(format!("a {long}").chars().take(899).collect());
    texts.push("é".repeat(899));
    texts
}

async fn texts_are_read_as_they_were_given(store: TestStore) {
    let mut world = World::new(store).await;
    let relay = ScriptedRelay::start(&["8BITMIME"], []).await;
    world.by_relay(relay.url("", ""));
    let mut expected = Vec::new();
    for text in texts() {
        let mut message = Message::email(&text);
        // In an address, a name with special characters is quoted.
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let mailbox = |address: &str| format!("\"{quoted}\" <{address}>");
        let headers = json!({ "X-Text": text, "List-Id": text });
        let object = &mut message.rendered.object;
        object.insert("from".into(), mailbox("hello@acme.example").into());
        object.insert("reply_to".into(), mailbox("help@acme.example").into());
        object.insert("headers".into(), headers);
        message.rendered.extras.insert("text".into(), text.clone());
        assert_eq!(world.send(&message).await, Outcome::Sent, "{text}");
        // Several blanks in the name of an address are read as one.
        let name = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        expected.push(json!({
            "subject": text, "from": [name, "hello@acme.example"],
            "reply_to": [name, "help@acme.example"], "custom": [text, text],
            "extras": json!({ "text": text }).to_string(), "to": ["", "ann@people.example"],
            "bcc": null, "defects": 0,
        }));
    }
    // More than 998 characters are refused by common servers.
    let emails: Vec<String> = relay.accepted().into_iter().map(|email| email.text).collect();
    for email in &emails {
        let (head, _) = email.split_once("\r\n\r\n").unwrap();
        assert!(head.is_ascii() && head.lines().all(|line| line.len() <= 998), "{head}");
        let texts = ["Subject", "From", "Reply-To"];
        let mut is_text = false;
        for line in head.lines() {
            is_text = match line.split_once(':') {
                Some((name, _)) if !line.starts_with(' ') => texts.contains(&name),
                _ => is_text,
            };
            assert!(!is_text || line.len() <= 78, "{line}");
        }
    }
    let file = world.installation.store.config.data.join("emails.json");
    std::fs::write(&file, serde_json::to_string(&emails).unwrap()).unwrap();
    let mut command =
        std::process::Command::new(python::interpreter("messages/requirements.txt").await);
    command.arg(python::file("messages/headers.py")).arg(&file);
    let output = process::output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read, expected);
    }
    assert_eq!(read.len(), expected.len());
}

//! Reading payloads: JSON objects with their version in `v`.

use serde::Deserialize;

use crate::message::Topic;
use kit::retry::Retry;
use store::documents::is_unknown_word;

/// Why a message is unreadable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// A newer program appended it.
    #[error(
        "a message of {} {reason}, which this version does not support: it waits for a newer \
         longshore",
        .topic.name()
    )]
    Newer { topic: Topic, reason: String },
    #[error("not a message of {}: {reason}", .topic.name())]
    Damaged { topic: Topic, reason: String },
}

impl Retry for PayloadError {
    fn can_retry(&self) -> bool {
        self.needs_newer_version()
    }

    fn needs_newer_version(&self) -> bool {
        matches!(self, Self::Newer { .. })
    }
}

/// Reads a payload of a version up to the one that this program knows; texts without escapes are
/// borrowed from it. `version` returns the version if `T` has it; otherwise it is read from the
/// payload.
pub fn read<'a, T: Deserialize<'a>>(
    topic: Topic,
    known: u32,
    payload: &'a [u8],
    version: impl FnOnce(&T) -> Option<u32>,
) -> Result<T, PayloadError> {
    let damaged =
        |reason: &dyn ToString| PayloadError::Damaged { topic, reason: reason.to_string() };
    // All bytes together: checking text by text is much slower.
    let payload = std::str::from_utf8(payload).map_err(|error| damaged(&error))?;
    let read = serde_json::from_str::<T>(payload);
    let own = read.as_ref().ok().and_then(version);
    match own.map_or_else(|| version_of(payload), Ok) {
        Ok(version) if (1..=known).contains(&version) => read.map_err(|error| {
            if is_unknown_word(&error) {
                PayloadError::Newer { topic, reason: format!("has an unknown value ({error})") }
            } else {
                damaged(&error)
            }
        }),
        Ok(version) => Err(PayloadError::Newer { topic, reason: format!("has version {version}") }),
        Err(error) => Err(damaged(&read.err().unwrap_or(error))),
    }
}

fn version_of(payload: &str) -> serde_json::Result<u32> {
    #[derive(Deserialize)]
    struct Head {
        v: u32,
    }
    serde_json::from_str(payload).map(|Head { v }| v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Known {
        a: u8,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Word {
        kind: Kind,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Known,
    }

    #[test]
    fn members_may_be_added_and_another_version_waits() {
        let read =
            |payload: &str| read(Topic::new("messages"), 1, payload.as_bytes(), |_: &Known| None);
        for payload in [r#"{"v":1,"a":1}"#, r#"{"a":1,"b":[{}],"v":1}"#] {
            assert_eq!(read(payload).unwrap(), Known { a: 1 }, "{payload}");
        }
        for payload in [r#"{"v":2,"a":1}"#, r#"{"other":1,"v":2}"#] {
            let error = read(payload).unwrap_err();
            assert_eq!(
                error.to_string(),
                "a message of messages has version 2, which this version does not support: it waits \
                 for a newer longshore"
            );
            assert!(error.can_retry() && error.needs_newer_version(), "it waits");
        }
        let word = |payload: &str| {
            super::read(Topic::new("messages"), 1, payload.as_bytes(), |_: &Word| None)
        };
        assert_eq!(word(r#"{"v":1,"kind":"known"}"#).unwrap(), Word { kind: Kind::Known });
        assert!(word(r#"{"v":1,"kind":"new"}"#).unwrap_err().needs_newer_version());
        assert!(!word(r#"{"v":1,"kind":7}"#).unwrap_err().needs_newer_version());
        for payload in ["", "{", r#"{"a":1}"#, r#"{"v":1,"a":"x"}"#, r#"{"v":"2"}"#] {
            let error = read(payload).unwrap_err();
            assert!(matches!(error, PayloadError::Damaged { .. }), "{payload}: {error}");
            assert!(!error.can_retry(), "{payload}");
        }
    }
}

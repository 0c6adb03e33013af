//! What commands print about their actions, and texts that several lists have.

use std::fmt::Display;

use jiff::{SpanRound, Timestamp, Unit};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CommandResult, output};
use kit::clock::format_seconds;

/// How long ago, in days to seconds, such as `2d 3h 4m 5s`.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let rounding = SpanRound::new().largest(Unit::Day).smallest(Unit::Second).days_are_24_hours();
    match (now - then.min(now)).round(rounding) {
        Ok(span) => format!("{span:#}"),
        Err(_) => (now - then.min(now)).to_string(),
    }
}

/// The state of a key or token.
pub fn activity(revoked_at: Option<i64>) -> &'static str {
    if revoked_at.is_none() { "active" } else { "revoked" }
}

/// When a key or token was last used, within a sentence.
pub fn last_use(last_used_at: Option<i64>) -> String {
    match last_used_at {
        Some(at) => format!("last used {}", format_seconds(at)),
        None => "never used".to_owned(),
    }
}

pub fn yes_or_no(is_true: bool) -> &'static str {
    if is_true { "yes" } else { "no" }
}

/// Prints a new secret, which `object` describes with the secret in it, and `name` to people. If it
/// cannot be printed, nobody will know it: the error has the command `revocation`.
pub fn secret(
    is_json: bool,
    object: &Value,
    name: &str,
    secret: &str,
    revocation: &str,
) -> CommandResult {
    if is_json {
        println!("{object}");
    } else {
        eprintln!("{name}; its secret is shown only once:");
        println!("{secret}");
    }
    match output::error() {
        None => Ok(()),
        Some(_) => Err(format!(
            "{name} exists, but its secret was not printed: revoke it with `{revocation}`, and \
             create another one"
        )
        .into()),
    }
}

/// Prints that a key or token is revoked; `suffix` is " of WORKSPACE", if it is of one.
pub fn revoked(is_json: bool, id: Uuid, name: &str, suffix: &str, is_declared: bool) {
    if is_json {
        println!("{}", json!({"id": id, "name": name, "revoked": true}));
    } else {
        println!("revoked {name}{suffix}");
    }
    if is_declared {
        eprintln!(
            "the workspace file declares it: remove it there, or set a new secret; apply refuses \
             the revoked one"
        );
    }
}

/// The results of an action on several objects: each printed at once, or all as one JSON object.
pub struct Results {
    is_json: bool,
    done: Vec<Value>,
    failed: Vec<Value>,
}

impl Results {
    pub fn new(is_json: bool) -> Self {
        Self { is_json, done: Vec::new(), failed: Vec::new() }
    }

    /// Adds what was done, as a line for people and as JSON.
    pub fn done(&mut self, line: &str, object: Value) {
        if !self.is_json {
            println!("{line}");
        }
        self.done.push(object);
    }

    /// Adds an object that was not changed.
    pub fn failed(&mut self, line: &str, id: impl Display, reason: impl Display) {
        if !self.is_json {
            eprintln!("{line}");
        }
        self.failed.push(json!({"id": id.to_string(), "reason": reason.to_string()}));
    }

    /// Prints the JSON object, in which `name` has what was done. Fails with `failure` if an object
    /// was not changed.
    pub fn end(self, name: &str, failure: &str) -> CommandResult {
        self.end_with(name, failure, None)
    }

    /// [`end`](Self::end) with one more field.
    pub fn end_with(
        self,
        name: &str,
        failure: &str,
        field: Option<(&str, Value)>,
    ) -> CommandResult {
        if self.is_json {
            let mut object = json!({name: self.done, "failed": self.failed});
            if let Some((name, value)) = field {
                object[name] = value;
            }
            println!("{object}");
        }
        all_done(self.failed.len(), self.done.len() + self.failed.len(), failure)
    }
}

/// An error if some of the objects that a command was to change were not; each was printed.
pub fn all_done(failed: usize, all: usize, failure: &str) -> CommandResult {
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} of {all} {failure}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_well() {
        let now: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        let then: Timestamp = "2026-03-02T04:06:02Z".parse().unwrap();
        assert_eq!(age(then, now), "2d 1h 5s");
        assert_eq!(age(now, then), "0s");
    }
}

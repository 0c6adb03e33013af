//! Ids and names on the command line: an error shows what an id looks like, and which command lists
//! it.

use uuid::Uuid;

use super::CommandResult;
use crate::dispatches::RecipientPosition;
use crate::workspaces::Channel;
use proof::manifest::is_object_prefix;

pub fn dispatch_id(text: &str) -> Result<Uuid, String> {
    let example = "0197b6a83c557e119a1f3f0f3c2d6e54";
    uuid(text, "a dispatch_id has 32 hexadecimal digits", example, "dispatches list")
}

pub fn schedule_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "a schedule_id is a UUID", EXAMPLE, "schedules list")
}

pub fn group_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "the segment id of a control group is a UUID", EXAMPLE, "control-group list")
}

pub fn card_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "the id of a card is a UUID", EXAMPLE, "cards USER")
}

pub fn dead_letter_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "the id of a dead letter is a UUID", EXAMPLE, "dead-letters list")
}

pub fn audit_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "the id of a change is a UUID", EXAMPLE, "audit list")
}

pub fn session_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "the id of a session is a UUID", EXAMPLE, "console sessions")
}

pub fn dashboard_user_id(text: &str) -> Result<Uuid, String> {
    uuid(text, "the id of a dashboard user is a UUID", EXAMPLE, "console users")
}

/// A message of a user: of which dispatch and in which channel, as lists continue after it.
pub fn message_id(text: &str) -> Result<(Uuid, Channel), String> {
    let read = text.split_once('/').and_then(|(dispatch, channel)| {
        Some((Uuid::parse_str(dispatch).ok()?, Channel::from_name(channel)?))
    });
    let form = "a message of a user is a dispatch_id and a channel";
    read.ok_or_else(|| shown(form, "0197b6a83c557e119a1f3f0f3c2d6e54/email", "messages USER"))
}

/// A message of a dispatch, as its list of recipients shows it.
pub fn recipient_id(text: &str) -> Result<RecipientPosition, String> {
    let form = "the id of a recipient is a number, a service_id and a channel";
    let example = "1/0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54/email";
    let read = RecipientPosition::parse(text);
    read.ok_or_else(|| shown(form, example, "dispatches recipients ID"))
}

/// A delivery's id, or its webhook-id.
pub fn delivery_id(text: &str) -> Result<Uuid, String> {
    let form = "the id of a delivery is a UUID, or msg_ and 32 hexadecimal digits";
    uuid(text.strip_prefix("msg_").unwrap_or(text), form, EXAMPLE, "deliveries list")
}

/// The object_prefix of an export.
pub fn object_prefix(text: &str) -> Result<String, String> {
    if is_object_prefix(text) {
        return Ok(text.to_owned());
    }
    Err(shown(
        "an object_prefix is a UUID and the time of the request in seconds",
        "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527",
        "export list",
    ))
}

/// The only one of `all` with an id or a name. `kind` is what it is, and `list` the command that
/// lists all. For a name in the wrong case, the error has the right one.
pub fn find<T>(
    all: Vec<T>,
    text: &str,
    (kind, list): (&str, &str),
    key: impl Fn(&T) -> (Uuid, &str),
) -> CommandResult<T> {
    let id = Uuid::parse_str(text).ok();
    let folded = text.to_lowercase();
    let similar = all.iter().map(|object| key(object).1);
    let similar =
        similar.filter(|name| name.to_lowercase() == folded).map(|name| format!("{name:?}"));
    let similar = similar.collect::<Vec<_>>().join(" or ");
    let mut found: Vec<T> = all
        .into_iter()
        .filter(|object| {
            let (object_id, name) = key(object);
            Some(object_id) == id || name == text
        })
        .collect();
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        0 if similar.is_empty() => {
            Err(format!("unknown {kind} {text:?}: see `longshore {list}`").into())
        }
        0 => {
            Err(format!("unknown {kind} {text:?}: did you mean {similar}? See `longshore {list}`")
                .into())
        }
        _ => {
            let ids: Vec<String> = found.iter().map(|object| key(object).0.to_string()).collect();
            Err(format!("several have the name {text:?}; use an id: {}", ids.join(", ")).into())
        }
    }
}

const EXAMPLE: &str = "0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54";

fn uuid(text: &str, form: &str, example: &str, list: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text).map_err(|_| shown(form, example, list))
}

fn shown(form: &str, example: &str, list: &str) -> String {
    format!("{form}, such as {example}: see `longshore {list}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_write_an_id_are_read() {
        let id = Uuid::now_v7();
        assert_eq!(delivery_id(&id.to_string()), Ok(id));
        assert_eq!(delivery_id(&format!("msg_{}", id.simple())), Ok(id));
        assert_eq!(dispatch_id(&id.to_string()), Ok(id));
        assert_eq!(dispatch_id(&id.simple().to_string()), Ok(id));
    }

    #[test]
    fn an_object_is_found_by_its_id_or_a_name_that_no_other_has() {
        let ids: [Uuid; 3] = std::array::from_fn(|_| Uuid::now_v7());
        let all = || vec![(ids[0], "a"), (ids[1], "b"), (ids[2], "b")];
        let find = |text: &str| find(all(), text, ("object", "list"), |object| *object).ok();
        assert_eq!(find("a"), Some((ids[0], "a")));
        assert_eq!(find(&ids[2].to_string()), Some((ids[2], "b")));
        assert_eq!(find("b"), None);
        assert_eq!(find("c"), None);
    }

    #[test]
    fn a_name_in_another_case_is_suggested() {
        let find = |text: &str| {
            let all = vec![(Uuid::nil(), "Welcome"), (Uuid::max(), "Größe")];
            find(all, text, ("campaign", "campaigns list"), |object| *object)
                .unwrap_err()
                .to_string()
        };
        assert!(find("welcome").contains("\"Welcome\""));
        assert!(find("GRÖßE").contains("\"Größe\""));
        let unknown = find("wel");
        assert!(!unknown.contains("Welcome") && unknown.contains("longshore campaigns list"));
    }

    #[test]
    fn an_error_has_an_example_that_is_read() {
        let example = |error: String| {
            let (_, rest) = error.split_once(", such as ").expect("an example");
            rest.split_once(": see `longshore ").expect("a command").0.to_owned()
        };
        let all = [dispatch_id, schedule_id, group_id, card_id, dead_letter_id, delivery_id];
        for id in all {
            assert!(id(&example(id("nope").unwrap_err())).is_ok());
        }
        assert!(object_prefix(&example(object_prefix("nope").unwrap_err())).is_ok());
        assert!(message_id(&example(message_id("nope").unwrap_err())).is_ok());
        assert!(recipient_id(&example(recipient_id("nope").unwrap_err())).is_ok());
    }
}

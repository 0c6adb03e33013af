//! A profile that attribute objects change. A field is replaced as a whole, and null removes it.
//! Only push tokens are added to those of the user's other devices. [Custom
//! attributes](super::custom) have more kinds of changes.

use super::super::message::Attributes;
use super::custom::{Custom, changes};
use people::users::consent::{self, Consent, Topic};
use people::users::profile::{Field, MAX_BYTES, Profile};
use people::users::tokens::{self, Token, TokenKey};

/// Bytes by which decisions about messages may exceed [`MAX_BYTES`]: a user with a full profile can
/// still unsubscribe.
const DECISION_BYTES: usize = 16 << 10;

/// The profile would have more than [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Number of changes that did not match the stored values.
pub type Mismatches = u64;

/// A stored profile that is parsed when the first object changes it.
#[derive(Debug)]
pub struct Draft {
    profile: Profile,
    /// Set once an object changes custom attributes, which are then removed from `profile`.
    custom: Option<Custom>,
    /// When attributes were written last, before this draft.
    attributes_at: i64,
}

impl Draft {
    /// Parses a document whose attributes were written last at a time, in milliseconds since the
    /// epoch.
    pub fn open(document: &str, attributes_at: i64) -> Result<Self, String> {
        Ok(Self { attributes_at, ..Self::new(Profile::parse(document)?) })
    }

    pub fn new(profile: Profile) -> Self {
        Self { profile, custom: None, attributes_at: 0 }
    }

    /// The text of a field that is not a custom attribute.
    pub fn text(&self, field: Field) -> Option<String> {
        self.profile.text(field)
    }

    /// The user's decisions about messages.
    pub fn consent(&self) -> Consent {
        Consent::read(&self.profile).with_opt_outs_at(self.attributes_at)
    }

    pub fn set_consent(&mut self, consent: &Consent) {
        consent.write(&mut self.profile);
    }

    /// Stores that the time zone changed at a time, in milliseconds since the epoch, unless it is
    /// still the `former` one.
    pub fn mark_time_zone(&mut self, former: Option<&str>, now: i64) {
        if self.text(Field::TimeZone).as_deref() != former {
            self.profile.set_time_zone_changed_at(now);
        }
    }

    /// The document.
    pub fn into_document(mut self) -> String {
        if let Some(custom) = self.custom.and_then(|custom| custom.text()) {
            self.profile.set_json(Field::CustomAttributes, custom);
        }
        self.profile.to_document()
    }

    /// Removes push tokens.
    pub fn remove_tokens(&mut self, keys: &[TokenKey]) {
        let is_removed = |token: &Token<'_>| keys.contains(&token.key());
        let stored = self.profile.get(Field::PushTokens);
        if let Some(others) = stored.and_then(|stored| tokens::without(stored, is_removed)) {
            self.profile.replace(Field::PushTokens, others.map(String::into_boxed_str));
        }
    }

    /// Bytes of the push tokens, which are read whenever some are added.
    pub fn token_bytes(&self) -> usize {
        self.profile.get(Field::PushTokens).map_or(0, str::len)
    }

    /// Number of custom attributes and elements that are held separately.
    pub fn pieces(&self) -> usize {
        self.custom.as_ref().map_or(0, Custom::pieces)
    }

    /// Applies all changes of an object, or none except for the user's decisions about messages,
    /// which were received at `decided_at`. The error is the reason why the profile is unreadable.
    pub fn change(
        &mut self,
        attributes: &Attributes<'_>,
        decided_at: i64,
    ) -> Result<Result<Mismatches, TooLarge>, String> {
        let changes = changes(attributes);
        let consent = self.consent();
        let mut none = Custom::default();
        let custom = if changes.is_empty() {
            self.custom.as_mut().unwrap_or(&mut none)
        } else {
            separate_custom(&mut self.profile, &mut self.custom)?
        };
        let steps: Vec<_> =
            changes.into_iter().map(|(name, change)| custom.plan(name, change)).collect();
        let before = set_decisions(&mut self.profile, consent, attributes, decided_at);
        if let Some(before) = before
            && bytes(&self.profile, custom.bytes()) > MAX_BYTES + DECISION_BYTES
        {
            self.profile = before;
            return Ok(Err(TooLarge));
        }
        let former = set_fields(&mut self.profile, attributes);
        if former.is_empty() && steps.is_empty() {
            return Ok(Ok(0));
        }
        let growth: isize = steps.iter().map(|step| step.growth).sum();
        if bytes(&self.profile, custom.bytes().saturating_add_signed(growth)) > MAX_BYTES {
            for (field, value) in former.into_iter().rev() {
                self.profile.replace(field, value);
            }
            return Ok(Err(TooLarge));
        }
        let mismatches = steps.into_iter().map(|step| u64::from(!custom.apply(step))).sum();
        Ok(Ok(mismatches))
    }
}

/// Bytes of the document of a profile and its custom attributes of this size.
fn bytes(profile: &Profile, custom: usize) -> usize {
    match custom {
        0 => profile.bytes(),
        _ => profile.bytes() + custom + r#","custom_attributes":}"#.len(),
    }
}

/// Moves the custom attributes out of a profile.
fn separate_custom<'d>(
    profile: &mut Profile,
    custom: &'d mut Option<Custom>,
) -> Result<&'d mut Custom, String> {
    let separate = match custom.take() {
        Some(custom) => custom,
        None => {
            let stored = profile.get(Field::CustomAttributes).map(Custom::parse).transpose()?;
            profile.clear(Field::CustomAttributes);
            stored.unwrap_or_default()
        }
    };
    Ok(custom.insert(separate))
}

/// Sets fields other than decisions; returns their former values, in the order in which they were
/// set.
fn set_fields(
    profile: &mut Profile,
    attributes: &Attributes<'_>,
) -> Vec<(Field, Option<Box<str>>)> {
    let set = fields(attributes).filter(|(field, _)| !consent::is_state(*field));
    set.map(|(field, value)| {
        let value: Option<Box<str>> = match (field, value, profile.get(field)) {
            (Field::PushTokens, Some(new), Some(stored)) => {
                Some(tokens::merged(new, stored).into_boxed_str())
            }
            _ => value.map(Box::from),
        };
        (field, profile.replace(field, value))
    })
    .collect()
}

/// The fields of an object; a value without data is none.
fn fields<'a>(attributes: &'a Attributes<'_>) -> impl Iterator<Item = (Field, Option<&'a str>)> {
    let has_data = |value: &&str| !matches!(*value, "null" | "[]");
    let fields = attributes.fields.0.iter();
    fields.filter_map(move |(name, value)| {
        Some((Field::from_name(name)?, Some(value.get()).filter(has_data)))
    })
}

/// Applies the user's decisions in an object. Returns the profile as it was, if it has changed.
fn set_decisions(
    profile: &mut Profile,
    mut consent: Consent,
    attributes: &Attributes<'_>,
    decided_at: i64,
) -> Option<Profile> {
    let mut states = fields(attributes).filter(|(field, _)| consent::is_state(*field));
    if states.next().is_none() && attributes.groups.is_empty() {
        return None;
    }
    let before = profile.clone();
    decide(&mut consent, attributes, decided_at);
    consent.write(profile);
    Some(before)
}

/// The decisions in an object alone.
pub fn decisions(attributes: &Attributes<'_>, decided_at: i64) -> Consent {
    let mut consent = Consent::default();
    decide(&mut consent, attributes, decided_at);
    consent
}

fn decide(consent: &mut Consent, attributes: &Attributes<'_>, decided_at: i64) {
    for (field, value) in fields(attributes).filter(|(field, _)| consent::is_state(*field)) {
        consent.decide_field(field, value, decided_at);
    }
    for (id, state) in &attributes.groups.0 {
        if let Ok(state) = serde_json::from_str::<String>(state.get()) {
            consent.decide(Topic::Group(id), Some(&state), decided_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Draft {
        fn bytes(&self) -> usize {
            bytes(&self.profile, self.custom.as_ref().map_or(0, Custom::bytes))
        }
    }

    fn attributes(json: &str) -> Attributes<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_opt_out_without_a_time_outlasts_decisions_before_the_last_change() {
        let stored = r#"{"email_subscribe":"unsubscribed"}"#;
        let object = r#"{"user":{"external_id":"a"},"fields":{"email_subscribe":"subscribed"}}"#;
        for (at, state) in [(9, "unsubscribed"), (10, "unsubscribed"), (11, "subscribed")] {
            let mut draft = Draft::open(stored, 10).unwrap();
            draft.change(&attributes(object), at).unwrap().unwrap();
            assert_eq!(draft.text(Field::EmailSubscribe).as_deref(), Some(state), "{at}");
        }
    }

    #[test]
    fn values_without_a_state_change_no_state() {
        let document = r#"{"email_subscribe":"unsubscribed","push_subscribe":"opted_in","subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed"}]}"#;
        for value in ["null", "\"\"", "[]"] {
            let object = format!(
                r#"{{"user":{{"external_id":"a"}},"fields":{{"email_subscribe":{value},"push_subscribe":{value},"subscription_groups":{value}}}}}"#
            );
            let mut draft = Draft::open(document, 0).unwrap();
            draft.change(&attributes(&object), 9).unwrap().unwrap();
            assert_eq!(draft.into_document(), document, "{value}");
        }
    }

    /// The custom attributes after some changes, and the number of changes that did not match.
    fn custom(before: &str, changes: &str) -> (Option<String>, Mismatches) {
        let mut draft = Draft::open(&format!(r#"{{"custom_attributes":{before}}}"#), 0).unwrap();
        let object = format!(r#"{{"user":{{"external_id":"a"}},{changes}}}"#);
        let mismatches = draft.change(&attributes(&object), 5).unwrap().unwrap();
        (custom_of(draft), mismatches)
    }

    fn custom_of(draft: Draft) -> Option<String> {
        let profile = Profile::parse(&draft.into_document()).unwrap();
        profile.get(Field::CustomAttributes).map(str::to_owned)
    }

    #[test]
    fn custom_attributes_are_set_removed_and_changed() {
        for (before, changes, after) in [
            (r#"{"a":1,"b":2}"#, r#""custom":{"c":1.10,"a":"x"}"#, r#"{"a":"x","b":2,"c":1.10}"#),
            (r#"{"a":1,"b":2}"#, r#""custom":{"a":null,"c":null}"#, r#"{"b":2}"#),
            (
                r#"{"n":9007199254740993}"#,
                r#""inc":{"n":1,"m":-2}"#,
                r#"{"n":9007199254740994,"m":-2}"#,
            ),
            (r#"{"n":1.5}"#, r#""inc":{"n":1}"#, r#"{"n":2.5}"#),
            (
                r#"{"a":[1,"x",1]}"#,
                r#""add":{"a":["x",2,2],"b":[]}"#,
                r#"{"a":[1,"x",1,2],"b":[]}"#,
            ),
            (r#"{"a":[1,"x",1]}"#, r#""remove":{"a":[1,7],"b":[1]}"#, r#"{"a":["x"]}"#),
            (r#"{"a":[1]}"#, r#""remove":{"a":[1]}"#, r#"{"a":[]}"#),
            (
                r#"{"a":[1]}"#,
                r#""add":{"a":[2],"b":[3,3]},"remove":{"a":[1],"b":[1]}"#,
                r#"{"a":[2],"b":[3]}"#,
            ),
            (r#"{"\"":1}"#, r#""custom":{"\u0022":2}"#, r#"{"\"":2}"#),
        ] {
            assert_eq!(custom(before, changes), (Some(after.to_owned()), 0), "{before} {changes}");
        }
        assert_eq!(custom(r#"{"a":1}"#, r#""custom":{"a":null}"#), (None, 0));
    }

    #[test]
    fn elements_are_compared_by_their_values() {
        let before = r#"{"a":["caf\u00e9",1.0,{"x":1,"y":"a\/b"}]}"#;
        let same = r#"["café",1,10e-1,{"y":"a/b","x":1.00}]"#;
        let added = format!(r#""add":{{"a":{same},"b":["a\/b","a/b",2,2.0]}}"#);
        let expected = r#"{"a":["caf\u00e9",1.0,{"x":1,"y":"a\/b"}],"b":["a\/b",2]}"#;
        assert_eq!(custom(before, &added), (Some(expected.to_owned()), 0));
        let removed = format!(r#""remove":{{"a":{same}}}"#);
        assert_eq!(custom(before, &removed), (Some(r#"{"a":[]}"#.to_owned()), 0));
        let other = r#""remove":{"a":["cafe","1",{"x":1}]}"#;
        assert_eq!(custom(before, other), (Some(before.to_owned()), 0));
    }

    #[test]
    fn push_tokens_are_added_to_those_of_other_devices() {
        let list = |tokens: &[&str]| {
            let token = |token: &&str| format!(r#"{{"app_id":"a","token":"{token}"}}"#);
            format!("[{}]", tokens.iter().map(token).collect::<Vec<_>>().join(","))
        };
        let registers = |tokens: &str| {
            format!(r#"{{"user":{{"external_id":"a"}},"fields":{{"push_tokens":{tokens}}}}}"#)
        };
        let mut draft = Draft::new(Profile::default());
        for (new, all) in [
            (list(&["t"]), Some(list(&["t"]))),
            (list(&["u"]), Some(list(&["u", "t"]))),
            (list(&["t"]), Some(list(&["t", "u"]))),
            ("[]".to_owned(), None),
            (list(&["v"]), Some(list(&["v"]))),
            ("null".to_owned(), None),
        ] {
            assert_eq!(draft.change(&attributes(&registers(&new)), 5), Ok(Ok(0)));
            assert_eq!(draft.profile.get(Field::PushTokens), all.as_deref(), "{new}");
        }
        // If the profile would be too large, it keeps its tokens.
        draft.change(&attributes(&registers(&list(&["t"]))), 5).unwrap().unwrap();
        let full = registers(&list(&[&"x".repeat(MAX_BYTES)]));
        assert_eq!(draft.change(&attributes(&full), 5), Ok(Err(TooLarge)));
        assert_eq!(draft.profile.get(Field::PushTokens), Some(&*list(&["t"])));
    }

    #[test]
    fn a_group_state_changes_only_its_group() {
        let mut draft = Draft::open(r#"{"first_name":"Ann"}"#, 0).unwrap();
        let groups =
            |groups: &str| format!(r#"{{"user":{{"external_id":"a"}},"groups":{groups}}}"#);
        for change in [r#"{"g":"subscribed","h":"subscribed"}"#, r#"{"g":"unsubscribed"}"#] {
            assert_eq!(draft.change(&attributes(&groups(change)), 5), Ok(Ok(0)));
        }
        let group = |id: &str, state: &str| {
            format!(r#"{{"subscription_group_id":"{id}","subscription_state":"{state}"}}"#)
        };
        let groups = [group("g", "unsubscribed"), group("h", "subscribed")].join(",");
        let times = r#""decision_times":{"groups":{"h":5},"unsubscribed":{"groups":{"g":5}}}"#;
        let all = format!(r#"{{"first_name":"Ann","subscription_groups":[{groups}],{times}}}"#);
        assert_eq!(draft.into_document(), all);
    }

    #[test]
    fn a_user_with_a_full_profile_can_unsubscribe() {
        let full = "x".repeat(MAX_BYTES - 10);
        let document = format!(r#"{{"a":"{full}"}}"#);
        let object = |more: &str| {
            format!(
                r#"{{"user":{{"external_id":"a"}},"fields":{{{more}"email_subscribe":"unsubscribed"}}}}"#
            )
        };
        for (more, changed) in [("", Ok(0)), (r#""first_name":"Ann","#, Err(TooLarge))] {
            let mut draft = Draft::open(&document, 0).unwrap();
            assert_eq!(draft.change(&attributes(&object(more)), 5), Ok(changed));
            assert_eq!(draft.text(Field::EmailSubscribe).as_deref(), Some("unsubscribed"));
            assert_eq!(draft.text(Field::FirstName), None);
        }
        // Decisions have a limit, too.
        let groups: Vec<String> =
            (0..1_000).map(|n| format!(r#""{n:030}":"subscribed""#)).collect();
        let groups =
            format!(r#"{{"user":{{"external_id":"a"}},"groups":{{{}}}}}"#, groups.join(","));
        let mut draft = Draft::open(&document, 0).unwrap();
        assert_eq!(draft.change(&attributes(&groups), 5), Ok(Err(TooLarge)));
        assert_eq!(draft.into_document(), document);
    }

    #[test]
    fn changes_of_the_wrong_type_change_nothing() {
        let before = r#"{"t":"x","n":1,"big":1e308}"#;
        for changes in [
            r#""inc":{"t":1}"#,
            r#""add":{"n":[1]}"#,
            r#""remove":{"t":[1]}"#,
            r#""inc":{"big":1e308}"#,
        ] {
            assert_eq!(custom(before, changes), (Some(before.to_owned()), 1), "{changes}");
        }
    }

    #[test]
    fn a_profile_stays_within_its_bytes() {
        let mut draft = Draft::open(r#"{"first_name":"Ann"}"#, 0).unwrap();
        let half = "x".repeat(MAX_BYTES / 2);
        let set = |name: &str, first: &str| {
            format!(
                r#"{{"user":{{"external_id":"a"}},"fields":{{"first_name":"{first}"}},"custom":{{"{name}":"{half}"}}}}"#
            )
        };
        assert_eq!(draft.change(&attributes(&set("a", "Bea")), 5), Ok(Ok(0)));
        assert_eq!(draft.change(&attributes(&set("b", "Cay")), 5), Ok(Err(TooLarge)));
        assert_eq!(draft.text(Field::FirstName).as_deref(), Some("Bea"));
        // It fits if it replaces the existing value.
        for _ in 0..3 {
            assert_eq!(draft.change(&attributes(&set("a", "Dee")), 5), Ok(Ok(0)));
        }
        let free = MAX_BYTES - draft.bytes();
        let fill = |bytes: usize| {
            let text = "x".repeat(bytes - r#","b":"""#.len());
            format!(r#"{{"user":{{"external_id":"a"}},"custom":{{"b":"{text}"}}}}"#)
        };
        assert_eq!(draft.change(&attributes(&fill(free + 1)), 5), Ok(Err(TooLarge)));
        assert_eq!(draft.change(&attributes(&fill(free)), 5), Ok(Ok(0)));
        assert_eq!(draft.into_document().len(), MAX_BYTES);
    }

    #[test]
    fn successive_changes_equal_one_change_at_a_time() {
        let changes = [
            r#""add":{"a":[1,"x",1],"new":[]}"#,
            r#""remove":{"a":[2,2,"y"]}"#,
            r#""add":{"a":[2,3]},"inc":{"n":5}"#,
            r#""remove":{"a":[1]},"custom":{"t":null,"\"":1}"#,
            r#""custom":{"a":[[1],{"b":[2,1]}],"t":[]}"#,
            r#""add":{"a":[[1],[2]],"t":[1],"n":[1]}"#,
            r#""remove":{"a":[[1],{"b":[2,1]},[2]]},"inc":{"t":1}"#,
            r#""custom":{"a":null},"remove":{"t":[1]}"#,
            r#""add":{"a":[7,7,8]}"#,
            r#""fields":{"first_name":"Ann"},"remove":{"a":[8]}"#,
        ];
        let start = r#"{"service_id":"x","custom_attributes":{"a":[1,2,1,2,3],"n":1,"t":"x"}}"#;
        let (mut held, mut written) = (Draft::open(start, 0).unwrap(), start.to_owned());
        for change in changes {
            let object = format!(r#"{{"user":{{"external_id":"a"}},{change}}}"#);
            let object = attributes(&object);
            let mut once = Draft::open(&written, 0).unwrap();
            assert_eq!(held.change(&object, 5), once.change(&object, 5), "{change}");
            let bytes = once.bytes();
            written = once.into_document();
            assert_eq!((held.bytes(), bytes), (written.len(), written.len()), "{written}");
        }
        assert_eq!(held.into_document(), written);
        let custom = r#"{"n":6,"new":[],"\"":1,"t":[],"a":[7]}"#;
        assert_eq!(
            written,
            format!(r#"{{"service_id":"x","first_name":"Ann","custom_attributes":{custom}}}"#)
        );
    }

    #[test]
    fn many_changes_of_a_large_array_are_quick() {
        let elements: Vec<String> = (0..150_000).map(|n| n.to_string()).collect();
        let document = format!(r#"{{"custom_attributes":{{"a":[{}]}}}}"#, elements.join(","));
        let mut draft = Draft::open(&document, 0).unwrap();
        let change = |operation: &str, element: usize| {
            format!(r#"{{"user":{{"external_id":"a"}},"{operation}":{{"a":[{element}]}}}}"#)
        };
        // This would take minutes if each change read the whole value.
        for n in 0..10_000 {
            for operation in ["add", "remove", "add"] {
                let object = change(operation, 140_000 + n * 2);
                assert_eq!(draft.change(&attributes(&object), 5), Ok(Ok(0)));
            }
        }
        assert!(draft.pieces() < 200_000);
        let custom = custom_of(draft).unwrap();
        assert_eq!(
            serde_json::from_str::<Vec<u32>>(&custom[5..custom.len() - 1]).unwrap().len(),
            155_000
        );
    }

    #[test]
    fn unreadable_custom_attributes_stay_unchanged() {
        let mut draft = Draft::open(r#"{"custom_attributes":[1]}"#, 0).unwrap();
        let change = |changes: &str| format!(r#"{{"user":{{"external_id":"a"}},{changes}}}"#);
        assert!(draft.change(&attributes(&change(r#""custom":{"a":1}"#)), 5).is_err());
        let fields = change(r#""fields":{"first_name":"Ann"}"#);
        assert_eq!(draft.change(&attributes(&fields), 5), Ok(Ok(0)));
        assert_eq!(draft.into_document(), r#"{"first_name":"Ann","custom_attributes":[1]}"#);
    }
}

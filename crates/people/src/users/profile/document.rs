//! The text of a profile.

use std::borrow::Cow;

use super::{Field, Profile};
use kit::json;

/// A profile with the values of several others, which it does not copy.
pub struct MergedProfile<'a> {
    values: [Option<Cow<'a, str>>; Field::ALL.len()],
    /// The first profile, for its fields of a newer program.
    first: &'a Profile,
}

impl<'a> MergedProfile<'a> {
    /// The fields of a profile.
    pub fn new(first: &'a Profile) -> Self {
        let mut merged = Self { values: [const { None }; Field::ALL.len()], first };
        first.fields().for_each(|(field, value)| merged.set_json(field, value));
        merged
    }

    /// The value of a field as JSON.
    pub fn get(&self, field: Field) -> Option<&str> {
        self.values[field as usize].as_deref()
    }

    /// Sets a field to checked JSON.
    pub fn set_json(&mut self, field: Field, value: impl Into<Cow<'a, str>>) {
        self.values[field as usize] = Some(value.into());
    }

    /// Sets a field to a string.
    pub fn set_text(&mut self, field: Field, text: &str) {
        self.set_json(field, json::quoted(text));
    }

    /// The document.
    pub fn into_document(self) -> String {
        let fields = Field::ALL.iter().zip(&self.values);
        let fields = fields.filter_map(|(field, value)| Some((field.name(), value.as_deref()?)));
        document(fields.chain(self.first.more()))
    }
}

/// The size of the document of these names and values in bytes.
pub(super) fn bytes<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let members = members.map(|(name, value)| name.len() + value.len());
    let (count, bytes) = members.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    // Braces; for each field two quotes and a colon; commas between them.
    2 + bytes + 3 * count + usize::saturating_sub(count, 1)
}

/// The document of these names and values.
pub(super) fn document<'a>(members: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let mut document = String::with_capacity(bytes(members.clone()));
    document.push('{');
    for (name, value) in members {
        if document.len() > 1 {
            document.push(',');
        }
        document.push('"');
        document.push_str(name);
        document.push_str("\":");
        document.push_str(value);
    }
    document.push('}');
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_several_profiles_become_one_document() {
        let first = r#"{"email":"a@b","push_subscribe":"opted_in","newer":[1]}"#;
        let second = r#"{"gender":"F","email":"c@d"}"#;
        let (first, second) = (Profile::parse(first).unwrap(), Profile::parse(second).unwrap());
        let mut merged = MergedProfile::new(&first);
        second.fields().for_each(|(field, value)| merged.set_json(field, value));
        merged.set_text(Field::LastName, "O\"Neil");
        assert_eq!(merged.get(Field::Email), Some(r#""c@d""#));
        assert_eq!(
            merged.into_document(),
            r#"{"email":"c@d","last_name":"O\"Neil","gender":"F","push_subscribe":"opted_in","newer":[1]}"#
        );
    }
}

//! Warnings about parts of a request that have no effect, in the response to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kit::words::{beginning, nearest};

/// Maximum number of warnings in a response.
const MAX: usize = 20;

/// Maximum characters of a name in a warning.
const MAX_NAME_CHARACTERS: usize = 64;

/// A part of the request that has no effect, or not the expected one. Never contains a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// The path of the field. `[]` stands for the elements of an array: `purchases[].currency`.
    /// The path ends after 64 characters.
    pub field: String,
    pub code: WarningCode,
    /// How many objects have the field.
    pub count: usize,
    /// The position of the first such object in its array, from 0. Absent outside arrays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// What `field` and `code` do not say, for people to read: such as the field that the sender
    /// may have meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The kind of a warning. A code never changes its meaning. A later version may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarningCode {
    /// The request does not read this field, and ignores it.
    UnknownField,
    /// The request reads this field, but its value has no effect here.
    IgnoredValue,
    /// Null and an empty value are no subscription state: the stored state stays.
    NoState,
    /// None of the users who were read has a custom attribute with this name.
    UnknownAttribute,
    /// The condition is about a custom attribute, but a field of the profile has this name.
    ProfileField,
    /// The workspace has no exchange rate for the currency: the purchase adds no revenue.
    NoExchangeRate,
    /// The export fails, or may fail; the message says why.
    ExportFails,
}

impl Warning {
    pub fn new(field: impl AsRef<str>, code: WarningCode) -> Self {
        let field = beginning(field.as_ref(), MAX_NAME_CHARACTERS).into_owned();
        Self { field, code, count: 1, index: None, message: None }
    }

    pub fn with_message(self, message: String) -> Self {
        Self { message: Some(message), ..self }
    }

    /// The warning about an unknown field of a request that reads the `known` ones.
    pub fn unknown_field(name: &str, known: &[&str]) -> Self {
        let warning = Self::new(name, WarningCode::UnknownField);
        match nearest(name, known.iter().copied()) {
            Some(known) => warning.with_message(did_you_mean(known)),
            None => warning,
        }
    }

    /// The warning as a line of text.
    pub fn to_line(&self) -> String {
        let about = match self.code {
            WarningCode::UnknownField => "unknown field, ignored",
            WarningCode::IgnoredValue => "ignored",
            WarningCode::NoState => "no subscription state, ignored",
            WarningCode::UnknownAttribute => "no user is known to have this attribute",
            WarningCode::ProfileField => "a field of the profile has this name",
            WarningCode::NoExchangeRate => "the currency has no exchange rate",
            WarningCode::ExportFails => "the export may fail",
        };
        match (&self.message, self.code) {
            (Some(message), WarningCode::ExportFails) => message.clone(),
            (Some(message), _) => format!("{}: {about}; {message}", self.field),
            (None, _) => format!("{}: {about}", self.field),
        }
    }
}

/// The question about a field that the sender may have meant.
pub fn did_you_mean(known: &str) -> String {
    format!("did you mean {known}?")
}

/// Collects the warnings of a request.
#[derive(Debug, Default)]
pub struct Warnings(Vec<Warning>);

impl Warnings {
    pub fn push(&mut self, warning: Warning) {
        if self.0.len() < MAX {
            self.0.push(warning);
        }
    }

    /// Adds a warning, or counts it if there is one about the same field.
    pub fn add(&mut self, warning: Warning) {
        let is_same =
            |other: &&mut Warning| (&other.field, other.code) == (&warning.field, warning.code);
        match self.0.iter_mut().find(is_same) {
            Some(same) => same.count += 1,
            None => self.push(warning),
        }
    }

    /// Counts an object of an array that has a field, or a value, without effect.
    pub fn count(&mut self, field: &str, code: WarningCode, index: usize) {
        self.add(Warning { index: Some(index), ..Warning::new(field, code) });
    }

    /// Adds all of these, in their order.
    pub fn extend(&mut self, warnings: Vec<Warning>) {
        warnings.into_iter().for_each(|warning| self.push(warning));
    }

    pub fn into_vec(self) -> Vec<Warning> {
        self.0
    }
}

impl From<Vec<Warning>> for Warnings {
    fn from(warnings: Vec<Warning>) -> Self {
        let mut all = Self::default();
        all.extend(warnings);
        all
    }
}

/// A response with the warnings about its request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}WithWarnings")]
pub struct Warned<T> {
    #[serde(flatten)]
    pub response: T,
    /// Parts of the request that have no effect; at most 20. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_many_objects_is_one_warning() {
        let mut warnings = Warnings::default();
        for index in [2, 5, 9] {
            warnings.count("attributes[].email_subscribe", WarningCode::NoState, index);
        }
        let expected = json!([
            { "field": "attributes[].email_subscribe", "code": "no-state", "count": 3, "index": 2 },
        ]);
        assert_eq!(json!(warnings.into_vec()), expected);
    }

    #[test]
    fn warnings_are_bounded() {
        let mut warnings = Warnings::default();
        for number in 0..2 * MAX {
            let name = format!("{number}{}", "é".repeat(1_000));
            warnings.push(Warning::unknown_field(&name, &["broadcast"]));
        }
        let warnings = warnings.into_vec();
        assert_eq!(warnings.len(), MAX);
        assert!(warnings.iter().all(|warning| warning.field.chars().count() <= 65));
    }

    #[test]
    fn unknown_fields_come_with_a_suggestion() {
        let warning = Warning::unknown_field("brodcast", &["broadcast", "audience"]);
        assert_eq!(warning.to_line(), "brodcast: unknown field, ignored; did you mean broadcast?");
        assert_eq!(
            Warning::unknown_field("x", &["broadcast"]).to_line(),
            "x: unknown field, ignored"
        );
    }
}

//! The values of the form, the API's request that they make, and where its errors belong.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::error::PageError;
use crate::form::Form;
use crate::page::Page;
use exports::request::{ExportOptions, RequestedUsers, check_address};
use gateway::ApiError;
use proof::fields::{self, CUSTOM_ATTRIBUTES, ON_REQUEST};

/// The names of the form's fields; most are those of the API.
pub const AUDIENCE: &str = "audience";
pub const SEGMENT: &str = "segment_id";
pub const FIELD: &str = "field";
pub const GROUP: &str = "group";
pub const MORE_FIELDS: &str = "more_fields";
pub const FIELDS: &str = "fields_to_export";
pub const FORMAT: &str = "output_format";
pub const DESTINATION: &str = "destination";
pub const USERS_PER_FILE: &str = "users_per_file";
pub const CALLBACK: &str = "callback_endpoint";
pub const REQUEST_KEY: &str = "request_key";

/// The value of `audience` for the control group.
pub const CONTROL_GROUP: &str = "control_group";

/// The fields next to which the form shows an error.
const SHOWN: [&str; 6] = [SEGMENT, FIELDS, FORMAT, DESTINATION, USERS_PER_FILE, CALLBACK];

/// The value of `group` for every field of the record.
pub const EVERY_FIELD: &str = "every";

kit::named! {
    /// A group of fields.
    pub enum Group {
        Identifiers = "identifiers",
        Profile = "profile",
        Activity = "activity",
        Attribution = "attribution",
        CustomAttributes = "custom_attributes",
        Consent = "consent",
    }
}

impl Group {
    pub fn title(self) -> &'static str {
        match self {
            Self::Identifiers => "Identifiers",
            Self::Profile => "Profile",
            Self::Activity => "Activity",
            Self::Attribution => "Attribution",
            Self::CustomAttributes => "Custom attributes",
            Self::Consent => "Consent",
        }
    }

    fn from_field(field: &str) -> Self {
        match field {
            "service_id" | "external_id" | "user_aliases" => Self::Identifiers,
            "purchases" | "custom_events" | "total_revenue" | "apps" | "devices"
            | "last_coordinates" | "uninstalled_at" => Self::Activity,
            CUSTOM_ATTRIBUTES => Self::CustomAttributes,
            _ if ON_REQUEST.contains(&field) => Self::Consent,
            _ if field.starts_with("attributed_") => Self::Attribution,
            _ => Self::Profile,
        }
    }

    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        fields::exportable().filter(move |field| Self::from_field(field) == self)
    }
}

/// What the person filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    pub is_control_group: bool,
    pub segment_id: String,
    /// Fields that are ticked.
    pub fields: BTreeSet<String>,
    /// Groups that are ticked, and [`EVERY_FIELD`].
    pub groups: BTreeSet<String>,
    /// Names of further fields, one a line.
    pub more_fields: String,
    pub format: String,
    /// Empty for the workspace's default.
    pub destination: String,
    pub users_per_file: String,
    pub callback: String,
    /// The key under which the form takes effect once.
    pub request_key: Uuid,
}

impl Values {
    /// The values of a new form.
    pub fn first(has_control_group: bool) -> Self {
        Self {
            is_control_group: has_control_group,
            segment_id: String::new(),
            fields: BTreeSet::from(["external_id".to_owned()]),
            groups: BTreeSet::new(),
            more_fields: String::new(),
            format: exports::Format::default().name().to_owned(),
            destination: String::new(),
            users_per_file: String::new(),
            callback: String::new(),
            request_key: Uuid::new_v4(),
        }
    }

    pub fn read(form: &Form) -> Self {
        let set = |name| form.values(name).map(str::to_owned).collect();
        Self {
            is_control_group: form.value(AUDIENCE) == CONTROL_GROUP,
            segment_id: form.value(SEGMENT).to_owned(),
            fields: set(FIELD),
            groups: set(GROUP),
            more_fields: form.value(MORE_FIELDS).to_owned(),
            format: form.value(FORMAT).to_owned(),
            destination: form.value(DESTINATION).to_owned(),
            users_per_file: form.value(USERS_PER_FILE).to_owned(),
            callback: form.value(CALLBACK).to_owned(),
            request_key: Uuid::try_parse(form.value(REQUEST_KEY))
                .unwrap_or_else(|_| Uuid::new_v4()),
        }
    }

    /// The names of all requested fields: those of the record in its order, then the others.
    pub fn field_names(&self) -> Vec<String> {
        let has_every = self.groups.contains(EVERY_FIELD);
        let is_wanted = |field: &str| {
            let in_group = self.groups.contains(Group::from_field(field).name());
            let in_record = has_every && !ON_REQUEST.contains(&field);
            in_group || in_record || self.fields.contains(field)
        };
        let known: BTreeSet<&str> = fields::exportable().collect();
        let ticked = fields::exportable().filter(|field| is_wanted(field)).map(str::to_owned);
        // The reader of the API refuses unknown names.
        let unknown = self.fields.iter().filter(|field| !known.contains(field.as_str())).cloned();
        let more = self.more_fields.lines().map(str::trim).filter(|name| !name.is_empty());
        ticked.chain(unknown).chain(more.map(str::to_owned)).collect()
    }

    /// The body of the API's request.
    pub fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        if !self.is_control_group {
            body.insert(SEGMENT.to_owned(), json!(self.segment_id));
        }
        body.insert(FIELDS.to_owned(), json!(self.field_names()));
        for (name, text) in
            [(FORMAT, &self.format), (DESTINATION, &self.destination), (CALLBACK, &self.callback)]
        {
            if !text.is_empty() {
                body.insert(name.to_owned(), json!(text));
            }
        }
        if !self.users_per_file.is_empty() {
            // The reader of the API refuses what is not a number.
            let number = self.users_per_file.parse::<u64>();
            let value = number.map_or_else(|_| json!(self.users_per_file), |users| json!(users));
            body.insert(USERS_PER_FILE.to_owned(), value);
        }
        body
    }

    /// The same as text.
    pub fn json(&self) -> String {
        Value::Object(self.body()).to_string()
    }

    /// The request, as the API reads it.
    pub fn request(&self, page: &Page) -> Result<(RequestedUsers, ExportOptions), PageError> {
        let workspace = page.workspace()?;
        let mut body = self.body();
        fields::note_alias(&mut body, workspace.aliases.service_id.as_deref());
        let check = check_address(&page.app);
        if self.is_control_group {
            return Ok((RequestedUsers::ControlGroup, ExportOptions::read(&body, check)?));
        }
        Ok(ExportOptions::read_with_users(&body, workspace.id, check)?)
    }
}

/// The messages of an invalid form, by the fields next to which they are shown.
#[derive(Debug, Default)]
pub struct Errors {
    pub by_field: BTreeMap<String, String>,
    /// A message about no field.
    pub general: Option<String>,
}

impl Errors {
    pub fn new(error: &ApiError) -> Self {
        let message = error.message().into_owned();
        let is_about = |field: &str| {
            let rest = message.strip_prefix(field);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        match SHOWN.into_iter().find(|field| is_about(field)) {
            Some(field) => {
                Self { by_field: BTreeMap::from([(field.to_owned(), message)]), general: None }
            }
            None => Self { by_field: BTreeMap::new(), general: Some(message) },
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_field.is_empty() && self.general.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &str) -> Values {
        Values::read(&Form::parse(form.as_bytes()))
    }

    #[test]
    fn each_field_is_in_one_group() {
        let mut grouped: Vec<&str> = Group::ALL.into_iter().flat_map(Group::fields).collect();
        let mut all: Vec<&str> = fields::exportable().collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        assert!(Group::ALL.into_iter().all(|group| group.fields().next().is_some()));
    }

    #[test]
    fn ticked_fields_groups_and_lines_add_up() {
        let names =
            read("field=email&group=identifiers&more_fields=custom_attributes.a%0D%0A%0D%0A b ")
                .field_names();
        assert_eq!(
            names,
            ["service_id", "external_id", "user_aliases", "email", "custom_attributes.a", "b"]
        );
        let every = read("group=every&field=email_subscribe").field_names();
        let record = fields::record().count();
        assert_eq!(every.len(), record + 1, "consent only on request");
        assert_eq!(read("field=<script>").field_names(), ["<script>"]);
    }

    #[test]
    fn the_form_makes_the_request_of_the_api() {
        let form = "audience=segment&segment_id=s&field=email&output_format=gzip&destination=lake\
                    &users_per_file=7&callback_endpoint=https://a.example";
        assert_eq!(
            Value::Object(read(form).body()),
            json!({
                "segment_id": "s", "fields_to_export": ["email"], "output_format": "gzip",
                "destination": "lake", "users_per_file": 7,
                "callback_endpoint": "https://a.example",
            })
        );
        let least = read("audience=control_group&field=email&users_per_file=many").body();
        let expected = json!({ "fields_to_export": ["email"], "users_per_file": "many" });
        assert_eq!(Value::Object(least), expected);
    }

    #[test]
    fn errors_belong_to_the_field_that_they_name() {
        let about = |text: &str| {
            let errors = Errors::new(&ApiError::Invalid(text.to_owned()));
            (errors.by_field.keys().next().cloned(), errors.general.is_some())
        };
        for (text, field) in [
            ("users_per_file must be 1 to 500000", USERS_PER_FILE),
            ("callback_endpoint: must begin with http:// or https://", CALLBACK),
            ("fields_to_export[3] must be a string", FIELDS),
            ("destination: \"x\" does not match a storage", DESTINATION),
        ] {
            assert_eq!(about(text), (Some(field.to_owned()), false), "{text}");
        }
        assert_eq!(about("The workspace has no active global control group"), (None, true));
        assert_eq!(about("destinations are many"), (None, true));
    }
}

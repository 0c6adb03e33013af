//! The values of the form, the API's request that they make, and where its errors belong.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::app::App;
use console_frame::form::Form;
use exports::request::{ExportOptions, RequestedUsers, check_address};
use gateway::ApiError;
use gateway::workspaces::Workspace;
use kit::words::about_field;
use proof::fields::{self, CUSTOM_ATTRIBUTES, FieldSet, ON_REQUEST};

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

/// The fields next to which the form shows an error, in its order, and their labels.
const LABELS: [(&str, &str); 7] = [
    (SEGMENT, "Segment"),
    (FIELDS, "Fields"),
    (MORE_FIELDS, "Single custom attributes"),
    (DESTINATION, "Destination"),
    (FORMAT, "Format"),
    (USERS_PER_FILE, "Users in a file"),
    (CALLBACK, "Callback address"),
];

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

/// Whose users the API's request is for, and its options.
pub type Request = (RequestedUsers, ExportOptions);

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
    /// The values of a new form, for a segment if there is one.
    pub fn first(has_control_group: bool, segment_id: String) -> Self {
        Self {
            is_control_group: has_control_group && segment_id.is_empty(),
            segment_id,
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

    /// The names of all requested fields: those that are ticked, then those on lines.
    pub fn field_names(&self) -> Vec<String> {
        let mut names = self.ticked_names();
        let lines = self.more_fields.lines().map(str::trim).filter(|name| !name.is_empty());
        names.extend(lines.map(str::to_owned));
        names
    }

    /// The names of the fields that are ticked: those of the record in its order, then the others.
    fn ticked_names(&self) -> Vec<String> {
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
        ticked.chain(unknown).collect()
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

    /// The request, as the API reads it, and the errors of all its fields. With errors, the request
    /// is another one, or none.
    pub fn request(&self, app: &App, workspace: &Workspace) -> (Option<Request>, Errors) {
        let mut body = self.body();
        fields::note_alias(&mut body, workspace.aliases.service_id.as_deref());
        let mut errors = Errors::default();
        loop {
            let error = match self.read_request(app, workspace, &body) {
                Ok(request) => return (Some(request), errors),
                Err(error) => error,
            };
            // The API reports its first error. The next one appears once this field is valid.
            match errors.add(&error, self) {
                Some(SEGMENT) => body.insert(SEGMENT.to_owned(), json!(Uuid::nil())),
                Some(FIELDS | MORE_FIELDS) => {
                    body.insert(FIELDS.to_owned(), json!(["external_id"]))
                }
                Some(field) => body.remove(field),
                None => return (None, errors),
            };
        }
    }

    fn read_request(
        &self,
        app: &App,
        workspace: &Workspace,
        body: &Map<String, Value>,
    ) -> Result<Request, ApiError> {
        let check = check_address(app);
        if self.is_control_group {
            return Ok((RequestedUsers::ControlGroup, ExportOptions::read(body, check)?));
        }
        ExportOptions::read_with_users(body, workspace.id, check)
    }

    /// The field of the form that an error of a field of the API is about.
    fn field_of(&self, field: &'static str) -> &'static str {
        let ticked = self.ticked_names();
        let is_about_lines = field == FIELDS
            && !self.more_fields.is_empty()
            && (ticked.is_empty() || FieldSet::parse(&ticked).is_ok());
        if is_about_lines { MORE_FIELDS } else { field }
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
    pub fn new(error: &ApiError, values: &Values) -> Self {
        let mut errors = Self::default();
        errors.add(error, values);
        errors
    }

    /// Adds an error of the API, with the label of its field instead of the name. Returns the
    /// field; none if the error names no field of the form, or the field already has an error.
    pub fn add(&mut self, error: &ApiError, values: &Values) -> Option<&'static str> {
        let message = error.message();
        let about = |(field, _): &(&'static str, &str)| {
            let rest = message.strip_prefix(field)?;
            let is_other = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            (!is_other).then(|| (*field, rest.trim_start_matches([':', ' '])))
        };
        let Some((field, text)) = LABELS.iter().find_map(about) else {
            self.general = Some(message.into_owned());
            return None;
        };
        let field = values.field_of(field);
        let (_, label) = LABELS.into_iter().find(|(known, _)| *known == field)?;
        let former = self.by_field.insert(field.to_owned(), about_field(label, text));
        former.is_none().then_some(field)
    }

    /// The fields with errors and their messages, in the order of the form.
    pub fn in_order(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let message = |(field, _): (&'static str, _)| {
            self.by_field.get(field).map(|message| (field, message.as_str()))
        };
        LABELS.into_iter().filter_map(message)
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
        let about = |text: &str, form: &str| {
            let errors = Errors::new(&ApiError::Invalid(text.to_owned()), &read(form));
            let first = errors.in_order().next().map(|(field, text)| (field, text.to_owned()));
            (first, errors.general.is_some())
        };
        for (text, form, field, shown) in [
            (
                "users_per_file must be 1 to 500000",
                "",
                USERS_PER_FILE,
                "Users in a file must be 1 to 500000",
            ),
            ("callback_endpoint: expected https", "", CALLBACK, "Callback address: expected https"),
            ("fields_to_export[3] must be a string", "", FIELDS, "Fields[3] must be a string"),
            (
                "fields_to_export contains unknown fields: \"x\"",
                "field=email&more_fields=x",
                MORE_FIELDS,
                "Single custom attributes contains unknown fields: \"x\"",
            ),
            (
                "fields_to_export contains unknown fields: \"x\"",
                "field=x&more_fields=y",
                FIELDS,
                "Fields contains unknown fields: \"x\"",
            ),
        ] {
            let expected = (Some((field, shown.to_owned())), false);
            assert_eq!(about(text, form), expected, "{text}");
        }
        assert_eq!(about("The workspace has no active global control group", ""), (None, true));
        assert_eq!(about("destinations are many", ""), (None, true));
    }
}

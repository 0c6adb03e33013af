//! The form of a new key: its values, and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use maud::{Markup, html};
use serde_json::json;
use uuid::Uuid;

use super::permissions::{GROUPS, Group};
use crate::page::Page;
use console_frame::form::Form;
use console_frame::parts::{self, icon};
use gateway::workspaces::keys::{self, KeyError, PERMISSIONS};
use runtime::config::network::{network, networks};

/// The names of the form's fields.
pub const NAME: &str = "name";
pub const PERMISSION: &str = "permission";
const GROUP: &str = "group";
const ALLOW: &str = "allow";
const REQUEST_KEY: &str = "request_key";

/// The fields next to which the form shows an error, in its order.
const FIELDS: [&str; 3] = [NAME, ALLOW, PERMISSION];

/// The messages of an invalid form, by the fields next to which they are shown.
pub type Errors = BTreeMap<String, String>;

/// What the person filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    pub name: String,
    /// Permissions that are ticked.
    ticked: BTreeSet<String>,
    /// Groups that are ticked as a whole.
    groups: BTreeSet<String>,
    /// Networks, one a line.
    allow: String,
    /// The key under which the form takes effect once.
    pub request_key: Uuid,
}

impl Values {
    /// The values of a new form.
    pub fn first() -> Self {
        Self::read(&Form::default())
    }

    pub fn read(form: &Form) -> Self {
        let set = |name| form.values(name).map(str::to_owned).collect();
        let request_key = Uuid::try_parse(form.value(REQUEST_KEY));
        Self {
            name: form.value(NAME).to_owned(),
            ticked: set(PERMISSION),
            groups: set(GROUP),
            allow: form.value(ALLOW).to_owned(),
            request_key: request_key.unwrap_or_else(|_| Uuid::new_v4()),
        }
    }

    /// The permissions that are ticked, also by their groups; unknown ones, which no form has,
    /// last.
    pub fn permissions(&self) -> Vec<String> {
        let of_groups = GROUPS.iter().filter(|group| self.groups.contains(group.name));
        let of_groups: BTreeSet<&str> = of_groups
            .flat_map(|group| group.permissions)
            .map(|permission| permission.name)
            .collect();
        let is_granted = |name: &str| self.ticked.contains(name) || of_groups.contains(name);
        let known =
            PERMISSIONS.iter().filter(|name| is_granted(name)).map(|name| (*name).to_owned());
        let unknown = self.ticked.iter().filter(|name| !PERMISSIONS.contains(&name.as_str()));
        known.chain(unknown.cloned()).collect()
    }

    /// The networks, or what is wrong with the first invalid line.
    fn allow(&self) -> Result<Vec<IpNet>, String> {
        let lines = self.allow.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(network).collect()
    }

    /// The networks; or the errors of all fields.
    pub fn check(&self) -> Result<Vec<IpNet>, Errors> {
        let mut errors = Errors::new();
        let mut add = |field: &str, text: String| errors.insert(field.to_owned(), text);
        match keys::check_new_name(&self.name) {
            Ok(()) => {}
            Err(KeyError::NewName) => {
                let text = "A name is not a UUID, and has no invisible characters and none that \
                            change the direction of text";
                add(NAME, text.to_owned());
            }
            Err(_) => {
                add(NAME, "A name has 1 to 100 characters, and no control characters".to_owned());
            }
        }
        match keys::check_permissions(&self.permissions()) {
            Ok(()) => {}
            Err(KeyError::NoPermissions) => {
                add(PERMISSION, "Choose at least one permission".to_owned());
            }
            Err(_) => {
                add(PERMISSION, "Choose only permissions of this form".to_owned());
            }
        }
        let allow = self.allow().unwrap_or_else(|text| {
            add(ALLOW, parts::cut(&text).into_owned());
            Vec::new()
        });
        if errors.is_empty() { Ok(allow) } else { Err(errors) }
    }

    /// What distinguishes the form from another one with the same key.
    pub fn json(&self) -> String {
        json!([self.name, self.permissions(), self.allow]).to_string()
    }

    /// The networks as options of the command.
    pub fn allow_words(&self) -> impl Iterator<Item = &str> {
        self.allow.lines().map(str::trim).filter(|line| !line.is_empty())
    }
}

/// The form with its errors.
pub fn content(page: &Page, values: &Values, errors: &Errors) -> Markup {
    html! {
        @if !errors.is_empty() { (problem(errors)) }
        form.form method="post" action=(page.workspace_link("/keys/new")) novalidate {
            (parts::form_token(page))
            input type="hidden" name=(REQUEST_KEY) value=(values.request_key);
            (name(values, errors))
            (allow(page, values, errors))
            (permissions(values, errors))
            div.actions {
                button.button.primary type="submit" { "Create the key" }
                a.button href=(page.workspace_link("/keys")) { "Cancel" }
            }
        }
    }
}

/// What is wrong, before everything else.
fn problem(errors: &Errors) -> Markup {
    let in_order = FIELDS.iter().filter_map(|field| Some((field, errors.get(*field)?)));
    html! {
        div.notice.bad role="alert" {
            (icon("circle-alert"))
            div {
                p { b { "No key was created." } }
                @for (field, message) in in_order {
                    p { a href=(format!("#{field}")) { bdi { (parts::cut(message)) } } }
                }
            }
        }
    }
}

/// `aria-invalid` and `aria-describedby` of an input.
fn state(errors: &Errors, field: &str) -> (Option<&'static str>, String) {
    if errors.contains_key(field) {
        (Some("true"), parts::error_id(field))
    } else {
        (None, hint_id(field))
    }
}

fn hint_id(field: &str) -> String {
    format!("{field}-hint")
}

fn name(values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, NAME);
    html! {
        div.field {
            label for=(NAME) { "Name" }
            input.input id=(NAME) name=(NAME) value=(values.name) required autocomplete="off"
                spellcheck="false" dir="auto" aria-invalid=[is_invalid]
                aria-describedby=(described_by);
            p.hint id=(hint_id(NAME)) {
                "Of the program that uses the key. The audit log has it as the author of changes."
            }
            (parts::field_error(errors, NAME))
        }
    }
}

fn allow(page: &Page, values: &Values, errors: &Errors) -> Markup {
    let (is_invalid, described_by) = state(errors, ALLOW);
    let of_workspace = page.workspace_if_any().map(|workspace| &workspace.ip_allowlist);
    let of_workspace = of_workspace.filter(|networks| !networks.is_empty());
    html! {
        div.field.full {
            label for=(ALLOW) { "Allowed networks " span.muted { "optional" } }
            textarea.input id=(ALLOW) name=(ALLOW) rows="2" autocomplete="off" spellcheck="false"
                aria-invalid=[is_invalid] aria-describedby=(described_by)
            { (values.allow) }
            p.hint id=(hint_id(ALLOW)) {
                "From which the key works, one a line, such as " code { "203.0.113.0/24" }
                ". Without any: from everywhere."
                @if let Some(allowed) = of_workspace {
                    " The workspace itself allows only " (parts::cut(&networks(allowed))) "."
                }
            }
            (parts::field_error(errors, ALLOW))
        }
    }
}

fn permissions(values: &Values, errors: &Errors) -> Markup {
    let (_, described_by) = state(errors, PERMISSION);
    html! {
        fieldset.field.full id=(PERMISSION) aria-describedby=(described_by) {
            legend.legend-title { "Permissions" }
            div.choices { @for group in &GROUPS { (permission_group(group, values)) } }
            p.hint id=(hint_id(PERMISSION)) {
                "Only what the program needs: a leaked key then allows little. The permissions of a \
                 key do not change: for others, create another key."
            }
            (parts::field_error(errors, PERMISSION))
        }
    }
}

fn permission_group(group: &Group, values: &Values) -> Markup {
    let has_all = values.groups.contains(group.name);
    html! {
        fieldset.checks {
            legend { (group.title) }
            label.check.all {
                input type="checkbox" name=(GROUP) value=(group.name) checked[has_all];
                " All " (group.permissions.len())
            }
            div.checks-grid.described {
                @for permission in group.permissions {
                    label.check {
                        input type="checkbox" name=(PERMISSION) value=(permission.name)
                            checked[values.ticked.contains(permission.name)];
                        span { (permission.about) code.muted { (permission.name) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &str) -> Values {
        Values::read(&Form::parse(form.as_bytes()))
    }

    #[test]
    fn ticked_permissions_and_groups_add_up() {
        let values = read("permission=users.track&group=segments&permission=segments.list");
        let expected = [
            "segments.details",
            "segments.list",
            "segments.sample",
            "segments.size",
            "users.track",
        ];
        assert_eq!(values.permissions(), expected);
        assert_eq!(read("group=everything").permissions(), Vec::<String>::new());
    }

    #[test]
    fn all_errors_are_found_at_once() {
        let valid = "name=app&permission=users.track&allow=10.0.0.0/8%0D%0A%0D%0A+%3A%3A1+";
        assert_eq!(
            read(valid).check().map(|allow| networks(&allow)),
            Ok("10.0.0.0/8, ::1/128".into())
        );
        for (form, fields) in [
            ("", &[NAME, PERMISSION][..]),
            (
                "name=%07&permission=everything&allow=10.0.0.0/8%0Aoffice",
                &[ALLOW, NAME, PERMISSION],
            ),
            ("name=app&permission=users.track&allow=10.0.0.0/99", &[ALLOW]),
            ("name=app%E2%80%AE&permission=users.track", &[NAME]),
        ] {
            let errors = read(form).check().unwrap_err();
            assert_eq!(errors.keys().collect::<Vec<_>>(), fields, "{form}");
        }
    }
}

//! The bodies and addresses of SCIM.

use std::sync::LazyLock;

use serde_json::json;

use super::{body, check_reason, check_refusal, text};
use crate::gateway::scim::ScimError;
use crate::scim::api;
use crate::scim::filter::{Filter, Operator};
use crate::scim::patch::Patch;
use crate::scim::query::{PAGE, Query};
use crate::scim::resource::{AppGroup, User};
use crate::scim::schema::{self, Attributes};

/// The app groups that there are.
static GROUPS: LazyLock<[AppGroup; 2]> = LazyLock::new(|| ["acme", "beta"].map(AppGroup::of));

/// Somebody who has everything.
static ANN: LazyLock<Attributes> = LazyLock::new(|| {
    let ann = json!({
        "userName": "ann@acme.example", "externalId": "7", "active": true, "department": "CRM",
        "name": { "givenName": "Ann", "familyName": "Lee" },
        "permissions": {
            "companyPermissions": ["a", "b"],
            "appGroup": [
                { "appGroupName": "acme", "appGroupPermissions": ["send"],
                  "team": [{ "teamId": "t1", "teamPermissions": ["x"] }] },
                { "appGroupName": "beta", "appGroupPermissions": ["see"] },
            ],
        },
    });
    ann.as_object().cloned().unwrap_or_default()
});

/// The body that makes or replaces a user.
pub fn user(bytes: &[u8]) {
    let Some(body) = body(bytes) else { return };
    let read = api::user_attributes(&body).and_then(|attributes| User::of(attributes, &*GROUPS));
    check_user(read);
}

/// The body that changes one.
pub fn patch(bytes: &[u8]) {
    let Some(body) = body(bytes) else { return };
    let patched = api::attributes(&body).and_then(Patch::read).and_then(|patch| {
        let mut ann = ANN.clone();
        patch.apply(&mut ann)?;
        User::of(schema::read_user(ann)?, &*GROUPS)
    });
    check_user(patched);
}

/// What a list is asked for: the body of a search, or what follows the question mark.
pub fn query(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let read = match body(bytes) {
        Some(body) if text.starts_with('{') => {
            api::attributes(&body).and_then(|members| Query::of_body(&members))
        }
        _ => Query::of_address(text),
    };
    let query = match read {
        Ok(query) => query,
        Err(error) => return check_error(error),
    };
    assert!(query.start_index >= 1 && (0..=PAGE).contains(&query.count), "{query:?}");
    check_filter(&query.filter);
    let mut shown = ANN.clone();
    shown.insert("id".into(), "1".into());
    shown.insert("schemas".into(), json!([schema::USER]));
    query.projection.apply(&mut shown);
    assert!(shown.contains_key("id") && shown.contains_key("schemas"), "{shown:?}");
}

/// Whom a body makes is kept, read and made again as the same.
fn check_user(read: Result<User, ScimError>) {
    let user = match read {
        Ok(user) => user,
        Err(error) => return check_error(error),
    };
    let kept: User = serde_json::from_str(&user.to_json()).expect("what is kept is read");
    assert_eq!(kept, user);
    let attributes = user.attributes().expect("what is kept has attributes");
    assert_eq!(User::of(attributes, &*GROUPS).expect("what is kept is right"), user);
}

/// Written as the standard has it, a filter is read as the same.
fn check_filter(filter: &Filter) {
    let comparison = |comparison: &crate::scim::filter::Comparison| {
        let operator = match comparison.operator {
            Operator::Equals => "eq",
            Operator::Contains => "co",
            Operator::StartsWith => "sw",
        };
        format!("{} {operator} {}", comparison.attribute, json!(comparison.value))
    };
    let comparisons: Vec<_> = filter.0.iter().map(comparison).collect();
    if !comparisons.is_empty() {
        let again = Filter::parse(&comparisons.join(" and "));
        assert_eq!(&again.expect("a filter is read"), filter);
    }
}

fn check_error(error: ScimError) {
    match error {
        ScimError::Api(error) => check_refusal(&error),
        ScimError::Refused { detail, .. } => check_reason(&detail),
    }
}

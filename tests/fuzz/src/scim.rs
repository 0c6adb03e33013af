//! The bodies and queries of SCIM.

use std::sync::LazyLock;

use serde_json::json;

use super::{Accepted, body, check_reason, check_refusal, text};
use longshore::gateway::scim::ScimError;
use longshore::scim::api;
use longshore::scim::filter::{Filter, Operator};
use longshore::scim::patch::Patch;
use longshore::scim::query::{PAGE, Query};
use longshore::scim::resource::{AppGroup, User};
use longshore::scim::schema::{self, Attributes};

/// The existing app groups.
static GROUPS: LazyLock<[AppGroup; 2]> = LazyLock::new(|| ["acme", "beta"].map(AppGroup::of));

/// A user with all attributes.
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

/// The body that creates or replaces a user.
pub fn user(bytes: &[u8]) -> Option<Accepted> {
    let body = body(bytes)?;
    let read = api::user_attributes(&body).and_then(|attributes| User::of(attributes, &*GROUPS));
    check_user(read)
}

/// The body that changes one.
pub fn patch(bytes: &[u8]) -> Option<Accepted> {
    let body = body(bytes)?;
    let patched = api::attributes(&body).and_then(Patch::read).and_then(|patch| {
        let mut ann = ANN.clone();
        patch.apply(&mut ann)?;
        User::of(schema::read_user(ann)?, &*GROUPS)
    });
    check_user(patched)
}

/// The query of a list: the body of a search, or the query string.
pub fn query(bytes: &[u8]) -> Option<Accepted> {
    let text = text(bytes)?;
    let read = match body(bytes) {
        Some(body) if text.starts_with('{') => {
            api::attributes(&body).and_then(|members| Query::of_body(&members))
        }
        _ => Query::of_address(text),
    };
    let query = read.map_err(check_error).ok()?;
    assert!(query.start_index >= 1 && (0..=PAGE).contains(&query.count), "{query:?}");
    check_filter(&query.filter);
    let mut shown = ANN.clone();
    shown.insert("id".into(), "1".into());
    shown.insert("schemas".into(), json!([schema::USER]));
    query.projection.apply(&mut shown);
    assert!(shown.contains_key("id") && shown.contains_key("schemas"), "{shown:?}");
    Some(Accepted)
}

/// A created user is stored, read and created again as the same.
fn check_user(read: Result<User, ScimError>) -> Option<Accepted> {
    let user = read.map_err(check_error).ok()?;
    let kept: User = serde_json::from_str(&user.to_json()).expect("what is kept is read");
    assert_eq!(kept, user);
    let attributes = user.attributes().expect("what is kept has attributes");
    assert_eq!(User::of(attributes, &*GROUPS).expect("what is kept is right"), user);
    Some(Accepted)
}

/// A filter in the standard's notation is read as the same.
fn check_filter(filter: &Filter) {
    let comparison = |comparison: &longshore::scim::filter::Comparison| {
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

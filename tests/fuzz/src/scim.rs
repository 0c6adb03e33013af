//! The bodies and queries of SCIM.

use std::sync::LazyLock;

use serde_json::json;

use super::{Accepted, body, check_reason, check_refusal, text};
use longshore::gateway::scim::ScimError;
use longshore::scim::api;
use longshore::scim::filter::{Filter, Scope};
use longshore::scim::patch::Patch;
use longshore::scim::query::{PAGE, Query};
use longshore::scim::resource::{AppGroup, Resource as _, User, Written};
use longshore::scim::schema::{self, Attributes, USERS};

/// The existing app groups.
static GROUPS: LazyLock<[AppGroup; 2]> =
    LazyLock::new(|| ["acme", "beta"].map(AppGroup::from_workspace));

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
    let read = api::attributes(&body)
        .and_then(|body| Written::from_body(body, &USERS))
        .and_then(|written| User::from_attributes(written.attributes, &*GROUPS));
    check_user(read)
}

/// The body that changes one.
pub fn patch(bytes: &[u8]) -> Option<Accepted> {
    let body = body(bytes)?;
    let patched =
        api::attributes(&body).and_then(|body| Patch::read(body, &USERS)).and_then(|patch| {
            let mut ann = ANN.clone();
            patch.apply(&mut ann)?;
            User::from_attributes(USERS.read(ann)?, &*GROUPS)
        });
    check_user(patched)
}

/// The query of a list: the body of a search, or the query string.
pub fn query(bytes: &[u8]) -> Option<Accepted> {
    let text = text(bytes)?;
    let read = match body(bytes) {
        Some(body) if text.starts_with('{') => {
            api::attributes(&body).and_then(|members| Query::from_body(&members, &USERS))
        }
        _ => Query::from_query_string(text, &USERS),
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
    assert_eq!(User::from_attributes(attributes, &*GROUPS).expect("what is kept is right"), user);
    Some(Accepted)
}

/// A filter in the standard's notation is read as the same.
fn check_filter(filter: &Filter) {
    let text = filter.to_string();
    if !text.is_empty() {
        let again = Filter::parse(&text, Scope::Resource(&USERS));
        assert_eq!(&again.expect("a filter is read"), filter);
    }
    let _ = filter.holds(&ANN.clone().into());
}

fn check_error(error: ScimError) {
    match error {
        ScimError::Api(error) => check_refusal(&error),
        ScimError::Refused { detail, .. } => check_reason(&detail),
    }
}

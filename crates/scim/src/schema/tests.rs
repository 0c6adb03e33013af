use serde_json::{Value, json};

use super::*;
use crate::api;
use gateway::JsonText;

/// The attributes of a user's body, or its error.
fn read(body: &str) -> Result<Value, ScimType> {
    let attributes = api::attributes(&JsonText::from(body.to_owned()));
    match attributes.and_then(|attributes| USERS.read(attributes)) {
        Ok(attributes) => Ok(attributes.into()),
        Err(ScimError::Refused { scim_type: Some(scim_type), .. }) => Err(scim_type),
        Err(error) => panic!("{body}: {error:?}"),
    }
}

#[test]
fn names_that_differ_only_in_case_are_duplicates() {
    let upper = ENTERPRISE.to_ascii_uppercase();
    for body in [
        r#"{"active":true,"active":false}"#.to_owned(),
        r#"{"active":true,"Active":false}"#.to_owned(),
        r#"{"active":true,"ACTIVE":true}"#.to_owned(),
        r#"{"name":{"givenName":"a","givenname":"b"}}"#.to_owned(),
        r#"{"emails":[{"value":"a@b.example","Value":"c@d.example"}]}"#.to_owned(),
        r#"{"Operations":[{"op":"add","OP":"remove"}]}"#.to_owned(),
        format!(r#"{{"{ENTERPRISE}":{{"division":"a"}},"{upper}":{{"division":"b"}}}}"#),
        // The same attribute in two forms.
        format!(r#"{{"{ENTERPRISE}":{{"division":"a"}},"{ENTERPRISE}:division":"b"}}"#),
        format!(r#"{{"title":"a","{USER}:title":"b"}}"#),
    ] {
        assert_eq!(read(&body), Err(ScimType::InvalidSyntax), "{body}");
    }
    let other = r#"{"title":"a","name":{"Title":"b"},"emails":[{"value":"a@b.example"},{"Value":"c@d.example"}]}"#;
    assert_eq!(read(other).unwrap()["title"], "a");
    let twice = format!(r#"{{"department":"a","{ENTERPRISE}":{{"department":"b"}}}}"#);
    assert!(read(&twice).is_ok());
}

#[test]
fn a_manager_is_read_in_the_forms_of_older_clients() {
    let full = format!("{ENTERPRISE}:manager");
    for name in ["manager", &full] {
        for value in [r#""7""#, r#"["7"]"#, r#"{"value":"7"}"#, r#"[{"value":"7"}]"#] {
            let user = read(&format!(r#"{{"{name}":{value}}}"#)).unwrap();
            assert_eq!(user, json!({ ENTERPRISE: { "manager": { "value": "7" } } }), "{value}");
        }
        for value in ["null", "[]", r#"[{"value":""}]"#] {
            let user = read(&format!(r#"{{"{name}":{value}}}"#)).unwrap();
            assert_eq!(user.pointer(&format!("/{ENTERPRISE}/manager")), None, "{value}");
        }
        for value in [r#"["7","8"]"#, "[[\"7\"]]", "7"] {
            let user = read(&format!(r#"{{"{name}":{value}}}"#));
            assert_eq!(user, Err(ScimType::InvalidValue), "{value}");
        }
    }
}

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::USERS;

fn parsed(text: &str) -> Filter {
    Filter::parse(text, Scope::Resource(&USERS)).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn ann() -> Value {
    json!({
        "id": "7", "userName": "Ann@acme.example", "active": true, "externalId": "00u1",
        "name": { "givenName": "Ann" },
        "emails": [
            { "value": "Ann@acme.example", "type": "work", "primary": true },
            { "value": "ann@home.example", "type": "home" },
        ],
        "permissions": { "companyPermissions": ["a", "b"] },
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {
            "employeeNumber": "9", "manager": { "value": "3" },
        },
        "department": "CRM",
        "meta": { "created": "2026-11-21T08:00:00.000Z" },
    })
}

#[test]
fn holds_for_resources_that_match() {
    for text in [
        r#"userName eq "ann@ACME.example""#,
        r#"  USERNAME   EQ  "ann@acme.example" "#,
        r#"userName+eq+"ann@acme.example""#,
        r#"urn:ietf:params:scim:schemas:core:2.0:User:userName sw "a""#,
        r#"externalId eq "00u1""#,
        r#"id eq "7" and active eq true"#,
        r#"active eq "True""#,
        r#"active ne false"#,
        r#"name.givenName co "N""#,
        r#"emails eq "ann@home.example""#,
        r#"emails.value ew "home.example""#,
        r#"emails[type eq "work" and value co "@acme"]"#,
        r#"emails[type eq "work"].value eq "ann@acme.example""#,
        r#"emails[primary eq true]"#,
        r#"emails pr and not (title pr)"#,
        r#"title eq null or title eq "x""#,
        r#"(userName eq "x" or active eq true) and (name pr)"#,
        r#"NOT(userName eq "x") AND externalId ne "00U1""#,
        r#"permissions.companyPermissions eq "b""#,
        r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:employeeNumber eq "9""#,
        r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value eq "3""#,
        r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "crm""#,
        r#"meta.created gt "2026-11-21T09:00:00+02:00""#,
        r#"meta.created le "2026-11-21T08:00:00Z""#,
        r#"userName ge "ann""#,
        r#"userName eq"Ann@acme.example"and active eq true"#,
    ] {
        assert!(parsed(text).holds(&ann()), "{text}");
    }
}

#[test]
fn holds_for_no_others() {
    for text in [
        r#"userName eq "ann""#,
        r#"externalId eq "00U1""#,
        r#"active eq false"#,
        r#"emails[type eq "home" and value co "@acme"]"#,
        r#"emails[type eq "home"].value eq "ann@acme.example""#,
        r#"emails ne "ann@home.example""#,
        r#"title pr"#,
        r#"title eq """#,
        r#"userName eq "x" or active eq true and name.familyName pr"#,
        r#"not (active eq true)"#,
        r#"meta.created lt "2026-11-21T08:00:00Z""#,
        r#"permissions.companyPermissions ne "b""#,
    ] {
        assert!(!parsed(text).holds(&ann()), "{text}");
    }
    assert!(Filter::default().holds(&ann()));
}

#[test]
fn anything_else_is_refused() {
    let too_many = vec![r#"userName eq "a""#; MAX + 1].join(" and ");
    let deep = "(".repeat(100_000);
    let deep_not = "not (".repeat(100_000);
    let huge = format!("userName eq {}", "\\\"".repeat(100_000));
    for text in [
        "",
        " ",
        "userName",
        "userName eq",
        "userName eq a",
        "userName eq \"a",
        "userName eq \"a\\\"",
        "userName eq \"\\x\"",
        "userName eq \"\n\"",
        "userName eq 1",
        "userName eq true",
        "userName is \"a\"",
        "nobody eq \"a\"",
        "name eq \"a\"",
        "name.x eq \"a\"",
        "userName.x eq \"a\"",
        "active gt true",
        "active eq \"maybe\"",
        "active co \"t\"",
        "meta.created co \"2026\"",
        "userName eq \"a\" and",
        "userName eq \"a\" or",
        "userName eq \"a\" userName eq \"b\"",
        "not userName eq \"a\"",
        "(userName eq \"a\"",
        "userName eq \"a\")",
        "emails[type eq \"work\"",
        "emails[x eq \"work\"]",
        "emails[type eq \"work\"].x eq \"a\"",
        "userName[value eq \"a\"]",
        "eq \"a\"",
        "\"a\" eq \"a\"",
        &too_many,
        &deep,
        &deep_not,
        &huge,
    ] {
        let error = Filter::parse(text, Scope::Resource(&USERS));
        let error = error.err().unwrap_or_else(|| panic!("accepted: {text}"));
        let ScimError::Refused { scim_type, .. } = error else { panic!("{error:?}") };
        assert_eq!(scim_type, Some(ScimType::InvalidFilter), "{text}");
    }
    parsed(&vec![r#"userName eq "a""#; MAX].join(" and "));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn never_panics(
        text in "(\\PC|\\\\|\"|\u{0}| |and|or|not|eq|pr|co|sw|userName|emails|\\.|\\(|\\)|\\[|\\]|é)*"
    ) {
        let _ = Filter::parse(&text, Scope::Resource(&USERS));
    }

    #[test]
    fn every_string_survives_parsing(value in "(\\PC|[\\\\\"\n\u{0}])*") {
        let text = format!("userName sw {}", serde_json::to_string(&value).unwrap());
        let Filter::Compare(comparison) = parsed(&text) else { panic!() };
        prop_assert_eq!(comparison.value, Literal::Text(value));
    }

    #[test]
    fn printed_filters_parse_to_the_same_filter(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "userName eq \"a\"", "active eq true", "emails[type eq \"x\" or primary pr]",
                "title pr", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value ne null",
            ]), 1..6),
        joins in prop::collection::vec(prop::sample::select(vec![" and ", " or ", ") and (", ") or ("]), 5),
    ) {
        let mut text = String::from("not (");
        for (index, word) in words.iter().enumerate() {
            if index > 0 { text += joins[index - 1]; }
            text += word;
        }
        text += ")";
        let filter = parsed(&text);
        prop_assert_eq!(parsed(&filter.to_string()), filter);
    }
}

use base64::{Engine as _, prelude::BASE64_STANDARD};
use proptest::prelude::*;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::*;
use content::campaigns::Kind;
use gateway::workspaces::channels::{DeclaredPart, Part};
use gateway::workspaces::settings::{CappingRule, Secret};
use gateway::workspaces::storage::Settings;
use gateway::workspaces::{Channel, Platform};
use people::audience::Audience;

mod campaigns;
mod channels;

const ID: &str = "7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d02";

const GOOD: &str = r#"
workspace: acme
currency: USD
exchange_rates: {EUR: 1.08, JPY: "0.0067"}
time_zone: America/New_York
ip_allowlist: [10.0.0.0/8, "::1"]
export_limits: {users: 1000, bytes: 5GiB}
keys:
  - name: integrator
    secret: "${ACME_KEY}"
    permissions: [users.track, users.export.global_control_group]
    allow: [127.0.0.1]
apps:
  - {id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d01, name: Acme for iOS, platform: ios, bundle_id: com.acme.app, activity_types: [DeliveryAttributes]}
storage:
  s3: {bucket: acme-exports, region: eu-west-1, access_key_id: AKIA, secret_access_key: "${ACME_KEY}", session_token: null, endpoint: null, path_style: false}
  azure: {account: acme, container: exports, access_key: "a2V5", sas_token: null, endpoint: null, default_export_destination: true}
control_group: {percent: 5}
---
workspace: other
---
company: Acme Inc.
scim_tokens: [{name: idp, secret: "${ACME_KEY}"}]
dashboard_users:
  - user_name: ann@acme.example
    given_name: Ann
    permissions: {company: [admin], workspaces: [{workspace: acme, teams: [{id: t, permissions: [send]}]}]}
"#;

fn environment(name: &str) -> Option<String> {
    match name {
        "ACME_KEY" => Some("a-secret-of-the-environment".into()),
        "EMPTY" => Some(String::new()),
        "PASSWORD" => Some("p%2Fss".into()),
        "SIGNING" => Some(format!("whsec_{}", BASE64_STANDARD.encode([7; 32]))),
        _ => None,
    }
}

fn problems(text: &str) -> Vec<Problem> {
    match read(text, &environment) {
        Ok(_) => panic!("this was accepted:\n{text}"),
        Err(error) => error.problems,
    }
}

/// The one problem that the text has.
fn problem(text: &str) -> String {
    let problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn a_file_is_read_whole() {
    let declared = read(GOOD, &environment).unwrap();
    assert!(declared.company.is_some_and(|company| company.name == "Acme Inc."));
    let [acme, other] = declared.workspaces.as_slice() else { panic!("two documents") };
    assert_eq!(acme.name, "acme");
    assert_eq!(acme.exchange_rates["EUR"], 1_080_000);
    assert_eq!(acme.exchange_rates["JPY"], 6_700);
    assert_eq!(acme.time_zone, "America/New_York");
    assert_eq!(acme.ip_allowlist.len(), 2);
    assert_eq!((acme.export_limits.users, acme.export_limits.bytes), (1000, 5 << 30));
    assert!(acme.keys.len() == 1 && acme.keys[0].permissions.len() == 2);
    assert!(acme.apps.len() == 1 && acme.apps[0].platform == Platform::Ios);
    let storage: Vec<Settings> = acme.storage.settings().collect();
    let [Settings::S3(s3), Settings::Azure(_)] = storage.as_slice() else { panic!("both") };
    assert_eq!(s3.secret_access_key.as_deref(), Some("a-secret-of-the-environment"));
    assert_eq!((&s3.session_token, &s3.endpoint), (&None, &None));
    assert!(acme.storage.azure.as_ref().is_some_and(|azure| azure.default_export_destination));
    assert_eq!(acme.control_group.as_ref().map(|group| group.percent), Some(5));
    assert_eq!(other.currency, "USD");
    assert_eq!((other.export_limits.users, other.export_limits.bytes), (500_000, 5 << 30));
    assert!(other.keys.is_empty() && other.storage.s3.is_none() && other.control_group.is_none());
}

#[test]
fn the_published_example_is_accepted() {
    let environment = |name: &str| match name {
        "ACME_CALLBACK_SECRET" => Some(format!("whsec_{}", BASE64_STANDARD.encode([9; 24]))),
        name => Some(format!("a-long-secret-for-{name}")),
    };
    let declared = read(include_str!("../../../../deploy/example.yaml"), &environment);
    assert!(declared.is_ok_and(|declared| declared.company.is_some()));
}

#[test]
fn type_errors_use_the_terms_of_the_file() {
    for (text, expected) in [
        ("workspace: ~\n", "line 1: workspace: null is not allowed here"),
        (
            "workspace: a\nworkspace: b\n",
            "line 2: duplicate mapping key: workspace not allowed here",
        ),
        (
            "workspace: a\nstorage: s3\n",
            "line 2: storage: expected fields, each as `name: value`; check the indentation",
        ),
        ("workspace: a\nkeys: {}\n", "line 2: keys: expected a list, such as [a, b]"),
    ] {
        assert_eq!(problem(text), expected);
    }
}

#[test]
fn unknown_names_are_rejected_with_their_line() {
    for (text, line, name) in [
        ("workspace: a\ncurency: USD\n", "line 2: ", "curency"),
        ("workspace: a\nkeys:\n  - name: x\n    secert: y\n", "line 4: ", "secert"),
        ("workspace: a\n\n\ncampains: []\n", "line 4: ", "campains"),
        ("workspace: a\n---\nworkspace: b\nstorage: {gcs: {}}\n", "line 4: ", "gcs"),
    ] {
        let problem = problem(text);
        assert!(problem.starts_with(line) && problem.contains(name), "{problem}");
    }
}

#[test]
fn suggests_the_nearest_field() {
    for (text, parts) in [
        ("workspace: a\ncurency: USD\n", vec!["line 2", "did you mean currency?"]),
        ("workspace: a\nkeys:\n  - {name: x, secert: y}\n", vec!["line 3", "did you mean secret?"]),
        ("company: A\nscim_token: []\n", vec!["line 2", "did you mean scim_tokens?"]),
        // One level too high, and one too low.
        (
            "workspace: a\ncontrol_group:\npercent: 5\n",
            vec!["line 3", "indentation", "control_group"],
        ),
        (
            "workspace: a\nexport_limits:\n  users: 1\n  currency: USD\n",
            vec!["line 4", "indentation", "the top level"],
        ),
        ("workspace: a\nxyzzy: 1\n", vec!["line 2", "xyzzy", "ip_allowlist"]),
    ] {
        let problem = problem(text);
        assert!(parts.iter().all(|part| problem.contains(part)), "{problem}");
    }
}

#[test]
fn suggests_checking_the_indentation() {
    for text in [
        "workspace: a\nkeys:\n  - name: x\n     secret: y\n",
        "workspace: a\nkeys:\n  - name: x\n   secret: y\n",
        "workspace: a\n  currency: USD\n",
        "workspace: a\nexport_limits:\n    users: 1\n  bytes: 1\n",
        "workspace: a\nexport_limits:\n\tusers: 1\n",
        "workspace: a\nkeys:\n- name: x\n secret: y\n",
    ] {
        let problem = problem(text);
        assert!(problem.starts_with("line "), "{text}: {problem}");
        assert!(problem.contains("indentation"), "{text}: {problem}");
    }
}

#[test]
fn numbers_of_segments_and_selections_keep_all_digits() {
    let leaf = |value: &str| {
        format!(
            "        - {{custom_attribute: {{custom_attribute_name: n, comparison: equals, value: {value}}}}}\n"
        )
    };
    let numbers = [
        ("123456789012345678.123456789", "123456789012345678.123456789"),
        ("-1.50", "-1.50"),
        ("7", "7"),
        // Only YAML has these.
        ("0x1F", "31"),
        ("+5", "5"),
    ];
    let leaves: String = numbers.iter().map(|(number, _)| leaf(number)).collect();
    let file = format!(
        "workspace: acme\ncatalogs: [{{name: c, fields: [{{name: n, type: number}}]}}]\n\
         catalog_selections:\n  - {{name: s, catalog: c, limit: 5, filters: [{{field: n, operator: equals, \
         value: 123456789012345678.123456789}}]}}\n\
         segments:\n  - id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d01\n    name: big\n    audience:\n      \
         OR:\n{leaves}"
    );
    let declared = read(&file, &environment).unwrap_or_else(|error| panic!("{error}"));
    let workspace = &declared.workspaces[0];
    let audience = workspace.segments[0].audience.as_str();
    for (written, kept) in numbers {
        assert!(audience.contains(&format!(r#""value":{kept}}}"#)), "{written}: {audience}");
    }
    let value = workspace.catalog_selections[0].filters[0].value.to_json();
    assert_eq!(value, "123456789012345678.123456789");
}

#[test]
fn booleans_are_those_of_yaml_1_2() {
    let text = "workspace: on\nkeys:\n  - {name: yes, secret: twenty-characters-ok, permissions: [users.track]}\n\
                segments:\n  - id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d01\n    name: off\n    audience:\n      \
                OR:\n";
    let leaf = |value: &str, kind: &str| {
        format!(
            "        - {{custom_attribute: {{custom_attribute_name: n, comparison: {kind}, value: {value}}}}}\n"
        )
    };
    let texts = ["n", "N", "no", "No", "y", "yes", "on", "off", "OFF"];
    let leaves: String = texts.iter().map(|text| leaf(text, "equals")).collect();
    let file = format!("{text}{leaves}{}", leaf("true", "equals"));
    let declared = read(&file, &environment).unwrap_or_else(|error| panic!("{error}"));
    let workspace = &declared.workspaces[0];
    assert_eq!((workspace.name.as_str(), workspace.keys[0].name.as_str()), ("on", "yes"));
    let segment = &workspace.segments[0];
    assert_eq!(segment.name, "off");
    let audience: Value = segment.audience.as_str().parse().unwrap();
    for (index, text) in texts.iter().enumerate() {
        let value = &audience["OR"][index]["custom_attribute"]["value"];
        assert_eq!(value, &json!(text));
    }
    assert_eq!(audience["OR"][texts.len()]["custom_attribute"]["value"], json!(true));
}

#[test]
fn filters_of_selections_have_values_of_their_fields() {
    for filter in [
        "{field: price, operator: less_than, value: 10.5}",
        "{field: at, operator: greater_than, value: '2026-11-21T08:05:00+01:00'}",
        "{field: at, operator: contains, value: '2026-11'}",
        "{field: tags, operator: contains, value: 5}",
        "{field: id, operator: equals, value: '5'}",
    ] {
        let fields = "{name: price, type: number}, {name: at, type: time}";
        let text = format!(
            "workspace: a\n\
             catalogs: [{{name: c, fields: [{fields}, {{name: tags, type: array}}]}}]\n\
             catalog_selections: [{{name: s, catalog: c, limit: 1, filters: [{filter}]}}]\n"
        );
        assert!(read(&text, &environment).is_ok(), "{filter}");
    }
}

#[test]
fn each_bad_value_is_named_with_its_line_and_path() {
    let key = |rest: &str| format!("workspace: a\nkeys:\n  - name: k\n{rest}");
    let s3 = |rest: &str| format!("workspace: a\nstorage:\n  s3:\n{rest}");
    let secret = "    secret: twenty-characters-ok\n";
    let selection = |filter: &str| {
        let fields = "[{name: price, type: number}, {name: at, type: time}]";
        let catalog = format!("workspace: a\ncatalogs: [{{name: c, fields: {fields}}}]\n");
        let list = "catalog_selections:\n  - {name: s, catalog: c, limit: 1, filters: ";
        format!("{catalog}{list}[{filter}]}}\n")
    };
    for (text, expected) in [
        ("workspace: a b\n".into(), "line 1: workspace: "),
        ("workspace: ''\n".into(), "line 1: workspace: "),
        ("workspace: a\ncurrency: usd\n".into(), "line 2: currency: \"usd\""),
        ("workspace: a\ntime_zone: Mars/Base\n".into(), "line 2: time_zone: \"Mars/Base\""),
        ("workspace: a\nexchange_rates:\n  EUR: 0\n".into(), "line 3: exchange_rates.EUR: \"0\""),
        ("workspace: a\nexchange_rates: {USD: 1}\n".into(), "line 2: exchange_rates.USD: "),
        ("workspace: a\nexchange_rates: {QQQ: 1}\n".into(), "line 2: exchange_rates.QQQ: "),
        (
            "workspace: a\nexchange_rates: {EUR: 1.0000001}\n".into(),
            "line 2: exchange_rates.EUR: \"1.0000001\"",
        ),
        ("workspace: a\nip_allowlist:\n  - ::1\n  - x\n".into(), "line 4: ip_allowlist[1]: \"x\""),
        (
            "workspace: a\nrate_limits:\n  users.trak: {requests: 1, seconds: 1}\n".into(),
            "line 3: rate_limits.users.trak: unknown rate limit; expected one of campaigns.list,",
        ),
        (
            "workspace: a\nrate_limits: {catalogs: {requests: 0, seconds: 60}}\n".into(),
            "line 2: rate_limits.catalogs.requests: \"0\"",
        ),
        (
            "workspace: a\nrate_limits: {catalogs: {requests: 1, seconds: 7}}\n".into(),
            "line 2: rate_limits.catalogs.seconds: \"7\": expected whole seconds that divide a day",
        ),
        ("workspace: a\nexport_limits: {users: 0}\n".into(), "line 2: export_limits.users: "),
        ("workspace: a\nexport_limits: {bytes: 5 gigs}\n".into(), "line 2: export_limits.bytes: "),
        ("workspace: a\ncontrol_group: {percent: 0}\n".into(), "line 2: control_group.percent: "),
        ("workspace: a\ncontrol_group: {percent: 101}\n".into(), "line 2: control_group.percent: "),
        ("workspace: a\ncontrol_group: {percent: 1.5}\n".into(), "line 2: control_group.percent: "),
        ("workspace: a\ncallbacks: {secret: hush}\n".into(), "line 2: callbacks.secret: "),
        (key("    secret: short\n    permissions: [users.track]\n"), "line 4: keys[0].secret: "),
        (key(&format!("{secret}    permissions: [users.trak]\n")), "line 5: \
                       keys[0].permissions[0]: unknown permission: users.trak;"),
        (key(&format!("{secret}    permissions: []\n")), "line 5: keys[0].permissions: "),
        (
            key("    secret: ${NOT_SET}\n    permissions: [users.track]\n"),
            "line 4: keys[0].secret: environment variable NOT_SET is not set",
        ),
        (
            "workspace: a\napps:\n  - {id: 7, name: x, platform: ios}\n".into(),
            "line 3: apps[0].id: \"7\" is not a UUID",
        ),
        (
            "workspace: a\napps:\n  - {id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d01, name: x, platform: os2}\n".into(),
            "line 3: apps[0].platform: \"os2\"",
        ),
        (s3("    bucket: Acme\n    region: eu-west-1\n"), "line 4: storage.s3.bucket: \"Acme\""),
        (s3("    bucket: acme\n"), "line 4: storage.s3.region: "),
        (s3("    bucket: acme\n    region: e\n    access_key_id: A\n"), "line 6: storage.s3.access_key_id: "),
        (s3("    bucket: acme\n    region: e\n    endpoint: ftp://x\n"), "line 6: storage.s3.endpoint: "),
        (
            "workspace: a\nstorage:\n  azure: {account: acme, container: exports}\n".into(),
            "line 3: storage.azure.access_key: exactly one of access_key and sas_token",
        ),
        (
            "workspace: a\nstorage:\n  azure: {account: acme, container: a--b, sas_token: x}\n".into(),
            "line 3: storage.azure.container: ",
        ),
        ("workspace: a\ncatalogs: [{name: a b}]\n".into(), "line 2: catalogs[0].name: \"a b\""),
        (
            "workspace: a\ncatalogs:\n  - name: x\n  - name: x\n".into(),
            "line 4: catalogs[1].name: duplicate of an earlier one",
        ),
        (
            "workspace: a\ncatalogs: [{name: x, fields: [{name: C, type: text}]}]\n".into(),
            "line 2: catalogs[0].fields[0].type: \"text\": expected one of string, number,",
        ),
        (
            "workspace: a\ncatalogs: [{name: x, fields: [{name: a.b, type: string}]}]\n".into(),
            "line 2: catalogs[0].fields[0].name: expected 1 to 250",
        ),
        (
            "workspace: a\ncatalogs: [{name: x, fields: [{name: id, type: string}]}]\n".into(),
            "line 2: catalogs[0].fields[0].name: every item",
        ),
        (
            selection("{field: price, operator: less_than, value: '10'}"),
            "line 4: catalog_selections[0].filters[0].value: expected a number, because",
        ),
        (
            selection("{field: at, operator: less_than, value: soon}"),
            "line 4: catalog_selections[0].filters[0].value: expected a",
        ),
        (
            selection("{field: at, operator: equals, value: 5}"),
            "line 4: catalog_selections[0].filters[0].value: expected a date and time",
        ),
        (
            selection("{field: id, operator: equals, value: 5}"),
            "line 4: catalog_selections[0].filters[0].value: expected a string",
        ),
        (
            selection("{field: prize, operator: equals, value: 5}"),
            "line 4: catalog_selections[0].filters[0].field: the catalog has no such field",
        ),
        ("workspace: a\n---\nworkspace: a\n".into(), "line 3: workspace: "),
        ("company: A\n---\ncompany: B\n".into(), "line 3: company: an earlier document"),
        ("company: ''\n".into(), "line 1: company: "),
        ("company: A\nworkspace: a\n".into(), "line 2: "),
        ("workspace: a\ncompany: A\n".into(), "line 2: "),
        ("company: A\nscim_tokens:\n  - {name: t, secret: short}\n".into(), "line 3: scim_tokens[0].secret: "),
        (
            "company: A\ndashboard_users:\n  - {user_name: A@b}\n  - {user_name: a@B}\n".into(),
            "line 4: dashboard_users[1].user_name: duplicate of an earlier one",
        ),
        (
            "company: A\ndashboard_users:\n  - user_name: a\n    permissions: {workspaces: [{workspace: b c}]}\n".into(),
            "line 4: dashboard_users[0].permissions.workspaces[0].workspace: ",
        ),
        (
            "company: A\ndashboard_users:\n  - user_name: a\n    permissions: {workspaces: [{workspace: b, teams: [{}]}]}\n".into(),
            "line 4: dashboard_users[0].permissions.workspaces[0].teams[0].id: ",
        ),
        ("".into(), "the file declares no workspace"),
    ] {
        let problem = problem(&text);
        assert!(problem.starts_with(expected), "{text}\n{problem}");
    }
}

#[test]
fn all_problems_are_reported_without_secrets() {
    let text = "workspace: a\ncurrency: usd\ncallbacks: {secret: hidden-one}\n\
                keys:\n  - {name: k, secret: hidden-two, permissions: [x], allow: [y]}\n\
                storage: {azure: {account: acme, container: e, access_key: 'hidden three'}}\n\
                segments: [{nme: hidden}, {id: 7}]\n";
    let problems = problems(text);
    let lines: Vec<u64> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3, 5, 5, 5, 6, 6, 7, 7], "{problems:?}");
    assert!(!format!("{problems:?}").contains("hidden"), "{problems:?}");
}

#[test]
fn invalid_yaml_is_rejected_with_its_line_only() {
    for text in [
        "workspace: a\nkeys:\n  - name: k\n    secret: [hidden\n",
        "workspace: a\nkeys:\n  - name: k\n    secret: {hidden: hidden}\n    permissions: []\n",
        "workspace: a\nstorage: {s3: {bucket: bucket, region: r, path_style: hidden}}\n",
        "workspace: a\nkeys: hidden\n",
        "workspace: a\ncurrency: USD\ncurrency: EUR\n",
        "currency: USD\n",
        "- a list\n",
    ] {
        let problem = problem(text);
        assert!(problem.starts_with("line "), "{problem}");
        assert!(!problem.contains("hidden"), "{problem}");
    }
}

#[test]
fn an_empty_variable_stands_for_absent() {
    let text = "workspace: a\nstorage:\n  s3: {bucket: acme, region: e, access_key_id: AKIA, \
                secret_access_key: s, session_token: \"${EMPTY}\"}\n";
    let declared = read(text, &environment).unwrap();
    let s3 = declared.workspaces[0].storage.s3.as_ref();
    assert_eq!(s3.map(|s3| &s3.session_token), Some(&None));
}

#[test]
fn valid_callback_secrets_are_accepted() {
    let secret = BASE64_STANDARD.encode([9; 24]);
    let text = format!("workspace: a\ncallbacks: {{secret: whsec_{secret}}}\n");
    let declared = read(&text, &environment).unwrap();
    let declared = &declared.workspaces[0].channels()[&Part::Callbacks];
    assert_eq!(*declared, DeclaredPart::Signing(Secret(vec![9; 24]).into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn never_panics(text in "(\\PC|\n|[-:{}\\[\\]&*!|>'\"%@`#,$ ])*") {
        let _ = read(&text, &environment);
    }

    #[test]
    fn no_change_of_a_good_file_panics(
        offset in 0..GOOD.len(), inserted in "(\\PC|\n| ){0,4}"
    ) {
        let text = format!("{}{inserted}{}", &GOOD[..offset], &GOOD[offset + 1..]);
        let _ = read(&text, &environment);
    }
}

const STORAGES: &str = "workspace: a\nstorages:\n  \
    - {name: warehouse, s3: {bucket: acme, region: e, sse_kms_key_id: alias/exports}}\n  \
    - {name: lake, azure: {account: acme, container: exports, sas_token: x}}\n";

#[test]
fn storages_have_names() {
    let named = read(STORAGES, &environment).unwrap().workspaces[0].named_storages();
    let names: Vec<&str> = named.iter().map(|storage| storage.name.as_str()).collect();
    assert_eq!(names, ["warehouse", "lake"]);
    let Settings::S3(s3) = &named[0].settings else { panic!("a bucket") };
    assert_eq!(s3.sse_kms_key_id.as_deref(), Some("alias/exports"));
    assert!(matches!(named[1].settings, Settings::Azure(_)));
}

#[test]
fn each_mistake_in_storages_is_named() {
    for (from, to, expected) in [
        ("name: lake", "name: Lake", "line 4: storages[1].name: \"Lake\""),
        ("name: lake", "name: azure", "line 4: storages[1].name: \"azure\""),
        ("name: lake", "name: warehouse", "line 4: storages[1].name: duplicate"),
        ("name: lake, ", "", "line 4: storages[1]: missing field `name`"),
        ("azure: {", "s3: {bucket: acme, region: e}, azure: {", "line 4: storages[1]: exactly one"),
        (", region: e", "", "line 3: storages[0].s3.region: "),
        ("alias/exports", "a key", "line 3: storages[0].s3.sse_kms_key_id: "),
        (", sas_token: x", "", "line 4: storages[1].azure.access_key: exactly one"),
        (
            "sas_token: x",
            "sas_token: x, default_export_destination: true",
            "line 4: storages[1].azure.default_export_destination: unknown field",
        ),
    ] {
        assert!(STORAGES.contains(from), "{from}");
        let shown = problem(&STORAGES.replace(from, to));
        assert!(shown.starts_with(expected), "{expected}: {shown}");
    }
    let all = |count| {
        let storage = |n| format!("  - {{name: lake-{n}, s3: {{bucket: acme, region: e}}}}\n");
        format!("workspace: a\nstorages:\n{}", (0..count).map(storage).collect::<String>())
    };
    assert_eq!(read(&all(20), &environment).unwrap().workspaces[0].storages.len(), 20);
    assert!(problem(&all(21)).contains("storages: at most 20 storages"), "{}", problem(&all(21)));
}

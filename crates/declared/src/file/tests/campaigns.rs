use super::*;

#[test]
fn campaigns_and_canvases_are_read_whole() {
    let text = r#"
workspace: acme
campaigns:
  - id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d02
    name: "${ACME_KEY}"
    type: transactional
    tags: [a, b]
    paused: true
    email: {subject: "{{${first_name}}}", body: x}
    sla_per_hour: 50000
canvases:
  - {id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d03, name: Onboarding, conversion_window: 12h}
"#;
    let declared = read(text, &environment).unwrap().workspaces.remove(0).campaigns();
    let [receipt, onboarding] = declared.as_slice() else { panic!("{declared:?}") };
    assert_eq!((receipt.kind, onboarding.kind), (Kind::Transactional, Kind::Canvas));
    assert_eq!(receipt.name, "a-secret-of-the-environment");
    assert_eq!((receipt.archived, receipt.paused, receipt.tags.len()), (false, true, 2));
    let email = json!({ "subject": "{{${first_name}}}", "body": "x" });
    let content = json!({ "email": email, "sla_per_hour": 50_000 });
    assert_eq!(json!(receipt.content), content);
    let content = json!({ "conversion_window": "12h" });
    assert_eq!(json!(onboarding.content), content);
}

#[test]
fn each_mistake_in_a_campaign_is_named() {
    let campaign = |rest: &str| {
        format!("workspace: a\ncampaigns:\n  - {{id: {ID}, name: n, type: api{rest}}}\n")
    };
    for (text, expected) in [
        (
            campaign("").replace("api", "ap"),
            "line 3: campaigns[0].type: \"ap\": expected api, transactional",
        ),
        (campaign("").replace(ID, "7"), "line 3: campaigns[0].id: \"7\" is not a UUID"),
        (
            campaign(", tags: [a, b, a]"),
            "line 3: campaigns[0].tags[2]: duplicate of an earlier \
                                         one",
        ),
        (
            campaign(", sla_per_hour: 0, email: {body: x}").replace("api", "transactional"),
            "line 3: campaigns[0].sla_per_hour: \"0\"",
        ),
        (
            campaign(", sla_per_hour: 1"),
            "line 3: campaigns[0].sla_per_hour: not allowed in a campaign of type api",
        ),
        (
            campaign(", email: {body: x}"),
            "line 3: campaigns[0].email: not allowed in a campaign \
                                          of type api",
        ),
        (
            campaign(", audience: {push_subscription_status: {comparison: is, value: opted_in}}"),
            "line 3: campaigns[0].audience: not allowed in a campaign of type api",
        ),
        (
            campaign("").replace("api", "transactional"),
            "line 3: campaigns[0].email: required in a campaign of type transactional",
        ),
        (
            campaign(", email: {subject: x}").replace("api", "transactional"),
            "line 3: campaigns[0].email.body: is missing",
        ),
        (
            campaign(", email: {body: x}, messages: {}").replace("api", "transactional"),
            "line 3: campaigns[0].messages: not allowed in a campaign of type transactional",
        ),
        (
            campaign(
                ", email: {body: x}, variations: [{id: 7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d09}]",
            )
            .replace("api", "transactional"),
            "line 3: campaigns[0].variations: not allowed in a campaign of type transactional",
        ),
        (
            campaign(", messages: {}").replace("api", "triggered"),
            "line 3: campaigns[0].trigger: required in a campaign of type triggered",
        ),
        (
            campaign(", trigger: {purchase: {product_id: tea}}").replace("api", "triggered"),
            "line 3: campaigns[0].messages: required in a campaign of type triggered",
        ),
        (
            campaign(", messages: {}, trigger: {purchase: {product_id: 5}}")
                .replace("api", "triggered"),
            "line 3: campaigns[0].trigger.purchase.product_id: expected a string",
        ),
        (
            campaign(", messages: {}, trigger: {purchase: {product_id: a}}, audience: {AND: []}")
                .replace("api", "triggered"),
            "line 3: campaigns[0].audience.AND: expected a non-empty array",
        ),
        (campaign(", conversion_window: 3w"), "line 3: campaigns[0].conversion_window: \"3w\""),
        (campaign(", variations: [{id: 7}]"), "line 3: campaigns[0].variations[0].id: "),
        (campaign(", messages: [a]"), "line 3: campaigns[0].messages: expected fields"),
        (campaign(", trigger: now"), "line 3: campaigns[0].trigger: expected an object"),
        (campaign(", email: {a: {b: 1}, a: 2}"), "line 3: duplicate mapping key"),
        (
            format!("{}canvases:\n  - {{id: {ID}, name: m}}\n", campaign("")),
            "line 5: canvases[0].id: duplicate of an earlier one",
        ),
    ] {
        let problem = problem(&text);
        assert!(problem.starts_with(expected), "{text}\n{problem}");
    }
}

use super::*;

/// The one workspace of a file.
fn workspace(text: &str) -> Declaration {
    read(text, &environment).map(|mut file| file.workspaces.remove(0)).unwrap()
}

#[test]
fn channels_are_read_whole() {
    let text = format!(
        "workspace: a
frequency_capping: [{{messages: 5, days: 7, channel: email}}, {{messages: 20, days: 30}}]
segments:
  - id: {ID}
    name: VIP
    audience: {{AND: [{{push_subscription_status: {{comparison: is, value: opted_in}}}}]}}
subscription_groups: [{{id: {ID}, channel: sms, from: '+15550100'}}]
email:
  smtp: smtp://user:${{PASSWORD}}@relay:2525
  from: Acme <hello@acme.example>
  status_postback: {{url: https://acme.example/hook, secret: '${{SIGNING}}'}}
  events_secret: a-secret-that-is-long-enough
providers:
  push: {{url: http://10.0.0.1/push, secret: '${{SIGNING}}'}}
  whats_app: {{url: https://wa.example, secret: '${{SIGNING}}'}}
  feedback_secret: '${{EMPTY}}'
"
    );
    let declared = workspace(&text);
    let email = Some(Channel::Email);
    let capping = [
        CappingRule { messages: 5, days: 7, channel: email },
        CappingRule { messages: 20, days: 30, channel: None },
    ];
    assert_eq!(declared.frequency_capping, capping);
    assert_eq!(declared.segments[0].name, "VIP");
    assert!(Audience::read_segment(&(&declared.segments[0].audience).into()).is_ok());
    let [group] = declared.subscription_groups.as_slice() else { panic!("one group") };
    assert_eq!((group.channel, group.from.as_str()), (Channel::Sms, "+15550100"));
    let channels = declared.channels();
    let parts: Vec<Part> = channels.keys().copied().collect();
    assert_eq!(parts, [Part::Email, Part::Push, Part::WhatsApp]);
    let DeclaredPart::Email(email) = &channels[&Part::Email] else { panic!("email") };
    assert_eq!(email.smtp.expose_secret(), "smtp://user:p%2Fss@relay:2525");
    let postback = email.status_postback.as_ref().unwrap();
    assert_eq!(postback.secret, Some(Secret(vec![7; 32])));
    assert_eq!(email.events_secret, Some(Secret(b"a-secret-that-is-long-enough".into())));
    let DeclaredPart::Provider(push) = &channels[&Part::Push] else { panic!("push") };
    assert_eq!(push.url, "http://10.0.0.1/push");
}

#[test]
fn channels_that_are_left_out_are_not_declared() {
    let declared = workspace("workspace: a\nproviders: {}\nsegments: []\n");
    assert!(declared.channels().is_empty() && declared.frequency_capping.is_empty());
    assert!(declared.segments.is_empty() && declared.subscription_groups.is_empty());
}

#[test]
fn each_mistake_in_channels_is_named() {
    const SECRET: &str = "secret: a-secret-that-is-long-enough";
    let segment = |audience: &str| {
        format!("segments:\n  - id: {ID}\n    name: s\n    audience:\n      {audience}\n")
    };
    for (text, expected) in [
        (
            segment("{custom_attribute: {custom_attribute_name: a, comparison: exists}}")
                .replace("name: s\n", "name: All users\n"),
            "line 4: segments[0].name: \"All users\" is the segment",
        ),
        ("email: {}\n".to_owned(), "line 2: email: missing field `smtp`"),
        ("email: {from: a@acme.example}\n".into(), "line 2: email: missing field `smtp`"),
        ("email: {smtp: relay}\n".into(), "line 2: email.smtp: not a valid URL"),
        (
            "email: {smtp: 'http://hidden@r'}\n".into(),
            "line 2: email.smtp: expected smtp://host:port",
        ),
        (
            "email:\n  smtp: smtp://relay\n  from: Acme\n".into(),
            "line 4: email.from: \"Acme\" is not a valid sender",
        ),
        (
            format!("email: {{smtp: smtp://r, status_postback: {{url: ftp://x, {SECRET}}}}}\n"),
            "line 2: email.status_postback.url: must begin with http:// or https://",
        ),
        (
            format!("email: {{smtp: smtp://r, status_postback: {{{SECRET}}}}}\n"),
            "line 2: email.status_postback: missing field `url`",
        ),
        (
            format!(
                "providers:\n  push: {{url: 'https://x', {}}}\n",
                SECRET.replace("secret:", "secret_old:")
            ),
            "line 3: providers.push.secret_old: requires secret",
        ),
        (
            "email:\n  smtp: smtp://r\n  events_secret: hidden\n".into(),
            "line 4: email.events_secret: a signing secret must be whsec_",
        ),
        (
            "email:\n  smtp: smtp://r\n  bounce_days: 4000\n".into(),
            "line 4: email.bounce_days: \"4000\": expected a whole number from 0 to 3650",
        ),
        (
            format!(
                "notify:\n  - {{webhook: {{url: 'https://x', {SECRET}}}, slack: {{url: 'https://y'}}}}\n"
            ),
            "line 3: notify[0]: exactly one of webhook, slack and email",
        ),
        ("notify:\n  - {on: [export_done]}\n".into(), "line 3: notify[0]: exactly one of webhook"),
        (
            "notify:\n  - {on: [export_lost], slack: {url: 'https://x'}}\n".into(),
            "line 3: notify[0].on[0]: ",
        ),
        (
            "notify:\n  - {on: [], slack: {url: 'https://x'}}\n".into(),
            "line 3: notify[0].on: list at least one of export_failed",
        ),
        (
            "notify:\n  - slack: {url: 'https://x'}\n  - slack: {url: 'https://x'}\n".into(),
            "line 4: notify[1].slack.url: duplicate",
        ),
        (
            "notify:\n  - slack: {url: hidden}\n".into(),
            "line 3: notify[0].slack.url: must begin with http:// or https://",
        ),
        (
            "notify:\n  - webhook: {url: 'https://x'}\n".into(),
            "line 3: notify[0].webhook: missing field `secret`",
        ),
        (
            "notify:\n  - webhook: {url: 'https://x', secret: hidden}\n".into(),
            "line 3: notify[0].webhook.secret: a signing secret",
        ),
        (
            "notify:\n  - email: {to: [ops]}\n".into(),
            "line 3: notify[0].email.to[0]: \"ops\" is not a valid email address",
        ),
        (
            "notify:\n  - email: {to: []}\n".into(),
            "line 3: notify[0].email.to: 1 to 20 addresses are required",
        ),
        (
            "export_late_after: 6\n".into(),
            "line 2: export_late_after: \"6\": expected seconds, minutes, hours or days",
        ),
        (
            "providers:\n  push: {url: 'https://x', secret: hidden}\n".into(),
            "line 3: providers.push.secret: a signing secret",
        ),
        (
            format!("providers:\n  whats_app: {{url: /hidden, {SECRET}}}\n"),
            "line 3: providers.whats_app.url: must begin with",
        ),
        (
            "providers: {feedback_secret: whsec_hidden}\n".into(),
            "line 2: providers.feedback_secret: this secret must be whsec_",
        ),
        (
            format!("providers:\n  fax: {{url: 'https://x', {SECRET}}}\n"),
            "line 3: providers.fax: unknown field `fax`",
        ),
        (
            "frequency_capping: [{messages: 0, days: 1}]\n".into(),
            "line 2: frequency_capping[0].messages: \"0\": expected a whole number from 1",
        ),
        (
            "frequency_capping:\n  - {messages: 1, days: 31}\n".into(),
            "line 3: frequency_capping[0].days: \"31\": expected a whole number from 1 to 30",
        ),
        (
            "frequency_capping: [{messages: 1, days: 1, channel: fax}]\n".into(),
            "line 2: frequency_capping[0].channel: \"fax\": expected one of apple_push,",
        ),
        (
            format!("subscription_groups: [{{id: {ID}, channel: email, from: '12345'}}]\n"),
            "line 2: subscription_groups[0].channel: \"email\": expected sms or whats_app",
        ),
        (
            format!("subscription_groups: [{{id: {ID}, channel: whats_app, from: Acme}}]\n"),
            "line 2: subscription_groups[0].from: \"Acme\": expected + and 7 to 15 digits",
        ),
        ("segments: [{id: 7, name: s}]\n".into(), "line 2: segments[0].id: \"7\" is not a UUID"),
        (segment("[]"), "line 6: segments[0].audience: expected fields"),
        (segment("{}"), "line 6: segments[0].audience: a node must have exactly one field"),
        (
            segment("AND:\n        - {last_used_app: {comparison: is}}"),
            "line 6: segments[0].audience.AND[0].last_used_app.comparison: expected one of",
        ),
    ] {
        let text = format!("workspace: a\n{text}");
        let error = read(&text, &environment).map(|_| ()).expect_err(&text);
        let [problem] = error.problems.as_slice() else { panic!("{text}\n{error}") };
        let problem = problem.to_string();
        assert!(problem.starts_with(expected), "{text}\n{problem}");
        assert!(!problem.contains("hidden"), "{text}\n{problem}");
    }
    let group = format!("{{id: {ID}, channel: sms, from: '12345'}}");
    let text = format!("workspace: a\nsubscription_groups: [{group}, {group}]\n");
    let error = read(&text, &environment).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("subscription_groups[1].id: duplicate of an earlier one"), "{error}");
}

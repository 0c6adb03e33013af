use super::*;

fn provider(url: &str, secret: &str) -> SignedAddress {
    SignedAddress::new(url, Secret(secret.as_bytes().into()))
}

fn notified_webhook(url: &str, secret: &str) -> Receiver {
    let secret = Secret(secret.as_bytes().into());
    let webhook = notify::WebhookReceiver { url: url.into(), secret };
    let on = vec![notify::Event::Failed];
    Receiver { on, webhook: Some(webhook), slack: None, email: None }
}

fn email(smtp: &str, postback: &str) -> Email {
    Email {
        smtp: smtp.to_owned().into(),
        from: None,
        status_postback: Some(provider(postback, "hidden")),
        events_secret: None,
        bounce_days: 90,
    }
}

#[test]
fn a_part_reads_back_from_its_sealed_form() {
    for channel in [
        DeclaredPart::Email(email("smtps://u:hidden@relay", "https://acme.example/?a=hidden")),
        DeclaredPart::Provider(provider("https://push.example/", "hidden")),
        DeclaredPart::Secret(Secret(b"hidden".into())),
        DeclaredPart::Signing(Secret(b"hidden".into()).into()),
        DeclaredPart::Notify(vec![notified_webhook("https://a.example/hidden", "hidden")]),
    ] {
        let text = crate::workspaces::to_json(&channel);
        assert_eq!(serde_json::from_str::<DeclaredPart>(&text).unwrap(), channel);
        assert!(!format!("{channel:?}{}", channel.destination()).contains("hidden"));
    }
}

#[test]
fn a_part_of_an_older_program_is_read() {
    let text = r#"{"Provider":{"url":"https://push.example/","secret":[104,105]}}"#;
    let read: DeclaredPart = serde_json::from_str(text).unwrap();
    assert_eq!(read, DeclaredPart::Provider(provider("https://push.example/", "hi")));
}

#[test]
fn a_secret_that_is_left_out_is_kept_or_created() {
    let unsigned = SignedAddress { secret: None, ..provider("https://a.example/", "no secret") };
    let declared = Channels::from([(Part::Push, DeclaredPart::Provider(unsigned))]);
    let (first, created) = with_created_secrets(&declared, &Channels::new());
    let paths: Vec<_> = created.keys().copied().collect();
    assert_eq!(paths, ["callbacks.secret", "providers.push.secret", "webhooks.secret"]);
    let distinct: std::collections::BTreeSet<_> = created.values().collect();
    assert!(distinct.len() == 3 && created.values().all(|text| text.starts_with("whsec_")));
    assert_eq!(with_created_secrets(&declared, &first), (first.clone(), CreatedSecrets::new()));
    assert_eq!(shares_with_webhooks(&first), None);
}

#[test]
fn webhook_secrets_are_not_shared() {
    let signing = |secret: &str, secret_old: Option<&str>| {
        let bytes = |text: &str| Secret(text.as_bytes().into());
        let secret_old = secret_old.map(bytes);
        DeclaredPart::Signing(SigningSecrets { secret: Some(bytes(secret)), secret_old })
    };
    let shared = |part, channel: DeclaredPart, webhooks: DeclaredPart| {
        let channels = Channels::from([(part, channel), (Part::Webhooks, webhooks)]);
        shares_with_webhooks(&channels)
    };
    let new = || signing("new", Some("old"));
    for (part, channel) in [
        (Part::Callbacks, signing("new", None)),
        (Part::Callbacks, signing("x", Some("old"))),
        (Part::Push, DeclaredPart::Provider(provider("https://a.example/", "old"))),
        (Part::FeedbackSecret, DeclaredPart::Secret(Secret(b"new".into()))),
        (Part::Notify, DeclaredPart::Notify(vec![notified_webhook("https://a.example", "old")])),
        (Part::Email, {
            let mut email = email("smtp://relay", "https://a.example/");
            email.events_secret = Some(Secret(b"old".into()));
            DeclaredPart::Email(email)
        }),
    ] {
        assert_eq!(shared(part, channel, new()), Some(part));
    }
    assert_eq!(shared(Part::Callbacks, signing("a", Some("b")), new()), None);
}

#[test]
fn differences_name_fields_without_values() {
    let current = DeclaredPart::Email(email("smtp://u:hidden@relay", "https://acme.example/"));
    let new = DeclaredPart::Email(email("smtp://u:secret@relay", "https://acme.example/x"));
    assert_eq!(current.difference(&new), "smtp, status_postback");
    let current = DeclaredPart::Provider(provider("https://a.example/", "hidden"));
    let new = DeclaredPart::Provider(provider("https://a.example/", "secret"));
    assert_eq!(
        (current.difference(&new).as_str(), current.difference(&current).as_str()),
        ("secret", "")
    );
}

#[test]
fn links_that_lead_nowhere_are_noted() {
    let noted = |url: Option<&str>| {
        let public_url = url.map(|url| url.parse().unwrap());
        unsubscribe_warning(&Config { public_url, ..Config::default() })
    };
    for (url, why) in [
        (None, "is not set"),
        (Some("http://longshore.example.com"), "not an https URL"),
        (Some("https://localhost:8443"), "from this machine"),
        (Some("http://127.0.0.1:8080"), "from this machine"),
        (Some("https://[::1]"), "from this machine"),
        (Some("https://[::ffff:127.0.0.1]"), "from this machine"),
    ] {
        let note = noted(url).unwrap();
        assert!(note.contains(why) && note.contains("unsubscribe"), "{url:?}: {note}");
    }
    assert_eq!(noted(Some("https://longshore.example.com/api")), None);
}

#[test]
fn private_addresses_are_noted_unless_they_are_allowed() {
    let channels = Channels::from([
        (Part::Email, DeclaredPart::Email(email("smtp://relay", "http://10.0.0.1/hook"))),
        (Part::Push, DeclaredPart::Provider(provider("https://push.example/", "s"))),
        (Part::Sms, DeclaredPart::Provider(provider("http://localhost:9/", "s"))),
        (Part::Notify, DeclaredPart::Notify(vec![notified_webhook("http://10.0.0.2/", "s")])),
    ]);
    let notes = private_address_warnings(&channels, &Config::default());
    let [email, sms, notify] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(email.starts_with("email.status_postback.url must not point to a private address"));
    assert!(notify.starts_with("notify[0].webhook.url must not point to a private address"));
    assert!(sms.starts_with("providers.sms.url must not point to a loopback address"));
    let allow = ["10.0.0.0/8", "127.0.0.0/8"].map(|network| network.parse().unwrap());
    let config = Config { allow_private: allow.into(), ..Config::default() };
    assert!(private_address_warnings(&channels, &config).is_empty());
}

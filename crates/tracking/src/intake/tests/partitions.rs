use super::*;
use log::partition_of;

/// The users of each message.
fn users(body: String) -> Vec<Vec<String>> {
    let (_, payloads) = track(body).unwrap();
    let users = |batch: &Batch<'_>| batch.objects.iter().map(|o| o.user().key()).collect();
    batches(&payloads).iter().map(users).collect()
}

fn home(user: &str) -> usize {
    partition_of(format!("7\u{1f}{user}").as_bytes(), 8) as usize
}

/// Enough other users to have one in every partition.
fn other_users() -> impl Iterator<Item = String> {
    (0..40).map(|n| format!(r#"{{"external_id":"s{n}","name":"x","time":"2023-01-01"}}"#))
}

#[test]
fn a_weaker_identifier_follows_the_object_before_it_that_names_it() {
    let event = |user: &str| format!(r#"{{{user},"name":"x","time":"2023-01-01"}}"#);
    let alias = r#""user_alias":{"alias_name":"n","alias_label":"l"}"#;
    let service_id = r#""service_id":"0190b9a6-1c00-7000-8000-000000000000""#;
    let ann = [
        event(r#""email":"ANN@b""#),
        event(&format!("{alias},{service_id}")),
        event(&format!(r#""external_id":"ann",{alias}"#)),
        event(alias),
        event(service_id),
    ];
    let events: Vec<_> = ann.into_iter().chain(other_users()).collect();
    let body = format!(
        r#"{{"events":[{}],"attributes":[{{"external_id":"bob","email":"ann@b"}},
                                         {{"external_id":"ann","email":"ann@B"}}]}}"#,
        events.join(",")
    );
    let messages = users(body);
    assert_eq!(messages.len(), 8);
    let known = |partition: usize| -> Vec<&str> {
        let names =
            ["0ann", "0bob", "10190b9a6-1c00-7000-8000-000000000000", "2l\u{1f}n", "3ann@b"];
        let users = messages[partition].iter().map(String::as_str);
        users.filter(|user| names.contains(user)).collect()
    };
    let (service, alias) = ("10190b9a6-1c00-7000-8000-000000000000", "2l\u{1f}n");
    assert_ne!(home("0ann"), home("0bob"));
    assert_ne!(home("0ann"), home(service));
    // The alias follows ann, whose object came last.
    assert_eq!(known(home("0ann")), ["0ann", "3ann@b", "0ann", alias]);
    assert_eq!(known(home("0bob")), ["0bob"]);
    assert_eq!(known(home(service)), [service, service]);
}

#[test]
fn external_ids_determine_the_partition() {
    // An email that two users have, and that also decides, moves neither to the other's partition.
    let body = format!(
        r#"{{"attributes":[{{"external_id":"a","email":"e@b"}},
                           {{"external_id":"b","email":"e@b","first_name":"old"}}],
            "events":[{{"email":"e@b","name":"x","time":"2023-01-01"}},{}]}}"#,
        other_users().collect::<Vec<_>>().join(",")
    );
    let messages = users(body);
    assert_ne!(home("0a"), home("0b"));
    for user in ["0a", "0b", "0s7"] {
        assert!(messages[home(user)].contains(&user.to_owned()), "{user} is elsewhere");
    }
    assert!(messages[home("0b")].contains(&"3e@b".to_owned()), "with the last that had it");
}

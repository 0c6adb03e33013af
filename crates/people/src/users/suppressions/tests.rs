use super::*;

fn state(rows: &[(&str, Reason, &str, i64)]) -> AddressState {
    let mut state = AddressState::default();
    for (scope, reason, of, at) in rows {
        state.add(&Stored {
            who: Vec::new(),
            scope: (*scope).to_owned(),
            reason: *reason,
            state: (*of).to_owned(),
            decided_at: *at,
            until: None,
            cause: None,
        });
    }
    state
}

#[test]
fn spellings_of_an_address_have_one_hash_and_workspaces_have_different_ones() {
    let (key, other) = (Key::random(), Key::random());
    let email = |text: &'static str| Address::Email(text.into());
    let hash = key.hash(&email("ann@b\u{fc}cher.example"));
    assert_eq!(hash, key.hash(&email("Ann@xn--bcher-kva.example")));
    assert_ne!(hash, other.hash(&email("ann@b\u{fc}cher.example")));
    assert_ne!(hash, key.hash(&email("bob@b\u{fc}cher.example")));
    assert_eq!(hash, key.hash(&Address::Hashed(hash)));
    assert_eq!(hash_from_hex(&hash_to_hex(&hash)), Some(hash));
    assert_eq!(hash_from_hex("7f"), None);
    // A number is never the hash of an email with the same text.
    assert_ne!(key.hash(&email("+15550100")), key.hash(&Address::Phone("+15550100".into())));
}

#[test]
fn a_user_is_shown_with_what_applies_to_the_addresses() {
    let group = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";
    let document = format!(
        r#"{{"email":"a@b","phone":"+15550100","email_subscribe":"opted_in","subscription_groups":[{{"subscription_group_id":"{group}","subscription_state":"subscribed"}}]}}"#
    );
    let known = state(&[
        (EMAIL, Reason::Decision, UNSUBSCRIBED, 5),
        (group, Reason::Decision, UNSUBSCRIBED, 5),
        (EMAIL, Reason::Complaint, SUPPRESSED, 6),
    ]);
    let mut user = Recipient::read(Uuid::nil(), &document).unwrap();
    known.apply_to_recipient(&mut user, &document);
    assert_eq!(user.text("email_subscribe"), Some(UNSUBSCRIBED));
    assert_eq!(user.group_state(group), Some(UNSUBSCRIBED));
    assert_eq!(user.stopped, Some(Stop { reason: Reason::Complaint, until: None }));
    let applied = known.applied(&document).unwrap();
    assert!(
        !applied.contains("opted_in") && applied.matches(UNSUBSCRIBED).count() >= 2,
        "{applied}"
    );
    assert_eq!(known.applied("{"), None);
}

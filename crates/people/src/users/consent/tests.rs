use proptest::prelude::*;

use super::*;

fn profile(json: &str) -> Profile {
    Profile::parse(json).unwrap()
}

fn decided(decisions: &[(&str, i64)]) -> Consent {
    let mut consent = Consent::default();
    for (state, at) in decisions {
        consent.decide(Topic::Email, Some(state), *at);
    }
    consent
}

#[test]
fn the_last_decision_by_receipt_holds_in_any_order() {
    for (decisions, state) in [
        (&[("subscribed", 5), ("unsubscribed", 7)][..], "unsubscribed"),
        (&[("unsubscribed", 7), ("subscribed", 5)], "unsubscribed"),
        (&[("unsubscribed", 7), ("subscribed", 8)], "subscribed"),
        (&[("subscribed", 8), ("unsubscribed", 7)], "subscribed"),
        // At the same time, as in one request.
        (&[("unsubscribed", 7), ("subscribed", 7)], "unsubscribed"),
        (&[("subscribed", 7), ("unsubscribed", 7)], "unsubscribed"),
        (&[("subscribed", 7), ("opted_in", 7)], "opted_in"),
    ] {
        assert_eq!(decided(decisions).state(Topic::Email), Some(state), "{decisions:?}");
    }
}

#[test]
fn states_without_times_count_as_decided_first() {
    let mut stored = profile(r#"{"email_subscribe":"unsubscribed","push_subscribe":"opted_in"}"#);
    let mut consent = Consent::read(&stored);
    consent.decide(Topic::Email, Some("subscribed"), 1);
    consent.decide(Topic::Push, Some(UNSUBSCRIBED), 1);
    consent.write(&mut stored);
    let expected = r#"{"email_subscribe":"subscribed","push_subscribe":"unsubscribed","decision_times":{"email":1,"unsubscribed":{"push":1}}}"#;
    assert_eq!(stored.to_document(), expected);
    assert_eq!(Consent::read(&stored), consent);
}

#[test]
fn an_opt_out_that_0_2_0_stored_is_not_as_old_as_the_decision_that_it_replaced() {
    const TOPICS: [Topic<'_>; 3] = [Topic::Email, Topic::Push, Topic::Group("g")];
    let mut stored = profile("{}");
    let mut consent = Consent::default();
    TOPICS.into_iter().for_each(|topic| consent.decide(topic, Some("subscribed"), 5));
    consent.write(&mut stored);
    // It changes the states alone.
    let mut old =
        Profile::parse(&stored.to_document().replace("subscribed", UNSUBSCRIBED)).unwrap();
    let mut consent = Consent::read(&old).with_opt_outs_at(9);
    for (at, state) in [(7, UNSUBSCRIBED), (9, UNSUBSCRIBED), (10, "subscribed")] {
        for topic in TOPICS {
            consent.decide(topic, Some("subscribed"), at);
            assert_eq!(consent.state(topic), Some(state), "{topic:?} {at}");
        }
        consent.write(&mut old);
        consent = Consent::read(&old).with_opt_outs_at(20);
    }
}

#[test]
fn a_list_of_groups_does_not_end_the_opt_outs_from_other_groups() {
    let group = |id: &str, state: &str| {
        format!(r#"{{"subscription_group_id":"{id}","subscription_state":"{state}"}}"#)
    };
    let list = |groups: &[String]| format!("[{}]", groups.join(","));
    let (out, other) = (group("out", UNSUBSCRIBED), group("in", "subscribed"));
    let mut stored = profile(&format!(r#"{{"subscription_groups":[{out},{other}]}}"#));
    let new = list(&[group("new", "subscribed")]);
    for (at, value) in [(5, Some(new.as_str())), (6, None), (7, Some("null")), (8, Some("[]"))] {
        let mut consent = Consent::read(&stored);
        consent.decide_field(Field::SubscriptionGroups, value, at);
        consent.write(&mut stored);
        let states = ["out", "in", "new"].map(|id| consent.state(Topic::Group(id)));
        assert_eq!(states, [Some(UNSUBSCRIBED), None, Some("subscribed")], "{value:?}");
        consent = Consent::read(&stored);
        // Nor does the list end an opt-out that was received before it and is applied later.
        consent.decide(Topic::Group("in"), Some(UNSUBSCRIBED), 4);
        assert_eq!(consent.state(Topic::Group("in")), Some(UNSUBSCRIBED));
    }
    let both = list(&[out, group("new", "subscribed")]);
    assert_eq!(stored.get(Field::SubscriptionGroups), Some(both.as_str()));
}

#[test]
fn a_group_that_is_stored_twice_is_unsubscribed_if_one_state_is() {
    let group =
        |state: &str| format!(r#"{{"subscription_group_id":"g","subscription_state":"{state}"}}"#);
    for states in [["subscribed", UNSUBSCRIBED], [UNSUBSCRIBED, "subscribed"]] {
        let [first, other] = states.map(group);
        let stored = profile(&format!(r#"{{"subscription_groups":[{first},{other}]}}"#));
        assert_eq!(Consent::read(&stored).state(Topic::Group("g")), Some(UNSUBSCRIBED));
    }
}

/// Spellings of a group, first the one that is compared.
const SPELLINGS: [&str; 4] = [
    "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90",
    "7D0C6F5E-4B1A-4E0F-9A55-2F6D1C3B8A90",
    "7d0c6f5e4b1a4e0f9a552f6d1c3b8a90",
    "{7D0C6F5E-4B1A-4E0F-9A55-2F6D1C3B8A90}",
];

fn list(groups: &[(&str, &str)]) -> String {
    let group = |(id, state): &(&str, &str)| {
        format!(r#"{{"subscription_group_id":"{id}","subscription_state":"{state}"}}"#)
    };
    format!("[{}]", groups.iter().map(group).collect::<Vec<_>>().join(","))
}

#[test]
fn opt_outs_that_are_stored_in_another_spelling_hold_until_the_next_decision() {
    let [id, upper, ..] = SPELLINGS;
    let stored = |groups: &[(&str, &str)], times: &str| {
        profile(&format!(r#"{{"subscription_groups":{},"decision_times":{times}}}"#, list(groups)))
    };
    let times = format!(r#"{{"groups":{{"{id}":5}},"unsubscribed":{{"groups":{{"{upper}":7}}}}}}"#);
    let (first, other) = ((upper, UNSUBSCRIBED), (id, "subscribed"));
    for groups in [[first, other], [other, first]] {
        for (at, state) in [(6, UNSUBSCRIBED), (7, UNSUBSCRIBED), (8, "subscribed")] {
            let mut user = stored(&groups, &times);
            let mut consent = Consent::read(&user);
            assert_eq!(consent.state(Topic::Group(id)), Some(UNSUBSCRIBED));
            consent.decide(Topic::Group(upper), Some("subscribed"), at);
            assert_eq!(consent.state(Topic::Group(id)), Some(state), "{at}");
            consent.write(&mut user);
            assert_eq!(user.get(Field::SubscriptionGroups), Some(&*list(&[(id, state)])));
            assert_eq!(Consent::read(&user), consent);
        }
    }
    // A user who has the state in the other spelling is met, joined and imported alike.
    for spelling in SPELLINGS {
        let out = Consent::read(&stored(&[(spelling, UNSUBSCRIBED)], "{}"));
        let mut kept = Consent::read(&stored(&[(id, "subscribed")], "{}"));
        let mut joined = kept.clone();
        kept.meet(&out, 5, false);
        joined.join(&out);
        let mut imported = out.clone();
        assert_eq!(imported.import(&stored(&[(upper, "subscribed")], "{}"), 5), 1);
        for consent in [kept, joined, imported] {
            let states: Vec<_> = consent.states().map(|(topic, state, _)| (topic, state)).collect();
            assert_eq!(states, [(Topic::Group(id), UNSUBSCRIBED)], "{spelling}");
        }
    }
}

/// The spelling, whether it is an opt-out, whether it comes in a list, and the time.
fn any_decision() -> impl Strategy<Value = (usize, bool, bool, i64)> {
    (0..SPELLINGS.len(), any::<bool>(), any::<bool>(), 0..6_i64)
}

proptest! {
    #[test]
    fn decisions_about_a_group_are_the_same_in_each_spelling(
        decisions in prop::collection::vec(any_decision(), 0..8),
    ) {
        let (mut user, mut same) = (profile("{}"), profile("{}"));
        for (spelling, is_out, is_list, at) in decisions {
            let state = if is_out { UNSUBSCRIBED } else { "subscribed" };
            for (user, id) in [(&mut user, SPELLINGS[spelling]), (&mut same, SPELLINGS[0])] {
                let mut consent = Consent::read(user);
                if is_list {
                    let list = list(&[(id, state)]);
                    consent.decide_field(Field::SubscriptionGroups, Some(&list), at);
                } else {
                    consent.decide(Topic::Group(id), Some(state), at);
                }
                consent.write(user);
            }
        }
        prop_assert_eq!(user.to_document(), same.to_document());
    }
}

/// A field with states, and a value of it that has none.
fn any_empty_state() -> impl Strategy<Value = (Field, Option<&'static str>)> {
    let fields = [Field::EmailSubscribe, Field::PushSubscribe, Field::SubscriptionGroups];
    let values = [None, Some("null"), Some("\"\""), Some("[]"), Some("\"no\""), Some("5")];
    (prop::sample::select(fields.to_vec()), prop::sample::select(values.to_vec()))
}

proptest! {
    /// Whatever was decided before and after, values without a state change nothing.
    #[test]
    fn values_without_a_state_change_no_state(
        history in prop::collection::vec(
            (0..3_usize, prop::sample::select(vec!["opted_in", "subscribed", UNSUBSCRIBED]), 0..9_i64),
            0..9,
        ),
        empty in prop::collection::vec((any_empty_state(), 0..20_i64), 1..9),
    ) {
        let decide = |consent: &mut Consent, (topic, state, at): (usize, &str, i64)| {
            let topic = [Topic::Email, Topic::Push, Topic::Group("g")][topic];
            consent.decide(topic, Some(state), at);
        };
        let (mut with, mut without) = (Consent::default(), Consent::default());
        let mut empty = empty.into_iter();
        for decision in history {
            decide(&mut with, decision);
            decide(&mut without, decision);
            if let Some(((field, value), at)) = empty.next() {
                with.decide_field(field, value, at);
                with.decide(Topic::Group("g"), None, at);
                with.decide(Topic::Email, Some(""), at);
            }
        }
        for ((field, value), at) in empty {
            with.decide_field(field, value, at);
        }
        prop_assert_eq!(with, without);
    }
}

fn met(kept: &[(&str, i64)], gone: &[(&str, i64)], at: i64) -> Consent {
    let mut kept = decided(kept);
    kept.meet(&decided(gone), at, false);
    kept
}

#[test]
fn an_opt_out_holds_where_two_states_meet() {
    const OUT: &[(&str, i64)] = &[(UNSUBSCRIBED, 3)];
    const IN: &[(&str, i64)] = &[("subscribed", 7)];
    const LATER: &[(&str, i64)] = &[("subscribed", 12)];
    for (kept, gone, state) in [
        (OUT, IN, Some(UNSUBSCRIBED)),
        (IN, OUT, Some(UNSUBSCRIBED)),
        (&[], OUT, Some(UNSUBSCRIBED)),
        (OUT, &[], Some(UNSUBSCRIBED)),
        (&[], IN, Some("subscribed")),
        (&[], &[], None),
        // The kept user decided after the merge was received; the other one's name is then free.
        (LATER, OUT, Some("subscribed")),
        (OUT, LATER, Some(UNSUBSCRIBED)),
    ] {
        assert_eq!(met(kept, gone, 10).state(Topic::Email), state, "{kept:?} {gone:?}");
    }
    let mut kept = decided(OUT);
    kept.meet(&decided(LATER), 10, true);
    assert_eq!(kept.state(Topic::Email), Some("subscribed"), "the name still identifies the user");
    // Two profiles of one user, who was renamed.
    let mut renamed = decided(OUT);
    renamed.join(&decided(LATER));
    assert_eq!(renamed.state(Topic::Email), Some("subscribed"));
}

#[test]
fn the_last_decision_about_an_address_holds_for_each_user_who_has_it() {
    // The user's own decisions, when the user got the address, the decision about the address.
    for (own, got_at, (address, at), state) in [
        (&[][..], 0, (UNSUBSCRIBED, 3), UNSUBSCRIBED),
        (&[("subscribed", 2)], 0, (UNSUBSCRIBED, 3), UNSUBSCRIBED),
        // A user's own opt-in does not end the address's opt-out, whenever it is made.
        (&[("opted_in", 7)], 0, (UNSUBSCRIBED, 3), UNSUBSCRIBED),
        (&[("opted_in", 2)], 5, (UNSUBSCRIBED, 3), UNSUBSCRIBED),
        // The end of the address's opt-out is also the end of the own ones before it.
        (&[(UNSUBSCRIBED, 3)], 0, ("opted_in", 5), "opted_in"),
        (&[(UNSUBSCRIBED, 7)], 0, ("opted_in", 5), UNSUBSCRIBED),
        (&[(UNSUBSCRIBED, 5)], 0, ("opted_in", 5), UNSUBSCRIBED),
        (&[("subscribed", 3)], 0, ("opted_in", 5), "opted_in"),
        (&[("subscribed", 7)], 0, ("opted_in", 5), "subscribed"),
        // The user, who had opted out, got the address after it was opted in.
        (&[(UNSUBSCRIBED, 3)], 6, ("opted_in", 5), UNSUBSCRIBED),
    ] {
        let mut consent = decided(own);
        if got_at > 0 {
            consent.changed_email(got_at);
        }
        let mut stored = profile("{}");
        consent.write(&mut stored);
        let mut consent = Consent::read(&stored);
        consent.apply_address(Topic::Email, address, at);
        assert_eq!(consent.state(Topic::Email), Some(state), "{own:?} {got_at} {address} {at}");
    }
}

#[test]
fn a_decision_about_a_number_holds_in_its_group_alone() {
    let mut consent = Consent::default();
    consent.decide(Topic::Group("g"), Some("subscribed"), 1);
    consent.decide(Topic::Group("h"), Some("subscribed"), 1);
    consent.apply_address(Topic::Group("g"), UNSUBSCRIBED, 2);
    consent.apply_address(Topic::Group("i"), "subscribed", 2);
    let states = ["g", "h", "i"].map(|id| consent.state(Topic::Group(id)));
    assert_eq!(states, [Some(UNSUBSCRIBED), Some("subscribed"), Some("subscribed")]);
}

#[test]
fn imports_opt_out_but_do_not_opt_in() {
    let mut consent = decided(&[(UNSUBSCRIBED, 5)]);
    let line = r#"{"email_subscribe":"subscribed","push_subscribe":"unsubscribed","subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed"}]}"#;
    assert_eq!(consent.import(&profile(line), 9), 1);
    let states = [Topic::Email, Topic::Push, Topic::Group("g")].map(|topic| consent.state(topic));
    assert_eq!(states, [Some(UNSUBSCRIBED), Some(UNSUBSCRIBED), Some("subscribed")]);
    assert_eq!(consent.import(&profile("{}"), 10), 0);
    assert_eq!(consent.state(Topic::Group("g")), Some("subscribed"));
}

#[test]
fn decisions_from_before_a_merge_opt_out_but_do_not_opt_in_after_it() {
    let state = |mut consent: Consent, decisions: &[(&str, i64)]| {
        for (state, at) in decisions {
            consent.decide(Topic::Email, Some(state), *at);
        }
        consent.state(Topic::Email).map(str::to_owned)
    };
    let subscribed = || met(&[("subscribed", 7)], &[], 10);
    let out = || met(&[("subscribed", 7)], &[(UNSUBSCRIBED, 3)], 10);
    for (consent, decisions, expected) in [
        (subscribed(), &[(UNSUBSCRIBED, 4)][..], UNSUBSCRIBED),
        (subscribed(), &[(UNSUBSCRIBED, 4), ("subscribed", 9)], UNSUBSCRIBED),
        (subscribed(), &[("opted_in", 9), (UNSUBSCRIBED, 8)], UNSUBSCRIBED),
        (subscribed(), &[("opted_in", 9)], "opted_in"),
        (out(), &[("subscribed", 9)], UNSUBSCRIBED),
        (out(), &[("subscribed", 11), (UNSUBSCRIBED, 9)], "subscribed"),
        (subscribed(), &[("subscribed", 12), (UNSUBSCRIBED, 11)], "subscribed"),
    ] {
        assert_eq!(state(consent, decisions).as_deref(), Some(expected), "{decisions:?}");
    }
}

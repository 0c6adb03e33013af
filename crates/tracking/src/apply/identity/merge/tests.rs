use super::*;
use people::users::Recipient;

#[test]
fn merging_fills_the_missing_fields() {
    let profile = |json: &str| Profile::parse(json).unwrap();
    let mut kept = profile(
        r#"{"service_id":"k","first_name":"Ann","custom_attributes":{"a":1},"date_of_first_session":"2020","date_of_last_session":"2021"}"#,
    );
    let gone = profile(
        r#"{"service_id":"g","external_id":"x","first_name":"Old","last_name":"Lee","time_zone":"Asia/Tokyo","custom_attributes":{"a":2,"b":1.10},"date_of_first_session":"2019","date_of_last_session":"2022"}"#,
    );
    merge_profiles(&mut kept, &gone, Meeting::Merge { at: 5, both_continue: false }, 6);
    assert_eq!(
        kept.to_document(),
        r#"{"service_id":"k","first_name":"Ann","last_name":"Lee","time_zone":"Asia/Tokyo","custom_attributes":{"a":1,"b":1.10},"date_of_first_session":"2019","date_of_last_session":"2022","decision_times":{"met":5},"time_zone_changed_at":6}"#
    );
}

#[test]
fn an_opt_out_of_either_user_holds_after_merging() {
    let out = r#"{"email":"a@acme.example","email_subscribe":"unsubscribed","subscription_groups":[{"subscription_group_id":"g","subscription_state":"unsubscribed"}]}"#;
    let subscribed = r#"{"email_subscribe":"subscribed","push_subscribe":"opted_in","subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed"},{"subscription_group_id":"h","subscription_state":"subscribed"}]}"#;
    for (kept, gone) in [(out, subscribed), (subscribed, out)] {
        let mut merged = Profile::parse(kept).unwrap();
        let gone = Profile::parse(gone).unwrap();
        merge_profiles(&mut merged, &gone, Meeting::Merge { at: 5, both_continue: false }, 6);
        let states = [Field::EmailSubscribe, Field::PushSubscribe];
        let states = states.map(|field| merged.text(field).unwrap());
        assert_eq!(states, ["unsubscribed", "opted_in"]);
        assert_eq!(merged.text(Field::Email).as_deref(), Some("a@acme.example"));
        let user = Recipient::read(Uuid::nil(), &merged.to_document()).unwrap();
        assert_eq!(user.group_state("g"), Some("unsubscribed"));
        assert!(user.is_in_group("h") && !user.is_in_group("g"));
    }
}

use super::*;

#[test]
fn lengths_are_of_characters_and_payloads_of_bytes() {
    let at_most = format!("\"{}\"", "é".repeat(255));
    for name in ["external_id", "product_id", "app_id"] {
        accepted(Kind::Purchases, &with(name, &at_most));
    }
    accepted(Kind::Purchases, &with("properties", &format!(r#"{{"a":{at_most},{at_most}:1}}"#)));
    // Flat properties have no common limit; nested ones do.
    let property = |bytes: usize| format!(r#"{{"a":["{}"]}}"#, "x".repeat(bytes - 10));
    assert_eq!(property(51_200).len(), 51_200);
    accepted(Kind::Purchases, &with("properties", &property(51_200)));
    let spaced = property(51_200).replace(":[", "  :  [  ");
    accepted(Kind::Purchases, &with("properties", &spaced));
    let errors = rejected(Kind::Purchases, &with("properties", &property(51_201)));
    assert_eq!(
        errors,
        ["properties: can have at most 51200 bytes if they contain arrays or objects"]
    );
    let flat: Vec<_> = (0..300).map(|n| format!("\"{n}\":\"{}\"", "x".repeat(200))).collect();
    accepted(Kind::Purchases, &with("properties", &format!("{{{}}}", flat.join(","))));
}

#[test]
fn objects_have_a_limit_of_fields() {
    let members = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!("\"m{n}\":{n}")).collect();
        members.join(",")
    };
    let hidden = format!(r#"{{"external_id":"e","a":{{"{}":"!"}}}}"#, json::MARK);
    assert!(rejected(Kind::Attributes, &hidden)[0].contains(json::MARK));
    let hidden = format!(r#"{{"external_id":"e","{}":"!"}}"#, json::MARK);
    assert!(rejected(Kind::Attributes, &hidden)[0].contains(json::MARK));
    let max_fields = json::MAX_JSON_FIELDS;
    accepted(Kind::Purchases, &purchase(&members(max_fields - 5)));
    let errors = rejected(Kind::Purchases, &purchase(&members(max_fields - 4)));
    assert_eq!(errors, ["the object: has more than 10000 fields"]);
    for (kind, member) in [(Kind::Purchases, "properties"), (Kind::Attributes, "custom_attributes")]
    {
        let object = |count| match kind {
            Kind::Purchases => with(member, &format!("{{{}}}", members(count))),
            _ => format!(r#"{{"external_id":"e","{member}":{{{}}}}}"#, members(count)),
        };
        accepted(kind, &object(max_fields));
        assert_eq!(
            rejected(kind, &object(max_fields + 1)),
            [format!("{member} has more than 10000 fields")]
        );
    }
    for (field, value) in [
        ("current_location", format!("{{{}}}", members(max_fields + 1))),
        ("subscription_groups", format!("[{{{}}}]", members(max_fields + 1))),
    ] {
        let object = format!(r#"{{"external_id":"e","{field}":{value}}}"#);
        let errors = rejected(Kind::Attributes, &object);
        assert!(errors[0].starts_with(field), "{errors:?}");
        assert!(errors[0].ends_with("has more than 10000 fields"), "{errors:?}");
    }
    // Every part of a value is kept.
    let value = format!(r#"{{"external_id":"e","a":{{{}}}}}"#, members(max_fields + 1));
    assert!(accepted(Kind::Attributes, &value).contains("\"m10000\":10000"));
}

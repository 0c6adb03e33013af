//! Properties of all message objects.

use proptest::prelude::*;

use super::*;

fn messages() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!(5)),
        Just(json!("")),
        Just(json!("text")),
        Just(json!("{{${first_name}}} x")),
        Just(json!("{{")),
        Just(json!("https://example.com")),
        Just(json!("http://10.0.0.1")),
        Just(json!("POST")),
        Just(json!("CLASSIC")),
        Just(json!(GROUP)),
        Just(json!({ "a": ["{{ 1 }}"] })),
        Just(json!(["a"])),
    ];
    let names: Vec<&str> = Channel::OF_MESSAGES
        .into_iter()
        .flat_map(|channel| table::members(channel).iter().map(|member| member.name))
        .chain(["unknown"])
        .collect();
    let change = (prop::sample::select(names), value.clone());
    let message = (any::<bool>(), prop::collection::vec(change, 0..4));
    let channels: Vec<&str> =
        Channel::OF_MESSAGES.into_iter().map(Channel::name).chain(["fax"]).collect();
    prop::collection::btree_map(prop::sample::select(channels), message, 0..5).prop_map(
        |messages| {
            let messages = messages.into_iter().map(|(channel, (is_complete, changes))| {
                let mut message = complete()[channel]
                    .as_object()
                    .filter(|_| is_complete)
                    .cloned()
                    .unwrap_or_default();
                message.extend(changes.into_iter().map(|(name, value)| (name.to_owned(), value)));
                (channel.to_owned(), message.into())
            });
            messages.collect()
        },
    )
}

proptest! {
    #[test]
    fn accepted_content_is_accepted_again(messages in messages()) {
        let (content, kept, problems) = Content::read(&messages, MessageSource::Send, &settings());
        prop_assert!(problems.iter().all(|problem| problem.path.starts_with("messages.")));
        let (again, same, none) = Content::read(&kept, MessageSource::File, &settings());
        prop_assert_eq!(none, []);
        prop_assert_eq!(&same, &kept);
        prop_assert_eq!(again.messages().len(), content.messages().len());
        let profile = object(json!({ "first_name": "Ann" }));
        let scope = Scope::of(&profile, 0);
        for (one, two) in content.messages().iter().zip(again.messages()) {
            let rendered = one.render(&scope);
            prop_assert_eq!(&rendered, &two.render(&scope));
            let object = rendered.unwrap().object;
            prop_assert!(object.keys().eq(kept[one.channel.name()].as_object().unwrap().keys()));
            prop_assert!(object.values().all(|value| !value.is_null()));
        }
    }
}

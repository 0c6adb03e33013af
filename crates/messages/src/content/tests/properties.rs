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
        .flat_map(|channel| table::known_fields(channel).iter().map(|field| field.name))
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
        let (content, accepted, problems) = Content::read(&messages, MessageSource::Send, &settings());
        prop_assert!(problems.iter().all(|problem| problem.path.starts_with("messages.")));
        let (again, accepted_again, problems) =
            Content::read(&accepted, MessageSource::File, &settings());
        prop_assert_eq!(problems, []);
        prop_assert_eq!(&accepted_again, &accepted);
        prop_assert_eq!(again.messages().len(), content.messages().len());
        let profile = object(json!({ "first_name": "Ann" }));
        let scope = Scope::from_profile(&profile, 0);
        for (first, second) in content.messages().iter().zip(again.messages()) {
            let rendered = first.render(&scope);
            prop_assert_eq!(&rendered, &second.render(&scope));
            let object = rendered.unwrap().object;
            let accepted = accepted[first.channel.name()].as_object().unwrap();
            prop_assert!(object.keys().eq(accepted.keys()));
            prop_assert!(object.values().all(|value| !value.is_null()));
        }
    }
}

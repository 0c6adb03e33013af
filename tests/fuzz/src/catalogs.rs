//! `PATCH /catalogs/{catalog_name}/items`, from the body to the stored values.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use super::{Accepted, NOW, body, check_refusal};
use longshore::catalogs::api::EditRequest;
use longshore::catalogs::coerce::coerce;
use longshore::catalogs::message::{Action, Edit, Item, Values};
use longshore::catalogs::{Catalog, Field, Type, is_plain_name};
use longshore::gateway::ApiError;

/// A catalog with a field of each type, and those of the example in the API document.
pub(super) static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
    let field = |kind: Type| Field { name: format!("a_{}", kind.name()), kind };
    let mut fields = Vec::from(Type::ALL.map(field));
    let example = [
        ("City", Type::String),
        ("Rating", Type::Number),
        ("Open", Type::Boolean),
        ("Closed_at", Type::Time),
    ];
    fields.extend(example.map(|(name, kind)| Field { name: name.to_owned(), kind }));
    let fields = fields.into();
    Arc::new(Catalog { id: 3, workspace: 7, name: "restaurants".to_owned(), fields })
});

pub fn items(bytes: &[u8]) -> Option<Accepted> {
    let body = body(bytes)?;
    let request = EditRequest {
        workspace: 7,
        action: Action::Update,
        item: None,
        catalog: Some(CATALOG.clone()),
        name: CATALOG.name.clone(),
        partitions: 8,
        request_id: "r".to_owned(),
    };
    let messages = match request.read(&body, NOW) {
        Ok((_, messages)) => messages,
        Err(error) => {
            check_refusals(&error);
            return None;
        }
    };
    let mut ids = HashSet::new();
    for message in &messages {
        let edit = Edit::decode(&message.payload).expect("what is written is read");
        assert_eq!(serde_json::to_vec(&edit).expect("JSON"), message.payload);
        for item in &edit.items {
            assert!(is_plain_name(&item.id) && ids.insert(item.id.to_string()), "{item:?}");
            check_values(item);
        }
    }
    assert!((1..=50).contains(&ids.len()));
    Some(Accepted)
}

/// A message of the log, which any version of the program may have written.
pub fn message(bytes: &[u8]) -> Option<Accepted> {
    let edit = Edit::decode(bytes).ok()?;
    let written = serde_json::to_vec(&edit).expect("JSON");
    let read = Edit::decode(&written).expect("what is written is read");
    assert_eq!(serde_json::to_vec(&read).expect("JSON"), written);
    for item in &edit.items {
        Values::default().merge(&item.values);
    }
    Some(Accepted)
}

fn check_refusals(error: &ApiError) {
    check_refusal(error);
    let ApiError::InvalidMany(_, errors) = error else { return };
    assert!((1..=13).contains(&errors.len()), "{errors:?}");
    for error in errors {
        let (id, message) = (error["id"].as_str(), error["message"].as_str());
        assert!(id.is_some() && message.is_some_and(|text| !text.is_empty()), "{error}");
        let length = |list: &str| error[list].as_array().map(Vec::len);
        assert_eq!(length("parameters"), Some(1), "{error}");
        // None for a body that is not JSON.
        let fewest = usize::from(id != Some("item-array-invalid"));
        assert!(length("parameter_values").is_some_and(|n| (fewest..=50).contains(&n)), "{error}");
    }
}

/// The values have the types of their fields, and applying them again changes nothing.
pub(super) fn check_values(item: &Item<'_>) {
    for (name, value) in &item.values.0 {
        let kind = CATALOG.fields.kind(name).expect("a field of the catalog");
        if value.get() != "null" {
            let again = coerce(kind, value).expect("a value of the type");
            assert_eq!(again.get(), value.get());
        }
    }
    let mut stored = Values::default();
    stored.merge(&item.values);
    assert!(!stored.clone().merge(&item.values), "{item:?}");
}

//! `POST /users/track`, from the body to the worker's changes.

use serde_json::Value;

use super::{Accepted, NOW, body, refused};
use log::Message;
use longshore::engine::batches::arrays;
use longshore::topics;
use longshore::tracking::apply::draft::Draft;
use longshore::tracking::intake::{self, Intake, Request};
use longshore::tracking::message::{Attributes, Batch, Json, OBJECTS, Object};
use longshore::users::activity::Activity;
use longshore::users::profile::Profile;

/// A profile that the objects change.
const PROFILE: &str = r#"{"external_id":"e","email":"a@b.c","first_name":"Ann","custom_attributes":{"tier":"gold","visits":9007199254740993,"tags":["a",1,"a",{"b":[]}],"ratio":1.5,"since":"2026-01-01T00:00:00Z"}}"#;

pub fn track(bytes: &[u8]) -> Option<Accepted> {
    let body = body(bytes)?;
    let request = Request {
        workspace: 7,
        received_at: NOW,
        partitions: 8,
        request_id: "r".to_owned(),
        alias: None,
    };
    let Intake { answer, messages } = match intake::read(&body, &request, |_| true) {
        Ok(intake) => intake,
        Err(error) => return refused(&error),
    };
    let answer = serde_json::to_value(&answer).expect("a response is JSON");
    let counters = ["attributes_processed", "events_processed", "purchases_processed"];
    let told: u64 = counters.iter().filter_map(|name| answer[name].as_u64()).sum();
    let errors = answer["errors"].as_array().map_or(&[][..], Vec::as_slice);
    errors.iter().for_each(check_error);

    // A repeat of the request appends the same messages again.
    let again =
        intake::read(&body, &request, |_| true).expect("the same body is taken again").messages;
    assert_eq!(messages.len(), again.len());
    let mut carried = 0;
    for (message, again) in messages.iter().zip(&again) {
        assert_eq!((message.partition, &message.payload), (again.partition, &again.payload));
        let batch = Batch::decode(&message.payload).expect("what is written is read");
        assert_eq!(serde_json::to_vec(&batch).expect("JSON"), message.payload);
        carried += batch.objects.len() as u64;
        check_parts(&message.payload, &batch);
        for object in &batch.objects {
            if let Object::Attributes(attributes) = object {
                check_change(attributes);
            }
        }
        happen(&batch);
    }
    assert_eq!(carried, told);
    errors.is_empty().then_some(Accepted)
}

/// A message of the log, which any version of the program may have written.
pub fn message(bytes: &[u8]) -> Option<Accepted> {
    let batch = Batch::decode(bytes).ok()?;
    let written = serde_json::to_vec(&batch).expect("JSON");
    assert_eq!(Batch::decode(&written).as_ref(), Ok(&batch));
    check_parts(bytes, &batch);
    let mut draft = Draft::open(PROFILE, 0).expect("a profile");
    for object in &batch.objects {
        if let Object::Attributes(attributes) = object {
            // Data that no gateway writes may be rejected.
            let _ = draft.change(attributes, NOW);
        }
    }
    happen(&batch);
    Some(Accepted)
}

/// Each error names its object.
fn check_error(error: &Value) {
    let array = error["input_array"].as_str();
    assert!(["attributes", "events", "purchases"].map(Some).contains(&array), "{error}");
    assert!(error["index"].as_u64().is_some_and(|index| index < 75), "{error}");
    assert!(error["type"].as_str().is_some_and(|text| text.len() < 1_000), "{error:.200}");
}

/// Splits a message into its objects, and joins them again.
fn check_parts(payload: &[u8], batch: &Batch<'_>) {
    let message = Message {
        topic: topics::TRACKING,
        partition: 0,
        offset: 0,
        appended_at: NOW,
        log_time: Some(NOW),
        key: Vec::new(),
        payload: payload.to_vec(),
        request_id: String::new(),
    };
    let parts = arrays::split(&message, OBJECTS);
    assert_eq!(parts.len(), batch.objects.len().max(1));
    let joined = arrays::join(&parts.iter().collect::<Vec<_>>(), OBJECTS);
    assert_eq!(Batch::decode(&joined.payload).as_ref(), Ok(batch));
}

/// A worker can apply everything that a gateway accepts, and applying it again changes nothing,
/// unless it adds numbers.
fn check_change(attributes: &Attributes<'_>) {
    let mut draft = Draft::open(PROFILE, 0).expect("a profile");
    draft.change(attributes, NOW).expect("the profile can be read").expect("there is room");
    let once = draft.into_document();
    Profile::parse(&once).expect("a profile is left");
    let mut draft = Draft::open(&once, 0).expect("a profile is left");
    draft.change(attributes, NOW).expect("the profile can be read").expect("there is room");
    if attributes.inc.is_empty() {
        assert_eq!(draft.into_document(), once);
    }
}

/// Counts events and purchases, and stores the counts.
fn happen(batch: &Batch<'_>) {
    let mut activity = Activity::default();
    for object in &batch.objects {
        match object {
            Object::Attributes(_) | Object::Identity(_) => {}
            Object::Event(event) => {
                let properties = event.properties.as_ref().map(Json::get);
                activity.record_event(&event.name, event.time, 1, properties);
            }
            Object::Purchase(purchase) => {
                let (count, properties) =
                    (purchase.quantity.into(), purchase.properties.as_ref().map(Json::get));
                activity.record_purchase(&purchase.product_id, purchase.time, count, properties);
                let total = purchase.price.saturating_mul(purchase.quantity.into());
                activity.record_revenue(&purchase.currency, total);
            }
        }
    }
    assert_eq!(Activity::decode(&activity.encode()).as_ref(), Ok(&activity));
}

//! The small endpoints.

use std::net::IpAddr;
use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value, json};

use super::{Accepted, body, check_reason, check_refusal, refused, seeds, text};
use longshore::audience::Audience;
use longshore::campaigns;
use longshore::config::Config;
use longshore::dispatches::live_activity::StartRequest;
use longshore::exports::ids;
use longshore::exports::request::{ExportOptions, RequestedUsers};
use longshore::gateway::idempotency::header::{IDEMPOTENCY_KEY, read as read_key};
use longshore::gateway::{address, bearer, fields};
use longshore::messages::order::Target;
use longshore::outbound::{check_address, check_stored_address};
use longshore::proof::fields::FieldSet;
use longshore::schedules::change::ScheduleKey;
use longshore::schedules::request::CanvasRequest;
use longshore::sms::PhoneNumber;
use longshore::sms::api::PhoneNumbers;
use longshore::user_messages;
use longshore::workspaces::settings::{Secret, Settings, SignedAddress};
use longshore::workspaces::{DeclaredApp, Platform};

static CONFIG: LazyLock<Config> = LazyLock::new(Config::default);

/// An app with live activities, and its provider.
static SETTINGS: LazyLock<Settings> = LazyLock::new(|| Settings {
    push: Some(SignedAddress::new("https://push.acme.example", Secret(vec![7; 32]))),
    apps: vec![DeclaredApp {
        id: seeds::ID,
        name: "Acme".into(),
        platform: Platform::Ios,
        bundle_id: None,
        activity_types: vec![seeds::TEXT.into()],
    }],
    ..Settings::default()
});

/// `POST /users/export/global_control_group`.
pub fn export(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let check = |address: &str| check_address(address, &CONFIG).map(String::from);
    let wanted = match ExportOptions::read(&members, check) {
        Ok(wanted) => wanted,
        Err(error) => return refused(&error),
    };
    FieldSet::parse(&wanted.fields).expect("the fields are known");
    if let Some(address) = wanted.callback_endpoint {
        assert_eq!(check_stored_address(&address, &CONFIG).map(String::from), Ok(address));
    }
    Some(Accepted)
}

/// `POST /users/export/segment`.
pub fn export_segment(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let check = |address: &str| check_address(address, &CONFIG).map(String::from);
    let (users, wanted) = match ExportOptions::read_with_users(&members, 1, check) {
        Ok(read) => read,
        Err(error) => return refused(&error),
    };
    FieldSet::parse(&wanted.fields).expect("the fields are known");
    if let RequestedUsers::Audience { conditions, .. } = users {
        Audience::read(&(&conditions).into()).expect("an accepted audience can be read again");
    }
    Some(Accepted)
}

/// `POST /users/export/ids`.
pub fn export_ids(bytes: &[u8]) -> Option<Accepted> {
    let (request, _) = match ids::read(members(bytes)?, Some("their_id")) {
        Ok(request) => request,
        Err(error) => return refused(&error),
    };
    assert!((1..=50).contains(&request.mentions().len()));
    request.fields().expect("the fields are known");
    Some(Accepted)
}

/// `POST /users/messages`.
pub fn user_messages(bytes: &[u8]) -> Option<Accepted> {
    match user_messages::read(members(bytes)?, Some("their_id")) {
        Ok(_) => Some(Accepted),
        Err(error) => refused(&error),
    }
}

/// `POST /canvas/trigger/schedule/delete`.
pub fn schedule_deletion(bytes: &[u8]) -> Option<Accepted> {
    match fields::read::<ScheduleKey>(&members(bytes)?) {
        Ok(_) => Some(Accepted),
        Err(error) => refused(&error),
    }
}

/// `POST /canvas/trigger/schedule/create`.
pub fn schedule(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let (request, _) = match CanvasRequest::read(&members) {
        Ok(request) => request,
        Err(error) => return refused(&error),
    };
    let _ = request.canvas.schedule.is_past(super::NOW);
    // The stored form has the request's names, and is read as the same.
    let kept = serde_json::to_value(&request.target).expect("JSON");
    let mut again =
        json!({ "canvas_id": request.canvas.canvas_id, "schedule": members["schedule"] });
    if let (Some(again), Value::Object(kept)) = (again.as_object_mut(), kept.clone()) {
        again.extend(kept);
        let (again, _) = CanvasRequest::read(again).expect("what is kept is read");
        assert_eq!(serde_json::to_value(&again.target).expect("JSON"), kept_of(&request));
        assert_eq!(again.canvas.schedule, request.canvas.schedule);
    }
    Some(Accepted)
}

fn kept_of(request: &CanvasRequest) -> Value {
    serde_json::to_value(&request.target).expect("JSON")
}

/// `POST /messages/live_activity/start`.
pub fn live_activity(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let start = match StartRequest::read(&members, &SETTINGS) {
        Ok(start) => start,
        Err(error) => return refused(&error),
    };
    let Target { users, segment_id, audience, .. } = &start.target;
    let options = [!users.is_empty(), segment_id.is_some(), audience.is_some()];
    assert_eq!(options.iter().filter(|is_given| **is_given).count(), 1, "{:?}", start.target);
    if let Some(audience) = audience {
        Audience::read(&audience.into()).expect("what is kept is read");
    }
    let aps = &start.message(super::NOW)["aps"];
    assert!(aps["attributes"].is_object() && aps["content-state"].is_object(), "{aps}");
    assert!(aps["alert"].is_object() && aps["event"] == "start", "{aps}");
    Some(Accepted)
}

/// `POST /sms/invalid_phone_numbers/remove`.
pub fn phone_numbers(bytes: &[u8]) -> Option<Accepted> {
    let phone_numbers = match fields::read(&members(bytes)?) {
        Ok(PhoneNumbers { phone_numbers }) => phone_numbers.0,
        Err(error) => return refused(&error),
    };
    assert!((1..=50).contains(&phone_numbers.len()));
    for number in phone_numbers {
        assert_eq!(PhoneNumber::parse(&number.to_string()), Ok(number));
    }
    Some(Accepted)
}

/// `GET /campaigns/list`: the query.
pub fn campaigns_query(bytes: &[u8]) -> Option<Accepted> {
    let filter = campaigns::api::read(text(bytes)?).map_err(|reason| check_reason(&reason)).ok()?;
    assert!(filter.offset >= 0 && filter.offset < i64::MAX / 2, "{filter:?}");
    Some(Accepted)
}

/// Each line is the value of the headers that every request may have.
pub fn headers(bytes: &[u8]) -> Option<Accepted> {
    let mut headers = HeaderMap::new();
    let names = [IDEMPOTENCY_KEY, header::FORWARDED, header::AUTHORIZATION];
    let names = names.map(|name| match name {
        header::FORWARDED => header::HeaderName::from_static("x-forwarded-for"),
        name => name,
    });
    for value in bytes.split(|byte| *byte == b'\n').take(8) {
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        // Separately, because a key may occur only once.
        let single = HeaderMap::from_iter([(IDEMPOTENCY_KEY, value.clone())]);
        check_key(&single);
        for name in &names {
            headers.append(name, value.clone());
        }
    }
    assert!(bearer(&headers).is_none_or(|key| !key.is_empty() && key.trim() == key));
    let peer = IpAddr::from([10, 1, 1, 1]);
    let trusted = ["10.0.0.0/8".parse().expect("a network")];
    let _ = address::client_address(peer, &headers, &trusted);
    assert_eq!(
        address::client_address(peer, &headers, &[]),
        Some(peer),
        "without proxies the header is ignored"
    );
    Some(Accepted)
}

fn check_key(headers: &HeaderMap) {
    match read_key(headers) {
        Ok(key) => {
            let key = key.expect("the header is there");
            assert!((1..=255).contains(&key.len()) && key.is_ascii(), "{key:?}");
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            let quoted = HeaderValue::from_str(&quoted).expect("printable");
            let again = read_key(&HeaderMap::from_iter([(IDEMPOTENCY_KEY, quoted)]));
            assert_eq!(again.expect("a string"), Some(key));
        }
        Err(error) => check_refusal(&error),
    }
}

fn members(bytes: &[u8]) -> Option<Map<String, Value>> {
    body(bytes)?.object().map_err(|error| check_refusal(&error)).ok()
}

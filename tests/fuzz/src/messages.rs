//! The endpoints that send messages, now or scheduled: from the body to the order.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Accepted, NOW, body, check_reason, check_refusal, seeds};
use longshore::audience::Audience;
use longshore::campaigns::{ApiCampaign, ApiCampaigns};
use longshore::gateway::ApiError;
use longshore::gateway::idempotency::Received;
use longshore::messages::content::{Content, MessageSource};
use longshore::messages::order::{Kind, Order, Target, in_log};
use longshore::messages::recipient::MAX_USERS;
use longshore::messages::request::{
    CheckedSend, RecipientsSendRequest, ScheduleMessagesRequest, SendRequest, budget,
};
use longshore::workspaces::Budget;
use longshore::workspaces::settings::Settings;

/// Has the segment of the seeds, and below the campaign.
static SETTINGS: LazyLock<Settings> =
    LazyLock::new(|| Settings { segments: [seeds::ID].into(), ..Settings::default() });

static CAMPAIGNS: LazyLock<ApiCampaigns> =
    LazyLock::new(|| [seeds::ID, EXAMPLE].map(|id| (id, ApiCampaign::default())).into());

/// The campaign of the example in the API document.
const EXAMPLE: Uuid = Uuid::from_u128(0x3c9f0a52_8f1e_4c57_9a3e_0d5b1c2e7f60);

/// `POST /messages/send`.
pub fn send(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let is_limited = budget(&members) == Budget::MessagesSendAudience;
    let read = SendRequest::read(&members, &SETTINGS, &CAMPAIGNS);
    let order = order(read, Kind::Send, MessageSource::Send)?;
    assert_eq!(order.target.users.is_empty(), is_limited, "{:?}", order.target);
    Some(Accepted)
}

/// `POST /messages/schedule/create`, for a campaign that declares a message.
pub fn schedule(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let read = ScheduleMessagesRequest::read(&members, Some(&declared()), &SETTINGS, &CAMPAIGNS);
    let read = read.map(|(when, wanted)| {
        let _ = when.is_past(NOW);
        wanted
    });
    order(read, Kind::Schedule, MessageSource::Schedule).map(|_| Accepted)
}

/// `POST /messages/dispatches/{dispatch_id}/send`.
pub fn to_recipients(bytes: &[u8]) -> Option<Accepted> {
    let members = members(bytes)?;
    let read = RecipientsSendRequest::read(&members, seeds::ID, &SETTINGS, &CAMPAIGNS);
    let order = order(read, Kind::Send, MessageSource::Send)?;
    let past = order.target.recipients_of.expect("recipients of a dispatch");
    assert!(!past.outcomes.is_empty(), "{past:?}");
    Some(Accepted)
}

fn declared() -> Map<String, Value> {
    let webhook = serde_json::json!({ "url": "https://acme.example", "request_method": "GET" });
    Map::from_iter([("webhook".to_owned(), webhook)])
}

/// The order of a request, which is complete and passes through the log unchanged.
fn order(read: Result<CheckedSend, ApiError>, kind: Kind, source: MessageSource) -> Option<Order> {
    let wanted = match read {
        Ok(wanted) => wanted,
        Err(error) => {
            check_refusal(&error);
            return None;
        }
    };
    wanted.problems.iter().for_each(|problem| check_reason(&problem.text));
    let received = Received { id: Uuid::from_u128(3), at: NOW };
    let order = wanted.order(kind, received, 7, "r");
    assert!(order.target.users.len() <= MAX_USERS, "{:?}", order.target);
    let Target { segment_id, audience, recipients_of, .. } = &order.target;
    let is_limited = segment_id.is_some() || audience.is_some() || recipients_of.is_some();
    assert!(is_limited || !order.target.users.is_empty(), "{:?}", order.target);
    if let Some(audience) = &order.target.audience {
        let read = Audience::read(&audience.into()).expect("what is kept is read");
        assert_eq!(read.to_json(), *audience);
    }
    let (_, again, problems) = Content::read(&order.messages, source, &SETTINGS);
    assert!(problems.is_empty() && !again.is_empty(), "{problems:?}");
    assert_eq!(again, order.messages);
    match order.clone().to_log(8) {
        Ok(new) => {
            let read = in_log::decode(&new.payload).expect("an order");
            assert_eq!(Order { request_id: new.request_id, ..read }, order);
        }
        Err(error) => assert!(matches!(error, ApiError::TooLarge), "{error:?}"),
    }
    Some(order)
}

fn members(bytes: &[u8]) -> Option<Map<String, Value>> {
    body(bytes)?.object().map_err(|error| check_refusal(&error)).ok()
}

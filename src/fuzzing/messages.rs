//! The calls that send messages, now or later: from the body to the order.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{NOW, body, check_reason, check_refusal};
use crate::audience::Audience;
use crate::campaigns::{ApiCampaign, ApiCampaigns};
use crate::gateway::ApiError;
use crate::gateway::idempotency::Received;
use crate::messages::content::{Content, Place};
use crate::messages::order::{Kind, Order, in_log};
use crate::messages::recipient::MOST_USERS;
use crate::messages::request::{ScheduleMessagesRequest, SendRequest, Wanted, budget};
use crate::workspaces::Budget;
use crate::workspaces::settings::Settings;

/// Of the seeds: a segment, and below a campaign.
static SETTINGS: LazyLock<Settings> =
    LazyLock::new(|| Settings { segments: [Uuid::from_u128(1)].into(), ..Settings::default() });

static CAMPAIGNS: LazyLock<ApiCampaigns> =
    LazyLock::new(|| [(Uuid::from_u128(2), ApiCampaign::default())].into());

/// `POST /messages/send`.
pub fn send(bytes: &[u8]) {
    let Some(members) = members(bytes) else { return };
    let is_limited = budget(&members) == Budget::MessagesSendAudience;
    let read = SendRequest::read(&members, &SETTINGS, &CAMPAIGNS);
    if let Some(order) = order(read, Kind::Send, Place::Send) {
        assert_eq!(order.target.users.is_empty(), is_limited, "{:?}", order.target);
    }
}

/// `POST /messages/schedule/create`, for a campaign that declares a message.
pub fn schedule(bytes: &[u8]) {
    let Some(members) = members(bytes) else { return };
    let read = ScheduleMessagesRequest::read(&members, Some(&declared()), &SETTINGS, &CAMPAIGNS);
    let read = read.map(|(when, wanted)| {
        let _ = when.is_past(NOW);
        wanted
    });
    order(read, Kind::Schedule, Place::Schedule);
}

fn declared() -> Map<String, Value> {
    let webhook = serde_json::json!({ "url": "https://acme.example", "request_method": "GET" });
    Map::from_iter([("webhook".to_owned(), webhook)])
}

/// The order that comes of a request, which is whole and goes through the log as it is.
fn order(read: Result<Wanted, ApiError>, kind: Kind, place: Place) -> Option<Order> {
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
    assert!(order.target.users.len() <= MOST_USERS, "{:?}", order.target);
    let is_limited = order.target.segment_id.is_some() || order.target.audience.is_some();
    assert!(is_limited || !order.target.users.is_empty(), "{:?}", order.target);
    if let Some(audience) = &order.target.audience {
        let read = Audience::read(audience).expect("what is kept is read");
        assert_eq!(read.to_json(), *audience);
    }
    let (_, again, problems) = Content::read(&order.messages, place, &SETTINGS);
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

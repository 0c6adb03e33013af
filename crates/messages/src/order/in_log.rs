//! An order in the log. A repeat of the request must give the same bytes, so the request's id,
//! which differs, is a header.

use super::{Order, VERSION};
use gateway::ApiError;
use log::{MAX_MESSAGE_BYTES, Message, NewMessage, PayloadError, partition_of, payload};
use runtime::topics;

/// Reserved bytes for a message's data in addition to its payload.
const ENVELOPE_BYTES: usize = 1 << 10;

/// The payload of a message of [`topics::MESSAGES`].
pub fn encode(order: &Order) -> Vec<u8> {
    order.to_json().into_bytes()
}

/// Reads the output of [`encode`].
pub fn decode(payload: &[u8]) -> Result<Order, PayloadError> {
    payload::read(topics::MESSAGES, VERSION, payload, |_| None)
}

impl Order {
    /// The message that a request appends, in the partition of its dispatch.
    pub fn to_log(mut self, partitions: u32) -> Result<NewMessage, ApiError> {
        let request_id = std::mem::take(&mut self.request_id);
        let payload = encode(&self);
        // A body can be larger after it is serialized again.
        if payload.len() + ENVELOPE_BYTES > MAX_MESSAGE_BYTES {
            return Err(ApiError::TooLarge);
        }
        Ok(NewMessage {
            topic: topics::MESSAGES,
            key: Vec::new(),
            partition: Some(partition_of(self.dispatch_id.as_bytes(), partitions)),
            payload,
            request_id,
        })
    }

    /// The order in a message.
    pub fn from_log(message: &Message) -> Result<Self, PayloadError> {
        let order = decode(&message.payload)?;
        Ok(Self { request_id: message.request_id.clone(), ..order })
    }
}

#[cfg(test)]
mod tests {
    use kit::json::TreeObject;
    use kit::retry;
    use serde_json::{Map, json};
    use uuid::Uuid;

    use super::super::{Kind, Named, PastRecipients, SubscriptionState, Target, Who};
    use super::*;
    use crate::message_outcome::OutcomeFilter;

    fn order(text: &str) -> Order {
        let alias = Who::Alias { label: "l".into(), name: "n".into() };
        let named = |who| Named {
            who,
            trigger_properties: Some(serde_json::from_str(r#"{"z":1.50,"a":1}"#).unwrap()),
            canvas_entry_properties: None,
            event_properties: None,
        };
        let users = [Who::ExternalId("ann".into()), alias, Who::ServiceId(Uuid::max())];
        Order {
            dispatch_id: Uuid::now_v7(),
            workspace_id: 7,
            kind: Kind::Send,
            campaign_id: Some(Uuid::nil()),
            send_id: None,
            messages: Map::from_iter([("email".to_owned(), json!({ "body": text }))]),
            target: Target { users: users.map(named).into(), ..Target::default() },
            subscription_state: SubscriptionState::OptedIn,
            ignores_capping: true,
            canvas_entry_properties: None,
            trigger_properties: None,
            accepted_at: 5,
            requested_by: Some("key:app".into()),
            request_id: "r".into(),
        }
    }

    #[test]
    fn orders_survive_a_round_trip_through_the_log() {
        let order = order("b");
        let first = order.clone().to_log(64).unwrap();
        let repeat = Order { request_id: "another".into(), ..order.clone() }.to_log(64).unwrap();
        assert_eq!((&first.payload, first.partition), (&repeat.payload, repeat.partition));
        assert!(first.partition.is_some_and(|partition| (0..64).contains(&partition)));
        let message = |payload: Vec<u8>| Message {
            topic: topics::MESSAGES,
            partition: 0,
            offset: 0,
            appended_at: 0,
            log_time: None,
            key: Vec::new(),
            payload,
            request_id: "r".into(),
        };
        assert_eq!(Order::from_log(&message(first.payload)).unwrap(), order);
        for damaged in ["", "{}", "[]"] {
            assert!(Order::from_log(&message(damaged.into())).is_err(), "{damaged}");
        }
    }

    #[test]
    fn an_earlier_program_leaves_an_order_that_it_would_change() {
        let read = |order: &Order| Order::from_row("t.c", 7, &order.to_json()).unwrap();
        let earlier = |order: &Order| {
            let text = order.to_json();
            store::documents::parsed::<Order>("t.c", 7, &text)
        };
        let plain = order("b");
        assert_eq!((read(&plain), earlier(&plain).unwrap()), (plain.clone(), plain.clone()));
        let properties = TreeObject::parse(r#"{"a":1}"#).unwrap();
        let newer = Order { trigger_properties: Some(properties), ..plain.clone() };
        assert_eq!(read(&newer), newer);
        assert!(retry::Retry::needs_newer_version(&earlier(&newer).unwrap_err()));
        let mut of_recipients = plain;
        of_recipients.target = Target {
            recipients_of: Some(PastRecipients {
                dispatch_id: Uuid::nil(),
                outcomes: vec![OutcomeFilter::Sent],
            }),
            ..Target::default()
        };
        assert_eq!(read(&of_recipients), of_recipients);
        assert!(retry::Retry::needs_newer_version(&earlier(&of_recipients).unwrap_err()));
        let newest = of_recipients.to_json().replacen("\"v\":3", "\"v\":4", 1);
        assert!(Order::from_row("t.c", 7, &newest).is_err());
    }

    #[test]
    fn oversized_orders_are_rejected() {
        let without_text = order("").to_log(1).unwrap().payload.len();
        let max_text = MAX_MESSAGE_BYTES - ENVELOPE_BYTES - without_text;
        assert!(order(&"x".repeat(max_text)).to_log(1).is_ok());
        let oversized = order(&"x".repeat(max_text + 1)).to_log(1);
        assert!(matches!(oversized, Err(ApiError::TooLarge)));
    }
}

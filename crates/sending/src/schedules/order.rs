//! The order of a due schedule.

use serde_json::Map;
use uuid::Uuid;

use super::fire::FireError;
use super::{Schedule, request};
use content::campaigns;
use messages::order::{Kind, Order, SubscriptionState, Target};
use messages::recipient::Properties;
use store::documents::parsed;
use store::{StoreError, Tx};

/// The order of a schedule at a time. Of a Canvas, with the messages that it declares then;
/// otherwise, with the accepted messages. If sending has begun, the messages are not used.
pub(super) async fn build(tx: &mut Tx, schedule: &Schedule, now: i64) -> Result<Order, FireError> {
    match schedule.canvas_id {
        Some(canvas) => build_from_canvas(tx, schedule, canvas, now).await,
        None => {
            let order = Order::from_row("schedules.request", schedule.id, &schedule.request)?;
            let Schedule { dispatch_id, workspace_id, .. } = *schedule;
            Ok(Order { dispatch_id, workspace_id, accepted_at: now, ..order })
        }
    }
}

async fn build_from_canvas(
    tx: &mut Tx,
    schedule: &Schedule,
    canvas: Uuid,
    now: i64,
) -> Result<Order, FireError> {
    let declared = campaigns::by_id(tx, schedule.workspace_id, canvas).await?;
    let messages = declared.as_ref().and_then(|canvas| canvas.messages());
    let messages = match messages.filter(|messages| !messages.is_empty()) {
        Some(messages) => messages.clone(),
        // The dispatch keeps the messages that it began with.
        None if schedule.sent_at.is_some() => Map::new(),
        None => return Err(FireError::NoMessages),
    };
    let target: request::Target = parsed("schedules.request", schedule.id, &schedule.request)?;
    let users = target.users().map_err(|error| {
        StoreError::Corrupt(format!("schedules.request of {}: {error}", schedule.id))
    })?;
    Ok(Order {
        dispatch_id: schedule.dispatch_id,
        workspace_id: schedule.workspace_id,
        kind: Kind::Canvas,
        campaign_id: Some(canvas),
        send_id: None,
        messages,
        target: Target {
            users,
            audience: target.audience.map(|audience| audience.to_json()),
            ..Target::default()
        },
        subscription_state: SubscriptionState::default(),
        ignores_capping: false,
        canvas_entry_properties: target
            .canvas_entry_properties
            .map(|Properties(properties)| properties.tree()),
        trigger_properties: None,
        accepted_at: now,
        requested_by: target.requested_by,
        request_id: schedule.request_id.clone(),
    })
}

#[cfg(test)]
mod tests {
    use kit::json::ObjectText;
    use serde_json::{Value, json};

    use super::*;
    use crate::schedules::request::CanvasRequest;
    use messages::order::Who;

    /// Reads the stored part of a request.
    fn stored_target(members: Value) -> request::Target {
        let mut body = json!({ "canvas_id": "c", "schedule": { "time": "2026-11-21T10:00:00Z" } });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let (request, _) = CanvasRequest::read(body.as_object().unwrap()).unwrap();
        serde_json::from_value(serde_json::to_value(request.target).unwrap()).unwrap()
    }

    #[test]
    fn stored_recipients_are_read_back() {
        let target = stored_target(json!({
            "recipients": [
                { "external_user_id": "ann", "trigger_properties": { "a": 1 } },
                { "user_alias": { "alias_name": "n", "alias_label": "l" },
                  "canvas_entry_properties": { "b": 2 } },
            ],
            "canvas_entry_properties": { "c": 3 },
        }));
        let named = target.users().unwrap();
        let properties = |name: &str, n: i64| {
            Some(serde_json::from_value::<ObjectText>(json!({ name: n })).unwrap())
        };
        let [ann, other] = named.as_slice() else { panic!("{named:?}") };
        assert_eq!(ann.who, Who::ExternalId("ann".into()));
        assert_eq!(ann.trigger_properties, properties("a", 1));
        assert_eq!(other.who, Who::Alias { label: "l".into(), name: "n".into() });
        assert_eq!(other.canvas_entry_properties, properties("b", 2));
        assert_eq!(
            target.canvas_entry_properties.map(|Properties(properties)| properties),
            properties("c", 3)
        );

        let everybody = stored_target(json!({ "broadcast": true }));
        assert!(everybody.users().unwrap().is_empty() && everybody.audience.is_none());
    }
}

//! What calls order to be sent, as the log has it.

use std::time::Duration;

use log::Message;
use longshore::app::App;
use longshore::messages::order::Order;
use longshore::topics;
use uuid::Uuid;

/// Every order in the log with its message, the first accepted first.
pub async fn orders(app: &App) -> Vec<(Message, Order)> {
    let group = format!("looks-on-{}", Uuid::new_v4());
    let mut consumer = app.log.consumer(&group, topics::MESSAGES, 1_000).expect("a consumer");
    let extent = app.log.extent(topics::MESSAGES).await.expect("the log answers");
    let all: i64 = extent.ranges.iter().map(|range| range.end).sum();
    let mut orders = Vec::new();
    while (orders.len() as i64) < all {
        let next = tokio::time::timeout(Duration::from_secs(60), consumer.next());
        let (message, ack) = next.await.expect("a message comes").expect("the log answers");
        let order = Order::from_log(&message).expect("an order");
        orders.push((message, order));
        ack.done();
    }
    orders.sort_by_key(|(_, order)| order.accepted_at);
    orders
}

//! The orders in the log, as requests wrote them.

use std::time::Duration;

use log::Message;
use longshore::app::App;
use longshore::messages::order::Order;
use longshore::topics;
use uuid::Uuid;

use super::reader::Reader;

/// Every order in the log with its message, the first accepted first.
pub async fn read_orders(app: &App) -> Vec<(Message, Order)> {
    let group = format!("looks-on-{}", Uuid::new_v4());
    let mut reader = Reader::new(&app.log, &group, topics::MESSAGES).await;
    let extent = app.log.extent(topics::MESSAGES).await.expect("the log answers");
    let all: i64 = extent.ranges.iter().map(|range| range.end).sum();
    let mut orders = Vec::new();
    while (orders.len() as i64) < all {
        let message = reader.next(Duration::from_secs(60)).await.expect("a message comes");
        let order = Order::from_log(&message).expect("an order");
        orders.push((message, order));
    }
    orders.sort_by_key(|(_, order)| order.accepted_at);
    orders
}

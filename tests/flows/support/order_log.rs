//! The orders in the log, as requests wrote them.

use log::Message;
use longshore::app::App;
use longshore::messages::order::Order;
use longshore::topics;

use super::reader::read_topic;

/// Every order in the log with its message, the first accepted first.
pub async fn read_orders(app: &App) -> Vec<(Message, Order)> {
    let messages = read_topic(&app.log, topics::MESSAGES).await.into_iter();
    let with_order = |message| {
        let order = Order::from_log(&message).expect("an order");
        (message, order)
    };
    let mut orders: Vec<_> = messages.map(with_order).collect();
    orders.sort_by_key(|(_, order)| order.accepted_at);
    orders
}

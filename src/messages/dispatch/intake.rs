//! Orders of the log become dispatches, a batch of them at a time.

use super::begin;
use crate::engine::batches::Handler;
use crate::messages::order::Order;
use kit::retry::Retry;
use log::{Message, PayloadError};
use store::{StoreError, Tx};

/// Why orders could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    #[error(transparent)]
    Message(#[from] PayloadError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for OrderError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Message(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
        }
    }

    fn is_too_much(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_too_much())
    }

    fn needs_newer(&self) -> bool {
        match self {
            Self::Message(error) => error.needs_newer(),
            Self::Store(error) => error.needs_newer(),
        }
    }
}

/// Begins the orders of [`topics::MESSAGES`](crate::topics::MESSAGES).
pub struct BeginOrders;

impl Handler for BeginOrders {
    type Error = OrderError;
    type Prepared<'m> = Vec<Order>;
    type Applied = ();

    async fn prepare(&self, messages: &[Message]) -> Result<Vec<Order>, OrderError> {
        messages.iter().map(|message| Ok(Order::from_log(message)?)).collect()
    }

    async fn apply(&self, tx: &mut Tx, orders: &Self::Prepared<'_>) -> Result<(), OrderError> {
        for order in orders {
            begin(tx, order).await?;
        }
        Ok(())
    }
}

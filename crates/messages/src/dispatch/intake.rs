//! Turns orders of the log into dispatches, a batch at a time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use uuid::Uuid;

use super::kept::Kept;
use super::{begin_with, refuse};
use crate::order::Order;
use content::campaigns;
use kit::retry::Retry;
use log::{Message, PayloadError};
use runtime::engine::batches::Handler;
use store::{StoreError, Tx};

/// Why orders could not become dispatches.
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

    fn is_too_large(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_too_large())
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Message(error) => error.needs_newer_version(),
            Self::Store(error) => error.needs_newer_version(),
        }
    }
}

/// Begins the orders of [`topics::MESSAGES`](runtime::topics::MESSAGES). If the campaign of an order
/// was paused, archived or removed since, its dispatch fails.
pub struct OrderHandler;

impl Handler for OrderHandler {
    type Error = OrderError;
    type Prepared<'m> = Vec<Order>;
    type Applied = ();

    async fn prepare(&self, messages: &[Message]) -> Result<Vec<Order>, OrderError> {
        messages.iter().map(|message| Ok(Order::from_log(message)?)).collect()
    }

    async fn apply(&self, tx: &mut Tx, orders: &Self::Prepared<'_>) -> Result<(), OrderError> {
        // Many orders of a batch are of the same campaign.
        let mut inactive: HashMap<(i32, Uuid), Option<Cow<'static, str>>> = HashMap::new();
        let kept = Kept::begin_all(tx, orders).await?;
        for (order, kept) in orders.iter().zip(&kept) {
            let workspace = order.workspace_id;
            let state = match order.campaign_id {
                None => None,
                Some(campaign) => match inactive.entry((workspace, campaign)) {
                    Entry::Occupied(entry) => entry.get().clone(),
                    Entry::Vacant(entry) => {
                        let state = campaigns::inactive(tx, workspace, campaign).await?;
                        entry.insert(state).clone()
                    }
                },
            };
            match state {
                None => begin_with(tx, order, kept).await?,
                Some(state) => refuse(tx, order, &format!("the campaign {state}")).await?,
            }
        }
        Ok(())
    }
}

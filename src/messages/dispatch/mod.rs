//! Walks the users of an order in parts, and hands each their messages once.

use super::order::Order;
use crate::store::{StoreError, Tx};

/// Makes an order a dispatch, in the caller's transaction; once, however often it is asked.
pub async fn begin(_tx: &mut Tx, _order: &Order) -> Result<(), StoreError> {
    todo!()
}

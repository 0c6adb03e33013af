//! Callbacks and postbacks: a row before it is a request; signed, retried for a day, never
//! into a private network.

use url::Url;
use uuid::Uuid;

use crate::clock::Clock;
use crate::config::Config;
use crate::store::{StoreError, Tx};

/// A delivery to make.
pub struct NewDelivery {
    pub workspace_id: i32,
    /// `export_callback`.
    pub kind: &'static str,
    /// What it is about, such as the export's `object_prefix`.
    pub subject: String,
    pub url: String,
    /// The JSON body, as it will be sent and signed.
    pub body: String,
    pub request_id: String,
}

/// Writes the delivery and offers it to the workers, in the caller's transaction.
pub async fn enqueue(
    _tx: &mut Tx,
    _config: &Config,
    _clock: &Clock,
    _delivery: NewDelivery,
) -> Result<Uuid, StoreError> {
    todo!()
}

/// Reads a callback's address and checks what can be checked without looking its name up:
/// http or https, a host, no literal address inside a private network. The error says what
/// is wrong, for the customer, without naming the field.
pub fn check_address(_text: &str, _config: &Config) -> Result<Url, String> {
    todo!()
}

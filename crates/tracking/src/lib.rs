//! Tracking: attributes, events and purchases of users, checked at the gateway, and applied by the
//! workers.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | `POST /users/track` |
//! | `intake` | converts a request's body to its response and its messages, without side effects |
//! | `object` | reads and checks one object: accepted, or rejected with its errors |
//! | `attributes`, `operators`, `properties`, `values` | the parts of objects |
//! | `partitions` | groups objects into messages, one for each partition |
//! | `formats` | the descriptions of the objects |
//! | [`apply`] | from messages to profiles and activity, in batches |
//! | [`immediate`] | attributes in another request, and opt-outs that do not wait for the log |
//! | `identities` | requests that change users' identities |
//! | `subscriptions` | requests that read and set users' subscriptions |
//! | `suppressions` | requests about addresses that get no messages |
//! | [`saved_suppressions`] | suppressions in a file, for after a restore |
//! | `products` | the products that were bought |
//! | [`message`] | the messages from the gateway to the workers |
//! | `limits`, `telemetry` | limits and reserved names; the metrics of the gateway |
//!
//! It promises: each object of a request is accepted or rejected, whatever the others are. An
//! accepted object is durable when the request gets its response, and is applied once, in the order
//! of the log for its user. Of a user's decisions to get messages, the one that was received last
//! holds.
//!
//! Start with [`api`], then [`apply`].

pub mod api;
pub mod apply;
mod attributes;
pub mod formats;
mod identities;
pub mod immediate;
pub mod intake;
mod limits;
pub mod message;
mod object;
mod operators;
mod partitions;
mod products;
mod properties;
pub mod saved_suppressions;
mod subscriptions;
mod suppressions;
mod telemetry;
mod values;

pub use intake::Request;
pub use limits::is_field;
pub use suppressions::opt_outs;

use log::NewMessage;

/// Creates messages from objects that this program creates itself, as if they came in a request.
pub fn messages(
    objects: Vec<message::Object<'_>>,
    request: &Request,
) -> Result<Vec<NewMessage>, serde_json::Error> {
    let accepted = |object| object::AcceptedObject {
        object,
        other_identifiers: Vec::new(),
        ignored: Vec::new(),
    };
    partitions::messages(objects.into_iter().map(accepted).collect(), request)
}

kit::named! {
    /// The arrays of a request, in the order in which they are applied.
    pub enum Kind {
        Attributes = "attributes",
        Events = "events",
        Purchases = "purchases",
    }
}

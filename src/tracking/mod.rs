//! Tracking: attributes, events and purchases of users, checked at the gateway, and applied by the
//! workers.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | `POST /users/track` |
//! | `intake` | from a request's body to its answer and its messages, and nothing else |
//! | `object` | one object: read and checked, or what is wrong with it |
//! | `attributes`, `operators`, `properties`, `values` | what objects are made of |
//! | `partitions` | which objects stay together, and where they go |
//! | `formats` | the objects as they are described |
//! | [`apply`] | from messages to profiles and activity, in batches |
//! | [`at_once`] | attributes that come along with another call |
//! | `identities` | calls that change who users are |
//! | `subscriptions` | calls that say what users subscribe to |
//! | `products` | the products that were bought |
//! | [`message`] | what the log carries from the gateway to the workers |

pub mod api;
pub mod apply;
pub mod at_once;
mod attributes;
pub(crate) mod formats;
mod identities;
pub mod intake;
mod limits;
pub mod message;
mod object;
mod operators;
mod partitions;
mod products;
mod properties;
mod subscriptions;
mod telemetry;
mod values;

pub(crate) use intake::Request;
pub(crate) use limits::is_field;

use log::NewMessage;

/// Messages of objects that this program creates itself, as if they came with a request.
pub(crate) fn messages(
    objects: Vec<message::Object<'_>>,
    request: &Request,
) -> Result<Vec<NewMessage>, serde_json::Error> {
    let taken = |object| object::Taken { object, beside: Vec::new() };
    partitions::messages(objects.into_iter().map(taken).collect(), request)
}

kit::named! {
    /// The arrays of a request, in the order in which they are applied.
    pub enum Kind {
        Attributes = "attributes",
        Events = "events",
        Purchases = "purchases",
    }
}

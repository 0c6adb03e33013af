//! Requests to URLs from outside: never into a private network, never following a redirect, signed
//! if the receiver must authenticate the sender.

pub use address::{LONGEST, check_address, check_kept, check_within, read_address};
pub use send::{Answered, Failure, Request, Sender, Unanswered, kept};
pub mod address;
pub mod send;
pub mod signature;

use url::Url;

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// The scheme, host and port of an address. The rest is for the receiver alone: some take a path
/// for a password.
pub fn shown(url: &str) -> String {
    let origin = Url::parse(url).map(|url| url.origin());
    match origin {
        Ok(origin) if origin.is_tuple() => origin.ascii_serialization(),
        _ => HIDDEN.into(),
    }
}

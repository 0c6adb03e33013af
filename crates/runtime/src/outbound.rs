//! Requests to URLs from outside. They are not sent to private networks, do not follow redirects,
//! and are signed if the receiver must authenticate the sender.

pub use address::{
    MAX_URL_LENGTH, check_address, check_stored_address, check_within, read_address,
};
pub use send::{Failure, HttpResponse, Request, RequestError, ResponseBody, Sender, stored_text};
pub mod address;
pub mod send;
pub mod signature;

use url::Url;

/// Replaces a secret in printed text.
pub const HIDDEN: &str = "***";

/// The scheme, host and port of a URL. The rest may be secret: some receivers use the path as a
/// password.
pub fn shown(url: &str) -> String {
    let origin = Url::parse(url).map(|url| url.origin());
    match origin {
        Ok(origin) if origin.is_tuple() => origin.ascii_serialization(),
        _ => HIDDEN.into(),
    }
}

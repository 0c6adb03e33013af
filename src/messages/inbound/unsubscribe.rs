//! `/email/unsubscribe/{token}`: the address in the `List-Unsubscribe` header of every email that
//! is not transactional (RFC 8058).
//!
//! A token says whose it is and is signed with the secret key; it does not expire, so that an
//! email can be unsubscribed from however old it is, for as long as the key it was signed with
//! is known.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::app::App;
use crate::gateway::ApiError;
use crate::secrets::SecretKey;
use crate::tracking::{self, message};

const PURPOSE: &str = "email unsubscribe";

/// Bytes of the workspace and the user in a token.
const NAMED: usize = 4 + 16;

/// The token of a user.
pub fn token(secrets: &SecretKey, workspace: i32, service_id: Uuid) -> String {
    let named = [&workspace.to_be_bytes()[..], service_id.as_bytes()].concat();
    let tag = secrets.derive(PURPOSE, &[&named]);
    BASE64_URL_SAFE_NO_PAD.encode([&named[..], &tag].concat())
}

/// Whose a token is: the workspace and the user.
pub fn read(secrets: &SecretKey, token: &str) -> Option<(i32, Uuid)> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let (named, tag) = bytes.split_at_checked(NAMED)?;
    if !secrets.verify(PURPOSE, &[named], tag) {
        return None;
    }
    let (workspace, user) = named.split_first_chunk()?;
    Some((i32::from_be_bytes(*workspace), Uuid::from_slice(user).ok()?))
}

/// Unsubscribes a user from emails, as if that had been tracked: in order with whatever else is
/// said of them by the same id. Done once it is durable.
pub async fn unsubscribe(
    app: &App,
    (workspace, user): (i32, Uuid),
    request_id: String,
) -> Result<(), ApiError> {
    let written = || -> Result<_, String> {
        let value = message::Json::compact(r#""unsubscribed""#.into())?;
        let attributes = message::Attributes {
            user: message::Identifier::ServiceId(user),
            update_only: true,
            fields: message::Entries(vec![("email_subscribe".into(), value)]),
            custom: message::Entries::default(),
            inc: message::Entries::default(),
            add: message::Entries::default(),
            remove: message::Entries::default(),
        };
        let object = message::Object::Attributes(attributes);
        let request = tracking::Request {
            workspace,
            received_at: app.clock.now_ms(),
            partitions: app.config.log.partitions,
            request_id,
        };
        tracking::messages(vec![object], &request).map_err(|error| error.to_string())
    };
    let messages = written()
        .map_err(|error| ApiError::Internal(format!("a message cannot be written: {error}")))?;
    app.log.append(messages).await?;
    metrics::counter!("longshore_message_reports_total", "type" => "unsubscribed").increment(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_whose_it_is_and_cannot_be_made() {
        let key = || SecretKey::generate();
        let (old, new) = (key(), key());
        let secrets = SecretKey::parse(&old, None).unwrap();
        let user = Uuid::now_v7();
        let token = token(&secrets, 7, user);
        assert!(
            token.len() < 80
                && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        assert_eq!(read(&secrets, &token), Some((7, user)));
        let rotated = SecretKey::parse(&new, Some(&old)).unwrap();
        assert_eq!(read(&rotated, &token), Some((7, user)));
        let other = SecretKey::parse(&new, None).unwrap();
        assert_eq!(read(&other, &token), None);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(read(&secrets, &String::from_utf8(changed).unwrap()), None, "{at}");
        }
        for none in ["", "A", "é", &token[..26], &token[..token.len() - 1], &format!("{token}A")] {
            assert_eq!(read(&secrets, none), None, "{none}");
        }
    }
}

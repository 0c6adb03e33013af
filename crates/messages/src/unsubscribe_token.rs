//! The token in unsubscribe URLs: the workspace and the user, signed with the secret key. It does
//! not expire: users can unsubscribe with an email of any age, as long as the key that signed the
//! token is known.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::app::App;
use kit::secrets::SecretKey;

const PURPOSE: &str = "email unsubscribe";

/// Bytes of the workspace id and the user id in a token.
const PAYLOAD_BYTES: usize = 4 + 16;

/// The token of a user.
pub fn token(secrets: &SecretKey, workspace: i32, service_id: Uuid) -> String {
    let payload = [&workspace.to_be_bytes()[..], service_id.as_bytes()].concat();
    let tag = secrets.derive(PURPOSE, &[&payload]);
    BASE64_URL_SAFE_NO_PAD.encode([&payload[..], &tag].concat())
}

/// The URL at which a user can unsubscribe.
pub fn url(app: &App, workspace: i32, service_id: Uuid) -> String {
    let token = token(&app.secrets, workspace, service_id);
    format!("{}/email/unsubscribe/{token}", app.config.public_base())
}

/// Checks a token; returns its workspace and user.
pub fn read(secrets: &SecretKey, token: &str) -> Option<(i32, Uuid)> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let (payload, tag) = bytes.split_at_checked(PAYLOAD_BYTES)?;
    if !secrets.verify(PURPOSE, &[payload], tag) {
        return None;
    }
    let (workspace, user) = payload.split_first_chunk()?;
    Some((i32::from_be_bytes(*workspace), Uuid::from_slice(user).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_identify_their_user_and_cannot_be_forged() {
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
        for index in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            assert_eq!(read(&secrets, &String::from_utf8(changed).unwrap()), None, "{index}");
        }
        for invalid in ["", "A", "é", &token[..26], &token[..token.len() - 1], &format!("{token}A")]
        {
            assert_eq!(read(&secrets, invalid), None, "{invalid}");
        }
    }
}

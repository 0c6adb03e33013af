//! The token in unsubscribe URLs: the workspace, the user, and the hash of the email's address,
//! signed with the secret key. It does not expire: users can unsubscribe with an email of any age,
//! as long as the key that signed the token is known. Tokens of earlier releases have no hash.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::app::App;
use kit::secrets::SecretKey;
use people::users::suppressions::Hash;

const PURPOSE: &str = "email unsubscribe";

/// Bytes of the tag at the end of a token.
const TAG_BYTES: usize = 32;

/// What a token identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    pub workspace: i32,
    /// The user who got the email.
    pub user: Uuid,
    /// The address to which it went; none in a token of an earlier release.
    pub address: Option<Hash>,
}

/// The token of an email to a user.
pub fn token(secrets: &SecretKey, recipient: &Recipient) -> String {
    let Recipient { workspace, user, address } = recipient;
    let address = address.as_ref().map_or(&[][..], |hash| &hash[..]);
    let payload = [&workspace.to_be_bytes()[..], user.as_bytes(), address].concat();
    let tag = secrets.derive(PURPOSE, &[&payload]);
    BASE64_URL_SAFE_NO_PAD.encode([&payload[..], &tag].concat())
}

/// The URL at which a user can unsubscribe.
pub fn url(app: &App, recipient: &Recipient) -> String {
    let token = token(&app.secrets, recipient);
    format!("{}/email/unsubscribe/{token}", app.config.public_base())
}

/// In the place of a token in previews of messages. Identifies nobody.
pub const PREVIEW: &str = "preview";

/// The URL in previews of messages, at which nobody can unsubscribe: whoever may see a preview must
/// not decide for the user.
pub fn preview_url(app: &App) -> String {
    format!("{}/email/unsubscribe/{PREVIEW}", app.config.public_base())
}

/// Checks a token; returns what it identifies.
pub fn read(secrets: &SecretKey, token: &str) -> Option<Recipient> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let (payload, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
    if !secrets.verify(PURPOSE, &[payload], tag) {
        return None;
    }
    let (workspace, rest) = payload.split_first_chunk()?;
    let (user, address) = rest.split_first_chunk::<16>()?;
    let address = match address {
        [] => None,
        hash => Some(hash.try_into().ok()?),
    };
    let workspace = i32::from_be_bytes(*workspace);
    Some(Recipient { workspace, user: Uuid::from_bytes(*user), address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_identify_their_user_and_address_and_cannot_be_forged() {
        let key = || SecretKey::generate();
        let (old, new) = (key(), key());
        let secrets = SecretKey::parse(&old, None).unwrap();
        for (address, length) in [(None, 70), (Some([7; 32]), 112)] {
            let recipient = Recipient { workspace: 7, user: Uuid::now_v7(), address };
            let token = token(&secrets, &recipient);
            assert_eq!(token.len(), length);
            assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
            assert_eq!(read(&secrets, &token), Some(recipient));
            let rotated = SecretKey::parse(&new, Some(&old)).unwrap();
            assert_eq!(read(&rotated, &token), Some(recipient));
            let other = SecretKey::parse(&new, None).unwrap();
            assert_eq!(read(&other, &token), None);
            for index in 0..token.len() {
                let mut changed = token.clone().into_bytes();
                changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
                assert_eq!(read(&secrets, &String::from_utf8(changed).unwrap()), None, "{index}");
            }
            for invalid in
                ["", "A", "é", &token[..26], &token[..token.len() - 1], &format!("{token}A")]
            {
                assert_eq!(read(&secrets, invalid), None, "{invalid}");
            }
        }
    }
}

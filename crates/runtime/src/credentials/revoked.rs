//! Revoked secrets, which are refused for ever: keys and tokens keep their hashes when they are
//! revoked. A restored database does not know what was revoked after its backup, so the list can be
//! written to a file and read again.

use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::{Hash, hash, revoked_rows};
use crate::audit::Change;
use kit::clock::{format_time, parse_time, serialize_optional_time};
use store::{StoreError, Tx, from_row, text_enum};

pub use revoked_rows::{credentials, find, list};

text_enum! {
    /// The kind of a credential.
    pub enum SecretKind {
        Key = "key",
        ScimToken = "scim_token",
    }
}

impl SecretKind {
    /// The action of a revocation in the audit log.
    pub fn revocation(self) -> &'static str {
        match self {
            Self::Key => "key.revoke",
            Self::ScimToken => "scim_token.revoke",
        }
    }
}

/// A revoked secret. The secret itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedSecret {
    pub kind: SecretKind,
    /// The name of its key or token.
    pub name: String,
    pub(super) hash: Vec<u8>,
    /// Milliseconds since the Unix epoch.
    pub revoked_at: i64,
}
from_row! { RevokedSecret { kind, name, hash, revoked_at } }

/// The name of a secret that became public, and that no key or token has.
pub(super) const LEAKED: &str = "leaked";

/// A key or SCIM token, as it is found by its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KnownCredential {
    pub kind: SecretKind,
    pub name: String,
    /// None for a SCIM token, and for a key that this database knows only from a list of revoked
    /// secrets.
    pub workspace: Option<String>,
    #[serde(serialize_with = "serialize_optional_time")]
    pub revoked_at: Option<i64>,
}
from_row! { KnownCredential { kind, name, workspace, revoked_at } }

/// A key or SCIM token that was revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedCredential {
    pub kind: SecretKind,
    pub id: Uuid,
    pub name: String,
    /// None for a SCIM token.
    pub workspace_id: Option<i32>,
}
from_row! { RevokedCredential { kind, id, name, workspace_id } }

impl RevokedCredential {
    /// What the audit log has about it.
    pub fn change(&self, reason: &str) -> Change {
        Change::new(self.kind.revocation(), &*self.name, json!({ "id": self.id, "reason": reason }))
    }
}

impl KnownCredential {
    pub fn is_valid(&self) -> bool {
        self.revoked_at.is_none()
    }
}

/// A line of the list.
#[derive(Serialize, Deserialize)]
struct Line {
    kind: SecretKind,
    name: String,
    /// SHA-256 in hexadecimal digits.
    hash: String,
    revoked_at: String,
}

impl RevokedSecret {
    /// A secret that became public, and the key or token that has it, if it is known.
    pub fn leaked(secret: &str, owner: Option<&KnownCredential>, now: i64) -> Self {
        let (kind, name) = match owner {
            Some(owner) => (owner.kind, owner.name.clone()),
            None => (SecretKind::Key, LEAKED.to_owned()),
        };
        Self { kind, name, hash: hash(secret).into(), revoked_at: now }
    }

    /// As a JSON object.
    pub fn to_line(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Line {
            kind: self.kind,
            name: self.name.clone(),
            hash: hex::encode(&self.hash),
            revoked_at: format_time(self.revoked_at),
        })
    }

    /// Reads such an object.
    pub fn from_line(text: &str) -> Result<Self, String> {
        let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let hash = read_hash(&line.hash).ok_or("hash must have 64 hexadecimal digits")?;
        let revoked_at =
            parse_time(&line.revoked_at).map_err(|why| format!("revoked_at: {why}"))?;
        Ok(Self { kind: line.kind, name: line.name, hash: hash.into(), revoked_at })
    }
}

fn read_hash(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    hex::decode_to_slice(text, &mut hash).ok()?;
    Some(hash)
}

/// Revokes secrets, in a database that does not know that they are revoked. `actor` is who does it,
/// as the audit log has it. Returns the keys and tokens that were valid.
pub async fn restore(
    tx: &mut Tx,
    secrets: &[RevokedSecret],
    actor: &str,
) -> Result<Vec<RevokedCredential>, StoreError> {
    let mut revoked = Vec::new();
    for secret in secrets {
        revoked_rows::insert(tx, secret).await?;
        revoked.extend(revoked_rows::revoke_valid(tx, secret, actor).await?);
    }
    Ok(revoked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back() {
        let secret = RevokedSecret {
            kind: SecretKind::ScimToken,
            name: "idp".into(),
            hash: hash("a-secret-that-was-revoked").into(),
            revoked_at: 1_700_000_000_123,
        };
        let line = secret.to_line().unwrap();
        assert_eq!(RevokedSecret::from_line(&line), Ok(secret));
        for wrong in [
            "",
            "{}",
            "[]",
            &line.replace("scim_token", "x"),
            &line.replace("\"hash\":\"", "\"hash\":\"+"),
        ] {
            assert!(RevokedSecret::from_line(wrong).is_err(), "{wrong}");
        }
        for wrong in ["a".repeat(63), "a".repeat(66), format!("+{}", "a".repeat(63))] {
            assert_eq!(read_hash(&wrong), None, "{wrong}");
        }
        assert_eq!(read_hash(&"aB".repeat(32)), Some([0xab; 32]));
    }
}

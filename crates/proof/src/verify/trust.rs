//! Whose signature counts.

use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use super::http::{self, HttpError};
use crate::manifest::{Difference, DifferenceKind, SignedFor};
use gateway::workspaces::signing;
use kit::retry::Retry;
use kit::sshsig::{self, AllowedSigners, InvalidLine, PublicKey};

/// Maximum size of a list of signers.
const MAX_SIGNERS: u64 = 1 << 20;

/// The keys that may sign manifests.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those of a file that the caller keeps.
    Signers(AllowedSigners),
    /// One key, at any time.
    Key(PublicKey),
    /// Those that a gateway serves for the workspace. Proves that the gateway signed the export,
    /// not that it is the right gateway.
    Gateway {
        client: reqwest::Client,
        /// Without its last slash.
        base: String,
    },
    /// The signature is not checked.
    Unsigned,
}

/// Who signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ExportSigner")]
pub struct Signer {
    /// As `ssh-keygen -l` shows it: `SHA256:…`.
    pub fingerprint: String,
    /// Whether the caller gave the key. False: the gateway served it.
    pub pinned: bool,
}

/// Why the keys that may sign are unknown.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot fetch the allowed signers: {0}")]
    Fetch(#[from] HttpError),
    #[error("the gateway has no allowed signers of the workspace {0:?}")]
    Unknown(String),
    #[error("cannot read the gateway's allowed signers: {0}")]
    Signers(#[from] InvalidLine),
    #[error("{0} is not an address of a gateway")]
    Address(String),
}

impl Retry for TrustError {
    fn can_retry(&self) -> bool {
        matches!(self, Self::Fetch(error) if error.can_retry())
    }
}

impl Trust {
    /// Checks the signature, which is in the object `name`. The inner error is a difference.
    pub(super) async fn check(
        &self,
        manifest: &SignedFor,
        bytes: &[u8],
        name: &str,
        signature: Option<&[u8]>,
    ) -> Result<Result<Option<Signer>, Difference>, TrustError> {
        if matches!(self, Self::Unsigned) {
            return Ok(Ok(None));
        }
        let Some(signature) = signature else {
            return Ok(Err(Difference::new(name, DifferenceKind::Missing, "")));
        };
        let signed_by =
            sshsig::verify(&String::from_utf8_lossy(signature), signing::NAMESPACE, bytes);
        let key = match signed_by {
            Ok(key) => key,
            Err(error) => {
                let difference =
                    Difference::new(name, DifferenceKind::Signature, error.to_string());
                return Ok(Err(difference));
            }
        };
        let is_allowed = match self {
            Self::Unsigned => Ok(()),
            Self::Key(allowed) if *allowed == key => Ok(()),
            Self::Key(_) => Err(format!("signed by another key, {}", key.fingerprint())),
            Self::Signers(signers) => allow(signers, &key, manifest),
            Self::Gateway { client, base } => {
                allow(&served_signers(client, base, &manifest.workspace).await?, &key, manifest)
            }
        };
        let pinned = !matches!(self, Self::Gateway { .. });
        let signer = Signer { fingerprint: key.fingerprint(), pinned };
        let difference = |reason| Difference::new(name, DifferenceKind::Signature, reason);
        Ok(is_allowed.map(|()| Some(signer)).map_err(difference))
    }
}

/// Whether the key may sign for the workspace, and could at the time of the export's end.
fn allow(signers: &AllowedSigners, key: &PublicKey, manifest: &SignedFor) -> Result<(), String> {
    let workspace = Some(manifest.workspace.as_str());
    let found = signers.find(key, workspace, signing::NAMESPACE, manifest.completed_at);
    found.map(|_| ()).map_err(|error| error.to_string())
}

async fn served_signers(
    client: &reqwest::Client,
    base: &str,
    workspace: &str,
) -> Result<AllowedSigners, TrustError> {
    let wrong = || TrustError::Address(base.to_owned());
    let mut address = Url::parse(base).map_err(|_| wrong())?;
    let segments = [".well-known", "longshore", workspace, "allowed_signers"];
    // The workspace's name is not trusted yet: it stays one segment.
    address.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().extend(segments);
    address.set_query(None);
    let text = http::fetch_with_retries(client, address, MAX_SIGNERS).await?;
    let text = text.ok_or_else(|| TrustError::Unknown(workspace.to_owned()))?;
    Ok(AllowedSigners::parse(&String::from_utf8_lossy(&text))?)
}

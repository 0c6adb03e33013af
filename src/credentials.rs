//! What callers present to be let in, API keys and SCIM tokens, as this process knows them, so
//! that calls need no database.
//!
//! A credential is kept as the SHA-256 of its secret, which is long and random, so that no slow
//! hash is needed. It is looked up by that hash: how long a look-up takes says nothing about the
//! secret of any other.
//!
//! One that is in use is looked up anew every few seconds, beside the calls: a revocation is
//! felt within five seconds. While the database does not answer, one that was known goes on
//! for 15 minutes ([`RULES`]). The hashes of all that there are are known as a [`Listing`]: one
//! that nobody has is never looked up, takes no room among those that are known, and holds up none
//! that is merely not known yet.

pub mod listing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use self::listing::Listing;
use crate::app::App;
use kit::retry::Retry;
use kit::secrets::random_bytes;
use store::cache::{Cache, Rules};
use store::{StoreError, Tx};

/// A revocation takes effect within `confirmed` and a second. Beyond `patience` the database does
/// not answer.
const RULES: Rules = Rules {
    name: "credential",
    fresh: Duration::from_millis(2_500),
    confirmed: Duration::from_secs(4),
    patience: Duration::from_secs(1),
    kept: Duration::from_secs(15 * 60),
    give_up: Duration::from_secs(5),
    most: 10_000,
    reads: 4,
    survives: |_| true,
};

/// `last_used_at` is written this often at most, for each and by each process.
const USED_EVERY: Duration = Duration::from_secs(60);

/// What is kept of a secret.
pub type Hash = [u8; 32];

/// What a secret is of, as a look-up finds it: who may call.
pub trait Credential: Sized + Send + Sync + 'static {
    /// What the operator's log calls it.
    const NAME: &'static str;

    fn id(&self) -> Uuid;

    /// The one with that hash that is not revoked.
    fn find(
        tx: &mut Tx,
        hash: &Hash,
    ) -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;

    /// The hashes of all that are not revoked.
    fn all(tx: &mut Tx) -> impl Future<Output = Result<HashSet<Hash>, StoreError>> + Send;

    /// Notes that it was used at a time, in milliseconds since the Unix epoch.
    fn used(tx: &mut Tx, id: Uuid, now: i64)
    -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why it is not known whose a secret is.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("as many unknown secrets or names are looked up already as may be at once")]
    Busy,
}

impl Retry for FindError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            Self::Busy => true,
        }
    }
}

/// A new secret, which begins with what tells whose it is.
pub fn random_secret(prefix: &str) -> String {
    format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(random_bytes::<32>()))
}

/// What is kept of a secret.
pub fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// The credential whose secret is `presented`, if there is one and it is not revoked. Notes,
/// beside the call, that it was used.
pub async fn find<C: Credential>(app: &App, presented: &str) -> Result<Option<Arc<C>>, FindError> {
    let hash = hash(presented);
    let credentials = app.kept::<Credentials<C>>();
    let is_listed = |all: Arc<HashSet<Hash>>| all.contains(&hash);
    let may_be_there = credentials.known.knows(&hash)
        || credentials.all.latest().is_some_and(is_listed)
        || is_listed(list::<C>(app).await?);
    if !may_be_there {
        return Ok(None);
    }
    let store = app.store.clone();
    let look_up = async move {
        let mut tx = store.snapshot().await?;
        let credential = C::find(&mut tx, &hash).await?;
        tx.commit().await?;
        Ok(credential.map(Arc::new))
    };
    let found = credentials.known.get(hash, look_up).await.map_err(FindError::Store)?;
    match &*found {
        Some(credential) if credentials.is_use_to_be_written(hash) => {
            write_use::<C>(app, credential.id());
        }
        Some(_) => {}
        // Revoked since it was listed. The rest of the list still holds.
        None => {
            credentials.known.forget(&hash);
            credentials.all.change(|all| {
                all.remove(&hash);
            });
        }
    }
    Ok((*found).clone())
}

/// Reads the list of all that there are.
pub async fn list<C: Credential>(app: &App) -> Result<Arc<HashSet<Hash>>, FindError> {
    let store = app.store.clone();
    let credentials = app.kept::<Credentials<C>>();
    let all = credentials.all.renewed(async move {
        let mut tx = store.snapshot().await?;
        let all = C::all(&mut tx).await?;
        tx.commit().await?;
        Ok(all)
    });
    all.await
}

fn write_use<C: Credential>(app: &App, id: Uuid) {
    let (store, now) = (app.store.clone(), app.clock.now_ms());
    tokio::spawn(async move {
        let written = async {
            let mut tx = store.write().await?;
            C::used(&mut tx, id, now).await?;
            tx.commit().await
        };
        if let Err(error) = written.await {
            tracing::warn!(%id, %error, "the last use of a {} could not be written", C::NAME);
        }
    });
}

/// Those of one kind that a process knows.
pub struct Credentials<C> {
    known: Arc<Cache<Hash, Option<Arc<C>>>>,
    all: Listing<HashSet<Hash>>,
    /// When the last use of some was written.
    used: Mutex<HashMap<Hash, Instant>>,
}

impl<C: Credential> Default for Credentials<C> {
    fn default() -> Self {
        Self { known: Cache::new(RULES), all: Listing::default(), used: Mutex::default() }
    }
}

impl<C> Credentials<C> {
    fn is_use_to_be_written(&self, hash: Hash) -> bool {
        let mut used = self.used.lock();
        let is_due = used.get(&hash).is_none_or(|written| written.elapsed() >= USED_EVERY);
        if is_due {
            if used.len() >= RULES.most {
                used.retain(|_, written| written.elapsed() < USED_EVERY);
            }
            used.insert(hash, Instant::now());
        }
        is_due
    }
}

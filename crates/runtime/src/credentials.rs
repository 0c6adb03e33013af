//! A process's cache of credentials, API keys and SCIM tokens, so that requests need no database.
//!
//! A credential is stored as the SHA-256 of its secret, which is long and random, so that no slow
//! hash is needed. It is looked up by that hash: the time of a lookup reveals nothing about another
//! secret.
//!
//! A credential in use is refreshed every few seconds in the background: a revocation takes effect
//! within five seconds. While the database is down, a cached credential stays valid for 15 minutes
//! ([`RULES`]). The hashes of all valid credentials are cached as a [`CachedList`]: an unknown one
//! is never looked up, takes no space in the cache, and never delays a valid one that is not cached
//! yet.

pub mod listing;
pub mod revoked;
mod revoked_rows;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use uuid::Uuid;

use self::listing::CachedList;
use crate::app::App;
use kit::moment::Moment;
use kit::retry::Retry;
use kit::secrets::random_bytes;
use store::cache::{Cache, CacheSettings};
use store::{StoreError, Tx};

/// A revocation takes effect within `wait_after` and a second. After `read_timeout` the database
/// counts as down.
const RULES: CacheSettings = CacheSettings {
    name: "credential",
    refresh_after: Duration::from_millis(2_500),
    wait_after: Duration::from_secs(4),
    read_timeout: Duration::from_secs(1),
    max_age: Duration::from_secs(15 * 60),
    give_up: Duration::from_secs(5),
    capacity: 10_000,
    reads: 4,
    keep_on_error: |_| true,
};

/// Minimum interval between writes of `last_used_at`, per credential and process.
const USE_WRITE_INTERVAL: Duration = Duration::from_secs(60);

/// The stored form of a secret.
pub type Hash = [u8; 32];

/// The owner of a secret, as found by a lookup.
pub trait Credential: Sized + Send + Sync + 'static {
    /// The kind's name in the operator's log.
    const NAME: &'static str;

    fn id(&self) -> Uuid;

    /// The unrevoked credential with that hash.
    fn find(
        tx: &mut Tx,
        hash: &Hash,
    ) -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;

    /// The hashes of all unrevoked credentials.
    fn all(tx: &mut Tx) -> impl Future<Output = Result<HashSet<Hash>, StoreError>> + Send;

    /// Stores its use at a time, in milliseconds since the Unix epoch, by a request that needs any
    /// of these permissions.
    fn used(
        &self,
        tx: &mut Tx,
        permissions: &[&'static str],
        now: i64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why the owner of a secret is unknown.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("too many lookups of unknown secrets or names are in progress")]
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

/// A new secret, with a prefix that shows its kind.
pub fn random_secret(prefix: &str) -> String {
    format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(random_bytes::<32>()))
}

/// The stored form of a secret.
pub fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// The cached credentials of one kind.
pub struct Credentials<C> {
    known: Arc<Cache<Hash, Option<Arc<C>>>>,
    all: CachedList<Hash, HashSet<Hash>>,
    /// When the last uses were written, by the ids of the credentials.
    used: Mutex<HashMap<Uuid, Moment>>,
}

impl<C: Credential> Credentials<C> {
    /// `slots` limits the requests that share the look-up of a credential.
    pub fn new(slots: Arc<Semaphore>) -> Self {
        Self { known: Cache::new(RULES), all: CachedList::new(Some(slots)), used: Mutex::default() }
    }

    /// The credential with the secret `presented`, if it exists and is not revoked.
    pub async fn find(&self, app: &App, presented: &str) -> Result<Option<Arc<C>>, FindError> {
        let hash = hash(presented);
        let is_listed = |all: Arc<HashSet<Hash>>| all.contains(&hash);
        let may_exist = self.known.knows(&hash)
            || self.all.latest().is_some_and(is_listed)
            // On the heap: each request would have space for it, and few need it.
            || is_listed(Box::pin(self.refresh_list(app, &hash)).await?);
        if !may_exist {
            return Ok(None);
        }
        let store = app.store.clone();
        let look_up = async move {
            let mut tx = store.snapshot().await?;
            let credential = C::find(&mut tx, &hash).await?;
            tx.commit().await?;
            Ok(credential.map(Arc::new))
        };
        let found = self.known.get(hash, look_up).await.map_err(FindError::Store)?;
        if found.is_none() {
            // Revoked since it was listed. The rest of the list is still valid.
            self.known.evict(&hash);
            self.all.change(|all| {
                all.remove(&hash);
            });
        }
        Ok((*found).clone())
    }

    /// Records a use of a credential in the background, by an admitted request that needs any of
    /// these permissions. At most one use in a minute is written.
    pub fn record_use(&self, app: &App, credential: &Arc<C>, permissions: &[&'static str]) {
        if self.should_record_use(credential.id()) {
            write_use(app, credential.clone(), permissions.to_vec());
        }
    }

    /// Reads the list of all credentials.
    pub async fn read_list(&self, app: &App) -> Result<(), FindError> {
        // No secret is empty.
        self.refresh_list(app, &hash("")).await.map(drop)
    }

    async fn refresh_list(&self, app: &App, hash: &Hash) -> Result<Arc<HashSet<Hash>>, FindError> {
        let store = app.store.clone();
        let all = self.all.refresh(hash, async move {
            let mut tx = store.snapshot().await?;
            let all = C::all(&mut tx).await?;
            tx.commit().await?;
            Ok(all)
        });
        all.await
    }

    fn should_record_use(&self, id: Uuid) -> bool {
        let mut used = self.used.lock();
        let is_due = used.get(&id).is_none_or(|written| written.elapsed() >= USE_WRITE_INTERVAL);
        if is_due {
            if used.len() >= RULES.capacity {
                used.retain(|_, written| written.elapsed() < USE_WRITE_INTERVAL);
            }
            used.insert(id, Moment::now());
        }
        is_due
    }
}

fn write_use<C: Credential>(app: &App, credential: Arc<C>, permissions: Vec<&'static str>) {
    let (store, now) = (app.store.clone(), app.clock.now_ms());
    tokio::spawn(async move {
        let written = async {
            let mut tx = store.write().await?;
            credential.used(&mut tx, &permissions, now).await?;
            tx.commit().await
        };
        if let Err(error) = written.await {
            let id = credential.id();
            tracing::warn!(%id, %error, "cannot store when a {} was last used", C::NAME);
        }
    });
}

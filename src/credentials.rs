//! What callers present to be let in, API keys and SCIM tokens, as this process knows them, so
//! that calls need no database.
//!
//! A credential is kept as the SHA-256 of its secret, which is long and random, so that no slow
//! hash is needed. It is looked up by that hash: how long a look-up takes says nothing about the
//! secret of any other.
//!
//! One that is in use is looked up anew every few seconds, beside the calls: a revocation is
//! felt within five seconds. While the database does not answer, one that was known goes on
//! for [`HONOURED`]. The hashes of all that there are are known as a [`Listing`]: one that
//! nobody has is never looked up, takes no room among those that are known, and holds up none
//! that is merely not known yet.

pub mod listing;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use self::listing::Listing;
use crate::app::App;
use kit::retry::Retry;
use kit::secrets::random_bytes;
use store::{StoreError, Tx, answered};

/// Since one was found in the database: from here on it is looked up again beside the calls,
/// and from there on calls wait for that.
const FRESH: Duration = Duration::from_millis(2_500);
const CONFIRMED: Duration = Duration::from_secs(4);

/// How long a call waits for the look-up of one that was known. Beyond it the database does
/// not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long one is honoured that the database said nothing about.
const HONOURED: Duration = Duration::from_secs(15 * 60);

/// As many of a kind are known at most: those that exist and are in use.
const KNOWN: usize = 10_000;

/// Look-ups at once of those that are known, and of others that there are.
const LOOK_UPS: usize = 4;

/// When a look-up is given up; until then calls wait whose credential was not known. After one
/// that failed, the next of a known one waits for a pause.
const LOOK_UP_TIME: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

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

/// What a look-up came to.
type Found<C> = Result<Option<Arc<C>>, Arc<StoreError>>;

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
    let next = match credentials.next(app, hash)? {
        Some(next) => next,
        None => match list::<C>(app).await?.contains(&hash) {
            true => credentials.first(app, hash),
            false => return Ok(None),
        },
    };
    let credential = match next {
        Next::Answer(credential) => credential,
        Next::Await { look, patience, otherwise } => {
            match (look.found(patience).await, otherwise) {
                (Ok(credential), _) => credential,
                (Err(_), Some(credential)) => Some(credential),
                (Err(error), None) => return Err(FindError::Store(error)),
            }
        }
    };
    if let Some(credential) = &credential
        && credentials.is_use_to_be_written(&hash)
    {
        write_use::<C>(app, credential.id());
    }
    Ok(credential)
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
    state: Mutex<State<C>>,
    all: Listing<HashSet<Hash>>,
    known_look_ups: Semaphore,
    first_look_ups: Semaphore,
}

impl<C: Credential> Default for Credentials<C> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State { known: HashMap::new(), first: HashMap::new() }),
            all: Listing::default(),
            known_look_ups: Semaphore::new(LOOK_UPS),
            first_look_ups: Semaphore::new(LOOK_UPS),
        }
    }
}

struct State<C> {
    known: HashMap<Hash, Known<C>>,
    /// Look-ups under way of those that are listed and not known.
    first: HashMap<Hash, LookUp<C>>,
}

struct Known<C> {
    credential: Arc<C>,
    /// When the database was asked that last knew it.
    confirmed: Instant,
    look: Option<LookUp<C>>,
    failed: Option<Instant>,
    use_written: Option<Instant>,
}

/// A look-up that is under way, for all calls that wait for it.
struct LookUp<C> {
    since: Instant,
    found: watch::Receiver<Option<Found<C>>>,
}

/// What a call is to do.
enum Next<C> {
    Answer(Option<Arc<C>>),
    /// Wait for a look-up until it is as old as `patience`; if nothing comes of it, take what
    /// was known.
    Await {
        look: LookUp<C>,
        patience: Duration,
        otherwise: Option<Arc<C>>,
    },
}

// Derived, it would want credentials that can be cloned.
impl<C> Clone for LookUp<C> {
    fn clone(&self) -> Self {
        Self { since: self.since, found: self.found.clone() }
    }
}

impl<C> LookUp<C> {
    /// Whether somebody is at it still.
    fn is_under_way(&self) -> bool {
        self.found.has_changed().is_ok()
    }

    async fn found(mut self, patience: Duration) -> Found<C> {
        let silent = || Err(Arc::new(StoreError::Silent));
        let rest = patience.saturating_sub(self.since.elapsed());
        match timeout(rest, self.found.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone().unwrap_or_else(silent),
            Ok(Err(_)) | Err(_) => silent(),
        }
    }
}

impl<C: Credential> Credentials<C> {
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        // It is whole between any two instructions.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None where it is to be seen first whether there is such a one.
    fn next(&self, app: &App, hash: Hash) -> Result<Option<Next<C>>, FindError> {
        let mut state = self.lock();
        let Some(known) = state.known.get_mut(&hash) else {
            drop(state);
            let is_listed = self.all.latest().is_some_and(|all| all.contains(&hash));
            return Ok(is_listed.then(|| self.first(app, hash)));
        };
        let (age, credential) = (known.confirmed.elapsed(), known.credential.clone());
        if age < FRESH {
            return Ok(Some(Next::Answer(Some(credential))));
        }
        let look = known.look_up(app, hash);
        let otherwise = (age < HONOURED).then_some(credential);
        let is_away = known.failed.is_some() && otherwise.is_some();
        Ok(Some(match look {
            // Where the last look-up failed nobody waits for the next.
            _ if age < CONFIRMED || is_away => Next::Answer(otherwise),
            Some(look) => Next::Await { look, patience: PATIENCE, otherwise },
            // It failed just now.
            None => return Err(FindError::Store(Arc::new(StoreError::Silent))),
        }))
    }

    /// The look-up of one that is listed and not known.
    fn first(&self, app: &App, hash: Hash) -> Next<C> {
        let mut state = self.lock();
        let look = state.first.get(&hash).filter(|look| look.is_under_way()).cloned();
        let look = look.unwrap_or_else(|| {
            let look = begin(app, hash, false);
            state.first.insert(hash, look.clone());
            look
        });
        Next::Await { look, patience: LOOK_UP_TIME, otherwise: None }
    }

    /// Takes in what was found of one when the database was asked at a time.
    fn learn(&self, hash: Hash, asked: Instant, found: &Found<C>) {
        let mut state = self.lock();
        let was_known = state.known.contains_key(&hash);
        state.first.remove(&hash);
        match found {
            Ok(Some(credential)) => state.know(hash, credential.clone(), asked),
            Ok(None) => {
                state.known.remove(&hash);
                // Revoked since it was listed. The rest of the list still holds.
                self.all.change(|all| {
                    all.remove(&hash);
                });
            }
            Err(error) if was_known => {
                let kind = C::NAME;
                tracing::warn!(%error, "a known {kind} could not be looked up; it goes on for now");
                if let Some(known) = state.known.get_mut(&hash) {
                    known.look = None;
                    known.failed = Some(Instant::now());
                }
            }
            Err(_) => {}
        }
    }

    fn is_use_to_be_written(&self, hash: &Hash) -> bool {
        let mut state = self.lock();
        let Some(known) = state.known.get_mut(hash) else { return false };
        let is_due = known.use_written.is_none_or(|written| written.elapsed() >= USED_EVERY);
        if is_due {
            known.use_written = Some(Instant::now());
        }
        is_due
    }
}

impl<C: Credential> Known<C> {
    /// The look-up that is under way, or a new one; none in the pause after one that failed.
    fn look_up(&mut self, app: &App, hash: Hash) -> Option<LookUp<C>> {
        if let Some(look) = self.look.as_ref().filter(|look| look.is_under_way()) {
            return Some(look.clone());
        }
        if self.failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return None;
        }
        let look = begin(app, hash, true);
        self.look = Some(look.clone());
        Some(look)
    }
}

impl<C: Credential> State<C> {
    fn know(&mut self, hash: Hash, credential: Arc<C>, confirmed: Instant) {
        if self.known.len() >= KNOWN && !self.known.contains_key(&hash) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.confirmed);
            let oldest = oldest.map(|(hash, _)| *hash);
            oldest.and_then(|hash| self.known.remove(&hash));
        }
        let use_written = self.known.get(&hash).and_then(|known| known.use_written);
        let known = Known { credential, confirmed, look: None, failed: None, use_written };
        self.known.insert(hash, known);
    }
}

/// Begins to look one up, in a task of its own.
fn begin<C: Credential>(app: &App, hash: Hash, is_known: bool) -> LookUp<C> {
    let (done, found) = watch::channel(None);
    let app = app.clone();
    tokio::spawn(async move {
        let credentials = app.kept::<Credentials<C>>();
        let gate = if is_known { &credentials.known_look_ups } else { &credentials.first_look_ups };
        let _permit = gate.acquire().await;
        let asked = Instant::now();
        let store = app.store.clone();
        let look = async move {
            let mut tx = store.snapshot().await?;
            let credential = C::find(&mut tx, &hash).await?;
            tx.commit().await?;
            Ok(credential.map(Arc::new))
        };
        let found = answered(look, sleep(LOOK_UP_TIME)).await.map_err(Arc::new);
        credentials.learn(hash, asked, &found);
        done.send_replace(Some(found));
    });
    LookUp { since: Instant::now(), found }
}

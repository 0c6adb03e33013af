//! Metrics of the connection pools.

use sqlx::{Database, PgPool, Pool};

use super::Store;
use kit::moment::Moment;

/// The application name that the server shows, the prefix of all pools' names.
pub(super) const APPLICATION: &str = "longshore";
const TRANSACTIONAL_APPLICATION: &str = "longshore transactional";
const CONSOLE_APPLICATION: &str = "longshore console";
const CLAIMS_APPLICATION: &str = "longshore claims";
pub(super) const WAKE: &str = "longshore wake";

pub(super) const MAIN: &str = "main";
const TRANSACTIONAL: &str = "transactional";
pub(super) const CONSOLE: &str = "console";
const CLAIMS: &str = "claims";
pub(super) const WRITER: &str = "writer";

/// Whose work does not wait for the connections of other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedFor {
    Transactional,
    Console,
    /// Frequent statements that find each row by its primary key. Planning them takes longer than
    /// running them, so their plans are kept, and made so that no table is ever scanned or hashed.
    Claims,
}

impl ReservedFor {
    pub(super) fn application(self) -> &'static str {
        match self {
            Self::Transactional => TRANSACTIONAL_APPLICATION,
            Self::Console => CONSOLE_APPLICATION,
            Self::Claims => CLAIMS_APPLICATION,
        }
    }

    /// The options of its connections to PostgreSQL, besides those of all connections.
    pub(super) fn options(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Transactional | Self::Console => &[],
            Self::Claims => &[
                ("plan_cache_mode", "force_generic_plan"),
                ("enable_seqscan", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
            ],
        }
    }
}

/// The state of a pool: connections that are idle, in use, and allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    pub pool: &'static str,
    pub idle: u32,
    pub used: u32,
    pub max: u32,
}

impl Store {
    /// The state of its pools.
    pub fn pools(&self) -> Vec<PoolStatus> {
        match self {
            Self::Postgres { pool, .. } => vec![status(name(pool), pool)],
            Self::Sqlite { read, write, readers, .. } => {
                vec![status(readers, read), status(WRITER, write)]
            }
        }
    }
}

pub(super) fn name(pool: &PgPool) -> &'static str {
    match pool.connect_options().get_application_name() {
        Some(TRANSACTIONAL_APPLICATION) => TRANSACTIONAL,
        Some(CONSOLE_APPLICATION) => CONSOLE,
        Some(CLAIMS_APPLICATION) => CLAIMS,
        _ => MAIN,
    }
}

fn status<D: Database>(name: &'static str, pool: &Pool<D>) -> PoolStatus {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    let used = pool.size().saturating_sub(idle);
    PoolStatus { pool: name, idle, used, max: pool.options().get_max_connections() }
}

/// Begins a transaction, and records how long that took.
pub(super) fn timed<T>(
    pool: &'static str,
    begun: impl Future<Output = T> + Send,
) -> impl Future<Output = T> + Send {
    // On the heap: it has kilobytes, because it may connect, and is a part of most futures.
    let begun = Box::pin(begun);
    async move {
        let began = Moment::now();
        let begun = begun.await;
        metrics::histogram!("longshore_pool_wait_seconds", "pool" => pool).record(began.elapsed());
        begun
    }
}

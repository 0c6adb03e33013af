//! The bound: the rows of the same batches read under lock and upserted, as many batches at
//! once as a worker has, and nothing else. Of other users, so that what they had before is as
//! it was for the worker: some have no activity yet, and most pages were not touched lately.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use futures::{StreamExt as _, stream};
use log::{Consumer, Limits};
use longshore::config::Config;
use longshore::topics;
use longshore::tracking::message::Batch;
use longshore::users::activity::Activity;
use longshore::users::identifier::Identifier;
use longshore::users::service_id::{bucket, slice_of};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres, Transaction};
use store::Store;
use store::wake::WakeSignal;
use uuid::Uuid;

use crate::installation::Installation;
use crate::load::Kind;
use crate::settle::settle;

/// The users of each batch, by partition.
pub type Batches = Vec<Vec<Vec<Uuid>>>;

pub struct Bound {
    pool: PgPool,
    workspace: i32,
    /// By external id: another user for each, with the slice.
    others: HashMap<String, Uuid>,
    messages: Consumer,
    log: log::Log,
    /// Messages read so far.
    read: i64,
    worker: longshore::config::Worker,
}

impl Bound {
    pub async fn new(installation: &Installation) -> Self {
        // As Longshore has it.
        let options: PgConnectOptions = (*installation.pool.connect_options()).clone();
        let options = options.options([("plan_cache_mode", "force_custom_plan"), ("jit", "off")]);
        let pool = PgPoolOptions::new().connect_lazy_with(options);
        let sql = "SELECT external_id, service_id FROM users WHERE external_id IS NOT NULL";
        let all: Vec<(String, Uuid)> = sqlx::query_as(sql).fetch_all(&pool).await.expect("users");
        let workspace = sqlx::query_scalar("SELECT id FROM workspaces");
        let workspace = workspace.fetch_one(&pool).await.expect("a workspace");
        let half = all.len() / 2;
        let other = |at: usize| all[(at + half) % all.len()].1;
        let others = all.iter().enumerate().map(|(at, (name, _))| (name.clone(), other(at)));
        let store = Store::Postgres { pool: pool.clone(), wake: WakeSignal::local() };
        let limits = Limits { messages: 1_000, bytes: 1 << 20, in_flight: 1 };
        let (messages, _) =
            installation.log.batches("bound", topics::TRACKING, &store, limits).expect("Kafka");
        Self {
            workspace,
            others: others.collect(),
            messages,
            log: installation.log.clone(),
            read: 0,
            worker: Config::default().worker,
            pool,
        }
    }

    /// The batches that a worker makes of the messages since the last time, if it finds all of
    /// them there.
    pub async fn batches(&mut self) -> Batches {
        let topic_offsets = self.log.topic_offsets(topics::TRACKING).await.expect("Kafka answers");
        let end: i64 = topic_offsets.ranges.iter().map(|range| range.end).sum();
        let mut partitions: BTreeMap<i32, Partition> = BTreeMap::new();
        while self.read < end {
            let (read, ack) = self.messages.next().await.expect("Kafka answers");
            for message in &read.messages {
                let batch = Batch::decode(&message.payload).expect("a message of tracking");
                let users = batch.objects.iter().map(|object| match object.user() {
                    Identifier::ExternalId(id) => self.others[id.as_ref()],
                    other => panic!("nobody sends {other:?}"),
                });
                let partition = partitions.entry(message.partition).or_default();
                partition.add(message.payload.len(), users, &self.worker);
            }
            self.read += read.messages.len() as i64;
            ack.done();
        }
        partitions.into_values().map(Partition::finish).collect()
    }

    /// Passes through the messages since the last time.
    pub async fn skip(&mut self) {
        self.batches().await;
    }

    /// Reads and writes the rows of batches; how many, and how many a second.
    pub async fn measure(&self, kind: Kind, batches: &Batches) -> (usize, f64) {
        settle(&self.pool).await;
        let rows: usize = batches.iter().flatten().map(Vec::len).sum();
        let began = Instant::now();
        stream::iter(batches)
            .for_each_concurrent(self.worker.batches_in_flight, async |partition| {
                for users in partition {
                    let mut tx = self.pool.begin().await.expect("PostgreSQL answers");
                    match kind {
                        Kind::Purchase => self.activity(&mut tx, users).await,
                        Kind::Attributes => self.profiles(&mut tx, users).await,
                    }
                    tx.commit().await.expect("PostgreSQL answers");
                }
            })
            .await;
        (rows, rows as f64 / began.elapsed().as_secs_f64())
    }

    async fn activity(&self, tx: &mut Transaction<'static, Postgres>, users: &[Uuid]) {
        let select = "SELECT found.service_id, found.body
             FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
             CROSS JOIN LATERAL (
                 SELECT service_id, body FROM activity
                 WHERE slice = wanted.slice AND workspace_id = $1
                   AND service_id = wanted.service_id
                 LIMIT 1 FOR UPDATE) AS found";
        let found: Vec<(Uuid, Vec<u8>)> = sqlx::query_as(select)
            .bind(self.workspace)
            .bind(slices(users))
            .bind(users)
            .fetch_all(&mut **tx)
            .await
            .expect("rows");
        let found: HashMap<Uuid, Vec<u8>> = found.into_iter().collect();
        let first = first_activity();
        let bodies: Vec<&[u8]> =
            users.iter().map(|id| found.get(id).map_or(&*first, Vec::as_slice)).collect();
        let upsert = "INSERT INTO activity (slice, workspace_id, service_id, body)
             SELECT slice, $1, service_id, body
             FROM unnest($2::smallint[], $3::uuid[], $4::bytea[]) AS new (slice, service_id, body)
             ON CONFLICT (slice, workspace_id, service_id) DO UPDATE SET body = excluded.body";
        sqlx::query(upsert)
            .bind(self.workspace)
            .bind(slices(users))
            .bind(users)
            .bind(bodies)
            .execute(&mut **tx)
            .await
            .expect("rows");
    }

    async fn profiles(&self, tx: &mut Transaction<'static, Postgres>, users: &[Uuid]) {
        let select = "SELECT found.*
             FROM unnest($2::smallint[], $3::uuid[]) AS wanted (slice, service_id)
             CROSS JOIN LATERAL (
                 SELECT slice, service_id, external_id, email, attributes_at, doc FROM users
                 WHERE slice = wanted.slice AND workspace_id = $1
                   AND service_id = wanted.service_id
                 LIMIT 1 FOR UPDATE) AS found";
        type Row = (i16, Uuid, Option<String>, Option<String>, i64, String);
        let found: Vec<Row> = sqlx::query_as(select)
            .bind(self.workspace)
            .bind(slices(users))
            .bind(users)
            .fetch_all(&mut **tx)
            .await
            .expect("rows");
        let upsert = "INSERT INTO users
                 (slice, workspace_id, service_id, external_id, email, attributes_at, doc)
             SELECT slice, $1, service_id, external_id, email, attributes_at, doc
             FROM unnest($2::smallint[], $3::uuid[], $4::text[], $5::text[], $6::bigint[],
                         $7::text[])
                  AS new (slice, service_id, external_id, email, attributes_at, doc)
             ON CONFLICT (slice, workspace_id, service_id) DO UPDATE
             SET external_id = excluded.external_id, email = excluded.email,
                 attributes_at = excluded.attributes_at, doc = excluded.doc";
        sqlx::query(upsert)
            .bind(self.workspace)
            .bind(found.iter().map(|row| row.0).collect::<Vec<_>>())
            .bind(found.iter().map(|row| row.1).collect::<Vec<_>>())
            .bind(found.iter().map(|row| row.2.as_deref()).collect::<Vec<_>>())
            .bind(found.iter().map(|row| row.3.as_deref()).collect::<Vec<_>>())
            .bind(found.iter().map(|row| row.4).collect::<Vec<_>>())
            .bind(found.iter().map(|row| row.5.as_str()).collect::<Vec<_>>())
            .execute(&mut **tx)
            .await
            .expect("rows");
    }
}

/// A partition's messages, cut into batches as a worker does it.
#[derive(Default)]
struct Partition {
    done: Vec<Vec<Uuid>>,
    users: Vec<Uuid>,
    messages: usize,
    bytes: usize,
}

impl Partition {
    fn add(
        &mut self,
        bytes: usize,
        users: impl Iterator<Item = Uuid>,
        worker: &longshore::config::Worker,
    ) {
        self.users.extend(users);
        self.messages += 1;
        self.bytes += bytes;
        if self.messages >= worker.batch_messages || self.bytes >= worker.batch_bytes {
            self.cut();
        }
    }

    /// Each row is written once, in the order of the rows.
    fn cut(&mut self) {
        let mut users = std::mem::take(&mut self.users);
        users.sort_unstable_by_key(|id| (slice(id), *id));
        users.dedup();
        self.done.push(users);
        (self.messages, self.bytes) = (0, 0);
    }

    fn finish(mut self) -> Vec<Vec<Uuid>> {
        if self.messages > 0 {
            self.cut();
        }
        self.done
    }
}

fn slice(id: &Uuid) -> i16 {
    slice_of(bucket(id).expect("an id of Longshore"))
}

fn slices(users: &[Uuid]) -> Vec<i16> {
    users.iter().map(slice).collect()
}

/// The row of a user without activity.
fn first_activity() -> Vec<u8> {
    let mut activity = Activity::default();
    activity.record_purchase("group-1", jiff::Timestamp::now().as_millisecond(), 1, None);
    activity.record_revenue("USD", 1);
    activity.encode()
}

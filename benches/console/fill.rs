//! A large installation. Users are imported. Of exports, sends, schedules and so on, one is
//! requested and completed; the others are copies of its rows, so that all that pages read has the
//! form in which the program stores it.

use std::time::Instant;

use longshore::history::Metric;
use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

use crate::settle::settle;
use crate::support::fleet::Fleet;
use crate::support::{Api, WorkspaceFile, eventually};

/// The workspace with the users.
pub const WORKSPACE: &str = "bench";

/// Further workspaces, which are empty: the menu has them.
const OTHER_WORKSPACES: usize = 20;

const SEGMENT: &str = "9d0b7c52-61c5-4d0e-b0f3-0000000000b1";
const CAMPAIGN: &str = "9d0b7c52-61c5-4d0e-b0f3-0000000000c1";

/// The dashboard user that the others are copies of.
const PERSON: &str = "ann@acme.example";

/// How many of the smaller lists there are.
const FEW: i64 = 500;
const SOME: i64 = 10_000;
const MANY: i64 = 100_000;

/// Users of each send except the largest, and of a part.
const PER_SEND: i64 = 500;
const PER_PART: i64 = 5_000;

/// Exports and sends that are in progress: the latest ones.
const IN_PROGRESS: i64 = 20;
const SENDS_IN_PROGRESS: i64 = 5;

/// Everything happened in these 90 days, in milliseconds.
const HISTORY_MS: i64 = 90 * 24 * 60 * 60 * 1_000;

#[derive(Clone, Copy)]
pub struct Sizes {
    pub users: i64,
    pub exports: i64,
    pub messages: i64,
}

/// The rows that are copied.
struct Originals {
    workspace: i32,
    export: Uuid,
    dispatch: Uuid,
    /// When the dispatch was accepted, in milliseconds since the epoch: the present of all copies.
    now: i64,
    /// Users who are stored.
    users: i64,
}

/// Fills an installation, and ends its worker, so that nothing cleans up what is old.
pub async fn fill(fleet: &mut Fleet, pool: &PgPool, sizes: Sizes) {
    let api = declare(fleet, sizes).await;
    let began = Instant::now();
    fleet
        .shell(&format!(
            "\"$LONGSHORE\" generate --users {} | \"$LONGSHORE\" import - --workspace {WORKSPACE}",
            sizes.users
        ))
        .await;
    println!("{} users are imported: {:.0} s", sizes.users, began.elapsed().as_secs_f64());
    let originals = request(&api, pool).await;
    fleet.terminate("worker-1").await;
    // Temporary tables and functions are those of a connection.
    let mut connection = pool.acquire().await.expect("a connection");
    for sql in preparation(&originals, sizes) {
        run(&mut connection, sql).await;
    }
    let copies = [exports(&originals, sizes), sends(&originals), lists(&originals, sizes)];
    for (name, sql) in copies.into_iter().flatten() {
        let began = Instant::now();
        let rows = run(&mut connection, sql).await;
        println!("{rows} {name}: {:.0} s", began.elapsed().as_secs_f64());
    }
    connection.close().await.expect("the connection is closed");
    settle(pool).await;
}

async fn run(connection: &mut PgConnection, sql: String) -> u64 {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await;
    done.expect("rows are written").rows_affected()
}

/// Applies the workspaces and a dashboard user; returns a client of the workspace with the users.
async fn declare(fleet: &Fleet, sizes: Sizes) -> Api {
    let fields = [("City", "string"), ("Rating", "number"), ("Open", "boolean")]
        .map(|(name, kind)| json!({ "name": name, "type": kind }));
    let item = json!({ "id": "restaurant-1", "City": "Oslo", "Rating": 4.5, "Open": true });
    fleet.write_file("items.ndjson", format!("{item}\n").as_bytes());
    // A condition that a few thousand users meet: points are below 200,000.
    let points = (600_000_000 / sizes.users).clamp(1, 200_000);
    let few = json!({ "AND": [{ "custom_attribute": {
        "custom_attribute_name": "loyalty_points", "comparison": "less_than", "value": points,
    } }] });
    let permissions = [
        "users.track",
        "users.export.global_control_group",
        "messages.send",
        "messages.schedule.create",
    ];
    let bench = WorkspaceFile::new(WORKSPACE)
        .with_percent(Some(1))
        .permitted(&permissions)
        .unlimited()
        .with("segments", json!([{ "id": SEGMENT, "name": "Few points", "audience": few }]))
        .with(
            "campaigns",
            json!([{ "id": CAMPAIGN, "name": "Spring sale", "type": "api", "messages": card() }]),
        )
        .with(
            "catalogs",
            json!([{ "name": "restaurants", "fields": fields, "items": "items.ndjson" }]),
        );
    let others = (1..=OTHER_WORKSPACES)
        .map(|number| WorkspaceFile::new(&format!("shop-{number:02}")).with_percent(None));
    let files: Vec<WorkspaceFile> = std::iter::once(bench).chain(others).collect();
    let api = fleet.apply(&files).await.remove(0);
    let company = json!({
        "company": "Acme",
        "dashboard_users": [{ "user_name": PERSON, "permissions": { "company": ["see_reports"] } }],
    });
    let company = fleet.write_file("company.yaml", company.to_string().as_bytes());
    fleet.run(&["apply", company.to_str().expect("a path of ASCII")]).await;
    api
}

/// Messages that need no receiver.
fn card() -> serde_json::Value {
    json!({ "content_card": {
        "type": "CLASSIC", "title": "Spring sale", "description": "This week only.",
        "time_to_live": 86_400,
    } })
}

/// Requests an export, a send and a schedule, and waits until what is to be copied is there.
async fn request(api: &Api, pool: &PgPool) -> Originals {
    let body = json!({
        "fields_to_export": ["external_id", "email"],
        // Nobody listens there: the reason of the failure is copied.
        "callback_endpoint": "http://127.0.0.1:9/exports",
    });
    let export = api.export(&body).await;
    let target = json!({
        "broadcast": true, "segment_id": SEGMENT, "campaign_id": CAMPAIGN, "messages": card(),
    });
    let sent = api.post("/messages/send", &target).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let mut scheduled = target;
    scheduled["schedule"] = json!({ "time": "2099-01-02T09:00:00Z" });
    let scheduled = api.post("/messages/schedule/create", &scheduled).await;
    assert_eq!(scheduled.status, 201, "{scheduled:?}");
    api.done(&export.prefix).await;
    for sql in [
        "SELECT count(*) FROM deliveries WHERE last_error IS NOT NULL",
        "SELECT count(*) FROM dispatches WHERE state = 'done'",
        "SELECT count(*) FROM console_log",
        "SELECT count(*) FROM messages",
    ] {
        eventually(sql, async || number(pool, sql).await > 0).await;
    }
    let original_id = async |sql: &'static str| -> Uuid {
        sqlx::query_scalar(sql).fetch_one(pool).await.expect("a row to copy")
    };
    let workspace = sqlx::query_scalar("SELECT id FROM workspaces WHERE name = $1").bind(WORKSPACE);
    Originals {
        workspace: workspace.fetch_one(pool).await.expect("the workspace"),
        export: original_id("SELECT id FROM export_jobs").await,
        dispatch: original_id("SELECT id FROM dispatches").await,
        now: number(pool, "SELECT accepted_at FROM dispatches").await,
        users: number(pool, "SELECT count(*) FROM users").await,
    }
}

async fn number(pool: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.expect("PostgreSQL answers")
}

/// What the other statements use: ids that are in the order of their times, users by number, and
/// the sends to come. The largest send is the latest.
fn preparation(originals: &Originals, sizes: Sizes) -> Vec<String> {
    let Originals { workspace, now, users, .. } = originals;
    let largest = (sizes.messages / 2).min(*users);
    let others = (sizes.messages / 2 / PER_SEND).max(SENDS_IN_PROGRESS);
    vec![
        "CREATE FUNCTION pg_temp.id_at(ms BIGINT, n BIGINT) RETURNS UUID LANGUAGE sql IMMUTABLE AS $$
             SELECT (lpad(to_hex(ms), 12, '0') || '7' || substr(md5(n::text), 1, 3)
                     || '8' || substr(md5(n::text), 4, 15))::uuid $$"
            .to_owned(),
        format!(
            "CREATE TEMP TABLE numbered AS
             SELECT row_number() OVER () - 1 AS number, service_id FROM users
             WHERE workspace_id = {workspace}"
        ),
        "CREATE UNIQUE INDEX numbered_number ON numbered (number)".to_owned(),
        format!(
            "CREATE TEMP TABLE sends AS
             SELECT n, at, pg_temp.id_at(at, n) AS id, n BETWEEN 1 AND {SENDS_IN_PROGRESS} AS runs,
                    CASE WHEN n = 0 THEN {largest} ELSE {PER_SEND} END::bigint AS users
             FROM generate_series(0, {others}) AS n
             CROSS JOIN LATERAL (SELECT {now} - n * {HISTORY_MS} / {others} AS at) AS times"
        ),
        "ANALYZE numbered, sends".to_owned(),
    ]
}

type Statements = Vec<(&'static str, String)>;

fn exports(originals: &Originals, sizes: Sizes) -> Statements {
    let Originals { export, .. } = originals;
    let count = sizes.exports;
    let jobs = format!(
        "INSERT INTO export_jobs
         SELECT copy.* FROM export_jobs AS job
         CROSS JOIN generate_series(1, {count}) AS n
         CROSS JOIN LATERAL (
             SELECT job.requested_at - n * {HISTORY_MS} / {count} AS at,
                    CASE WHEN n <= {IN_PROGRESS} THEN 'running' WHEN n % 100 = 0 THEN 'failed'
                         WHEN n % 100 = 1 THEN 'cancelled' ELSE 'done' END AS state) AS new
         CROSS JOIN LATERAL (SELECT new.state = 'done' AS is_done) AS choice
         CROSS JOIN LATERAL jsonb_populate_record(job, jsonb_build_object(
             'id', pg_temp.id_at(new.at, n),
             'object_prefix', gen_random_uuid() || '-' || new.at / 1000,
             'request_id', gen_random_uuid(),
             'state', new.state,
             'requested_at', new.at, 'queued_at', new.at, 'started_at', new.at + 1000,
             'completed_at', CASE WHEN choice.is_done THEN new.at + 60000 END,
             'finished_at', CASE WHEN new.state <> 'running' THEN new.at + 61000 END,
             'expires_at', CASE WHEN choice.is_done THEN new.at + {HISTORY_MS} END,
             'archive', CASE WHEN choice.is_done THEN job.archive END,
             'manifest_sha256', CASE WHEN choice.is_done THEN job.manifest_sha256::text END,
             'shards_left', CASE WHEN choice.is_done THEN 0 ELSE job.shards END,
             'error', CASE WHEN new.state = 'failed' THEN 'The storage refused a file' END)) AS copy
         WHERE job.id = '{export}'"
    );
    let counts = format!(
        "INSERT INTO export_counts
         SELECT copy.* FROM export_counts AS counted
         CROSS JOIN export_jobs AS job
         CROSS JOIN LATERAL (SELECT job.finished_at IS NULL AS runs) AS choice
         CROSS JOIN LATERAL jsonb_populate_record(counted, jsonb_build_object(
             'job_id', job.id,
             'parts_left', CASE WHEN choice.runs THEN 1 ELSE counted.parts_left END,
             'users_done', CASE WHEN choice.runs THEN counted.users_done / 2 ELSE counted.users_done END,
             'files_done', CASE WHEN choice.runs THEN counted.files_done / 2 ELSE counted.files_done END
             )) AS copy
         WHERE counted.job_id = '{export}' AND job.id <> counted.job_id"
    );
    let parts = format!(
        "INSERT INTO export_parts
         SELECT copy.* FROM export_parts AS file
         CROSS JOIN export_jobs AS job
         CROSS JOIN LATERAL jsonb_populate_record(file, jsonb_build_object(
             'job_id', job.id, 'done', job.finished_at IS NOT NULL OR file.part % 2 = 0)) AS copy
         WHERE file.job_id = '{export}' AND job.id <> file.job_id"
    );
    let deliveries = format!(
        "INSERT INTO deliveries
         SELECT copy.* FROM deliveries AS delivery
         CROSS JOIN (SELECT object_prefix, finished_at, row_number() OVER (ORDER BY id) AS n
                     FROM export_jobs WHERE finished_at IS NOT NULL AND id <> '{export}') AS job
         CROSS JOIN LATERAL (SELECT job.n % 100 = 0 AS is_given_up) AS choice
         CROSS JOIN LATERAL jsonb_populate_record(delivery, jsonb_build_object(
             'id', pg_temp.id_at(job.finished_at, job.n),
             'subject', job.object_prefix,
             'item', delivery.item + job.n,
             'state', CASE WHEN choice.is_given_up THEN 'given_up' ELSE 'delivered' END,
             'attempts', CASE WHEN choice.is_given_up THEN 12 ELSE 1 END,
             'created_at', job.finished_at, 'retry_until', job.finished_at + 86400000,
             'next_at', NULL,
             'last_status', CASE WHEN NOT choice.is_given_up THEN 200 END,
             'last_error', CASE WHEN choice.is_given_up THEN delivery.last_error END,
             'finished_at', job.finished_at + 500)) AS copy
         WHERE delivery.id = (SELECT id FROM deliveries LIMIT 1)"
    );
    vec![
        ("exports", jobs),
        ("counts of exports", counts),
        ("files of exports", parts),
        ("deliveries", deliveries),
    ]
}

fn sends(originals: &Originals) -> Statements {
    let Originals { dispatch, users, .. } = originals;
    let dispatches = format!(
        "INSERT INTO dispatches
         SELECT copy.* FROM dispatches AS dispatch
         CROSS JOIN sends
         CROSS JOIN LATERAL jsonb_populate_record(dispatch, jsonb_build_object(
             'id', sends.id,
             'order_json', replace(dispatch.order_json, dispatch.id::text, sends.id::text),
             'state', CASE WHEN sends.runs THEN 'running' ELSE 'done' END,
             'users', sends.users,
             'parts', (sends.users + {PER_PART} - 1) / {PER_PART},
             'parts_left', CASE WHEN sends.runs THEN 1 ELSE 0 END,
             'request_id', gen_random_uuid(),
             'accepted_at', sends.at, 'started_at', sends.at + 1000,
             'finished_at', CASE WHEN NOT sends.runs THEN sends.at + 60000 END)) AS copy
         WHERE dispatch.id = '{dispatch}'"
    );
    let parts = format!(
        "INSERT INTO dispatch_parts
         SELECT copy.* FROM dispatch_parts AS original
         CROSS JOIN sends
         CROSS JOIN LATERAL generate_series(1, (sends.users + {PER_PART} - 1) / {PER_PART}) AS number
         CROSS JOIN LATERAL (
             SELECT least({PER_PART}, sends.users - (number - 1) * {PER_PART}) AS users) AS new
         CROSS JOIN LATERAL jsonb_populate_record(original, jsonb_build_object(
             'dispatch_id', sends.id, 'part', number,
             'is_walked', TRUE, 'is_done', NOT sends.runs,
             'walked', new.users, 'not_in_audience', 0,
             'sent', new.users - new.users / 50, 'failed', new.users / 50)) AS copy
         WHERE original.dispatch_id = '{dispatch}'
           AND original.part = (SELECT min(part) FROM dispatch_parts WHERE dispatch_id = '{dispatch}')"
    );
    let messages = format!(
        "INSERT INTO messages
         SELECT copy.* FROM messages AS message
         CROSS JOIN sends
         CROSS JOIN LATERAL generate_series(0, sends.users - 1) AS i
         JOIN numbered ON numbered.number = (sends.n * {PER_SEND} + i) % {users}
         CROSS JOIN LATERAL (SELECT i % 50 = 49 AS has_failed) AS choice
         CROSS JOIN LATERAL jsonb_populate_record(message, jsonb_build_object(
             'service_id', numbered.service_id,
             'dispatch_id', sends.id,
             'part', 1 + i / {PER_PART},
             'state', CASE WHEN choice.has_failed THEN 'failed' ELSE 'sent' END,
             'reason', CASE WHEN choice.has_failed THEN 'The provider responded with 400' END,
             'created_at', sends.at,
             'sent_at', CASE WHEN NOT choice.has_failed THEN sends.at + 2000 END)) AS copy
         WHERE message.dispatch_id = '{dispatch}'
           AND message.service_id = (SELECT service_id FROM messages
                                     WHERE dispatch_id = '{dispatch}' LIMIT 1)"
    );
    let records = format!(
        "INSERT INTO console_log (dispatch_id, workspace_id, at, record)
         SELECT sends.id, logged.workspace_id, sends.at,
                replace(logged.record, '{dispatch}', sends.id::text)
         FROM console_log AS logged CROSS JOIN sends
         WHERE logged.dispatch_id = '{dispatch}' AND NOT sends.runs"
    );
    vec![
        ("sends", dispatches),
        ("parts of sends", parts),
        ("messages", messages),
        ("records of the developer console", records),
    ]
}

/// Everything else that has a list.
fn lists(originals: &Originals, sizes: Sizes) -> Statements {
    let Originals { workspace, now, .. } = originals;
    let exports = sizes.exports;
    let schedules = format!(
        "INSERT INTO schedules
         SELECT copy.* FROM schedules AS schedule
         CROSS JOIN generate_series(1, {SOME}) AS n
         CROSS JOIN LATERAL (SELECT pg_temp.id_at({now}, n) AS dispatch_id) AS new
         CROSS JOIN LATERAL jsonb_populate_record(schedule, jsonb_build_object(
             'id', pg_temp.id_at(schedule.created_at, n),
             'dispatch_id', new.dispatch_id,
             'request', replace(schedule.request, schedule.dispatch_id::text, new.dispatch_id::text),
             'item', schedule.item + n,
             'time', schedule.time + n * 60000::bigint)) AS copy"
    );
    let audited = format!(
        "INSERT INTO audit_log (id, at, workspace_id, actor, action, object, address, details)
         SELECT pg_temp.id_at(at, n), at, {workspace}, 'console:person-' || n % 50,
                (ARRAY['export.request', 'export.cancel', 'user.view'])[1 + n % 3],
                gen_random_uuid()::text, '192.0.2.' || n % 250, '{{}}'
         FROM generate_series(1, {exports}) AS n
         CROSS JOIN LATERAL (SELECT {now} - n * {HISTORY_MS} / {exports} AS at) AS times"
    );
    let metrics = Metric::ALL.map(Metric::name).join(",");
    let history = format!(
        "INSERT INTO history (step, workspace_id, at, metric, value)
         SELECT step, workspace, at, metric, 1 + n * 7919 % 1000
         FROM (VALUES (60000::bigint, 1440), (3600000, 8760)) AS steps (step, kept)
         CROSS JOIN LATERAL generate_series(1, kept) AS n
         CROSS JOIN LATERAL (SELECT ({now} / step - n) * step AS at) AS times
         CROSS JOIN (VALUES (0), ({workspace})) AS scopes (workspace)
         CROSS JOIN unnest(string_to_array('{metrics}', ',')) AS metric
         WHERE (workspace = 0) = (metric IN ('log_behind', 'oldest_work_ms', 'dead_letters'))
         ON CONFLICT DO NOTHING"
    );
    let keys = format!(
        "INSERT INTO api_keys
         SELECT copy.* FROM api_keys AS key
         CROSS JOIN generate_series(1, {FEW}) AS n
         CROSS JOIN LATERAL jsonb_populate_record(key, jsonb_build_object(
             'id', gen_random_uuid(), 'name', 'program ' || n, 'declared', FALSE,
             'hash', sha256(n::text::bytea)::text,
             'revoked_at', CASE WHEN n % 2 = 0 THEN key.created_at + n END)) AS copy
         WHERE key.workspace_id = {workspace}"
    );
    let segments = format!(
        "INSERT INTO segments (workspace_id, id, name, audience)
         SELECT workspace_id, gen_random_uuid(), name || ' ' || n, audience
         FROM segments CROSS JOIN generate_series(1, {FEW}) AS n WHERE id = '{SEGMENT}'"
    );
    let campaigns = format!(
        "INSERT INTO campaigns
         SELECT copy.* FROM campaigns AS campaign
         CROSS JOIN generate_series(1, {FEW}) AS n
         CROSS JOIN LATERAL jsonb_populate_record(campaign, jsonb_build_object(
             'id', gen_random_uuid(), 'number', campaign.number + n,
             'name', campaign.name || ' ' || n)) AS copy
         WHERE campaign.id = '{CAMPAIGN}'"
    );
    let items = format!(
        "INSERT INTO catalog_items
         SELECT copy.* FROM catalog_items AS item
         CROSS JOIN generate_series(1, {MANY}) AS n
         CROSS JOIN LATERAL jsonb_populate_record(item, jsonb_build_object(
             'item_id', 'item-' || n)) AS copy"
    );
    let products = format!(
        "INSERT INTO products (workspace_id, product_id)
         SELECT {workspace}, 'product-' || n FROM generate_series(1, {SOME} / 2) AS n
         ON CONFLICT DO NOTHING"
    );
    let numbers = format!(
        "INSERT INTO invalid_numbers (workspace_id, number, reason, added_at)
         SELECT {workspace}, (4915100000000 + n)::text, 'The provider reports: unknown subscriber',
                {now} - n
         FROM generate_series(1, {MANY}) AS n"
    );
    let letters = format!(
        "INSERT INTO dead_letters (id, consumer_group, topic, partition, position, appended_at, key,
                                   payload, request_id, reason, attempts, created_at, workspace_id)
         SELECT pg_temp.id_at(at, n), 'tracking', 'tracking', n % 4, n, at, ''::bytea,
                convert_to('[{{\"external_id\":\"customer-' || n || '\"}}]', 'UTF8'),
                gen_random_uuid()::text, 'the payload is not a message', 1, at, {workspace}
         FROM generate_series(1, {SOME}) AS n
         CROSS JOIN LATERAL (SELECT {now} - n * {HISTORY_MS} / {SOME} AS at) AS times"
    );
    let people = format!(
        "INSERT INTO dashboard_users
         SELECT copy.* FROM dashboard_users AS person
         CROSS JOIN generate_series(1, {FEW}) AS n
         CROSS JOIN LATERAL (SELECT 'person-' || n || '@acme.example' AS name) AS new
         CROSS JOIN LATERAL jsonb_populate_record(person, jsonb_build_object(
             'id', gen_random_uuid(), 'name_key', new.name, 'declared_key', NULL,
             'doc', replace(person.doc, '{PERSON}', new.name))) AS copy"
    );
    vec![
        ("schedules", schedules),
        ("entries of the audit log", audited),
        ("values of the history", history),
        ("API keys", keys),
        ("segments", segments),
        ("campaigns", campaigns),
        ("items of a catalog", items),
        ("products", products),
        ("invalid phone numbers", numbers),
        ("dead letters", letters),
        ("dashboard users", people),
    ]
}

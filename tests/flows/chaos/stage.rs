//! An installation with two gateways and some workers under a supervisor, the mixed load on it, and
//! checks of all its effects at the end, from outside.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::WORKERS;
use super::books::{Books, Ended};
use super::client::{Users, number_of};
use super::clocks::Clocks;
use super::gates::Gates;
use super::herd::Herd;
use super::ingest::service_ids;
use super::ledger::{EUR_RATE, FIELDS};
use super::load::{
    ADDRESSEES, CATALOG, ITEMS, Numbers, OWN, PLAIN, RECEIPT, World, alone_id, item_id,
};
use super::taken::Taken;
use crate::support::api::ALL_FIELDS;
use crate::support::channel_receivers::{ChannelReceivers, external_id, stored_cards};
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::free_port;
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile, open_work, stores, user_records};

pub const GATEWAYS: [&str; 2] = ["gateway-1", "gateway-2"];

/// Users of the workspace without own storage, which no test changes.
const STILL: usize = 1_200;

/// How long work in progress may stand still.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How it is to be.
pub struct Plan {
    pub seed: u64,
    /// Users that clients track.
    pub users: usize,
    /// In percent of the usual load.
    pub pace: u32,
    /// How far ahead is scheduled.
    pub ahead: Duration,
    /// Settings in addition to those of every test.
    pub settings: Vec<(&'static str, String)>,
    /// Whether clocks of processes can be set.
    pub with_clocks: bool,
}

pub struct Stage {
    pub herd: Arc<Herd>,
    pub world: Arc<World>,
    pub fleet: Fleet,
    pub clocks: Option<Clocks>,
    workspaces: Vec<WorkspaceFile>,
    segments: Vec<String>,
    storage: TestStorage,
    /// Where exports without own storage are built.
    _objects: TestStorage,
    still: Vec<String>,
}

impl Stage {
    pub async fn new(plan: Plan) -> Self {
        let (storage, objects) = (TestStorage::s3().await, TestStorage::s3().await);
        let mut settings = plan.settings;
        settings.push(("LONGSHORE_OBJECTS_URL", objects.objects_url()));
        settings.push(("RUST_LOG", "info".to_owned()));
        let fleet = Fleet::prepare(Backend::Fleet(0), &settings, |_| {}).await;
        let taken = Arc::new(Taken::start(fleet.directory().to_owned()).await);
        let workspaces = vec![own(&storage, &taken), WorkspaceFile::new("plain")];
        let item = |n| json!({ "id": item_id(n), "value": 0 }).to_string();
        fleet.write_file(
            "items.ndjson",
            (0..ITEMS).map(item).collect::<Vec<_>>().join("\n").as_bytes(),
        );
        fleet.apply(&workspaces).await;
        let records: Vec<String> = (0..plan.users).map(Users::record).collect();
        fleet.import("acme", &records).await;
        let users = Arc::new(Users {
            service_ids: service_ids(&fleet.database_url(), plan.users).await,
            new: plan.users / 50 + 1,
            // Long enough ago for whichever clock of a gateway.
            until: (Timestamp::now() - Duration::from_secs(7_200)).as_millisecond(),
            some_are_erased: false,
        });
        let addressees: Vec<String> = (0..ADDRESSEES).map(ChannelReceivers::record).collect();
        fleet.import("acme", &addressees).await;
        let still: Vec<String> = (0..STILL).map(|number| user_records::simple(number, 1)).collect();
        fleet.import("plain", &still).await;
        let mut segments = Vec::new();
        for workspace in &workspaces {
            segments.push(fleet.segment_id(&workspace.name).await);
        }

        let mut clocks = plan.with_clocks.then(|| Clocks::build(fleet.directory()));
        let (mut herd, mut gateways) = (Herd::new(&fleet), Vec::new());
        let scratch = fleet.directory().join("scratch").display().to_string();
        for name in GATEWAYS.iter().chain(&WORKERS) {
            let mut variables = vec![("TMPDIR", scratch.clone())];
            variables.extend(clocks.iter_mut().flat_map(|clocks| clocks.variables(name)));
            if !GATEWAYS.contains(name) {
                herd.add(name, &["worker"], &variables);
                continue;
            }
            let listen = format!("127.0.0.1:{}", free_port());
            variables.push(("LONGSHORE_LISTEN", listen.clone()));
            herd.add(name, &["gateway"], &variables);
            let keys = workspaces.iter().map(|workspace| &workspace.key);
            let apis = keys.map(|key| Api::new(&format!("http://{listen}"), key)).collect();
            gateways.push(((*name).to_owned(), apis));
        }
        let herd = Arc::new(herd);
        herd.all_ready().await;
        let secrets = workspaces.iter().map(|file| file.callback_secret.clone()).collect();
        let world = World {
            gates: Arc::new(Gates::new(herd.clone(), gateways)),
            books: Arc::default(),
            taken,
            users,
            secrets,
            operator: fleet.operator(),
            seed: plan.seed,
            pace: plan.pace,
            ahead: plan.ahead,
            is_quiet: Default::default(),
            numbers: Numbers::default(),
        };
        let world = Arc::new(world);
        Self { herd, world, fleet, clocks, workspaces, segments, storage, _objects: objects, still }
    }

    fn books(&self) -> &Books {
        &self.world.books
    }

    /// Looks at the exports that are done and that nobody has looked at: each user who was there
    /// from the beginning is in it once, nobody twice, and its files are whole.
    pub async fn check_exports(&self) -> usize {
        let ended = self.books().take_ended();
        for export in &ended {
            match export.workspace {
                OWN => self.check_own(export).await,
                _ => self.check_plain(export).await,
            }
        }
        ended.len()
    }

    async fn check_own(&self, Ended { status, .. }: &Ended) {
        let (prefix, days) = (text(status, "object_prefix"), days_of(status));
        let wanted = ExpectedExport { fields: &["external_id", "email"], days, prefix };
        let mut seen = HashSet::new();
        let files = checker::each_user(&self.storage, &self.segments[OWN], &wanted, |user| {
            let id = text(&user, "external_id").to_owned();
            assert!(seen.insert(id), "twice in {prefix}: {user}");
        })
        .await;
        // Who came to be while it was planned may be in it, too.
        let (users, total) = (&status["users"], &status["files"]["total"]);
        assert_eq!((json!(seen.len()), json!(files)), (users["done"].clone(), total.clone()));
        assert!(users["done"].as_u64() >= users["total"].as_u64(), "{status}");
        let from_the_beginning = (0..self.world.users.service_ids.len())
            .map(|number| format!("user-{number:06}"))
            .chain((0..ADDRESSEES).map(external_id));
        let missing: Vec<String> = from_the_beginning.filter(|id| !seen.contains(id)).collect();
        assert!(missing.is_empty(), "{prefix} lacks {} users: {:?}", missing.len(), missing[0]);
    }

    async fn check_plain(&self, Ended { status, url, .. }: &Ended) {
        let address = url.as_deref().unwrap_or_else(|| panic!("no url: {status}"));
        let files = checker::downloaded(&self.download(address).await);
        let (prefix, days) = (text(status, "object_prefix"), days_of(status));
        let wanted = ExpectedExport { fields: &ALL_FIELDS, days, prefix };
        let total = status["files"]["total"].as_u64().expect("a number") as usize;
        checker::check_export(&files, total, &self.still, &wanted);
    }

    /// What is behind a download address, by way of the first gateway.
    async fn download(&self, address: &str) -> Vec<u8> {
        let path = url::Url::parse(address).expect("an address");
        let query = path.query().unwrap_or_default();
        let path = format!("{}?{query}", path.path());
        let api = self.world.gates.at(0, PLAIN);
        let base = api.request(reqwest::Method::GET, &path).build().expect("a request");
        api.download(base.url().as_str()).await
    }

    /// Waits until all that is due by a time, and every callback, has come: no longer than so
    /// for less to be left.
    pub async fn all_received(&self, by: i64, timeout: Duration) {
        let (mut marks, mut paths) = self.books().due(by);
        let (mut least, mut since) = (usize::MAX, Instant::now());
        loop {
            self.world.taken.leave_missing(&mut marks, &mut paths);
            let left = marks.len() + paths.len();
            if left == 0 {
                return;
            }
            if left < least {
                (least, since) = (left, Instant::now());
            }
            assert!(since.elapsed() < timeout, "{marks:?} and callbacks at {paths:?} do not come");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Holds everything against the books, and ends; the load has ended before. Answers what was
    /// there, as text.
    pub async fn check(mut self) -> String {
        let summary = self.books().summary();
        self.herd.all_ready().await;
        let last = self.books().last_due().max(Timestamp::now().as_millisecond());
        let wait = last - Timestamp::now().as_millisecond();
        println!("waiting {} s for what is scheduled", wait / 1_000);
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
        self.fleet.applied().await;
        self.all_received(last, TIMEOUT).await;
        open_work::wait_until_done(&self.fleet).await;
        self.check_exports().await;
        self.check_tracked().await;
        let again = self.books().check_messages(&self.world.taken);
        let callbacks_again = self.books().check_callbacks(&self.world.taken);
        self.books().check_items(&self.stored_items().await);
        let database = self.fleet.database_url();
        self.books().check_cards(&stored_cards(&database).await);
        for sql in [
            "SELECT count(*) FROM dead_letters",
            "SELECT count(*) FROM deliveries WHERE state <> 'delivered'",
            "SELECT count(*) FROM messages WHERE state <> 'sent'",
            "SELECT count(*) FROM schedules WHERE state <> 'sent'",
            "SELECT count(*) FROM export_jobs WHERE state <> 'done'",
        ] {
            assert_eq!(stores::count(&database, sql).await, 0, "{sql}");
        }
        let (ends, false_starts) = self.herd.ends();
        let wrong = self.books().wrong();
        assert!(ends.is_empty() && wrong.is_empty(), "{}\n{}", ends.join("\n"), wrong.join("\n"));
        self.herd.each_printed(|_, text| self.fleet.assert_no_secret_in("a log", &text));
        for kept in ["scratch", "data"] {
            let path = self.fleet.directory().join(kept);
            assert!(!path.exists(), "a process of the fleet wrote something to {kept}");
        }
        for name in self.herd.names() {
            self.herd.terminate(&name).await;
        }
        self.clocks = None;
        format!(
            "{summary}: all as acknowledged; {again} messages and {callbacks_again} callbacks came \
             again, under the same id; {false_starts} starts came to nothing for want of a server"
        )
    }

    /// Holds an export that begins now, and the store, against what was acknowledged of users.
    async fn check_tracked(&self) {
        let (books, users, ledger) = (self.books(), &self.world.users, self.books().take_tracked());
        let api = self.world.gates.at(0, OWN);
        let prefix = api.export(&json!({ "fields_to_export": FIELDS })).await.prefix;
        let status = api.done(&prefix).await;
        let wanted = ExpectedExport { fields: &FIELDS, days: days_of(&status), prefix: &prefix };
        let (known, mut by_id, mut seen) =
            (users.service_ids.len(), HashMap::new(), BTreeSet::new());
        let (mut alone, mut undone) = (books.all_alone(), 0);
        checker::each_user(&self.storage, &self.segments[OWN], &wanted, |user| {
            let name = text(&user, "external_id");
            let id: Uuid = text(&user, "service_id").parse().expect("a UUID");
            assert!(seen.insert(name.to_owned()), "{name} is there twice");
            if let Some(number) = name.strip_prefix("alone-") {
                let number = number.parse().expect("a number");
                check_alone(name, &user);
                let expected = books.alone(number);
                let sure = expected.unwrap_or_else(|| panic!("nobody asked for {name}"));
                by_id.insert(id, None);
                undone += usize::from(!sure);
                alone.remove(&number);
            } else if name.starts_with("user-") {
                let number = number_of(name);
                assert!(number < known || ledger.has(number), "nobody made {number}: {user}");
                ledger.check(number, &user);
                by_id.insert(id, Some(number));
            } else {
                by_id.insert(id, None);
            }
        })
        .await;
        assert!(alone.is_empty(), "users of calls without a key are missing: {alone:?}");
        let all = (0..known + users.new).filter(|number| *number < known || ledger.has(*number));
        let missing: Vec<usize> =
            all.filter(|number| !seen.contains(&format!("user-{number:06}"))).collect();
        assert!(missing.is_empty(), "{} users are missing: {missing:?}", missing.len());
        ledger.check_revenue(&self.fleet.database_url(), &by_id).await;
        println!("of calls without a key whose answer is unknown {undone} were done");
    }

    /// The values of the catalog's items, as an operator has them written.
    async fn stored_items(&self) -> BTreeMap<String, u64> {
        let words = ["catalogs", "items", CATALOG, "--workspace", &self.workspaces[OWN].name];
        let printed = self.fleet.run(&words).await;
        let items = printed.lines().map(|line| {
            let item: Value = serde_json::from_str(line).expect("JSON");
            let value = item["value"].as_u64().unwrap_or_else(|| panic!("no value: {item}"));
            (text(&item, "id").to_owned(), value)
        });
        items.collect()
    }
}

/// The workspace that all is done in, but for exports without own storage.
fn own(storage: &TestStorage, taken: &Taken) -> WorkspaceFile {
    WorkspaceFile::new("acme")
        .permitted(&[
            "users.export.global_control_group",
            "users.track",
            "catalogs.update_items",
            "messages.send",
            "messages.schedule.create",
            "transactional.send",
        ])
        .unlimited()
        .with_storage(storage)
        .with("exchange_rates", json!({ "EUR": EUR_RATE }))
        .with("email", json!({ "smtp": taken.relay(), "from": "Acme <hello@acme.example>" }))
        .with(
            "catalogs",
            json!([{
                "name": CATALOG, "fields": [{ "name": "value", "type": "number" }],
                "items": "items.ndjson",
            }]),
        )
        .with(
            "campaigns",
            json!([{
                "id": RECEIPT, "name": "Receipt", "type": "transactional",
                "email": {
                    "subject": "mark:{{api_trigger_properties.${send}}}:transactional:{{${external_id}}};",
                    "body": "<p>Thank you</p>",
                },
            }]),
        )
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name}: {value}"))
}

/// The UTC days on which an export may have been done, by whichever clock.
fn days_of(status: &Value) -> Vec<jiff::civil::Date> {
    let mut days = checker::export_days(status);
    for day in days.clone() {
        days.extend([day.yesterday(), day.tomorrow()].into_iter().flatten());
    }
    days
}

/// All of the call, once.
fn check_alone(name: &str, user: &Value) {
    let visits = &user["custom_attributes"]["visits"];
    let counts = ["purchases", "custom_events"].map(|list| {
        let list = user[list].as_array().unwrap_or_else(|| panic!("no {list}: {user}"));
        (list.len(), list[0]["count"].clone())
    });
    assert_eq!(*visits, json!(1), "{name}: {user}");
    assert_eq!(counts, [(1, json!(1)), (1, json!(1))], "{name}: {user}");
    assert_eq!(name, alone_id(name["alone-".len()..].parse().expect("a number")));
}

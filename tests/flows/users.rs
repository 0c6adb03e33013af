//! Users on both databases: import, order, resolution, erasure; and the commands.

mod bodies;
mod checked;
mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use kit::clock::Clock;
use longshore::erase;
use longshore::users::activity::Activity;
use longshore::users::find::FindError;
use longshore::users::generate::Users;
use longshore::users::import::{BadLine, Importer, Input, Progress, Summary};
use longshore::users::moment::TransactionSnapshot;
use longshore::users::scan::{PartBoundaries, UserRange, cut, read};
use longshore::users::{Position, record, service_id};
use longshore::workspaces::{ChoiceError, Workspace, only_or_named};
use serde_json::{Value, json};
use store::Store;
use uuid::Uuid;

use crate::support::process;
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(World =>
    imported_users_are_read_once_and_in_order,
    stretches_have_exact_sizes_and_cross_slices,
    users_of_one_millisecond_are_ordered,
    a_slice_with_much_activity_is_read_whole,
    repeated_imports_create_no_duplicates,
    the_later_of_two_lines_wins,
    a_killed_import_is_finished_by_running_it_again,
    users_created_after_the_cut_are_not_read,
    another_workspace_is_not_touched,
    a_record_finds_its_user_by_id_then_alias_then_email,
    identifiers_survive_a_replaced_profile,
    identifiers_of_another_user_are_rejected,
    bad_lines_are_reported_and_the_rest_imported,
    bad_lines_are_counted_by_reason_bounded_and_kept,
    an_erased_user_leaves_nothing_behind,
    a_shared_address_erases_no_user,
    unexported_fields_are_stored,
    commands_report_their_changes,
);

const ALL: [i16; 100] = {
    let mut slices = [0; 100];
    let mut slice = 0;
    while slice < 100 {
        slices[slice] = slice as i16;
        slice += 1;
    }
    slices
};

struct World {
    test: TestStore,
    clock: Clock,
    workspace: Workspace,
}

/// A user as an export would read it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    position: Position,
    record: Value,
}

async fn chosen(store: &Store, name: Option<&str>) -> Result<Workspace, ChoiceError> {
    only_or_named(&mut store.snapshot().await?, name).await
}

impl World {
    async fn new(test: TestStore) -> Self {
        test.workspace("acme").await;
        let workspace = chosen(&test.store, None).await.unwrap();
        Self { test, clock: Clock::system(), workspace }
    }

    fn store(&self) -> &Store {
        &self.test.store
    }

    fn importer(&self) -> Importer {
        Importer::new(self.store().clone(), self.clock.clone(), self.workspace.clone())
    }

    /// Imports lines; returns what was done and what was notified of bad ones.
    async fn import(&self, lines: &[impl AsRef<str>]) -> (Summary, Vec<BadLine>) {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        let input = Input::new("users.json", Cursor::new(lines.join("\n")));
        let mut bad = Vec::new();
        let summary = self
            .importer()
            .run(vec![input], |progress| {
                if let Progress::Bad(line) = progress {
                    bad.push(line.clone());
                }
            })
            .await
            .unwrap();
        (summary, bad)
    }

    /// Imports lines that are all good.
    async fn import_well(&self, lines: &[impl AsRef<str>]) -> Summary {
        let (summary, bad) = self.import(lines).await;
        assert_eq!(bad, []);
        summary
    }

    async fn cut(&self, slices: &[i16], per_part: u32) -> PartBoundaries {
        let mut tx = self.store().snapshot().await.unwrap();
        cut(&mut tx, self.workspace.id, slices, per_part).await.unwrap()
    }

    /// The users of each stretch of `cuts`.
    async fn stretches(&self, slices: &[i16], cuts: &PartBoundaries) -> Vec<Vec<Seen>> {
        let mut stretches = Vec::new();
        let mut after = Position::START;
        for &up_to in &cuts.ends {
            let (workspace, youngest) = (self.workspace.id, cuts.youngest);
            let stretch = UserRange { workspace, slices, after, up_to, youngest, activity: true };
            let mut users = Vec::new();
            let mut tx = self.store().snapshot().await.unwrap();
            let done = read(&mut tx, &stretch, &TransactionSnapshot::endless(), |user| {
                let activity = user.activity.map(|body| Activity::decode(body).unwrap());
                let record = record::show(
                    user.doc,
                    &activity.unwrap_or_default(),
                    self.clock.today(),
                    "USD",
                    &BTreeMap::new(),
                );
                let bucket = service_id::bucket(&user.service_id).unwrap();
                let slice = service_id::slice_of(bucket);
                let position = Position { slice, service_id: user.service_id };
                users.push(Seen { position, record: serde_json::from_str(&record).unwrap() });
                Ok::<(), Infallible>(())
            })
            .await
            .unwrap();
            assert_eq!(done, Ok(()));
            stretches.push(users);
            after = up_to;
        }
        stretches
    }

    async fn everybody(&self) -> Vec<Seen> {
        let cuts = self.cut(&ALL, 1_000).await;
        let everybody = self.stretches(&ALL, &cuts).await.concat();
        assert_eq!(everybody.len() as i64, cuts.users);
        everybody
    }

    async fn count(&self) -> i64 {
        self.cut(&ALL, 5_000).await.users
    }

    async fn show(&self, id: &str) -> Result<Value, FindError> {
        let shown =
            longshore::users::find::show(self.store(), &self.clock, &self.workspace, id).await?;
        Ok(serde_json::from_str(&shown).unwrap())
    }

    /// Rows of a table, of every workspace.
    async fn rows(&self, table: &str) -> i64 {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        on_pool!(self.store(), pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap()
    }

    /// The program, on this world's store.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = process::command(&self.test.config.data, &self.test.environment());
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program with `input`; returns whether it exited with 0, and its two outputs.
    fn run(&self, arguments: &[&str], input: &str) -> (bool, String, String) {
        let mut child = self.command(arguments).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    /// Makes the store an installation: commands work on nothing else.
    fn migrate(&self) {
        let (ok, _, err) = self.run(&["migrate"], "");
        assert!(ok, "{err}");
    }
}

fn generated(users: u64) -> Vec<String> {
    let mut generator = Users::new(3, Clock::system().today());
    (0..users)
        .map(|number| {
            let mut line = String::new();
            generator.write(number, &mut line);
            line
        })
        .collect()
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Lines by service_id.
fn by_id(lines: &[String]) -> BTreeMap<Uuid, Value> {
    let values = lines.iter().map(|line| value(line));
    values.map(|user| (user["service_id"].as_str().unwrap().parse().unwrap(), user)).collect()
}

async fn imported_users_are_read_once_and_in_order(world: World) {
    let lines = generated(3_000);
    let summary = world.import_well(&lines).await;
    assert_eq!((summary.created, summary.replaced, summary.lines), (3_000, 0, 3_000));
    let seen = world.everybody().await;
    assert!(seen.is_sorted_by(|a, b| a.position < b.position));
    let seen: BTreeMap<Uuid, Value> =
        seen.into_iter().map(|user| (user.position.service_id, user.record)).collect();
    assert_eq!(seen, by_id(&lines));
}

async fn stretches_have_exact_sizes_and_cross_slices(world: World) {
    world.import_well(&generated(1_500)).await;
    for (per_part, sizes) in [
        (700, vec![700, 700, 100]),
        (500, vec![500, 500, 500]),
        (1_500, vec![1_500]),
        (5_000, vec![1_500]),
    ] {
        let cuts = world.cut(&ALL, per_part).await;
        let stretches = world.stretches(&ALL, &cuts).await;
        assert_eq!(stretches.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        for (stretch, end) in stretches.iter().zip(&cuts.ends) {
            assert_eq!(stretch.last().map(|user| user.position), Some(*end));
        }
        let slices: BTreeSet<i16> = stretches[0].iter().map(|user| user.position.slice).collect();
        assert!(slices.len() > 1, "a stretch lies in {slices:?}");
    }
    // A group of some slices, and one of which some are empty.
    let group = [2, 40, 41, 99];
    let cuts = world.cut(&group, 10).await;
    let members = world.stretches(&group, &cuts).await;
    let expected: Vec<Seen> = world
        .everybody()
        .await
        .into_iter()
        .filter(|user| group.contains(&user.position.slice))
        .collect();
    assert!(members[..members.len() - 1].iter().all(|stretch| stretch.len() == 10));
    assert_eq!(members.concat(), expected);
    assert_eq!(cuts.youngest, expected.iter().map(|user| user.position.service_id).max().unwrap());
    // Nobody at all.
    let nobody = PartBoundaries { users: 0, ends: Vec::new(), youngest: Uuid::nil() };
    assert_eq!(world.cut(&[], 10).await, nobody);
}

async fn users_of_one_millisecond_are_ordered(world: World) {
    // One bucket, one millisecond, few counters: keys collide, and come in no order.
    let id = |n: u64| service_id::new(1_700_000_000_000, (n % 3) as u16, 4_321, n * 7_919 % 101);
    let lines: Vec<String> =
        (0..100).map(|n| json!({"service_id": id(n), "first_name": "Ann"}).to_string()).collect();
    world.import_well(&lines[..50]).await;
    world.import_well(&lines[50..]).await;
    world.import_well(&lines).await;
    let mut expected: Vec<Uuid> = (0..100).map(id).collect();
    expected.sort_unstable();
    let cuts = world.cut(&ALL, 7).await;
    let stretches = world.stretches(&ALL, &cuts).await;
    assert_eq!(stretches.len(), 15);
    assert!(stretches[..14].iter().all(|stretch| stretch.len() == 7));
    let seen: Vec<Uuid> =
        stretches.concat().into_iter().map(|user| user.position.service_id).collect();
    assert_eq!(seen, expected);
}

async fn a_slice_with_much_activity_is_read_whole(world: World) {
    let at = "2020-01-01T00:00:00.000Z";
    let now = kit::clock::format_time(world.clock.now_ms());
    let lines: Vec<String> = (0..2_300)
        .map(|n| {
            // Some with activity, some without, some with activity that is too old to keep.
            let at = if n % 3 == 0 { at } else { now.as_str() };
            let events = match n % 7 {
                0 => json!([]),
                _ => json!([{"name": format!("e{n}"), "first": at, "last": at, "count": 1}]),
            };
            let id = format!("u{n}");
            json!({"external_id": id, "random_bucket": 555, "custom_events": events}).to_string()
        })
        .collect();
    world.import_well(&lines).await;
    let seen = world.everybody().await;
    assert_eq!(seen.len(), 2_300);
    for user in seen {
        let n: u32 = user.record["external_id"].as_str().unwrap()[1..].parse().unwrap();
        let event = user.record.get("custom_events").map(|events| events[0]["name"].clone());
        let expected =
            (!n.is_multiple_of(7) && !n.is_multiple_of(3)).then(|| json!(format!("e{n}")));
        assert_eq!((event, user.position.slice), (expected, 5));
    }
}

async fn repeated_imports_create_no_duplicates(world: World) {
    let lines = generated(600);
    world.import_well(&lines).await;
    let before = world.everybody().await;
    let tables = ["users", "activity", "identifiers", "emails"];
    let mut counts = Vec::new();
    for table in tables {
        counts.push(world.rows(table).await);
    }
    let again = world.import_well(&lines).await;
    assert_eq!((again.created, again.replaced), (0, 600));
    assert_eq!(world.everybody().await, before);
    for (table, count) in tables.into_iter().zip(counts) {
        assert_eq!(world.rows(table).await, count, "{table}");
    }
    // A change replaces the whole: what the new record lacks is gone, its activity too.
    let id = before[0].position.service_id;
    world.import_well(&[json!({"service_id": id, "first_name": "Neu"}).to_string()]).await;
    let changed = world.show(&id.to_string()).await.unwrap();
    assert_eq!(changed["first_name"], "Neu");
    assert_eq!(changed["created_at"], before[0].record["created_at"]);
    for gone in ["country", "custom_attributes", "custom_events", "purchases", "total_revenue"] {
        assert_eq!(changed.get(gone), None, "{gone}");
    }
    assert_eq!(world.count().await, 600);
}

async fn the_later_of_two_lines_wins(world: World) {
    let line = |id: &str, name: &str| json!({"external_id": id, "first_name": name}).to_string();
    let summary =
        world.import_well(&[line("a", "1"), line("b", "1"), line("a", "2"), line("a", "3")]).await;
    assert_eq!((summary.created, summary.replaced), (2, 2));
    assert_eq!(world.show("a").await.unwrap()["first_name"], "3");
    assert_eq!(world.show("b").await.unwrap()["first_name"], "1");
    assert_eq!((world.count().await, world.rows("identifiers").await), (2, 2));
    // An id that moves on within a batch is free for the next.
    let moved = service_id::new(1_700_000_000_000, 0, 1, 1);
    world
        .import_well(&[
            json!({"service_id": moved, "external_id": "x"}).to_string(),
            json!({"service_id": moved, "external_id": "y"}).to_string(),
            line("x", "another"),
        ])
        .await;
    assert_eq!(world.show("y").await.unwrap()["service_id"], json!(moved));
    assert_ne!(world.show("x").await.unwrap()["service_id"], json!(moved));
}

/// Waits until the import has written somebody.
async fn until_a_user_is_imported(world: &World, child: &mut Child) {
    crate::support::eventually("somebody is imported", || async { world.count().await > 0 }).await;
    assert!(child.try_wait().unwrap().is_none(), "it waits for more");
}

async fn a_killed_import_is_finished_by_running_it_again(world: World) {
    world.migrate();
    // Without service_ids: who is in is known by external_id, alias or email alone.
    let lines: Vec<String> = (0..9_000)
        .map(|n| match n % 3 {
            0 => json!({"external_id": format!("e{n}"), "email": format!("{n}@a.example")}),
            1 => json!({"user_aliases": [{"alias_name": format!("a{n}"), "alias_label": "crm"}]}),
            _ => json!({"email": format!("{n}@b.example")}),
        })
        .map(|line| line.to_string())
        .collect();
    let mut child = world.command(&["import", "-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all((lines[..7_000].join("\n") + "\n").as_bytes()).unwrap();
    stdin.flush().unwrap();
    until_a_user_is_imported(&world, &mut child).await;
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    let first = world.count().await;
    assert!((1..9_000).contains(&first), "{first} users after the kill");
    let (ok, out, err) = world.run(&["import", "-", "--json"], &lines.join("\n"));
    assert!(ok, "{err}");
    let summary = value(&out);
    assert_eq!(summary["replaced"].as_i64(), Some(first));
    assert_eq!(summary["created"].as_i64(), Some(9_000 - first));
    assert_eq!(world.count().await, 9_000);
    assert_eq!(world.rows("identifiers").await, 6_000);
    assert_eq!(world.rows("emails").await, 6_000);
}

async fn users_created_after_the_cut_are_not_read(world: World) {
    world.import_well(&generated(300)).await;
    let before = world.everybody().await;
    let cuts = world.cut(&ALL, 120).await;
    let later: Vec<String> =
        (0..200).map(|n| json!({"external_id": format!("late{n}")}).to_string()).collect();
    world.import_well(&later).await;
    assert_eq!(world.count().await, 500);
    let stretches = world.stretches(&ALL, &cuts).await;
    assert_eq!(stretches.iter().map(Vec::len).collect::<Vec<_>>(), [120, 120, 60]);
    assert_eq!(stretches.concat(), before);
}

async fn another_workspace_is_not_touched(world: World) {
    let lines = generated(200);
    world.import_well(&lines).await;
    world.test.workspace("other").await;
    assert!(chosen(world.store(), None).await.unwrap_err().to_string().contains("acme, other"));
    assert!(chosen(world.store(), Some("third")).await.is_err());
    let other = chosen(world.store(), Some("other")).await.unwrap();
    let world = World { workspace: other, ..world };
    assert_eq!(world.count().await, 0);
    // The same people, under the same ids, once more.
    let summary = world.import_well(&lines).await;
    assert_eq!((summary.created, world.count().await), (200, 200));
    let id = value(&lines[0])["service_id"].as_str().unwrap().to_owned();
    erase::erase(world.store(), &world.workspace, &id).await.unwrap();
    assert_eq!((world.count().await, world.rows("users").await), (199, 399));
}

async fn a_record_finds_its_user_by_id_then_alias_then_email(world: World) {
    let alias = |name: &str| json!([{"alias_name": name, "alias_label": "crm"}]);
    world
        .import_well(&[
            json!({"external_id": "ann", "email": "Ann@acme.example", "user_aliases": alias("1")})
                .to_string(),
            json!({"user_aliases": alias("2"), "email": "bob@acme.example"}).to_string(),
            json!({"email": "cat@acme.example"}).to_string(),
            json!({"external_id": "cat", "email": "cat@acme.example"}).to_string(),
        ])
        .await;
    assert_eq!(world.count().await, 4);
    for (record, user) in [
        (json!({"external_id": "ann", "last_name": "x1"}), "ann"),
        (json!({"user_aliases": alias("1"), "last_name": "x2"}), "ann"),
        // Nobody has this external_id, and the alias belongs to one without any.
        (json!({"external_id": "bob", "user_aliases": alias("2"), "last_name": "x3"}), "bob"),
        // Two have the address: the one with an external_id counts.
        (json!({"email": "CAT@acme.example", "last_name": "x4"}), "cat"),
    ] {
        let summary = world.import_well(&[record.to_string()]).await;
        assert_eq!((summary.created, summary.replaced), (0, 1), "{record}");
        assert_eq!(world.show(user).await.unwrap()["last_name"], record["last_name"]);
    }
    // The address alone names nobody where an external_id is given.
    world
        .import_well(&[json!({"external_id": "new", "email": "cat@acme.example"}).to_string()])
        .await;
    assert_eq!(world.count().await, 5);
}

async fn identifiers_survive_a_replaced_profile(world: World) {
    let alias = json!([{"alias_name": "1", "alias_label": "crm"}]);
    world
        .import_well(&[json!({
            "external_id": "ann", "user_aliases": alias, "email": "a@b.example",
            "random_bucket": 77, "created_at": "2015-01-01T00:00:00Z", "country": "US",
        })
        .to_string()])
        .await;
    let before = world.show("ann").await.unwrap();
    assert_eq!((&before["random_bucket"], &before["country"]), (&json!(77), &json!("US")));
    world.import_well(&[json!({"email": "a@b.example", "random_bucket": 5}).to_string()]).await;
    let after = world.show("ann").await.unwrap();
    for kept in ["service_id", "external_id", "user_aliases", "random_bucket", "created_at"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    assert_eq!(after.get("country"), None);
}

async fn bad_lines_are_counted_by_reason_bounded_and_kept(world: World) {
    world.migrate();
    let data = &world.test.config.data;
    let write = |name: &str, lines: &[String]| {
        let path = data.join(name).display().to_string();
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    };
    // A CSV is said to be one, once, and nothing of it is tried as a line.
    let rows: Vec<String> = (0..50).map(|n| format!("u{n},u{n}@acme.example")).collect();
    let csv = write("users.csv", &[vec!["external_id,email".to_owned()], rows].concat());
    let (ok, out, err) = world.run(&["import", &csv, "--json"], "");
    assert!(!ok && err.contains("CSV") && err.contains("external_id, email"), "{err}");
    assert_eq!(value(&out)["bad"], 1, "{out}");

    let mut lines: Vec<String> = (0..30)
        .map(|n| json!({"external_id": format!("u{n}"), "gender": "x"}).to_string())
        .collect();
    lines.extend((0..5).map(|n| format!("{{\"external_id\":{n}")));
    // Refused by the store, and not by the look at the line.
    let alias = json!([{"alias_name": "1", "alias_label": "crm"}]);
    lines.push(json!({"external_id": "ann", "user_aliases": alias}).to_string());
    let other = json!({"external_id": "ben", "user_aliases": alias}).to_string();
    lines.push(other.clone());
    let file = write("bad.ndjson", &lines);
    let rejects = data.join("rejects.ndjson").display().to_string();
    let (ok, out, err) = world.run(&["import", &file, "--rejects", &rejects, "--json"], "");
    assert!(!ok, "{err}");
    let summary = value(&out);
    assert_eq!((&summary["created"], &summary["bad"]), (&json!(1), &json!(36)), "{summary}");
    let counts: Vec<u64> =
        summary["reasons"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, 36), "{summary}");
    // Twenty lines by themselves, then each reason once.
    let prefix = format!("{file}:");
    assert_eq!(err.lines().filter(|line| line.starts_with(&prefix)).count(), 20, "{err}");
    let counted =
        |count: &str| err.lines().filter(|line| line.trim_start().starts_with(count)).count();
    assert_eq!(
        (counted("30  gender"), counted("5  not a JSON"), counted("1  ")),
        (1, 1, 1),
        "{err}"
    );
    // What was rejected is kept as it was, and only for its owner.
    let kept = std::fs::read_to_string(&rejects).unwrap();
    let expected: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| !line.contains("\"ann\"")).collect();
    assert_eq!(kept.lines().collect::<Vec<_>>(), expected);
    let mode = std::fs::metadata(&rejects).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // A file that exists is never overwritten: it may be the one that is imported.
    let (ok, _, err) = world.run(&["import", &rejects, "--rejects", &rejects], "");
    assert!(!ok && err.contains(&rejects), "{err}");
    assert_eq!(std::fs::read_to_string(&rejects).unwrap(), kept);
    // Where nothing is rejected there is no file.
    let none = data.join("none.ndjson");
    let good = write("good.ndjson", &[json!({"external_id": "cat"}).to_string()]);
    let (ok, _, err) =
        world.run(&["import", &good, "--rejects", none.to_str().unwrap(), "--max-errors", "0"], "");
    assert!(ok && !none.exists(), "{err}");

    // The import stops, and what follows is not read.
    let bad = vec!["x".to_owned(); 5_000];
    let good = json!({"external_id": "dan"}).to_string();
    let file = write("many.ndjson", &[bad, vec![good]].concat());
    let (ok, out, err) = world.run(&["import", &file, "--max-errors", "10", "--json"], "");
    assert!(!ok && err.contains("--max-errors"), "{err}");
    let summary = value(&out);
    assert_eq!((&summary["stopped"], &summary["created"]), (&json!(true), &json!(0)), "{summary}");
    assert!(summary["lines"].as_u64().unwrap() < 5_000, "{summary}");
    let (ok, _, _) = world.run(&["import", &file, "--max-errors", "5000"], "");
    assert!(!ok && world.show("dan").await.is_ok());
}

async fn identifiers_of_another_user_are_rejected(world: World) {
    let alias = |name: &str| json!([{"alias_name": name, "alias_label": "crm"}]);
    let lines = [
        json!({"external_id": "ann", "user_aliases": alias("1")}),
        json!({"external_id": "bob", "user_aliases": alias("1")}),
        json!({"external_id": "cat", "user_aliases": alias("2")}),
        json!({"external_id": "ann", "user_aliases": alias("2"), "first_name": "Ann"}),
        json!({"external_id": "dan"}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    // In one batch, and against what is stored.
    for _ in 0..2 {
        let (summary, bad) = world.import(&lines).await;
        assert_eq!((summary.created + summary.replaced, summary.bad), (3, 2));
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 4]);
        assert!(bad.iter().all(|bad| bad.reason.contains("belongs to another user")), "{bad:?}");
    }
    assert_eq!(world.show("ann").await.unwrap().get("first_name"), None);
    assert_eq!(world.count().await, 3);
}

async fn bad_lines_are_reported_and_the_rest_imported(world: World) {
    let future = service_id::new(world.clock.now_ms() + 3_600_000, 0, 7, 7);
    let large = "x".repeat(1 << 20);
    let lines = [
        json!({"external_id": "good1"}).to_string(),
        "{\"external_id\":".to_owned(),
        String::new(),
        json!({"first_name": "nobody"}).to_string(),
        json!({"service_id": Uuid::from_u128(7)}).to_string(),
        json!({"service_id": future}).to_string(),
        json!({"external_id": "e", "phone": "0171"}).to_string(),
        json!({"external_id": "e", "custom_attributes": {"large": large}}).to_string(),
        json!({"external_id": "good2", "hat_size": 5}).to_string(),
    ];
    let (summary, bad) = world.import(&lines).await;
    assert_eq!((summary.created, summary.bad, summary.lines), (2, 6, 8));
    assert_eq!(summary.ignored, BTreeMap::from([("hat_size".to_owned(), 1)]));
    assert!(bad.iter().all(|bad| bad.file == "users.json"));
    let told: Vec<(u64, &str)> = bad.iter().map(|bad| (bad.line, bad.reason.as_str())).collect();
    for (told, (line, part)) in told.iter().zip([
        (2, "not a JSON object"),
        (4, "Missing user identifier"),
        (5, "service_id"),
        (6, "service_id"),
        (7, "phone"),
        (8, "larger than"),
    ]) {
        assert!(told.0 == line && told.1.contains(part), "{told:?}");
    }
    assert_eq!(world.count().await, 2);
}

async fn an_erased_user_leaves_nothing_behind(world: World) {
    let now = kit::clock::format_time(world.clock.now_ms());
    let line = json!({
        "external_id": "ann", "email": "ann@acme.example",
        "user_aliases": [{"alias_name": "1", "alias_label": "crm"}],
        "custom_events": [{"name": "seen", "first": now, "last": now, "count": 1}],
    })
    .to_string();
    for id in ["ann", "ANN@acme.example", ""] {
        world.import_well(&[line.as_str()]).await;
        let shown = world.show("ann").await.unwrap();
        let service_id = shown["service_id"].as_str().unwrap();
        let id = if id.is_empty() { service_id } else { id };
        let erased = erase::erase(world.store(), &world.workspace, id).await.unwrap();
        assert_eq!(erased.to_string(), service_id);
        for table in ["users", "activity", "identifiers", "emails"] {
            assert_eq!(world.rows(table).await, 0, "{table} after {id}");
        }
        assert!(matches!(world.show(id).await, Err(FindError::NotFound(_))));
    }
}

async fn a_shared_address_erases_no_user(world: World) {
    world
        .import_well(&[
            json!({"external_id": "a", "email": "x@acme.example"}).to_string(),
            json!({"external_id": "b", "email": "x@acme.example"}).to_string(),
        ])
        .await;
    let refused = erase::erase(world.store(), &world.workspace, "x@acme.example").await;
    assert!(matches!(refused, Err(FindError::Several(ids)) if ids.len() == 2));
    assert_eq!(world.count().await, 2);
}

async fn unexported_fields_are_stored(world: World) {
    let stored = json!({
        "email_subscribe": "opted_in", "push_subscribe": "unsubscribed",
        "push_tokens": [{"app_id": "a", "token": "t", "device_id": "d", "kind": "live_activity"}],
        "subscription_groups": [{"subscription_group_id": "g", "subscription_state": "subscribed"}],
        "current_location": {"longitude": 1.5, "latitude": -2},
        "date_of_first_session": "2021-06-28T17:02:43.032Z",
        "date_of_last_session": "2021-06-29T00:00:00.000Z",
    });
    let mut line = stored.clone();
    line["external_id"] = json!("ann");
    world.import_well(&[line.to_string()]).await;
    let shown = world.show("ann").await.unwrap();
    for (name, value) in stored.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
}

async fn commands_report_their_changes(world: World) {
    world.migrate();
    let (ok, lines, _) = world.run(&["generate", "--users", "50", "--seed", "9"], "");
    assert!(ok && lines.lines().count() == 50);
    let (ok, out, err) = world.run(&["import", "-"], &lines);
    assert!(ok && out.starts_with("50 users in "), "{out}{err}");
    // An invalid line: reported by file and number, and with the exit status.
    let file = world.test.config.data.join("more.json");
    std::fs::write(&file, "{\"external_id\":\"ann\"}\n{\"gender\":\"x\"}\n").unwrap();
    let name = file.to_str().unwrap();
    let (ok, out, err) = world.run(&["import", name, "--json"], "");
    assert!(!ok && err.contains(&format!("{name}:2: gender: ")), "{err}");
    assert_eq!((value(&out)["created"].clone(), value(&out)["bad"].clone()), (json!(1), json!(1)));
    let (ok, out, _) = world.run(&["users", "show", "ann"], "");
    assert!(ok && out.contains("\n  \"external_id\": \"ann\""), "{out}");
    let (ok, out, err) = world.run(&["users", "delete", "ann", "ben"], "");
    assert!(
        !ok && out.starts_with("erased ann (") && err.contains("\"ben\", and no accepted request"),
        "{out}{err}"
    );
    assert!(!world.run(&["users", "show", "ann"], "").0);
    assert_eq!(world.count().await, 50);
}

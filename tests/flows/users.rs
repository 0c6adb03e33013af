//! Users on both databases: import, order, resolution, erasure; and the commands.

mod bodies;
mod checked;
mod generated;
mod identifiers;
mod interrupted;
mod kept;
mod phones;
mod reading;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use kit::clock::Clock;
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
    repeated_imports_create_no_duplicates,
    the_later_of_two_lines_wins,
    batches_that_share_users_are_written_in_their_order,
    a_killed_import_is_finished_by_running_it_again,
    bad_lines_are_reported_and_the_rest_imported,
    bad_lines_are_counted_by_reason_bounded_and_kept,
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
        cut(&mut tx, self.workspace.id, slices, per_part, usize::MAX).await.unwrap()
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

async fn batches_that_share_users_are_written_in_their_order(world: World) {
    const USERS: usize = 2_000;
    let alias = |n: usize| json!([{"alias_name": n.to_string(), "alias_label": "crm"}]);
    let line = |round: usize, n: usize| {
        // Neighbouring rounds have no identifier in common: only the store knows who they are
        // about.
        let mut line = if round.is_multiple_of(2) {
            json!({"external_id": format!("user-{n}")})
        } else {
            json!({"user_aliases": alias(n)})
        };
        line["first_name"] = json!(round.to_string());
        line.to_string()
    };
    let known: Vec<String> = (0..USERS)
        .map(|n| json!({"external_id": format!("user-{n}"), "user_aliases": alias(n)}).to_string())
        .collect();
    world.import_well(&known).await;
    let lines: Vec<String> =
        (0..8).flat_map(|round| (0..USERS).map(move |n| line(round, n))).collect();
    let summary = world.import_well(&lines).await;
    assert_eq!((summary.created, summary.replaced), (0, lines.len() as u64));
    let everybody = world.everybody().await;
    assert_eq!(everybody.len(), USERS);
    assert!(everybody.iter().all(|user| user.record["first_name"] == "7"));
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

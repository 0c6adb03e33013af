//! Holds an export against what was imported. It knows the API's rules on its own: plain
//! trees of JSON, and nothing of the program's.

mod manifest;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::archives::{self, Unpacked};
use super::storage::{PROOFS, TestStorage};

/// Users in a file at most.
const PER_FILE: usize = 5_000;

/// UTC days of purchases and events, with the day of the export.
const WINDOW: i64 = 90;

/// What an export should be.
pub struct ExpectedExport<'a> {
    pub fields: &'a [&'a str],
    /// The UTC days on which it may have been done: two around midnight.
    pub days: Vec<Date>,
    pub prefix: &'a str,
}

/// What the export may say about a user.
pub struct Outcome {
    /// One of these records.
    pub versions: Vec<Value>,
    /// Or nothing at all.
    pub may_be_absent: bool,
}

/// The UTC days from a request to the end of its export.
pub fn export_days(status: &Value) -> Vec<Date> {
    let day = |name: &str| {
        let text = status[name].as_str().unwrap_or_else(|| panic!("no {name}: {status}"));
        utc_day(text.parse().expect("a time in ISO 8601"))
    };
    let mut days = vec![day("requested_at"), day("finished_at")];
    days.dedup();
    days
}

fn utc_day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Each of `records` exactly once, as imported.
pub fn exactly(records: &[String]) -> BTreeMap<String, Outcome> {
    let records = records.iter().map(|record| {
        let record: Value = serde_json::from_str(record).expect("a record is JSON");
        let outcome = Outcome { versions: vec![record.clone()], may_be_absent: false };
        (identity(&record), outcome)
    });
    let count = records.len();
    let outcomes: BTreeMap<String, Outcome> = records.collect();
    assert_eq!(outcomes.len(), count, "records of one identity are no test");
    outcomes
}

/// What a user is known by: the external id, else an alias, the email, the service id.
pub fn identity(record: &Value) -> String {
    if let Some(id) = record["external_id"].as_str() {
        return format!("external {id}");
    }
    let aliases = &record["user_aliases"];
    let alias = if aliases.is_object() { aliases } else { &aliases[0] };
    if let (Some(label), Some(name)) = (alias["alias_label"].as_str(), alias["alias_name"].as_str())
    {
        return format!("alias {label} {name}");
    }
    match record["email"].as_str() {
        Some(email) => format!("email {}", email.to_lowercase()),
        None => format!("service {}", record["service_id"].as_str().unwrap_or("")),
    }
}

/// The files of an export in own storage: where they lie, what they are called, and that
/// each is an archive of one file of lines. In the order of the files' names.
pub async fn own_files(
    storage: &TestStorage,
    segment: &str,
    extension: &str,
    wanted: &ExpectedExport<'_>,
) -> Vec<Unpacked> {
    let mut files = Vec::new();
    let mut hashes = BTreeMap::new();
    for key in own_keys(storage, segment, extension, wanted).await {
        let file = storage.get(&key).await;
        hashes.insert(key.clone(), hex::encode(Sha256::digest(&file)));
        files.push(unpack(&key, &file, extension));
    }
    manifest::check(storage, &hashes, wanted).await;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// The keys of an export's files: that they lie where they should, and are called so.
pub async fn own_keys(
    storage: &TestStorage,
    segment: &str,
    extension: &str,
    wanted: &ExpectedExport<'_>,
) -> Vec<String> {
    let mut keys = Vec::new();
    let mut names = BTreeSet::new();
    let folder = format!("segment-export/{segment}/");
    for key in storage.list().await {
        let Some(rest) = key.strip_prefix(&folder).filter(|rest| rest.contains(wanted.prefix))
        else {
            continue;
        };
        if PROOFS.iter().any(|suffix| rest.ends_with(suffix)) {
            continue;
        }
        let parts: Vec<&str> = rest.split('/').collect();
        let [date, prefix, name] = parts[..] else { panic!("{key} has another depth") };
        assert_eq!(prefix, wanted.prefix, "{key}");
        assert!(wanted.days.iter().any(|day| day.to_string() == date), "{key}");
        let (name, found) = name.split_once('.').unwrap_or_else(|| panic!("{key}"));
        assert_eq!(found, extension, "{key}");
        assert!(Uuid::try_parse(name).is_ok(), "{key} has no random name");
        assert!(names.insert(name.to_owned()), "{key} is there twice");
        keys.push(key);
    }
    keys
}

/// The one file in an archive.
pub fn unpack(key: &str, archive: &[u8], extension: &str) -> Unpacked {
    archives::test_with_others(archive, extension);
    if extension == "gz" {
        return archives::gunzip(archive);
    }
    let mut unpacked = archives::unzip(archive);
    assert_eq!(unpacked.len(), 1, "{key} holds more than one file");
    unpacked.remove(0)
}

/// The files of the one ZIP behind a download address.
pub fn downloaded(archive: &[u8]) -> Vec<Unpacked> {
    archives::test_with_others(archive, "zip");
    let files = archives::unzip(archive);
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    assert!(files.iter().map(|file| file.name.as_str()).eq(names), "the files are in order");
    files
}

/// The users of an export, in its order. Checks the files' names and sizes.
pub fn lines(files: &[Unpacked], wanted: &ExpectedExport<'_>) -> Vec<Value> {
    let mut numbers = BTreeSet::new();
    files.iter().flat_map(|file| users_in_file(file, &mut numbers, wanted)).collect()
}

/// The users of a file. Its number is put to those of the files before.
fn users_in_file(
    Unpacked { name, bytes }: &Unpacked,
    numbers: &mut BTreeSet<u32>,
    wanted: &ExpectedExport<'_>,
) -> Vec<Value> {
    let number = name
        .strip_prefix(&format!("{}_", wanted.prefix))
        .and_then(|rest| rest.strip_suffix(".json"))
        .filter(|number| number.len() == 6)
        .and_then(|number| number.parse::<u32>().ok())
        .unwrap_or_else(|| panic!("{name} is not called as an export's file"));
    assert!(numbers.insert(number), "{name} is there twice");
    let text = std::str::from_utf8(bytes).expect("files are UTF-8");
    assert!(text.ends_with('\n'), "{name} does not end with a line break");
    let user = |line| {
        let user: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        assert!(user.is_object(), "{name}: {line}");
        user
    };
    let users: Vec<Value> = text.split_terminator('\n').map(user).collect();
    assert!((1..=PER_FILE).contains(&users.len()), "{name} has {} users", users.len());
    users
}

/// Holds each line against what may be, and looks for what is missing.
pub fn check(
    users: &[Value],
    mut outcomes: BTreeMap<String, Outcome>,
    wanted: &ExpectedExport<'_>,
) {
    let mut service_ids = HashSet::new();
    for user in users {
        let identity = identity(user);
        let outcome = outcomes.remove(&identity);
        let outcome = outcome.unwrap_or_else(|| panic!("{identity} is not expected, or twice"));
        check_line(user, &outcome.versions, &mut service_ids, wanted);
    }
    let missing: Vec<&String> =
        outcomes.iter().filter(|(_, outcome)| !outcome.may_be_absent).map(|(id, _)| id).collect();
    assert!(missing.is_empty(), "{} users are missing, such as {}", missing.len(), missing[0]);
}

/// A line is what one of `versions` should become on one of the days. Its service_id is put to
/// those of the lines before.
fn check_line(
    user: &Value,
    versions: &[Value],
    service_ids: &mut HashSet<Uuid>,
    wanted: &ExpectedExport<'_>,
) {
    if let Some(id) = user["service_id"].as_str() {
        let id = id.parse().unwrap_or_else(|error| panic!("{id}: {error}"));
        assert!(service_ids.insert(id), "{id} is there twice");
    }
    let mut differences = Vec::new();
    for record in versions {
        for day in &wanted.days {
            match difference(user, record, wanted.fields, *day) {
                Some(text) => differences.push(text),
                None => return,
            }
        }
    }
    panic!("{}: {}", identity(user), differences.join("; "));
}

/// An export of so many files, in which each of `records` is exactly once.
pub fn check_export(
    files: &[Unpacked],
    count: usize,
    records: &[String],
    wanted: &ExpectedExport<'_>,
) {
    assert_eq!(files.len(), count);
    check(&lines(files, wanted), exactly(records), wanted);
}

/// Gives every user of an export's ZIP files to `each`, one file after the other; returns how many
/// files there are.
pub async fn each_user(
    storage: &TestStorage,
    segment: &str,
    wanted: &ExpectedExport<'_>,
    mut each: impl FnMut(Value),
) -> usize {
    let (keys, mut numbers) = (own_keys(storage, segment, "zip", wanted).await, BTreeSet::new());
    for key in &keys {
        let file = unpack(key, &storage.get(key).await, "zip");
        users_in_file(&file, &mut numbers, wanted).into_iter().for_each(&mut each);
    }
    keys.len()
}

/// The records of a file, one a line, looked up one by one: more of them than memory holds.
pub struct Records {
    file: File,
    /// Where each lies, and how long it is, by a hash of its [`identity`].
    locations: HashMap<u64, (u64, usize)>,
}

impl Records {
    pub fn open(path: &Path) -> Self {
        let file = File::open(path).expect("the records are there");
        let mut reader = BufReader::new(&file);
        let (mut locations, mut offset, mut line) = (HashMap::new(), 0, String::new());
        while reader.read_line(&mut line).expect("records are UTF-8") > 0 {
            let known: Known = serde_json::from_str(&line).expect("a record is JSON");
            let identity = identity(&serde_json::to_value(known).expect("JSON"));
            let earlier = locations.insert(hash(&identity), (offset, line.len()));
            assert!(earlier.is_none(), "{identity} is there twice, or has another one's hash");
            offset += line.len() as u64;
            line.clear();
        }
        Self { file, locations }
    }

    pub fn count(&self) -> usize {
        self.locations.len()
    }

    fn read(&self, (offset, length): (u64, usize)) -> Value {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).expect("the record is there");
        serde_json::from_slice(&bytes).expect("a record is JSON")
    }

    /// Holds an export's ZIP files against the records, one file after the other: each
    /// record is there exactly once, as imported.
    pub async fn check(
        &self,
        storage: &TestStorage,
        segment: &str,
        files: usize,
        wanted: &ExpectedExport<'_>,
    ) {
        let mut missing: HashSet<u64> = self.locations.keys().copied().collect();
        let mut service_ids = HashSet::new();
        let found = each_user(storage, segment, wanted, |user| {
            let identity = identity(&user);
            let hash = hash(&identity);
            assert!(missing.remove(&hash), "{identity} is not expected, or twice");
            let record = self.read(self.locations[&hash]);
            check_line(&user, &[record], &mut service_ids, wanted);
        });
        assert_eq!(found.await, files);
        assert!(missing.is_empty(), "{} users are missing", missing.len());
    }
}

/// The members of a record that it may be known by.
#[derive(Deserialize, Serialize)]
struct Known {
    external_id: Option<Value>,
    user_aliases: Option<Value>,
    email: Option<Value>,
    service_id: Option<Value>,
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Exports are in the order of slice and service_id, which follows creation.
pub fn check_order(users: &[Value]) {
    let positions = users.iter().map(|user| {
        let bucket = user["random_bucket"].as_u64().expect("a bucket");
        (bucket / 100, user["service_id"].as_str().expect("a service_id"))
    });
    assert!(positions.is_sorted(), "the users are not in order");
}

/// What is different between a line and what the record should become, if anything.
fn difference(line: &Value, record: &Value, fields: &[&str], day: Date) -> Option<String> {
    let mut line = line.as_object().cloned().unwrap_or_default();
    let mut expected = projected(record, fields, day);
    let given = ["service_id", "created_at", "random_bucket"];
    let given = given.into_iter().filter(|name| fields.contains(name));
    let given: Vec<&str> = given.filter(|name| !expected.contains_key(*name)).collect();
    if let Some(name) = given.iter().find(|name| !is_generated_value(name, &line)) {
        return Some(format!("{name} is {:?}", line.get(*name)));
    }
    for name in given {
        line.remove(name);
    }
    for side in [&mut line, &mut expected] {
        for name in ["purchases", "custom_events"] {
            // In which order is not said.
            if let Some(entries) = side.get_mut(name).and_then(Value::as_array_mut) {
                entries.sort_by_key(|entry| entry["name"].to_string());
            }
        }
        // 12 and 12.0 are one amount.
        if let Some(amount) = side.get_mut("total_revenue") {
            *amount = json!(amount.as_f64());
        }
    }
    let names: BTreeSet<&String> = line.keys().chain(expected.keys()).collect();
    let name = names.into_iter().find(|name| line.get(*name) != expected.get(*name))?;
    Some(format!("{name} is {:?} and should be {:?}", line.get(name), expected.get(name)))
}

/// Whether a line has in `name`, which its record had not, what every user has there.
fn is_generated_value(name: &str, line: &Map<String, Value>) -> bool {
    let value = line.get(name).unwrap_or(&Value::Null);
    let text = value.as_str().unwrap_or_default();
    match name {
        // Its random part begins with the bucket.
        "service_id" => Uuid::try_parse(text).is_ok_and(|id| {
            let bucket = u64::from(id.as_bytes()[8] & 0x3f) << 8 | u64::from(id.as_bytes()[9]);
            let shown = line.get("random_bucket").and_then(Value::as_u64);
            id.get_version_num() == 7 && shown.is_none_or(|shown| shown == bucket)
        }),
        "created_at" => text.parse::<Timestamp>().is_ok(),
        _ => value.as_u64().is_some_and(|bucket| bucket < 10_000),
    }
}

/// A record as the export should show it on `day`.
fn projected(record: &Value, fields: &[&str], day: Date) -> Map<String, Value> {
    let mut line = Map::new();
    for field in fields {
        if let Some(name) = field.strip_prefix("custom_attributes.") {
            let value = &record["custom_attributes"][name];
            if !value.is_null() && !fields.contains(&"custom_attributes") {
                let attributes = line.entry("custom_attributes").or_insert_with(|| json!({}));
                attributes[name] = value.clone();
            }
            continue;
        }
        let value = &record[*field];
        let value = match *field {
            "purchases" | "custom_events" => in_window(value, day),
            "custom_attributes" => without(value, |value| !value.is_null()),
            "user_aliases" if value.is_object() => json!([value]),
            "apps" => each(value, |app| {
                let mut app = with_data(app);
                if let Some(sessions) = app.get_mut("sessions").filter(|value| value.is_number()) {
                    *sessions = sessions.to_string().into();
                }
                app
            }),
            "devices" => each(value, with_data),
            "gender" if value == "nil" => Value::Null,
            _ => value.clone(),
        };
        if has_data(&value) {
            line.insert((*field).to_owned(), value);
        }
    }
    line
}

fn has_data(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

fn with_data(object: &Value) -> Value {
    without(object, has_data)
}

fn without(object: &Value, keep: impl Fn(&Value) -> bool) -> Value {
    let Value::Object(members) = object else { return object.clone() };
    let remaining = members.iter().filter(|(_, value)| keep(value));
    Value::Object(remaining.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn each(array: &Value, change: impl Fn(&Value) -> Value) -> Value {
    let Value::Array(items) = array else { return array.clone() };
    Value::Array(items.iter().map(change).collect())
}

/// Imported entries as of `day`: one of each counts on `first`, the others on `last`, and
/// what is within the window is summed up by name.
fn in_window(entries: &Value, day: Date) -> Value {
    let from = day.saturating_sub((WINDOW - 1).days());
    let mut sums: BTreeMap<&str, (Timestamp, Timestamp, u64)> = BTreeMap::new();
    for entry in entries.as_array().into_iter().flatten() {
        let time = |name: &str| entry[name].as_str().and_then(|text| text.parse().ok());
        let (first, last): (Timestamp, Timestamp) =
            (time("first").expect("a time"), time("last").expect("a time"));
        let count = entry["count"].as_u64().expect("a count");
        for (time, count) in [(first, 1), (last, count - 1)] {
            if count > 0 && (from..=day).contains(&utc_day(time)) {
                let name = entry["name"].as_str().expect("a name");
                let sum = sums.entry(name).or_insert((time, time, 0));
                *sum = (sum.0.min(time), sum.1.max(time), sum.2 + count);
            }
        }
    }
    sums.into_iter()
        .map(|(name, (first, last, count))| {
            let text = |time: Timestamp| format!("{time:.3}");
            json!({ "name": name, "first": text(first), "last": text(last), "count": count })
        })
        .collect()
}

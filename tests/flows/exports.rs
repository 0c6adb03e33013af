//! Exports from request to files and callback: one suite over {standalone, Kafka and PostgreSQL} ×
//! {own storage on S3 or Azure in zip or gzip, a download address built on files, S3 or
//! Azure}. Every line of every export is held against what was imported.

mod changing;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use crate::support::api::{ALL_FIELDS, Accepted, Api};
use crate::support::archives::Unpacked;
use crate::support::checker::{self, ExpectedExport};
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::{Received, Receiver};
use crate::support::storage::{PROOFS, TestStorage};
use crate::support::workspace::WorkspaceFile;
use crate::support::{callbacks, eventually, user_records};

/// Users in a file, unless a setting says otherwise.
const PER_FILE: usize = 5_000;

/// Users of the exports of one combination: nobody, one, and around the size of a file.
fn around(per_file: usize) -> [usize; 5] {
    [0, 1, per_file - 1, per_file, per_file + 1]
}

/// Fleets that run at once, so that a machine of two cores is not the slow part.
static SEATS: Semaphore = Semaphore::const_new(2);

async fn seat() -> SemaphorePermit<'static> {
    SEATS.acquire().await.expect("the semaphore stays open")
}

/// Where exports go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// Own storage, with the `output_format`.
    S3(&'static str),
    Azure(&'static str),
    /// The ZIP behind `url`.
    UrlOnFiles,
    UrlOnS3,
    UrlOnAzure,
}

impl Destination {
    fn is_own(self) -> bool {
        matches!(self, Self::S3(_) | Self::Azure(_))
    }

    async fn storage(self) -> TestStorage {
        match self {
            Self::S3(_) | Self::UrlOnS3 => TestStorage::s3().await,
            Self::Azure(_) | Self::UrlOnAzure => TestStorage::azure().await,
            Self::UrlOnFiles => TestStorage::files(),
        }
    }

    fn request(self, callback: &str) -> Value {
        let mut body = json!({ "fields_to_export": ALL_FIELDS, "callback_endpoint": callback });
        if let Self::S3(format) | Self::Azure(format) = self {
            body["output_format"] = format.into();
        }
        body
    }

    fn extension(self) -> &'static str {
        match self {
            Self::S3("gzip") | Self::Azure("gzip") => "gz",
            _ => "zip",
        }
    }
}

/// Exports workspaces of these sizes side by side, and checks the results.
async fn suite(backend: Backend, destination: Destination, per_file: usize, sizes: &[usize]) {
    let _seat = seat().await;
    let storage = destination.storage().await;
    let mut settings = Vec::new();
    if per_file != PER_FILE {
        settings.push(("LONGSHORE_EXPORTS__USERS_PER_FILE", per_file.to_string()));
    }
    if !destination.is_own() {
        settings.push(("LONGSHORE_OBJECTS_URL", storage.objects_url()));
    }
    let fleet = Fleet::start(backend, &settings).await;
    let receiver = Receiver::start([]).await;
    let mut exports = Vec::new();
    for size in sizes {
        let mut workspace = WorkspaceFile::new(&format!("of-{size}"));
        if destination.is_own() {
            workspace = workspace.with_storage(&storage);
        }
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        let records = user_records::mixed(*size).await;
        if !records.is_empty() {
            fleet.import(&workspace.name, &records).await;
        }
        exports.push(Export { workspace, api, records, per_file });
    }
    let requests = exports.iter().map(|export| {
        let callback = receiver.url(&format!("/{}", export.workspace.name));
        async move { export.api.export(&destination.request(&callback)).await }
    });
    let accepted = futures::future::join_all(requests).await;
    for (export, accepted) in exports.iter().zip(&accepted) {
        export.check(&fleet, destination, &storage, accepted).await;
    }
    check_nothing_else(destination, &storage, &exports, &accepted).await;
    check_callbacks(&receiver, destination, &exports, &accepted).await;
    fleet.close().await;
}

struct Export {
    workspace: WorkspaceFile,
    api: Api,
    records: Vec<String>,
    per_file: usize,
}

impl Export {
    /// How many files it is.
    fn files(&self) -> usize {
        self.records.len().div_ceil(self.per_file)
    }

    async fn check(
        &self,
        fleet: &Fleet,
        destination: Destination,
        storage: &TestStorage,
        accepted: &Accepted,
    ) {
        let status = self.api.done(&accepted.prefix).await;
        assert_eq!(status["users"]["total"], self.records.len(), "{status}");
        let wanted = ExpectedExport {
            fields: &ALL_FIELDS,
            days: checker::export_days(&status),
            prefix: &accepted.prefix,
        };
        check_prefix(&accepted.prefix);
        let files = if destination.is_own() {
            assert_eq!(accepted.url, None, "with own storage there is no url");
            let segment = fleet.segment_id(&self.workspace.name).await;
            checker::own_files(storage, &segment, destination.extension(), &wanted).await
        } else {
            checker::downloaded(&self.api.download(accepted.address()).await)
        };
        assert_eq!(files.len(), self.files());
        let users = checker::lines(&files, &wanted);
        checker::check(&users, checker::exactly(&self.records), &wanted);
        checker::check_order(&users);
    }
}

/// `<uuid>-<unix seconds>`.
fn check_prefix(prefix: &str) {
    let (id, seconds) = prefix.rsplit_once('-').expect("two parts");
    assert!(Uuid::try_parse(id).is_ok(), "{prefix}");
    let age = jiff::Timestamp::now().as_second() - seconds.parse::<i64>().expect("seconds");
    assert!((0..3_600).contains(&age), "{prefix} is of {age} s ago");
}

/// Nothing is left but the files of the exports.
async fn check_nothing_else(
    destination: Destination,
    storage: &TestStorage,
    exports: &[Export],
    accepted: &[Accepted],
) {
    if destination.is_own() {
        let files: usize = exports.iter().map(Export::files).sum();
        let keys = storage.list().await;
        assert_eq!(keys.len(), files + PROOFS.len() * exports.len(), "{keys:#?}");
        let prefixes = |key: &String| accepted.iter().any(|export| key.contains(&export.prefix));
        assert!(keys.iter().all(prefixes), "{keys:#?}");
        return;
    }
    // What the ZIPs were built of is removed a little later.
    eventually("only the ZIPs are left", || async {
        let keys = storage.list_files().await;
        keys.len() == exports.len() && keys.iter().all(|key| key.ends_with(".zip"))
    })
    .await;
}

/// One callback for each export, signed, with a url only where there is no own storage.
async fn check_callbacks(
    receiver: &Receiver,
    destination: Destination,
    exports: &[Export],
    accepted: &[Accepted],
) {
    let received = receiver.wait_for(exports.len()).await;
    assert_eq!(received.len(), exports.len());
    for (export, accepted) in exports.iter().zip(accepted) {
        let path = format!("/{}", export.workspace.name);
        let own: Vec<&Received> =
            received.iter().filter(|request| request.uri.path() == path).collect();
        assert_eq!(own.len(), 1, "callbacks at {path}");
        let body = callbacks::verified(own[0], &export.workspace.callback_secret);
        let expected = if destination.is_own() {
            json!({ "success": true })
        } else {
            json!({ "success": true, "url": accepted.address() })
        };
        assert_eq!(callbacks::without_manifest(body), expected);
    }
}

/// Each of the combinations, with files of a hundred users; with `--all` also as files are in
/// earnest. Each destination is on one backend every day.
macro_rules! combinations {
    ($($(#[$attribute:meta])* $name:ident: $backend:expr, $destination:expr;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        $(#[$attribute])*
        async fn $name() {
            suite($backend, $destination, 100, &around(100)).await;
        })+

        mod whole_files {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread")]
            #[ignore = "scripts/test --all"]
            async fn $name() {
                suite($backend, $destination, PER_FILE, &around(PER_FILE)).await;
            })+
        }
    };
}

combinations! {
    #[ignore = "scripts/test --all"]
    alone_to_s3_in_zip: Backend::Embedded, Destination::S3("zip");
    alone_to_s3_in_gzip: Backend::Embedded, Destination::S3("gzip");
    standalone_to_azure_in_zip: Backend::Embedded, Destination::Azure("zip");
    #[ignore = "scripts/test --all"]
    standalone_to_azure_in_gzip: Backend::Embedded, Destination::Azure("gzip");
    standalone_behind_a_url_on_files: Backend::Embedded, Destination::UrlOnFiles;
    #[ignore = "scripts/test --all"]
    alone_behind_a_url_on_s3: Backend::Embedded, Destination::UrlOnS3;
    standalone_behind_a_url_on_azure: Backend::Embedded, Destination::UrlOnAzure;
    fleet_to_s3_in_zip: Backend::Fleet(2), Destination::S3("zip");
    #[ignore = "scripts/test --all"]
    fleet_to_s3_in_gzip: Backend::Fleet(2), Destination::S3("gzip");
    #[ignore = "scripts/test --all"]
    fleet_to_azure_in_zip: Backend::Fleet(2), Destination::Azure("zip");
    fleet_to_azure_in_gzip: Backend::Fleet(2), Destination::Azure("gzip");
    #[ignore = "scripts/test --all"]
    fleet_behind_a_url_on_files: Backend::Fleet(2), Destination::UrlOnFiles;
    fleet_behind_a_url_on_s3: Backend::Fleet(2), Destination::UrlOnS3;
    #[ignore = "scripts/test --all"]
    fleet_behind_a_url_on_azure: Backend::Fleet(2), Destination::UrlOnAzure;
}

/// Without a setting a file has 5,000 users.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_five_thousand_users() {
    suite(Backend::Embedded, Destination::UrlOnFiles, PER_FILE, &[PER_FILE + 1]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn standalone_with_a_hundred_thousand_behind_a_url() {
    suite(Backend::Embedded, Destination::UrlOnFiles, PER_FILE, &[100_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn fleet_with_a_hundred_thousand_to_s3() {
    suite(Backend::Fleet(2), Destination::S3("zip"), PER_FILE, &[100_000]).await;
}

/// Azure where its switch is on, else S3 where it is configured, else `url`.
#[tokio::test(flavor = "multi_thread")]
async fn the_switch_sets_the_destination_of_exports() {
    let _seat = seat().await;
    let (s3, azure) = (TestStorage::s3().await, TestStorage::azure().await);
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let bare = WorkspaceFile::new("acme");
    fleet.apply(std::slice::from_ref(&bare)).await;
    let records: Vec<String> = (0..30).map(|number| user_records::simple(number, 1)).collect();
    fleet.import("acme", &records).await;
    let (off, on) = (false, true);
    for (workspace, to) in [
        (bare.clone().with_storage_switched(&azure, off), None),
        (bare.clone().with_storage(&s3).with_storage_switched(&azure, off), Some(&s3)),
        (bare.clone().with_storage(&s3).with_storage_switched(&azure, on), Some(&azure)),
        (bare.clone().with_storage_switched(&azure, on), Some(&azure)),
        // What the file no longer has stays as it was.
        (bare.clone().with_storage(&s3), Some(&azure)),
    ] {
        let api = fleet.apply(&[workspace]).await.remove(0);
        let accepted = api.export_all().await;
        let status = api.done(&accepted.prefix).await;
        assert_eq!(accepted.url.is_none(), to.is_some());
        for storage in [&s3, &azure] {
            let keys = storage.list().await;
            let found = keys.iter().any(|key| key.contains(&accepted.prefix));
            assert_eq!(found, to.is_some_and(|to| std::ptr::eq(to, storage)), "{keys:#?}");
        }
        assert_eq!(status["files"]["done"], 1);
    }
    fleet.close().await;
}

/// A live group has a few percent: exactly the users of its hundreds of buckets.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_group_is_exported() {
    let _seat = seat().await;
    let storage = TestStorage::s3().await;
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let workspace = WorkspaceFile::new("acme").with_percent(Some(5)).with_storage(&storage);
    let api = fleet.apply(&[workspace]).await.remove(0);
    // Buckets from 0 to 9999, in steps.
    const USERS: usize = 1_000;
    let bucket_of = |number: usize| number * 13 % 10_000;
    let records: Vec<String> = (0..USERS)
        .map(|number| {
            let mut record: Value =
                serde_json::from_str(&user_records::simple(number, 1)).expect("JSON");
            record["random_bucket"] = bucket_of(number).into();
            record.to_string()
        })
        .collect();
    fleet.import("acme", &records).await;
    let mut segments = Vec::new();
    for percent in [5, 15] {
        if percent != 5 {
            let percent = percent.to_string();
            fleet.run(&["control-group", "renew", "--percent", &percent]).await;
        }
        let group = fleet.control_group("acme").await;
        let slices: Vec<usize> =
            serde_json::from_value(group["slices"].clone()).expect("an array of numbers");
        assert_eq!(slices.len(), percent);
        let is_member = |number: &usize| slices.contains(&(bucket_of(*number) / 100));
        let members: Vec<String> =
            (0..USERS).filter(is_member).map(|number| records[number].clone()).collect();
        assert_eq!(group["users"], members.len());

        let accepted = api.export_all().await;
        let status = api.done(&accepted.prefix).await;
        let wanted = ExpectedExport {
            fields: &ALL_FIELDS,
            days: checker::export_days(&status),
            prefix: &accepted.prefix,
        };
        let segment = group["segment_id"].as_str().expect("a segment id").to_owned();
        let files: Vec<Unpacked> = checker::own_files(&storage, &segment, "zip", &wanted).await;
        let users = checker::lines(&files, &wanted);
        checker::check(&users, checker::exactly(&members), &wanted);
        segments.push(segment);
    }
    assert_ne!(segments[0], segments[1], "another group has another segment id");
    fleet.close().await;
}

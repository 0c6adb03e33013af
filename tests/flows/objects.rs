//! Object storage: one set of checks over files, S3 and Azure.

mod encryption;
mod endless;
mod faults;
mod proxied;
mod signed;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kit::secrets::SecretKey;
use longshore::exports::paths;
use objects::probe;
use objects::{
    AzureSettings, ByteStream, Entry, Head, HeadPredicate, ObjectError, Objects, Put, PutOptions,
    S3Settings, Sizes,
};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::support::servers;
use crate::support::storage::TestStorage;

const MIB: usize = 1024 * 1024;
const ANY: HeadPredicate<'static> = &|_| true;

/// A storage of the test's own, and a way to look behind it.
struct Backend {
    objects: Objects,
    storage: TestStorage,
}

impl Backend {
    async fn files() -> Self {
        let storage = TestStorage::files();
        let secrets = SecretKey::parse(&SecretKey::generate(), None).unwrap();
        let objects = Objects::open(&storage.objects_url(), &secrets).await.unwrap();
        Self { objects, storage }
    }

    async fn s3() -> Self {
        servers::install_tls();
        let (settings, bucket) = servers::new_bucket().await;
        let settings = S3Settings { prefix: "some/prefix".into(), ..settings };
        let objects = Objects::s3(&settings).await.unwrap();
        Self { objects, storage: TestStorage::S3(settings, Arc::new(bucket)) }
    }

    async fn azure() -> Self {
        let (settings, container) = servers::new_container().await;
        let objects = Objects::azure(&settings).unwrap();
        Self { objects, storage: TestStorage::Azure(settings, Arc::new(container)) }
    }

    /// With a token instead of the account's key.
    async fn azure_sas() -> Self {
        let (settings, container) = servers::new_container().await;
        let settings = AzureSettings {
            access_key: None,
            sas_token: Some(format!("?{}", servers::azure_sas_token())),
            ..settings
        };
        let objects = Objects::azure(&settings).unwrap();
        Self { objects, storage: TestStorage::Azure(settings, Arc::new(container)) }
    }

    /// Asserts that nothing was left unfinished. Azure lists finished blobs among them.
    async fn assert_no_strays(&self) {
        let finished = match &self.storage {
            TestStorage::Azure(..) => self.objects.list("").await.unwrap(),
            _ => Vec::new(),
        };
        let finished: Vec<String> = finished.into_iter().map(|entry| entry.key).collect();
        assert_eq!(self.storage.unfinished().await, finished);
    }

    /// Begins an upload as a process does that is then killed; false where none can be left.
    async fn abandon_upload(&self, key: &str) -> bool {
        let TestStorage::S3(settings, _) = &self.storage else {
            // Temporary files are swept when the directory is opened, and Azure discards what was
            // staged after a week.
            return false;
        };
        let client = servers::s3_client(settings);
        let key = format!("{}/{}", settings.prefix, key);
        let request = client.create_multipart_upload().bucket(&settings.bucket).key(key);
        request.send().await.unwrap();
        true
    }
}

fn key(name: &'static str) -> String {
    format!("longshore-probe/{}/{name}", Uuid::new_v4())
}

fn options(if_absent: bool) -> PutOptions {
    let metadata = [("rows", "5000"), ("raw_bytes", "123456"), ("crc", "00ff, and more")];
    PutOptions {
        content_type: "application/zip",
        metadata: metadata.map(|(name, value)| (name.into(), value.into())).into(),
        if_absent,
        ..PutOptions::default()
    }
}

/// Bytes that differ from place to place, so that mixed-up parts are seen.
fn pattern(size: usize) -> Bytes {
    (0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// `body` in chunks that end nowhere near a part's end.
fn in_chunks(body: &Bytes) -> ByteStream {
    let (body, size) = (body.clone(), 700_001);
    let chunks = (0..body.len().div_ceil(size))
        .map(move |i| Ok(body.slice(i * size..((i + 1) * size).min(body.len()))));
    stream::iter(chunks).boxed()
}

async fn read(objects: &Objects, key: &str) -> Bytes {
    let chunks: Vec<Bytes> = objects.get(key).await.unwrap().try_collect().await.unwrap();
    chunks.concat().into()
}

async fn assert_absent(objects: &Objects, key: &str) {
    assert_eq!(objects.head(key).await.unwrap(), None);
    let Err(error) = objects.get(key).await else { panic!("{key:?} is there") };
    assert!(matches!(error, ObjectError::NotFound(_)), "{error:?}");
}

async fn written_objects_are_read_with_their_metadata(backend: Backend) {
    let objects = &backend.objects;
    let (key, body) = (key("a"), pattern(300_000));
    assert_absent(objects, &key).await;
    assert_eq!(objects.put(&key, body.clone(), options(false)).await.unwrap(), Put::Written);
    assert_eq!(read(objects, &key).await, body);
    let head = objects.head(&key).await.unwrap().unwrap();
    assert_eq!(head, Head { size: 300_000, metadata: options(false).metadata });

    let mut later = options(false);
    later.metadata.insert("rows".into(), "1".into());
    objects.put(&key, Bytes::from_static(b"new"), later.clone()).await.unwrap();
    assert_eq!(read(objects, &key).await, "new");
    let head = objects.head(&key).await.unwrap().unwrap();
    assert_eq!(head, Head { size: 3, metadata: later.metadata });
}

async fn an_empty_object_is_an_object(backend: Backend) {
    let objects = &backend.objects;
    for (key, stream) in [(key("put"), false), (key("stream"), true)] {
        if stream {
            objects.put_stream(&key, 0, stream::empty().boxed(), options(false)).await.unwrap();
        } else {
            objects.put(&key, Bytes::new(), options(false)).await.unwrap();
        }
        assert_eq!(read(objects, &key).await, "");
        assert_eq!(objects.head(&key).await.unwrap().unwrap().size, 0);
        objects.copy(&key, &self::key("copy"), ANY).await.unwrap();
    }
}

async fn of_many_writers_if_absent_one_writes(backend: Backend) {
    let (objects, key) = (&backend.objects, key("a"));
    let writers = (0..16u8).map(|writer| {
        let key = &key;
        async move {
            let mut options = options(true);
            options.metadata.insert("writer".into(), writer.to_string());
            let body = Bytes::from(vec![writer; 100_000]);
            (writer, objects.put(key, body, options).await.unwrap())
        }
    });
    let answers = join_all(writers).await;
    let winners: Vec<u8> = answers
        .iter()
        .filter_map(|(writer, put)| (*put == Put::Written).then_some(*writer))
        .collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert_eq!(read(objects, &key).await, vec![winners[0]; 100_000]);
    let head = objects.head(&key).await.unwrap().unwrap();
    assert_eq!(head.metadata["writer"], winners[0].to_string());

    assert_eq!(objects.put(&key, Bytes::new(), options(true)).await.unwrap(), Put::Exists);
    assert_eq!(objects.head(&key).await.unwrap().unwrap().size, 100_000);
    backend.assert_no_strays().await;
}

async fn a_copy_keeps_the_metadata(backend: Backend) {
    let (objects, body) = (&backend.objects, pattern(200_000));
    let (from, to) = (key("from"), key("to"));
    objects.put(&from, body.clone(), options(false)).await.unwrap();
    objects.put(&to, Bytes::from_static(b"before"), PutOptions::default()).await.unwrap();
    objects.copy(&from, &to, ANY).await.unwrap();
    objects.copy(&from, &to, ANY).await.unwrap();
    objects.delete(&from).await.unwrap();
    assert_absent(objects, &from).await;
    assert_eq!(read(objects, &to).await, body);
    let head = objects.head(&to).await.unwrap().unwrap();
    assert_eq!(head, Head { size: 200_000, metadata: options(false).metadata });
    let error = objects.copy(&from, &key("never"), ANY).await.unwrap_err();
    assert!(matches!(error, ObjectError::NotFound(_)), "{error:?}");
}

async fn a_large_copy_is_made_in_parts(backend: Backend) {
    let sizes = Sizes { part: 5 * MIB as u64, copy: 5 * MIB as u64, page: 1000 };
    let objects = &backend.objects.clone().with_sizes(sizes);
    let (from, to, body) = (key("from"), key("to"), pattern(12 * MIB));
    objects.put(&from, body.clone(), options(false)).await.unwrap();
    objects.copy(&from, &to, ANY).await.unwrap();
    assert!(read(objects, &to).await == body, "the copy differs");
    let head = objects.head(&to).await.unwrap().unwrap();
    assert_eq!(head, Head { size: 12 * MIB as u64, metadata: options(false).metadata });
    backend.assert_no_strays().await;
}

async fn lists_go_over_pages_and_prefixes_are_removed(backend: Backend) {
    let objects = &backend.objects.clone().with_sizes(Sizes {
        part: 8 * MIB as u64,
        copy: 8 * MIB as u64,
        page: 10,
    });
    let [job, other] = [Uuid::new_v4(), Uuid::new_v4()];
    let parts = (0..33).map(|part| paths::segment(job, part, 1));
    let keys: Vec<String> = parts.chain([paths::archive(job, 2)]).collect();
    let body = Bytes::from_static(b"four");
    for put in join_all(keys.iter().map(|key| objects.put(key, body.clone(), options(false)))).await
    {
        put.unwrap();
    }
    let neighbour = paths::archive(other, 1);
    objects.put(&neighbour, body.clone(), options(false)).await.unwrap();

    let mut expected: Vec<Entry> =
        keys.iter().map(|key| Entry { key: key.clone(), size: 4 }).collect();
    expected.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(objects.list(&paths::private_folder(job)).await.unwrap(), expected);
    let third = format!("{}parts/00003", paths::private_folder(job));
    assert_eq!(objects.list(&third).await.unwrap().len(), 3);
    assert_eq!(objects.list(&paths::private_folder(Uuid::new_v4())).await.unwrap(), []);

    let abandoned = paths::archive(job, 3);
    if backend.abandon_upload(&abandoned).await {
        let unfinished = backend.storage.unfinished().await;
        assert!(unfinished.iter().any(|key| key.contains("archive.3")), "{unfinished:?}");
    }
    assert_eq!(objects.delete_prefix(&paths::private_folder(job)).await.unwrap(), 34);
    assert_eq!(objects.list(&paths::private_folder(job)).await.unwrap(), []);
    assert_eq!(objects.delete_prefix(&paths::private_folder(job)).await.unwrap(), 0);
    assert!(objects.head(&neighbour).await.unwrap().is_some());
    backend.assert_no_strays().await;
    for prefix in ["", "/", "exports"] {
        assert!(objects.delete_prefix(prefix).await.is_err(), "{prefix:?}");
    }
}

async fn deleting_an_absent_object_succeeds(backend: Backend) {
    let (objects, key) = (&backend.objects, key("a"));
    objects.put(&key, pattern(10), options(false)).await.unwrap();
    for _ in 0..2 {
        objects.delete(&key).await.unwrap();
        assert_absent(objects, &key).await;
    }
}

async fn a_probe_finds_nothing_wrong_and_leaves_nothing(backend: Backend) {
    assert_eq!(probe::own_storage(&backend.objects).await.unwrap(), []);
    probe::build_storage(&backend.objects).await.unwrap();
    assert_eq!(backend.objects.list("longshore-probe/").await.unwrap(), []);
    backend.assert_no_strays().await;
}

macro_rules! on_every_backend {
    ($($check:ident),* $(,)?) => {
        on_every_backend!(@one files: $($check),*);
        on_every_backend!(@one s3: $($check),*);
        on_every_backend!(@one azure: $($check),*);
    };
    (@one $backend:ident: $($check:ident),*) => {
        mod $backend {
            $(
                #[tokio::test]
                async fn $check() {
                    // Spawned, as workers do: every future must be able to change threads.
                    let backend = super::Backend::$backend().await;
                    tokio::spawn(super::$check(backend)).await.unwrap();
                }
            )*
        }
    };
}
use on_every_backend;

on_every_backend!(
    written_objects_are_read_with_their_metadata,
    an_empty_object_is_an_object,
    of_many_writers_if_absent_one_writes,
    a_copy_keeps_the_metadata,
    a_large_copy_is_made_in_parts,
    lists_go_over_pages_and_prefixes_are_removed,
    deleting_an_absent_object_succeeds,
    a_probe_finds_nothing_wrong_and_leaves_nothing,
);

/// A look and a copy are two requests; another writer may come between them.
async fn replaced_objects_are_not_copied(backend: Backend) {
    let sizes = Sizes { part: 5 * MIB as u64, copy: 5 * MIB as u64, page: 1000 };
    let objects = &backend.objects.clone().with_sizes(sizes);
    let (from, to) = (key("from"), key("to"));
    for size in [9, 6 * MIB] {
        let (ours, theirs) = (pattern(size), pattern(size + 1));
        objects.put(&from, ours.clone(), options(false)).await.unwrap();
        let is_ours = |head: &Head| head.size == ours.len() as u64;
        objects.copy(&from, &to, &is_ours).await.unwrap();
        // It is there as long as it is looked at, and replaced then.
        let replaced = |head: &Head| {
            let written = objects.put(&from, theirs.clone(), options(false));
            tokio::task::block_in_place(|| Handle::current().block_on(written)).unwrap();
            is_ours(head)
        };
        match (objects.copy(&from, &to, &replaced).await, &backend.storage) {
            // It has the one that it looks at already.
            (copied, TestStorage::Files(_)) => copied.unwrap(),
            (Err(ObjectError::NotFound(_)), _) => {}
            (copied, _) => panic!("{copied:?}"),
        }
        objects.put(&from, theirs.clone(), options(false)).await.unwrap();
        let error = objects.copy(&from, &to, &is_ours).await.unwrap_err();
        assert!(matches!(error, ObjectError::NotFound(_)), "{error:?}");
        assert!(read(objects, &to).await == ours, "another object was copied");
    }
    backend.assert_no_strays().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_of_the_inspected_object() {
    for backend in [Backend::files().await, Backend::s3().await, Backend::azure().await] {
        replaced_objects_are_not_copied(backend).await;
    }
}

#[tokio::test]
async fn azure_works_with_a_token_but_signs_no_addresses_with_it() {
    written_objects_are_read_with_their_metadata(Backend::azure_sas().await).await;
    a_copy_keeps_the_metadata(Backend::azure_sas().await).await;
    let Backend { objects, storage: _container } = Backend::azure_sas().await;
    assert_eq!(probe::own_storage(&objects).await.unwrap(), []);
    let signed = objects.signed_get(&key("a"), Duration::from_secs(60), "a.zip").await;
    // Exports with `url` could not be given away.
    let tried = probe::build_storage(&objects).await;
    for error in [signed.unwrap_err().to_string(), tried.unwrap_err().to_string()] {
        assert!(error.contains("access_key") && !error.contains("sig="), "{error}");
    }
    assert_eq!(objects.list("longshore-probe/").await.unwrap(), []);
}

#[tokio::test]
async fn s3_checks_a_known_hash() {
    let Backend { objects, storage: _bucket } = Backend::s3().await;
    let (key, body) = (key("a"), pattern(300_000));
    let with_hash = |sha256| PutOptions { sha256: Some(sha256), ..options(true) };
    objects.put(&key, body.clone(), with_hash([0; 32])).await.unwrap_err();
    assert_absent(&objects, &key).await;
    let sha256 = Sha256::digest(&body).into();
    assert_eq!(objects.put(&key, body.clone(), with_hash(sha256)).await.unwrap(), Put::Written);
    assert_eq!(read(&objects, &key).await, body);
}

#[tokio::test]
async fn objects_are_opened_by_their_address() {
    servers::install_tls();
    let secrets = SecretKey::parse(&SecretKey::generate(), None).unwrap();
    for storage in [TestStorage::s3().await, TestStorage::azure().await] {
        let objects = Objects::open(&storage.objects_url(), &secrets).await.unwrap();
        assert_eq!(probe::own_storage(&objects).await.unwrap(), []);
    }
    assert!(Objects::open("s3://b?colour=blue", &secrets).await.is_err());
}

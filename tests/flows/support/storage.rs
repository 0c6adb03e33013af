//! Storages that exports are written to, inspected with clients of the tests' own.

use std::path::Path;
use std::sync::Arc;

use objects::{AzureSettings, S3Settings};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use super::servers;
use super::temporary::{Temporary, remove_bucket};

/// How the keys end of what proves an export.
pub const PROOFS: [&str; 3] = [".SHA256SUMS", ".manifest.json", ".manifest.json.sig"];

/// A bucket, a container or a directory of a test's own, removed with its last clone.
#[derive(Clone)]
pub enum TestStorage {
    S3(S3Settings, Arc<Temporary>),
    Azure(AzureSettings, Arc<Temporary>),
    Files(Arc<TempDir>),
}

impl TestStorage {
    pub async fn s3() -> Self {
        let (settings, bucket) = servers::new_bucket().await;
        Self::S3(settings, Arc::new(bucket))
    }

    pub async fn azure() -> Self {
        let (settings, container) = servers::new_container().await;
        Self::Azure(settings, Arc::new(container))
    }

    pub fn files() -> Self {
        Self::Files(Arc::new(tempfile::tempdir().expect("a temporary directory")))
    }

    /// The same place behind another address (`http://host:port`).
    pub fn at(&self, endpoint: &str) -> Self {
        let endpoint = Some(endpoint.to_owned());
        match self.clone() {
            Self::S3(s3, bucket) => Self::S3(S3Settings { endpoint, ..s3 }, bucket),
            Self::Azure(azure, container) => {
                Self::Azure(AzureSettings { endpoint, ..azure }, container)
            }
            Self::Files(_) => panic!("files have no address"),
        }
    }

    /// The address of its server.
    pub fn endpoint(&self) -> &str {
        let endpoint = match self {
            Self::S3(s3, _) => &s3.endpoint,
            Self::Azure(azure, _) => &azure.endpoint,
            Self::Files(_) => panic!("files have no address"),
        };
        endpoint.as_deref().expect("the servers of tests are told by address")
    }

    /// The member of `storage` in a workspace file, and its value.
    pub fn storage(&self) -> (&'static str, Value) {
        match self {
            Self::S3(s3, _) => (
                "s3",
                json!({
                    "bucket": s3.bucket, "region": s3.region, "endpoint": s3.endpoint,
                    "access_key_id": s3.access_key_id, "secret_access_key": s3.secret_access_key,
                    "path_style": s3.path_style,
                }),
            ),
            Self::Azure(azure, _) => (
                "azure",
                json!({
                    "account": azure.account, "container": azure.container,
                    "access_key": azure.access_key, "endpoint": azure.endpoint,
                }),
            ),
            Self::Files(_) => panic!("files are nobody's own storage"),
        }
    }

    /// What must not be printed.
    pub fn secret(&self) -> Option<String> {
        match self {
            Self::S3(s3, _) => s3.secret_access_key.clone(),
            Self::Azure(azure, _) => azure.access_key.clone(),
            Self::Files(_) => None,
        }
    }

    /// The value of `LONGSHORE_OBJECTS_URL`.
    pub fn objects_url(&self) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let url = |base: String, pairs: &[(&str, String)]| {
            Url::parse_with_params(&base, pairs).expect("an address").to_string()
        };
        match self {
            Self::S3(s3, _) => url(
                format!("s3://{}/built", s3.bucket),
                &[
                    ("endpoint", text(&s3.endpoint)),
                    ("region", text(&s3.region)),
                    ("access_key_id", text(&s3.access_key_id)),
                    ("secret_access_key", text(&s3.secret_access_key)),
                    ("path_style", "true".into()),
                ],
            ),
            Self::Azure(azure, _) => url(
                format!("azure://{}/built", azure.container),
                &[
                    ("account", azure.account.clone()),
                    ("access_key", text(&azure.access_key)),
                    ("endpoint", text(&azure.endpoint)),
                ],
            ),
            Self::Files(directory) => format!("file://{}", directory.path().display()),
        }
    }

    /// The keys of all objects but those that prove an export.
    pub async fn list_files(&self) -> Vec<String> {
        let is_proof = |key: &String| PROOFS.iter().any(|suffix| key.ends_with(suffix));
        self.list().await.into_iter().filter(|key| !is_proof(key)).collect()
    }

    /// The keys of all objects, in order; unfinished uploads count.
    pub async fn list(&self) -> Vec<String> {
        let mut keys = match self {
            Self::S3(s3, _) => {
                let unfinished = self.unfinished().await;
                let unfinished = unfinished.iter().map(|key| format!("unfinished upload of {key}"));
                servers::s3_objects(s3).await.into_iter().chain(unfinished).collect()
            }
            Self::Azure(..) => self.unfinished().await,
            Self::Files(directory) => {
                let (directory, mut found) = (directory.path(), Vec::new());
                list_files(directory, directory, &mut found);
                // Notes next to a file go with it, and locks stay.
                let is_note_of_another = |note: &str| {
                    let owner =
                        note.strip_prefix(".meta/").and_then(|path| path.strip_suffix(".json"));
                    owner.is_some_and(|path| directory.join(path).exists())
                };
                found.retain(|name| !is_note_of_another(name) && !name.ends_with(".lock"));
                found
            }
        };
        keys.sort();
        keys
    }

    /// What is being written, or was left so. Azure lists finished blobs among them.
    pub async fn unfinished(&self) -> Vec<String> {
        match self {
            Self::S3(s3, _) => {
                servers::s3_uploads(s3).await.into_iter().filter_map(|upload| upload.key).collect()
            }
            Self::Azure(azure, _) => list_azure(azure).await,
            Self::Files(directory) => {
                let mut found = Vec::new();
                let temporary = directory.path().join(".tmp");
                list_files(&temporary, &temporary, &mut found);
                found.retain(|name| !name.ends_with(".lock"));
                found
            }
        }
    }

    pub async fn get(&self, key: &str) -> Vec<u8> {
        match self {
            Self::S3(s3, _) => {
                let request = servers::s3_client(s3).get_object().bucket(&s3.bucket).key(key);
                let object = request.send().await.expect("an object");
                object.body.collect().await.expect("the whole object").to_vec()
            }
            Self::Azure(azure, _) => get_azure(azure, key).await,
            Self::Files(directory) => std::fs::read(directory.path().join(key)).expect("a file"),
        }
    }

    /// Writes an object, as its owner does.
    pub async fn put(&self, key: &str, body: &[u8]) {
        let s3 = self.bucket();
        let request = servers::s3_client(s3).put_object().bucket(&s3.bucket).key(key);
        request.body(body.to_vec().into()).send().await.expect("an object is written");
    }

    /// Removes the place with all that is in it.
    pub async fn destroy(&self) {
        remove_bucket(self.bucket()).await;
    }

    /// Makes the place again.
    pub async fn restore(&self) {
        servers::make_bucket(self.bucket()).await;
    }

    fn bucket(&self) -> &S3Settings {
        let Self::S3(settings, _) = self else { panic!("only buckets go and come by tests") };
        settings
    }
}

async fn list_azure(azure: &AzureSettings) -> Vec<String> {
    let query = "restype=container&comp=list&include=uncommittedblobs";
    let answer = servers::azure_call(Method::GET, &servers::azure_address(azure, query)).await;
    let xml = String::from_utf8_lossy(&answer);
    assert!(xml.contains("<EnumerationResults"), "{xml}");
    let between = |from: &str, to: &str| -> Vec<String> {
        let parts = xml.split(from).skip(1);
        parts.map(|part| part.split(to).next().unwrap_or_default().to_owned()).collect()
    };
    let more = between("<NextMarker>", "</NextMarker>");
    assert!(more.iter().all(String::is_empty), "the container has more than a page");
    between("<Name>", "</Name>")
}

async fn get_azure(azure: &AzureSettings, key: &str) -> Vec<u8> {
    let container = servers::azure_address(azure, "");
    let (path, query) = container.split_once('?').expect("a query with a token");
    let query = query.trim_start_matches('&');
    servers::azure_call(Method::GET, &format!("{path}/{key}?{query}")).await.to_vec()
}

fn list_files(root: &Path, directory: &Path, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list_files(root, &path, found);
        } else {
            let key = path.strip_prefix(root).expect("below the root");
            found.push(key.to_string_lossy().into_owned());
        }
    }
}

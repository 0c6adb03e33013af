//! Places where exports go, looked into behind the program's back: with clients of the
//! tests' own.

use std::path::{Path, PathBuf};

use longshore::objects::{AzureSettings, S3Settings};
use serde_json::{Value, json};
use url::Url;

use super::servers;

/// A bucket, a container or a directory of a test's own.
#[derive(Clone)]
pub enum Place {
    S3(S3Settings),
    Azure(AzureSettings),
    Files(PathBuf),
}

impl Place {
    pub async fn s3() -> Self {
        Self::S3(servers::new_bucket().await)
    }

    pub async fn azure() -> Self {
        Self::Azure(servers::new_container().await)
    }

    /// The same place behind another address (`http://host:port`).
    pub fn at(&self, endpoint: &str) -> Self {
        match self.clone() {
            Self::S3(settings) => {
                Self::S3(S3Settings { endpoint: Some(endpoint.to_owned()), ..settings })
            }
            other => panic!("{} has no endpoint to replace", other.storage().0),
        }
    }

    /// The member of `storage` in a workspace file, and its value.
    pub fn storage(&self) -> (&'static str, Value) {
        match self {
            Self::S3(s3) => (
                "s3",
                json!({
                    "bucket": s3.bucket, "region": s3.region, "endpoint": s3.endpoint,
                    "access_key_id": s3.access_key_id, "secret_access_key": s3.secret_access_key,
                    "path_style": s3.path_style,
                }),
            ),
            Self::Azure(azure) => (
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
            Self::S3(s3) => s3.secret_access_key.clone(),
            Self::Azure(azure) => azure.access_key.clone(),
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
            Self::S3(s3) => url(
                format!("s3://{}/built", s3.bucket),
                &[
                    ("endpoint", text(&s3.endpoint)),
                    ("region", text(&s3.region)),
                    ("access_key_id", text(&s3.access_key_id)),
                    ("secret_access_key", text(&s3.secret_access_key)),
                    ("path_style", "true".into()),
                ],
            ),
            Self::Azure(azure) => url(
                format!("azure://{}/built", azure.container),
                &[
                    ("account", azure.account.clone()),
                    ("access_key", text(&azure.access_key)),
                    ("endpoint", text(&azure.endpoint)),
                ],
            ),
            Self::Files(directory) => format!("file://{}", directory.display()),
        }
    }

    /// The keys of all objects, in order; unfinished uploads count.
    pub async fn list(&self) -> Vec<String> {
        let mut keys = match self {
            Self::S3(s3) => list_s3(s3).await,
            Self::Azure(azure) => list_azure(azure).await,
            Self::Files(directory) => {
                let mut found = Vec::new();
                list_files(directory, directory, &mut found);
                // What the files' own notes hold goes with the files.
                let is_note_of_another = |note: &str| {
                    let of = note.strip_prefix(".meta/").and_then(|of| of.strip_suffix(".json"));
                    of.is_some_and(|of| directory.join(of).exists())
                };
                found.retain(|name| !is_note_of_another(name) && !name.ends_with(".lock"));
                found
            }
        };
        keys.sort();
        keys
    }

    pub async fn get(&self, key: &str) -> Vec<u8> {
        match self {
            Self::S3(s3) => {
                let request = servers::s3_client(s3).get_object().bucket(&s3.bucket).key(key);
                let object = request.send().await.expect("an object");
                object.body.collect().await.expect("the whole object").to_vec()
            }
            Self::Azure(azure) => get_azure(azure, key).await,
            Self::Files(directory) => std::fs::read(directory.join(key)).expect("a file"),
        }
    }

    /// Removes the place with all that is in it.
    pub async fn destroy(&self) {
        let Self::S3(s3) = self else { panic!("only buckets are destroyed by tests") };
        let client = servers::s3_client(s3);
        for key in self.list().await {
            client.delete_object().bucket(&s3.bucket).key(key).send().await.expect("removed");
        }
        client.delete_bucket().bucket(&s3.bucket).send().await.expect("the bucket is removed");
    }

    /// Makes the place again.
    pub async fn restore(&self) {
        let Self::S3(s3) = self else { panic!("only buckets are restored by tests") };
        let client = servers::s3_client(s3);
        client.create_bucket().bucket(&s3.bucket).send().await.expect("the bucket is made");
    }
}

async fn list_s3(s3: &S3Settings) -> Vec<String> {
    let client = servers::s3_client(s3);
    let (mut keys, mut token) = (Vec::new(), None);
    loop {
        let request = client.list_objects_v2().bucket(&s3.bucket).set_continuation_token(token);
        let page = request.send().await.expect("the bucket is listed");
        // Directories of the server's own have names that end in a slash.
        let names = page.contents().iter().filter_map(|object| object.key());
        keys.extend(names.filter(|name| !name.ends_with('/')).map(str::to_owned));
        token = page.next_continuation_token().map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    let uploads = client.list_multipart_uploads().bucket(&s3.bucket).send().await;
    let uploads = uploads.expect("uploads are listed");
    keys.extend(
        uploads
            .uploads()
            .iter()
            .map(|upload| format!("unfinished upload of {}", upload.key().unwrap_or_default())),
    );
    keys
}

async fn list_azure(azure: &AzureSettings) -> Vec<String> {
    let query = "restype=container&comp=list&include=uncommittedblobs";
    let answer = reqwest::get(servers::azure_address(azure, query)).await.expect("Azure answers");
    assert_eq!(answer.status(), 200);
    let xml = answer.text().await.expect("XML");
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
    let answer = reqwest::get(format!("{path}/{key}?{query}")).await.expect("Azure answers");
    assert_eq!(answer.status(), 200, "{key}");
    answer.bytes().await.expect("the whole blob").to_vec()
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

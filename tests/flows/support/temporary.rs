//! What tests make on the servers, and that it goes again.

use std::time::Duration;

use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use objects::{AzureSettings, S3Settings};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

use super::{eventually, servers};

/// Something on a server, removed when this is dropped.
pub enum Temporary {
    Database(String),
    /// A role of PostgreSQL that owns nothing any more.
    Role(String),
    /// All topics whose names begin so.
    Topics(String),
    Bucket(S3Settings),
    Container(AzureSettings),
}

impl Temporary {
    async fn remove(&self) {
        match self {
            Self::Database(name) => {
                servers::administer(format!("DROP DATABASE {name} WITH (FORCE)")).await;
            }
            Self::Role(name) => servers::administer(format!("DROP ROLE {name}")).await,
            Self::Topics(prefix) => delete_topics(prefix).await,
            Self::Bucket(settings) => remove_bucket(settings).await,
            Self::Container(settings) => {
                let address = servers::azure_address(settings, "restype=container");
                servers::azure_call(reqwest::Method::DELETE, &address).await;
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The test's own runtime may be ending: what is awaited here needs another.
        let remove = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(self.remove());
        };
        let removed = std::thread::scope(|scope| scope.spawn(remove).join());
        if removed.is_err() && !std::thread::panicking() {
            panic!("what the test made on a server could not be removed");
        }
    }
}

async fn delete_topics(prefix: &str) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", servers::kafka())
        .create()
        .expect("an admin client");
    let metadata = admin.inner().fetch_metadata(None, Duration::from_secs(30)).expect("metadata");
    let topics: Vec<&str> = metadata
        .topics()
        .iter()
        .map(|topic| topic.name())
        .filter(|name| name.starts_with(prefix))
        .collect();
    if !topics.is_empty() {
        admin.delete_topics(&topics, &AdminOptions::new()).await.expect("topics are deleted");
    }
}

/// Removes a bucket with all that is in it. Writes that come late put something into it again
/// while it is emptied, so that it may take more than one round.
pub async fn remove_bucket(settings: &S3Settings) {
    let (client, bucket) = (servers::s3_client(settings), &settings.bucket);
    eventually("a bucket is removed", || async {
        for key in servers::s3_objects(settings).await {
            let removed = client.delete_object().bucket(bucket).key(key).send().await;
            removed.expect("an object is removed");
        }
        for upload in servers::s3_uploads(settings).await {
            let abort = client.abort_multipart_upload().bucket(bucket);
            let abort = abort.set_key(upload.key).set_upload_id(upload.upload_id);
            if let Err(error) = abort.send().await {
                let gone = error.code() == Some("NoSuchUpload");
                assert!(gone, "{bucket}: {}", DisplayErrorContext(error));
            }
        }
        match client.delete_bucket().bucket(bucket).send().await {
            Ok(_) => true,
            Err(error) if error.code() == Some("BucketNotEmpty") => false,
            Err(error) => panic!("{bucket}: {}", DisplayErrorContext(error)),
        }
    })
    .await;
}

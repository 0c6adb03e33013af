//! The real servers that tests run against, and places of their own on them.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Once, OnceLock};

use aws_sdk_s3::config::{BehaviorVersion, Builder, Credentials, Region};
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::types::MultipartUpload;
use objects::{AzureSettings, S3Settings};
use reqwest::Method;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use super::temporary::Temporary;

/// What `main` does first; every HTTP client needs it.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Only fails where another test was first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A `LONGSHORE_TEST_…` variable: from the environment, else as `scripts/services env` prints
/// it. Fails the test where the servers are not there.
pub fn variable(name: &str) -> String {
    if let Ok(value) = std::env::var(name) {
        return value;
    }
    static PRINTED: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let printed = PRINTED.get_or_init(printed_variables);
    printed.get(name).cloned().unwrap_or_else(|| {
        panic!(
            "{name} is not set: run scripts/services start, then eval \"$(scripts/services env)\""
        )
    })
}

/// The lines `export NAME=value` of `scripts/services env`; none where it cannot be run.
fn printed_variables() -> BTreeMap<String, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/services");
    let Ok(output) = Command::new(script).arg("env").output() else { return BTreeMap::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim_matches(['"', '\'']).to_owned()))
        .collect()
}

/// The brokers. Fails the test where none answers: the program itself would wait for them.
pub fn kafka() -> String {
    let brokers = variable("LONGSHORE_TEST_KAFKA");
    if let Err(error) = TcpStream::connect(&brokers) {
        panic!("Kafka at {brokers}: {error}: run scripts/services start");
    }
    brokers
}

/// Runs a statement on the PostgreSQL server.
pub async fn administer(sql: String) {
    let server = PgConnection::connect(&variable("LONGSHORE_TEST_POSTGRES")).await;
    let mut server =
        server.unwrap_or_else(|error| panic!("PostgreSQL: {error}: run scripts/services start"));
    sqlx::query(AssertSqlSafe(sql)).execute(&mut server).await.expect("the statement is done");
    server.close().await.expect("the connection is closed");
}

/// A name that no other run uses; serves as that of a bucket or a container.
pub fn new_name() -> String {
    format!("test-{}", Uuid::new_v4())
}

/// A bucket of the S3 server, which may not exist.
pub fn s3_settings(bucket: &str) -> S3Settings {
    S3Settings {
        bucket: bucket.to_owned(),
        region: Some(variable("LONGSHORE_TEST_S3_REGION")),
        access_key_id: Some(variable("LONGSHORE_TEST_S3_ACCESS_KEY")),
        secret_access_key: Some(variable("LONGSHORE_TEST_S3_SECRET_KEY")),
        endpoint: Some(variable("LONGSHORE_TEST_S3_ENDPOINT")),
        path_style: true,
        ..S3Settings::default()
    }
}

/// A new bucket on the S3 server.
pub async fn new_bucket() -> (S3Settings, Temporary) {
    let settings = s3_settings(&new_name());
    make_bucket(&settings).await;
    (settings.clone(), Temporary::Bucket(settings))
}

pub async fn make_bucket(settings: &S3Settings) {
    let made = s3_client(settings).create_bucket().bucket(&settings.bucket).send().await;
    made.unwrap_or_else(|error| {
        panic!("S3: {}: run scripts/services start", DisplayErrorContext(error))
    });
}

/// The keys of a bucket's objects.
pub async fn s3_objects(settings: &S3Settings) -> Vec<String> {
    let list = s3_client(settings).list_objects_v2().bucket(&settings.bucket);
    let pages = list.into_paginator().send().collect::<Result<Vec<_>, _>>().await;
    let pages = pages.expect("the bucket is listed").into_iter();
    let objects = pages.flat_map(|page| page.contents.unwrap_or_default());
    let keys = objects.filter_map(|object| object.key);
    // Directories of the server's own have names that end in a slash.
    keys.filter(|key| !key.ends_with('/')).collect()
}

/// The uploads to a bucket that were begun and not ended.
pub async fn s3_uploads(settings: &S3Settings) -> Vec<MultipartUpload> {
    let list = s3_client(settings).list_multipart_uploads().bucket(&settings.bucket);
    list.send().await.expect("uploads are listed").uploads.unwrap_or_default()
}

/// A client of the tests' own, to look behind what is under test.
pub fn s3_client(settings: &S3Settings) -> aws_sdk_s3::Client {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let keys = (text(&settings.access_key_id), text(&settings.secret_access_key));
    let config = Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .credentials_provider(Credentials::new(keys.0, keys.1, None, None, "tests"))
        .region(Region::new(text(&settings.region)))
        .endpoint_url(text(&settings.endpoint))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .force_path_style(true)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// A container of the Azure server, which may not exist.
pub fn azure_settings(container: &str) -> AzureSettings {
    AzureSettings {
        account: variable("LONGSHORE_TEST_AZURE_ACCOUNT"),
        container: container.to_owned(),
        access_key: Some(variable("LONGSHORE_TEST_AZURE_KEY")),
        endpoint: Some(variable("LONGSHORE_TEST_AZURE_ENDPOINT")),
        ..AzureSettings::default()
    }
}

/// A new container on the Azure server.
pub async fn new_container() -> (AzureSettings, Temporary) {
    let settings = azure_settings(&new_name());
    azure_call(Method::PUT, &azure_address(&settings, "restype=container")).await;
    (settings.clone(), Temporary::Container(settings))
}

/// A token for everything in the account, for an hour ("Create an account SAS").
pub fn azure_sas_token() -> String {
    let account = variable("LONGSHORE_TEST_AZURE_ACCOUNT");
    let key = azure_core::auth::Secret::new(variable("LONGSHORE_TEST_AZURE_KEY"));
    let second = jiff::Timestamp::now().as_second() + 3600;
    let expires = jiff::Timestamp::from_second(second).unwrap().to_string();
    let (permissions, services, kinds, version) = ("rwdlacup", "b", "sco", "2022-11-02");
    // Start, addresses, protocol and encryption scope are left open.
    let to_sign =
        [&account, permissions, services, kinds, "", &expires, "", "", version, "", ""].join("\n");
    let signature = azure_core::hmac::hmac_sha256(&to_sign, &key).unwrap();
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("sp", permissions), ("ss", services), ("srt", kinds)])
        .extend_pairs([("se", expires.as_str()), ("sv", version), ("sig", &signature)])
        .finish()
}

/// An address below a container, with a token for everything.
pub fn azure_address(settings: &AzureSettings, query: &str) -> String {
    let endpoint = settings.endpoint.as_deref().unwrap();
    format!("{endpoint}/{}?{query}&{}", settings.container, azure_sas_token())
}

/// A call without a body, which must succeed; returns the body of the response.
pub async fn azure_call(method: Method, address: &str) -> bytes::Bytes {
    install_tls();
    let request = reqwest::Client::new().request(method, address).header("content-length", 0);
    let answer = request.send().await.unwrap_or_else(|error| {
        panic!("Azure: {}: run scripts/services start", error.without_url());
    });
    let (status, body) = (answer.status(), answer.bytes().await.expect("a whole body"));
    assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    body
}

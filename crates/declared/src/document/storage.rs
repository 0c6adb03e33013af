//! The storages of a workspace's document.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::values::{
    Account, AzureKey, Bucket, Container, Credential, Endpoint, KmsKey, Region, SasToken,
    StorageName,
};
use gateway::workspaces::rules::{checked, optional};
use gateway::workspaces::storage::{NamedStorage, Settings};
use objects::{AzureSettings, S3Settings};

/// Own storage for exports.
#[derive(Default, Deserialize, JsonSchema)]
pub(crate) struct Storage {
    pub s3: Option<S3>,
    pub azure: Option<Azure>,
}

/// A storage for the exports whose request names it. Either `s3` or `azure` is required.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NamedStorage")]
pub(crate) struct DeclaredStorage {
    /// The `destination` in requests: 1 to 64 lower-case letters, digits, hyphens and underscores,
    /// unique in the workspace. Not `url`, `s3` or `azure`, which have a meaning of their own.
    #[serde(deserialize_with = "checked::<StorageName, _>")]
    pub name: String,
    pub s3: Option<S3>,
    pub azure: Option<NamedAzure>,
}

/// Amazon S3 or a compatible store.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct S3 {
    #[serde(deserialize_with = "checked::<Bucket, _>")]
    pub bucket: String,
    /// The region, such as eu-west-1. Required without an endpoint.
    #[serde(default, deserialize_with = "optional::<Region, _>")]
    pub region: Option<String>,
    /// Without it, the default credential chain of the machine is used.
    #[serde(default, deserialize_with = "optional::<Credential, _>")]
    pub access_key_id: Option<String>,
    #[serde(default, deserialize_with = "optional::<Credential, _>")]
    pub secret_access_key: Option<String>,
    /// The session token of temporary credentials.
    #[serde(default, deserialize_with = "optional::<Credential, _>")]
    pub session_token: Option<String>,
    /// The URL of a compatible service. Default: Amazon's own.
    #[serde(default, deserialize_with = "optional::<Endpoint, _>")]
    pub endpoint: Option<String>,
    /// Whether URLs have the bucket's name in the path instead of the host name.
    #[serde(default)]
    pub path_style: bool,
    /// The ARN, id or alias of the KMS key that encrypts the files (SSE-KMS). Without it, the
    /// bucket's default encryption is used.
    #[serde(default, deserialize_with = "optional::<KmsKey, _>")]
    pub sse_kms_key_id: Option<String>,
}

/// Defines a type with the fields of every Azure storage, and their stored form. The file's reader
/// does not flatten types, so each type needs fields of its own.
macro_rules! azure {
    ($(#[$attribute:meta])* $name:ident { $($more:tt)* }) => {
        $(#[$attribute])*
        #[derive(Deserialize, JsonSchema)]
        pub(crate) struct $name {
            #[serde(deserialize_with = "checked::<Account, _>")]
            pub account: String,
            #[serde(deserialize_with = "checked::<Container, _>")]
            pub container: String,
            /// The account's access key, in base64.
            #[serde(default, deserialize_with = "optional::<AzureKey, _>")]
            pub access_key: Option<String>,
            /// A shared access signature that may read, write, create, list and delete.
            #[serde(default, deserialize_with = "optional::<SasToken, _>")]
            pub sas_token: Option<String>,
            /// The URL of the account. Default: `https://<account>.blob.core.windows.net`.
            #[serde(default, deserialize_with = "optional::<Endpoint, _>")]
            pub endpoint: Option<String>,
            $($more)*
        }

        impl $name {
            fn settings(&self) -> Settings {
                Settings::Azure(AzureSettings {
                    account: self.account.clone(),
                    container: self.container.clone(),
                    access_key: self.access_key.clone(),
                    sas_token: self.sas_token.clone(),
                    endpoint: self.endpoint.clone(),
                    ..AzureSettings::default()
                })
            }
        }
    };
}

azure! {
    /// Azure Blob Storage, with an access key or a SAS token.
    Azure {
        /// Whether exports go to this container. Otherwise they go to S3 if it is configured;
        /// without S3, they have a download URL.
        #[serde(default)]
        pub default_export_destination: bool,
    }
}

azure! {
    /// Azure Blob Storage with a name, so it is never the default destination.
    NamedAzure {}
}

impl Storage {
    /// The stored settings. With own storage there is no download URL.
    pub(crate) fn settings(&self) -> impl Iterator<Item = Settings> {
        let azure = self.azure.as_ref().map(Azure::settings);
        self.s3.as_ref().map(S3::settings).into_iter().chain(azure)
    }
}

impl DeclaredStorage {
    /// The stored form; none without settings.
    pub fn named(&self) -> Option<NamedStorage> {
        let s3 = self.s3.as_ref().map(S3::settings);
        let settings = s3.or_else(|| self.azure.as_ref().map(NamedAzure::settings))?;
        Some(NamedStorage { name: self.name.clone(), settings })
    }
}

impl S3 {
    fn settings(&self) -> Settings {
        Settings::S3(S3Settings {
            bucket: self.bucket.clone(),
            region: self.region.clone(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret_access_key.clone(),
            session_token: self.session_token.clone(),
            endpoint: self.endpoint.clone(),
            path_style: self.path_style,
            sse_kms_key_id: self.sse_kms_key_id.clone(),
            ..S3Settings::default()
        })
    }
}

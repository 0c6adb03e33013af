//! `storage` of the workspace file.

use super::Check;
use crate::workspace_file::schema::{AzureFile, S3File, StorageFile, Text};
use crate::workspace_file::values;
use crate::workspaces::storage::Settings;
use objects::{AzureSettings, S3Settings};

impl Check<'_> {
    pub(crate) fn storage(
        &mut self,
        file: Option<&StorageFile>,
    ) -> (Option<Settings>, Option<Settings>, Option<bool>) {
        let s3 = file.and_then(|file| file.s3.as_ref());
        let azure = file.and_then(|file| file.azure.as_ref());
        (
            s3.and_then(|file| self.s3(file)),
            azure.and_then(|file| self.azure(file)),
            azure.map(|file| file.default_export_destination),
        )
    }

    fn s3(&mut self, file: &S3File) -> Option<Settings> {
        let mut credential = |name: &str, text: &Option<Text>| {
            self.optional(&format!("storage.s3.{name}"), text.as_ref(), values::credential)
        };
        let access_key_id = credential("access_key_id", &file.access_key_id);
        let secret_access_key = credential("secret_access_key", &file.secret_access_key);
        let session_token = credential("session_token", &file.session_token);
        let line = file.bucket.line();
        if access_key_id.is_some() != secret_access_key.is_some() {
            self.refuse(
                line,
                "storage.s3",
                "access_key_id and secret_access_key go together; without both, the machine's \
                 own credentials are used",
            );
        } else if session_token.is_some() && access_key_id.is_none() {
            self.refuse(
                line,
                "storage.s3.session_token",
                "it goes with access_key_id and secret_access_key",
            );
        }
        let region = self.optional("storage.s3.region", file.region.as_ref(), values::region);
        if file.region.is_none() && file.endpoint.is_none() {
            self.refuse(line, "storage.s3.region", "it is missing, such as eu-west-1");
        }
        Some(Settings::S3(S3Settings {
            bucket: self.value("storage.s3.bucket", &file.bucket, values::bucket)?,
            prefix: String::new(),
            region,
            access_key_id,
            secret_access_key,
            session_token,
            endpoint: self.optional(
                "storage.s3.endpoint",
                file.endpoint.as_ref(),
                values::endpoint,
            ),
            // With own storage there is no download address.
            public_endpoint: None,
            path_style: file.path_style,
        }))
    }

    fn azure(&mut self, file: &AzureFile) -> Option<Settings> {
        let access_key =
            self.optional("storage.azure.access_key", file.access_key.as_ref(), values::azure_key);
        let sas_token = self.optional("storage.azure.sas_token", file.sas_token.as_ref(), |text| {
            values::credential(text.strip_prefix('?').unwrap_or(text))
        });
        // Whether they were given at all: one that is wrong has been refused already.
        if file.access_key.is_some() == file.sas_token.is_some()
            && access_key.is_some() == sas_token.is_some()
        {
            self.refuse(
                file.container.line(),
                "storage.azure",
                "expected one of access_key and sas_token",
            );
        }
        Some(Settings::Azure(AzureSettings {
            account: self.value("storage.azure.account", &file.account, values::account)?,
            container: self.value("storage.azure.container", &file.container, values::container)?,
            prefix: String::new(),
            access_key,
            sas_token,
            endpoint: self.optional(
                "storage.azure.endpoint",
                file.endpoint.as_ref(),
                values::endpoint,
            ),
            public_endpoint: None,
        }))
    }
}

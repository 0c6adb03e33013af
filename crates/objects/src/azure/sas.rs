//! URLs with a shared access signature.

use std::time::Duration;

use azure_core::hmac::hmac_sha256;
use jiff::Timestamp;
use url::Url;

use super::{Azure, Credentials};
use crate::{ObjectError, content_disposition};

/// The service version of the signatures.
const SAS_VERSION: &str = "2022-11-02";

impl Azure {
    /// A URL that can read the blob for `valid`. If we use a token, the URL contains it, so only
    /// the service may get the URL.
    pub(super) fn signed(
        &self,
        path: &str,
        valid: Duration,
        file_name: Option<&str>,
    ) -> Result<Url, ObjectError> {
        let unusable =
            |_| ObjectError::Refused(format!("{self}: {path:?} is not a valid blob name").into());
        let mut url = self.blob(path).url().map_err(unusable)?;
        let key = match &self.credentials {
            Credentials::Sas(token) => {
                url.set_query(Some(token));
                return Ok(url);
            }
            Credentials::Key(key) => key,
        };
        let expires = i64::try_from(valid.as_secs())
            .ok()
            .and_then(|valid| Timestamp::now().as_second().checked_add(valid))
            .and_then(|second| Timestamp::from_second(second).ok())
            .ok_or_else(|| ObjectError::Settings("signed URL: too long".into()))?
            .to_string();
        let disposition = file_name.map(content_disposition).unwrap_or_default();
        let name = self.full(path);
        let resource = format!("/blob/{}/{}/{name}", self.account, self.container.container_name());
        // Permissions, start, expiry, resource, policy, address, protocol, version, kind, snapshot,
        // scope, then the response's Cache-Control, Content-Disposition, -Encoding, -Language and
        // -Type ("Create a service SAS").
        let to_sign = [
            "r",
            "",
            &expires,
            &resource,
            "",
            "",
            "",
            SAS_VERSION,
            "b",
            "",
            "",
            "",
            &disposition,
            "",
            "",
            "",
        ];
        let signature = hmac_sha256(&to_sign.join("\n"), key).map_err(unusable)?;
        let mut query = url.query_pairs_mut();
        query.append_pair("sv", SAS_VERSION).append_pair("sr", "b").append_pair("sp", "r");
        query.append_pair("se", &expires);
        if file_name.is_some() {
            query.append_pair("rscd", &disposition);
        }
        query.append_pair("sig", &signature);
        drop(query);
        Ok(url)
    }
}

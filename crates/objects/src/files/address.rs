//! Signed URLs below the gateway's, for downloads of files.

use std::path::PathBuf;
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;

use super::{Files, checked_path};
use crate::ObjectError;

/// The purpose of the signatures.
const PURPOSE: &str = "object address";

/// The target of a download URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// The file to serve; it may have been deleted meanwhile.
    pub file: PathBuf,
    /// The offered file name; see [`content_disposition`](crate::content_disposition).
    pub name: String,
}

/// Why a download URL is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("not a download URL")]
    Malformed,
    #[error("the URL was not signed by this service")]
    Wrong,
    #[error("the URL has expired")]
    Expired,
}

impl Files {
    pub(crate) async fn signed_get(
        &self,
        path: &str,
        valid: Duration,
        file_name: &str,
    ) -> Result<String, ObjectError> {
        checked_path(path)?;
        let valid = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
        let expires = Timestamp::now().as_second().saturating_add(valid);
        let parts = [path.as_bytes(), &expires.to_be_bytes(), file_name.as_bytes()];
        let tag = self.secrets.derive(PURPOSE, &parts);
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("expires", &expires.to_string())
            .append_pair("name", file_name)
            .append_pair("signature", &BASE64_URL_SAFE_NO_PAD.encode(tag))
            .finish();
        Ok(format!("/objects/{path}?{query}"))
    }

    /// Verifies a URL of [`signed_get`](crate::Objects::signed_get): `path` is the part after
    /// `/objects/`, `query` the part after the question mark, both as received. The file is always
    /// below the root.
    pub fn verify(
        &self,
        path: &str,
        query: &str,
        now: Timestamp,
    ) -> Result<Download, SignatureError> {
        let file = self.root.join(checked_path(path).map_err(|_| SignatureError::Malformed)?);
        let [expires, name, signature] = ["expires", "name", "signature"]
            .map(|name| value_of(query, name).ok_or(SignatureError::Malformed));
        let expires: i64 = expires?.parse().map_err(|_| SignatureError::Malformed)?;
        let (name, signature) = (name?, signature?);
        let tag =
            BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| SignatureError::Malformed)?;
        let parts = [path.as_bytes(), &expires.to_be_bytes(), name.as_bytes()];
        if !self.secrets.verify(PURPOSE, &parts, &tag) {
            return Err(SignatureError::Wrong);
        }
        if now.as_second() >= expires {
            return Err(SignatureError::Expired);
        }
        Ok(Download { file, name })
    }
}

/// The value of a parameter that occurs once in the query.
fn value_of(query: &str, parameter: &str) -> Option<String> {
    let mut values =
        url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == parameter);
    let (_, value) = values.next()?;
    values.next().is_none().then(|| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::secrets::SecretKey;

    fn secrets() -> SecretKey {
        SecretKey::parse(&SecretKey::generate(), None).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn parts(address: &str) -> (&str, &str) {
        address.strip_prefix("/objects/").unwrap().split_once('?').unwrap()
    }

    #[tokio::test]
    async fn a_signed_address_serves_its_file_until_it_expires() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::open(directory.path().to_owned(), secrets()).await.unwrap();
        let address =
            files.signed_get("exports/a/x.zip", Duration::from_secs(60), "users & more.zip").await;
        let address = address.unwrap();
        let (path, query) = parts(&address);
        let expires: i64 = value_of(query, "expires").unwrap().parse().unwrap();
        let download = files.verify(path, query, at(expires - 1)).unwrap();
        assert_eq!(download.file, directory.path().join("exports/a/x.zip"));
        assert_eq!(download.name, "users & more.zip");
        assert_eq!(files.verify(path, query, at(expires)), Err(SignatureError::Expired));

        let later = query.replace(&expires.to_string(), &(expires + 1).to_string());
        let renamed = query.replace("users", "losers");
        for (path, query) in [("exports/a/y.zip", query), (path, &later), (path, &renamed)] {
            assert_eq!(
                files.verify(path, query, at(0)),
                Err(SignatureError::Wrong),
                "{path}?{query}"
            );
        }
        let twice = format!("{query}&expires=1");
        for (path, query) in [
            ("../x.zip", query),
            (path, ""),
            (path, "expires=x&name=a&signature=b"),
            (path, &twice),
        ] {
            assert_eq!(
                files.verify(path, query, at(0)),
                Err(SignatureError::Malformed),
                "{path}?{query}"
            );
        }
        let other_key = Files { secrets: secrets(), ..files.clone() };
        assert_eq!(other_key.verify(path, query, at(0)), Err(SignatureError::Wrong));
    }
}

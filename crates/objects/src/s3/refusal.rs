//! Describes failures of the SDK and rejections of the store.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_runtime::retries::classifiers::{THROTTLING_ERRORS, TRANSIENT_ERRORS};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use jiff::Timestamp;

use super::{Response, S3};
use crate::bounds::{TOO_LONG, is_too_long};
use crate::failure::{
    Failure, SKEW_ALLOWED, clock_skew, clock_skew_error, innermost, is_transient, shown_code,
};
use crate::{ObjectError, Reason};

/// Requests that need no existing object.
const NEEDS_BUCKET_ONLY: [&str; 3] = ["PutObject", "ListBucket", "ListBucketMultipartUploads"];

impl S3 {
    pub(super) fn failure<E: ProvideErrorMetadata + Error + 'static>(
        &self,
        action: &str,
        path: &str,
        error: &SdkError<E, Response>,
    ) -> Failure {
        match error {
            SdkError::ServiceError(context) => {
                let code = shown_code(context.err().code().unwrap_or_default());
                let message = context.err().message().unwrap_or_default();
                let status = context.raw().status().as_u16();
                let error = self
                    .kms_refusal(action, code, message)
                    .unwrap_or_else(|| self.refusal(action, path, code, context.raw()));
                Failure { status: Some(status), error }
            }
            SdkError::ResponseError(context) => {
                let status = context.raw().status().as_u16();
                let error = if is_too_long(error) {
                    ObjectError::Refused(Reason::at(self, TOO_LONG))
                } else {
                    self.refusal(action, path, "", context.raw())
                };
                Failure { status: Some(status), error }
            }
            SdkError::TimeoutError(_) => Failure::without_response(ObjectError::Unavailable(
                format!("{self}: {action} timed out").into(),
            )),
            SdkError::DispatchFailure(failure) => {
                let error = failure.as_connector_error();
                let reason = error.map(|error| innermost(&error)).unwrap_or_default();
                Failure::without_response(if error.is_some_and(|error| lacks_credentials(error)) {
                    credentials_missing(self, reason)
                } else {
                    ObjectError::Unavailable(format!("cannot reach {self}: {reason}").into())
                })
            }
            _ => Failure::without_response(ObjectError::Refused(
                format!("{self}: cannot send {action}: a setting or the key {path:?} is not valid")
                    .into(),
            )),
        }
    }

    /// The error of a failed HEAD. The response to a rejected one has no body, so a GET asks for
    /// the code, which decides whether a retry may help.
    pub(super) async fn head_error(&self, path: &str, failure: Failure) -> ObjectError {
        let (Some(status), ObjectError::Refused(_)) = (failure.status, &failure.error) else {
            return failure.error;
        };
        match self.get(path).await {
            // The body is not read.
            Ok(_) => ObjectError::Unavailable(
                format!("{self}: HeadObject was rejected ({status}), but GetObject was not").into(),
            ),
            Err(error) => error,
        }
    }

    /// The cause of a rejection, and how to fix it.
    fn refusal(&self, action: &str, path: &str, code: &str, answer: &Response) -> ObjectError {
        let (bucket, status) = (&self.bucket, answer.status().as_u16());
        let header = |name| answer.headers().get(name);
        let region = header("x-amz-bucket-region");
        let skew = header("date").and_then(|date| clock_skew(date, Timestamp::now()));
        let refused = |text: String| ObjectError::Refused(Reason::at(self, text));
        let unavailable = |text: String| ObjectError::Unavailable(Reason::at(self, text));
        match code {
            "NoSuchBucket" => refused(format!("the bucket {bucket} does not exist")),
            "NoSuchUpload" | "InvalidPart" => ObjectError::Unavailable(
                format!(
                    "{self}: the unfinished upload of {path}, or a part of it, no longer exists"
                )
                .into(),
            ),
            // The second is a code of versitygw.
            "InvalidAccessKeyId" | "XAdminUserNotFound" => {
                refused("the store does not know the access_key_id".into())
            }
            "SignatureDoesNotMatch" => {
                refused("the secret_access_key does not belong to the access_key_id".into())
            }
            "ExpiredToken" | "TokenRefreshRequired" if self.renews_credentials => {
                ObjectError::Unavailable(
                    format!(
                        "{self}: the credentials of this machine have expired ({code}): check what \
                     renews them"
                    )
                    .into(),
                )
            }
            "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => {
                refused("the session_token has expired or is not valid: set a new one".into())
            }
            // The SDK adjusts to the store's clock after the first such response, so this is rare.
            "RequestTimeTooSkewed" => clock_skew_error(skew),
            "PermanentRedirect"
            | "TemporaryRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException"
            | "IncorrectEndpoint" => refused(self.wrong_region(region)),
            "InvalidBucketName" => refused(format!("{bucket} is not a valid bucket name")),
            // Codes of Ceph, versitygw, MinIO, Huawei OBS and Yandex; AWS has no quota.
            "QuotaExceeded"
            | "XMinioAdminBucketQuotaExceeded"
            | "XMinioStorageFull"
            | "InsufficientStorageSpace"
            | "BucketMaxSizeExceeded"
            | "CloudTotalAliveSizeQuotaExceed" => unavailable(format!(
                "storage is full ({code}): free some space, or raise the quota"
            )),
            _ if is_transient_code(code) => {
                unavailable(format!("{action} failed for now ({code})"))
            }
            _ if is_transient(status) => {
                unavailable(format!("{action} failed in the store ({status} {code})"))
            }
            _ => match status {
                301 | 307 | 400 if region.is_some_and(|theirs| theirs != self.region) => {
                    refused(self.wrong_region(region))
                }
                404 if NEEDS_BUCKET_ONLY.contains(&action) => refused(format!(
                    "the bucket {bucket} does not exist, or not at this endpoint ({code})"
                )),
                404 => ObjectError::NotFound(path.to_owned()),
                // The source changed after it was inspected.
                412 if action == "CopyObject" => ObjectError::NotFound(path.to_owned()),
                // The response to a HEAD has no code.
                403 if code.is_empty() && skew.is_some_and(|skew| skew.abs() > SKEW_ALLOWED) => {
                    clock_skew_error(skew)
                }
                401 | 403 => refused(format!(
                    "access denied: the key may not {action} in the bucket {bucket}"
                )),
                _ => refused(format!("{action} was rejected ({status} {code})")),
            },
        }
    }

    /// The cause of a rejection by the store's KMS, and how to fix it. A bucket can also use a KMS
    /// key by default.
    fn kms_refusal(&self, action: &str, code: &str, message: &str) -> Option<ObjectError> {
        let unavailable = |text: String| ObjectError::Unavailable(Reason::at(self, text));
        let key = match &self.kms_key {
            Some(key) => format!("the KMS key {key}"),
            None => "the KMS key of the bucket".to_owned(),
        };
        let text = match code {
            "KMS.NotFoundException" => format!(
                "{key} does not exist: set sse_kms_key_id to the ARN of a key in the bucket's region"
            ),
            "KMS.DisabledException" => format!("{key} is disabled: enable it"),
            "KMS.KMSInvalidStateException" => {
                format!("{key} cannot be used in its current state, such as pending deletion")
            }
            "KMS.ThrottlingException"
            | "KMS.InternalException"
            | "KMS.KMSInternalException"
            | "KMS.DependencyTimeoutException"
            | "KMS.KeyUnavailableException" => {
                return Some(unavailable(format!("{action} failed for now ({code})")));
            }
            _ if code.starts_with("KMS.") => format!("{key} was rejected ({code})"),
            // MinIO without a KMS.
            "NotImplemented" if self.kms_key.is_some() => {
                "the store does not support SSE-KMS, or has no KMS: remove sse_kms_key_id"
                    .to_owned()
            }
            "AccessDenied" => {
                let permission = kms_permission(message)?;
                format!("access denied: the key may not {permission} with {key}")
            }
            _ => return None,
        };
        Some(ObjectError::Refused(Reason::at(self, text)))
    }

    fn wrong_region(&self, theirs: Option<&str>) -> String {
        let (bucket, ours) = (&self.bucket, &self.region);
        match theirs {
            Some(theirs) => format!("the bucket {bucket} is in region {theirs}, not in {ours}"),
            None => format!("the bucket {bucket} is not in region {ours}, or not at this endpoint"),
        }
    }
}

/// Whether a request with this code may succeed later, whatever its status.
fn is_transient_code(code: &str) -> bool {
    THROTTLING_ERRORS.contains(&code)
        || TRANSIENT_ERRORS.contains(&code)
        || matches!(
            code,
            "OperationAborted"
                | "ConditionalRequestConflict"
                | "BadDigest"
                | "XAmzContentSHA256Mismatch"
                | "IncompleteBody"
                | "InternalError"
                | "ServiceUnavailable"
        )
}

/// The permission of KMS that the message of a rejection names: it has the form `User: … is not
/// authorized to perform: kms:GenerateDataKey on resource: …`.
fn kms_permission(message: &str) -> Option<&str> {
    message.split_whitespace().find(|word| {
        let name = word.strip_prefix("kms:").unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether there are no credentials at all, as opposed to a temporary failure to get them.
fn lacks_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    kit::errors::causes(error).any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(
                CredentialsError::CredentialsNotLoaded(_)
                    | CredentialsError::InvalidConfiguration(_)
            )
        )
    })
}

fn credentials_missing(s3: &S3, reason: String) -> ObjectError {
    ObjectError::Refused(
        format!(
            "{s3}: no credentials found: set access_key_id and secret_access_key, or configure the \
         default credential chain ({reason})"
        )
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::{S3Settings, Sizes};
    use kit::retry::Retry as _;

    async fn a_bucket() -> S3 {
        let settings = S3Settings {
            bucket: "exports".into(),
            region: Some("us-east-1".into()),
            access_key_id: Some("an id".into()),
            secret_access_key: Some("a secret".into()),
            sse_kms_key_id: Some("alias/exports".into()),
            ..S3Settings::default()
        };
        S3::open(&settings, Sizes { part: 1, copy: 1, page: 1 }, None).await.unwrap()
    }

    #[tokio::test]
    async fn rejections_by_kms_name_the_key_and_the_permission() {
        let s3 = a_bucket().await;
        let denied = "User: arn:aws:iam::111122223333:user/a is not authorized to perform: \
                      kms:GenerateDataKey on resource: arn:aws:kms:eu-west-1:111122223333:key/b";
        for (code, message, part) in [
            ("AccessDenied", denied, "kms:GenerateDataKey"),
            ("KMS.NotFoundException", "", "does not exist"),
            ("KMS.DisabledException", "", "is disabled"),
            ("KMS.KMSInvalidStateException", "", "current state"),
            ("KMS.InvalidKeyUsageException", "", "KMS.InvalidKeyUsageException"),
        ] {
            let error = s3.kms_refusal("PutObject", code, message).expect(code);
            assert!(matches!(error, ObjectError::Refused(_)), "{code}: {error:?}");
            let text = error.to_string();
            assert!(text.contains("alias/exports") && text.contains(part), "{text}");
        }
        let busy = s3.kms_refusal("PutObject", "KMS.ThrottlingException", "").unwrap();
        assert!(busy.can_retry(), "{busy:?}");
        for (code, message) in [
            ("AccessDenied", "Access Denied"),
            ("AccessDenied", "kms: arn:aws:kms:x"),
            ("", denied),
        ] {
            assert!(s3.kms_refusal("PutObject", code, message).is_none(), "{code} {message}");
        }
    }

    #[tokio::test]
    async fn full_storage_is_reported_as_unavailable() {
        let s3 = a_bucket().await;
        for (status, code) in [
            (403, "QuotaExceeded"),
            (400, "XMinioAdminBucketQuotaExceeded"),
            (507, "XMinioStorageFull"),
            (403, "InsufficientStorageSpace"),
            (400, "BucketMaxSizeExceeded"),
            (400, "CloudTotalAliveSizeQuotaExceed"),
        ] {
            let answer = Response::new(status.try_into().unwrap(), "".into());
            let error = s3.refusal("PutObject", "a key", code, &answer);
            assert!(matches!(error, ObjectError::Unavailable(_)), "{code}: {error:?}");
            let text = error.to_string();
            assert!(text.contains("storage is full") && text.contains(code), "{text}");
        }
    }

    #[tokio::test]
    async fn codes_decide_about_retries() {
        let declared = a_bucket().await;
        let machine = S3 { renews_credentials: true, ..declared.clone() };
        for (status, code, declared_retries, machine_retries) in [
            (403, "SlowDown", true, true),
            (400, "RequestTimeout", true, true),
            (400, "ThrottlingException", true, true),
            (400, "XAmzContentSHA256Mismatch", true, true),
            (400, "InvalidPart", true, true),
            (400, "ExpiredToken", false, true),
            (400, "TokenRefreshRequired", false, true),
            (400, "InvalidToken", false, false),
            (403, "AccessDenied", false, false),
            (400, "InvalidRequest", false, false),
        ] {
            let answer = Response::new(status.try_into().unwrap(), "".into());
            let retries = |s3: &S3| s3.refusal("PutObject", "a key", code, &answer).can_retry();
            assert_eq!(retries(&declared), declared_retries, "{code}");
            assert_eq!(retries(&machine), machine_retries, "{code}");
        }
    }

    #[tokio::test]
    async fn clock_skew_is_detected_without_an_error_code() {
        let s3 = a_bucket().await;
        let refusal = |code, seconds| {
            let mut answer = Response::new(403.try_into().unwrap(), "".into());
            let time = Timestamp::now() + SignedDuration::from_secs(seconds);
            let date =
                jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time);
            answer.headers_mut().insert("date", date.unwrap());
            s3.refusal("HeadObject", "a key", code, &answer)
        };
        for (code, seconds) in [("", 3_600), ("", -3_600), ("RequestTimeTooSkewed", 0)] {
            assert!(refusal(code, seconds).is_clock_error(), "{code} {seconds}");
        }
        for (code, seconds) in [("", 0), ("", 600), ("AccessDenied", 3_600)] {
            assert!(!refusal(code, seconds).is_clock_error(), "{code} {seconds}");
        }
    }
}

//! The hash of a body in the signature of its request.

use std::error::Error;

use aws_runtime::auth::PayloadSigningOverride;
use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};

/// Signs this hash (SHA-256, in hexadecimal), which the SDK would compute again. A store rejects a
/// body with another one.
#[derive(Debug)]
pub(super) struct KnownHash(String);

impl KnownHash {
    pub fn new(sha256: &[u8; 32]) -> Self {
        Self(hex::encode(sha256))
    }
}

impl Intercept for KnownHash {
    fn name(&self) -> &'static str {
        "KnownHash"
    }

    fn modify_before_signing(
        &self,
        _: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let known = PayloadSigningOverride::Precomputed(self.0.clone());
        config.interceptor_state().store_put(known);
        Ok(())
    }
}

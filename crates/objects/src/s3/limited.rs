//! A limit for the bodies of responses that the SDK reads into memory.

use std::error::Error;

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextMut;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::primitives::SdkBody;
use http_body_util::Limited;

use crate::bounds::max_bytes;

#[derive(Debug)]
pub(super) struct LimitedResponses {
    /// Whether successful responses are objects, which are streams without a limit.
    pub are_objects: bool,
}

impl Intercept for LimitedResponses {
    fn name(&self) -> &'static str {
        "LimitedResponses"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let response = context.response_mut();
        let is_success = response.status().is_success();
        if !(self.are_objects && is_success) {
            let body = std::mem::replace(response.body_mut(), SdkBody::taken());
            let limited = Limited::new(body, max_bytes(is_success));
            *response.body_mut() = SdkBody::from_body_1_x(limited);
        }
        Ok(())
    }
}

//! Changes some properties of topics and leaves the others, which rdkafka cannot do.

use std::ffi::{CStr, CString};
use std::ptr;

use rdkafka::ClientContext;
use rdkafka::bindings as native;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

use super::describe::{Owned, check_response};
use super::topics::TIMEOUT;
use crate::message::LogError;

/// Sets properties of a topic; blocks. Fails with the cluster's reason if it does not allow that.
pub(super) fn set_properties<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    properties: &[(&str, &str)],
) -> Result<(), LogError> {
    let text =
        |text: &str| CString::new(text).map_err(|error| LogError::Settings(error.to_string()));
    let name = text(topic)?;
    let millis = TIMEOUT.as_millis() as i32;
    let operation = native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_INCREMENTALALTERCONFIGS;
    // SAFETY: the client and the texts live until the end. Objects created here are checked for
    // null and released once, in reverse order. The result is read while its event is alive.
    unsafe {
        let client = client.native_ptr();
        let queue = Owned::new(native::rd_kafka_queue_new(client), native::rd_kafka_queue_destroy)?;
        let options = Owned::new(
            native::rd_kafka_AdminOptions_new(client, operation),
            native::rd_kafka_AdminOptions_destroy,
        )?;
        native::rd_kafka_AdminOptions_set_request_timeout(
            options.pointer,
            millis,
            ptr::null_mut(),
            0,
        );
        let resource = Owned::new(
            native::rd_kafka_ConfigResource_new(
                native::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC,
                name.as_ptr(),
            ),
            native::rd_kafka_ConfigResource_destroy,
        )?;
        for (property, value) in properties {
            let (property, value) = (text(property)?, text(value)?);
            let error = native::rd_kafka_ConfigResource_add_incremental_config(
                resource.pointer,
                property.as_ptr(),
                native::rd_kafka_AlterConfigOpType_t::RD_KAFKA_ALTER_CONFIG_OP_TYPE_SET,
                value.as_ptr(),
            );
            if !error.is_null() {
                let error = Owned::new(error, native::rd_kafka_error_destroy)?;
                check_response(native::rd_kafka_error_code(error.pointer))?;
            }
        }
        let mut resources = [resource.pointer];
        native::rd_kafka_IncrementalAlterConfigs(
            client,
            resources.as_mut_ptr(),
            resources.len(),
            options.pointer,
            queue.pointer,
        );
        // The request's own time-out comes first; this one covers a missing event.
        let event = Owned::new(
            native::rd_kafka_queue_poll(queue.pointer, 2 * millis),
            native::rd_kafka_event_destroy,
        )?;
        check_response(native::rd_kafka_event_error(event.pointer))?;
        let result = native::rd_kafka_event_IncrementalAlterConfigs_result(event.pointer);
        let mut count = 0;
        let changed = if result.is_null() {
            ptr::null_mut()
        } else {
            native::rd_kafka_IncrementalAlterConfigs_result_resources(result, &mut count)
        };
        if count != 1 || changed.is_null() {
            return Err(LogError::Unavailable(format!("the cluster did not change {topic}")));
        }
        match native::rd_kafka_ConfigResource_error(*changed) {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
            error => {
                let reason = native::rd_kafka_ConfigResource_error_string(*changed);
                Err(LogError::Refused(if reason.is_null() {
                    RDKafkaErrorCode::from(error).to_string()
                } else {
                    CStr::from_ptr(reason).to_string_lossy().into_owned()
                }))
            }
        }
    }
}

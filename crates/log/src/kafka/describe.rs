//! A topic's content in the cluster: its id, which rdkafka cannot query, and the offsets of its
//! partitions.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::bindings as native;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

use super::unavailable;
use crate::cursors::{OffsetRange, TopicOffsets};
use crate::message::LogError;

/// Time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a response if others wait for it and the query is repeated soon.
const LITTLE: Duration = Duration::from_millis(500);

/// Queries the cluster; blocks. Fails if a partition's offsets cannot be read.
pub(super) fn topic_offsets<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partitions: impl IntoIterator<Item = i32>,
) -> Result<TopicOffsets, LogError> {
    // The client also learns the current leaders from the response.
    let id = topic_id(client, topic)?;
    let ranges = partitions.into_iter().map(|partition| range(client, topic, partition, TIMEOUT));
    Ok(TopicOffsets { id, ranges: ranges.collect::<Result<_, LogError>>()? })
}

/// Like [`topic_offsets`], but only for the partitions whose offsets can be read. Each is requested
/// right before the wait for its response. Partitions without a leader are skipped. If a leader
/// does not respond, its other partitions are given up soon after the first.
pub(super) fn known_topic_offsets<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    is_requested: impl Fn(i32) -> bool,
) -> Result<TopicOffsets, LogError> {
    let id = topic_id(client, topic)?;
    let metadata = client.fetch_metadata(Some(topic), TIMEOUT).map_err(unavailable)?;
    let all = metadata.topics().iter().flat_map(|topic| topic.partitions());
    let led = all.filter(|partition| partition.leader() >= 0).map(|partition| partition.id());
    let began = Instant::now();
    let ranges = led.filter(|partition| is_requested(*partition)).filter_map(|partition| {
        let timeout = TIMEOUT.saturating_sub(began.elapsed()).max(LITTLE);
        let range = range(client, topic, partition, timeout);
        range.inspect_err(|error| tracing::warn!(partition, %error, "cannot read offsets")).ok()
    });
    Ok(TopicOffsets { id, ranges: ranges.collect() })
}

fn range<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partition: i32,
    timeout: Duration,
) -> Result<OffsetRange, LogError> {
    let offsets = client.fetch_watermarks(topic, partition, timeout).map_err(unavailable);
    offsets.map(|(earliest, end)| OffsetRange { partition, earliest, end })
}

/// The end of a partition according to the latest fetch.
pub(super) fn known_end<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partition: i32,
) -> Option<i64> {
    let topic = CString::new(topic).ok()?;
    let (mut earliest, mut end) = (-1, -1);
    // SAFETY: the client is alive, the name ends with a NUL, and the numbers are writable.
    let error = unsafe {
        native::rd_kafka_get_watermark_offsets(
            client.native_ptr(),
            topic.as_ptr(),
            partition,
            &mut earliest,
            &mut end,
        )
    };
    (error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && end >= 0).then_some(end)
}

/// An object of librdkafka, released when this is dropped.
pub(super) struct Owned<T> {
    pub pointer: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    pub fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Result<Self, LogError> {
        if pointer.is_null() {
            return Err(LogError::Unavailable("cannot describe or change a topic".into()));
        }
        Ok(Self { pointer, destroy })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: it is not null, and nothing else releases it.
        unsafe { (self.destroy)(self.pointer) }
    }
}

/// The id that the cluster gave a topic at its creation.
fn topic_id<C: ClientContext>(client: &Client<C>, topic: &str) -> Result<String, LogError> {
    let name = CString::new(topic).map_err(|error| LogError::Settings(error.to_string()))?;
    let mut names: [*const c_char; 1] = [name.as_ptr()];
    let millis = TIMEOUT.as_millis() as i32;
    let operation = native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    // SAFETY: the client and the names live until the end. Objects created here are checked for
    // null and released once, in reverse order. The id is copied while its event is alive.
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
        let topics = Owned::new(
            native::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()),
            native::rd_kafka_TopicCollection_destroy,
        )?;
        native::rd_kafka_DescribeTopics(client, topics.pointer, options.pointer, queue.pointer);
        // The request's own time-out comes first; this one covers a missing event.
        let event = Owned::new(
            native::rd_kafka_queue_poll(queue.pointer, 2 * millis),
            native::rd_kafka_event_destroy,
        )?;
        check_response(native::rd_kafka_event_error(event.pointer))?;
        let result = native::rd_kafka_event_DescribeTopics_result(event.pointer);
        let mut count = 0;
        let described = if result.is_null() {
            ptr::null_mut()
        } else {
            native::rd_kafka_DescribeTopics_result_topics(result, &mut count)
        };
        if count != 1 || described.is_null() {
            return Err(LogError::Unavailable(format!("the cluster did not describe {topic}")));
        }
        let described = *described;
        let error = native::rd_kafka_TopicDescription_error(described);
        if !error.is_null() {
            check_response(native::rd_kafka_error_code(error))?;
        }
        let id = native::rd_kafka_TopicDescription_topic_id(described);
        Ok(CStr::from_ptr(native::rd_kafka_Uuid_base64str(id)).to_string_lossy().into_owned())
    }
}

pub(super) fn check_response(error: RDKafkaRespErr) -> Result<(), LogError> {
    match error {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART => {
            Err(LogError::Unavailable("the topic does not exist: run `longshore migrate`".into()))
        }
        other => Err(LogError::Unavailable(RDKafkaErrorCode::from(other).to_string())),
    }
}

use std::sync::atomic::AtomicBool;

use futures::FutureExt as _;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::lane::{MAX_TIMEOUT, State};
use super::*;

fn settings(properties: &[(&str, &str)]) -> Arc<Settings> {
    Arc::new(Settings {
        brokers: "127.0.0.1:1".into(),
        topics: TOPICS,
        topic_prefix: "t.".into(),
        partitions: 2,
        replication: 1,
        timeout: Duration::from_millis(200),
        properties: properties
            .iter()
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect::<BTreeMap<_, _>>(),
    })
}

/// A producer for a new topic of a mock cluster.
fn on_cluster(
    cluster: &MockCluster<'_, DefaultProducerContext>,
    timeout: Duration,
    properties: &[(&str, &str)],
) -> Producer {
    let settings = Arc::into_inner(settings(properties)).unwrap();
    cluster.create_topic("t.exports", settings.partitions, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    Producer::new(Arc::new(Settings { brokers, timeout, ..settings })).unwrap()
}

fn prompt(producer: &Producer) -> Arc<Client> {
    producer.prompt.current(&producer.settings).unwrap()
}

fn is_unused(lane: &Lane) -> bool {
    matches!(*lane.state.read(), State::Unused)
}

const TOPICS: &[Topic] = &[Topic::new("exports")];

fn message() -> NewMessage {
    NewMessage {
        topic: TOPICS[0],
        key: vec![1],
        partition: None,
        payload: vec![],
        request_id: String::new(),
    }
}

#[tokio::test]
async fn a_broken_producer_is_replaced() {
    let producer = Producer::new(settings(&[])).unwrap();
    let native = prompt(&producer);
    let reason = c"on purpose";
    // SAFETY: the client is alive, and the text ends with a NUL.
    unsafe {
        rdkafka::bindings::rd_kafka_test_fatal_error(
            native.producer.client().native_ptr(),
            rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
            reason.as_ptr(),
        );
    }
    assert!(native.producer.client().fatal_error().is_some());
    let error = producer.append(&[message()]).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    assert!(prompt(&producer).producer.client().fatal_error().is_none());
}

/// No server listens on this address.
#[tokio::test]
async fn replaced_producers_have_longer_timeouts() {
    let producer = Producer::new(settings(&[])).unwrap();
    let first = prompt(&producer);
    let messages = [message()];
    let appends = (0..3).map(|_| producer.append(&messages));
    for result in futures::future::join_all(appends).await {
        assert!(matches!(result, Err(LogError::Unavailable(_))), "{result:?}");
    }
    let second = prompt(&producer);
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(second.confirm_timeout, 2 * first.confirm_timeout, "it was replaced once");
    // A holder of the first client does not replace the second.
    producer.prompt.replace_if_broken(&producer.settings, &first, true);
    assert!(Arc::ptr_eq(&second, &prompt(&producer)));
    // A client that rejects a too large message is not replaced either.
    let large = NewMessage { payload: vec![0; 2 * MAX_BATCH_BYTES], ..message() };
    let error = producer.append(&[large]).await.unwrap_err();
    assert!(matches!(error, LogError::Refused(_)), "{error}");
    assert!(Arc::ptr_eq(&second, &prompt(&producer)));
}

/// The brokers reject a first message while the partition gets a leader, and others follow
/// right after it. librdkafka's mock cluster accepts those, like Kafka.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_first_message_is_not_lost_to_those_after_it() {
    const APPENDS: usize = 8;
    let cluster = MockCluster::new(1).unwrap();
    let slow = Duration::from_millis(50);
    cluster.broker_round_trip_time(1, slow).unwrap();
    let producer = on_cluster(&cluster, Duration::from_secs(30), &[]);
    let written = || {
        let client = prompt(&producer);
        client.producer.client().fetch_watermarks("t.exports", 0, MAX_TIMEOUT).unwrap().1
    };
    let to = |partition| NewMessage { partition: Some(partition), ..message() };
    // It has its number and knows the leader; the next append is sent immediately.
    producer.append(&[to(1)]).await.unwrap();
    assert_eq!(written(), 0);
    let rejected = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.request_errors(RDKafkaApiKey::Produce, &[rejected]);
    let appends = (0..APPENDS).map(async |number| {
        sleep(slow / 5 * u32::try_from(number).unwrap()).await;
        let payload = vec![u8::try_from(number).unwrap()];
        producer.append(&[NewMessage { payload, ..to(0) }]).await
    });
    for appended in futures::future::join_all(appends).await {
        appended.unwrap();
    }
    assert_eq!(written(), i64::try_from(APPENDS).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_for_others_while_many_are_in_flight() {
    let cluster = MockCluster::new(1).unwrap();
    let producer = on_cluster(&cluster, Duration::from_secs(30), &[]);
    let messages = [message()];
    let appends = |count| futures::future::join_all((0..count).map(|_| producer.append(&messages)));
    assert!(appends(FEW).await.into_iter().all(|appended| appended.is_ok()));
    assert!(is_unused(&producer.gathering));
    // None is confirmed while others begin, also if this thread has to wait for a processor.
    cluster.broker_round_trip_time(1, Duration::from_secs(1)).unwrap();
    // Each message of an append counts: it is a request of its own.
    let many: Vec<NewMessage> = (0..FEW).map(|_| message()).collect();
    let (first, second) = tokio::join!(producer.append(&many), producer.append(&messages));
    assert!(first.is_ok() && second.is_ok());
    let gathering = producer.gathering.current(&producer.settings).unwrap();
    assert!(gathering.last_confirmed().is_some());
    // One that is given up is not in flight any more.
    let mut given_up = Box::pin(appends(2 * FEW));
    assert!((&mut given_up).now_or_never().is_none());
    assert!(producer.in_flight.load(Ordering::Relaxed) > FEW);
    drop(given_up);
    assert_eq!(producer.in_flight.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_gets_space_while_small_ones_are_sent() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.broker_round_trip_time(1, Duration::from_millis(20)).unwrap();
    let producer =
        on_cluster(&cluster, Duration::from_secs(20), &[("queue.buffering.max.kbytes", "64")]);
    let of_size = |bytes| [NewMessage { payload: vec![0; bytes], ..message() }];
    let (small, large) = (of_size(16 << 10), of_size(60 << 10));
    // Others may follow immediately.
    producer.append(&small).await.unwrap();
    let is_done = AtomicBool::new(false);
    let all_small = futures::future::join_all((0..16).map(async |_| {
        while !is_done.load(Ordering::Relaxed) {
            producer.append(&small).await.unwrap();
        }
    }));
    let append_large = async {
        let appended = producer.append(&large).await;
        is_done.store(true, Ordering::Relaxed);
        appended
    };
    let (_, appended) = tokio::join!(all_small, append_large);
    appended.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_batch_that_a_broker_rejects_can_be_sent_again() {
    let cluster = MockCluster::new(1).unwrap();
    let producer = on_cluster(&cluster, Duration::from_secs(30), &[]);
    let rejected = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(RDKafkaApiKey::Produce, &[rejected]);
    let error = producer.append(&[message()]).await.unwrap_err();
    assert!(error.to_string().contains("max.message.bytes"), "{error}");
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    producer.append(&[message()]).await.unwrap();
}

#[tokio::test]
async fn a_lane_that_cannot_be_created_is_tried_again_until_it_is_closed() {
    let producer = Producer::new(settings(&[])).unwrap();
    let with = |settings, producer| Producer {
        settings,
        // The next append is gathered.
        in_flight: AtomicUsize::new(FEW),
        ..producer
    };
    let producer = with(settings(&[("no.such.property", "1")]), producer);
    let error = producer.append(&[message()]).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    assert!(is_unused(&producer.gathering));
    let producer = with(settings(&[]), producer);
    producer.append(&[message()]).await.unwrap_err();
    assert!(!is_unused(&producer.gathering));
    producer.close().await;

    let producer = with(settings(&[]), Producer::new(settings(&[])).unwrap());
    producer.close().await;
    let error = producer.append(&[message()]).await.unwrap_err();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    assert!(matches!(*producer.gathering.state.read(), State::Closed));
}

#[tokio::test]
async fn a_producer_is_stuck_when_nothing_is_confirmed_since_an_append_began() {
    let client = Client::new(&settings(&[]), LaneKind::Prompt, Duration::from_secs(3600)).unwrap();
    let began = client.created + Duration::from_millis(10);
    assert!(!client.is_stuck_since(began), "it still may take its time");
    *client.confirmed.lock() = Some(began);
    assert!(!client.is_stuck_since(began), "others were confirmed");
    *client.confirmed.lock() = Some(began - Duration::from_millis(1));
    assert!(client.is_stuck_since(began));
    assert_eq!(client.next_confirm_timeout(Duration::from_secs(5)), Duration::from_secs(5));
}

#[test]
fn a_wrong_property_is_named_and_its_value_is_not() {
    for (name, value) in [("sasl.pasword", "hidden"), ("security.protocol", "hidden")] {
        let error = Producer::new(settings(&[(name, value)])).err().unwrap().to_string();
        assert!(error.contains(name) && !error.contains("hidden"), "{error}");
    }
}

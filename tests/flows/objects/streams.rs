//! Objects that are written from a stream, in parts if they are large.

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use objects::{ByteStream, Head, ObjectError, Put};

use super::{
    Backend, MIB, assert_absent, in_chunks, key, on_every_backend, options, pattern, read,
};
use crate::support::eventually;

on_every_backend!(
    a_large_stream_is_written_in_parts,
    of_many_streams_if_absent_one_is_written,
    a_stream_that_fails_leaves_nothing,
    a_stream_that_is_dropped_leaves_nothing,
);

async fn a_large_stream_is_written_in_parts(backend: Backend) {
    let (objects, key, body) = (&backend.objects, key("large"), pattern(40 * MIB + 12_345));
    let size = body.len() as u64;
    objects.put_stream(&key, size, in_chunks(&body), options(false)).await.unwrap();
    assert!(read(objects, &key).await == body, "what is read is not what was written");
    let head = objects.head(&key).await.unwrap().unwrap();
    assert_eq!(head, Head { size, metadata: options(false).metadata });
}

async fn of_many_streams_if_absent_one_is_written(backend: Backend) {
    let (objects, key) = (&backend.objects, key("large"));
    let writers = (0..4u8).map(|writer| {
        let key = &key;
        async move {
            let mut options = options(true);
            options.metadata.insert("writer".into(), writer.to_string());
            let body = Bytes::from(vec![writer; 20 * MIB]);
            loop {
                let size = body.len() as u64;
                match objects.put_stream(key, size, in_chunks(&body), options.clone()).await {
                    // Another one is being completed.
                    Err(ObjectError::Unavailable(_)) => {}
                    put => return (writer, put.unwrap()),
                }
            }
        }
    });
    let puts = join_all(writers).await;
    let winners: Vec<u8> =
        puts.iter().filter_map(|(writer, put)| (*put == Put::Written).then_some(*writer)).collect();
    assert_eq!(winners.len(), 1, "{puts:?}");
    assert!(read(objects, &key).await == vec![winners[0]; 20 * MIB], "writers are mixed");
    let head = objects.head(&key).await.unwrap().unwrap();
    assert_eq!(head.metadata["writer"], winners[0].to_string());
    backend.assert_no_strays().await;
}

async fn a_stream_that_fails_leaves_nothing(backend: Backend) {
    let (objects, body) = (&backend.objects, pattern(20 * MIB));
    let size = body.len() as u64;
    let broken = || ObjectError::Unavailable("the source broke".into());
    let failing: [(ByteStream, &str); 3] = [
        (in_chunks(&body).chain(stream::iter([Err(broken())])).boxed(), "the source broke"),
        (in_chunks(&body.slice(..19 * MIB)), "it was not written"),
        (in_chunks(&body).chain(stream::iter([Ok(body.slice(..1))])).boxed(), "it was not written"),
    ];
    for (stream, reason) in failing {
        let key = key("failing");
        let error = objects.put_stream(&key, size, stream, options(false)).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_absent(objects, &key).await;
    }
    assert_eq!(backend.storage.unfinished().await, Vec::<String>::new());
}

async fn a_stream_that_is_dropped_leaves_nothing(backend: Backend) {
    let (objects, key, body) = (backend.objects.clone(), key("dropped"), pattern(20 * MIB));
    let (drained, drained_seen) = tokio::sync::oneshot::channel();
    // Gives its 20 MiB, says so, and then nothing any more.
    let stalled = stream::once(async move {
        let _ = drained.send(());
        std::future::pending().await
    });
    let stream = in_chunks(&body).chain(stalled).boxed();
    let size = body.len() as u64 + 1;
    let writing = tokio::spawn({
        let (objects, key) = (objects.clone(), key.clone());
        async move { objects.put_stream(&key, size, stream, options(false)).await }
    });
    drained_seen.await.unwrap();
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    eventually("nothing is left", || async { backend.storage.unfinished().await.is_empty() }).await;
    assert_absent(&objects, &key).await;
}

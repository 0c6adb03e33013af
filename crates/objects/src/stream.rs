//! Splits streams into parts of equal size, and computes digests outside of async threads.

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use md5::{Digest as _, Md5};
use tokio_util::task::TaskTracker;

use super::{ByteStream, Entry, ObjectError};

/// S3 allows no more parts in an upload; Azure allows 50,000 blocks.
const MAX_PARTS: u64 = 10_000;

/// Parts of one upload in progress at the same time. One more is being filled, so an upload holds
/// one more part in memory.
pub(super) const PARTS_IN_FLIGHT: usize = 3;

/// Delete requests in progress at the same time.
const DELETES_IN_FLIGHT: usize = 16;

/// The part size for an object of `size` bytes: `smallest`, or, if that makes too many parts, the
/// smallest sufficient number of whole MiB.
pub(super) fn part_size(size: u64, smallest: u64) -> u64 {
    const MIB: u64 = 1024 * 1024;
    smallest.max(size.div_ceil(MAX_PARTS).div_ceil(MIB) * MIB)
}

/// Splits a stream into parts of `part` bytes each, the last one shorter, numbered from 1. Fails if
/// the stream does not have exactly `size` bytes.
pub(super) fn in_parts(
    body: ByteStream,
    size: u64,
    part: u64,
) -> BoxStream<'static, Result<(i32, Bytes), ObjectError>> {
    let cutter = Cutter { body, buffer: BytesMut::new(), received: 0, size, part, number: 0 };
    futures::stream::try_unfold(cutter, |mut cutter| async {
        let next = cutter.next().await?;
        Ok(next.map(|part| (part, cutter)))
    })
    .boxed()
}

struct Cutter {
    body: ByteStream,
    buffer: BytesMut,
    received: u64,
    size: u64,
    part: u64,
    number: i32,
}

impl Cutter {
    async fn next(&mut self) -> Result<Option<(i32, Bytes)>, ObjectError> {
        while (self.buffer.len() as u64) < self.part {
            let Some(bytes) = self.body.try_next().await? else {
                if self.received != self.size {
                    return Err(wrong_size(self.received, self.size));
                }
                break;
            };
            self.received += bytes.len() as u64;
            if self.received > self.size {
                return Err(wrong_size(self.received, self.size));
            }
            self.buffer.extend_from_slice(&bytes);
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let length = (self.buffer.len() as u64).min(self.part) as usize;
        self.number += 1;
        Ok(Some((self.number, self.buffer.split_to(length).freeze())))
    }
}

/// The parts of an upload in progress. They always run to their end: an upload that is given up
/// waits for them first, so that no part reaches the store after the request that deletes them.
#[derive(Clone, Default)]
pub(super) struct PendingParts(TaskTracker);

impl PendingParts {
    /// Starts the work on a part.
    pub fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ObjectError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ObjectError>> {
        let task = self.0.spawn(work);
        async move { task.await.map_err(|_| stopping())? }.boxed()
    }

    /// Waits until no part is in progress.
    pub async fn ended(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

/// Collects a stream that is known to be small.
pub(super) async fn collect(body: ByteStream, size: u64) -> Result<Bytes, ObjectError> {
    let parts: Vec<(i32, Bytes)> = in_parts(body, size, size.max(1)).try_collect().await?;
    Ok(parts.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default())
}

/// Deletes every entry by its key; returns their number. A request begins when another has ended:
/// there may be very many.
pub(super) async fn delete_each<D>(
    entries: Vec<Entry>,
    delete: impl Fn(String) -> D,
) -> Result<u64, ObjectError>
where
    D: Future<Output = Result<(), ObjectError>> + Send + 'static,
{
    let count = entries.len() as u64;
    let deletes = entries.into_iter().map(|entry| delete(entry.key).boxed());
    futures::stream::iter(deletes).buffered(DELETES_IN_FLIGHT).try_collect::<()>().await?;
    Ok(count)
}

/// The error of a stream with the wrong length.
pub(super) fn wrong_size(received: u64, size: u64) -> ObjectError {
    ObjectError::Refused(
        format!("an object declared with {size} bytes had {received} or more; it was not written")
            .into(),
    )
}

/// Adds `bytes` to a digest, on a compute thread.
pub(super) async fn digest(mut md5: Md5, bytes: Bytes) -> Result<Md5, ObjectError> {
    let work = move || {
        md5.update(&bytes);
        md5
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| stopping())
}

/// The MD5 of `bytes`, for Content-MD5.
pub(super) async fn md5(bytes: &Bytes) -> Result<[u8; 16], ObjectError> {
    Ok(digest(Md5::new(), bytes.clone()).await?.finalize().into())
}

/// The error of work whose thread ended with the program.
pub(super) fn stopping() -> ObjectError {
    ObjectError::Unavailable("the program is stopping".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(chunks: Vec<Vec<u8>>) -> ByteStream {
        futures::stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk)))).boxed()
    }

    #[test]
    fn parts_are_at_most_ten_thousand() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(part_size(0, 8 * MIB), 8 * MIB);
        assert_eq!(part_size(80_000 * MIB, 8 * MIB), 8 * MIB);
        for size in [80_001 * MIB, 500_000 * MIB, 5_000_000 * MIB - 1] {
            let part = part_size(size, 8 * MIB);
            assert!(size.div_ceil(part) <= MAX_PARTS && part.is_multiple_of(MIB), "{size}: {part}");
        }
    }

    #[tokio::test]
    async fn a_stream_of_another_length_is_an_error() {
        for size in [0, 2, 4] {
            let cut = in_parts(stream(vec![vec![1], vec![2, 3]]), size, 2);
            assert!(cut.try_collect::<Vec<_>>().await.is_err(), "{size}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_the_stream_cut_evenly(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            part in 1u64..64,
        ) {
            let expected = chunks.concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let cut = in_parts(stream(chunks), expected.len() as u64, part);
            let parts: Vec<(i32, Bytes)> = runtime.block_on(cut.try_collect()).unwrap();
            prop_assert_eq!(parts.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>(), expected);
            for (i, (number, bytes)) in parts.iter().enumerate() {
                prop_assert_eq!(*number as usize, i + 1);
                prop_assert!(bytes.len() as u64 == part || i + 1 == parts.len());
            }
        }
    }
}

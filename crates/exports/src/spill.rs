//! The data of a large file, in pieces, while the file is built.
//!
//! The header of a ZIP has the checksum of the data after it, and a file in own storage gets its
//! hash with its first byte. So a large file is compressed into pieces first. A worker has no disk,
//! so the pieces are objects where exports without own storage are built, with names of the
//! attempt. When the data is complete, they are read once for the hash, and once for the upload.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use super::ExportError;
use super::archive::Packed;
use super::error::check_stop;
use super::part_rows::Sha256Hash;
use super::proof_objects::{PassingHash, with_length};
use kit::fail_point;
use objects::{ByteStream, ObjectError, Objects, Put, PutOptions};

/// A file with more compressed data than this is built in pieces of about this size.
pub(super) const PIECE_BYTES: usize = 16 << 20;

/// How long a piece may take: the transaction that reads the users is open meanwhile.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The pieces of one attempt at a part.
#[derive(Clone, Debug)]
pub(super) struct Spill {
    objects: Objects,
    folder: String,
    /// Starts the names of its pieces, so that no other worker writes them.
    id: Uuid,
    pieces: Vec<Piece>,
    /// Whether this value or a clone of it has begun to write a piece.
    is_used: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct Piece {
    path: String,
    bytes: u64,
}

impl Spill {
    /// Pieces in a folder, whose path ends with a slash.
    pub fn new(objects: Objects, folder: String) -> Self {
        Self { objects, folder, id: Uuid::new_v4(), pieces: Vec::new(), is_used: Arc::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    #[cfg(test)]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Writes the next piece. Blocks this thread, so never call it on an async one.
    pub fn put(&mut self, bytes: Vec<u8>) -> Result<(), ExportError> {
        let path = format!("{}{}-{}", self.folder, self.id, self.pieces.len() + 1);
        let piece = Piece { path: path.clone(), bytes: bytes.len() as u64 };
        self.is_used.store(true, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        let objects = self.objects.clone();
        let write = async move {
            let written = objects.put(&path, Bytes::from(bytes), PutOptions::default()).await;
            // The receiver waits below.
            let _ = sender.send(written);
        };
        Handle::current().spawn(write.in_current_span());
        let written = receiver.recv_timeout(TIMEOUT).unwrap_or_else(|error| {
            let reason = format!("{}: a piece was not written: {error}", self.objects);
            Err(ObjectError::Unavailable(reason.into()))
        });
        written.map_err(ExportError::Objects)?;
        self.pieces.push(piece);
        fail_point!("part::piece");
        Ok(())
    }

    fn read(&self) -> ByteStream {
        let objects = self.objects.clone();
        stream::iter(self.pieces.clone())
            .then(move |Piece { path, bytes }| {
                let objects = objects.clone();
                async move {
                    match objects.get(&path).await {
                        // Another attempt can write it again.
                        Err(ObjectError::NotFound(_)) => {
                            Err(ObjectError::Unavailable(format!("{path} no longer exists").into()))
                        }
                        read => Ok(with_length(read?, bytes, path)),
                    }
                }
            })
            .try_flatten()
            .boxed()
    }

    /// Deletes the pieces of this value and of its clones. What remains is deleted with the
    /// export's other leftovers.
    pub async fn delete(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.objects.delete_prefix(&self.folder).await {
            tracing::warn!(%error, folder = self.folder, "cannot delete the pieces of a file");
        }
    }
}

/// A file whose data is in pieces.
pub(super) struct LargeFile {
    head: Bytes,
    spill: Spill,
    pub bytes: u64,
}

impl LargeFile {
    /// None if the file is in memory.
    pub fn from_packed(packed: &mut Packed, spill: Spill) -> Option<Self> {
        let bytes = packed.stored_bytes();
        let head = std::mem::take(&mut packed.head).into();
        (!spill.is_empty()).then_some(Self { head, spill, bytes })
    }

    /// The hash of the file.
    pub async fn hash(&self, stop: &CancellationToken) -> Result<Sha256Hash, ExportError> {
        let (mut body, hash) = PassingHash::attach(self.read());
        while body.try_next().await.map_err(ExportError::Objects)?.is_some() {
            check_stop(stop)?;
        }
        Ok(hash.finish())
    }

    /// Uploads the file. Fails, and writes nothing, if its hash is not `sha256`. `to_error` is for
    /// failures of `target`.
    pub async fn upload(
        &self,
        target: &Objects,
        path: &str,
        options: PutOptions,
        sha256: Sha256Hash,
        stop: &CancellationToken,
        to_error: fn(ObjectError) -> ExportError,
    ) -> Result<Put, ExportError> {
        // A failure to read a piece is not one of the target.
        let failed_read = Arc::new(Mutex::new(None));
        let (slot, stop_stream) = (failed_read.clone(), stop.clone());
        let (body, hash) = PassingHash::attach(self.read());
        let checked = stream::once(async move {
            if hash.finish() == sha256 {
                return Ok(Bytes::new());
            }
            Err(ObjectError::Unavailable("the pieces of a file have changed".into()))
        });
        let body = body
            .and_then(move |bytes| {
                fail_point!("part::sending");
                let stopped = stop_stream.is_cancelled();
                let stopped = stopped
                    .then(|| ObjectError::Unavailable(ExportError::Stopped.to_string().into()));
                std::future::ready(stopped.map_or(Ok(bytes), Err))
            })
            // Before the last part of the upload, so that a changed file is not completed.
            .chain(checked)
            .map_err(move |error| {
                let text = error.to_string();
                *slot.lock() = Some(error);
                ObjectError::Unavailable(text.into())
            })
            .boxed();
        let put = target.put_stream(path, self.bytes, body, options).await;
        check_stop(stop)?;
        let failed_read = failed_read.lock().take();
        put.map_err(|error| match failed_read {
            Some(error) => ExportError::Objects(error),
            None => to_error(error),
        })
    }

    fn read(&self) -> ByteStream {
        let head = self.head.clone();
        stream::once(async { Ok(head) }).chain(self.spill.read()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;
    use kit::secrets::SecretKey;

    const FOLDER: &str = "exports/a/parts/000001.1.pieces/";

    async fn files(directory: &tempfile::TempDir) -> Objects {
        let secrets = SecretKey::parse(&SecretKey::generate(), None).unwrap();
        let url = format!("file://{}", directory.path().display());
        Objects::open(&url, &secrets).await.unwrap()
    }

    async fn large_file(objects: &Objects, pieces: &[&'static str]) -> LargeFile {
        let mut spill = Spill::new(objects.clone(), FOLDER.into());
        for &piece in pieces {
            let mut next = spill.clone();
            let put = move || next.put(piece.as_bytes().to_vec()).map(|()| next);
            spill = tokio::task::spawn_blocking(put).await.unwrap().unwrap();
        }
        let taken = pieces.iter().map(|piece| piece.len() as u64).sum();
        let head = b"head ".to_vec();
        let mut packed = Packed { head, taken, bytes: Vec::new(), crc32: 0, raw_bytes: 0 };
        LargeFile::from_packed(&mut packed, spill).unwrap()
    }

    async fn upload(
        objects: &Objects,
        file: &LargeFile,
        sha256: Sha256Hash,
    ) -> Result<Put, ExportError> {
        let options = PutOptions { if_absent: true, ..PutOptions::default() };
        let stop = CancellationToken::new();
        file.upload(objects, "own/file", options, sha256, &stop, ExportError::Own).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn pieces_become_one_file_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let objects = files(&directory).await;
        let file = large_file(&objects, &["one ", "two"]).await;
        let sha256 = file.hash(&CancellationToken::new()).await.unwrap();
        assert_eq!(sha256[..], Sha256::digest("head one two")[..]);
        assert_eq!(upload(&objects, &file, sha256).await.unwrap(), Put::Written);
        // A file that exists is not replaced.
        let other = large_file(&objects, &["three"]).await;
        let of_other = other.hash(&CancellationToken::new()).await.unwrap();
        assert_eq!(upload(&objects, &other, of_other).await.unwrap(), Put::Exists);
        let written: Vec<Bytes> =
            objects.get("own/file").await.unwrap().try_collect().await.unwrap();
        assert_eq!(written.concat(), b"head one two");
        file.spill.delete().await;
        assert_eq!(objects.list("exports/").await.unwrap(), []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_is_only_deleted_if_a_piece_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let objects = files(&directory).await;
        let spill = Spill::new(objects.clone(), FOLDER.into());
        let other = format!("{FOLDER}other");
        objects.put(&other, Bytes::new(), PutOptions::default()).await.unwrap();
        spill.delete().await;
        assert_eq!(objects.list("exports/").await.unwrap().len(), 1);
        let mut clone = spill.clone();
        let put = move || clone.put(b"one".to_vec());
        tokio::task::spawn_blocking(put).await.unwrap().unwrap();
        assert_eq!(objects.list("exports/").await.unwrap().len(), 2);
        spill.delete().await;
        assert_eq!(objects.list("exports/").await.unwrap(), []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn changed_or_lost_pieces_are_errors_of_their_own_storage() {
        let directory = tempfile::tempdir().unwrap();
        let objects = files(&directory).await;
        let file = large_file(&objects, &["one ", "two"]).await;
        let sha256 = file.hash(&CancellationToken::new()).await.unwrap();
        let second = &file.spill.pieces[1].path.clone();
        objects.put(second, Bytes::from_static(b"six"), PutOptions::default()).await.unwrap();
        let error = upload(&objects, &file, sha256).await.unwrap_err();
        assert!(matches!(error, ExportError::Objects(ObjectError::Unavailable(_))), "{error:?}");
        objects.delete(second).await.unwrap();
        let error = upload(&objects, &file, sha256).await.unwrap_err();
        assert!(matches!(error, ExportError::Objects(ObjectError::Unavailable(_))), "{error:?}");
        assert_eq!(objects.head("own/file").await.unwrap(), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stopped_upload_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let objects = files(&directory).await;
        let file = large_file(&objects, &["one ", "two"]).await;
        let stop = CancellationToken::new();
        let sha256 = file.hash(&stop).await.unwrap();
        stop.cancel();
        let options = PutOptions::default();
        let uploaded = file.upload(&objects, "own/file", options, sha256, &stop, ExportError::Own);
        assert!(matches!(uploaded.await, Err(ExportError::Stopped)));
        assert_eq!(objects.head("own/file").await.unwrap(), None);
    }
}

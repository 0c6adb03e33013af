//! Restores a backup of `standalone`: the store of the backup, and the newest log that continues
//! it.
//!
//! The log is a separate file, and survives the loss of the store. It has what was appended after
//! the backup, and the offsets in the restored store show where to continue. So the log in the data
//! directory is kept if it is the log of the store and still has the messages after its offsets.
//!
//! If the log of the backup replaces it, two logs can exist with the same messages up to the
//! backup, and different ones after it. So the restored log and the restored offsets get a new id:
//! the offsets of one log are never mistaken for those of the other. The restored log also records
//! up to which offset it has the messages of the former log. So earlier backups of the former log
//! can still be restored.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use console_frame::session;
use kit::private;
use log::offsets::{self, GroupOffset};
use log::{LogError, LogFile, Topic, TopicOffsets, stop_reason};
use runtime::config::Config;
use runtime::topics;
use store::{Store, StoreError};

/// The files of an SQLite database.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The last file of a backup.
const COMPLETE: &str = "complete";

/// Which log the restored store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredLog {
    /// The one of the data directory, with this number of messages after the backup.
    Kept(i64),
    /// The one of the backup.
    FromBackup(i64),
}

/// The result of a restore.
#[derive(Debug)]
pub struct Restored {
    pub log: RestoredLog,
    /// Where the replaced files are now.
    pub set_aside: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "only the data directory of standalone can be restored by this command: for PostgreSQL, \
         see docs/runbooks/restore-backup.md"
    )]
    NotStandalone,
    #[error("{} is not a complete backup: the file {missing} is missing", folder.display())]
    Incomplete { folder: PathBuf, missing: &'static str },
    #[error(
        "{} is missing: copy the installation's key there first, because the backup does not have \
         it", .0.display()
    )]
    NoSecretKey(PathBuf),
    #[error("the store of the backup is damaged: {0}")]
    DamagedStore(String),
    #[error(
        "nothing was changed: the log in the data directory does not continue the backup: {0}. To \
         replace it with the log of the backup, add --replace-log; what was accepted after the \
         backup is then lost"
    )]
    OtherLog(String),
    #[error("nothing was changed: the log of the backup does not continue its store: {0}")]
    OtherLogInBackup(String),
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The files of a restore.
struct RestorePaths<'a> {
    backup: &'a Path,
    data: &'a Path,
    /// Distinguishes the replaced files of several restores.
    time: String,
}

/// Restores the backup in `folder`. The caller has made sure that no process uses the data
/// directory. `replaces_log` allows to replace a log that does not continue the backup.
pub async fn restore(
    config: &Config,
    folder: &Path,
    replaces_log: bool,
    time: String,
) -> Result<Restored, RestoreError> {
    let data = &config.data;
    if config.database_file() != Some(data.join("store.db")) || config.log.url != "embedded" {
        return Err(RestoreError::NotStandalone);
    }
    for name in ["store.db", "log.db", COMPLETE] {
        if !folder.join(name).exists() {
            return Err(RestoreError::Incomplete { folder: folder.to_owned(), missing: name });
        }
    }
    let key = data.join("secret.key");
    if config.secret_key.is_none() && !key.exists() {
        return Err(RestoreError::NoSecretKey(key));
    }
    let paths = RestorePaths { backup: folder, data, time };
    let positions = paths.copy_store().await?;
    let existing = data.join("log.db");
    let messages_in_existing = if existing.exists() {
        match messages_after(&existing, &positions).await {
            Ok(messages) => Some(messages),
            Err(_) if replaces_log => None,
            Err(reason) => {
                paths.remove_copy("store.db");
                return Err(RestoreError::OtherLog(reason));
            }
        }
    } else {
        None
    };
    let (log, file) = match messages_in_existing {
        Some(messages) => (RestoredLog::Kept(messages), existing.clone()),
        None => {
            let messages = paths.copy_log(&positions).await?;
            (RestoredLog::FromBackup(messages), paths.copy_of("log.db"))
        }
    };
    paths.adapt_store(&file, &positions).await?;

    let mut set_aside = Vec::new();
    if matches!(log, RestoredLog::FromBackup(_)) {
        paths.replace("log.db", &mut set_aside)?;
    }
    move_groups(&existing, &positions).await?;
    // Last, because the data directory has an installation from then on.
    paths.replace("store.db", &mut set_aside)?;
    paths.copy_objects()?;
    Ok(Restored { log, set_aside })
}

/// The positions of all groups, by topic.
type Positions = Vec<(Topic, Vec<GroupOffset>)>;

/// How many messages a log has after these positions; the error is the reason why it does not
/// continue them.
async fn messages_after(file: &Path, positions: &Positions) -> Result<i64, String> {
    let log = LogFile::open(file).await.map_err(|error| error.to_string())?;
    let messages = count_messages_after(&log, positions).await;
    log.close().await;
    messages
}

async fn count_messages_after(log: &LogFile, positions: &Positions) -> Result<i64, String> {
    let problems = log.check().await.map_err(|error| error.to_string())?;
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut messages = 0;
    for (topic, positions) in positions {
        let offsets = log.topic_offsets(*topic).await.map_err(|error| error.to_string())?;
        for position in positions {
            let (name, partition) = (topic.name(), position.partition);
            let forked = log.fork_end(&position.log_id, *topic, partition).await;
            let reason = match forked.map_err(|error| error.to_string())? {
                Some(end) if position.next > end => Some(format!(
                    "the log was restored from another backup at offset {end}, and has other \
                     messages after that"
                )),
                Some(_) => stop_reason(&with_log_id(position, &offsets), &offsets),
                None => stop_reason(position, &offsets),
            };
            if let Some(reason) = reason {
                return Err(format!(
                    "partition {partition} of {name}, at offset {}: {reason}",
                    position.next
                ));
            }
            let range = offsets.ranges.iter().find(|range| range.partition == partition);
            messages += range.map_or(0, |range| range.end - position.next);
        }
    }
    Ok(messages)
}

/// The same position with the id of another log.
fn with_log_id(position: &GroupOffset, topic_offsets: &TopicOffsets) -> GroupOffset {
    GroupOffset { log_id: topic_offsets.id.clone(), ..position.clone() }
}

async fn move_groups(file: &Path, positions: &Positions) -> Result<(), RestoreError> {
    let log = LogFile::open(file).await?;
    for (topic, positions) in positions {
        log.move_groups(*topic, positions).await?;
    }
    log.close().await;
    Ok(())
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

impl RestorePaths<'_> {
    /// A copy that is not in use yet.
    fn copy_of(&self, name: &str) -> PathBuf {
        self.data.join(format!("{name}.restoring"))
    }

    fn remove_copy(&self, name: &str) {
        for suffix in SUFFIXES {
            // It may not exist.
            let _ = fs::remove_file(with_suffix(&self.copy_of(name), suffix));
        }
    }

    fn copy(&self, name: &str) -> Result<PathBuf, RestoreError> {
        self.remove_copy(name);
        let (from, to) = (self.backup.join(name), self.copy_of(name));
        let copied = private::database(&to).and_then(|()| {
            io::copy(&mut File::open(&from)?, &mut File::options().write(true).open(&to)?)
        });
        copied
            .and_then(|_| File::open(&to)?.sync_all())
            .map_err(|error| RestoreError::File { file: to.clone(), error })?;
        Ok(to)
    }

    /// Copies and checks the store; returns its positions in the log.
    async fn copy_store(&self) -> Result<Positions, RestoreError> {
        let file = self.copy("store.db")?;
        let read = async {
            let store = connect(&file).await?;
            let read = read_store(&store).await;
            store.close().await;
            read
        };
        let read = read.await;
        if read.is_err() {
            self.remove_copy("store.db");
        }
        read
    }

    /// Copies and checks the log, and gives the copy a new id; returns how many messages it has
    /// after the store's positions.
    async fn copy_log(&self, positions: &Positions) -> Result<i64, RestoreError> {
        let file = self.copy("log.db")?;
        let messages = messages_after(&file, positions).await.map_err(|reason| {
            ["store.db", "log.db"].into_iter().for_each(|name| self.remove_copy(name));
            RestoreError::OtherLogInBackup(reason)
        })?;
        let log = LogFile::open(&file).await?;
        log.fork().await?;
        log.close().await;
        Ok(messages)
    }

    /// Writes the id of the log in `file` into the positions of the copied store, and ends the
    /// sessions of the console in it.
    async fn adapt_store(&self, file: &Path, positions: &Positions) -> Result<(), RestoreError> {
        let log = LogFile::open(file).await?;
        let store = connect(&self.copy_of("store.db")).await?;
        let mut tx = store.write().await?;
        for (topic, positions) in positions {
            let offsets = log.topic_offsets(*topic).await?;
            for position in positions.iter().filter(|position| position.log_id != offsets.id) {
                offsets::reset(&mut tx, *topic, &with_log_id(position, &offsets)).await?;
            }
        }
        session::end_restored(&mut tx).await?;
        tx.commit().await?;
        store.close().await;
        log.close().await;
        Ok(())
    }

    /// Replaces a file with its copy, and adds where the replaced one is now.
    fn replace(&self, name: &str, set_aside: &mut Vec<PathBuf>) -> Result<(), RestoreError> {
        let (file, copy) = (self.data.join(name), self.copy_of(name));
        let aside = self.data.join(format!("{name}.before-restore-{}", self.time));
        for suffix in SUFFIXES {
            let (from, to) = (with_suffix(&file, suffix), with_suffix(&aside, suffix));
            match fs::rename(&from, &to) {
                Ok(()) => set_aside.push(to),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(RestoreError::File { file: from, error }),
            }
        }
        fs::rename(&copy, &file).map_err(|error| RestoreError::File { file, error })
    }

    /// Copies the objects of the backup, if the data directory has none.
    fn copy_objects(&self) -> Result<(), RestoreError> {
        let (from, to) = (self.backup.join("objects"), self.data.join("objects"));
        if !from.is_dir() || to.exists() {
            return Ok(());
        }
        copy_folder(&from, &to).map_err(|error| RestoreError::File { file: to, error })
    }
}

async fn connect(file: &Path) -> Result<Store, StoreError> {
    Store::connect(&format!("sqlite://{}", file.display()), 1).await
}

async fn read_store(store: &Store) -> Result<Positions, RestoreError> {
    let mut tx = store.snapshot().await?;
    if let Some(problem) = store::inspect::sqlite_problems(&mut tx).await?.into_iter().next() {
        return Err(RestoreError::DamagedStore(problem));
    }
    Ok(offsets::positions_by_topic(&mut tx, topics::ALL).await?)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    private::directory(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

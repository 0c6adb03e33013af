//! One transaction: some messages, and the offset after them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::Handler;
use super::failure::Failure;
use super::parts::{Failed, Parts};
use super::rows;
use super::shared::{ApplyMode, Shared};
use kit::fail_point;
use log::message_ids::{self, Scope};
use log::offsets::{self, GroupOffset};
use log::{Batch, Message};
use store::Tx;
use store::claims;

pub(super) struct Work<H> {
    pub shared: Arc<Shared<H>>,
    pub batch: Arc<Batch>,
    /// The messages, by their indexes; only one if the mode is for one.
    pub piece: Range<usize>,
    pub position: GroupOffset,
    /// The index of the message whose record is deleted.
    pub recorded: Option<usize>,
    pub mode: ApplyMode,
}

/// The result of a commit.
pub(super) struct Done {
    pub new: u64,
    /// Messages that had been applied before.
    pub repeated: u64,
    /// Why a part of the only message became a dead letter.
    pub dead_letter: Option<String>,
}

/// The work on new messages.
enum Todo<'m, H: Handler> {
    Nothing,
    Together(H::Prepared<'m>),
    InParts(Parts<'m, H>),
    DeadLetter(Failed),
}

impl<H: Handler> Work<H> {
    fn messages(&self) -> &[Message] {
        &self.batch.messages[self.piece.clone()]
    }

    /// The offset after the messages.
    pub fn next(&self) -> i64 {
        self.messages().last().map_or(self.position.next, |message| message.offset + 1)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::new(self.shared.group, &self.messages()[0])
    }

    /// The messages whose ids were not applied before. If another worker applies more before the
    /// transaction, that moves the position, and so this attempt fails.
    async fn new_messages(&self) -> Result<Cow<'_, [Message]>, Failure> {
        let messages = self.messages();
        let ids: Vec<Uuid> = messages.iter().filter_map(message_ids::id_of).collect();
        if ids.is_empty() {
            return Ok(Cow::Borrowed(messages));
        }
        let mut known_ids = {
            let mut tx = self.shared.app.store.snapshot().await?;
            message_ids::known(&mut tx, self.scope(), &ids).await?
        };
        let new: Vec<bool> = messages
            .iter()
            .map(|message| message_ids::id_of(message).is_none_or(|id| known_ids.insert(id)))
            .collect();
        if new.iter().all(|new| *new) {
            return Ok(Cow::Borrowed(messages));
        }
        let new = messages.iter().zip(new).filter(|(_, new)| *new);
        let new = new.map(|(message, _)| message.clone());
        Ok(Cow::Owned(new.collect()))
    }

    async fn prepare<'m>(
        &self,
        new: &'m [Message],
        split: &'m [Message],
    ) -> Result<Todo<'m, H>, Failure> {
        let handler = &self.shared.handler;
        let Some(first) = new.first() else { return Ok(Todo::Nothing) };
        Ok(match &self.mode {
            ApplyMode::Together => Todo::Together(
                handler.prepare(new).await.map_err(|error| Failure::from_error(&error))?,
            ),
            ApplyMode::InParts => Todo::InParts(Parts::prepare(handler, first, split).await?),
            ApplyMode::DeadLetter(reason) => Todo::DeadLetter(Failed {
                message: first.clone(),
                reason: reason.clone(),
                is_all: true,
            }),
        })
    }

    pub async fn run(self) -> Result<Done, Failure> {
        let new = self.new_messages().await?;
        let split = match (&self.mode, new.first()) {
            (ApplyMode::InParts, Some(message)) => self.shared.handler.split(message),
            _ => Vec::new(),
        };
        let todo = self.prepare(&new, &split).await?;
        // A crash of the database reverts the offset together with the changes, and both are
        // repeated.
        let mut tx = self.shared.app.store.write_by_keys().await?;
        let last = &self.messages()[self.piece.len() - 1];
        if !offsets::advance_past(&mut tx, &self.position, last).await? {
            return Err(Failure::OffsetMoved);
        }
        self.remember(&mut tx, &new).await?;
        let handler = &self.shared.handler;
        let (applied, failed) = match todo {
            Todo::Nothing => (Vec::new(), None),
            Todo::Together(prepared) => {
                let applied = handler.apply(&mut tx, &prepared).await;
                (vec![applied.map_err(|error| Failure::from_error(&error))?], None)
            }
            Todo::InParts(parts) => parts.apply(handler, &mut tx).await?,
            Todo::DeadLetter(failed) => (Vec::new(), Some(failed)),
        };
        if let Some(failed) = &failed {
            self.insert_dead_letter(&mut tx, failed).await?;
        }
        if let Some(recorded) = self.recorded {
            rows::delete_attempts(&mut tx, self.shared.group, &self.batch.messages[recorded])
                .await?;
        }
        fail_point!("batch::applied");
        // The response of a commit may be lost, so its errors are never final.
        tx.commit().await.map_err(|error| Failure::Transient(error.to_string()))?;
        fail_point!("batch::committed");
        applied.into_iter().for_each(|applied| handler.applied(applied));
        let repeated = (self.messages().len() - new.len()) as u64;
        Ok(Done {
            new: new.len() as u64,
            repeated,
            dead_letter: failed.map(|failed| failed.reason),
        })
    }

    /// Stores the ids of messages. An id whose gateway's clock is behind must not be deleted too
    /// early.
    async fn remember(&self, tx: &mut Tx, new: &[Message]) -> Result<(), Failure> {
        let mut ids: Vec<(Uuid, i64)> = new
            .iter()
            .filter_map(|new| Some((message_ids::id_of(new)?, new.appended_at)))
            .collect();
        if !ids.is_empty() {
            let now = claims::now(tx).await?;
            ids.iter_mut().for_each(|(_, at)| *at = now.max(*at));
            message_ids::remember(tx, self.scope(), &ids).await?;
        }
        Ok(())
    }

    async fn insert_dead_letter(&self, tx: &mut Tx, failed: &Failed) -> Result<(), Failure> {
        let (now, group) = (self.shared.app.clock.now_ms(), self.shared.group);
        let attempts = rows::attempts(tx, group, &failed.message).await?.count.max(1);
        rows::insert_dead_letter(tx, group, &failed.message, &failed.reason, attempts, now).await?;
        Ok(())
    }
}

//! Processes one message part by part, so that a failing part does not affect the others.

use futures::TryFutureExt as _;

use super::Handler;
use super::failure::{Failure, caught};
use log::Message;
use store::Tx;

/// The parts of a message, parsed before the transaction.
pub(super) struct Parts<'m, H: Handler> {
    message: &'m Message,
    parts: Vec<(&'m Message, Result<H::Prepared<'m>, String>)>,
}

/// The parts that failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// The message with only these parts.
    pub message: Message,
    pub reason: String,
    /// Whether all parts failed.
    pub is_all: bool,
}

impl Failed {
    /// The text for the caller that requested the retry.
    pub fn into_reason(self) -> String {
        if self.is_all {
            self.reason
        } else {
            format!("{} (the rest of the message was applied)", self.reason)
        }
    }
}

impl<'m, H: Handler> Parts<'m, H> {
    /// Prepares the parts of a split message.
    pub async fn prepare(
        handler: &H,
        message: &'m Message,
        split: &'m [Message],
    ) -> Result<Self, Failure> {
        let mut parts = Vec::with_capacity(split.len());
        for part in split {
            let prepared = handler.prepare(std::slice::from_ref(part));
            let prepared = match caught(prepared.map_err(|error| Failure::from_error(&error))).await
            {
                Ok(prepared) => Ok(prepared),
                Err(Failure::Permanent(reason)) => Err(reason),
                Err(failure) => return Err(failure),
            };
            parts.push((part, prepared));
        }
        Ok(Self { message, parts })
    }

    /// Applies the parts in order, each with the effects of those before; rolls back the parts that
    /// fail permanently.
    pub async fn apply(
        &self,
        handler: &H,
        tx: &mut Tx,
    ) -> Result<(Vec<H::Applied>, Option<Failed>), Failure> {
        let (mut applied, mut failed, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (part, prepared) in &self.parts {
            let reason = match prepared {
                Ok(prepared) => {
                    tx.savepoint().await?;
                    let applying = handler.apply(tx, prepared);
                    match caught(applying.map_err(|error| Failure::from_error(&error))).await {
                        Ok(applied_part) => {
                            tx.release_savepoint().await?;
                            applied.push(applied_part);
                            continue;
                        }
                        Err(Failure::Permanent(reason)) => {
                            tx.rollback_to_savepoint().await?;
                            reason
                        }
                        Err(failure) => return Err(failure),
                    }
                }
                Err(reason) => reason.clone(),
            };
            failed.push(*part);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        if failed.is_empty() {
            return Ok((applied, None));
        }
        let is_all = failed.len() == self.parts.len();
        let message = if is_all { self.message.clone() } else { handler.join(&failed) };
        Ok((applied, Some(Failed { message, reason: reasons.join("; "), is_all })))
    }
}

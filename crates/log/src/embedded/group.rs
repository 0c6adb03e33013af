//! The consumers of a group within this process, and how they share the partitions.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OnceCell, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::writer::{Command, Write};
use super::{Embedded, write};
use crate::consumer::Source;
use crate::message::{COMMIT_INTERVAL, LogError, REVOKE_WAIT, Topic};
use crate::partitions::Partitions;

pub struct Group {
    pub name: String,
    pub topic: Topic,
    commands: mpsc::Sender<Command>,
    registered: OnceCell<()>,
    state: Mutex<State>,
    /// Notified whenever work has ended or the members have changed.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    members: Vec<Member>,
    next_member: u64,
    /// Empty until the group's position is known.
    partitions: Vec<Partition>,
}

#[derive(Clone)]
struct Member {
    id: u64,
    partitions: Arc<Partitions>,
}

struct Partition {
    holder: Option<u64>,
    /// Counts the assignments of its holder.
    epoch: u64,
    /// When it started to wait for its move to another member.
    leaving: Option<Instant>,
    /// Everything before it is done; and the stored part of that.
    position: i64,
    committed: i64,
}

/// A consumer's place in its group; dropped, it leaves.
pub struct Membership {
    pub id: u64,
    group: Arc<Group>,
    log: Embedded,
}

impl Group {
    pub fn new(name: &str, topic: Topic, commands: mpsc::Sender<Command>) -> Self {
        Self {
            name: name.to_owned(),
            topic,
            commands,
            registered: OnceCell::new(),
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Adds a consumer. Returns its membership and the partitions that it will hold.
    pub fn join(self: &Arc<Self>, log: &Embedded) -> (Membership, Arc<Partitions>) {
        let changed = self.changed.clone();
        let partitions = Arc::new(Partitions::new(move || {
            changed.send_replace(());
        }));
        let id = {
            let mut state = self.lock();
            state.next_member += 1;
            let id = state.next_member;
            state.members.push(Member { id, partitions: partitions.clone() });
            state.balance();
            id
        };
        self.changed.send_replace(());
        (Membership { id, group: self.clone(), log: log.clone() }, partitions)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Reassigns the partitions among the members if needed. Reads the group's position first;
    /// nothing is assigned before that.
    pub async fn share(&self) -> Result<(), LogError> {
        self.registered.get_or_try_init(|| self.register()).await?;
        self.lock().balance();
        Ok(())
    }

    /// Notified whenever work has ended or the members have changed.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether a partition waits to move to another member, which may happen without a notification
    /// once the wait is over.
    pub fn is_moving(&self) -> bool {
        self.lock().is_moving()
    }

    async fn register(&self) -> Result<(), LogError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Register { group: self.name.clone(), topic: self.topic, reply };
        self.commands.send(command).await.map_err(|_| LogError::closed())?;
        let positions = answer.await.map_err(|_| LogError::closed())??;
        let mut state = self.lock();
        state.partitions = positions.into_iter().map(Partition::at).collect();
        state.balance();
        drop(state);
        self.changed.send_replace(());
        Ok(())
    }

    /// Stores the work done since the last time.
    pub async fn commit(&self) -> Result<(), LogError> {
        let positions = self.lock().gather_done();
        if positions.is_empty() {
            return Ok(());
        }
        let commit = Write::Commit {
            group: self.name.clone(),
            topic: self.topic,
            positions: positions.clone(),
        };
        write(&self.commands, commit).await?;
        let mut state = self.lock();
        for (partition, position) in positions {
            state.partitions[partition as usize].committed = position;
        }
        Ok(())
    }

    fn leave(&self, id: u64) {
        let mut state = self.lock();
        for partition in 0..state.partitions.len() {
            if state.partitions[partition].holder == Some(id) {
                state.take_away(partition);
            }
        }
        state.members.retain(|member| member.id != id);
        state.balance();
        drop(state);
        self.changed.send_replace(());
    }
}

impl Partition {
    fn at(position: i64) -> Self {
        Self { holder: None, epoch: 0, leaving: None, position, committed: position }
    }
}

impl State {
    fn member(&self, id: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Assigns each partition to the right member, once the current one has finished its work or
    /// the wait is over.
    fn balance(&mut self) {
        if self.members.is_empty() {
            return;
        }
        for index in 0..self.partitions.len() {
            let target = self.members[index % self.members.len()].id;
            let holder = self.partitions[index].holder;
            if holder == Some(target) && self.partitions[index].leaving.is_none() {
                continue;
            }
            if let Some(holder) = holder
                && !self.has_left(index, holder)
            {
                continue;
            }
            self.take_away(index);
            self.give(index, target);
        }
    }

    /// Stops `holder` from reading a partition; returns whether its work is done.
    fn has_left(&mut self, index: usize, holder: u64) -> bool {
        let Some(member) = self.member(holder) else { return true };
        let member = member.partitions.clone();
        member.stop(&[index as i32]);
        let leaving = *self.partitions[index].leaving.get_or_insert_with(Instant::now);
        !member.is_busy(index as i32) || leaving.elapsed() >= REVOKE_WAIT
    }

    fn take_away(&mut self, index: usize) {
        let holder = self.partitions[index].holder.take();
        let position = holder
            .and_then(|holder| self.member(holder))
            .and_then(|member| member.partitions.revoke(index as i32));
        let partition = &mut self.partitions[index];
        partition.leaving = None;
        partition.position = position.unwrap_or(partition.position);
    }

    fn give(&mut self, index: usize, member: u64) {
        if let Some(epoch) = self.member(member).map(|m| m.partitions.assign(index as i32)) {
            self.partitions[index].holder = Some(member);
            self.partitions[index].epoch = epoch;
        }
    }

    fn is_moving(&self) -> bool {
        self.partitions.iter().any(|partition| partition.leaving.is_some())
    }

    /// Positions that are not stored yet.
    fn gather_done(&mut self) -> Vec<(i32, i64)> {
        let mut moved = Vec::new();
        for index in 0..self.partitions.len() {
            let position = self.partitions[index]
                .holder
                .and_then(|holder| self.member(holder))
                .and_then(|member| member.partitions.position(index as i32));
            let partition = &mut self.partitions[index];
            partition.position = position.unwrap_or(partition.position);
            if partition.position > partition.committed {
                moved.push((index as i32, partition.position));
            }
        }
        moved
    }
}

impl Source for Membership {
    fn drain(
        self: Box<Self>,
        partitions: Arc<Partitions>,
        deadline: Duration,
    ) -> BoxFuture<'static, ()> {
        self.leave(partitions, deadline).boxed()
    }
}

impl Membership {
    async fn leave(self: Box<Self>, partitions: Arc<Partitions>, deadline: Duration) {
        let mut changed = self.group.changed.subscribe();
        partitions.stop_all();
        let idle = async { while partitions.any_busy() && changed.changed().await.is_ok() {} };
        // Work that is not done in time is repeated.
        let _ = timeout(deadline, idle).await;
        let group = self.group.clone();
        let log = self.log.clone();
        drop(self);
        if let Err(error) = group.commit().await
            && !log.shared.closing.is_cancelled()
        {
            tracing::warn!(%error, "cannot store which messages are done; they will be processed \
                                    again");
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.group.leave(self.id);
    }
}

/// Stores done work regularly, while there is any.
pub async fn commit_regularly(group: Arc<Group>, closing: CancellationToken) {
    let mut changed = group.changed.subscribe();
    loop {
        tokio::select! {
            _ = changed.changed() => {}
            () = closing.cancelled() => return,
        }
        sleep(COMMIT_INTERVAL).await;
        changed.borrow_and_update();
        if let Err(error) = group.commit().await
            && !closing.is_cancelled()
        {
            tracing::warn!(%error, "cannot store which messages are done; retrying");
            changed.mark_changed();
        }
    }
}

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
use crate::message::{COMMIT_EVERY, LogError, REVOKE_WAIT, Topic};
use crate::partitions::Partitions;

pub struct Group {
    pub name: String,
    pub topic: Topic,
    commands: mpsc::Sender<Command>,
    registered: OnceCell<()>,
    state: Mutex<State>,
    /// Told whenever work has ended or the members have changed.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    members: Vec<Member>,
    next_member: u64,
    /// Empty until it is known where the group is.
    partitions: Vec<Partition>,
}

#[derive(Clone)]
struct Member {
    id: u64,
    partitions: Arc<Partitions>,
}

struct Partition {
    holder: Option<u64>,
    /// Of its holder's count.
    epoch: u64,
    /// Since when it waits to go to another member.
    leaving: Option<Instant>,
    /// Before it everything is done; and what of that is written down.
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

    /// Adds a consumer; answers its place, and the partitions that it will hold.
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

    /// Gives out the partitions anew among the members, where any should move; finds out first
    /// where the group is, before which nothing is given out.
    pub async fn share(&self) -> Result<(), LogError> {
        self.registered.get_or_try_init(|| self.register()).await?;
        self.lock().balance();
        Ok(())
    }

    /// Told whenever work has ended or the members have changed.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether a partition waits to go to another member, whose time may run out unannounced.
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

    /// Writes down what has been done since the last time.
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

    /// Gives each partition the member it should have, once the one who has it is done
    /// with what is under way, or has been waited for long enough.
    fn balance(&mut self) {
        if self.members.is_empty() {
            return;
        }
        for index in 0..self.partitions.len() {
            let wanted = self.members[index % self.members.len()].id;
            let holder = self.partitions[index].holder;
            if holder == Some(wanted) && self.partitions[index].leaving.is_none() {
                continue;
            }
            if let Some(holder) = holder
                && !self.has_left(index, holder)
            {
                continue;
            }
            self.take_away(index);
            self.give(index, wanted);
        }
    }

    /// Stops `holder` from giving out more of a partition, and says whether it is done.
    fn has_left(&mut self, index: usize, holder: u64) -> bool {
        let Some(member) = self.member(holder) else { return true };
        let member = member.partitions.clone();
        member.stop(&[index as i32]);
        let leaving = *self.partitions[index].leaving.get_or_insert_with(Instant::now);
        !member.is_busy(index as i32) || leaving.elapsed() >= REVOKE_WAIT
    }

    fn take_away(&mut self, index: usize) {
        let holder = self.partitions[index].holder.take();
        let done = holder
            .and_then(|holder| self.member(holder))
            .and_then(|member| member.partitions.revoke(index as i32));
        let partition = &mut self.partitions[index];
        partition.leaving = None;
        partition.position = done.unwrap_or(partition.position);
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

    /// Positions that are not written down yet.
    fn gather_done(&mut self) -> Vec<(i32, i64)> {
        let mut moved = Vec::new();
        for index in 0..self.partitions.len() {
            let done = self.partitions[index]
                .holder
                .and_then(|holder| self.member(holder))
                .and_then(|member| member.partitions.position(index as i32));
            let partition = &mut self.partitions[index];
            partition.position = done.unwrap_or(partition.position);
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
        // What is not done in time comes again.
        let _ = timeout(deadline, idle).await;
        let group = self.group.clone();
        let log = self.log.clone();
        drop(self);
        if let Err(error) = group.commit().await
            && !log.shared.closing.is_cancelled()
        {
            tracing::warn!(%error, "done messages could not be written down: they come again");
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.group.leave(self.id);
    }
}

/// Writes down done work every so often, while there is any.
pub async fn commit_regularly(group: Arc<Group>, closing: CancellationToken) {
    let mut changed = group.changed.subscribe();
    loop {
        tokio::select! {
            _ = changed.changed() => {}
            () = closing.cancelled() => return,
        }
        sleep(COMMIT_EVERY).await;
        changed.borrow_and_update();
        if let Err(error) = group.commit().await
            && !closing.is_cancelled()
        {
            tracing::warn!(%error, "done messages could not be written down yet");
            changed.mark_changed();
        }
    }
}

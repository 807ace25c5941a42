//! What the index is owed. One commit at a time takes everything that came up meanwhile; a failed one is tried again as it was.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::job::Done;
use super::{Watch, texts};
use crate::index::{self, Commit, Store};
use crate::mirror::{Batch, Input};
use crate::model::{AgentId, Mono, Now};

/// The store; a panic inside it left at most an uncommitted transaction.
pub(super) fn lock(store: &Arc<Mutex<Box<dyn Store>>>) -> MutexGuard<'_, Box<dyn Store>> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks of one commit beyond which messages come faster than anybody reads along.
const MANY: usize = 500;
/// Marks of one Bot that make its part of a commit worth the pages of the index that it touches, however few its marks are.
const WORTHWHILE: usize = 250;
/// How long the next commit waits after one of [`MANY`] that weren't worth it, so that it is of more: a flood of rows of fifty Bots costs up to a
/// quarter less in all.
const GATHER: Duration = Duration::from_millis(50);

impl Watch {
    pub(super) fn owe(&mut self, agent: &AgentId, batch: Batch) {
        let (Some(account), Some(bot)) = (&self.account, self.bots.get(agent)) else { return };
        let commit = Commit { account: account.digest.clone(), agent: agent.clone(), batch };
        self.owed.push((commit, bot.life));
    }

    pub(super) fn due_commit(&mut self, now: Now) {
        if self.committing || self.owed.is_empty() || self.commit_at.is_some_and(|at| now.mono < at) {
            return;
        }
        self.commit_at = None;
        self.committing = true;
        self.write_owed();
    }

    /// When the next commit may begin, where one is to come.
    pub(super) fn commit_deadline(&self) -> Option<Mono> {
        self.commit_at.filter(|_| !self.owed.is_empty())
    }

    fn write_owed(&mut self) {
        let (store, owed) = (Arc::clone(&self.store), std::mem::take(&mut self.owed));
        self.jobs.spawn_blocking(move || write(&store, owed));
    }

    pub(super) fn committed(
        &mut self,
        now: Now,
        mut commits: Vec<(Commit, u64)>,
        result: Result<(), index::Error>,
        set_aside: usize,
    ) {
        self.committing = false;
        self.note_set_aside(now, set_aside);
        match result {
            Ok(()) => {
                self.commit_backoff.reset();
                self.trouble.disk = None;
                let marks: usize = commits.iter().map(|(commit, _)| commit.batch.marks.len()).sum();
                if marks >= MANY && marks < WORTHWHILE * commits.len() {
                    self.commit_at = Some(now.mono.after(GATHER));
                }
                for (commit, life) in commits {
                    self.feed(now, &commit.agent, Some(life), Input::Committed { batch: commit.batch.id });
                }
            }
            Err(error) => {
                // In the order they were given: a clear must not overtake the marks before it.
                commits.append(&mut self.owed);
                self.owed = commits;
                let wait = self.commit_backoff.next(None, fastrand::f64());
                self.commit_at = Some(now.mono.after(wait));
                self.disk_failed(now, &error);
            }
        }
    }

    /// Said once, in one sentence, until it works again.
    pub(super) fn disk_failed(&mut self, now: Now, error: &index::Error) {
        if self.trouble.disk.is_none() {
            tracing::error!(%error, "the index can't be used; nothing new is shown until it can");
        }
        self.trouble.disk.get_or_insert(now.wall);
        self.trouble.in_the_way = matches!(error, index::Error::InTheWay(_));
        self.trouble.last = Some(error.to_string());
    }

    /// A read has worked, or what failed isn't wanted any more: the trouble is over where nothing else is still to be tried again. There may be
    /// nothing to write for days.
    pub(super) fn disk_passed(&mut self) {
        let unread = self.bots.values().any(|bot| bot.mirror.is_none() && bot.load_at.is_some());
        if self.trouble.disk.is_some() && !unread && self.owed.is_empty() && !self.committing {
            self.trouble.disk = None;
        }
    }

    pub(super) fn take_set_aside(&mut self, now: Now) {
        // Held only by a job that writes; then that job says it.
        let count = self.store.try_lock().map_or(0, |mut store| store.take_set_aside().len());
        self.note_set_aside(now, count);
    }

    fn note_set_aside(&mut self, now: Now, count: usize) {
        if count > 0 {
            tracing::warn!(
                "the index was no index of ours and is set aside; edited messages may show again as plain ones"
            );
            self.trouble.set_aside = true;
            self.trouble.last = Some(texts::SET_ASIDE.to_owned());
            // What was shown so far is known here alone by now.
            self.loading_old = self.loading;
            for agent in self.agents() {
                self.feed(now, &agent, None, Input::IndexRenewed);
            }
        }
    }

    /// Waits for the commit under way and writes what is owed. The caller bounds it.
    pub(super) async fn flush(&mut self) {
        while self.committing || !self.owed.is_empty() {
            if !self.committing {
                self.committing = true;
                self.write_owed();
            }
            match self.jobs.join_next().await {
                Some(Ok(Done::Committed { result: Ok(()), .. })) => self.committing = false,
                Some(Ok(Done::Committed { commits, result: Err(error), .. })) => {
                    tracing::warn!(%error, unwritten = commits.len(), "the index couldn't be flushed");
                    return;
                }
                // Others end meanwhile; nothing waits for them.
                Some(_) => {}
                None => return,
            }
        }
    }
}

fn write(store: &Arc<Mutex<Box<dyn Store>>>, owed: Vec<(Commit, u64)>) -> Done {
    let (batches, lives): (Vec<Commit>, Vec<u64>) = owed.into_iter().unzip();
    let mut store = lock(store);
    let result = store.commit(&batches);
    let set_aside = store.take_set_aside().len();
    Done::Committed { commits: batches.into_iter().zip(lives).collect(), result, set_aside }
}

//! The index's disk: the real SQLite, which outlives the provider, behind a disk that is slow, full, unreadable, or loses what it hadn't written when
//! the process died.
//!
//! The loop's writes run on a thread of their own, in real time. So that a run comes out the same each time, that thread works only while the
//! runtime has nothing else to do: [`Disk::idle`] and [`Disk::busy`] are the runtime's hooks. Tokio's paused clock doesn't move while it works.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;

use super::history::History;
use super::model::Ledger;
use crate::index::{Commit, Error, Sqlite, Store};
use crate::mirror::Stored;
use crate::model::AgentId;

/// The disk as one life of the provider has it. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    inner: Arc<Inner>,
    life: u64,
    ledger: Ledger,
    history: History,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    stuck: Notify,
}

#[derive(Debug)]
struct State {
    index: Sqlite,
    /// The runtime has nothing to do: the disk's turn, once.
    turn: bool,
    /// The life whose process is there; those before it died.
    life: u64,
    over: bool,
    full: bool,
    unreadable: bool,
    stick: Option<Stick>,
    /// Rises with each word on where to get stuck.
    words: u64,
    stuck: bool,
}

/// Where the next write gets stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stick {
    /// Nothing of it is written yet.
    Before,
    /// It is durable, but nobody heard.
    After,
}

impl Disk {
    pub(super) fn new(ledger: Ledger, history: History) -> Self {
        let state = State {
            index: Sqlite::in_memory(),
            turn: false,
            life: 0,
            over: false,
            full: false,
            unreadable: false,
            stick: None,
            words: 0,
            stuck: false,
        };
        let inner = Inner { state: Mutex::new(state), changed: Condvar::new(), stuck: Notify::new() };
        Self { inner: Arc::new(inner), life: 0, ledger, history }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.inner.changed.notify_all();
    }

    /// The runtime is about to wait.
    pub(super) fn idle(&self) {
        self.change(|state| state.turn = true);
    }

    /// It goes on.
    pub(super) fn busy(&self) {
        self.lock().turn = false;
    }

    pub(super) fn full(&self, full: bool) {
        self.change(|state| state.full = full);
    }

    pub(super) fn unreadable(&self, unreadable: bool) {
        self.change(|state| state.unreadable = unreadable);
    }

    /// The next write gets stuck, or none does.
    pub(super) fn stick(&self, stick: Option<Stick>) {
        self.change(|state| {
            state.stick = stick;
            state.words += 1;
            // Said here and not on the disk's thread, which may need a moment to see it.
            state.stuck = false;
        });
    }

    /// Waits until a write is stuck.
    pub(super) async fn stuck(&self) {
        self.inner.stuck.notified().await;
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.lock().stuck
    }

    /// The process died: what wasn't written never will be. Gives the disk for the next one.
    pub(super) fn next_life(&self) -> Self {
        let mut life = 0;
        self.change(|state| {
            state.life += 1;
            state.stick = None;
            state.stuck = false;
            life = state.life;
        });
        Self { life, ..self.clone() }
    }

    /// Nothing waits on it any more.
    pub(super) fn over(&self) {
        self.change(|state| state.over = true);
    }

    /// Waits for this disk's turn; an error where the process died meanwhile.
    fn turn(&self) -> Result<MutexGuard<'_, State>, Error> {
        let dead = |state: &State| state.over || state.life != self.life;
        let mut state = self.inner.changed.wait_while(self.lock(), |state| !(state.turn || dead(state))).unwrap();
        if dead(&state) {
            return Err(Error::Disk("the process died".to_owned()));
        }
        state.turn = false;
        Ok(state)
    }

    /// Gets stuck here, where it is to, until it may go on.
    fn maybe_stuck<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        here: Stick,
    ) -> Result<MutexGuard<'a, State>, Error> {
        if state.stick != Some(here) {
            return Ok(state);
        }
        self.history.plain(format_args!("disk: stuck {here:?} a write"));
        state.stuck = true;
        self.inner.stuck.notify_one();
        // Not for the place to change: this thread may need a moment, and by then the next write is to get stuck at the same one.
        let words = state.words;
        let waits = |state: &mut State| state.words == words && state.life == self.life && !state.over;
        drop(self.inner.changed.wait_while(state, waits).unwrap());
        self.turn()
    }
}

impl Store for Disk {
    fn load(&mut self, account: &str, agent: &AgentId) -> Result<Stored, Error> {
        let mut state = self.turn()?;
        if state.unreadable {
            return Err(Error::Disk("scripted".to_owned()));
        }
        let stored = state.index.load(account, agent)?;
        self.ledger.begins_with(agent, &stored);
        self.history.plain(format_args!("disk: loaded {} marks of {agent}", stored.len()));
        Ok(stored)
    }

    fn commit(&mut self, batches: &[Commit]) -> Result<(), Error> {
        let state = self.turn()?;
        let mut state = self.maybe_stuck(state, Stick::Before)?;
        if state.full {
            self.history.plain("disk: full");
            return Err(Error::Disk("scripted".to_owned()));
        }
        state.index.commit(batches)?;
        for Commit { agent, batch, .. } in batches {
            let clear = if batch.clear { ", all others gone" } else { "" };
            self.history.plain(format_args!("disk: wrote {} marks of {agent}{clear}", batch.marks.len()));
        }
        self.maybe_stuck(state, Stick::After).map(drop)
    }

    fn take_set_aside(&mut self) -> Vec<PathBuf> {
        Vec::new()
    }
}

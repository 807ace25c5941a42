//! The index: a real one in memory that outlives the loop, with a disk that fails or hangs on demand.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::index::{Commit, Error, Sqlite, Store};
use crate::mirror::Stored;
use crate::model::AgentId;

#[derive(Clone, Debug)]
pub(crate) struct Shelf(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Mutex<Disk>,
    freed: Condvar,
}

#[derive(Debug)]
struct Disk {
    index: Sqlite,
    full: bool,
    unreadable: bool,
    hung: bool,
    tries: u64,
    set_aside: Vec<PathBuf>,
    /// Batch ids in the order in which they were written.
    written: Vec<(AgentId, u64)>,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        let disk = Disk {
            index: Sqlite::in_memory(),
            full: false,
            unreadable: false,
            hung: false,
            tries: 0,
            set_aside: Vec::new(),
            written: Vec::new(),
        };
        Self(Arc::new(Inner { disk: Mutex::new(disk), freed: Condvar::new() }))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.disk.lock().unwrap()
    }

    /// Commits fail from now on.
    pub(crate) fn full(&self, full: bool) {
        self.disk().full = full;
    }

    /// Loads fail from now on.
    pub(crate) fn unreadable(&self, unreadable: bool) {
        self.disk().unreadable = unreadable;
    }

    /// Commits hang from now on. Tokio's paused clock doesn't move by itself while one does.
    pub(crate) fn hang(&self, hung: bool) {
        self.disk().hung = hung;
        self.0.freed.notify_all();
    }

    pub(crate) fn set_aside(&self) {
        self.disk().set_aside.push(PathBuf::from("index.set-aside"));
    }

    /// The file is damaged: another one takes its place when it is used next.
    pub(crate) fn damage(&self) {
        self.disk().index = Sqlite::in_memory();
        self.set_aside();
    }

    /// Commits tried.
    pub(crate) fn tries(&self) -> u64 {
        self.disk().tries
    }

    /// What was written, in order.
    pub(crate) fn written(&self) -> Vec<(AgentId, u64)> {
        self.disk().written.clone()
    }
}

impl Store for Shelf {
    fn load(&mut self, account: &str, agent: &AgentId) -> Result<Stored, Error> {
        let mut disk = self.disk();
        if disk.unreadable {
            return Err(Error::Disk("scripted".to_owned()));
        }
        disk.index.load(account, agent)
    }

    fn commit(&mut self, batches: &[Commit]) -> Result<(), Error> {
        let mut disk = self.0.freed.wait_while(self.disk(), |disk| disk.hung).unwrap();
        disk.tries += 1;
        if disk.full {
            return Err(Error::Disk("scripted".to_owned()));
        }
        disk.index.commit(batches)?;
        let ids = batches.iter().map(|commit| (commit.agent.clone(), commit.batch.id));
        disk.written.extend(ids);
        Ok(())
    }

    fn take_set_aside(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.disk().set_aside)
    }
}

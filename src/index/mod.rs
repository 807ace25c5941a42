//! The durable index: marks of what was exposed, per account, Bot, generation, entry and answer. Never text.
//!
//! [`Store`] is what the loop needs of it; [`Sqlite`] keeps it in the data folder (WAL, one transaction a commit, durable when `commit` returns) or
//! in memory for commands that must not touch the folder's index.
//!
//! Invariant: a mark is in the index before the host hears of the exposure. So after a crash the index may know more than the host, never less.

mod sqlite;

use std::path::PathBuf;

use crate::mirror::{Batch, Stored};
use crate::model::AgentId;

pub use sqlite::Sqlite;

/// What the loop needs of an index. Calls block on the disk: run them on a blocking thread, one at a time.
pub trait Store: Send + std::fmt::Debug {
    /// What it holds of a Bot of the account.
    ///
    /// # Errors
    /// [`Error::Disk`], [`Error::InTheWay`]: try again; nothing may be exposed meanwhile.
    fn load(&mut self, account: &str, agent: &AgentId) -> Result<Stored, Error>;

    /// Writes all batches in one transaction, in order. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Disk`], [`Error::InTheWay`]: nothing of it was written; try again.
    fn commit(&mut self, batches: &[Commit]) -> Result<(), Error>;

    /// The files that were set aside because they were no index of ours, since the last call.
    fn take_set_aside(&mut self) -> Vec<PathBuf>;
}

/// A batch and whose it is.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The account's digest.
    pub account: String,
    /// The Bot.
    pub agent: AgentId,
    /// What to write.
    pub batch: Batch,
}

/// Why the index couldn't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk is full, the folder read-only, the file busy: it may pass.
    #[error("index not written: {0}")]
    Disk(String),
    /// Something that is no file lies where the index belongs: only a person can take it away.
    #[error("{} isn't a plain file", .0.display())]
    InTheWay(PathBuf),
    /// The file is no index of ours: no database, a damaged one, other tables, or rows that are no marks. It is set aside.
    #[error("index file not usable: {0}")]
    Foreign(String),
}

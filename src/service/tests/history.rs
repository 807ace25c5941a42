//! What happened in one run, line by line, and what was wrong with it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::watch::tests::bed::clock;

/// Cheap to clone: everybody who takes part writes into the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    wrong: Vec<String>,
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap()
    }

    /// Something happened.
    pub(super) fn note(&self, line: impl fmt::Display) {
        let at = clock::millis();
        self.lock().lines.push(format!("{at:>8} {line}"));
    }

    /// Something happened on the disk's thread, which has no clock.
    pub(super) fn plain(&self, line: impl fmt::Display) {
        self.lock().lines.push(format!("         {line}"));
    }

    /// An invariant doesn't hold. The run ends at its next step.
    pub(super) fn wrong(&self, what: impl fmt::Display) {
        let what = format!("{:>8} WRONG: {what}", clock::millis());
        let mut lines = self.lock();
        lines.lines.push(what.clone());
        lines.wrong.push(what);
    }

    /// Checks one.
    pub(super) fn hold(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        !self.lock().wrong.is_empty()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    pub(super) fn wrongs(&self) -> Vec<String> {
        self.lock().wrong.clone()
    }
}

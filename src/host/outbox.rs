//! What waits for a host: answers, and texts whose place is behind what the feed held when they were made.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::records::Mark;

/// How much may wait for a host that doesn't read before it isn't read either.
const WAITING_BYTES: usize = 16 * 1024 * 1024;
/// What a request costs that is kept, besides its own bytes: a task, mostly.
const KEEPING_BYTES: usize = 512;

/// What waits for the host.
pub(super) struct Outbox {
    /// The transport.
    pub(super) outgoing: mpsc::Sender<String>,
    answers: VecDeque<String>,
    /// Texts that come behind what the feed held when they were made.
    behind_feed: VecDeque<(Option<Mark>, String)>,
    /// Bytes of both, of what is held for the lock, and of what is under way.
    waiting: usize,
    /// The host isn't read until everything has left.
    pub(super) blocked: bool,
    /// Nothing can be written any more.
    deaf: bool,
}

impl Outbox {
    pub(super) fn new(outgoing: mpsc::Sender<String>) -> Self {
        Self {
            outgoing,
            answers: VecDeque::new(),
            behind_feed: VecDeque::new(),
            waiting: 0,
            blocked: false,
            deaf: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.behind_feed.is_empty()
    }

    pub(super) fn answer(&mut self, text: String) {
        if !self.deaf {
            self.waiting += text.len();
            self.answers.push_back(text);
        }
    }

    pub(super) fn behind_feed(&mut self, mark: Option<Mark>, text: String) {
        if !self.deaf {
            self.waiting += text.len();
            self.behind_feed.push_back((mark, text));
        }
    }

    pub(super) fn next_answer(&mut self) -> Option<String> {
        let text = self.answers.pop_front()?;
        self.waiting = self.waiting.saturating_sub(text.len());
        Some(text)
    }

    pub(super) fn next_behind_feed(&mut self, passed: impl Fn(Option<Mark>) -> bool) -> Option<String> {
        let (_, text) = self.behind_feed.pop_front_if(|(mark, _)| passed(*mark))?;
        self.waiting = self.waiting.saturating_sub(text.len());
        Some(text)
    }

    /// What isn't answered yet weighs as an answer does: `bytes`, and what keeping it costs.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.waiting += bytes + KEEPING_BYTES;
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.waiting = self.waiting.saturating_sub(bytes + KEEPING_BYTES);
    }

    /// Too much waiting stops the reading; only when all of it has left it goes on, so that a feed that was kept back gets its turn, too.
    pub(super) fn judge(&mut self, holding: bool) {
        if self.waiting > WAITING_BYTES {
            self.blocked = true;
        } else if self.is_empty() && !holding {
            self.blocked = false;
        }
    }

    pub(super) fn deafen(&mut self) {
        self.deaf = true;
        self.answers.clear();
        self.behind_feed.clear();
        self.waiting = 0;
    }
}

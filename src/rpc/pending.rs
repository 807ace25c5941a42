//! Our own requests that wait for the peer.

use std::collections::HashMap;

use super::Id;

/// Requests of ours by id, each with where its answer goes. Ids are numbers that rise from 1; an answer to anything else is nobody's.
#[derive(Debug)]
pub struct Pending<T> {
    last: u64,
    waiting: HashMap<u64, T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { last: 0, waiting: HashMap::new() }
    }
}

impl<T> Pending<T> {
    /// Registers a request and gives its id.
    pub fn register(&mut self, waiter: T) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, waiter);
        self.last
    }

    /// Takes the waiter of a response. `None` for an id that was never given out, was answered already, or was given up.
    pub fn complete(&mut self, id: &Id) -> Option<T> {
        let id = id.0.get().parse().ok()?;
        self.waiting.remove(&id)
    }

    /// Forgets the waiters that `keep` doesn't want: those who gave up waiting.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.waiting.retain(|_, waiter| keep(waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{Message, parse};

    fn id(text: &str) -> Id {
        match parse(&format!(r#"{{"jsonrpc":"2.0","id":{text},"result":1}}"#)) {
            Ok(Message::Response { id, .. }) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_finds_its_request_once_and_a_foreign_one_finds_nothing() {
        let mut pending = Pending::default();
        assert_eq!((pending.register("a"), pending.register("b")), (1, 2));
        assert_eq!(pending.complete(&id("2")), Some("b"));
        for foreign in ["2", "3", "0", "-1", "1.0", "\"1\"", "null", "18446744073709551616"] {
            assert_eq!(pending.complete(&id(foreign)), None);
        }
        pending.retain(|waiter| *waiter != "a");
        assert_eq!(pending.complete(&id("1")), None);
        assert_eq!(pending.register("c"), 3);
    }
}

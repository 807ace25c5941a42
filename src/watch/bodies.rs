//! Bodies that wait for their turn: one a row, however often the row is overwritten meanwhile.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::mirror::FetchQuery;
use crate::model::{AgentId, Mono};

/// A body that is to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) agent: AgentId,
    /// Of the mirror that asked.
    pub(super) life: u64,
    pub(super) query: FetchQuery,
    /// How often it was tried.
    pub(super) tries: u32,
}

/// A row: its Bot and its place.
type Place = (AgentId, u64);

#[derive(Debug)]
struct Waiting {
    fetch: Fetch,
    /// Its place among those that are tried again later.
    held: Option<(Mono, u64)>,
}

/// What waits: no more than there are rows without a text.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    waiting: HashMap<Place, Waiting>,
    turns: VecDeque<Place>,
    /// By when they are tried again, and a number that tells equals apart.
    held: BTreeMap<(Mono, u64), Place>,
    next: u64,
}

fn place(fetch: &Fetch) -> Place {
    (fetch.agent.clone(), fetch.query.seq)
}

impl Bodies {
    /// A row's version without a text. One of the same row that still waits is out of date: nobody needs its body any more.
    pub(super) fn ask(&mut self, fetch: Fetch) {
        let place = place(&fetch);
        if let Some(waiting) = self.waiting.get_mut(&place) {
            waiting.fetch = fetch;
            if let Some(held) = waiting.held.take() {
                self.held.remove(&held);
                self.turns.push_back(place);
            }
        } else {
            self.waiting.insert(place.clone(), Waiting { fetch, held: None });
            self.turns.push_back(place);
        }
    }

    /// Takes the next one out.
    pub(super) fn next(&mut self) -> Option<Fetch> {
        let place = self.turns.pop_front()?;
        self.waiting.remove(&place).map(|waiting| waiting.fetch)
    }

    /// Keeps one that failed until `at`, unless a newer version of its row waits already.
    pub(super) fn hold(&mut self, fetch: Fetch, at: Mono) {
        let place = place(&fetch);
        if self.waiting.contains_key(&place) {
            return;
        }
        self.next += 1;
        let held = (at, self.next);
        self.held.insert(held, place.clone());
        self.waiting.insert(place, Waiting { fetch, held: Some(held) });
    }

    /// Gives their turn to those that have waited long enough.
    pub(super) fn release(&mut self, now: Mono) {
        while let Some(first) = self.held.first_entry().filter(|first| first.key().0 <= now) {
            let place = first.remove();
            if let Some(waiting) = self.waiting.get_mut(&place) {
                waiting.held = None;
            }
            self.turns.push_back(place);
        }
    }

    /// When the next one is to be tried again.
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.held.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.turns.clear();
        self.held.clear();
    }
}

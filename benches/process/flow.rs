//! Answers that stream, as the service shows them: rows that are overwritten with more and more text, many at the same time.

use std::thread;
use std::time::Duration;

use crate::data::{self, Rng};
use crate::rows::Row;
use crate::stats::Clock;

/// Entries that stream in one flow.
pub(crate) const ENTRIES: usize = 1000;
/// How far apart the versions of an entry are, at least and at most, in milliseconds: always less than the quiet second.
const STEP: (u64, usize) = (100, 301);
/// How many versions an entry has, at least and at most.
const VERSIONS: (usize, usize) = (5, 16);
/// Entries begin within so many milliseconds.
const BEGIN: usize = 2000;
/// Bytes of a whole answer, on average.
const TEXT: usize = 600;

/// One version of an entry.
struct Event {
    at: u64,
    entry: usize,
    /// Of how many.
    part: usize,
    versions: usize,
}

/// When the last version of an entry was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) bot: usize,
    pub(crate) number: u64,
    pub(crate) at: Duration,
}

/// Sends a flow over `bots` Bots, each version with `send`; places and numbers begin at `first`. Takes a few seconds.
pub(crate) fn run(bots: usize, first: u64, mut send: impl FnMut(usize, &Row)) -> Vec<Last> {
    let mut rng = Rng(first);
    let mut events = Vec::new();
    for entry in 0..ENTRIES {
        let mut at = rng.below(BEGIN) as u64;
        let versions = VERSIONS.0 + rng.below(VERSIONS.1 - VERSIONS.0);
        for part in 1..=versions {
            events.push(Event { at, entry, part, versions });
            at += STEP.0 + rng.below(STEP.1) as u64;
        }
    }
    events.sort_by_key(|event| event.at);
    let start = Clock::now();
    let mut numbers = vec![first; bots];
    let mut last = Vec::new();
    for Event { at, entry, part, versions } in events {
        let bot = entry % bots;
        numbers[bot] += 1;
        let whole = data::text(&mut Rng(first + entry as u64), TEXT);
        let mut end = whole.len() * part / versions;
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        let row = Row {
            message: true,
            own: false,
            text: whole[..end].to_owned(),
            ..Row::new(bot, first + entry as u64, numbers[bot], 0)
        };
        if let Some(wait) = (start + Duration::from_millis(at)).checked_sub(Clock::now()) {
            thread::sleep(wait);
        }
        let sent = Clock::now();
        send(bot, &row);
        if part == versions {
            last.push(Last { bot, number: numbers[bot], at: sent });
        }
    }
    last
}

/// As one line.
pub(crate) fn write(last: &[Last]) -> String {
    let one = |last: &Last| format!("{} {} {}", last.bot, last.number, last.at.as_nanos());
    last.iter().map(one).collect::<Vec<_>>().join(",")
}

/// From such a line.
pub(crate) fn read(line: &str) -> Option<Vec<Last>> {
    let one = |text: &str| {
        let mut words = text.split(' ');
        let (bot, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Last { bot, number, at: Duration::from_nanos(words.next()?.parse().ok()?) })
    };
    line.split(',').map(one).collect()
}

//! The wall clock of the bed goes with tokio's paused one, and counts how often the loop looked at it: once a turn.

use std::cell::Cell;

use tokio::time::Instant;

use crate::model::Wall;

/// 2026-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_767_225_600_000;

thread_local! {
    static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) };
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn reset() {
    ORIGIN.set(Some(Instant::now()));
    TURNS.set(0);
}

/// The wall clock as the loop reads it.
pub(crate) fn wall() -> Wall {
    TURNS.set(TURNS.get() + 1);
    Wall(START + millis())
}

/// Milliseconds since the test began.
pub(crate) fn millis() -> i64 {
    let origin = ORIGIN.get().unwrap();
    i64::try_from(origin.elapsed().as_millis()).unwrap()
}

/// How often the loop has turned.
pub(crate) fn turns() -> u64 {
    TURNS.get()
}

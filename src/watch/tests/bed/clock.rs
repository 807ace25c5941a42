//! The wall clock of the bed goes with tokio's paused one unless a test sets it or lets the machine sleep, and counts how often the loop looked at
//! it: once a turn.

use std::cell::Cell;

use tokio::time::Instant;

use crate::model::Wall;

/// 2026-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_767_225_600_000;

pub(in crate::watch::tests) const HOUR: i64 = 3_600_000;

thread_local! {
    static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Milliseconds for which the machine slept, and by which its wall clock is wrong.
    static SLEPT: Cell<i64> = const { Cell::new(0) };
    static WRONG: Cell<i64> = const { Cell::new(0) };
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn reset() {
    ORIGIN.set(Some(Instant::now()));
    TURNS.set(0);
    SLEPT.set(0);
    WRONG.set(0);
}

/// Hours pass for the world while the monotonic clock stands still, as it does in a machine that sleeps.
pub(in crate::watch::tests) fn sleep(hours: i64) {
    SLEPT.set(SLEPT.get() + hours * HOUR);
}

/// Somebody sets the wall clock, forward or back.
pub(in crate::watch::tests) fn set(hours: i64) {
    WRONG.set(WRONG.get() + hours * HOUR);
}

/// The wall clock as the loop reads it.
pub(crate) fn wall() -> Wall {
    TURNS.set(TURNS.get() + 1);
    shown()
}

/// The same, looked at by a test.
pub(in crate::watch::tests) fn shown() -> Wall {
    Wall(right().0 + WRONG.get())
}

/// The time as the service knows it.
pub(in crate::watch::tests) fn right() -> Wall {
    Wall(START + millis() + SLEPT.get())
}

/// Milliseconds of tokio's clock since the test began.
pub(crate) fn millis() -> i64 {
    let origin = ORIGIN.get().unwrap();
    i64::try_from(origin.elapsed().as_millis()).unwrap()
}

/// How often the loop has turned.
pub(crate) fn turns() -> u64 {
    TURNS.get()
}

//! Time as a value. Nothing below the loops reads a clock.

use std::time::Duration;

/// A monotonic instant: the time since some fixed moment of this process. It never goes back and decides every wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub Duration);

impl Mono {
    /// The instant `wait` after this one; saturates.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long from `earlier` to this instant; zero where it isn't later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Wall-clock time in milliseconds since the Unix epoch. Shown to people; orders and decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub i64);

/// Both clocks, read together by a loop and handed to the pure rooms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub mono: Mono,
    /// The wall clock.
    pub wall: Wall,
}

//! The wall clock, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::Wall;

/// The wall-clock time now. A clock before 1970 reads as 0.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock; everybody else takes time as an argument"
)]
pub fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

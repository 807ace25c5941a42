//! The wall clock: the only place that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::Wall;

/// What the machine's clock says now. A clock before 1970 reads as 0.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock")]
pub fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

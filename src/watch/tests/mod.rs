//! The loop as a whole, on a paused clock.

mod bed;
mod link;
mod posts;
mod reads;
mod roster;

//! The loop as a whole, on a paused clock.

pub(crate) mod bed;
mod clocks;
mod commits;
mod life;
mod link;
mod posts;
mod reads;
mod roster;
mod storm;
mod widgets;

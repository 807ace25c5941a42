//! The real binary, end to end: against the simulated service over real sockets, with a host on the other side that holds every line against the
//! committed schemas. One test binary, so that it links once.

#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy knows only the test functions themselves")]

mod a_minute;
mod architecture;
mod bind;
mod cli;
mod crashes;
mod demo;
mod disk;
mod doctor;
mod field;
mod hostile;
mod killed;
mod lifecycle;
mod load;
mod output;
mod posting;
mod preview;
mod recorded;
mod records;
mod refused;
mod rough;
mod secrets;
mod sign_in;
mod support;

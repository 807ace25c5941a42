//! The Grok Bot record provider for Coda.

pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connect;
pub mod disk;
pub mod host;
pub mod index;
pub mod mirror;
pub mod model;
pub mod platform;
#[cfg(feature = "preview")]
pub mod preview;
pub mod records;
pub mod rpc;
pub mod service;
#[cfg(feature = "preview")]
pub mod simulate;
pub mod upstream;
pub mod watch;

#[cfg(test)]
#[path = "../tests/fuzz/mod.rs"]
mod fuzz;

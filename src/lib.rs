//! The Grok Bot record provider for Coda.

pub mod auth;
pub mod clock;
pub mod config;
pub mod disk;
pub mod model;
pub mod platform;
pub mod records;
pub mod upstream;

//! The Grok Bot record provider for Coda.

pub mod auth;
pub mod clock;
pub mod connect;
pub mod model;
pub mod records;
pub mod upstream;

//! The Grok Bot record provider for Coda.

pub mod model;

//! The `coda-grok-bot` binary.
fn main() {}

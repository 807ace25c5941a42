//! The `coda-grok-bot` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    coda_grok_bot::cli::main()
}

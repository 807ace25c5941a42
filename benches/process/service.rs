//! The server's process, from outside.

use std::process::Command;

use crate::Result;
use crate::child::Process;

/// The service that all clients of a run read from.
#[derive(Debug)]
pub(crate) struct Service {
    process: Process,
    port: String,
}

impl Service {
    /// Starts it, in a process of its own.
    pub(crate) fn start() -> Result<Self> {
        let mut process = Process::start(Command::new(std::env::current_exe()?).arg("server"))?;
        let port = process.line()?.1;
        Ok(Self { process, port })
    }

    /// The address of a set of data.
    pub(crate) fn base(&self, set: &str) -> String {
        format!("http://127.0.0.1:{}/{set}", self.port)
    }

    /// Makes a set of data, so that nobody waits for it later.
    pub(crate) fn warm(&mut self, set: &str) -> Result<()> {
        self.command(&format!("warm {set}")).map(drop)
    }

    /// Gives a command and takes its answer.
    pub(crate) fn command(&mut self, line: &str) -> Result<String> {
        let answer = self.process.ask(line)?;
        if answer.starts_with("can't") { Err(answer.into()) } else { Ok(answer) }
    }

    /// A command whose answer is a number.
    pub(crate) fn count(&mut self, line: &str) -> Result<usize> {
        Ok(self.command(line)?.parse()?)
    }
}

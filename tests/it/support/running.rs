//! A command of a terminal that goes on until something ends it.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Heard, LIMIT, check_shape, signal};

/// A command that runs until it is told to stop.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    heard: Heard,
    /// Keeps its log.
    pub(crate) log: JoinSet<()>,
}

impl Running {
    pub(crate) fn start(mut command: Command, heard: Heard) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut errors, kept) = (BufReader::new(child.stderr.take().unwrap()).lines(), heard.log());
        let mut log = JoinSet::new();
        log.spawn(async move {
            while let Ok(Some(line)) = errors.next_line().await {
                check_shape(&line);
                kept.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        Self { child, lines, heard, log }
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        let line = self.lines.next_line().await.unwrap()?;
        check_shape(&line);
        self.heard.printed(&line);
        Some(line)
    }

    /// The next line that holds this.
    pub(crate) async fn line(&mut self, wanted: &str) -> String {
        let found = async {
            loop {
                let line = self.next().await.unwrap_or_else(|| panic!("it ended before {wanted:?}"));
                if line.contains(wanted) {
                    return line;
                }
            }
        };
        timeout(LIMIT, found).await.unwrap_or_else(|_| panic!("no line with {wanted:?}"))
    }

    pub(crate) async fn say(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn code(mut self) -> Option<i32> {
        let rest = async { while self.next().await.is_some() {} };
        timeout(LIMIT, rest).await.unwrap();
        timeout(LIMIT, self.child.wait()).await.unwrap().unwrap().code()
    }

    pub(crate) async fn signalled(self, name: &str) -> Option<i32> {
        signal(self.child.id().unwrap(), name).await;
        self.code().await
    }
}

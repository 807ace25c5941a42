//! A process that is measured: started, driven by lines, and looked at in /proc.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::stats::{Clock, float};

/// How long anything may take before a run is given up: it says that something is broken, not that it is slow.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// A line that the process wrote, with the moment at which it was read.
pub(crate) type Line = (Duration, String);

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// Lines that were read and put back.
    kept: VecDeque<Line>,
    name: String,
}

/// Bytes as MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    float(bytes) / (1024.0 * 1024.0)
}

/// What /proc says of a process. Times are CPU, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all its threads, ended ones too.
    pub(crate) cpu: f64,
    /// Of its first thread.
    pub(crate) main: f64,
    /// Resident now, in bytes.
    pub(crate) resident: u64,
    /// The most that was ever resident, in bytes.
    pub(crate) peak: u64,
    /// Times that its threads went to sleep by themselves.
    pub(crate) sleeps: u64,
}

impl Process {
    /// Starts it; stderr is this one's.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send((Clock::now(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines, kept: VecDeque::new(), name })
    }

    /// Writes a line to it.
    pub(crate) fn send(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("its stdin is closed"))?;
        // One write a line: it is how long the other side takes that is measured.
        input.write_all(format!("{line}\n").as_bytes())
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> io::Result<Line> {
        if let Some(line) = self.kept.pop_front() {
            return Ok(line);
        }
        self.lines.recv_timeout(PATIENCE).map_err(|error| {
            let what = match error {
                RecvTimeoutError::Timeout => "said nothing for too long",
                RecvTimeoutError::Disconnected => "ended too soon",
            };
            io::Error::other(format!("{} {what}", self.name))
        })
    }

    /// Sends a line and takes the next one for its answer.
    pub(crate) fn ask(&mut self, line: &str) -> io::Result<String> {
        self.send(line)?;
        self.line().map(|(_, line)| line)
    }

    /// What /proc says of it.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        usage(self.child.id())
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Ends its stdin and waits for its end.
    pub(crate) fn finish(mut self) -> io::Result<bool> {
        self.input = None;
        self.child.wait().map(|status| status.success())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already, mostly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What /proc says of a process.
pub(crate) fn usage(pid: u32) -> io::Result<Usage> {
    let bad = || io::Error::other("/proc can't be read");
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let stat = read("stat")?;
    // After the name, which may hold anything: state is field 3; user and system time are 14 and 15, in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().ok_or_else(bad)?.split_whitespace().collect();
    let ticks = |n: usize| fields.get(n - 3).and_then(|text| text.parse::<u32>().ok()).ok_or_else(bad);
    let coarse = f64::from(ticks(14)? + ticks(15)?) * 10.0;
    let (mut fine, mut main, mut sleeps) = (0.0, 0.0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let file = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let text = file("schedstat");
        let nanoseconds = text.split(' ').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let time = Duration::from_nanos(nanoseconds).as_secs_f64() * 1000.0;
        fine += time;
        if *task.file_name() == *pid.to_string() {
            main = time;
        }
        sleeps += number(&file("status"), "voluntary_ctxt_switches:");
    }
    let status = read("status")?;
    let bytes = |name: &str| number(&status, name) * 1024;
    // The scheduler's own count is finer, but knows of no thread that has ended; then the coarse one is larger by more than its step.
    let cpu = if coarse > fine + 20.0 { coarse } else { fine };
    Ok(Usage { cpu, main, resident: bytes("VmRSS:"), peak: bytes("VmHWM:"), sleeps })
}

fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

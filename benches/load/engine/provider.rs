//! The provider's process, and its host's two ends of the pipes.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::{Result, sign_in};

/// A line of the provider, and the moment at which it was read.
pub(crate) type Line = (Instant, String);

/// What the system says of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Resident now, and the most that ever was, in bytes.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    pub(crate) threads: u64,
    pub(crate) files: u64,
}

/// The running provider.
#[derive(Debug)]
pub(crate) struct Provider {
    child: Child,
    /// What is written to it; a thread of its own writes, for it may not read.
    to: Option<Sender<String>>,
    pub(crate) lines: Receiver<Line>,
    deaf: Arc<AtomicBool>,
}

impl Provider {
    /// Starts it on a folder of its own against the service at `base`.
    pub(crate) fn start(binary: &Path, folder: &Path, base: &str) -> Result<Self> {
        sign_in::sign_in(folder)?;
        let mut child = Command::new(binary)
            .args(["serve", "--data-dir"])
            .arg(folder)
            .env("GROK_BOT_TEST", "1")
            .env("GROK_BOT_BACKEND_URL", base)
            .env("GROK_BOT_WEBSITE_URL", "http://127.0.0.1:9")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let (to, texts) = channel::<String>();
        thread::spawn(move || {
            // Ends when it doesn't read any more, or nothing more is to be said.
            texts.iter().try_for_each(|text| input.write_all(format!("{text}\n").as_bytes()))
        });
        let deaf = Arc::new(AtomicBool::new(false));
        let (sender, lines) = channel();
        let ears = Arc::clone(&deaf);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(io::Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
                while ears.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        Ok(Self { child, to: Some(to), lines, deaf })
    }

    /// Says something to it, sooner or later.
    pub(crate) fn send(&self, text: String) {
        if let Some(to) = &self.to {
            // One that has ended is noticed by what it doesn't say.
            let _ = to.send(text);
        }
    }

    /// Stops reading what it says, or reads on.
    pub(crate) fn deafen(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::Relaxed);
    }

    /// What the system says of it.
    pub(crate) fn size(&self) -> io::Result<Size> {
        let pid = self.child.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(name));
            rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        Ok(Size {
            resident: number("VmRSS:") * 1024,
            peak: number("VmHWM:") * 1024,
            threads: number("Threads:"),
            files: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
        })
    }

    /// Closes its stdin and waits for its end: whether that was a good one.
    pub(crate) fn finish(mut self) -> io::Result<bool> {
        self.to = None;
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // Ended already, mostly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

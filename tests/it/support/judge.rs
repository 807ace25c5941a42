//! What the processes of a run printed, wrote and sent, and the search for what doesn't belong there. It is made at the end of every run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::Bench;

/// Shorter words of a token's alphabet are no secret.
const SHORT: usize = 16;

/// What the processes of a run printed. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    printed: Arc<Mutex<String>>,
    logs: Arc<Mutex<Vec<Arc<Mutex<String>>>>>,
}

impl Heard {
    /// Something came on stdout, or over the WebSocket.
    pub(crate) fn printed(&self, text: &str) {
        self.printed.lock().unwrap().push_str(text);
    }

    /// The log of one more process.
    pub(crate) fn log(&self) -> Arc<Mutex<String>> {
        let log = Arc::default();
        self.logs.lock().unwrap().push(Arc::clone(&log));
        log
    }

    fn logs(&self) -> Vec<String> {
        self.logs.lock().unwrap().iter().map(|log| log.lock().unwrap().clone()).collect()
    }
}

/// What is where it doesn't belong. Tokens, verifiers and the signatures of stored bodies belong into the sign-in file and into the calls of the
/// service that need them; texts to hosts, to the service, and into the most talkative log.
pub(crate) fn search(heard: &Heard, folder: &Path, secrets: &[String], texts: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |place: &str, text: &str, texts: &[String]| {
        found.extend(secret_in(secrets, text).map(|secret| format!("{place}: the secret {secret}")));
        found.extend(texts.iter().find(|said| text.contains(*said)).map(|said| format!("{place}: {said}")));
    };
    look("stdout", &heard.printed.lock().unwrap(), &[]);
    for log in heard.logs() {
        look("the log", &log, &[]);
        look("the log", &said_aloud(&log, texts), texts);
    }
    let mut files = Vec::new();
    collect(folder, &mut files);
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // What a crash leaves of its next version, and what is set aside, is the same file.
        let home = name.trim_start_matches('.').starts_with("native-auth.json");
        look(&name, if home { "" } else { &text }, texts);
    }
    found
}

impl Bench {
    /// What this run's processes left, printed or sent where it doesn't belong.
    pub(crate) fn findings(&self) -> Vec<String> {
        let texts: Vec<String> = self.control.texts().into_iter().filter(|text| is_telling(text)).collect();
        let mut found = search(&self.heard, &self.data(), &self.control.secrets(), &texts);
        found.extend(self.control.misplaced().into_iter().map(|place| format!("sent to the service: {place}")));
        found
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.judged && !std::thread::panicking() {
            let found = self.findings();
            assert!(found.is_empty(), "{found:#?}");
        }
    }
}

/// The lines of a log in which a text must not be: all but those of `trace`, with those that follow them. Most are quickly passed by.
fn said_aloud(log: &str, texts: &[String]) -> String {
    let ascii = texts.iter().any(|text| text.is_ascii());
    let (mut aloud, mut kept) = (true, String::new());
    for line in log.lines() {
        if let Some(level) = line.split_whitespace().nth(1).filter(|_| line.starts_with("20")) {
            aloud = level != "TRACE";
        }
        if aloud && (ascii || !line.is_ascii()) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// A text that nobody but its author would write.
fn is_telling(text: &str) -> bool {
    let own = text.chars().filter(|c| !c.is_ascii()).count();
    own >= 2 || (text.len() >= 12 && text.contains(' '))
}

/// The first secret that a text holds; of a token its last part, which is what is worth stealing.
fn secret_in<'s>(secrets: &'s [String], text: &str) -> Option<&'s String> {
    let alphabet = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words: BTreeSet<&str> = text.split(|c| !alphabet(c)).filter(|word| word.len() >= SHORT).collect();
    secrets.iter().find(|secret| {
        let worth = secret.rsplit('.').next().unwrap_or(secret);
        words.iter().any(|word| word.contains(worth))
    })
}

/// What looks like a token of anybody.
pub(crate) fn check_shape(text: &str) {
    let token = |word: &&str| word.starts_with("eyJ") && word.matches('.').count() == 2;
    let alphabet = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    assert_eq!(text.split(|c| !alphabet(c)).find(token), None, "a token was printed");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    // One that a test took away, or made a link of.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => collect(&path, files),
            Ok(found) if found.is_file() => files.push(path),
            _ => {}
        }
    }
}

//! The key and the port of a folder's page, kept over a restart: a page that stays open finds its way back by itself.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Key;
use crate::disk;

/// The file in the data folder.
const FILE: &str = "preview.json";
/// More is no file of ours.
const LIMIT: u64 = 4096;

/// What is kept. Whoever can read the file could read the sign-in beside it as well.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    /// The page's key.
    pub key: Key,
    /// The port it was served on last; 0 for none.
    pub port: u16,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    key: String,
    port: u16,
}

impl Kept {
    /// Reads what the folder keeps; a fresh key where it keeps nothing that can be used.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let stored = disk::read_private(&path, LIMIT).unwrap_or_else(|error| {
            tracing::warn!(%error, "the preview's key can't be read: a page that is still open has to be opened anew");
            None
        });
        let stored = stored.and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok());
        let known = stored.and_then(|stored| Some((Key::parse(&stored.key)?, stored.port)));
        let (key, port) = known.unwrap_or_else(|| (Key::random(), 0));
        Self { path, key, port }
    }

    /// Keeps the port that is served on now: for whoever has the folder, since the page that is open is that one's. That it can't be kept is no reason not to serve.
    pub fn keep(&self, port: u16) {
        let stored = Stored { key: self.key.0.clone(), port };
        let written = serde_json::to_vec(&stored).map(|bytes| disk::write_private(&self.path, &bytes));
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the preview's key can't be kept: after a restart the page has to be opened anew");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_stays_open_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        disk::private_folder(folder.path()).unwrap();
        let first = Kept::of(folder.path());
        assert_eq!(first.port, 0);
        first.keep(4321);
        let second = Kept::of(folder.path());
        assert!(second.key.is(&first.key.0));
        assert_eq!(second.port, 4321);
    }

    #[test]
    fn what_is_no_key_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        disk::private_folder(folder.path()).unwrap();
        for bad in ["", "{", r#"{"key":"short","port":1}"#, r#"{"port":1}"#] {
            disk::write_private(&folder.path().join(FILE), bad.as_bytes()).unwrap();
            let kept = Kept::of(folder.path());
            assert_eq!((kept.key.0.len(), kept.port), (64, 0), "{bad}");
        }
    }
}

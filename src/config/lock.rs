//! One provider at a time per data folder.

use std::fmt;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat};

use crate::clock;
use crate::disk::{DiskError, Lock, read_private};
use crate::model::Wall;

/// The lock's file in the data folder. It holds `pid` and start of who has it, in one line.
const NAME: &str = "provider.lock";
/// How long a second provider waits: the host may be restarting us, and the first one may still be closing.
const WAIT: Duration = Duration::from_secs(5);
/// More than a note ever is.
const NOTE_LIMIT: u64 = 256;

/// The data folder is ours until this is dropped. The system releases it when the process dies.
#[derive(Debug)]
pub struct FolderLock {
    lock: Lock,
}

/// Who holds a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// When it took the folder, by this machine's clock.
    pub since: Wall,
}

/// Why a folder isn't ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another provider works on it. The holder isn't known for the moment between its taking the lock and its writing so.
    #[error("the data folder is in use{}", .0.map(|holder| format!(" by process {}", holder.pid)).unwrap_or_default())]
    Held(Option<Holder>),
    /// The lock can't be taken at all.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl LockError {
    /// One sentence for a person.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Held(Some(holder)) => format!("数据文件夹正被另一个 coda-grok-bot 使用（{holder}），请先停止它。"),
            Self::Held(None) => "数据文件夹正被另一个 coda-grok-bot 使用，请先停止它。".to_owned(),
            Self::Disk(error) => format!("数据文件夹无法使用：{}", error.sentence()),
        }
    }
}

/// For people: the time as `<t:…>`, which the surface writes out in local time.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "进程 {}", self.pid)?;
        match DateTime::from_timestamp_millis(self.since.0) {
            Some(since) => write!(f, "，自 <t:{}> 起", since.to_rfc3339_opts(SecondsFormat::Secs, true)),
            None => Ok(()),
        }
    }
}

impl FolderLock {
    /// Takes the folder if nobody has it.
    ///
    /// # Errors
    /// [`LockError::Held`] names who has it.
    pub fn try_acquire(folder: &Path) -> Result<Self, LockError> {
        let path = path(folder);
        match Lock::try_acquire(&path)? {
            Some(lock) => Ok(Self::noted(lock)),
            None => Err(LockError::Held(holder(&path))),
        }
    }

    /// Takes the folder, waiting up to 5 s for whoever has it. Dropping the future gives up.
    ///
    /// # Errors
    /// As [`Self::try_acquire`], after the wait.
    pub async fn acquire(folder: &Path) -> Result<Self, LockError> {
        let path = path(folder);
        match Lock::acquire(&path, WAIT).await {
            Ok(lock) => Ok(Self::noted(lock)),
            Err(DiskError::Busy(_)) => Err(LockError::Held(holder(&path))),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes who we are. The lock holds without the note, so a full disk doesn't keep the provider from starting.
    fn noted(lock: Lock) -> Self {
        let note = format!("{} {}\n", std::process::id(), clock::wall().0);
        if let Err(error) = rewrite(&lock, note.as_bytes()) {
            tracing::warn!(%error, "can't note in the lock file who holds the folder");
        }
        Self { lock }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // So that the next holder's first moment isn't told in our name.
        if let Err(error) = rewrite(&self.lock, b"") {
            tracing::debug!(%error, "can't clear the lock file");
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

fn rewrite(lock: &Lock, note: &[u8]) -> std::io::Result<()> {
    let mut file = lock.file();
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(note)
}

fn holder(path: &Path) -> Option<Holder> {
    let bytes = read_private(path, NOTE_LIMIT).ok()??;
    let mut text = String::new();
    bytes.as_slice().read_to_string(&mut text).ok()?;
    // Without the newline the note is still being written, and a number may be cut.
    let (pid, since) = text.strip_suffix('\n')?.split_once(' ')?;
    Some(Holder { pid: pid.parse().ok()?, since: Wall(since.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_provider_is_told_who_holds_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::try_acquire(folder.path()).unwrap();
        let Err(LockError::Held(Some(holder))) = FolderLock::try_acquire(folder.path()) else {
            panic!("the folder was taken twice");
        };
        assert_eq!(holder.pid, std::process::id());
        assert!(holder.since.0 > 1_600_000_000_000);
        drop(first);
        assert!(FolderLock::try_acquire(folder.path()).is_ok());
    }

    #[test]
    fn the_sentence_names_process_and_time() {
        let held = LockError::Held(Some(Holder { pid: 42, since: Wall(1_700_000_000_000) }));
        assert_eq!(
            held.sentence(),
            "数据文件夹正被另一个 coda-grok-bot 使用（进程 42，自 <t:2023-11-14T22:13:20Z> 起），请先停止它。"
        );
        assert!(LockError::Held(None).sentence().contains("另一个 coda-grok-bot"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_waits_for_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::try_acquire(folder.path()).unwrap();
        let begun = tokio::time::Instant::now();
        let (second, ()) = tokio::join!(FolderLock::acquire(folder.path()), async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(first);
        });
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(3) && waited < Duration::from_secs(4), "{waited:?}");

        let begun = tokio::time::Instant::now();
        let third = FolderLock::acquire(folder.path()).await;
        assert!(matches!(third, Err(LockError::Held(Some(_)))));
        assert!(begun.elapsed() >= WAIT && begun.elapsed() < WAIT + Duration::from_secs(1));
        drop(second);
    }

    #[test]
    fn a_note_of_a_dead_process_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(path(folder.path()), "4242 1700000000000\n").unwrap();
        assert!(FolderLock::try_acquire(folder.path()).is_ok());
    }
}

//! The index as an SQLite file.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Transaction, params};

use super::{Commit, Error, Store};
use crate::mirror::Stored;
use crate::model::AgentId;
use blocks::TABLE;

mod blocks;
mod old;

/// "cgbx": says that the file is ours.
const APPLICATION_ID: i32 = 0x6367_6278;
/// Rises when a table changes, or the bytes of marks; another one isn't ours.
const SCHEMA: i32 = 4;
/// Schemas that are brought up to date: two with a row for each mark, in the first of which digests were whole, and one whose blocks had no sums.
const OLD_SCHEMAS: [i32; 3] = [1, 2, 3];
/// The header's word for a file with a log beside it, as ours is; 1 is one without.
const WAL_FORMAT: u8 = 2;
/// The smallest page that SQLite has, in bytes, and so the smallest file.
const SMALLEST: u64 = 512;
/// Pages in the log before they go to the file and it begins anew: to write over blocks that it has makes an exposure durable with two thirds of the
/// time of new ones, for the file system has nothing to write down of its own. It pays as soon as the log has gone round once.
const LOG_PAGES: u32 = 100;
/// A reader of another process (a backup, say) may hold the file for a moment.
const BUSY: Duration = Duration::from_secs(2);

/// An index in one SQLite file, or in memory.
#[derive(Debug)]
pub struct Sqlite {
    path: Option<PathBuf>,
    connection: Option<Connection>,
    set_aside: Vec<PathBuf>,
}

impl Sqlite {
    /// The index in `path`. The file is opened (and made, 0600) at the first use, so that a disk that can't be written now is an error of that use.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path: Some(path), connection: None, set_aside: Vec::new() }
    }

    /// An index that is gone with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { path: None, connection: None, set_aside: Vec::new() }
    }

    /// Runs `work` on the open file. A file that isn't an index of ours is set aside and `work` runs once more on a new one.
    fn with<T>(&mut self, work: impl Fn(&mut Connection) -> Result<T, Error>) -> Result<T, Error> {
        match self.opened().and_then(&work) {
            Err(Error::Foreign(_)) => {
                self.put_aside()?;
                self.opened().and_then(&work)
            }
            Err(error) => {
                // A connection that met an I/O error may be in any state; the next use opens it anew.
                if self.path.is_some() {
                    self.connection = None;
                }
                Err(error)
            }
            done => done,
        }
    }

    fn opened(&mut self) -> Result<&mut Connection, Error> {
        if self.connection.is_none() {
            self.connection = Some(match &self.path {
                Some(path) => open(path)?,
                None => prepare(Connection::open_in_memory().map_err(classify)?)?,
            });
        }
        self.connection.as_mut().ok_or_else(|| Error::Disk("not open".to_owned()))
    }

    fn put_aside(&mut self) -> Result<(), Error> {
        self.connection = None;
        let Some(path) = &self.path else { return Ok(()) };
        let target = (1..=u32::MAX)
            .map(|count| suffixed(path, &format!(".bad-{count}")))
            .find(|candidate| !candidate.exists())
            .ok_or_else(|| Error::Disk("no name left to set the index aside".to_owned()))?;
        // The log beside it belongs to the old file: with a new one it would be replayed into it.
        for tail in ["-wal", "-shm"] {
            match fs::rename(suffixed(path, tail), suffixed(&target, tail)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::Disk(error.to_string())),
                _ => {}
            }
        }
        fs::rename(path, &target).map_err(|error| Error::Disk(error.to_string()))?;
        self.set_aside.push(target);
        Ok(())
    }
}

impl Store for Sqlite {
    fn load(&mut self, account: &str, agent: &AgentId) -> Result<Stored, Error> {
        self.with(|connection| {
            let read = |connection: &Connection| -> rusqlite::Result<Stored> {
                let mut stored = Stored::default();
                if let Some(bot) = bot(connection, account, agent)? {
                    blocks::load(connection, bot, &mut stored)?;
                }
                stored.shrink();
                Ok(stored)
            };
            read(connection).map_err(classify)
        })
    }

    fn commit(&mut self, batches: &[Commit]) -> Result<(), Error> {
        self.with(|connection| {
            let write = |connection: &mut Connection| -> rusqlite::Result<()> {
                let transaction = connection.transaction()?;
                for commit in batches {
                    write_batch(&transaction, commit)?;
                }
                transaction.commit()
            };
            write(connection).map_err(classify)
        })
    }

    fn take_set_aside(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.set_aside)
    }
}

/// The number of a Bot, where anything was ever written of it.
fn bot(connection: &Connection, account: &str, agent: &AgentId) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM bot WHERE account = ?1 AND agent = ?2")?
        .query_row(params![account, agent.as_str()], |row| row.get(0))
        .optional()
}

fn write_batch(transaction: &Transaction<'_>, commit: &Commit) -> rusqlite::Result<()> {
    let Commit { account, agent, batch } = commit;
    let bot = if let Some(known) = bot(transaction, account, agent)? {
        known
    } else {
        transaction
            .prepare_cached("INSERT INTO bot (account, agent) VALUES (?1, ?2)")?
            .execute(params![account, agent.as_str()])?;
        transaction.last_insert_rowid()
    };
    if batch.clear {
        transaction.prepare_cached("DELETE FROM block WHERE bot = ?1")?.execute([bot])?;
    }
    blocks::write(transaction, bot, batch.generation, &batch.marks)
}

fn open(path: &Path) -> Result<Connection, Error> {
    // Made by us first, so that it is never wider than 0600; SQLite gives its -wal and -shm the same mode.
    // What lies there is looked at first: a folder or a link would only be called a file that can't be opened.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Error::InTheWay(path.to_owned()));
    }
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::Disk(error.to_string())),
        _ => {}
    }
    narrow(path)?;
    plausible(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    prepare(Connection::open_with_flags(path, flags).map_err(classify)?)
}

/// Takes from others what they may do with an index that was there, and with what lies beside it: SQLite gives those its own mode, but only when it makes
/// them. One of another user can't be narrowed, and isn't used.
fn narrow(path: &Path) -> Result<(), Error> {
    for file in ["", "-wal", "-shm"].map(|tail| suffixed(path, tail)) {
        if fs::symlink_metadata(&file).is_ok_and(|found| found.is_file() && found.mode() & 0o077 != 0) {
            fs::set_permissions(&file, Permissions::from_mode(0o600))
                .map_err(|error| Error::Disk(error.to_string()))?;
        }
    }
    Ok(())
}

/// What SQLite itself would let pass, of a file that was cut or whose header was damaged.
///
/// It writes whole pages, and reads what is missing of a last one as zeros: marks that nobody wrote. And a file of a later write format it only reads;
/// ours never is one, and would be read-only for ever.
///
/// Before SQLite opens the file: closing it here afterwards would drop SQLite's locks.
fn plausible(path: &Path) -> Result<(), Error> {
    let mut header = [0; 19];
    let nofollow = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(nofollow).open(path) else { return Ok(()) };
    let Ok(metadata) = file.metadata() else { return Ok(()) };
    // An empty one was made by us a moment ago, or before a crash. Of one that was cut this short SQLite would say nothing.
    if metadata.len() > 0 && metadata.len() < SMALLEST {
        return Err(Error::Foreign(format!("{} bytes are no database", metadata.len())));
    }
    let Ok(()) = file.read_exact(&mut header) else { return Ok(()) };
    let [.., high, low, write_format] = header;
    let page = match u64::from(u16::from_be_bytes([high, low])) {
        1 => 65536,
        size => size,
    };
    // A size that is none, as everything else in the header, is SQLite's to judge.
    if page.is_power_of_two() && !metadata.len().is_multiple_of(page) {
        return Err(Error::Foreign(format!("{} bytes are no whole pages of {page}", metadata.len())));
    }
    if write_format > WAL_FORMAT {
        return Err(Error::Foreign(format!("write format {write_format}")));
    }
    Ok(())
}

fn prepare(mut connection: Connection) -> Result<Connection, Error> {
    let setup = |connection: &Connection| -> rusqlite::Result<(i32, i32, i64)> {
        connection.busy_timeout(BUSY)?;
        let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let schema = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables =
            connection.query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table'", [], |row| row.get(0))?;
        Ok((application, schema, tables))
    };
    let (application, schema, tables) = setup(&connection).map_err(classify)?;
    let fresh = (application, schema, tables) == (0, 0, 0);
    let old = application == APPLICATION_ID && OLD_SCHEMAS.contains(&schema) && tables == 2;
    if !fresh && !old && (application, schema, tables) != (APPLICATION_ID, SCHEMA, 2) {
        return Err(Error::Foreign(format!("application {application}, schema {schema}, {tables} tables")));
    }
    let finish = |connection: &mut Connection| -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // Where a value was bound, SQLite would else prepare a statement anew to plan with it: twice for each Bot of a commit, and always the same plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Durable when the commit returns: the host hears of an exposure only after it.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        if fresh {
            connection.execute_batch(&format!(
                "BEGIN IMMEDIATE;
                 CREATE TABLE bot (id INTEGER PRIMARY KEY, account TEXT NOT NULL, agent TEXT NOT NULL, UNIQUE (account, agent));
                 {TABLE};
                 PRAGMA application_id = {APPLICATION_ID};
                 PRAGMA user_version = {SCHEMA};
                 COMMIT;"
            ))?;
        }
        if old {
            old::bring_up_to_date(connection, schema)?;
        }
        Ok(())
    };
    finish(&mut connection).map_err(classify)?;
    Ok(connection)
}

/// What says of the file itself that it isn't ours is foreign: SQLite calls it corrupt or no database, knows a table or column of ours not
/// (`Unknown` is its word for a statement that doesn't fit), finds a rule of the tables broken that no statement here breaks, or gives a value that is
/// no mark of ours (an error without a code). Tried again, each would fail for ever. Everything else may pass.
#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
fn classify(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        None
        | Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::Unknown
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch,
        ) => Error::Foreign(error.to_string()),
        Some(_) => Error::Disk(error.to_string()),
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::{Batch, Digest, Mark};
    use crate::model::{Author, EntryId, Part};

    fn mark(entry: &str, first: u64) -> Mark {
        Mark {
            entry: EntryId::from(entry),
            part: Part::Entry,
            seq: u64::MAX,
            digest: Some(Digest::of("你好")),
            first,
            edit: Some(u64::MAX),
            delete: None,
            author: Author::Bot,
        }
    }

    fn commit(generation: u64, clear: bool, marks: Vec<Mark>) -> Commit {
        Commit {
            account: "a".to_owned(),
            agent: AgentId::from("bot"),
            batch: Batch { id: 1, clear, generation, marks: marks.into_iter().collect() },
        }
    }

    fn load(index: &mut Sqlite) -> Vec<(u64, Mark)> {
        index.load("a", &AgentId::from("bot")).expect("loads").to_vec()
    }

    #[test]
    fn d8_marks_come_back_whole_after_a_restart() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("index.sqlite3");
        let mut index = Sqlite::at(path.clone());
        let answer = Mark {
            part: Part::Answer,
            digest: None,
            delete: Some(9),
            edit: None,
            author: Author::Account,
            ..mark("t1", 3)
        };
        index.commit(&[commit(7, false, vec![mark("t1", 2), answer.clone()])]).expect("commits");
        drop(index);
        let mut index = Sqlite::at(path.clone());
        assert_eq!(load(&mut index), vec![(7, mark("t1", 2)), (7, answer)]);
        assert_eq!(index.load("b", &AgentId::from("bot")).expect("loads"), Stored::default(), "another account's");
        assert_eq!(fs::metadata(&path).expect("stat").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_index_that_others_may_read_is_narrowed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("index.sqlite3");
        let files = ["", "-wal", "-shm"].map(|tail| suffixed(&path, tail));
        let mut first = Sqlite::at(path.clone());
        first.commit(&[commit(7, false, vec![mark("t1", 2)])]).expect("commits");
        for file in &files {
            fs::set_permissions(file, Permissions::from_mode(0o666)).expect("widens");
        }
        // With the first one open the log stays where it is, as after a crash.
        let mut index = Sqlite::at(path);
        assert_eq!(load(&mut index).len(), 1);
        for file in &files {
            assert_eq!(fs::metadata(file).expect("stat").permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
    }

    #[test]
    fn d8_a_change_of_generation_deletes_every_generation_of_that_bot_alone() {
        let mut index = Sqlite::in_memory();
        let other = Commit { agent: AgentId::from("other"), ..commit(1, false, vec![mark("o", 1)]) };
        index
            .commit(&[commit(1, false, vec![mark("x", 1)]), commit(2, false, vec![mark("y", 1)]), other])
            .expect("commits");
        index.commit(&[commit(3, true, vec![mark("z", 4)])]).expect("commits");
        assert_eq!(load(&mut index), vec![(3, mark("z", 4))]);
        assert_eq!(index.load("a", &AgentId::from("other")).expect("loads").len(), 1);
    }

    #[test]
    fn a_file_that_is_no_database_or_not_ours_is_set_aside_and_a_new_one_made() {
        for content in [b"this is not an SQLite file, but long enough to have a header of one hundred bytes, which SQLite reads.....".to_vec(), {
            let dir = tempfile::tempdir().expect("tempdir");
            let path = dir.path().join("other.db");
            Connection::open(&path).expect("opens").execute_batch("CREATE TABLE t (x)").expect("creates");
            fs::read(&path).expect("reads")
        }] {
            let dir = tempfile::tempdir().expect("tempdir");
            let path = dir.path().join("index.sqlite3");
            fs::write(&path, &content).expect("writes");
            let mut index = Sqlite::at(path.clone());
            assert_eq!(load(&mut index), vec![]);
            let aside = index.take_set_aside();
            assert_eq!(aside.len(), 1);
            assert_eq!(fs::read(&aside[0]).expect("reads"), content, "kept as it was");
            index.commit(&[commit(1, false, vec![mark("x", 1)])]).expect("commits to the new one");
        }
    }

    #[test]
    fn a_folder_that_cant_be_written_is_an_error_that_passes() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("missing").join("index.sqlite3");
        let mut index = Sqlite::at(path.clone());
        let error = index.commit(&[commit(1, false, vec![mark("x", 1)])]).expect_err("no folder");
        assert!(matches!(error, Error::Disk(_)), "{error}");
        fs::create_dir(dir.path().join("missing")).expect("mkdir");
        index.commit(&[commit(1, false, vec![mark("x", 1)])]).expect("commits once the folder is there");
        assert!(index.take_set_aside().is_empty());
    }

    #[test]
    fn a_folder_in_place_of_the_index_is_named_and_left_alone() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("index.sqlite3");
        fs::create_dir(&path).expect("mkdir");
        let mut index = Sqlite::at(path.clone());
        let error = index.commit(&[commit(1, false, vec![mark("x", 1)])]).expect_err("no file");
        assert!(matches!(error, Error::InTheWay(_)), "{error}");
        assert!(path.is_dir() && index.take_set_aside().is_empty());
        fs::remove_dir(&path).expect("rmdir");
        index.commit(&[commit(1, false, vec![mark("x", 1)])]).expect("commits once it is gone");
    }

    #[test]
    fn a_symlink_in_place_of_the_index_is_not_followed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("index.sqlite3");
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, b"").expect("writes");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("links");
        let mut index = Sqlite::at(path);
        let error = index.commit(&[commit(1, false, vec![mark("x", 1)])]).expect_err("refused");
        assert!(matches!(error, Error::InTheWay(_)), "{error}");
        assert_eq!(fs::read(&elsewhere).expect("reads"), b"");
    }
}

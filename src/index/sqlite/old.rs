//! Indexes of earlier versions: with a row for each mark, or with blocks that had no sums.

use rusqlite::{Connection, Row, Transaction, params};

use super::blocks;
use crate::mirror::{Digest, Mark, Marks};
use crate::model::{Author, CompactId, Part};

/// The schema with blocks that have no sums.
const UNSUMMED: i32 = 3;
/// Marks that are moved at once: a long history isn't held in memory twice.
const AT_ONCE: usize = 10_000;

/// Moves all marks of an index of this schema into blocks of today's, in one transaction.
pub(super) fn bring_up_to_date(connection: &mut Connection, schema: i32) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    if schema == UNSUMMED {
        transaction.execute_batch("ALTER TABLE block RENAME TO mark")?;
    }
    transaction.execute_batch(blocks::TABLE)?;
    if schema == UNSUMMED {
        move_blocks(&transaction)?;
    } else {
        move_rows(&transaction)?;
    }
    transaction.execute_batch(&format!("DROP TABLE mark; PRAGMA user_version = {}", super::SCHEMA))?;
    transaction.commit()
}

/// Moves blocks without sums: in all else they are as today's.
fn move_blocks(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut put = transaction.prepare("INSERT INTO block (bot, generation, low, marks) VALUES (?1, ?2, ?3, ?4)")?;
    let mut query = transaction.prepare("SELECT bot, generation, low, marks FROM mark")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (bot, generation) = (row.get(0)?, row.get(1)?);
        let (low, marks) = (row.get_ref(2)?.as_blob()?, row.get_ref(3)?.as_blob()?);
        // A sum vouches for what lies under it.
        blocks::read_unsummed(low, marks)?;
        put.execute(params![bot, generation, low, blocks::summed(bot, generation, marks)])?;
    }
    Ok(())
}

/// Moves the marks that are rows.
fn move_rows(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut query = transaction.prepare(
        "SELECT bot, generation, entry, part, seq, CAST(substr(digest, 1, 16) AS BLOB), first, edit, deleted, author FROM mark",
    )?;
    let mut rows = query.query([])?;
    let (mut bot, mut generation, mut marks) = (0, 0, Marks::default());
    while let Some(row) = rows.next()? {
        let next = (row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned());
        if next != (bot, generation) || marks.len() >= AT_ONCE {
            blocks::write(transaction, bot, generation, &marks)?;
            (bot, generation) = next;
            marks = Marks::default();
        }
        marks.push(&mark(row)?);
    }
    blocks::write(transaction, bot, generation, &marks)
}

/// A row as a mark. What none of ours can hold is an error, never a guess: a guessed cursor would be told to hosts.
fn mark<'a>(row: &'a Row<'_>) -> rusqlite::Result<Mark<CompactId<'a>>> {
    let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let maybe = |column| row.get::<_, Option<i64>>(column).map(|value| value.map(i64::cast_unsigned));
    let flag = |column| match row.get::<_, i64>(column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(rusqlite::Error::IntegralValueOutOfRange(column, other)),
    };
    Ok(Mark {
        entry: CompactId::of(row.get_ref(2)?.as_str()?),
        part: if flag(3)? { Part::Answer } else { Part::Entry },
        seq: number(4)?,
        digest: row.get::<_, Option<[u8; 16]>>(5)?.map(Digest),
        first: number(6)?,
        edit: maybe(7)?,
        delete: maybe(8)?,
        author: if flag(9)? { Author::Bot } else { Author::Account },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::super::hostile;
    use super::*;
    use crate::index::{Sqlite, Store as _};
    use crate::model::AgentId;

    /// The tables of the schemas before: in the first one digests were whole and marks lay in the order of their entries' ids.
    fn old_index(path: &Path, schema: i32, marks: &[(i64, u64, Mark)]) {
        if schema == UNSUMMED {
            return unsummed_index(path, marks);
        }
        let connection = Connection::open(path).expect("opens");
        let key = if schema == 1 { "bot, generation, entry, part" } else { "bot, generation, first, entry, part" };
        connection
            .execute_batch(&format!(
                "CREATE TABLE bot (id INTEGER PRIMARY KEY, account TEXT NOT NULL, agent TEXT NOT NULL, UNIQUE (account, agent));
                 CREATE TABLE mark (
                   bot INTEGER NOT NULL, generation INTEGER NOT NULL, entry TEXT NOT NULL, part INTEGER NOT NULL, seq INTEGER NOT NULL,
                   digest BLOB, first INTEGER NOT NULL, edit INTEGER, deleted INTEGER, author INTEGER NOT NULL,
                   PRIMARY KEY ({key})
                 ) WITHOUT ROWID;
                 INSERT INTO bot VALUES (1, 'a', 'bot'), (2, 'a', 'other');
                 PRAGMA application_id = {};
                 PRAGMA user_version = {schema};
                 PRAGMA journal_mode = WAL;",
                super::super::APPLICATION_ID
            ))
            .expect("as it was");
        connection.execute_batch("BEGIN").expect("begins");
        for (bot, generation, mark) in marks {
            let digest =
                mark.digest.map(|digest| [digest.0, digest.0].concat()[..if schema == 1 { 32 } else { 16 }].to_vec());
            connection
                .execute(
                    "INSERT INTO mark VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    rusqlite::params![
                        bot,
                        generation.cast_signed(),
                        mark.entry.to_string(),
                        mark.part == Part::Answer,
                        mark.seq.cast_signed(),
                        digest,
                        mark.first.cast_signed(),
                        mark.edit.map(u64::cast_signed),
                        mark.delete.map(u64::cast_signed),
                        mark.author == Author::Bot,
                    ],
                )
                .expect("inserts");
        }
        connection.execute_batch("COMMIT").expect("commits");
    }

    /// As the schema with blocks that had no sums, which was the same in all else.
    fn unsummed_index(path: &Path, marks: &[(i64, u64, Mark)]) {
        let mut index = Sqlite::at(path.to_owned());
        for (bot, agent) in [(1, "bot"), (2, "other")] {
            for generation in marks
                .iter()
                .filter(|(of, ..)| *of == bot)
                .map(|(_, generation, _)| *generation)
                .collect::<BTreeSet<_>>()
            {
                let own = marks.iter().filter(|(of, in_generation, _)| (*of, *in_generation) == (bot, generation));
                index
                    .commit(&[hostile::commit_of(agent, generation, own.map(|(.., mark)| mark.clone()).collect())])
                    .expect("commits");
            }
        }
        drop(index);
        let connection = Connection::open(path).expect("opens");
        let strip =
            format!("UPDATE block SET marks = CAST(substr(marks, 5) AS BLOB); PRAGMA user_version = {UNSUMMED}");
        connection.execute_batch(&strip).expect("strips");
    }

    fn mark(entry: &str, first: u64) -> Mark {
        Mark { seq: u64::MAX - first, ..hostile::mark(entry, first) }
    }

    #[test]
    fn an_index_of_an_earlier_schema_is_brought_up_to_date() {
        for schema in super::super::OLD_SCHEMAS {
            let folder = tempfile::tempdir().expect("tempdir");
            let path = folder.path().join("index.sqlite3");
            // More than are moved at once, and two generations.
            let own: Vec<(u64, Mark)> =
                (0..AT_ONCE as u64 + 50).map(|n| (1 + n / 9000, mark(&format!("t{n}"), n))).collect();
            let others = vec![(7, mark("t1", 2)), (7, mark("小白", u64::MAX - 1))];
            let all: Vec<(i64, u64, Mark)> = [(1, &own), (2, &others)]
                .into_iter()
                .flat_map(|(bot, marks)| marks.iter().map(move |(generation, mark)| (bot, *generation, mark.clone())))
                .collect();
            old_index(&path, schema, &all);
            let mut index = Sqlite::at(path.clone());
            for (agent, marks) in [("bot", &own), ("other", &others)] {
                let held = index.load("a", &AgentId::from(agent)).expect("loads").to_vec();
                assert_eq!(&held, marks, "schema {schema}");
            }
            assert!(index.take_set_aside().is_empty());
            drop(index);
            let connection = Connection::open(&path).expect("opens");
            let old: i64 = connection
                .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'mark'", [], |row| row.get(0))
                .expect("counts");
            assert_eq!(old, 0);
        }
    }

    #[test]
    fn an_index_of_an_earlier_schema_with_rows_that_are_no_marks_is_set_aside() {
        for damage in [
            "UPDATE block SET marks = 7",
            "UPDATE block SET marks = CAST(substr(marks, 2) AS BLOB)",
            "UPDATE block SET low = CAST(low || x'00' AS BLOB)",
            "ALTER TABLE block RENAME COLUMN marks TO mark",
            "ALTER TABLE block RENAME TO blocks",
            "UPDATE mark SET digest = 7",
            "UPDATE mark SET part = part + 2",
            "UPDATE mark SET author = -1",
            "UPDATE mark SET seq = 'x'",
            "UPDATE mark SET edit = 0.5",
            "UPDATE mark SET entry = CAST(x'ff' || entry AS TEXT)",
            "ALTER TABLE mark RENAME COLUMN digest TO digests",
            "ALTER TABLE mark RENAME TO marks",
        ] {
            let folder = tempfile::tempdir().expect("tempdir");
            let path = folder.path().join("index.sqlite3");
            let schema = if damage.contains(" block ") { UNSUMMED } else { 2 };
            old_index(&path, schema, &[(1, 1, mark("t1", 1)), (2, 1, mark("t2", 2))]);
            Connection::open(&path).expect("opens").execute_batch(damage).expect("damages");
            let before = fs::metadata(&path).expect("stat").len();
            let mut index = Sqlite::at(path);
            assert_eq!(index.load("a", &AgentId::from("bot")).expect("loads").to_vec(), [], "{damage}");
            let aside = index.take_set_aside();
            assert_eq!(aside.len(), 1, "{damage}");
            assert_eq!(fs::metadata(&aside[0]).expect("stat").len(), before, "{damage}: kept as it was");
        }
    }
}

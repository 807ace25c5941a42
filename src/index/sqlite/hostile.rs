//! An index file that a disk, a copy or another program has damaged. It is read, or set aside with a new one in its place; it never stays in the way.
//!
//! A cut file, or one with pages that were never written, gives no mark that wasn't written; nor does one in which bits have flipped, for blocks carry sums.
//! More can't be promised: SQLite keeps none of its own pages, so a flipped bit may still hide a block, or a Bot.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::fuzz::{Corpus, Input, fuzz};
use crate::mirror::{Batch, Digest, Mark};
use crate::model::{Author, EntryId, Part};

const BOTS: [&str; 3] = ["bot", "other", "小白"];

pub(super) fn commit_of(agent: &str, generation: u64, marks: Vec<Mark>) -> Commit {
    Commit {
        account: "a".to_owned(),
        agent: AgentId::from(agent),
        batch: Batch { id: 1, clear: false, generation, marks: marks.into_iter().collect() },
    }
}

pub(super) fn mark(entry: &str, first: u64) -> Mark {
    Mark {
        entry: EntryId::from(entry),
        part: if first.is_multiple_of(7) { Part::Answer } else { Part::Entry },
        seq: first,
        digest: (!first.is_multiple_of(5)).then(|| Digest::of(entry)),
        first,
        edit: first.is_multiple_of(3).then_some(first + 1),
        delete: first.is_multiple_of(11).then_some(u64::MAX),
        author: if first.is_multiple_of(2) { Author::Account } else { Author::Bot },
    }
}

/// A real index: its file, and the log beside it that no checkpoint has taken yet.
struct Real {
    main: Vec<u8>,
    log: Vec<u8>,
    written: Vec<(u64, Mark)>,
}

fn real() -> Real {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.sqlite3");
    let mut written = Vec::new();
    let mut fill = |index: &mut Sqlite, from: u64| {
        for agent in BOTS {
            let marks: Vec<Mark> =
                (from..from + 40).map(|first| mark(&format!("{agent}-entry-{first}"), first)).collect();
            written.extend(marks.iter().map(|mark| (1, mark.clone())));
            index.commit(&[commit_of(agent, 1, marks)]).unwrap();
        }
    };
    let mut index = Sqlite::at(path.clone());
    fill(&mut index, 1);
    // Closed, the log goes into the file.
    drop(index);
    let mut index = Sqlite::at(path.clone());
    fill(&mut index, 100);
    let (main, log) = (fs::read(&path).unwrap(), fs::read(suffixed(&path, "-wal")).unwrap());
    assert!(log.len() > 4096, "the second half is still in the log");
    Real { main, log, written }
}

/// What an index of these files gives; that it goes on working; and, where no bit was flipped, that what is written into it comes back.
fn opened(main: &[u8], log: Option<&[u8]>, flipped: bool) -> Vec<(u64, Mark)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.sqlite3");
    fs::write(&path, main).unwrap();
    if let Some(log) = log {
        fs::write(suffixed(&path, "-wal"), log).unwrap();
    }
    let mut index = Sqlite::at(path.clone());
    // An error here would be one that passes; nothing passes by itself on a disk that is well.
    let mut marks = Vec::new();
    for agent in BOTS {
        marks.extend(index.load("a", &AgentId::from(agent)).expect("it is read, or set aside").to_vec());
    }
    let new = mark("new", 900);
    index.commit(&[commit_of("bot", 2, vec![new.clone()])]).expect("it can be written, or is set aside");
    let now = index.load("a", &AgentId::from("bot")).expect("and read again").to_vec();
    assert!(flipped || now.contains(&(2, new.clone())), "{now:?}");
    let aside = index.take_set_aside();
    assert!(aside.iter().all(|file| file.exists()), "{aside:?}");
    drop(index);
    let now = Sqlite::at(path).load("a", &AgentId::from("bot")).expect("and after a restart").to_vec();
    assert!(flipped || now.contains(&(2, new)), "{now:?}");
    marks
}

fn all_written(marks: &[(u64, Mark)], real: &Real) {
    for mark in marks {
        assert!(real.written.contains(mark), "never written: {mark:?}");
    }
}

#[test]
fn any_bytes_are_an_index_or_are_set_aside() {
    let corpus = Corpus::of("index");
    corpus.replay(|bytes| drop(opened(bytes, None, true)));
    fuzz(40, &corpus.mutants(), |Input(bytes)| drop(opened(&bytes, None, true)));
}

/// Made by SQL on a good index.
const DAMAGES: [&str; 16] = [
    "UPDATE block SET marks = 'text'",
    "UPDATE block SET marks = x'00'",
    "UPDATE block SET marks = x''",
    "UPDATE block SET marks = 7",
    "UPDATE block SET marks = CAST(substr(marks, 1, length(marks) - 1) AS BLOB)",
    "UPDATE block SET marks = CAST(substr(marks, 2) AS BLOB)",
    "UPDATE block SET marks = CAST(marks || x'00' AS BLOB)",
    "UPDATE block SET marks = CAST(marks || marks AS BLOB)",
    "UPDATE block SET low = CAST(low || x'00' AS BLOB)",
    // Marks twice, in blocks that are lawful by themselves: each Bot's second block, under its own place, behind one that holds its marks, too.
    "UPDATE block SET marks = (SELECT CAST(block.marks || next.marks AS BLOB) FROM block next
       WHERE next.bot = block.bot AND next.low > block.low ORDER BY next.low LIMIT 1)
     WHERE EXISTS (SELECT * FROM block next WHERE next.bot = block.bot AND next.low > block.low)",
    "UPDATE block SET low = 'text' || bot || low",
    "UPDATE block SET generation = 'x' || generation",
    "ALTER TABLE block RENAME COLUMN marks TO mark",
    "ALTER TABLE block RENAME TO blocks",
    "ALTER TABLE bot RENAME COLUMN agent TO agents",
    "DROP TABLE bot; CREATE TABLE other (x)",
];

#[test]
fn what_would_fail_for_ever_is_set_aside_and_a_new_one_made() {
    let real = real().main;
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for sql in DAMAGES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.sqlite3");
        fs::write(&path, &real).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&format!("PRAGMA journal_mode = DELETE; {sql}")).unwrap();
        drop(connection);
        files.push((sql.to_owned(), fs::read(&path).unwrap()));
    }
    let mut later = real.clone();
    later[18] = 3;
    files.push(("a later write format".to_owned(), later));
    files.push(("cut inside a page".to_owned(), real[..real.len() - 1].to_vec()));
    files.push(("cut to one byte".to_owned(), real[..1].to_vec()));
    files.push(("cut to a header".to_owned(), real[..100].to_vec()));
    files.push(("more than it had".to_owned(), [&real, b"x".as_slice()].concat()));
    for (damage, bytes) in files {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.sqlite3");
        fs::write(&path, &bytes).unwrap();
        let mut index = Sqlite::at(path);
        let marks = index.load("a", &AgentId::from("bot")).unwrap_or_else(|error| panic!("{damage}: {error}")).to_vec();
        assert_eq!(marks, [], "{damage}");
        let aside = index.take_set_aside();
        assert_eq!(aside.len(), 1, "{damage}");
        assert_eq!(fs::metadata(&aside[0]).unwrap().len(), bytes.len() as u64, "{damage}");
        index.commit(&[commit_of("bot", 1, vec![mark("new", 1)])]).unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert_eq!(index.load("a", &AgentId::from("bot")).unwrap().to_vec(), [(1, mark("new", 1))], "{damage}");
    }
}

#[test]
fn a_damaged_index_is_read_or_set_aside_and_goes_on() {
    let real = real();
    all_written(&opened(&real.main, Some(&real.log), false), &real);
    assert_eq!(opened(&real.main, Some(&real.log), false).len(), real.written.len(), "whole, it is read whole");
    let flips = || prop::collection::vec((any::<Index>(), any::<u8>()), 0..4);
    fuzz(250, &(flips(), flips(), any::<bool>()), |(main_flips, log_flips, with_log)| {
        let (mut main, mut log) = (real.main.clone(), real.log.clone());
        for (bytes, flips) in [(&mut main, main_flips), (&mut log, log_flips)] {
            for (at, change) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
            }
        }
        all_written(&opened(&main, with_log.then_some(&log), true), &real);
    });
    // The first page says what the file is and what tables it has: the most can be wrong there.
    let header = prop_oneof![0_usize..100, 100_usize..140, 3400_usize..4096];
    fuzz(250, &(header, any::<u8>()), |(at, byte)| {
        let mut main = real.main.clone();
        main[at] = byte;
        drop(opened(&main, None, true));
    });
}

#[test]
fn a_cut_index_never_gives_a_mark_that_was_not_written() {
    let real = real();
    let cut = |bytes: &[u8], at: Index, whole_pages: bool| {
        let at = at.index(bytes.len() + 1);
        bytes[..if whole_pages { at - at % 4096 } else { at }].to_vec()
    };
    fuzz(80, &(any::<Index>(), any::<Index>(), any::<bool>(), any::<bool>()), |(main, log, pages, cut_main)| {
        let main = if cut_main { cut(&real.main, main, pages) } else { real.main.clone() };
        all_written(&opened(&main, Some(&cut(&real.log, log, pages)), false), &real);
        all_written(&opened(&main, None, false), &real);
        // Pages that were never written read as zeros.
        let mut holes = real.main.clone();
        let from = log.index(holes.len()) / 4096 * 4096;
        holes[from..from + 4096].fill(0);
        all_written(&opened(&holes, None, false), &real);
    });
}

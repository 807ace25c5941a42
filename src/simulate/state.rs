//! One transcript as the service keeps it: rows, their numbers, what is kept for replay. Pure.
//!
//! A row's place is `seq` (stable through edits); every change of any row takes the next `updatedSeq` of the session's one counter; the
//! generation rises on a clear only, which starts both numberings anew (wire reference, sections 4, 5 and 7.6).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) seq: u64,
    pub(super) updated_seq: u64,
    pub(super) entry_id: String,
    pub(super) kind: String,
    /// The body as text: JSON, unless a test stored something else.
    pub(super) body: Arc<str>,
}

/// A row that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) seq: u64,
    pub(super) updated_seq: u64,
    pub(super) entry_id: String,
}

/// What a cursor gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// Another generation, or older than what is kept.
    TooOld,
    /// What changed after it, each by `updatedSeq` ascending.
    Changes(Vec<Row>, Vec<Gone>),
}

/// Why a change of a transcript can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChangeError {
    #[error("no row {0}")]
    NoRow(String),
    #[error("the numbers are used up")]
    Exhausted,
}

/// A transcript: one session of one Bot.
#[derive(Clone, Debug)]
pub(super) struct Transcript {
    generation: u32,
    last_seq: u64,
    last_updated: u64,
    /// Cursors below this are too old. 0: none is.
    floor: u64,
    kept: u64,
    rows: BTreeMap<u64, Row>,
    gone: BTreeMap<u64, Gone>,
}

impl Transcript {
    pub(super) fn new(kept: u64) -> Self {
        Self {
            generation: 1,
            last_seq: 0,
            last_updated: 0,
            floor: 0,
            kept,
            rows: BTreeMap::new(),
            gone: BTreeMap::new(),
        }
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn last_updated(&self) -> u64 {
        self.last_updated
    }

    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.values()
    }

    pub(super) fn find(&self, entry_id: &str) -> Option<&Row> {
        self.rows.values().rev().find(|row| row.entry_id == entry_id)
    }

    /// The next free number. The counter never wraps: a test may set it to the very end.
    fn number(&mut self) -> Result<u64, ChangeError> {
        let next = self.last_updated.checked_add(1).ok_or(ChangeError::Exhausted)?;
        self.last_updated = next;
        self.floor = self.floor.max(next.saturating_sub(self.kept));
        self.gone.retain(|_, gone| gone.updated_seq > self.floor);
        Ok(next)
    }

    /// Appends a row, or puts it at a `seq` of choice (which replaces what is there).
    pub(super) fn put(
        &mut self,
        seq: Option<u64>,
        entry_id: String,
        kind: String,
        body: Arc<str>,
    ) -> Result<Row, ChangeError> {
        let seq = match seq {
            Some(seq) => seq,
            None => self.last_seq.checked_add(1).ok_or(ChangeError::Exhausted)?,
        };
        let updated_seq = self.number()?;
        self.last_seq = self.last_seq.max(seq);
        self.gone.remove(&seq);
        let row = Row { seq, updated_seq, entry_id, kind, body };
        self.rows.insert(seq, row.clone());
        Ok(row)
    }

    /// A new number for a row whose body stays.
    pub(super) fn touch(&mut self, seq: u64) -> Result<Row, ChangeError> {
        let old = self.rows.get(&seq).cloned().ok_or_else(|| ChangeError::NoRow(seq.to_string()))?;
        self.put(Some(seq), old.entry_id, old.kind, old.body)
    }

    /// Removes a row and remembers that it was there.
    pub(super) fn delete(&mut self, seq: u64) -> Result<Gone, ChangeError> {
        let row = self.rows.remove(&seq).ok_or_else(|| ChangeError::NoRow(seq.to_string()))?;
        let gone = Gone { seq, updated_seq: self.number()?, entry_id: row.entry_id };
        self.gone.insert(seq, gone.clone());
        Ok(gone)
    }

    /// Removes a row without a word of it: a moved entry's old place.
    pub(super) fn vacate(&mut self, seq: u64) {
        self.rows.remove(&seq);
    }

    /// Forgets everything and starts the next generation, whose numbers start anew.
    pub(super) fn clear(&mut self) -> u32 {
        let generation = self.generation.saturating_add(1);
        *self = Self { generation, ..Self::new(self.kept) };
        generation
    }

    /// For tests of odd servers: another generation without a clear.
    pub(super) fn set_generation(&mut self, generation: u32) {
        self.generation = generation;
    }

    /// For tests of big numbers: the next row and the next change come after these.
    pub(super) fn set_numbers(&mut self, seq: u64, updated_seq: u64) {
        self.last_seq = seq;
        self.last_updated = updated_seq;
        self.floor = self.floor.max(updated_seq.saturating_sub(self.kept));
    }

    /// Drops what was kept for replay: every cursor but the newest is too old.
    pub(super) fn forget(&mut self) {
        self.floor = self.last_updated;
        self.gone.clear();
    }

    /// The newest rows below `before`, newest first.
    pub(super) fn page(&self, before: Option<u64>, limit: usize) -> Vec<Row> {
        let rows = self.rows.range(..before.unwrap_or(u64::MAX)).rev();
        // The row at the very last place is above every exclusive bound that a u64 can name.
        let last = before.is_none().then(|| self.rows.get(&u64::MAX)).flatten();
        last.into_iter().chain(rows.map(|(_, row)| row)).take(limit).cloned().collect()
    }

    /// What a cursor missed. Generation 0 means the current one: clients that know none send it.
    pub(super) fn since(&self, generation: u32, after: u64) -> Since {
        if (generation != 0 && generation != self.generation) || after < self.floor {
            return Since::TooOld;
        }
        let mut rows: Vec<Row> = self.rows.values().filter(|row| row.updated_seq > after).cloned().collect();
        let mut gone: Vec<Gone> = self.gone.values().filter(|gone| gone.updated_seq > after).cloned().collect();
        rows.sort_by_key(|row| row.updated_seq);
        gone.sort_by_key(|gone| gone.updated_seq);
        Since::Changes(rows, gone)
    }
}

/// The id and the kind that a body names for itself.
pub(super) fn named(body: &Value) -> (Option<&str>, Option<&str>) {
    (body.get("id").and_then(Value::as_str), body.get("kind").and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(transcript: &mut Transcript, id: &str) -> Row {
        transcript.put(None, id.into(), "message".into(), "{}".into()).unwrap()
    }

    #[test]
    fn an_edit_keeps_the_place_and_takes_the_next_number_of_the_session() {
        let mut transcript = Transcript::new(100);
        let first = put(&mut transcript, "a");
        let second = put(&mut transcript, "b");
        let edited = transcript.put(Some(first.seq), "a".into(), "message".into(), "{\"x\":1}".into()).unwrap();
        assert_eq!((first.seq, first.updated_seq, second.seq, second.updated_seq), (1, 1, 2, 2));
        assert_eq!((edited.seq, edited.updated_seq), (1, 3));
    }

    #[test]
    fn replay_gives_only_what_lies_past_the_cursor_deletes_too() {
        let mut transcript = Transcript::new(100);
        for id in ["a", "b", "c"] {
            put(&mut transcript, id);
        }
        transcript.delete(1).unwrap();
        transcript.touch(2).unwrap();
        let Since::Changes(rows, gone) = transcript.since(1, 3) else { panic!("too old") };
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [2]);
        assert_eq!(gone.iter().map(|gone| (gone.seq, gone.updated_seq)).collect::<Vec<_>>(), [(1, 4)]);
        assert_eq!(transcript.since(0, 5), Since::Changes(vec![], vec![]));
    }

    #[test]
    fn a_cursor_older_than_the_kept_log_or_of_another_generation_is_too_old() {
        let mut transcript = Transcript::new(3);
        for id in ["a", "b", "c", "d", "e"] {
            put(&mut transcript, id);
        }
        assert_eq!(transcript.since(1, 1), Since::TooOld);
        assert!(matches!(transcript.since(1, 2), Since::Changes(..)));
        assert_eq!(transcript.since(7, 5), Since::TooOld);
        transcript.forget();
        assert_eq!(transcript.since(1, 4), Since::TooOld);
        assert_eq!(transcript.since(1, 5), Since::Changes(vec![], vec![]));
    }

    #[test]
    fn only_a_clear_raises_the_generation_and_the_numbers_start_anew() {
        let mut transcript = Transcript::new(100);
        put(&mut transcript, "a");
        transcript.delete(1).unwrap();
        assert_eq!(transcript.generation(), 1);
        assert_eq!(transcript.clear(), 2);
        let row = put(&mut transcript, "b");
        assert_eq!((row.seq, row.updated_seq), (1, 1));
        assert_eq!(transcript.since(1, 2), Since::TooOld);
    }

    #[test]
    fn pages_are_newest_first_with_an_exclusive_bound() {
        let mut transcript = Transcript::new(100);
        transcript.set_numbers(u64::MAX - 3, 10);
        for id in ["a", "b", "c"] {
            put(&mut transcript, id);
        }
        let seqs = |rows: Vec<Row>| rows.into_iter().map(|row| row.seq).collect::<Vec<_>>();
        assert_eq!(seqs(transcript.page(None, 2)), [u64::MAX, u64::MAX - 1]);
        assert_eq!(seqs(transcript.page(Some(u64::MAX - 1), 5)), [u64::MAX - 2]);
        assert_eq!(transcript.put(None, "d".into(), "message".into(), "{}".into()), Err(ChangeError::Exhausted));
    }
}

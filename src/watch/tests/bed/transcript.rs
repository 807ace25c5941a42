//! One Bot's main session at the service: rows with one counter for the whole session, and a log of changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::rows;
use crate::mirror::render;
use crate::model::{BodyRef, Delete, EntryId, Harness, Part, Row, RowBody, base_id};
use crate::upstream::{Page, PageRequest, Skipped};

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(super) generation: u64,
    /// The highest number given.
    pub(super) counter: u64,
    next_seq: u64,
    rows: BTreeMap<u64, Row>,
    deletes: BTreeMap<u64, Delete>,
    /// Cursors below this are refused.
    pub(super) forgotten: u64,
    /// Bodies that pages and frames leave out, by row.
    pub(super) omit: BTreeMap<u64, RowBody>,
}

impl Transcript {
    pub(super) fn fresh() -> Self {
        Self { generation: 1, next_seq: 1, ..Self::default() }
    }

    fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// A new row at the end.
    pub(super) fn append(&mut self, body: RowBody) -> Row {
        let (seq, number) = (self.next_seq, self.number());
        self.next_seq += 1;
        let row = Row { seq, number, entry_id: Some(EntryId::from(format!("e{seq}"))), body };
        self.rows.insert(seq, row.clone());
        row
    }

    /// A new version of a row.
    pub(super) fn overwrite(&mut self, seq: u64, body: RowBody) -> Row {
        let number = self.number();
        self.omit.remove(&seq);
        let row = self.rows.get_mut(&seq).unwrap();
        row.number = number;
        row.body = body;
        row.clone()
    }

    pub(super) fn delete(&mut self, seq: u64) -> Delete {
        let number = self.number();
        let row = self.rows.remove(&seq).unwrap();
        let delete = Delete { seq, number, entry_id: row.entry_id };
        self.deletes.insert(seq, delete.clone());
        delete
    }

    /// All goes; the counter begins anew.
    pub(super) fn clear(&mut self, generation: u64) {
        *self = Self { generation, ..Self::fresh() };
    }

    /// As pages and frames show a row.
    fn shown(&self, row: &Row) -> Row {
        if self.omit.contains_key(&row.seq) { Row { body: rows::omitted(), ..row.clone() } } else { row.clone() }
    }

    pub(super) fn shown_frame(&self, row: &Row) -> Row {
        self.shown(row)
    }

    pub(super) fn list(&self, request: &PageRequest) -> Page {
        let before = request.before_seq.unwrap_or(u128::MAX);
        let single = request.limit == 1;
        let rows = self.rows.values().rev().filter(|row| u128::from(row.seq) < before).take(request.limit as usize);
        let rows = rows.map(|row| match self.omit.get(&row.seq) {
            // One row alone is listed with its body (or where it is).
            Some(body) if single => Row { body: body.clone(), ..row.clone() },
            _ => self.shown(row),
        });
        Page { rows: rows.collect(), generation: Some(self.generation), malformed: Skipped::default() }
    }

    /// What lies past a cursor.
    pub(super) fn past(&self, number: u64) -> (Vec<Row>, Vec<Delete>) {
        let rows = self.rows.values().filter(|row| row.number > number).map(|row| self.shown(row)).collect();
        (rows, self.deletes.values().filter(|delete| delete.number > number).cloned().collect())
    }

    /// The row of an entry.
    pub(super) fn find(&self, entry: &EntryId) -> Option<&Row> {
        self.rows.values().find(|row| *row.id() == *entry)
    }

    /// Whether a send with this id has its row.
    pub(super) fn holds(&self, message_id: &str) -> bool {
        self.rows
            .values()
            .any(|row| matches!(&row.body, RowBody::Entry(entry) if entry.nonce.as_deref() == Some(message_id)))
    }

    /// Rows with a client nonce.
    pub(super) fn sends(&self) -> usize {
        let sent = |row: &&Row| matches!(&row.body, RowBody::Entry(entry) if entry.nonce.is_some());
        self.rows.values().filter(sent).count()
    }

    /// What a person should read, by message id of the base: of each row that is a message its text, and the answer to its question.
    pub(super) fn readable(&self, blobs: &HashMap<Arc<str>, RowBody>, harness: Harness) -> BTreeMap<String, String> {
        let mut readable = BTreeMap::new();
        for row in self.rows.values() {
            let RowBody::Entry(entry) = self.body(row, blobs) else { continue };
            let rendered = render(entry, harness);
            let id = |part| base_id(self.generation, &row.id().to_string(), part);
            readable.extend(rendered.main.map(|text| (id(Part::Entry), text.text.to_string())));
            readable.extend(rendered.answer.map(|text| (id(Part::Answer), text.to_string())));
        }
        readable
    }

    fn body<'a>(&'a self, row: &'a Row, blobs: &'a HashMap<Arc<str>, RowBody>) -> &'a RowBody {
        match self.omit.get(&row.seq).unwrap_or(&row.body) {
            RowBody::Unfetched { at: BodyRef::Blob(hash), .. } => blobs.get(hash).unwrap_or(&RowBody::Nothing),
            body => body,
        }
    }

    /// What every row that is a message says, wherever its body lies.
    pub(super) fn texts(&self, blobs: &HashMap<Arc<str>, RowBody>) -> HashMap<EntryId, String> {
        let text = |row: &Row| {
            let RowBody::Entry(entry) = self.body(row, blobs) else { return None };
            render(entry, Harness::Other).main.map(|text| (row.id().into_owned(), text.text.to_string()))
        };
        self.rows.values().filter_map(text).collect()
    }
}

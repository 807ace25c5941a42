//! Rows and entries: which version counts, which row carries an entry, what a change of either means for its texts.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use hashbrown::HashMap;

use super::batch::Digest;
use super::entries::{Body, Key};
use super::render::{Rendered, Text, render};
use super::unit::{Times, Want};
use super::work::Work;
use super::{Effect, FetchQuery, Mirror, Source};
use crate::model::{Author, BodyRef, Content, Delete, EntryId, Malformed, Now, Part, Row, RowBody, Wall};

enum Op {
    Delete(Delete),
    Row(Row),
}

impl Op {
    /// Ascending number; inside one number deletes first, each by `seq`.
    fn order(&self) -> (u64, u8, u64) {
        match self {
            Self::Delete(delete) => (delete.number, 0, delete.seq),
            Self::Row(row) => (row.number, 1, row.seq),
        }
    }
}

/// The rows of one frame or page, for the question which of them brings an entry. It is asked only where a row took another entry.
struct Brought<'a> {
    ops: &'a [Op],
    entries: OnceCell<HashMap<Cow<'a, EntryId>, (u64, u64)>>,
}

impl<'a> Brought<'a> {
    fn by(ops: &'a [Op]) -> Self {
        Self { ops, entries: OnceCell::new() }
    }

    /// The highest number and the row that an entry comes with.
    fn get(&self, id: &EntryId) -> Option<(u64, u64)> {
        let entries = self.entries.get_or_init(|| {
            let rows = self.ops.iter().filter_map(|op| match op {
                Op::Row(row) => Some(row),
                Op::Delete(_) => None,
            });
            // Sorted: the last one of an entry has its highest number.
            rows.map(|row| (row.id(), (row.number, row.seq))).collect()
        });
        entries.get(id).copied()
    }
}

impl Mirror {
    /// Applies the rows and deletes of one frame or page.
    pub(super) fn apply_ops(&mut self, now: Now, rows: Vec<Row>, deletes: Vec<Delete>, source: Source) {
        // A page's rows stay where they lie, since an `Op` is no larger.
        const { assert!(size_of::<Op>() == size_of::<Row>()) };
        let mut ops: Vec<Op> = rows.into_iter().map(Op::Row).collect();
        ops.extend(deletes.into_iter().map(Op::Delete));
        ops.sort_by_key(Op::order);
        if source == Source::Stream {
            let high = ops.last().map(|op| op.order().0);
            self.stream_high = self.stream_high.max(high);
            if let Some(read) = self.read.as_mut() {
                read.stream_high = read.stream_high.max(high);
                for op in &ops {
                    read.touched.insert(op.order().2);
                }
            }
        }
        let brought = Brought::by(&ops);
        for op in &ops {
            match op {
                Op::Delete(delete) => self.apply_delete(now, delete),
                Op::Row(row) => self.apply_row(now, row, source, &brought),
            }
        }
    }

    fn apply_delete(&mut self, now: Now, delete: &Delete) {
        let row = self.entries.row(delete.seq);
        if row.number.is_some_and(|known| known >= delete.number) {
            return;
        }
        self.entries.empty_row(delete.seq, Some(delete.number));
        let named = delete.entry_id.as_ref().and_then(|id| self.entries.find(id));
        // An entry that another row carries by now goes on there: this row was forgotten.
        let Some(key) = row.entry.or(named).filter(|&key| self.entries.seq(key) == delete.seq) else {
            return;
        };
        // The number of the removal is the row's, not the entry's: a read may still find the entry in another row with a smaller one.
        self.unmessage(now, key, delete.number, Source::Stream);
    }

    fn apply_row(&mut self, now: Now, row: &Row, source: Source, brought: &Brought<'_>) {
        let state = self.entries.row(row.seq);
        if let Some(known) = state.number
            && row.number <= known
            && !(row.number == known && self.counts_again(row, state.entry, source))
        {
            return;
        }
        if let RowBody::Malformed(malformed) = &row.body {
            self.skipped(row.seq, malformed.clone());
            return;
        }
        let id = self.identity(row, state.entry);
        let compact = id.compact();
        // Nearly always the row carries it already.
        let carried = state.entry.filter(|&key| self.entries.compact_id(key) == compact);
        let key = carried.or_else(|| self.entries.look(compact));
        if let Some(old) = state.entry.filter(|&old| Some(old) != key) {
            self.displaced(now, old, row, source, brought);
        }
        // The entry is carried on by another row with a higher number; this one is forgotten.
        let elsewhere = key.is_some_and(|key| {
            let (number, seq) = (self.entries.number(key), self.entries.seq(key));
            seq != row.seq && number.is_some_and(|number| (number, seq) > (row.number, row.seq))
        });
        if elsewhere || key.is_none() && matches!(row.body, RowBody::Nothing) {
            self.entries.empty_row(row.seq, Some(row.number));
            return;
        }
        let key = key.unwrap_or_else(|| self.entries.add(compact, row.seq));
        self.carry(key, row);
        match &row.body {
            RowBody::Entry(body) => {
                let rendered = render(body, self.harness);
                if let Content::Other { kind, unknown: true, .. } = &body.content
                    && rendered.main.is_none()
                {
                    self.skip(Malformed { kind: Arc::clone(kind), reason: "unknown kind" });
                }
                self.known(now, key, row.number, rendered, body.at, source);
            }
            RowBody::Nothing => self.known(now, key, row.number, Rendered::default(), None, source),
            RowBody::Unfetched { at, kind } => self.unfetched(now, key, at, kind),
            RowBody::Malformed(_) => {}
        }
    }

    /// The entry that a row holds. A version without its body and without an id is taken for what the row carries already: only the body could tell
    /// otherwise.
    fn identity<'a>(&self, row: &'a Row, carried: Option<Key>) -> Cow<'a, EntryId> {
        match (&row.body, carried) {
            (RowBody::Unfetched { .. } | RowBody::Nothing, Some(key)) if row.entry_id.is_none() => {
                Cow::Owned(self.entries.id(key))
            }
            _ => row.id(),
        }
    }

    /// Whether a version that is known already still says something: its body was missing, or the Bot's harness changed since it was read.
    fn counts_again(&self, row: &Row, carried: Option<Key>, source: Source) -> bool {
        let body = carried.map_or(Body::Known, |key| self.entries.body(key));
        let again = source == Source::Read && self.read.as_ref().is_some_and(|read| read.render_again);
        if matches!(row.body, RowBody::Unfetched { .. }) {
            // A body that was given up is asked for again with each full read, or with the replay that brings what is above its C; one that was
            // listed again may be offloaded after all.
            let given_up = source != Source::Body && body == Body::Lost;
            return again || given_up || source == Source::Body && body != Body::Known;
        }
        body != Body::Known || again
    }

    /// A row took another entry: the one it carried is deleted, unless this frame brings it in another row.
    fn displaced(&mut self, now: Now, old: Key, row: &Row, source: Source, brought: &Brought<'_>) {
        if self.entries.seq(old) != row.seq {
            return;
        }
        let elsewhere = brought.get(&self.entries.id(old)).is_some_and(|(number, seq)| {
            // A version that will be skipped, because its row is known to have gone on, brings nothing.
            let newer = self.entries.row(seq).number.is_none_or(|known| number > known);
            newer && seq != row.seq && self.entries.number(old).is_none_or(|known| number > known)
        });
        if !elsewhere {
            self.unmessage(now, old, row.number, source);
        }
    }

    /// The row carries the entry from now on; a row that carried it before is forgotten without a delete.
    fn carry(&mut self, key: Key, row: &Row) {
        let moves = self.entries.seq(key) != row.seq;
        self.entries.carry(row.seq, Some(row.number), key);
        if moves {
            // What is packed names its row.
            self.lay_again(key, None);
        }
        if moves && self.entries.ever_exposed(key) {
            self.moved.insert(key);
        }
    }

    /// The entry's text is known.
    fn known(&mut self, now: Now, key: Key, number: u64, rendered: Rendered, body_at: Option<Wall>, source: Source) {
        let seen_at = self.seen(now, body_at, source);
        self.set_body(key, Body::Known);
        let Rendered { main, answer, nonce, widget } = rendered;
        match (widget, self.entries.work_if(key)) {
            (widget, Some(work)) => work.set_widget(widget),
            (Some(widget), None) => self.entries.work_mut(key).set_widget(Some(widget)),
            (None, None) => {}
        }
        if let Some(nonce) = nonce.as_deref().and_then(nonce_bits) {
            self.entries.work_mut(key).set_nonce(Some(nonce));
            self.nonces.insert(nonce, key);
        }
        let answer = answer.map(|text| self.answer(key, text));
        let main = self.want(key, Part::Entry, main, number, now.mono, Times { seen_at, body_at });
        let answer = self.want(key, Part::Answer, answer, number, now.mono, Times { seen_at, body_at: None });
        self.register(key);
        for (part, want) in [(Part::Entry, main), (Part::Answer, answer)] {
            if let Want::Restore(text) = want {
                self.restore(key, part, text, body_at);
            }
        }
    }

    /// The answer to the widget of an entry, as a text.
    fn answer(&self, key: Key, text: Arc<str>) -> Text {
        Text { from: Author::Account, text, reply_to: Some(self.entries.id(key)), meta: None }
    }

    /// A row of a read that doesn't count yet: its number and what changed come with the stream. But a text in it that is as the index knows it was
    /// exposed already, and after a restart the record doesn't open without the texts that it had.
    pub(super) fn recognise(&mut self, row: &Row) {
        let RowBody::Entry(body) = &row.body else { return };
        if self.opening.is_none() {
            return;
        }
        let Some(key) = self.entries.find(&row.id()) else { return };
        let rendered = render(body, self.harness);
        let answer = rendered.answer.map(|text| self.answer(key, text));
        for (part, text) in [(Part::Entry, rendered.main), (Part::Answer, answer)] {
            let indexed = self.entries.exposed(key, part).filter(|exposed| !exposed.delivered);
            if let (Some(indexed), Some(text)) = (indexed, text)
                && indexed.digest == Some(Digest::of(&text.text))
            {
                self.restore(key, part, text, body.at);
            }
        }
    }

    /// The entry has a version whose text isn't here.
    fn unfetched(&mut self, now: Now, key: Key, at: &BodyRef, kind: &Arc<str>) {
        if self.entries.body(key) == Body::Known {
            // The time runs from the first version without a text; what was lost holds nobody up again.
            self.set_body(key, Body::Waiting { since: now.mono });
        }
        let number = self.entries.number(key).unwrap_or(0);
        if let Some(work) = self.entries.work_if(key) {
            for pending in work.all_pending() {
                pending.number = pending.number.max(number);
            }
        }
        let query = FetchQuery {
            epoch: self.epoch,
            seq: self.entries.seq(key),
            number,
            entry_id: self.entries.id(key),
            at: at.clone(),
            kind: Arc::clone(kind),
            generation: self.generation,
        };
        self.register(key);
        self.effects.push(Effect::Fetch(query));
    }

    /// A fetched body, or the end of all tries.
    pub(super) fn body(&mut self, now: Now, query: &FetchQuery, row: Option<Row>) {
        if query.epoch != self.epoch {
            return;
        }
        let waiting = |mirror: &Self| {
            let key = mirror.entries.row(query.seq).entry?;
            let entries = &mirror.entries;
            (entries.body(key) != Body::Known && entries.number(key) == Some(query.number)).then_some(key)
        };
        let Some(row) = row.filter(|row| row.seq == query.seq) else {
            if let Some(key) = waiting(self) {
                self.lose(key);
            }
            return;
        };
        if let RowBody::Unfetched { at, .. } = &row.body
            && row.number == query.number
            && *at == query.at
        {
            // The same answer again is no body. (Offloaded after all, or a newer version that is: that is asked for as such.)
            if let Some(key) = waiting(self) {
                self.lose(key);
            }
            return;
        }
        if let Some(read) = self.read.as_mut().filter(|_| row.number > query.number) {
            // Listed again and changed meanwhile: a read whose page of it is older says nothing of it.
            read.touched.insert(row.seq);
        }
        self.apply_ops(now, vec![row], Vec::new(), Source::Body);
    }

    fn skipped(&mut self, seq: u64, malformed: Malformed) {
        self.skip(malformed);
        if let Some(key) = self.entries.row(seq).entry {
            // If its body was waited for: it came and says nothing.
            self.lose(key);
        }
    }

    fn skip(&mut self, malformed: Malformed) {
        self.counts.skipped += 1;
        self.effects.push(Effect::Skipped(malformed));
    }

    /// When a change was seen. What a read brings before the record opened, nobody saw happen: it is from before this process.
    fn seen(&self, now: Now, body_at: Option<Wall>, source: Source) -> Wall {
        if self.opening.is_some() && source != Source::Stream {
            body_at.unwrap_or(self.process_start)
        } else {
            now.wall
        }
    }

    /// Keeps `waiting` in step with the entry's body.
    fn set_body(&mut self, key: Key, body: Body) {
        let before = self.entries.body(key);
        if before == body {
            return;
        }
        self.entries.set_body(key, body);
        if let Body::Waiting { since } = before {
            self.waiting.remove(&(since, key));
        }
        if let Body::Waiting { since } = body {
            self.waiting.insert((since, key));
        }
    }

    /// Gives a body up: it is no longer in the way.
    pub(super) fn lose(&mut self, key: Key) {
        let Body::Waiting { .. } = self.entries.body(key) else { return };
        let seq = self.entries.seq(key);
        self.set_body(key, Body::Lost);
        self.counts.lost += 1;
        self.effects.push(Effect::Lost { seq });
        self.register(key);
    }

    /// The entry is no message any more: gone, displaced, or of another kind.
    pub(super) fn unmessage(&mut self, now: Now, key: Key, number: u64, source: Source) {
        let times = Times { seen_at: self.seen(now, None, source), body_at: None };
        self.set_body(key, Body::Known);
        for part in [Part::Entry, Part::Answer] {
            self.want(key, part, None, number, now.mono, times);
        }
        if let Some(work) = self.entries.work_if(key) {
            work.set_widget(None);
            if let Some(nonce) = work.nonce()
                && self.nonces.get(&nonce) == Some(&key)
            {
                // Another entry may be the echo by now.
                self.nonces.remove(&nonce);
            }
            work.set_nonce(None);
        }
        self.register(key);
    }

    /// Keeps `order` in step with the entry's state. What waits for a body behind the head holds nobody up and isn't listed.
    pub(super) fn register(&mut self, key: Key) {
        if self.ordered() {
            let (number, head) = (self.entries.number(key), self.staged_head);
            let Some(work) = self.entries.work_if(key) else { return };
            for (part, at) in places(work, number, head) {
                let registered = work.registered(part);
                if registered != at {
                    if let Some(old) = registered {
                        self.order.remove(&(old, key, part));
                    }
                    if let Some(new) = at {
                        self.order.insert((new, key, part));
                    }
                    work.set_registered(part, at);
                    work.set_late_since(None);
                }
            }
        }
        self.entries.rest(key);
    }

    /// Whether `order` is kept. Until a first read is complete nothing of it is staged: then all of it is put in order at once.
    fn ordered(&self) -> bool {
        self.opening.is_none() || self.open_at.is_some()
    }

    /// Makes `order` of everything that waits.
    pub(super) fn put_in_order(&mut self) {
        let (mut order, head) = (Vec::new(), self.staged_head);
        for key in self.entries.keys() {
            let number = self.entries.number(key);
            let Some(work) = self.entries.work_if(key) else { continue };
            for (part, at) in places(work, number, head) {
                if let Some(number) = at {
                    order.push((number, key, part));
                    work.set_registered(part, at);
                }
            }
        }
        self.order.fill(order);
    }
}

/// Where the texts of an entry stand in `order`.
fn places(work: &Work, number: Option<u64>, head: Option<u64>) -> [(Part, Option<u64>); 2] {
    let waits = work.waiting().is_some() && number > head;
    [Part::Entry, Part::Answer].map(|part| {
        let pending = work.pending(part).map(|pending| pending.number);
        (part, if waits && part == Part::Entry { number } else { pending })
    })
}

/// A nonce that can be one of ours: a UUID.
fn nonce_bits(nonce: &str) -> Option<u128> {
    let mut bits: u128 = 0;
    let mut digits = 0;
    for (at, c) in nonce.char_indices() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if c != '-' {
                return None;
            }
            continue;
        }
        bits = bits.checked_mul(16)? | u128::from(c.to_digit(16)?);
        digits += 1;
    }
    (digits == 32 && nonce.len() == 36).then_some(bits)
}

//! Rows and entries: which version counts, which row carries an entry, what a change of either means for its texts.

use std::collections::HashMap;
use std::sync::Arc;

use super::render::{Rendered, render};
use super::unit::{Unit, Want};
use super::{Body, Effect, EntryState, FetchQuery, Key, Mirror, QUIET, Source};
use crate::model::{BodyRef, Content, Delete, EntryId, Malformed, Now, Part, Row, RowBody, Wall};

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

/// The entries that one frame or page brings, with the highest number and the row of each.
type Brought = HashMap<EntryId, (u64, u64)>;

impl Mirror {
    /// Applies the rows and deletes of one frame or page.
    pub(super) fn apply_ops(&mut self, now: Now, rows: Vec<Row>, deletes: Vec<Delete>, source: Source) {
        let mut ops: Vec<Op> = deletes.into_iter().map(Op::Delete).chain(rows.into_iter().map(Op::Row)).collect();
        ops.sort_by_key(Op::order);
        if source == Source::Stream {
            let high = ops.last().map(|op| op.order().0);
            self.stream_high = self.stream_high.max(high);
            if let Some(read) = self.read.as_mut() {
                read.stream_high = read.stream_high.max(high);
                read.touched.extend(ops.iter().map(|op| op.order().2));
            }
        }
        let mut brought = Brought::new();
        for op in &ops {
            if let Op::Row(row) = op {
                brought.insert(row.id(), (row.number, row.seq));
            }
        }
        for op in ops {
            match op {
                Op::Delete(delete) => self.apply_delete(now, &delete),
                Op::Row(row) => self.apply_row(now, row, source, &brought),
            }
        }
    }

    fn apply_delete(&mut self, now: Now, delete: &Delete) {
        let row = self.rows.entry(delete.seq).or_default();
        if row.number.is_some_and(|known| known >= delete.number) {
            return;
        }
        row.number = Some(delete.number);
        let carried = row.entry.take();
        let named = delete.entry_id.as_ref().and_then(|id| self.by_id.get(id)).copied();
        // An entry that another row carries by now goes on there: this row was forgotten.
        let Some(key) = carried.or(named).filter(|&key| self.entries[key as usize].seq == delete.seq) else {
            return;
        };
        // The number of the removal is the row's, not the entry's: a read may still find the entry in another row with a smaller one.
        self.unmessage(now, key, delete.number, Source::Stream);
    }

    fn apply_row(&mut self, now: Now, row: Row, source: Source, brought: &Brought) {
        let known = self.rows.get(&row.seq).and_then(|state| state.number);
        if let Some(known) = known
            && row.number <= known
            && !(row.number == known && self.counts_again(&row, source))
        {
            return;
        }
        if let RowBody::Malformed(malformed) = row.body {
            self.skipped(row.seq, malformed);
            return;
        }
        let id = self.identity(&row);
        let key = self.by_id.get(&id).copied();
        let carried = self.rows.get(&row.seq).and_then(|state| state.entry);
        if let Some(old) = carried.filter(|&old| Some(old) != key) {
            self.displaced(now, old, &row, source, brought);
        }
        let state = self.rows.entry(row.seq).or_default();
        state.number = Some(row.number);
        state.entry = None;
        if let Some(key) = key {
            let entry = &self.entries[key as usize];
            if entry.seq != row.seq && entry.number.is_some_and(|number| (number, entry.seq) > (row.number, row.seq)) {
                // The entry is carried on by another row with a higher number; this one is forgotten.
                return;
            }
        }
        if key.is_none() && matches!(row.body, RowBody::Nothing) {
            return;
        }
        let key = self.key_for(&id, row.seq);
        self.carry(key, &row);
        match row.body {
            RowBody::Entry(body) => {
                let rendered = render(&body, self.harness);
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
    fn identity(&self, row: &Row) -> EntryId {
        let carried = self.rows.get(&row.seq).and_then(|state| state.entry);
        match (&row.body, carried) {
            (RowBody::Unfetched { .. } | RowBody::Nothing, Some(key)) if row.entry_id.is_none() => {
                self.entries[key as usize].id.clone()
            }
            _ => row.id(),
        }
    }

    /// Whether a version that is known already still says something: its body was missing, or the Bot's harness changed since it was read.
    fn counts_again(&self, row: &Row, source: Source) -> bool {
        let carried = self.rows.get(&row.seq).and_then(|state| state.entry);
        let body = carried.map_or(Body::Known, |key| self.entries[key as usize].body);
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
    fn displaced(&mut self, now: Now, old: Key, row: &Row, source: Source, brought: &Brought) {
        let entry = &self.entries[old as usize];
        let elsewhere = brought.get(&entry.id).is_some_and(|&(number, seq)| {
            // A version that will be skipped, because its row is known to have gone on, brings nothing.
            let newer = self.rows.get(&seq).and_then(|state| state.number).is_none_or(|known| number > known);
            newer && seq != row.seq && entry.number.is_none_or(|known| number > known)
        });
        if entry.seq == row.seq && !elsewhere {
            self.unmessage(now, old, row.number, source);
        }
    }

    /// The row carries the entry from now on; a row that carried it before is forgotten without a delete.
    fn carry(&mut self, key: Key, row: &Row) {
        let entry = &mut self.entries[key as usize];
        let before = std::mem::replace(&mut entry.seq, row.seq);
        entry.number = entry.number.max(Some(row.number));
        if before != row.seq {
            if let Some(state) = self.rows.get_mut(&before).filter(|state| state.entry == Some(key)) {
                state.entry = None;
            }
            if entry.main.exposed.is_some() || entry.answer.exposed.is_some() {
                self.moved.insert(key);
            }
        }
        self.rows.entry(row.seq).or_default().entry = Some(key);
    }

    /// The entry's text is known.
    fn known(&mut self, now: Now, key: Key, number: u64, rendered: Rendered, body_at: Option<Wall>, source: Source) {
        let seen = self.seen(now, body_at, source);
        self.set_body(key, Body::Known);
        let entry = &mut self.entries[key as usize];
        entry.widget = rendered.widget;
        if let Some(nonce) = rendered.nonce.as_deref().and_then(nonce_bits) {
            entry.nonce = Some(nonce);
            self.nonces.insert(nonce, key);
        }
        let answer = rendered.answer.map(|text| super::Text {
            from: crate::model::Author::Account,
            text,
            reply_to: Some(entry.id.clone()),
            meta: None,
        });
        let main = entry.main.want(rendered.main.as_ref(), number, now.mono, QUIET, (seen, body_at));
        let reply = entry.answer.want(answer.as_ref(), number, now.mono, QUIET, (seen, None));
        self.register(key);
        for (part, want, text) in [(Part::Entry, main, rendered.main), (Part::Answer, reply, answer)] {
            if let (Want::Restore, Some(text)) = (want, text) {
                self.restore(key, part, text, body_at);
            }
        }
    }

    /// The entry has a version whose text isn't here.
    fn unfetched(&mut self, now: Now, key: Key, at: BodyRef, kind: Arc<str>) {
        if self.entries[key as usize].body == Body::Known {
            // The time runs from the first version without a text; what was lost holds nobody up again.
            self.set_body(key, Body::Waiting { since: now.mono });
        }
        let entry = &mut self.entries[key as usize];
        let number = entry.number.unwrap_or(0);
        for unit in [&mut entry.main, &mut entry.answer] {
            if let Some(pending) = unit.pending.as_mut() {
                pending.number = pending.number.max(number);
            }
        }
        let query = FetchQuery {
            epoch: self.epoch,
            seq: entry.seq,
            number,
            entry_id: entry.id.clone(),
            at,
            kind,
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
            let key = mirror.rows.get(&query.seq)?.entry?;
            let entry = &mirror.entries[key as usize];
            (entry.body != Body::Known && entry.number == Some(query.number)).then_some(key)
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
        let brought = Brought::from([(row.id(), (row.number, row.seq))]);
        self.apply_row(now, row, Source::Body, &brought);
    }

    fn skipped(&mut self, seq: u64, malformed: Malformed) {
        self.skip(malformed);
        if let Some(key) = self.rows.get(&seq).and_then(|state| state.entry) {
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
        let before = std::mem::replace(&mut self.entries[key as usize].body, body);
        if let Body::Waiting { since } = before {
            self.waiting.remove(&(since, key));
        }
        if let Body::Waiting { since } = body {
            self.waiting.insert((since, key));
        }
    }

    /// Gives a body up: it is no longer in the way.
    pub(super) fn lose(&mut self, key: Key) {
        let entry = &self.entries[key as usize];
        let Body::Waiting { .. } = entry.body else { return };
        let seq = entry.seq;
        self.set_body(key, Body::Lost);
        self.counts.lost += 1;
        self.effects.push(Effect::Lost { seq });
        self.register(key);
    }

    /// The entry is no message any more: gone, displaced, or of another kind.
    pub(super) fn unmessage(&mut self, now: Now, key: Key, number: u64, source: Source) {
        let seen = self.seen(now, None, source);
        self.set_body(key, Body::Known);
        let entry = &mut self.entries[key as usize];
        entry.widget = None;
        for unit in [&mut entry.main, &mut entry.answer] {
            unit.want(None, number, now.mono, QUIET, (seen, None));
        }
        if let Some(nonce) = entry.nonce.take()
            && self.nonces.get(&nonce) == Some(&key)
        {
            // Another entry may be the echo by now.
            self.nonces.remove(&nonce);
        }
        self.register(key);
    }

    /// The key of an entry, new if need be.
    pub(super) fn key_for(&mut self, id: &EntryId, seq: u64) -> Key {
        if let Some(&key) = self.by_id.get(id) {
            return key;
        }
        // 2^32 entries of one Bot would need more memory than any machine this runs on has.
        let key = Key::try_from(self.entries.len()).unwrap_or(Key::MAX);
        self.entries.push(EntryState {
            id: id.clone(),
            seq,
            number: None,
            main: Unit::default(),
            answer: Unit::default(),
            widget: None,
            body: Body::Known,
            nonce: None,
            registered: [None, None],
            late_since: None,
        });
        self.by_id.insert(id.clone(), key);
        key
    }

    /// Keeps `order` in step with the entry's state. What waits for a body behind the head holds nobody up and isn't listed.
    pub(super) fn register(&mut self, key: Key) {
        let entry = &mut self.entries[key as usize];
        let waiting = matches!(entry.body, Body::Waiting { .. }) && entry.number > self.staged_head;
        for (slot, part) in [Part::Entry, Part::Answer].into_iter().enumerate() {
            let pending = entry.unit(part).pending.as_ref().map(|pending| pending.number);
            let at = if waiting && part == Part::Entry { entry.number } else { pending };
            if entry.registered[slot] != at {
                if let Some(old) = entry.registered[slot] {
                    self.order.remove(&(old, key, part));
                }
                if let Some(new) = at {
                    self.order.insert((new, key, part));
                }
                entry.registered[slot] = at;
                entry.late_since = None;
            }
        }
    }
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

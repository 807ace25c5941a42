//! What is known of every entry and of the rows that carry them, packed: a Bot's history is long, and nearly all of it is at rest.
//!
//! An entry at rest (nothing pending, no answer, no widget, no body waited for) is a [`Slot`] of 56 bytes, its id among them, and a place in two
//! maps. Everything else of it is [`Work`], which is there only while it is needed. Rows aren't kept by themselves where the entry
//! that they carry says all: only the others are in `odd_rows`.

use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashMap};
use uuid::Uuid;

use super::batch::Digest;
use super::dense::DenseMap;
use super::table::Table;
use super::unit::{Exposed, Pending};
use super::work::{Desks, Work};
use crate::model::{Author, CompactId, EntryId, Mono, Part, Pieces};

/// An entry's place in [`Entries`].
pub(super) type Key = u32;

/// A row's version, and what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowState {
    /// `None` while it is known from the index alone.
    pub(super) number: Option<u64>,
    /// The entry that it carries.
    pub(super) entry: Option<Key>,
}

/// The state of an entry's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Known,
    Waiting { since: Mono },
    Lost,
}

/// All entries of a Bot in one generation.
#[derive(Debug, Default)]
pub(super) struct Entries {
    slots: Slots,
    ids: Ids,
    by_id: Table,
    /// Keys of entries by their row, where that row carries the entry at the entry's number.
    at_home: DenseMap,
    /// Rows of which that isn't so: they carry nothing, or another version.
    odd_rows: HashMap<u64, RowState>,
    at_work: Desks,
    hasher: DefaultHashBuilder,
}

/// Entries at rest.
#[derive(Debug, Default)]
struct Slots {
    slots: Pieces<Slot, PIECE>,
    /// What has been revised of them, by their piece: one table of all would take milliseconds each time it grows.
    revised: Vec<HashMap<Key, Revised>>,
}

/// Slots of a piece.
const PIECE: usize = 1024;

impl Slots {
    /// How many there are. (2^32 entries of one Bot would need more memory than any machine this runs on has.)
    fn count(&self) -> Key {
        Key::try_from(self.slots.len()).unwrap_or(Key::MAX)
    }

    fn push(&mut self, slot: Slot) {
        self.slots.push(slot);
        if self.revised.len() * PIECE < self.slots.len() {
            self.revised.push(HashMap::new());
        }
    }

    /// What has been revised of an entry.
    fn revised(&self, key: Key) -> Option<Revised> {
        if self[key].is(REVISED) { self.revised[key as usize / PIECE].get(&key).copied() } else { None }
    }

    /// The same, to be changed.
    fn revised_mut(&mut self, key: Key) -> &mut Revised {
        self.revised[key as usize / PIECE].entry(key).or_default()
    }
}

impl Index<Key> for Slots {
    type Output = Slot;

    fn index(&self, key: Key) -> &Slot {
        &self.slots[key as usize]
    }
}

impl IndexMut<Key> for Slots {
    fn index_mut(&mut self, key: Key) -> &mut Slot {
        &mut self.slots[key as usize]
    }
}

/// The ids that are no UUIDs, packed one after the other, in pieces as well.
#[derive(Debug, Default)]
struct Ids {
    pieces: Vec<Vec<u8>>,
}

/// Bytes of a piece of ids; one that is longer has a piece of its own. Where an id begins fits into two bytes.
const ID_PIECE: usize = 1 << 16;

/// An entry's id.
#[derive(Debug)]
enum Id {
    /// Nearly all of them: beside what is read of an entry anyway, for memory elsewhere would mostly be outside of the processor's caches.
    Uuid(Uuid),
    /// Where it lies: the piece, then the place in it. Five bytes reach further than any memory.
    Text([u8; 5]),
}

impl Ids {
    fn push(&mut self, id: CompactId<'_>) -> Id {
        if let CompactId::Uuid(uuid) = id {
            return Id::Uuid(uuid);
        }
        let room = id.key().len() + 10;
        if self.pieces.last().is_none_or(|piece| piece.len() + room > ID_PIECE) {
            let piece = if self.pieces.is_empty() { Vec::new() } else { Vec::with_capacity(room.max(ID_PIECE)) };
            self.pieces.push(piece);
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        let place = (number << 16 | piece.len()).to_le_bytes();
        id.put(piece);
        Id::Text([place[0], place[1], place[2], place[3], place[4]])
    }

    fn get(&self, id: &Id) -> CompactId<'_> {
        let [low, high, piece @ ..] = match id {
            Id::Uuid(uuid) => return CompactId::Uuid(*uuid),
            Id::Text(place) => *place,
        };
        let piece = piece.iter().rev().fold(0, |piece, byte| piece << 8 | usize::from(*byte));
        CompactId::take(&mut &self.pieces[piece][usize::from(u16::from_le_bytes([low, high]))..])
    }
}

/// An entry at rest.
#[derive(Debug)]
struct Slot {
    seq: u64,
    /// The number of the main text's first exposure. An entry that wasn't exposed yet has its number here, and one that was has it here, too, where
    /// it is the same ([`APART`] says where not).
    first: u64,
    digest: [u8; 16],
    id: Id,
    flags: u16,
}

/// What a flag says.
const NUMBERED: u16 = 1;
const EXPOSED: u16 = 1 << 1;
const READABLE: u16 = 1 << 2;
const DELIVERED: u16 = 1 << 3;
const BOT: u16 = 1 << 4;
const LOST: u16 = 1 << 5;
const EDITED: u16 = 1 << 6;
const DELETED: u16 = 1 << 7;
const APART: u16 = 1 << 8;
const WORK: u16 = 1 << 9;
const BASE: u16 = 1 << 10;
/// Those of an entry that has a [`Revised`].
const REVISED: u16 = EDITED | DELETED | APART;

/// What an entry has that isn't any more what it was at its first exposure: its flags say what of it counts.
#[derive(Clone, Copy, Debug, Default)]
struct Revised {
    edit: u64,
    delete: u64,
    number: u64,
}

impl Entries {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All keys.
    pub(super) fn keys(&self) -> std::ops::Range<Key> {
        0..self.slots.count()
    }

    /// The key of an entry.
    pub(super) fn find(&self, id: &EntryId) -> Option<Key> {
        self.look(id.compact())
    }

    /// The same, of an id that is packed.
    pub(super) fn look(&self, id: CompactId<'_>) -> Option<Key> {
        self.by_id.find(hash_id(&self.hasher, id), |key| self.compact_id(key) == id)
    }

    /// The key of an entry, new if need be; a new one is carried by no row yet.
    pub(super) fn key_for(&mut self, id: CompactId<'_>, seq: u64) -> Key {
        self.look(id).unwrap_or_else(|| self.add(id, seq))
    }

    /// The key of an entry that isn't known yet; it is carried by no row.
    pub(super) fn add(&mut self, id: CompactId<'_>, seq: u64) -> Key {
        let key = self.slots.count();
        let slot = Slot { seq, first: 0, digest: [0; 16], id: self.ids.push(id), flags: 0 };
        self.slots.push(slot);
        let Self { by_id, slots, ids, hasher, .. } = self;
        by_id.insert(hash_id(hasher, id), key, |key| hash_id(hasher, ids.get(&slots[key].id)));
        key
    }

    /// Its id.
    pub(super) fn id(&self, key: Key) -> EntryId {
        self.compact_id(key).id()
    }

    /// The same, as it is packed.
    pub(super) fn compact_id(&self, key: Key) -> CompactId<'_> {
        self.ids.get(&self.slots[key].id)
    }

    /// The row that carries it, or did.
    pub(super) fn seq(&self, key: Key) -> u64 {
        self.slots[key].seq
    }

    /// The highest number known of it in this process.
    pub(super) fn number(&self, key: Key) -> Option<u64> {
        let slot = &self.slots[key];
        let apart = if slot.is(APART) { self.slots.revised(key) } else { None };
        slot.is(NUMBERED).then_some(apart.map_or(slot.first, |revised| revised.number))
    }

    /// The state of its body.
    pub(super) fn body(&self, key: Key) -> Body {
        match self.work(key).and_then(Work::waiting) {
            Some(since) => Body::Waiting { since },
            None if self.slots[key].is(LOST) => Body::Lost,
            None => Body::Known,
        }
    }

    pub(super) fn set_body(&mut self, key: Key, body: Body) {
        self.slots[key].set(LOST, body == Body::Lost);
        match body {
            Body::Waiting { since } => self.work_mut(key).set_waiting(Some(since)),
            Body::Known | Body::Lost => {
                if let Some(work) = self.work_if(key) {
                    work.set_waiting(None);
                }
            }
        }
    }

    /// What was exposed of one of its texts.
    pub(super) fn exposed(&self, key: Key, part: Part) -> Option<Exposed> {
        if part == Part::Answer {
            return self.work(key)?.answer();
        }
        let slot = &self.slots[key];
        if !slot.is(EXPOSED) {
            return None;
        }
        let revised = self.slots.revised(key).unwrap_or_default();
        Some(Exposed {
            digest: slot.is(READABLE).then_some(Digest(slot.digest)),
            first: slot.first,
            edit: slot.is(EDITED).then_some(revised.edit),
            delete: slot.is(DELETED).then_some(revised.delete),
            author: if slot.is(BOT) { Author::Bot } else { Author::Account },
            delivered: slot.is(DELIVERED),
            base: slot.is(BASE),
        })
    }

    /// Whether any of its texts was exposed.
    pub(super) fn ever_exposed(&self, key: Key) -> bool {
        [Part::Entry, Part::Answer].into_iter().any(|part| self.exposed(key, part).is_some())
    }

    pub(super) fn set_exposed(&mut self, key: Key, part: Part, exposed: Exposed) {
        if part == Part::Answer {
            self.work_mut(key).set_answer(Some(exposed));
            return;
        }
        // It may have lain in the place of the first exposure.
        let number = self.number(key);
        let slot = &mut self.slots[key];
        slot.first = exposed.first;
        slot.digest = exposed.digest.map_or([0; 16], |digest| digest.0);
        for (flag, set) in [
            (EXPOSED, true),
            (READABLE, exposed.digest.is_some()),
            (BOT, exposed.author == Author::Bot),
            (DELIVERED, exposed.delivered),
            (BASE, exposed.base),
            (EDITED, exposed.edit.is_some()),
            (DELETED, exposed.delete.is_some()),
            (APART, number.is_some_and(|number| number != exposed.first)),
        ] {
            slot.set(flag, set);
        }
        if slot.is(REVISED) {
            let revised = Revised {
                edit: exposed.edit.unwrap_or_default(),
                delete: exposed.delete.unwrap_or_default(),
                number: number.unwrap_or_default(),
            };
            *self.slots.revised_mut(key) = revised;
        }
    }

    fn set_number(&mut self, key: Key, number: u64) {
        let slot = &mut self.slots[key];
        slot.set(NUMBERED, true);
        if !slot.is(EXPOSED) {
            slot.first = number;
            return;
        }
        let had = slot.is(REVISED);
        slot.set(APART, number != slot.first);
        if slot.is(APART) || had {
            self.slots.revised_mut(key).number = number;
        }
    }

    /// What waits to be exposed of one of its texts.
    pub(super) fn pending(&self, key: Key, part: Part) -> Option<&Pending> {
        self.work(key)?.pending(part)
    }

    /// The same, to be changed.
    pub(super) fn pending_mut(&mut self, key: Key, part: Part) -> Option<&mut Pending> {
        self.work_if(key)?.pending_mut(part)
    }

    /// What isn't at rest of it.
    pub(super) fn work(&self, key: Key) -> Option<&Work> {
        if !self.slots[key].is(WORK) {
            return None;
        }
        self.at_work.get(key)
    }

    /// The same, where there is any.
    pub(super) fn work_if(&mut self, key: Key) -> Option<&mut Work> {
        if !self.slots[key].is(WORK) {
            return None;
        }
        self.at_work.get_mut(key)
    }

    /// The same, made where there is none. Call [`rest`](Self::rest) when done.
    pub(super) fn work_mut(&mut self, key: Key) -> &mut Work {
        self.slots[key].set(WORK, true);
        self.at_work.get_or_default(key)
    }

    /// Lets go of what an entry at rest doesn't need.
    pub(super) fn rest(&mut self, key: Key) {
        if self.work(key).is_some_and(Work::done) {
            self.slots[key].set(WORK, false);
            self.at_work.remove(key);
        }
    }

    /// The version of a row and what it carries; the default for one never heard of.
    pub(super) fn row(&self, seq: u64) -> RowState {
        if let Some(key) = self.at_home.get(seq) {
            return RowState { number: self.number(key), entry: Some(key) };
        }
        self.odd_rows.get(&seq).copied().unwrap_or_default()
    }

    /// The row is at a version and carries nothing.
    pub(super) fn empty_row(&mut self, seq: u64, number: Option<u64>) {
        self.at_home.remove(seq);
        self.odd_rows.insert(seq, RowState { number, entry: None });
    }

    /// The row lets go of the entry, if it carries it; its version stays known.
    pub(super) fn release(&mut self, seq: u64, key: Key) -> bool {
        let state = self.row(seq);
        let carried = state.entry == Some(key);
        if carried {
            self.empty_row(seq, state.number);
        }
        carried
    }

    /// The row, at version `number` (`None`: from the index alone), carries the entry from now on.
    pub(super) fn carry(&mut self, seq: u64, number: Option<u64>, key: Key) {
        // A row keeps its place for one entry: whatever else it carried is gone from it, and the entry is gone from its old row.
        let before = self.slots[key].seq;
        if before != seq {
            self.release(before, key);
        }
        self.slots[key].seq = seq;
        if let Some(number) = number {
            self.set_number(key, self.number(key).map_or(number, |known| known.max(number)));
        }
        if self.number(key) == number {
            if !self.odd_rows.is_empty() {
                self.odd_rows.remove(&seq);
            }
            self.at_home.insert(seq, key);
        } else {
            // The entry was seen with a higher number in another row.
            self.at_home.remove(seq);
            self.odd_rows.insert(seq, RowState { number, entry: Some(key) });
        }
    }
}

fn hash_id(hasher: &DefaultHashBuilder, id: CompactId<'_>) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write(id.key());
    hash.finish()
}

impl Slot {
    /// Whether one of these flags is up.
    fn is(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    fn set(&mut self, flag: u16, to: bool) {
        self.flags = if to { self.flags | flag } else { self.flags & !flag };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_kind_are_found_and_come_back() {
        let uuids = (0..2000_u128).map(|id| Uuid::from_u128(id << 64 | 7).to_string());
        let texts = (0..2000).map(|id| format!("entry-{id:0>60}"));
        let ids: Vec<String> = uuids.zip(texts).flat_map(|(uuid, text)| [uuid, text]).collect();
        let mut entries = Entries::default();
        for (key, id) in (0..).zip(&ids) {
            assert_eq!(entries.key_for(CompactId::of(id), key), Key::try_from(key).unwrap_or(Key::MAX));
        }
        for (key, id) in (0..).zip(&ids) {
            assert_eq!(entries.find(&EntryId::from(id.as_str())), Some(key));
            assert_eq!((entries.id(key).to_string(), entries.seq(key)), (id.clone(), key.into()));
        }
        assert_eq!(entries.find(&EntryId::from("entry-")), None);
        assert!(entries.ids.pieces.len() > 1, "all texts lie in one piece");
    }
}

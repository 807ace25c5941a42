//! What is known of every entry and of the rows that carry them, packed: a Bot's history is long, and nearly all of it is at rest.
//!
//! An entry at rest (nothing pending, no answer, no widget, no body waited for) is a [`Slot`] of 48 bytes, its id in a common buffer, and two places
//! in hash tables of keys. Everything else of it is [`Work`], which is there only while it is needed. Rows aren't kept by themselves where the entry
//! that they carry says all: only the others are in `odd_rows`.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::batch::Digest;
use super::unit::{Exposed, Pending};
use crate::model::{Author, CompactId, EntryId, Mono, Part, Widget};

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
    slots: Vec<Slot>,
    /// The ids, packed one after the other.
    ids: Vec<u8>,
    by_id: HashTable<Key>,
    /// Entries by their row, where that row carries the entry at the entry's number.
    at_home: HashTable<Key>,
    /// Rows of which that isn't so: they carry nothing, or another version.
    odd_rows: HashMap<u64, RowState>,
    /// The revisions of the entries that have any.
    revised: HashMap<Key, Revised>,
    at_work: Desks,
    hasher: DefaultHashBuilder,
}

/// An entry at rest.
#[derive(Debug, Default)]
struct Slot {
    seq: u64,
    number: u64,
    /// The number of the main text's first exposure.
    first: u64,
    digest: [u8; 16],
    /// Where its id lies: five bytes reach further than any memory.
    id: [u8; 5],
    flags: u8,
}

/// What a flag says.
const NUMBERED: u8 = 1;
const EXPOSED: u8 = 1 << 1;
const READABLE: u8 = 1 << 2;
const DELIVERED: u8 = 1 << 3;
const BOT: u8 = 1 << 4;
const LOST: u8 = 1 << 5;
const REVISED: u8 = 1 << 6;
const WORK: u8 = 1 << 7;

/// Marks of revisions: an entry that has any has the place for them.
#[derive(Clone, Copy, Debug, Default)]
struct Revised {
    edit: Option<u64>,
    delete: Option<u64>,
}

/// What an entry has while something of it isn't at rest.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Its own text.
    pending: Option<Pending>,
    /// Where that stands in the mirror's order.
    registered: Option<u64>,
    rare: Option<Box<Rare>>,
}

/// What few entries have.
#[derive(Debug, Default)]
struct Rare {
    /// The text of its answer.
    pending: Option<Pending>,
    registered: Option<u64>,
    /// What was exposed of its answer.
    answer: Option<Exposed>,
    widget: Option<Arc<Widget>>,
    /// Since when its body is waited for.
    waiting: Option<Mono>,
    nonce: Option<u128>,
    /// When it was first found ready but late.
    late_since: Option<Mono>,
}

/// A field of [`Rare`]: to set it to nothing doesn't make one.
macro_rules! rare {
    ($($get:ident, $set:ident: $field:ident, $type:ty;)*) => {$(
        pub(super) fn $get(&self) -> Option<$type> {
            self.rare.as_ref()?.$field
        }

        pub(super) fn $set(&mut self, value: Option<$type>) {
            if self.rare.is_some() || value.is_some() {
                self.rare.get_or_insert_default().$field = value;
            }
        }
    )*};
}

impl Work {
    rare! {
        answer, set_answer: answer, Exposed;
        waiting, set_waiting: waiting, Mono;
        nonce, set_nonce: nonce, u128;
        late_since, set_late_since: late_since, Mono;
    }

    pub(super) fn widget(&self) -> Option<&Arc<Widget>> {
        self.rare.as_ref()?.widget.as_ref()
    }

    pub(super) fn set_widget(&mut self, widget: Option<Arc<Widget>>) {
        if self.rare.is_some() || widget.is_some() {
            self.rare.get_or_insert_default().widget = widget;
        }
    }

    /// What waits to be exposed of one of its texts.
    pub(super) fn pending(&self, part: Part) -> Option<&Pending> {
        match part {
            Part::Entry => self.pending.as_ref(),
            Part::Answer => self.rare.as_ref()?.pending.as_ref(),
        }
    }

    fn pending_mut(&mut self, part: Part) -> Option<&mut Pending> {
        match part {
            Part::Entry => self.pending.as_mut(),
            Part::Answer => self.rare.as_mut()?.pending.as_mut(),
        }
    }

    pub(super) fn set_pending(&mut self, part: Part, pending: Option<Pending>) {
        match part {
            Part::Entry => self.pending = pending,
            Part::Answer => self.rare.get_or_insert_default().pending = pending,
        }
    }

    pub(super) fn take_pending(&mut self, part: Part) -> Option<Pending> {
        match part {
            Part::Entry => self.pending.take(),
            Part::Answer => self.rare.as_mut()?.pending.take(),
        }
    }

    /// What waits of both.
    pub(super) fn all_pending(&mut self) -> impl Iterator<Item = &mut Pending> {
        let Self { pending, rare, .. } = self;
        pending.iter_mut().chain(rare.iter_mut().flat_map(|rare| rare.pending.iter_mut()))
    }

    /// Where a text stands in the mirror's order.
    pub(super) fn registered(&self, part: Part) -> Option<u64> {
        match part {
            Part::Entry => self.registered,
            Part::Answer => self.rare.as_ref()?.registered,
        }
    }

    pub(super) fn set_registered(&mut self, part: Part, number: Option<u64>) {
        match part {
            Part::Entry => self.registered = number,
            Part::Answer => self.rare.get_or_insert_default().registered = number,
        }
    }

    fn done(&self) -> bool {
        self.pending.is_none() && self.registered.is_none() && self.rare.as_ref().is_none_or(|rare| rare.is_empty())
    }
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.pending.is_none()
            && self.registered.is_none()
            && (self.answer.is_none() && self.widget.is_none() && self.nonce.is_none())
            && self.waiting.is_none()
            && self.late_since.is_none()
    }
}

/// The work of the entries that have any, in one piece of memory: a first read has some for every entry, and afterwards all of it goes back.
#[derive(Debug, Default)]
struct Desks {
    places: HashMap<Key, u32>,
    works: Vec<Work>,
    free: Vec<u32>,
}

impl Desks {
    fn get(&self, key: Key) -> Option<&Work> {
        self.places.get(&key).map(|&place| &self.works[place as usize])
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut Work> {
        self.places.get(&key).map(|&place| &mut self.works[place as usize])
    }

    fn get_or_default(&mut self, key: Key) -> &mut Work {
        let Self { places, works, free } = self;
        let place = *places.entry(key).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                works.push(Work::default());
                // There are no more of them than keys.
                Key::try_from(works.len() - 1).unwrap_or(Key::MAX)
            })
        });
        &mut works[place as usize]
    }

    fn remove(&mut self, key: Key) {
        let Some(place) = self.places.remove(&key) else { return };
        self.works[place as usize] = Work::default();
        self.free.push(place);
        if self.free.len() > 3 * self.places.len() + SPARE {
            self.tidy();
        }
    }

    /// Gives back what is free.
    fn tidy(&mut self) {
        let mut works = Vec::with_capacity(self.places.len());
        let mut places = HashMap::with_capacity(self.places.len());
        for (key, place) in self.places.drain() {
            places.insert(key, Key::try_from(works.len()).unwrap_or(Key::MAX));
            works.push(std::mem::take(&mut self.works[place as usize]));
        }
        *self = Self { places, works, free: Vec::new() };
    }
}

/// Free places that are kept for the next entries.
const SPARE: usize = 256;

impl Entries {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Makes room for so many entries.
    pub(super) fn reserve(&mut self, count: usize) {
        let Self { slots, ids, by_id, at_home, hasher, .. } = self;
        slots.reserve_exact(count);
        by_id.reserve(count, |&key| hash_id(hasher, id_of(&slots[key as usize], ids)));
        at_home.reserve(count, |&key| hash_row(hasher, slots[key as usize].seq));
    }

    /// All keys.
    pub(super) fn keys(&self) -> std::ops::Range<Key> {
        0..Key::try_from(self.slots.len()).unwrap_or(Key::MAX)
    }

    /// The key of an entry.
    pub(super) fn find(&self, id: &EntryId) -> Option<Key> {
        self.look(CompactId::of(id.as_str()))
    }

    /// The same, of an id that is packed.
    pub(super) fn look(&self, id: CompactId<'_>) -> Option<Key> {
        self.by_id.find(hash_id(&self.hasher, id), |&key| id_of(&self.slots[key as usize], &self.ids) == id).copied()
    }

    /// The key of an entry, new if need be; a new one is carried by no row yet.
    pub(super) fn key_for(&mut self, id: CompactId<'_>, seq: u64) -> Key {
        if let Some(key) = self.look(id) {
            return key;
        }
        // 2^32 entries of one Bot would need more memory than any machine this runs on has.
        let key = Key::try_from(self.slots.len()).unwrap_or(Key::MAX);
        let place = (self.ids.len() as u64).to_le_bytes();
        id.put(&mut self.ids);
        let id_place = [place[0], place[1], place[2], place[3], place[4]];
        self.slots.push(Slot { seq, id: id_place, ..Slot::default() });
        let Self { by_id, slots, ids, hasher, .. } = self;
        by_id.insert_unique(hash_id(hasher, id), key, |&key| hash_id(hasher, id_of(&slots[key as usize], ids)));
        key
    }

    /// Its id.
    pub(super) fn id(&self, key: Key) -> EntryId {
        self.compact_id(key).id()
    }

    /// The same, as it is packed.
    pub(super) fn compact_id(&self, key: Key) -> CompactId<'_> {
        id_of(&self.slots[key as usize], &self.ids)
    }

    /// The row that carries it, or did.
    pub(super) fn seq(&self, key: Key) -> u64 {
        self.slots[key as usize].seq
    }

    /// The highest number known of it in this process.
    pub(super) fn number(&self, key: Key) -> Option<u64> {
        let slot = &self.slots[key as usize];
        slot.is(NUMBERED).then_some(slot.number)
    }

    /// The state of its body.
    pub(super) fn body(&self, key: Key) -> Body {
        match self.work(key).and_then(Work::waiting) {
            Some(since) => Body::Waiting { since },
            None if self.slots[key as usize].is(LOST) => Body::Lost,
            None => Body::Known,
        }
    }

    pub(super) fn set_body(&mut self, key: Key, body: Body) {
        self.slots[key as usize].set(LOST, body == Body::Lost);
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
        let slot = &self.slots[key as usize];
        if !slot.is(EXPOSED) {
            return None;
        }
        let revised =
            if slot.is(REVISED) { self.revised.get(&key).copied().unwrap_or_default() } else { Revised::default() };
        Some(Exposed {
            digest: slot.is(READABLE).then_some(Digest(slot.digest)),
            first: slot.first,
            edit: revised.edit,
            delete: revised.delete,
            author: if slot.is(BOT) { Author::Bot } else { Author::Account },
            delivered: slot.is(DELIVERED),
        })
    }

    pub(super) fn set_exposed(&mut self, key: Key, part: Part, exposed: Exposed) {
        if part == Part::Answer {
            self.work_mut(key).set_answer(Some(exposed));
            return;
        }
        let slot = &mut self.slots[key as usize];
        slot.first = exposed.first;
        slot.digest = exposed.digest.map_or([0; 16], |digest| digest.0);
        let revised = Revised { edit: exposed.edit, delete: exposed.delete };
        let any = revised.edit.or(revised.delete).is_some();
        for (flag, set) in [
            (EXPOSED, true),
            (READABLE, exposed.digest.is_some()),
            (BOT, exposed.author == Author::Bot),
            (DELIVERED, exposed.delivered),
            (REVISED, any),
        ] {
            slot.set(flag, set);
        }
        // Marks are never taken back.
        if any {
            self.revised.insert(key, revised);
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
        if !self.slots[key as usize].is(WORK) {
            return None;
        }
        self.at_work.get(key)
    }

    /// The same, where there is any.
    pub(super) fn work_if(&mut self, key: Key) -> Option<&mut Work> {
        if !self.slots[key as usize].is(WORK) {
            return None;
        }
        self.at_work.get_mut(key)
    }

    /// The same, made where there is none. Call [`rest`](Self::rest) when done.
    pub(super) fn work_mut(&mut self, key: Key) -> &mut Work {
        self.slots[key as usize].set(WORK, true);
        self.at_work.get_or_default(key)
    }

    /// Lets go of what an entry at rest doesn't need.
    pub(super) fn rest(&mut self, key: Key) {
        if self.work(key).is_some_and(Work::done) {
            self.slots[key as usize].set(WORK, false);
            self.at_work.remove(key);
        }
    }

    /// The version of a row and what it carries; the default for one never heard of.
    pub(super) fn row(&self, seq: u64) -> RowState {
        if let Some(key) = self.home(seq) {
            return RowState { number: self.number(key), entry: Some(key) };
        }
        self.odd_rows.get(&seq).copied().unwrap_or_default()
    }

    fn home(&self, seq: u64) -> Option<Key> {
        self.at_home.find(self.hash_row(seq), |&key| self.slots[key as usize].seq == seq).copied()
    }

    /// The row is at a version and carries nothing.
    pub(super) fn empty_row(&mut self, seq: u64, number: Option<u64>) {
        self.leave_home(seq);
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
        let before = self.slots[key as usize].seq;
        if before != seq {
            self.release(before, key);
        }
        let already = before == seq && self.home(seq) == Some(key);
        if !already {
            self.leave_home(seq);
        }
        let slot = &mut self.slots[key as usize];
        slot.seq = seq;
        if let Some(number) = number {
            slot.number = if slot.is(NUMBERED) { slot.number.max(number) } else { number };
            slot.set(NUMBERED, true);
        }
        if self.number(key) == number {
            if !self.odd_rows.is_empty() {
                self.odd_rows.remove(&seq);
            }
            if !already {
                let hash = self.hash_row(seq);
                let Self { at_home, slots, hasher, .. } = self;
                at_home.insert_unique(hash, key, |&key| hash_row(hasher, slots[key as usize].seq));
            }
        } else {
            // The entry was seen with a higher number in another row.
            if already {
                self.leave_home(seq);
            }
            self.odd_rows.insert(seq, RowState { number, entry: Some(key) });
        }
    }

    fn leave_home(&mut self, seq: u64) {
        let hash = self.hash_row(seq);
        let Self { at_home, slots, .. } = self;
        if let Ok(home) = at_home.find_entry(hash, |&key| slots[key as usize].seq == seq) {
            home.remove();
        }
    }

    fn hash_row(&self, seq: u64) -> u64 {
        hash_row(&self.hasher, seq)
    }
}

fn hash_id(hasher: &DefaultHashBuilder, id: CompactId<'_>) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write(id.key());
    hash.finish()
}

fn hash_row(hasher: &DefaultHashBuilder, seq: u64) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write_u64(seq);
    hash.finish()
}

fn id_of<'a>(slot: &Slot, ids: &'a [u8]) -> CompactId<'a> {
    let mut place = [0; 8];
    place[..5].copy_from_slice(&slot.id);
    let place = u64::from_le_bytes(place);
    let mut bytes = usize::try_from(place).ok().and_then(|place| ids.get(place..)).unwrap_or_default();
    CompactId::take(&mut bytes)
}

impl Slot {
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u8, to: bool) {
        self.flags = if to { self.flags | flag } else { self.flags & !flag };
    }
}

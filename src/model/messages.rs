//! A record's messages, packed one after the other in chunks of bytes.
//!
//! A message is an allocation for its text, one for its entry's id and a hundred bytes of fields; here it is its text, its id and about thirty bytes
//! more. Chunks never move once they are full, so that a long record grows without copying what it holds.

use std::ops::Range;
use std::sync::Arc;

use super::pieces::Pieces;
use super::{Message, Meta};

mod packed;
mod slots;
mod tray;

pub use packed::{Draft, Packed};
use slots::Slots;
pub use tray::Tray;

/// The chunks of a long record, and those in which many messages wait, are of this size; a message that is longer has one of its own. They are of one
/// size so that what one of them gives back serves the next, wherever it is needed: memory that was never used before costs more than copying into it.
const CHUNK: usize = 64 * 1024;
/// Messages that are listed in one piece.
const PIECE: usize = 4096;
/// The first chunk grows up to here by itself.
const SMALL: usize = 16 * 1024;
/// Chunks of other messages that are at least so full are taken over as they are; what lies in smaller ones is copied.
const WHOLE: usize = CHUNK / 8 * 7;

/// Messages in any order, on their way to be [`Messages`].
#[derive(Clone, Debug, Default)]
pub struct Pile {
    slots: Pieces<Slot, PIECE>,
    shelf: Shelf,
}

/// Messages sorted by [`Message::order`]. What is in it never changes.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    slots: Slots,
    shelf: Shelf,
}

/// A message: its number, for the searches, and where the rest of it lies.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    place: Place,
}

/// A message that lies in a [`Pile`] or a [`Tray`] and isn't one of its messages yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laid(Place);

/// Where a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: u32,
    /// In its chunk; with [`ALONE`] and [`WITH_META`].
    offset: u32,
}

/// Set in a slot's offset: the message replies to nothing after all. (Only a chunk's first message can be longer than [`CHUNK`], so the bits are free.)
const ALONE: u32 = 1 << 31;
/// Set there, too: it names a meta of its shelf. A page sees so without a look at the message.
const WITH_META: u32 = 1 << 30;

/// The chunks. What is put stays as it is.
#[derive(Clone, Debug, Default)]
struct Shelf {
    /// Those that aren't filled any more. Pages hold them, too.
    full: Vec<Arc<Vec<u8>>>,
    /// The one that is being filled: its number is the next one. It isn't among the others, so that an update's one message is one allocation.
    open: Vec<u8>,
    /// Bytes in the full ones.
    size: usize,
    /// The few that have one: a message names its own by number.
    metas: Vec<Meta>,
}

impl Pile {
    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        let (number, place) = (message.number, self.shelf.put(message));
        self.slots.push(Slot { number, place });
    }

    /// Packs a message whose number isn't settled: nothing counts it before [`add`](Self::add). What is laid and never added costs its bytes.
    pub fn lay(&mut self, draft: &Draft<'_>) -> Laid {
        Laid(self.shelf.put_draft(draft, None))
    }

    /// Adds a message that was laid. Without `replies` it replies to nothing.
    pub fn add(&mut self, Laid(place): Laid, number: u64, replies: bool) {
        self.slots.push(Slot { number, place: place.replying(replies) });
    }

    /// Adds a copy of a message that was laid in a tray. Without `replies` it replies to nothing.
    pub fn copy(&mut self, laid: &Packed<'_>, replies: bool) {
        let place = self.shelf.put_packed(laid).replying(replies);
        self.slots.push(Slot { number: laid.number(), place });
    }

    /// What was laid, with a number to show it by.
    #[must_use]
    pub fn laid(&self, Laid(place): Laid, number: u64) -> Packed<'_> {
        self.shelf.get(Slot { number, place })
    }

    /// All of them, sorted. No text is copied.
    #[must_use]
    pub fn sorted(self) -> Messages {
        let Self { slots, shelf } = self;
        // Only where numbers are the same is the rest looked at: it may have been out of the processor's caches for long.
        let order = |slot: &Slot| shelf.get(*slot).order();
        let compare = |one: &Slot, two: &Slot| one.number.cmp(&two.number).then_with(|| order(one).cmp(&order(two)));
        if slots.range(0..slots.len()).is_sorted_by(|one, two| compare(one, two).is_le()) {
            // As nearly always, but for what a restart brings back.
            return Messages { slots: slots.into(), shelf };
        }
        let mut all: Vec<Slot> = slots.range(0..slots.len()).collect();
        all.sort_by(compare);
        let mut sorted = Pieces::with_capacity(all.len());
        for slot in all {
            sorted.push(slot);
        }
        Messages { slots: sorted.into(), shelf }
    }
}

impl Place {
    /// Without `replies`: the message replies to nothing.
    fn replying(self, replies: bool) -> Self {
        Self { offset: if replies { self.offset } else { self.offset | ALONE }, ..self }
    }
}

impl Messages {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Puts a message where it belongs: O(1) above all others, else what is above it moves.
    pub fn insert(&mut self, message: Message) {
        let order = message.order();
        let slot = Slot { number: message.number, place: self.shelf.put(message) };
        if self.last_order() <= Some(order) {
            self.slots.push(slot);
        } else {
            // Few have the same number, and of those it is mostly the last.
            let number = u128::from(slot.number);
            let same = self.slots.first_at_least(number)..self.slots.first_at_least(number + 1);
            let behind = |held: &Slot| self.shelf.get(*held).order() > order;
            let place = same.end - self.slots.range(same).rev().take_while(behind).count();
            self.slots.insert(place, slot);
        }
    }

    /// Puts messages where they belong. Those that are all above these cost no more than their own length, and chunks that are nearly full aren't copied.
    pub fn append(&mut self, other: Self) {
        let Self { slots: more, shelf: mut from } = other;
        let above = more.first().is_none_or(|first| self.last_order() <= Some(from.get(first).order()));
        if !above {
            for slot in more.range(0..more.len()) {
                self.insert(from.get(slot).message());
            }
            return;
        }
        let Self { slots, shelf } = self;
        if from.open.len() >= WHOLE {
            from.close();
        }
        // The numbers of metas are those of their own shelf.
        let as_they_are = from.metas.is_empty();
        let take = |chunk| if as_they_are { shelf.take_over(chunk) } else { None };
        let taken: Vec<Option<u32>> = from.full.iter().map(take).collect();
        for slot in more.range(0..more.len()) {
            let Place { chunk, offset } = slot.place;
            let place = match taken.get(chunk as usize).copied().flatten() {
                Some(chunk) => Place { chunk, offset },
                None => shelf.put_packed(&from.get(slot)),
            };
            slots.push(Slot { place, ..slot });
        }
    }

    /// Some of them. Chunks that are full are held together with this; only what lies in the one that is being filled, or has a meta, is copied.
    #[must_use]
    pub fn some(&self, range: Range<usize>) -> Self {
        let (mut slots, mut shelf) = (Pieces::with_capacity(range.len()), Shelf::default());
        // What is shared comes first: the chunk of copies is the last one and can grow. Neighbours mostly lie in the same chunk.
        let mut shared: Vec<(u32, u32)> = Vec::new();
        let mut copied = Vec::new();
        for slot in self.slots.range(range) {
            let Place { chunk, offset } = slot.place;
            let Some(full) = self.shelf.full.get(chunk as usize).filter(|_| offset & WITH_META == 0) else {
                copied.push(slots.len());
                slots.push(slot);
                continue;
            };
            let known = shared.iter().rev().find(|(of, _)| *of == chunk).map(|(_, number)| *number);
            let number = known.unwrap_or_else(|| {
                // A page's messages are far fewer.
                let number = u32::try_from(shelf.full.len()).unwrap_or(u32::MAX);
                shelf.full.push(Arc::clone(full));
                shared.push((chunk, number));
                number
            });
            slots.push(Slot { place: Place { chunk: number, offset }, ..slot });
        }
        shelf.open.reserve_exact(copied.iter().map(|at| self.shelf.get(slots[*at]).bytes().len()).sum());
        for index in copied {
            let place = shelf.put_packed(&self.shelf.get(slots[index]));
            slots[index].place = place;
        }
        Self { slots: slots.into(), shelf }
    }

    fn last_order(&self) -> Option<(u64, u8, u64)> {
        self.slots.last().map(|last| self.shelf.get(last).order())
    }

    /// The number of the message at an index.
    #[must_use]
    pub fn number(&self, index: usize) -> Option<u64> {
        self.slots.get(index).map(|slot| slot.number)
    }

    /// The highest number.
    #[must_use]
    pub fn last_number(&self) -> Option<u64> {
        self.slots.last().map(|slot| slot.number)
    }

    /// Index of the first message whose number is at least `number`.
    #[must_use]
    pub fn first_at_least(&self, number: u128) -> usize {
        self.slots.first_at_least(number)
    }

    /// A bound of the text at a range of indices, from what its chunks hold in all.
    #[must_use]
    pub fn at_most(&self, range: Range<usize>) -> usize {
        let mut last = None;
        let chunks =
            self.slots.range(range).map(|slot| slot.place.chunk).filter(|chunk| last.replace(*chunk) != Some(*chunk));
        chunks.map(|chunk| self.shelf.chunk(chunk).len()).sum()
    }

    /// The messages at a range of indices that is within bounds.
    pub fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = Packed<'_>> {
        self.slots.range(range).map(|slot| self.shelf.get(slot))
    }

    /// All messages.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Packed<'_>> {
        self.range(0..self.len())
    }

    /// All messages, each on its own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Message> {
        self.iter().map(|message| message.message()).collect()
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        let mut pile = Pile::default();
        for message in messages {
            pile.push(message);
        }
        pile.sorted()
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(one, two)| one.message() == two.message())
    }
}

impl Shelf {
    /// Puts a message (its number is kept by who asks).
    fn put(&mut self, mut message: Message) -> Place {
        let meta = message.meta.take().map(|meta| {
            self.metas.push(meta);
            self.metas.len() - 1
        });
        let place = self.put_draft(&Draft::of(&message), meta);
        Place { offset: if meta.is_some() { place.offset | WITH_META } else { place.offset }, ..place }
    }

    fn put_draft(&mut self, draft: &Draft<'_>, meta: Option<usize>) -> Place {
        let (place, chunk) = self.room(draft.room());
        draft.put(chunk, meta);
        place
    }

    /// Puts a copy of a message that lies elsewhere: its bytes, where no meta of another shelf is named in them.
    fn put_packed(&mut self, packed: &Packed<'_>) -> Place {
        if packed.meta().is_some() {
            return self.put(packed.message());
        }
        let (place, chunk) = self.room(packed.bytes().len());
        chunk.extend_from_slice(packed.bytes());
        place.replying(!packed.alone())
    }

    /// A place with room for `length` bytes, and the chunk to append them to.
    fn room(&mut self, length: usize) -> (Place, &mut Vec<u8>) {
        if self.open.len() + length > self.open.capacity().max(SMALL) {
            self.close();
        }
        let Self { full, open, size, .. } = self;
        if open.capacity() == 0 {
            // A short record doesn't pay for a whole chunk; a long one pays for each once.
            open.reserve_exact(if *size == 0 { length } else { length.max((*size / 4).clamp(SMALL, CHUNK)) });
        }
        // 2^32 chunks are more than any memory.
        let chunk = u32::try_from(full.len()).unwrap_or(u32::MAX);
        let offset = u32::try_from(open.len()).unwrap_or(u32::MAX);
        (Place { chunk, offset }, open)
    }

    /// The open chunk is closed: the next message begins another.
    fn close(&mut self) {
        let chunk = std::mem::take(&mut self.open);
        if !chunk.is_empty() {
            self.size += chunk.len();
            self.full.push(Arc::new(chunk));
        }
    }

    /// Takes a chunk over as it is, where that wastes little. Gives its number.
    fn take_over(&mut self, chunk: &Arc<Vec<u8>>) -> Option<u32> {
        if chunk.len() < WHOLE {
            return None;
        }
        // It may be far from full.
        self.open.shrink_to_fit();
        self.close();
        self.size += chunk.len();
        self.full.push(Arc::clone(chunk));
        u32::try_from(self.full.len() - 1).ok()
    }

    /// The chunk of a number.
    fn chunk(&self, number: u32) -> &[u8] {
        self.full.get(number as usize).map_or(&self.open, |chunk| chunk)
    }

    /// The message at a place that this shelf gave.
    fn get(&self, slot: Slot) -> Packed<'_> {
        let Slot { number, place } = slot;
        let bytes = &self.chunk(place.chunk)[(place.offset & !(ALONE | WITH_META)) as usize..];
        Packed::read(bytes, number, place.offset & ALONE != 0, &self.metas)
    }
}

#[cfg(test)]
mod tests;

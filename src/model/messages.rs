//! A record's messages, packed one after the other in chunks of bytes.
//!
//! A message is an allocation for its text, one for its entry's id and a hundred bytes of fields; here it is its text, its id and about twenty bytes
//! more. Chunks never move once they are full, so that a long record grows without copying what it holds.

use std::ops::Range;
use std::sync::Arc;

use super::{Author, CompactId, EntryId, Message, Meta, Part, Version, Wall, varint};

/// Full chunks are of this size; a message that is longer has one of its own.
const CHUNK: usize = 256 * 1024;

/// Messages in any order, on their way to be [`Messages`].
#[derive(Clone, Debug, Default)]
pub struct Pile(Messages);

/// Messages sorted by [`Message::order`]. What is in it never changes.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    slots: Vec<Slot>,
    shelf: Shelf,
}

/// A message: its number, for the searches, and where the rest of it lies.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    place: Place,
}

/// A message that lies in a [`Pile`] and isn't one of its messages yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laid(Place);

/// Where a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: u32,
    /// In its chunk; with [`ALONE`].
    offset: u32,
}

/// Set in a slot's offset: the message replies to nothing after all. (Only a chunk's first message can be longer than [`CHUNK`], so the bit is free.)
const ALONE: u32 = 1 << 31;

/// The chunks. What is put stays as it is.
#[derive(Clone, Debug, Default)]
struct Shelf {
    chunks: Vec<Vec<u8>>,
    /// The few that have one: a message names its own by number.
    metas: Vec<Meta>,
    /// One message on its way in.
    scratch: Vec<u8>,
}

/// A packed message, its fields not yet copied.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    number: u64,
    flags: u8,
    seq: u64,
    at: i64,
    entry: CompactId<'a>,
    reply_to: Option<CompactId<'a>>,
    meta: Option<&'a Meta>,
    text: &'a [u8],
}

const ANSWER: u8 = 1;
const EDIT: u8 = 1 << 1;
const DELETE: u8 = 1 << 2;
const BOT: u8 = 1 << 3;
const REPLY: u8 = 1 << 4;
const META: u8 = 1 << 5;

impl Pile {
    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        let number = message.number;
        let laid = self.lay(message);
        self.add(laid, number, true);
    }

    /// Packs a message whose number isn't settled: nothing counts it before [`add`](Self::add). What is laid and never added costs its bytes.
    pub fn lay(&mut self, message: Message) -> Laid {
        Laid(self.0.shelf.put(message))
    }

    /// Adds a message that was laid. Without `replies` it replies to nothing.
    pub fn add(&mut self, Laid(place): Laid, number: u64, replies: bool) {
        let offset = if replies { place.offset } else { place.offset | ALONE };
        self.0.slots.push(Slot { number, place: Place { offset, ..place } });
    }

    /// What was laid, with a number to show it by.
    #[must_use]
    pub fn laid(&self, Laid(place): Laid, number: u64) -> Packed<'_> {
        self.0.shelf.get(Slot { number, place })
    }

    /// All of them, sorted. No text is copied.
    #[must_use]
    pub fn sorted(self) -> Messages {
        let Self(mut messages) = self;
        let Messages { slots, shelf } = &mut messages;
        slots.sort_by_cached_key(|slot| shelf.get(*slot).order());
        messages
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
        if self.slots.last().is_none_or(|last| self.shelf.get(*last).order() <= order) {
            self.slots.push(slot);
        } else {
            let place = self.slots.partition_point(|held| self.shelf.get(*held).order() <= order);
            self.slots.insert(place, slot);
        }
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
        self.slots.partition_point(|slot| u128::from(slot.number) < number)
    }

    /// The messages at a range of indices that is within bounds.
    pub fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = Packed<'_>> {
        self.slots[range].iter().map(|slot| self.shelf.get(*slot))
    }

    /// All messages.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Packed<'_>> {
        self.range(0..self.len())
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
    fn put(&mut self, message: Message) -> Place {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let mut flags = match message.version {
            Version::Base => 0,
            Version::Edit => EDIT,
            Version::Delete => DELETE,
        };
        for (flag, set) in [
            (ANSWER, message.part == Part::Answer),
            (BOT, message.from == Author::Bot),
            (REPLY, message.reply_to.is_some()),
            (META, message.meta.is_some()),
        ] {
            flags |= if set { flag } else { 0 };
        }
        bytes.push(flags);
        varint::put(&mut bytes, message.seq);
        varint::put(&mut bytes, message.at.0.cast_unsigned());
        CompactId::of(message.entry.as_str()).put(&mut bytes);
        if let Some(target) = &message.reply_to {
            CompactId::of(target.as_str()).put(&mut bytes);
        }
        if let Some(meta) = message.meta {
            varint::put(&mut bytes, self.metas.len() as u64);
            self.metas.push(meta);
        }
        varint::put(&mut bytes, message.text.len() as u64);
        let place = self.room(bytes.len() + message.text.len());
        let chunk = &mut self.chunks[place.chunk as usize];
        chunk.extend_from_slice(&bytes);
        chunk.extend_from_slice(message.text.as_bytes());
        self.scratch = bytes;
        place
    }

    /// A place with room for `length` bytes.
    fn room(&mut self, length: usize) -> Place {
        let fits = self.chunks.last().is_some_and(|chunk| chunk.len() + length <= CHUNK);
        if !fits {
            // A short record doesn't pay for a whole chunk; a long one pays for each once.
            let capacity = if self.chunks.is_empty() { length } else { length.max(CHUNK) };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let chunk = self.chunks.len() - 1;
        // 2^32 chunks are a quarter of a petabyte.
        let offset = u32::try_from(self.chunks[chunk].len()).unwrap_or(u32::MAX);
        Place { chunk: u32::try_from(chunk).unwrap_or(u32::MAX), offset }
    }

    /// The message at a place that [`put`](Self::put) gave.
    fn get(&self, slot: Slot) -> Packed<'_> {
        let Slot { number, place } = slot;
        let mut bytes = &self.chunks[place.chunk as usize][(place.offset & !ALONE) as usize..];
        let flags = bytes.split_off_first().copied().unwrap_or(0);
        let seq = varint::take(&mut bytes);
        let at = varint::take(&mut bytes).cast_signed();
        let entry = CompactId::take(&mut bytes);
        let reply_to = (flags & REPLY != 0).then(|| CompactId::take(&mut bytes)).filter(|_| place.offset & ALONE == 0);
        let meta = if flags & META == 0 {
            None
        } else {
            usize::try_from(varint::take(&mut bytes)).ok().and_then(|meta| self.metas.get(meta))
        };
        Packed { number, flags, seq, at, entry, reply_to, meta, text: varint::take_text(&mut bytes) }
    }
}

impl Packed<'_> {
    /// See [`Message::order`].
    #[must_use]
    pub fn order(&self) -> (u64, u8, u64) {
        (self.number, Message::class(self.version(), self.part()), self.seq)
    }

    /// See [`Message::number`].
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// See [`Message::reply_to`].
    #[must_use]
    pub fn reply_to(&self) -> Option<EntryId> {
        self.reply_to.map(|target| target.id())
    }

    /// Bytes of its text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Its entry's id.
    #[must_use]
    pub fn entry(&self) -> CompactId<'_> {
        self.entry
    }

    /// See [`Message::part`].
    #[must_use]
    pub fn part(&self) -> Part {
        if self.flags & ANSWER == 0 { Part::Entry } else { Part::Answer }
    }

    /// See [`Message::version`].
    #[must_use]
    pub fn version(&self) -> Version {
        match self.flags & (EDIT | DELETE) {
            0 => Version::Base,
            EDIT => Version::Edit,
            _ => Version::Delete,
        }
    }

    /// The message as it was put.
    #[must_use]
    pub fn message(&self) -> Message {
        Message {
            number: self.number,
            seq: self.seq,
            entry: self.entry.id(),
            part: self.part(),
            version: self.version(),
            from: if self.flags & BOT == 0 { Author::Account } else { Author::Bot },
            at: Wall(self.at),
            text: Arc::from(text(self.text)),
            reply_to: self.reply_to(),
            meta: self.meta.cloned(),
        }
    }
}

/// Only texts are put.
fn text(bytes: &[u8]) -> &str {
    simdutf8::basic::from_utf8(bytes).unwrap_or_default()
}

//! Where a record's messages lie: packed one after the other in chunks of bytes.
//!
//! A message is an allocation for its text, one for its entry's id and a hundred bytes of fields; here it is its text, its id and about twenty bytes
//! more. Chunks never move once they are full, so that a long record grows without copying what it holds.

use std::sync::Arc;

use crate::model::{Author, EntryId, Message, Meta, Part, Version, Wall, varint};

/// Full chunks are of this size; a message that is longer has one of its own.
const CHUNK: usize = 256 * 1024;

/// Where a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    chunk: u32,
    offset: u32,
}

/// Packed messages. What is put stays as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    chunks: Vec<Vec<u8>>,
    /// The few that have one: a message names its own by number.
    metas: Vec<Meta>,
    /// One message on its way in.
    scratch: Vec<u8>,
}

/// A packed message, its fields not yet copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a> {
    flags: u8,
    seq: u64,
    at: i64,
    entry: &'a [u8],
    reply_to: Option<&'a [u8]>,
    meta: Option<&'a Meta>,
    text: &'a [u8],
}

const ANSWER: u8 = 1;
const EDIT: u8 = 1 << 1;
const DELETE: u8 = 1 << 2;
const BOT: u8 = 1 << 3;
const REPLY: u8 = 1 << 4;
const META: u8 = 1 << 5;

impl Shelf {
    /// Puts a message (its number is kept by who asks).
    pub(super) fn put(&mut self, message: Message) -> Place {
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
        varint::put_text(&mut bytes, message.entry.as_str());
        if let Some(target) = &message.reply_to {
            varint::put_text(&mut bytes, target.as_str());
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
    pub(super) fn get(&self, place: Place) -> Packed<'_> {
        let mut bytes = &self.chunks[place.chunk as usize][place.offset as usize..];
        let flags = bytes.split_off_first().copied().unwrap_or(0);
        let seq = varint::take(&mut bytes);
        let at = varint::take(&mut bytes).cast_signed();
        let entry = varint::take_text(&mut bytes);
        let reply_to = (flags & REPLY != 0).then(|| varint::take_text(&mut bytes));
        let meta = if flags & META == 0 {
            None
        } else {
            usize::try_from(varint::take(&mut bytes)).ok().and_then(|meta| self.metas.get(meta))
        };
        Packed { flags, seq, at, entry, reply_to, meta, text: varint::take_text(&mut bytes) }
    }
}

impl Packed<'_> {
    /// See [`Message::order`].
    pub(super) fn order(&self, number: u64) -> (u64, u8, u64) {
        (number, Message::class(self.version(), self.part()), self.seq)
    }

    /// Bytes of its text.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    /// The bytes of its entry's id.
    pub(super) fn entry(&self) -> &[u8] {
        self.entry
    }

    pub(super) fn part(&self) -> Part {
        if self.flags & ANSWER == 0 { Part::Entry } else { Part::Answer }
    }

    pub(super) fn version(&self) -> Version {
        match self.flags & (EDIT | DELETE) {
            0 => Version::Base,
            EDIT => Version::Edit,
            _ => Version::Delete,
        }
    }

    /// The message as it was put.
    pub(super) fn message(&self, number: u64) -> Message {
        Message {
            number,
            seq: self.seq,
            entry: EntryId::from(text(self.entry)),
            part: self.part(),
            version: self.version(),
            from: if self.flags & BOT == 0 { Author::Account } else { Author::Bot },
            at: Wall(self.at),
            text: Arc::from(text(self.text)),
            reply_to: self.reply_to.map(|target| EntryId::from(text(target))),
            meta: self.meta.cloned(),
        }
    }
}

/// Only texts are put.
fn text(bytes: &[u8]) -> &str {
    simdutf8::basic::from_utf8(bytes).unwrap_or_default()
}

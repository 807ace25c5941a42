//! One message as bytes: what there is of it without its number.

use std::sync::Arc;

use crate::model::{Author, CompactId, EntryId, Message, Meta, Part, Version, Wall, base_id, varint, version_id};

/// A message on its way to be packed: what there is of it without its number.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// See [`Message::seq`].
    pub seq: u64,
    /// See [`Message::entry`].
    pub entry: CompactId<'a>,
    /// See [`Message::part`].
    pub part: Part,
    /// See [`Message::version`].
    pub version: Version,
    /// See [`Message::from`].
    pub from: Author,
    /// See [`Message::at`].
    pub at: Wall,
    /// See [`Message::text`].
    pub text: &'a str,
    /// See [`Message::reply_to`].
    pub reply_to: Option<CompactId<'a>>,
}

/// A packed message, its fields not yet copied.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    number: u64,
    /// It replies to nothing after all.
    alone: bool,
    /// All of it.
    bytes: &'a [u8],
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

impl<'a> Draft<'a> {
    pub(super) fn of(message: &'a Message) -> Self {
        Self {
            seq: message.seq,
            entry: message.entry.compact(),
            part: message.part,
            version: message.version,
            from: message.from,
            at: message.at,
            text: &message.text,
            reply_to: message.reply_to.as_ref().map(EntryId::compact),
        }
    }

    /// The most bytes that it takes: numbers take up to ten.
    pub(super) fn room(&self) -> usize {
        let ids = self.entry.key().len() + self.reply_to.map_or(0, |target| target.key().len());
        self.text.len() + ids + 64
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>, meta: Option<usize>) {
        let mut flags = match self.version {
            Version::Base => 0,
            Version::Edit => EDIT,
            Version::Delete => DELETE,
        };
        for (flag, set) in [
            (ANSWER, self.part == Part::Answer),
            (BOT, self.from == Author::Bot),
            (REPLY, self.reply_to.is_some()),
            (META, meta.is_some()),
        ] {
            flags |= if set { flag } else { 0 };
        }
        bytes.push(flags);
        varint::put(bytes, self.seq);
        varint::put(bytes, self.at.0.cast_unsigned());
        self.entry.put(bytes);
        if let Some(target) = self.reply_to {
            target.put(bytes);
        }
        if let Some(meta) = meta {
            varint::put(bytes, meta as u64);
        }
        varint::put_text(bytes, self.text);
    }
}

impl<'a> Packed<'a> {
    /// The message at the front of `bytes`. If it is `alone`, it replies to nothing, whatever it says.
    pub(super) fn read(bytes: &'a [u8], number: u64, alone: bool, metas: &'a [Meta]) -> Self {
        let mut rest = bytes;
        let flags = rest.split_off_first().copied().unwrap_or(0);
        let seq = varint::take(&mut rest);
        let at = varint::take(&mut rest).cast_signed();
        let entry = CompactId::take(&mut rest);
        let reply_to = (flags & REPLY != 0).then(|| CompactId::take(&mut rest)).filter(|_| !alone);
        let meta = if flags & META == 0 {
            None
        } else {
            usize::try_from(varint::take(&mut rest)).ok().and_then(|meta| metas.get(meta))
        };
        let text = varint::take_text(&mut rest);
        let bytes = &bytes[..bytes.len() - rest.len()];
        Packed { number, alone, bytes, flags, seq, at, entry, reply_to, meta, text }
    }

    /// Its bytes, for copying it as it is.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn alone(&self) -> bool {
        self.alone
    }
}

impl<'a> Packed<'a> {
    /// See [`Message::reply_to`].
    #[must_use]
    pub fn reply_to(&self) -> Option<CompactId<'a>> {
        self.reply_to
    }

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

    /// Bytes of its text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// See [`Message::text`].
    #[must_use]
    pub fn text(&self) -> &'a str {
        text(self.text)
    }

    /// See [`Message::seq`].
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// See [`Message::from`].
    #[must_use]
    pub fn from(&self) -> Author {
        if self.flags & BOT == 0 { Author::Account } else { Author::Bot }
    }

    /// See [`Message::at`].
    #[must_use]
    pub fn at(&self) -> Wall {
        Wall(self.at)
    }

    /// See [`Message::meta`].
    #[must_use]
    pub fn meta(&self) -> Option<&'a Meta> {
        self.meta
    }

    /// Its entry's id.
    #[must_use]
    pub fn entry(&self) -> CompactId<'a> {
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

    /// See [`Message::base`].
    #[must_use]
    pub fn base(&self, generation: u64) -> String {
        base_id(generation, self.entry.text(&mut [0; _]), self.part())
    }

    /// See [`Message::id`].
    #[must_use]
    pub fn id(&self, generation: u64) -> String {
        version_id(self.base(generation), self.version(), self.number)
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
            from: self.from(),
            at: self.at(),
            text: Arc::from(text(self.text)),
            reply_to: self.reply_to.map(|target| target.id()),
            meta: self.meta.cloned(),
        }
    }
}

/// Only texts are put.
fn text(bytes: &[u8]) -> &str {
    simdutf8::basic::from_utf8(bytes).unwrap_or_default()
}

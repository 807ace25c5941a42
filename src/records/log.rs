//! The exposed messages of one record, and their pages.

use std::ops::Range;

use crate::model::{CompactId, Message, Messages, Packed, Part, Version};

/// A page ends before this much text, in bytes of UTF-8.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Where a page lies. Numbers are wider than any cursor of ours: whatever a host writes beyond a u64 is above every message, and saturating it
/// to a u128 keeps that true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The newest messages.
    Newest,
    /// The messages next above the number.
    After(u128),
    /// The messages next below the number.
    Before(u128),
}

/// One page of a record's messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The generation of every cursor and id in it.
    pub generation: u64,
    /// Ascending.
    pub messages: Messages,
    /// The number of the head; `None` while the record is empty.
    pub head: Option<u64>,
    /// Whether the record holds messages below the page (for an empty page: below its place).
    pub more_before: bool,
    /// Whether the record holds messages above the page.
    pub more_after: bool,
}

/// The messages of one record in one generation, sorted by [`Message::order`].
///
/// Invariants: nothing in it ever changes; the head is at least the highest number held and only grows. Appending is O(1) amortized, a page costs
/// a binary search and its own length.
#[derive(Clone, Debug)]
pub struct Transcript {
    generation: u64,
    head: Option<u64>,
    messages: Messages,
}

impl Transcript {
    /// What the first full read exposed. `head` may be above every message: the index remembers cursors of messages that are gone.
    #[must_use]
    pub fn new(generation: u64, messages: impl Into<Messages>, head: Option<u64>) -> Self {
        let messages = messages.into();
        Self { generation, head: head.max(messages.last_number()), messages }
    }

    /// Its generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of its head.
    #[must_use]
    pub fn head(&self) -> Option<u64> {
        self.head
    }

    /// How many messages it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds messages and moves the head forward; a head that isn't further changes nothing.
    pub fn append(&mut self, messages: impl Into<Messages>, head: u64) {
        self.messages.append(messages.into());
        self.head = self.head.max(Some(head)).max(self.messages.last_number());
    }

    /// Adds messages wherever they belong. Those above all others cost O(1); one below the head (a late body) moves what is above it.
    pub fn insert(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.head = self.head.max(Some(message.number));
            self.messages.insert(message);
        }
    }

    /// The page at `span` with at most `limit` messages (at least 1).
    ///
    /// Messages that share a number stay together, so a page may exceed its limit to complete the last number it took; it ends before
    /// [`PAGE_BYTES`] of text, but holds at least one number's messages where there is one.
    #[must_use]
    pub fn page(&self, span: Span, limit: usize) -> Page {
        // What is in the page is mostly known without a look at any message: none of them need be in the processor's caches yet.
        let (mut start, mut end) = self.ends(span, limit, |_| 0);
        if self.messages.at_most(start..end) >= PAGE_BYTES {
            (start, end) =
                self.ends(span, limit, |range| self.messages.range(range).map(|message| message.size()).sum());
        }
        Page {
            generation: self.generation,
            messages: self.messages.some(start..end),
            head: self.head,
            more_before: start > 0,
            more_after: end < self.messages.len(),
        }
    }

    /// The message that carries `id`, if it is held. A base, an edit and a delete are messages of their own.
    ///
    /// Goes from the newest down: people answer what was said last.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Message> {
        let wanted = ParsedId::parse(id)?;
        if wanted.generation != self.generation {
            return None;
        }
        let may_be = |message: &Packed<'_>| wanted.may_be(message);
        self.messages.iter().rev().filter(may_be).map(|message| message.message()).find(|message| {
            // Escaping is undone by nobody: the id as it would be written decides.
            message.id(self.generation) == wanted.id
        })
    }

    /// Where a page begins and ends, by the sizes of its messages.
    fn ends(&self, span: Span, limit: usize, size: impl Fn(Range<usize>) -> usize) -> (usize, usize) {
        match span {
            Span::Newest => self.backward(self.messages.len(), limit, size),
            Span::Before(number) => self.backward(self.messages.first_at_least(number), limit, size),
            Span::After(number) => self.forward(self.messages.first_at_least(number.saturating_add(1)), limit, size),
        }
    }

    fn forward(&self, start: usize, limit: usize, size: impl Fn(Range<usize>) -> usize) -> (usize, usize) {
        let mut end = start;
        let mut bytes = 0;
        while let Some(number) = self.messages.number(end).filter(|_| end - start < limit) {
            let count = (end..self.len()).take_while(|index| self.messages.number(*index) == Some(number)).count();
            let more = size(end..end + count);
            if end > start && bytes + more >= PAGE_BYTES {
                break;
            }
            bytes += more;
            end += count;
        }
        (start, end)
    }

    fn backward(&self, end: usize, limit: usize, size: impl Fn(Range<usize>) -> usize) -> (usize, usize) {
        let mut start = end;
        let mut bytes = 0;
        while let Some(number) = start.checked_sub(1).and_then(|last| self.messages.number(last))
            && end - start < limit
        {
            let count = (0..start).rev().take_while(|index| self.messages.number(*index) == Some(number)).count();
            let more = size(start - count..start);
            if start < end && bytes + more >= PAGE_BYTES {
                break;
            }
            bytes += more;
            start -= count;
        }
        (start, end)
    }
}

/// A message id taken apart, so that a search over a long record allocates for the few messages alone that could match.
struct ParsedId<'a> {
    id: &'a str,
    generation: u64,
    /// The entry's id as escaped by `base_id`: it holds no `:`.
    entry: &'a str,
    compact: CompactId<'a>,
    part: Part,
    version: Version,
}

impl<'a> ParsedId<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let mut parts = id.split(':');
        let generation = parts.next()?.parse().ok()?;
        let entry = parts.next()?;
        let (part, version) = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => (Part::Entry, Version::Base),
            (Some("reply"), None, _) => (Part::Answer, Version::Base),
            (Some("edit"), Some(_), None) => (Part::Entry, Version::Edit),
            (Some("delete"), Some(_), None) => (Part::Entry, Version::Delete),
            (Some("reply"), Some("edit"), Some(_)) => (Part::Answer, Version::Edit),
            (Some("reply"), Some("delete"), Some(_)) => (Part::Answer, Version::Delete),
            _ => return None,
        };
        Some(Self { id, generation, entry, compact: CompactId::of(entry), part, version })
    }

    /// A cheap no for nearly every other message. A UUID is written as it is; of another id the last byte survives escaping unless it is a `:`.
    fn may_be(&self, message: &Packed<'_>) -> bool {
        message.part() == self.part
            && message.version() == self.version
            && match message.entry() {
                uuid @ CompactId::Uuid(_) => uuid == self.compact,
                CompactId::Text(entry) => entry.ends_with(b":") || entry.last() == self.entry.as_bytes().last(),
            }
    }
}

#[cfg(test)]
mod tests;

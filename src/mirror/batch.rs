//! What the index keeps of a Bot: marks of what was exposed, never text.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::model::{Author, CompactId, EntryId, Part, varint};

/// The first half of the SHA-256 of a text: it only tells versions of one entry apart, and there is one for every message in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The digest of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let whole: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }
}

/// What was exposed of one text (an entry's own, or the answer to its widget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<I = EntryId> {
    /// The entry.
    pub entry: I,
    /// Which of its texts.
    pub part: Part,
    /// The row's place: a delete may name nothing else.
    pub seq: u64,
    /// The text exposed last; `None` after a delete.
    pub digest: Option<Digest>,
    /// The number of the first exposure.
    pub first: u64,
    /// The number of the latest revision.
    pub edit: Option<u64>,
    /// The number of the latest delete.
    pub delete: Option<u64>,
    /// Who said the base: a delete is from the same.
    pub author: Author,
}

impl<I> Mark<I> {
    /// The highest number in it.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.first.max(self.edit.unwrap_or(0)).max(self.delete.unwrap_or(0))
    }

    fn of<J>(&self, entry: J) -> Mark<J> {
        let Self { part, seq, digest, first, edit, delete, author, .. } = *self;
        Mark { entry, part, seq, digest, first, edit, delete, author }
    }
}

impl Mark {
    fn compact(&self) -> Mark<CompactId<'_>> {
        self.of(CompactId::of(self.entry.as_str()))
    }
}

/// Marks one after the other, packed: a start has one for every message, all at once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Marks {
    count: usize,
    bytes: Vec<u8>,
}

const ANSWER: u8 = 1;
const READABLE: u8 = 1 << 1;
const EDITED: u8 = 1 << 2;
const DELETED: u8 = 1 << 3;
const BOT: u8 = 1 << 4;

impl Marks {
    /// Adds one.
    pub fn push(&mut self, mark: &Mark<CompactId<'_>>) {
        let mut flags = 0;
        for (flag, set) in [
            (ANSWER, mark.part == Part::Answer),
            (READABLE, mark.digest.is_some()),
            (EDITED, mark.edit.is_some()),
            (DELETED, mark.delete.is_some()),
            (BOT, mark.author == Author::Bot),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let Self { count, bytes } = self;
        *count += 1;
        // The rest is four numbers and a digest at most.
        bytes.reserve(mark.entry.key().len() + 64);
        bytes.push(flags);
        mark.entry.put(bytes);
        for number in [Some(mark.seq), Some(mark.first), mark.edit, mark.delete].into_iter().flatten() {
            varint::put(bytes, number);
        }
        if let Some(Digest(digest)) = &mark.digest {
            bytes.extend_from_slice(digest);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Mark<CompactId<'_>>> {
        let mut bytes = &self.bytes[..];
        (0..self.count).map(move |_| {
            let flags = bytes.split_off_first().copied().unwrap_or(0);
            let is = |flag| flags & flag != 0;
            let entry = CompactId::take(&mut bytes);
            let (seq, first) = (varint::take(&mut bytes), varint::take(&mut bytes));
            let edit = is(EDITED).then(|| varint::take(&mut bytes));
            let delete = is(DELETED).then(|| varint::take(&mut bytes));
            let digest = is(READABLE).then(|| {
                let (digest, rest) = bytes.split_first_chunk().unwrap_or((&[0; 16], &[]));
                bytes = rest;
                Digest(*digest)
            });
            let part = if is(ANSWER) { Part::Answer } else { Part::Entry };
            let author = if is(BOT) { Author::Bot } else { Author::Account };
            Mark { entry, part, seq, digest, first, edit, delete, author }
        })
    }

    /// All of them, each with an id of its own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Mark> {
        self.iter().map(|mark| mark.of(mark.entry.id())).collect()
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.to_vec()).finish()
    }
}

impl FromIterator<Mark> for Marks {
    fn from_iter<M: IntoIterator<Item = Mark>>(from: M) -> Self {
        let mut marks = Self::default();
        for mark in from {
            marks.push(&mark.compact());
        }
        marks
    }
}

/// Writes of one Bot that must be committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Comes back in [`super::Input::Committed`].
    pub id: u64,
    /// First delete this Bot's marks of every generation.
    pub clear: bool,
    /// The generation of the marks.
    pub generation: u64,
    /// New or changed marks.
    pub marks: Marks,
}

/// What the index held of a Bot at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Marks by their generation. More than one generation is never written, but never trusted either.
    pub generations: Vec<(u64, Marks)>,
}

impl Stored {
    /// Adds a mark of a generation.
    pub fn push(&mut self, generation: u64, mark: &Mark<CompactId<'_>>) {
        let place = self.generations.iter().position(|(of, _)| *of == generation).unwrap_or_else(|| {
            self.generations.push((generation, Marks::default()));
            self.generations.len() - 1
        });
        self.generations[place].1.push(mark);
    }

    /// Gives back what was taken while it grew.
    pub fn shrink(&mut self) {
        for (_, marks) in &mut self.generations {
            marks.bytes.shrink_to_fit();
        }
    }

    /// All marks with their generation, each with an id of its own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(u64, Mark)> {
        let all = self.generations.iter().map(|(generation, marks)| (*generation, marks.to_vec()));
        all.flat_map(|(generation, marks)| marks.into_iter().map(move |mark| (generation, mark))).collect()
    }

    /// How many marks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.generations.iter().map(|(_, marks)| marks.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<(u64, Mark)> for Stored {
    fn from_iter<M: IntoIterator<Item = (u64, Mark)>>(from: M) -> Self {
        let mut stored = Self::default();
        for (generation, mark) in from {
            stored.push(generation, &mark.compact());
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks() -> impl Strategy<Value = Vec<Mark>> {
        let number = || prop_oneof![0..200_u64, any::<u64>()];
        let id = prop_oneof![".*".boxed(), any::<u128>().prop_map(|id| uuid::Uuid::from_u128(id).to_string()).boxed()];
        let revisions = (prop::option::of(number()), prop::option::of(number()), prop::option::of(any::<[u8; 16]>()));
        let mark = (id, any::<bool>(), number(), number(), revisions, any::<bool>());
        let mark = mark.prop_map(|(id, answer, seq, first, (edit, delete, digest), bot)| Mark {
            entry: EntryId::from(id),
            part: if answer { Part::Answer } else { Part::Entry },
            seq,
            digest: digest.map(Digest),
            first,
            edit,
            delete,
            author: if bot { Author::Bot } else { Author::Account },
        });
        prop::collection::vec(mark, 0..20)
    }

    proptest! {
        #[test]
        fn marks_come_back_as_they_were(marks in marks()) {
            let packed: Marks = marks.iter().cloned().collect();
            prop_assert_eq!(packed.len(), marks.len());
            prop_assert_eq!(packed.to_vec(), marks);
        }
    }
}

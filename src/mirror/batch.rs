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
        self.of(self.entry.compact())
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

/// A mark and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct PackedMark<'a> {
    /// The mark.
    pub mark: Mark<CompactId<'a>>,
    /// As it lies in [`Marks`].
    pub bytes: &'a [u8],
}

impl Marks {
    /// Adds one.
    pub fn push(&mut self, mark: &Mark<CompactId<'_>>) {
        self.count += 1;
        // The rest is four numbers and a digest at most.
        self.bytes.reserve(mark.entry.key().len() + 64);
        put(&mut self.bytes, mark);
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
        self.packed().map(|packed| packed.mark)
    }

    /// The same, each with its bytes.
    pub fn packed(&self) -> impl Iterator<Item = PackedMark<'_>> {
        let mut rest = &self.bytes[..];
        (0..self.count).map(move |_| take(&mut rest))
    }

    /// Marks that were packed before, by whoever it was: `None` where the bytes are other ones than [`push`](Self::push) would have written.
    #[must_use]
    pub fn unpack(mut bytes: &[u8]) -> Option<Vec<PackedMark<'_>>> {
        let (mut all, mut again) = (Vec::new(), Vec::new());
        while !bytes.is_empty() {
            let packed = take(&mut bytes);
            let told = match packed.mark.entry {
                CompactId::Uuid(_) => true,
                CompactId::Text(id) => str::from_utf8(id).is_ok_and(|id| CompactId::of(id) == packed.mark.entry),
            };
            again.clear();
            put(&mut again, &packed.mark);
            if !told || again != packed.bytes {
                return None;
            }
            all.push(packed);
        }
        Some(all)
    }

    /// All of them, each with an id of its own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Mark> {
        self.iter().map(|mark| mark.of(mark.entry.id())).collect()
    }
}

/// The bytes of a mark. The index keeps them, too: what changes here is another schema there.
fn put(bytes: &mut Vec<u8>, mark: &Mark<CompactId<'_>>) {
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
    bytes.push(flags);
    mark.entry.put(bytes);
    for number in [Some(mark.seq), Some(mark.first), mark.edit, mark.delete].into_iter().flatten() {
        varint::put(bytes, number);
    }
    if let Some(Digest(digest)) = &mark.digest {
        bytes.extend_from_slice(digest);
    }
}

/// Takes off the front what [`put`] put there. Of other bytes it makes some mark, never a panic.
fn take<'a>(bytes: &mut &'a [u8]) -> PackedMark<'a> {
    let whole = *bytes;
    let flags = bytes.split_off_first().copied().unwrap_or(0);
    let is = |flag| flags & flag != 0;
    let entry = CompactId::take(bytes);
    let (seq, first) = (varint::take(bytes), varint::take(bytes));
    let edit = is(EDITED).then(|| varint::take(bytes));
    let delete = is(DELETED).then(|| varint::take(bytes));
    let digest = is(READABLE).then(|| {
        let (digest, rest) = bytes.split_first_chunk().unwrap_or((&[0; 16], &[]));
        *bytes = rest;
        Digest(*digest)
    });
    let part = if is(ANSWER) { Part::Answer } else { Part::Entry };
    let author = if is(BOT) { Author::Bot } else { Author::Account };
    let mark = Mark { entry, part, seq, digest, first, edit, delete, author };
    PackedMark { mark, bytes: &whole[..whole.len() - bytes.len()] }
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
    /// Adds marks of a generation that are packed already.
    pub fn extend(&mut self, generation: u64, packed: &[PackedMark<'_>]) {
        let Marks { count, bytes } = self.of(generation);
        *count += packed.len();
        for PackedMark { bytes: more, .. } in packed {
            bytes.extend_from_slice(more);
        }
    }

    fn of(&mut self, generation: u64) -> &mut Marks {
        let place = self.generations.iter().position(|(of, _)| *of == generation).unwrap_or_else(|| {
            self.generations.push((generation, Marks::default()));
            self.generations.len() - 1
        });
        &mut self.generations[place].1
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
            stored.of(generation).push(&mark.compact());
        }
        stored
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use proptest::prelude::*;

    use super::{Digest, Mark};
    use crate::model::{Author, EntryId, Part};

    /// Any marks with such ids and numbers.
    pub(crate) fn marks(
        id: impl Strategy<Value = String>,
        number: impl Strategy<Value = u64> + Clone,
    ) -> impl Strategy<Value = Mark> {
        let revision = prop::option::of(number.clone());
        let revisions = (revision.clone(), revision, prop::option::of(any::<[u8; 16]>()));
        (id, any::<bool>(), number.clone(), number, revisions, any::<bool>()).prop_map(
            |(id, answer, seq, first, (edit, delete, digest), bot)| Mark {
                entry: EntryId::from(id),
                part: if answer { Part::Answer } else { Part::Entry },
                seq,
                digest: digest.map(Digest),
                first,
                edit,
                delete,
                author: if bot { Author::Bot } else { Author::Account },
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks() -> impl Strategy<Value = Vec<Mark>> {
        let id = prop_oneof![".*".boxed(), any::<u128>().prop_map(|id| uuid::Uuid::from_u128(id).to_string()).boxed()];
        prop::collection::vec(testing::marks(id, prop_oneof![0..200_u64, any::<u64>()]), 0..20)
    }

    proptest! {
        #[test]
        fn marks_come_back_as_they_were(marks in marks()) {
            let packed: Marks = marks.iter().cloned().collect();
            prop_assert_eq!(packed.len(), marks.len());
            prop_assert_eq!(&packed.to_vec(), &marks);
            let again: Vec<&[u8]> = Marks::unpack(&packed.bytes).expect("our own").iter().map(|mark| mark.bytes).collect();
            prop_assert_eq!(again.len(), marks.len());
            prop_assert_eq!(again.concat(), packed.bytes);
        }

        #[test]
        fn bytes_that_nobody_packed_are_no_marks(marks in marks(), cut in any::<prop::sample::Index>(), odd in prop::collection::vec(any::<u8>(), 1..80)) {
            let packed: Marks = marks.into_iter().collect();
            let cut = &packed.bytes[..cut.index(packed.bytes.len() + 1)];
            for bytes in [cut, &odd] {
                // Where they are marks after all, they are the same bytes packed again.
                let Some(all) = Marks::unpack(bytes) else { continue };
                let again: Marks = all.iter().map(|packed| packed.mark.of(packed.mark.entry.id())).collect();
                prop_assert_eq!(&again.bytes, bytes);
            }
        }
    }

    #[test]
    fn a_mark_lies_in_these_bytes_wherever_it_was_written() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let marks: Marks = [
            Mark {
                entry: EntryId::from(id),
                part: Part::Entry,
                seq: 300,
                digest: Some(Digest([7; 16])),
                first: 5,
                edit: Some(6),
                delete: None,
                author: Author::Bot,
            },
            Mark {
                entry: EntryId::from("t1"),
                part: Part::Answer,
                seq: 1,
                digest: None,
                first: 2,
                edit: None,
                delete: Some(9),
                author: Author::Account,
            },
        ]
        .into_iter()
        .collect();
        let uuid = uuid::Uuid::parse_str(id).expect("an id");
        let one = [&[0b1_0110, 0][..], uuid.as_bytes(), &[0xac, 2, 5, 6], &[7; 16]].concat();
        let two = [0b0_1001, 3, b't', b'1', 1, 2, 9];
        assert_eq!(marks.bytes, [&one[..], &two].concat());
        assert!(Marks::unpack(&[&two[..], &[0b10_0000]].concat()).is_none());
        assert!(Marks::unpack(&[0b0_1001, 3, 0xff, b'1', 1, 2, 9]).is_none(), "no text");
        assert!(
            Marks::unpack(&[0b0_1001, 3, b't', b'1', 0x81, 0, 2, 9]).is_none(),
            "a number written longer than it is"
        );
        let spelled = [&[0, 37][..], id.as_bytes(), &[1, 2]].concat();
        assert!(Marks::unpack(&spelled).is_none(), "an id that is packed otherwise");
    }
}

//! What the index keeps of a Bot: marks of what was exposed, never text.

use sha2::{Digest as _, Sha256};

use crate::model::{Author, EntryId, Part};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The entry.
    pub entry: EntryId,
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

impl Mark {
    /// The highest number in it.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.first.max(self.edit.unwrap_or(0)).max(self.delete.unwrap_or(0))
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
    pub marks: Vec<Mark>,
}

/// What the index held of a Bot at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Marks with their generation. More than one generation is never written, but never trusted either.
    pub marks: Vec<(u64, Mark)>,
}

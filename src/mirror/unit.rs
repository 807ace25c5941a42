//! One text of an entry: what it should read as, and what was exposed of it.

use std::sync::Arc;

use super::batch::Digest;
use super::entries::{Key, slot};
use super::render::Text;
use super::{Mirror, QUIET};
use crate::model::{Author, Laid, Mono, Part, Wall};

/// A text that isn't exposed as it should be.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The number it would be exposed with.
    pub(super) number: u64,
    /// `None`: it should be gone.
    pub(super) text: Option<Held>,
    /// Digest of the text.
    pub(super) digest: Option<Digest>,
    /// When the quiet second is over.
    pub(super) stable_at: Mono,
    /// When this process learned of it, for edits, deletes and answers.
    pub(super) seen_at: Wall,
    /// The body's own time.
    pub(super) body_at: Option<Wall>,
}

/// A text that waits.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Loose(Text),
    /// Packed with the record that isn't open yet: a first read brings a whole history, and it should be in memory once.
    Laid {
        laid: Laid,
        from: Author,
    },
}

impl Held {
    pub(super) fn from(&self) -> Author {
        match self {
            Self::Loose(text) => text.from,
            Self::Laid { from, .. } => *from,
        }
    }
}

/// What was exposed of a text, in this process or before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exposed {
    pub(super) digest: Option<Digest>,
    pub(super) first: u64,
    pub(super) edit: Option<u64>,
    pub(super) delete: Option<u64>,
    pub(super) author: Author,
    /// False while it is known from the index alone: this process never delivered it.
    pub(super) delivered: bool,
}

impl Exposed {
    pub(super) fn highest(&self) -> u64 {
        self.first.max(self.edit.unwrap_or(0)).max(self.delete.unwrap_or(0))
    }
}

/// What [`Mirror::want`] decided.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// As exposed (or never exposed and not wanted).
    Settled,
    /// As the index says; this process delivers it under its indexed id.
    Restore,
    /// Pending.
    Pending,
}

impl Mirror {
    /// The part should read as `text` from the row's version `number` on.
    ///
    /// A pending text that comes again with a higher number moves its number and keeps its second; another text starts the second again.
    pub(super) fn want(
        &mut self,
        key: Key,
        part: Part,
        text: Option<&Text>,
        number: u64,
        now: Mono,
        seen: (Wall, Option<Wall>),
    ) -> Want {
        let digest = text.map(|text| Digest::of(&text.text));
        let exposed = self.entries.exposed(key, part);
        let settled = exposed.map_or(digest.is_none(), |exposed| exposed.digest == digest);
        if settled {
            if let Some(work) = self.entries.work_if(key) {
                work.pending[slot(part)] = None;
            }
            return match exposed {
                Some(exposed) if !exposed.delivered && digest.is_some() => Want::Restore,
                _ => Want::Settled,
            };
        }
        match &mut self.entries.work_mut(key).pending[slot(part)] {
            Some(pending) if pending.digest == digest => pending.number = pending.number.max(number),
            place => {
                *place = Some(Pending {
                    number,
                    text: text.cloned().map(Held::Loose),
                    digest,
                    stable_at: if text.is_some() { now.after(QUIET) } else { now },
                    seen_at: seen.0,
                    body_at: seen.1,
                });
            }
        }
        Want::Pending
    }
}

/// A shared empty text, for deletes.
pub(super) fn empty() -> Arc<str> {
    Arc::from("")
}

//! One text of an entry: what it should read as, and what was exposed of it.

use std::sync::Arc;

use super::batch::Digest;
use super::entries::{Entries, Key};
use super::render::Text;
use super::{Mirror, QUIET};
use crate::model::{Author, Draft, EntryId, Laid, Message, Mono, Part, Pile, Version, Wall};

/// A text that isn't exposed as it should be.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The number it would be exposed with.
    pub(super) number: u64,
    pub(super) wanted: Wanted,
    /// Digest of the text; `None` where it should be gone.
    pub(super) digest: Option<Digest>,
    /// When the quiet second is over.
    pub(super) stable_at: Mono,
}

/// What a text should read as.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// It should be gone, since then.
    Gone(Wall),
    /// Packed: nearly all texts, for they are long, and a first read brings a whole history.
    Laid {
        laid: Laid,
        from: Author,
        /// Whether it lies in the mirror's tray; else it lies with the record that isn't open yet.
        in_tray: bool,
    },
    Loose(Box<Loose>),
}

/// A text that isn't packed: an answer, or one with a meta.
#[derive(Clone, Debug)]
pub(super) struct Loose {
    pub(super) text: Text,
    pub(super) times: Times,
}

/// When this process learned of a text, and the body's own time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) seen_at: Wall,
    pub(super) body_at: Option<Wall>,
}

impl Pending {
    /// Whether there is a text at all.
    pub(super) fn says(&self) -> bool {
        self.digest.is_some()
    }

    /// Who says it.
    pub(super) fn from(&self) -> Option<Author> {
        match &self.wanted {
            Wanted::Gone(_) => None,
            Wanted::Laid { from, .. } => Some(*from),
            Wanted::Loose(loose) => Some(loose.text.from),
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
    /// Whether the record holds the base: what was restored as a revision lacks it.
    pub(super) base: bool,
}

impl Exposed {
    pub(super) fn highest(&self) -> u64 {
        self.first.max(self.edit.unwrap_or(0)).max(self.delete.unwrap_or(0))
    }

    /// The message that shows the text exposed last, and its number.
    pub(super) fn latest(&self) -> (Version, u64) {
        match self.edit {
            // An edit below the delete mark was of the text before it; a text readable after a delete is always a later edit.
            Some(edit) => (Version::Edit, edit),
            None => (Version::Base, self.first),
        }
    }
}

/// What [`Mirror::want`] decided.
#[derive(Debug, PartialEq)]
pub(super) enum Want {
    /// As exposed (or never exposed and not wanted).
    Settled,
    /// As the index says; this process delivers it under its indexed id.
    Restore(Text),
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
        text: Option<Text>,
        number: u64,
        now: Mono,
        times: Times,
    ) -> Want {
        let digest = text.as_ref().map(|text| Digest::of(&text.text));
        let exposed = self.entries.exposed(key, part);
        let settled = exposed.map_or(digest.is_none(), |exposed| exposed.digest == digest);
        if settled {
            self.let_go(key, part);
            return match (exposed, text) {
                (Some(exposed), Some(text)) if !exposed.delivered => Want::Restore(text),
                _ => Want::Settled,
            };
        }
        if let Some(pending) = self.entries.pending_mut(key, part)
            && pending.digest == digest
        {
            pending.number = pending.number.max(number);
            return Want::Pending;
        }
        self.let_go(key, part);
        let stable_at = if text.is_some() { now.after(QUIET) } else { now };
        let wanted = match text {
            None => Wanted::Gone(times.seen_at),
            Some(text) if part == Part::Entry && text.meta.is_none() => self.lay(key, &text, number, times),
            Some(text) => Wanted::Loose(Box::new(Loose { text, times })),
        };
        self.entries.work_mut(key).set_pending(part, Pending { number, wanted, digest, stable_at });
        Want::Pending
    }

    /// Nothing is pending of the part any more.
    fn let_go(&mut self, key: Key, part: Part) {
        let pending = self.entries.work_if(key).and_then(|work| work.take_pending(part));
        if let Some(Pending { wanted: Wanted::Laid { laid, in_tray: true, .. }, .. }) = pending {
            self.tray.remove(laid);
        }
    }

    /// Packs a text of an entry: with the record that isn't open yet, if that won't open without it, else beside the others that wait.
    fn lay(&mut self, key: Key, text: &Text, number: u64, times: Times) -> Wanted {
        let exposed = self.entries.exposed(key, Part::Entry).is_some();
        let version = if exposed { Version::Edit } else { Version::Base };
        let draft = draft(&self.entries, key, version, shown_at(version, Part::Entry, times), text);
        let (laid, in_tray) = match &mut self.opening {
            Some(opening) if Some(number) <= self.c => (opening.lay(&draft), false),
            _ => (self.tray.lay(&draft), true),
        };
        Wanted::Laid { laid, from: text.from, in_tray }
    }

    /// Packs what is packed of an entry once more, as it is to be now. `opened`: the record that is open by now, if what lay with it is meant.
    pub(super) fn lay_again(&mut self, key: Key, opened: Option<&Pile>) {
        let Some(&Pending { number, wanted: Wanted::Laid { laid, in_tray, .. }, .. }) =
            self.entries.pending(key, Part::Entry)
        else {
            return;
        };
        if in_tray && opened.is_some() {
            // It waits outside of the record already.
            return;
        }
        let packed = match opened.or(self.opening.as_ref()).filter(|_| !in_tray) {
            Some(pile) => pile.laid(laid, number),
            None => self.tray.laid(laid, number),
        };
        let Message { from, text, reply_to, at, .. } = packed.message();
        // The time that it shows is the one it was packed with, whichever of the two that was.
        let times = Times { seen_at: at, body_at: Some(at) };
        let wanted = self.lay(key, &Text { from, text, reply_to, meta: None }, number, times);
        if in_tray {
            self.tray.remove(laid);
        }
        if let Some(pending) = self.entries.pending_mut(key, Part::Entry) {
            pending.wanted = wanted;
        }
    }
}

/// An entry's own text on its way to be packed.
pub(super) fn draft<'a>(entries: &'a Entries, key: Key, version: Version, at: Wall, text: &'a Text) -> Draft<'a> {
    Draft {
        seq: entries.seq(key),
        entry: entries.compact_id(key),
        part: Part::Entry,
        version,
        from: text.from,
        at,
        text: &text.text,
        reply_to: text.reply_to.as_ref().map(EntryId::compact),
    }
}

/// The time beside a message: the body's own for what was first said, else when it was seen.
pub(super) fn shown_at(version: Version, part: Part, times: Times) -> Wall {
    match (version, part) {
        (Version::Base, Part::Entry) => times.body_at.unwrap_or(times.seen_at),
        _ => times.seen_at,
    }
}

/// A shared empty text, for deletes.
pub(super) fn empty() -> Arc<str> {
    Arc::from("")
}

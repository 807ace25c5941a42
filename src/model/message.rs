//! What a host reads: messages of a record, exposed and never changed again.

use std::sync::Arc;

use super::ids::push_number;
use super::{Attachment, EntryId, Wall, Widget};

/// What an id is longer than its entry's, at most as a rule: `<generation>:` before it, `:reply:delete:<number>` behind it.
const AROUND_ENTRY: usize = 32;

/// A message of a record as it was exposed. Once a host could read it, it never changes: edits and deletes are messages of their own.
///
/// Order inside a record: by `number`; inside one number deletes, then entries, then answers, each by `seq`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The number of its cursor, within the record's generation. For an edit or a delete it is the number in its id, too.
    pub number: u64,
    /// The row's place, for the order inside one number.
    pub seq: u64,
    /// The entry it comes from.
    pub entry: EntryId,
    /// Which text of the entry.
    pub part: Part,
    /// Base, edit or delete.
    pub version: Version,
    /// Who said it; a delete is from the base's author.
    pub from: Author,
    /// Shown beside it; orders nothing.
    pub at: Wall,
    /// What a person reads; empty for a delete.
    pub text: Arc<str>,
    /// The entry whose base message this one replies to (an answer: its own widget).
    pub reply_to: Option<EntryId>,
    /// What the contract has no field for.
    pub meta: Option<Meta>,
}

impl Message {
    /// Sort key inside a record.
    #[must_use]
    pub fn order(&self) -> (u64, u8, u64) {
        (self.number, Self::class(self.version, self.part), self.seq)
    }

    /// Its place among the messages of one number: deletes, then entries, then answers.
    #[must_use]
    pub fn class(version: Version, part: Part) -> u8 {
        match (version, part) {
            (Version::Delete, _) => 0,
            (_, Part::Entry) => 1,
            (_, Part::Answer) => 2,
        }
    }

    /// The id of the base message that this one is, or is about.
    #[must_use]
    pub fn base(&self, generation: u64) -> String {
        base_id(generation, self.entry.text(&mut [0; _]), self.part)
    }

    /// Its id: `<base>`, `<base>:edit:<number>` or `<base>:delete:<number>`.
    #[must_use]
    pub fn id(&self, generation: u64) -> String {
        version_id(self.base(generation), self.version, self.number)
    }
}

/// The id of an entry's base message: `<generation>:<entryId>`, with `:reply` for its answer. A `:` of the entry id is written `%3A`,
/// so that no entry id can look like another one's edit or answer.
#[must_use]
pub fn base_id(generation: u64, entry: &str, part: Part) -> String {
    let mut id = String::with_capacity(entry.len() + AROUND_ENTRY);
    push_number(&mut id, generation);
    id.push(':');
    if entry.contains(':') {
        id.push_str(&entry.replace(':', "%3A"));
    } else {
        id.push_str(entry);
    }
    match part {
        Part::Entry => {}
        Part::Answer => id.push_str(":reply"),
    }
    id
}

/// The id of a version, from that of its base.
#[must_use]
pub fn version_id(base: String, version: Version, number: u64) -> String {
    let mut id = base;
    id.push_str(match version {
        Version::Base => return id,
        Version::Edit => ":edit:",
        Version::Delete => ":delete:",
    });
    push_number(&mut id, number);
    id
}

/// Which text of an entry a message shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// What the entry says.
    Entry,
    /// The answer to its widget: from the account, mentions the Bot, replies to the widget's message.
    Answer,
}

/// Base, edit or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// The first exposure.
    Base,
    /// A later text.
    Edit,
    /// The entry is gone.
    Delete,
}

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    /// The account itself.
    Account,
    /// The Bot.
    Bot,
}

/// What the contract has no field for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The prompt and the options of a widget.
    Widget(Arc<Widget>),
    /// Name and size of an attachment.
    Attachment(Attachment),
}

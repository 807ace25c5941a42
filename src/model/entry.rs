//! Native transcript rows after conversion: what the service meant, without its spelling.

use std::borrow::Cow;
use std::sync::Arc;

use super::{EntryId, Wall};

/// A native row at one of its versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its place; stable through edits.
    pub seq: u64,
    /// `updatedSeq` of this version.
    pub number: u64,
    /// The envelope's `entryId`; the body's own id goes before it.
    pub entry_id: Option<EntryId>,
    /// What it holds.
    pub body: RowBody,
}

impl Row {
    /// The id of the entry that this row holds: the body's, else the envelope's, else `seq`.
    #[must_use]
    pub fn id(&self) -> Cow<'_, EntryId> {
        let own = match &self.body {
            RowBody::Entry(entry) => entry.id.as_ref(),
            _ => None,
        };
        match own.or(self.entry_id.as_ref()) {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(EntryId::from(self.seq.to_string())),
        }
    }
}

/// The body of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowBody {
    /// Known.
    Entry(Box<Entry>),
    /// The body isn't in the row and must be fetched, because its kind may be a message.
    Unfetched {
        /// Where it is.
        at: BodyRef,
        /// The envelope's `entryKind`, for a body that doesn't name its own.
        kind: Arc<str>,
    },
    /// There is a row, but nothing in it can be a message: a kind that never is one (whether its body came or not), or no body at all.
    Nothing,
    /// A body that couldn't be read: skipped and counted.
    Malformed(Malformed),
}

/// Why a body couldn't be read. Carries the kind alone, never text of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The row's kind, for the log's "once per kind and hour".
    pub kind: Arc<str>,
    /// What was wrong, without content.
    pub reason: &'static str,
}

/// Where an absent body is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodyRef {
    /// In the box store under this hash.
    Blob(Arc<str>),
    /// Cut by the inline limit: the row must be listed again.
    Omitted,
}

/// A row's removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The row's place.
    pub seq: u64,
    /// The number of the removal itself.
    pub number: u64,
    /// The entry, where the service names it.
    pub entry_id: Option<EntryId>,
}

/// A body whose shape was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The body's own `id`.
    pub id: Option<EntryId>,
    /// `timestampMs`.
    pub at: Option<Wall>,
    /// `clientNonce`, non-empty: the `messageId` of a send.
    pub nonce: Option<Arc<str>>,
    /// `role`.
    pub role: Role,
    /// `fromAgent` or `toAgent` is present: traffic between Bots.
    pub between_bots: bool,
    /// An automation field is present: a routine's doing.
    pub automation: bool,
    /// Belongs to a fork.
    pub branched: bool,
    /// `author` is present.
    pub has_author: bool,
    /// `replyToId`, else `replyTo`.
    pub reply_to: Option<EntryId>,
    /// What it says.
    pub content: Content,
}

/// `role`, read tolerantly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// Absent, or a value of a newer server.
    Other,
}

/// What an entry says, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Kind `message`: its `content`.
    Message(Arc<str>),
    /// Kind `send-message`.
    Sent(Card),
    /// Kind `user-attachment`.
    UserAttachment(Attachment),
    /// A kind that is never a message by itself (a tool call, a notice, …) or a newer kind; the text is its `content`, which only a row with a
    /// client nonce shows.
    Other {
        /// The kind as sent.
        kind: Arc<str>,
        /// `content`, where it is a string.
        content: Option<Arc<str>>,
        /// False for a kind of section 7.2 of the wire reference; true for one never heard of, which is counted.
        unknown: bool,
    },
}

/// `send-message` by its `message.type`.
#[derive(Clone, Debug, PartialEq)]
pub enum Card {
    /// `text`.
    Text {
        /// Markdown.
        content: Arc<str>,
        /// Pictures beside it.
        images: Vec<Image>,
    },
    /// `widget`: a question with options.
    Widget(Arc<Widget>),
    /// `attachment`.
    Attachment(Attachment),
    /// A card that can only be handled in Grok Bot: one line that says what is asked for.
    Handled {
        /// What is asked for, a Chinese phrase such as 「请求批准：Run a script」.
        asks: Arc<str>,
    },
    /// A type never heard of.
    Unknown {
        /// `message.type`.
        kind: Arc<str>,
    },
}

/// A picture of a text card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its alternative text.
    pub alt: Option<Arc<str>>,
    /// Its address.
    pub url: Arc<str>,
}

/// A file's card: never a path or a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// File name alone.
    pub name: Arc<str>,
    /// Bytes.
    pub size: Option<u64>,
}

/// A question of the Bot with options, and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widget {
    /// The question.
    pub prompt: Arc<str>,
    /// A line of help.
    pub help: Option<Arc<str>>,
    /// In the order of the service.
    pub options: Vec<WidgetOption>,
    /// `respondedValue`, non-empty.
    pub responded: Option<Arc<str>>,
    /// Dismissed or skipped: it can't be answered any more.
    pub closed: bool,
}

/// One option; `value` is the label where the service gives none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WidgetOption {
    /// What a person reads.
    pub label: Arc<str>,
    /// What the service takes.
    pub value: Arc<str>,
}

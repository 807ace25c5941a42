//! From native rows to record messages: one pure state machine per Bot.
//!
//! It does no I/O, reads no clock and knows nothing of HTTP, JSON-RPC or files: [`Mirror::apply`] takes an [`Input`] at a `now` and gives the
//! [`Effect`]s that follow; [`Mirror::deadline`] says when it wants a [`Input::Tick`] without any input.
//!
//! Invariants, each held by a test in `tests/`:
//! - what an [`Effect::Appended`] or [`Effect::Opened`] shows was committed to the index before;
//! - cursors of appended messages only rise, and never pass a pending entry with a smaller or equal number;
//! - a message id never comes again with another text.

mod activity;
mod batch;
mod dense;
mod entries;
mod expose;
mod order;
mod read;
mod render;
mod rows;
mod table;
mod unit;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

pub use activity::{Notice, SPACING as ACTIVITY_SPACING};
#[cfg(test)]
pub(crate) use batch::testing;
pub use batch::{Batch, Digest, Mark, Marks, PackedMark, Stored};
pub use render::{Rendered, Text, render};

use crate::model::{
    BodyRef, Cursor, Delete, EntryId, Harness, LiveState, Malformed, Message, Messages, Mono, Now, Part, Pile, Row,
    Tray, TurnFailure, Version, Wall, Widget, base_id, version_id,
};
use dense::DenseSet;
use entries::{Entries, Key};
use order::Order;
use unit::Exposed;

/// How long a text must stay unchanged before it is delivered.
pub const QUIET: Duration = Duration::from_secs(1);
/// How long a row waits for its body, from its first version without one.
pub const BODY_WAIT: Duration = Duration::from_mins(1);
/// The same during a Bot's first read, so that the record opens.
pub const BODY_WAIT_OPENING: Duration = Duration::from_secs(10);
/// How long something late waits for another exposure before it takes a number of its own.
pub const LATE_WAIT: Duration = Duration::from_mins(1);
/// Starts of one read whose answers disagreed, before it waits as after an error.
pub const READ_STARTS: u8 = 3;
/// Rows that came before the generation is known are kept up to here; past it the read that is under way starts again and brings them.
const EARLY_ROWS: usize = 20_000;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A full read begins (any earlier one is superseded). `live`: the stream already brings this Bot's rows without a cursor, so all rows of the
    /// read count and nothing is exposed while it runs.
    StartRead {
        /// See above.
        live: bool,
        /// Where the Bot runs, from the roster.
        harness: Harness,
    },
    /// The answer to an [`Effect::ReadPage`].
    Page {
        /// Of which read.
        read: u64,
        /// `None` where absent or 0.
        generation: Option<u64>,
        /// In any order.
        rows: Vec<Row>,
        /// Rows of the page that couldn't be read at all. Then the read proves no delete.
        malformed: usize,
    },
    /// A `rows` frame of the stream.
    Rows {
        /// `None` where absent or 0.
        generation: Option<u64>,
        /// New versions.
        rows: Vec<Row>,
        /// Removals.
        deletes: Vec<Delete>,
    },
    /// A `cleared` frame.
    Cleared {
        /// `newGeneration`; `None` where absent or 0.
        generation: Option<u64>,
    },
    /// A `cursorTooOld` frame.
    CursorTooOld {
        /// `None` where absent or 0.
        generation: Option<u64>,
    },
    /// The stream is lost: live states with it.
    StreamLost,
    /// The live state of the main session; with `snapshot`, `None` says that the snapshot lists none.
    Live {
        /// Whole.
        state: Option<LiveState>,
        /// Whether it is of a snapshot.
        snapshot: bool,
    },
    /// A turn failed.
    TurnFailed(TurnFailure),
    /// The answer to an [`Effect::Fetch`]: the row with its body, or `None` when all tries failed.
    Body {
        /// As asked.
        query: FetchQuery,
        /// The row, with the number that came with it.
        row: Option<Row>,
    },
    /// The index holds a batch.
    Committed {
        /// Which.
        batch: u64,
    },
    /// The index was begun anew: what was committed before isn't in it.
    IndexRenewed,
    /// The deadline came.
    Tick,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// List this page and answer with [`Input::Page`].
    ReadPage(PageQuery),
    /// The answers of three starts disagreed: wait as after an error, then [`Input::StartRead`].
    ReadStalled,
    /// The full read is in.
    ReadDone,
    /// Fetch a body and answer with [`Input::Body`].
    Fetch(FetchQuery),
    /// Commit to the index and answer with [`Input::Committed`]. Batches are committed in the order given; a failed one is tried again.
    Commit(Batch),
    /// The record can be read: all its messages, in order.
    Opened {
        /// The generation.
        generation: u64,
        /// All of them.
        messages: Messages,
        /// `None` where nothing was ever exposed.
        head: Option<u64>,
    },
    /// New messages, all above the old head.
    Appended {
        /// In order.
        messages: Messages,
        /// The new head.
        head: u64,
    },
    /// Messages below the head, under the ids and cursors that they had before the restart: their bodies came late.
    Inserted(Vec<Message>),
    /// All messages are gone; the record can't be read until it opens again.
    Reset {
        /// The new generation.
        generation: u64,
    },
    /// Tell the host.
    Activity(Notice),
    /// A body was given up: for the log and the count.
    Lost {
        /// Its row.
        seq: u64,
    },
    /// A body couldn't be read.
    Skipped(Malformed),
}

/// A page to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Comes back in [`Input::Page`]; a page of a superseded read is thrown away.
    pub read: u64,
    /// Rows below this; `None` is the newest page.
    pub before: Option<u128>,
    /// The generation of the read's first page.
    pub generation: Option<u64>,
}

/// A body to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchQuery {
    /// Of which life of the mirror: an answer for another one is thrown away.
    pub epoch: u64,
    /// The row.
    pub seq: u64,
    /// Its version.
    pub number: u64,
    /// The envelope's id.
    pub entry_id: EntryId,
    /// Where the body is.
    pub at: BodyRef,
    /// The envelope's kind.
    pub kind: Arc<str>,
    /// The generation to list with.
    pub generation: Option<u64>,
}

/// What became of a send, seen from its nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Echo {
    /// No entry with that nonce.
    None,
    /// There is one; it isn't readable yet.
    Seen,
    /// Readable.
    Exposed {
        /// Message id.
        id: String,
        /// Its cursor.
        cursor: Cursor,
    },
}

/// What is known of a widget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WidgetState {
    /// As it is now.
    pub widget: Arc<Widget>,
    /// The answer's message, once readable.
    pub answer: Option<(String, Cursor)>,
}

/// Counts for `doctor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bodies given up.
    pub lost: u64,
    /// Bodies that couldn't be read.
    pub skipped: u64,
}

/// The mirror of one Bot's main session.
#[derive(Debug)]
pub struct Mirror {
    harness: Harness,
    process_start: Wall,
    generation: Option<u64>,
    /// Rises with each reset: what was asked before is thrown away.
    epoch: u64,
    stored: Stored,
    early: Vec<(Vec<Row>, Vec<Delete>)>,

    entries: Entries,
    nonces: HashMap<u128, Key>,
    /// Everything pending, by number, from the end of the first read on.
    order: Order,
    /// Entries that wait for a body, by the moment of their first version without one.
    waiting: BTreeSet<(Mono, Key)>,

    /// The highest number staged; the highest readable.
    staged_head: Option<u64>,
    head: Option<u64>,
    in_flight: Option<InFlight>,
    next_batch: u64,
    clear_owed: bool,
    /// Entries whose marks name an older place, or aren't in the index any more.
    moved: BTreeSet<Key>,
    /// Set until the record opens: what was staged or restored so far. It opens when all of it is committed.
    opening: Option<Pile>,
    /// The texts that wait once it is open.
    tray: Tray,

    read: Option<Read>,
    next_read: u64,
    /// C of the last full read whose first page is in.
    c: Option<u64>,
    /// C up to which all must be exposed before the record opens; set by the first complete read.
    open_at: Option<u64>,
    stream_high: Option<u64>,
    sent_cursor: Option<Cursor>,
    refused: Option<Cursor>,
    /// Whether all that was numbered up to the cursor to resume from is known: a replay from there leaves no gap. False from the moment that the
    /// stream went on from elsewhere until a full read is complete.
    unbroken: bool,

    activity: activity::Board,
    counts: Counts,
    effects: Vec<Effect>,
}

#[derive(Debug)]
struct InFlight {
    batch: u64,
    messages: Messages,
    head: Option<u64>,
}

#[derive(Debug)]
struct Read {
    id: u64,
    live: bool,
    starts: u8,
    /// The mirror's own when it began.
    known: Option<u64>,
    /// Of its pages.
    generation: Option<u64>,
    /// The highest number of its first page.
    c: Option<u64>,
    seen: DenseSet,
    /// Rows of which the stream (or a row listed again for its body) brought something since it began.
    touched: DenseSet,
    /// The highest number of the stream since it began.
    stream_high: Option<u64>,
    before: Option<u128>,
    /// A page held rows that couldn't be read: absence proves nothing.
    torn: bool,
    /// The harness changed: rows of the same number are rendered again.
    render_again: bool,
    /// It waits as after an error; it still holds exposures back where it did.
    stalled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Stream,
    Read,
    Body,
}

impl Mirror {
    /// A mirror that knows nothing but what the index held.
    #[must_use]
    pub fn new(harness: Harness, stored: Stored, process_start: Wall) -> Self {
        Self {
            harness,
            process_start,
            generation: None,
            epoch: 0,
            stored,
            early: Vec::new(),
            entries: Entries::default(),
            nonces: HashMap::new(),
            order: Order::default(),
            waiting: BTreeSet::new(),
            staged_head: None,
            head: None,
            in_flight: None,
            next_batch: 0,
            clear_owed: false,
            moved: BTreeSet::new(),
            opening: Some(Pile::default()),
            tray: Tray::default(),
            read: None,
            next_read: 0,
            c: None,
            open_at: None,
            stream_high: None,
            sent_cursor: None,
            refused: None,
            unbroken: false,
            activity: activity::Board::default(),
            counts: Counts::default(),
            effects: Vec::new(),
        }
    }

    /// Applies one input at `now` and gives what follows from it, in order.
    pub fn apply(&mut self, now: Now, input: Input) -> Vec<Effect> {
        match input {
            Input::StartRead { live, harness } => {
                let changed = self.harness != harness;
                self.harness = harness;
                self.start_read(live, 0, changed);
            }
            Input::Page { read, generation, rows, malformed } => self.page(now, read, generation, rows, malformed),
            Input::Rows { generation, rows, deletes } => self.stream_rows(now, generation, rows, deletes),
            Input::Cleared { generation } => self.cleared(now, generation),
            Input::CursorTooOld { generation } => {
                // A second refusal of the same cursor must not make us forget it.
                self.refused = self.sent_cursor.take().or(self.refused);
                self.cleared(now, generation);
                // The new read's C takes its place.
                self.stream_high = None;
            }
            Input::StreamLost => {
                let notice = self.activity.lose(now.mono);
                self.effects.extend(notice.map(Effect::Activity));
            }
            Input::Live { state, snapshot } => self.activity.live(state.as_ref(), snapshot),
            Input::TurnFailed(failure) => self.activity.turn_failed(failure),
            Input::Body { query, row } => self.body(now, &query, row),
            Input::Committed { batch } => self.committed(batch),
            Input::IndexRenewed => self.mark_again(),
            Input::Tick => {}
        }
        self.advance(now);
        let notice = self.activity.due(now.mono);
        self.effects.extend(notice.map(Effect::Activity));
        std::mem::take(&mut self.effects)
    }

    /// The cursor to resume the stream from, once the first page of this round's read is in. Never above C, so that deletes come with their numbers
    /// and a row that got its number while later pages were fetched is brought by the stream; never one that the service refused.
    pub fn resume(&mut self) -> Option<Cursor> {
        let (generation, c) = (self.generation?, self.c?);
        let from = if self.refused.is_some_and(|refused| refused.generation == generation) {
            self.stream_high
        } else {
            self.stream_high.or(self.head).or_else(|| self.marks_high())
        };
        if from.is_none() && self.read.is_some() {
            // What is numbered below C comes with the rest of the read alone.
            self.unbroken = false;
        }
        let cursor = Cursor { generation, number: from.unwrap_or(c).min(c) };
        self.sent_cursor = Some(cursor).filter(|cursor| Some(*cursor) != self.refused);
        self.sent_cursor
    }

    /// Whether a full read is under way (or waits after disagreeing answers).
    #[must_use]
    pub fn reading(&self) -> bool {
        self.read.is_some()
    }

    /// Whether the first page of the read under way is in; true where none is under way.
    #[must_use]
    pub fn first_page_in(&self) -> bool {
        self.read.as_ref().is_none_or(|read| read.c.is_some())
    }

    /// Whether the read under way counts all rows.
    #[must_use]
    pub fn reading_live(&self) -> bool {
        self.read.as_ref().is_some_and(|read| read.live)
    }

    /// Whether the record can be read.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.opening.is_none()
    }

    /// The generation, once known.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// The head, as far as it is readable.
    #[must_use]
    pub fn head(&self) -> Option<Cursor> {
        Some(Cursor { generation: self.generation?, number: self.head? })
    }

    /// Counts for `doctor`.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What became of the send with this nonce.
    #[must_use]
    pub fn echo(&self, nonce: u128) -> Echo {
        let Some(&key) = self.nonces.get(&nonce) else {
            return Echo::None;
        };
        // The base is the message of the send, whatever becomes of it afterwards; where the record lacks it, what is left of it is.
        match self.base(key).or_else(|| self.latest(key, Part::Entry)) {
            Some((id, cursor)) => Echo::Exposed { id, cursor },
            None if self.entries.exposed(key, Part::Entry).is_some_and(|exposed| exposed.digest.is_some())
                || self.entries.pending(key, Part::Entry).is_some_and(unit::Pending::says) =>
            {
                Echo::Seen
            }
            None => Echo::None,
        }
    }

    /// The widget of an entry, if it has one.
    #[must_use]
    pub fn widget(&self, entry: &EntryId) -> Option<WidgetState> {
        let key = self.entries.find(entry)?;
        let widget = self.entries.work(key)?.widget().cloned()?;
        // An old answer says nothing of the one that is given now.
        let settled = self.entries.pending(key, Part::Answer).is_none();
        Some(WidgetState { widget, answer: settled.then(|| self.latest(key, Part::Answer)).flatten() })
    }

    /// When it wants [`Input::Tick`], at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        [self.activity.deadline(), self.body_deadline(), self.expose_deadline()].into_iter().flatten().min()
    }

    /// The base message of an entry, where a host can read it. It stays readable while a revision of it is pending or committed.
    fn base(&self, key: Key) -> Option<(String, Cursor)> {
        let exposed =
            self.delivered(key, Part::Entry).filter(|exposed| exposed.base && Some(exposed.first) <= self.head)?;
        self.named(key, Part::Entry, Version::Base, exposed.first)
    }

    /// The message that shows the text exposed last, where a host can read it: nothing while that is committed.
    fn latest(&self, key: Key, part: Part) -> Option<(String, Cursor)> {
        let exposed = self.delivered(key, part).filter(|exposed| Some(exposed.highest()) <= self.head)?;
        let (version, number) = exposed.latest();
        self.named(key, part, version, number)
    }

    /// What this process delivered of a text that wasn't deleted since, in a record that can be read.
    fn delivered(&self, key: Key, part: Part) -> Option<Exposed> {
        let exposed = self.entries.exposed(key, part)?;
        (self.ready() && exposed.delivered && exposed.digest.is_some()).then_some(exposed)
    }

    fn named(&self, key: Key, part: Part, version: Version, number: u64) -> Option<(String, Cursor)> {
        let generation = self.generation?;
        let base = base_id(generation, self.entries.compact_id(key).text(&mut [0; _]), part);
        Some((version_id(base, version, number), Cursor { generation, number }))
    }

    fn marks_high(&self) -> Option<u64> {
        let parts = |key| [(key, Part::Entry), (key, Part::Answer)];
        let exposed = |(key, part)| self.entries.exposed(key, part);
        self.entries.keys().flat_map(parts).filter_map(exposed).map(|exposed| exposed.highest()).max()
    }
}

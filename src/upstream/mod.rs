//! What the Grok Bot service means: the calls this program makes, in domain words.
//!
//! [`Upstream`] is the seam between the loop and the service. `http` speaks the real wire through the Connect client, with `wire` (serde) and
//! `convert` (wire to domain) beside it; tests of the loop implement the trait in memory.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oauth2::AccessToken;

mod convert;
pub mod http;
mod wire;

pub use http::{HttpUpstream, Limits};

use crate::model::{AgentId, Bot, Cursor, Delete, EntryId, LiveState, Malformed, Row, RowBody, TurnFailure, Wall};

/// The future of one call. Dropping it gives the call up.
pub type Call<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The calls of the service that this program makes. Each takes the token it is to use; nobody here renews or retries: the loop decides.
///
/// Time limits are the implementation's: 15 s for a read, 20 s for an action, none for a stream as a whole (the loop watches for 60 s without a frame).
pub trait Upstream: Send + Sync + fmt::Debug + 'static {
    /// `DashboardService/GetMe`.
    fn me(&self, token: AccessToken) -> Call<Me>;
    /// `ListGrokBotAgents`, without team agents.
    fn agents(&self, token: AccessToken) -> Call<Roster>;
    /// One page of `ListGrokBotTranscriptEntries`.
    fn entries(&self, token: AccessToken, request: PageRequest) -> Call<Page>;
    /// `WatchGrokBotTranscripts`: resolves when the response head is in.
    fn watch(&self, token: AccessToken, request: WatchRequest) -> Call<Box<dyn Frames>>;
    /// The body stored under a hash (section 8): presign, then a plain GET without credentials. `None` where the object is missing.
    fn blob(&self, token: AccessToken, hash: Arc<str>, kind: Arc<str>) -> Call<Option<RowBody>>;
    /// `SendGrokBotUserMessage`, once.
    fn send(&self, token: AccessToken, request: SendRequest) -> Call<Delivery>;
    /// `GetGrokBotSendStatus`, a pure read.
    fn send_status(&self, token: AccessToken, agent_id: AgentId, message_id: String) -> Call<SendStatus>;
    /// `RespondGrokBotWidget`, once.
    fn respond_widget(&self, token: AccessToken, request: WidgetRequest) -> Call<WidgetAnswer>;
}

/// The future of [`Frames::next`].
pub type Next<'a> = Pin<Box<dyn Future<Output = Result<Option<Vec<Frame>>, Error>> + Send + 'a>>;

/// An open stream.
pub trait Frames: Send + fmt::Debug {
    /// The next frames, one at least: as many as have come. `Ok(None)` is a clean end. Cancel-safe: a dropped `next` loses nothing. After an end or an
    /// error it isn't called again.
    fn next(&mut self) -> Next<'_>;
}

/// The account behind a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Absent or 0 is `None`; its decimal text else.
    pub user_id: Option<String>,
    /// `authId`, non-empty.
    pub auth_id: Option<String>,
    /// First and last name, else e-mail, else `None`.
    pub name: Option<String>,
}

/// The listed Bots. Rooms, team agents and agents without `agentId` are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// In the order of the service.
    pub bots: Vec<Bot>,
    /// Listed agents that couldn't be used (no `agentId`, not an object): counted and logged.
    pub skipped: u64,
    /// The `Date` of the answer, for the clock check of `doctor`.
    pub date: Option<Wall>,
}

/// Which page of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Whose.
    pub agent_id: AgentId,
    /// Omitted for the newest page.
    pub generation: Option<u64>,
    /// Exclusive upper bound of `seq`. `None` is the newest page. u128: the row after `seq` 2^64-1 can be named.
    pub before_seq: Option<u128>,
    /// At most 500.
    pub limit: u32,
}

/// One page, sorted by `seq` descending whatever the service's order was. Trusted for nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// The generation of this answer; `None` where it is absent or 0.
    pub generation: Option<u64>,
    /// Rows that couldn't be read at all.
    pub malformed: Skipped,
}

/// Records that couldn't be read at all. Equal ones next to each other are kept once with their count: a record may be two bytes long,
/// so a list of them must not cost more than it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skipped(Vec<(Malformed, usize)>);

impl Skipped {
    /// One more.
    pub(crate) fn push(&mut self, malformed: Malformed) {
        match self.0.last_mut() {
            Some((last, times)) if *last == malformed => *times += 1,
            _ => self.0.push((malformed, 1)),
        }
    }

    /// Each kind of them, with how often it came.
    pub fn iter(&self) -> impl Iterator<Item = &(Malformed, usize)> {
        self.0.iter()
    }

    /// How many there were in all.
    pub fn count(&self) -> usize {
        self.0.iter().map(|(_, times)| times).sum()
    }
}

/// What the stream is asked for. `includeUnlistedAgents` is always true, `inlineBodyMaxBytes` 262144.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// At most 256.
    pub cursors: Vec<(AgentId, Cursor)>,
}

/// One frame of the stream. Rows, clears and refused cursors of another than the native main session are left out by the conversion.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The stream is up.
    Connected {
        /// The server's clock.
        server_time: Option<Wall>,
        /// When the server will close cleanly.
        lifetime: Option<Duration>,
    },
    /// Changes of one Bot's main session.
    Rows {
        /// Whose.
        agent_id: AgentId,
        /// `None` where 0 or absent: the current one.
        generation: Option<u64>,
        /// New versions of rows.
        rows: Vec<Row>,
        /// Removed rows.
        deletes: Vec<Delete>,
        /// Rows that couldn't be read at all.
        malformed: Skipped,
    },
    /// The history was cleared.
    Cleared {
        /// Whose.
        agent_id: AgentId,
        /// `None` where absent or 0.
        generation: Option<u64>,
    },
    /// The cursor was refused.
    CursorTooOld {
        /// Whose.
        agent_id: AgentId,
        /// `None` where absent or 0.
        generation: Option<u64>,
    },
    /// Alive.
    Heartbeat,
    /// Live states.
    AgentState {
        /// True: all others are idle.
        snapshot: bool,
        /// Whole states of main sessions.
        live: Vec<(AgentId, LiveState)>,
    },
    /// A turn failed.
    TurnFailed {
        /// Whose.
        agent_id: AgentId,
        /// Why.
        failure: TurnFailure,
    },
    /// List the Bots again.
    RosterChanged,
    /// A kind this program has no use for, or a newer one.
    Other {
        /// Its name.
        kind: Arc<str>,
        /// True for a kind never heard of.
        unknown: bool,
    },
    /// A frame of a known kind that couldn't be read: skipped and counted.
    Malformed(Malformed),
}

/// A message to a Bot's main session.
#[derive(Clone, PartialEq, Eq)]
pub struct SendRequest {
    /// To whom.
    pub agent_id: AgentId,
    /// The idempotency key; comes back as the echo's client nonce.
    pub message_id: String,
    /// The text.
    pub text: Arc<str>,
    /// When it was written.
    pub sent_at: Wall,
    /// The native id of the entry it replies to.
    pub reply_to: Option<EntryId>,
}

impl fmt::Debug for SendRequest {
    // The text is a person's (and for `bind` holds a code): never in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRequest")
            .field("agent_id", &self.agent_id)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

/// The service's word on a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Accepted, or a duplicate of an accepted one.
    Accepted,
    /// Final.
    Refused {
        /// `refusal.failureCode`.
        code: String,
    },
    /// An answer that says neither.
    Unclear,
}

/// The service's word on an earlier send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStatus {
    /// Never arrived.
    NotFound,
    /// Refused.
    Rejected,
    /// Accepted, pending, of unknown durability or a newer value.
    Other,
}

/// An answer to a widget.
#[derive(Clone, PartialEq, Eq)]
pub struct WidgetRequest {
    /// Whose widget.
    pub agent_id: AgentId,
    /// The widget's entry.
    pub entry_id: EntryId,
    /// The option's value.
    pub value: Arc<str>,
}

impl fmt::Debug for WidgetRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WidgetRequest")
            .field("agent_id", &self.agent_id)
            .field("entry_id", &self.entry_id)
            .finish_non_exhaustive()
    }
}

/// The service's word on a widget answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WidgetAnswer {
    /// Taken.
    Accepted,
    /// Refused.
    Refused {
        /// `refusal.failureCode`.
        code: String,
    },
    /// `{}` or anything else.
    Unclear,
}

/// Why a call failed, classified; who called decides what follows.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Error {
    /// The class.
    pub kind: ErrorKind,
    /// For the log: codes and causes, never a token, a URL with a query, or a body.
    pub detail: String,
}

/// The classes of failed calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// HTTP 401, or `unauthenticated` in an answer or an end frame: nothing was done.
    #[error("not authenticated")]
    Auth,
    /// Answered with an error that may pass.
    #[error("transient")]
    Transient {
        /// The server's Retry-After.
        retry_after: Option<Duration>,
    },
    /// Answered with an error that proves that nothing was done: `invalid_argument`, `permission_denied`, `unimplemented`, `out_of_range`.
    #[error("refused")]
    Refused,
    /// As [`ErrorKind::Refused`], because what it was meant for is gone or not in that state any more: `failed_precondition`, `not_found`.
    #[error("refused: gone or changed")]
    Stale,
    /// Answered with another error.
    #[error("permanent")]
    Permanent,
    /// No connection was made: not a byte was sent.
    #[error("not sent")]
    NotSent,
    /// The connection broke, timed out, a stream ended without its end frame, or an answer can't be read: nobody knows what was done.
    #[error("connection broken")]
    Broken,
}

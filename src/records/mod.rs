//! The record provider as a host sees it: a cheap handle that reads from memory, feeds changes and takes commands.
//!
//! Two sides: [`Handle`] for hosts (read, feed, post, sign-in commands) and [`Publisher`] for the loop. The state between them is behind one std
//! `Mutex`, held for moments and never across an await. Hosts never wait for the loop to read.

mod feed;
mod ids;
mod log;
mod provider;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::model::{Activity, Bot, EntryId, Part, RecordId, Wall};

pub use feed::{Mark, Notice, StatusView};
pub use ids::{bot_id, container_id, record_id, self_id};
pub use log::{PAGE_BYTES, Page, Span, Transcript};
pub use provider::{Bound, Feed, Gone, Handle, Place, PostRefusal, PostRequest, Publisher, ReadError, RecordView, new};

/// What the resource page shows of the sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Where it stands.
    pub state: SignInState,
    /// Who is signed in (digest and name).
    pub account: Option<crate::model::Account>,
    /// One sentence for a person, in Chinese.
    pub message: Option<String>,
}

/// The states of the sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInState {
    /// Nobody.
    SignedOut,
    /// A link waits for its confirmation.
    Confirming {
        /// The link.
        url: String,
        /// Its end.
        expires_at: Wall,
    },
    /// Signed in.
    SignedIn,
    /// Renewal failed for good.
    SignInAgain,
}

/// A record without its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// Its id.
    pub id: RecordId,
    /// Its Bot.
    pub bot: Bot,
    /// The account it belongs to.
    pub account: crate::model::Account,
}

/// Why a record was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The Bot is gone from a complete list.
    Deleted,
    /// Another account.
    Account,
    /// Signed out.
    SignedOut,
}

/// What the removal or the change of an activity carries besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityNotice {
    /// `None`: nothing is shown any more.
    pub activity: Option<Activity>,
    /// The failure that ended the turn, with a removal.
    pub failure: Option<crate::model::TurnFailure>,
}

/// What a reply answers, resolved from a message id that the record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTarget {
    /// The entry.
    pub entry: EntryId,
    /// Whether the answer of the entry's widget was named.
    pub part: Part,
}

/// What hosts ask of the loop.
pub enum Command {
    /// Send a text to a Bot; `settle` gets the outcome exactly once (a dropped sender counts as unknown).
    Post {
        /// To which record.
        record: RecordId,
        /// The idempotency key (POST1, or a fresh UUID for `bind`).
        message_id: uuid::Uuid,
        /// The text.
        text: Arc<str>,
        /// What it replies to.
        reply_to: Option<ReplyTarget>,
        /// Where the outcome goes.
        settle: oneshot::Sender<Outcome>,
    },
    /// Begin a sign-in, or give the pending one's link.
    SignIn(oneshot::Sender<Result<Link, String>>),
    /// Cancel the pending sign-in, if any.
    CancelSignIn(oneshot::Sender<()>),
    /// Delete the tokens and withdraw all.
    SignOut(oneshot::Sender<Result<(), String>>),
    /// Stop: settle posts, close streams, flush the index; answered when that is done.
    Shutdown(oneshot::Sender<()>),
    /// The state of the stream and the mirrors, for `doctor`.
    Diagnose(oneshot::Sender<Diagnosis>),
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Post { .. } => "Post",
            Self::SignIn(_) => "SignIn",
            Self::CancelSignIn(_) => "CancelSignIn",
            Self::SignOut(_) => "SignOut",
            Self::Shutdown(_) => "Shutdown",
            Self::Diagnose(_) => "Diagnose",
        })
    }
}

/// A sign-in link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// For the browser.
    pub url: String,
    /// When it ends.
    pub expires_at: Wall,
}

/// How a post ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its echo (or the widget's answer) is readable.
    Completed {
        /// The message's id.
        id: String,
        /// Its cursor.
        cursor: crate::model::Cursor,
    },
    /// It failed.
    Failed(Failure),
}

/// Why a post failed. Only `Unknown` leaves open whether something was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody can be sure.
    Unknown,
    /// The service refused it.
    Refused,
    /// Nobody is signed in.
    SignedOut,
    /// It never left.
    NotSent,
    /// The widget can't be answered (any more).
    WidgetClosed,
}

/// Facts for `doctor`: no text, no token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Whether the Bots were listed since the account is known.
    pub listed: bool,
    /// One line a Bot.
    pub bots: Vec<BotDiagnosis>,
    /// Whether the stream is up.
    pub connected: bool,
    /// When the last frame came.
    pub last_frame: Option<Wall>,
    /// How often the stream was opened again.
    pub reconnects: u64,
    /// Rows and frames skipped as malformed or unknown.
    pub skipped: u64,
    /// Bodies lost.
    pub lost: u64,
    /// Server time minus ours, milliseconds, at the last answer that carried it.
    pub clock_skew_ms: Option<i64>,
    /// What is wrong now, short, for the log.
    pub problem: Option<String>,
}

/// Facts about one Bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotDiagnosis {
    /// Its record.
    pub record: RecordId,
    /// Its generation, once known.
    pub generation: Option<u64>,
    /// The head.
    pub head: Option<crate::model::Cursor>,
    /// Messages held.
    pub messages: u64,
    /// Whether it can be read.
    pub ready: bool,
}

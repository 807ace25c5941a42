//! What goes wrong with a call of the service: it is slow, held, lost, answered otherwise or not at all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::model::AgentId;
use crate::upstream::{
    Delivery, Error, ErrorKind, Page, PageRequest, Roster, SendRequest, SendStatus, WatchRequest, WidgetAnswer,
    WidgetRequest,
};

/// A call as the service saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Me,
    Agents,
    Entries(PageRequest),
    Watch(WatchRequest),
    Blob(Arc<str>),
    Send(SendRequest),
    Status(AgentId, String),
    Widget(WidgetRequest),
}

impl Request {
    pub(crate) fn agent(&self) -> Option<&str> {
        match self {
            Self::Entries(page) => Some(page.agent_id.as_str()),
            Self::Send(send) => Some(send.agent_id.as_str()),
            Self::Status(agent, _) => Some(agent.as_str()),
            Self::Widget(widget) => Some(widget.agent_id.as_str()),
            Self::Me | Self::Agents | Self::Watch(_) | Self::Blob(_) => None,
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::Entries(_))
    }

    pub(crate) fn is_send(&self) -> bool {
        matches!(self, Self::Send(_))
    }

    pub(crate) fn is_watch(&self) -> bool {
        matches!(self, Self::Watch(_))
    }

    pub(crate) fn is_status(&self) -> bool {
        matches!(self, Self::Status(..))
    }

    pub(crate) fn is_widget(&self) -> bool {
        matches!(self, Self::Widget(_))
    }
}

/// How long something waits.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    For(Duration),
    /// Until the test lets one through.
    Gate(Gate),
    Ever,
}

impl Wait {
    pub(super) async fn pass(self) {
        match self {
            Self::For(time) => tokio::time::sleep(time).await,
            Self::Gate(gate) => gate.0.acquire().await.unwrap().forget(),
            Self::Ever => std::future::pending().await,
        }
    }
}

/// Holds calls until [`Gate::open`].
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets every call through that waits or will come.
    pub(crate) fn open(&self) {
        self.0.add_permits(10_000);
    }
}

/// Another answer than the service's own.
#[derive(Clone)]
pub(crate) enum Answer {
    Error(Error),
    Roster(Roster),
    Page(Arc<dyn Fn(Page) -> Page + Send + Sync>),
    Delivery(Delivery),
    Status(SendStatus),
    Widget(WidgetAnswer),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// What goes wrong with calls that match, `times` times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault {
    /// Before the service does anything.
    pub(super) before: Option<Wait>,
    /// After it did, before the answer.
    pub(super) after: Option<Wait>,
    /// The call isn't carried out; only the other answer comes.
    pub(super) not_done: bool,
    pub(super) answer: Option<Answer>,
    pub(super) times: Option<u32>,
}

impl Fault {
    /// Answered with an error; nothing is done.
    pub(crate) fn error(kind: ErrorKind) -> Self {
        Self { not_done: true, answer: Some(Answer::Error(error(kind))), ..Self::default() }
    }

    /// Carried out, but the caller gets an error.
    pub(crate) fn done_but(kind: ErrorKind) -> Self {
        Self { answer: Some(Answer::Error(error(kind))), ..Self::default() }
    }

    /// Answered otherwise; nothing is done.
    pub(crate) fn answer(answer: Answer) -> Self {
        Self { not_done: true, answer: Some(answer), ..Self::default() }
    }

    /// Carried out, but answered otherwise.
    pub(crate) fn done_answering(answer: Answer) -> Self {
        Self { answer: Some(answer), ..Self::default() }
    }

    /// The page is changed on its way.
    pub(crate) fn page(change: impl Fn(Page) -> Page + Send + Sync + 'static) -> Self {
        Self { answer: Some(Answer::Page(Arc::new(change))), ..Self::default() }
    }

    /// The service takes its time before it looks.
    pub(crate) fn slow(time: Duration) -> Self {
        Self { before: Some(Wait::For(time)), ..Self::default() }
    }

    /// The answer is made at once and comes late.
    pub(crate) fn late(time: Duration) -> Self {
        Self { after: Some(Wait::For(time)), ..Self::default() }
    }

    /// Nothing happens before the gate opens.
    pub(crate) fn held(gate: &Gate) -> Self {
        Self { before: Some(Wait::Gate(gate.clone())), ..Self::default() }
    }

    /// The answer waits for the gate.
    pub(crate) fn answer_held(gate: &Gate) -> Self {
        Self { after: Some(Wait::Gate(gate.clone())), ..Self::default() }
    }

    /// Never answered.
    pub(crate) fn hangs() -> Self {
        Self { before: Some(Wait::Ever), ..Self::default() }
    }

    /// Some of them, once or a few times.
    pub(crate) fn any(rng: &mut fastrand::Rng) -> Self {
        let fault = match rng.u8(0..6) {
            0 => Self::slow(Duration::from_millis(rng.u64(0..6_000))),
            1 => Self::late(Duration::from_millis(rng.u64(0..6_000))),
            // What never left can't have been done.
            2 => Self::done_but([ErrorKind::Broken, ErrorKind::Permanent, transient(None)][rng.usize(..3)].clone()),
            3 => Self::error(any_error(rng)).and_late(Duration::from_millis(rng.u64(0..3_000))),
            _ => Self::error(any_error(rng)),
        };
        fault.times(rng.u32(1..4))
    }

    pub(crate) fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    pub(crate) fn once(self) -> Self {
        self.times(1)
    }

    /// Besides: the answer comes late.
    pub(crate) fn and_late(self, time: Duration) -> Self {
        Self { after: Some(Wait::For(time)), ..self }
    }
}

pub(crate) fn error(kind: ErrorKind) -> Error {
    Error { kind, detail: "scripted".to_owned() }
}

/// Some error of a call.
pub(crate) fn any_error(rng: &mut fastrand::Rng) -> ErrorKind {
    match rng.u8(0..5) {
        0 => ErrorKind::NotSent,
        1 => ErrorKind::Broken,
        2 => ErrorKind::Permanent,
        3 => transient(Some(rng.u64(0..20))),
        _ => transient(None),
    }
}

pub(crate) fn transient(retry_after: Option<u64>) -> ErrorKind {
    ErrorKind::Transient { retry_after: retry_after.map(Duration::from_secs) }
}

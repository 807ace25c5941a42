//! One session: the life of one connection with a host, as one actor.
//!
//! Everything that can wake it is an [`Event`]; [`Session::next`] only selects, [`Session::handle`] only reacts. What goes to the host is pulled when
//! the transport has room: answers first, then settles and notices in the order that the feed gives them. Notices are never stored here, so a host
//! that doesn't read costs its own answers and settles, and past 16 MiB of those it isn't read either until they are gone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id as TaskId, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::bind::{Ask, Binder};
use super::failure::Failure;
use super::methods::{self, Answer, Reply};
use super::outbox::Outbox;
use super::{Incoming, Transport, convert, texts, wire};
use crate::model::RecordId;
use crate::records::{self, Feed, Handle, Notice, Outcome};
use crate::rpc::{self, ErrorObject, Id, Message, Pending};

/// How long the loop may take to stop.
const STOP: Duration = Duration::from_secs(5);
/// How long answers and settles may take once the loop has stopped; by then each outcome is on its way.
const SETTLE: Duration = Duration::from_secs(1);
/// How long everything may take once the connection or the process ends: with the flush after it this stays within two seconds.
const LEAVE: Duration = Duration::from_millis(1500);

/// What a session needs besides its transport.
#[derive(Debug)]
pub struct Config<R> {
    /// Whether the provider lives and dies with this session.
    pub role: Role,
    /// Resolves when the folder's lock is ours, or given up. Polled from the answer to `initialize` on, so a lazy future starts then.
    pub ready: R,
    /// Cancelled by SIGTERM, SIGINT and SIGHUP: as `shutdown`, and the session ends without waiting for the host.
    pub stop: CancellationToken,
}

/// Whether the provider lives and dies with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `shutdown` and the end of the connection stop the provider.
    Owner,
    /// They end the session alone.
    Guest,
}

/// The folder belongs to another provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// One sentence for a person, in Chinese: who holds it.
    pub message: String,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The host closed the connection, after `shutdown` or without it.
    Closed,
    /// The process is to stop.
    Stopped,
    /// The folder's lock was given up: a failure, exit code 1.
    GivenUp(Unavailable),
    /// What there was to tell couldn't be written, and not because the host had gone: a failure, exit code 1.
    Unwritten(String),
}

/// Runs a session until its end. Every request gets exactly one response and every run one settle, as long as the host reads.
///
/// The provider is stopped (by an [`Role::Owner`]) before this resolves. Dropping it drops what is under way: nobody is told.
pub async fn run<R>(transport: Transport, config: Config<R>) -> End
where
    R: Future<Output = Result<Handle, Unavailable>>,
{
    let Transport { incoming, outgoing } = transport;
    let (asks, asked) = mpsc::channel(16);
    let stopping = CancellationToken::new();
    let session = Session {
        role: config.role,
        initialized: false,
        handle: None,
        feed: None,
        open_runs: vec![],
        held: VecDeque::new(),
        outbox: Outbox::new(outgoing),
        tasks: JoinSet::new(),
        owed: HashMap::new(),
        runs: HashSet::new(),
        pending: Pending::default(),
        binder: Binder::new(asks, stopping.clone()),
        stopping,
        stop: Stop::No,
        settle_by: None,
        leaving: None,
        leave_by: None,
    };
    let sources = Sources { incoming, asked, ready: Box::pin(config.ready), ready_done: false, stop: config.stop };
    session.run(sources).await
}

/// Where events come from.
struct Sources<R> {
    incoming: mpsc::Receiver<Incoming>,
    asked: mpsc::Receiver<Ask>,
    ready: Pin<Box<R>>,
    ready_done: bool,
    stop: CancellationToken,
}

/// Everything that can wake a session.
enum Event {
    /// From the host; `None` is its end.
    Incoming(Option<Incoming>),
    /// The lock is ours, or given up.
    Ready(Result<Handle, Unavailable>),
    /// The transport takes a text; `None`: it never will again.
    Room(Option<mpsc::OwnedPermit<String>>),
    /// The feed has something: room is asked for next.
    Stirred,
    /// A task has ended.
    Done(Result<(TaskId, Finished), JoinError>),
    /// A request of ours to the host.
    Ask(Ask),
    /// The process is to stop.
    Stop,
    /// A limit may have passed.
    Tick,
}

/// What a task ends with.
enum Finished {
    Answer(Answer),
    Outcome(Outcome),
    LoopStopped,
}

/// What the host is owed when a task ends, even where it panics.
enum Owed {
    Answer(Id),
    /// The run, and where it posts.
    Settle(String, RecordId),
}

impl Owed {
    fn bytes(&self) -> usize {
        match self {
            Self::Answer(id) => id.size(),
            Self::Settle(run, _) => run.len(),
        }
    }
}

/// A request that waits for the folder's lock.
struct Held {
    id: Id,
    method: String,
    params: Option<Box<RawValue>>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.id.size() + self.params.as_ref().map_or(0, |params| params.get().len())
    }
}

/// How far stopping is. The id is that of the `shutdown` that asked for it.
enum Stop {
    No,
    /// The loop is stopping.
    Loop(Option<Id>),
    /// It has stopped; answers and settles are coming in.
    Settling(Option<Id>),
    Done,
}

struct Session {
    role: Role,
    initialized: bool,
    handle: Option<Handle>,
    feed: Option<Feed>,
    open_runs: Vec<String>,
    held: VecDeque<Held>,
    outbox: Outbox,
    tasks: JoinSet<Finished>,
    owed: HashMap<TaskId, Owed>,
    /// Not settled yet.
    runs: HashSet<String>,
    pending: Pending<oneshot::Sender<Result<Box<RawValue>, ErrorObject>>>,
    binder: Binder,
    stopping: CancellationToken,
    stop: Stop,
    settle_by: Option<Instant>,
    leaving: Option<End>,
    leave_by: Option<Instant>,
}

impl Session {
    async fn run<R>(mut self, mut sources: Sources<R>) -> End
    where
        R: Future<Output = Result<Handle, Unavailable>>,
    {
        loop {
            if let Some(end) = self.ended() {
                return end;
            }
            let event = self.next(&mut sources).await;
            self.handle(event);
            self.settle_stop();
            self.outbox.judge(!self.held.is_empty());
        }
    }

    /// Waits for the next event. Every branch is cancel-safe: channels, a feed that keeps what it hasn't given, a lock future that is kept.
    ///
    /// The order is written down, so that the same happenings always have the same consequences. What the host can fill comes last; a host that
    /// always reads leaves room for it all the same, because the transport holds one text.
    async fn next<R>(&mut self, sources: &mut Sources<R>) -> Event
    where
        R: Future<Output = Result<Handle, Unavailable>>,
    {
        let listening = self.leaving.is_none() && !self.outbox.blocked;
        let waiting = self.initialized && !sources.ready_done && self.leaving.is_none();
        let telling = self.leaving.is_none() && self.feed.is_some();
        let writing = !self.outbox.is_empty() || (telling && self.feed.as_ref().is_some_and(|feed| !feed.is_empty()));
        let tick = [self.settle_by, self.leave_by].into_iter().flatten().min();
        let feed = &mut self.feed;
        tokio::select! {
            biased;
            () = sources.stop.cancelled(), if self.leaving.is_none() => Event::Stop,
            () = until(tick) => Event::Tick,
            ready = sources.ready.as_mut(), if waiting => {
                sources.ready_done = true;
                Event::Ready(ready)
            }
            Some(done) = self.tasks.join_next_with_id() => Event::Done(done),
            Some(ask) = sources.asked.recv() => Event::Ask(ask),
            permit = self.outbox.outgoing.clone().reserve_owned(), if writing => Event::Room(permit.ok()),
            // Nobody may write for a long while: a host that has stopped reading for good is found out all the same.
            () = self.outbox.outgoing.closed(), if self.leaving.is_none() => Event::Room(None),
            () = stirred(feed), if telling && !writing => Event::Stirred,
            message = sources.incoming.recv(), if listening => Event::Incoming(message),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Incoming(Some(Incoming::Text(text))) => match rpc::parse(&text) {
                Ok(message) => self.message(message),
                Err(reject) => self.outbox.answer(Failure::from(reject.fault).answer(&reject.id)),
            },
            Event::Incoming(Some(Incoming::Unreadable(fault))) => {
                self.outbox.answer(Failure::from(fault).answer(&Id::null()));
            }
            Event::Incoming(None) => self.leave(End::Closed),
            Event::Ready(Ok(handle)) => self.open(handle),
            Event::Ready(Err(unavailable)) => {
                let failure = Failure::new(wire::ErrorKind::NotReady, unavailable.message.as_str());
                self.refuse_held(&failure);
                self.leave(End::GivenUp(unavailable));
            }
            Event::Room(Some(permit)) => {
                if let Some(text) = self.next_text() {
                    permit.send(text);
                }
            }
            Event::Room(None) => {
                self.outbox.deafen();
                self.leave(End::Closed);
            }
            Event::Stirred => {}
            Event::Done(done) => self.done(done),
            Event::Ask(ask) => {
                // Whoever gave up waiting needs no answer any more.
                self.pending.retain(|waiter| !waiter.is_closed());
                let id = self.pending.register(ask.answer);
                self.outbox.answer(rpc::request(id, ask.method, &ask.params));
            }
            Event::Stop => self.leave(End::Stopped),
            Event::Tick => self.tick(),
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Request { id, method, params } => self.request(id, method, params),
            Message::Notification { method, .. } => tracing::debug!(method, "a notification without a use"),
            Message::Response { id, result } => {
                // A waiter that has just given up is as good as none.
                let taken = self.pending.complete(&id).map(|waiter| waiter.send(result).is_ok());
                if taken != Some(true) {
                    tracing::debug!(%id, "a response to nothing");
                }
            }
        }
    }

    fn request(&mut self, id: Id, method: String, params: Option<Box<RawValue>>) {
        let refusal = if !matches!(self.stop, Stop::No) {
            Some(Failure::new(wire::ErrorKind::InvalidRequest, texts::STOPPING))
        } else if method == wire::method::INITIALIZE {
            if self.initialized {
                Some(Failure::new(wire::ErrorKind::InvalidRequest, texts::INITIALIZED_ALREADY))
            } else {
                return self.initialize(&id, params.as_deref());
            }
        } else if !self.initialized {
            Some(Failure::new(wire::ErrorKind::NotInitialized, texts::NOT_INITIALIZED))
        } else if method == wire::method::SHUTDOWN {
            match methods::no_params(params.as_deref()) {
                Ok(()) => return self.begin_stop(Some(id)),
                Err(failure) => Some(failure),
            }
        } else if !methods::known(&method) {
            Some(Failure::new(wire::ErrorKind::MethodNotFound, texts::UNKNOWN_METHOD))
        } else {
            None
        };
        if let Some(failure) = refusal {
            return self.outbox.answer(failure.answer(&id));
        }
        if self.handle.is_none() {
            let held = Held { id, method, params };
            self.outbox.hold(held.bytes());
            self.held.push_back(held);
        } else {
            self.carry_out(id, &method, params.as_deref());
        }
    }

    fn initialize(&mut self, id: &Id, params: Option<&RawValue>) {
        match methods::initialize(params) {
            Ok(open_runs) => {
                self.initialized = true;
                self.open_runs = open_runs;
                self.answer(id, methods::initialized());
            }
            Err(failure) => self.outbox.answer(failure.answer(id)),
        }
    }

    /// The provider is there: open runs are settled, held requests answered, and the notices begin.
    fn open(&mut self, handle: Handle) {
        self.settle_open_runs();
        self.feed = Some(handle.feed());
        self.handle = Some(handle);
        for held in std::mem::take(&mut self.held) {
            self.outbox.release(held.bytes());
            self.carry_out(held.id, &held.method, held.params.as_deref());
        }
    }

    /// Settles what the host held unfinished when it came.
    fn settle_open_runs(&mut self) {
        for run in std::mem::take(&mut self.open_runs) {
            // Before a restart it may have been sent or not, and nothing is sent again.
            let outcome = Outcome::Failed(records::Failure::Unknown);
            let settled = convert::settled(run, outcome);
            self.outbox.answer(rpc::notification(wire::method::RUN_SETTLED, &settled));
        }
    }

    fn refuse_held(&mut self, failure: &Failure) {
        for held in std::mem::take(&mut self.held) {
            self.outbox.release(held.bytes());
            self.outbox.answer(failure.answer(&held.id));
        }
    }

    fn carry_out(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        let Some(handle) = &self.handle else {
            return self.answer(&id, Err(Failure::internal()));
        };
        match methods::call(handle, &self.binder, &self.runs, method, params) {
            Reply::Now(answer) => self.answer(&id, answer),
            Reply::Later(answer) => {
                let task = self.tasks.spawn(async move { Finished::Answer(answer.await) });
                self.owe(task.id(), Owed::Answer(id));
            }
            Reply::Run { run, record, outcome } => {
                self.answer(&id, methods::accepted());
                self.runs.insert(run.clone());
                let task = self.tasks.spawn(async move {
                    // A loop that dropped it may have sent it.
                    Finished::Outcome(outcome.await.unwrap_or(Outcome::Failed(records::Failure::Unknown)))
                });
                self.owe(task.id(), Owed::Settle(run, record));
            }
        }
    }

    /// A request under way weighs until its task ends: a host that asks for more and more isn't read after a while.
    fn owe(&mut self, task: TaskId, owed: Owed) {
        self.outbox.hold(owed.bytes());
        self.owed.insert(task, owed);
    }

    fn done(&mut self, done: Result<(TaskId, Finished), JoinError>) {
        let (task, finished) = match done {
            Ok((task, finished)) => (task, Some(finished)),
            Err(error) => {
                if error.is_panic() {
                    tracing::error!("a task of a session panicked");
                }
                (error.id(), None)
            }
        };
        let owed = self.owed.remove(&task);
        if let Some(owed) = &owed {
            self.outbox.release(owed.bytes());
        }
        match (owed, finished) {
            (Some(Owed::Answer(id)), Some(Finished::Answer(answer))) => self.answer(&id, answer),
            (Some(Owed::Answer(id)), _) => self.answer(&id, Err(Failure::internal())),
            (Some(Owed::Settle(run, record)), Some(Finished::Outcome(outcome))) => self.settle(run, &record, outcome),
            (Some(Owed::Settle(run, record)), _) => {
                self.settle(run, &record, Outcome::Failed(records::Failure::Unknown));
            }
            // The only task that owes nothing is the one that stops the loop; one that was given up has been answered.
            (None, Some(Finished::LoopStopped)) => self.loop_stopped(),
            (None, _) => {}
        }
    }

    fn answer(&mut self, id: &Id, answer: Answer) {
        self.outbox.answer(match answer {
            Ok(result) => rpc::response(id, &result),
            Err(failure) => failure.answer(id),
        });
    }

    /// Settles a run behind everything that the feed holds now: the head that covers its cursor was published before its outcome was told.
    ///
    /// A repeat of what had been posted before this host came is complete at once, and the head that covers it may have come with the record alone:
    /// then it is told for the settle's sake.
    fn settle(&mut self, run: String, record: &RecordId, outcome: Outcome) {
        self.runs.remove(&run);
        if let (Outcome::Completed { .. }, Some(feed)) = (&outcome, &self.feed) {
            feed.tell_head(record);
        }
        let settled = convert::settled(run, outcome);
        let text = rpc::notification(wire::method::RUN_SETTLED, &settled);
        self.outbox.behind_feed(self.feed.as_ref().and_then(Feed::mark), text);
    }

    /// The next text for the host.
    fn next_text(&mut self) -> Option<String> {
        if let Some(text) = self.outbox.next_answer() {
            return Some(text);
        }
        let feed = self.feed.as_mut();
        let Some(feed) = feed else {
            return self.outbox.next_behind_feed(|_| true);
        };
        if let Some(text) = self.outbox.next_behind_feed(|mark| feed.passed(mark)) {
            return Some(text);
        }
        feed.try_next().map(notice_text)
    }

    /// Begins to stop: for the owner the loop first, so that posts are settled; then what is still owed.
    fn begin_stop(&mut self, request: Option<Id>) {
        self.stopping.cancel();
        // Where the folder never became ours they are settled all the same.
        self.settle_open_runs();
        self.refuse_held(&Failure::new(wire::ErrorKind::NotReady, texts::STOPPING));
        let owned = self.handle.clone().filter(|_| self.role == Role::Owner);
        if let Some(handle) = owned {
            self.stop = Stop::Loop(request);
            self.tasks.spawn(async move {
                // A loop that has stopped already is as good; one that doesn't stop must not keep the process.
                if timeout(STOP, handle.shutdown()).await.is_err() {
                    tracing::error!("the provider doesn't stop");
                }
                Finished::LoopStopped
            });
        } else {
            self.stop = Stop::Settling(request);
            self.settle_by = Some(Instant::now() + SETTLE);
        }
    }

    fn loop_stopped(&mut self) {
        if let Stop::Loop(request) = &mut self.stop {
            self.stop = Stop::Settling(request.take());
            self.settle_by = Some(Instant::now() + SETTLE);
        }
    }

    /// Once nothing is owed any more, `shutdown` is answered behind all settles.
    fn settle_stop(&mut self) {
        if !self.owed.is_empty() {
            return;
        }
        if let Stop::Settling(request) = &mut self.stop {
            if let Some(id) = request.take() {
                let text = rpc::response(&id, &methods::nothing());
                self.outbox.behind_feed(self.feed.as_ref().and_then(Feed::mark), text);
            }
            self.stop = Stop::Done;
            self.settle_by = None;
        }
    }

    fn leave(&mut self, end: End) {
        self.leaving.get_or_insert(end);
        self.leave_by.get_or_insert_with(|| Instant::now() + LEAVE);
        if matches!(self.stop, Stop::No) {
            self.begin_stop(None);
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.settle_by.is_some_and(|by| by <= now) {
            self.settle_by = None;
            self.tasks.abort_all();
            for (_, owed) in std::mem::take(&mut self.owed) {
                self.outbox.release(owed.bytes());
                match owed {
                    Owed::Answer(id) => self.answer(&id, Err(Failure::internal())),
                    Owed::Settle(run, record) => {
                        self.settle(run, &record, Outcome::Failed(records::Failure::Unknown));
                    }
                }
            }
        }
    }

    fn ended(&mut self) -> Option<End> {
        self.leaving.as_ref()?;
        let done = matches!(self.stop, Stop::Done) && self.outbox.is_empty();
        let late = self.leave_by.is_some_and(|by| by <= Instant::now());
        if done || late { self.leaving.take() } else { None }
    }
}

async fn stirred(feed: &mut Option<Feed>) {
    match feed {
        Some(feed) => feed.ready().await,
        None => pending().await,
    }
}

async fn until(tick: Option<Instant>) {
    match tick {
        Some(tick) => sleep_until(tick).await,
        None => pending().await,
    }
}

fn notice_text(notice: Notice) -> String {
    match notice {
        Notice::Status(view) => rpc::notification(wire::method::RESOURCE_CHANGED, &convert::status(view)),
        Notice::Put(view) => {
            let record = convert::record(&view);
            rpc::notification(wire::method::RECORDS_PUT, &wire::RecordPut { record })
        }
        Notice::Withdrawn { record, reason } => {
            rpc::notification(wire::method::RECORDS_WITHDRAWN, &convert::withdrawn(&record, reason))
        }
        Notice::Head { record, head } => rpc::notification(
            wire::method::SESSION_HEAD,
            &wire::HeadChanged { record: record.to_string(), head: head.map(convert::cursor) },
        ),
        Notice::Activity { record, agent, notice } => {
            rpc::notification(wire::method::SESSION_ACTIVITY, &convert::activity_changed(&record, &agent, notice))
        }
    }
}

#[cfg(test)]
mod tests;

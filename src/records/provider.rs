//! The state between the loop and the hosts, and its two sides.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc, oneshot};

use super::feed::Queue;
use super::{
    ActivityNotice, Command, Diagnosis, Failure, Link, Mark, Notice, Outcome, Page, RecordInfo, ReplyTarget,
    SignInState, Span, Status, StatusView, Transcript, Withdrawal,
};
use crate::model::{Activity, Cursor, Message, Messages, RecordId};

/// Makes the two sides of the provider's state. `commands` is where hosts' wishes go; the loop holds its receiver.
#[must_use]
pub fn new(commands: mpsc::Sender<Command>) -> (Handle, Publisher) {
    let shared = Arc::new(Shared { state: Mutex::new(State::default()) });
    let handle = Handle { shared: Arc::clone(&shared), commands };
    (handle, Publisher { shared })
}

/// A record as hosts see it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordView {
    /// Title and participants.
    pub info: Arc<RecordInfo>,
    /// `None` while it is empty or can't be read yet.
    pub head: Option<Cursor>,
    /// What its Bot does.
    pub activity: Option<Activity>,
}

/// A host's bound of a page. Parts beyond a u64 are given saturated: they are above every cursor of ours and of no generation of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The newest page.
    Newest,
    /// What comes next above the place.
    After(Place),
    /// What comes next below the place.
    Before(Place),
}

/// A cursor as a host may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its generation.
    pub generation: u128,
    /// Its number.
    pub number: u128,
}

/// Why a page can't be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No such record now.
    #[error("no such record")]
    NotFound,
    /// The first full read isn't in yet, or not again after a reset.
    #[error("the record can't be read yet")]
    NotReady,
    /// The bound belongs to another life of the transcript.
    #[error("the history was reset")]
    HistoryReset {
        /// The head now.
        head: Option<Cursor>,
    },
}

/// A host's post.
#[derive(Clone, PartialEq, Eq)]
pub struct PostRequest {
    /// To which record.
    pub record: RecordId,
    /// The idempotency key.
    pub message_id: uuid::Uuid,
    /// The text.
    pub text: Arc<str>,
    /// The id of a message of the record.
    pub reply_to: Option<String>,
}

impl std::fmt::Debug for PostRequest {
    // The text is a person's, and that of `bind` holds a code.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostRequest")
            .field("record", &self.record)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

/// Why a post isn't taken. Everything else is an [`Outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostRefusal {
    /// No such record now.
    #[error("no such record")]
    RecordNotFound,
    /// The record holds no message of that id.
    #[error("no such message to reply to")]
    UnknownReply,
}

/// The loop has stopped and answers nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider has stopped")]
pub struct Gone;

#[derive(Debug)]
struct Shared {
    /// A std mutex: held for the length of a page at most, never across an await.
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change below is complete before anything in it could panic, so a poisoned state is still a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything hosts can see.
#[derive(Debug)]
pub(super) struct State {
    status: Status,
    records: HashMap<RecordId, Record>,
    /// In the order in which they came.
    feeds: BTreeMap<u64, Subscriber>,
    next_place: u64,
    next_feed: u64,
}

#[derive(Debug)]
struct Record {
    /// For the order in which records are listed: that of their first put.
    place: u64,
    info: Arc<RecordInfo>,
    /// Known before the record can be read: after a reset, old cursors are refused as such.
    generation: Option<u64>,
    /// There once it can be read.
    transcript: Option<Transcript>,
    activity: Option<Activity>,
}

#[derive(Debug)]
struct Subscriber {
    queue: Queue,
    wake: Arc<Notify>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            status: Status { state: SignInState::SignedOut, account: None, message: None },
            records: HashMap::new(),
            feeds: BTreeMap::new(),
            next_place: 0,
            next_feed: 0,
        }
    }
}

impl Record {
    fn view(&self) -> RecordView {
        RecordView { info: Arc::clone(&self.info), head: self.head(), activity: self.activity.clone() }
    }

    fn head(&self) -> Option<Cursor> {
        let transcript = self.transcript.as_ref()?;
        Some(Cursor { generation: transcript.generation(), number: transcript.head()? })
    }
}

impl State {
    pub(super) fn view(&self, record: &RecordId) -> Option<RecordView> {
        self.records.get(record).map(Record::view)
    }

    pub(super) fn status_view(&self) -> StatusView {
        StatusView {
            status: self.status.clone(),
            items: self
                .in_order()
                .into_iter()
                .map(|record| (record.info.id.clone(), record.info.bot.name.clone()))
                .collect(),
        }
    }

    fn in_order(&self) -> Vec<&Record> {
        let mut records: Vec<&Record> = self.records.values().collect();
        records.sort_by_key(|record| record.place);
        records
    }

    /// Queues a change with every subscriber.
    fn tell(&mut self, mut change: impl FnMut(&mut Queue)) {
        for subscriber in self.feeds.values_mut() {
            change(&mut subscriber.queue);
            if !subscriber.queue.is_empty() {
                subscriber.wake.notify_one();
            }
        }
    }
}

/// The loop's side: publishes what hosts may see. Every method is synchronous and short.
///
/// A record that isn't there (any more) makes each method but [`Publisher::put`] do nothing: the loop may lag behind its own withdrawal.
#[derive(Debug)]
pub struct Publisher {
    shared: Arc<Shared>,
}

impl Publisher {
    /// The sign-in changed.
    pub fn status(&self, status: Status) {
        let mut state = self.shared.lock();
        if state.status != status {
            state.status = status;
            state.tell(Queue::status);
        }
    }

    /// How many messages a record holds, for `doctor`.
    #[must_use]
    pub fn messages(&self, record: &RecordId) -> u64 {
        let state = self.shared.lock();
        let transcript = state.records.get(record).and_then(|record| record.transcript.as_ref());
        transcript.map_or(0, |transcript| transcript.len() as u64)
    }

    /// A record is new, or something of its Bot or account changed. Hosts hear of it where the title or a participant did.
    pub fn put(&self, info: RecordInfo) {
        let mut state = self.shared.lock();
        let id = info.id.clone();
        let place = state.next_place;
        if let Some(record) = state.records.get_mut(&id) {
            let shown = record.info.bot.name != info.bot.name || record.info.account != info.account;
            record.info = Arc::new(info);
            if !shown {
                return;
            }
        } else {
            state.next_place += 1;
            let record = Record { place, info: Arc::new(info), generation: None, transcript: None, activity: None };
            state.records.insert(id.clone(), record);
        }
        state.tell(|queue| queue.put(&id));
    }

    /// A record is gone, with its messages.
    pub fn withdraw(&self, record: &RecordId, reason: Withdrawal) {
        let mut state = self.shared.lock();
        let gone = state.records.remove(record);
        if gone.is_some() {
            state.tell(|queue| queue.withdraw(record, reason));
        }
        drop(state);
        // A long transcript is freed outside the lock.
        drop(gone);
    }

    /// The record can be read from now on: `messages` are all that its first full read exposed, in any order.
    ///
    /// One that is empty says so, too: a host that holds messages from before a restart would never hear otherwise that they are gone.
    pub fn opened(&self, record: &RecordId, generation: u64, messages: impl Into<Messages>, head: Option<u64>) {
        let transcript = Transcript::new(generation, messages, head);
        let mut state = self.shared.lock();
        let Some(held) = state.records.get_mut(record) else {
            return;
        };
        held.generation = Some(generation);
        let old = held.transcript.replace(transcript);
        state.tell(|queue| queue.head(record));
        drop(state);
        drop(old);
    }

    /// More was exposed; the head is now `head` at least.
    pub fn append(&self, record: &RecordId, messages: impl Into<Messages>, head: u64) {
        self.change(record, |held| {
            if let Some(transcript) = &mut held.transcript {
                transcript.append(messages, head);
            }
            None
        });
    }

    /// Messages below the head were exposed late. The head doesn't move for them.
    pub fn insert(&self, record: &RecordId, messages: Vec<Message>) {
        self.change(record, |held| {
            if let Some(transcript) = &mut held.transcript {
                transcript.insert(messages);
            }
            None
        });
    }

    /// The history begins anew: the messages are gone, hosts hear at once that there is no head, and nothing can be read until [`Self::opened`].
    /// Cursors of another generation than `generation` are refused as reset meanwhile.
    pub fn reset(&self, record: &RecordId, generation: Option<u64>) {
        self.change(record, |held| {
            held.generation = generation;
            held.transcript.take()
        });
    }

    /// What the Bot does changed, as far as hosts are to hear of it.
    pub fn activity(&self, record: &RecordId, notice: ActivityNotice) {
        let ActivityNotice { activity, failure } = notice;
        let mut state = self.shared.lock();
        let Some(held) = state.records.get_mut(record) else {
            return;
        };
        let busy = activity.is_some();
        held.activity = activity;
        state.tell(|queue| queue.activity(record, busy, failure.as_ref()));
    }

    /// Changes a record's messages, and tells the head where it moved. What the change took out is freed outside the lock.
    fn change(&self, record: &RecordId, change: impl FnOnce(&mut Record) -> Option<Transcript>) {
        let mut state = self.shared.lock();
        let Some(held) = state.records.get_mut(record) else {
            return;
        };
        let before = held.head();
        let old = change(held);
        if held.head() != before {
            state.tell(|queue| queue.head(record));
        }
        drop(state);
        drop(old);
    }
}

/// The hosts' side: reads from memory, follows changes, passes wishes on to the loop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl Handle {
    /// The sign-in.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.lock().status.clone()
    }

    /// The resource page.
    #[must_use]
    pub fn status_view(&self) -> StatusView {
        self.shared.lock().status_view()
    }

    /// All records, in the order in which they came.
    #[must_use]
    pub fn records(&self) -> Vec<RecordView> {
        self.shared.lock().in_order().into_iter().map(Record::view).collect()
    }

    /// One record.
    #[must_use]
    pub fn record(&self, record: &RecordId) -> Option<RecordView> {
        self.shared.lock().view(record)
    }

    /// A page of a record, from memory. See [`Transcript::page`].
    ///
    /// # Errors
    /// See [`ReadError`]. A bound of another generation is refused as such even while a reset record can't be read yet.
    pub fn read(&self, record: &RecordId, bound: Bound, limit: usize) -> Result<Page, ReadError> {
        let state = self.shared.lock();
        let held = state.records.get(record).ok_or(ReadError::NotFound)?;
        if let Bound::After(place) | Bound::Before(place) = bound
            && let Some(generation) = held.generation
            && place.generation != u128::from(generation)
        {
            return Err(ReadError::HistoryReset { head: held.head() });
        }
        let transcript = held.transcript.as_ref().ok_or(ReadError::NotReady)?;
        let span = match bound {
            Bound::Newest => Span::Newest,
            Bound::After(place) => Span::After(place.number),
            Bound::Before(place) => Span::Before(place.number),
        };
        Ok(transcript.page(span, limit))
    }

    /// Follows the changes, beginning with the state as it is now: the status and a put for each record.
    #[must_use]
    pub fn feed(&self) -> Feed {
        let wake = Arc::new(Notify::new());
        let mut state = self.shared.lock();
        let id = state.next_feed;
        state.next_feed += 1;
        let mut queue = Queue::snapshot(state.in_order().into_iter().map(|record| record.info.id.clone()));
        for record in state.in_order() {
            // A put doesn't tell an empty record from one that can't be read yet.
            if record.transcript.is_some() && record.head().is_none() {
                queue.head(&record.info.id);
            }
        }
        let subscriber = Subscriber { queue, wake: Arc::clone(&wake) };
        state.feeds.insert(id, subscriber);
        drop(state);
        Feed { shared: Arc::clone(&self.shared), id, wake }
    }

    /// Hands a post to the loop. The receiver gets the outcome; where the sender was dropped, nobody can be sure. A loop that has stopped or has
    /// too many commands waiting gives a receiver that holds [`Failure::NotSent`] already.
    ///
    /// # Errors
    /// See [`PostRefusal`].
    pub fn post(&self, request: PostRequest) -> Result<oneshot::Receiver<Outcome>, PostRefusal> {
        let reply_to = self.resolve(&request)?;
        let (settle, outcome) = oneshot::channel();
        let command = Command::Post {
            record: request.record,
            message_id: request.message_id,
            text: request.text,
            reply_to,
            settle,
        };
        if let Err(error) = self.commands.try_send(command)
            && let Command::Post { settle, .. } = error.into_inner()
        {
            // The receiver is ours and still there.
            let _ = settle.send(Outcome::Failed(Failure::NotSent));
        }
        Ok(outcome)
    }

    fn resolve(&self, request: &PostRequest) -> Result<Option<ReplyTarget>, PostRefusal> {
        let state = self.shared.lock();
        let held = state.records.get(&request.record).ok_or(PostRefusal::RecordNotFound)?;
        let Some(id) = &request.reply_to else {
            return Ok(None);
        };
        let message = held.transcript.as_ref().and_then(|transcript| transcript.find(id));
        let message = message.ok_or(PostRefusal::UnknownReply)?;
        Ok(Some(ReplyTarget { entry: message.entry, part: message.part }))
    }

    /// Begins a sign-in, or gives the pending one's link. The inner error is the loop's reason.
    ///
    /// # Errors
    /// [`Gone`]. Like the calls below it waits as long as the loop takes: bound it where a person waits.
    pub async fn sign_in(&self) -> Result<Result<Link, String>, Gone> {
        self.ask(Command::SignIn).await
    }

    /// Cancels the pending sign-in, if any.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn cancel_sign_in(&self) -> Result<(), Gone> {
        self.ask(Command::CancelSignIn).await
    }

    /// Deletes the tokens and withdraws all. The inner error is the loop's reason.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn sign_out(&self) -> Result<Result<(), String>, Gone> {
        self.ask(Command::SignOut).await
    }

    /// Stops the loop; every post is settled before this resolves.
    ///
    /// # Errors
    /// [`Gone`]: it has stopped already.
    pub async fn shutdown(&self) -> Result<(), Gone> {
        self.ask(Command::Shutdown).await
    }

    /// Facts for `doctor`.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn diagnose(&self) -> Result<Diagnosis, Gone> {
        self.ask(Command::Diagnose).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}

/// One subscription. Dropping it ends it.
#[derive(Debug)]
pub struct Feed {
    shared: Arc<Shared>,
    id: u64,
    wake: Arc<Notify>,
}

impl Feed {
    /// The next change. Cancel-safe: a change is taken off the queue only when it is returned. It waits for ever after the loop has ended.
    pub async fn next(&mut self) -> Notice {
        loop {
            if let Some(notice) = self.try_next() {
                return notice;
            }
            self.wake.notified().await;
        }
    }

    /// The next change that is queued already.
    pub fn try_next(&mut self) -> Option<Notice> {
        let mut state = self.shared.lock();
        // Out and in again: the queue reads the state that it is part of.
        let mut subscriber = state.feeds.remove(&self.id)?;
        let notice = subscriber.queue.pop(&state);
        state.feeds.insert(self.id, subscriber);
        notice
    }

    /// Resolves when something is queued; [`Self::try_next`] may still find that it came to nothing. Cancel-safe.
    pub async fn ready(&mut self) {
        while self.is_empty() {
            self.wake.notified().await;
        }
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue(Queue::is_empty).unwrap_or(true)
    }

    /// Queues the head of a record, where no head notice has told it as it is.
    pub fn tell_head(&self, record: &RecordId) {
        if let Some(subscriber) = self.shared.lock().feeds.get_mut(&self.id) {
            subscriber.queue.head(record);
        }
    }

    /// The end of the queue as it is now.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.queue(Queue::mark)
    }

    /// Whether everything queued before `mark` has been told.
    #[must_use]
    pub fn passed(&self, mark: Option<Mark>) -> bool {
        mark.is_none_or(|mark| self.queue(|queue| queue.passed(mark)).unwrap_or(true))
    }

    fn queue<T>(&self, look: impl FnOnce(&Queue) -> T) -> Option<T> {
        let state = self.shared.lock();
        state.feeds.get(&self.id).map(|subscriber| look(&subscriber.queue))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue(Queue::len).unwrap_or(0)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.lock().feeds.remove(&self.id);
    }
}

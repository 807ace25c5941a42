//! What becomes of a post, from the command to the outcome. Pure: calls are named here and made by the loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::job::{Failed, Sent};
use crate::mirror::{Echo, Mirror};
use crate::model::{EntryId, Mono, Widget};
use crate::records::{Failure, Outcome};
use crate::upstream::{Delivery, ErrorKind, SendStatus, WidgetAnswer};

/// Posts that may wait for their turn in one Bot.
pub(super) const WAITING: usize = 64;
/// How long an echo may take after the answer.
pub(super) const ECHO_WAIT: Duration = Duration::from_mins(1);

/// What is sent.
#[derive(Clone)]
pub(super) enum What {
    /// A message; with the native id of what it replies to.
    Message { text: Arc<str>, reply_to: Option<EntryId> },
    /// The answer to a widget.
    Widget { entry: EntryId, value: Arc<str> },
}

/// One post.
pub(super) struct Post {
    pub(super) id: u64,
    pub(super) message_id: uuid::Uuid,
    pub(super) what: What,
    settle: Option<oneshot::Sender<Outcome>>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for the one before it.
    Queued,
    /// The service hasn't answered.
    Sending,
    /// Answered, or the connection broke; the status may still be asked.
    Waiting { until: Mono },
}

/// What the loop is to do next for a Bot's posts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send the post with this id.
    Send(u64),
    /// Ask for the status of the post with this id.
    AskStatus(u64),
}

/// The posts of one Bot.
#[derive(Default)]
pub(super) struct Posts {
    posts: VecDeque<Post>,
    next_id: u64,
}

impl std::fmt::Debug for Posts {
    // The texts are a person's.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Posts").field("len", &self.posts.len()).finish_non_exhaustive()
    }
}

/// What a job needs of a post.
pub(super) struct Outgoing {
    pub(super) post: u64,
    pub(super) message_id: String,
    pub(super) what: What,
}

impl Post {
    pub(super) fn outgoing(&self) -> Outgoing {
        Outgoing { post: self.id, message_id: self.message_id.to_string(), what: self.what.clone() }
    }
}

impl Posts {
    /// Takes a post; past the limit it is settled `not_sent` at once.
    pub(super) fn push(&mut self, message_id: uuid::Uuid, what: What, settle: oneshot::Sender<Outcome>, now: Mono) {
        let queued = self.posts.iter().filter(|post| post.stage == Stage::Queued).count();
        if queued >= WAITING {
            finish(Some(settle), Outcome::Failed(Failure::NotSent));
            return;
        }
        // A widget's answer has no idempotency key: the same request again waits for what the first one sent.
        let twin = |post: &&Post| post.message_id == message_id && matches!(post.what, What::Widget { .. });
        let twins = self.posts.iter().filter(twin).count();
        if twins > WAITING && matches!(what, What::Widget { .. }) {
            // Nothing of this one is sent, but its like was.
            finish(Some(settle), Outcome::Failed(Failure::Unknown));
            return;
        }
        let stage = match (&what, twins) {
            (What::Widget { .. }, 1..) => Stage::Waiting { until: now.after(ECHO_WAIT) },
            _ => Stage::Queued,
        };
        self.next_id += 1;
        self.posts.push_back(Post { id: self.next_id, message_id, what, settle: Some(settle), stage });
    }

    pub(super) fn get(&self, id: u64) -> Option<&Post> {
        self.posts.iter().find(|post| post.id == id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    /// The next post to send, if the one before it was answered or failed.
    pub(super) fn next(&mut self, mirror: &Mirror) -> Option<Next> {
        if self.posts.iter().any(|post| post.stage == Stage::Sending) {
            return None;
        }
        loop {
            let post = self.posts.iter_mut().find(|post| post.stage == Stage::Queued)?;
            let id = post.id;
            if let What::Widget { entry, .. } = &post.what
                && !mirror.widget(entry).is_some_and(|state| open(&state.widget))
            {
                // Answered, dismissed or gone while it waited for its turn.
                self.settle(id, &Outcome::Failed(Failure::WidgetClosed));
                continue;
            }
            post.stage = Stage::Sending;
            return Some(Next::Send(id));
        }
    }

    /// The answer to a send.
    pub(super) fn sent(
        &mut self,
        id: u64,
        answer: &Result<Sent, Failed>,
        mirror: Option<&Mirror>,
        now: Mono,
    ) -> Option<Next> {
        let outcome = match answer {
            Ok(Sent::Message(Delivery::Accepted) | Sent::Widget(WidgetAnswer::Accepted | WidgetAnswer::Unclear)) => {
                None
            }
            // The codes that are known say by this word that the card has moved on (wire reference, section 9.1).
            Ok(Sent::Widget(WidgetAnswer::Refused { code })) if code.contains("stale") => Some(Failure::WidgetClosed),
            Ok(Sent::Message(Delivery::Refused { .. }) | Sent::Widget(WidgetAnswer::Refused { .. })) => {
                Some(Failure::Refused)
            }
            Ok(Sent::Message(Delivery::Unclear)) => {
                self.wait(id, now);
                return self.status_of(id);
            }
            Err(Failed::SignedOut) => Some(Failure::SignedOut),
            Err(Failed::Token { .. }) => Some(Failure::NotSent),
            Err(Failed::Call(error)) => match error.kind {
                // Twice answered 401, with a renewed token the second time: nothing was posted.
                ErrorKind::Auth => Some(Failure::SignedOut),
                ErrorKind::NotSent => Some(Failure::NotSent),
                ErrorKind::Stale if self.is_widget(id) => Some(Failure::WidgetClosed),
                ErrorKind::Stale | ErrorKind::Refused => Some(Failure::Refused),
                ErrorKind::Transient { .. } | ErrorKind::Permanent | ErrorKind::Broken => {
                    self.wait(id, now);
                    return self.status_of(id);
                }
            },
        };
        match outcome {
            // What was posted shows already: no answer can say that nothing was (it may be the one to a repeat).
            Some(_) if self.seen(id, mirror) => self.wait(id, now),
            Some(failure) => self.settle(id, &Outcome::Failed(failure)),
            None => self.wait(id, now),
        }
        None
    }

    /// The answer to the status call, asked once. `answered`: the send itself was answered with an error.
    pub(super) fn status(&mut self, id: u64, status: Option<SendStatus>, answered: bool, mirror: &Mirror) {
        if self.seen(id, Some(mirror)) {
            return;
        }
        match status {
            Some(SendStatus::Rejected) => self.settle(id, &Outcome::Failed(Failure::Refused)),
            Some(SendStatus::NotFound) if answered => self.settle(id, &Outcome::Failed(Failure::NotSent)),
            _ => {}
        }
    }

    /// Looks for echoes and passed deadlines. Called after every change of the mirror and when a deadline came.
    pub(super) fn look(&mut self, mirror: &Mirror, now: Mono) {
        for post in &mut self.posts {
            // One that waits for its turn is sent even if its echo is there already: a repeat is sent, not judged.
            if post.settle.is_none() || post.stage == Stage::Queued {
                continue;
            }
            let (outcome, seen) = match &post.what {
                What::Message { .. } => match mirror.echo(post.message_id.as_u128()) {
                    Echo::Exposed { id, cursor } => (Some(Outcome::Completed { id, cursor }), true),
                    Echo::Seen => (None, true),
                    Echo::None => (None, false),
                },
                What::Widget { entry, value } => answered(mirror, entry, value, post.stage != Stage::Sending),
            };
            let overdue = matches!(post.stage, Stage::Waiting { until } if now >= until);
            if let Some(outcome) = outcome {
                finish(post.settle.take(), outcome);
            } else if overdue && !seen {
                finish(post.settle.take(), Outcome::Failed(Failure::Unknown));
            }
        }
        // One that is still being sent stays, so that the next waits for its answer.
        self.posts.retain(|post| post.settle.is_some() || post.stage == Stage::Sending);
    }

    /// Settles what hasn't begun.
    pub(super) fn drop_queued(&mut self, failure: Failure) {
        let (queued, begun) = std::mem::take(&mut self.posts).into_iter().partition(|post| post.stage == Stage::Queued);
        self.posts = begun;
        let queued: VecDeque<Post> = queued;
        for mut post in queued {
            finish(post.settle.take(), Outcome::Failed(failure));
        }
    }

    /// Settles all: what hasn't begun `before`, what has begun as unknown.
    pub(super) fn drop_all(&mut self, before: Failure) {
        for mut post in self.posts.drain(..) {
            let failure = if post.stage == Stage::Queued { before } else { Failure::Unknown };
            finish(post.settle.take(), Outcome::Failed(failure));
        }
    }

    pub(super) fn deadline(&self, now: Mono) -> Option<Mono> {
        let waits = self.posts.iter().filter_map(|post| match post.stage {
            // A passed deadline of one that was seen is looked at with each change of the mirror.
            Stage::Waiting { until } if until > now => Some(until),
            _ => None,
        });
        waits.min()
    }

    /// Settles one post, and with an answer to a widget those that wait for the same request's outcome.
    fn settle(&mut self, id: u64, outcome: &Outcome) {
        let Some(message_id) = self.get(id).map(|post| post.message_id) else { return };
        let widget = self.is_widget(id);
        self.posts.retain_mut(|post| {
            let twin = widget && post.message_id == message_id && matches!(post.what, What::Widget { .. });
            let settled = post.id == id || twin;
            if settled {
                finish(post.settle.take(), outcome.clone());
            }
            !settled
        });
    }

    /// Whether what it posts shows in the transcript, readable or not yet.
    fn seen(&self, id: u64, mirror: Option<&Mirror>) -> bool {
        let (Some(post), Some(mirror)) = (self.get(id), mirror) else { return false };
        match &post.what {
            What::Message { .. } => mirror.echo(post.message_id.as_u128()) != Echo::None,
            What::Widget { entry, value } => {
                matches!(answered(mirror, entry, value, false), (Some(Outcome::Completed { .. }), _) | (None, true))
            }
        }
    }

    /// The value that a widget's answer under way gives, for a repeat of the same request.
    pub(super) fn answering(&self, message_id: uuid::Uuid) -> Option<What> {
        let twin = |post: &&Post| post.message_id == message_id && matches!(post.what, What::Widget { .. });
        self.posts.iter().find(twin).map(|post| post.what.clone())
    }

    fn wait(&mut self, id: u64, now: Mono) {
        if let Some(post) = self.posts.iter_mut().find(|post| post.id == id) {
            post.stage = Stage::Waiting { until: now.after(ECHO_WAIT) };
        }
        self.posts.retain(|post| post.settle.is_some() || post.stage == Stage::Sending);
    }

    fn is_widget(&self, id: u64) -> bool {
        self.get(id).is_some_and(|post| matches!(post.what, What::Widget { .. }))
    }

    /// Widget answers have no status to ask for.
    fn status_of(&self, id: u64) -> Option<Next> {
        let post = self.get(id)?;
        matches!(post.what, What::Message { .. }).then_some(Next::AskStatus(id))
    }
}

/// What a widget's answer says of a post that gave `value`: settled when it appears as a message; another value closes it, and so does a dismissal
/// once the send is `over`. And whether our answer was seen at all.
fn answered(mirror: &Mirror, entry: &EntryId, value: &Arc<str>, over: bool) -> (Option<Outcome>, bool) {
    let Some(state) = mirror.widget(entry) else { return (None, false) };
    let Some(responded) = &state.widget.responded else {
        let dismissed = over && state.widget.closed;
        return (dismissed.then_some(Outcome::Failed(Failure::WidgetClosed)), false);
    };
    let label_of = |wanted: &Arc<str>| {
        state.widget.options.iter().find(|option| option.value == *wanted).map(|option| &option.label)
    };
    let ours = responded == value || label_of(value) == Some(responded);
    match (ours, state.answer) {
        (false, _) => (Some(Outcome::Failed(Failure::WidgetClosed)), true),
        (true, Some((id, cursor))) => (Some(Outcome::Completed { id, cursor }), true),
        (true, None) => (None, true),
    }
}

/// What a reply to a widget means: its option's value, when the text is one of its labels or values; label before value, first option first.
/// `Err` where the widget can't be answered any more, `Ok(None)` where the text is an ordinary reply.
pub(super) fn choice(mirror: &Mirror, entry: &EntryId, text: &str) -> Result<Option<Arc<str>>, Failure> {
    let Some(state) = mirror.widget(entry) else { return Ok(None) };
    let text = text.trim();
    let options = &state.widget.options;
    let option = options
        .iter()
        .find(|option| option.label.trim() == text)
        .or_else(|| options.iter().find(|option| option.value.trim() == text));
    match option {
        None => Ok(None),
        Some(_) if !open(&state.widget) => Err(Failure::WidgetClosed),
        Some(option) => Ok(Some(Arc::clone(&option.value))),
    }
}

fn open(widget: &Widget) -> bool {
    !widget.closed && widget.responded.is_none()
}

fn finish(settle: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
    if let Some(settle) = settle {
        // A host that is gone doesn't hear of it; its successor settles its open runs itself.
        let _ = settle.send(outcome);
    }
}

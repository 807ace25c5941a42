//! The only loop that talks to the service: sign-in and roster, one stream per account, full reads, bodies, the index, posts.
//!
//! One closed [`Event`] enum, one `select!` ([`Watch::next_event`]), one `match` ([`Watch::handle`]). Everything that waits is a deadline of the loop or
//! a job in its `JoinSet`; dropping the loop drops them all. It feeds one pure [`Mirror`] a Bot and publishes what comes out into `records`.

mod account;
mod backoff;
mod bodies;
mod bots;
mod commands;
mod commits;
mod job;
mod logged;
mod posts;
mod reads;
mod stream;
mod texts;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFuture};

use crate::auth::{Attempt, SignIn, Standing};
use crate::index::{Commit, Store};
use crate::mirror::{Mirror, PageQuery};
use crate::model::{Account, AgentId, Bot, LiveState, Mono, Now, RecordId, Wall};
use crate::records::{Command, Failure, Outcome, Publisher, Withdrawal};
use crate::upstream::{self, Frame, Upstream};
use backoff::Backoff;
use bodies::Bodies;
use job::{Done, Failed, Services};
use logged::Logged;
use posts::Posts;
use stream::Link;

/// How often the sign-in file is read and the roster listed.
pub const ROSTER_EVERY: Duration = Duration::from_secs(30);
/// The least time between two lists: a service that reports a change with every breath isn't asked as often.
const ROSTER_SPACING: Duration = Duration::from_secs(1);
/// Page requests under way at once, over all Bots.
const READS: usize = 4;
/// Body fetches under way at once.
const FETCHES: usize = 8;
/// How long a stop may take to flush the index.
const FLUSH: Duration = Duration::from_millis(1500);
/// The wall clock is taken to be set back where it lags by so much within one turn.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// What the loop works with.
#[derive(Debug)]
pub struct Parts {
    /// The service.
    pub upstream: Arc<dyn Upstream>,
    /// The sign-in.
    pub sign_in: Arc<dyn SignIn>,
    /// The index.
    pub store: Box<dyn Store>,
    /// Where exposed messages go.
    pub publisher: Publisher,
    /// What hosts ask for.
    pub commands: mpsc::Receiver<Command>,
    /// The wall clock.
    pub wall: fn() -> Wall,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quit {
    /// A host asked for it, or the stop signal came.
    Stopped,
    /// Every handle is gone.
    Abandoned,
}

/// Everything that wakes the loop.
#[derive(Debug)]
enum Event {
    Stop,
    Command(Command),
    /// Every handle is gone.
    Abandoned,
    Done(Done),
    Frames(Result<Option<Vec<Frame>>, upstream::Error>),
    Deadline,
}

/// The loop. Make it with [`Watch::new`] and await [`Watch::run`].
#[derive(Debug)]
pub struct Watch {
    services: Services,
    store: Arc<Mutex<Box<dyn Store>>>,
    publisher: Publisher,
    commands: mpsc::Receiver<Command>,
    jobs: JoinSet<Done>,
    origin: Instant,
    wall: fn() -> Wall,
    process_start: Wall,
    /// Both clocks as the last turn read them.
    turned: Now,

    standing: Option<Standing>,
    /// The subject whose account is known, or being asked for.
    subject: Option<String>,
    account: Option<Account>,
    /// GetMe answered for the subject.
    identified: bool,
    asking_me: bool,
    me_at: Option<Mono>,
    me_backoff: Backoff,
    attempt: Option<Pending>,
    attempts: u64,
    sign_in_note: Option<&'static str>,

    roster_at: Mono,
    listing: bool,
    list_backoff: Backoff,
    /// When the roster was asked for last.
    listed_at: Option<Mono>,
    list_again: bool,
    listed: bool,
    /// In one order, so that the same happenings lead to the same calls.
    bots: BTreeMap<AgentId, BotState>,
    lives: u64,
    /// Bots whose marks are to be loaded, and of which life.
    to_load: VecDeque<(AgentId, u64)>,
    loading: bool,
    /// The index was begun anew while marks were loaded, perhaps from the old one.
    loading_old: bool,
    timers: BTreeSet<(Mono, AgentId)>,
    first_pages: VecDeque<(AgentId, PageQuery)>,
    later_pages: VecDeque<(AgentId, PageQuery)>,
    reads: usize,
    bodies: Bodies,
    fetching: usize,
    held_pages: Vec<(Mono, AgentId, PageQuery)>,

    link: Link,
    link_backoff: Backoff,
    streams: u64,
    /// Live states of this stream since its snapshot, of every Bot of the account: for Bots that are listed or loaded later.
    live: Option<HashMap<AgentId, LiveState>>,

    owed: Vec<(Commit, u64)>,
    committing: bool,
    commit_at: Option<Mono>,
    commit_backoff: Backoff,

    trouble: Trouble,
    skipped: u64,
    lost: u64,
    clock_skew_ms: Option<i64>,
    last_frame: Option<Wall>,
    logged: Logged,
    status: Option<crate::records::Status>,
}

/// A sign-in under way.
#[derive(Debug)]
struct Pending {
    number: u64,
    attempt: Attempt,
    abort: tokio::task::AbortHandle,
}

/// What is wrong now, each with its beginning.
#[derive(Clone, Debug, Default)]
struct Trouble {
    list: Option<Wall>,
    stream: Option<Wall>,
    disk: Option<Wall>,
    /// What is wrong with the disk is that something lies where the index belongs.
    in_the_way: bool,
    set_aside: bool,
    last: Option<String>,
}

/// One Bot.
#[derive(Debug)]
struct BotState {
    bot: Bot,
    record: RecordId,
    life: u64,
    /// `None` until its marks are loaded.
    mirror: Option<Mirror>,
    /// When to try again to load them, or to begin the full read anew.
    load_at: Option<Mono>,
    /// Named by a cursor of the stream, or read in full since it is up.
    covered: bool,
    /// Must be read in full before the next stream.
    needs_read: bool,
    /// The stream brought something for it last.
    touched: Mono,
    /// Its place in the loop's timers: the soonest of all that it waits for.
    timer: Option<Mono>,
    /// The read whose pages count; those of an earlier one are thrown away.
    read: u64,
    /// The page call under way; dropped, it is given up.
    paging: Option<DropGuard>,
    page_backoff: Backoff,
    /// After pages that disagreed.
    stall_backoff: Backoff,
    posts: Posts,
}

impl Watch {
    /// A loop that hasn't begun.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let wall = (parts.wall)();
        Self {
            services: Services { upstream: parts.upstream, sign_in: parts.sign_in },
            store: Arc::new(Mutex::new(parts.store)),
            publisher: parts.publisher,
            commands: parts.commands,
            jobs: JoinSet::new(),
            origin: Instant::now(),
            wall: parts.wall,
            process_start: wall,
            turned: Now { mono: Mono::default(), wall },
            standing: None,
            subject: None,
            account: None,
            identified: false,
            asking_me: false,
            me_at: None,
            me_backoff: Backoff::new(Duration::from_secs(1), ROSTER_EVERY),
            attempt: None,
            attempts: 0,
            sign_in_note: None,
            roster_at: Mono::default(),
            listing: false,
            list_backoff: Backoff::new(Duration::from_secs(1), ROSTER_EVERY),
            listed_at: None,
            list_again: false,
            listed: false,
            bots: BTreeMap::new(),
            lives: 0,
            to_load: VecDeque::new(),
            loading: false,
            loading_old: false,
            timers: BTreeSet::new(),
            first_pages: VecDeque::new(),
            later_pages: VecDeque::new(),
            reads: 0,
            bodies: Bodies::default(),
            fetching: 0,
            held_pages: Vec::new(),
            link: Link::Down { at: Mono::default() },
            link_backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(1)),
            streams: 0,
            live: None,
            owed: Vec::new(),
            committing: false,
            commit_at: None,
            commit_backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(1)),
            trouble: Trouble::default(),
            skipped: 0,
            lost: 0,
            clock_skew_ms: None,
            last_frame: None,
            logged: Logged::default(),
            status: None,
        }
    }

    /// Runs until `stop`, a [`Command::Shutdown`], or until every handle is gone. Posts are settled and the index is flushed before it returns;
    /// dropping the future instead leaves begun posts unsettled (their hosts hear nothing) and loses nothing else.
    pub async fn run(mut self, stop: CancellationToken) -> Quit {
        // Before it waits for anything: a host that looks now must not be told that nobody is signed in.
        let now = self.now();
        self.due(now);
        self.publish_status();
        // Kept from turn to turn: a frame that comes mustn't take them out of the runtime's lists and put them in again.
        let (stopped, alarm) = (stop.cancelled(), tokio::time::sleep_until(self.origin));
        tokio::pin!(stopped, alarm);
        loop {
            match self.next_event(stopped.as_mut(), alarm.as_mut()).await {
                Event::Stop => {
                    self.finish().await;
                    return Quit::Stopped;
                }
                Event::Abandoned => {
                    self.finish().await;
                    return Quit::Abandoned;
                }
                Event::Command(Command::Shutdown(done)) => {
                    self.finish().await;
                    // The host may have gone meanwhile.
                    let _ = done.send(());
                    return Quit::Stopped;
                }
                event => self.handle(event),
            }
        }
    }

    /// The one place that waits. Each branch is cancel-safe: a dropped `recv`, `join_next`, `next` or sleep loses nothing.
    ///
    /// The order is written down, so that the same happenings always have the same consequences. Nobody is starved by it: what is due is done after
    /// every event (`due`), commands come one by one from people, and each job that ends was begun by one of the others.
    async fn next_event(
        &mut self,
        stopped: Pin<&mut WaitForCancellationFuture<'_>>,
        mut alarm: Pin<&mut Sleep>,
    ) -> Event {
        let deadline = self.origin + self.deadline().0;
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        tokio::select! {
            biased;
            () = stopped => Event::Stop,
            command = self.commands.recv() => command.map_or(Event::Abandoned, Event::Command),
            Some(done) = self.jobs.join_next() => match done {
                Ok(done) => Event::Done(done),
                // Cancelled: a sign-in attempt. A panic of a job is a bug: it must not go unseen.
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => Event::Deadline,
            },
            frames = self.link.frames() => Event::Frames(frames),
            () = alarm => Event::Deadline,
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        self.move_troubles(now);
        match event {
            Event::Command(command) => self.command(now, command),
            Event::Done(done) => self.done(now, done),
            Event::Frames(frames) => self.frames(now, frames),
            Event::Deadline | Event::Stop | Event::Abandoned => {}
        }
        self.due(now);
        self.publish_status();
    }

    fn done(&mut self, now: Now, done: Done) {
        match done {
            Done::Me { subject, me } => self.me(now, &subject, me),
            Done::Roster { subject, roster } => self.roster(now, subject.as_deref(), roster),
            Done::Loaded { agent, life, stored } => self.loaded(now, &agent, life, stored),
            Done::Page { agent, life, query, page } => self.page(now, &agent, life, query, page),
            Done::PageGivenUp => self.reads -= 1,
            Done::Body { fetch, row } => self.body(now, fetch, row),
            Done::Opened { number, opened } => self.opened(now, number, opened),
            Done::Renewed(renewed) => self.renewed(now, renewed),
            Done::Committed { commits, result, set_aside } => self.committed(now, commits, result, set_aside),
            Done::Sent { agent, life, post, answer } => self.sent(now, &agent, life, post, &answer),
            Done::Status { agent, life, post, answered, status } => {
                self.send_status(now, &agent, life, post, answered, status);
            }
            Done::Redeemed { attempt, result } => self.redeemed(now, attempt, result),
        }
    }

    /// Does what the clock or the last event made due.
    fn due(&mut self, now: Now) {
        if now.mono >= self.roster_at {
            self.check_sign_in(now);
        }
        if self.me_at.is_some_and(|at| now.mono >= at) {
            self.ask_me();
        }
        self.due_link(now);
        self.due_bots(now);
        self.due_commit(now);
    }

    fn deadline(&self) -> Mono {
        let bots = self.timers.first().map(|(at, _)| *at);
        [Some(self.roster_at), self.me_at, self.link.deadline(), bots, self.reads_deadline(), self.commit_deadline()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.roster_at)
    }

    fn now(&self) -> Now {
        Now { mono: Mono(self.origin.elapsed()), wall: (self.wall)() }
    }

    /// Where the wall clock was set back since the last turn, the beginnings of what is wrong go with it: nobody is told of a time that is still to
    /// come. One that was set forward can't be told from a night asleep; a beginning in the past stands.
    fn move_troubles(&mut self, now: Now) {
        let expected = self.turned.wall.after(now.mono.since(self.turned.mono));
        let back = expected.since(now.wall);
        if back >= CLOCK_STEP {
            let Trouble { list, stream, disk, .. } = &mut self.trouble;
            for since in [list, stream, disk].into_iter().flatten() {
                *since = since.before(back);
            }
        }
        self.turned = now;
    }

    /// Settles posts, closes the stream, gives the index what is owed. Bounded.
    async fn finish(&mut self) {
        // Posts that the loop hasn't even seen were never begun; the others' senders are dropped, which says that we are gone.
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Post { settle, .. } = command {
                answer(settle, Outcome::Failed(Failure::NotSent));
            }
        }
        for bot in self.bots.values_mut() {
            bot.posts.drop_all(Failure::NotSent);
        }
        self.attempt = None;
        self.link = Link::Down { at: Mono::default() };
        let _ = tokio::time::timeout(FLUSH, self.flush()).await;
        // Whatever is still under way is dropped: nothing of it was told to a host.
        // A write that hangs on its disk can't be aborted; it isn't waited for.
        self.jobs.abort_all();
        let _ =
            tokio::time::timeout(Duration::from_millis(200), async { while self.jobs.join_next().await.is_some() {} })
                .await;
    }

    /// Withdraws every record and drops what was begun for the account.
    fn leave_account(&mut self, reason: Withdrawal) {
        self.link = Link::Down { at: Mono::default() };
        self.live = None;
        let agents: Vec<AgentId> = self.bots.keys().cloned().collect();
        for agent in agents {
            self.drop_bot(&agent, reason);
        }
        self.account = None;
        self.listed = false;
        self.listed_at = None;
        self.first_pages.clear();
        self.later_pages.clear();
        self.held_pages.clear();
        self.bodies.clear();
        self.link_backoff.reset();
        self.trouble = Trouble {
            disk: self.trouble.disk,
            in_the_way: self.trouble.in_the_way,
            set_aside: self.trouble.set_aside,
            ..Trouble::default()
        };
    }

    /// Logs a repeating anomaly once an hour a key.
    fn once_an_hour(&mut self, now: Mono, key: String) -> bool {
        self.logged.once_an_hour(now, key)
    }

    fn agents(&self) -> Vec<AgentId> {
        self.bots.keys().cloned().collect()
    }
}

/// Answers a host that may have gone.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    let _ = reply.send(value);
}

/// Short words for the log on why something failed.
fn why(error: &Failed) -> String {
    error.to_string()
}

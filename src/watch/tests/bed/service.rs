//! The service in memory: accounts, Bots with transcripts, lists, one stream and more, sends with their echoes, widgets. Every call is logged with
//! its time, and may meet a [`Fault`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use oauth2::AccessToken;
use tokio::sync::mpsc;

use super::clock;
use super::fault::{Answer, Fault, Request, error};
use super::frames::{Item, Manner};
use super::rows;
use super::transcript::Transcript;
use crate::model::{AgentId, Bot, Cursor, Delete, EntryId, Harness, LiveState, Row, RowBody};
use crate::upstream::{Call, Error, ErrorKind, Frame, Me, Skipped};

type Matches = Box<dyn Fn(&Request) -> bool + Send>;

pub(crate) struct Service {
    me: Weak<Self>,
    state: Mutex<State>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

#[derive(Default)]
pub(super) struct State {
    /// By the subject of the token.
    accounts: HashMap<String, Account>,
    rejected: HashSet<String>,
    pub(super) blobs: HashMap<Arc<str>, RowBody>,
    pub(super) streams: Vec<(String, mpsc::UnboundedSender<Item>)>,
    pub(super) manners: VecDeque<Manner>,
    faults: Vec<(Matches, Fault)>,
    log: Vec<(i64, Request)>,
    calls_now: usize,
    most_lists: usize,
    lists_now: usize,
    /// Ids of sends that ever got a row.
    pub(super) landed: HashSet<String>,
    pub(super) no_echo: bool,
    pub(super) rewrite: Option<fn(&str) -> String>,
    pub(super) page_limit: Option<u32>,
}

#[derive(Default)]
pub(super) struct Account {
    pub(super) me: Option<Me>,
    pub(super) bots: Vec<Bot>,
    pub(super) transcripts: HashMap<AgentId, Transcript>,
    pub(super) live: HashMap<AgentId, LiveState>,
}

/// Counts a call as under way until it ends or is dropped.
struct Under(Weak<Service>, bool);

impl Drop for Under {
    fn drop(&mut self) {
        if let Some(service) = self.0.upgrade() {
            let mut state = service.lock();
            state.calls_now -= 1;
            state.lists_now -= usize::from(self.1);
        }
    }
}

impl Service {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Self { me: Weak::clone(me), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    // What tests arrange.

    pub(crate) fn account(&self, subject: &str, user_id: &str) {
        let me = Me { user_id: Some(user_id.to_owned()), auth_id: None, name: Some(format!("Name of {subject}")) };
        self.me_is(subject, me);
    }

    pub(crate) fn me_is(&self, subject: &str, me: Me) {
        self.lock().accounts.entry(subject.to_owned()).or_default().me = Some(me);
    }

    pub(crate) fn add_bot(&self, subject: &str, bot: &str) {
        let mut state = self.lock();
        let account = state.accounts.get_mut(subject).unwrap();
        let agent_id = AgentId::from(bot);
        account.bots.push(Bot { agent_id: agent_id.clone(), name: format!("Bot {bot}"), harness: Harness::Other });
        account.transcripts.entry(agent_id).or_insert_with(Transcript::fresh);
    }

    /// Lists a Bot (again), if it isn't; its transcript is as it was.
    pub(crate) fn list_bot(&self, subject: &str, bot: &str) {
        let listed = |account: &Account| account.bots.iter().any(|listed| listed.agent_id.as_str() == bot);
        if !self.lock().accounts.get(subject).is_some_and(listed) {
            self.add_bot(subject, bot);
        }
    }

    pub(crate) fn remove_bot(&self, bot: &str) {
        for account in self.lock().accounts.values_mut() {
            account.bots.retain(|listed| listed.agent_id.as_str() != bot);
        }
    }

    pub(crate) fn rename_bot(&self, bot: &str, name: &str) {
        for account in self.lock().accounts.values_mut() {
            account.bots.iter_mut().filter(|listed| listed.agent_id.as_str() == bot).for_each(|listed| {
                name.clone_into(&mut listed.name);
            });
        }
    }

    pub(crate) fn moves_to(&self, bot: &str, harness: Harness) {
        for account in self.lock().accounts.values_mut() {
            for listed in account.bots.iter_mut().filter(|listed| listed.agent_id.as_str() == bot) {
                listed.harness = harness;
            }
        }
    }

    pub(crate) fn roster_changed(&self) {
        self.push(Frame::RosterChanged);
    }

    /// The next calls that match meet this fault; faults are tried in the order in which they were given.
    pub(crate) fn fault(&self, matches: impl Fn(&Request) -> bool + Send + 'static, fault: Fault) {
        self.lock().faults.push((Box::new(matches), fault));
    }

    pub(crate) fn mend(&self) {
        self.lock().faults.clear();
    }

    /// How the next streams behave, one each; those after them are normal.
    pub(crate) fn next_streams(&self, manners: impl IntoIterator<Item = Manner>) {
        self.lock().manners.extend(manners);
    }

    /// This token, and no other, is answered 401 from now on.
    pub(crate) fn reject(&self, token: &str) {
        self.lock().rejected.insert(token.to_owned());
    }

    /// Sends get no row before [`Service::echo`].
    pub(crate) fn no_echo(&self, no_echo: bool) {
        self.lock().no_echo = no_echo;
    }

    /// Texts of sends are rewritten before they get their row.
    pub(crate) fn rewrite(&self, rewrite: fn(&str) -> String) {
        self.lock().rewrite = Some(rewrite);
    }

    /// Pages are shorter than asked for.
    pub(crate) fn page_limit(&self, limit: u32) {
        self.lock().page_limit = Some(limit);
    }

    pub(crate) fn store_blob(&self, hash: &str, body: RowBody) {
        self.lock().blobs.insert(Arc::from(hash), body);
    }

    // What Bots and people do.

    fn with<T>(&self, bot: &str, change: impl FnOnce(&mut Transcript) -> T) -> T {
        let mut state = self.lock();
        let agent = AgentId::from(bot);
        let transcript = state.accounts.values_mut().find_map(|account| account.transcripts.get_mut(&agent));
        change(transcript.unwrap())
    }

    fn row(&self, bot: &str, change: impl FnOnce(&mut Transcript) -> Row) -> u64 {
        let (generation, shown, seq) = self.with(bot, |transcript| {
            let row = change(transcript);
            (transcript.generation, transcript.shown_frame(&row), row.seq)
        });
        self.push(rows_frame(bot, generation, vec![shown], vec![]));
        seq
    }

    /// A new row; gives its `seq`.
    pub(crate) fn append(&self, bot: &str, body: RowBody) -> u64 {
        self.row(bot, |transcript| transcript.append(body))
    }

    /// The Bot says something.
    pub(crate) fn says(&self, bot: &str, text: &str) -> u64 {
        self.append(bot, rows::said(text))
    }

    /// A new row whose body pages and frames leave out.
    pub(crate) fn append_omitted(&self, bot: &str, body: RowBody) -> u64 {
        self.row(bot, |transcript| {
            let row = transcript.append(rows::omitted());
            transcript.omit.insert(row.seq, body);
            row
        })
    }

    pub(crate) fn overwrite(&self, bot: &str, seq: u64, body: RowBody) {
        self.row(bot, |transcript| transcript.overwrite(seq, body));
    }

    pub(crate) fn delete(&self, bot: &str, seq: u64) {
        let (generation, delete) = self.with(bot, |transcript| (transcript.generation, transcript.delete(seq)));
        self.push(rows_frame(bot, generation, vec![], vec![delete]));
    }

    pub(crate) fn clear(&self, bot: &str, generation: u64) {
        self.with(bot, |transcript| transcript.clear(generation));
        self.push(Frame::Cleared { agent_id: AgentId::from(bot), generation: Some(generation) });
    }

    /// A new generation of which no frame tells.
    pub(crate) fn clear_silently(&self, bot: &str, generation: u64) {
        self.with(bot, |transcript| transcript.clear(generation));
    }

    /// The service forgets changes up to now: older cursors are refused.
    pub(crate) fn forget_changes(&self, bot: &str) {
        self.with(bot, |transcript| transcript.forgotten = transcript.counter);
    }

    pub(crate) fn number(&self, bot: &str) -> u64 {
        self.with(bot, |transcript| transcript.counter)
    }

    /// The echo of a send.
    pub(crate) fn echo(&self, bot: &str, message_id: uuid::Uuid, text: &str) -> u64 {
        self.append(bot, rows::echo(text, &message_id.to_string(), None))
    }

    pub(crate) fn live(&self, bot: &str, state: LiveState) {
        let agent = AgentId::from(bot);
        for account in self.lock().accounts.values_mut() {
            if account.transcripts.contains_key(&agent) {
                account.live.insert(agent.clone(), state.clone());
            }
        }
        self.push(Frame::AgentState { snapshot: false, live: vec![(agent, state)] });
    }

    /// A frame on every open stream.
    pub(crate) fn push(&self, frame: Frame) {
        self.item(&Ok(Some(frame)));
    }

    /// Every open stream ends cleanly.
    pub(crate) fn end_streams(&self) {
        self.item(&Ok(None));
        self.lock().streams.clear();
    }

    /// Every open stream breaks.
    pub(crate) fn break_streams(&self, kind: ErrorKind) {
        self.item(&Err(error(kind)));
        self.lock().streams.clear();
    }

    fn item(&self, item: &Item) {
        self.lock().streams.retain(|(_, stream)| stream.send(item.clone()).is_ok());
    }

    // What tests look at.

    pub(crate) fn open_streams(&self) -> usize {
        let mut state = self.lock();
        state.streams.retain(|(_, stream)| !stream.is_closed());
        state.streams.len()
    }

    /// Requests that match, with the millisecond in which they came.
    pub(crate) fn log(&self, matches: impl Fn(&Request) -> bool) -> Vec<(i64, Request)> {
        self.lock().log.iter().filter(|(_, request)| matches(request)).cloned().collect()
    }

    pub(crate) fn count(&self, matches: impl Fn(&Request) -> bool) -> usize {
        self.log(matches).len()
    }

    /// Times at which streams were asked for.
    pub(crate) fn watches(&self) -> Vec<i64> {
        self.log(Request::is_watch).into_iter().map(|(at, _)| at).collect()
    }

    /// The cursors of the latest stream request.
    pub(crate) fn cursors(&self) -> Vec<(String, u64, u64)> {
        match self.log(Request::is_watch).pop() {
            Some((_, Request::Watch(request))) => plain(&request.cursors),
            _ => panic!("no stream was asked for"),
        }
    }

    /// The most list calls that were under way at once.
    pub(crate) fn most_lists(&self) -> usize {
        self.lock().most_lists
    }

    /// Calls under way now.
    pub(crate) fn calls_now(&self) -> usize {
        self.lock().calls_now
    }

    /// What every row of a Bot that is a message says, wherever its body lies.
    pub(crate) fn texts(&self, bot: &str) -> HashMap<EntryId, String> {
        let blobs = self.lock().blobs.clone();
        self.with(bot, |transcript| transcript.texts(&blobs))
    }

    /// What a person should read of a Bot, by message id of the base.
    pub(crate) fn readable(&self, bot: &str) -> BTreeMap<String, String> {
        let state = self.lock();
        let agent = AgentId::from(bot);
        let account = state.accounts.values().find(|account| account.transcripts.contains_key(&agent)).unwrap();
        let listed = account.bots.iter().find(|listed| listed.agent_id == agent);
        let harness = listed.map_or(Harness::Other, |listed| listed.harness);
        account.transcripts[&agent].readable(&state.blobs, harness)
    }

    /// What a Bot is shown to do, where it does a tool's work.
    pub(crate) fn activity(&self, bot: &str) -> Option<String> {
        let state = self.lock();
        let agent = AgentId::from(bot);
        let live = state.accounts.values().find_map(|account| account.live.get(&agent));
        live.and_then(|state| state.activity.as_ref()).map(|activity| activity.detail.to_string())
    }

    /// Streams are as they should be again.
    pub(crate) fn normal_streams(&self) {
        self.lock().manners.clear();
    }

    /// Whether a send ever got its row.
    pub(crate) fn landed(&self, message_id: uuid::Uuid) -> bool {
        self.lock().landed.contains(&message_id.to_string())
    }

    /// Rows of a Bot that came of sends.
    pub(crate) fn sends_in(&self, bot: &str) -> usize {
        self.with(bot, |transcript| transcript.sends())
    }

    // The calls.

    pub(super) fn call<T: Send + 'static>(
        &self,
        request: Request,
        token: AccessToken,
        act: impl FnOnce(&mut State, &str) -> Result<T, Error> + Send + 'static,
        other: impl FnOnce(Answer, Option<Result<T, Error>>) -> Result<T, Error> + Send + 'static,
    ) -> Call<T> {
        let mut state = self.lock();
        let fault = state.fault_for(&request);
        let list = request.is_list();
        state.log.push((clock::millis(), request));
        state.calls_now += 1;
        state.lists_now += usize::from(list);
        state.most_lists = state.most_lists.max(state.lists_now);
        drop(state);
        let under = Under(Weak::clone(&self.me), list);
        let service = self.me.upgrade().unwrap();
        Box::pin(async move {
            let _under = under;
            // No answer ever comes in the moment of the call.
            tokio::task::yield_now().await;
            if let Some(wait) = fault.before {
                wait.pass().await;
            }
            let done = (!fault.not_done).then(|| {
                let mut state = service.lock();
                if state.rejected.contains(token.secret()) {
                    return Err(error(ErrorKind::Auth));
                }
                let subject = token.secret().split('/').next().unwrap_or_default().to_owned();
                act(&mut state, &subject)
            });
            if let Some(wait) = fault.after {
                wait.pass().await;
            }
            match (fault.answer, done) {
                (Some(Answer::Error(error)), _) => Err(error),
                (Some(answer), done) => other(answer, done),
                (None, Some(done)) => done,
                (None, None) => Err(error(ErrorKind::Broken)),
            }
        })
    }
}

fn plain(cursors: &[(AgentId, Cursor)]) -> Vec<(String, u64, u64)> {
    let mut plain: Vec<_> =
        cursors.iter().map(|(agent, cursor)| (agent.to_string(), cursor.generation, cursor.number)).collect();
    plain.sort();
    plain
}

pub(crate) fn rows_frame(bot: &str, generation: u64, rows: Vec<Row>, deletes: Vec<Delete>) -> Frame {
    Frame::Rows {
        agent_id: AgentId::from(bot),
        generation: Some(generation),
        rows,
        deletes,
        malformed: Skipped::default(),
    }
}

impl State {
    fn fault_for(&mut self, request: &Request) -> Fault {
        let Some(at) = self.faults.iter().position(|(matches, _)| matches(request)) else {
            return Fault::default();
        };
        let fault = self.faults[at].1.clone();
        if let Some(times) = &mut self.faults[at].1.times {
            *times -= 1;
            if *times == 0 {
                drop(self.faults.remove(at));
            }
        }
        fault
    }

    pub(super) fn account(&mut self, subject: &str) -> Result<&mut Account, Error> {
        self.accounts.get_mut(subject).ok_or_else(|| error(ErrorKind::Auth))
    }

    pub(super) fn transcript(&mut self, subject: &str, agent: &AgentId) -> Result<&mut Transcript, Error> {
        self.account(subject)?.transcripts.get_mut(agent).ok_or_else(|| error(ErrorKind::Refused))
    }

    pub(super) fn tell(&mut self, frame: &Frame) {
        self.streams.retain(|(_, stream)| stream.send(Ok(Some(frame.clone()))).is_ok());
    }
}

/// The id of the message of a row, in generation 1.
pub(crate) fn message_of(seq: u64) -> String {
    format!("1:e{seq}")
}

/// The entry of a row.
pub(crate) fn entry_of(seq: u64) -> EntryId {
    EntryId::from(format!("e{seq}"))
}

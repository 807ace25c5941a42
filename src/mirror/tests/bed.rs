//! A test bed: one mirror with a clock, an index, a service to read from and a host that collects what it is shown.
//!
//! Every effect is checked on its way: nothing is shown that the index doesn't hold, cursors of appended messages only rise, an id never comes
//! again with another text, and a deadline never lies at or before the present once the mirror has done its work.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::{Batch, Echo, Effect, FetchQuery, Input, Mark, Mirror, Notice, PageQuery, Stored, WidgetState};
use crate::model::{
    Attachment, Author, BodyRef, Card, Content, Cursor, Delete, Entry, EntryId, Harness, Image, LiveActivity,
    LiveState, Malformed, Message, Mono, Now, Part, Role, Row, RowBody, TurnFailure, Version, Wall, Widget,
    WidgetOption,
};

/// A change of the transcript.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Row(Row),
    Delete(Delete),
}

impl Op {
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Row(row) => row.seq,
            Self::Delete(delete) => delete.seq,
        }
    }

    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Row(row) => row.number,
            Self::Delete(delete) => delete.number,
        }
    }
}

/// Begins a row; it carries the entry `t<seq>` at the number `seq` and says nothing yet.
pub(super) fn row(seq: u64) -> RowMaker {
    RowMaker { seq, number: seq, id: Some(format!("t{seq}")), entry: entry(Content::Message("".into())) }
}

pub(super) fn entry(content: Content) -> Entry {
    Entry {
        id: None,
        at: None,
        nonce: None,
        role: Role::Other,
        between_bots: false,
        automation: false,
        branched: false,
        has_author: false,
        reply_to: None,
        content,
    }
}

#[derive(Clone, Debug)]
pub(super) struct RowMaker {
    seq: u64,
    number: u64,
    id: Option<String>,
    entry: Entry,
}

impl RowMaker {
    pub(super) fn at(mut self, number: u64) -> Self {
        self.number = number;
        self
    }

    pub(super) fn of(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    pub(super) fn nameless(mut self) -> Self {
        self.id = None;
        self
    }

    pub(super) fn nonce(mut self, nonce: u128) -> Self {
        self.entry.nonce = Some(uuid::Uuid::from_u128(nonce).to_string().into());
        self
    }

    pub(super) fn replies_to(mut self, id: &str) -> Self {
        self.entry.reply_to = Some(EntryId::from(id));
        self
    }

    pub(super) fn written(mut self, at: i64) -> Self {
        self.entry.at = Some(Wall(at));
        self
    }

    /// The Bot says something.
    pub(super) fn says(mut self, text: &str) -> Op {
        self.entry.content = Content::Sent(Card::Text { content: text.into(), images: Vec::new() });
        self.known()
    }

    /// The account says something.
    pub(super) fn told(mut self, text: &str) -> Op {
        self.entry.role = Role::User;
        self.entry.content = Content::Message(text.into());
        self.known()
    }

    /// An assistant row.
    pub(super) fn mutters(mut self, text: &str) -> Op {
        self.entry.role = Role::Assistant;
        self.entry.content = Content::Message(text.into());
        self.known()
    }

    /// The Bot asks; the options are `yes` (value `y`) and `no`.
    pub(super) fn asks(mut self, prompt: &str, responded: Option<&str>) -> Op {
        self.entry.content = Content::Sent(Card::Widget(Arc::new(widget(prompt, responded))));
        self.known()
    }

    /// A kind that is no message.
    pub(super) fn notices(mut self, kind: &str, unknown: bool) -> Op {
        self.entry.content = Content::Other { kind: kind.into(), content: Some("noise".into()), unknown };
        self.known()
    }

    /// The body isn't in the row.
    pub(super) fn unfetched(self) -> Op {
        let at = BodyRef::Blob(format!("blob-{}-{}", self.seq, self.number).into());
        self.with(RowBody::Unfetched { at, kind: "send-message".into() })
    }

    /// The body was cut by the inline limit.
    pub(super) fn omitted(self) -> Op {
        self.with(RowBody::Unfetched { at: BodyRef::Omitted, kind: "send-message".into() })
    }

    pub(super) fn nothing(self) -> Op {
        self.with(RowBody::Nothing)
    }

    pub(super) fn malformed(self) -> Op {
        self.with(RowBody::Malformed(Malformed { kind: "send-message".into(), reason: "no json" }))
    }

    fn known(mut self) -> Op {
        self.entry.id = self.id.as_deref().map(EntryId::from);
        let entry = Box::new(self.entry.clone());
        self.with(RowBody::Entry(entry))
    }

    fn with(self, body: RowBody) -> Op {
        Op::Row(Row { seq: self.seq, number: self.number, entry_id: self.id.as_deref().map(EntryId::from), body })
    }
}

pub(super) fn widget(prompt: &str, responded: Option<&str>) -> Widget {
    Widget {
        prompt: prompt.into(),
        help: None,
        options: vec![
            WidgetOption { label: "yes".into(), value: "y".into() },
            WidgetOption { label: "no".into(), value: "no".into() },
        ],
        responded: responded.map(Into::into),
        closed: false,
    }
}

/// Removes a row that the service names by its place alone.
pub(super) fn delete(seq: u64) -> DeleteMaker {
    DeleteMaker(seq)
}

pub(super) struct DeleteMaker(u64);

impl DeleteMaker {
    pub(super) fn at(self, number: u64) -> Op {
        Op::Delete(Delete { seq: self.0, number, entry_id: None })
    }

    pub(super) fn of(self, id: &str, number: u64) -> Op {
        Op::Delete(Delete { seq: self.0, number, entry_id: Some(EntryId::from(id)) })
    }
}

/// The other side: a transcript with its numbers, as the wire reference describes it.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) generation: u64,
    /// The latest change of each place.
    pub(super) places: BTreeMap<u64, Op>,
    /// Rows a page, whatever was asked.
    pub(super) page: usize,
    /// A fault: it ignores `before`.
    pub(super) ignores_before: bool,
    /// A fault: it says nothing of its generation.
    pub(super) mute: bool,
}

impl Service {
    pub(super) fn record(&mut self, op: &Op) {
        let known = self.places.get(&op.seq()).map(Op::number);
        if known.is_none_or(|known| known < op.number()) {
            self.places.insert(op.seq(), op.clone());
        }
    }

    pub(super) fn page_of(&self, query: &PageQuery) -> Vec<Row> {
        let rows = self.places.values().rev().filter_map(|op| match op {
            Op::Row(row) => Some(row.clone()),
            Op::Delete(_) => None,
        });
        let bound = query.before.filter(|_| !self.ignores_before);
        rows.filter(|row| bound.is_none_or(|before| u128::from(row.seq) < before)).take(self.page).collect()
    }

    /// What the stream replays past `number`.
    pub(super) fn past(&self, number: u64) -> Vec<Op> {
        self.places.values().filter(|op| op.number() > number).cloned().collect()
    }
}

/// What a host holds.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) generation: Option<u64>,
    pub(super) messages: Vec<Message>,
    pub(super) head: Option<u64>,
    pub(super) open: bool,
    held: HashSet<String>,
    /// Every id ever shown, over restarts too, with its text.
    pub(super) told: HashMap<String, (u64, Arc<str>)>,
}

impl Host {
    fn show(&mut self, messages: Vec<Message>) {
        let generation = self.generation.unwrap();
        for message in messages {
            let id = message.id(generation);
            let before = self.told.insert(id.clone(), (message.number, Arc::clone(&message.text)));
            let now = (message.number, Arc::clone(&message.text));
            assert!(before.is_none_or(|before| before == now), "{id} came again with another text or cursor");
            assert!(self.held.insert(id.clone()), "{id} was shown twice");
            self.messages.push(message);
        }
        self.messages.sort_by_key(Message::order);
    }
}

/// The marks that survive a restart.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) marks: BTreeMap<(u64, String, Part), Mark>,
}

impl Index {
    pub(super) fn write(&mut self, batch: &Batch) {
        if batch.clear {
            self.marks.clear();
        }
        for mark in batch.marks.to_vec() {
            self.marks.insert((batch.generation, mark.entry.to_string(), mark.part), mark);
        }
    }

    fn holds(&self, generation: u64, message: &Message) -> bool {
        let key = (generation, message.entry.to_string(), message.part);
        self.marks.get(&key).is_some_and(|mark| match message.version {
            Version::Base => mark.first == message.number,
            Version::Edit => mark.edit.is_some_and(|edit| edit >= message.number),
            Version::Delete => mark.delete.is_some_and(|delete| delete >= message.number),
        })
    }
}

pub(super) struct Bed {
    pub(super) mirror: Mirror,
    pub(super) now: Now,
    pub(super) harness: Harness,
    pub(super) service: Service,
    pub(super) index: Index,
    /// The index answers only when told to.
    pub(super) slow_index: bool,
    pub(super) batches: VecDeque<Batch>,
    /// Pages are answered only when told to.
    pub(super) slow_pages: bool,
    pub(super) asked: VecDeque<PageQuery>,
    /// All page queries so far.
    pub(super) listed: usize,
    pub(super) fetches: Vec<FetchQuery>,
    pub(super) host: Host,
    pub(super) notices: Vec<Notice>,
    pub(super) lost: Vec<u64>,
    pub(super) skipped: Vec<Malformed>,
    pub(super) resets: usize,
    pub(super) reads_done: usize,
    pub(super) stalls: usize,
    pub(super) inserted: usize,
}

pub(super) const START: Now = Now { mono: Mono(Duration::from_secs(1_000)), wall: Wall(1_790_000_000_000) };

impl Bed {
    /// A mirror that was never told anything, beside an empty transcript of generation 1.
    pub(super) fn idle() -> Self {
        Self {
            mirror: Mirror::new(Harness::Other, Stored::default(), START.wall),
            now: START,
            harness: Harness::Other,
            service: Service { generation: 1, places: BTreeMap::new(), page: 500, ignores_before: false, mute: false },
            index: Index::default(),
            slow_index: false,
            batches: VecDeque::new(),
            slow_pages: false,
            asked: VecDeque::new(),
            listed: 0,
            fetches: Vec::new(),
            host: Host::default(),
            notices: Vec::new(),
            lost: Vec::new(),
            skipped: Vec::new(),
            resets: 0,
            reads_done: 0,
            stalls: 0,
            inserted: 0,
        }
    }

    /// A service with these rows, and a mirror that was never told anything.
    pub(super) fn beside(ops: impl IntoIterator<Item = Op>) -> Self {
        let mut bed = Self::idle();
        bed.meanwhile(ops);
        bed
    }

    /// A record that was read in full and is open.
    pub(super) fn open(ops: impl IntoIterator<Item = Op>) -> Self {
        let mut bed = Self::beside(ops);
        bed.start();
        bed.wait(1_000);
        assert!(bed.host.open, "the record didn't open");
        bed
    }

    pub(super) fn start(&mut self) {
        self.input(Input::StartRead { live: false, harness: self.harness });
    }

    pub(super) fn start_live(&mut self) {
        self.input(Input::StartRead { live: true, harness: self.harness });
    }

    /// The transcript changes and nobody tells us.
    pub(super) fn meanwhile(&mut self, ops: impl IntoIterator<Item = Op>) {
        for op in ops {
            self.service.record(&op);
        }
    }

    /// The transcript changes and the stream brings it in one frame.
    pub(super) fn stream(&mut self, ops: impl IntoIterator<Item = Op>) {
        let ops: Vec<Op> = ops.into_iter().collect();
        self.meanwhile(ops.clone());
        self.frame(ops);
    }

    /// A frame of the stream, whatever the transcript holds.
    pub(super) fn frame(&mut self, ops: impl IntoIterator<Item = Op>) {
        let generation = Some(self.service.generation).filter(|_| !self.service.mute);
        self.frame_of(generation, ops);
    }

    pub(super) fn frame_of(&mut self, generation: Option<u64>, ops: impl IntoIterator<Item = Op>) {
        let (mut rows, mut deletes) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Row(row) => rows.push(row),
                Op::Delete(delete) => deletes.push(delete),
            }
        }
        self.input(Input::Rows { generation, rows, deletes });
    }

    /// All goes; the transcript begins again.
    pub(super) fn forget(&mut self, generation: u64) {
        self.service.generation = generation;
        self.service.places.clear();
    }

    /// The stream breaks; a full read follows, then the replay from the cursor.
    pub(super) fn reconnect(&mut self) {
        self.input(Input::StreamLost);
        self.start();
        self.replay();
    }

    /// The stream opens with the mirror's cursor.
    pub(super) fn replay(&mut self) -> Option<Cursor> {
        let cursor = self.mirror.resume();
        if let Some(cursor) = cursor.filter(|cursor| cursor.generation == self.service.generation) {
            let ops = self.service.past(cursor.number);
            if !ops.is_empty() {
                self.frame(ops);
            }
        }
        cursor
    }

    /// The process ends and another one starts from the index; what the index hadn't committed is gone.
    pub(super) fn restart(&mut self) {
        self.batches.clear();
        self.asked.clear();
        self.fetches.clear();
        let marks = self.index.marks.iter().map(|((generation, ..), mark)| (*generation, mark.clone())).collect();
        self.mirror = Mirror::new(self.harness, marks, self.now.wall);
        let told = std::mem::take(&mut self.host.told);
        self.host = Host { told, ..Host::default() };
    }

    /// Restarts, reads, and lets the quiet second pass.
    pub(super) fn restart_and_open(&mut self) {
        self.restart();
        self.start();
        self.replay();
        self.wait(1_000);
        assert!(self.host.open, "the record didn't open after the restart");
    }

    /// Time passes; the mirror is ticked when it asked for it.
    pub(super) fn wait(&mut self, millis: u64) {
        let until = self.now.mono.after(Duration::from_millis(millis));
        while let Some(deadline) = self.mirror.deadline().filter(|deadline| *deadline <= until) {
            self.pass(deadline);
            self.input(Input::Tick);
        }
        self.pass(until);
        self.input(Input::Tick);
    }

    fn pass(&mut self, until: Mono) {
        let passed = until.since(self.now.mono);
        self.now.mono = self.now.mono.max(until);
        self.now.wall.0 += i64::try_from(passed.as_millis()).unwrap();
    }

    pub(super) fn input(&mut self, input: Input) {
        let (head, generation) = (self.mirror.staged_head, self.mirror.generation());
        let effects = self.mirror.apply(self.now, input);
        // (The head of the index is taken over with the generation; what is pending below it was passed by another process.)
        let known = generation.is_some();
        if let Some(passed) = self.mirror.staged_head.filter(|passed| known && head < Some(*passed)) {
            let from = head.map_or(0, |head| head + 1);
            let next = self.mirror.order.next(from);
            assert!(next.is_none_or(|number| number > passed), "the head passed something pending");
        }
        let mut follow = Vec::new();
        for effect in effects {
            self.take(effect, &mut follow);
        }
        if let Some(deadline) = self.mirror.deadline() {
            assert!(deadline > self.now.mono, "a deadline that would spin: {deadline:?} at {:?}", self.now.mono);
        }
        for input in follow {
            self.input(input);
        }
    }

    fn take(&mut self, effect: Effect, follow: &mut Vec<Input>) {
        match effect {
            Effect::ReadPage(query) => {
                self.listed += 1;
                if self.slow_pages {
                    self.asked.push_back(query);
                } else {
                    follow.push(self.page_for(&query));
                }
            }
            Effect::ReadStalled => self.stalls += 1,
            Effect::ReadDone => self.reads_done += 1,
            Effect::Fetch(query) => self.fetches.push(query),
            Effect::Commit(batch) => {
                if self.slow_index {
                    self.batches.push_back(batch);
                } else {
                    let id = batch.id;
                    self.index.write(&batch);
                    follow.push(Input::Committed { batch: id });
                }
            }
            Effect::Opened { generation, messages, head } => {
                assert!(!self.host.open, "opened twice");
                let messages = messages.to_vec();
                assert!(messages.is_sorted_by_key(Message::order));
                self.committed(generation, &messages);
                let highest = messages.iter().map(|message| message.number).max();
                assert!(highest <= head, "the head is below a message");
                self.host.generation = Some(generation);
                (self.host.open, self.host.head) = (true, head);
                self.host.messages.clear();
                self.host.held.clear();
                self.host.show(messages);
            }
            Effect::Appended { messages, head } => {
                assert!(self.host.open, "appended to a record that isn't open");
                let messages = messages.to_vec();
                assert!(messages.is_sorted_by_key(Message::order));
                self.committed(self.host.generation.unwrap(), &messages);
                for message in &messages {
                    assert!(
                        Some(message.number) > self.host.head && message.number <= head,
                        "out of order: {message:?}"
                    );
                }
                assert!(Some(head) > self.host.head, "the head didn't rise");
                self.host.head = Some(head);
                self.host.show(messages);
            }
            Effect::Inserted(messages) => {
                assert!(self.host.open, "inserted into a record that isn't open");
                self.committed(self.host.generation.unwrap(), &messages);
                assert!(messages.iter().all(|message| Some(message.number) <= self.host.head));
                self.inserted += messages.len();
                self.host.show(messages);
            }
            Effect::Reset { .. } => {
                self.resets += 1;
                self.host.messages.clear();
                self.host.held.clear();
                (self.host.open, self.host.head, self.host.generation) = (false, None, None);
            }
            Effect::Activity(notice) => self.notices.push(notice),
            Effect::Lost { seq } => self.lost.push(seq),
            Effect::Skipped(malformed) => self.skipped.push(malformed),
        }
    }

    fn committed(&self, generation: u64, messages: &[Message]) {
        for message in messages {
            assert!(self.index.holds(generation, message), "shown before the index had it: {message:?}");
        }
    }

    fn page_for(&self, query: &PageQuery) -> Input {
        Input::Page {
            read: query.read,
            generation: Some(self.service.generation).filter(|_| !self.service.mute),
            rows: self.service.page_of(query),
            malformed: 0,
        }
    }

    /// Answers the oldest page query from the service as it is now.
    pub(super) fn answer_page(&mut self) {
        let query = self.asked.pop_front().expect("no page was asked for");
        let page = self.page_for(&query);
        self.input(page);
    }

    /// Answers the oldest page query by hand.
    pub(super) fn page(&mut self, generation: Option<u64>, ops: impl IntoIterator<Item = Op>) {
        let query = self.asked.pop_front().expect("no page was asked for");
        self.page_to(&query, generation, ops, 0);
    }

    pub(super) fn page_to(
        &mut self,
        query: &PageQuery,
        generation: Option<u64>,
        ops: impl IntoIterator<Item = Op>,
        malformed: usize,
    ) {
        let rows = ops.into_iter().map(|op| match op {
            Op::Row(row) => row,
            Op::Delete(_) => panic!("a page holds no deletes"),
        });
        let rows = rows.collect();
        self.input(Input::Page { read: query.read, generation, rows, malformed });
    }

    /// The index commits the oldest batch that waits.
    pub(super) fn commit(&mut self) {
        let batch = self.batches.pop_front().expect("no batch waits");
        let id = batch.id;
        self.index.write(&batch);
        self.input(Input::Committed { batch: id });
    }

    /// Takes the open fetch of a row.
    pub(super) fn fetch_of(&mut self, seq: u64) -> FetchQuery {
        let at = self.fetches.iter().position(|query| query.seq == seq).expect("no body of it was asked for");
        self.fetches.remove(at)
    }

    /// The fetched body of a row comes.
    pub(super) fn body(&mut self, op: Op) {
        let Op::Row(row) = op else { panic!("a body is a row") };
        let query = self.fetch_of(row.seq);
        self.input(Input::Body { query, row: Some(row) });
    }

    /// All tries for the body of a row failed.
    pub(super) fn no_body(&mut self, seq: u64) {
        let query = self.fetch_of(seq);
        self.input(Input::Body { query, row: None });
    }

    pub(super) fn live(&mut self, state: LiveState) {
        self.input(Input::Live { state: Some(state), snapshot: false });
    }

    pub(super) fn snapshot(&mut self, state: Option<LiveState>) {
        self.input(Input::Live { state, snapshot: true });
    }

    pub(super) fn turn_failed(&mut self, code: &str) {
        self.input(Input::TurnFailed(TurnFailure { code: code.into(), summary: "".into() }));
    }

    /// What the host was told of the activity, drawn: the status, or `-`, with the code of a failure.
    pub(super) fn told(&mut self) -> Vec<String> {
        let draw = |notice: Notice| {
            let status = notice.activity.map_or("-".to_owned(), |activity| activity.status.to_string());
            notice.failure.map_or(status.clone(), |failure| format!("{status} ({})", failure.code))
        };
        self.notices.drain(..).map(draw).collect()
    }

    pub(super) fn head(&self) -> Option<u64> {
        self.host.head
    }

    pub(super) fn echo(&self, nonce: u128) -> Echo {
        self.mirror.echo(nonce)
    }

    /// The message of a send, drawn: `id @cursor`.
    pub(super) fn echo_id(&self, nonce: u128) -> Option<String> {
        match self.echo(nonce) {
            Echo::Exposed { id, cursor } => Some(self.held(&id, cursor)),
            Echo::None | Echo::Seen => None,
        }
    }

    /// The message of a widget's answer, drawn alike.
    pub(super) fn answer(&self, id: &str) -> Option<String> {
        let (id, cursor) = self.widget(id)?.answer?;
        Some(self.held(&id, cursor))
    }

    /// What is named must be there to read.
    fn held(&self, id: &str, cursor: Cursor) -> String {
        assert!(self.host.held.contains(id), "{id} isn't in the record");
        assert_eq!(self.host.told[id].0, cursor.number);
        format!("{id} @{}", cursor.number)
    }

    pub(super) fn widget(&self, id: &str) -> Option<WidgetState> {
        self.mirror.widget(&EntryId::from(id))
    }

    /// The record as the host holds it, one line a message: `id @cursor speaker: text`.
    pub(super) fn transcript(&self) -> Vec<String> {
        let generation = self.host.generation.unwrap_or(0);
        self.host.messages.iter().map(|message| draw(generation, message)).collect()
    }

    /// Asserts the whole record, line by line.
    #[track_caller]
    pub(super) fn shows<const N: usize>(&self, lines: [&str; N]) {
        let transcript = self.transcript();
        assert_eq!(transcript, lines, "the record reads otherwise");
    }

    /// What a person reads in the end: the latest text of every entry that isn't deleted, by base id.
    pub(super) fn readable(&self) -> BTreeMap<String, String> {
        let mut readable = BTreeMap::new();
        for message in &self.host.messages {
            let base = message.base(self.host.generation.unwrap());
            match message.version {
                Version::Delete => readable.remove(&base),
                _ => readable.insert(base, message.text.to_string()),
            };
        }
        readable
    }

    pub(super) fn at_of(&self, id: &str) -> i64 {
        let generation = self.host.generation.unwrap();
        self.host.messages.iter().find(|message| message.id(generation) == id).expect("no such message").at.0
    }
}

fn draw(generation: u64, message: &Message) -> String {
    let from = match message.from {
        Author::Account => "me",
        Author::Bot => "bot",
    };
    let text = if message.version == Version::Delete { "(gone)" } else { &message.text };
    let reply = message.reply_to.as_ref().map_or(String::new(), |to| format!(" >{to}"));
    format!("{} @{} {from}: {text}{reply}", message.id(generation), message.number)
}

pub(super) fn running() -> LiveState {
    LiveState { running: true, ..LiveState::default() }
}

pub(super) fn busy(kind: &str, tool: &str, detail: &str) -> LiveState {
    let activity = Some(LiveActivity { kind: kind.into(), tool: tool.into(), detail: detail.into() });
    LiveState { activity, ..running() }
}

pub(super) fn attachment(name: &str, size: u64) -> Attachment {
    Attachment { name: name.into(), size: Some(size) }
}

pub(super) fn image(alt: Option<&str>, url: &str) -> Image {
    Image { alt: alt.map(Into::into), url: url.into() }
}

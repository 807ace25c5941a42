//! The host: what it is told, three followers that read it all, and what is wrong with it.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Result;
use super::data::GENERATION;
use super::provider::{Line, Provider, Size};
use super::service::Service;
use super::world::Read;

/// How long a text must stay unchanged before it is shown.
const QUIET: Duration = Duration::from_secs(1);
/// Hosts' worth of reads: each follows every record.
const FOLLOWERS: usize = 3;
/// How long anything may take before a run is given up: something is broken then, not slow.
const PATIENCE: Duration = Duration::from_mins(5);
/// Who waited no longer than this for a message has caught up.
const CAUGHT_UP: Duration = Duration::from_millis(1500);

/// One line of the provider.
#[derive(Debug, Deserialize)]
struct Message {
    id: Option<u64>,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Box<RawValue>>,
    error: Option<Value>,
}

/// The answer of `session/read`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    messages: Vec<Shown>,
    has_more: HasMore,
}

#[derive(Debug, Deserialize)]
struct HasMore {
    after: bool,
}

#[derive(Debug, Deserialize)]
struct Shown {
    id: String,
    cursor: String,
    text: String,
}

/// What an answer is for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Follow {
        follower: usize,
        bot: usize,
    },
    /// Asked without reading the answers.
    Blindly,
    Here,
}

/// A record as somebody holds it: enough to compare it with another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) count: u64,
    hash: u64,
    last: u64,
}

impl Held {
    fn add(&mut self, message: &Read) {
        let mut hasher = DefaultHasher::new();
        (self.hash, &message.id, message.number, &message.text).hash(&mut hasher);
        *self = Self { count: self.count + 1, hash: hasher.finish(), last: self.last.max(message.number) };
    }
}

/// A host that reads each record after the last message it has, whenever a head moved; one read at a time.
#[derive(Debug)]
struct Follower {
    dirty: VecDeque<usize>,
    queued: Vec<bool>,
    reading: bool,
    held: Vec<Held>,
}

impl Follower {
    fn queue(&mut self, bot: usize) {
        if !std::mem::replace(&mut self.queued[bot], true) {
            self.dirty.push_back(bot);
        }
    }
}

/// The time in which the host didn't read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deaf {
    pub(crate) from: Instant,
    /// When it read again.
    pub(crate) to: Option<Instant>,
    /// When it had caught up.
    pub(crate) over: Option<Instant>,
}

/// The host.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    provider: Provider,
    service: &'a Service,
    records: Vec<Option<String>>,
    heads: Vec<u64>,
    followers: Vec<Follower>,
    asked: HashMap<u64, Asked>,
    next: u64,
    answer: Option<Box<RawValue>>,
    blind: usize,
    pub(crate) deaf: Option<Deaf>,
    /// Milliseconds beyond the quiet second, of every message that was brought while the host read.
    pub(crate) delays: Vec<f64>,
    /// Head notices.
    pub(crate) told: u64,
    /// The largest that was ever looked at.
    pub(crate) largest: Size,
    looked: Instant,
    pub(crate) faults: Vec<String>,
}

fn number(cursor: &str) -> Option<u64> {
    let (generation, number) = cursor.split_once(':')?;
    (generation == GENERATION.to_string()).then(|| number.parse().ok())?
}

impl<'a> Host<'a> {
    pub(crate) fn new(provider: Provider, service: &'a Service) -> Self {
        let bots = service.world(super::world::World::bots);
        let follower = || Follower {
            dirty: VecDeque::new(),
            queued: vec![false; bots],
            reading: false,
            held: vec![Held::default(); bots],
        };
        Self {
            provider,
            service,
            records: vec![None; bots],
            heads: vec![0; bots],
            followers: (0..FOLLOWERS).map(|_| follower()).collect(),
            asked: HashMap::new(),
            next: 0,
            answer: None,
            blind: 0,
            deaf: None,
            delays: Vec::new(),
            told: 0,
            largest: Size::default(),
            looked: Instant::now(),
            faults: Vec::new(),
        }
    }

    /// What the system says of the provider.
    pub(crate) fn size(&self) -> io::Result<Size> {
        self.provider.size()
    }

    /// Takes what the provider says next, if it says something soon.
    pub(crate) fn step(&mut self) -> Result<()> {
        match self.provider.lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => self.note(&line)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the provider has ended".into()),
        }
        if self.looked.elapsed() >= Duration::from_secs(1) {
            self.looked = Instant::now();
            let size = self.size()?;
            self.largest.resident = size.resident.max(self.largest.resident);
            self.largest.threads = size.threads.max(self.largest.threads);
            self.largest.files = size.files.max(self.largest.files);
        }
        if let Some(Deaf { to: Some(_), over: over @ None, .. }) = &mut self.deaf
            && self.blind == 0
            && self.service.oldest_unshown().is_none_or(|at| at.elapsed() < CAUGHT_UP)
        {
            *over = Some(Instant::now());
        }
        Ok(())
    }

    /// Takes what the provider says until something holds.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !done(self) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("not in time: {what}").into());
            }
            self.step()?;
        }
        Ok(())
    }

    /// Takes what it says for so long.
    pub(crate) fn listen(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.step()?;
        }
        Ok(())
    }

    /// Whether every head is where the service's changes put it.
    pub(crate) fn has_heads(&self) -> bool {
        self.service.world(|world| (0..world.bots()).all(|bot| self.heads[bot] >= world.head(bot)))
    }

    /// Whether the followers have nothing more to read.
    pub(crate) fn has_read(&self) -> bool {
        self.followers.iter().all(|follower| !follower.reading && follower.dirty.is_empty())
    }

    fn send(&mut self, asked: Asked, method: &str, params: &Value) {
        self.next += 1;
        self.asked.insert(self.next, asked);
        self.provider.send(json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).to_string());
    }

    /// Asks and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Box<RawValue>> {
        self.send(Asked::Here, method, params);
        self.until(method, |host| host.answer.is_some())?;
        self.answer.take().ok_or_else(|| "no answer".into())
    }

    /// Stops reading, and asks for so many pages of the first Bot's record all the same.
    pub(crate) fn stop_reading(&mut self, reads: usize) {
        self.provider.deafen(true);
        self.deaf = Some(Deaf { from: Instant::now(), to: None, over: None });
        let params = json!({"record": self.records[0], "limit": 500});
        for _ in 0..reads {
            self.blind += 1;
            self.send(Asked::Blindly, "session/read", &params);
        }
    }

    /// Reads again.
    pub(crate) fn read_on(&mut self) {
        if let Some(deaf) = &mut self.deaf {
            deaf.to = Some(Instant::now());
        }
        self.provider.deafen(false);
    }

    fn note(&mut self, (at, line): &Line) -> Result<()> {
        let message: Message = serde_json::from_str(line)?;
        match (message.method.as_deref(), message.params) {
            (Some("records/put"), Some(params)) => {
                let record = &params["record"];
                self.head(*at, record["id"].as_str(), record["head"].as_str());
            }
            (Some("session/head"), Some(params)) => {
                self.told += 1;
                self.head(*at, params["record"].as_str(), params["head"].as_str());
            }
            (Some("records/withdrawn"), _) => self.faults.push("a record was withdrawn".to_owned()),
            (Some(_), _) => {}
            (None, _) => {
                let asked = message.id.and_then(|id| self.asked.remove(&id));
                match (asked, message.result) {
                    (Some(Asked::Follow { follower, bot }), Some(page)) => self.page(follower, bot, &page)?,
                    (Some(Asked::Blindly), Some(_)) => self.blind -= 1,
                    (Some(Asked::Here), result) if message.error.is_none() => {
                        // A result of `null` is one, too.
                        self.answer = Some(result.unwrap_or_else(|| RawValue::NULL.to_owned()));
                    }
                    (asked, _) => return Err(format!("{asked:?} was answered by {:?}", message.error).into()),
                }
            }
        }
        self.follow();
        Ok(())
    }

    fn head(&mut self, at: Instant, record: Option<&str>, head: Option<&str>) {
        let agent = record.and_then(|record| record.rsplit(':').next()).unwrap_or_default();
        let Some(bot) = self.service.world(|world| world.bot(agent)) else {
            return self.faults.push(format!("an unknown record: {record:?}"));
        };
        self.records[bot] = record.map(str::to_owned);
        let Some(number) = head.and_then(number) else {
            if self.heads[bot] > 0 {
                self.faults.push(format!("Bot {bot}: a head became {head:?}"));
            }
            return;
        };
        if number < self.heads[bot] {
            self.faults.push(format!("Bot {bot}: a head fell from {} to {number}", self.heads[bot]));
        }
        self.heads[bot] = number;
        for sent in self.service.shown(bot, number) {
            let delay = at.duration_since(sent).as_secs_f64() - QUIET.as_secs_f64();
            if delay < 0.0 {
                self.faults.push(format!("Bot {bot}: {number} was shown {delay:.3} s too early"));
            }
            // What was brought before the host stopped reading and is told after it belongs to that time, too.
            if !self.deaf.is_some_and(|deaf| deaf.over.is_none_or(|over| sent < over) && at > deaf.from) {
                self.delays.push(delay * 1000.0);
            }
        }
        self.followers.iter_mut().for_each(|follower| follower.queue(bot));
    }

    fn follow(&mut self) {
        for follower in 0..self.followers.len() {
            let reader = &mut self.followers[follower];
            if reader.reading {
                continue;
            }
            let Some(bot) = reader.dirty.pop_front() else { continue };
            reader.queued[bot] = false;
            reader.reading = true;
            let after = format!("{GENERATION}:{}", reader.held[bot].last);
            let params = json!({"record": self.records[bot], "after": after, "limit": 500});
            self.send(Asked::Follow { follower, bot }, "session/read", &params);
        }
    }

    fn page(&mut self, follower: usize, bot: usize, page: &RawValue) -> Result<()> {
        let page: Page = serde_json::from_str(page.get())?;
        let reader = &mut self.followers[follower];
        reader.reading = false;
        let before = reader.held[bot].last;
        for message in page.messages {
            let message = read(message)?;
            if message.number <= before {
                self.faults.push(format!("Bot {bot}: {} came again", message.id));
            }
            reader.held[bot].add(&message);
        }
        if page.has_more.after {
            reader.queue(bot);
        }
        Ok(())
    }

    /// Reads a record from its first message to its last.
    fn whole(&mut self, bot: usize) -> Result<Vec<Read>> {
        let mut all: Vec<Read> = Vec::new();
        loop {
            let after = format!("{GENERATION}:{}", all.last().map_or(0, |message| message.number));
            let params = json!({"record": self.records[bot], "after": after, "limit": 500});
            let page: Page = serde_json::from_str(self.call("session/read", &params)?.get())?;
            all.extend(page.messages.into_iter().map(read).collect::<Result<Vec<Read>>>()?);
            if !page.has_more.after {
                return Ok(all);
            }
        }
    }

    /// Reads everything and holds it against what the service has and against what the followers have: messages, and bytes of their texts.
    pub(crate) fn check(&mut self, plain: bool) -> Result<(u64, u64)> {
        let (mut messages, mut bytes) = (0, 0);
        for bot in 0..self.records.len() {
            let all = self.whole(bot)?;
            self.service.world(|world| world.check(bot, &all, plain))?;
            let mut held = Held::default();
            for message in &all {
                held.add(message);
                bytes += message.text.len() as u64;
            }
            messages += held.count;
            if let Some(other) = self.followers.iter().map(|follower| follower.held[bot]).find(|other| *other != held) {
                return Err(format!("Bot {bot}: who followed has {other:?}, and one read gives {held:?}").into());
            }
        }
        Ok((messages, bytes))
    }

    /// `shutdown`, the end of stdin, the end of the process.
    pub(crate) fn quit(mut self) -> Result<Vec<String>> {
        self.call("shutdown", &json!({}))?;
        if !self.provider.finish()? {
            self.faults.push("the provider's exit code isn't 0".to_owned());
        }
        Ok(self.faults)
    }
}

fn read(message: Shown) -> Result<Read> {
    let number = number(&message.cursor).ok_or_else(|| format!("a strange cursor: {}", message.cursor))?;
    Ok(Read { id: message.id, number, text: message.text })
}

//! A host: speaks the contract over a pair of channels with the real session, and believes nothing but the JSON that it gets.

mod heard;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::history::History;
use super::model::{Cursor, Ledger, Record, Why, bot};
use crate::host::{Far, Incoming, message_id};

/// A host, shared between its task and the run.
#[derive(Clone, Debug)]
pub(super) struct Host {
    state: Arc<Mutex<State>>,
    wake: Arc<Notify>,
}

/// A read that no host with sense would make, and the answers it may get.
#[derive(Clone, Debug)]
pub(super) enum Odd {
    /// Refused as this.
    Refused(&'static str),
    /// Past everything: an empty page.
    Past,
    /// Of no life of the record.
    OtherLife,
    /// Whatever it gives must be sound.
    Some,
}

#[derive(Debug)]
enum Ask {
    Initialize,
    Nothing(&'static str),
    List,
    Read { record: String, why: Why, limit: usize, life: u64 },
    Post { run: String, refused: &'static str, reply: bool },
    Bind,
    Shutdown,
}

/// A post and what became of it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) record: String,
    pub(super) message_id: Uuid,
    texts: Vec<String>,
    /// May have answered a question.
    pub(super) answers: bool,
    /// Refused, so that it never became a run.
    pub(super) refused: bool,
    pub(super) settled: Option<Settled>,
    /// Accepted by the session that is there now.
    here: bool,
    /// Held unfinished over a restart of the host or of the provider.
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Completed,
    Failed(String),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) name: String,
    session: u64,
    pub(super) connected: bool,
    greeted: bool,
    closing: bool,
    vanishing: bool,
    next: u64,
    asked: HashMap<String, Ask>,
    out: VecDeque<String>,
    pub(super) records: BTreeMap<String, Record>,
    pub(super) runs: BTreeMap<String, Run>,
    /// Openings of the bind view that were answered `sent`, and all codes given.
    pub(super) binds: BTreeMap<String, bool>,
    /// The number of the newest plain post to each record.
    pub(super) newest: BTreeMap<String, u32>,
    asks_owed: usize,
    pub(super) signed: String,
    /// Longest pause after a text, in ms.
    pub(super) slow: u64,
    paused: Option<Instant>,
    rng: Rng,
    ledger: Ledger,
    history: History,
}

impl Host {
    pub(super) fn new(name: &str, rng: Rng, ledger: Ledger, history: History) -> Self {
        let state = State {
            name: name.to_owned(),
            session: 0,
            connected: false,
            greeted: false,
            closing: false,
            vanishing: false,
            next: 0,
            asked: HashMap::new(),
            out: VecDeque::new(),
            records: BTreeMap::new(),
            runs: BTreeMap::new(),
            binds: BTreeMap::new(),
            newest: BTreeMap::new(),
            asks_owed: 0,
            signed: String::new(),
            slow: 0,
            paused: None,
            rng,
            ledger,
            history,
        };
        Self { state: Arc::new(Mutex::new(state)), wake: Arc::new(Notify::new()) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Does something with it and lets its task look.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let done = work(&mut self.lock());
        self.wake.notify_one();
        done
    }

    /// Lives over one connection, until it ends.
    pub(super) async fn live(self, far: Far) {
        let Far { incoming, mut outgoing } = far;
        let mut incoming = Some(incoming);
        loop {
            let (paused, wants) = {
                let state = self.lock();
                if state.vanishing {
                    break;
                }
                if state.closing && state.out.is_empty() {
                    incoming = None;
                }
                (state.paused, !state.out.is_empty() && incoming.is_some())
            };
            let to = incoming.clone();
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => self.lock().paused = None,
                permit = async { to.as_ref().unwrap().reserve().await }, if wants => match permit {
                    Ok(permit) => {
                        if let Some(text) = self.lock().out.pop_front() {
                            permit.send(Incoming::Text(text));
                        }
                    }
                    Err(_) => incoming = None,
                },
                text = outgoing.recv(), if paused.is_none() => match text {
                    Some(text) => self.lock().heard(&text),
                    None => break,
                },
            }
        }
        self.lock().gone();
    }
}

impl State {
    fn note(&self, line: impl std::fmt::Display) {
        self.history.note(format_args!("{} {line}", self.name));
    }

    // What it does.

    /// A new connection: everything that it knows it keeps.
    pub(super) fn connect(&mut self) {
        self.session += 1;
        self.connected = true;
        self.greeted = false;
        self.closing = false;
        self.vanishing = false;
        self.paused = None;
        self.asked.clear();
        self.out.clear();
        self.asks_owed = 0;
        for record in self.records.values_mut() {
            record.begin_anew();
        }
        let open: Vec<Value> = self
            .runs
            .iter_mut()
            .filter(|(_, run)| run.settled.is_none() && !run.refused)
            .map(|(id, run)| {
                run.here = true;
                run.open = true;
                json!({"id": id, "record": run.record})
            })
            .collect();
        self.note(format_args!("connects, {} open runs", open.len()));
        let params =
            json!({"protocolVersion": "5.7.0", "host": {"name": "Coda", "version": "5.7.0"}, "openRuns": open});
        self.ask("initialize", &params, Ask::Initialize);
    }

    fn ask(&mut self, method: &str, params: &Value, ask: Ask) {
        self.next += 1;
        let id = format!("{}.{}.{}", self.name, self.session, self.next);
        self.out.push_back(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        self.asked.insert(id, ask);
    }

    pub(super) fn close(&mut self) {
        self.note("closes its end");
        self.closing = true;
    }

    pub(super) fn vanish(&mut self) {
        self.note("vanishes");
        self.vanishing = true;
    }

    pub(super) fn shut_down(&mut self) {
        self.note("-> shutdown");
        self.ask("shutdown", &json!({}), Ask::Shutdown);
    }

    pub(super) fn list(&mut self) {
        self.ask("records/list", &json!({}), Ask::List);
    }

    pub(super) fn resource(&mut self, what: &'static str) {
        self.note(format_args!("-> {what}"));
        self.ask(what, &json!({}), Ask::Nothing(what));
    }

    /// Doesn't read for a while.
    pub(super) fn pause(&mut self, time: Duration) {
        self.note(format_args!("doesn't read for {time:?}"));
        self.paused = Some(Instant::now() + time);
    }

    pub(super) fn listed(&self) -> Vec<String> {
        self.records.iter().filter(|(_, record)| record.listed).map(|(id, _)| id.clone()).collect()
    }

    /// Posts to a record. `says`: what its message may say instead of the text.
    pub(super) fn post(
        &mut self,
        name: &str,
        text: &str,
        request: &str,
        reply_to: Option<&str>,
        says: &[&str],
        more: &Value,
    ) {
        self.next += 1;
        let run = format!("{}-run{}", self.name, self.next);
        let mut params =
            json!({"record": name, "run": {"id": run}, "caller": self.name, "requestId": request, "text": text});
        if let Some(to) = reply_to {
            params["replyTo"] = to.into();
        }
        let mut refused = if reply_to.is_some_and(|to| to.starts_with("0:none")) { "bad_params" } else { "" };
        if let Some(more) = more.as_object() {
            for (key, value) in more {
                params[key] = value.clone();
            }
        }
        if params["draft"] == true {
            refused = "draft";
        } else if params.get("attachments").is_some() {
            refused = "text_only";
        } else if text.trim_matches(['\u{200b}', ' ', '\n']).is_empty() {
            refused = "bad_params";
        }
        self.note(format_args!("-> post {run} to {} as {request}: {text:?} re {reply_to:?} {more}", bot(name)));
        let made = Run {
            record: name.to_owned(),
            message_id: message_id(&self.name, name, request),
            texts: std::iter::once(text).chain(says.iter().copied()).map(str::to_owned).collect(),
            answers: !says.is_empty(),
            refused: refused == "draft",
            settled: None,
            here: true,
            open: false,
        };
        self.runs.insert(run.clone(), made);
        self.ask("session/post", &params, Ask::Post { run, refused, reply: reply_to.is_some() });
    }

    pub(super) fn open_bind(&mut self, name: &str) {
        self.note(format_args!("-> view/open of {}", bot(name)));
        self.asks_owed += 1;
        self.ask("view/open", &json!({"view": "bind", "args": [name]}), Ask::Bind);
    }

    fn read(&mut self, name: &str, why: Why, limit: usize) {
        let mut params = json!({"record": name, "limit": limit});
        let place = |(generation, number): &Cursor| Value::from(format!("{generation}:{number}"));
        match &why {
            Why::First | Why::Whole(None) | Why::Odd(_) => {}
            Why::Back(before) | Why::Whole(Some(before)) => params["before"] = place(before),
            Why::After(after) | Why::Echo { after, .. } => params["after"] = place(after),
        }
        self.send_read(name, &params, why, limit);
    }

    fn send_read(&mut self, name: &str, params: &Value, why: Why, limit: usize) {
        let life = self.records.get(name).map_or(0, |record| record.life);
        let shown = |key: &str| params.get(key).map(|value| format!(" {key} {value}")).unwrap_or_default();
        self.note(format_args!("-> read {}{}{}", bot(name), shown("after"), shown("before")));
        self.ask("session/read", params, Ask::Read { record: name.to_owned(), why, limit, life });
    }

    /// Any read: a cursor of nowhere, a limit out of bounds.
    pub(super) fn read_oddly(&mut self, name: &str, rng: &mut Rng) {
        let known = self.records.get(name).and_then(|record| record.told);
        let (generation, number) = known.unwrap_or((1, 1));
        let huge = "9".repeat(40);
        let side = if rng.bool() { "after" } else { "before" };
        let (params, odd) = match rng.u8(0..14) {
            0 => (json!({side: "x"}), Odd::Refused("bad_cursor")),
            1 => (json!({side: format!("0{generation}:{number}")}), Odd::Refused("bad_cursor")),
            2 => (json!({side: format!("{generation}:-{number}")}), Odd::Refused("bad_cursor")),
            3 => (json!({side: format!("{generation}:{}", "9".repeat(120))}), Odd::Refused("bad_cursor")),
            4 => (json!({side: null}), Odd::Refused("bad_params")),
            5 => (json!({"after": "1:1", "before": "1:2"}), Odd::Refused("bad_params")),
            6 => (json!({"limit": ([0, 501, -1, i64::MAX][rng.usize(..4)])}), Odd::Refused("bad_params")),
            7 => (json!({"limit": huge}), Odd::Refused("bad_params")),
            8 => (json!({"after": format!("{generation}:{huge}")}), Odd::Past),
            9 => (json!({side: format!("{huge}:{number}")}), Odd::OtherLife),
            10 => (json!({side: format!("{}:{number}", generation + 100_000)}), Odd::OtherLife),
            11 => (json!({side: format!("{generation}:{}", rng.u64(0..=number + 3))}), Odd::Some),
            12 => (json!({"before": format!("{generation}:{huge}")}), Odd::Some),
            _ => (json!({}), Odd::Some),
        };
        let mut whole = json!({"record": name});
        for (key, value) in params.as_object().unwrap() {
            whole[key] = value.clone();
        }
        self.send_read(name, &whole, Why::Odd(odd), 50);
    }

    /// Begins to read the whole record, beside what it follows.
    pub(super) fn read_whole(&mut self, name: &str) {
        let limit = self.rng.usize(1..30);
        if let Some(record) = self.records.get_mut(name)
            && record.whole.is_none()
            && record.listed
        {
            record.begin_whole();
            self.read(name, Why::Whole(None), limit);
        }
    }

    /// Reads what is new.
    pub(super) fn follow(&mut self, name: &str) {
        let Some(record) = self.records.get_mut(name).filter(|record| record.listed) else { return };
        if record.following {
            record.dirty = true;
            return;
        }
        record.following = true;
        record.dirty = false;
        let why = record.position.map_or(Why::First, Why::After);
        let limit = if self.rng.bool() { 50 } else { self.rng.usize(1..6) };
        self.read(name, why, limit);
    }

    fn followed(&mut self, name: &str) {
        let Some(record) = self.records.get_mut(name) else { return };
        record.following = false;
        if std::mem::take(&mut record.dirty) {
            self.follow(name);
        }
    }

    /// Requests that wait for their answer.
    pub(super) fn waiting(&self) -> Vec<String> {
        let mut waiting: Vec<String> = self.asked.iter().map(|(id, ask)| format!("{id} {ask:?}")).collect();
        waiting.sort();
        waiting
    }

    /// Reads without a pause from now on.
    pub(super) fn hurry(&mut self) {
        self.slow = 0;
        self.paused = None;
    }
}

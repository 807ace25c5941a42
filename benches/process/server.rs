//! The service that every client here reads from: precomputed rows over HTTP/1.1 on loopback, in a process of its own, so that its work is nobody's.
//!
//! The first part of a path names the data: `list-BOTS-ROWS-BYTES` (transcripts of so many rows, an idle stream) or `live-BOTS-ROWS-BYTES-FRAME` (one row a Bot,
//! and a stream that brings ROWS more in frames of FRAME as fast as they are read). It is steered over stdin, a line a command, each answered by a line.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::data::{self, GENERATION};
use crate::flow;
use crate::http::{answer, chunk, field, request, rows_frame};
use crate::rows::{self, Row};

/// As the service.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Answer of `GetMe`.
const ME: &str = r#"{"authId":"auth0|user_BENCH","userId":1234,"firstName":"Sam"}"#;
/// Written at once while a stream is sent as fast as it is read.
const BLOCK: usize = 64 * 1024;

/// One named set of data.
#[derive(Debug)]
struct Dataset {
    /// Answer of `ListGrokBotAgents`.
    agents: String,
    /// By agent id: rows as the wire has them, by place from 1 on.
    rows: HashMap<String, Vec<String>>,
    /// What the stream brings, chunk by chunk, after its first frames.
    live: Vec<Vec<u8>>,
    /// Pages served.
    pages: AtomicUsize,
    /// Streams opened.
    opened: AtomicUsize,
}

/// A stream that is open; whoever writes holds it.
type Open = Arc<Mutex<TcpStream>>;

#[derive(Debug, Default)]
struct State {
    sets: Mutex<HashMap<String, Arc<Dataset>>>,
    streams: Mutex<Vec<(String, Open)>>,
}

/// A panic elsewhere leaves nothing half done here.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The transcript of a Bot of a set: all its rows.
pub(crate) fn transcript(bot: usize, rows: u64, average: usize) -> impl Iterator<Item = Row> {
    (1..=rows).map(move |seq| Row::new(bot, seq, rows::old_number(seq, rows), average))
}

/// The row that the stream brings as the `n`th (from 0) of a Bot, after one that was there.
pub(crate) fn live_row(bot: usize, n: u64, average: usize) -> Row {
    Row::new(bot, n + 2, 1000 + n, average)
}

impl Dataset {
    fn named(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let kind = parts.next()?;
        let numbers: Vec<usize> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
        let (bots, rows, average, frame) = match (kind, &numbers[..]) {
            ("list", &[bots, rows, average]) => (bots, rows, average, None),
            ("live", &[bots, rows, average, frame]) => (bots, rows, average, Some(frame)),
            _ => return None,
        };
        let listed = if frame.is_some() { 1 } else { rows as u64 };
        let agent = |bot: usize| {
            let id = data::agent(bot);
            format!(
                r#"{{"id":"row-{bot}","name":"Bot {bot}","agentId":"{id}","harness":"temporal","visibility":"GROK_BOT_AGENT_VISIBILITY_OWNER","viewerIsOwner":true,"kind":"GROK_BOT_AGENT_KIND_AGENT"}}"#
            )
        };
        let agents: Vec<String> = (0..bots).map(agent).collect();
        let wire = |bot| transcript(bot, listed, average).map(|row| row.wire()).collect();
        Some(Self {
            agents: format!(r#"{{"agents":[{}]}}"#, agents.join(",")),
            rows: (0..bots).map(|bot| (data::agent(bot), wire(bot))).collect(),
            live: frame.map(|frame| frames(bots, rows, average, frame)).unwrap_or_default(),
            pages: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
        })
    }

    /// A page, newest first. Places have no gaps here, so a row's place is its index.
    fn page(&self, request: &str) -> String {
        self.pages.fetch_add(1, Ordering::Relaxed);
        let Some(rows) = field(request, "agentId").and_then(|id| self.rows.get(id)) else {
            return "{}".to_owned();
        };
        let before = field(request, "beforeSeq").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
        let limit = field(request, "limit").and_then(|text| text.parse().ok()).unwrap_or(100);
        let end = before.saturating_sub(1).min(rows.len());
        let page = &rows[end.saturating_sub(limit)..end];
        let mut text = String::with_capacity(page.iter().map(|row| row.len() + 1).sum::<usize>() + 64);
        text.push_str(r#"{"entries":["#);
        for (n, row) in page.iter().rev().enumerate() {
            if n > 0 {
                text.push(',');
            }
            text.push_str(row);
        }
        // Writing to a String can't fail.
        let _ = write!(text, r#"],"generation":{GENERATION}}}"#);
        text
    }
}

/// The stream's frames, in turn over the Bots, each as one HTTP chunk.
fn frames(bots: usize, rows: usize, average: usize, frame: usize) -> Vec<Vec<u8>> {
    let mut next = vec![0; bots];
    let one = |n: usize| {
        let bot = n % bots;
        let first: u64 = next[bot];
        next[bot] += frame as u64;
        let rows: Vec<String> = (first..first + frame as u64).map(|n| live_row(bot, n, average).wire()).collect();
        chunk(&rows_frame(&data::agent(bot), &rows.join(",")))
    };
    (0..rows / frame).map(one).collect()
}

/// Runs until stdin ends.
pub(crate) fn run() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let state = Arc::new(State::default());
    say(&listener.local_addr()?.port().to_string())?;
    let shared = Arc::clone(&state);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let state = Arc::clone(&shared);
            // A client that goes away is nobody's fault.
            thread::spawn(move || drop(serve(&state, &connection)));
        }
    });
    for line in io::stdin().lines() {
        let line = line?;
        let mut words = line.split(' ');
        let (command, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let answer = match command {
            "warm" => set(&state, name).map(|_| "ok".to_owned()),
            "pages" => set(&state, name).map(|set| set.pages.load(Ordering::Relaxed).to_string()),
            "opened" => set(&state, name).map(|set| set.opened.load(Ordering::Relaxed).to_string()),
            "break" => {
                break_streams(&state, name);
                Some("ok".to_owned())
            }
            "flow" => words.next().and_then(|first| flow(&state, name, first.parse().ok()?)),
            "push" => words.next().and_then(|number| push(&state, name, number.parse().ok()?)),
            _ => None,
        };
        say(&answer.unwrap_or_else(|| format!("can't: {line}")))?;
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn set(state: &State, name: &str) -> Option<Arc<Dataset>> {
    let mut sets = locked(&state.sets);
    if let Some(set) = sets.get(name) {
        return Some(Arc::clone(set));
    }
    let set = Arc::new(Dataset::named(name)?);
    sets.insert(name.to_owned(), Arc::clone(&set));
    Some(set)
}

/// Breaks the open streams of a set.
fn break_streams(state: &State, name: &str) {
    locked(&state.streams).retain(|(of, stream)| {
        if of == name {
            // It may be gone already.
            let _ = locked(stream).shutdown(Shutdown::Both);
        }
        of != name
    });
}

/// Lets answers stream in every Bot of a set, and says when each was complete.
fn flow(state: &State, name: &str, first: u64) -> Option<String> {
    let bots = set(state, name)?.rows.len();
    let streams: Vec<Open> =
        locked(&state.streams).iter().filter(|(of, _)| of == name).map(|(_, stream)| Arc::clone(stream)).collect();
    let last = flow::run(bots, first, |bot, row| {
        let bytes = chunk(&rows_frame(&data::agent(bot), &row.wire()));
        for stream in &streams {
            // Who has gone gets nothing.
            let _ = locked(stream).write_all(&bytes);
        }
    });
    Some(flow::write(&last))
}

/// Sends one more message of every Bot of a set down its open streams. Bots are those of the set, the row's place and number are `number`.
fn push(state: &State, name: &str, number: u64) -> Option<String> {
    let bots = set(state, name)?.rows.len();
    let mut bytes = Vec::new();
    for bot in 0..bots {
        let row = Row { message: true, ..Row::new(bot, number, number, 300) };
        bytes.extend_from_slice(&chunk(&rows_frame(&data::agent(bot), &row.wire())));
    }
    let streams: Vec<Open> =
        locked(&state.streams).iter().filter(|(of, _)| of == name).map(|(_, stream)| Arc::clone(stream)).collect();
    for stream in &streams {
        locked(stream).write_all(&bytes).ok()?;
    }
    Some(streams.len().to_string())
}

/// Serves one connection.
fn serve(state: &State, connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    loop {
        let Some((path, body)) = request(&mut reader)? else { return Ok(()) };
        let mut parts = path.trim_start_matches('/').split('/');
        let (name, method) = (parts.next().unwrap_or_default(), parts.next_back().unwrap_or_default());
        let Some(set) = set(state, name) else {
            answer(connection, "404 Not Found", "{}")?;
            continue;
        };
        match method {
            "GetMe" => answer(connection, "200 OK", ME)?,
            "ListGrokBotAgents" => answer(connection, "200 OK", &set.agents)?,
            "ListGrokBotTranscriptEntries" => answer(connection, "200 OK", &set.page(&body))?,
            "WatchGrokBotTranscripts" => return watch(state, name, &set, connection),
            _ => answer(connection, "404 Not Found", "{}")?,
        }
    }
}

/// The stream: its first frames, what the set has to bring, then heartbeats until the client goes.
fn watch(state: &State, name: &str, set: &Dataset, mut connection: &TcpStream) -> io::Result<()> {
    connection.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let connected = r#"{"connected":{"streamId":"s-1","serverTimeMs":"1790000000000","absoluteLifetimeMs":"3600000"}}"#;
    connection.write_all(&chunk(connected))?;
    connection.write_all(&chunk(r#"{"agentState":{"snapshot":true}}"#))?;
    let mut block = Vec::with_capacity(2 * BLOCK);
    for chunk in &set.live {
        block.extend_from_slice(chunk);
        if block.len() >= BLOCK {
            connection.write_all(&block)?;
            block.clear();
        }
    }
    connection.write_all(&block)?;
    let shared: Open = Arc::new(Mutex::new(connection.try_clone()?));
    locked(&state.streams).push((name.to_owned(), Arc::clone(&shared)));
    set.opened.fetch_add(1, Ordering::Relaxed);
    let end = beat(&shared, connection);
    locked(&state.streams).retain(|(_, stream)| !Arc::ptr_eq(stream, &shared));
    end
}

/// Sends heartbeats until the stream ends.
fn beat(shared: &Open, mut connection: &TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(HEARTBEAT))?;
    loop {
        match connection.read(&mut [0; 64]) {
            // The client, or a command, ended it.
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                locked(shared).write_all(&chunk(r#"{"heartbeat":{"serverTimeMs":"1790000010000"}}"#))?;
            }
            Err(error) => return Err(error),
        }
    }
}

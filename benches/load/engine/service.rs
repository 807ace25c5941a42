//! A service that brings rows at a rate, and whose network can be bad.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::data;
use super::http::{answer, chunk, field, request};
use super::world::World;

/// More often than the service, so that a connection that is gone is soon noticed.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often the door is looked at.
const DOOR: Duration = Duration::from_millis(5);

/// What a stream is told to do.
#[derive(Clone, Debug)]
enum Order {
    Write(Instant, Arc<Vec<u8>>),
    /// Says nothing for a while.
    Stall(Duration),
    /// Half a frame, and a reset.
    Reset,
}

#[derive(Debug)]
struct State {
    world: World,
    streams: Vec<Sender<Order>>,
    /// By Bot: messages that no head has shown yet, with the moment at which they were sent.
    sent: Vec<VecDeque<(u64, Instant)>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    connections: Mutex<HashMap<u64, TcpStream>>,
    /// Nobody may connect.
    shut: AtomicBool,
    ended: AtomicBool,
    /// Answers wait until then.
    stalled: Mutex<Option<Instant>>,
    /// The longest that something waited to be written to a stream, in milliseconds.
    lag: AtomicU64,
    opened: AtomicU64,
    pages: AtomicU64,
}

/// The running service.
#[derive(Debug)]
pub(crate) struct Service {
    shared: Arc<Shared>,
    port: u16,
}

/// A panic elsewhere leaves nothing half done here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Service {
    /// With so many Bots, a row in each, and so many in the first.
    pub(crate) fn start(bots: usize, rows: usize) -> io::Result<Self> {
        let mut world = World::new(bots);
        for bot in 0..bots {
            for _ in 0..if bot == 0 { rows } else { 1 } {
                world.add(bot);
            }
        }
        let sent = vec![VecDeque::new(); bots];
        let shared = Arc::new(Shared {
            state: Mutex::new(State { world, streams: Vec::new(), sent }),
            connections: Mutex::default(),
            shut: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            stalled: Mutex::new(None),
            lag: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            pages: AtomicU64::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let door = Arc::clone(&shared);
        thread::spawn(move || keep_door(&door, listener, port));
        Ok(Self { shared, port })
    }

    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Looks at what it holds.
    pub(crate) fn world<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&locked(&self.shared.state).world)
    }

    /// Changes its transcripts and tells the streams. Each change names the Bot and its number. `timed`: the moment is kept until a head shows it.
    pub(crate) fn bring(&self, timed: bool, change: impl FnOnce(&mut World) -> Vec<(usize, u64)>) {
        let mut state = locked(&self.shared.state);
        let changes = change(&mut state.world);
        let mut bytes = Vec::new();
        for (bot, number) in &changes {
            // A row that changed twice in this step comes once.
            if let Some(frame) = state.world.frame(*bot, *number) {
                bytes.extend_from_slice(&chunk(&frame));
            }
        }
        let now = Instant::now();
        for (bot, number) in changes {
            if timed && state.world.shows(bot, number) {
                state.sent[bot].push_back((number, now));
            }
        }
        tell(&mut state, &Order::Write(now, Arc::new(bytes)));
    }

    /// Tells the streams what a Bot does just now.
    pub(crate) fn busy(&self, bot: usize, what: &str) {
        let agent = data::agent(bot);
        let frame = format!(
            r#"{{"agentState":{{"live":[{{"agentId":"{agent}","isRunning":true,"activity":{{"kind":"tool","detail":"{what}"}}}}]}}}}"#
        );
        tell(&mut locked(&self.shared.state), &Order::Write(Instant::now(), Arc::new(chunk(&frame))));
    }

    /// A head was told: when each message was sent that it shows.
    pub(crate) fn shown(&self, bot: usize, head: u64) -> Vec<Instant> {
        let mut state = locked(&self.shared.state);
        let mut moments = Vec::new();
        while let Some((_, at)) = state.sent[bot].pop_front_if(|(number, _)| *number <= head) {
            moments.push(at);
        }
        moments
    }

    /// When the oldest message was sent that no head shows.
    pub(crate) fn oldest_unshown(&self) -> Option<Instant> {
        locked(&self.shared.state).sent.iter().filter_map(|sent| sent.front().map(|(_, at)| *at)).min()
    }

    /// Streams opened so far, and pages served.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.shared.opened.load(Ordering::Relaxed), self.shared.pages.load(Ordering::Relaxed))
    }

    /// The longest that something has waited to be written to a stream since this was asked last.
    pub(crate) fn lag(&self) -> Duration {
        Duration::from_millis(self.shared.lag.swap(0, Ordering::Relaxed))
    }

    // Bad weather

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        for connection in locked(&self.shared.connections).values() {
            // It may be gone already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Nobody can connect, or everybody can.
    pub(crate) fn shut(&self, shut: bool) {
        self.shared.shut.store(shut, Ordering::Relaxed);
    }

    /// Says nothing for a while, neither on streams nor in answers.
    pub(crate) fn stall(&self, time: Duration) {
        *locked(&self.shared.stalled) = Some(Instant::now() + time);
        tell(&mut locked(&self.shared.state), &Order::Stall(time));
    }

    /// Resets every stream in the middle of a frame.
    pub(crate) fn reset(&self) {
        tell(&mut locked(&self.shared.state), &Order::Reset);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.cut();
    }
}

fn tell(state: &mut State, order: &Order) {
    state.streams.retain(|stream| stream.send(order.clone()).is_ok());
}

/// Lets clients in, while the door is open.
fn keep_door(shared: &Arc<Shared>, listener: TcpListener, port: u16) {
    let mut listener = Some(listener);
    let mut next = 0;
    while !shared.ended.load(Ordering::Relaxed) {
        if shared.shut.load(Ordering::Relaxed) {
            listener = None;
        } else if listener.is_none() {
            // The port may still be taken for a moment.
            listener = TcpListener::bind(("127.0.0.1", port)).ok();
        }
        let client = listener.as_ref().and_then(|door| door.set_nonblocking(true).and_then(|()| door.accept()).ok());
        let Some((connection, _)) = client else {
            thread::sleep(DOOR);
            continue;
        };
        let Ok(handle) = connection.set_nonblocking(false).and_then(|()| connection.try_clone()) else { continue };
        next += 1;
        let (number, shared) = (next, Arc::clone(shared));
        locked(&shared.connections).insert(number, handle);
        thread::spawn(move || {
            // A client that goes away is nobody's fault.
            let _ = serve(&shared, &connection, number);
            locked(&shared.connections).remove(&number);
        });
    }
}

/// Serves one connection.
fn serve(shared: &Shared, connection: &TcpStream, number: u64) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    while let Some((path, body)) = request(&mut reader)? {
        let stalled = *locked(&shared.stalled);
        if let Some(wait) = stalled.and_then(|until| until.checked_duration_since(Instant::now())) {
            thread::sleep(wait);
        }
        let text = match path.rsplit('/').next().unwrap_or_default() {
            "GetMe" => r#"{"authId":"auth0|user_BENCH","userId":1234,"firstName":"Sam"}"#.to_owned(),
            "ListGrokBotAgents" => locked(&shared.state).world.agents(),
            "ListGrokBotTranscriptEntries" => {
                shared.pages.fetch_add(1, Ordering::Relaxed);
                page(&locked(&shared.state).world, &body)
            }
            "WatchGrokBotTranscripts" => return watch(shared, connection, number, &body),
            _ => {
                answer(connection, "404 Not Found", "{}")?;
                continue;
            }
        };
        answer(connection, "200 OK", &text)?;
    }
    Ok(())
}

fn page(world: &World, request: &str) -> String {
    let Some(bot) = field(request, "agentId").and_then(|agent| world.bot(agent)) else { return "{}".to_owned() };
    let before = field(request, "beforeSeq").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let limit = field(request, "limit").and_then(|text| text.parse().ok()).unwrap_or(100);
    world.page(bot, before, limit)
}

/// The stream: what the cursors have missed, and from then on whatever happens.
fn watch(shared: &Shared, mut connection: &TcpStream, number: u64, body: &str) -> io::Result<()> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    bytes.extend_from_slice(&chunk(
        r#"{"connected":{"streamId":"s-1","serverTimeMs":"1790000000000","absoluteLifetimeMs":"3600000"}}"#,
    ));
    bytes.extend_from_slice(&chunk(r#"{"agentState":{"snapshot":true}}"#));
    let (sender, orders) = channel();
    {
        let mut state = locked(&shared.state);
        for cursor in body.split("{\"agentId\"").skip(1) {
            let cursor = format!("\"agentId\"{cursor}");
            let bot = field(&cursor, "agentId").and_then(|agent| state.world.bot(agent));
            let after = field(&cursor, "afterUpdatedSeq").and_then(|text| text.parse().ok());
            if let (Some(bot), Some(after)) = (bot, after) {
                state.world.since(bot, after).for_each(|frame| bytes.extend_from_slice(&chunk(&frame)));
            }
        }
        state.streams.push(sender);
    }
    shared.opened.fetch_add(1, Ordering::Relaxed);
    connection.write_all(&bytes)?;
    follow(shared, connection, number, &orders)
}

fn follow(shared: &Shared, mut connection: &TcpStream, number: u64, orders: &Receiver<Order>) -> io::Result<()> {
    loop {
        match orders.recv_timeout(HEARTBEAT) {
            Ok(Order::Write(at, bytes)) => {
                connection.write_all(&bytes)?;
                shared.lag.fetch_max(millis(at.elapsed()), Ordering::Relaxed);
            }
            Ok(Order::Stall(time)) => thread::sleep(time),
            Ok(Order::Reset) => {
                let frame = chunk(r#"{"heartbeat":{"serverTimeMs":"1790000010000"}}"#);
                connection.write_all(&frame[..frame.len() / 2])?;
                locked(&shared.connections).remove(&number);
                return reset_when_closed(connection);
            }
            Err(RecvTimeoutError::Timeout) => {
                connection.write_all(&chunk(r#"{"heartbeat":{"serverTimeMs":"1790000010000"}}"#))?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// The end of this connection will be a reset. Only tokio has the option, for sockets of its own; it belongs to the socket, not to the handle.
fn reset_when_closed(connection: &TcpStream) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    connection.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(connection.try_clone()?)?.set_zero_linger()
}

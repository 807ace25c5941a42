//! The stream: `WatchGrokBotTranscripts` (wire reference, section 5).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::faults::{Refusal, StreamEnd, StreamPlan};
use super::rpc::authorized;
use super::server::{Call, Shared, answer, refused, text};
use super::streams::{Asking, Out};
use super::wire::{Asked, Message, envelope, only_envelope};

/// Most cursors of one request (wire reference, section 5.1).
const MAX_CURSORS: usize = 256;

/// Opens a stream.
pub(super) fn open(shared: &Arc<Shared>, call: &Call) -> Response {
    // A bare body, and a body of another type, gets 415 (wire reference, section 1.1).
    let payload = only_envelope(&call.bytes).filter(|_| call.media_type() == "application/connect+json");
    let Some(payload) = payload else {
        return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type");
    };
    match begin(shared, call, payload) {
        Ok(stream) => {
            let chunks = futures_util::stream::unfold(stream, |mut stream| async move {
                let chunk = stream.next().await?;
                Some((chunk, stream))
            });
            answer(200, "application/connect+json", Body::from_stream(chunks))
        }
        Err(refusal) => refused(&refusal),
    }
}

fn begin(shared: &Arc<Shared>, call: &Call, payload: &[u8]) -> Result<Stream, Refusal> {
    let mut world = shared.world();
    let owner = authorized(&world, call)?;
    let asked = Asked::parse(payload)?;
    let cursors = asked.messages("cursors")?.iter().map(cursor).collect::<Result<Vec<_>, _>>()?;
    if cursors.len() > MAX_CURSORS {
        return Err(Refusal::invalid("too many cursors"));
    }
    let max_inline = asked.long("inlineBodyMaxBytes")?.unwrap_or(0);
    let opened = world.watch(&owner, &cursors, asked.flag("includeUnlistedAgents")?, max_inline);
    let plan = world.faults.stream();
    let (dialect, options) = (world.quirks.dialect, &world.options);
    let connected = Message::new(dialect)
        .text("streamId", &format!("s-{}", opened.id))
        .at("serverTimeMs", world.now())
        .long("absoluteLifetimeMs", u64::try_from(options.stream_lifetime.as_millis()).unwrap_or(u64::MAX));
    let box_state =
        Message::new(dialect).name("runState", "SAND_BOX_RUN_STATE_", "RUNNING").at("updatedAtMs", world.now());
    let box_state = json!({"boxState": {"state": box_state.build(), "snapshot": true}});

    let (replay_again, no_connected, no_snapshot) =
        plan.as_ref().map_or((false, false, false), |plan| (plan.replay_again, plan.no_connected, plan.no_snapshot));
    let mut queue = VecDeque::new();
    if !no_connected {
        queue.push_back(json!({"connected": connected.build()}));
    }
    let again = if replay_again { opened.replay.iter().cloned().map(as_live).collect() } else { Vec::new() };
    let snapshot = if no_snapshot { Vec::new() } else { vec![opened.snapshot, box_state] };
    if options.snapshot_first {
        queue.extend(snapshot.into_iter().chain(opened.replay));
    } else {
        queue.extend(opened.replay.into_iter().chain(snapshot));
    }
    queue.extend(again);
    let now = Instant::now();
    Ok(Stream {
        heartbeat: options.heartbeat,
        deadline: now + options.stream_lifetime,
        registered: Registered { shared: Arc::clone(shared), id: opened.id },
        queue: queue.into_iter().map(Out::Frame).collect(),
        frames: opened.frames,
        quiet_since: now,
        plan: plan.unwrap_or_else(|| StreamPlan { times: Some(0), ..StreamPlan::default() }),
        sent_frames: 0,
        sent_bytes: 0,
        chunks: VecDeque::new(),
        ending: Ending::No,
    })
}

fn cursor(asked: &Asked) -> Result<Asking, Refusal> {
    let generation = asked.long("generation")?.unwrap_or(0);
    Ok(Asking {
        agent: asked.text("agentId")?.into(),
        session: asked.text("sessionId")?.into(),
        generation: u32::try_from(generation).map_err(|_| Refusal::invalid("generation has the wrong type"))?,
        after: asked.long("afterUpdatedSeq")?.unwrap_or(0),
    })
}

fn as_live(mut frame: Value) -> Value {
    if let Some(rows) = frame.get_mut("rows").and_then(Value::as_object_mut) {
        rows.remove("replay");
    }
    frame
}

/// Takes the stream out of the world when it ends, whoever ended it.
#[derive(Debug)]
struct Registered {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.world().unwatch(self.id);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// What is queued goes out, then the body ends.
    Body,
    /// What is queued goes out, then the connection breaks.
    Reset,
    /// What is queued goes out, then nothing.
    Stall,
    Done,
}

/// The body of a stream.
#[derive(Debug)]
struct Stream {
    registered: Registered,
    queue: VecDeque<Out>,
    frames: mpsc::Receiver<Out>,
    heartbeat: Duration,
    deadline: Instant,
    quiet_since: Instant,
    plan: StreamPlan,
    sent_frames: u32,
    sent_bytes: u64,
    chunks: VecDeque<Bytes>,
    ending: Ending,
}

impl Stream {
    /// The next chunk of the body.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                return Some(Ok(chunk));
            }
            match self.ending {
                Ending::No => {}
                Ending::Body | Ending::Done => return None,
                Ending::Reset => {
                    // A broken body takes along what isn't written yet: one pause lets the connection write it.
                    tokio::task::yield_now().await;
                    self.ending = Ending::Done;
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                Ending::Stall => std::future::pending::<()>().await,
            }
            if self.plan.after_frames.is_some_and(|frames| self.sent_frames >= frames) {
                let then = self.plan.then.clone();
                self.end(&then);
                continue;
            }
            match self.out().await {
                Out::Frame(frame) => {
                    let bytes = envelope(0, frame.to_string().as_bytes());
                    self.sent_frames += 1;
                    self.write(&bytes);
                    if self.plan.frames_twice {
                        self.write(&bytes);
                    }
                }
                Out::Bytes(bytes) => self.write(&bytes),
                Out::End(end) => self.end(&end),
            }
        }
    }

    /// What to say next: what is queued, what happens, or a sign of life.
    async fn out(&mut self) -> Out {
        if let Some(out) = self.queue.pop_front() {
            return out;
        }
        let beat = if self.plan.no_heartbeat { self.deadline } else { self.quiet_since + self.heartbeat };
        tokio::select! {
            biased;
            out = self.frames.recv() => {
                self.quiet_since = Instant::now();
                // The world dropped a stream that nobody reads.
                out.unwrap_or(Out::End(StreamEnd::Reset))
            }
            () = tokio::time::sleep_until(self.deadline) => Out::End(StreamEnd::Clean),
            () = tokio::time::sleep_until(beat) => {
                self.quiet_since = Instant::now();
                let world = self.registered.shared.world();
                let message = Message::new(world.quirks.dialect).at("serverTimeMs", world.now());
                Out::Frame(json!({"heartbeat": message.build()}))
            }
        }
    }

    fn end(&mut self, end: &StreamEnd) {
        match end {
            StreamEnd::Clean => self.chunk(&envelope(2, b"{}")),
            StreamEnd::Error { code } => {
                let body = Refusal::new(code, "A planned end.").body();
                self.chunk(&envelope(2, json!({"error": body}).to_string().as_bytes()));
            }
            StreamEnd::Bare | StreamEnd::Reset | StreamEnd::Stall => {}
        }
        self.ending = match end {
            StreamEnd::Reset => Ending::Reset,
            StreamEnd::Stall => Ending::Stall,
            _ => Ending::Body,
        };
    }

    /// Queues bytes up to the planned end, which may fall inside them.
    fn write(&mut self, bytes: &[u8]) {
        if self.ending != Ending::No {
            return;
        }
        let left = self.plan.after_bytes.map(|limit| limit.saturating_sub(self.sent_bytes));
        let fits = left.map_or(bytes.len(), |left| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len()));
        self.sent_bytes += fits as u64;
        self.chunk(&bytes[..fits]);
        if left.is_some_and(|left| left <= bytes.len() as u64) {
            let then = self.plan.then.clone();
            self.end(&then);
        }
    }

    fn chunk(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.plan.one_byte_chunks {
            self.chunks.extend(bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte])));
        } else {
            self.chunks.push_back(Bytes::copy_from_slice(bytes));
        }
    }
}

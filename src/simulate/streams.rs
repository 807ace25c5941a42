//! Who is told what: open streams, the frames of changes, the replay at a beginning.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::faults::StreamEnd;
use super::state::{Gone, Row, Since, Transcript};
use super::wire::{self, Inline, Message};
use super::world::World;

/// How many frames a stream may be behind before it is dropped.
pub(super) const STREAM_BACKLOG: usize = 65_536;

/// What a stream is told.
#[derive(Debug)]
pub(super) enum Out {
    Frame(Value),
    /// Written as it is: broken frames, flags of another kind.
    Bytes(Vec<u8>),
    End(StreamEnd),
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Watcher {
    owner: String,
    sessions: Vec<(String, String)>,
    unlisted: bool,
    max_inline: u64,
    out: mpsc::Sender<Out>,
}

impl Watcher {
    fn hears(&self, agent: &str, session: &str) -> bool {
        let listed = self.sessions.iter().any(|(a, s)| a == agent && s == session);
        listed || (self.unlisted && session.is_empty())
    }
}

/// A cursor of a watch request.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) agent: String,
    pub(super) session: String,
    pub(super) generation: u32,
    pub(super) after: u64,
}

/// A stream that begins.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) id: u64,
    pub(super) replay: Vec<Value>,
    pub(super) snapshot: Value,
    pub(super) frames: mpsc::Receiver<Out>,
}

impl World {
    fn generation_field(&self, message: Message, generation: u32) -> Message {
        if self.quirks.no_generation { message } else { message.int("generation", generation.into()) }
    }

    fn rows_frame(
        &mut self,
        agent: &str,
        session: &str,
        rows: &[Row],
        gone: &[Gone],
        max_inline: u64,
        replay: bool,
    ) -> Value {
        let dialect = self.quirks.dialect;
        let generation = self.transcript(agent, session).map_or(1, Transcript::generation);
        let entries = rows.iter().map(|row| self.entry(row, max_inline)).collect();
        let message = Message::new(dialect).text("agentId", agent);
        let message = self
            .generation_field(message, generation)
            .list("entries", entries)
            .list("deletes", gone.iter().map(|gone| wire::delete(dialect, gone)).collect())
            .flag("replay", replay)
            .text("sessionId", session);
        json!({"rows": message.build()})
    }

    pub(super) fn tell_rows(&mut self, agent: &str, session: &str, rows: &[Row], gone: &[Gone]) {
        let heard: Vec<(u64, u64)> = self
            .watchers
            .iter()
            .filter(|(_, watcher)| watcher.hears(agent, session) && self.own_bot(&watcher.owner, agent).is_some())
            .map(|(id, watcher)| (*id, watcher.max_inline))
            .collect();
        for (id, max_inline) in heard {
            let frame = self.rows_frame(agent, session, rows, gone, max_inline, false);
            self.push(id, Out::Frame(frame));
        }
        self.touch();
    }

    /// A row as it travels. A body above the cap goes to the store, and its hash travels.
    pub(super) fn entry(&mut self, row: &Row, max_inline: u64) -> Value {
        let inline = Inline {
            max: max_inline,
            blob_above: self.options.blob_above_bytes,
            omitted_with_hash: self.quirks.omitted_with_hash,
        };
        let blobs = &mut self.blobs;
        wire::entry(self.quirks.dialect, row, inline, |row| {
            let hash = hex(&Sha256::digest(row.body.as_bytes()));
            blobs.insert(hash.clone(), Arc::clone(&row.body));
            hash
        })
    }

    /// Says something to the streams of one account.
    pub(super) fn tell(&mut self, owner: &str, frame: &Value) {
        self.tell_all(Some(owner), || Out::Frame(frame.clone()));
    }

    /// Says something to the streams of one account, or to all.
    pub(super) fn tell_all(&mut self, owner: Option<&str>, what: impl Fn() -> Out) {
        let meant = |watcher: &Watcher| owner.is_none_or(|owner| watcher.owner == owner);
        let ids: Vec<u64> = self.watchers.iter().filter(|(_, watcher)| meant(watcher)).map(|(id, _)| *id).collect();
        for id in ids {
            self.push(id, what());
        }
        self.touch();
    }

    fn push(&mut self, id: u64, out: Out) {
        // A stream that nobody reads (a stalled one) is dropped in the end instead of growing for ever.
        if self.watchers.get(&id).is_some_and(|watcher| watcher.out.try_send(out).is_err()) {
            self.watchers.remove(&id);
        }
    }

    /// Begins a stream: its replay (rows past each cursor, refused cursors), and from here on its live frames.
    pub(super) fn watch(&mut self, owner: &str, cursors: &[Asking], unlisted: bool, max_inline: u64) -> Opened {
        let dialect = self.quirks.dialect;
        let mut replay = Vec::new();
        let mut sessions = Vec::new();
        for cursor in cursors {
            if self.own_bot(owner, &cursor.agent).is_none() {
                continue;
            }
            sessions.push((cursor.agent.clone(), cursor.session.clone()));
            let Some(transcript) = self.transcript(&cursor.agent, &cursor.session) else {
                continue;
            };
            let generation = transcript.generation();
            match transcript.since(cursor.generation, cursor.after) {
                Since::TooOld => {
                    let message = Message::new(dialect).text("agentId", &cursor.agent);
                    let message = self.generation_field(message, generation).text("sessionId", &cursor.session);
                    replay.push(json!({"cursorTooOld": message.build()}));
                }
                Since::Changes(rows, gone) if !rows.is_empty() || !gone.is_empty() => {
                    replay.push(self.rows_frame(&cursor.agent, &cursor.session, &rows, &gone, max_inline, true));
                }
                Since::Changes(..) => {}
            }
        }
        let (out, frames) = mpsc::channel(STREAM_BACKLOG);
        let id = self.next_id();
        self.watchers.insert(id, Watcher { owner: owner.into(), sessions, unlisted, max_inline, out });
        self.streams_opened += 1;
        self.touch();
        Opened { id, replay, snapshot: self.snapshot(owner), frames }
    }

    pub(super) fn unwatch(&mut self, id: u64) {
        self.watchers.remove(&id);
        self.touch();
    }

    pub(super) fn streams(&self) -> usize {
        self.watchers.len()
    }

    pub(super) fn streams_opened(&self) -> u64 {
        self.streams_opened
    }

    /// Tells a frame that concerns one Bot: `fill` is given the service's time.
    pub(super) fn tell_of(&mut self, agent: &str, kind: &str, fill: impl FnOnce(Message, i64) -> Message) {
        let message = fill(Message::new(self.quirks.dialect).text("agentId", agent), self.now());
        if let Some(owner) = self.bot(agent).map(|bot| bot.owner.clone()) {
            self.tell(&owner, &json!({ kind: message.build() }));
        }
    }

    /// Tells that data of a Bot changed which are neither rows nor its live state.
    pub(super) fn agent_state_changed(&mut self, agent: &str, families: &[&str]) {
        let families = families.iter().map(|family| (*family).into()).collect();
        self.tell_of(agent, "agentStateChanged", |message, now| {
            message.list("families", families).at("changedAtMs", now)
        });
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

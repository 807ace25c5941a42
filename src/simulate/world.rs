//! Everything the service knows, behind one lock, and the changes that open streams hear of.
//!
//! A change and its frames happen under the same lock as a stream's beginning: no change falls between a stream's replay and its first live
//! frame, and none comes twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, watch};

use super::behave::Stimulus;
use super::bots::{Activity, Awaiting, Bot, Change, Live, NewBot, Stored};
use super::faults::{Faults, StreamEnd};
use super::log::Log;
use super::options::{Account, Options, Quirks};
use super::signin::Attempt;
use super::state::{self, ChangeError, Gone, Row, Since, Transcript};
use super::tokens::Tokens;
use super::wire::{self, Inline, Message};

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
struct Watcher {
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

/// A message that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) entry_id: Option<String>,
    pub(super) accepted_at: i64,
}

/// A message that a client sent to a Bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// To whom.
    pub agent_id: String,
    /// The client's id of it.
    pub message_id: String,
    /// The text as it came.
    pub text: String,
    /// The entry it replies to.
    pub reply_to: Option<String>,
}

/// A message that waits for its echo.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) agent: String,
    pub(super) session: String,
    pub(super) message_id: String,
    pub(super) text: String,
    pub(super) reply_to: Option<String>,
    pub(super) attachments: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) options: Options,
    pub(super) quirks: Quirks,
    pub(super) accounts: Vec<Account>,
    /// `authId` of whoever confirms sign-ins now.
    pub(super) present: String,
    pub(super) bots: Vec<Bot>,
    pub(super) sends: HashMap<(String, String), Sent>,
    pub(super) received: Vec<Received>,
    pub(super) held: VecDeque<Incoming>,
    pub(super) tokens: Tokens,
    pub(super) attempts: HashMap<String, Attempt>,
    pub(super) poll_extra: Map<String, Value>,
    pub(super) renewal_extra: Map<String, Value>,
    pub(super) me_extra: Map<String, Value>,
    pub(super) list_generations: HashMap<String, VecDeque<u32>>,
    pub(super) blobs: HashMap<String, Arc<str>>,
    pub(super) blob_key: String,
    pub(super) faults: Faults,
    pub(super) log: Log,
    pub(super) stimuli: Option<mpsc::UnboundedSender<Stimulus>>,
    pub(super) shuffle: fastrand::Rng,
    /// Moves with everything that changes: who waits for a state looks again.
    pub(super) changed: watch::Sender<u64>,
    watchers: BTreeMap<u64, Watcher>,
    streams_opened: u64,
    ids: u64,
}

impl World {
    pub(super) fn new(options: Options) -> Self {
        Self {
            quirks: Quirks::default(),
            accounts: vec![options.account.clone()],
            present: options.account.auth_id.clone(),
            bots: Vec::new(),
            sends: HashMap::new(),
            received: Vec::new(),
            held: VecDeque::new(),
            tokens: Tokens::new(options.tokens.clone()),
            attempts: HashMap::new(),
            poll_extra: Map::new(),
            renewal_extra: Map::new(),
            me_extra: Map::new(),
            list_generations: HashMap::new(),
            blobs: HashMap::new(),
            blob_key: format!("{:016x}", fastrand::u64(..)),
            faults: Faults::default(),
            log: Log::default(),
            stimuli: None,
            shuffle: fastrand::Rng::with_seed(7),
            changed: watch::Sender::new(0),
            watchers: BTreeMap::new(),
            streams_opened: 0,
            ids: 0,
            options,
        }
    }

    /// The service's clock.
    pub(super) fn now(&self) -> i64 {
        crate::clock::wall().0.saturating_add(self.options.clock_offset_ms)
    }

    pub(super) fn touch(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    // Bots

    /// The Bots of an account, oldest first, without the deleted ones.
    pub(super) fn bots_of<'w>(&'w self, owner: &'w str) -> impl Iterator<Item = &'w Bot> {
        self.bots.iter().filter(move |bot| bot.owner == owner && !bot.deleted)
    }

    pub(super) fn bot(&self, agent: &str) -> Option<&Bot> {
        self.bots.iter().find(|bot| bot.agent_id == agent && !bot.deleted)
    }

    pub(super) fn bot_mut(&mut self, agent: &str) -> Option<&mut Bot> {
        self.bots.iter_mut().find(|bot| bot.agent_id == agent && !bot.deleted)
    }

    /// The Bot, if it belongs to that account.
    pub(super) fn own_bot(&self, owner: &str, agent: &str) -> Option<&Bot> {
        self.bot(agent).filter(|bot| bot.owner == owner)
    }

    pub(super) fn add_bot(&mut self, new: NewBot) -> String {
        let number = self.next_id();
        let now = self.now();
        let owner = new.owner.clone().unwrap_or_else(|| self.present.clone());
        let bot = Bot::new(new, owner, number, now, Transcript::new(self.options.kept_changes));
        let agent = bot.agent_id.clone();
        self.bots.push(bot);
        self.roster_changed("AGENT_CREATED", &agent);
        agent
    }

    pub(super) fn rename_bot(&mut self, agent: &str, name: &str) {
        let now = self.now();
        if let Some(bot) = self.bot_mut(agent) {
            bot.name = name.into();
            bot.updated_at = now;
            self.roster_changed("AGENT_UPDATED", agent);
        }
    }

    pub(super) fn delete_bot(&mut self, agent: &str) {
        if self.bot(agent).is_some() {
            self.roster_changed("AGENT_DELETED", agent);
            if let Some(bot) = self.bot_mut(agent) {
                bot.deleted = true;
            }
            self.touch();
        }
    }

    /// Undoes a deletion: the same Bot is listed again.
    pub(super) fn restore_bot(&mut self, agent: &str) {
        if let Some(bot) = self.bots.iter_mut().find(|bot| bot.agent_id == agent && bot.deleted) {
            bot.deleted = false;
            self.roster_changed("AGENT_CREATED", agent);
        }
    }

    pub(super) fn roster_changed(&mut self, kind: &str, agent: &str) {
        let dialect = self.quirks.dialect;
        let mut message = Message::new(dialect)
            .name("kind", "GROK_BOT_ROSTER_CHANGE_KIND_", kind)
            .text("agentId", agent)
            .at("changedAtMs", self.now());
        let Some(bot) = self.bot(agent) else { return };
        let owner = bot.owner.clone();
        if kind != "AGENT_DELETED" {
            message = message.message("agent", bot.message(dialect));
        }
        let frame = json!({"rosterChanged": message.build()});
        self.tell(&owner, &frame);
    }

    // Rows

    /// Applies changes as one commit and tells them in one `rows` frame.
    pub(super) fn apply(&mut self, agent: &str, session: &str, changes: &[Change]) -> Result<Vec<Stored>, ChangeError> {
        let now = self.now();
        let kept = self.options.kept_changes;
        let bot = self.bot_mut(agent).ok_or_else(|| ChangeError::NoRow(agent.into()))?;
        let (mut rows, mut gone, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let (row, left) = bot.change(session, change, now, kept)?;
            stored.push(Stored::of(row.as_ref(), left.as_ref()));
            rows.extend(row);
            gone.extend(left);
        }
        self.tell_rows(agent, session, &rows, &gone);
        Ok(stored)
    }

    /// Applies changes that no stream hears of: what happened while nobody watched, or a frame that was lost.
    pub(super) fn apply_silently(&mut self, agent: &str, changes: &[Change]) -> Result<(), ChangeError> {
        let (now, kept) = (self.now(), self.options.kept_changes);
        let bot = self.bot_mut(agent).ok_or_else(|| ChangeError::NoRow(agent.into()))?;
        for change in changes {
            bot.change("", change, now, kept)?;
        }
        self.touch();
        Ok(())
    }

    fn generation_field(&self, message: Message, generation: u32) -> Message {
        if self.quirks.no_generation {
            message
        } else {
            message.int("generation", generation.into())
        }
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

    fn tell_rows(&mut self, agent: &str, session: &str, rows: &[Row], gone: &[Gone]) {
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
            let hash: String = Sha256::digest(row.body.as_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            blobs.insert(hash.clone(), Arc::clone(&row.body));
            hash
        })
    }

    pub(super) fn transcript(&self, agent: &str, session: &str) -> Option<&Transcript> {
        self.bot(agent)?
            .sessions
            .get(session)
            .map(|session| &session.transcript)
    }

    pub(super) fn transcript_mut(&mut self, agent: &str) -> Option<&mut Transcript> {
        self.bot_mut(agent)?
            .sessions
            .get_mut("")
            .map(|session| &mut session.transcript)
    }

    pub(super) fn clear(&mut self, agent: &str) {
        let Some(generation) = self.transcript_mut(agent).map(Transcript::clear) else {
            return;
        };
        let message = Message::new(self.quirks.dialect)
            .text("agentId", agent)
            .int("newGeneration", generation.into());
        let frame = json!({"cleared": message.build()});
        let owner = self.bot(agent).map(|bot| bot.owner.clone()).unwrap_or_default();
        self.tell(&owner, &frame);
    }

    // Sends

    /// Writes the row that echoes a message, and tells the Bot of it.
    pub(super) fn echo(&mut self, incoming: &Incoming) {
        let text = if self.quirks.rewrite_echo {
            rewritten(&incoming.text)
        } else {
            incoming.text.clone()
        };
        let Some(bot) = self.bot_mut(&incoming.agent) else {
            return;
        };
        bot.turn += 1;
        let turn = bot.turn;
        let (entry_id, request) = (format!("t{turn}u"), format!("req-{turn}"));
        let mut body = json!({
            "id": entry_id, "kind": "message", "role": "user", "content": text,
            "clientNonce": incoming.message_id, "requestId": request,
        });
        if self.quirks.echo_as_send_message {
            body = json!({
                "id": entry_id, "kind": "send-message", "message": {"type": "text", "content": text},
                "clientNonce": incoming.message_id, "requestId": request,
            });
        }
        if let Some(reply_to) = &incoming.reply_to {
            body["replyToId"] = reply_to.as_str().into();
        }
        let mut changes = vec![Change::Add { body, seq: None }];
        for (number, (path, name)) in incoming.attachments.iter().enumerate() {
            let body = json!({
                "id": format!("{entry_id}-att-{number}"), "kind": "user-attachment", "file_path": path, "file_name": name,
            });
            changes.push(Change::Add { body, seq: None });
        }
        // A row can't be refused here: only exhausted numbers refuse, and those a test sets itself.
        if self.apply(&incoming.agent, &incoming.session, &changes).is_err() {
            return;
        }
        if let Some(sent) = self
            .sends
            .get_mut(&(incoming.agent.clone(), incoming.message_id.clone()))
        {
            sent.entry_id = Some(entry_id.clone());
        }
        if incoming.session.is_empty() {
            self.stir(Stimulus::Message {
                agent: incoming.agent.clone(),
                text: incoming.text.clone(),
                request,
            });
        }
    }

    pub(super) fn stir(&self, stimulus: Stimulus) {
        if let Some(stimuli) = &self.stimuli {
            // The Bots may be gone already: the service is stopping.
            let _ = stimuli.send(stimulus);
        }
    }

    // Live states

    pub(super) fn set_live(&mut self, agent: &str, session: &str, live: Option<Live>) {
        let (now, kept) = (self.now(), self.options.kept_changes);
        let Some(bot) = self.bot_mut(agent) else { return };
        let owner = bot.owner.clone();
        let place = bot.session(session, kept);
        place.live.clone_from(&live);
        let item = self.live_item(agent, session, &live.unwrap_or_default(), now);
        let frame = json!({"agentState": Message::new(self.quirks.dialect).list("live", vec![item]).flag("snapshot", false).build()});
        self.tell(&owner, &frame);
    }

    fn live_item(&self, agent: &str, session: &str, live: &Live, now: i64) -> Value {
        let dialect = self.quirks.dialect;
        let mut message = Message::new(dialect)
            .text("agentId", agent)
            .flag("isRunning", live.running)
            .flag("isComposingMessage", live.composing)
            .flag("isRetrying", live.retrying);
        if let Some(Activity {
            kind,
            tool,
            detail,
            target,
        }) = &live.activity
        {
            let activity = Message::new(dialect)
                .text("kind", kind)
                .text("tool", tool)
                .text("detail", detail)
                .text("target", target)
                .text("callId", if kind == "tool" { "call-1" } else { "" });
            message = message.message("activity", activity.build());
        }
        if let Some(Awaiting { tab_id, reason }) = &live.awaiting {
            let awaiting = Message::new(dialect)
                .text("tabId", tab_id)
                .text("reason", reason)
                .at("sinceMs", now);
            message = message.message("awaiting", awaiting.build());
        }
        message
            .at("updatedAtMs", now)
            .long("staleAfterMs", if live.running { 90_000 } else { 0 })
            .text("sessionId", session)
            .flag("hasRunningSubagents", live.subagents)
            .over(&live.extra)
            .build()
    }

    /// The complete picture of an account: only sessions with something to say.
    pub(super) fn snapshot(&self, owner: &str) -> Value {
        let (dialect, now) = (self.quirks.dialect, self.now());
        let mut live = Vec::new();
        let mut client = Vec::new();
        for bot in self.bots_of(owner) {
            for (name, session) in &bot.sessions {
                live.extend(
                    session
                        .live
                        .as_ref()
                        .map(|state| self.live_item(&bot.agent_id, name, state, now)),
                );
            }
            let last = bot
                .sessions
                .get("")
                .and_then(|session| session.transcript.rows().next_back());
            let message = Message::new(dialect)
                .text("agentId", &bot.agent_id)
                .flag("notificationsEnabled", true);
            client.push(match last {
                None => message.build(),
                Some(row) => message
                    .text("lastEntryId", &row.entry_id)
                    .text("lastEntryKind", &row.kind)
                    .build(),
            });
        }
        let message = Message::new(dialect)
            .list("live", live)
            .flag("snapshot", true)
            .list("client", client);
        json!({"agentState": message.build()})
    }

    // Streams

    /// Says something to the streams of one account.
    pub(super) fn tell(&mut self, owner: &str, frame: &Value) {
        self.tell_all(Some(owner), || Out::Frame(frame.clone()));
    }

    /// Says something to the streams of one account, or to all.
    pub(super) fn tell_all(&mut self, owner: Option<&str>, what: impl Fn() -> Out) {
        let meant = |watcher: &Watcher| owner.is_none_or(|owner| watcher.owner == owner);
        let ids: Vec<u64> = self
            .watchers
            .iter()
            .filter(|(_, watcher)| meant(watcher))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.push(id, what());
        }
        self.touch();
    }

    fn push(&mut self, id: u64, out: Out) {
        // A stream that nobody reads (a stalled one) is dropped in the end instead of growing for ever.
        if self
            .watchers
            .get(&id)
            .is_some_and(|watcher| watcher.out.try_send(out).is_err())
        {
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
                    let message = self
                        .generation_field(message, generation)
                        .text("sessionId", &cursor.session);
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
        self.watchers.insert(
            id,
            Watcher {
                owner: owner.into(),
                sessions,
                unlisted,
                max_inline,
                out,
            },
        );
        self.streams_opened += 1;
        self.touch();
        Opened {
            id,
            replay,
            snapshot: self.snapshot(owner),
            frames,
        }
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

    /// The text of a row's body as JSON.
    pub(super) fn body(&self, agent: &str, entry_id: &str) -> Option<Value> {
        serde_json::from_str(&self.transcript(agent, "")?.find(entry_id)?.body).ok()
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

/// A text as a server rewrites it: comments cut out, several blank lines become one.
fn rewritten(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    let mut lines: Vec<&str> = Vec::new();
    for line in kept.lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_some_and(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    lines.join("\n").trim().to_owned()
}

/// The kind and the id of a body, filled in where it names none.
pub(super) fn completed(mut body: Value, now: i64, fallback_id: impl FnOnce() -> String) -> (String, String, Arc<str>) {
    let (id, kind) = state::named(&body);
    let (id, kind) = (id.map(str::to_owned), kind.unwrap_or("send-message").to_owned());
    let id = id.unwrap_or_else(fallback_id);
    if let Value::Object(map) = &mut body {
        map.entry("id").or_insert_with(|| id.as_str().into());
        map.entry("kind").or_insert_with(|| kind.as_str().into());
        map.entry("timestampMs").or_insert_with(|| now.into());
    }
    (id, kind, body.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rewritten_echo_is_the_one_of_the_field_report() {
        assert_eq!(rewritten("hello <!-- cursor-x -->\n\n\n\n\n\nworld"), "hello\n\nworld");
    }
}

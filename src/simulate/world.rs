//! Everything the service knows, behind one lock, and the changes that open streams hear of.
//!
//! A change and its frames happen under the same lock as a stream's beginning: no change falls between a stream's replay and its first live
//! frame, and none comes twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};

use super::behave::Stimulus;
use super::bots::{Bot, Change, NewBot, Stored};
use super::faults::Faults;
use super::log::Log;
use super::options::{Account, Options, Quirks};
use super::secrets::Secrets;
use super::signin::Attempt;
use super::state::{self, ChangeError, Transcript};
use super::streams::Watcher;
use super::tokens::Tokens;
use super::wire::Message;

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
    pub(super) secrets: Secrets,
    pub(super) stimuli: Option<mpsc::UnboundedSender<Stimulus>>,
    pub(super) shuffle: fastrand::Rng,
    /// Moves with everything that changes: who waits for a state looks again.
    pub(super) changed: watch::Sender<u64>,
    pub(super) watchers: BTreeMap<u64, Watcher>,
    pub(super) streams_opened: u64,
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
            secrets: Secrets::default(),
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

    pub(super) fn next_id(&mut self) -> u64 {
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
        self.note(changes);
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
        self.note(changes);
        let (now, kept) = (self.now(), self.options.kept_changes);
        let bot = self.bot_mut(agent).ok_or_else(|| ChangeError::NoRow(agent.into()))?;
        for change in changes {
            bot.change("", change, now, kept)?;
        }
        self.touch();
        Ok(())
    }

    /// What is said in changes is nobody else's business.
    fn note(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::Add { body, .. } | Change::Edit { body, .. } = change {
                self.secrets.said_in(body);
            }
        }
    }

    pub(super) fn transcript(&self, agent: &str, session: &str) -> Option<&Transcript> {
        self.bot(agent)?.sessions.get(session).map(|session| &session.transcript)
    }

    pub(super) fn transcript_mut(&mut self, agent: &str) -> Option<&mut Transcript> {
        self.bot_mut(agent)?.sessions.get_mut("").map(|session| &mut session.transcript)
    }

    pub(super) fn clear(&mut self, agent: &str) {
        let Some(generation) = self.transcript_mut(agent).map(Transcript::clear) else {
            return;
        };
        let message = Message::new(self.quirks.dialect).text("agentId", agent).int("newGeneration", generation.into());
        let frame = json!({"cleared": message.build()});
        let owner = self.bot(agent).map(|bot| bot.owner.clone()).unwrap_or_default();
        self.tell(&owner, &frame);
    }

    // Sends

    /// Writes the row that echoes a message, and tells the Bot of it.
    pub(super) fn echo(&mut self, incoming: &Incoming) {
        let text = if self.quirks.rewrite_echo { rewritten(&incoming.text) } else { incoming.text.clone() };
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
        if let Some(sent) = self.sends.get_mut(&(incoming.agent.clone(), incoming.message_id.clone())) {
            sent.entry_id = Some(entry_id.clone());
        }
        if incoming.session.is_empty() {
            self.stir(Stimulus::Message { agent: incoming.agent.clone(), text: incoming.text.clone(), request });
        }
    }

    pub(super) fn stir(&self, stimulus: Stimulus) {
        if let Some(stimuli) = &self.stimuli {
            // The Bots may be gone already: the service is stopping.
            let _ = stimuli.send(stimulus);
        }
    }

    /// The text of a row's body as JSON.
    pub(super) fn body(&self, agent: &str, entry_id: &str) -> Option<Value> {
        serde_json::from_str(&self.transcript(agent, "")?.find(entry_id)?.body).ok()
    }
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

//! The handle that steers a simulation from the same process. The HTTP endpoint does the same through it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::bots::{Change, NewBot, Stored};
use super::rpc;
use super::server::Shared;

/// What a steering call can't do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No Bot, row or number for it.
    #[error("the change can't be made: {0}")]
    Change(String),
    /// A link without uuid or challenge.
    #[error("not a sign-in link")]
    Link,
}

/// Steers a simulation. Cheap to clone; every call takes effect at once, before it returns.
#[derive(Clone, Debug)]
pub struct Control {
    pub(super) shared: Arc<Shared>,
}

impl Control {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn key(&self) -> String {
        self.shared.key.clone()
    }

    /// Resolves when `done` holds; it is asked after every change of the simulation (a request that came counts as one). Cancel-safe. It
    /// has no limit of its own: tests put one around it.
    pub async fn until(&self, mut done: impl FnMut(&Self) -> bool) {
        let mut changes = self.shared.world().changed.subscribe();
        while !done(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    // Bots

    /// Creates a Bot and tells the roster's change. Its `agentId`.
    pub fn add_bot(&self, new: NewBot) -> String {
        self.shared.world().add_bot(new)
    }

    /// Renames a Bot.
    pub fn rename_bot(&self, agent: &str, name: &str) {
        self.shared.world().rename_bot(agent, name);
    }

    /// Deletes a Bot: it is listed no more.
    pub fn delete_bot(&self, agent: &str) {
        self.shared.world().delete_bot(agent);
    }

    /// Lists a deleted Bot again.
    pub fn restore_bot(&self, agent: &str) {
        self.shared.world().restore_bot(agent);
    }

    /// Sets fields of a Bot that win over ours on the wire; `null` removes one.
    pub fn set_bot_fields(&self, agent: &str, fields: &Map<String, Value>) {
        let mut world = self.shared.world();
        if let Some(bot) = world.bot_mut(agent) {
            bot.extra.extend(fields.clone());
        }
        world.roster_changed("AGENT_UPDATED", agent);
    }

    /// The listed Bots of every account: `agentId` and name, oldest first.
    pub fn bots(&self) -> Vec<(String, String)> {
        let world = self.shared.world();
        world.bots.iter().filter(|bot| !bot.deleted).map(|bot| (bot.agent_id.clone(), bot.name.clone())).collect()
    }

    // Rows

    /// Makes changes in one Bot's session (`""` is the main one): one commit, one frame.
    ///
    /// # Errors
    /// Where there is no such Bot or row; what came before it in `changes` stays made, but untold.
    pub fn apply(&self, agent: &str, session: &str, changes: &[Change]) -> Result<Vec<Stored>, ControlError> {
        self.shared.world().apply(agent, session, changes).map_err(|error| ControlError::Change(error.to_string()))
    }

    /// Makes changes in the main session that no stream hears of live.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_silently(&self, agent: &str, changes: &[Change]) -> Result<(), ControlError> {
        let mut world = self.shared.world();
        world.apply_silently(agent, changes).map_err(|error| ControlError::Change(error.to_string()))
    }

    fn one(&self, agent: &str, change: Change) -> Result<Stored, ControlError> {
        let stored = self.apply(agent, "", &[change])?;
        stored.into_iter().next().ok_or_else(|| ControlError::Change(agent.into()))
    }

    /// A new row with this body.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn add(&self, agent: &str, body: Value) -> Result<Stored, ControlError> {
        self.one(agent, Change::Add { body, seq: None })
    }

    /// The Bot says something: a `send-message` of type text with this entry id.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn say(&self, agent: &str, entry_id: &str, text: &str) -> Result<Stored, ControlError> {
        self.add(agent, bot_text(entry_id, text))
    }

    /// The row of an entry gets another text: an edit, or the next state of a stream.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn resay(&self, agent: &str, entry_id: &str, text: &str) -> Result<Stored, ControlError> {
        self.edit(agent, entry_id, bot_text(entry_id, text))
    }

    /// The account's person says something, without having sent it through this service.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn say_as_user(&self, agent: &str, entry_id: &str, text: &str) -> Result<Stored, ControlError> {
        self.add(agent, json!({"id": entry_id, "kind": "message", "role": "user", "content": text}))
    }

    /// The Bot asks with a widget; each option is a label and a value (none where empty).
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn ask(
        &self,
        agent: &str,
        entry_id: &str,
        prompt: &str,
        options: &[(&str, &str)],
    ) -> Result<Stored, ControlError> {
        let options: Vec<Value> = options
            .iter()
            .map(
                |(label, value)| {
                    if value.is_empty() { json!({"label": label}) } else { json!({"label": label, "value": value}) }
                },
            )
            .collect();
        let widget = json!({"type": "widget", "widget": {"prompt": prompt, "options": options}});
        self.add(agent, json!({"id": entry_id, "kind": "send-message", "message": widget}))
    }

    /// Overwrites the row of an entry.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn edit(&self, agent: &str, entry_id: &str, body: Value) -> Result<Stored, ControlError> {
        self.one(agent, Change::Edit { entry_id: entry_id.into(), body })
    }

    /// A new number for a row whose body stays.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn touch(&self, agent: &str, entry_id: &str) -> Result<Stored, ControlError> {
        self.one(agent, Change::Touch { entry_id: entry_id.into() })
    }

    /// Deletes the row of an entry.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn delete(&self, agent: &str, entry_id: &str) -> Result<Stored, ControlError> {
        self.one(agent, Change::Delete { entry_id: entry_id.into() })
    }

    /// Answers a widget as another client of the account would.
    ///
    /// # Errors
    /// Where there is no such widget, or it is closed.
    pub fn respond(&self, agent: &str, entry_id: &str, value: &str) -> Result<(), ControlError> {
        let answered = rpc::answer_widget(&mut self.shared.world(), agent, entry_id, value);
        answered.map_err(|refusal| ControlError::Change(refusal.detail))
    }

    /// The body of an entry of the main session.
    pub fn body(&self, agent: &str, entry_id: &str) -> Option<Value> {
        self.shared.world().body(agent, entry_id)
    }

    /// The rows of the main session, oldest first: place, number, entry.
    pub fn rows(&self, agent: &str) -> Vec<Stored> {
        let world = self.shared.world();
        world
            .transcript(agent, "")
            .map(|transcript| transcript.rows().map(|row| Stored::of(Some(row), None)).collect())
            .unwrap_or_default()
    }

    /// Clears a Bot's history: the next generation.
    pub fn clear(&self, agent: &str) {
        self.shared.world().clear(agent);
    }

    /// The generation and the highest number of the main session.
    pub fn head(&self, agent: &str) -> Option<(u32, u64)> {
        let world = self.shared.world();
        world.transcript(agent, "").map(|transcript| (transcript.generation(), transcript.last_updated()))
    }

    /// Drops what was kept for replay: every cursor below the newest number is too old.
    pub fn forget_changes(&self, agent: &str) {
        if let Some(transcript) = self.shared.world().transcript_mut(agent) {
            transcript.forget();
        }
    }

    /// Another generation without a clear and without a word: also a lower one.
    pub fn set_generation(&self, agent: &str, generation: u32) {
        if let Some(transcript) = self.shared.world().transcript_mut(agent) {
            transcript.set_generation(generation);
        }
    }

    /// The next row and the next change come after these numbers.
    pub fn set_numbers(&self, agent: &str, seq: u64, updated_seq: u64) {
        if let Some(transcript) = self.shared.world().transcript_mut(agent) {
            transcript.set_numbers(seq, updated_seq);
        }
    }

    /// The generations that the next list answers of this Bot name, one each.
    pub fn script_list_generations(&self, agent: &str, generations: &[u32]) {
        self.shared.world().list_generations.insert(agent.into(), generations.iter().copied().collect());
    }
}

/// How a line begins that tells a Bot to bind.
pub(super) const BIND: &str = "node coda-bot.mjs bind ";

/// A Bot's text, its entry not yet named.
pub(super) fn text_body(text: &str) -> Value {
    json!({"kind": "send-message", "message": {"type": "text", "content": text}})
}

fn bot_text(entry_id: &str, text: &str) -> Value {
    let mut body = text_body(text);
    body["id"] = entry_id.into();
    body
}

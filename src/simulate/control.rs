//! The handle that steers a simulation from the same process. The HTTP endpoint does the same through it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::bots::{Change, Live, NewBot, Stored};
use super::faults::{Act, Fault, Gate, StreamEnd, StreamPlan};
use super::log::Request;
use super::options::{Account, Quirks, TokenPolicy};
use super::server::Shared;
use super::signin;
use super::tokens::Pair;
use super::wire::Message;
use super::world::{Out, Received};

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
    shared: Arc<Shared>,
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
        world
            .bots
            .iter()
            .filter(|bot| !bot.deleted)
            .map(|bot| (bot.agent_id.clone(), bot.name.clone()))
            .collect()
    }

    // Rows

    /// Makes changes in one Bot's session (`""` is the main one): one commit, one frame.
    ///
    /// # Errors
    /// Where there is no such Bot or row; what came before it in `changes` stays made, but untold.
    pub fn apply(&self, agent: &str, session: &str, changes: &[Change]) -> Result<Vec<Stored>, ControlError> {
        self.shared
            .world()
            .apply(agent, session, changes)
            .map_err(|error| ControlError::Change(error.to_string()))
    }

    /// Makes changes in the main session that no stream hears of live.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_silently(&self, agent: &str, changes: &[Change]) -> Result<(), ControlError> {
        let mut world = self.shared.world();
        world
            .apply_silently(agent, changes)
            .map_err(|error| ControlError::Change(error.to_string()))
    }

    fn one(&self, agent: &str, change: Change) -> Result<Stored, ControlError> {
        let stored = self.apply(agent, "", &[change])?;
        stored
            .into_iter()
            .next()
            .ok_or_else(|| ControlError::Change(agent.into()))
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
        self.add(
            agent,
            json!({"id": entry_id, "kind": "message", "role": "user", "content": text}),
        )
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
            .map(|(label, value)| {
                if value.is_empty() {
                    json!({"label": label})
                } else {
                    json!({"label": label, "value": value})
                }
            })
            .collect();
        let widget = json!({"type": "widget", "widget": {"prompt": prompt, "options": options}});
        self.add(
            agent,
            json!({"id": entry_id, "kind": "send-message", "message": widget}),
        )
    }

    /// Overwrites the row of an entry.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn edit(&self, agent: &str, entry_id: &str, body: Value) -> Result<Stored, ControlError> {
        self.one(
            agent,
            Change::Edit {
                entry_id: entry_id.into(),
                body,
            },
        )
    }

    /// A new number for a row whose body stays.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn touch(&self, agent: &str, entry_id: &str) -> Result<Stored, ControlError> {
        self.one(
            agent,
            Change::Touch {
                entry_id: entry_id.into(),
            },
        )
    }

    /// Deletes the row of an entry.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn delete(&self, agent: &str, entry_id: &str) -> Result<Stored, ControlError> {
        self.one(
            agent,
            Change::Delete {
                entry_id: entry_id.into(),
            },
        )
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
        world
            .transcript(agent, "")
            .map(|transcript| (transcript.generation(), transcript.last_updated()))
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
        self.shared
            .world()
            .list_generations
            .insert(agent.into(), generations.iter().copied().collect());
    }

    // Live states and the other frames

    /// Sets the live state of a session (`""` is the main one) and tells it; `None` is idle.
    pub fn set_live(&self, agent: &str, session: &str, live: Option<Live>) {
        self.shared.world().set_live(agent, session, live);
    }

    /// Tells every stream a frame that was made elsewhere: an unknown kind, a malformed one.
    pub fn inject_frame(&self, frame: &Value) {
        self.shared.world().tell_all(None, || Out::Frame(frame.clone()));
    }

    /// Writes bytes into every stream as they are: broken envelopes, other flags.
    pub fn inject_bytes(&self, bytes: &[u8]) {
        self.shared.world().tell_all(None, || Out::Bytes(bytes.to_vec()));
    }

    /// Tells that a turn failed; the code without its prefix (`INTERNAL`, `TIMEOUT`, `USAGE_LIMIT`, …).
    pub fn turn_failed(&self, agent: &str, code: &str, summary: &str) {
        self.tell_of(agent, "turnFailed", |message, now| {
            let message = message
                .text("turnId", "turn-1")
                .name("code", "GROK_BOT_TURN_FAILURE_CODE_", code);
            message.text("summary", summary).at("failedAtMs", now)
        });
    }

    /// Tells that data of a Bot changed which are neither rows nor its live state.
    pub fn agent_state_changed(&self, agent: &str, families: &[&str]) {
        let families = families.iter().map(|family| (*family).into()).collect();
        self.tell_of(agent, "agentStateChanged", |message, now| {
            message.list("families", families).at("changedAtMs", now)
        });
    }

    /// Tells a click of a Bot's pointer.
    pub fn computer_action(&self, agent: &str) {
        let mut world = self.shared.world();
        let action = Message::new(world.quirks.dialect)
            .text("agentId", agent)
            .text("type", "click")
            .int("x", 120)
            .int("y", 48)
            .text("button", "left")
            .int("count", 1)
            .at("atMs", world.now());
        let frame = json!({"computerActions": {"actions": [action.build()]}});
        if let Some(owner) = world.bot(agent).map(|bot| bot.owner.clone()) {
            world.tell(&owner, &frame);
        }
    }

    fn tell_of(&self, agent: &str, kind: &str, fill: impl FnOnce(Message, i64) -> Message) {
        let mut world = self.shared.world();
        let message = Message::new(world.quirks.dialect).text("agentId", agent);
        let message = fill(message, world.now());
        if let Some(owner) = world.bot(agent).map(|bot| bot.owner.clone()) {
            world.tell(&owner, &json!({ kind: message.build() }));
        }
    }

    // Streams and faults

    /// Plans a fault.
    pub fn fault(&self, fault: Fault) {
        self.shared.world().faults.plan(fault);
    }

    /// Plans that the next call of a method (of one Bot) is held, and gives the gate that lets it through. It is held before its answer is
    /// computed, or after (`answered`): the answer then tells of a state that is past when it arrives.
    pub fn hold(&self, method: &str, agent: Option<&str>, answered: bool) -> Gate {
        let mut world = self.shared.world();
        let name = format!("held-{}", fastrand::u64(..));
        let gate = world.faults.gate(&name);
        let mut fault = Fault::next(method, Act::Hold { gate: name });
        fault.agent = agent.map(str::to_owned);
        fault.after = answered;
        world.faults.plan(fault);
        gate
    }

    /// The gate of a name, for faults that name it.
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.world().faults.gate(name)
    }

    /// Forgets all planned faults and opens all gates.
    pub fn clear_faults(&self) {
        self.shared.world().faults.clear();
    }

    /// Plans how the next streams misbehave.
    pub fn plan_stream(&self, plan: StreamPlan) {
        self.shared.world().faults.plan_stream(plan);
    }

    /// Ends all open streams in this way, after what was already said.
    pub fn end_streams(&self, end: &StreamEnd) {
        self.shared.world().tell_all(None, || Out::End(end.clone()));
    }

    /// How many streams are open now.
    pub fn open_streams(&self) -> usize {
        self.shared.world().streams()
    }

    /// How many streams were ever opened.
    pub fn opened_streams(&self) -> u64 {
        self.shared.world().streams_opened()
    }

    /// Changes the deviations, from the next answer on.
    pub fn quirks(&self, change: impl FnOnce(&mut Quirks)) {
        change(&mut self.shared.world().quirks);
    }

    /// Writes the echoes that were held.
    pub fn release_echoes(&self) {
        let mut world = self.shared.world();
        while let Some(incoming) = world.held.pop_front() {
            world.echo(&incoming);
        }
    }

    // Sign-in

    /// Confirms a sign-in as the person on the page would, without opening it.
    ///
    /// # Errors
    /// Where the link has no uuid or challenge.
    pub fn confirm(&self, link: &str) -> Result<(), ControlError> {
        let link = url::Url::parse(link).map_err(|_| ControlError::Link)?;
        let field = |name: &str| {
            let found = link.query_pairs().find(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned()).ok_or(ControlError::Link)
        };
        let (uuid, challenge) = (field("uuid")?, field("challenge")?);
        signin::confirm_attempt(&mut self.shared.world(), &uuid, Some(&challenge));
        Ok(())
    }

    /// The present account, whose sign-ins are confirmed from now on, becomes this one; it is added where it is new.
    pub fn sign_in_as(&self, account: Account) {
        let mut world = self.shared.world();
        world.present.clone_from(&account.auth_id);
        world.accounts.retain(|known| known.auth_id != account.auth_id);
        world.accounts.push(account);
    }

    /// Tokens of the present account without the sign-in.
    pub fn issue_tokens(&self) -> Pair {
        let mut world = self.shared.world();
        let (present, now) = (world.present.clone(), world.now());
        world.tokens.sign_in(&present, now)
    }

    /// Every access token so far stops to authorize. With `streams`, open streams end with that error.
    pub fn expire_access_tokens(&self, streams: bool) {
        self.shared.world().tokens.expire_access();
        if streams {
            self.end_streams(&StreamEnd::Error {
                code: "unauthenticated".into(),
            });
        }
    }

    /// Every sign-in so far is dead: renewal answers `shouldLogout`.
    pub fn revoke_tokens(&self) {
        self.shared.world().tokens.revoke();
    }

    /// How tokens are issued from now on.
    pub fn token_policy(&self, change: impl FnOnce(&mut TokenPolicy)) {
        change(self.shared.world().tokens.policy_mut());
    }

    /// Claims of the tokens issued from now on that win over ours; `null` removes one.
    pub fn set_claims(&self, claims: Map<String, Value>) {
        self.shared.world().tokens.set_claims(claims);
    }

    /// Fields that win over ours in `kind`'s successful answers: `poll`, `renewal` or `me`; `null` removes one.
    pub fn set_answer_fields(&self, kind: &str, fields: Map<String, Value>) {
        let mut world = self.shared.world();
        match kind {
            "poll" => world.poll_extra = fields,
            "renewal" => world.renewal_extra = fields,
            "me" => world.me_extra = fields,
            _ => {}
        }
    }

    /// Adds this to the machine's clock, in milliseconds, wherever the service tells or judges time.
    pub fn set_clock_offset(&self, milliseconds: i64) {
        self.shared.world().options.clock_offset_ms = milliseconds;
    }

    // What was asked

    /// How often a method was called, faults included.
    pub fn count(&self, method: &str) -> u64 {
        self.shared.world().log.count(method)
    }

    /// All counts.
    pub fn counts(&self) -> std::collections::BTreeMap<String, u64> {
        self.shared.world().log.counts()
    }

    /// The requests of a method (`*`: all), oldest first, without tokens.
    pub fn requests(&self, method: &str) -> Vec<Request> {
        self.shared.world().log.of(method)
    }

    /// Forgets the requests and the counts.
    pub fn clear_log(&self) {
        self.shared.world().log.clear();
    }

    /// The messages that clients sent, oldest first.
    pub fn received_messages(&self) -> Vec<Received> {
        self.shared.world().received.clone()
    }

    /// The lines of received messages that tell a Bot to bind: `node coda-bot.mjs bind …`.
    pub fn bind_commands(&self) -> Vec<String> {
        let received = self.received_messages();
        let lines = received.iter().flat_map(|message| message.text.lines());
        lines
            .map(str::trim)
            .filter(|line| line.starts_with(BIND))
            .map(str::to_owned)
            .collect()
    }
}

/// How a line begins that tells a Bot to bind.
pub(super) const BIND: &str = "node coda-bot.mjs bind ";

/// A Bot's text.
pub(super) fn bot_text(entry_id: &str, text: &str) -> Value {
    json!({"id": entry_id, "kind": "send-message", "message": {"type": "text", "content": text}})
}

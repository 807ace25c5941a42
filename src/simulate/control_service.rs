//! The rest of the handle: frames, streams, faults, the sign-in, what was asked.

use serde_json::{Map, Value, json};

use super::bots::Live;
use super::control::{BIND, Control, ControlError};
use super::faults::{Act, Fault, Gate, StreamEnd, StreamPlan};
use super::log::Request;
use super::options::{Account, Quirks, TokenPolicy};
use super::signin;
use super::streams::Out;
use super::tokens::Pair;
use super::wire::Message;
use super::world::Received;

impl Control {
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
        self.shared.world().tell_of(agent, "turnFailed", |message, now| {
            let message = message.text("turnId", "turn-1").name("code", "GROK_BOT_TURN_FAILURE_CODE_", code);
            message.text("summary", summary).at("failedAtMs", now)
        });
    }

    /// Tells that data of a Bot changed which are neither rows nor its live state.
    pub fn agent_state_changed(&self, agent: &str, families: &[&str]) {
        self.shared.world().agent_state_changed(agent, families);
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
            self.end_streams(&StreamEnd::Error { code: "unauthenticated".into() });
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

    /// Every token that was ever issued, every verifier that was shown, the signature of stored bodies' addresses.
    pub fn secrets(&self) -> Vec<String> {
        let world = self.shared.world();
        let all = world.tokens.all().chain(world.secrets.verifiers()).chain([&world.blob_key]);
        all.cloned().collect()
    }

    /// What Bots and people said, by the line; of a long line its beginning.
    pub fn texts(&self) -> Vec<String> {
        self.shared.world().secrets.texts().iter().cloned().collect()
    }

    /// Where a token or a verifier came back to this service that doesn't belong there.
    pub fn misplaced(&self) -> Vec<String> {
        self.shared.world().secrets.misplaced().to_vec()
    }

    /// The messages that clients sent, oldest first.
    pub fn received_messages(&self) -> Vec<Received> {
        self.shared.world().received.clone()
    }

    /// The lines of received messages that tell a Bot to bind: `node coda-bot.mjs bind …`.
    pub fn bind_commands(&self) -> Vec<String> {
        let received = self.received_messages();
        let lines = received.iter().flat_map(|message| message.text.lines());
        lines.map(str::trim).filter(|line| line.starts_with(BIND)).map(str::to_owned).collect()
    }
}

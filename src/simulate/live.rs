//! Live states: what a Bot does just now (wire reference, section 6).

use serde_json::{Value, json};

use super::bots::{Activity, Awaiting, Live};
use super::wire::Message;
use super::world::World;

impl World {
    pub(super) fn set_live(&mut self, agent: &str, session: &str, live: Option<Live>) {
        let (now, kept) = (self.now(), self.options.kept_changes);
        if let Some(activity) = live.as_ref().and_then(|live| live.activity.as_ref()) {
            self.secrets.said(&activity.detail);
        }
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
        if let Some(Activity { kind, tool, detail, target }) = &live.activity {
            let activity = Message::new(dialect)
                .text("kind", kind)
                .text("tool", tool)
                .text("detail", detail)
                .text("target", target)
                .text("callId", if kind == "tool" { "call-1" } else { "" });
            message = message.message("activity", activity.build());
        }
        if let Some(Awaiting { tab_id, reason }) = &live.awaiting {
            let awaiting = Message::new(dialect).text("tabId", tab_id).text("reason", reason).at("sinceMs", now);
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
                live.extend(session.live.as_ref().map(|state| self.live_item(&bot.agent_id, name, state, now)));
            }
            let last = bot.sessions.get("").and_then(|session| session.transcript.rows().next_back());
            let message = Message::new(dialect).text("agentId", &bot.agent_id).flag("notificationsEnabled", true);
            client.push(match last {
                None => message.build(),
                Some(row) => message.text("lastEntryId", &row.entry_id).text("lastEntryKind", &row.kind).build(),
            });
        }
        let message = Message::new(dialect).list("live", live).flag("snapshot", true).list("client", client);
        json!({"agentState": message.build()})
    }
}

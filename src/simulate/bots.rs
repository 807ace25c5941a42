//! A Bot: who it is, its sessions, and the changes that can be made to its rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::options::Dialect;
use super::state::{ChangeError, Gone, Row, Transcript};
use super::wire::Message;
use super::world::completed;

/// A Bot to be created. Only the name is needed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewBot {
    /// Its name.
    pub name: String,
    /// Its `agentId`; one is made up where absent.
    pub agent_id: Option<String>,
    /// What it is.
    pub title: String,
    /// More of it.
    pub description: String,
    /// `temporal` where empty, or `box`.
    pub harness: String,
    /// It is a room.
    pub room: bool,
    /// A room's members.
    pub member_agent_ids: Vec<String>,
    /// `authId` of its account; the present one where absent.
    pub owner: Option<String>,
    /// Fields that win over ours on the wire; `null` removes one. Kinds of a newer server, a missing `agentId`, team fields.
    pub extra: Map<String, Value>,
}

impl NewBot {
    /// A Bot of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// With that `agentId`.
    #[must_use]
    pub fn id(mut self, agent_id: &str) -> Self {
        self.agent_id = Some(agent_id.into());
        self
    }
}

/// A live state. The default is idle.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Live {
    /// `isRunning`.
    pub running: bool,
    /// `isComposingMessage`.
    pub composing: bool,
    /// `isRetrying`.
    pub retrying: bool,
    /// `activity`.
    pub activity: Option<Activity>,
    /// `awaiting`.
    pub awaiting: Option<Awaiting>,
    /// `hasRunningSubagents`.
    pub subagents: bool,
    /// Fields that win over ours on the wire; `null` removes one. An old `lastTurnSettlement` goes here.
    pub extra: Map<String, Value>,
}

/// What a running Bot does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Activity {
    /// `thinking` or `tool`.
    pub kind: String,
    /// The tool's name.
    pub tool: String,
    /// What it does, in words.
    pub detail: String,
    /// What it works on.
    pub target: String,
}

/// What a Bot waits for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Awaiting {
    /// Opaque; `widget` is known.
    pub tab_id: String,
    /// Opaque; `ask` is known.
    pub reason: String,
}

impl Live {
    /// Thinks; without words where `detail` is empty.
    #[must_use]
    pub fn thinking(detail: &str) -> Self {
        let activity = Activity { kind: "thinking".into(), detail: detail.into(), ..Activity::default() };
        Self { running: true, activity: Some(activity), ..Self::default() }
    }

    /// Uses a tool.
    #[must_use]
    pub fn tool(tool: &str, detail: &str, target: &str) -> Self {
        let activity =
            Activity { kind: "tool".into(), tool: tool.into(), detail: detail.into(), target: target.into() };
        Self { running: true, activity: Some(activity), ..Self::default() }
    }

    /// Writes its answer.
    #[must_use]
    pub fn composing() -> Self {
        Self { running: true, composing: true, ..Self::default() }
    }

    /// Waits for the answer to a widget.
    #[must_use]
    pub fn awaiting() -> Self {
        Self { awaiting: Some(Awaiting { tab_id: "widget".into(), reason: "ask".into() }), ..Self::default() }
    }

    /// With one more field on the wire.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.into(), value);
        self
    }
}

/// One change of a transcript.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
pub enum Change {
    /// A new row. `id`, `kind` (`send-message`) and `timestampMs` are filled in where the body lacks them.
    Add {
        /// The body.
        body: Value,
        /// Its place; the next one where absent. A place that is taken is overwritten.
        #[serde(default)]
        seq: Option<u64>,
    },
    /// A new row whose body is any text.
    AddText {
        /// Its id.
        entry_id: String,
        /// Its kind.
        kind: String,
        /// The body, not necessarily JSON.
        text: String,
    },
    /// Overwrites the row of an entry.
    Edit {
        /// Which entry.
        entry_id: String,
        /// The whole new body.
        body: Value,
    },
    /// A new number for a row whose body stays.
    Touch {
        /// Which entry.
        entry_id: String,
    },
    /// Removes the row of an entry.
    Delete {
        /// Which entry.
        entry_id: String,
    },
    /// The entry comes back in another row; nothing is said of the old one.
    Move {
        /// Which entry.
        entry_id: String,
        /// The new place; the next one where absent.
        #[serde(default)]
        to: Option<u64>,
    },
}

/// Where a change ended up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stored {
    /// The row's place.
    pub seq: u64,
    /// The change's number.
    pub updated_seq: u64,
    /// The entry.
    pub entry_id: String,
}

impl Stored {
    pub(super) fn of(row: Option<&Row>, gone: Option<&Gone>) -> Self {
        let row = row.map(|row| (row.seq, row.updated_seq, &row.entry_id));
        let gone = gone.map(|gone| (gone.seq, gone.updated_seq, &gone.entry_id));
        let (seq, updated_seq, entry_id) =
            row.or(gone).map_or((0, 0, String::new()), |(seq, updated, id)| (seq, updated, id.clone()));
        Self { seq, updated_seq, entry_id }
    }
}

/// One session of a Bot.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) transcript: Transcript,
    pub(super) live: Option<Live>,
}

/// A Bot.
#[derive(Debug)]
pub(super) struct Bot {
    pub(super) owner: String,
    pub(super) row_id: String,
    pub(super) agent_id: String,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) harness: String,
    pub(super) room: bool,
    pub(super) members: Vec<String>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) deleted: bool,
    pub(super) extra: Map<String, Value>,
    pub(super) sessions: BTreeMap<String, Session>,
    /// Turns so far: names the rows.
    pub(super) turn: u64,
    rows_made: u64,
}

impl Bot {
    pub(super) fn new(new: NewBot, owner: String, number: u64, now: i64, transcript: Transcript) -> Self {
        let agent_id = new.agent_id.unwrap_or_else(|| format!("00000000-0000-4000-8000-{number:012x}"));
        let main = Session { transcript, live: None };
        Self {
            owner,
            row_id: format!("row-{number}"),
            agent_id,
            name: new.name,
            title: new.title,
            description: new.description,
            harness: if new.harness.is_empty() { "temporal".into() } else { new.harness },
            room: new.room,
            members: new.member_agent_ids,
            created_at: now,
            updated_at: now,
            deleted: false,
            extra: new.extra,
            sessions: BTreeMap::from([(String::new(), main)]),
            turn: 0,
            rows_made: 0,
        }
    }

    /// `GrokBotAgent` (wire reference, section 3).
    pub(super) fn message(&self, dialect: Dialect) -> Value {
        Message::new(dialect)
            .text("id", &self.row_id)
            .text("legacyAgentId", &self.agent_id)
            .text("name", &self.name)
            .text("description", &self.description)
            .text("title", &self.title)
            .text("avatarShape", "circle")
            .text("avatarColor", "#336699")
            .at("createdAtMs", self.created_at)
            .at("updatedAtMs", self.updated_at)
            .text("agentId", &self.agent_id)
            .text("harness", &self.harness)
            .name("visibility", "GROK_BOT_AGENT_VISIBILITY_", "OWNER")
            .flag("viewerIsOwner", true)
            .text("viewerSessionId", "")
            .name("kind", "GROK_BOT_AGENT_KIND_", if self.room { "ROOM" } else { "AGENT" })
            .list("memberAgentIds", self.members.iter().map(|id| id.as_str().into()).collect())
            .over(&self.extra)
            .build()
    }

    /// A session, begun where there is none yet.
    pub(super) fn session(&mut self, name: &str, kept: u64) -> &mut Session {
        self.sessions.entry(name.into()).or_insert_with(|| Session { transcript: Transcript::new(kept), live: None })
    }

    /// Makes one change.
    pub(super) fn change(
        &mut self,
        session: &str,
        change: &Change,
        now: i64,
        kept: u64,
    ) -> Result<(Option<Row>, Option<Gone>), ChangeError> {
        let number = self.rows_made;
        let turn = self.turn;
        let made_up = || format!("t{turn}s{number}");
        let transcript = &mut self.session(session, kept).transcript;
        let find = |transcript: &Transcript, entry_id: &str| {
            transcript.find(entry_id).cloned().ok_or_else(|| ChangeError::NoRow(entry_id.into()))
        };
        let row = match change {
            Change::Add { body, seq } => {
                let (id, kind, text) = completed(body.clone(), now, made_up);
                transcript.put(*seq, id, kind, text)?
            }
            Change::AddText { entry_id, kind, text } => {
                transcript.put(None, entry_id.clone(), kind.clone(), text.as_str().into())?
            }
            Change::Edit { entry_id, body } => {
                let seq = find(transcript, entry_id)?.seq;
                let (id, kind, text) = completed(body.clone(), now, || entry_id.clone());
                transcript.put(Some(seq), id, kind, text)?
            }
            Change::Touch { entry_id } => {
                let seq = find(transcript, entry_id)?.seq;
                transcript.touch(seq)?
            }
            Change::Delete { entry_id } => {
                let seq = find(transcript, entry_id)?.seq;
                return Ok((None, Some(transcript.delete(seq)?)));
            }
            Change::Move { entry_id, to } => {
                let old = find(transcript, entry_id)?;
                transcript.vacate(old.seq);
                transcript.put(*to, old.entry_id, old.kind, old.body)?
            }
        };
        self.rows_made += 1;
        Ok((Some(row), None))
    }
}

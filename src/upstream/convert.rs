//! Wire to meaning and back: the only place where the service's spellings become the model's words.
//!
//! One odd record never costs its neighbours anything: it is a [`Malformed`], counted by the loop, and the rest is read. Only an answer that as a
//! whole isn't what was asked for is an error.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{self, Field, Name, Odd, PLENTY, Said};
use super::{
    Delivery, Frame, Me, Page, PageRequest, Roster, SendRequest, SendStatus, Skipped, WatchRequest, WidgetAnswer,
    WidgetRequest,
};
use crate::model::{
    AgentId, Bot, Delete, EntryId, Harness, LiveActivity, LiveState, Malformed, Row, RowBody, TurnFailure, Wall,
};

mod body;
mod card;
mod text;

use body::BATCH;
pub(super) use body::{Bodies, from_blob};
use text::tolerant;

/// An answer that can't be used as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreadable(&'static str);

const DELIVERY: &str = "GROK_BOT_USER_MESSAGE_DELIVERY_";
const STATUS: &str = "GROK_BOT_SEND_STATUS_";
const AGENT_KIND: &str = "GROK_BOT_AGENT_KIND_";
const VISIBILITY: &str = "GROK_BOT_AGENT_VISIBILITY_";
/// The numbers of the enum values, where the wire reference gives them or their order.
const ROOM: u64 = 2;
const TEAM: u64 = 2;

/// Reads a text as one record: an object. (A list would be taken for one by its order.)
fn record<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if text.trim_start().starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

/// Checks UTF-8 once for the whole answer: serde_json would do it string by string.
fn utf8(body: &[u8]) -> Result<&str, Unreadable> {
    simdutf8::basic::from_utf8(body).map_err(|_| Unreadable("the answer isn't UTF-8"))
}

/// Reads a whole answer: an object.
fn answer<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Unreadable> {
    record(utf8(body)?).ok_or(SHAPE)
}

const SHAPE: Unreadable = Unreadable("the answer isn't a JSON object that can be read");

/// The main session is the one without a name (section 3).
fn is_main(session: wire::Text<'_>) -> Result<bool, Odd> {
    Ok(session.or_default()?.is_empty())
}

fn agent_id(id: wire::Text<'_>) -> Result<AgentId, Odd> {
    match id {
        Field::Is(id) if !id.is_empty() => Ok(AgentId::from(&*id)),
        _ => Err(Odd),
    }
}

/// 0 stands for the current one, as absence does (section 5.6, rule 7).
fn generation(generation: wire::Number) -> Result<Option<u64>, Odd> {
    Ok(generation.optional()?.filter(|generation| *generation != 0))
}

fn wall(ms: wire::Number) -> Option<Wall> {
    ms.is().and_then(|ms| i64::try_from(ms).ok()).map(Wall)
}

fn entry_id(id: wire::Text<'_>) -> Option<EntryId> {
    id.is().filter(|id| !id.is_empty()).map(|id| EntryId::from(&*id))
}

pub(super) fn me(body: &[u8]) -> Result<Me, Unreadable> {
    tolerant(utf8(body)?, |text| Some(account(record(text)?))).unwrap_or(Err(SHAPE))
}

fn account(wire: wire::Me<'_>) -> Result<Me, Unreadable> {
    // Whose records these are: a value that can't be read must not turn one account into another.
    let user_id = match wire.user_id {
        Field::Absent | Field::Is(Name::Number(0)) => None,
        Field::Is(Name::Number(id)) => Some(id.to_string()),
        Field::Is(Name::Text(id)) => Some(id.into_owned()),
        Field::Odd => return Err(Unreadable("userId is neither a whole number nor a text")),
    };
    let text = |field: wire::Text<'_>| field.is().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let names: Vec<String> = [text(wire.first_name), text(wire.last_name)].into_iter().flatten().collect();
    Ok(Me {
        user_id,
        auth_id: wire.auth_id.is().filter(|id| !id.is_empty()).map(std::borrow::Cow::into_owned),
        name: if names.is_empty() { text(wire.email) } else { Some(names.join(" ")) },
    })
}

pub(super) fn roster(body: &[u8], date: Option<Wall>) -> Result<Roster, Unreadable> {
    let wire: wire::Agents<'_> = answer(body)?;
    // An account without Bots gets `{}`; something else in the place of the list isn't an empty list.
    let agents = wire.agents.or_default().map_err(|Odd| Unreadable("agents isn't a list"))?;
    let mut roster = Roster { date, ..Roster::default() };
    let mut seen = HashSet::new();
    for raw in agents {
        match tolerant(raw.get(), |text| Some(listed(&record(text)?))) {
            Some(Listed::Bot(bot)) => {
                if seen.insert(bot.agent_id.clone()) {
                    roster.bots.push(bot);
                }
            }
            Some(Listed::Another) => {}
            Some(Listed::Unusable) | None => roster.skipped += 1,
        }
    }
    Ok(roster)
}

enum Listed {
    Bot(Bot),
    /// A room, or somebody else's.
    Another,
    /// Without an `agentId`: nothing else names it for the other calls.
    Unusable,
}

fn listed(agent: &wire::Agent<'_>) -> Listed {
    // Kinds of a newer server are taken for Bots.
    if let Field::Is(kind) = &agent.kind
        && (kind.is(AGENT_KIND, "ROOM", ROOM) || matches!(kind, Name::Text(name) if name.ends_with("_ROOM")))
    {
        return Listed::Another;
    }
    // What the account itself owns is its own, also where it is shared with the team; of the rest a team's visibility or an explicit word against
    // ownership shows that it is somebody else's. (Absent means false by the rules of the wire, but servers exist that never say it.)
    let shared = matches!(&agent.visibility, Field::Is(value) if value.is(VISIBILITY, "TEAM", TEAM));
    match agent.viewer_is_owner {
        Field::Is(Said::No) => return Listed::Another,
        Field::Absent | Field::Odd if shared => return Listed::Another,
        Field::Is(Said::Yes) | Field::Absent | Field::Odd => {}
    }
    let text = |field: &wire::Text<'_>| match field {
        Field::Is(text) => text.to_string(),
        Field::Absent | Field::Odd => String::new(),
    };
    let id = text(&agent.agent_id);
    if id.is_empty() {
        return Listed::Unusable;
    }
    Listed::Bot(Bot {
        agent_id: AgentId::from(id),
        name: text(&agent.name),
        harness: if text(&agent.harness).eq_ignore_ascii_case("box") { Harness::Box } else { Harness::Other },
    })
}

pub(super) fn page(body: &[u8]) -> Result<Page, Unreadable> {
    let text = utf8(body)?;
    match record::<wire::Page<wire::Listed<'_>>>(text) {
        Some(page) => listed_page(page, listed_rows),
        None => listed_page(record::<wire::Page<wire::List<'_>>>(text).ok_or(SHAPE)?, raw_rows),
    }
}

fn listed_page<T>(wire: wire::Page<Field<Vec<T>>>, rows: impl FnOnce(Vec<T>) -> Rows) -> Result<Page, Unreadable> {
    let entries = wire.entries.or_default().map_err(|Odd| Unreadable("entries isn't a list"))?;
    let generation = generation(wire.generation).map_err(|Odd| Unreadable("generation isn't a whole number"))?;
    let (mut rows, malformed) = rows(entries);
    // Newest first, as the service does it; some servers answer oldest first.
    rows.sort_by_key(|row| Reverse(row.seq));
    Ok(Page { rows, generation, malformed })
}

/// Rows, and what was in their place and couldn't be read.
type Rows = (Vec<Row>, Skipped);

fn listed_rows(mut entries: Vec<Field<wire::Row<'_, wire::Long<'_>>>>) -> Rows {
    let (mut rows, mut malformed) = (Vec::with_capacity(entries.len()), Skipped::default());
    let mut bodies = Bodies::default();
    for batch in entries.chunks_mut(BATCH) {
        bodies.rows(batch, |row| gather(&mut rows, &mut malformed, row));
    }
    (rows, malformed)
}

fn raw_rows(entries: Vec<&RawValue>) -> Rows {
    let (mut rows, mut malformed) = (Vec::with_capacity(entries.len().min(PLENTY)), Skipped::default());
    for raw in entries {
        gather(&mut rows, &mut malformed, tolerant(raw.get(), |text| Some(body::row(record(text)?))));
    }
    (rows, malformed)
}

/// The next row of a list; `None` for what is none.
fn gather(rows: &mut Vec<Row>, malformed: &mut Skipped, row: Option<Result<Row, Malformed>>) {
    match row {
        // `{}` is a row, and a list may hold ten million of it.
        Some(Ok(row)) if row.body == RowBody::Nothing && rows.last() == Some(&row) => {}
        Some(Ok(row)) => rows.push(row),
        Some(Err(odd)) => malformed.push(odd),
        None => malformed.push(Malformed { kind: "".into(), reason: "the row isn't an object that can be read" }),
    }
}

/// Rows of some frames, whose bodies are read together: by themselves a reader for each frame would be made anew.
#[derive(Default)]
struct Unread<'a> {
    entries: Vec<Field<wire::Row<'a, wire::Long<'a>>>>,
    /// Whose they are: a frame's place, and how many it has.
    of: Vec<(usize, usize)>,
}

impl Unread<'_> {
    /// Gives each frame its rows.
    fn settle(&mut self, bodies: &mut Bodies, frames: &mut [Frame]) {
        let mut places = self.of.drain(..).flat_map(|(place, count)| std::iter::repeat_n(place, count));
        for batch in self.entries.chunks_mut(BATCH) {
            bodies.rows(batch, |row| {
                if let Some(Frame::Rows { rows, malformed, .. }) = places.next().and_then(|at| frames.get_mut(at)) {
                    gather(rows, malformed, row);
                }
            });
        }
        self.entries.clear();
    }
}

fn delete(raw: &RawValue) -> Option<Delete> {
    tolerant(raw.get(), |text| {
        let wire: wire::Delete<'_> = record(text)?;
        Some(Delete {
            seq: wire.seq.or_default().ok()?,
            number: wire.updated_seq.or_default().ok()?,
            entry_id: entry_id(wire.entry_id),
        })
    })
}

/// Reads frames of the stream, in their order: each gives at least one, and one more for each live state that can't be read, up to a thousand. `bodies`
/// is the stream's; nothing is kept in it but room.
pub(super) fn frames(payloads: &[&[u8]], bodies: &mut Bodies) -> Vec<Frame> {
    let mut out = Vec::with_capacity(payloads.len());
    let mut unread = Unread::default();
    for payload in payloads {
        let Ok(text) = simdutf8::basic::from_utf8(payload) else {
            out.push(malformed("frame", "the frame isn't UTF-8"));
            continue;
        };
        let frame = match record(text) {
            Some(frame) => {
                let before = unread.entries.len();
                let frame = read_frame(text, frame, &mut out, |mut entries| {
                    let rows = Vec::with_capacity(entries.len());
                    unread.entries.append(&mut entries);
                    (rows, Skipped::default())
                });
                if let Frame::Rows { .. } = frame {
                    unread.of.push((out.len(), unread.entries.len() - before));
                } else {
                    // They were of one that couldn't be read.
                    unread.entries.truncate(before);
                }
                Some(frame)
            }
            None => tolerant(text, |text| Some(read_frame(text, record(text)?, &mut out, raw_rows))),
        };
        out.push(frame.unwrap_or_else(|| malformed("frame", "the frame isn't an object that can be read")));
        // Unread, each costs a hundred times the `{}` that it may be.
        if unread.entries.len() >= PLENTY {
            unread.settle(bodies, &mut out);
        }
    }
    unread.settle(bodies, &mut out);
    out
}

fn malformed(kind: &str, reason: &'static str) -> Frame {
    Frame::Malformed(Malformed { kind: kind.into(), reason })
}

fn read_frame<T>(
    text: &str,
    wire: wire::Frame<'_, Field<Vec<T>>>,
    out: &mut Vec<Frame>,
    rows: impl FnOnce(Vec<T>) -> Rows,
) -> Frame {
    let cases = [
        (!matches!(wire.connected, Field::Absent), "connected"),
        (!matches!(wire.rows, Field::Absent), "rows"),
        (!matches!(wire.cleared, Field::Absent), "cleared"),
        (!matches!(wire.cursor_too_old, Field::Absent), "cursorTooOld"),
        (wire.heartbeat.0, "heartbeat"),
        (!matches!(wire.agent_state, Field::Absent), "agentState"),
        (wire.computer_actions.0, "computerActions"),
        (wire.agent_state_changed.0, "agentStateChanged"),
        (!matches!(wire.turn_failed, Field::Absent), "turnFailed"),
        (wire.roster_changed.0, "rosterChanged"),
        (wire.box_state.0, "boxState"),
    ];
    let mut there = cases.into_iter().filter_map(|(there, name)| there.then_some(name));
    let name = match (there.next(), there.next()) {
        (Some(name), None) => name,
        (None, _) => {
            let keys = serde_json::from_str::<BTreeMap<String, &RawValue>>(text).unwrap_or_default();
            let kind = keys.keys().next().map_or_else(|| "".into(), |key| text::name(key));
            return Frame::Other { kind, unknown: true };
        }
        _ => {
            return malformed("frame", "the frame names more than one case");
        }
    };
    let read = match name {
        "connected" => wire.connected.or_default().map(|wire| connected(&wire)),
        "rows" => wire.rows.or_default().and_then(|wire| rows_frame(wire, rows)),
        "cleared" => wire.cleared.or_default().and_then(|reset| {
            // One server writes `generation` here.
            let named = generation(reset.new_generation)?.or(generation(reset.generation)?);
            Ok(of_main(reset.session_id, name)?
                .unwrap_or(Frame::Cleared { agent_id: agent_id(reset.agent_id)?, generation: named }))
        }),
        "cursorTooOld" => wire.cursor_too_old.or_default().and_then(|reset| {
            Ok(of_main(reset.session_id, name)?.unwrap_or(Frame::CursorTooOld {
                agent_id: agent_id(reset.agent_id)?,
                generation: generation(reset.generation)?,
            }))
        }),
        "heartbeat" => Ok(Frame::Heartbeat),
        "agentState" => wire.agent_state.or_default().and_then(|state| agent_state(state, out)),
        "turnFailed" => wire.turn_failed.or_default().and_then(turn_failed),
        "rosterChanged" => Ok(Frame::RosterChanged),
        // computerActions, agentStateChanged (a hint about other data, no live state) and boxState.
        _ => Ok(Frame::Other { kind: name.into(), unknown: false }),
    };
    read.unwrap_or_else(|Odd| malformed(name, "a field that is needed is missing or of a wrong type"))
}

/// `None` for the main session; else what the frame of another session comes to.
fn of_main(session: wire::Text<'_>, kind: &'static str) -> Result<Option<Frame>, Odd> {
    Ok((!is_main(session)?).then(|| Frame::Other { kind: kind.into(), unknown: false }))
}

fn connected(wire: &wire::Connected) -> Frame {
    Frame::Connected {
        server_time: wall(wire.server_time_ms).filter(|time| time.0 != 0),
        lifetime: wire.absolute_lifetime_ms.is().filter(|ms| *ms != 0).map(Duration::from_millis),
    }
}

fn rows_frame<T>(wire: wire::Rows<'_, Field<Vec<T>>>, rows: impl FnOnce(Vec<T>) -> Rows) -> Result<Frame, Odd> {
    if let Some(other) = of_main(wire.session_id, "rows")? {
        return Ok(other);
    }
    let entries = wire.entries.or_default()?;
    let (rows, mut malformed) = rows(entries);
    let mut deletes = Vec::new();
    for raw in wire.deletes.or_default()? {
        match delete(raw) {
            Some(delete) if deletes.last() == Some(&delete) => {}
            Some(delete) => deletes.push(delete),
            None => malformed.push(Malformed { kind: "delete".into(), reason: "the delete can't be read" }),
        }
    }
    Ok(Frame::Rows {
        agent_id: agent_id(wire.agent_id)?,
        generation: generation(wire.generation)?,
        rows,
        deletes,
        malformed,
    })
}

fn agent_state(wire: wire::AgentState<'_>, out: &mut Vec<Frame>) -> Result<Frame, Odd> {
    let snapshot = wire.snapshot.or_default()?;
    let most = out.len() + PLENTY;
    let mut live = Vec::new();
    for raw in wire.live.or_default()? {
        match tolerant(raw.get(), |text| live_state(record(text)?).ok()) {
            Some(Some(state)) => live.push(state),
            None if out.len() < most => out.push(Frame::Malformed(Malformed {
                kind: "agentState.live".into(),
                reason: "the live state can't be read",
            })),
            Some(None) | None => {}
        }
    }
    Ok(Frame::AgentState { snapshot, live })
}

/// `None` for another session than the main one.
fn live_state(wire: wire::Live<'_>) -> Result<Option<(AgentId, LiveState)>, Odd> {
    if !is_main(wire.session_id)? {
        return Ok(None);
    }
    let activity = match wire.activity.optional()? {
        Some(activity) => Some(LiveActivity {
            kind: Arc::from(&*activity.kind.or_default()?),
            tool: Arc::from(&*activity.tool.or_default()?),
            detail: Arc::from(&*activity.detail.or_default()?),
        }),
        None => None,
    };
    let state = LiveState {
        running: wire.is_running.or_default()?,
        composing: wire.is_composing_message.or_default()?,
        retrying: wire.is_retrying.or_default()?,
        activity,
        awaiting: wire.awaiting.0,
    };
    Ok(Some((agent_id(wire.agent_id)?, state)))
}

fn turn_failed(wire: wire::TurnFailed<'_>) -> Result<Frame, Odd> {
    if let Some(other) = of_main(wire.session_id, "turnFailed")? {
        return Ok(other);
    }
    let code = match wire.code.is().or(wire.failure_code.is()) {
        Some(Name::Text(code)) => text::name(&code),
        Some(Name::Number(code)) => code.to_string().into(),
        None => "".into(),
    };
    Ok(Frame::TurnFailed {
        agent_id: agent_id(wire.agent_id)?,
        failure: TurnFailure { code, summary: Arc::from(&*wire.summary.is().unwrap_or_default()) },
    })
}

fn failure_code(refusal: wire::Refusal<'_>) -> String {
    refusal.failure_code.is().map(|code| text::name(&code).to_string()).unwrap_or_default()
}

pub(super) fn delivery(body: &[u8]) -> Result<Delivery, Unreadable> {
    let wire: wire::Sent<'_> = answer(body)?;
    Ok(match wire.delivery {
        Field::Is(value) => {
            let is = |short, number| value.is(DELIVERY, short, number);
            if is("ACCEPTED_BOX", 1) || is("ACCEPTED_TEMPORAL", 2) || is("DUPLICATE", 3) {
                Delivery::Accepted
            } else if is("REFUSED", 4) {
                Delivery::Refused { code: wire.refusal.is().map(failure_code).unwrap_or_default() }
            } else {
                Delivery::Unclear
            }
        }
        Field::Absent if matches!(wire.dispatched, Field::Is(true)) => Delivery::Accepted,
        Field::Absent | Field::Odd => Delivery::Unclear,
    })
}

pub(super) fn send_status(body: &[u8]) -> Result<SendStatus, Unreadable> {
    let wire: wire::SendStatus<'_> = answer(body)?;
    Ok(match wire.status {
        Field::Is(value) if value.is(STATUS, "NOT_FOUND", 1) => SendStatus::NotFound,
        Field::Is(value) if value.is(STATUS, "REJECTED", 3) => SendStatus::Rejected,
        _ => SendStatus::Other,
    })
}

pub(super) fn widget_answer(body: &[u8]) -> Result<WidgetAnswer, Unreadable> {
    let wire: wire::Responded<'_> = answer(body)?;
    Ok(match (wire.accepted, wire.refusal) {
        (Field::Is(true), _) => WidgetAnswer::Accepted,
        (_, Field::Is(refusal)) => WidgetAnswer::Refused { code: failure_code(refusal) },
        // Neither: false is left out, so `{}` may be a no, and it may be a yes of a server that says nothing.
        _ => WidgetAnswer::Unclear,
    })
}

/// The URL to read `path` from; `None` where the service has no such object.
pub(super) fn presigned(body: &[u8], path: &str) -> Result<Option<String>, Unreadable> {
    let wire: wire::Presigned<'_> = answer(body)?;
    let instructions = wire.instructions.or_default().map_err(|Odd| Unreadable("instructions isn't a list"))?;
    Ok(instructions.into_iter().find_map(|raw| {
        let instruction: wire::Instruction<'_> = record(raw.get())?;
        (instruction.rel_path.is()? == path).then_some(())?;
        instruction.url.is().map(std::borrow::Cow::into_owned)
    }))
}

/// Requests are plain data of ours: writing them as JSON can't fail.
fn json(request: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(request).unwrap_or_default()
}

pub(super) fn page_request(request: &PageRequest) -> Vec<u8> {
    json(&wire::PageRequest {
        agent_id: request.agent_id.as_str(),
        generation: request.generation,
        // The bound above the highest `seq` that the wire can name is no bound: without one the newest page comes, which holds that row.
        before_seq: request.before_seq.and_then(|seq| u64::try_from(seq).ok()).map(|seq| seq.to_string()),
        limit: request.limit,
    })
}

pub(super) fn watch_request(request: &WatchRequest) -> Vec<u8> {
    let cursors = request.cursors.iter().map(|(agent_id, cursor)| wire::Cursor {
        agent_id: agent_id.as_str(),
        generation: cursor.generation,
        after_updated_seq: cursor.number.to_string(),
        session_id: "",
    });
    json(&wire::WatchRequest {
        cursors: cursors.collect(),
        include_unlisted_agents: true,
        inline_body_max_bytes: 262_144,
    })
}

pub(super) fn send_request(request: &SendRequest) -> Vec<u8> {
    let mut room = [0; _];
    json(&wire::SendRequest {
        agent_id: request.agent_id.as_str(),
        message_id: &request.message_id,
        text: &request.text,
        sent_at_ms: request.sent_at.0.to_string(),
        reply_to_id: request.reply_to.as_ref().map(|id| id.text(&mut room)),
        source: "GROK_BOT_CLIENT_SURFACE_DESKTOP",
        session_id: "",
    })
}

pub(super) fn status_request(agent_id: &AgentId, message_id: &str) -> Vec<u8> {
    json(&wire::StatusRequest { agent_id: agent_id.as_str(), message_id, session_id: "" })
}

pub(super) fn respond_request(request: &WidgetRequest) -> Vec<u8> {
    json(&wire::RespondRequest {
        agent_id: request.agent_id.as_str(),
        entry_id: request.entry_id.text(&mut [0; _]),
        value: &request.value,
    })
}

pub(super) fn presign_request(path: &str) -> Vec<u8> {
    json(&wire::PresignRequest { rel_paths: [path.to_owned()] })
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

//! Another edge of the same state: the gateway of the Bots' computers (`/api/<method>`), which independent clients speak, and the two calls
//! of the service by which they find it. Nothing here is the wire that the provider speaks: names and forms differ (wire reference,
//! section 0, tells the two worlds apart).

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::bots::NewBot;
use super::faults::Refusal;
use super::rpc::{Accepted, accept, authorized};
use super::server::{Call, Shared, json as json_answer, text};
use super::wire::Asked;
use super::world::{Incoming, World};

/// Most rows of one page.
const MAX_TAIL: u64 = 200;

/// `EnsureSandBox` and `ListGrokBotTeamAgents`. The gateway's token is a fresh session token: both edges judge it alike.
pub(super) fn backend(world: &mut World, base: &str, owner: &str, method: &str) -> Value {
    if method == "EnsureSandBox" {
        let now = world.now();
        let pair = world.tokens.sign_in(owner, now);
        return json!({"gatewayUrl": base, "gatewayToken": pair.access, "gatewayHeaders": {"x-anyrun-network-token": "simulated"}});
    }
    let dialect = world.quirks.dialect;
    let entries: Vec<Value> = world.bots_of(owner).map(|bot| json!({"agent": bot.message(dialect)})).collect();
    json!({ "entries": entries })
}

/// `POST /api/<method>`.
pub(super) fn answer(shared: &Shared, method: &str, call: &Call) -> Response {
    let mut world = shared.world();
    // An expired session gets 417 with nothing in it.
    let Ok(owner) = authorized(&world, call) else {
        return text(StatusCode::EXPECTATION_FAILED, "");
    };
    let answered = Asked::parse(&call.bytes).and_then(|asked| match method {
        "listAgents" => Ok(Some(agents(&world, &owner))),
        "createAgent" => create(&mut world, &owner, &asked).map(Some),
        "updateAgent" => update(&mut world, &owner, &asked).map(Some),
        "deleteAgent" => delete(&mut world, &owner, &asked).map(Some),
        "sendPrompt" => send(&mut world, &owner, &asked).map(Some),
        "promptAcceptanceStatus" => status(&world, &owner, &asked).map(Some),
        "getAgentTranscriptTail" => tail(&world, &owner, &asked).map(Some),
        "getAgentThread" => thread(&world, &owner, &asked).map(Some),
        _ => Ok(None),
    });
    match answered {
        Ok(Some(body)) => json_answer(200, &body),
        Ok(None) => json_answer(404, &json!({"error": "unknown method"})),
        Err(refusal) => json_answer(refusal.status, &json!({"error": refusal.detail})),
    }
}

fn agent(bot: &super::bots::Bot) -> Value {
    let running = bot.sessions.get("").and_then(|session| session.live.as_ref()).is_some_and(|live| live.running);
    json!({
        "id": bot.agent_id, "name": bot.name, "title": bot.title, "description": bot.description,
        "avatarShape": "circle", "avatarColor": "#336699", "isGroup": bot.room, "memberIds": bot.members,
        "notifyOnUpdatesEnabled": true, "isHiddenFromSidebar": false, "isRunning": running,
    })
}

fn agents(world: &World, owner: &str) -> Value {
    json!({"agents": world.bots_of(owner).map(agent).collect::<Vec<_>>()})
}

/// The Bot that a request names by `id` or `agentId`.
fn own(world: &World, owner: &str, asked: &Asked) -> Result<String, Refusal> {
    let named = match asked.text("agentId")? {
        "" => asked.text("id")?,
        named => named,
    };
    let bot = world.own_bot(owner, named).ok_or_else(|| Refusal::not_found("no such agent"))?;
    Ok(bot.agent_id.clone())
}

fn create(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let new = NewBot {
        name: asked.text("name")?.into(),
        title: asked.text("title")?.into(),
        description: asked.text("description")?.into(),
        harness: "box".into(),
        owner: Some(owner.into()),
        ..NewBot::default()
    };
    let id = world.add_bot(new);
    Ok(json!({"agent": world.bot(&id).map(agent)}))
}

fn update(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let id = own(world, owner, asked)?;
    let profile = asked.value();
    let name = profile["profile"]["name"].as_str().ok_or_else(|| Refusal::invalid("profile.name is missing"))?;
    world.rename_bot(&id, name);
    Ok(json!({"agent": world.bot(&id).map(agent)}))
}

fn delete(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let id = own(world, owner, asked)?;
    world.delete_bot(&id);
    Ok(json!({}))
}

fn send(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let (nonce, prompt) = (asked.text("clientNonce")?, asked.text("prompt")?);
    if nonce.is_empty() || prompt.trim().is_empty() {
        return Err(Refusal::invalid("clientNonce and prompt are needed"));
    }
    let reply_to = asked.text("replyToId")?;
    let incoming = Incoming {
        agent: own(world, owner, asked)?,
        session: asked.text("sessionId")?.into(),
        message_id: nonce.into(),
        text: prompt.into(),
        reply_to: (!reply_to.is_empty()).then(|| reply_to.into()),
        attachments: Vec::new(),
    };
    Ok(match accept(world, incoming) {
        Accepted::New { .. } | Accepted::Duplicate => json!({"accepted": true}),
        Accepted::NoSessions => json!({"status": "refused", "message": "This agent has one conversation."}),
    })
}

fn status(world: &World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let key = (own(world, owner, asked)?, asked.text("clientNonce")?.to_owned());
    Ok(match world.sends.get(&key) {
        None => json!({"outcome": "not-found"}),
        Some(sent) if sent.entry_id.is_some() => json!({"outcome": "found", "record": {"status": "accepted"}}),
        Some(_) => json!({"outcome": "found", "record": {"status": "pending"}}),
    })
}

/// Oldest first, the bodies as they are; `nextBeforeSeq` where there is more.
fn tail(world: &World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let id = own(world, owner, asked)?;
    let limit = usize::try_from(asked.long("limit")?.unwrap_or(MAX_TAIL).clamp(1, MAX_TAIL)).unwrap_or(1);
    let before = asked.long("beforeSeq")?;
    let Some(transcript) = world.transcript(&id, asked.text("sessionId")?) else {
        return Ok(json!({"entries": []}));
    };
    let mut rows = transcript.page(before, limit + 1);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| row.seq);
    rows.reverse();
    let entries: Vec<Value> = rows.iter().filter_map(|row| serde_json::from_str(&row.body).ok()).collect();
    let mut page = json!({ "entries": entries });
    if let Some(next) = next {
        page["nextBeforeSeq"] = next.into();
    }
    Ok(page)
}

/// An entry and the replies to it, oldest first.
fn thread(world: &World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let id = own(world, owner, asked)?;
    let root = asked.text("rootId")?;
    let bodies = world.transcript(&id, "").into_iter().flat_map(super::state::Transcript::rows);
    let entries: Vec<Value> = bodies
        .filter_map(|row| serde_json::from_str::<Value>(&row.body).ok())
        .filter(|body| ["id", "replyToId", "replyTo"].iter().any(|name| body[*name] == root))
        .collect();
    Ok(json!({ "entries": entries }))
}

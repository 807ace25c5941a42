//! The unary calls (wire reference, sections 3, 4, 8 to 10).

use axum::http::{HeaderName, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::behave::Stimulus;
use super::bots::Change;
use super::faults::Refusal;
use super::options::{Echo, ListOrder};
use super::server::{Call, Shared, answer, json as json_answer, refused, text};
use super::wire::{Asked, Message};
use super::world::{Incoming, Received, Sent, World};

/// Most rows of one list answer, and how many where the request names no limit.
const MAX_LIST: u64 = 500;

/// Answers a call of either service.
pub(super) fn unary(shared: &Shared, service: &str, method: &str, call: &Call) -> Response {
    if call.media_type() != "application/json" {
        return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type");
    }
    let dashboard = service.ends_with("DashboardService");
    let known = if dashboard {
        method == "GetMe"
    } else {
        matches!(
            method,
            "ListGrokBotAgents"
                | "ListGrokBotTranscriptEntries"
                | "SendGrokBotUserMessage"
                | "GetGrokBotSendStatus"
                | "RespondGrokBotWidget"
                | "DismissGrokBotWidget"
                | "PresignSandBoxStoreReads"
                | "EnsureSandBox"
                | "ListGrokBotTeamAgents"
        )
    };
    // An unknown method is no Connect answer (wire reference, section 1.4).
    if !known {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    }
    match checked(shared, method, call) {
        Ok(body) => json_answer(200, &body),
        Err(refusal) => refused(&refusal),
    }
}

fn checked(shared: &Shared, method: &str, call: &Call) -> Result<Value, Refusal> {
    let mut world = shared.world();
    let owner = authorized(&world, call)?;
    let asked = Asked::parse(&call.bytes)?;
    match method {
        "GetMe" => Ok(me(&world, &owner)),
        "ListGrokBotAgents" => Ok(agents(&world, &owner)),
        "ListGrokBotTranscriptEntries" => entries(&mut world, &owner, &asked),
        "SendGrokBotUserMessage" => send(&mut world, &owner, &asked),
        "GetGrokBotSendStatus" => send_status(&world, &owner, &asked),
        "RespondGrokBotWidget" => respond(&mut world, &owner, &asked),
        "DismissGrokBotWidget" => dismiss(&mut world, &owner, &asked),
        "PresignSandBoxStoreReads" => presign(&world, &shared.base, &asked),
        _ => Ok(super::gateway::backend(&mut world, &shared.base, &owner, method)),
    }
}

/// Whose call it is.
pub(super) fn authorized(world: &World, call: &Call) -> Result<String, Refusal> {
    let owner = world.tokens.owner(call.bearer(), world.now());
    owner.map(str::to_owned).ok_or_else(Refusal::unauthenticated)
}

fn me(world: &World, owner: &str) -> Value {
    let account = world.accounts.iter().find(|account| account.auth_id == owner).cloned().unwrap_or_default();
    Message::new(world.quirks.dialect)
        .text("authId", &account.auth_id)
        .int("userId", account.user_id.into())
        .text("email", &account.email)
        .text("firstName", &account.first_name)
        .text("lastName", &account.last_name)
        .text("createdAt", "2026-01-01T00:00:00.000Z")
        .over(&world.me_extra)
        .build()
}

fn agents(world: &World, owner: &str) -> Value {
    let dialect = world.quirks.dialect;
    let agents = world.bots_of(owner).map(|bot| bot.message(dialect)).collect();
    Message::new(dialect).list("agents", agents).build()
}

/// The Bot that a request names, if it is the caller's.
fn own(world: &World, owner: &str, asked: &Asked) -> Result<String, Refusal> {
    let agent = asked.text("agentId")?;
    if agent.is_empty() {
        return Err(Refusal::invalid("agentId is missing"));
    }
    let bot = world.own_bot(owner, agent).ok_or_else(|| Refusal::not_found("no such agent"))?;
    Ok(bot.agent_id.clone())
}

fn entries(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let agent = own(world, owner, asked)?;
    let session = asked.text("sessionId")?;
    let limit = match asked.long("limit")?.unwrap_or(0) {
        0 => MAX_LIST,
        limit => limit.min(MAX_LIST),
    };
    let quirks = world.quirks;
    let limit = if quirks.ignore_limit { u64::MAX } else { limit };
    let limit = if quirks.list_cap == 0 { limit } else { limit.min(quirks.list_cap.into()) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let before = asked.long("beforeSeq")?.filter(|_| !quirks.ignore_before_seq);
    let (mut rows, generation) = world
        .transcript(&agent, session)
        .map_or((Vec::new(), 1), |transcript| (transcript.page(before, limit), transcript.generation()));
    match quirks.list_order {
        ListOrder::NewestFirst => {}
        ListOrder::OldestFirst => rows.reverse(),
        ListOrder::Shuffled => world.shuffle.shuffle(&mut rows),
    }
    let scripted = world.list_generations.get_mut(&agent).and_then(std::collections::VecDeque::pop_front);
    // A list has no inline cap: only the store's own cap takes bodies out.
    let listed = rows.iter().map(|row| world.entry(row, 0)).collect();
    let message = Message::new(quirks.dialect).list("entries", listed);
    let generation = scripted.unwrap_or(generation);
    let message = if quirks.no_generation { message } else { message.int("generation", generation.into()) };
    Ok(message.build())
}

fn send(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let agent = own(world, owner, asked)?;
    let (message_id, body) = (asked.text("messageId")?, asked.text("text")?);
    let paths = asked.texts("attachmentPaths")?;
    if message_id.is_empty() || (body.trim().is_empty() && paths.is_empty()) {
        return Err(Refusal::invalid("messageId and text are needed"));
    }
    let names = asked.texts("attachmentNames")?;
    let attachments = paths.iter().enumerate().map(|(number, path)| {
        let name = names.get(number).copied().unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path));
        ((*path).to_owned(), name.to_owned())
    });
    let reply_to = asked.text("replyToId")?;
    let incoming = Incoming {
        agent,
        session: asked.text("sessionId")?.into(),
        message_id: message_id.into(),
        text: body.into(),
        reply_to: (!reply_to.is_empty()).then(|| reply_to.into()),
        attachments: attachments.collect(),
    };
    let accepted = accept(world, incoming);
    Ok(written(world, accepted))
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    New { boxed: bool },
    Duplicate,
    NoSessions,
}

/// Takes a message: idempotent on (agent, message id).
pub(super) fn accept(world: &mut World, incoming: Incoming) -> Accepted {
    let boxed = world.bot(&incoming.agent).is_some_and(|bot| bot.harness == "box");
    if boxed && !incoming.session.is_empty() {
        return Accepted::NoSessions;
    }
    let key = (incoming.agent.clone(), incoming.message_id.clone());
    if world.sends.contains_key(&key) && !world.quirks.forgetful_sends {
        return Accepted::Duplicate;
    }
    world.sends.insert(key, Sent { entry_id: None, accepted_at: world.now() });
    world.received.push(Received {
        agent_id: incoming.agent.clone(),
        message_id: incoming.message_id.clone(),
        text: incoming.text.clone(),
        reply_to: incoming.reply_to.clone(),
    });
    match world.quirks.echo {
        Echo::AtOnce => world.echo(&incoming),
        Echo::Held => world.held.push_back(incoming),
        Echo::Never => {}
    }
    world.touch();
    Accepted::New { boxed }
}

fn written(world: &World, accepted: Accepted) -> Value {
    let dialect = world.quirks.dialect;
    let message = Message::new(dialect);
    let delivery = |message: Message, short: &str| message.name("delivery", "GROK_BOT_USER_MESSAGE_DELIVERY_", short);
    match accepted {
        Accepted::New { boxed } => {
            let (mode, short) = if boxed { ("BOX", "ACCEPTED_BOX") } else { ("LIVE", "ACCEPTED_TEMPORAL") };
            let message = message.flag("dispatched", true).name("mode", "GROK_BOT_TEMPORAL_HARNESS_MODE_", mode);
            delivery(message, short).build()
        }
        Accepted::Duplicate => delivery(message.flag("dispatched", false), "DUPLICATE").build(),
        Accepted::NoSessions => {
            let refusal = Message::new(dialect)
                .text("failureCode", "sessions_unsupported_on_box")
                .text("message", "This agent has one conversation.");
            delivery(message, "REFUSED").message("refusal", refusal.build()).build()
        }
    }
}

fn send_status(world: &World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let agent = own(world, owner, asked)?;
    let message = Message::new(world.quirks.dialect);
    let status = |message: Message, short: &str| message.name("status", "GROK_BOT_SEND_STATUS_", short);
    let Some(sent) = world.sends.get(&(agent, asked.text("messageId")?.into())) else {
        return Ok(status(message, "NOT_FOUND").build());
    };
    let message = status(message, if sent.entry_id.is_some() { "ACCEPTED" } else { "PENDING" });
    Ok(message.maybe("echoEntryId", sent.entry_id.as_deref()).at("acceptedAtMs", sent.accepted_at).build())
}

/// The body of an open widget.
fn widget(world: &World, agent: &str, entry_id: &str) -> Result<Value, Refusal> {
    let body = world.body(agent, entry_id).ok_or_else(|| Refusal::not_found("no such entry"))?;
    if body["message"]["type"] != "widget" {
        return Err(Refusal::invalid("the entry is no widget"));
    }
    let answered = body["respondedValue"].as_str().is_some_and(|value| !value.is_empty());
    if answered || body["widgetDismissed"] == true || body["widgetSkipped"] == true {
        return Err(Refusal::new("failed_precondition", "the widget is closed"));
    }
    Ok(body)
}

fn edit(world: &mut World, agent: &str, entry_id: &str, body: Value) -> Result<(), Refusal> {
    let change = Change::Edit { entry_id: entry_id.into(), body };
    world.apply(agent, "", &[change]).map(drop).map_err(|error| Refusal::new("internal", &error.to_string()))
}

fn respond(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let agent = own(world, owner, asked)?;
    answer_widget(world, &agent, asked.text("entryId")?, asked.text("value")?)?;
    Ok(json!({"accepted": true}))
}

/// Stores the choice on the widget's row; it becomes the Bot's next turn.
pub(super) fn answer_widget(world: &mut World, agent: &str, entry_id: &str, value: &str) -> Result<(), Refusal> {
    let mut body = widget(world, agent, entry_id)?;
    if value.is_empty() {
        return Err(Refusal::invalid("value is missing"));
    }
    body["respondedValue"] = value.into();
    edit(world, agent, entry_id, body)?;
    world.stir(Stimulus::Answered { agent: agent.into(), entry_id: entry_id.into(), value: value.into() });
    Ok(())
}

fn dismiss(world: &mut World, owner: &str, asked: &Asked) -> Result<Value, Refusal> {
    let agent = own(world, owner, asked)?;
    let entry_id = asked.text("entryId")?;
    let mut body = widget(world, &agent, entry_id)?;
    body["widgetDismissed"] = true.into();
    edit(world, &agent, entry_id, body)?;
    Ok(json!({"accepted": true}))
}

fn presign(world: &World, base: &str, asked: &Asked) -> Result<Value, Refusal> {
    let dialect = world.quirks.dialect;
    let mut instructions = Vec::new();
    for path in asked.texts("relPaths")? {
        // Missing objects are left out (wire reference, section 8).
        let hash = path.strip_prefix("blobs/").filter(|hash| world.blobs.contains_key(*hash));
        if let Some(hash) = hash {
            let url = format!("{base}/sandbox-store/blobs/{hash}?sig={}", world.blob_key);
            let message = Message::new(dialect).text("relPath", path).text("url", &url);
            instructions.push(message.at("expiresAtMs", world.now().saturating_add(15 * 60_000)).build());
        }
    }
    Ok(Message::new(dialect).list("instructions", instructions).build())
}

/// A stored body by its signed address. A credential sent here has leaked and is refused.
pub(super) fn stored(shared: &Shared, rest: &str, call: &Call) -> Response {
    if !call.header(HeaderName::from_static("authorization")).is_empty() {
        return text(StatusCode::BAD_REQUEST, "A signed address takes no credentials");
    }
    let world = shared.world();
    if call.query().get("sig").and_then(Value::as_str) != Some(world.blob_key.as_str()) {
        return text(StatusCode::FORBIDDEN, "Bad signature");
    }
    match rest.strip_prefix("blobs/").and_then(|hash| world.blobs.get(hash)) {
        Some(body) => answer(200, "application/octet-stream", body.as_bytes().to_vec()),
        None => text(StatusCode::NOT_FOUND, "No such object"),
    }
}

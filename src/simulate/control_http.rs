//! The control endpoint for other processes: `POST /control/<operation>` with a JSON object and the header `x-control-key`.

use std::sync::Arc;

use axum::http::{HeaderName, Method};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::bots::{Change, Live, NewBot};
use super::control::{Control, ControlError};
use super::faults::{Fault, StreamEnd, StreamPlan};
use super::options::{Account, Quirks};
use super::server::{Call, Shared, json as json_answer};

/// What can be asked; the path names the operation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "operation")]
enum Command {
    AddBot {
        #[serde(flatten)]
        bot: NewBot,
    },
    RenameBot {
        agent: String,
        name: String,
    },
    DeleteBot {
        agent: String,
    },
    RestoreBot {
        agent: String,
    },
    SetBotFields {
        agent: String,
        fields: Map<String, Value>,
    },
    Bots {},
    Apply {
        agent: String,
        #[serde(default)]
        session: String,
        changes: Vec<Change>,
        #[serde(default)]
        silently: bool,
    },
    Rows {
        agent: String,
    },
    Body {
        agent: String,
        entry_id: String,
    },
    Clear {
        agent: String,
    },
    ForgetChanges {
        agent: String,
    },
    SetGeneration {
        agent: String,
        generation: u32,
    },
    SetNumbers {
        agent: String,
        seq: u64,
        updated_seq: u64,
    },
    ScriptListGenerations {
        agent: String,
        generations: Vec<u32>,
    },
    SetLive {
        agent: String,
        #[serde(default)]
        session: String,
        live: Option<Live>,
    },
    InjectFrame {
        frame: Value,
    },
    TurnFailed {
        agent: String,
        code: String,
        summary: String,
    },
    AgentStateChanged {
        agent: String,
        families: Vec<String>,
    },
    ComputerAction {
        agent: String,
    },
    Fault {
        #[serde(flatten)]
        fault: Fault,
    },
    PlanStream {
        #[serde(flatten)]
        plan: StreamPlan,
    },
    EndStreams {
        end: StreamEnd,
    },
    OpenGate {
        gate: String,
    },
    GateArrivals {
        gate: String,
    },
    ClearFaults {},
    Quirks {
        #[serde(flatten)]
        quirks: Quirks,
    },
    ReleaseEchoes {},
    Confirm {
        link: String,
    },
    SignInAs {
        #[serde(flatten)]
        account: Account,
    },
    IssueTokens {},
    ExpireAccessTokens {
        #[serde(default)]
        streams: bool,
    },
    RevokeTokens {},
    SetTokenPolicy {
        access_life_ms: Option<u64>,
        rotate: Option<bool>,
        revoke_on_reuse: Option<bool>,
    },
    SetClaims {
        claims: Map<String, Value>,
    },
    SetAnswerFields {
        kind: String,
        fields: Map<String, Value>,
    },
    SetClockOffset {
        milliseconds: i64,
    },
    Counts {},
    Requests {
        method: String,
    },
    ClearLog {},
    Secrets {},
    ReceivedMessages {},
    BindCommands {},
    Streams {},
}

/// Answers a control request.
pub(super) fn answer(shared: &Arc<Shared>, operation: &str, call: &Call) -> Response {
    // A page in a browser can send a request here; it can't know the key.
    if call.header(HeaderName::from_static("x-control-key")) != shared.key {
        return json_answer(403, &json!({"error": "the header x-control-key is missing or wrong"}));
    }
    if call.parts.method != Method::POST {
        return json_answer(405, &json!({"error": "POST only"}));
    }
    let given = if call.bytes.is_empty() { Ok(Map::new()) } else { serde_json::from_slice(&call.bytes) };
    let command = given.and_then(|mut map: Map<String, Value>| {
        map.insert("operation".into(), operation.into());
        serde_json::from_value::<Command>(map.into())
    });
    match command {
        Err(error) => json_answer(400, &json!({"error": error.to_string()})),
        Ok(command) => match run(&Control::new(Arc::clone(shared)), command) {
            Ok(result) => json_answer(200, &result),
            Err(error) => json_answer(409, &json!({"error": error.to_string()})),
        },
    }
}

fn run(control: &Control, command: Command) -> Result<Value, ControlError> {
    let mut result = json!({});
    match command {
        Command::AddBot { bot } => result = json!({"agent": control.add_bot(bot)}),
        Command::RenameBot { agent, name } => control.rename_bot(&agent, &name),
        Command::DeleteBot { agent } => control.delete_bot(&agent),
        Command::RestoreBot { agent } => control.restore_bot(&agent),
        Command::SetBotFields { agent, fields } => control.set_bot_fields(&agent, &fields),
        Command::Bots {} => {
            let bots: Vec<Value> =
                control.bots().into_iter().map(|(agent, name)| json!({"agent": agent, "name": name})).collect();
            result = json!({"bots": bots});
        }
        Command::Apply { agent, changes, silently: true, .. } => control.apply_silently(&agent, &changes)?,
        Command::Apply { agent, session, changes, silently: false } => {
            result = json!({"stored": control.apply(&agent, &session, &changes)?});
        }
        Command::Rows { agent } => {
            let head = control.head(&agent);
            result = json!({"rows": control.rows(&agent), "generation": head.map(|head| head.0), "head": head.map(|head| head.1)});
        }
        Command::Body { agent, entry_id } => result = json!({"body": control.body(&agent, &entry_id)}),
        Command::Clear { agent } => control.clear(&agent),
        Command::ForgetChanges { agent } => control.forget_changes(&agent),
        Command::SetGeneration { agent, generation } => control.set_generation(&agent, generation),
        Command::SetNumbers { agent, seq, updated_seq } => control.set_numbers(&agent, seq, updated_seq),
        Command::ScriptListGenerations { agent, generations } => control.script_list_generations(&agent, &generations),
        Command::SetLive { agent, session, live } => control.set_live(&agent, &session, live),
        Command::InjectFrame { frame } => control.inject_frame(&frame),
        Command::TurnFailed { agent, code, summary } => control.turn_failed(&agent, &code, &summary),
        Command::AgentStateChanged { agent, families } => {
            let families: Vec<&str> = families.iter().map(String::as_str).collect();
            control.agent_state_changed(&agent, &families);
        }
        Command::ComputerAction { agent } => control.computer_action(&agent),
        Command::Fault { fault } => control.fault(fault),
        Command::PlanStream { plan } => control.plan_stream(plan),
        Command::EndStreams { end } => control.end_streams(&end),
        Command::OpenGate { gate } => control.gate(&gate).open(),
        Command::GateArrivals { gate } => result = json!({"arrivals": control.gate(&gate).arrivals()}),
        Command::ClearFaults {} => control.clear_faults(),
        Command::Quirks { quirks } => control.quirks(|kept| *kept = quirks),
        Command::ReleaseEchoes {} => control.release_echoes(),
        Command::Confirm { link } => control.confirm(&link)?,
        Command::SignInAs { account } => control.sign_in_as(account),
        Command::IssueTokens {} => {
            let pair = control.issue_tokens();
            result = json!({"accessToken": pair.access, "refreshToken": pair.refresh});
        }
        Command::ExpireAccessTokens { streams } => control.expire_access_tokens(streams),
        Command::RevokeTokens {} => control.revoke_tokens(),
        Command::SetTokenPolicy { access_life_ms, rotate, revoke_on_reuse } => control.token_policy(|policy| {
            policy.access_life = access_life_ms.map_or(policy.access_life, std::time::Duration::from_millis);
            policy.rotate = rotate.unwrap_or(policy.rotate);
            policy.revoke_on_reuse = revoke_on_reuse.unwrap_or(policy.revoke_on_reuse);
        }),
        Command::SetClaims { claims } => control.set_claims(claims),
        Command::SetAnswerFields { kind, fields } => control.set_answer_fields(&kind, fields),
        Command::SetClockOffset { milliseconds } => control.set_clock_offset(milliseconds),
        Command::Counts {} => result = json!({"counts": control.counts()}),
        Command::Requests { method } => result = json!({"requests": control.requests(&method)}),
        Command::ClearLog {} => control.clear_log(),
        Command::Secrets {} => {
            result = json!({"secrets": control.secrets(), "texts": control.texts(), "misplaced": control.misplaced()});
        }
        Command::ReceivedMessages {} => {
            let received: Vec<Value> = control
                .received_messages()
                .into_iter()
                .map(|message| {
                    json!({"agentId": message.agent_id, "messageId": message.message_id, "text": message.text, "replyTo": message.reply_to})
                })
                .collect();
            result = json!({"received": received});
        }
        Command::BindCommands {} => result = json!({"commands": control.bind_commands()}),
        Command::Streams {} => result = json!({"open": control.open_streams(), "opened": control.opened_streams()}),
    }
    Ok(result)
}

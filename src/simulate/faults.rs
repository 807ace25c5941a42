//! Faults that can be planned: what happens to which calls, and how a stream misbehaves.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

/// A refusal in the service's own words: a Connect error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) detail: String,
}

impl Refusal {
    pub(super) fn new(code: &str, detail: &str) -> Self {
        Self { status: status_of(code), code: code.into(), detail: detail.into() }
    }

    pub(super) fn invalid(detail: &str) -> Self {
        Self::new("invalid_argument", detail)
    }

    pub(super) fn not_found(detail: &str) -> Self {
        Self::new("not_found", detail)
    }

    pub(super) fn unauthenticated() -> Self {
        Self::new("unauthenticated", "The session ended.")
    }

    /// The body: `message` is the bare word, the human text hides in the details (wire reference, section 1.4).
    pub(super) fn body(&self) -> serde_json::Value {
        let error = match self.code.as_str() {
            "unauthenticated" => "ERROR_NOT_LOGGED_IN",
            _ => "ERROR_CUSTOM_MESSAGE",
        };
        let debug = json!({
            "error": error,
            "details": {"title": "Simulated", "detail": self.detail, "isRetryable": self.code == "unavailable"},
            "isExpected": true,
        });
        json!({
            "code": self.code,
            "message": "Error",
            "details": [{"type": "aiserver.v1.ErrorDetails", "debug": debug, "value": "CAE"}],
        })
    }
}

/// The HTTP status of a Connect code.
pub(super) fn status_of(code: &str) -> u16 {
    match code {
        "invalid_argument" | "failed_precondition" | "out_of_range" => 400,
        "unauthenticated" => 401,
        "permission_denied" => 403,
        "not_found" => 404,
        "already_exists" | "aborted" => 409,
        "resource_exhausted" => 429,
        "canceled" => 499,
        "unimplemented" => 501,
        "unavailable" => 503,
        "deadline_exceeded" => 504,
        _ => 500,
    }
}

/// A planned fault: what is done to calls of one method.
///
/// The method is the RPC's name (`ListGrokBotAgents`), or for the rest of the service the path without its leading slash (`auth/poll`,
/// `oauth/token`, `loginDeepControl`, `sandbox-store`); `*` is every one. Faults are tried in the order in which they were planned;
/// delays and holds let the next one act too.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// Which method.
    pub method: String,
    /// Only calls that name this `agentId`.
    #[serde(default)]
    pub agent: Option<String>,
    /// How many matching calls pass first.
    #[serde(default)]
    pub skip: u32,
    /// How many calls it strikes; `None` (JSON `null`) until the faults are cleared.
    #[serde(default = "once")]
    pub times: Option<u32>,
    /// It strikes after the call took effect, else before.
    #[serde(default)]
    pub after: bool,
    /// What is done.
    pub act: Act,
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the field's type")]
fn once() -> Option<u32> {
    Some(1)
}

impl Fault {
    /// Strikes the next call, before it takes effect.
    #[must_use]
    pub fn next(method: &str, act: Act) -> Self {
        Self { method: method.into(), agent: None, skip: 0, times: once(), after: false, act }
    }

    /// Only calls that name this Bot.
    #[must_use]
    pub fn of(mut self, agent: &str) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Strikes `times` calls.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes until the faults are cleared.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// Lets `skip` matching calls pass first.
    #[must_use]
    pub fn skip(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Strikes after the call took effect: the caller can't know that it did.
    #[must_use]
    pub fn after(mut self) -> Self {
        self.after = true;
        self
    }
}

/// What a fault does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
pub enum Act {
    /// Waits, then goes on.
    Delay {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// Waits until the gate of that name is opened, then goes on.
    Hold {
        /// The gate.
        gate: String,
    },
    /// Never answers; the connection stays open.
    Hang,
    /// Closes the connection without an answer.
    Drop,
    /// Answers with a redirect.
    Redirect {
        /// Where to.
        to: String,
    },
    /// Answers with a Connect error.
    Error {
        /// The Connect code.
        code: String,
        /// Another HTTP status than the code's own.
        #[serde(default)]
        status: Option<u16>,
        /// The `Retry-After` header.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// Answers with anything. `{{access}}` and `{{refresh}}` in the body become freshly issued tokens.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The `Content-Type` header.
        content_type: String,
        /// The body.
        body: String,
        /// The `Retry-After` header.
        #[serde(default)]
        retry_after: Option<String>,
    },
}

impl Act {
    /// A Connect error of this code.
    #[must_use]
    pub fn error(code: &str) -> Self {
        Self::Error { code: code.into(), status: None, retry_after: None }
    }

    /// A JSON answer.
    #[must_use]
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::Answer { status, content_type: "application/json".into(), body: body.to_string(), retry_after: None }
    }

    /// An HTML page, as an edge or a firewall sends it.
    #[must_use]
    pub fn html(status: u16) -> Self {
        Self::Answer {
            status,
            content_type: "text/html; charset=utf-8".into(),
            body: "<!doctype html><title>Simulated edge</title><p>Not the service.</p>".into(),
            retry_after: None,
        }
    }

    /// A 200 of JSON's type that is none.
    #[must_use]
    pub fn garbage() -> Self {
        Self::Answer {
            status: 200,
            content_type: "application/json".into(),
            body: "{\"agents\":[{\"id\":".into(),
            retry_after: None,
        }
    }
}

/// How the next streams misbehave. The default doesn't.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamPlan {
    /// How many streams; `None` (JSON `null`) until the faults are cleared.
    pub times: Option<u32>,
    /// `then` happens after so many frames.
    pub after_frames: Option<u32>,
    /// `then` happens after so many bytes: also in mid-frame.
    pub after_bytes: Option<u64>,
    /// What happens then.
    pub then: StreamEnd,
    /// Every byte is a chunk of its own.
    pub one_byte_chunks: bool,
    /// Every frame comes twice.
    pub frames_twice: bool,
    /// The rows of the replay come again as live ones.
    pub replay_again: bool,
    /// No heartbeat.
    pub no_heartbeat: bool,
    /// No `agentState` snapshot.
    pub no_snapshot: bool,
    /// No `connected` frame.
    pub no_connected: bool,
}

impl Default for StreamPlan {
    fn default() -> Self {
        Self {
            times: once(),
            after_frames: None,
            after_bytes: None,
            then: StreamEnd::Stall,
            one_byte_chunks: false,
            frames_twice: false,
            replay_again: false,
            no_heartbeat: false,
            no_snapshot: false,
            no_connected: false,
        }
    }
}

/// How a stream ends.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum StreamEnd {
    /// With its end frame.
    Clean,
    /// The body ends without an end frame.
    Bare,
    /// The connection is broken.
    Reset,
    /// Nothing comes any more, not even a heartbeat; the connection stays.
    Stall,
    /// With an error in the end frame, under HTTP 200.
    Error {
        /// The Connect code.
        code: String,
    },
}

/// A gate that holds calls until it is opened: the test's alternative to sleeping.
#[derive(Clone, Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
    arrived: watch::Sender<u32>,
}

impl Gate {
    fn new() -> Self {
        Self { open: watch::Sender::new(false), arrived: watch::Sender::new(0) }
    }

    /// Lets everybody through, from now on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// How many calls have come to the gate so far.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        *self.arrived.borrow()
    }

    /// Resolves when `count` calls have come to the gate. Cancel-safe.
    pub async fn arrived(&self, count: u32) {
        // The sender lives as long as `self`: an error can't come.
        let _ = self.arrived.subscribe().wait_for(|arrived| *arrived >= count).await;
    }

    /// Waits at the gate.
    pub(super) async fn pass(&self) {
        self.arrived.send_modify(|arrived| *arrived = arrived.saturating_add(1));
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// What was planned.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Vec<Fault>,
    streams: Vec<StreamPlan>,
    gates: HashMap<String, Gate>,
}

impl Faults {
    pub(super) fn plan(&mut self, fault: Fault) {
        self.planned.push(fault);
    }

    pub(super) fn plan_stream(&mut self, plan: StreamPlan) {
        self.streams.push(plan);
    }

    pub(super) fn gate(&mut self, name: &str) -> Gate {
        self.gates.entry(name.into()).or_insert_with(Gate::new).clone()
    }

    /// Forgets all plans and opens all gates.
    pub(super) fn clear(&mut self) {
        self.planned.clear();
        self.streams.clear();
        for (_, gate) in self.gates.drain() {
            gate.open();
        }
    }

    /// What strikes this call, used up by it: before its effect, and after.
    pub(super) fn strike(&mut self, method: &str, agent: Option<&str>) -> (Vec<Act>, Vec<Act>) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        // Of two that end a call before its effect only the first is used up: a row of them is a script.
        let mut ended = false;
        for fault in &mut self.planned {
            let named = fault.method == "*" || fault.method == method;
            let meant = fault.agent.is_none() || fault.agent.as_deref() == agent;
            if !named || !meant || fault.times == Some(0) || ended {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            fault.times = fault.times.map(|times| times - 1);
            ended = !matches!(fault.act, Act::Delay { .. } | Act::Hold { .. });
            let list = if fault.after { &mut after } else { &mut before };
            list.push(fault.act.clone());
        }
        self.planned.retain(|fault| fault.times != Some(0));
        (before, after)
    }

    /// How this stream misbehaves.
    pub(super) fn stream(&mut self) -> Option<StreamPlan> {
        let plan = self.streams.first_mut()?;
        plan.times = plan.times.map(|times| times.saturating_sub(1));
        let taken = plan.clone();
        if taken.times == Some(0) {
            self.streams.remove(0);
        }
        Some(taken)
    }
}

/// A delay of so many milliseconds.
pub(super) fn milliseconds(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_faults_are_a_script_used_up_one_call_at_a_time() {
        let mut faults = Faults::default();
        faults.plan(Fault::next("auth/poll", Act::html(500)).times(2));
        faults.plan(Fault::next("auth/poll", Act::html(404)));
        faults.plan(Fault::next("auth/poll", Act::Delay { ms: 1 }).always());
        let status = |acts: &[Act]| match acts.first() {
            Some(Act::Answer { status, .. }) => *status,
            _ => 0,
        };
        let struck: Vec<u16> = (0..4).map(|_| status(&faults.strike("auth/poll", None).0)).collect();
        assert_eq!(struck, [500, 500, 404, 0]);
        assert!(faults.strike("oauth/token", None).0.is_empty());
    }

    #[test]
    fn a_fault_of_one_bot_strikes_only_its_calls() {
        let mut faults = Faults::default();
        faults.plan(Fault::next("ListGrokBotTranscriptEntries", Act::Hang).of("b").after());
        assert!(faults.strike("ListGrokBotTranscriptEntries", Some("a")).1.is_empty());
        assert_eq!(faults.strike("ListGrokBotTranscriptEntries", Some("b")).1.len(), 1);
    }
}

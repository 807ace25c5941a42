//! A session over an in-memory pair, with a host on one side and a scripted loop on the other.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::schemas::Checker;
use super::{Config, End, Incoming, Role, Unavailable, pair, run};
use crate::model::{
    Account, Activity, AgentId, Author, Bot, Cursor, EntryId, Harness, Message, Part, RecordId, Version, Wall,
};
use crate::records::{
    self, ActivityNotice, Command, Handle, Outcome, Publisher, RecordInfo, SignInState, Status, record_id,
};

/// Longer than anything here waits for; the clock is paused.
const LONG: Duration = Duration::from_mins(2);

pub(super) fn account() -> Account {
    Account { digest: "d1".into(), name: "小明".into() }
}

pub(super) fn info(agent: &str) -> RecordInfo {
    let agent_id = AgentId::from(agent);
    RecordInfo {
        id: record_id(&account(), &agent_id),
        bot: Bot { agent_id, name: agent.to_uppercase(), harness: Harness::Other },
        account: account(),
    }
}

pub(super) fn message(number: u64, text: &str) -> Message {
    Message {
        number,
        seq: number,
        entry: EntryId::from(format!("e{number}")),
        part: Part::Entry,
        version: Version::Base,
        from: Author::Bot,
        at: Wall(0),
        text: Arc::from(text),
        reply_to: None,
        meta: None,
    }
}

pub(super) fn busy(status: &str) -> ActivityNotice {
    ActivityNotice { activity: Some(Activity { status: Arc::from(status) }), failure: None }
}

pub(super) fn completed(number: u64) -> Outcome {
    Outcome::Completed { id: format!("1:e{number}"), cursor: Cursor { generation: 1, number } }
}

pub(super) fn signed_in() -> Status {
    Status { state: SignInState::SignedIn, account: Some(account()), message: None }
}

/// The host's end.
pub(super) struct Host {
    /// Dropped by [`Host::close`].
    to: Option<mpsc::Sender<Incoming>>,
    from: mpsc::Receiver<String>,
    checker: Checker,
    last_id: u64,
    /// Everything that came while an answer was waited for, in order.
    came: VecDeque<Value>,
}

impl Host {
    pub(super) async fn send_text(&self, text: &str) {
        let to = self.to.as_ref().expect("still open");
        to.send(Incoming::Text(text.to_owned())).await.expect("a session");
    }

    /// Sends without waiting; false where the session isn't reading.
    pub(super) fn try_send(&mut self, method: &str, params: &Value) -> Option<Value> {
        let id = Value::from(format!("t{}", self.last_id + 1));
        self.try_send_as(id, method, params)
    }

    /// The same with an id of its own.
    pub(super) fn try_send_as(&mut self, id: Value, method: &str, params: &Value) -> Option<Value> {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.to.as_ref().expect("still open").try_send(Incoming::Text(text)).ok()?;
        self.last_id += 1;
        self.checker.asked(&id, method);
        Some(id)
    }

    /// Sends a request and gives its id.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = Value::from(format!("r{}", self.last_id));
        self.checker.asked(&id, method);
        let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.send_text(&text).await;
        id
    }

    /// The next message of the session that wasn't looked at yet.
    pub(super) async fn next(&mut self) -> Value {
        match self.came.pop_front() {
            Some(message) => message,
            None => self.receive().await.expect("a message"),
        }
    }

    /// Whether the session says nothing more by itself.
    pub(super) async fn is_quiet(&mut self) -> bool {
        if self.came.is_empty()
            && let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(10), self.receive()).await
        {
            self.came.push_back(message);
        }
        self.came.is_empty()
    }

    /// The response with this id: its result, or its error. What else comes meanwhile is kept.
    pub(super) async fn answer(&mut self, id: &Value) -> Result<Value, Value> {
        let is_answer = |message: &Value| message.get("method").is_none() && message["id"] == *id;
        let place = match self.came.iter().position(is_answer) {
            Some(place) => place,
            None => loop {
                let message = self.receive().await.expect("an answer");
                let found = is_answer(&message);
                self.came.push_back(message);
                if found {
                    break self.came.len() - 1;
                }
            },
        };
        let mut message = self.came.remove(place).expect("just seen");
        match message.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(message["result"].take()),
        }
    }

    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params).await;
        self.answer(&id).await
    }

    /// Calls and gives the kind of the error with its code.
    pub(super) async fn refused(&mut self, method: &str, params: Value) -> (String, i64) {
        kind(&self.call(method, params).await.expect_err("a refusal"))
    }

    /// Answers a request of the session.
    pub(super) async fn reply(&self, request: &Value, result: &Value) {
        let text = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
        self.send_text(&text).await;
    }

    /// The end of the connection, as far as the host sends.
    pub(super) fn close(&mut self) {
        self.to = None;
    }

    /// The connection is gone both ways.
    pub(super) fn vanish(&mut self) {
        self.to = None;
        self.from.close();
    }

    async fn receive(&mut self) -> Option<Value> {
        let text = tokio::time::timeout(LONG, self.from.recv()).await.expect("in time")?;
        let message = serde_json::from_str(&text).expect("JSON");
        self.checker.check(&message);
        Some(message)
    }

    /// All that the session still says until its end.
    pub(super) async fn rest(&mut self) -> Vec<Value> {
        while let Some(message) = self.receive().await {
            self.came.push_back(message);
        }
        self.came.drain(..).collect()
    }
}

/// The kind and the code of an error.
pub(super) fn kind(error: &Value) -> (String, i64) {
    let kind = error["data"]["kind"].as_str().expect("a kind").to_owned();
    (kind, error["code"].as_i64().expect("a code"))
}

/// One line a message, so that a test shows the order at a glance.
pub(super) fn draw(message: &Value) -> String {
    let params = &message["params"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match message["method"].as_str() {
        None => format!("answer {}", text(&message["id"])),
        Some("resource/changed") => format!("status {}", params["items"].as_array().map_or(0, Vec::len)),
        Some("records/put") => format!("put {}", text(&params["record"]["title"])),
        Some("records/withdrawn") => format!("withdrawn {}", text(&params["reason"])),
        Some("session/head") => format!("head {}", text(&params["head"])),
        Some("session/activity") => format!("activity {}", text(&params["activity"]["status"])),
        Some("run/settled") if params["state"] == "failed" => {
            format!("settled {} {}", text(&params["run"]), text(&params["reason"]))
        }
        Some("run/settled") => {
            format!("settled {} {}", text(&params["run"]), text(&params["result"]["message"]["cursor"]))
        }
        Some(method) => method.to_owned(),
    }
}

/// A session with both its sides.
pub(super) struct Rig {
    pub(super) host: Host,
    pub(super) handle: Handle,
    pub(super) publisher: Publisher,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) stop: CancellationToken,
    session: JoinSet<End>,
}

impl Rig {
    /// A session whose lock is `ready` as told.
    pub(super) fn with<F, R>(role: Role, ready: F) -> Self
    where
        F: FnOnce(Handle) -> R,
        R: Future<Output = Result<Handle, Unavailable>> + Send + 'static,
    {
        let (wishes, commands) = mpsc::channel(8);
        let (handle, publisher) = records::new(wishes);
        let (transport, far) = pair();
        let stop = CancellationToken::new();
        let config = Config { role, ready: ready(handle.clone()), stop: stop.clone() };
        let mut session = JoinSet::new();
        session.spawn(run(transport, config));
        Self {
            host: Host {
                to: Some(far.incoming),
                from: far.outgoing,
                checker: Checker::default(),
                last_id: 0,
                came: VecDeque::new(),
            },
            handle,
            publisher,
            commands,
            stop,
            session,
        }
    }

    /// A session of the owner, before `initialize`.
    pub(super) fn fresh() -> Self {
        Self::with(Role::Owner, |handle| std::future::ready(Ok(handle)))
    }

    /// A session that has been greeted: signed in, with the Bots `a` and `b` open and empty of notices.
    pub(super) async fn serving() -> Self {
        Self::serving_as(Role::Owner).await
    }

    pub(super) async fn serving_as(role: Role) -> Self {
        let mut rig = Self::with(role, |handle| std::future::ready(Ok(handle)));
        rig.publisher.status(signed_in());
        for agent in ["a", "b"] {
            rig.publisher.put(info(agent));
            let messages = vec![message(1, "x"), message(2, "y")];
            rig.publisher.opened(&info(agent).id, 1, messages, Some(2));
        }
        rig.greet().await;
        for expected in ["status 0", "put A", "put B", "status 2"] {
            assert_eq!(draw(&rig.host.next().await), expected);
        }
        rig
    }

    pub(super) async fn greet(&mut self) {
        let result = self.host.call("initialize", hello()).await.expect("a greeting");
        assert_eq!(result["plugin"]["id"], "grok-bot");
    }

    /// The next wish that reached the loop.
    pub(super) async fn wish(&mut self) -> Command {
        let wish = tokio::time::timeout(LONG, self.commands.recv()).await;
        wish.expect("in time").expect("a session")
    }

    /// Takes a post of the session.
    pub(super) async fn post(&mut self) -> Sent {
        match self.wish().await {
            Command::Post { record, message_id, text, settle, .. } => Sent { record, message_id, text, settle },
            other => panic!("{other:?} instead of a post"),
        }
    }

    /// Lets the loop stop at once.
    pub(super) async fn stop_loop(&mut self) {
        match self.wish().await {
            Command::Shutdown(done) => done.send(()).expect("a session that waits"),
            other => panic!("{other:?} instead of a stop"),
        }
    }

    /// How the session ended.
    pub(super) async fn end(&mut self) -> End {
        let end = tokio::time::timeout(LONG, self.session.join_next()).await;
        end.expect("in time").expect("once").expect("no panic")
    }
}

/// A post as the loop got it.
pub(super) struct Sent {
    pub(super) record: RecordId,
    pub(super) message_id: uuid::Uuid,
    pub(super) text: Arc<str>,
    pub(super) settle: oneshot::Sender<Outcome>,
}

/// The params of `initialize`.
pub(super) fn hello() -> Value {
    json!({"protocolVersion": "5.7.0", "host": {"name": "Coda", "version": "5.7.0"}})
}

/// The params of `session/post`.
pub(super) fn post(run: &str, text: &str) -> Value {
    json!({"record": info("a").id.as_str(), "run": {"id": run}, "caller": "c", "requestId": run, "text": text})
}

//! Bots that do something by themselves: they answer messages and live through scenes, beat by beat.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bots::{Change, Live};
use super::control::text_body;
use super::options::Behaviour;
use super::replies::{self, Question, Reply};
use super::scenes;
use super::server::Shared;

/// What stirs a Bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stimulus {
    /// A message of the account's person.
    Message { agent: String, text: String, request: String },
    /// A widget was answered.
    Answered { agent: String, entry_id: String, value: String },
}

/// In how many versions an answer is streamed.
const VERSIONS: usize = 6;

/// The Bots' turns: one at a time for each Bot, in the order in which they were asked for.
pub(super) type Turns = Arc<std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>>;

/// Lets the Bots live until it is told to stop, or dropped.
pub(super) async fn run(
    shared: Arc<Shared>,
    behaviour: Behaviour,
    mut stimuli: mpsc::UnboundedReceiver<Stimulus>,
    stopping: CancellationToken,
) {
    let turns = Turns::default();
    let mut tasks = JoinSet::new();
    let mut rng = fastrand::Rng::with_seed(behaviour.seed);
    let actor = |agent: &str, rng: &mut fastrand::Rng| Actor {
        shared: Arc::clone(&shared),
        turns: Arc::clone(&turns),
        beat: behaviour.beat,
        agent: agent.to_owned(),
        rng: rng.fork(),
    };
    if let Some(pause) = behaviour.scenes {
        tasks.spawn(scenes::play(actor("", &mut rng), pause));
    }
    loop {
        tokio::select! {
            () = stopping.cancelled() => return tasks.shutdown().await,
            stimulus = stimuli.recv() => match stimulus {
                None => return,
                Some(Stimulus::Message { agent, text, request }) => {
                    let mut actor = actor(&agent, &mut rng);
                    let turn = actor.turn();
                    tasks.spawn(async move {
                        let _turn = turn.lock().await;
                        let choice = actor.rng.u64(..);
                        actor.answer(&replies::to_message(&text, choice), Some(&request)).await;
                    });
                }
                Some(Stimulus::Answered { agent, entry_id, value }) => {
                    let mut actor = actor(&agent, &mut rng);
                    let turn = actor.turn();
                    tasks.spawn(async move {
                        let _turn = turn.lock().await;
                        let body = actor.shared.world().body(&actor.agent, &entry_id).unwrap_or_default();
                        let prompt = body["message"]["widget"]["prompt"].as_str().unwrap_or("").to_owned();
                        let request = format!("widget:{entry_id}");
                        actor.answer(&replies::to_choice(&prompt, &value), Some(&request)).await;
                    });
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// One Bot in one turn.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) turns: Turns,
    pub(super) beat: Duration,
    pub(super) agent: String,
    pub(super) rng: fastrand::Rng,
}

impl Actor {
    /// The same, as another Bot.
    pub(super) fn of(&mut self, agent: &str) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            turns: Arc::clone(&self.turns),
            beat: self.beat,
            agent: agent.to_owned(),
            rng: self.rng.fork(),
        }
    }

    /// This Bot's turn, to be held while it acts.
    pub(super) fn turn(&self) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(turns.entry(self.agent.clone()).or_default())
    }

    pub(super) async fn pause(&self, beats: u32) {
        tokio::time::sleep(self.beat * beats).await;
    }

    pub(super) fn live(&self, live: Option<Live>) {
        self.shared.world().set_live(&self.agent, "", live);
    }

    /// Writes a row; its entry id. Nothing happens where the Bot is gone meanwhile.
    pub(super) fn write(&self, change: Change) -> String {
        let stored = self.shared.world().apply(&self.agent, "", &[change]).unwrap_or_default();
        stored.into_iter().next().map(|row| row.entry_id).unwrap_or_default()
    }

    pub(super) fn add(&self, body: Value) -> String {
        self.write(Change::Add { body, seq: None })
    }

    /// A whole turn: thinks, uses tools, streams the answer, asks.
    pub(super) async fn answer(&mut self, reply: &Reply, request: Option<&str>) {
        self.live(Some(Live::thinking(&reply.thought)));
        self.pause(2).await;
        for (tool, detail, target) in &reply.tools {
            self.tool(tool, detail, target).await;
        }
        self.stream(&reply.answer, request).await;
        if let Some(question) = &reply.question {
            self.pause(1).await;
            self.ask(question, request);
        }
        self.settle();
    }

    /// Uses a tool: a live state, and the row that records the call.
    pub(super) async fn tool(&self, tool: &str, detail: &str, target: &str) {
        self.live(Some(Live::tool(tool, detail, target)));
        self.pause(2).await;
        let body = json!({"kind": "tool-call", "name": tool, "status": "completed", "summary": detail});
        self.add(body);
    }

    /// Writes one row and overwrites it until the text is whole.
    pub(super) async fn stream(&self, text: &str, request: Option<&str>) {
        self.live(Some(Live::composing()));
        let mut entry: Option<String> = None;
        let versions = replies::versions(text, VERSIONS);
        let last = versions.len().saturating_sub(1);
        for (number, version) in versions.iter().enumerate() {
            let mut body = text_body(version);
            if let Some(request) = request {
                body["requestId"] = request.into();
            }
            if number < last {
                body["isStreaming"] = true.into();
            }
            match &entry {
                None => entry = Some(self.add(body)),
                Some(entry_id) => {
                    self.write(Change::Edit { entry_id: entry_id.clone(), body });
                }
            }
            if number < last {
                self.pause(1).await;
            }
        }
    }

    pub(super) fn ask(&self, question: &Question, request: Option<&str>) {
        let options: Vec<Value> = question
            .options
            .iter()
            .map(
                |(label, value)| {
                    if value.is_empty() { json!({"label": label}) } else { json!({"label": label, "value": value}) }
                },
            )
            .collect();
        let widget = json!({"prompt": question.prompt, "helpText": question.help, "options": options});
        let mut body = json!({"kind": "send-message", "message": {"type": "widget", "widget": widget}});
        if let Some(request) = request {
            body["requestId"] = request.into();
        }
        self.add(body);
    }

    /// The end of a turn: it waits where a question of its is open, else it is idle.
    pub(super) fn settle(&self) {
        let open = self.open_question();
        self.live(open.then(Live::awaiting));
    }

    /// One of its questions is unanswered.
    pub(super) fn open_question(&self) -> bool {
        let world = self.shared.world();
        let rows = world.transcript(&self.agent, "").into_iter().flat_map(super::state::Transcript::rows);
        rows.filter_map(|row| serde_json::from_str::<Value>(&row.body).ok()).any(|body| {
            body["message"]["type"] == "widget"
                && body["respondedValue"].as_str().unwrap_or("").is_empty()
                && body["widgetDismissed"] != true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::Control;
    use super::super::faults::StreamEnd;
    use super::super::options::Options;
    use super::super::rpc::accept;
    use super::super::streams::Out;
    use super::super::world::Incoming;
    use super::super::{NewBot, Simulation};
    use super::*;

    async fn start(scenes: Option<Duration>, demo_bots: bool) -> (Simulation, Control) {
        let behaviour = Behaviour { beat: Duration::from_millis(2), scenes, seed: 1 };
        let options = Options { behaviour: Some(behaviour), demo_bots, ..Options::default() };
        let simulation = Simulation::start(options).await.unwrap();
        let control = simulation.control();
        (simulation, control)
    }

    async fn wait(control: &Control, done: impl FnMut(&Control) -> bool) {
        tokio::time::timeout(Duration::from_secs(20), control.until(done)).await.expect("in time");
    }

    fn send(control: &Control, agent: &str, id: &str, text: &str) {
        let incoming = Incoming {
            agent: agent.into(),
            session: String::new(),
            message_id: id.into(),
            text: text.into(),
            reply_to: None,
            attachments: Vec::new(),
        };
        accept(&mut control.shared.world(), incoming);
    }

    fn bodies(control: &Control, agent: &str) -> Vec<Value> {
        control.rows(agent).iter().filter_map(|row| control.body(agent, &row.entry_id)).collect()
    }

    /// What a stream of the account is told from here on.
    fn listen(control: &Control) -> mpsc::Receiver<Out> {
        let mut world = control.shared.world();
        let owner = world.present.clone();
        world.watch(&owner, &[], true, 0).frames
    }

    #[tokio::test]
    async fn a_bot_thinks_works_streams_asks_and_goes_on_when_it_is_answered() {
        let (_simulation, control) = start(None, false).await;
        let agent = control.add_bot(NewBot::named("小艾"));
        let mut heard = listen(&control);
        send(&control, &agent, "m-1", "帮我部署");
        let question =
            |control: &Control| bodies(control, &agent).into_iter().find(|body| body["message"]["type"] == "widget");
        wait(&control, |control| question(control).is_some()).await;
        let widget = question(&control).unwrap();
        control.respond(&agent, widget["id"].as_str().unwrap(), "staging").unwrap();
        wait(&control, |control| {
            bodies(control, &agent).last().is_some_and(|last| {
                last["message"]["content"].as_str().unwrap_or("").contains("staging") && last["isStreaming"] != true
            })
        })
        .await;
        control.end_streams(&StreamEnd::Clean);

        let (mut kinds, mut streamed) = (Vec::new(), Vec::new());
        while let Some(Out::Frame(frame)) = heard.recv().await {
            let live = &frame["agentState"]["live"][0];
            if live["isComposingMessage"] == true {
                kinds.push("composing".to_owned());
            } else if let Some(kind) = live["activity"]["kind"].as_str() {
                kinds.push(kind.to_owned());
            } else if live.get("awaiting").is_some() {
                kinds.push("awaiting".to_owned());
            }
            if let Some(entry) = frame["rows"]["entries"].get(0) {
                streamed.push(entry["seq"].clone());
            }
        }
        assert_eq!(kinds, ["thinking", "tool", "composing", "awaiting", "thinking", "tool", "tool", "composing"]);
        // Echo, tool call, the answer's one row, the widget and its answer, two tool calls, the conclusion's one row.
        streamed.dedup();
        assert_eq!(streamed, ["1", "2", "3", "4", "5", "6", "7"]);
    }

    #[tokio::test]
    async fn two_messages_are_answered_one_after_the_other() {
        let (_simulation, control) = start(None, false).await;
        let agent = control.add_bot(NewBot::named("Scout"));
        send(&control, &agent, "m-1", "hello");
        send(&control, &agent, "m-2", "thanks, node coda-bot.mjs");
        wait(&control, |control| {
            bodies(control, &agent).iter().filter(|body| body["requestId"] == "req-2").count() == 2
        })
        .await;
        let requests: Vec<String> =
            bodies(&control, &agent).iter().map(|body| body["requestId"].as_str().unwrap_or("").to_owned()).collect();
        assert_eq!(requests, ["req-1", "req-2", "req-1", "req-2"]);
    }

    #[tokio::test]
    async fn every_scene_plays_without_anybodys_message() {
        let (_simulation, control) = start(Some(Duration::from_millis(1)), true).await;
        let mut heard = listen(&control);
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 9 {
            let frame = match tokio::time::timeout(Duration::from_secs(20), heard.recv()).await {
                Ok(Some(Out::Frame(frame))) => frame,
                other => panic!("only {seen:?}: {other:?}"),
            };
            seen.extend(frame["rosterChanged"]["kind"].as_str().map(str::to_owned));
            if frame["rows"]["deletes"].get(0).is_some() {
                seen.insert("delete".into());
            }
            for entry in frame["rows"]["entries"].as_array().into_iter().flatten() {
                let agent = frame["rows"]["agentId"].as_str().unwrap();
                let Some(body) = control.body(agent, entry["entryId"].as_str().unwrap()) else { continue };
                for name in ["automationName", "toAgent", "fromAgent"] {
                    if body.get(name).is_some() {
                        seen.insert(name.into());
                    }
                }
                if body["message"]["type"] == "attachment" && entry["entryId"].as_str().unwrap().starts_with('t') {
                    seen.insert("attachment".into());
                }
                if body["message"]["type"] == "widget" && body.get("respondedValue").is_none() {
                    seen.insert("widget".into());
                }
            }
        }
    }
}

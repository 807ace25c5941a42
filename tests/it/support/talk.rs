//! A talkative service: rows, edits, deletes, streamed answers, cards, live states, without an end.

use std::collections::BTreeMap;

use coda_grok_bot::simulate::{Control, Live};
use serde_json::{Value, json};

/// What a reader of a Bot's record must end with: a text for each entry, and one for the answer of each card.
pub(crate) type View = BTreeMap<String, String>;

/// Makes one random change at a time. No two texts are the same, so a text tells which version it is.
pub(crate) struct Talk {
    control: Control,
    random: fastrand::Rng,
    agents: Vec<String>,
    number: u64,
    /// Bot and entry.
    plain: Vec<(String, String)>,
    open: Vec<(String, String)>,
    /// By Bot: the entry that is being written, and its text so far.
    streams: BTreeMap<String, (String, String)>,
}

impl Talk {
    pub(crate) fn new(control: Control, seed: u64, agents: Vec<String>) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { control, random, agents, number: 0, plain: Vec::new(), open: Vec::new(), streams: BTreeMap::new() }
    }

    fn next(&mut self, what: &str) -> (String, String) {
        self.number += 1;
        let filler = "话".repeat(self.random.usize(0..40));
        (format!("e{}", self.number), format!("{what}的第 {} 句{filler}", self.number))
    }

    /// One change, of one Bot.
    pub(crate) fn step(&mut self) {
        let agent = self.agents[self.random.usize(0..self.agents.len())].clone();
        match self.random.u8(0..100) {
            0..35 => {
                let (entry, text) = self.next("说过");
                self.control.say(&agent, &entry, &text).unwrap();
                self.plain.push((agent, entry));
            }
            35..50 if !self.plain.is_empty() => {
                let (agent, entry) = self.plain[self.random.usize(0..self.plain.len())].clone();
                let (_, text) = self.next("改过");
                self.control.resay(&agent, &entry, &text).unwrap();
            }
            50..58 if !self.plain.is_empty() => {
                let (agent, entry) = self.plain.swap_remove(self.random.usize(0..self.plain.len()));
                self.control.delete(&agent, &entry).unwrap();
            }
            58..63 if !self.plain.is_empty() => {
                let (agent, entry) = &self.plain[self.random.usize(0..self.plain.len())];
                self.control.touch(agent, entry).unwrap();
            }
            63..66 => {
                let (entry, prompt) = self.next("问过");
                self.control.ask(&agent, &entry, &prompt, &[("甲方案", "plan-a"), ("乙方案", "plan-b")]).unwrap();
                self.open.push((agent, entry));
            }
            66..69 if !self.open.is_empty() => {
                let (agent, entry) = self.open.swap_remove(self.random.usize(0..self.open.len()));
                self.control.respond(&agent, &entry, self.random.choice(["plan-a", "plan-b"]).unwrap()).unwrap();
            }
            69..72 => {
                let (entry, text) = self.next("自己说过");
                self.control.say_as_user(&agent, &entry, &text).unwrap();
            }
            72..75 => {
                let live = self.random.bool().then(|| Live::thinking("正在想"));
                self.control.set_live(&agent, "", live);
            }
            _ => self.write(&agent),
        }
    }

    /// Goes on with the Bot's streamed answer, or begins one, or ends it.
    fn write(&mut self, agent: &str) {
        match self.streams.remove(agent) {
            None => {
                let (entry, text) = self.next("流式");
                self.control.add(agent, body(&entry, &text, true)).unwrap();
                self.streams.insert(agent.to_owned(), (entry, text));
            }
            Some((entry, text)) => {
                let more = self.random.u8(0..6) > 0;
                let text = format!("{text}，还有");
                self.control.edit(agent, &entry, body(&entry, &text, more)).unwrap();
                if more {
                    self.streams.insert(agent.to_owned(), (entry, text));
                } else {
                    self.plain.push((agent.to_owned(), entry));
                }
            }
        }
    }
}

fn body(entry: &str, text: &str, more: bool) -> Value {
    let message = json!({"type": "text", "content": text});
    json!({"id": entry, "kind": "send-message", "message": message, "isStreaming": more})
}

/// What the service holds of a Bot.
pub(crate) fn held(control: &Control, agent: &str) -> View {
    let mut view = View::new();
    for row in control.rows(agent) {
        let body = control.body(agent, &row.entry_id).expect("it is listed");
        let message = &body["message"];
        let text = match (body["kind"].as_str(), message["type"].as_str()) {
            (Some("message"), _) => body["content"].as_str().unwrap().to_owned(),
            (_, Some("text")) => message["content"].as_str().unwrap().to_owned(),
            (_, Some("widget")) => {
                let options = message["widget"]["options"].as_array().unwrap();
                let part = |option: &Value, name: &str| option[name].as_str().unwrap().to_owned();
                let chosen = options.iter().find(|option| option["value"] == body["respondedValue"]);
                view.extend(chosen.map(|option| (format!("{}:reply", row.entry_id), part(option, "label"))));
                let lines =
                    options.iter().map(|option| format!("\n- {}（{}）", part(option, "label"), part(option, "value")));
                message["widget"]["prompt"].as_str().unwrap().to_owned() + &lines.collect::<String>()
            }
            other => panic!("{other:?} was never said"),
        };
        view.insert(row.entry_id, text);
    }
    view
}

//! What happens without anybody's message: a routine, a question, an attachment, Bots that talk to each other, a Bot renamed, created, deleted.

use std::time::Duration;

use serde_json::json;

use super::behave::Actor;
use super::bots::{Change, Live, NewBot};
use super::control::text_body;
use super::replies::{Reply, chinese, deploy_question};

/// The Bot that comes and goes.
const VISITOR: &str = "临时帮手";

/// How many scenes there are before they begin anew.
const SCENES: u64 = 9;

/// Plays the scenes in their order, for ever, with a pause before each.
pub(super) async fn play(mut stage: Actor, pause: Duration) {
    for number in 0_u64.. {
        tokio::time::sleep(pause).await;
        let bots = stage.bots();
        // Each round gives each scene to another Bot.
        let whose = usize::try_from(number + number / SCENES).unwrap_or(0) % bots.len().max(1);
        let Some((agent, name)) = bots.get(whose).cloned() else { continue };
        let other = bots.iter().find(|(id, _)| *id != agent).cloned();
        let mut actor = stage.of(&agent);
        let turn = actor.turn();
        let _turn = turn.lock().await;
        match number % SCENES {
            0 => actor.routine(chinese(&name)).await,
            1 => actor.look_around(chinese(&name)).await,
            2 if !actor.open_question() => actor.question(chinese(&name)).await,
            3 => {
                if let Some((other, other_name)) = other {
                    actor.talk_to(&name, &other, &other_name).await;
                }
            }
            4 => actor.attach().await,
            5 => actor.rename(&name),
            6 => stage.visitor_comes().await,
            7 => actor.think_again(chinese(&name)).await,
            8 => stage.visitor_goes(),
            _ => {}
        }
    }
}

impl Actor {
    fn bots(&self) -> Vec<(String, String)> {
        let world = self.shared.world();
        let owner = world.present.clone();
        let bots = world.bots_of(&owner).filter(|bot| bot.name != VISITOR && !bot.room);
        bots.map(|bot| (bot.agent_id.clone(), bot.name.clone())).collect()
    }

    /// A routine: its prompt and its work leave rows, its conclusion is said in the main session.
    async fn routine(&mut self, zh: bool) {
        let (name, prompt, conclusion) = if zh {
            ("每小时巡检", "检查服务状态并记录异常。", "巡检完成：三个服务都正常，响应时间 120 毫秒，没有新的异常。")
        } else {
            (
                "Hourly check",
                "Check the services and note what is odd.",
                "Check done: all three services are fine, responses take 120 ms, nothing new.",
            )
        };
        let automation = json!({"id": "auto-1", "name": name});
        self.live(Some(Live::thinking("")));
        self.add(json!({
            "kind": "message", "role": "user", "content": prompt, "automationName": name, "automation": automation,
        }));
        self.pause(1).await;
        self.tool("WebFetch", if zh { "读取监控面板" } else { "Reading the dashboard" }, "dashboard").await;
        let mut body = text_body(conclusion);
        body["automationName"] = name.into();
        self.add(body);
        self.settle();
        self.shared.world().agent_state_changed(&self.agent, &["automations"]);
    }

    /// Works a while and tells what it found.
    async fn look_around(&mut self, zh: bool) {
        let reply = if zh {
            Reply {
                thought: "看看有没有新的问题反馈".into(),
                tools: vec![
                    ("Grep", "在日志里查找超时".into(), "timeout"),
                    ("Read", "阅读发布说明".into(), "CHANGELOG.md"),
                ],
                answer: "日志里有两次超时，都在凌晨备份期间，重试后成功。建议把备份错开十分钟。".into(),
                question: None,
            }
        } else {
            Reply {
                thought: "Looking for new reports".into(),
                tools: vec![
                    ("Grep", "Searching the logs for time-outs".into(), "timeout"),
                    ("Read", "Reading the release notes".into(), "CHANGELOG.md"),
                ],
                answer: "Two time-outs in the logs, both during the nightly backup; the retries went through. I suggest moving the backup by ten minutes.".into(),
                question: None,
            }
        };
        self.answer(&reply, None).await;
    }

    async fn question(&mut self, zh: bool) {
        self.live(Some(Live::thinking("")));
        self.pause(2).await;
        self.ask(&deploy_question(zh), None);
        self.settle();
    }

    /// Traffic between two Bots: rows on both sides, messages on neither.
    async fn talk_to(&mut self, name: &str, other: &str, other_name: &str) {
        let text = if chinese(name) {
            "帮我核对一下今天的数字？"
        } else {
            "Could you check today's numbers for me?"
        };
        let (me, them) = (
            json!({"id": self.agent, "name": name, "kind": "agent"}),
            json!({"id": other, "name": other_name, "kind": "agent"}),
        );
        self.live(Some(Live::tool("SendToAgent", text, other_name)));
        self.add(json!({"kind": "message", "role": "assistant", "content": text, "toAgent": them}));
        let other = self.of(other);
        other.add(json!({"kind": "message", "role": "user", "content": text, "fromAgent": me}));
        self.pause(2).await;
        other.add(json!({"kind": "message", "role": "assistant", "content": "42", "toAgent": me}));
        self.add(json!({"kind": "message", "role": "user", "content": "42", "fromAgent": them}));
        self.settle();
    }

    async fn attach(&mut self) {
        self.tool("Chart", "绘制延迟曲线", "latency.png").await;
        let message = json!({
            "type": "attachment", "url": "attachments/latency.png", "name": "latency.png", "alt": "延迟曲线", "byteSize": 20_480,
        });
        self.add(json!({"kind": "send-message", "message": message}));
        self.settle();
    }

    fn rename(&self, name: &str) {
        let renamed = match name.strip_suffix(" ✦") {
            Some(plain) => plain.to_owned(),
            None => format!("{name} ✦"),
        };
        self.shared.world().rename_bot(&self.agent, &renamed);
    }

    async fn visitor_comes(&mut self) {
        let agent = self.shared.world().add_bot(NewBot { title: "两分钟".into(), ..NewBot::named(VISITOR) });
        let visitor = self.of(&agent);
        visitor.pause(1).await;
        visitor.stream("大家好，我来帮忙两分钟，整理完待办就走。", None).await;
        visitor.settle();
    }

    fn visitor_goes(&self) {
        let mut world = self.shared.world();
        let owner = world.present.clone();
        let gone = world.bots_of(&owner).find(|bot| bot.name == VISITOR).map(|bot| bot.agent_id.clone());
        if let Some(agent) = gone {
            world.delete_bot(&agent);
        }
    }

    /// Corrects the last thing it said, long after it had said it, and takes back a slip.
    async fn think_again(&mut self, zh: bool) {
        let slip = self.add(text_body(if zh { "（草稿，稍后删除）" } else { "(a draft, to be deleted)" }));
        let last = {
            let world = self.shared.world();
            let rows = world.transcript(&self.agent, "").into_iter().flat_map(super::state::Transcript::rows);
            let mut bodies = rows.filter_map(|row| serde_json::from_str::<serde_json::Value>(&row.body).ok());
            bodies.rfind(|body| body["message"]["type"] == "text" && body["id"] != slip.as_str())
        };
        // Longer than the quiet that makes a message of it.
        self.pause(4).await;
        if let Some(mut body) = last {
            let text = body["message"]["content"].as_str().unwrap_or("").to_owned();
            let mark = if zh { "（已核对）" } else { " (checked)" };
            body["message"]["content"] = format!("{}{mark}", text.trim_end_matches(mark)).into();
            let entry_id = body["id"].as_str().unwrap_or("").to_owned();
            self.write(Change::Edit { entry_id, body });
        }
        self.write(Change::Delete { entry_id: slip });
        self.settle();
    }
}

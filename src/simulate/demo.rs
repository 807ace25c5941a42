//! The three Bots of the demonstration and what was said before anybody looked. Everybody in it is made up.

use serde_json::{Value, json};

use super::bots::{Change, NewBot};
use super::world::World;

/// One line of a history.
enum Line {
    /// The account's person.
    Me(&'static str),
    /// The Bot.
    Bot(&'static str),
    /// A tool call.
    Tool(&'static str, &'static str),
    /// A routine's prompt: its name, the text.
    Routine(&'static str, &'static str),
    /// An answered widget: prompt, labels and values, the value chosen.
    Asked(&'static str, &'static [(&'static str, &'static str)], &'static str),
    /// A file that the Bot sent.
    File(&'static str, u64),
    /// A file that the person sent.
    Sent(&'static str, u64),
    /// Anything else.
    Other(&'static str),
}

use Line::{Asked, Bot, File, Me, Other, Routine, Sent, Tool};

const OPS: &[Line] = &[
    Other(r#"{"kind":"event","event":{"type":"agent-created"}}"#),
    Me("你好，能帮我盯着构建吗？"),
    Bot("你好！没问题，我会在构建失败时告诉你，平时每天早上九点汇报一次。"),
    Me("先看看现在的状态"),
    Tool("Shell", "查看最近一次构建"),
    Tool("Grep", "查找失败的测试"),
    Bot("现在是绿的：\n\n- 412 个测试全部通过\n- 用时 4 分 32 秒\n- 有 2 个旧警告，和昨天一样"),
    Me("警告是什么？"),
    Bot("都是同一个依赖的弃用提示，升级到下一个小版本就没有了。需要我开个分支吗？"),
    Asked("开一个升级分支？", &[("开分支", "yes"), ("先不用", "no")], "yes"),
    Tool("Git", "新建分支 chore/upgrade"),
    Bot("分支 `chore/upgrade` 已建好，测试通过，等你看一眼再合并。🦀"),
    Me("看过了，合并吧，谢谢"),
    Bot("已合并。"),
    Routine("每日构建汇报", "汇报昨天的构建情况。"),
    Tool("WebFetch", "读取构建面板"),
    Bot("早上好。昨天 14 次构建，13 次成功；失败的一次是网络超时，重跑后通过。"),
];

const RESEARCH: &[Line] = &[
    Me("Hi Scout, could you compare the three log viewers we talked about?"),
    Tool("WebSearch", "Searching for log viewers"),
    Tool("Read", "Reading three feature lists"),
    Bot(
        "Here is the short version:\n\n| viewer | search | price |\n|---|---|---|\n| A | full text | free |\n| B | by field | paid |\n| C | full text | paid |\n\nA covers what you need; B is faster above 10 GB a day.",
    ),
    Me("We have about 2 GB a day."),
    Bot("Then A is enough. I'd start with it and look again in three months."),
    Sent("requirements.pdf", 48_213),
    Me("Please check it against these requirements"),
    Tool("Read", "Reading requirements.pdf"),
    Bot(
        "Eleven of twelve requirements are met. The missing one is single sign-on, which A announces for the next release.",
    ),
    File("comparison.csv", 2_310),
    Asked("Shall I book a demo with its makers?", &[("Book it", "Yes, book a demo"), ("Not yet", "")], "Not yet"),
    Bot("All right, no demo for now."),
    Other(r#"{"kind":"notice","text":"The computer restarted."}"#),
    Me("Anything new this week?"),
    Bot("Version 4.2 of A is out; single sign-on is in it. That makes twelve of twelve."),
];

const HOME: &[Line] = &[
    Me("下周去杭州，帮我列个行李清单"),
    Bot("好的，按三天两晚、有小雨来准备：\n\n1. 雨伞、薄外套\n2. 充电器、转换头\n3. 身份证、车票截图\n4. 常用药"),
    Me("再加上相机"),
    Bot("已加上相机和备用电池。"),
    Other(
        r#"{"kind":"message","role":"assistant","content":"这周的预算还剩多少？","toAgent":{"id":"b0000000-0000-4000-8000-000000000002","name":"Scout","kind":"agent"}}"#,
    ),
    Other(
        r#"{"kind":"message","role":"user","content":"1,240 left.","fromAgent":{"id":"b0000000-0000-4000-8000-000000000002","name":"Scout","kind":"agent"}}"#,
    ),
    Bot("提醒：本周预算还剩 1240 元，订酒店够用。"),
    Me("Could you answer in English today? A friend is reading along."),
    Bot("Of course. The trip is set: train on Tuesday at 9:05, two nights, back on Thursday evening."),
    Me("谢谢，明天继续用中文吧"),
    Bot("好的，明天见。"),
    Routine("睡前提醒", "提醒明天的安排。"),
    Bot("明天的安排：10:00 牙医，15:30 视频会议，晚上记得浇花。"),
];

/// Fills an empty world.
pub(super) fn fill(world: &mut World) {
    let bots: [(&str, &str, &str, &str, &[Line]); 3] = [
        ("b0000000-0000-4000-8000-000000000001", "小艾", "构建值守", "盯着构建和发布", OPS),
        ("b0000000-0000-4000-8000-000000000002", "Scout", "Research", "Looks things up and compares", RESEARCH),
        ("b0000000-0000-4000-8000-000000000003", "管家 Mira", "生活助理", "行程、清单和提醒", HOME),
    ];
    for (number, (agent_id, name, title, description, lines)) in bots.into_iter().enumerate() {
        let new = NewBot { title: title.into(), description: description.into(), ..NewBot::named(name) };
        let agent = world.add_bot(new.id(agent_id));
        // The last line was said some minutes ago, the others seven minutes apart before it.
        let minutes = |count: usize| i64::try_from(count).unwrap_or(0) * 60_000;
        let end = world.now() - minutes(20 + number * 35);
        let mut changes = Vec::new();
        for (position, line) in lines.iter().enumerate() {
            let mut body = body(line, position);
            body["timestampMs"] = (end - minutes(7 * (lines.len() - position))).into();
            changes.push(Change::Add { body, seq: None });
        }
        // The world is empty: there is nothing that could refuse a row.
        let _ = world.apply_silently(&agent, &changes);
        if let Some(bot) = world.bot_mut(&agent) {
            bot.turn = lines.len() as u64;
        }
    }
}

fn body(line: &Line, position: usize) -> Value {
    let mut body = match line {
        Me(text) => json!({"kind": "message", "role": "user", "content": text}),
        Bot(text) => json!({"kind": "send-message", "message": {"type": "text", "content": text}}),
        Tool(name, summary) => json!({"kind": "tool-call", "name": name, "status": "completed", "summary": summary}),
        Routine(name, prompt) => json!({"kind": "message", "role": "user", "content": prompt, "automationName": name}),
        Asked(prompt, options, value) => {
            let options: Vec<Value> =
                options
                    .iter()
                    .map(|(label, value)| {
                        if value.is_empty() { json!({"label": label}) } else { json!({"label": label, "value": value}) }
                    })
                    .collect();
            let widget = json!({"type": "widget", "widget": {"prompt": prompt, "options": options}});
            json!({"kind": "send-message", "message": widget, "respondedValue": value})
        }
        File(name, size) => {
            let message =
                json!({"type": "attachment", "url": format!("attachments/{name}"), "name": name, "byteSize": size});
            json!({"kind": "send-message", "message": message})
        }
        Sent(name, size) => {
            json!({"kind": "user-attachment", "file_path": format!("attachments/{name}"), "file_name": name, "byteSize": size})
        }
        Other(text) => serde_json::from_str(text).unwrap_or_default(),
    };
    body["id"] = format!("h{position}").into();
    body
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;

    #[test]
    fn the_history_is_whole_and_in_both_languages() {
        let mut world = World::new(Options::default());
        fill(&mut world);
        let owner = world.present.clone();
        let agents: Vec<String> = world.bots_of(&owner).map(|bot| bot.agent_id.clone()).collect();
        assert_eq!(agents.len(), 3);
        let mut rows = 0;
        for agent in agents {
            for row in world.transcript(&agent, "").unwrap().rows() {
                let body: Value = serde_json::from_str(&row.body).unwrap();
                assert!(body["kind"].is_string() && body["timestampMs"].is_number(), "{body}");
                rows += 1;
            }
        }
        assert!(rows > 40, "{rows}");
    }
}

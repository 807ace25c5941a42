//! What a Bot answers: chosen from the text, in its language. Pure.

use super::control::BIND;

/// A turn that answers a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// What it thinks, shown while it does; empty for a thought without words.
    pub(super) thought: String,
    /// Tools it uses: name, what for, on what.
    pub(super) tools: Vec<(&'static str, String, &'static str)>,
    /// Streamed as one row.
    pub(super) answer: String,
    /// Asked at the end.
    pub(super) question: Option<Question>,
}

/// A widget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) prompt: String,
    pub(super) help: &'static str,
    /// Labels and values; an empty value is the label itself.
    pub(super) options: Vec<(&'static str, &'static str)>,
}

/// The text has a Chinese character.
pub(super) fn chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

fn any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// The answer to a message. `choice` picks among equals.
pub(super) fn to_message(text: &str, choice: u64) -> Reply {
    let zh = chinese(text);
    let lower = text.to_lowercase();
    let one = |zh_text: &str, en_text: &str| if zh { zh_text.to_owned() } else { en_text.to_owned() };
    let plain = |thought: String, answer: String| Reply { thought, tools: Vec::new(), answer, question: None };
    if text.lines().any(|line| line.trim().starts_with(BIND)) {
        return Reply {
            thought: String::new(),
            tools: vec![("Shell", one("运行绑定命令", "Running the bind command"), "coda-bot.mjs")],
            answer: one(
                "收到，谢谢。我这就在云电脑上运行绑定命令。",
                "Got it, thank you. I'll run the bind command on my computer now.",
            ),
            question: None,
        };
    }
    if any(&lower, &["部署", "上线", "deploy", "release"]) {
        return Reply {
            thought: one("先看看构建是否通过", "Checking whether the build is green"),
            tools: vec![("Shell", one("查看最近一次构建", "Looking at the last build"), "ci status")],
            answer: one("最近一次构建通过了，23 个检查全部是绿的。", "The last build is green: all 23 checks passed."),
            question: Some(deploy_question(zh)),
        };
    }
    if any(&lower, &["构建", "测试", "build", "test", "ci"]) {
        return Reply {
            thought: one("对比最近两次构建", "Comparing the last two builds"),
            tools: vec![
                ("Shell", one("拉取构建日志", "Fetching the build log"), "build.log"),
                ("Grep", one("查找失败的测试", "Looking for failed tests"), "FAILED"),
            ],
            answer: one(
                "构建是绿的。\n\n- 用时 4 分 12 秒，比上次快 20 秒\n- 412 个测试全部通过\n- 没有新的警告",
                "The build is green.\n\n- It took 4 min 12 s, 20 s less than before\n- All 412 tests passed\n- No new warnings",
            ),
            question: None,
        };
    }
    if any(&lower, &["天气", "weather"]) {
        return Reply {
            thought: String::new(),
            tools: vec![("WebSearch", one("查今天的天气", "Looking up today's weather"), "weather")],
            answer: one(
                "今天多云，18 到 24 度，傍晚可能有小雨，出门带把伞。",
                "Cloudy, 18 to 24 °C, with some rain towards evening: take an umbrella.",
            ),
            question: None,
        };
    }
    if any(&lower, &["总结", "摘要", "summar"]) {
        return plain(
            one("回看今天的对话", "Reading today's conversation again"),
            one(
                "今天的要点：\n1. 构建已恢复，原因是缓存损坏\n2. 发布改到周四上午\n3. 监控面板多了一个延迟图",
                "Today in short:\n1. The build is back; a broken cache was to blame\n2. The release moves to Thursday morning\n3. The dashboard has a new latency chart",
            ),
        );
    }
    if any(&lower, &["谢谢", "多谢", "thank"]) {
        return plain(String::new(), one("不客气，有事随时叫我。", "You're welcome. Call me any time."));
    }
    if any(&lower, &["你好", "您好", "hello", "hi ", "hey"]) || lower.trim() == "hi" {
        return plain(
            String::new(),
            one(
                "你好！今天想先看构建，还是先处理待办？🦀",
                "Hello! Shall we look at the build first, or at the open items? 🦀",
            ),
        );
    }
    let subject: String = text.lines().next().unwrap_or("").trim().chars().take(40).collect();
    let thought = one("想一想怎么回答", "Thinking about how to answer");
    let answer = match (zh, choice % 2) {
        (true, 0) => format!(
            "关于「{subject}」，我看了一下手头的资料：先做最小的一步，确认有效后再扩大范围。需要我列一个清单吗？"
        ),
        (true, _) => format!("我记下了「{subject}」。我会先查资料，有结论就写在这里。"),
        (false, 0) => format!(
            "About “{subject}”: I'd take the smallest step first, see that it works, and go on from there. Shall I write a checklist?"
        ),
        (false, _) => format!("I've noted “{subject}”. I'll look into it and write the result here."),
    };
    plain(thought, answer)
}

/// The question before a deployment.
pub(super) fn deploy_question(zh: bool) -> Question {
    if zh {
        Question {
            prompt: "现在部署到哪里？".into(),
            help: "大约需要五分钟",
            options: vec![("正式环境", "production"), ("测试环境", "staging"), ("先不部署", "")],
        }
    } else {
        Question {
            prompt: "Where shall I deploy it?".into(),
            help: "Takes about five minutes",
            options: vec![("Production", "production"), ("Staging", "staging"), ("Not now", "")],
        }
    }
}

/// The turn after a widget was answered.
pub(super) fn to_choice(prompt: &str, value: &str) -> Reply {
    let zh = chinese(prompt);
    let declined = any(value, &["先不", "Not now"]);
    let (thought, answer) = match (zh, declined) {
        (true, true) => (String::new(), "好的，先不动，需要时再告诉我。".to_owned()),
        (true, false) => {
            (String::new(), format!("已按「{value}」完成：\n\n- 版本 2026.9.3\n- 健康检查通过\n- 用时 1 分 40 秒"))
        }
        (false, true) => (String::new(), "All right, nothing changes. Tell me when.".to_owned()),
        (false, false) => (
            String::new(),
            format!("Done, with “{value}”:\n\n- version 2026.9.3\n- health checks passed\n- it took 1 min 40 s"),
        ),
    };
    let tools = if declined {
        Vec::new()
    } else if zh {
        vec![
            ("Shell", format!("正在按「{value}」执行"), "deploy.sh"),
            ("Shell", "健康检查".to_owned(), "curl /healthz"),
        ]
    } else {
        vec![
            ("Shell", format!("Carrying out “{value}”"), "deploy.sh"),
            ("Shell", "Checking its health".to_owned(), "curl /healthz"),
        ]
    };
    Reply { thought, tools, answer, question: None }
}

/// The growing versions of a streamed text: each a prefix of the whole, cut between characters.
pub(super) fn versions(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let count = count.clamp(1, characters.len().max(1));
    (1..=count).map(|part| characters[..characters.len() * part / count].iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_in_the_language_of_the_question() {
        for text in ["今天天气怎么样", "帮我部署一下", "随便聊聊", "你好"] {
            assert!(chinese(&to_message(text, 0).answer), "{text}");
        }
        for text in ["how is the weather", "please deploy", "whatever", "hello"] {
            assert!(!chinese(&to_message(text, 1).answer), "{text}");
        }
    }

    #[test]
    fn a_bind_line_anywhere_is_thanked_for() {
        let reply = to_message("请执行：\nnode coda-bot.mjs bind http://127.0.0.1:1 ABC", 0);
        assert!(reply.answer.contains("谢谢") && reply.question.is_none());
        assert!(to_message("node coda-bot.mjs net", 0).answer.contains("coda-bot.mjs net"));
    }

    #[test]
    fn versions_grow_to_the_whole_and_never_cut_a_character() {
        let all = versions("你好🦀，世界", 4);
        assert_eq!(all.last().unwrap(), "你好🦀，世界");
        assert!(all.windows(2).all(|pair| pair[1].starts_with(&pair[0]) && pair[0].len() < pair[1].len()));
        assert_eq!(versions("", 4), [""]);
    }
}

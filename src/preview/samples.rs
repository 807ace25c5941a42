//! What the demonstration's Coda has to show. Everything in it is made up.

use serde_json::{Value, json};

/// The tickets that were filed since the start; the rest never changes.
#[derive(Default)]
pub(super) struct Samples {
    tickets: Vec<Ticket>,
}

struct Ticket {
    run: String,
    key: String,
    title: String,
}

impl Ticket {
    fn value(&self) -> Value {
        json!({"id": self.run, "workflow": "bot-ticket", "state": "running", "key": self.key, "title": self.title})
    }
}

impl Samples {
    /// A read-only tool; `None` where there is no such tool or no such thing.
    pub(super) fn tool(&self, record: &str, name: &str, arguments: &Value) -> Option<Value> {
        let asked = |argument: &str| arguments[argument].as_str().unwrap_or("");
        Some(match name {
            "coda_machines" => json!({"machines": [
                {"id": "studio", "name": "书房的台式机", "state": "online", "version": "5.7.0"},
                {"id": "laptop", "name": "Laptop", "state": "asleep", "version": "5.7.0"},
            ]}),
            "coda_machine_diagnostics" => json!({
                "machine": if asked("machine").is_empty() { "studio" } else { asked("machine") },
                "uptimeSeconds": 183_204, "cpu": 0.12, "memory": {"usedMiB": 6_120, "totalMiB": 16_384}, "problems": [],
            }),
            "coda_read_thread" => json!({
                "thread": if asked("thread").is_empty() { record } else { asked("thread") },
                "messages": [
                    {"id": "m1", "from": "person", "text": "首页打开有点慢，帮忙看看？"},
                    {"id": "m2", "from": "agent", "text": "冷启动要 4.1 秒，其中 3 秒在等字体。", "toolCalls": ["c1"]},
                ],
                "hasMore": {"before": false, "after": false},
            }),
            "coda_read_tool_call" => json!({
                "thread": asked("thread"), "toolCall": if asked("toolCall").is_empty() { "c1" } else { asked("toolCall") },
                "tool": "Shell", "input": "measure-startup --runs 5", "output": "median 4.1 s, fonts 3.0 s", "state": "completed",
            }),
            "coda_workflow_list" => {
                json!({"workflows": [{"name": "bot-ticket", "project": "demo-project", "title": "Bot 工单"}]})
            }
            "coda_workflow_status" => match asked("run") {
                "" => json!({"runs": self.tickets.iter().map(Ticket::value).collect::<Vec<_>>()}),
                run => json!({"run": self.tickets.iter().find(|ticket| ticket.run == run)?.value()}),
            },
            _ => return None,
        })
    }

    /// Files a ticket; the open one of the same problem is given again.
    pub(super) fn ticket(&mut self, params: &Value) -> Option<Value> {
        let key = params["key"].as_str().filter(|key| !key.trim().is_empty())?;
        if let Some(open) = self.tickets.iter().find(|ticket| ticket.key == key) {
            return Some(json!({"run": open.value()}));
        }
        let title = params["title"].as_str().unwrap_or(key).to_owned();
        let ticket = Ticket { run: format!("run-{}", self.tickets.len() + 1), key: key.to_owned(), title };
        let filed = json!({"run": ticket.value()});
        self.tickets.push(ticket);
        Some(filed)
    }
}

//! What a host makes of what it is told.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::model::{Cursor, Page, Why, bot, cursor};
use super::{Ask, Odd, Settled, State};

impl State {
    pub(super) fn heard(&mut self, text: &str) {
        if self.slow > 0 {
            self.paused = Some(Instant::now() + Duration::from_millis(self.rng.u64(0..=self.slow)));
        }
        let message: Value = serde_json::from_str(text).unwrap();
        let params = &message["params"];
        match message["method"].as_str() {
            None => self.answered(&message),
            Some("protocols/remoteCode") => self.asked_for_code(&message),
            Some("resource/changed") => params["state"].as_str().unwrap().clone_into(&mut self.signed),
            Some("records/put") => self.put(&params["record"]),
            Some("records/withdrawn") => {
                let name = params["record"].as_str().unwrap();
                self.note(format_args!("<- withdrawn {}: {}", bot(name), params["reason"]));
                let listed = self.records.get(name).is_some_and(|record| record.listed);
                self.history.hold(listed, || format!("{name} is withdrawn without having been put"));
                self.records.entry(name.to_owned()).or_default().begin_anew();
            }
            Some("session/head") => self.head(params["record"].as_str().unwrap(), cursor(&params["head"])),
            Some("session/activity") => {
                let name = params["record"].as_str().unwrap();
                let status = params["activity"]["status"].as_str().map(str::to_owned);
                self.note(format_args!("<- activity {}: {status:?}", bot(name)));
                match self.records.get_mut(name).filter(|record| record.listed) {
                    Some(record) => record.activity = status,
                    None => self.history.wrong(format_args!("an activity of {name}, which isn't there")),
                }
            }
            Some("run/settled") => self.settled(params),
            Some(method) => self.history.wrong(format_args!("{method} means nothing to a host")),
        }
        if !self.greeted && message.get("method").is_some() {
            self.history.wrong("a notice before the greeting");
        }
    }

    fn put(&mut self, put: &Value) {
        let name = put["id"].as_str().unwrap();
        let head = cursor(&put["head"]);
        self.note(format_args!("<- put {} at {head:?} as {}", bot(name), put["title"]));
        let record = self.records.entry(name.to_owned()).or_default();
        record.listed = true;
        record.activity = put["activity"]["status"].as_str().map(str::to_owned);
        if head.is_some() {
            self.follow(name);
        }
    }

    fn head(&mut self, name: &str, head: Option<Cursor>) {
        self.note(format_args!("<- head {} {head:?}", bot(name)));
        let lowest = self.ledger.lowest(name);
        let Some(record) = self.records.get_mut(name).filter(|record| record.listed) else {
            return self.history.wrong(format_args!("a head of {name}, which isn't there"));
        };
        let before = std::mem::replace(&mut record.told, head);
        // What it had is of another life, or there never was anything.
        let Some(head) = head else { return record.forget() };
        let forward = before.is_none_or(|before| head.0 != before.0 || head.1 > before.1);
        self.history.hold(forward, || format!("the head of {name} went from {before:?} to {head:?}"));
        let lowest = lowest.filter(|lowest| lowest.0 == head.0);
        self.history.hold(lowest <= Some(head), || {
            format!("the head of {name} was {lowest:?} before the restart and is {head:?}")
        });
        self.ledger.head(name, head);
        self.follow(name);
    }

    fn settled(&mut self, params: &Value) {
        let id = params["run"].as_str().unwrap();
        let Some(run) = self.runs.get_mut(id) else {
            return self.history.wrong(format_args!("{id} is settled, which nobody posted"));
        };
        if run.refused || run.settled.is_some() || !run.here {
            return self.history.wrong(format_args!("{id} is settled again or never was a run: {params}"));
        }
        if params["state"] == "failed" {
            let reason = params["reason"].as_str().unwrap().to_owned();
            run.settled = Some(Settled::Failed(reason.clone()));
            // Whoever can read the message knows better than "nobody can be sure", and so does the provider.
            let record = self.records.get(&run.record);
            let echo = record
                .and_then(|record| record.saying(&run.texts[0]))
                .filter(|_| !run.open && !run.answers && reason == "unknown");
            self.history.hold(echo.is_none(), || format!("{id} failed ({reason}), and {echo:?} was there to read"));
            return self.note(format_args!("<- {id} failed: {reason}"));
        }
        run.settled = Some(Settled::Completed);
        let (name, texts) = (run.record.clone(), run.texts.clone());
        let message = &params["result"]["message"];
        let (message_id, at) = (message["id"].as_str().unwrap().to_owned(), cursor(&message["cursor"]).unwrap());
        let told = self.records.get(&name).and_then(|record| record.told);
        self.note(format_args!("<- {id} completed: {message_id} at {at:?}"));
        let covered = told.is_some_and(|told| told.0 == at.0 && told >= at);
        let echo = Why::Echo { after: (at.0, at.1 - 1), id: message_id, texts, told: covered };
        self.read(&name, echo, 1);
    }

    fn asked_for_code(&mut self, message: &Value) {
        if self.asks_owed == 0 {
            self.history.wrong("a code is asked for without an opening");
        }
        self.asks_owed = self.asks_owed.saturating_sub(1);
        self.next += 1;
        let code = format!("code-{}-{}", self.name, self.next);
        let result = match self.rng.u8(0..8) {
            0 => json!({"code": "a b", "expiresAt": "x", "addresses": ["http://100.64.0.1:8080"]}),
            1 => json!({"code": code, "expiresAt": "x", "addresses": []}),
            2 => json!("no"),
            // Never answered.
            3 => return self.note("<- remoteCode, and says nothing"),
            _ => {
                self.binds.insert(code.clone(), false);
                json!({"code": code, "expiresAt": "x", "addresses": ["http://100.64.0.1:8080"]})
            }
        };
        self.note(format_args!("<- remoteCode, gives {}", result["code"]));
        self.out.push_back(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
    }

    fn answered(&mut self, message: &Value) {
        let Some(ask) = message["id"].as_str().and_then(|id| self.asked.remove(id)) else {
            return self.history.wrong(format_args!("an answer to nothing, or a second one: {message}"));
        };
        let kind = message["error"]["data"]["kind"].as_str();
        match ask {
            Ask::Initialize => {
                self.greeted = true;
                self.history.hold(kind.is_none(), || format!("the greeting is refused: {message}"));
            }
            Ask::Nothing(what) => self.note(format_args!("<- {what}: {}", kind.unwrap_or("done"))),
            Ask::List => {
                if let Some(records) = message["result"]["records"].as_array() {
                    let mut ids: Vec<&str> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
                    ids.sort_unstable();
                    ids.dedup();
                    self.history.hold(ids.len() == records.len(), || format!("a record is listed twice: {message}"));
                }
            }
            Ask::Post { run, refused, reply } => self.post_answered(&run, refused, reply, kind),
            Ask::Bind => {
                self.note(format_args!("<- view: {}", kind.unwrap_or("sent")));
                if kind.is_none() {
                    *self.binds.entry("sent".to_owned()).or_default() = true;
                }
            }
            Ask::Shutdown => {
                self.note(format_args!("<- shutdown: {}", kind.unwrap_or("done")));
                let open = self.runs.iter().find(|(_, run)| run.here && run.settled.is_none() && !run.refused);
                self.history.hold(open.is_none(), || format!("shut down, and {open:?} isn't settled"));
            }
            Ask::Read { record, why, limit, life } => match kind {
                Some(kind) => self.read_refused(&record, &why, life, kind, &message["error"]["data"]),
                None => self.read_answered(&record, why, limit, life, &message["result"]),
            },
        }
    }

    fn post_answered(&mut self, run: &str, refused: &str, reply: bool, kind: Option<&str>) {
        match kind {
            None => self.history.hold(refused.is_empty() || refused == "draft", || format!("{run} is taken")),
            Some(kind) => {
                self.note(format_args!("<- {run} refused: {kind}"));
                // A reply to what was known may be one to nothing after a reset; a stop refuses all.
                let lawful = kind == refused
                    || ["record_not_found", "not_ready", "invalid_request"].contains(&kind)
                    || reply && kind == "bad_params";
                self.history.hold(lawful, || format!("{run} is refused as {kind}"));
                if let Some(run) = self.runs.get_mut(run) {
                    run.refused = true;
                }
            }
        }
    }

    fn read_refused(&mut self, name: &str, why: &Why, life: u64, kind: &str, data: &Value) {
        self.note(format_args!("<- read {}: {kind}", bot(name)));
        let lawful = match (why, kind) {
            (_, "record_not_found" | "not_ready" | "invalid_request") => true,
            (Why::Odd(Odd::Refused(expected)), kind) => *expected == kind,
            // Without a cursor there is nothing to be of another life.
            (Why::First | Why::Whole(None), "history_reset") => false,
            (_, "history_reset") => true,
            _ => false,
        };
        self.history.hold(lawful, || format!("a read of {name} for {why:?} is refused as {kind}"));
        let head = cursor(&data["head"]);
        let Some(record) = self.records.get_mut(name) else { return };
        match why {
            Why::First | Why::Back(_) | Why::After(_) => {
                if kind == "history_reset" && life == record.life {
                    if let (Some(position), Some(head)) = (record.position, head) {
                        self.history.hold(position.0 != head.0, || format!("{name} was reset to its own life"));
                    }
                    record.forget();
                    record.dirty |= head.is_some();
                }
                self.followed(name);
            }
            Why::Whole(_) => record.whole = None,
            Why::Echo { .. } | Why::Odd(_) => {}
        }
    }

    fn read_answered(&mut self, name: &str, why: Why, limit: usize, life: u64, result: &Value) {
        let page = Page::read(result);
        let ids: Vec<String> = page.messages.iter().map(|m| format!("{}@{}={:?}", m.id, m.cursor.1, m.text)).collect();
        self.note(format_args!("<- read {}: {} of head {:?}", bot(name), ids.join(" "), page.head));
        if let Err(error) = page.is_sound(limit) {
            self.history.wrong(format_args!("{}: {error}", bot(name)));
        }
        let (ledger, history) = (self.ledger.clone(), self.history.clone());
        let Some(record) = self.records.get_mut(name) else { return };
        if life != record.life && !matches!(why, Why::Odd(_)) {
            // Asked in another life; the notices that came meanwhile count.
            if matches!(why, Why::First | Why::Back(_) | Why::After(_)) {
                self.followed(name);
            }
            return;
        }
        let oldest = page.messages.first().map(|message| message.cursor);
        match why {
            Why::First | Why::Back(_) => {
                record.collect(name, &page, &why, &ledger, &history);
                if matches!(why, Why::First) {
                    record.position = page.head;
                    history.hold(!page.after, || "the newest page has something after it".to_owned());
                }
                record.reading_back = page.before;
                match oldest.filter(|_| page.before) {
                    Some(oldest) => {
                        let limit = self.rng.usize(1..20);
                        self.read(name, Why::Back(oldest), limit);
                    }
                    None => self.followed(name),
                }
            }
            Why::After(after) => {
                record.collect(name, &page, &why, &ledger, &history);
                let last = page.messages.last().map(|message| message.cursor);
                history.hold(last.is_some() || !page.after, || "more after an empty page".to_owned());
                let read = if page.after { last } else { last.max(page.head) };
                record.position = read.max(Some(after));
                if page.after {
                    record.dirty = true;
                }
                self.followed(name);
            }
            Why::Whole(_) => {
                if !record.read_whole(name, &page, &ledger, &history) {
                    return;
                }
                if let Some(oldest) = oldest.filter(|_| page.before) {
                    let limit = self.rng.usize(1..30);
                    return self.read(name, Why::Whole(Some(oldest)), limit);
                }
                record.judge_whole(name, &ledger, &history);
            }
            Why::Echo { id, texts, told, .. } => {
                history.hold(told, || format!("{id} was completed before its head was told"));
                let found = page.messages.iter().find(|message| message.id == id);
                let right = found.is_some_and(|found| texts.contains(&found.text));
                history.hold(right, || format!("{id} was completed, and there is {found:?} for {texts:?}"));
            }
            Why::Odd(odd) => {
                let lawful = match odd {
                    Odd::Refused(_) | Odd::OtherLife => false,
                    Odd::Past => page.messages.is_empty() && !page.after,
                    Odd::Some => true,
                };
                history.hold(lawful, || format!("{odd:?} gave a page of {name}: {result}"));
            }
        }
    }

    /// The connection has ended.
    pub(super) fn gone(&mut self) {
        self.connected = false;
        self.note("is disconnected");
        for run in self.runs.values_mut() {
            run.here = false;
        }
    }
}

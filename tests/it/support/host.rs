//! A host: it speaks the contract, keeps what it was told, and holds every line against the schemas and the rules of order.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{Heard, LIMIT, schemas};

/// How often something is asked that no notification tells.
const LOOK: Duration = Duration::from_millis(50);

/// A host and the provider's process behind it.
pub(crate) struct Host {
    to: Option<mpsc::UnboundedSender<String>>,
    from: mpsc::UnboundedReceiver<Vec<u8>>,
    child: Child,
    stderr: Arc<Mutex<String>>,
    tasks: JoinSet<()>,
    heard: Heard,
    asked: HashMap<i64, String>,
    answers: HashMap<i64, Result<Value, Value>>,
    last: i64,
    runs: HashMap<String, String>,
    /// Every notification and request of the provider, in order.
    pub(crate) log: Vec<Value>,
    /// The records as told: put, with the heads and activities that came since.
    pub(crate) records: BTreeMap<String, Value>,
    /// The last `resource/changed`.
    pub(crate) status: Value,
    /// By run.
    pub(crate) settled: HashMap<String, Value>,
    /// Record and reason.
    pub(crate) withdrawn: Vec<(String, String)>,
    /// Requests of the provider that wait for an answer.
    pub(crate) requests: VecDeque<Value>,
}

impl Host {
    /// Starts the provider over stdio.
    pub(crate) fn spawn(mut command: Command, heard: Heard) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (to, mut lines) = mpsc::unbounded_channel::<String>();
        let (sender, from) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(line) = lines.recv().await {
                // A provider that ended doesn't read any more.
                if input.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        tasks.spawn(async move {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).await.unwrap() > 0 {
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        Self::over(child, to, from, tasks, heard)
    }

    /// A host whose provider dialled it; `tasks` move its messages.
    pub(crate) fn over(
        mut child: Child,
        to: mpsc::UnboundedSender<String>,
        from: mpsc::UnboundedReceiver<Vec<u8>>,
        mut tasks: JoinSet<()>,
        heard: Heard,
    ) -> Self {
        let stderr = heard.log();
        let (mut errors, kept) = (child.stderr.take().unwrap(), Arc::clone(&stderr));
        tasks.spawn(async move {
            let mut bytes = vec![0; 4096];
            while let Ok(count @ 1..) = errors.read(&mut bytes).await {
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self {
            to: Some(to),
            from,
            child,
            stderr,
            tasks,
            heard,
            asked: HashMap::new(),
            answers: HashMap::new(),
            last: 0,
            runs: HashMap::new(),
            log: Vec::new(),
            records: BTreeMap::new(),
            status: Value::Null,
            settled: HashMap::new(),
            withdrawn: Vec::new(),
            requests: VecDeque::new(),
        }
    }

    // The process

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("still running")
    }

    /// What it has logged so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Ends stdin: the end of the connection.
    pub(crate) fn close(&mut self) {
        self.to = None;
    }

    /// SIGKILL, at once.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
        self.check_stderr();
    }

    /// Waits for the process's end, and reads the rest of what it says.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        while let Ok(Some(line)) = timeout_at(deadline, self.from.recv()).await {
            self.fold(&line);
        }
        let status = timeout_at(deadline, self.child.wait()).await.expect("the process ends").unwrap();
        // Of the others only stderr can still be read.
        self.to = None;
        while timeout_at(deadline, self.tasks.join_next()).await.expect("its streams end").is_some() {}
        self.check_stderr();
        status
    }

    /// `shutdown`, the end of stdin, exit code 0.
    pub(crate) async fn quit(mut self) -> Self {
        assert_eq!(self.call("shutdown", json!({})).await, Ok(Value::Null));
        self.close();
        let status = self.end().await;
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
        self
    }

    fn check_stderr(&self) {
        let stderr = self.stderr();
        assert!(!stderr.contains("panicked"), "{stderr}");
    }

    // Messages

    /// Sends a line as it is.
    pub(crate) fn send(&self, line: &str) {
        self.to.as_ref().expect("still connected").send(line.to_owned()).expect("a provider");
    }

    /// Sends a request; its answer is taken with [`Self::answer`].
    #[expect(clippy::needless_pass_by_value, reason = "written on the spot by every caller")]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        self.asked.insert(self.last, method.to_owned());
        if method == "session/post" && params["draft"] != true {
            let (run, record) = (params["run"]["id"].as_str(), params["record"].as_str());
            self.runs.insert(run.unwrap_or_default().to_owned(), record.unwrap_or_default().to_owned());
        }
        self.send(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).to_string());
        self.last
    }

    /// The answer to a request: its result or its error.
    pub(crate) async fn answer(&mut self, id: i64) -> Result<Value, Value> {
        self.until("an answer", |host| host.answers.contains_key(&id)).await;
        self.answers.remove(&id).expect("just seen")
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params);
        self.answer(id).await
    }

    /// Answers the oldest request of the provider.
    pub(crate) async fn reply(&mut self, result: Value) {
        self.until("a request of the provider", |host| !host.requests.is_empty()).await;
        let request = self.requests.pop_front().expect("just seen");
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
    }

    pub(crate) async fn initialize(&mut self) {
        let host = json!({"name": "Coda", "version": "5.7.0"});
        let result = self.call("initialize", json!({"protocolVersion": "5.7.0", "host": host})).await.unwrap();
        assert_eq!(result["plugin"], json!({"id": "grok-bot", "version": "0.5.0"}));
    }

    /// Reads messages until something holds. The limit is generous: reaching it is a failure.
    pub(crate) async fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !done(self) {
            match timeout_at(deadline, self.from.recv()).await {
                Ok(Some(line)) => self.fold(&line),
                Ok(None) => panic!("the provider ended before: {what}\n{}", self.stderr()),
                Err(tokio::time::error::Elapsed { .. }) => {
                    panic!("waited in vain for: {what}\n{:#?}\n{}", self.log.last(), self.stderr())
                }
            }
        }
    }

    /// Takes the next message, if one comes soon.
    pub(crate) async fn step(&mut self) {
        if let Ok(message) = timeout_at(Instant::now() + LOOK, self.from.recv()).await {
            match message {
                Some(line) => self.fold(&line),
                None => panic!("the provider ended\n{}", self.stderr()),
            }
        }
    }

    /// Hears what nobody reads any more; whether there was something.
    pub(crate) fn hear(&mut self) -> bool {
        let mut any = false;
        while let Ok(line) = self.from.try_recv() {
            self.heard.printed(&String::from_utf8_lossy(&line));
            any = true;
        }
        any
    }

    /// Takes one message in. H1: nothing but the protocol is on stdout, and all of it keeps the rules.
    fn fold(&mut self, line: &[u8]) {
        let text = std::str::from_utf8(line).expect("UTF-8");
        self.heard.printed(text);
        let message: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"));
        assert_eq!(message["jsonrpc"], "2.0", "{text}");
        let Some(method) = message["method"].as_str() else { return self.response(&message) };
        let params = &message["params"];
        schemas::check(&format!("{}.params", method.replace('/', ".")), params);
        let record = params["record"].as_str().unwrap_or_default().to_owned();
        match method {
            "resource/changed" => self.status = params.clone(),
            "records/put" => {
                schemas::check("record", &params["record"]);
                let id = params["record"]["id"].as_str().expect("checked").to_owned();
                let old = self.records.insert(id, params["record"].clone());
                assert_forward(old.as_ref().map_or(&Value::Null, |old| &old["head"]), &params["record"]["head"]);
            }
            "records/withdrawn" => {
                assert!(self.records.remove(&record).is_some(), "withdrawn without a put: {text}");
                self.withdrawn.push((record, params["reason"].as_str().expect("checked").to_owned()));
            }
            "session/head" => {
                let known = self.records.get_mut(&record).unwrap_or_else(|| panic!("no such record: {text}"));
                assert_forward(&known["head"], &params["head"]);
                known["head"] = params["head"].clone();
            }
            "session/activity" => {
                let known = self.records.get_mut(&record).unwrap_or_else(|| panic!("no such record: {text}"));
                known["activity"] = params["activity"].clone();
            }
            "run/settled" => {
                let run = params["run"].as_str().expect("checked").to_owned();
                if let Some(at) = params["result"]["message"]["cursor"].as_str() {
                    // H17: after the head that covers it.
                    let head = self.runs.get(&run).and_then(|record| self.records.get(record));
                    let head = head.and_then(|record| record["head"].as_str()).map(cursor);
                    assert!(head.is_some_and(|head| head >= cursor(at)), "settled before its head: {text}");
                }
                assert!(self.settled.insert(run, params.clone()).is_none(), "settled twice: {text}");
            }
            "protocols/remoteCode" => self.requests.push_back(message.clone()),
            other => panic!("an unknown method: {other}"),
        }
        self.log.push(message);
    }

    fn response(&mut self, message: &Value) {
        if let Some(error) = message.get("error") {
            schemas::check("error", error);
        }
        let Some(id) = message["id"].as_i64() else {
            self.log.push(message.clone());
            return;
        };
        let method = self.asked.remove(&id).unwrap_or_else(|| panic!("an answer to nothing: {message}"));
        let answer = if let Some(error) = message.get("error") {
            Err(error.clone())
        } else {
            schemas::check(&format!("{}.result", method.replace('/', ".")), &message["result"]);
            Ok(message["result"].clone())
        };
        self.answers.insert(id, answer);
    }

    // Records

    /// Waits until a record can be read.
    pub(crate) async fn ready(&mut self, record: &str) {
        self.reads(record, "it can be read", |_| true).await;
    }

    /// One page.
    pub(crate) async fn read(&mut self, record: &str, bounds: Value) -> Result<Value, Value> {
        let mut params = bounds;
        params["record"] = record.into();
        self.call("session/read", params).await
    }

    /// Every message of a record, by pages backward from the newest.
    pub(crate) async fn all(&mut self, record: &str) -> Result<Vec<Value>, Value> {
        let mut messages: Vec<Value> = Vec::new();
        loop {
            let mut bounds = json!({"limit": 500});
            if let Some(first) = messages.first() {
                bounds["before"] = first["cursor"].clone();
            }
            let page = self.read(record, bounds).await?;
            let mut older = page["messages"].as_array().expect("checked").clone();
            older.append(&mut messages);
            messages = older;
            if page["hasMore"]["before"] == false {
                break;
            }
        }
        let ids: HashSet<&str> = messages.iter().map(|message| message["id"].as_str().expect("checked")).collect();
        assert_eq!(ids.len(), messages.len(), "an id comes twice: {messages:#?}");
        let cursors: Vec<_> = messages.iter().map(|message| cursor(message["cursor"].as_str().unwrap())).collect();
        assert!(cursors.is_sorted(), "not ascending: {messages:#?}");
        Ok(messages)
    }

    /// Waits until the messages of a record are such. It is read again after whatever the provider says.
    pub(crate) async fn reads(
        &mut self,
        record: &str,
        what: &str,
        mut done: impl FnMut(&[Value]) -> bool,
    ) -> Vec<Value> {
        let deadline = Instant::now() + LIMIT;
        let mut last = Err(Value::Null);
        while Instant::now() < deadline {
            match self.all(record).await {
                Ok(messages) if done(&messages) => return messages,
                // Not there yet, still being read, or reset between two pages.
                other => last = other,
            }
            self.step().await;
        }
        panic!("read in vain for: {what}\n{last:#?}\n{}", self.stderr());
    }

    /// Waits until a record's texts are exactly these.
    pub(crate) async fn reads_texts(&mut self, record: &str, expected: &[&str]) -> Vec<Value> {
        let what = format!("the texts {expected:?}");
        self.reads(record, &what, |messages| texts(messages) == expected).await
    }

    pub(crate) fn head(&self, record: &str) -> Option<String> {
        self.records.get(record)?["head"].as_str().map(str::to_owned)
    }

    pub(crate) fn activity(&self, record: &str) -> Option<String> {
        self.records.get(record)?["activity"]["status"].as_str().map(str::to_owned)
    }

    /// Posts and waits for the settle.
    pub(crate) async fn post(&mut self, record: &str, run: &str, text: &str) -> Value {
        self.begin_post(record, run, text, None).await;
        self.settle(run).await
    }

    /// Posts; the run is settled later.
    pub(crate) async fn begin_post(&mut self, record: &str, run: &str, text: &str, reply_to: Option<&str>) {
        let mut params =
            json!({"record": record, "run": {"id": run}, "caller": "user-1", "requestId": run, "text": text});
        if let Some(reply_to) = reply_to {
            params["replyTo"] = reply_to.into();
        }
        assert_eq!(self.call("session/post", params).await, Ok(json!({"accepted": true})));
    }

    pub(crate) async fn settle(&mut self, run: &str) -> Value {
        self.until("a settle", |host| host.settled.contains_key(run)).await;
        self.settled[run].clone()
    }
}

impl Drop for Host {
    #[expect(clippy::print_stderr, reason = "a failed test's own output")]
    fn drop(&mut self) {
        self.hear();
        if std::thread::panicking() {
            // What the provider had to say is the first thing to look at.
            eprintln!("--- the provider's log\n{}\n---", self.stderr());
        }
    }
}

/// A cursor as two numbers.
pub(crate) fn cursor(text: &str) -> (u128, u128) {
    let (generation, number) = text.split_once(':').expect("a cursor");
    (generation.parse().unwrap(), number.parse().unwrap())
}

/// H18: a head goes only forward within a generation.
fn assert_forward(old: &Value, new: &Value) {
    if let (Some(old), Some(new)) = (old.as_str().map(cursor), new.as_str().map(cursor)) {
        assert!(old.0 != new.0 || old <= new, "the head went back from {old:?} to {new:?}");
    }
}

/// The texts of messages.
pub(crate) fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["text"].as_str().expect("checked")).collect()
}

/// The kind of an answer's error.
pub(crate) fn kind(answer: &Result<Value, Value>) -> &str {
    answer.as_ref().expect_err("an error")["data"]["kind"].as_str().expect("checked")
}

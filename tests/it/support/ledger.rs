//! A host with a memory that outlives the provider's processes: what it was shown once must stay so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use coda_grok_bot::index::{Sqlite, Store as _};
use coda_grok_bot::mirror::Mark;
use coda_grok_bot::model::{AgentId, Part};
use coda_grok_bot::service::INDEX;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::talk::{View, held};
use super::{Bench, Host, cursor, mode};

type Cursor = (u128, u128);

/// What a host was shown of a record, in all lives of the provider.
#[derive(Default)]
struct Known {
    /// By id, without the time.
    seen: HashMap<String, Value>,
    /// The ids, as they came.
    order: Vec<String>,
    /// Everything up to here was read.
    upto: Option<Cursor>,
    /// What the present process has shown.
    life: HashSet<String>,
    /// The record was read as a whole in this life.
    whole: bool,
}

/// Follows every record as a host does, and judges all that it is shown.
pub(crate) struct Ledger {
    records: BTreeMap<String, Known>,
    /// Runs that aren't settled, with their records.
    open: Vec<(String, String)>,
    posts: u32,
    random: fastrand::Rng,
    /// Now and then it posts.
    pub(crate) posting: bool,
    /// Told whenever something new was shown.
    pub(crate) heard: Arc<Notify>,
}

/// What must not change of a message: all but the time it was seen at.
pub(crate) fn fixed(message: &Value) -> Value {
    let mut message = message.clone();
    message.as_object_mut().unwrap().remove("at");
    message
}

fn at(message: &Value) -> Cursor {
    cursor(message["cursor"].as_str().unwrap())
}

/// What a message is a version of: the entry, or the answer of one.
fn subject(message: &Value) -> &str {
    let id = message["about"]["message"].as_str().unwrap_or_else(|| message["id"].as_str().unwrap());
    id.split_once(':').unwrap().1
}

fn agent(record: &str) -> &str {
    record.rsplit_once(':').unwrap().1
}

impl Ledger {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            records: BTreeMap::new(),
            open: Vec::new(),
            posts: 0,
            random: fastrand::Rng::with_seed(seed),
            posting: true,
            heard: Arc::default(),
        }
    }

    /// How many messages were shown in all.
    pub(crate) fn shown(&self) -> usize {
        self.records.values().map(|known| known.order.len()).sum()
    }

    /// Greets a new process and follows it until `done` holds.
    pub(crate) async fn follow(&mut self, host: &mut Host, bench: &Bench, mut done: impl FnMut(&Self) -> bool) {
        for known in self.records.values_mut() {
            known.life.clear();
            known.whole = false;
        }
        let mut post = self.posting && self.random.u8(0..3) == 0;
        let open: Vec<Value> = self.open.iter().map(|(id, record)| json!({"id": id, "record": record})).collect();
        let hello = json!({"protocolVersion": "5.7.0", "host": {"name": "Coda", "version": "5.7.0"}, "openRuns": open});
        host.call("initialize", hello).await.unwrap();
        while !done(self) {
            let mut idle = true;
            for record in host.records.keys().cloned().collect::<Vec<_>>() {
                let Some(head) = host.head(&record).map(|head| cursor(&head)) else { continue };
                let known = self.records.entry(record.clone()).or_default();
                assert!(
                    known.upto <= Some(head),
                    "the head of {record} is {head:?}, it was read up to {:?}",
                    known.upto
                );
                if known.whole && known.upto == Some(head) {
                    continue;
                }
                let whole = !known.whole || self.random.u8(0..4) == 0;
                let answer = if whole { host.all(&record).await } else { after(host, &record, known.upto).await };
                // It may be about to be read again.
                let Ok(messages) = answer else { continue };
                idle = false;
                self.take(&record, &messages, whole, head, &held(&bench.control, agent(&record)));
                if std::mem::take(&mut post) {
                    self.posts += 1;
                    let (run, text) = (format!("run-{}", self.posts), format!("人发过的第 {} 句", self.posts));
                    self.open.push((run.clone(), record.clone()));
                    host.begin_post(&record, &run, &text, None).await;
                }
            }
            self.settle(host);
            if idle {
                host.step().await;
            }
        }
    }

    fn settle(&mut self, host: &Host) {
        self.open.retain(|(run, _)| !host.settled.contains_key(run));
        assert!(
            !["signInAgain", "signedOut"].contains(&host.status["state"].as_str().unwrap_or("")),
            "{}",
            host.status
        );
    }

    /// `held`: what the service holds since the messages were read, or later.
    fn take(&mut self, record: &str, messages: &[Value], whole: bool, head: Cursor, held: &View) {
        let known = self.records.get_mut(record).expect("just looked at");
        for message in messages {
            let (id, message) = (message["id"].as_str().unwrap().to_owned(), fixed(message));
            if let Some(before) = known.seen.get(&id) {
                assert_eq!(before, &message, "it isn't what it was");
            } else {
                assert!(known.upto < Some(at(&message)), "new, though read up to {:?}: {message}", known.upto);
                known.order.push(id.clone());
                known.seen.insert(id.clone(), message);
                self.heard.notify_one();
            }
            known.life.insert(id);
        }
        if whole {
            let there: HashSet<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
            for (id, message) in known.seen.iter().filter(|(id, _)| !there.contains(id.as_str())) {
                assert!(!known.life.contains(id), "gone while the process lived: {message}");
                assert_ne!(message["about"]["change"], "delete", "a mark is lost: {message}");
                // A text that the service still holds is known to whoever reads it. (A text never comes back once it is gone.)
                let text = message["text"].as_str();
                assert_ne!(held.get(subject(message)).map(String::as_str), text, "lost: {message}");
            }
            known.whole = true;
        }
        let last = messages.last().map(at);
        known.upto = known.upto.max(last).max(Some(head));
    }

    /// What somebody knows of a Bot who has taken in every message when it came.
    fn view(&self, record: &str) -> View {
        let mut view = View::new();
        let Some(known) = self.records.get(record) else { return view };
        for message in known.order.iter().map(|id| &known.seen[id]) {
            if message["about"]["change"] == "delete" {
                view.remove(subject(message));
            } else {
                view.insert(subject(message).to_owned(), message["text"].as_str().unwrap().to_owned());
            }
        }
        view
    }

    /// Everything that the service holds was shown, and nothing else is left.
    pub(crate) fn agrees(&self, bench: &Bench, agents: &[String]) -> bool {
        agents.iter().all(|agent| self.view(&bench.record(agent)) == held(&bench.control, agent))
    }

    /// Where they don't.
    pub(crate) fn differences(&self, bench: &Bench, agents: &[String]) -> String {
        let mut told = String::new();
        for agent in agents {
            let (view, held) = (self.view(&bench.record(agent)), held(&bench.control, agent));
            for key in view.keys().chain(held.keys()).filter(|key| view.get(*key) != held.get(*key)) {
                let _ = writeln!(told, "{agent}, {key}: shown {:?}, held {:?}", view.get(key), held.get(key));
            }
        }
        told
    }

    /// Every record was read as a whole in this life.
    pub(crate) fn all_whole(&self, agents: usize) -> bool {
        self.records.values().filter(|known| known.whole).count() == agents
    }

    /// SIGKILL, and what must hold of the folder afterwards.
    pub(crate) async fn kill(&mut self, host: Host, bench: &Bench) {
        self.settle(&host);
        assert!(!host.status["message"].as_str().unwrap_or("").contains("索引文件已损坏"), "{}", host.status);
        host.kill().await;
        check_sign_in(bench);
        self.check_index(&bench.data());
    }

    /// The host was shown nothing that the index doesn't hold.
    fn check_index(&self, folder: &Path) {
        let marks = marks(folder);
        for (record, known) in &self.records {
            for message in known.seen.values() {
                let (entry, answer) = match subject(message).split_once(':') {
                    None => (subject(message), false),
                    Some((entry, _)) => (entry, true),
                };
                let key = (agent(record).to_owned(), entry.to_owned(), answer);
                let mark = marks.get(&key).unwrap_or_else(|| panic!("the index doesn't hold {message}"));
                let number = u64::try_from(at(message).1).unwrap();
                let good = match message["about"]["change"].as_str() {
                    None => mark.first == number,
                    Some("edit") => mark.edit >= Some(number),
                    Some(_) => mark.delete >= Some(number),
                };
                assert!(good, "the index has {mark:?} of {message}");
            }
        }
    }
}

/// What came after a cursor, to the end.
async fn after(host: &mut Host, record: &str, upto: Option<Cursor>) -> Result<Vec<Value>, Value> {
    let mut messages: Vec<Value> = Vec::new();
    loop {
        let from = messages.last().map(at).or(upto).unwrap_or((1, 0));
        let page = host.read(record, json!({"after": format!("{}:{}", from.0, from.1), "limit": 500})).await?;
        messages.extend(page["messages"].as_array().expect("checked").iter().cloned());
        if page["hasMore"]["after"] == false {
            return Ok(messages);
        }
    }
}

/// The sign-in file is a whole document of tokens that the service gave, for this user alone.
fn check_sign_in(bench: &Bench) {
    let text = std::fs::read_to_string(bench.auth_file()).unwrap();
    let document: Value = serde_json::from_str(&text).expect("a whole document");
    let given = bench.control.secrets();
    for name in ["accessToken", "refreshToken"] {
        let token = document[name].as_str().unwrap_or_else(|| panic!("it holds no {name}"));
        assert!(given.iter().any(|secret| secret == token), "{name} isn't one of the service's");
    }
    for file in std::fs::read_dir(bench.data()).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains(".bad"), "set aside: {name}");
        assert!(name == "filler" || mode(&file) == 0o600, "{name}: {:o}", mode(&file));
    }
}

/// What a killed provider's index holds: by Bot, entry, and whether it is of the answer.
fn marks(folder: &Path) -> BTreeMap<(String, String, bool), Mark> {
    // A copy: opening it would check its log in.
    let copy = tempfile::tempdir().unwrap();
    for tail in ["", "-wal"] {
        let from = folder.join(format!("{INDEX}{tail}"));
        if from.exists() {
            std::fs::copy(from, copy.path().join(format!("{INDEX}{tail}"))).unwrap();
        }
    }
    let connection = rusqlite::Connection::open(copy.path().join(INDEX)).unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    if tables == 0 {
        // Killed before its first use.
        return BTreeMap::new();
    }
    let mut query = connection.prepare("SELECT account, agent FROM bot").unwrap();
    let bots = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let bots: Vec<(String, String)> = bots.unwrap().map(Result::unwrap).collect();
    drop(query);
    drop(connection);
    let mut index = Sqlite::at(copy.path().join(INDEX));
    let mut marks = BTreeMap::new();
    for (account, agent) in bots {
        for (_, mark) in index.load(&account, &AgentId::from(&*agent)).unwrap().to_vec() {
            marks.insert((agent.clone(), mark.entry.to_string(), mark.part == Part::Answer), mark);
        }
    }
    assert!(index.take_set_aside().is_empty());
    marks
}

//! The provider under measurement: the built binary's `serve` over stdio, with this process as its host.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::child::Process;
pub(crate) use crate::sign_in::sign_in;

/// The variable that names the binary to measure. Without it the one that `cargo bench` built is taken.
const BINARY: &str = "CODA_GROK_BOT_BINARY";

/// The binary to measure.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os(BINARY).map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_coda-grok-bot")), PathBuf::from)
}

/// A provider and what it has said.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) process: Process,
    /// The number of each record's head by agent id.
    pub(crate) heads: HashMap<String, u64>,
    /// Every head that was told, in order, with the moment.
    pub(crate) told: Vec<(String, u64, Duration)>,
    /// Record ids by agent id.
    pub(crate) records: HashMap<String, String>,
    asked: u64,
}

impl Provider {
    /// Starts it against the service at `base`, and sends `initialize`.
    pub(crate) fn start(folder: &Path, base: &str) -> io::Result<Self> {
        let mut command = Command::new(binary());
        command.arg("serve").arg("--data-dir").arg(folder).env("GROK_BOT_TEST", "1");
        command.env("GROK_BOT_BACKEND_URL", base).env("GROK_BOT_WEBSITE_URL", "http://127.0.0.1:9");
        let process = Process::start(&mut command)?;
        let mut provider = Self { process, heads: HashMap::new(), told: Vec::new(), records: HashMap::new(), asked: 0 };
        let host = json!({"name": "bench", "version": "5.7.0"});
        provider.call("initialize", &json!({"protocolVersion": "5.7.0", "host": host}))?;
        Ok(provider)
    }

    /// Asks and waits for the answer: its text, whole.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> io::Result<String> {
        self.asked += 1;
        let id = self.asked;
        self.process.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())?;
        loop {
            let (at, line) = self.process.line()?;
            if !line.contains("\"method\":") {
                return Ok(line);
            }
            self.note(at, &line)?;
        }
    }

    /// Takes what the provider says until every Bot's head is at its number.
    pub(crate) fn until(&mut self, heads: &HashMap<String, u64>) -> io::Result<()> {
        let reached = |known: &HashMap<String, u64>| {
            heads.iter().filter(|(agent, head)| known.get(*agent).is_some_and(|known| known >= *head)).count()
        };
        while reached(&self.heads) < heads.len() {
            let (at, line) = self.process.line().map_err(|error| {
                io::Error::other(format!("{error}: {} of {} heads", reached(&self.heads), heads.len()))
            })?;
            self.note(at, &line)?;
        }
        for (agent, head) in heads {
            if self.heads.get(agent) != Some(head) {
                return Err(io::Error::other(format!("the head of {agent} isn't {head}: {:?}", self.heads.get(agent))));
            }
        }
        Ok(())
    }

    /// Takes a notification in.
    pub(crate) fn note(&mut self, at: Duration, line: &str) -> io::Result<()> {
        let message: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        let params = &message["params"];
        let (record, head) = match message["method"].as_str() {
            Some("records/put") => (&params["record"]["id"], &params["record"]["head"]),
            Some("session/head") => (&params["record"], &params["head"]),
            _ => return Ok(()),
        };
        let record = record.as_str().unwrap_or_default();
        let agent = record.rsplit(':').next().unwrap_or_default().to_owned();
        if let Some(number) = head.as_str().and_then(|head| head.split(':').nth(1)?.parse().ok()) {
            self.heads.insert(agent.clone(), number);
            self.told.push((agent.clone(), number, at));
        }
        self.records.insert(agent, record.to_owned());
        Ok(())
    }

    /// The texts of a record's newest messages: proof that it is what the service holds.
    pub(crate) fn newest(&mut self, agent: &str, limit: usize) -> io::Result<Vec<String>> {
        let record = self.records.get(agent).cloned().unwrap_or_default();
        let answer = self.call("session/read", &json!({"record": record, "limit": limit}))?;
        let answer: Value = serde_json::from_str(&answer).map_err(io::Error::other)?;
        let messages = answer["result"]["messages"].as_array();
        let texts = messages.map(|all| all.iter().filter_map(|one| one["text"].as_str().map(str::to_owned)).collect());
        texts.ok_or_else(|| io::Error::other(format!("no page: {answer}")))
    }

    /// `shutdown`, the end of stdin, the end of the process.
    pub(crate) fn quit(mut self) -> io::Result<()> {
        self.call("shutdown", &json!({}))?;
        if self.process.finish()? { Ok(()) } else { Err(io::Error::other("the provider's exit code isn't 0")) }
    }
}

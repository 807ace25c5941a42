//! Coda's remote entry as the demonstration plays it: codes, bindings and calls, with sample data. No I/O; time is an argument.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::samples::Samples;
use super::wire::Call;

/// How long a code lives.
pub(super) const CODE_LIFE: Duration = Duration::from_mins(10);
/// Codes that wait at once. The oldest gives way: a page that asks without end doesn't fill the memory.
const CODES: usize = 256;

/// Why the entry refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// A code that was never given, was used or is too old.
    #[error("the code is unknown, used or expired")]
    Code,
    /// A token that was never given, or was replaced.
    #[error("the token is unknown or was replaced")]
    Token,
    /// A method, a tool or params that don't exist.
    #[error("the call is not understood")]
    Call,
}

struct Waiting {
    code: String,
    record: String,
    until: Instant,
}

/// The entry's state.
#[derive(Default)]
pub(super) struct Entry {
    /// Oldest first.
    codes: Vec<Waiting>,
    /// The record of a token, by the token's digest; one token a record.
    tokens: HashMap<[u8; 32], String>,
    samples: Samples,
}

impl Entry {
    /// A code for a record: it works once.
    pub(super) fn issue(&mut self, record: &str, now: Instant) -> String {
        self.codes.retain(|waiting| waiting.until > now);
        if self.codes.len() >= CODES {
            self.codes.remove(0);
        }
        let code = Uuid::new_v4().simple().to_string();
        self.codes.push(Waiting { code: code.clone(), record: record.to_owned(), until: now + CODE_LIFE });
        code
    }

    /// Redeems a code: the token and the record. A record's earlier token is replaced.
    pub(super) fn bind(&mut self, code: &str, now: Instant) -> Result<(String, String), Refusal> {
        let place = self.codes.iter().position(|waiting| waiting.code == code).ok_or(Refusal::Code)?;
        let Waiting { record, until, .. } = self.codes.remove(place);
        if until <= now {
            return Err(Refusal::Code);
        }
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        self.tokens.retain(|_, bound| *bound != record);
        self.tokens.insert(digest(&token), record.clone());
        Ok((token, record))
    }

    /// Answers a call of a bound computer.
    pub(super) fn call(&mut self, token: &str, call: &Call) -> Result<serde_json::Value, Refusal> {
        let record = self.tokens.get(&digest(token)).ok_or(Refusal::Token)?;
        match call.method.as_str() {
            "tool" => {
                let name = call.params["name"].as_str().ok_or(Refusal::Call)?;
                self.samples.tool(record, name, &call.params["arguments"]).ok_or(Refusal::Call)
            }
            "file_ticket" => self.samples.ticket(&call.params).ok_or(Refusal::Call),
            _ => Err(Refusal::Call),
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machines() -> Call {
        Call { method: "tool".into(), params: json!({"name": "coda_machines", "arguments": {}}) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_works_once_and_for_ten_minutes() {
        let mut entry = Entry::default();
        let now = Instant::now();
        let code = entry.issue("grok-bot:a:1", now);
        let (token, record) = entry.bind(&code, now).unwrap();
        assert_eq!(record, "grok-bot:a:1");
        assert_eq!(entry.bind(&code, now), Err(Refusal::Code));
        assert!(entry.call(&token, &machines()).unwrap()["machines"].is_array());

        let late = entry.issue("grok-bot:a:1", now);
        assert_eq!(entry.bind(&late, now + CODE_LIFE), Err(Refusal::Code));
        assert_eq!(entry.bind("", now), Err(Refusal::Code));
    }

    #[tokio::test(start_paused = true)]
    async fn binding_again_replaces_the_token_of_that_record_alone() {
        let mut entry = Entry::default();
        let now = Instant::now();
        let mut bind = |record: &str| {
            let code = entry.issue(record, now);
            entry.bind(&code, now).unwrap().0
        };
        let (first, other, second) = (bind("r1"), bind("r2"), bind("r1"));
        assert_eq!(entry.call(&first, &machines()), Err(Refusal::Token));
        assert!(entry.call(&second, &machines()).is_ok());
        assert!(entry.call(&other, &machines()).is_ok());
        assert_eq!(entry.call("", &machines()), Err(Refusal::Token));
    }

    #[tokio::test(start_paused = true)]
    async fn codes_do_not_pile_up() {
        let mut entry = Entry::default();
        let now = Instant::now();
        let first = entry.issue("r", now);
        for _ in 0..CODES {
            entry.issue("r", now);
        }
        assert_eq!(entry.codes.len(), CODES);
        assert_eq!(entry.bind(&first, now), Err(Refusal::Code));
    }

    #[tokio::test(start_paused = true)]
    async fn one_problem_has_one_open_ticket() {
        let mut entry = Entry::default();
        let now = Instant::now();
        let code = entry.issue("r", now);
        let (token, _) = entry.bind(&code, now).unwrap();
        let mut ticket = |params: serde_json::Value| {
            entry.call(&token, &Call { method: "file_ticket".into(), params }).map(|filed| filed["run"]["id"].clone())
        };
        let first = ticket(json!({"key": "web-slow", "title": "慢", "requestId": "1"})).unwrap();
        assert_eq!(ticket(json!({"key": "web-slow", "requestId": "2"})).unwrap(), first);
        assert_ne!(ticket(json!({"key": "other", "requestId": "3"})).unwrap(), first);
        assert_eq!(ticket(json!({"title": "no key"})), Err(Refusal::Call));
        let status = Call {
            method: "tool".into(),
            params: json!({"name": "coda_workflow_status", "arguments": {"run": first}}),
        };
        assert_eq!(entry.call(&token, &status).unwrap()["run"]["key"], "web-slow");
    }
}

//! What must stay where it belongs: the tokens, the verifiers and the texts of this service, and where they came back to it elsewhere. For tests
//! that search what a client printed and wrote.

use std::collections::BTreeSet;

use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use serde_json::Value;

use super::server::Call;
use super::tokens::Tokens;

/// How many of each are kept; a service that runs for days is no test.
const KEPT: usize = 20_000;
/// Of a longer text the beginning is enough to find it.
const LONG: usize = 120;

#[derive(Debug, Default)]
pub(super) struct Secrets {
    verifiers: BTreeSet<String>,
    texts: BTreeSet<String>,
    misplaced: Vec<String>,
}

impl Secrets {
    pub(super) fn verifiers(&self) -> impl Iterator<Item = &String> {
        self.verifiers.iter()
    }

    pub(super) fn texts(&self) -> &BTreeSet<String> {
        &self.texts
    }

    pub(super) fn misplaced(&self) -> &[String] {
        &self.misplaced
    }

    /// Something that a person or a Bot said.
    pub(super) fn said(&mut self, text: &str) {
        // Lines are what a log breaks a text into.
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if self.texts.len() < KEPT {
                self.texts.insert(line.chars().take(LONG).collect());
            }
        }
    }

    /// All that is said in a row's body.
    pub(super) fn said_in(&mut self, body: &Value) {
        let widget = &body["message"]["widget"];
        let labels = widget["options"].as_array().into_iter().flatten().map(|option| &option["label"]);
        let parts = body["content"].as_array().into_iter().flatten();
        let places = [&body["content"], &body["message"]["content"], &widget["prompt"], &widget["helpText"]];
        for text in places.into_iter().chain(labels).chain(parts).filter_map(Value::as_str) {
            self.said(text);
        }
    }

    /// Looks for tokens and verifiers where none belongs: in an address, in a header but `authorization`, in a body but that of a sign-in.
    pub(super) fn judge(&mut self, method: &str, call: &Call, tokens: &Tokens) {
        let poll = method == "auth/poll";
        if poll {
            let body: Value = serde_json::from_slice(&call.bytes).unwrap_or_default();
            let query = call.query();
            let given = body["verifier"].as_str().or_else(|| query.get("verifier")?.as_str());
            if let Some(verifier) = given.filter(|given| !given.is_empty() && self.verifiers.len() < KEPT) {
                self.verifiers.insert(verifier.into());
            }
        }
        if method == "SendGrokBotUserMessage" {
            // Also what is refused then was said.
            let body: Value = serde_json::from_slice(&call.bytes).unwrap_or_default();
            self.said(body["text"].as_str().unwrap_or(""));
        }
        let (address, body) = (call.parts.uri.to_string(), String::from_utf8_lossy(&call.bytes));
        let mut found = Vec::new();
        let mut look = |what: &str, secret: &str, at_home: &dyn Fn(&str) -> bool| {
            // The part of a token that is worth stealing is its signature.
            let worth = secret.rsplit('.').next().unwrap_or(secret);
            let mut place = |place: &str, text: &str| {
                if !at_home(place) && text.contains(worth) {
                    found.push(format!("{what} in the {place} of {method}"));
                }
            };
            place("address", &address);
            place("body", &body);
            for (name, value) in &call.parts.headers {
                let value = String::from_utf8_lossy(value.as_bytes());
                place(if name == AUTHORIZATION { "credentials" } else { "headers" }, &value);
            }
        };
        // The calls of a sign-in and the store of bodies take no credentials.
        let open = poll || matches!(method, "oauth/token" | "sandbox-store" | "loginDeepControl");
        for token in tokens.all() {
            look("a token", token, &|place| match place {
                "credentials" => !open,
                "body" => method == "oauth/token",
                _ => false,
            });
        }
        // A service without the POST is polled by GET.
        let get = call.parts.method == Method::GET;
        for verifier in &self.verifiers {
            look("a verifier", verifier, &|place| poll && place == if get { "address" } else { "body" });
        }
        found.truncate(KEPT.saturating_sub(self.misplaced.len()));
        self.misplaced.append(&mut found);
    }
}

//! What was asked of the service: counts and requests, for assertions. Nothing in it can sign anybody in.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;
use serde_json::Value;

/// How many requests are kept; the counts go on.
const KEPT: usize = 20_000;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The method, named as faults name it.
    pub method: String,
    /// HTTP's own method.
    pub verb: String,
    /// The body, or the query of a GET; secrets in it are `"…"`. `null` where it is no JSON.
    pub body: Value,
    /// The headers but for `authorization` and `cookie`; of those only that they were there.
    pub headers: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    counts: HashMap<String, u64>,
    requests: VecDeque<Request>,
}

impl Log {
    pub(super) fn add(&mut self, mut request: Request) {
        hide(&mut request.body);
        for name in ["authorization", "cookie"] {
            request.headers.entry(name.into()).and_modify(|value| *value = "…".into());
        }
        *self.counts.entry(request.method.clone()).or_default() += 1;
        if self.requests.len() == KEPT {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    pub(super) fn count(&self, method: &str) -> u64 {
        self.counts.get(method).copied().unwrap_or(0)
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.iter().map(|(method, count)| (method.clone(), *count)).collect()
    }

    pub(super) fn of(&self, method: &str) -> Vec<Request> {
        self.requests.iter().filter(|request| method == "*" || request.method == method).cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What redeems or renews a sign-in.
const SECRETS: [&str; 5] = ["refresh_token", "verifier", "challenge", "access_token", "sig"];

fn hide(value: &mut Value) {
    if let Value::Object(map) = value {
        for (name, value) in map {
            if SECRETS.contains(&name.as_str()) {
                *value = "…".into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_log_holds_no_token() {
        let mut log = Log::default();
        log.add(Request {
            method: "oauth/token".into(),
            verb: "POST".into(),
            body: json!({"refresh_token": "sekrit", "client_id": "x"}),
            headers: BTreeMap::from([("authorization".into(), "Bearer sekrit".into())]),
        });
        assert!(!format!("{:?}", log.of("*")).contains("sekrit"));
        assert_eq!(log.count("oauth/token"), 1);
    }
}

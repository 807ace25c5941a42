//! What crosses the line beside the contract: the page's own requests, and the demonstration's remote entry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of `POST /host/hello`.
#[derive(Debug, Serialize)]
pub(super) struct Hello<'a> {
    /// Another one after a restart.
    pub(super) process: &'a str,
    /// Whether this is the demonstration.
    pub(super) demo: bool,
    /// The program's version.
    pub(super) version: &'static str,
}

/// The body of `POST /host/qr`.
#[derive(Debug, Deserialize)]
pub(super) struct QrRequest {
    /// What the code says.
    pub(super) text: String,
}

/// The answer of `POST /host/qr`.
#[derive(Debug, Serialize)]
pub(super) struct Qr {
    /// One text a row, `1` for a dark module.
    pub(super) rows: Vec<String>,
}

/// The body of `POST /host/remote-code`.
#[derive(Debug, Deserialize)]
pub(super) struct CodeRequest {
    /// Which record the code is for.
    pub(super) record: String,
}

/// Its answer: the result of `protocols/remoteCode`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemoteCode {
    /// The code.
    pub(super) code: String,
    /// RFC 3339.
    pub(super) expires_at: String,
    /// Where it can be redeemed.
    pub(super) addresses: Vec<String>,
}

/// The body of `POST /v1/remote-caller/bind`.
#[derive(Deserialize)]
pub(super) struct BindRequest {
    /// The code.
    pub(super) code: String,
}

/// Its answer.
#[derive(Serialize)]
pub(super) struct Bound {
    /// For `Authorization: Bearer`.
    pub(super) token: String,
    /// The record it is for.
    pub(super) record: String,
}

/// The body of `POST /v1/remote-caller`.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    /// `tool` or `file_ticket`.
    pub(super) method: String,
    /// Its params.
    #[serde(default)]
    pub(super) params: Value,
}

/// Its answer.
#[derive(Debug, Serialize)]
pub(super) struct Called {
    /// Whatever the tool gives.
    pub(super) result: Value,
}

/// A refusal.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    /// Why.
    pub(super) error: RefusedError,
}

/// Why something was refused.
#[derive(Debug, Serialize)]
pub(super) struct RefusedError {
    /// A stable word.
    pub(super) code: &'static str,
    /// A sentence.
    pub(super) message: &'static str,
}

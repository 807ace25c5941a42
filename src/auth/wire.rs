//! The sign-in's JSON, as it goes over the wire (sign-in reference, sections 2 and 3). Answers are read loosely: a field of another type is told
//! from a missing one by whoever converts it, and a field that comes twice is an error of serde's.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `grant_type` of a renewal.
pub(super) const GRANT_REFRESH: &str = "refresh_token";
/// The service's own public client (sign-in reference, section 3.2).
pub(super) const CLIENT_ID: &str = "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB";

/// The body of `POST /auth/poll`.
#[derive(Serialize)]
pub(super) struct PollRequest<'a> {
    pub(super) uuid: &'a str,
    pub(super) verifier: &'a str,
}

/// A 200 of `/auth/poll`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PollAnswer {
    pub(super) access_token: Option<Value>,
    pub(super) refresh_token: Option<Value>,
    pub(super) auth_id: Option<Value>,
    pub(super) error: Option<Value>,
}

/// The body of `POST /oauth/token`: these three and nothing else.
#[derive(Serialize)]
pub(super) struct TokenRequest<'a> {
    pub(super) grant_type: &'a str,
    pub(super) client_id: &'a str,
    pub(super) refresh_token: &'a str,
}

/// An answer of `/oauth/token`, whatever its status.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    pub(super) access_token: Option<Value>,
    pub(super) refresh_token: Option<Value>,
    #[serde(rename = "shouldLogout", alias = "should_logout")]
    pub(super) should_logout: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) code: Option<Value>,
}

/// An error's JSON on other statuses: an unknown route carries `message`, a refusal carries `error`.
#[derive(Deserialize)]
pub(super) struct ErrorAnswer {
    pub(super) error: Option<Value>,
    pub(super) message: Option<Value>,
}

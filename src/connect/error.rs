//! How a call can fail, and what each failure proves.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::FrameError;

/// Why a call gave no answer to use. Texts are for the log: codes and causes, never a token, a body, or a URL with its query.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No connection came about (address refused, DNS, TCP, proxy tunnel, TLS): not a byte of the request was sent.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The connection broke or took too long after the request may have been sent, or a stream ended without its end frame.
    #[error("connection broken: {0}")]
    Broken(String),
    /// The service, or something before it, answered with an error: a status other than 200, or an end frame that holds one.
    #[error("{0}")]
    Service(Box<ServiceError>),
    /// The answer can't be read: too large, compressed, no Connect frame.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}

/// What a failure proves. The caller decides what follows; nothing here retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The credentials aren't taken: nothing was done.
    Auth,
    /// May pass; it isn't known whether something was done.
    Transient {
        /// The server's own word.
        retry_after: Option<Duration>,
    },
    /// Nothing was done, and the same request will be refused again.
    Refused,
    /// Will not pass by waiting; it isn't known whether something was done.
    Permanent,
    /// Not a byte was sent.
    NotSent,
    /// It isn't known whether something was done.
    Broken,
}

impl Error {
    /// Whether what was asked for is gone or in another state (`failed_precondition`, `not_found`), told apart from what is never allowed.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Service(error) if matches!(error.code, Some(Code::FailedPrecondition | Code::NotFound)))
    }

    /// What this failure proves.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotSent(_) => Kind::NotSent,
            Self::Broken(_) => Kind::Broken,
            Self::Unreadable(_) => Kind::Permanent,
            Self::Service(error) => error.kind(),
        }
    }

    /// A failure of the HTTP client, without the URL.
    pub(super) fn from_http(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let text = chain(&error);
        // A builder error comes before the connection; a connect error covers DNS, TCP, the proxy's tunnel and TLS.
        if error.is_connect() || error.is_builder() { Self::NotSent(text) } else { Self::Broken(text) }
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// The texts of an error and its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    presentable(&text)
}

/// Connect's error codes, and the text of a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Connect's own")]
pub enum Code {
    Canceled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    const ALL: [(Self, &'static str); 16] = [
        (Self::Canceled, "canceled"),
        (Self::Unknown, "unknown"),
        (Self::InvalidArgument, "invalid_argument"),
        (Self::DeadlineExceeded, "deadline_exceeded"),
        (Self::NotFound, "not_found"),
        (Self::AlreadyExists, "already_exists"),
        (Self::PermissionDenied, "permission_denied"),
        (Self::ResourceExhausted, "resource_exhausted"),
        (Self::FailedPrecondition, "failed_precondition"),
        (Self::Aborted, "aborted"),
        (Self::OutOfRange, "out_of_range"),
        (Self::Unimplemented, "unimplemented"),
        (Self::Internal, "internal"),
        (Self::Unavailable, "unavailable"),
        (Self::DataLoss, "data_loss"),
        (Self::Unauthenticated, "unauthenticated"),
    ];

    /// The code of a snake_case name; `None` for one that Connect doesn't define.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(code, _)| code.clone())
    }

    /// Its snake_case name.
    pub fn name(&self) -> &'static str {
        Self::ALL.iter().find(|(code, _)| code == self).map_or("unknown", |(_, name)| name)
    }

    /// The code that a status stands for where the body names none. Connect's own table for answers that aren't its own: what a proxy or a web
    /// server says proves as little as possible. `None` for a status without meaning here (a redirect, most of 4xx).
    fn from_status(status: u16) -> Option<Self> {
        match status {
            401 => Some(Self::Unauthenticated),
            403 => Some(Self::PermissionDenied),
            // Nobody answers to this path: an unknown method.
            404 | 501 => Some(Self::Unimplemented),
            408 => Some(Self::DeadlineExceeded),
            429 => Some(Self::ResourceExhausted),
            502..=504 => Some(Self::Unavailable),
            500..=599 => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// An answer that is an error (wire reference, section 1.4). Every level of its JSON is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct ServiceError {
    /// The HTTP status; `None` for an end frame, which comes under HTTP 200.
    pub status: Option<u16>,
    /// The code of the body, else what the status stands for.
    pub code: Option<Code>,
    /// `details[].debug.error`, for example `ERROR_NOT_LOGGED_IN`.
    pub reason: Option<String>,
    /// The human text: `details[].debug.details.title` and `detail`, else `message` unless that is the bare word `Error`. Shortened.
    pub text: Option<String>,
    /// `Retry-After`, in seconds or as a date relative to the answer's own `Date` (so the local clock doesn't matter).
    pub retry_after: Option<Duration>,
    /// `x-grok-bot-refusal`.
    pub refusal: Option<String>,
    /// The answer's `Date`, in milliseconds since the Unix epoch.
    pub date_ms: Option<i64>,
}

impl ServiceError {
    /// Reads an answer with a status other than 200. `body` may be anything, or nothing.
    pub(super) fn from_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut error = Self::default();
        if let Ok(wire) = serde_json::from_slice::<WireError<'_>>(body) {
            error.fill(&wire);
        }
        error.status = Some(status);
        error.code = error.code.or_else(|| Code::from_status(status));
        error.refusal = text_header(headers, "x-grok-bot-refusal").map(presentable);
        error.date_ms = date_ms(headers);
        error.retry_after =
            text_header(headers, RETRY_AFTER.as_str()).and_then(|text| retry_after(text, error.date_ms));
        error
    }

    /// Reads the payload of an end frame: `Ok(None)` is a clean end.
    pub(super) fn from_end(payload: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        if payload.is_empty() {
            return Ok(None);
        }
        let end: WireEnd<'_> = serde_json::from_slice(payload)?;
        let Some(raw) = end.error.filter(|raw| raw.get() != "null") else {
            return Ok(None);
        };
        let mut error = Self::default();
        if let Ok(wire) = serde_json::from_str::<WireError<'_>>(raw.get()) {
            error.fill(&wire);
        }
        // Metadata stands for headers that came too late to be headers.
        let metadata = end
            .metadata
            .and_then(|raw| serde_json::from_str::<std::collections::BTreeMap<String, Vec<String>>>(raw.get()).ok());
        for (name, values) in metadata.unwrap_or_default() {
            let first = values.first().map(String::as_str);
            if name.eq_ignore_ascii_case(RETRY_AFTER.as_str()) {
                error.retry_after = first.and_then(|text| retry_after(text, None));
            } else if name.eq_ignore_ascii_case("x-grok-bot-refusal") {
                error.refusal = first.map(presentable);
            }
        }
        Ok(Some(error))
    }

    fn fill(&mut self, wire: &WireError<'_>) {
        self.code = text_of(wire.code).and_then(|name| Code::from_name(&name));
        let details: Vec<&RawValue> =
            wire.details.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for raw in details {
            let debug = serde_json::from_str::<WireDetail<'_>>(raw.get()).ok().and_then(|detail| detail.debug);
            let Some(debug) = debug.and_then(|raw| serde_json::from_str::<WireDebug<'_>>(raw.get()).ok()) else {
                continue;
            };
            self.reason = self.reason.take().or_else(|| text_of(debug.error).map(|text| presentable(&text)));
            let inner = debug.details.and_then(|raw| serde_json::from_str::<WireText<'_>>(raw.get()).ok());
            if let (None, Some(inner)) = (&self.text, inner) {
                let parts: Vec<String> = [text_of(inner.title), text_of(inner.detail)].into_iter().flatten().collect();
                if !parts.is_empty() {
                    self.text = Some(presentable(&parts.join(": ")));
                }
            }
        }
        if self.text.is_none() {
            self.text =
                text_of(wire.message).filter(|text| !text.is_empty() && text != "Error").map(|text| presentable(&text));
        }
    }

    fn kind(&self) -> Kind {
        let transient = Kind::Transient { retry_after: self.retry_after };
        // A status of 401 is an authentication error whatever its body says.
        if self.status == Some(401) {
            return Kind::Auth;
        }
        match self.code {
            Some(Code::Unauthenticated) => Kind::Auth,
            Some(
                Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::PermissionDenied
                | Code::NotFound
                | Code::Unimplemented
                | Code::OutOfRange,
            ) => Kind::Refused,
            Some(
                Code::Unavailable
                | Code::ResourceExhausted
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::Canceled
                | Code::Internal
                | Code::Unknown,
            ) => transient,
            // An end frame with an error that names no code we know: a newer server's, or a cut one. Reconnecting is right for both.
            None if self.status.is_none() => transient,
            Some(Code::AlreadyExists | Code::DataLoss) | None => Kind::Permanent,
        }
    }

    fn summary(&self) -> String {
        let mut parts = Vec::new();
        match self.status {
            Some(status @ 300..400) => parts.push(format!("HTTP {status}, a redirect that isn't followed")),
            Some(status) => parts.push(format!("HTTP {status}")),
            None => parts.push("end of stream with an error".to_owned()),
        }
        parts.extend(self.code.as_ref().map(|code| code.name().to_owned()));
        parts.extend(self.reason.clone());
        parts.extend(self.text.clone());
        parts.extend(self.refusal.as_ref().map(|refusal| format!("refusal {refusal}")));
        parts.join(", ")
    }
}

/// A text of somebody else made fit for a log: one line, short, and without what could be a secret: long words (tokens) are cut, and so are the
/// query and the fragment of URLs.
pub(super) fn presentable(text: &str) -> String {
    const WORDS: usize = 40;
    const WORD: usize = 60;
    let mut line = String::new();
    for word in text.split_whitespace().take(WORDS) {
        if !line.is_empty() {
            line.push(' ');
        }
        let word = match word.split_once("://") {
            Some(_) => word.split(['?', '#']).next().unwrap_or_default(),
            None => word,
        };
        if word.chars().count() > WORD {
            line.extend(word.chars().filter(|c| !c.is_control()).take(8));
            line.push('…');
        } else {
            line.extend(word.chars().filter(|c| !c.is_control()));
        }
    }
    line
}

fn text_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// The `Date` header in milliseconds since the Unix epoch.
pub(super) fn date_ms(headers: &HeaderMap) -> Option<i64> {
    text_header(headers, DATE.as_str()).and_then(http_date_ms)
}

fn http_date_ms(text: &str) -> Option<i64> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Seconds, or a date counted from the answer's own date; a date without one says nothing that could be relied on.
fn retry_after(text: &str, date_ms: Option<i64>) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let wait = http_date_ms(text)?.saturating_sub(date_ms?);
    Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
}

/// The value where it is a string.
fn text_of(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

#[derive(Deserialize)]
struct WireEnd<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    details: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireDetail<'a> {
    #[serde(borrow)]
    debug: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireDebug<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    details: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireText<'a> {
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> ServiceError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        ServiceError::from_answer(status, &map, body.as_bytes())
    }

    fn kind(status: u16, body: &str) -> Kind {
        answer(status, &[], body).kind()
    }

    const PASSING: Kind = Kind::Transient { retry_after: None };

    #[test]
    fn the_code_goes_before_the_status() {
        for (code, expected) in [
            ("unauthenticated", Kind::Auth),
            ("invalid_argument", Kind::Refused),
            ("failed_precondition", Kind::Refused),
            ("permission_denied", Kind::Refused),
            ("not_found", Kind::Refused),
            ("unimplemented", Kind::Refused),
            ("out_of_range", Kind::Refused),
            ("unavailable", PASSING),
            ("resource_exhausted", PASSING),
            ("deadline_exceeded", PASSING),
            ("internal", PASSING),
            ("unknown", PASSING),
            ("aborted", PASSING),
            ("canceled", PASSING),
            ("data_loss", Kind::Permanent),
            ("already_exists", Kind::Permanent),
        ] {
            let body = format!(r#"{{"code":"{code}","message":"Error"}}"#);
            assert_eq!(kind(500, &body), expected, "{code} under 500");
            assert_eq!(kind(400, &body), expected, "{code} under 400");
            let end = format!(r#"{{"error":{body}}}"#);
            let end = ServiceError::from_end(end.as_bytes()).unwrap().unwrap();
            assert_eq!((end.kind(), end.status), (expected, None), "{code} in an end frame");
        }
        assert_eq!(kind(401, r#"{"code":"permission_denied"}"#), Kind::Auth, "401 is 401");
    }

    #[test]
    fn a_status_alone_proves_little() {
        for (status, expected) in [
            (401, Kind::Auth),
            (403, Kind::Refused),
            (404, Kind::Refused),
            (501, Kind::Refused),
            (408, PASSING),
            (429, PASSING),
            (500, PASSING),
            (502, PASSING),
            (503, PASSING),
            (504, PASSING),
            (302, Kind::Permanent),
            (400, Kind::Permanent),
            (415, Kind::Permanent),
        ] {
            for body in ["", "<html>Bad</html>", "{}", "[]", r#"{"code":5}"#, r#"{"code":"brand_new"}"#, "null"] {
                assert_eq!(kind(status, body), expected, "{status} with {body:?}");
            }
        }
        assert_eq!(answer(404, &[], "not here").code, Some(Code::Unimplemented), "an unknown method");
    }

    #[test]
    fn human_text_is_found_in_the_details() {
        let error = answer(
            401,
            &[("x-grok-bot-refusal", "box_harness")],
            r#"{"code":"unauthenticated","message":"Error","details":[{"type":"aiserver.v1.ErrorDetails","debug":{"error":"ERROR_NOT_LOGGED_IN","details":{"title":"Sign in again","detail":"The session ended.","isRetryable":false},"isExpected":true},"value":"CAE"}]}"#,
        );
        assert_eq!(error.reason.as_deref(), Some("ERROR_NOT_LOGGED_IN"));
        assert_eq!(error.text.as_deref(), Some("Sign in again: The session ended."));
        assert_eq!(error.refusal.as_deref(), Some("box_harness"));
        assert_eq!(
            Error::Service(Box::new(error)).to_string(),
            "HTTP 401, unauthenticated, ERROR_NOT_LOGGED_IN, Sign in again: The session ended., refusal box_harness"
        );
    }

    #[test]
    fn odd_error_bodies_lose_only_what_is_odd() {
        for (body, code, text) in [
            (r#"{"code":"internal","message":7,"details":"none"}"#, Some(Code::Internal), None),
            (
                r#"{"code":"internal","message":"Disk full","details":[5,null,{"debug":3}]}"#,
                Some(Code::Internal),
                Some("Disk full"),
            ),
            (
                r#"{"code":"internal","message":"Error","details":[{},{"debug":{"details":{"detail":"Later"}}}]}"#,
                Some(Code::Internal),
                Some("Later"),
            ),
        ] {
            let error = answer(500, &[], body);
            assert_eq!((error.code, error.text.as_deref()), (code, text), "{body}");
        }
    }

    #[test]
    fn retry_after_in_seconds_or_as_a_date() {
        let at = |headers: &[(&'static str, &str)]| answer(503, headers, "").retry_after;
        assert_eq!(at(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        let date = ("date", "Mon, 30 Nov 2026 10:00:00 GMT");
        let later = ("retry-after", "Mon, 30 Nov 2026 10:00:30 GMT");
        assert_eq!(at(&[date, later]), Some(Duration::from_secs(30)), "by the server's own clock");
        assert_eq!(at(&[later]), None);
        assert_eq!(at(&[date, ("retry-after", "Mon, 30 Nov 2026 09:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(at(&[("retry-after", "soon")]), None);
        assert_eq!(at(&[("retry-after", "-1")]), None);
        let end = br#"{"error":{"code":"unavailable"},"metadata":{"Retry-After":["3"]}}"#;
        let error = ServiceError::from_end(end).unwrap().unwrap();
        assert_eq!(error.kind(), Kind::Transient { retry_after: Some(Duration::from_secs(3)) });
    }

    #[test]
    fn end_frames() {
        for clean in ["", "{}", r#"{"error":null}"#, r#"{"metadata":{"x":["y"]}}"#] {
            assert_eq!(ServiceError::from_end(clean.as_bytes()).unwrap(), None, "{clean}");
        }
        for odd in [r#"{"error":{}}"#, r#"{"error":"no"}"#, r#"{"error":{"code":"brand_new"}}"#] {
            let error = ServiceError::from_end(odd.as_bytes()).unwrap().unwrap();
            assert_eq!(error.kind(), PASSING, "{odd}");
        }
        assert!(ServiceError::from_end(b"not json").is_err());
    }

    #[test]
    fn texts_of_others_cannot_carry_secrets_into_a_log() {
        let jwt = format!("eyJ{}.{}", "a".repeat(100), "b".repeat(40));
        let text = presentable(&format!("bad token {jwt}\nsee https://example.test/a?sig=secret#frag now\u{7}"));
        assert_eq!(text, "bad token eyJaaaaa… see https://example.test/a now");
        assert!(presentable(&"word ".repeat(1000)).len() < 300);
    }
}

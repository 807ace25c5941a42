//! JSON-RPC 2.0 without I/O: one text in, one message out, and the texts to send.
//!
//! Invariants: an id is given back byte for byte as it came (a number beyond a double stays exact); nothing here answers by itself or knows a method;
//! batches don't exist.

mod pending;

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use pending::Pending;

/// The text isn't JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The JSON isn't a request, a notification or a response.
pub const INVALID_REQUEST: i32 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The params don't fit the method.
pub const INVALID_PARAMS: i32 = -32602;
/// A fault of ours.
pub const INTERNAL_ERROR: i32 = -32603;

/// The id of a request: a string, a number or null, as it was written.
#[derive(Clone, Debug)]
pub struct Id(Box<RawValue>);

impl Id {
    /// The id of an answer to something whose id couldn't be read.
    #[must_use]
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Its length, as it was written.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.get().len()
    }

    fn parse(raw: &RawValue) -> Option<Self> {
        // A string has to be a whole one: a half surrogate can't be given back.
        let valid = match raw.get().as_bytes().first()? {
            b'"' => serde_json::from_str::<String>(raw.get()).is_ok(),
            b'-' | b'0'..=b'9' | b'n' => true,
            _ => false,
        };
        valid.then(|| Self(raw.to_owned()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

/// One message of the peer.
#[derive(Debug)]
pub enum Message {
    /// Wants exactly one response.
    Request {
        /// Goes back with it.
        id: Id,
        /// What is wanted.
        method: String,
        /// An object or an array; `None` where absent.
        params: Option<Box<RawValue>>,
    },
    /// Wants none.
    Notification {
        /// What is said.
        method: String,
        /// An object or an array; `None` where absent.
        params: Option<Box<RawValue>>,
    },
    /// The response to a request of ours.
    Response {
        /// The request's id.
        id: Id,
        /// Its result, or its error.
        result: Result<Box<RawValue>, ErrorObject>,
    },
}

/// A text that is no message, and what is to be answered.
#[derive(Debug)]
pub struct Reject {
    /// The id that could be read, else null.
    pub id: Id,
    /// Why.
    pub fault: Fault,
}

/// Why a text is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not JSON, or not UTF-8.
    #[error("not JSON")]
    NotJson,
    /// A batch.
    #[error("a batch")]
    Batch,
    /// Not an object of JSON-RPC 2.0.
    #[error("not a JSON-RPC 2.0 message")]
    NotAMessage,
    /// Longer than is read.
    #[error("too long")]
    TooLong,
}

impl Fault {
    /// Its error code.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::NotJson => PARSE_ERROR,
            Self::Batch | Self::NotAMessage | Self::TooLong => INVALID_REQUEST,
        }
    }
}

/// The error of a response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ErrorObject {
    /// What kind of error.
    pub code: i64,
    /// One sentence.
    pub message: String,
}

/// Reads one text.
///
/// # Errors
/// A [`Reject`] that is to be answered.
pub fn parse(text: &str) -> Result<Message, Reject> {
    let reject = |id: Option<Id>, fault| Reject { id: id.unwrap_or_else(Id::null), fault };
    let raw: &RawValue = serde_json::from_str(text).map_err(|_| reject(None, Fault::NotJson))?;
    match raw.get().as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => return Err(reject(None, Fault::Batch)),
        _ => return Err(reject(None, Fault::NotAMessage)),
    }
    let Ok(fields) = serde_json::from_str::<HashMap<String, &RawValue>>(raw.get()) else {
        // A key that is no whole string.
        return Err(reject(None, Fault::NotAMessage));
    };
    let given_id = fields.get("id").map(|id| Id::parse(id));
    let id = given_id.clone().flatten();
    let fault = || reject(id.clone(), Fault::NotAMessage);
    if fields.get("jsonrpc").is_none_or(|version| version.get() != "\"2.0\"") || matches!(given_id, Some(None)) {
        return Err(fault());
    }
    let Some(method) = fields.get("method") else {
        // Read tolerantly: whoever waits for it is better served by an odd error at once than by none until its time is up.
        let error = fields.get("error").filter(|error| error.get() != "null");
        let result = match (fields.get("result"), error) {
            (_, Some(error)) => Err(serde_json::from_str(error.get()).unwrap_or_default()),
            (Some(result), None) => Ok((*result).to_owned()),
            (None, None) => return Err(fault()),
        };
        return Ok(Message::Response { id: id.clone().ok_or_else(fault)?, result });
    };
    let method: String = serde_json::from_str(method.get()).map_err(|_| fault())?;
    let params = match fields.get("params") {
        None => None,
        Some(params) if params.get().starts_with(['{', '[']) => Some((*params).to_owned()),
        Some(_) => return Err(fault()),
    };
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

#[derive(Serialize)]
struct ErrorText<'a, D> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    error: ErrorBody<'a, D>,
}

#[derive(Serialize)]
struct ErrorBody<'a, D> {
    code: i32,
    message: &'a str,
    data: &'a D,
}

#[derive(Serialize)]
struct CallText<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

/// The text of a response.
#[must_use]
pub fn response(id: &Id, result: &RawValue) -> String {
    let parts = [r#"{"jsonrpc":"2.0","id":"#, id.0.get(), r#","result":"#, result.get(), "}"];
    // A page is long: the text grows into its place once, with room for the end of its line.
    let mut text = String::with_capacity(parts.iter().map(|part| part.len()).sum::<usize>() + 1);
    text.extend(parts);
    text
}

/// The text of an error response.
#[must_use]
pub fn error<D: Serialize>(id: &Id, code: i32, message: &str, data: &D) -> String {
    let error = ErrorBody { code, message, data };
    write(&ErrorText { jsonrpc: "2.0", id: &id.0, error })
}

/// The text of a notification.
#[must_use]
pub fn notification<P: Serialize>(method: &str, params: &P) -> String {
    write(&CallText { jsonrpc: "2.0", id: None, method, params })
}

/// The text of a request of ours.
#[must_use]
pub fn request<P: Serialize>(id: u64, method: &str, params: &P) -> String {
    write(&CallText { jsonrpc: "2.0", id: Some(id), method, params })
}

fn write(message: &impl Serialize) -> String {
    // Our types have text keys and no failing serializer, so this can't fail; a peer would rather get nothing than half a text.
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> (Fault, String) {
        let reject = parse(text).expect_err(text);
        (reject.fault, reject.id.to_string())
    }

    #[test]
    fn h2_requests_notifications_and_responses_are_told_apart() {
        let request = parse(r#" {"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1},"more":true} "#).unwrap();
        let Message::Request { id, method, params } = request else {
            panic!("{request:?}");
        };
        assert_eq!((id.to_string().as_str(), method.as_str(), params.unwrap().get()), ("\"a\"", "m", r#"{"x":1}"#));
        let said = parse(r#"{"jsonrpc":"2.0","method":"m","params":[]}"#).unwrap();
        assert!(matches!(said, Message::Notification { params: Some(_), .. }));
        let answer = parse(r#"{"jsonrpc":"2.0","id":7,"result":null}"#).unwrap();
        assert!(matches!(answer, Message::Response { result: Ok(_), .. }));
        for odd in [r#""error":"no""#, r#""result":1,"error":{"code":"x"}"#, r#""error":{}"#] {
            let odd = parse(&format!(r#"{{"jsonrpc":"2.0","id":7,{odd}}}"#)).unwrap();
            assert!(matches!(odd, Message::Response { result: Err(_), .. }));
        }
        let refused = parse(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#).unwrap();
        assert!(matches!(refused, Message::Response { result: Err(ErrorObject { code: -1, .. }), .. }));
    }

    #[test]
    fn h2_an_id_goes_back_byte_for_byte() {
        for id in [
            "1",
            "0",
            "-3",
            "1.50",
            "9007199254740993",
            "123456789012345678901234567890",
            "1e3",
            "null",
            r#""""#,
            r#""\u00e9\n""#,
        ] {
            let request = parse(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)).unwrap();
            let Message::Request { id: parsed, .. } = request else {
                panic!("{request:?}");
            };
            assert_eq!(response(&parsed, RawValue::NULL), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
        }
    }

    #[test]
    fn h2_bad_json_is_a_parse_error_with_id_null() {
        for text in
            ["", "{", "nul", "{\"a\":}", "{} {}", "\u{feff}{}", "{'a':1}", r#"{"jsonrpc":"2.0","id":1,"method":"m""#]
        {
            assert_eq!(fault(text), (Fault::NotJson, "null".into()), "{text}");
        }
        assert_eq!(Fault::NotJson.code(), -32700);
    }

    #[test]
    fn h2_batches_are_refused() {
        for text in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, " [1]"] {
            assert_eq!(fault(text), (Fault::Batch, "null".into()));
        }
        assert_eq!(Fault::Batch.code(), -32600);
    }

    #[test]
    fn h2_invalid_request_objects_are_refused_with_the_id_that_could_be_read() {
        for (text, id) in [
            ("1", "null"),
            ("null", "null"),
            ("{}", "null"),
            (r#"{"id":1,"method":"m"}"#, "1"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "1"),
            (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, "1"),
            (r#"{"jsonrpc":"2.0","id":"a","method":1}"#, "\"a\""),
            (r#"{"jsonrpc":"2.0","id":"a","method":"m","params":null}"#, "\"a\""),
            (r#"{"jsonrpc":"2.0","id":"a","method":"m","params":"x"}"#, "\"a\""),
            (r#"{"jsonrpc":"2.0","method":"m","params":3}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":"\ud800","method":"m"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "1"),
            (r#"{"jsonrpc":"2.0","result":1}"#, "null"),
        ] {
            assert_eq!(fault(text), (Fault::NotAMessage, id.into()), "{text}");
        }
    }

    #[test]
    fn h2_depth_is_no_way_to_overflow_the_stack() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}{}}}"#,
            "[".repeat(500_000),
            "]".repeat(500_000)
        );
        assert!(matches!(parse(&deep), Ok(Message::Request { .. })) || fault(&deep).0 == Fault::NotJson);
    }

    #[test]
    fn texts_are_one_line() {
        let text = notification("m", &serde_json::json!({"text": "a\nb\u{2028}c"}));
        assert_eq!(text.lines().count(), 1);
        assert_eq!(request(3, "m", &()), r#"{"jsonrpc":"2.0","id":3,"method":"m","params":null}"#);
    }
}

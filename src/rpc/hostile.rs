use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;
use crate::fuzz::Corpus;

/// What a text is: its kind, and the id as it came.
fn kind(text: &str) -> (&'static str, Option<String>) {
    match parse(text) {
        Ok(Message::Request { id, .. }) => ("request", Some(id.to_string())),
        Ok(Message::Notification { .. }) => ("notification", None),
        Ok(Message::Response { id, .. }) => ("response", Some(id.to_string())),
        Err(Reject { id, fault: Fault::NotJson }) => ("not JSON", Some(id.to_string())),
        Err(Reject { id, fault: Fault::Batch }) => ("batch", Some(id.to_string())),
        Err(Reject { id, fault: Fault::NotAMessage }) => ("no message", Some(id.to_string())),
        Err(Reject { fault: Fault::TooLong, .. }) => panic!("a text has no limit here"),
    }
}

/// The same of a value: JSON-RPC by its definition.
fn by_definition(value: &Value) -> &'static str {
    let Some(fields) = value.as_object() else {
        return if value.is_array() { "batch" } else { "no message" };
    };
    let id = fields.get("id");
    let odd_id = id.is_some_and(|id| !(id.is_string() || id.is_number() || id.is_null()));
    if fields.get("jsonrpc") != Some(&"2.0".into()) || odd_id {
        return "no message";
    }
    match fields.get("method") {
        Some(Value::String(_)) => match (fields.get("params"), id) {
            (Some(params), _) if !(params.is_object() || params.is_array()) => "no message",
            (_, Some(_)) => "request",
            (_, None) => "notification",
        },
        None if id.is_some()
            && (fields.contains_key("result") || fields.get("error").is_some_and(|error| !error.is_null())) =>
        {
            "response"
        }
        Some(_) | None => "no message",
    }
}

#[test]
fn h2_any_text_is_one_message_or_one_fault_and_keeps_its_id() {
    Corpus::of("host-lines").fuzz(4000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let (kind, id) = kind(text);
        // No depth, number or half surrogate makes it less than JSON.
        assert_eq!(kind == "not JSON", serde_json::from_str::<IgnoredAny>(text).is_err(), "{text}");
        if let Some(id) = id.filter(|id| id != "null") {
            assert!(text.contains(&id), "{id} in {text}");
        }
        // Escapes may write one text in many ways, of which only the plain one counts.
        if let Some(value) = serde_json::from_str::<Value>(text).ok().filter(|_| !text.contains('\\')) {
            assert_eq!(kind, by_definition(&value), "{text}");
        }
    });
}

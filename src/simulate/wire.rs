//! JSON as the service writes and reads it (wire reference, section 2), by hand: nothing is shared with the client side, so that no
//! misunderstanding is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::faults::Refusal;
use super::options::Dialect;
use super::state::{Gone, Row};

/// A message under construction in a dialect.
#[derive(Debug)]
pub(super) struct Message {
    map: Map<String, Value>,
    dialect: Dialect,
}

impl Message {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { map: Map::new(), dialect }
    }

    fn put(mut self, name: &str, value: Value, default: bool) -> Self {
        if !default || self.dialect.defaults {
            self.map.insert(name.into(), value);
        }
        self
    }

    pub(super) fn text(self, name: &str, value: &str) -> Self {
        self.put(name, value.into(), value.is_empty())
    }

    /// A field with presence: left out where unset, whatever the dialect.
    pub(super) fn maybe(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.map.insert(name.into(), value.into());
        }
        self
    }

    pub(super) fn long(self, name: &str, value: u64) -> Self {
        let written = if self.dialect.long_numbers { value.into() } else { value.to_string().into() };
        self.put(name, written, value == 0)
    }

    /// Milliseconds since the epoch.
    pub(super) fn at(self, name: &str, value: i64) -> Self {
        self.long(name, u64::try_from(value).unwrap_or(0))
    }

    pub(super) fn int(self, name: &str, value: i64) -> Self {
        self.put(name, value.into(), value == 0)
    }

    pub(super) fn flag(self, name: &str, value: bool) -> Self {
        self.put(name, value.into(), !value)
    }

    /// An enum value: `prefix` + `short`. An empty `short` is the unspecified value.
    pub(super) fn name(self, name: &str, prefix: &str, short: &str) -> Self {
        let written = if self.dialect.short_enums { short.into() } else { format!("{prefix}{short}") };
        self.put(name, written.into(), short.is_empty())
    }

    pub(super) fn list(self, name: &str, value: Vec<Value>) -> Self {
        let empty = value.is_empty();
        self.put(name, value.into(), empty)
    }

    /// A sub-message that is set, however empty.
    pub(super) fn message(mut self, name: &str, value: Value) -> Self {
        self.map.insert(name.into(), value);
        self
    }

    /// Fields from outside win over ours; `null` removes.
    pub(super) fn over(mut self, extra: &Map<String, Value>) -> Self {
        for (name, value) in extra {
            if value.is_null() {
                self.map.remove(name);
            } else {
                self.map.insert(name.clone(), value.clone());
            }
        }
        self
    }

    pub(super) fn build(self) -> Value {
        Value::Object(self.map)
    }
}

/// How a row's body travels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline {
    /// `inlineBodyMaxBytes`; 0 is no limit here (upstream doesn't say).
    pub(super) max: u64,
    /// Above this the body is in the store.
    pub(super) blob_above: usize,
    /// The mark comes with the hash.
    pub(super) omitted_with_hash: bool,
}

/// `GrokBotTranscriptEntry`. `hash` stores a body apart and tells its hash.
pub(super) fn entry(dialect: Dialect, row: &Row, inline: Inline, hash: impl FnOnce(&Row) -> String) -> Value {
    let message = Message::new(dialect).long("seq", row.seq).text("entryKind", &row.kind);
    let message = if row.body.len() > inline.blob_above {
        message.text("blobHash", &hash(row)).flag("bodyOmitted", inline.omitted_with_hash)
    } else if inline.max > 0 && row.body.len() as u64 > inline.max {
        message.flag("bodyOmitted", true)
    } else {
        message.text("body", &STANDARD.encode(row.body.as_bytes())).flag("bodyOmitted", false)
    };
    message.long("updatedSeq", row.updated_seq).text("entryId", &row.entry_id).build()
}

/// One delete of a `rows` frame.
pub(super) fn delete(dialect: Dialect, gone: &Gone) -> Value {
    Message::new(dialect)
        .long("seq", gone.seq)
        .long("updatedSeq", gone.updated_seq)
        .text("entryId", &gone.entry_id)
        .build()
}

/// An envelope: flags, big-endian length, payload (wire reference, section 1.3).
pub(super) fn envelope(flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(payload.len() + 5);
    bytes.push(flags);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The single envelope of a streaming request; `None` for anything else, above all for a bare body.
pub(super) fn only_envelope(bytes: &[u8]) -> Option<&[u8]> {
    let (head, payload) = bytes.split_at_checked(5)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    (head[0] == 0 && usize::try_from(length).ok()? == payload.len()).then_some(payload)
}

/// A request message. proto3 JSON: camelCase or snake_case names, 64-bit integers as strings or numbers, `null` as absent.
#[derive(Clone, Debug)]
pub(super) struct Asked(Map<String, Value>);

impl Asked {
    /// # Errors
    /// `invalid_argument` for anything but an object. An empty body is an empty message.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.is_empty() {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            _ => Err(Refusal::invalid("the message is no JSON object")),
        }
    }

    pub(super) fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.get(name).or_else(|| {
            let snake: String = name
                .chars()
                .flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain([c.to_ascii_lowercase()]))
                .collect();
            self.0.get(&snake)
        });
        found.filter(|value| !value.is_null())
    }

    fn wrong(name: &str) -> Refusal {
        Refusal::invalid(&format!("{name} has the wrong type"))
    }

    pub(super) fn text(&self, name: &str) -> Result<&str, Refusal> {
        match self.get(name) {
            None => Ok(""),
            Some(value) => value.as_str().ok_or_else(|| Self::wrong(name)),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| Self::wrong(name)),
        }
    }

    pub(super) fn long(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| Self::wrong(name)),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| Self::wrong(name)),
        }
    }

    pub(super) fn messages(&self, name: &str) -> Result<Vec<Self>, Refusal> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_object().cloned().map(Self).ok_or_else(|| Self::wrong(name))).collect()
            }
            Some(_) => Err(Self::wrong(name)),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<&str>, Refusal> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or_else(|| Self::wrong(name))).collect()
            }
            Some(_) => Err(Self::wrong(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_left_out_and_64_bit_integers_are_strings() {
        let build = |dialect| {
            Message::new(dialect)
                .text("a", "")
                .long("b", 9_007_199_254_740_993)
                .flag("c", false)
                .name("d", "X_", "Y")
                .int("e", 0)
                .list("f", vec![])
                .build()
        };
        assert_eq!(build(Dialect::default()), json!({"b": "9007199254740993", "d": "X_Y"}));
        let odd = Dialect { long_numbers: true, defaults: true, short_enums: true };
        assert_eq!(build(odd), json!({"a": "", "b": 9_007_199_254_740_993_u64, "c": false, "d": "Y", "e": 0, "f": []}));
    }

    #[test]
    fn a_bare_body_is_no_envelope() {
        assert_eq!(only_envelope(b"{}"), None);
        assert_eq!(only_envelope(&envelope(0, b"{}")), Some(&b"{}"[..]));
        assert_eq!(only_envelope(&envelope(2, b"{}")), None);
        assert_eq!(only_envelope(&[envelope(0, b"{}"), envelope(0, b"{}")].concat()), None);
    }

    #[test]
    fn requests_may_use_either_spelling_and_either_form_of_a_number() {
        let asked = Asked::parse(br#"{"before_seq":"18446744073709551615","limit":3,"agentId":null}"#).unwrap();
        assert_eq!(asked.long("beforeSeq").unwrap(), Some(u64::MAX));
        assert_eq!(asked.long("limit").unwrap(), Some(3));
        assert_eq!(asked.text("agentId").unwrap(), "");
        assert!(Asked::parse(br#"{"limit":1.5}"#).unwrap().long("limit").is_err());
    }
}

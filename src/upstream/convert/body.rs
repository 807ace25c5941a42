//! Rows and their bodies (wire reference, sections 7 and 8).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use base64_simd::{STANDARD, STANDARD_NO_PAD};

use super::text::{self, tolerant};
use super::{card, entry_id, record, wall};
use crate::model::{BodyRef, Content, Entry, Malformed, Role, Row, RowBody};
use crate::upstream::wire::{self, Field, Odd, Present};

/// Reads rows one after the other through one buffer.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Bodies {
    buffer: Vec<u8>,
}

impl Bodies {
    /// A row, whatever its body is. Its place and its number are needed; left out they are 0, as every default is.
    pub(super) fn row(&mut self, wire: wire::Row<'_>) -> Result<Row, Malformed> {
        let kind = wire.entry_kind.is().unwrap_or_default();
        let odd = |reason| Malformed { kind: text::name(&kind), reason };
        let seq = wire.seq.or_default().map_err(|Odd| odd("seq isn't a whole number"))?;
        let number = wire.updated_seq.or_default().map_err(|Odd| odd("updatedSeq isn't a whole number"))?;
        let body = match wire.body {
            Field::Is(body) if !body.is_empty() => self.inline(&body, &kind),
            Field::Is(_) | Field::Absent => absent(&kind, wire.blob_hash, wire.body_omitted),
            Field::Odd => RowBody::Malformed(odd("the body isn't text")),
        };
        // The body says the envelope's id once more: one text serves both.
        let own = match &body {
            RowBody::Entry(entry) => entry.id.as_ref(),
            _ => None,
        };
        let entry_id = match (&wire.entry_id, own) {
            (Field::Is(id), Some(own)) if *id == own.as_str() => Some(own.clone()),
            _ => entry_id(wire.entry_id),
        };
        Ok(Row { seq, number, entry_id, body })
    }

    fn inline(&mut self, body: &str, kind: &str) -> RowBody {
        self.buffer.clear();
        // The standard alphabet; padding may be there or not.
        let base64 = if body.ends_with('=') { STANDARD } else { STANDARD_NO_PAD };
        match base64.decode_append(body, &mut self.buffer) {
            Ok(()) => from_blob(&self.buffer, kind),
            Err(_) => RowBody::Malformed(Malformed { kind: text::name(kind), reason: "the body isn't base64" }),
        }
    }
}

/// A row without its body: to be fetched if it may be a message (section 8), else nothing.
fn absent(kind: &str, hash: wire::Text<'_>, omitted: wire::Flag) -> RowBody {
    if never_a_message(kind) {
        return RowBody::Nothing;
    }
    let unfetched = |at| RowBody::Unfetched { at, kind: text::name(kind) };
    match hash {
        Field::Is(hash) if !hash.is_empty() => unfetched(BodyRef::Blob(Arc::from(&*hash))),
        Field::Odd => RowBody::Malformed(Malformed { kind: text::name(kind), reason: "blobHash isn't text" }),
        _ if matches!(omitted, Field::Is(true)) => unfetched(BodyRef::Omitted),
        _ => RowBody::Nothing,
    }
}

/// The kinds of section 7.2 that are no message by themselves. A kind never heard of may be one.
fn never_a_message(kind: &str) -> bool {
    matches!(kind, "tool-call" | "notice" | "event" | "feedback" | "voice-call" | "spend-initiation" | "error")
}

/// The JSON text of a body, as it lies in the box store or inside a row. `kind` is the envelope's; the body's own goes before it.
pub(in crate::upstream) fn from_blob(body: &[u8], kind: &str) -> RowBody {
    let odd = |kind: &str, reason| RowBody::Malformed(Malformed { kind: text::name(kind), reason });
    let Ok(text) = simdutf8::basic::from_utf8(body) else {
        return odd(kind, "the body isn't UTF-8");
    };
    tolerant(text, |text| {
        let mut body: wire::Body<'_> = record(text)?;
        let own = std::mem::take(&mut body.kind).is().unwrap_or_default();
        let kind = if own.is_empty() { Cow::Borrowed(kind) } else { own };
        Some(match entry(body, &kind, text) {
            Ok(entry) => RowBody::Entry(Box::new(entry)),
            Err(reason) => odd(&kind, reason),
        })
    })
    .unwrap_or_else(|| odd(kind, "the body isn't a JSON object that can be read"))
}

fn entry(mut body: wire::Body<'_>, kind: &str, text: &str) -> Result<Entry, &'static str> {
    let reply_to = card::reply_to(&mut body);
    let mut entry = Entry {
        id: entry_id(std::mem::take(&mut body.id)),
        at: wall(body.timestamp_ms),
        nonce: std::mem::take(&mut body.client_nonce)
            .is()
            .filter(|nonce| !nonce.is_empty())
            .map(|nonce| Arc::from(&*nonce)),
        role: match std::mem::take(&mut body.role).is().as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => Role::Other,
        },
        between_bots: body.from_agent.0 || body.to_agent.0,
        automation: automation(text),
        branched: matches!(body.branched, Field::Is(true)),
        has_author: body.author.0,
        reply_to,
        content: Content::Message("".into()),
    };
    entry.content = match kind {
        "message" => match body.content {
            Field::Is(content) => Content::Message(Arc::from(&*content)),
            _ => return Err("content isn't text"),
        },
        "send-message" => Content::Sent(card::sent(body)?),
        "user-attachment" => Content::UserAttachment(card::user_attachment(body)?),
        _ => Content::Other {
            kind: text::name(kind),
            content: body.content.is().map(|content| Arc::from(&*content)),
            unknown: !never_a_message(kind),
        },
    };
    Ok(entry)
}

/// Whether the body's root holds a field of a routine: `automationName`, `automationId` or a newer one. Which ones there are isn't known, so every
/// name that starts so counts.
fn automation(text: &str) -> bool {
    // Nearly all bodies are done with the search; the keys are read only where the word stands somewhere.
    text.contains("\"automation")
        && serde_json::from_str::<HashMap<String, Present>>(text)
            .is_ok_and(|root| root.iter().any(|(key, value)| key.starts_with("automation") && value.0))
}

//! Rows and their bodies (wire reference, sections 7 and 8).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use base64_simd::{STANDARD, STANDARD_NO_PAD};
use serde_json::StreamDeserializer;
use serde_json::de::StrRead;

use super::text::{self, tolerant};
use super::{card, entry_id, record, wall};
use crate::model::{BodyRef, Content, Entry, Malformed, Role, Row, RowBody};
use crate::upstream::wire::{self, Field, Odd, Present};

/// How many rows' bodies are decoded before they are read: few enough that they are read while they are still in the processor's cache.
pub(super) const BATCH: usize = 16;

/// A buffer that grew beyond this is given back, so that one large frame isn't paid for during the whole life of a stream.
const KEEP: usize = 1024 * 1024;

/// Reads rows of a list, a batch at a time, through one buffer.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Bodies {
    buffer: Vec<u8>,
}

impl Bodies {
    /// Reads up to [`BATCH`] rows, which are taken. Each goes to `to`; one that can't be read at all as `None`.
    pub(super) fn rows(
        &mut self,
        batch: &mut [Field<wire::Row<'_, wire::Long<'_>>>],
        mut to: impl FnMut(Option<Result<Row, Malformed>>),
    ) {
        let inline = batch.iter().map(|entry| match entry {
            Field::Is(wire::Row { body: wire::Long(Field::Is(body)), .. }) => &**body,
            _ => "",
        });
        self.buffer.clear();
        // More than they come to; the decoder would make room for each alone.
        self.buffer.reserve(inline.clone().map(str::len).sum());
        let mut places = [const { None }; BATCH];
        for (body, place) in inline.zip(&mut places) {
            *place = decode(body, &mut self.buffer);
        }
        let mut reader = Reader::new(&self.buffer);
        for (entry, place) in batch.iter_mut().zip(places) {
            to(entry.take().is().map(|wire| row_with(wire, |_, kind| reader.body(place, kind))));
        }
        if self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
    }
}

/// A row by itself.
pub(super) fn row(wire: wire::Row<'_, wire::Text<'_>>) -> Result<Row, Malformed> {
    row_with(wire, |body, kind| {
        let mut buffer = Vec::new();
        let place = decode(body, &mut buffer);
        Reader::new(&buffer).body(place, kind)
    })
}

/// A row, whatever its body is; `inline` reads one that is in the row. Its place and its number are needed; left out they are 0, as every default is.
fn row_with<'a>(
    wire: wire::Row<'a, impl Into<wire::Text<'a>>>,
    inline: impl FnOnce(&str, &str) -> RowBody,
) -> Result<Row, Malformed> {
    let kind = wire.entry_kind.is().unwrap_or_default();
    let odd = |reason| Malformed { kind: text::name(&kind), reason };
    let seq = wire.seq.or_default().map_err(|Odd| odd("seq isn't a whole number"))?;
    let number = wire.updated_seq.or_default().map_err(|Odd| odd("updatedSeq isn't a whole number"))?;
    let body = match wire.body.into() {
        Field::Is(body) if !body.is_empty() => inline(&body, &kind),
        Field::Is(_) | Field::Absent => absent(&kind, wire.blob_hash, wire.body_omitted),
        Field::Odd => RowBody::Malformed(odd("the body isn't text")),
    };
    Ok(Row { seq, number, entry_id: entry_id(wire.entry_id), body })
}

/// Appends what a body holds to `buffer` and says where it lies; `None` for one that isn't base64.
fn decode(body: &str, buffer: &mut Vec<u8>) -> Option<Range<usize>> {
    let start = buffer.len();
    // The standard alphabet; padding may be there or not.
    let base64 = if body.ends_with('=') { STANDARD } else { STANDARD_NO_PAD };
    if base64.decode_append(body, buffer).is_ok() {
        Some(start..buffer.len())
    } else {
        buffer.truncate(start);
        None
    }
}

/// Reads bodies that lie one behind the other with one deserializer. A text with escapes goes through a buffer of the deserializer, and with one for
/// each body that buffer would grow from nothing for each text: a tenth of the work of reading.
///
/// A body is what it is by itself, whatever lies around it: what was read counts only where it began and ended with its body, so that not a byte of
/// a neighbour was in it. All else is read by itself, and the next body by a new deserializer.
struct Reader<'a> {
    bytes: &'a [u8],
    /// All of them, if all are UTF-8; each is by itself if its ends are no middles of characters.
    text: Option<&'a str>,
    stream: Stream<'a>,
    /// Where the stream began.
    from: usize,
}

type Stream<'a> = StreamDeserializer<'a, StrRead<'a>, wire::Body<'a>>;

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let text = simdutf8::basic::from_utf8(bytes).ok();
        Self { bytes, text, stream: Stream::new(StrRead::new(text.unwrap_or_default())), from: 0 }
    }

    /// The body at a place, which must not lie before one that was read.
    fn body(&mut self, place: Option<Range<usize>>, kind: &str) -> RowBody {
        let Some(place) = place else {
            return RowBody::Malformed(Malformed { kind: text::name(kind), reason: "the body isn't base64" });
        };
        self.among(&place, kind).unwrap_or_else(|| from_blob(&self.bytes[place], kind))
    }

    /// `None` for a body that must be read by itself.
    fn among(&mut self, place: &Range<usize>, kind: &str) -> Option<RowBody> {
        let text = self.text?;
        let own = text.get(place.clone()).filter(|own| own.starts_with('{'))?;
        // Behind one that failed the stream stands where that one began.
        if self.from + self.stream.byte_offset() != place.start {
            self.stream = Stream::new(StrRead::new(&text[place.start..]));
            self.from = place.start;
        }
        match self.stream.next() {
            Some(Ok(mut body)) if self.from + self.stream.byte_offset() == place.end => {
                Some(known(&mut body, kind, own))
            }
            _ => None,
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
    tolerant(text, |text| Some(known(&mut record(text)?, kind, text)))
        .unwrap_or_else(|| odd(kind, "the body isn't a JSON object that can be read"))
}

/// A body that could be read as JSON, and its text.
fn known(body: &mut wire::Body<'_>, kind: &str, text: &str) -> RowBody {
    let own = body.kind.take().is().unwrap_or_default();
    let kind = if own.is_empty() { kind } else { &*own };
    match entry(body, kind, text) {
        Ok(entry) => RowBody::Entry(Box::new(entry)),
        Err(reason) => RowBody::Malformed(Malformed { kind: text::name(kind), reason }),
    }
}

fn entry(body: &mut wire::Body<'_>, kind: &str, text: &str) -> Result<Entry, &'static str> {
    let reply_to = card::reply_to(body);
    let content = match kind {
        "message" => match body.content.take() {
            Field::Is(content) => Content::Message(content),
            _ => return Err("content isn't text"),
        },
        "send-message" => Content::Sent(card::sent(body)?),
        "user-attachment" => Content::UserAttachment(card::user_attachment(body)?),
        _ => Content::Other {
            kind: text::name(kind),
            content: body.content.take().is(),
            unknown: !never_a_message(kind),
        },
    };
    let nonce = body.client_nonce.take().is().filter(|nonce| !nonce.is_empty());
    Ok(Entry {
        id: entry_id(body.id.take()),
        at: wall(body.timestamp_ms),
        nonce: nonce.map(|nonce| Arc::from(&*nonce)),
        role: match &body.role {
            Field::Is(role) if role == "user" => Role::User,
            Field::Is(role) if role == "assistant" => Role::Assistant,
            _ => Role::Other,
        },
        between_bots: body.from_agent.0 || body.to_agent.0,
        automation: automation(text),
        branched: matches!(body.branched, Field::Is(true)),
        has_author: body.author.0,
        reply_to,
        content,
    })
}

/// Whether the body's root holds a field of a routine: `automationName`, `automationId` or a newer one. Which ones there are isn't known, so every
/// name that starts so counts.
fn automation(text: &str) -> bool {
    // Nearly all bodies are done with the search; the keys are read only where the word stands somewhere.
    text.contains("\"automation")
        && serde_json::from_str::<HashMap<String, Present>>(text)
            .is_ok_and(|root| root.iter().any(|(key, value)| key.starts_with("automation") && value.0))
}

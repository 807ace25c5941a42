//! Rows as the service writes them: about 1 KiB each with the texts that are asked for here, a tenth of them tool calls.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::data::{Rng, text, uuid};

/// The first timestamp.
const EPOCH_MS: u64 = 1_790_000_000_000;

/// A row of a Bot's transcript.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its place.
    pub(crate) seq: u64,
    /// `updatedSeq`.
    pub(crate) number: u64,
    /// `entryId` and the body's `id`.
    pub(crate) id: String,
    /// A message; else a tool call.
    pub(crate) message: bool,
    /// By the account; else by the Bot.
    pub(crate) own: bool,
    /// What it says.
    pub(crate) text: String,
}

impl Row {
    /// The row at `seq` (from 1) of a Bot, with a text of `average` bytes. A tenth are tool calls; of the messages about a third are the account's own.
    pub(crate) fn new(bot: usize, seq: u64, number: u64, average: usize) -> Self {
        let mut rng = Rng(((bot as u64) << 40) ^ seq);
        let (message, own) = (seq % 10 != 5, rng.below(3) == 0);
        Self { seq, number, id: uuid(&mut rng), message, own, text: text(&mut rng, average) }
    }

    /// The JSON inside `body`.
    pub(crate) fn body(&self) -> String {
        let at = EPOCH_MS + self.seq * 1000;
        let Self { id, text, .. } = self;
        let request = format!("req-{}", self.seq / 4);
        match (self.message, self.own) {
            (false, _) => {
                json!({"id": id, "kind": "tool-call", "name": "Shell", "status": "completed", "summary": text, "timestampMs": at})
            }
            (true, true) => {
                json!({"id": id, "kind": "message", "role": "user", "content": text, "timestampMs": at, "requestId": request})
            }
            (true, false) => {
                json!({"id": id, "kind": "send-message", "message": {"type": "text", "content": text}, "timestampMs": at, "requestId": request})
            }
        }
        .to_string()
    }

    /// `entryKind`.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.message, self.own) {
            (false, _) => "tool-call",
            (true, true) => "message",
            (true, false) => "send-message",
        }
    }

    /// The row as the service writes it: 64-bit numbers as text, the body in base64.
    pub(crate) fn wire(&self) -> String {
        let body = STANDARD.encode(self.body());
        let mut text = String::with_capacity(body.len() + 160);
        let (seq, kind, number, id) = (self.seq, self.kind(), self.number, &self.id);
        // Writing to a String can't fail.
        let _ = write!(
            text,
            r#"{{"seq":"{seq}","entryKind":"{kind}","body":"{body}","updatedSeq":"{number}","entryId":"{id}"}}"#
        );
        text
    }
}

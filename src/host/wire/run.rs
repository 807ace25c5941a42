//! `session/post` and `run/settled`: what becomes of a post.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Cursor;

/// The params of `session/post`.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostParams {
    /// Which record.
    pub record: String,
    /// The run to settle; a draft needs none.
    pub run: Option<Run>,
    /// Who calls; part of what makes the message's id.
    pub caller: Option<String>,
    /// The call; part of what makes the message's id.
    pub request_id: Option<String>,
    /// The text; a draft may lack it.
    pub text: Option<String>,
    /// The id of a message of the record.
    pub reply_to: Option<String>,
    /// Does nothing.
    pub draft: Option<bool>,
    /// Not taken.
    pub attachments: Option<Vec<serde_json::Value>>,
}

/// A run of the host.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Run {
    /// Its id.
    pub id: String,
}

/// The result of `session/post`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PostResult {
    /// Always true: everything later is a settle.
    #[schemars(extend("const" = true))]
    pub accepted: bool,
}

/// The params of `run/settled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub enum RunSettled {
    /// It can be read.
    Completed {
        /// The run.
        run: String,
        /// Where it can be read.
        result: Posted,
    },
    /// It failed, or nobody can be sure.
    Failed {
        /// The run.
        run: String,
        /// Why.
        reason: FailedReason,
        /// One sentence for a person.
        message: String,
    },
}

/// Where a posted message can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Posted {
    /// The message.
    pub message: PostedMessage,
}

/// A message's id and cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PostedMessage {
    /// Its id.
    pub id: String,
    /// Its cursor.
    pub cursor: Cursor,
}

/// Why a run failed. All but `unknown` say that nothing was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailedReason {
    /// Nobody can be sure.
    Unknown,
    /// The service refused it.
    Refused,
    /// Nobody is signed in.
    SignedOut,
    /// It never left.
    NotSent,
    /// The question can't be answered (any more).
    WidgetClosed,
}

impl fmt::Debug for PostParams {
    // The text is a person's: never in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostParams").field("record", &self.record).field("run", &self.run).finish_non_exhaustive()
    }
}

//! `records/…`: which records there are.

use schemars::JsonSchema;
use serde::Serialize;

use super::{BIND_VIEW, Cursor, SESSION_PROTOCOL};

/// The result of `records/list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RecordsListResult {
    /// In the order in which they came.
    pub records: Vec<Record>,
}

/// The params of `records/put`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RecordPut {
    /// Whole.
    pub record: Record,
}

/// The params of `records/withdrawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RecordWithdrawn {
    /// Its id.
    pub record: String,
    /// Why.
    pub reason: WithdrawnReason,
}

/// Why a record was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WithdrawnReason {
    /// The Bot is gone.
    Deleted,
    /// Another account.
    Account,
    /// Signed out.
    SignedOut,
}

/// A Bot's main session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Record {
    /// The same on every machine.
    pub id: String,
    /// [`SESSION_PROTOCOL`].
    #[schemars(extend("const" = SESSION_PROTOCOL))]
    pub protocol: &'static str,
    /// The Bot's name.
    pub title: String,
    /// The account.
    pub container: Container,
    /// The account itself, then the Bot.
    pub participants: Vec<Participant>,
    /// `null` while it is empty or can't be read yet.
    pub head: Option<Cursor>,
    /// What the Bot does, while it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Activity")]
    pub activity: Option<Activity>,
    /// `read`, `post`.
    #[schemars(extend("const" = ["read", "post"]))]
    pub actions: [&'static str; 2],
    /// [`BIND_VIEW`].
    #[schemars(extend("const" = [BIND_VIEW]))]
    pub views: [&'static str; 1],
}

/// What holds records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Container {
    /// The account's container.
    pub id: String,
    /// The account's name.
    pub title: String,
}

/// Who takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Participant {
    /// Its id in messages.
    pub id: String,
    /// Its name.
    pub name: String,
    /// A person or an agent.
    pub kind: ParticipantKind,
    /// Whether it is the one who reads this.
    #[serde(rename = "self", skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "bool", extend("const" = true))]
    pub own: bool,
}

/// A person or an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ParticipantKind {
    /// The account.
    Person,
    /// A Bot.
    Agent,
}

/// What a Bot does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Activity {
    /// One line.
    pub status: String,
    /// The Bot.
    pub participant: String,
}

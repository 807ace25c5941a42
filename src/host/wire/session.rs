//! `session/read`, `session/head`, `session/activity`: what a record says.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Activity, Cursor, Time};

/// The params of `session/read`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReadParams {
    /// Which record.
    pub record: String,
    /// The messages next above. Not null: a host that follows a head that isn't there yet must not be given the newest page instead.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    pub after: Option<String>,
    /// The messages next below.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    pub before: Option<String>,
    /// 1 to 500; 50 where absent.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<i64>,
}

/// The result of `session/read`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ReadResult<'a> {
    /// Ascending.
    pub messages: Vec<Message<'a>>,
    /// The head now.
    pub head: Option<Cursor>,
    /// What lies on either side.
    pub has_more: HasMore,
}

/// What lies on either side of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HasMore {
    /// Older messages.
    pub before: bool,
    /// Newer messages.
    pub after: bool,
}

/// A message of a record.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Message<'a> {
    /// Never used again for another text.
    pub id: String,
    /// Its place.
    pub cursor: Cursor,
    /// Who said it.
    pub from: &'a str,
    /// When; orders nothing.
    pub at: Time,
    /// What a person reads.
    pub text: &'a str,
    /// What it answers. The record may no longer hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MessageRef")]
    pub reply_to: Option<MessageRef>,
    /// Whom it addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub mentions: Vec<&'a str>,
    /// What it changes. The record may no longer hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "About")]
    pub about: Option<About>,
    /// What the contract has no field for.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Meta<MessageMeta<'a>>")]
    pub meta: Option<Meta<MessageMeta<'a>>>,
}

/// A message by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MessageRef {
    /// Its id.
    pub message: String,
}

/// A change of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct About {
    /// The message's id.
    pub message: String,
    /// Which change.
    pub change: Change,
}

/// Which change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Another text.
    Edit,
    /// Gone.
    Delete,
}

/// `_meta`: everything under the plugin's own key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Meta<T> {
    /// Ours.
    #[serde(rename = "grok-bot")]
    pub own: T,
}

/// What a message shows beside its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MessageMeta<'a> {
    /// A question with options.
    Widget(WidgetMeta<'a>),
    /// A file.
    Attachment(AttachmentMeta<'a>),
}

/// A question with options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WidgetMeta<'a> {
    /// The question.
    pub prompt: &'a str,
    /// What can be answered.
    pub options: Vec<OptionMeta<'a>>,
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OptionMeta<'a> {
    /// What a person reads.
    pub label: &'a str,
    /// What the service takes.
    pub value: &'a str,
}

/// A file: never a path or an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AttachmentMeta<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub size: Option<u64>,
}

/// The params of `session/head`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HeadChanged {
    /// Which record.
    pub record: String,
    /// `null`: the history begins anew.
    pub head: Option<Cursor>,
}

/// The params of `session/activity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ActivityChanged {
    /// Which record.
    pub record: String,
    /// `null`: nothing is shown any more.
    pub activity: Option<Activity>,
    /// The failure that ended the turn.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Meta<TurnMeta>")]
    pub meta: Option<Meta<TurnMeta>>,
}

/// What a removed activity tells besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct TurnMeta {
    /// The turn failed.
    pub turn_failed: TurnFailed,
}

/// A turn that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TurnFailed {
    /// The service's code.
    pub code: String,
    /// The service's summary.
    pub summary: String,
}

/// A field that may be absent, but not null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    String::deserialize(from).map(Some)
}

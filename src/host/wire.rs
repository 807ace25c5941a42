//! The contract's types as they cross the line, and nothing else: a correction of the format touches this file, `convert` and the schemas.
//!
//! What a host sends is read tolerantly (unknown fields are nothing); what goes to a host is exactly what its schema says.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The version of Coda's protocol that this program speaks.
pub const PROTOCOL_VERSION: &str = "5.7.0";
/// The plugin's id, and the key of everything in `_meta`.
pub const PLUGIN_ID: &str = "grok-bot";
/// The protocol of every record.
pub const SESSION_PROTOCOL: &str = "coda/session@1";
/// The one view.
pub const BIND_VIEW: &str = "bind";

/// Method names.
pub mod method {
    /// Host to provider, first and once.
    pub const INITIALIZE: &str = "initialize";
    /// Host to provider.
    pub const SHUTDOWN: &str = "shutdown";
    /// Host to provider.
    pub const RESOURCE_STATUS: &str = "resource/status";
    /// Host to provider.
    pub const RESOURCE_SIGN_IN: &str = "resource/signIn";
    /// Host to provider.
    pub const RESOURCE_CANCEL_SIGN_IN: &str = "resource/cancelSignIn";
    /// Host to provider.
    pub const RESOURCE_SIGN_OUT: &str = "resource/signOut";
    /// Host to provider.
    pub const RECORDS_LIST: &str = "records/list";
    /// Host to provider.
    pub const SESSION_READ: &str = "session/read";
    /// Host to provider.
    pub const SESSION_POST: &str = "session/post";
    /// Host to provider.
    pub const VIEW_OPEN: &str = "view/open";
    /// Provider to host, a request.
    pub const REMOTE_CODE: &str = "protocols/remoteCode";
    /// Provider to host.
    pub const RESOURCE_CHANGED: &str = "resource/changed";
    /// Provider to host.
    pub const RECORDS_PUT: &str = "records/put";
    /// Provider to host.
    pub const RECORDS_WITHDRAWN: &str = "records/withdrawn";
    /// Provider to host.
    pub const SESSION_HEAD: &str = "session/head";
    /// Provider to host.
    pub const SESSION_ACTIVITY: &str = "session/activity";
    /// Provider to host.
    pub const RUN_SETTLED: &str = "run/settled";
}

/// `<generation>:<updatedSeq>`, two unbounded decimal integers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(transparent)]
pub struct Cursor(#[schemars(length(max = 100), regex(pattern = r"^(0|[1-9][0-9]*):(0|[1-9][0-9]*)$"))] pub String);

/// RFC 3339 in UTC with milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(transparent)]
pub struct Time(
    #[schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"))] pub String,
);

/// The data of every error.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ErrorData {
    /// A stable word.
    pub kind: ErrorKind,
    /// With `history_reset` alone: the head now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Cursor>")]
    pub head: Option<Option<Cursor>>,
}

/// The stable words of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Something came before `initialize`.
    NotInitialized,
    /// No such record now.
    RecordNotFound,
    /// The cursor is of another life of the history.
    HistoryReset,
    /// Nobody is signed in.
    SignedOut,
    /// Not yet.
    NotReady,
    /// The host has no remote entry to give.
    RemoteUnavailable,
    /// Nobody can be sure that it was sent.
    SendUnconfirmed,
    /// The service refused it.
    Refused,
    /// Not a cursor.
    BadCursor,
    /// Attachments.
    TextOnly,
    /// The params don't fit.
    BadParams,
    /// JSON-RPC: not JSON.
    ParseError,
    /// JSON-RPC: not a request, or not one that may be made now.
    InvalidRequest,
    /// JSON-RPC: no such method.
    MethodNotFound,
    /// JSON-RPC: a fault of ours.
    Internal,
}

impl ErrorKind {
    /// The JSON-RPC code.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::SignedOut => -32000,
            Self::NotInitialized => -32002,
            Self::RecordNotFound => -32004,
            Self::HistoryReset => -32010,
            Self::NotReady => -32011,
            Self::RemoteUnavailable => -32012,
            Self::SendUnconfirmed => -32013,
            Self::Refused => -32014,
            Self::BadCursor | Self::TextOnly | Self::BadParams => crate::rpc::INVALID_PARAMS,
            Self::ParseError => crate::rpc::PARSE_ERROR,
            Self::InvalidRequest => crate::rpc::INVALID_REQUEST,
            Self::MethodNotFound => crate::rpc::METHOD_NOT_FOUND,
            Self::Internal => crate::rpc::INTERNAL_ERROR,
        }
    }
}

/// Params of a method that takes none, as an object.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
pub struct Nothing {}

/// The params of `initialize`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The version of Coda's protocol that the host speaks.
    pub protocol_version: String,
    /// Who the host is; for the log.
    pub host: Option<HostInfo>,
    /// Runs of this provider that the host holds unfinished from before a restart.
    pub open_runs: Option<Vec<OpenRun>>,
}

/// Who the host is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct HostInfo {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

/// A run that the host holds unfinished.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OpenRun {
    /// Its id.
    pub id: String,
}

/// The result of `initialize`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct InitializeResult {
    /// This plugin.
    pub plugin: PluginInfo,
    /// [`PROTOCOL_VERSION`].
    pub protocol_version: &'static str,
    /// [`SESSION_PROTOCOL`] alone.
    pub protocols: [&'static str; 1],
    /// [`BIND_VIEW`] alone.
    #[schemars(extend("const" = [BIND_VIEW]))]
    pub views: [&'static str; 1],
}

/// This plugin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PluginInfo {
    /// [`PLUGIN_ID`].
    pub id: &'static str,
    /// The crate's version.
    pub version: &'static str,
}

/// The resource page: result of `resource/status`, params of `resource/changed`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Status {
    /// Where the sign-in stands.
    pub state: StatusState,
    /// Who is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Named")]
    pub account: Option<Named>,
    /// The link, while confirming.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    /// The link's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub expires_at: Option<Time>,
    /// One sentence for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// One a Bot.
    pub items: Vec<Item>,
}

/// The states of the sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StatusState {
    /// Nobody.
    SignedOut,
    /// A link waits for its confirmation.
    Confirming,
    /// Somebody.
    SignedIn,
    /// Renewal failed for good.
    SignInAgain,
}

/// Something with an id and a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Named {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// A Bot on the resource page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Item {
    /// Its record.
    pub record: String,
    /// Its name.
    pub title: String,
    /// 「绑定」.
    pub button: Button,
}

/// A button that opens a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Button {
    /// What it says.
    pub text: &'static str,
    /// The view.
    pub view: &'static str,
    /// The record's id.
    pub args: [String; 1],
}

/// The result of `resource/signIn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct SignInResult {
    /// The link.
    pub url: String,
    /// Its end.
    pub expires_at: Time,
}

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
pub struct ReadResult {
    /// Ascending.
    pub messages: Vec<Message>,
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
pub struct Message {
    /// Never used again for another text.
    pub id: String,
    /// Its place.
    pub cursor: Cursor,
    /// Who said it.
    pub from: String,
    /// When; orders nothing.
    pub at: Time,
    /// What a person reads.
    pub text: String,
    /// What it answers. The record may no longer hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MessageRef")]
    pub reply_to: Option<MessageRef>,
    /// Whom it addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub mentions: Vec<String>,
    /// What it changes. The record may no longer hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "About")]
    pub about: Option<About>,
    /// What the contract has no field for.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Meta<MessageMeta>")]
    pub meta: Option<Meta<MessageMeta>>,
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
pub enum MessageMeta {
    /// A question with options.
    Widget(WidgetMeta),
    /// A file.
    Attachment(AttachmentMeta),
}

/// A question with options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WidgetMeta {
    /// The question.
    pub prompt: String,
    /// What can be answered.
    pub options: Vec<OptionMeta>,
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OptionMeta {
    /// What a person reads.
    pub label: String,
    /// What the service takes.
    pub value: String,
}

/// A file: never a path or an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AttachmentMeta {
    /// Its name.
    pub name: String,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub size: Option<u64>,
}

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

/// The params of `view/open`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ViewOpenParams {
    /// [`BIND_VIEW`].
    pub view: String,
    /// The record's id.
    #[schemars(length(equal = 1))]
    pub args: Vec<String>,
}

/// The result of `view/open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ViewOpenResult {
    /// `sent`.
    pub status: &'static str,
    /// What the page shows.
    pub text: &'static str,
}

/// The params of `protocols/remoteCode`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RemoteCodeParams {
    /// Which record the code is for.
    pub record: String,
}

/// The result of `protocols/remoteCode`. `expiresAt` comes too; nobody here needs it.
#[derive(Clone, Deserialize, JsonSchema)]
pub struct RemoteCodeResult {
    /// The code; a secret for as long as it lives.
    pub code: String,
    /// The entries of the host in the tailnet.
    pub addresses: Vec<String>,
}

impl fmt::Debug for PostParams {
    // The text is a person's: never in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostParams").field("record", &self.record).field("run", &self.run).finish_non_exhaustive()
    }
}

impl fmt::Debug for RemoteCodeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCodeResult").finish_non_exhaustive()
    }
}

/// A field that may be absent, but not null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    String::deserialize(from).map(Some)
}

//! The contract's types as they cross the line, and nothing else: a correction of the format touches this module, `convert` and the schemas.
//!
//! What a host sends is read tolerantly (unknown fields are nothing); what goes to a host is exactly what its schema says.

mod bind;
mod record;
mod resource;
mod run;
mod session;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bind::{RemoteCodeParams, RemoteCodeResult, ViewOpenParams, ViewOpenResult};
pub use record::{
    Activity, Container, Participant, ParticipantKind, Record, RecordPut, RecordWithdrawn, RecordsListResult,
    WithdrawnReason,
};
pub use resource::{Button, Item, Named, SignInResult, Status, StatusState};
pub use run::{FailedReason, PostParams, PostResult, Posted, PostedMessage, Run, RunSettled};
pub use session::{
    About, ActivityChanged, AttachmentMeta, Change, HasMore, HeadChanged, Message, MessageMeta, MessageRef, Meta,
    OptionMeta, ReadParams, ReadResult, TurnFailed, TurnMeta, WidgetMeta,
};

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

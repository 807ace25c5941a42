//! What a Bot is doing.

use std::sync::Arc;

/// The live state of one Bot's main session, whole (section 6 of the wire reference). Absent fields are false or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveState {
    /// `isRunning`.
    pub running: bool,
    /// `isComposingMessage`.
    pub composing: bool,
    /// `isRetrying`.
    pub retrying: bool,
    /// `activity`, where the object is present.
    pub activity: Option<LiveActivity>,
    /// `awaiting` is present.
    pub awaiting: bool,
}

/// `activity` as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveActivity {
    /// `kind`: `tool`, `thinking`, or a newer one.
    pub kind: Arc<str>,
    /// `tool`.
    pub tool: Arc<str>,
    /// `detail`.
    pub detail: Arc<str>,
}

/// What the host is told that a Bot does: one readable line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// At most 200 Unicode scalar values, one line.
    pub status: Arc<str>,
}

/// A turn that failed: no message, told with the removal of the activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFailure {
    /// The code as sent, for example `GROK_BOT_TURN_FAILURE_CODE_TIMEOUT`.
    pub code: Arc<str>,
    /// The service's own summary.
    pub summary: Arc<str>,
}

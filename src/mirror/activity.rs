//! What a Bot is doing, from its live states. No clock decides anything here but the spacing of notices.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Activity, LiveActivity, LiveState, Mono, TurnFailure};

/// The least time between two notices for one Bot.
pub const SPACING: Duration = Duration::from_millis(250);
const LONGEST: usize = 200;

/// A change of the activity to tell the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `None`: nothing is shown any more.
    pub activity: Option<Activity>,
    /// The failure that ended the turn.
    pub failure: Option<TurnFailure>,
}

/// One Bot's activity: what should be shown, and what the host was last told.
#[derive(Debug, Default)]
pub(super) struct Board {
    wanted: Option<Arc<str>>,
    failure: Option<TurnFailure>,
    told: Option<Arc<str>>,
    told_at: Option<Mono>,
    /// After a lost stream or a reset an increment says nothing until the next snapshot came. Not so for a Bot that is new in the roster: the
    /// snapshot of the stream under way came before it, and an increment is a whole state.
    awaiting_snapshot: bool,
}

impl Board {
    /// A whole state of the main session, or `None` where a snapshot lists none.
    pub(super) fn live(&mut self, state: Option<&LiveState>, snapshot: bool) {
        if snapshot {
            self.awaiting_snapshot = false;
        } else if self.awaiting_snapshot {
            return;
        }
        let Some(state) = state.filter(|state| busy(state)) else {
            self.wanted = None;
            return;
        };
        // Busy without an activity, or with one that says nothing readable, keeps the status shown.
        if let Some(status) = state.activity.as_ref().and_then(status) {
            self.wanted = Some(status);
        }
        if self.wanted.is_some() && self.told.is_none() {
            // A new turn: an older turn's failure has nothing to do with its end.
            self.failure = None;
        }
    }

    pub(super) fn turn_failed(&mut self, failure: TurnFailure) {
        // Told with the removal only; without an activity there is no removal.
        if self.wanted.is_some() || self.told.is_some() {
            self.failure = Some(failure);
        }
    }

    /// The stream was lost or the Bot was reset: the activity goes at once.
    pub(super) fn lose(&mut self, now: Mono) -> Option<Notice> {
        self.awaiting_snapshot = true;
        self.wanted = None;
        self.failure = None;
        self.told.take()?;
        self.told_at = Some(now);
        Some(Notice { activity: None, failure: None })
    }

    /// The notice that is due now, if any.
    pub(super) fn due(&mut self, now: Mono) -> Option<Notice> {
        if self.wanted == self.told || self.told_at.is_some_and(|at| now < at.after(SPACING)) {
            return None;
        }
        self.told.clone_from(&self.wanted);
        self.told_at = Some(now);
        let failure = if self.told.is_none() { self.failure.take() } else { None };
        Some(Notice { activity: self.told.clone().map(|status| Activity { status }), failure })
    }

    pub(super) fn deadline(&self) -> Option<Mono> {
        if self.wanted == self.told { None } else { Some(self.told_at.map_or(Mono::default(), |at| at.after(SPACING))) }
    }
}

fn busy(state: &LiveState) -> bool {
    state.running || state.composing || state.retrying || state.activity.is_some() || state.awaiting
}

fn status(activity: &LiveActivity) -> Option<Arc<str>> {
    match &*activity.kind {
        "tool" => line(&activity.detail).or_else(|| line(&activity.tool)),
        "thinking" => Some(line(&activity.detail).unwrap_or_else(|| Arc::from("Grok 正在思考"))),
        _ => None,
    }
}

/// The first line with a visible character, trimmed, at most 200 Unicode scalar values.
fn line(text: &str) -> Option<Arc<str>> {
    let line = text
        .split(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}'])
        .find(|line| line.chars().any(visible))?;
    Some(line.trim().chars().take(LONGEST).collect::<String>().into())
}

/// Whether a person sees something of the character: no white space, no control, no zero-width or directional mark.
fn visible(c: char) -> bool {
    !(c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}'))
}

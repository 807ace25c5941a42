//! Bodies of native rows.

use std::sync::Arc;

use crate::model::{
    BodyRef, Card, Content, Entry, EntryId, LiveActivity, LiveState, Role, RowBody, Widget, WidgetOption,
};

fn entry(role: Role, content: Content) -> Entry {
    Entry {
        id: None,
        at: None,
        nonce: None,
        role,
        between_bots: false,
        automation: false,
        branched: false,
        has_author: false,
        reply_to: None,
        content,
    }
}

fn body(entry: Entry) -> RowBody {
    RowBody::Entry(Box::new(entry))
}

/// The Bot says something.
pub(crate) fn said(text: &str) -> RowBody {
    body(entry(Role::Other, Content::Sent(Card::Text { content: Arc::from(text), images: vec![] })))
}

/// The person says something, elsewhere.
pub(crate) fn asked(text: &str) -> RowBody {
    body(entry(Role::User, Content::Message(Arc::from(text))))
}

/// An assistant row: on the box the Bot talks to itself.
pub(crate) fn murmured(text: &str) -> RowBody {
    body(entry(Role::Assistant, Content::Message(Arc::from(text))))
}

/// The echo of a send.
pub(crate) fn echo(text: &str, message_id: &str, reply_to: Option<&EntryId>) -> RowBody {
    body(Entry {
        nonce: Some(Arc::from(message_id)),
        reply_to: reply_to.cloned(),
        ..entry(Role::User, Content::Message(Arc::from(text)))
    })
}

/// What a routine is told: no message.
pub(crate) fn routine(text: &str) -> RowBody {
    body(Entry { automation: true, ..entry(Role::User, Content::Message(Arc::from(text))) })
}

/// A question with options, `label` and `value`.
pub(crate) fn question(prompt: &str, options: &[(&str, &str)]) -> RowBody {
    widget(prompt, options, None, false)
}

pub(crate) fn widget(prompt: &str, options: &[(&str, &str)], responded: Option<&str>, closed: bool) -> RowBody {
    let options =
        options.iter().map(|(label, value)| WidgetOption { label: Arc::from(*label), value: Arc::from(*value) });
    let widget = Widget {
        prompt: Arc::from(prompt),
        help: None,
        options: options.collect(),
        responded: responded.map(Arc::from),
        closed,
    };
    body(entry(Role::Other, Content::Sent(Card::Widget(Arc::new(widget)))))
}

/// A body that lies elsewhere.
pub(crate) fn blob(hash: &str) -> RowBody {
    RowBody::Unfetched { at: BodyRef::Blob(Arc::from(hash)), kind: Arc::from("send-message") }
}

/// A body cut by the inline limit.
pub(crate) fn omitted() -> RowBody {
    RowBody::Unfetched { at: BodyRef::Omitted, kind: Arc::from("send-message") }
}

/// A live state with a tool.
pub(crate) fn tool(detail: &str) -> LiveState {
    let activity = LiveActivity { kind: Arc::from("tool"), tool: Arc::from(""), detail: Arc::from(detail) };
    LiveState { running: true, activity: Some(activity), ..LiveState::default() }
}

/// A live state that is over.
pub(crate) fn idle() -> LiveState {
    LiveState::default()
}

//! From an entry to what a person reads: the message table, in one place.
//!
//! Wire facts: wire reference, section 7. The texts are Chinese because a user of Coda reads them.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::model::{Attachment, Author, Card, Content, Entry, EntryId, Harness, Image, Meta, Role, Widget};

/// What an entry reads as. Both parts absent: it is no message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The entry's own text.
    pub main: Option<Text>,
    /// The answer to its widget.
    pub answer: Option<Arc<str>>,
    /// Set on a row that is the echo of a send.
    pub nonce: Option<Arc<str>>,
    /// The widget, for answering it.
    pub widget: Option<Arc<Widget>>,
}

/// One readable text.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Who says it.
    pub from: Author,
    /// Never empty.
    pub text: Arc<str>,
    /// The entry it replies to, message or not.
    pub reply_to: Option<EntryId>,
    /// What the contract has no field for.
    pub meta: Option<Meta>,
}

/// Renders an entry of a Bot that runs on `harness`.
#[must_use]
pub fn render(entry: &Entry, harness: Harness) -> Rendered {
    if entry.branched || entry.between_bots {
        return Rendered::default();
    }
    let routine_prompt = entry.automation && entry.role == Role::User;
    // Only a row with a client nonce is an echo, and such a row is never the Bot's, whatever its kind (wire reference, section 7.3: two
    // sources describe the echo as `send-message`).
    let echo = entry.nonce.is_some() && entry.role != Role::Assistant && !entry.has_author;
    if routine_prompt {
        return Rendered::default();
    }
    let from = if echo { Some(Author::Account) } else { speaker(entry, harness) };
    let Some(from) = from else {
        return Rendered::default();
    };
    let Some((text, meta)) = text_of(&entry.content, echo) else {
        return Rendered::default();
    };
    let widget = match &entry.content {
        Content::Sent(Card::Widget(widget)) if from == Author::Bot => Some(Arc::clone(widget)),
        _ => None,
    };
    Rendered {
        answer: widget.as_deref().and_then(answer),
        widget,
        nonce: if echo { entry.nonce.clone() } else { None },
        main: Some(Text { from, text, reply_to: entry.reply_to.clone(), meta }),
    }
}

/// Who says an entry that isn't an echo; `None` where it is no message.
fn speaker(entry: &Entry, harness: Harness) -> Option<Author> {
    match (&entry.content, entry.role) {
        (Content::Message(_), Role::User) => Some(Author::Account),
        // On the box these rows are the Bot talking to itself; the official app's filter leaves them out (wire reference, section 7.4; single source).
        (Content::Message(_), Role::Assistant) => (harness != Harness::Box).then_some(Author::Bot),
        (Content::Message(_), Role::Other) | (Content::Other { .. }, _) => None,
        (Content::Sent(_), _) => Some(Author::Bot),
        (Content::UserAttachment(_), _) => (!entry.automation).then_some(Author::Account),
    }
}

fn text_of(content: &Content, echo: bool) -> Option<(Arc<str>, Option<Meta>)> {
    let (text, meta) = match content {
        Content::Message(text) => (Arc::clone(text), None),
        Content::UserAttachment(file) | Content::Sent(Card::Attachment(file)) => {
            (attachment(file), Some(Meta::Attachment(file.clone())))
        }
        Content::Sent(Card::Text { content, images }) => (with_images(content, images), None),
        Content::Sent(Card::Widget(widget)) => (question(widget), Some(Meta::Widget(Arc::clone(widget)))),
        Content::Sent(Card::Handled { asks }) => (Arc::from(format!("{}，请在 Grok Bot 里处理", one_line(asks))), None),
        Content::Sent(Card::Unknown { kind }) => (Arc::from(format!("[暂不支持的消息：{}]", one_line(kind))), None),
        Content::Other { content, .. } => (content.clone().filter(|_| echo)?, None),
    };
    (!text.trim().is_empty()).then_some((text, meta))
}

fn attachment(file: &Attachment) -> Arc<str> {
    Arc::from(format!("[附件] {}", one_line(&file.name)))
}

fn with_images(content: &Arc<str>, images: &[Image]) -> Arc<str> {
    if images.is_empty() {
        return Arc::clone(content);
    }
    let mut text = String::from(&**content);
    for image in images {
        if !text.is_empty() {
            text.push('\n');
        }
        let shown = image.alt.as_deref().filter(|alt| !alt.trim().is_empty()).unwrap_or(&image.url);
        // Writing to a String can't fail.
        let _ = write!(text, "[图片] {}", one_line(shown));
    }
    Arc::from(text)
}

fn question(widget: &Widget) -> Arc<str> {
    let mut text = String::from(&*widget.prompt);
    if let Some(help) = widget.help.as_deref().filter(|help| !help.trim().is_empty()) {
        text.push('\n');
        text.push_str(help);
    }
    for option in &widget.options {
        let _ = if option.label == option.value {
            write!(text, "\n- {}", option.label)
        } else {
            write!(text, "\n- {}（{}）", option.label, option.value)
        };
    }
    Arc::from(text)
}

/// The answer as a person reads it: the label of the option with that value, else the value itself.
fn answer(widget: &Widget) -> Option<Arc<str>> {
    let value = widget.responded.as_ref().filter(|value| !value.is_empty())?;
    let chosen = widget
        .options
        .iter()
        .find(|option| option.value == *value)
        .or_else(|| widget.options.iter().find(|option| option.label == *value));
    let label = chosen.map(|option| &option.label).filter(|label| !label.trim().is_empty());
    Some(Arc::clone(label.unwrap_or(value)))
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

//! What a `send-message` says, by its type (wire reference, section 7.4), and files.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::record;
use super::text::{self, file_name, one_line};
use crate::model::{Attachment, Card, EntryId, Image, Widget, WidgetOption};
use crate::upstream::wire::{self, Field};

/// The entry that a body replies to: `replyToId` or `replyTo`, at the root or inside `message`.
pub(super) fn reply_to(body: &mut wire::Body<'_>) -> Option<EntryId> {
    let mut found = [body.reply_to_id.take(), body.reply_to.take()].into_iter().find_map(Field::is);
    if let (None, Field::Is(message)) = (&found, &mut body.message) {
        found = [message.reply_to_id.take(), message.reply_to.take()].into_iter().find_map(Field::is);
    }
    found.map(|wire::Reply(id)| EntryId::from(&*id))
}

/// The card of a `send-message`.
pub(super) fn sent(body: &mut wire::Body<'_>) -> Result<Card, &'static str> {
    let Field::Is(message) = &mut body.message else {
        return Err("message isn't an object");
    };
    let kind = match message.kind.take() {
        Field::Is(kind) if !kind.is_empty() => kind,
        _ => return Err("message has no type"),
    };
    Ok(match &*kind {
        "text" => {
            let images = message.images.take().is().unwrap_or_default();
            let images: Vec<Image> = images.into_iter().filter_map(image).collect();
            let content = match message.content.take() {
                Field::Is(content) => content,
                Field::Absent if !images.is_empty() => "".into(),
                Field::Absent | Field::Odd => return Err("content isn't text"),
            };
            Card::Text { content, images }
        }
        "widget" => {
            let Field::Is(widget) = message.widget.take() else {
                return Err("widget isn't an object");
            };
            // The answer stands beside `message`; one source is unclear about the flags, so inside counts, too.
            let responded = [&mut body.responded_value, &mut message.responded_value]
                .into_iter()
                .map(Field::take)
                .filter_map(Field::is)
                .find(|value| !value.is_empty());
            let flags = [body.widget_dismissed, body.widget_skipped, message.widget_dismissed, message.widget_skipped];
            Card::Widget(Arc::new(Widget {
                prompt: Arc::from(&*widget.prompt.or_default().map_err(|_| "prompt isn't text")?),
                help: widget.help_text.is().filter(|help| !help.is_empty()).map(|help| Arc::from(&*help)),
                options: widget
                    .options
                    .or_default()
                    .map_err(|_| "options isn't a list")?
                    .into_iter()
                    .filter_map(option)
                    .collect(),
                responded: responded.map(|value| Arc::from(&*value)),
                closed: flags.contains(&Field::Is(true)),
            }))
        }
        "attachment" => {
            let names = [&mut message.name, &mut message.file_name_snake, &mut message.file_name];
            let places = [&mut message.file_path_snake, &mut message.file_path, &mut message.url, &mut message.path];
            Card::Attachment(attachment(names, places, message.byte_size)?)
        }
        _ => match asks(&kind, message) {
            Some(asks) => Card::Handled { asks: asks.into() },
            None => Card::Unknown { kind: text::name(&kind) },
        },
    })
}

/// The file of a `user-attachment`.
pub(super) fn user_attachment(body: &mut wire::Body<'_>) -> Result<Attachment, &'static str> {
    let names = [&mut body.name, &mut body.file_name_snake, &mut body.file_name];
    let places = [&mut body.file_path_snake, &mut body.file_path, &mut body.url, &mut body.path];
    attachment(names, places, body.byte_size)
}

/// A file by its name, else by the last segment of where it lies. Of a name, too, only the last segment is taken: no path ever leaves this room.
fn attachment<'a>(
    names: [&mut wire::Text<'a>; 3],
    places: [&mut wire::Text<'a>; 4],
    size: wire::Number,
) -> Result<Attachment, &'static str> {
    let given = names.into_iter().chain(places).map(Field::take).filter_map(Field::is);
    let given: Vec<_> = given.filter(|text| !text.is_empty()).collect();
    if given.is_empty() {
        return Err("the file has neither a name nor a place");
    }
    // A place without a usable last segment (a bare host, a data URL) is a file all the same.
    let name = given.iter().find_map(|text| file_name(text)).unwrap_or_else(|| "附件".to_owned());
    Ok(Attachment { name: name.into(), size: size.is() })
}

fn image(raw: &RawValue) -> Option<Image> {
    let wire: wire::Image<'_> = record(raw.get())?;
    let alt = wire.alt.is().filter(|alt| !alt.is_empty());
    let url = wire.url.is().unwrap_or_default();
    if alt.is_none() && url.is_empty() {
        return None;
    }
    // An inlined picture is no address: what kind of picture it is remains.
    let url = match url.split_once(',') {
        Some((kind, _)) if kind.starts_with("data:") => kind,
        _ => &*url,
    };
    Some(Image { alt: alt.map(|alt| Arc::from(&*alt)), url: Arc::from(url) })
}

fn option(raw: &RawValue) -> Option<WidgetOption> {
    let wire: wire::WidgetOption<'_> = record(raw.get())?;
    let label: Arc<str> = Arc::from(&*wire.label.is().filter(|label| !label.is_empty())?);
    let value = match wire.value {
        Field::Is(value) if !value.is_empty() => Arc::from(&*value),
        Field::Is(_) | Field::Absent => Arc::clone(&label),
        // Taking the label for a value that can't be read would send the service something else than it asked for.
        Field::Odd => return None,
    };
    Some(WidgetOption { label, value })
}

/// What a card asks for that can only be handled in Grok Bot, as a phrase for a person; `None` for a type never heard of.
fn asks(kind: &str, message: &mut wire::Message<'_>) -> Option<String> {
    let (phrase, about) = match kind {
        "auto-review-approval" => {
            ("请求批准", message.approval.take().is().and_then(|card| first([card.summary, card.title, card.action])))
        }
        "local-tool-permission" => {
            let about = message.ask.take().is().map(|card| {
                let target = card.target.is().map(|wire::Target(target)| target);
                [card.action.is(), target].into_iter().flatten().collect::<Vec<_>>().join(" ")
            });
            ("请求权限", about)
        }
        "secret-request" => {
            let about = message.secret_request.take().is().and_then(|card| {
                let target = card.target.is().map_or(Field::Absent, |wire::Target(target)| Field::Is(target));
                first([card.label, card.name, target])
            });
            ("请求保密信息", about)
        }
        "connector" | "connector-grant" => {
            ("请求连接服务", message.connector.take().is().and_then(|card| first([card.label, card.name, card.title])))
        }
        "email-draft" => {
            ("邮件草稿", message.draft.take().is().and_then(|card| first([card.subject, card.title, card.summary])))
        }
        "slack-draft" => {
            ("Slack 草稿", message.draft.take().is().and_then(|card| first([card.subject, card.title, card.summary])))
        }
        "cursor-agent" => ("查看 Cursor 代理的任务", None),
        "virtual-card" => ("请求使用虚拟卡", None),
        "user-form" => {
            ("请求填写表单", message.form.take().is().and_then(|card| first([card.title, card.label, card.name])))
        }
        _ => return None,
    };
    let about = about.map(|about| one_line(&about)).filter(|about| !about.is_empty());
    Some(match about {
        Some(about) => format!("{phrase}：{about}"),
        None => phrase.to_owned(),
    })
}

fn first(texts: [wire::Text<'_>; 3]) -> Option<String> {
    texts.into_iter().filter_map(Field::is).find(|text| !text.trim().is_empty()).map(std::borrow::Cow::into_owned)
}

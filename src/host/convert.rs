//! Domain to wire, and cursors from the wire.

use chrono::{DateTime, Datelike as _, Timelike as _, Utc};
use num_bigint::BigUint;
use uuid::Uuid;

use super::{texts, wire};
use crate::model::{self, Account, Author, Bot, Meta, Part, RecordId, Version, Wall, base_id};
use crate::records::{self, ActivityNotice, Failure, Outcome, Place, RecordView, SignInState, StatusView, Withdrawal};

/// The longest cursor a host may write, in characters.
const CURSOR_CHARS: usize = 100;

/// The namespace of the message ids of posts. Never changed: with another one a repeated post would be sent twice.
const POST_NAMESPACE: Uuid = Uuid::from_u128(0x6ab9_ec02_f051_4636_b6f2_e5e1_530d_9ce1);

/// The idempotency key of a post: the same for the same caller, record and request, on every machine and for ever.
///
/// Each part goes in with its length in bytes (8 bytes, big-endian) before it, so that no two triples give the same bytes.
#[must_use]
pub fn message_id(caller: &str, record: &str, request: &str) -> Uuid {
    let mut name = Vec::with_capacity(24 + caller.len() + record.len() + request.len());
    for part in [caller, record, request] {
        // usize is at most 64 bits wide on everything this runs on.
        name.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    Uuid::new_v5(&POST_NAMESPACE, &name)
}

/// Reads a cursor of a host: two decimal integers of any size without leading zeros, at most 100 characters in all. `None` is a bad cursor.
///
/// What doesn't fit a u64 is above every cursor of ours; it is given saturated, far above any u64.
#[must_use]
pub fn parse_cursor(text: &str) -> Option<Place> {
    if text.len() > CURSOR_CHARS {
        return None;
    }
    let (generation, number) = text.split_once(':')?;
    Some(Place { generation: saturate(&parse_integer(generation)?), number: saturate(&parse_integer(number)?) })
}

fn parse_integer(digits: &str) -> Option<BigUint> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    // An empty text is no number for parse_bytes either.
    plain.then(|| BigUint::parse_bytes(digits.as_bytes(), 10)).flatten()
}

fn saturate(integer: &BigUint) -> u128 {
    u128::try_from(integer).unwrap_or(u128::MAX)
}

/// A cursor for the host.
#[must_use]
pub fn cursor(cursor: model::Cursor) -> wire::Cursor {
    wire::Cursor(cursor.text())
}

/// A time for the host. RFC 3339 knows four digits of a year; what lies outside is shown as the nearest that it knows.
#[must_use]
pub fn time(at: Wall) -> wire::Time {
    const FIRST: i64 = -62_167_219_200_000;
    const LAST: i64 = 253_402_300_799_999;
    let at = DateTime::<Utc>::from_timestamp_millis(at.0.clamp(FIRST, LAST)).unwrap_or_default();
    // Digits in their places: each message of a page has one of these, and chrono's formatter is made for every format that there is.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (place, number) in [
        (0..4, at.year().unsigned_abs()),
        (5..7, at.month()),
        (8..10, at.day()),
        (11..13, at.hour()),
        (14..16, at.minute()),
        (17..19, at.second()),
        (20..23, at.timestamp_subsec_millis()),
    ] {
        write_digits(&mut text[place], number);
    }
    wire::Time(str::from_utf8(&text).unwrap_or_default().to_owned())
}

/// Writes a number over digits: its last ones, as many as there is room for.
fn write_digits(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789"[(number % 10) as usize];
        number /= 10;
    }
}

/// The resource page.
#[must_use]
pub fn status(view: StatusView) -> wire::Status {
    let (state, link, own_words) = match view.status.state {
        SignInState::SignedOut => (wire::StatusState::SignedOut, None, None),
        SignInState::Confirming { url, expires_at } => {
            (wire::StatusState::Confirming, Some((url, time(expires_at))), Some(texts::CONFIRMING))
        }
        SignInState::SignedIn => (wire::StatusState::SignedIn, None, None),
        SignInState::SignInAgain => (wire::StatusState::SignInAgain, None, Some(texts::SIGN_IN_AGAIN)),
    };
    let (url, expires_at) = link.unzip();
    wire::Status {
        state,
        account: view.status.account.map(|account| wire::Named { id: account.digest, name: account.name }),
        url,
        expires_at,
        message: view.status.message.or_else(|| own_words.map(str::to_owned)),
        items: view.items.into_iter().map(|(record, name)| item(&record, &name)).collect(),
    }
}

fn item(record: &RecordId, name: &str) -> wire::Item {
    wire::Item {
        record: record.to_string(),
        title: title(name),
        button: wire::Button { text: texts::BIND_BUTTON, view: wire::BIND_VIEW, args: [record.to_string()] },
    }
}

fn title(name: &str) -> String {
    if name.trim().is_empty() { texts::UNNAMED_BOT.to_owned() } else { name.to_owned() }
}

/// A link for the host.
#[must_use]
pub fn link(link: records::Link) -> wire::SignInResult {
    wire::SignInResult { url: link.url, expires_at: time(link.expires_at) }
}

/// A record.
#[must_use]
pub fn record(view: &RecordView) -> wire::Record {
    let Bot { agent_id, name, .. } = &view.info.bot;
    let account = &view.info.account;
    let bot = records::bot_id(agent_id);
    wire::Record {
        id: view.info.id.to_string(),
        protocol: wire::SESSION_PROTOCOL,
        title: title(name),
        container: wire::Container { id: records::container_id(account), title: account.name.clone() },
        participants: vec![
            wire::Participant {
                id: records::self_id(account),
                name: account.name.clone(),
                kind: wire::ParticipantKind::Person,
                own: true,
            },
            wire::Participant { id: bot.clone(), name: title(name), kind: wire::ParticipantKind::Agent, own: false },
        ],
        head: view.head.map(cursor),
        activity: view.activity.as_ref().map(|now| activity(now, bot)),
        actions: ["read", "post"],
        views: [wire::BIND_VIEW],
    }
}

fn activity(now: &model::Activity, participant: String) -> wire::Activity {
    wire::Activity { status: now.status.to_string(), participant }
}

/// A changed activity.
#[must_use]
pub fn activity_changed(record: &RecordId, agent: &model::AgentId, notice: ActivityNotice) -> wire::ActivityChanged {
    let failed = |failure: model::TurnFailure| wire::Meta {
        own: wire::TurnMeta {
            turn_failed: wire::TurnFailed { code: failure.code.to_string(), summary: failure.summary.to_string() },
        },
    };
    wire::ActivityChanged {
        record: record.to_string(),
        activity: notice.activity.map(|now| activity(&now, records::bot_id(agent))),
        meta: notice.failure.map(failed),
    }
}

/// A withdrawal.
#[must_use]
pub fn withdrawn(record: &RecordId, reason: Withdrawal) -> wire::RecordWithdrawn {
    wire::RecordWithdrawn {
        record: record.to_string(),
        reason: match reason {
            Withdrawal::Deleted => wire::WithdrawnReason::Deleted,
            Withdrawal::Account => wire::WithdrawnReason::Account,
            Withdrawal::SignedOut => wire::WithdrawnReason::SignedOut,
        },
    }
}

/// Who speaks in a record, as the host knows them.
#[derive(Clone, Debug)]
pub struct Speakers {
    own: String,
    bot: String,
}

impl Speakers {
    /// Those of a record of `account` and `bot`.
    #[must_use]
    pub fn of(account: &Account, bot: &Bot) -> Self {
        Self { own: records::self_id(account), bot: records::bot_id(&bot.agent_id) }
    }
}

/// A page of a record.
#[must_use]
pub fn page<'a>(page: &'a records::Page, speakers: &'a Speakers) -> wire::ReadResult<'a> {
    let generation = page.generation;
    wire::ReadResult {
        messages: page.messages.iter().map(|said| message(said, generation, speakers)).collect(),
        head: page.head.map(|number| cursor(model::Cursor { generation, number })),
        has_more: wire::HasMore { before: page.more_before, after: page.more_after },
    }
}

fn message<'a>(said: model::Packed<'a>, generation: u64, speakers: &'a Speakers) -> wire::Message<'a> {
    let change = match said.version() {
        Version::Base => None,
        Version::Edit => Some(wire::Change::Edit),
        Version::Delete => Some(wire::Change::Delete),
    };
    // A delete says nothing, so it addresses nobody.
    let addresses_bot = said.part() == Part::Answer && said.version() != Version::Delete;
    wire::Message {
        id: said.id(generation),
        cursor: cursor(model::Cursor { generation, number: said.number() }),
        from: match said.from() {
            Author::Account => &speakers.own,
            Author::Bot => &speakers.bot,
        },
        at: time(said.at()),
        text: said.text(),
        reply_to: said
            .reply_to()
            .map(|entry| wire::MessageRef { message: base_id(generation, entry.text(&mut [0; _]), Part::Entry) }),
        mentions: if addresses_bot { vec![&*speakers.bot] } else { vec![] },
        about: change.map(|change| wire::About { message: said.base(generation), change }),
        meta: said.meta().map(|meta| wire::Meta { own: message_meta(meta) }),
    }
}

fn message_meta(meta: &Meta) -> wire::MessageMeta<'_> {
    match meta {
        Meta::Widget(widget) => wire::MessageMeta::Widget(wire::WidgetMeta {
            prompt: &widget.prompt,
            options: widget
                .options
                .iter()
                .map(|option| wire::OptionMeta { label: &option.label, value: &option.value })
                .collect(),
        }),
        Meta::Attachment(file) => {
            wire::MessageMeta::Attachment(wire::AttachmentMeta { name: &file.name, size: file.size })
        }
    }
}

/// How a run ended.
#[must_use]
pub fn settled(run: String, outcome: Outcome) -> wire::RunSettled {
    match outcome {
        Outcome::Completed { id, cursor: at } => wire::RunSettled::Completed {
            run,
            result: wire::Posted { message: wire::PostedMessage { id, cursor: cursor(at) } },
        },
        Outcome::Failed(failure) => wire::RunSettled::Failed {
            run,
            reason: match failure {
                Failure::Unknown => wire::FailedReason::Unknown,
                Failure::Refused => wire::FailedReason::Refused,
                Failure::SignedOut => wire::FailedReason::SignedOut,
                Failure::NotSent => wire::FailedReason::NotSent,
                Failure::WidgetClosed => wire::FailedReason::WidgetClosed,
            },
            message: texts::failure(failure).to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;

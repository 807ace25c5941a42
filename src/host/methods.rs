//! The methods of the contract: one plain function each, from params to a reply.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::bind::Binder;
use super::failure::Failure;
use super::{convert, texts, wire};
use crate::model::RecordId;
use crate::records::{Bound, Gone, Handle, Outcome, PostRequest};

/// The longest text of a post, in bytes of UTF-8.
const TEXT_BYTES: usize = 200 * 1024;
/// How long the loop may take for a wish of the resource page.
const WISH: Duration = Duration::from_secs(15);
/// A page without a stated limit.
const DEFAULT_LIMIT: i64 = 50;

/// The answer to a request.
pub(super) type Answer = Result<Box<RawValue>, Failure>;

/// What becomes of a request.
pub(super) enum Reply {
    /// Answered from memory.
    Now(Answer),
    /// Answered when the future ends.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
    /// Accepted; the run is settled with the outcome.
    Run {
        /// The host's run.
        run: String,
        /// Where it posts.
        record: RecordId,
        /// Dropped: nobody can be sure.
        outcome: oneshot::Receiver<Outcome>,
    },
}

/// Whether the method is one of those that need the provider.
pub(super) fn known(method: &str) -> bool {
    matches!(
        method,
        wire::method::RESOURCE_STATUS
            | wire::method::RESOURCE_SIGN_IN
            | wire::method::RESOURCE_CANCEL_SIGN_IN
            | wire::method::RESOURCE_SIGN_OUT
            | wire::method::RECORDS_LIST
            | wire::method::SESSION_READ
            | wire::method::SESSION_POST
            | wire::method::VIEW_OPEN
    )
}

/// Carries out a request. `running` are the runs that are not settled yet.
pub(super) fn call(
    handle: &Handle,
    binder: &Binder,
    running: &HashSet<String>,
    method: &str,
    params: Option<&RawValue>,
) -> Reply {
    let reply = match method {
        wire::method::RESOURCE_STATUS => no_params(params).and_then(|()| now(&convert::status(handle.status_view()))),
        wire::method::RECORDS_LIST => no_params(params).and_then(|()| records_list(handle)),
        wire::method::SESSION_READ => session_read(handle, params),
        wire::method::SESSION_POST => session_post(handle, running, params),
        wire::method::VIEW_OPEN => view_open(handle, binder, params),
        wire::method::RESOURCE_SIGN_IN => no_params(params).map(|()| {
            let handle = handle.clone();
            later(async move {
                let link = in_time(handle.sign_in()).await?;
                let link =
                    link.map_err(|reason| Failure::new(wire::ErrorKind::Internal, texts::sign_in_failed(&reason)))?;
                result(&convert::link(link))
            })
        }),
        wire::method::RESOURCE_CANCEL_SIGN_IN => no_params(params).map(|()| {
            let handle = handle.clone();
            later(async move {
                in_time(handle.cancel_sign_in()).await?;
                Ok(nothing())
            })
        }),
        wire::method::RESOURCE_SIGN_OUT => no_params(params).map(|()| {
            let handle = handle.clone();
            later(async move {
                let done = in_time(handle.sign_out()).await?;
                done.map_err(|reason| Failure::new(wire::ErrorKind::Internal, texts::sign_out_failed(&reason)))?;
                Ok(nothing())
            })
        }),
        _ => Err(Failure::new(wire::ErrorKind::MethodNotFound, texts::UNKNOWN_METHOD)),
    };
    reply.unwrap_or_else(|failure| Reply::Now(Err(failure)))
}

/// Reads the params of `initialize`; gives the ids of the open runs, each once.
pub(super) fn initialize(params: Option<&RawValue>) -> Result<Vec<String>, Failure> {
    let params: wire::InitializeParams = parse(params)?;
    if !speaks(&params.protocol_version) {
        return Err(Failure::bad_params(texts::VERSION));
    }
    if let Some(host) = params.host {
        tracing::info!(name = ?host.name, version = ?host.version, "a host has connected");
    }
    let mut seen = HashSet::new();
    let runs = params.open_runs.unwrap_or_default().into_iter().map(|run| run.id);
    Ok(runs.filter(|run| seen.insert(run.clone())).collect())
}

/// The result of `initialize`.
pub(super) fn initialized() -> Answer {
    result(&wire::InitializeResult {
        plugin: wire::PluginInfo { id: wire::PLUGIN_ID, version: env!("CARGO_PKG_VERSION") },
        protocol_version: wire::PROTOCOL_VERSION,
        protocols: [wire::SESSION_PROTOCOL],
        views: [wire::BIND_VIEW],
    })
}

/// 5.7 and every later 5.x. What follows the minor version doesn't matter.
fn speaks(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| {
        let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        // Too long for a u64 is still a later version.
        plain.then(|| part.parse().unwrap_or(u64::MAX))
    });
    matches!((parts.next().flatten(), parts.next().flatten()), (Some(5), Some(minor)) if minor >= 7)
}

fn records_list(handle: &Handle) -> Result<Reply, Failure> {
    now(&wire::RecordsListResult { records: handle.records().iter().map(convert::record).collect() })
}

fn session_read(handle: &Handle, params: Option<&RawValue>) -> Result<Reply, Failure> {
    let params: wire::ReadParams = parse(params)?;
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=500).contains(limit));
    let limit = limit.ok_or_else(|| Failure::bad_params(texts::LIMIT))?;
    let place = |text: &str| {
        convert::parse_cursor(text).ok_or_else(|| Failure::new(wire::ErrorKind::BadCursor, texts::BAD_CURSOR))
    };
    let bound = match (&params.after, &params.before) {
        (Some(_), Some(_)) => return Err(Failure::bad_params(texts::BOTH_BOUNDS)),
        (Some(after), None) => Bound::After(place(after)?),
        (None, Some(before)) => Bound::Before(place(before)?),
        (None, None) => Bound::Newest,
    };
    let record = RecordId::from(params.record);
    let page = handle.read(&record, bound, limit)?;
    let info = handle.record(&record).ok_or_else(Failure::not_found)?.info;
    now(&convert::page(&page, &convert::Speakers::of(&info.account, &info.bot)))
}

fn session_post(handle: &Handle, running: &HashSet<String>, params: Option<&RawValue>) -> Result<Reply, Failure> {
    let params: wire::PostParams = parse(params)?;
    if params.draft == Some(true) {
        return now(&wire::PostResult { accepted: true });
    }
    let missing = || Failure::bad_params(texts::BAD_PARAMS);
    let run = params.run.ok_or_else(missing)?.id;
    let caller = params.caller.ok_or_else(missing)?;
    let request = params.request_id.ok_or_else(missing)?;
    let text = params.text.ok_or_else(missing)?;
    // Before the text: who sends a picture alone is to hear that it is the picture.
    if params.attachments.is_some_and(|attachments| !attachments.is_empty()) {
        return Err(Failure::new(wire::ErrorKind::TextOnly, texts::TEXT_ONLY));
    }
    if is_blank(&text) {
        return Err(Failure::bad_params(texts::BLANK));
    }
    if text.len() > TEXT_BYTES {
        return Err(Failure::bad_params(texts::TEXT_TOO_LONG));
    }
    if running.contains(&run) {
        // The same run again before it is settled: it has been sent for, and it is settled once.
        return now(&wire::PostResult { accepted: true });
    }
    let message_id = convert::message_id(&caller, &params.record, &request);
    let record = RecordId::from(params.record);
    let outcome = handle.post(PostRequest {
        message_id,
        record: record.clone(),
        text: Arc::from(text),
        reply_to: params.reply_to,
    })?;
    Ok(Reply::Run { run, record, outcome })
}

/// Nothing that a person would see.
fn is_blank(text: &str) -> bool {
    let invisible = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().all(invisible)
}

fn view_open(handle: &Handle, binder: &Binder, params: Option<&RawValue>) -> Result<Reply, Failure> {
    let params: wire::ViewOpenParams = parse(params)?;
    let [record] = params.args.as_slice() else {
        return Err(Failure::bad_params(texts::BAD_PARAMS));
    };
    if params.view != wire::BIND_VIEW {
        return Err(Failure::bad_params(texts::BAD_PARAMS));
    }
    let opening = binder.clone().open(handle.clone(), RecordId::from(record.as_str()));
    Ok(later(async move { result(&opening.await?) }))
}

/// Reads params: an object, by name. Absent ones are an empty object.
pub(super) fn parse<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Failure> {
    let text = params.map_or("{}", RawValue::get);
    // serde would take an array for a struct, field by field.
    let parsed = text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten();
    parsed.ok_or_else(|| Failure::bad_params(texts::BAD_PARAMS))
}

pub(super) fn no_params(params: Option<&RawValue>) -> Result<(), Failure> {
    parse::<wire::Nothing>(params).map(|wire::Nothing {}| ())
}

async fn in_time<T>(wish: impl Future<Output = Result<T, Gone>>) -> Result<T, Failure> {
    match tokio::time::timeout(WISH, wish).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Gone)) | Err(_) => Err(Failure::internal()),
    }
}

fn later(answer: impl Future<Output = Answer> + Send + 'static) -> Reply {
    Reply::Later(Box::pin(answer))
}

fn now(value: &impl Serialize) -> Result<Reply, Failure> {
    result(value).map(|raw| Reply::Now(Ok(raw)))
}

/// The result `null`.
pub(super) fn nothing() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

/// The result of `session/post`.
pub(super) fn accepted() -> Answer {
    result(&wire::PostResult { accepted: true })
}

fn result(value: &impl Serialize) -> Answer {
    // Our types can't fail to be written; a host is still owed an answer if they did.
    serde_json::value::to_raw_value(value).map_err(|_| Failure::internal())
}

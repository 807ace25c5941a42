//! [`Upstream`] over the real wire: Connect calls as JSON.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oauth2::AccessToken;
use reqwest::header::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use super::convert::{self, Bodies, Unreadable};
use super::{
    Call, Delivery, Error, ErrorKind, Frames, Me, Next, Page, PageRequest, Roster, SendRequest, SendStatus, Upstream,
    WatchRequest, WidgetAnswer, WidgetRequest,
};
use crate::connect::{self, Answer, BaseUrl, Client, Http, Kind, Stream};
use crate::model::{AgentId, Malformed, RowBody, Wall};

/// The app version that the wire facts of this program come from (wire reference, section 1.2: every client sends one). Not this program's own.
const CLIENT_VERSION: &str = "0.63.0";

const ME: &str = "aiserver.v1.DashboardService/GetMe";
const AGENTS: &str = "aiserver.v1.GrokBotService/ListGrokBotAgents";
const ENTRIES: &str = "aiserver.v1.GrokBotService/ListGrokBotTranscriptEntries";
const WATCH: &str = "aiserver.v1.GrokBotService/WatchGrokBotTranscripts";
const PRESIGN: &str = "aiserver.v1.GrokBotService/PresignSandBoxStoreReads";
const SEND: &str = "aiserver.v1.GrokBotService/SendGrokBotUserMessage";
const SEND_STATUS: &str = "aiserver.v1.GrokBotService/GetGrokBotSendStatus";
const RESPOND: &str = "aiserver.v1.GrokBotService/RespondGrokBotWidget";

/// The longest stored body that is read.
const MAX_BLOB: usize = 32 * 1024 * 1024;

/// How long calls may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A read, and the response head of a stream.
    pub read: Duration,
    /// A send, a widget's answer.
    pub action: Duration,
    /// The GET of a stored body.
    pub blob: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { read: Duration::from_secs(15), action: Duration::from_secs(20), blob: Duration::from_secs(30) }
    }
}

/// The service behind a base URL. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    client: Arc<Client>,
    limits: Limits,
}

impl HttpUpstream {
    /// The service at `base`, reached through `http`. Nothing is connected before the first call.
    pub fn new(http: Arc<Http>, base: BaseUrl, limits: Limits) -> Self {
        Self { client: Arc::new(Client::new(http, base, headers())), limits }
    }

    /// One unary call and the reading of its answer, in a future that owns all it needs.
    fn call<T: 'static>(
        &self,
        method: &'static str,
        token: AccessToken,
        body: Vec<u8>,
        limit: Duration,
        read: impl FnOnce(&Answer) -> Result<T, Unreadable> + Send + 'static,
    ) -> Call<T> {
        let client = Arc::clone(&self.client);
        Box::pin(async move {
            let answer = client.unary(method, token.secret(), body, limit).await.map_err(|e| failed(method, &e))?;
            read(&answer).map_err(|e| unreadable(method, e))
        })
    }
}

/// What every call carries besides Connect's own (section 1.2). The privacy flag is up: nothing asks for less.
fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-cursor-client-type", HeaderValue::from_static("sand"));
    headers.insert("x-cursor-client-version", HeaderValue::from_static(CLIENT_VERSION));
    headers.insert("x-sand-box-namespace", HeaderValue::from_static("prod"));
    headers.insert("x-ghost-mode", HeaderValue::from_static("true"));
    headers
}

fn failed(method: &str, error: &connect::Error) -> Error {
    let kind = match error.kind() {
        // As good as none: nobody knows what was done.
        _ if matches!(error, connect::Error::Unreadable(_)) => ErrorKind::Broken,
        Kind::Auth => ErrorKind::Auth,
        Kind::Transient { retry_after } => ErrorKind::Transient { retry_after },
        Kind::Refused if error.is_stale() => ErrorKind::Stale,
        Kind::Refused => ErrorKind::Refused,
        Kind::Permanent => ErrorKind::Permanent,
        Kind::NotSent => ErrorKind::NotSent,
        Kind::Broken => ErrorKind::Broken,
    };
    Error { kind, detail: format!("{}: {error}", short(method)) }
}

fn unreadable(method: &str, error: Unreadable) -> Error {
    Error { kind: ErrorKind::Broken, detail: format!("{}: {error}", short(method)) }
}

/// The method without its service: what a log line needs.
fn short(method: &str) -> &str {
    method.rsplit('/').next().unwrap_or(method)
}

impl Upstream for HttpUpstream {
    fn me(&self, token: AccessToken) -> Call<Me> {
        self.call(ME, token, b"{}".to_vec(), self.limits.read, |answer| convert::me(&answer.body))
    }

    fn agents(&self, token: AccessToken) -> Call<Roster> {
        self.call(AGENTS, token, b"{}".to_vec(), self.limits.read, |answer| {
            convert::roster(&answer.body, answer.date_ms.map(Wall))
        })
    }

    fn entries(&self, token: AccessToken, request: PageRequest) -> Call<Page> {
        let body = convert::page_request(&request);
        self.call(ENTRIES, token, body, self.limits.read, |answer| convert::page(&answer.body))
    }

    fn watch(&self, token: AccessToken, request: WatchRequest) -> Call<Box<dyn Frames>> {
        let client = Arc::clone(&self.client);
        let limit = self.limits.read;
        Box::pin(async move {
            let body = convert::watch_request(&request);
            let stream = client.stream(WATCH, token.secret(), &body, limit).await.map_err(|e| failed(WATCH, &e))?;
            let frames: Box<dyn Frames> = Box::new(HttpFrames { stream, bodies: Bodies::default() });
            Ok(frames)
        })
    }

    fn blob(&self, token: AccessToken, hash: Arc<str>, kind: Arc<str>) -> Call<Option<RowBody>> {
        let malformed = |kind: &Arc<str>, reason| RowBody::Malformed(Malformed { kind: Arc::clone(kind), reason });
        if !is_hash(&hash) {
            // It would become part of a path.
            let body = malformed(&kind, "blobHash isn't a hash");
            return Box::pin(async move { Ok(Some(body)) });
        }
        let path = format!("blobs/{hash}");
        let presign = {
            let path = path.clone();
            self.call(PRESIGN, token, convert::presign_request(&path), self.limits.read, move |answer| {
                convert::presigned(&answer.body, &path)
            })
        };
        let client = Arc::clone(&self.client);
        let limit = self.limits.blob;
        Box::pin(async move {
            let Some(url) = presign.await? else {
                return Ok(None);
            };
            let Some(bytes) = get_blob(&client, &url, limit).await? else {
                return Ok(None);
            };
            if is_sha256(&hash) && !hex(&Sha256::digest(&bytes)).eq_ignore_ascii_case(&hash) {
                return Ok(Some(malformed(&kind, "the stored body doesn't match its hash")));
            }
            Ok(Some(convert::from_blob(&bytes, &kind)))
        })
    }

    fn send(&self, token: AccessToken, request: SendRequest) -> Call<Delivery> {
        let body = convert::send_request(&request);
        self.call(SEND, token, body, self.limits.action, |answer| convert::delivery(&answer.body))
    }

    fn send_status(&self, token: AccessToken, agent_id: AgentId, message_id: String) -> Call<SendStatus> {
        let body = convert::status_request(&agent_id, &message_id);
        self.call(SEND_STATUS, token, body, self.limits.read, |answer| convert::send_status(&answer.body))
    }

    fn respond_widget(&self, token: AccessToken, request: WidgetRequest) -> Call<WidgetAnswer> {
        let body = convert::respond_request(&request);
        self.call(RESPOND, token, body, self.limits.action, |answer| convert::widget_answer(&answer.body))
    }
}

/// Reads a pre-signed URL, without credentials: whoever answers there isn't the service. `None` where the object is missing.
async fn get_blob(client: &Client, url: &str, limit: Duration) -> Result<Option<Vec<u8>>, Error> {
    let refused = |detail: String| Error { kind: ErrorKind::Permanent, detail: format!("stored body: {detail}") };
    let url = connect::http::handed_out(url, client.base().is_loopback()).map_err(|e| refused(e.to_string()))?;
    match client.http().get(url, limit, MAX_BLOB).await {
        Ok(bytes) => Ok(bytes),
        Err(error) => {
            let mut failed = failed("stored body", &error);
            // Not the service's word on our sign-in: the signature has run out or isn't taken, and another one may be.
            if matches!(failed.kind, ErrorKind::Auth | ErrorKind::Refused | ErrorKind::Stale) {
                failed.kind = ErrorKind::Transient { retry_after: None };
            }
            Err(failed)
        }
    }
}

/// The alphabet of hashes; everything else could leave the folder that the path names.
fn is_hash(hash: &str) -> bool {
    (16..=128).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_sha256(hash: &str) -> bool {
    hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The open stream as frames.
struct HttpFrames {
    stream: Stream,
    bodies: Bodies,
}

impl fmt::Debug for HttpFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFrames").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Frames for HttpFrames {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async move {
            // Cancel-safe: between taking payloads from the stream and giving their frames there is no await.
            let payloads = self.stream.next().await.map_err(|error| failed(WATCH, &error))?;
            Ok(payloads.map(|payloads| convert::frames(&payloads, &mut self.bodies)))
        })
    }
}

#[cfg(test)]
mod tests;

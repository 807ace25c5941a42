//! The page's server.

use std::fmt;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use chrono::{SecondsFormat, Utc};
use qrcode::{Color, QrCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::guard::{self, Hosts, PROTOCOL};
use super::remote::{CODE_LIFE, Entry, Refusal};
use super::{Key, files, wire};
use crate::clock;
use crate::host::{self, End, MESSAGE_BYTES, Role, Unavailable};
use crate::records::Handle;

/// The largest body of a request: what the remote entry takes at most.
const BODY_BYTES: usize = 256 * 1024;
/// The longest text of a QR code; a sign-in link has a few hundred bytes.
const QR_BYTES: usize = 2048;

/// How the page is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// What the page has to show.
    pub key: Key,
    /// The provider runs against the simulated service: the page says so, and Coda's remote entry is played here.
    pub demo: bool,
}

/// Why the page can't be served.
#[derive(Debug, thiserror::Error)]
#[error("port {port} on 127.0.0.1")]
pub struct BindError {
    /// Which port was wanted.
    pub port: u16,
    /// Why not.
    #[source]
    pub source: std::io::Error,
}

/// Gives each session its provider.
type Ready = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Handle, Unavailable>> + Send>> + Send + Sync>;

/// A page's server that listens already.
#[derive(Debug)]
pub struct Preview {
    listener: TcpListener,
    port: u16,
    options: Options,
}

impl Preview {
    /// Binds 127.0.0.1 and nothing else.
    ///
    /// # Errors
    /// [`BindError`], where the port is taken.
    pub async fn bind(options: Options) -> Result<Self, BindError> {
        let failed = |source| BindError { port: options.port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port, options })
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The link to the page: for the person's terminal alone, since whoever has it can read and post.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://127.0.0.1:{}/#key={}", self.port, self.options.key.0)
    }

    /// Serves until `stop`, or until a session is told that the data folder belongs to another provider. Each page that connects is a session of its
    /// own, with the provider that `ready` gives it; the provider outlives them all. Every session has ended when this resolves. Dropping the future
    /// closes the listener; sessions under way then end with their connections.
    ///
    /// # Errors
    /// [`Unavailable`]: who holds the folder.
    pub async fn run<F, R>(self, ready: F, stop: CancellationToken) -> Result<(), Unavailable>
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Handle, Unavailable>> + Send + 'static,
    {
        let Self { listener, port, options } = self;
        let (given_up, mut gave_up) = mpsc::channel(1);
        let ended = CancellationToken::new();
        // Ends the server and the sessions, whatever began it.
        let over = ended.child_token();
        let shared = Shared {
            key: options.key,
            demo: options.demo.then(|| Arc::new(Demo { port, entry: Mutex::default() })),
            process: Uuid::new_v4().to_string(),
            ready: Arc::new(move || Box::pin(ready())),
            sessions: TaskTracker::new(),
            stop: over.clone(),
            given_up,
        };
        let sessions = shared.sessions.clone();
        let router = router(Arc::new(shared), Hosts::new(port));
        let serve = axum::serve(listener, router).with_graceful_shutdown(over.clone().cancelled_owned());
        let mut outcome = Ok(());
        let stopping = async {
            tokio::select! {
                () = stop.cancelled() => {}
                Some(unavailable) = gave_up.recv() => outcome = Err(unavailable),
            }
            ended.cancel();
        };
        let (served, ()) = tokio::join!(serve.into_future(), stopping);
        if let Err(error) = served {
            tracing::warn!(%error, "the page's server ended");
        }
        sessions.close();
        sessions.wait().await;
        outcome
    }
}

/// What the handlers share.
struct Shared {
    key: Key,
    demo: Option<Arc<Demo>>,
    process: String,
    ready: Ready,
    sessions: TaskTracker,
    stop: CancellationToken,
    given_up: mpsc::Sender<Unavailable>,
}

/// What only the demonstration has.
struct Demo {
    port: u16,
    entry: Mutex<Entry>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Demo {
    fn with<T>(&self, work: impl FnOnce(&mut Entry) -> T) -> T {
        work(&mut self.entry.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn router(shared: Arc<Shared>, hosts: Hosts) -> Router {
    let mut router =
        Router::new().route("/host", get(socket)).route("/host/hello", post(hello)).route("/host/qr", post(qr));
    if shared.demo.is_some() {
        router = router
            .route("/host/remote-code", post(remote_code))
            .route("/v1/remote-caller/bind", post(bind))
            .route("/v1/remote-caller", post(call));
    }
    router
        .fallback(get(file))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(from_fn_with_state(hosts, guard::guard))
        .with_state(shared)
}

async fn file(request: Request) -> Response {
    match files::find(request.uri().path()) {
        Some(file) => ([(header::CONTENT_TYPE, file.kind)], file.content).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn socket(State(shared): State<Arc<Shared>>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    if !guard::socket_has_key(&headers, &shared.key) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let session = Arc::clone(&shared);
    let tracker = shared.sessions.token();
    // As the other framing of the contract: a message over the contract's own limit is answered, one far over it breaks the connection.
    upgrade.protocols([PROTOCOL]).max_message_size(4 * MESSAGE_BYTES).max_frame_size(4 * MESSAGE_BYTES).on_upgrade(
        async move |socket| {
            let config = host::Config { role: Role::Guest, ready: (session.ready)(), stop: session.stop.clone() };
            if let End::GivenUp(unavailable) = host::ws::serve(socket, config).await {
                // One is enough: the first that says so ends the server.
                let _ = session.given_up.try_send(unavailable);
            }
            drop(tracker);
        },
    )
}

async fn hello(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if !guard::has_key(&headers, &shared.key) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let demo = shared.demo.is_some();
    json(StatusCode::OK, &wire::Hello { process: &shared.process, demo, version: env!("CARGO_PKG_VERSION") })
}

async fn qr(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if !guard::has_key(&headers, &shared.key) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let asked = parse::<wire::QrRequest>(&body).filter(|asked| asked.text.len() <= QR_BYTES);
    let Some(code) = asked.and_then(|asked| QrCode::new(asked.text).ok()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let colours = code.to_colors();
    let row = |row: &[Color]| row.iter().map(|colour| colour.select('1', '0')).collect();
    json(StatusCode::OK, &wire::Qr { rows: colours.chunks(code.width()).map(row).collect() })
}

async fn remote_code(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let demo = shared.demo.as_ref().filter(|_| guard::has_key(&headers, &shared.key));
    let Some(demo) = demo else { return StatusCode::FORBIDDEN.into_response() };
    let Some(wire::CodeRequest { record }) = parse(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    let code = demo.with(|entry| entry.issue(&record, Instant::now()));
    let life = i64::try_from(CODE_LIFE.as_millis()).unwrap_or(i64::MAX);
    let expires = chrono::DateTime::<Utc>::from_timestamp_millis(clock::wall().0.saturating_add(life));
    let answer = wire::RemoteCode {
        code,
        expires_at: expires.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true),
        addresses: vec![format!("http://127.0.0.1:{}", demo.port)],
    };
    json(StatusCode::OK, &answer)
}

/// The Bot's computer is no page: a request with an origin is one that a page was made to send.
fn from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN)
}

async fn bind(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(demo) = shared.demo.as_ref().filter(|_| !from_page(&headers)) else {
        return StatusCode::FORBIDDEN.into_response();
    };
    let Some(wire::BindRequest { code }) = parse(&body) else { return refuse(Refusal::Call) };
    match demo.with(|entry| entry.bind(&code, Instant::now())) {
        Ok((token, record)) => json(StatusCode::OK, &wire::Bound { token, record }),
        Err(refusal) => refuse(refusal),
    }
}

async fn call(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(demo) = shared.demo.as_ref().filter(|_| !from_page(&headers)) else {
        return StatusCode::FORBIDDEN.into_response();
    };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = given.and_then(|value| value.strip_prefix("Bearer ")) else { return refuse(Refusal::Token) };
    let Some(call) = parse::<wire::Call>(&body) else { return refuse(Refusal::Call) };
    match demo.with(|entry| entry.call(token, &call)) {
        Ok(result) => json(StatusCode::OK, &wire::Called { result }),
        Err(refusal) => refuse(refusal),
    }
}

fn refuse(refusal: Refusal) -> Response {
    let (status, code, message) = match refusal {
        Refusal::Code => (StatusCode::UNAUTHORIZED, "bad_code", "the code is unknown, used or expired"),
        Refusal::Token => (StatusCode::UNAUTHORIZED, "unauthorized", "the token is unknown or was replaced"),
        Refusal::Call => (StatusCode::BAD_REQUEST, "bad_request", "no such method, tool or thing"),
    };
    json(status, &wire::Refused { error: wire::RefusedError { code, message } })
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests;

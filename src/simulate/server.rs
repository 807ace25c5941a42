//! The listener and what every call passes: the log, planned faults, the routes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, DATE, HeaderName, LOCATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::faults::{Act, Refusal, milliseconds};
use super::log::Request as Logged;
use super::world::World;
use super::{control_http, gateway, rpc, signin, watch};

/// Larger requests are refused.
const MAX_REQUEST: usize = 64 << 20;

/// What all calls share.
#[derive(Debug)]
pub(super) struct Shared {
    world: Mutex<World>,
    /// `http://127.0.0.1:port`.
    pub(super) base: String,
    /// What the control endpoint wants to see.
    pub(super) key: String,
}

impl Shared {
    pub(super) fn new(world: World, base: String) -> Self {
        Self { world: Mutex::new(world), base, key: format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)) }
    }

    /// The world. Held for moments only, never across a wait. A panic elsewhere leaves it usable: every change is made of whole steps.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Put into a response whose connection is to be closed instead.
#[derive(Clone, Debug)]
struct CloseInstead;

/// A call, read in full.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) parts: Parts,
    pub(super) bytes: Bytes,
}

impl Call {
    pub(super) fn header(&self, name: impl Into<HeaderName>) -> &str {
        self.parts.headers.get(name.into()).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The media type without parameters.
    pub(super) fn media_type(&self) -> &str {
        let whole = self.header(CONTENT_TYPE);
        whole.split(';').next().unwrap_or("").trim()
    }

    /// The bearer token, if one came.
    pub(super) fn bearer(&self) -> &str {
        self.header(axum::http::header::AUTHORIZATION).strip_prefix("Bearer ").unwrap_or("")
    }

    /// The query's fields; of two of one name the last.
    pub(super) fn query(&self) -> Map<String, Value> {
        fields(self.parts.uri.query().unwrap_or("").as_bytes())
    }
}

/// Fields of a query or a form.
pub(super) fn fields(bytes: &[u8]) -> Map<String, Value> {
    url::form_urlencoded::parse(bytes).map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect()
}

/// Accepts connections until it is told to stop, or dropped; all connections end with it.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, stopping: CancellationToken) {
    let routes = Router::new().fallback(dispatch).with_state(shared);
    let service = TowerToHyperService::new(routes);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return connections.shutdown().await,
            accepted = listener.accept() => {
                // A refused accept (too many files) concerns one client; the listener stays.
                let Ok((stream, _)) = accepted else { continue };
                // Every chunk is its own: tests cut streams at bytes.
                let _ = stream.set_nodelay(true);
                connections.spawn(connection(TokioIo::new(stream), service.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(io: TokioIo<tokio::net::TcpStream>, routes: TowerToHyperService<Router>) {
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let answered = routes.call(request);
        async move {
            let Ok::<Response, Infallible>(response) = answered.await;
            if response.extensions().get::<CloseInstead>().is_some() {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
            }
            Ok::<_, io::Error>(response)
        }
    });
    // What a client does to its connection, and what a planned fault does to it, is nobody's error here.
    let _ = hyper::server::conn::http1::Builder::new().timer(TokioTimer::new()).serve_connection(io, service).await;
}

async fn dispatch(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_REQUEST).await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "Too large");
    };
    let call = Call { parts, bytes };
    let path = call.parts.uri.path().to_owned();
    if let Some(operation) = path.strip_prefix("/control/") {
        return control_http::answer(&shared, operation, &call);
    }
    let method = method_name(&path).to_owned();
    let (before, after) = record(&shared, &method, &call);
    if let Some(response) = strike(&shared, before).await {
        return dated(&shared, response);
    }
    let response = route(&shared, &path, &call);
    let response = strike(&shared, after).await.unwrap_or(response);
    dated(&shared, response)
}

/// The method's name in faults and the log: an RPC's own, else the path.
fn method_name(path: &str) -> &str {
    let path = path.trim_start_matches('/');
    match path.split_once('/') {
        Some(("aiserver.v1.GrokBotService" | "aiserver.v1.DashboardService", method)) => method,
        Some(("sandbox-store", _)) => "sandbox-store",
        _ => path,
    }
}

fn record(shared: &Shared, method: &str, call: &Call) -> (Vec<Act>, Vec<Act>) {
    let payload = super::wire::only_envelope(&call.bytes).unwrap_or(&call.bytes);
    let mut body: Value = serde_json::from_slice(payload).unwrap_or(Value::Null);
    let agent = ["agentId", "id"].iter().find_map(|name| body.get(*name)?.as_str().map(str::to_owned));
    if call.parts.method == Method::GET {
        body = call.query().into();
    }
    let headers: BTreeMap<String, String> = call
        .parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let verb = call.parts.method.as_str().to_owned();
    let mut world = shared.world();
    let World { secrets, tokens, .. } = &mut *world;
    secrets.judge(method, call, tokens);
    world.log.add(Logged { method: method.into(), verb, body, headers });
    world.touch();
    world.faults.strike(method, agent.as_deref())
}

/// Carries out faults; a response ends the call.
async fn strike(shared: &Shared, acts: Vec<Act>) -> Option<Response> {
    for act in acts {
        match act {
            Act::Delay { ms } => tokio::time::sleep(milliseconds(ms)).await,
            Act::Hold { gate } => {
                let gate = shared.world().faults.gate(&gate);
                gate.pass().await;
            }
            // Ends with the connection, or with the simulation.
            Act::Hang => std::future::pending().await,
            Act::Drop => {
                let mut response = Response::new(Body::empty());
                response.extensions_mut().insert(CloseInstead);
                return Some(response);
            }
            Act::Redirect { to } => {
                let mut response = text(StatusCode::FOUND, "");
                set(&mut response, LOCATION, &to);
                return Some(response);
            }
            Act::Error { code, status, retry_after } => {
                let mut refusal = Refusal::new(&code, "A planned fault.");
                refusal.status = status.unwrap_or(refusal.status);
                let mut response = refused(&refusal);
                if let Some(after) = retry_after {
                    set(&mut response, RETRY_AFTER, &after);
                }
                return Some(response);
            }
            Act::Answer { status, content_type, body, retry_after } => {
                let body = signin::with_tokens(shared, body);
                let mut response = answer(status, &content_type, body);
                if let Some(after) = retry_after {
                    set(&mut response, RETRY_AFTER, &after);
                }
                return Some(response);
            }
        }
    }
    None
}

fn route(shared: &Arc<Shared>, path: &str, call: &Call) -> Response {
    let verb = &call.parts.method;
    let parts: Vec<&str> = path.trim_start_matches('/').splitn(2, '/').collect();
    match (verb.as_str(), parts.as_slice()) {
        ("POST", ["aiserver.v1.GrokBotService", "WatchGrokBotTranscripts"]) => watch::open(shared, call),
        ("POST", [service @ ("aiserver.v1.GrokBotService" | "aiserver.v1.DashboardService"), method]) => {
            rpc::unary(shared, service, method, call)
        }
        ("GET", ["loginDeepControl"]) => signin::page(shared, call),
        ("POST", ["loginDeepControl", "confirm"]) => signin::confirm(shared, call),
        ("GET" | "POST", ["auth", "poll"]) => signin::poll(shared, call),
        ("POST", ["oauth", "token"]) => signin::renew(shared, call),
        ("POST", ["auth", "exchange_user_api_key"]) => signin::exchange_key(shared, call),
        ("GET", ["sandbox-store", rest]) => rpc::stored(shared, rest, call),
        ("POST", ["api", method]) => gateway::answer(shared, method, call),
        (_, ["aiserver.v1.GrokBotService" | "aiserver.v1.DashboardService", _]) => {
            text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        }
        // A wrong path gets a page, as upstream's edge does (sign-in reference, section 3.3).
        _ => answer(404, "text/html; charset=utf-8", "<!doctype html><title>404</title><h1>Not found</h1>"),
    }
}

/// The service's clock in the `Date` header: a client can tell that its own is wrong.
fn dated(shared: &Shared, mut response: Response) -> Response {
    let now = shared.world().now();
    let since = std::time::Duration::from_millis(u64::try_from(now).unwrap_or(0));
    let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + since);
    set(&mut response, DATE, &date);
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Any answer.
pub(super) fn answer(status: u16, content_type: &str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, CONTENT_TYPE, content_type);
    response
}

/// A plain line.
pub(super) fn text(status: StatusCode, line: &str) -> Response {
    answer(status.as_u16(), "text/plain; charset=utf-8", line.to_owned())
}

/// A JSON answer.
pub(super) fn json(status: u16, body: &Value) -> Response {
    answer(status, "application/json", body.to_string())
}

/// A Connect error.
pub(super) fn refused(refusal: &Refusal) -> Response {
    json(refusal.status, &refusal.body())
}

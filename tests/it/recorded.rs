//! A session recorded from another implementation of the service, replayed through the real client: numbers instead of strings, enum names without
//! their prefix, a list that ignores its bounds, a re-sent message that is accepted anew, a stream that was cut.
//!
//! Only two things differ from the recording: the nonce of the user's row is that of the message that was really sent, and GetMe, which it lacks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::support::{Heard, Host, bare, digest, search, texts, write_private};

const AGENT: &str = "bridge-agent-local";

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/recorded/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The body of a recorded answer.
fn body(name: &str) -> Vec<u8> {
    let all = recorded(name);
    let at = all.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    let at = at.or_else(|| all.windows(2).position(|window| window == b"\n\n").map(|at| at + 2));
    all[at.unwrap()..].to_vec()
}

/// The payloads of a recorded stream.
fn frames(name: &str) -> Vec<Vec<u8>> {
    let bytes = recorded(name);
    let mut rest = bytes.as_slice();
    let mut frames = Vec::new();
    while rest.len() >= 5 {
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
        frames.push(rest[5..5 + length].to_vec());
        rest = &rest[5 + length..];
    }
    frames
}

fn envelope(payload: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), payload].concat().into()
}

/// The row's nonce becomes that of the message that was sent; nothing else changes.
fn with_nonce(payload: &[u8], nonce: &str) -> Vec<u8> {
    let mut text = String::from_utf8(payload.to_vec()).unwrap();
    for part in text.clone().split('"').filter(|part| part.len() > 100) {
        let inner = String::from_utf8(STANDARD.decode(part).unwrap()).unwrap();
        text = text.replace(part, &STANDARD.encode(inner.replace("\"m-1\"", &format!("\"{nonce}\""))));
    }
    text.into_bytes()
}

type Chunks = mpsc::UnboundedSender<Result<Bytes, std::io::Error>>;

#[derive(Default)]
struct Session {
    harness: &'static str,
    nonce: Option<String>,
    streams: Vec<Chunks>,
    asked: Vec<(String, Value)>,
}

type Shared = Arc<Mutex<Session>>;

async fn answer(State(shared): State<Shared>, uri: Uri, request: Bytes) -> Response {
    let method = uri.path().rsplit('/').next().unwrap().to_owned();
    let mut session = shared.lock().unwrap();
    let asked = serde_json::from_slice(request.get(5..).filter(|_| method.starts_with("Watch")).unwrap_or(&request));
    let asked: Value = asked.unwrap_or(Value::Null);
    session.asked.push((method.clone(), asked.clone()));
    let json = |bytes: Vec<u8>| {
        Response::builder().header("content-type", "application/json").body(Body::from(bytes)).unwrap()
    };
    match method.as_str() {
        "GetMe" => json(br#"{"authId":"bridge-user","userId":77}"#.to_vec()),
        "ListGrokBotAgents" => {
            let text = String::from_utf8(body("02-list-agents.http")).unwrap();
            json(text.replace("\"box\"", &format!("\"{}\"", session.harness)).into_bytes())
        }
        "ListGrokBotTranscriptEntries" => json(match &session.nonce {
            None => body("03-list-entries-empty.http"),
            // With a bound and without: the same rows.
            Some(nonce) if asked["beforeSeq"].is_null() => with_nonce(&body("09-list-entries.http"), nonce),
            Some(nonce) => with_nonce(&body("10-list-entries-before.http"), nonce),
        }),
        "SendGrokBotUserMessage" => {
            if session.nonce.is_some() {
                return json(body("08-send-retry.http"));
            }
            let nonce = asked["messageId"].as_str().unwrap().to_owned();
            for frame in &frames("06-watch.response.bin")[1..] {
                let _ = session.streams[0].send(Ok(envelope(&with_nonce(frame, &nonce))));
            }
            session.nonce = Some(nonce);
            json(body("07-send.http"))
        }
        "WatchGrokBotTranscripts" => {
            let (chunks, stream) = mpsc::unbounded_channel();
            let first = session.streams.is_empty();
            let frames =
                if first { frames("06-watch.response.bin")[..1].to_vec() } else { frames("13-watch-34s.response.bin") };
            for frame in frames {
                let _ = chunks.send(Ok(envelope(&frame)));
            }
            session.streams.push(chunks);
            let chunks =
                futures_util::stream::unfold(stream, |mut stream| async move { Some((stream.recv().await?, stream)) });
            Response::builder()
                .header("content-type", "application/connect+json")
                .body(Body::from_stream(chunks))
                .unwrap()
        }
        // What it doesn't know it answers with nothing.
        _ => json(body("11-widget.http")),
    }
}

async fn replay(harness: &'static str, expected: &[(&str, &str)]) {
    let shared = Shared::new(Mutex::new(Session { harness, ..Session::default() }));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });

    let folder = tempfile::tempdir().unwrap();
    let now = std::fs::metadata(folder.path()).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"sub": "bridge-user", "exp": (now + Duration::from_hours(24)).as_secs()});
    let token = format!("{}.{}.no-signature-at-all", part(json!({"alg": "none"})), part(claims));
    let document = json!({"accessToken": token, "refreshToken": "x", "authId": "bridge-user"});
    write_private(&folder.path().join("native-auth.json"), document.to_string().as_bytes());
    let mut command = bare(&["serve", "--log", "debug"]);
    command
        .env("GROK_BOT_BACKEND_URL", &base)
        .env("GROK_BOT_WEBSITE_URL", &base)
        .env("CODA_PLUGIN_DATA", folder.path());
    let heard = Heard::default();
    let mut host = Host::spawn(command, heard.clone());
    host.initialize().await;
    let record = format!("grok-bot:{}:{AGENT}", digest("77"));
    host.ready(&record).await;
    assert_eq!(host.records[&record]["title"], "Bridge Bot");
    let streams = |shared: &Shared| shared.lock().unwrap().streams.len();
    while streams(&shared) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    // Posted twice as one request: the other implementation accepts both, and holds one row.
    for run in ["r1", "r2"] {
        let params = json!({"record": record, "run": {"id": run}, "caller": "u", "requestId": "q", "text": "hello"});
        host.call("session/post", params).await.unwrap();
        let settled = host.settle(run).await;
        assert_eq!(settled["result"]["message"]["cursor"], "1:1", "{settled}");
    }
    let check = |messages: &[Value]| {
        let found: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| {
                (message["from"].as_str().unwrap().split(':').next().unwrap(), message["text"].as_str().unwrap())
            })
            .collect();
        assert_eq!(found, expected);
    };
    check(&host.reads(&record, "the session", |messages| messages.len() >= expected.len()).await);
    // The stream is cut as the recording was: a full read follows, and still everything is there once.
    shared.lock().unwrap().streams[0] = mpsc::unbounded_channel().0;
    while streams(&shared) == 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let messages = host.reads(&record, "the session", |messages| messages.len() >= expected.len()).await;
    check(&messages);
    assert_eq!(texts(&messages)[0], "hello");
    let host = host.quit().await;
    assert!(host.withdrawn.is_empty());
    drop(host);
    let texts = expected.iter().map(|(_, text)| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(search(&heard, folder.path(), &[token], &texts), Vec::<String>::new());
    let session = shared.lock().unwrap();
    let count = |method: &str| session.asked.iter().filter(|(asked, _)| asked == method).count();
    assert_eq!(count("SendGrokBotUserMessage"), 2);
    assert!(count("ListGrokBotTranscriptEntries") <= 5, "two reads of an endless list: {:?}", session.asked);
    let resumed = session.asked.iter().rfind(|(method, _)| method == "WatchGrokBotTranscripts").unwrap();
    assert_eq!(resumed.1["cursors"][0]["afterUpdatedSeq"], "2");
}

#[tokio::test]
async fn as_recorded_the_line_is_there_once_and_no_reply() {
    replay("box", &[("account", "hello")]).await;
}

#[tokio::test]
async fn with_another_harness_the_reply_is_there_once_too() {
    replay("temporal", &[("account", "hello"), ("agent", "canned reply to: hello")]).await;
}

//! Real sockets on loopback: what a browser, a stranger and a Bot's computer get.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::*;
use crate::records;

/// Room for a busy machine; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

struct Running {
    port: u16,
    key: String,
    stop: CancellationToken,
    server: JoinHandle<Result<(), Unavailable>>,
    // The loop's end of the provider, which isn't run here.
    _publisher: records::Publisher,
    _commands: mpsc::Receiver<records::Command>,
}

async fn start(demo: bool) -> Running {
    let (sender, commands) = mpsc::channel(8);
    let (handle, publisher) = records::new(sender);
    let running = start_with(demo, move || {
        let handle = handle.clone();
        async move { Ok(handle) }
    })
    .await;
    Running { _publisher: publisher, _commands: commands, ..running }
}

async fn start_with<F, R>(demo: bool, ready: F) -> Running
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<Handle, Unavailable>> + Send + 'static,
{
    let preview = Preview::bind(Options { port: 0, key: Key::random(), demo }).await.unwrap();
    let (sender, commands) = mpsc::channel(1);
    let (_, publisher) = records::new(sender);
    let stop = CancellationToken::new();
    Running {
        port: preview.port(),
        key: preview.options.key.0.clone(),
        stop: stop.clone(),
        #[expect(clippy::disallowed_methods, reason = "a test awaits it")]
        server: tokio::spawn(preview.run(ready, stop)),
        _publisher: publisher,
        _commands: commands,
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Running {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let own = format!("127.0.0.1:{}", self.port);
        let host = headers.iter().find(|(name, _)| *name == "host").map_or(own.as_str(), |(_, value)| value);
        let others = headers.iter().filter(|(name, _)| *name != "host");
        let others: String = others.flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{others}content-length: {length}\r\n\r\n{body}"
        );
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(LIMIT, socket.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let origin = self.origin();
        self.ask("POST", path, &[("origin", &origin), ("x-preview-key", &self.key)], &body.to_string()).await
    }

    async fn socket(
        &self,
        key: &str,
        origin: Option<&str>,
    ) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, tokio_tungstenite::tungstenite::Error> {
        let mut request = format!("ws://127.0.0.1:{}/host", self.port).into_client_request().unwrap();
        let offered = format!("coda-grok-bot.host, key.{key}");
        request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        connect_async(request).await.map(|(socket, _)| socket)
    }

    async fn end(self) -> Result<(), Unavailable> {
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.server).await.expect("the server ends").unwrap()
    }
}

async fn next(socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>) -> Option<Value> {
    match tokio::time::timeout(LIMIT, socket.next()).await.expect("in time")? {
        Ok(Message::Text(text)) => Some(serde_json::from_str(&text).unwrap()),
        _ => None,
    }
}

fn request(id: u64, method: &str, params: &Value) -> Message {
    Message::text(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
}

#[tokio::test]
async fn every_answer_carries_the_policy_and_is_kept_nowhere() {
    let running = start(false).await;
    for (path, status) in [("/", 200), ("/main.js", 200), ("/vendor/marked.js", 200), ("/nothing", 404)] {
        let answer = running.ask("GET", path, &[], "").await;
        assert_eq!(answer.status, status, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_name_bent_to_loopback_and_another_site_get_nothing() {
    let running = start(true).await;
    let rebound = format!("rebound.example:{}", running.port);
    for path in ["/", "/main.js"] {
        assert_eq!(running.ask("GET", path, &[("host", &rebound)], "").await.status, 403);
        assert_eq!(running.ask("GET", path, &[("origin", "http://evil.example")], "").await.status, 403);
    }
    let key = running.key.clone();
    let headers = [("origin", "http://evil.example"), ("x-preview-key", key.as_str())];
    for path in ["/host/hello", "/host/remote-code", "/v1/remote-caller/bind"] {
        assert_eq!(running.ask("POST", path, &headers, "{}").await.status, 403, "{path}");
    }
    assert_eq!(
        running.ask("OPTIONS", "/host/hello", &[], "").await.status,
        405,
        "no other site is let in by a preflight"
    );
    assert!(running.socket(&key, Some("http://evil.example")).await.is_err());
    running.end().await.unwrap();
}

#[tokio::test]
async fn without_the_key_there_is_neither_a_session_nor_an_answer() {
    let running = start(true).await;
    let origin = running.origin();
    let wrong = Key::random().0;
    for key in [wrong.as_str(), ""] {
        let headers = [("origin", origin.as_str()), ("x-preview-key", key)];
        for path in ["/host/hello", "/host/qr", "/host/remote-code"] {
            assert_eq!(running.ask("POST", path, &headers, "{}").await.status, 403, "{path}");
        }
        assert!(running.socket(key, Some(&origin)).await.is_err());
    }
    assert!(running.socket(&running.key, None).await.is_err(), "a browser always tells its origin");
    running.end().await.unwrap();
}

#[tokio::test]
async fn the_page_speaks_the_contract_and_ends_with_the_server() {
    let running = start(false).await;
    let mut socket = running.socket(&running.key, Some(&running.origin())).await.unwrap();
    socket.send(request(1, "initialize", &json!({"protocolVersion": "5.7.0"}))).await.unwrap();
    let answer = next(&mut socket).await.unwrap();
    assert_eq!(answer["result"]["plugin"]["id"], "grok-bot");
    socket.send(request(2, "records/list", &json!({}))).await.unwrap();
    loop {
        let message = next(&mut socket).await.unwrap();
        if message["id"] == 2 {
            assert_eq!(message["result"]["records"], json!([]));
            break;
        }
    }
    // A second page is a session of its own, and the end of one isn't the other's.
    let mut second = running.socket(&running.key, Some(&running.origin())).await.unwrap();
    second.send(request(1, "initialize", &json!({"protocolVersion": "5.7.0"}))).await.unwrap();
    assert!(next(&mut second).await.is_some());
    drop(socket);
    second.send(request(2, "resource/status", &json!({}))).await.unwrap();
    while next(&mut second).await.unwrap()["id"] != 2 {}
    running.end().await.unwrap();
    while next(&mut second).await.is_some() {}
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let options = |port| Options { port, key: Key::random(), demo: false };
    let first = Preview::bind(options(0)).await.unwrap();
    let error = Preview::bind(options(first.port())).await.unwrap_err();
    assert_eq!((error.port, error.source.kind()), (first.port(), std::io::ErrorKind::AddrInUse));
    assert!(error.to_string().contains(&first.port().to_string()), "{error}");
}

#[tokio::test]
async fn h5_a_folder_that_another_provider_holds_ends_the_preview() {
    let held = "数据目录正被另一个插件使用。";
    let running = start_with(false, || async { Err(Unavailable { message: held.to_owned() }) }).await;
    let mut socket = running.socket(&running.key, Some(&running.origin())).await.unwrap();
    socket.send(request(1, "initialize", &json!({"protocolVersion": "5.7.0"}))).await.unwrap();
    while next(&mut socket).await.is_some() {}
    let ended = tokio::time::timeout(LIMIT, running.server).await.unwrap().unwrap();
    assert_eq!(ended, Err(Unavailable { message: held.to_owned() }));
}

#[tokio::test]
async fn a_code_of_the_page_binds_a_computer_whose_calls_are_answered() {
    let running = start(true).await;
    let code = running.post("/host/remote-code", &json!({"record": "grok-bot:a:1"})).await.json();
    assert_eq!(code["addresses"], json!([running.origin()]));
    let redeem = json!({"code": code["code"]}).to_string();
    // The computer has neither the key nor an origin.
    let bound = running.ask("POST", "/v1/remote-caller/bind", &[], &redeem).await;
    assert_eq!((bound.status, &bound.json()["record"]), (200, &json!("grok-bot:a:1")));
    assert_eq!(running.ask("POST", "/v1/remote-caller/bind", &[], &redeem).await.status, 401);

    let bearer = format!("Bearer {}", bound.json()["token"].as_str().unwrap());
    let call = json!({"method": "tool", "params": {"name": "coda_machines", "arguments": {}}}).to_string();
    let answer = running.ask("POST", "/v1/remote-caller", &[("authorization", &bearer)], &call).await;
    assert!(answer.json()["result"]["machines"].is_array(), "{}", answer.body);
    assert_eq!(running.ask("POST", "/v1/remote-caller", &[("authorization", "Bearer x")], &call).await.status, 401);
    assert_eq!(running.ask("POST", "/v1/remote-caller", &[], &call).await.status, 401);
    assert_eq!(running.ask("POST", "/v1/remote-caller", &[("authorization", &bearer)], "{").await.status, 400);
    // A page that was led here must not call, even of this origin.
    let led = [("authorization", bearer.as_str()), ("origin", &running.origin())];
    assert_eq!(running.ask("POST", "/v1/remote-caller", &led, &call).await.status, 403);
    running.end().await.unwrap();
}

#[tokio::test]
async fn without_the_demonstration_there_is_no_remote_entry() {
    let running = start(false).await;
    assert_eq!(running.post("/host/hello", &json!({})).await.json()["demo"], json!(false));
    for path in ["/host/remote-code", "/v1/remote-caller/bind", "/v1/remote-caller"] {
        assert!(matches!(running.post(path, &json!({"record": "r"})).await.status, 404 | 405), "{path}");
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_link_becomes_a_square_of_modules() {
    let running = start(false).await;
    let rows = running.post("/host/qr", &json!({"text": "https://example.test/loginDeepControl?uuid=1"})).await.json();
    let rows: Vec<&str> = rows["rows"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    assert!(rows.len() >= 21 && rows.iter().all(|row| row.len() == rows.len()));
    // The corner of every QR code.
    assert!(rows[0].starts_with("1111111") && rows[1].starts_with("1000001"));
    let long = "x".repeat(QR_BYTES + 1);
    assert_eq!(running.post("/host/qr", &json!({"text": long})).await.status, 400);
    running.end().await.unwrap();
}

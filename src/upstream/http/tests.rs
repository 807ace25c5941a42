use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::*;
use crate::connect::Reach;
use crate::connect::testing::{Peer, Request, Step, answer, chunk, envelope, http, json, last_chunk, stream_head};
use crate::model::{Content, Cursor, EntryId, Row};
use crate::upstream::Frame;

const SHORT: Limits =
    Limits { read: Duration::from_secs(10), action: Duration::from_secs(10), blob: Duration::from_secs(10) };

fn token() -> AccessToken {
    AccessToken::new("secret-token".to_owned())
}

fn upstream(peer: &Peer) -> HttpUpstream {
    HttpUpstream::new(http(), peer.base(), SHORT)
}

async fn with(script: Vec<Step>) -> (Peer, HttpUpstream) {
    let peer = Peer::start(vec![script]).await;
    let upstream = upstream(&peer);
    (peer, upstream)
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/recorded/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

async fn drain(frames: &mut Box<dyn Frames>) -> (Vec<Frame>, Result<(), Error>) {
    let mut all = Vec::new();
    loop {
        match frames.next().await {
            Ok(Some(frames)) => all.extend(frames),
            Ok(None) => return (all, Ok(())),
            Err(error) => return (all, Err(error)),
        }
    }
}

#[tokio::test]
async fn calls_carry_what_the_service_asks_for() {
    let (mut peer, upstream) = with(json(r#"{"userId":7}"#)).await;
    assert_eq!(upstream.me(token()).await.unwrap().user_id.as_deref(), Some("7"));
    let Request { head, body } = peer.request().await;
    assert_eq!(body, b"{}");
    for part in [
        "post /aiserver.v1.dashboardservice/getme http/1.1\r\n",
        "\r\nauthorization: bearer secret-token\r\n",
        "\r\nx-cursor-client-type: sand\r\n",
        "\r\nx-cursor-client-version: ",
        "\r\nx-sand-box-namespace: prod\r\n",
        "\r\nx-ghost-mode: true\r\n",
        "\r\nx-request-id: ",
    ] {
        assert!(head.contains(part), "{part:?} in {head}");
    }
    assert!(!head.contains("connect-accept-encoding"), "{head}");
    let shown = format!("{upstream:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn each_call_goes_to_its_method() {
    let agent = AgentId::from("a");
    let mut peer = Peer::start(vec![json("{}")]).await;
    let upstream = upstream(&peer);
    let page = PageRequest { agent_id: agent.clone(), generation: None, before_seq: None, limit: 2 };
    let send = SendRequest {
        agent_id: agent.clone(),
        message_id: "m".to_owned(),
        text: "hello".into(),
        sent_at: Wall(1),
        reply_to: None,
    };
    let widget = WidgetRequest { agent_id: agent.clone(), entry_id: EntryId::from("e"), value: "v".into() };
    assert_eq!(upstream.agents(token()).await.unwrap().bots.len(), 0);
    assert_eq!(upstream.entries(token(), page).await.unwrap(), Page::default());
    assert_eq!(upstream.send(token(), send).await.unwrap(), Delivery::Unclear);
    assert_eq!(upstream.send_status(token(), agent, "m".to_owned()).await.unwrap(), SendStatus::Other);
    assert_eq!(upstream.respond_widget(token(), widget).await.unwrap(), WidgetAnswer::Unclear);
    for method in [
        "listgrokbotagents",
        "listgrokbottranscriptentries",
        "sendgrokbotusermessage",
        "getgrokbotsendstatus",
        "respondgrokbotwidget",
    ] {
        let head = peer.request().await.head;
        assert!(head.starts_with(&format!("post /aiserver.v1.grokbotservice/{method} ")), "{head}");
    }
}

#[tokio::test]
async fn the_date_of_the_roster_is_the_services() {
    let (_peer, upstream) = with(answer("200 OK", "date: Mon, 30 Nov 2026 10:00:00 GMT\r\n", "{}")).await;
    assert_eq!(upstream.agents(token()).await.unwrap().date, Some(Wall(1_796_032_800_000)));
}

#[tokio::test]
async fn failures_are_told_apart() {
    for (script, kind) in [
        (answer("401 Unauthorized", "", r#"{"code":"unauthenticated"}"#), ErrorKind::Auth),
        (answer("400 Bad", "", r#"{"code":"failed_precondition"}"#), ErrorKind::Stale),
        (
            answer("503 Busy", "retry-after: 3\r\n", r#"{"code":"unavailable"}"#),
            ErrorKind::Transient { retry_after: Some(Duration::from_secs(3)) },
        ),
        (json("<html>a captive portal</html>"), ErrorKind::Broken),
        (vec![], ErrorKind::Broken),
    ] {
        let (_peer, upstream) = with(script).await;
        let error = upstream.me(token()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.detail.starts_with("GetMe: "), "{error}");
        assert!(!error.to_string().contains("secret-token") && !error.to_string().contains("captive"), "{error}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let base = BaseUrl::parse(&format!("http://{address}"), Reach::Loopback).unwrap();
    let error = HttpUpstream::new(http(), base, SHORT).me(token()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSent, "{error}");
}

#[tokio::test]
async fn a23_no_socket_opens_to_another_machine_under_test() {
    // Allowed by a careless caller, refused by the clients themselves.
    let base = BaseUrl::parse("https://api2.cursor.sh", Reach::Anywhere).unwrap();
    let error = HttpUpstream::new(http(), base, SHORT).me(token()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSent);
    assert!(error.detail.contains("GROK_BOT_TEST"), "{error}");
}

#[tokio::test]
async fn the_recorded_stream() {
    let (mut peer, upstream) = with(vec![stream_head(), chunk(&recorded("06-watch.response.bin")), last_chunk()]).await;
    let cursor = Cursor { generation: 1, number: 0 };
    let request = WatchRequest { cursors: vec![(AgentId::from("bridge-agent-local"), cursor)] };
    let mut frames = upstream.watch(token(), request).await.unwrap();
    let (frames, end) = drain(&mut frames).await;
    assert!(
        matches!(frames[0], Frame::Connected { lifetime: Some(lifetime), .. } if lifetime == Duration::from_hours(1)),
        "{:?}",
        frames[0]
    );
    let said: Vec<(u64, u64, String)> = frames[1..]
        .iter()
        .map(|frame| match frame {
            Frame::Rows { rows, .. } => match &rows[..] {
                [Row { seq, number, body: RowBody::Entry(entry), .. }] => match &entry.content {
                    Content::Message(content) => (*seq, *number, content.to_string()),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(said, [(1, 1, "hello".to_owned()), (2, 2, "canned reply to: hello".to_owned())]);
    assert_eq!(end.unwrap_err().kind, ErrorKind::Broken, "it was recorded up to a cut");
    let request = peer.request().await;
    assert!(request.head.starts_with("post /aiserver.v1.grokbotservice/watchgrokbottranscripts "));
    let payload = &request.body[5..];
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(payload).unwrap()["includeUnlistedAgents"],
        serde_json::json!(true)
    );
    assert_eq!(request.body[..5], envelope(0, std::str::from_utf8(payload).unwrap())[..5]);
}

#[tokio::test]
async fn the_recorded_heartbeats_one_byte_at_a_time() {
    let mut script = vec![stream_head()];
    script.extend(recorded("13-watch-34s.response.bin").iter().map(|byte| chunk(&[*byte])));
    script.extend([chunk(&envelope(2, "{}")), last_chunk()]);
    let (_peer, upstream) = with(script).await;
    let mut frames = upstream.watch(token(), WatchRequest::default()).await.unwrap();
    let (frames, end) = drain(&mut frames).await;
    assert_eq!(frames[1..], [Frame::Heartbeat, Frame::Heartbeat]);
    end.unwrap();
}

#[tokio::test]
async fn a1_rows_before_a_cut_count_once_and_the_stream_is_broken() {
    let rows = r#"{"rows":{"agentId":"a","entries":[{"seq":"5","updatedSeq":"5"}]}}"#;
    let (_peer, upstream) =
        with(vec![stream_head(), chunk(&envelope(0, r#"{"connected":{}}"#)), chunk(&envelope(0, rows)), last_chunk()])
            .await;
    let mut frames = upstream.watch(token(), WatchRequest::default()).await.unwrap();
    let (frames, end) = drain(&mut frames).await;
    assert_eq!(frames.iter().filter(|frame| matches!(frame, Frame::Rows { .. })).count(), 1);
    assert_eq!(end.unwrap_err().kind, ErrorKind::Broken);
}

#[tokio::test]
async fn one_odd_frame_leaves_the_stream_alive() {
    let mut script = vec![stream_head()];
    for frame in [
        "not json",
        r#"{"rows":5}"#,
        r#"{"hologram":{}}"#,
        r#"{"agentState":{"live":[5,{"agentId":"a","isRunning":true}]}}"#,
        r#"{"heartbeat":{}}"#,
    ] {
        script.push(chunk(&envelope(0, frame)));
    }
    script.push(chunk(&envelope(2, r#"{"error":{"code":"unauthenticated"}}"#)));
    let (_peer, upstream) = with(script).await;
    let mut frames = upstream.watch(token(), WatchRequest::default()).await.unwrap();
    let (frames, end) = drain(&mut frames).await;
    let malformed = frames.iter().filter(|frame| matches!(frame, Frame::Malformed(_))).count();
    assert_eq!((frames.len(), malformed), (6, 3), "{frames:?}");
    assert!(matches!(&frames[4], Frame::AgentState { live, .. } if live.len() == 1));
    assert_eq!(frames[5], Frame::Heartbeat);
    assert_eq!(end.unwrap_err().kind, ErrorKind::Auth, "a 401 may come as an end frame");
}

// Stored bodies.

const BODY: &str = r#"{"id":"e","kind":"message","role":"user","content":"很长的话"}"#;

fn body_hash() -> String {
    hex(&Sha256::digest(BODY))
}

/// A backend that presigns a URL on `store`, whose path and query come from `place`.
async fn backend(place: impl FnOnce(&str) -> String, hash: &str) -> Peer {
    let url = place(hash);
    let answer = serde_json::json!({"instructions":[{"relPath":"blobs/other"},{"relPath":format!("blobs/{hash}"),"url":url,"expiresAtMs":"1"}]});
    Peer::start(vec![json(&answer.to_string())]).await
}

async fn store(script: Vec<Step>) -> (SocketAddr, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, Peer::on(listener, vec![script]))
}

async fn fetch(script: Vec<Step>, hash: &str) -> (Result<Option<RowBody>, Error>, Peer, Peer) {
    let (address, store) = store(script).await;
    let backend = backend(|hash| format!("http://{address}/b/{hash}?sig=secret-signature"), hash).await;
    let body = upstream(&backend).blob(token(), hash.into(), "message".into()).await;
    (body, backend, store)
}

#[tokio::test]
async fn a_stored_body_is_read_without_credentials() {
    let hash = body_hash();
    let (body, mut backend, mut store) = fetch(answer("200 OK", "", BODY), &hash).await;
    let Some(RowBody::Entry(entry)) = body.unwrap() else { panic!() };
    assert_eq!(entry.content, Content::Message("很长的话".into()));
    let presign = backend.request().await;
    assert_eq!(presign.text(), format!(r#"{{"relPaths":["blobs/{hash}"]}}"#));
    let get = store.request().await.head;
    assert!(get.starts_with(&format!("get /b/{hash}?sig=secret-signature http/1.1")), "{get}");
    for header in ["authorization", "x-cursor", "x-request-id", "cookie", "connect-"] {
        assert!(!get.contains(header), "{header} in {get}");
    }
}

#[tokio::test]
async fn a_stored_body_must_match_its_hash() {
    let hash = body_hash();
    let (body, ..) = fetch(answer("200 OK", "", "{\"kind\":\"message\",\"content\":\"another\"}"), &hash).await;
    assert!(matches!(body.unwrap(), Some(RowBody::Malformed(_))));
    let (body, ..) = fetch(answer("200 OK", "", BODY), &hash.to_uppercase()).await;
    assert!(matches!(body.unwrap(), Some(RowBody::Entry(_))));
    let (body, ..) = fetch(answer("200 OK", "", BODY), "no_SHA-256_but_a_hash").await;
    assert!(matches!(body.unwrap(), Some(RowBody::Entry(_))), "another kind of hash can't be verified");
}

#[tokio::test]
async fn failures_of_the_store() {
    let hash = body_hash();
    for (script, expected) in [
        (answer("404 Not Found", "", ""), None),
        (answer("403 Forbidden", "", "<Error>expired</Error>"), Some(ErrorKind::Transient { retry_after: None })),
        (answer("401 Unauthorized", "", ""), Some(ErrorKind::Transient { retry_after: None })),
        (answer("503 Slow Down", "", ""), Some(ErrorKind::Transient { retry_after: None })),
        (answer("302 Found", "location: https://elsewhere.example.test/\r\n", ""), Some(ErrorKind::Permanent)),
        (
            vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 33554433\r\n\r\n".to_vec()), Step::Hold],
            Some(ErrorKind::Broken),
        ),
        (vec![], Some(ErrorKind::Broken)),
    ] {
        let (body, ..) = fetch(script.clone(), &hash).await;
        match (body, expected) {
            (Ok(None), None) => {}
            (Err(error), Some(kind)) => {
                assert_eq!(error.kind, kind, "{error}");
                assert!(!error.to_string().contains("secret-signature"), "{error}");
            }
            (body, expected) => panic!("{script:?}: {body:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn urls_of_stored_bodies_are_judged() {
    let hash = body_hash();
    let (address, store) = store(answer("200 OK", "", BODY)).await;
    for url in [
        // Another machine, under test: before a socket opens.
        "https://store.example.test/b?sig=secret".to_owned(),
        "http://store.example.test/b?sig=secret".to_owned(),
        format!("http://user:secret@{address}/b"),
        "file:///etc/secret".to_owned(),
        "secret".to_owned(),
        String::new(),
    ] {
        let backend = backend(|_| url.clone(), &hash).await;
        let error = upstream(&backend).blob(token(), hash.as_str().into(), "message".into()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Permanent | ErrorKind::NotSent), "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert_eq!(store.waiting(), 0);
    let missing = Peer::start(vec![json("{}")]).await;
    let body = upstream(&missing).blob(token(), hash.as_str().into(), "message".into()).await;
    assert_eq!(body.unwrap(), None, "no instruction for it");
    for odd in ["", "short", "../../../../etc/passwd", "a/b/c/d/e/f/g/h/i/j", "0123456789abcdef?x=1"] {
        let body = upstream(&missing).blob(token(), odd.into(), "message".into()).await;
        assert!(matches!(body.unwrap(), Some(RowBody::Malformed(_))), "{odd}");
    }
}

#[tokio::test]
async fn actions_have_their_own_limit() {
    let peer = Peer::start(vec![vec![Step::Hold]]).await;
    let limits = Limits { action: Duration::from_millis(200), ..SHORT };
    let widget = WidgetRequest { agent_id: AgentId::from("a"), entry_id: EntryId::from("e"), value: "v".into() };
    let upstream = HttpUpstream::new(http(), peer.base(), limits);
    let error = upstream.respond_widget(token(), widget).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Broken, "it may have been done");
}

#[test]
fn limits_of_the_program() {
    let limits = Limits::default();
    assert_eq!((limits.read.as_secs(), limits.action.as_secs(), limits.blob.as_secs()), (15, 20, 30));
}

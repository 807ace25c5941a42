//! The process: its beginning, its end, its folder, its other transport.

use std::time::Duration;

use coda_grok_bot::platform;
use coda_grok_bot::simulate::{Act, Fault, Options};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Bench, Host, LIMIT, kind, signal};

/// Two seconds of its own, and room for a machine that is busy.
const END: Duration = Duration::from_secs(5);
/// How long it may take once stdin is closed.
const CLOSED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn h1_h2_stdout_carries_the_protocol_alone() {
    let bench = Bench::new(Options::default()).await;
    bench.bot("a");
    bench.sign_in();
    // The loudest log there is: every line of it belongs on stderr.
    let mut host = Host::spawn(bench.command(&["serve", "--log", "trace"]), bench.heard());
    host.initialize().await;
    host.ready(&bench.record("a")).await;
    host.send("{nonsense");
    host.send("[]");
    host.send(r#"{"jsonrpc":"1.0","id":"seven","method":"records/list"}"#);
    host.send("");
    host.send(&format!("{{\"jsonrpc\":\"2.0\",\"pad\":\"{}\"}}", "x".repeat(9 * 1024 * 1024)));
    assert!(host.call("records/list", json!({})).await.is_ok(), "the connection goes on");
    let failed = |host: &Host| host.log.iter().filter(|message| message.get("error").is_some()).count();
    host.until("four errors", |host| failed(host) == 4).await;
    let codes: Vec<i64> = host.log.iter().filter_map(|message| message["error"]["code"].as_i64()).collect();
    assert_eq!(codes.iter().filter(|code| **code == -32700).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == -32600).count(), 3, "{codes:?}");
    let host = host.quit().await;
    assert!(!host.stderr().is_empty());
}

#[tokio::test]
async fn nothing_that_was_said_is_in_the_log() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "机器人的话").unwrap();
    control.add("a", json!({"id": "e2", "kind": "message", "role": "user", "content": ["不是文字的话"]})).unwrap();
    control.ask("a", "w1", "卡片的话", &[("选项的话", "")]).unwrap();
    control.set_live("a", "", Some(coda_grok_bot::simulate::Live::thinking("思考的话")));
    let mut host = bench.serve_ready().await;
    control.fault(Fault::next("SendGrokBotUserMessage", Act::error("permission_denied")));
    host.post(&record, "r1", "被拒绝的话").await;
    host.post(&record, "r2", "人的话").await;
    host.begin_post(&record, "r3", "选项的话", Some("1:w1")).await;
    host.settle("r3").await;
    let host = host.quit().await;
    // Every text of this test ends in these two characters.
    assert!(!host.stderr().contains("的话"), "{}", host.stderr());
}

#[tokio::test]
async fn h5_initialize_comes_first_and_once() {
    let bench = Bench::with_bot().await;
    let mut host = bench.spawn();
    let early = host.call("records/list", json!({})).await;
    assert_eq!((kind(&early), &early.as_ref().unwrap_err()["code"]), ("not_initialized", &json!(-32002)));
    for version in ["4.9.0", "5.6.9", "6.0.0", "five"] {
        let refused = host.call("initialize", json!({"protocolVersion": version})).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{version}");
        assert!(refused["message"].as_str().unwrap().contains("5.7"), "{refused}");
    }
    let result = host.call("initialize", json!({"protocolVersion": "5.12.3"})).await.unwrap();
    assert_eq!(
        result,
        json!({
            "plugin": {"id": "grok-bot", "version": "0.5.0"}, "protocolVersion": "5.7.0",
            "protocols": ["coda/session@1"], "views": ["bind"],
        })
    );
    let again = host.call("initialize", json!({"protocolVersion": "5.7.0"})).await.unwrap_err();
    assert_eq!(again["code"], -32600);
    host.quit().await;
}

#[tokio::test]
async fn h6_shutdown_signals_and_the_end_of_stdin_end_it_cleanly() {
    for how in ["shutdown", "eof", "TERM", "INT", "HUP"] {
        if how == "HUP" && platform::hangup_is_ignored() {
            // The tests themselves are run under `nohup`.
            continue;
        }
        let bench = Bench::with_bot().await;
        let record = bench.record("a");
        let mut host = bench.serve_ready().await;
        // Something that would take a minute is under way.
        bench.control.fault(Fault::next("SendGrokBotUserMessage", Act::Hang));
        host.begin_post(&record, "r1", "你好", None).await;
        bench.until("it is out", |control| control.count("SendGrokBotUserMessage") == 1).await;
        let begun = Instant::now();
        match how {
            "shutdown" => {
                assert_eq!(host.call("shutdown", json!({})).await, Ok(Value::Null));
                assert_eq!(host.settled["r1"]["reason"], "unknown", "settled before the answer");
                host.close();
            }
            "eof" => host.close(),
            name => signal(host.pid(), name).await,
        }
        let status = host.end().await;
        assert_eq!(status.code(), Some(0), "{how}: {status:?}");
        assert!(begun.elapsed() < END, "{how}: {:?}", begun.elapsed());
        assert_eq!(host.settled["r1"]["reason"], "unknown", "{how}");
        bench.until("its stream is closed", |control| control.open_streams() == 0).await;
    }
}

#[tokio::test]
async fn h6_nothing_to_do_ends_at_once_too() {
    let bench = Bench::new(Options::default()).await;
    let mut host = bench.spawn();
    host.close();
    assert_eq!(host.end().await.code(), Some(0));
    // Before `initialize` a signal ends it as well.
    let mut host = bench.spawn();
    assert_eq!(kind(&host.call("shutdown", json!({})).await), "not_initialized");
    signal(host.pid(), "TERM").await;
    assert_eq!(host.end().await.code(), Some(0));
}

#[tokio::test]
async fn h6_an_end_before_the_folder_is_ours_waits_for_nothing() {
    let bench = Bench::with_bot().await;
    // Nobody asked for the folder yet.
    let mut host = bench.spawn();
    let begun = Instant::now();
    host.close();
    assert_eq!(host.end().await.code(), Some(0));
    assert!(begun.elapsed() < CLOSED, "{:?}", begun.elapsed());
    // It is asked for, and another provider has it.
    let first = bench.serve_ready().await;
    let mut host = bench.serve().await;
    let begun = Instant::now();
    host.close();
    assert_eq!(host.end().await.code(), Some(0));
    assert!(begun.elapsed() < CLOSED, "{:?}", begun.elapsed());
    first.quit().await;
}

#[tokio::test]
async fn a_second_provider_on_one_folder_says_who_holds_it() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    let mut first = bench.serve_ready().await;
    let mut second = bench.serve().await;
    // `initialize` was answered; what came after it waits for the folder, and is then refused with the holder's name.
    let refused = second.call("records/list", json!({})).await;
    assert_eq!(kind(&refused), "not_ready");
    let sentence = refused.unwrap_err()["message"].as_str().unwrap().to_owned();
    assert!(sentence.contains(&first.pid().to_string()), "{sentence}");
    let status = second.end().await;
    assert_eq!(status.code(), Some(1));
    assert!(second.stderr().contains(&first.pid().to_string()), "{}", second.stderr());
    // The first one didn't notice.
    first.reads_texts(&record, &["一"]).await;
    first.quit().await;
}

#[tokio::test]
async fn a_restart_waits_for_the_one_before_it() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    let first = bench.serve_ready().await;
    let mut second = bench.serve().await;
    let held = second.ask("records/list", json!({}));
    first.kill().await;
    assert!(second.answer(held).await.is_ok());
    second.reads_texts(&record, &["一"]).await;
    second.quit().await;
}

#[tokio::test]
async fn it_dials_a_host_over_websocket() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("ws://{}/coda", listener.local_addr().unwrap());
    let child = bench.command(&["serve", "--connect", &url]).spawn().unwrap();
    let (stream, _) = tokio::time::timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    let (mut write, mut read) = socket.split();
    let (to, mut lines) = mpsc::unbounded_channel::<String>();
    let (sender, from) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(line) = lines.recv().await {
            write.send(Message::text(line)).await.unwrap();
        }
        // The other side may be gone.
        let _ = write.close().await;
    });
    tasks.spawn(async move {
        while let Some(Ok(message)) = read.next().await {
            if let Message::Text(text) = message {
                let _ = sender.send(text.as_bytes().to_vec());
            }
        }
    });
    let mut host = Host::over(child, to, from, tasks, bench.heard());
    host.initialize().await;
    host.ready(&record).await;
    host.reads_texts(&record, &["一"]).await;
    assert_eq!(host.post(&record, "r1", "你好").await["state"], "completed");
    host.quit().await;
}

#[tokio::test]
async fn h1_a_host_elsewhere_is_not_dialled() {
    let bench = Bench::with_bot().await;
    for (url, code, says) in [
        ("ws://192.0.2.1:9/", 2, "loopback only"),
        ("wss://127.0.0.1:9/", 2, "loopback only"),
        ("http://127.0.0.1:9/", 2, "loopback only"),
        ("ws://127.0.0.1:9/", 1, "refused"),
    ] {
        let ran = bench.run(&["serve", "--connect", url]).await;
        assert_eq!(ran.code, Some(code), "{url}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{url}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
}

use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::host::Role;
use crate::host::support::{hello, info};
use crate::records;

type Peer = WebSocketStream<TcpStream>;

async fn send(peer: &mut Peer, message: Value) {
    peer.send(Message::text(message.to_string())).await.unwrap();
}

async fn receive(peer: &mut Peer) -> Value {
    let message = tokio::time::timeout(Duration::from_secs(30), peer.next()).await.expect("in time");
    serde_json::from_str(message.unwrap().unwrap().to_text().unwrap()).unwrap()
}

async fn greet(peer: &mut Peer) {
    send(peer, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()})).await;
    assert_eq!(receive(peer).await["result"]["plugin"]["id"], "grok-bot");
    assert_eq!(receive(peer).await["method"], "resource/changed");
    assert_eq!(receive(peer).await["params"]["record"]["title"], "A");
    assert_eq!(receive(peer).await["method"], "resource/changed");
}

/// A provider with one Bot.
fn provider() -> (Handle, records::Publisher, mpsc::Receiver<records::Command>) {
    let (wishes, commands) = mpsc::channel(8);
    let (handle, publisher) = records::new(wishes);
    publisher.put(info("a"));
    (handle, publisher, commands)
}

fn config(handle: Handle) -> Config<std::future::Ready<Result<Handle, Unavailable>>> {
    Config { role: Role::Guest, ready: std::future::ready(Ok(handle)), stop: CancellationToken::new() }
}

#[tokio::test]
async fn h1_a_host_that_was_dialled_speaks_the_same_methods_in_text_messages() {
    let (handle, _publisher, _commands) = provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/coda", listener.local_addr().unwrap());
    let mut session = JoinSet::new();
    session.spawn(async move { serve(connect(&url).await.unwrap(), config(handle)).await });
    let (stream, _) = listener.accept().await.unwrap();
    let mut peer = accept_async_with_config(stream, None).await.unwrap();
    greet(&mut peer).await;
    peer.send(Message::Ping(vec![1].into())).await.unwrap();
    peer.send(Message::binary(vec![1, 2])).await.unwrap();
    loop {
        let message = peer.next().await.unwrap().unwrap();
        if let Message::Text(text) = message {
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
            break;
        }
    }
    send(&mut peer, json!({"jsonrpc": "2.0", "id": 2, "method": "records/list"})).await;
    assert_eq!(receive(&mut peer).await["id"], 2);
    peer.close(None).await.unwrap();
    assert_eq!(session.join_next().await.unwrap().unwrap(), End::Closed);
}

#[tokio::test]
async fn h2_a_text_message_over_8_mib_is_answered_and_the_connection_goes_on() {
    let (handle, _publisher, _commands) = provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let mut session = JoinSet::new();
    session.spawn(async move { serve(connect(&url).await.unwrap(), config(handle)).await });
    let (stream, _) = listener.accept().await.unwrap();
    let mut peer = accept_async_with_config(stream, None).await.unwrap();
    greet(&mut peer).await;
    peer.send(Message::text("x".repeat(MESSAGE_BYTES + 1))).await.unwrap();
    let answer = receive(&mut peer).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    send(&mut peer, json!({"jsonrpc": "2.0", "id": 2, "method": "records/list"})).await;
    assert_eq!(receive(&mut peer).await["id"], 2);
}

#[tokio::test]
async fn h1_a_page_in_the_browser_is_a_host_over_the_same_format() {
    let (handle, publisher, _commands) = provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let upgrade = move |upgrade: WebSocketUpgrade| {
        let handle = handle.clone();
        async move {
            upgrade.on_upgrade(move |socket| async move {
                serve(socket, config(handle)).await;
            })
        }
    };
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, Router::new().route("/ws", get(upgrade))).await });
    let mut peer = connect(&format!("ws://{address}/ws")).await.unwrap();
    greet(&mut peer).await;
    publisher.opened(&info("a").id, 1, vec![], None);
    publisher.append(&info("a").id, vec![crate::host::support::message(4, "你好🦀")], 4);
    assert_eq!(receive(&mut peer).await["params"]["head"], "1:4");
    let params = json!({"record": info("a").id.as_str()});
    send(&mut peer, json!({"jsonrpc": "2.0", "id": 2, "method": "session/read", "params": params})).await;
    assert_eq!(receive(&mut peer).await["result"]["messages"][0]["text"], "你好🦀");
    peer.close(None).await.unwrap();
    // The page is gone, the provider isn't: another page finds it.
    let mut second = connect(&format!("ws://{address}/ws")).await.unwrap();
    greet(&mut second).await;
}

#[tokio::test]
async fn h1_only_loopback_is_dialled() {
    for url in [
        "",
        "127.0.0.1:8080",
        "http://127.0.0.1:8080",
        "wss://127.0.0.1:8080",
        "ws://192.0.2.1:8080",
        "ws://example.test:8080",
        "ws://localhost.example.test:8080",
        "ws://user:secret@127.0.0.1:8080",
        "ws://[2001:db8::1]:8080",
        "ws://0.0.0.0:8080",
        "ws://[::ffff:127.0.0.1]:8080",
    ] {
        let error = connect(url).await.expect_err(url);
        assert!(matches!(error, ConnectError::Address(_)), "{url}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
    for url in ["ws://127.0.0.1", "ws://127.9.9.9:1/x", "ws://[::1]:8080", "ws://localhost:8080", "ws://LOCALHOST:8080"]
    {
        assert!(loopback(url).is_some(), "{url}");
    }
}

#[tokio::test]
async fn h1_a_host_that_is_not_there_is_an_error_that_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = connect(&format!("ws://{address}/x?token=secret")).await.unwrap_err();
    let says = error.to_string();
    assert!(says.starts_with(&format!("can't connect to the host at ws://{address}/x: ")), "{says}");
    assert!(says.contains("refused") && !says.contains("secret"), "{says}");
}

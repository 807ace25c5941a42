//! `preview` as a process: what is kept for a page that stays open.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::{Bench, LIMIT, Running};

/// A page that is open.
struct Page(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Page {
    /// Opens the page of a link and greets the provider.
    async fn open(link: &str) -> Self {
        let (origin, key) = link.split_once("/#key=").unwrap();
        let mut request = format!("{}/host", origin.replace("http", "ws")).into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("origin", origin.parse().unwrap());
        headers.insert("sec-websocket-protocol", format!("coda-grok-bot.host, key.{key}").parse().unwrap());
        let mut page = Self(connect_async(request).await.unwrap().0);
        page.ask(1, "initialize", json!({"protocolVersion": "5.7.0"})).await;
        page
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.0.send(Message::text(request.to_string())).await.unwrap();
    }

    /// Waits until the folder is this page's provider's, which is when it answers anything else than `initialize`.
    async fn served(&mut self) {
        self.ask(2, "resource/status", json!({})).await;
        let answered = async {
            loop {
                let message = self.0.next().await.expect("the page is served").unwrap();
                let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
                if message["id"] == 2 {
                    assert!(message["result"].is_object(), "{message}");
                    return;
                }
            }
        };
        timeout(LIMIT, answered).await.unwrap();
    }
}

/// Starts a preview of the bench's folder and reads its link.
async fn start(bench: &Bench, more: &[&str]) -> (Running, String) {
    let mut running = Running::start(bench.command(&[&["preview"], more].concat()), bench.heard());
    let line = running.line("#key=").await;
    let link = line.split_once('：').unwrap().1.to_owned();
    (running, link)
}

#[tokio::test]
async fn a_second_preview_of_a_folder_doesnt_take_the_way_back_from_the_page_of_the_first() {
    let bench = Bench::with_bot().await;
    let (first, link) = start(&bench, &[]).await;
    let mut page = Page::open(&link).await;
    page.served().await;
    let kept = std::fs::read(bench.data().join("preview.json")).unwrap();

    // One that takes any port, and one that is given its own.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string();
    for more in [[].as_slice(), &["--port", &free]] {
        let (second, other) = start(&bench, more).await;
        assert_ne!(other, link);
        let mut closed = Page::open(&other).await;
        // The folder never becomes its own.
        timeout(LIMIT, async { while closed.0.next().await.is_some_and(|message| message.is_ok()) {} }).await.unwrap();
        assert_eq!(second.code().await, Some(1));
        assert_eq!(std::fs::read(bench.data().join("preview.json")).unwrap(), kept);
    }

    assert_eq!(first.signalled("TERM").await, Some(0));
    let (again, same) = start(&bench, &[]).await;
    assert_eq!(same, link, "the page that stayed open finds it");
    Page::open(&link).await.served().await;
    assert_eq!(again.signalled("TERM").await, Some(0));
}

#[tokio::test]
async fn a_kept_port_that_another_program_has_gives_way_to_the_next() {
    let bench = Bench::with_bot().await;
    let (first, link) = start(&bench, &[]).await;
    Page::open(&link).await.served().await;
    assert_eq!(first.signalled("TERM").await, Some(0));
    let (address, _) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let _taken = std::net::TcpListener::bind(address).unwrap();
    for again in [false, true] {
        let (second, other) = start(&bench, &[]).await;
        assert_ne!(other, link);
        assert_eq!(other.split_once('#').unwrap().1, link.split_once('#').unwrap().1, "the key stays, {again}");
        Page::open(&other).await.served().await;
        assert_eq!(second.signalled("TERM").await, Some(0));
    }
}

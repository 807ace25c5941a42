//! A peer of tests on a real loopback socket, that answers byte for byte what it was told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::{BaseUrl, Http, Reach};

/// What a peer does after it has read a request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Writes bytes.
    Send(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Waits until the test says so.
    Gate(Arc<Notify>),
    /// Keeps the connection open and says nothing more.
    Hold,
    /// Breaks the connection with a reset instead of closing it.
    Reset,
}

/// A server with one script for each request, by their order; the last goes on for all that follow. Every script ends with a close.
pub(crate) struct Peer {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Request>,
    _tasks: JoinSet<()>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Request line and headers, in lower case.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Peer {
    pub(crate) async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, scripts)
    }

    /// As [`start`](Self::start), on a listener whose address the scripts may name.
    pub(crate) fn on(listener: TcpListener, scripts: Vec<Vec<Step>>) -> Self {
        let address = listener.local_addr().unwrap();
        let (heard, requests) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            let scripts = Arc::new(scripts);
            let mut count = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let script = scripts[count.min(scripts.len() - 1)].clone();
                count += 1;
                connections.spawn(serve(stream, script, heard.clone()));
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    pub(crate) fn base(&self) -> BaseUrl {
        BaseUrl::parse(&format!("http://{}", self.address), Reach::Loopback).unwrap()
    }

    /// The next request that came.
    pub(crate) async fn request(&mut self) -> Request {
        self.requests.recv().await.unwrap()
    }

    /// How many requests came that nobody asked for yet.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len()
    }
}

/// HTTP clients for tests.
pub(crate) fn http() -> Arc<Http> {
    Arc::new(Http::new(Reach::Loopback))
}

async fn serve(mut stream: TcpStream, script: Vec<Step>, heard: mpsc::UnboundedSender<Request>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    let _ = heard.send(request);
    for step in script {
        match step {
            Step::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Gate(gate) => gate.notified().await,
            Step::Hold => std::future::pending().await,
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = bytes[end + 4..].to_vec();
                return Some(Request { head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// An answer with a length.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![Step::Send(
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
            .into_bytes(),
    )]
}

/// An answer `200` with JSON.
pub(crate) fn json(body: &str) -> Vec<Step> {
    answer("200 OK", "content-type: application/json\r\n", body)
}

/// The head of a stream; what follows, in chunks of HTTP.
pub(crate) fn stream_head() -> Step {
    Step::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )
}

/// One chunk of HTTP.
pub(crate) fn chunk(bytes: &[u8]) -> Step {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    Step::Send(chunk)
}

/// The regular end of a chunked body.
pub(crate) fn last_chunk() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// An envelope of a stream.
pub(crate) fn envelope(flags: u8, payload: &str) -> Vec<u8> {
    let mut bytes = super::frame::envelope(payload.as_bytes());
    bytes[0] = flags;
    bytes
}

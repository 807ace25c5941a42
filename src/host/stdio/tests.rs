use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::host::Role;
use crate::host::support::{hello, info};
use crate::records;

/// A session over pipes, with the host's ends of them.
struct Piped {
    to: Option<DuplexStream>,
    from: BufReader<DuplexStream>,
    session: JoinSet<End>,
    publisher: records::Publisher,
    _commands: mpsc::Receiver<records::Command>,
}

impl Piped {
    fn start() -> Self {
        let (wishes, commands) = mpsc::channel(8);
        let (handle, publisher) = records::new(wishes);
        let (to, input) = duplex(4096);
        let (output, from) = duplex(4096);
        let config =
            Config { role: Role::Guest, ready: std::future::ready(Ok(handle)), stop: CancellationToken::new() };
        let mut session = JoinSet::new();
        session.spawn(serve(input, output, config));
        Self { to: Some(to), from: BufReader::new(from), session, publisher, _commands: commands }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(30), self.from.read_line(&mut line));
        read.await.expect("in time").unwrap();
        assert!(line.ends_with('\n'));
        serde_json::from_str(&line).unwrap()
    }

    async fn greet(&mut self) {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()});
        self.send(format!("{hello}\r\n\n\r\n").as_bytes()).await;
        assert_eq!(self.receive().await["result"]["plugin"]["version"], "0.5.0");
        assert_eq!(self.receive().await["method"], "resource/changed");
    }
}

#[tokio::test]
async fn h1_one_json_object_a_line_and_the_end_of_input_ends_the_session() {
    let mut piped = Piped::start();
    piped.greet().await;
    piped.publisher.put(info("小白"));
    let put = piped.receive().await;
    assert_eq!(put["params"]["record"]["title"], "小白");
    assert_eq!(piped.receive().await["method"], "resource/changed");
    // The last line lacks its newline: it counts.
    piped.send(br#"{"jsonrpc":"2.0","id":2,"method":"records/list"}"#).await;
    piped.to = None;
    assert_eq!(piped.receive().await["id"], 2);
    assert_eq!(piped.session.join_next().await.unwrap().unwrap(), End::Closed);
    let mut rest = vec![];
    piped.from.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}

#[tokio::test]
async fn h2_a_line_over_8_mib_is_answered_and_skipped_and_the_connection_goes_on() {
    let mut piped = Piped::start();
    piped.greet().await;
    piped.send(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"").await;
    let block = vec![b'x'; 64 * 1024];
    for _ in 0..=MESSAGE_BYTES / block.len() {
        piped.send(&block).await;
    }
    let answer = piped.receive().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    piped.send(b"more of it\"}\n{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"records/list\"}\n").await;
    assert_eq!(piped.receive().await["id"], 4);
}

#[tokio::test]
async fn h2_a_line_that_is_no_utf8_or_no_json_is_a_parse_error() {
    let mut piped = Piped::start();
    piped.greet().await;
    piped.send(b"\xff\xfe{}\n{\"a\":\n").await;
    for _ in 0..2 {
        let answer = piped.receive().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    }
}

#[tokio::test]
async fn a18_utf8_cut_anywhere_comes_through_whole() {
    let mut piped = Piped::start();
    piped.greet().await;
    let request = json!({"jsonrpc": "2.0", "id": "你好🦀", "method": "records/list"});
    for byte in format!("{request}\n").into_bytes() {
        piped.send(&[byte]).await;
    }
    assert_eq!(piped.receive().await["id"], "你好🦀");
}

#[tokio::test]
async fn h6_a_reader_that_went_away_ends_the_session() {
    let mut piped = Piped::start();
    piped.greet().await;
    drop(piped.from);
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"records/list\"}\n";
    let to = piped.to.as_mut().unwrap();
    // The session may be gone before the second is written.
    to.write_all(request).await.unwrap();
    let _ = to.write_all(request).await;
    assert_eq!(piped.session.join_next().await.unwrap().unwrap(), End::Closed);
}

async fn lines(chunks: &[Vec<u8>], limit: usize) -> Vec<Incoming> {
    let (mut to, from) = duplex(7);
    let write = async {
        for chunk in chunks {
            to.write_all(chunk).await.unwrap();
        }
        drop(to);
    };
    let read = async {
        let mut reader = LineReader::new(BufReader::with_capacity(5, from));
        reader.limit = limit;
        let mut lines = vec![];
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        lines
    };
    tokio::join!(write, read).1
}

/// The lines by their definition.
pub(super) fn expected(bytes: &[u8], limit: usize) -> Vec<Incoming> {
    let message = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            _ if line.is_empty() => None,
            _ if line.len() > limit => Some(Incoming::Unreadable(Fault::TooLong)),
            Ok(text) => Some(Incoming::Text(text.to_owned())),
            Err(_) => Some(Incoming::Unreadable(Fault::NotJson)),
        }
    };
    bytes.split(|byte| *byte == b'\n').filter_map(message).collect()
}

proptest! {
    #[test]
    fn h1_lines_are_the_same_however_the_bytes_arrive(
        chunks in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xe5u8)], 0..9), 0..9),
        limit in 1usize..6,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let got = runtime.block_on(lines(&chunks, limit));
        prop_assert_eq!(got, expected(&chunks.concat(), limit));
    }
}

//! Whatever a host writes: each line has exactly one right answer, or is a notification, and the next one is read.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, duplex};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fuzz::{Corpus, Input, fuzz};
use crate::host::Role;
use crate::host::support::{info, message};
use crate::records;
use crate::rpc::{self, Message};

/// A whole session: what it says to a host that says this and closes.
async fn session(said: &[u8]) -> Vec<u8> {
    let (wishes, commands) = mpsc::channel(8);
    let (handle, publisher) = records::new(wishes);
    publisher.put(info("a"));
    publisher.opened(&info("a").id, 1, vec![message(1, "x"), message(2, "y")], Some(2));
    let (mut to, input) = duplex(64 * 1024);
    let (output, mut from) = duplex(64 * 1024);
    let config = Config { role: Role::Guest, ready: std::future::ready(Ok(handle)), stop: CancellationToken::new() };
    let write = async {
        // It may end before it has read all, once it was told to.
        let _ = to.write_all(said).await;
        drop(to);
    };
    let mut heard = Vec::new();
    let read = async {
        from.read_to_end(&mut heard).await.unwrap();
    };
    tokio::join!(write, read, serve(input, output, config));
    drop((publisher, commands));
    heard
}

/// What is owed for a line: the id of its answer and whether that must be an error, or nothing.
fn owed(line: &Incoming) -> Option<(String, bool)> {
    match line {
        Incoming::Unreadable(_) => Some(("null".to_owned(), true)),
        Incoming::Text(text) => match rpc::parse(text) {
            Ok(Message::Request { id, .. }) => Some((id.to_string(), false)),
            Ok(Message::Notification { .. } | Message::Response { .. }) => None,
            Err(reject) => Some((reject.id.to_string(), true)),
        },
    }
}

/// Holds what the session said against what was owed.
fn check(said: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let heard = String::from_utf8(runtime.block_on(session(said))).expect("UTF-8, whatever came");
    let mut owed: Vec<(String, bool)> = tests::expected(said, MESSAGE_BYTES).iter().filter_map(owed).collect();
    for line in heard.lines() {
        let fields: HashMap<String, &RawValue> = serde_json::from_str(line).unwrap();
        assert_eq!(fields["jsonrpc"].get(), "\"2.0\"");
        if fields.contains_key("method") {
            continue;
        }
        let (id, error) = (fields["id"].get(), fields.get("error"));
        assert!(error.is_some() != fields.contains_key("result"), "{line}");
        // An id may be owed twice: an error is first taken for what must be one.
        let with = |fails: bool| owed.iter().position(|(owed, must_fail)| owed == id && *must_fail == fails);
        let at = if error.is_some() { with(true).or_else(|| with(false)) } else { with(false) };
        owed.remove(at.unwrap_or_else(|| panic!("an answer that nobody asked for: {line}")));
    }
    assert_eq!(owed, [], "still owed; it said {heard}");
}

#[test]
fn h2_every_line_has_one_answer_or_is_a_notification() {
    let corpus = Corpus::of("host-lines");
    let hello = |to: &mut Vec<u8>| {
        to.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"5.7.0\"}}\n");
    };
    corpus.replay(|line| {
        let mut said = Vec::new();
        hello(&mut said);
        said.extend_from_slice(line);
        said.push(b'\n');
        check(&said);
    });
    let lines = prop::collection::vec(corpus.mutants(), 1..7);
    fuzz(600, &(any::<bool>(), lines), |(greeted, lines)| {
        let mut said = Vec::new();
        if greeted {
            hello(&mut said);
        }
        for Input(line) in lines {
            said.extend_from_slice(&line);
            said.push(b'\n');
        }
        check(&said);
    });
}

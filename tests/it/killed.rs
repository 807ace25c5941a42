//! SIGKILL: what the host had seen stays as it was, under the same ids and cursors.

use std::collections::HashMap;

use serde_json::Value;

use crate::support::{Bench, cursor, fixed, texts};

/// Between the exposure and the restart: ids, cursors and texts as the host had seen them.
#[tokio::test]
async fn killed_between_exposure_and_restart() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    for number in 1..=5 {
        control.say("a", &format!("e{number}"), &format!("第 {number} 句")).unwrap();
    }
    control.ask("a", "w1", "选一个", &[("甲", "a"), ("乙", "b")]).unwrap();
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.resay("a", "e2", "第 2 句，改过").unwrap();
    control.delete("a", "e3").unwrap();
    control.respond("a", "w1", "b").unwrap();
    let seen = host.reads(&record, "everything", |messages| messages.len() == 9).await;
    host.kill().await;

    let mut host = bench.serve_ready().await;
    let again = host.reads(&record, "what is left", |messages| messages.len() >= 7).await;
    let by_id: HashMap<&str, &Value> = seen.iter().map(|message| (message["id"].as_str().unwrap(), message)).collect();
    for message in &again {
        let before = by_id.get(message["id"].as_str().unwrap()).unwrap_or_else(|| panic!("new: {message}"));
        assert_eq!(fixed(message), fixed(before));
    }
    // The overwritten base and the deleted one aren't invented; their marks are there.
    let missing: Vec<&str> = seen
        .iter()
        .filter(|message| !again.iter().any(|other| other["id"] == message["id"]))
        .map(|message| message["id"].as_str().unwrap())
        .collect();
    assert_eq!(missing, ["1:e2", "1:e3"]);
    // Nothing is below what the host had heard, and life goes on above it.
    let head = seen.iter().map(|message| cursor(message["cursor"].as_str().unwrap())).max().unwrap();
    assert_eq!(cursor(&host.head(&record).unwrap()), head);
    control.say("a", "e6", "第 6 句").unwrap();
    let page = host.reads(&record, "the next", |messages| texts(messages).contains(&"第 6 句")).await;
    assert!(cursor(page.last().unwrap()["cursor"].as_str().unwrap()) > head);
    host.quit().await;
}

/// While it was down a text changed: that is a revision of the message that the host has.
#[tokio::test]
async fn changed_while_it_was_down() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "原文").unwrap();
    control.say("a", "e2", "留下").unwrap();
    control.say("a", "e3", "删掉").unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["原文", "留下", "删掉"]).await;
    host.kill().await;
    let edited = control.resay("a", "e1", "改过").unwrap();
    control.delete("a", "e3").unwrap();
    let mut host = bench.serve_ready().await;
    let messages = host.reads(&record, "both changes", |messages| messages.len() == 3).await;
    assert_eq!(messages[0]["id"], "1:e2");
    let ids: Vec<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&format!("1:e1:edit:{}", edited.updated_seq).as_str()), "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("1:e3:delete:")), "{ids:?}");
    host.quit().await;
}

//! SIGKILL: what the host had seen stays as it was, under the same ids and cursors.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use coda_grok_bot::service::INDEX;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::support::{Bench, cursor, texts};

/// What must not change of a message: all but the time it was seen at.
fn fixed(message: &Value) -> Value {
    let mut message = message.clone();
    message.as_object_mut().unwrap().remove("at");
    message
}

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

#[tokio::test]
async fn a15_killed_at_twenty_random_points() {
    // Four lanes of five; each has a service and a folder of its own.
    let mut lanes = JoinSet::new();
    for lane in 0..4 {
        lanes.spawn(async move {
            let mut random = fastrand::Rng::with_seed(lane);
            for round in 0..5 {
                // Anywhere; and every other time close to the moment at which the second of silence is over and the index is written.
                let range = if round % 2 == 0 { 0..2200 } else { 950..1250 };
                let point = Duration::from_millis(random.u64(range));
                killed_at(point, &format!("lane {lane}, round {round}, {point:?}")).await;
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.unwrap();
    }
}

async fn killed_at(point: Duration, name: &str) {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let say = |number: u32| control.say("a", &format!("e{number}"), &format!("第 {number} 句")).unwrap();
    (1..=10).for_each(|number| drop(say(number)));
    let mut host = bench.serve_ready().await;
    host.reads(&record, "the first ten", |messages| messages.len() == 10).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    (11..=20).for_each(|number| drop(say(number)));
    // The host reads whatever it is told of until the moment comes.
    let end = Instant::now() + point;
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let watching = async {
        loop {
            for message in host.all(&record).await.unwrap() {
                seen.insert(message["id"].as_str().unwrap().to_owned(), fixed(&message));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended: Result<(), _> = timeout_at(end, watching).await;
    assert!(ended.is_err());
    host.kill().await;
    let indexed = index(&bench.data().join(INDEX));
    assert!(indexed.iter().all(|(entry, first)| entry == &format!("e{first}")), "{name}: {indexed:?}");
    assert!(seen.len() <= indexed.len(), "{name}: the host saw what the index doesn't hold");

    let mut host = bench.serve_ready().await;
    let messages = host.reads(&record, "all twenty", |messages| messages.len() >= 20).await;
    let expected: Vec<Value> = (1..=20).map(|number| json!([format!("1:e{number}"), format!("1:{number}")])).collect();
    let found: Vec<Value> = messages.iter().map(|message| json!([message["id"], message["cursor"]])).collect();
    assert_eq!(found, expected, "{name}");
    for message in messages {
        if let Some(before) = seen.get(message["id"].as_str().unwrap()) {
            assert_eq!(&fixed(&message), before, "{name}");
        }
    }
    host.quit().await;
}

/// Entry and first cursor of each mark that the killed provider left.
fn index(path: &Path) -> Vec<(String, i64)> {
    // A copy: opening it would check its log in.
    let copy = tempfile::tempdir().unwrap();
    for tail in ["", "-wal"] {
        let from = path.with_file_name(format!("{INDEX}{tail}"));
        if from.exists() {
            std::fs::copy(from, copy.path().join(format!("{INDEX}{tail}"))).unwrap();
        }
    }
    let connection = rusqlite::Connection::open(copy.path().join(INDEX)).unwrap();
    let mut query = connection.prepare("SELECT entry, first FROM mark ORDER BY first").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

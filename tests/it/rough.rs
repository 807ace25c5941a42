//! Rough handling: hosts that vanish or don't read, a service that is away, files that are no files, many Bots, long bodies.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use coda_grok_bot::simulate::{Account, Act, Fault, NewBot, Options, StreamEnd};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::time::timeout;

use crate::support::{Bench, LIMIT, digest, kind, signal, texts, write_private};

const SEND: &str = "SendGrokBotUserMessage";

fn greeting() -> String {
    let params = json!({"protocolVersion": "5.7.0"});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
}

/// A Bot whose pages are more than any pipe or socket holds.
async fn with_a_long_record() -> Bench {
    let bench = Bench::with_bot().await;
    for number in 1..=300 {
        bench.control.say("a", &format!("e{number}"), &"长".repeat(2000)).unwrap();
    }
    bench
}

/// Reads until that record is there.
async fn until_whole(lines: &mut Lines<impl AsyncBufRead + Unpin>) {
    let mut last = String::new();
    while !last.contains("1:300") {
        last = timeout(LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
    }
}

/// Asks for all of it.
fn page_request(bench: &Bench, id: u32) -> String {
    let params = json!({"record": bench.record("a"), "limit": 500});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "session/read", "params": params}))
}

#[tokio::test]
async fn h4_a_host_that_stops_reading_doesnt_keep_the_process() {
    let bench = with_a_long_record().await;
    let mut child = bench.command(&["serve"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(greeting().as_bytes()).await.unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    // It reads until the record is there, and then no more.
    until_whole(&mut stdout).await;
    for id in 2..40 {
        stdin.write_all(page_request(&bench, id).as_bytes()).await.unwrap();
    }
    signal(child.id().unwrap(), "TERM").await;
    let status = timeout(Duration::from_secs(10), child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
    drop((stdin, stdout));
}

#[tokio::test]
async fn a_host_may_give_one_socket_for_both_streams_and_read_slowly() {
    let bench = with_a_long_record().await;
    // As Node does it for what it starts.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = bench.command(&["serve"]);
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    // It holds the other end until it goes.
    drop(command);
    ours.set_nonblocking(true).unwrap();
    let (read, mut write) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(greeting().as_bytes()).await.unwrap();
    until_whole(&mut lines).await;
    // More than a socket holds, asked for at once and only then read: it is written in parts, none of them lost.
    for id in 2..12 {
        write.write_all(page_request(&bench, id).as_bytes()).await.unwrap();
    }
    for _ in 2..12 {
        let answer = loop {
            let line = timeout(LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("result").is_some() {
                break message;
            }
        };
        assert_eq!(answer["result"]["messages"].as_array().unwrap().len(), 300);
    }
    write.shutdown().await.unwrap();
    assert_eq!(timeout(LIMIT, child.wait()).await.expect("it ends").unwrap().code(), Some(0));
}

#[tokio::test]
async fn what_a_host_wrote_into_a_file_is_answered_into_a_file() {
    let bench = Bench::with_bot().await;
    let folder = tempfile::tempdir().unwrap();
    let (asked, answered) = (folder.path().join("asked"), folder.path().join("answered"));
    std::fs::write(&asked, greeting()).unwrap();
    let mut command = bench.command(&["serve"]);
    command.stdin(File::open(&asked).unwrap()).stdout(File::create(&answered).unwrap());
    let mut child = command.spawn().unwrap();
    assert_eq!(timeout(LIMIT, child.wait()).await.expect("it ends").unwrap().code(), Some(0));
    let said = std::fs::read_to_string(&answered).unwrap();
    assert!(said.lines().any(|line| line.contains("\"id\":1")), "{said}");
}

#[tokio::test]
async fn h6_a_host_that_is_gone_ends_it() {
    let bench = Bench::with_bot().await;
    let mut child = bench.command(&["serve"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Nobody reads its answers: the first one shows that.
    drop(child.stdout.take());
    stdin.write_all(greeting().as_bytes()).await.unwrap();
    let status = timeout(LIMIT, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0), "{status:?}");
    bench.until("no stream", |control| control.open_streams() == 0).await;
}

#[tokio::test]
async fn a_service_that_is_away_at_the_start_is_waited_for() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    bench.control.fault(Fault::next("*", Act::Drop).always());
    let mut host = bench.serve().await;
    host.until("it is said since when", |host| {
        host.status["message"].as_str().is_some_and(|message| message.contains("<t:"))
    })
    .await;
    // A failure of the network is no end of the sign-in.
    assert_eq!(host.status["state"], "signedIn");
    assert_eq!(host.call("records/list", json!({})).await.unwrap(), json!({"records": []}));
    bench.control.clear_faults();
    host.reads_texts(&record, &["一"]).await;
    host.until("all is well", |host| host.status.get("message").is_none()).await;
    host.quit().await;
}

#[tokio::test]
async fn answers_that_are_no_answers_lose_nothing() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    for (method, act) in [
        ("GetMe", Act::html(502)),
        ("ListGrokBotAgents", Act::garbage()),
        ("ListGrokBotTranscriptEntries", Act::Redirect { to: "http://127.0.0.1:9/".into() }),
        ("WatchGrokBotTranscripts", Act::html(200)),
    ] {
        control.fault(Fault::next(method, act));
    }
    let mut host = bench.serve().await;
    host.reads_texts(&record, &["一"]).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    // Bytes that are no frames: the stream is given up, and what it would have brought comes with the next.
    control.inject_bytes(&[1, 0, 0, 0, 3, b'a', b'b', b'c']);
    control.say("a", "e2", "二").unwrap();
    host.reads_texts(&record, &["一", "二"]).await;
    control.end_streams(&StreamEnd::Error { code: "resource_exhausted".into() });
    control.say("a", "e3", "三").unwrap();
    host.reads_texts(&record, &["一", "二", "三"]).await;
    host.quit().await;
}

#[tokio::test]
async fn post4_what_was_begun_for_another_account_is_dropped() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    bench.control.fault(Fault::next(SEND, Act::Hang));
    host.begin_post(&record, "r1", "一", None).await;
    host.begin_post(&record, "r2", "二", None).await;
    bench.until("the first is out", |control| control.count(SEND) == 1).await;
    let other = Account { auth_id: "auth0|user_SIMULATED0002".into(), user_id: 2002, ..Account::default() };
    bench.control.sign_in_as(other.clone());
    bench.control.add_bot(NewBot { owner: Some(other.auth_id), ..NewBot::named("z").id("z") });
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    bench.control.confirm(link["url"].as_str().unwrap()).unwrap();
    let theirs = format!("grok-bot:{}:z", digest("2002"));
    host.ready(&theirs).await;
    let (first, second) = (host.settle("r1").await, host.settle("r2").await);
    assert_eq!((&first["reason"], &second["reason"]), (&json!("unknown"), &json!("not_sent")));
    assert_eq!(bench.control.count(SEND), 1, "nothing of the old account went out with the new one's token");
    host.quit().await;
}

#[tokio::test]
async fn a_sign_in_file_that_is_none_is_said_and_replaced() {
    let bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    bench.bot("a");
    let elsewhere = bench.data().parent().unwrap().join("elsewhere.json");
    for bad in ["{\"accessToken\": \"a", "[]", "{\"accessToken\":1}", "link"] {
        if bad == "link" {
            write_private(&elsewhere, b"{\"accessToken\":\"not-ours\",\"refreshToken\":\"not-ours\"}");
            std::fs::remove_file(bench.auth_file()).unwrap();
            std::os::unix::fs::symlink(&elsewhere, bench.auth_file()).unwrap();
        } else {
            write_private(&bench.auth_file(), bad.as_bytes());
        }
        let mut host = bench.serve().await;
        host.until("sign in again", |host| host.status["state"] == "signInAgain").await;
        assert_eq!(bench.run(&["status"]).await.code, Some(3), "{bad}");
        host.call("resource/signIn", json!({})).await.unwrap();
        host.ready(&bench.record("a")).await;
        host.quit().await;
    }
    // The link was replaced, not followed.
    assert!(!std::fs::symlink_metadata(bench.auth_file()).unwrap().file_type().is_symlink());
    assert!(std::fs::read_to_string(&elsewhere).unwrap().contains("not-ours"));
}

#[tokio::test]
async fn d11_more_bots_than_a_request_may_name() {
    let bench = Bench::new(Options::default()).await;
    bench.sign_in();
    let control = &bench.control;
    for number in 0..300 {
        let agent = format!("bot-{number}");
        bench.bot(&agent);
        control.say(&agent, "e1", "一").unwrap();
    }
    let mut host = bench.serve().await;
    host.until("all heads", |host| {
        host.records.len() == 300 && host.records.values().all(|record| record["head"] == "1:1")
    })
    .await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    let requests = control.requests("WatchGrokBotTranscripts");
    let named: Vec<&str> = requests.last().unwrap().body["cursors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cursor| cursor["agentId"].as_str().unwrap())
        .collect();
    assert!(named.len() <= 256);
    // One that was named and one that wasn't.
    let unnamed =
        (0..300).map(|number| format!("bot-{number}")).find(|agent| !named.contains(&agent.as_str())).unwrap();
    for agent in ["bot-0", &unnamed] {
        control.say(agent, "e2", "二").unwrap();
        host.reads_texts(&bench.record(agent), &["一", "二"]).await;
    }
    host.quit().await;
}

#[tokio::test]
async fn d13_offloaded_bodies_are_fetched_and_a_lost_one_is_in_nobodys_way() {
    for omitted_with_hash in [false, true] {
        let bench = Bench::new(Options { blob_above_bytes: 400, ..Options::default() }).await;
        bench.bot("a");
        bench.sign_in();
        let control = &bench.control;
        control.quirks(|quirks| quirks.omitted_with_hash = omitted_with_hash);
        let record = bench.record("a");
        let long = "很长的话。".repeat(200);
        control.say("a", "e1", &long).unwrap();
        let mut host = bench.serve_ready().await;
        host.reads_texts(&record, &[&long]).await;
        bench.until("the stream", |control| control.open_streams() == 1).await;
        let longer = "更长的话。".repeat(300);
        control.say("a", "e2", &longer).unwrap();
        control.say("a", "e3", "短").unwrap();
        let messages = host.reads_texts(&record, &[&long, &longer, "短"]).await;
        assert_eq!(messages[2]["cursor"], "1:3");
        assert!(control.count("sandbox-store") >= 2);
        host.quit().await;
    }
}

#[tokio::test]
async fn h12_pages_end_before_4_mib_and_lose_nothing() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    let big = "字".repeat(100_000);
    for number in 1..=40 {
        bench.control.say("a", &format!("e{number}"), &format!("{number} {big}")).unwrap();
    }
    let mut host = bench.serve_ready().await;
    let page = host.read(&record, json!({"limit": 500})).await.unwrap();
    let size = |page: &Value| texts(page["messages"].as_array().unwrap()).iter().map(|text| text.len()).sum::<usize>();
    assert!(size(&page) <= 4 * 1024 * 1024, "{}", size(&page));
    assert_eq!(page["hasMore"], json!({"before": true, "after": false}));
    let all = host.reads(&record, "all", |messages| messages.len() == 40).await;
    assert!(texts(&all)[0].starts_with("1 字") && texts(&all)[39].starts_with("40 字"));
    let forward = host.read(&record, json!({"after": "1:0", "limit": 500})).await.unwrap();
    assert!(size(&forward) <= 4 * 1024 * 1024);
    assert_eq!(forward["hasMore"], json!({"before": false, "after": true}));
    host.quit().await;
}

#[tokio::test]
async fn post5_past_64_waiting_posts_more_are_not_sent() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    let gate = control.hold(SEND, Some("a"), false);
    host.begin_post(&record, "r0", "第 0 条", None).await;
    gate.arrived(1).await;
    for number in 1..=66 {
        host.begin_post(&record, &format!("r{number}"), &format!("第 {number} 条"), None).await;
    }
    for run in ["r65", "r66"] {
        assert_eq!(host.settle(run).await["reason"], "not_sent");
    }
    gate.open();
    for number in 0..=64 {
        assert_eq!(host.settle(&format!("r{number}")).await["state"], "completed", "{number}");
    }
    let order: Vec<String> = control.received_messages().into_iter().map(|message| message.text).collect();
    assert_eq!(order, (0..=64).map(|number| format!("第 {number} 条")).collect::<Vec<_>>());
    host.quit().await;
}

#[tokio::test]
async fn h13_cursors_of_any_size_are_answered() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    let huge = "9".repeat(97);
    assert_eq!(host.read(&record, json!({"after": format!("1:{huge}")})).await.unwrap()["messages"], json!([]));
    let below = host.read(&record, json!({"before": format!("1:{huge}")})).await.unwrap();
    assert_eq!(texts(below["messages"].as_array().unwrap()), ["一"]);
    assert_eq!(kind(&host.read(&record, json!({"after": format!("{huge}:1")})).await), "history_reset");
    for bad in [&format!("1:{}", "9".repeat(99)), "1", "1:", ":1", "-1:1", "1:1.0", "1:1e3", "01:1", "1:１", ""] {
        assert_eq!(kind(&host.read(&record, json!({"after": bad})).await), "bad_cursor", "{bad}");
    }
    for limit in [json!(0), json!(501), json!(-1), json!("5"), json!(1.5)] {
        assert_eq!(kind(&host.read(&record, json!({"limit": limit})).await), "bad_params");
    }
    host.quit().await;
}

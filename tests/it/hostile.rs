//! Monsters on the real path, through the real binary: depth, length, NULs and half surrogate pairs, and heaps of rows. Each costs its own place
//! alone: what stands beside it is read, hosts are answered, and memory stays bounded by what was taken in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coda_grok_bot::simulate::{Act, Change, Fault};
use serde_json::{Value, json};

use crate::support::{Bench, Host, texts, write_private};

const ENTRIES: &str = "ListGrokBotTranscriptEntries";
const WATCH: &str = "WatchGrokBotTranscripts";

/// JSON of this depth.
fn deep() -> String {
    let depth = 100_000;
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn envelope(payload: &str) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), payload.as_bytes()].concat()
}

fn rows_frame(entries: &str) -> Vec<u8> {
    envelope(&format!(r#"{{"rows":{{"agentId":"a","generation":"1","entries":[{entries}]}}}}"#))
}

/// A row as the service writes it, around a body that is written here.
fn row(seq: u64, body: &str) -> String {
    format!(
        r#"{{"seq":"{seq}","updatedSeq":"{seq}","entryKind":"send-message","entryId":"e{seq}","body":"{}"}}"#,
        STANDARD.encode(body)
    )
}

fn said(seq: u64, text: &str) -> String {
    row(seq, &format!(r#"{{"kind":"send-message","id":"e{seq}","message":{{"type":"text","content":"{text}"}}}}"#))
}

fn page(entries: &str) -> Act {
    let body = format!(r#"{{"entries":[{entries}],"generation":"1"}}"#);
    Act::Answer { status: 200, content_type: "application/json".into(), body, retry_after: None }
}

/// The most memory that the provider has held, in MiB, where the system tells.
fn peak(host: &Host) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib / 1024)
}

fn stays_below(host: &Host, limit: u64) {
    let peak = peak(host);
    assert!(peak.is_none_or(|peak| peak < limit), "it has held {peak:?} MiB");
}

/// Waits for the answer to a line that was sent as it is; its id is a text.
async fn answer(host: &mut Host, id: &Value) -> Value {
    let found =
        |host: &Host| host.log.iter().position(|message| message.get("method").is_none() && message["id"] == *id);
    host.until("an answer", |host| found(host).is_some()).await;
    let at = found(host).unwrap();
    host.log.remove(at)
}

#[tokio::test]
async fn depth_costs_its_own_place_alone() {
    let bench = Bench::with_bot().await;
    let (control, record, deep) = (&bench.control, bench.record("a"), deep());
    control.say("a", "e1", "一").unwrap();
    control.fault(Fault::next(ENTRIES, page(&format!(r#"{deep},{},{{"theirs":{deep},"seq":{deep}}}"#, said(1, "一")))));
    let mut host = bench.serve().await;
    host.reads_texts(&record, &["一"]).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    let payloads = [
        deep.clone(),
        format!(r#"{{"x":{deep}}}"#),
        format!(r#"{{"rows":{deep}}}"#),
        format!(r#"{{"agentState":{{"live":[{deep}]}}}}"#),
        format!(r#"{{"turnFailed":{{"agentId":{deep}}}}}"#),
    ];
    for payload in payloads {
        control.inject_bytes(&envelope(&payload));
    }
    let body = format!(
        r#"{{"kind":"send-message","message":{{"type":"widget","widget":{{"options":[{deep}],"prompt":{deep}}}}}}}"#
    );
    control.inject_bytes(&rows_frame(&format!("{deep},{},{},{deep}", row(2, &body), row(3, &deep))));
    control.set_numbers("a", 3, 3);
    control.say("a", "e2", "二").unwrap();
    host.reads_texts(&record, &["一", "二"]).await;
    assert_eq!(control.count(WATCH), 1, "no frame broke the stream");

    host.send(&deep);
    assert_eq!(answer(&mut host, &Value::Null).await["error"]["code"], -32600);
    host.send(&format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"records/list"}}"#));
    assert_eq!(answer(&mut host, &Value::Null).await["error"]["code"], -32600);
    for (id, params) in [
        ("d1", deep.clone()),
        ("d2", format!(r#"{{"record":{deep}}}"#)),
        ("d3", format!(r#"{{"record":"{record}","limit":1,"theirs":{deep}}}"#)),
    ] {
        host.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"session/read","params":{params}}}"#));
        let answer = answer(&mut host, &json!(id)).await;
        if id == "d3" {
            assert_eq!(texts(answer["result"]["messages"].as_array().unwrap()), ["二"]);
        } else {
            assert_eq!(answer["error"]["code"], -32602);
        }
    }
    assert!(host.call("records/list", json!({})).await.is_ok());
    stays_below(&host, 100);
    host.quit().await;
}

#[tokio::test]
async fn depth_in_the_sign_in_file_is_somebody_elses_or_a_reason_to_sign_in_again() {
    let bench = Bench::with_bot().await;
    bench.control.say("a", "e1", "一").unwrap();
    let good = std::fs::read_to_string(bench.auth_file()).unwrap();
    let theirs = good.replacen('{', &format!(r#"{{"theirs":{},"#, deep()), 1);
    write_private(&bench.auth_file(), theirs.as_bytes());
    let mut host = bench.serve().await;
    host.reads_texts(&bench.record("a"), &["一"]).await;
    host.quit().await;
    let ours: Value = serde_json::from_str(&good).unwrap();
    for name in ["accessToken", "refreshToken"] {
        let broken = good.replacen(&ours[name].to_string(), &deep(), 1);
        write_private(&bench.auth_file(), broken.as_bytes());
        let mut host = bench.serve().await;
        host.until("sign in again", |host| host.status["state"] == "signInAgain").await;
        assert_eq!(std::fs::read(bench.auth_file()).unwrap(), broken.as_bytes(), "left as it is");
        host.quit().await;
    }
}

#[tokio::test]
async fn a_text_of_100_million_characters_is_refused_and_nothing_else_suffers() {
    let bench = Bench::with_bot().await;
    bench.bot("b");
    let control = &bench.control;
    for bot in ["a", "b"] {
        control.say(bot, "e1", "一").unwrap();
    }
    let long = "x".repeat(100_000_000);
    control.fault(Fault::next(ENTRIES, page(&format!(r#"{{"body":"{long}"}}"#))).of("a").times(2));
    let mut host = bench.serve().await;
    host.reads_texts(&bench.record("b"), &["一"]).await;
    host.reads_texts(&bench.record("a"), &["一"]).await;
    assert!(host.stderr().contains("answer of more than 33554432 bytes"), "{}", host.stderr());

    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.inject_bytes(&rows_frame(&format!(r#"{{"body":"{long}"}}"#)));
    for bot in ["a", "b"] {
        control.say(bot, "e2", "二").unwrap();
        host.reads_texts(&bench.record(bot), &["一", "二"]).await;
    }
    assert!(host.stderr().contains("is too large"), "{}", host.stderr());

    host.send(&format!(r#"{{"jsonrpc":"2.0","id":"long","method":"{long}"}}"#));
    assert_eq!(answer(&mut host, &Value::Null).await["error"]["code"], -32600);
    assert!(host.call("records/list", json!({})).await.is_ok());
    stays_below(&host, 150);
    host.quit().await;
}

#[tokio::test]
async fn nuls_and_half_surrogate_pairs_are_text_like_any_other() {
    // As JSON, and as it is to be read.
    let (odd, read) = (r"\u0000\ud83e", "\0\u{fffd}");
    let bench = Bench::with_bot().await;
    let (control, record) = (&bench.control, bench.record("a"));
    let answered =
        |body: String| Act::Answer { status: 200, content_type: "application/json".into(), body, retry_after: None };
    control.fault(Fault::next("GetMe", answered(format!(r#"{{"userId":1001,"firstName":"名{odd}"}}"#))).always());
    let agents = format!(r#"{{"agentId":"{odd}","name":"x"}},{{"agentId":"a","name":"小白{odd}","kind":"{odd}"}}"#);
    control.fault(Fault::next("ListGrokBotAgents", answered(format!(r#"{{"agents":[{agents}]}}"#))).always());
    let bodies = [
        format!(
            r#"{{"kind":"send-message","id":"t{odd}","replyToId":"{odd}","message":{{"type":"text","content":"字{odd}字"}}}}"#
        ),
        format!(
            r#"{{"kind":"send-message","id":"w{odd}","message":{{"type":"widget","widget":{{"prompt":"问{odd}","helpText":"{odd}","options":[{{"label":"甲{odd}","value":"{odd}"}},{{"label":"{odd}"}}]}}}}}}"#
        ),
        format!(
            r#"{{"kind":"send-message","id":"f{odd}","message":{{"type":"attachment","fileName":"文件{odd}.pdf","filePath":"{odd}/{odd}"}}}}"#
        ),
        format!(
            r#"{{"kind":"message","role":"user","id":"u{odd}","clientNonce":"{odd}","content":"说{odd}","{odd}":1}}"#
        ),
        format!(r#"{{"kind":"{odd}","id":"k{odd}","content":"{odd}"}}"#),
        format!(r#"{{"kind":"send-message","id":"c{odd}","message":{{"type":"{odd}"}}}}"#),
        r#"{"kind":"send-message","id":"last","message":{"type":"text","content":"好"}}"#.to_owned(),
    ];
    for (number, text) in bodies.into_iter().enumerate() {
        let change = Change::AddText { entry_id: format!("e{number}"), kind: "send-message".into(), text };
        control.apply("a", "", &[change]).unwrap();
    }
    let mut host = bench.serve().await;
    let shown = host.reads(&record, "the last", |messages| texts(messages).last() == Some(&"好")).await;
    let all = texts(&shown).join("\n");
    for expected in
        [format!("字{read}字"), format!("问{read}"), format!("甲{read}"), format!("说{read}"), "文件".to_owned()]
    {
        assert!(all.contains(&expected), "{expected:?} in {all:?}");
    }
    assert_eq!(host.records[&record]["title"], format!("小白{read}"));
    assert_eq!(host.records[&record]["container"]["title"], format!("名{read}"));
    bench.until("the stream", |control| control.open_streams() == 1).await;
    for payload in [
        format!(
            r#"{{"agentState":{{"live":[{{"agentId":"a","isRunning":true,"activity":{{"kind":"tool","tool":"{odd}","detail":"{odd}"}}}},{{"agentId":"{odd}","isRunning":true}}]}}}}"#
        ),
        format!(r#"{{"turnFailed":{{"agentId":"a","code":"{odd}","summary":"{odd}"}}}}"#),
        format!(r#"{{"{odd}":{{"{odd}":1}}}}"#),
        format!(r#"{{"cleared":{{"agentId":"{odd}","newGeneration":"{odd}"}}}}"#),
    ] {
        control.inject_bytes(&envelope(&payload));
    }
    host.until("it is busy", |host| host.activity(&record).is_some()).await;
    let settled = host.post(&record, "r1", "问\0句").await;
    assert_eq!(settled["state"], "completed", "{settled}");
    assert!(control.received_messages().iter().any(|message| message.text == "问\0句"));
    let params = format!(r#"{{"record":"{record}","run":{{"id":"r2"}},"caller":"c","requestId":"q","text":"\ud83e"}}"#);
    host.send(&format!(r#"{{"jsonrpc":"2.0","id":"half","method":"session/post","params":{params}}}"#));
    assert_eq!(answer(&mut host, &json!("half")).await["error"]["data"]["kind"], "bad_params");
    assert_eq!(control.count(WATCH), 1, "no frame broke the stream");
    let places = |messages: &[Value]| {
        messages.iter().map(|message| (message["id"].clone(), message["cursor"].clone())).collect::<Vec<_>>()
    };
    let before = places(&host.all(&record).await.unwrap());
    host.quit().await;
    let mut host = bench.serve().await;
    let again = host.reads(&record, "all again", |messages| messages.len() == before.len()).await;
    assert_eq!(places(&again), before, "the index took them as they are");
    host.quit().await;
}

#[tokio::test]
async fn heaps_of_rows_cost_what_they_are_and_the_right_ones_are_read() {
    let bench = Bench::with_bot().await;
    let (control, record) = (&bench.control, bench.record("a"));
    control.say("a", "e1", "一").unwrap();
    let heap = |row: &str, bytes: usize| format!("{row},").repeat(bytes / (row.len() + 1));
    let half = heap("{}", 1_000_000);
    control.fault(Fault::next(ENTRIES, page(&format!("{half}{},{half}{{}}", said(1, "一")))).always());
    let mut host = bench.serve().await;
    host.reads_texts(&record, &["一"]).await;
    control.clear_faults();
    bench.until("the stream", |control| control.open_streams() == 1).await;
    for (seq, row) in (2..).zip(["{}", "0", "[]", r#"{"seq":"x"}"#, r#"{"body":"eA=="}"#]) {
        let (heap, text) = (heap(row, 200_000), seq.to_string());
        control.inject_bytes(&rows_frame(&format!("{heap}{},{heap}{row}", said(seq, &text))));
        assert!(host.call("resource/status", json!({})).await.is_ok());
        host.reads(&record, "the row in the middle", |messages| texts(messages).last() == Some(&&*text)).await;
    }
    // One row that grows as it is read: many options, each a line.
    let options = heap(r#"{"label":"x"}"#, 1_000_000);
    let body = format!(
        r#"{{"kind":"send-message","message":{{"type":"widget","widget":{{"prompt":"多","options":[{options}{{}}]}}}}}}"#
    );
    control.inject_bytes(&rows_frame(&row(7, &body)));
    control.set_numbers("a", 7, 7);
    control.say("a", "e-last", "末").unwrap();
    assert!(host.call("resource/status", json!({})).await.is_ok());
    host.reads(&record, "the last", |messages| texts(messages).last() == Some(&"末")).await;
    assert_eq!(control.count(WATCH), 1, "no frame broke the stream");
    stays_below(&host, 150);
    host.quit().await;
}

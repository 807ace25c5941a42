//! Cases from the field: public reports of what went wrong where streamed chats are mirrored. Each test names its row.

use std::time::Duration;

use coda_grok_bot::simulate::{
    Act, Change, Control, Dialect, Fault, ListOrder, Live, NewBot, Options, Quirks, StreamEnd, StreamPlan,
};
use serde_json::{Value, json};

use crate::support::{Bench, bare, finish, texts};

const LIST: &str = "ListGrokBotTranscriptEntries";
const WATCH: &str = "WatchGrokBotTranscripts";

/// The cursor of Bot `a` in each watch request so far.
fn cursors(control: &Control) -> Vec<Value> {
    control.requests(WATCH).iter().map(|request| request.body["cursors"][0].clone()).collect()
}

fn rows(agent: &str, control: &Control, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        control.say(agent, &format!("e{number}"), &format!("第 {number} 句")).unwrap();
    }
}

#[tokio::test]
async fn a1_a_cut_stream_is_no_success() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    rows("a", control, 1..=4);
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.say("a", "e5", "第五句").unwrap();
    control.end_streams(&StreamEnd::Bare);
    bench.until("a second stream", |control| control.opened_streams() == 2).await;
    let messages = host.reads(&record, "all five", |messages| messages.len() == 5).await;
    assert_eq!((&messages[4]["text"], &messages[4]["cursor"]), (&json!("第五句"), &json!("1:5")));
    let resumed = cursors(control);
    assert_eq!(resumed[1]["afterUpdatedSeq"], "5", "{resumed:?}");
    // The full read came before the stream.
    let order: Vec<_> = control.requests("*").into_iter().map(|request| request.method).collect();
    let last = order.iter().rposition(|method| method == WATCH).unwrap();
    assert!(order[..last].iter().rev().take_while(|method| *method != WATCH).any(|method| method == LIST), "{order:?}");
    host.quit().await;
}

#[tokio::test]
async fn a2_numbers_above_2_53_stay_apart() {
    for numbers in [false, true] {
        let bench = Bench::with_bot().await;
        let control = &bench.control;
        control.quirks(|quirks| {
            quirks.list_cap = 37;
            quirks.dialect = Dialect { long_numbers: numbers, ..Dialect::default() };
        });
        control.set_numbers("a", 9_007_199_254_740_993, 9_007_199_254_740_993);
        rows("a", control, 1..=1203);
        let mut host = bench.serve_ready().await;
        let messages = host.reads(&bench.record("a"), "all rows", |messages| messages.len() == 1203).await;
        assert_eq!(messages[0]["cursor"], "1:9007199254740994");
        assert_eq!(messages[1202]["cursor"], "1:9007199254742196");
        assert_eq!(messages[1202]["text"], "第 1203 句");
        assert_eq!(control.count(LIST), 34);
        host.quit().await;
    }
    // The largest number there is.
    let bench = Bench::with_bot().await;
    bench.control.set_numbers("a", u64::MAX - 1, u64::MAX - 1);
    bench.control.say("a", "e1", "最后").unwrap();
    let mut host = bench.serve_ready().await;
    let messages = host.reads_texts(&bench.record("a"), &["最后"]).await;
    assert_eq!(messages[0]["cursor"], "1:18446744073709551615");
    host.quit().await;
}

#[tokio::test]
async fn a3_a_server_that_ignores_the_bounds_is_not_asked_for_ever() {
    for order in [ListOrder::NewestFirst, ListOrder::OldestFirst, ListOrder::Shuffled] {
        let bench = Bench::with_bot().await;
        let control = &bench.control;
        control.quirks(|quirks| {
            *quirks = Quirks { list_order: order, ignore_limit: true, ignore_before_seq: true, ..Quirks::default() };
        });
        rows("a", control, 1..=700);
        let mut host = bench.serve_ready().await;
        let messages = host.reads(&bench.record("a"), "all rows", |messages| messages.len() == 700).await;
        assert_eq!(messages[699]["text"], "第 700 句");
        assert!(control.count(LIST) <= 3, "{}", control.count(LIST));
        host.quit().await;
    }
}

#[tokio::test]
async fn a4_a_replay_that_comes_again_is_shown_once() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e0", "先前").unwrap();
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    // Rows that the stream lost: the next one replays them, and then says them again as live ones.
    for number in 1..=3 {
        let body = json!({"id": format!("e{number}"), "kind": "send-message", "message": {"type": "text", "content": format!("第 {number} 句")}});
        control.apply_silently("a", &[Change::Add { body, seq: None }]).unwrap();
    }
    control.plan_stream(StreamPlan { times: None, replay_again: true, frames_twice: true, ..StreamPlan::default() });
    control.end_streams(&StreamEnd::Reset);
    let messages = host.reads(&record, "the three", |messages| messages.len() >= 4).await;
    assert_eq!(texts(&messages), ["先前", "第 1 句", "第 2 句", "第 3 句"]);
    control.say("a", "e4", "第 4 句").unwrap();
    host.reads_texts(&record, &["先前", "第 1 句", "第 2 句", "第 3 句", "第 4 句"]).await;
    host.quit().await;
}

#[tokio::test]
async fn a5_a_reconnect_shortens_no_history() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    rows("a", control, 1..=500);
    let mut host = bench.serve_ready().await;
    let before = host.reads(&record, "all", |messages| messages.len() == 500).await;
    let body = json!({"id": "e7", "kind": "send-message", "message": {"type": "text", "content": "改过"}});
    control.apply_silently("a", &[Change::Edit { entry_id: "e7".into(), body }]).unwrap();
    control.end_streams(&StreamEnd::Reset);
    let messages = host.reads(&record, "the edit", |messages| messages.len() > 500).await;
    assert_eq!(messages[..500], before);
    assert_eq!(messages.len(), 501);
    assert_eq!(messages[500]["about"], json!({"message": "1:e7", "change": "edit"}));
    host.quit().await;
}

#[tokio::test]
async fn a6_an_activity_follows_the_live_state_alone() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    control.set_live("a", "", Some(Live::thinking("想")));
    host.until("an activity", |host| host.activity(&record).as_deref() == Some("想")).await;
    // A finished row changes nothing while the state is busy.
    control.say("a", "e1", "写完了").unwrap();
    host.reads_texts(&record, &["写完了"]).await;
    assert_eq!(host.activity(&record).as_deref(), Some("想"));
    // Neither a row's marker nor the roster keeps it once the state is idle.
    let body = json!({"id": "e2", "kind": "message", "role": "assistant", "content": "还在写", "isStreaming": true});
    control.add("a", body).unwrap();
    control.set_bot_fields("a", json!({"isRunning": true, "isComposingMessage": true}).as_object().unwrap());
    control.set_live("a", "", None);
    host.until("no activity", |host| host.activity(&record).is_none()).await;
    host.quit().await;
}

#[tokio::test]
async fn a7_a_cursor_of_an_old_generation_loses_nothing_and_is_sent_once() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    rows("a", control, 1..=50);
    let mut host = bench.serve_ready().await;
    host.reads(&record, "all", |messages| messages.len() == 50).await;
    host.quit().await;
    control.clear("a");
    control.set_numbers("a", 0, 0);
    rows("a", control, 1..=60);
    control.forget_changes("a");
    control.clear_log();
    let mut host = bench.serve_ready().await;
    let messages = host.reads(&record, "all", |messages| messages.len() == 60).await;
    assert!(messages.iter().all(|message| message["id"].as_str().unwrap().starts_with("2:")));
    // A refused cursor in mid-life: the history is read anew, and the cursor isn't sent again.
    control.apply_silently("a", &[Change::Touch { entry_id: "e1".into() }]).unwrap();
    control.forget_changes("a");
    control.end_streams(&StreamEnd::Reset);
    bench.until("a second stream", |control| control.open_streams() == 1 && control.count(WATCH) >= 2).await;
    control.say("a", "e61", "第 61 句").unwrap();
    host.reads(&record, "the new row", |messages| messages.len() == 61).await;
    control.end_streams(&StreamEnd::Reset);
    bench.until("a third stream", |control| control.open_streams() == 1 && control.count(WATCH) >= 3).await;
    control.say("a", "e62", "第 62 句").unwrap();
    host.reads(&record, "the new row", |messages| messages.len() == 62).await;
    let asked = cursors(control);
    assert!(asked.iter().filter(|cursor| cursor["generation"] == 1).count() <= 1, "{asked:?}");
    // The second stream's cursor was refused: from then on it isn't sent any more.
    assert!(asked[2..].iter().all(|cursor| *cursor != asked[1]), "{asked:?}");
    host.quit().await;
}

#[tokio::test]
async fn a8_an_edit_of_an_old_row_is_a_revision() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    rows("a", control, 1..=1000);
    let mut host = bench.serve_ready().await;
    host.reads(&record, "all", |messages| messages.len() == 1000).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.resay("a", "e3", "改过的第 3 句").unwrap();
    let messages = host.reads(&record, "the edit", |messages| messages.len() > 1000).await;
    assert_eq!(messages.len(), 1001);
    assert_eq!(messages[1000]["about"], json!({"message": "1:e3", "change": "edit"}));
    host.quit().await;
}

#[tokio::test]
async fn a9_an_older_list_overwrites_no_newer_row() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let (a, b) = (bench.record("a"), bench.record("b"));
    bench.bot("b");
    control.say("a", "e7", "旧").unwrap();
    // The first list is held, so that the stream opens without it; the one after that is computed now and lands late.
    let hold = |gate: &str| Fault::next(LIST, Act::Hold { gate: gate.into() }).of("a");
    control.fault(hold("first"));
    control.fault(hold("late").skip(1).after());
    let (first, late) = (control.gate("first"), control.gate("late"));
    let mut host = bench.serve().await;
    host.ready(&b).await;
    late.arrived(1).await;
    control.resay("a", "e7", "新").unwrap();
    // Frames come in order: once the other Bot's row is there, this one's was seen.
    control.say("b", "x", "路标").unwrap();
    host.reads_texts(&b, &["路标"]).await;
    late.open();
    first.open();
    host.reads_texts(&a, &["新"]).await;
    // And it stays so when the next row comes.
    control.say("a", "e8", "下一句").unwrap();
    host.reads_texts(&a, &["新", "下一句"]).await;
    host.quit().await;
}

#[tokio::test]
async fn a14_a_clean_end_at_once_is_no_reconnect_storm() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    control.plan_stream(StreamPlan {
        times: None,
        after_frames: Some(1),
        then: StreamEnd::Clean,
        ..StreamPlan::default()
    });
    let host = bench.serve().await;
    let mut at = Vec::new();
    let begun = tokio::time::Instant::now();
    for count in 1..=4 {
        bench.until("another stream", |control| control.opened_streams() >= count).await;
        at.push(begun.elapsed());
    }
    let gaps: Vec<Duration> = at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    // 1 s, 2 s, 4 s, each with jitter: at least half of it.
    assert!(gaps.iter().sum::<Duration>() >= Duration::from_secs(3), "{gaps:?}");
    assert!(gaps[2] > gaps[0], "{gaps:?}");
    assert!(control.opened_streams() <= 8);
    host.quit().await;
}

#[tokio::test]
async fn a18_text_survives_any_cut_of_the_stream() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.plan_stream(StreamPlan { times: None, one_byte_chunks: true, ..StreamPlan::default() });
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.say("a", "e1", "你好🦀").unwrap();
    control.set_live("a", "", Some(Live::thinking("思考🦀中")));
    host.reads_texts(&record, &["你好🦀"]).await;
    host.until("an activity", |host| host.activity(&record).as_deref() == Some("思考🦀中")).await;
    assert_eq!(control.opened_streams(), 1);
    host.quit().await;
}

#[tokio::test]
async fn a19_a_value_that_is_new_breaks_nothing() {
    let bench = Bench::new(Options::default()).await;
    let extra = |fields: Value| fields.as_object().unwrap().clone();
    bench.bot("a");
    bench.control.add_bot(NewBot {
        extra: extra(json!({"kind": "GROK_BOT_KIND_NEW", "hologram": {"x": 1}})),
        ..NewBot::named("b").id("b")
    });
    bench.control.add_bot(NewBot { extra: extra(json!({"kind": 99})), ..NewBot::named("c").id("c") });
    bench.sign_in();
    let control = &bench.control;
    let mut host = bench.serve().await;
    host.until("three records", |host| host.records.len() == 3).await;
    for agent in ["a", "b", "c"] {
        host.ready(&bench.record(agent)).await;
    }
    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.inject_frame(&json!({"hologram": {"agentId": "a", "depth": 3}}));
    control.inject_frame(&json!({"rows": {"agentId": "a", "entries": "none"}}));
    control.inject_frame(&json!({"rosterChanged": {"kind": 77, "agentId": "a"}}));
    control.say("c", "e1", "还活着").unwrap();
    host.reads_texts(&bench.record("c"), &["还活着"]).await;
    assert_eq!(control.opened_streams(), 1, "the stream lives");
    host.quit().await;
}

#[tokio::test]
async fn a22_the_agent_id_is_the_id() {
    let bench = Bench::new(Options::default()).await;
    let extra = |fields: Value| fields.as_object().unwrap().clone();
    bench.control.add_bot(NewBot {
        extra: extra(json!({"id": "record-1", "legacyAgentId": "wrong"})),
        ..NewBot::named("有号").id("a")
    });
    bench.control.add_bot(NewBot {
        extra: extra(json!({"id": "record-2", "legacyAgentId": "b", "agentId": null})),
        ..NewBot::named("没号").id("b")
    });
    bench.sign_in();
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    assert_eq!(host.post(&record, "r1", "你好").await["state"], "completed");
    // The list again, and again: said once.
    for name in ["甲", "乙"] {
        control.rename_bot("a", name);
        host.until("the new name", |host| host.records[&record]["title"] == name).await;
    }
    for method in [LIST, "SendGrokBotUserMessage"] {
        assert!(control.requests(method).iter().all(|request| request.body["agentId"] == "a"), "{method}");
    }
    for cursor in control.requests(WATCH).iter().flat_map(|request| request.body["cursors"].as_array().unwrap()) {
        assert_eq!(cursor["agentId"], "a");
    }
    let host = host.quit().await;
    assert_eq!(host.records.len(), 1);
    let said = host.stderr().lines().filter(|line| line.contains("agentId")).count();
    assert_eq!(said, 1, "{}", host.stderr());
}

#[tokio::test]
async fn a23_a_test_run_refuses_the_real_service() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for args in [["serve"].as_slice(), &["status"], &["bots"], &["sign-in"], &["doctor", "--json"]] {
        let mut command = bare(args);
        command.env("CODA_PLUGIN_DATA", &data);
        let ran = finish(command).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("GROK_BOT_TEST"), "{}", ran.stderr);
        assert!(!data.exists(), "nothing was begun");
    }
}

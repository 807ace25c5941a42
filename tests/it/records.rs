//! Records and reading: what a host sees of the account's Bots.

use coda_grok_bot::simulate::{Live, NewBot, Options, StreamEnd};
use serde_json::json;

use crate::support::{Bench, digest, kind, texts};

#[tokio::test]
async fn records_after_sign_in() {
    let bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    bench.control.add_bot(NewBot::named("小艾").id("agent one/1"));
    bench.control.add_bot(NewBot::named("").id("b"));
    let mut host = bench.serve().await;
    assert_eq!(host.call("resource/status", json!({})).await.unwrap()["state"], "signedOut");
    assert_eq!(host.call("records/list", json!({})).await.unwrap(), json!({"records": []}));

    let link = host.call("resource/signIn", json!({})).await.unwrap();
    assert!(link["url"].as_str().unwrap().starts_with(&bench.simulation.website_url()), "{link}");
    host.until("two records", |host| host.records.len() == 2).await;

    let account = digest("1001");
    let id = format!("grok-bot:{account}:agent%20one%2F1");
    let record = &host.records[&id];
    assert_eq!(record["title"], "小艾");
    assert_eq!(record["container"], json!({"id": format!("grok-bot:{account}"), "title": "Sample Person"}));
    assert_eq!(
        record["participants"],
        json!([
            {"id": format!("account:{account}"), "name": "Sample Person", "kind": "person", "self": true},
            {"id": "agent:agent%20one%2F1", "name": "小艾", "kind": "agent"},
        ])
    );
    assert_eq!(host.records[&format!("grok-bot:{account}:b")]["title"], "未命名 Bot");
    host.until("the resource page", |host| {
        host.status["state"] == "signedIn" && host.status["items"].as_array().is_some_and(|items| items.len() == 2)
    })
    .await;
    assert_eq!(
        host.status["items"][0]["button"],
        json!({"text": "绑定", "view": "bind", "args": [host.status["items"][0]["record"]]})
    );
    let listed = host.call("records/list", json!({})).await.unwrap();
    assert_eq!(listed["records"].as_array().unwrap().len(), 2);
    host.quit().await;
}

#[tokio::test]
async fn paging_forward_and_backward() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    for number in 1..=120 {
        control.say("a", &format!("e{number}"), &format!("第 {number} 句")).unwrap();
    }
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    let newest = host.read(&record, json!({})).await.unwrap();
    assert_eq!(newest["messages"].as_array().unwrap().len(), 50);
    assert_eq!((&newest["head"], &newest["hasMore"]), (&json!("1:120"), &json!({"before": true, "after": false})));
    // Backward, page by page.
    let mut backward = newest["messages"].as_array().unwrap().clone();
    while backward.len() < 120 {
        let page = host.read(&record, json!({"before": backward[0]["cursor"], "limit": 7})).await.unwrap();
        assert_eq!(page["hasMore"]["after"], true);
        let mut page = page["messages"].as_array().unwrap().clone();
        assert!(page.len() <= 7 && !page.is_empty());
        page.append(&mut backward);
        backward = page;
    }
    // Forward from below everything.
    let mut forward = Vec::new();
    let mut after = json!("1:0");
    loop {
        let page = host.read(&record, json!({"after": after, "limit": 11})).await.unwrap();
        forward.extend(page["messages"].as_array().unwrap().clone());
        after = forward.last().unwrap()["cursor"].clone();
        if page["hasMore"]["after"] == false {
            break;
        }
    }
    assert_eq!(forward, backward);
    assert_eq!(texts(&forward)[119], "第 120 句");
    // Past the head there is nothing, whatever the number; nonsense is named as such.
    let past = host.read(&record, json!({"after": "1:340282366920938463463374607431768211456"})).await.unwrap();
    assert_eq!((&past["messages"], &past["hasMore"]), (&json!([]), &json!({"before": true, "after": false})));
    assert_eq!(kind(&host.read(&record, json!({"after": "1:01"})).await), "bad_cursor");
    assert_eq!(kind(&host.read(&record, json!({"after": "0:5"})).await), "history_reset");
    assert_eq!(kind(&host.read(&record, json!({"after": "1:1", "before": "1:3"})).await), "bad_params");
    assert_eq!(kind(&host.read("grok-bot:x:a", json!({})).await), "record_not_found");
    host.quit().await;
}

#[tokio::test]
async fn revisions() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["一"]).await;
    let edited = control.resay("a", "e1", "二").unwrap();
    let messages = host.reads_texts(&record, &["一", "二"]).await;
    assert_eq!(messages[0]["id"], "1:e1");
    assert_eq!(messages[1]["id"], format!("1:e1:edit:{}", edited.updated_seq));
    assert_eq!(messages[1]["about"], json!({"message": "1:e1", "change": "edit"}));
    assert_eq!(messages[1]["cursor"], format!("1:{}", edited.updated_seq));
    let gone = control.delete("a", "e1").unwrap();
    let messages = host.reads_texts(&record, &["一", "二", ""]).await;
    assert_eq!(messages[2]["id"], format!("1:e1:delete:{}", gone.updated_seq));
    assert_eq!(messages[2]["about"], json!({"message": "1:e1", "change": "delete"}));
    host.quit().await;
}

#[tokio::test]
async fn a_stable_head() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    host.until("the first head", |host| host.head(&record).as_deref() == Some("1:1")).await;
    // An answer that is still being written, and a finished one behind it: the head waits for both, and who follows it misses nothing.
    control.say("a", "e2", "正").unwrap();
    control.say("a", "e3", "三").unwrap();
    for text in ["正在", "正在写", "正在写字"] {
        let before = control.count("ListGrokBotTranscriptEntries");
        control.resay("a", "e2", text).unwrap();
        // A question to the provider stands for the time between two versions: far less than the second.
        let page = host.read(&record, json!({"after": "1:1"})).await.unwrap();
        assert_eq!(page["messages"], json!([]), "something unstable is readable");
        assert_eq!(control.count("ListGrokBotTranscriptEntries"), before);
    }
    host.until("the last head", |host| host.head(&record).as_deref() == Some("1:6")).await;
    let page = host.read(&record, json!({"after": "1:1"})).await.unwrap();
    assert_eq!(texts(page["messages"].as_array().unwrap()), ["三", "正在写字"]);
    assert_eq!(page["messages"][0]["cursor"], "1:3");
    // The second head may or may not have been told on its own; the order is checked with every head that comes.
    host.quit().await;
}

#[tokio::test]
async fn a_streamed_message_finished_before_the_start() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    control.say("a", "e1", "你").unwrap();
    control.say("a", "e2", "之后").unwrap();
    for text in ["你好", "你好，世", "你好，世界"] {
        control.resay("a", "e1", text).unwrap();
    }
    let mut host = bench.serve_ready().await;
    let messages = host.reads_texts(&bench.record("a"), &["之后", "你好，世界"]).await;
    assert_eq!((&messages[1]["id"], &messages[1]["cursor"]), (&json!("1:e1"), &json!("1:5")));
    assert!(messages[1].get("about").is_none());
    host.quit().await;
}

#[tokio::test]
async fn rebuild_after_a_broken_stream() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    control.set_live("a", "", Some(Live::thinking("想一想")));
    let mut host = bench.serve_ready().await;
    host.until("an activity", |host| host.activity(&record).as_deref() == Some("想一想")).await;
    let lists = control.count("ListGrokBotTranscriptEntries");
    // What happens between two streams: a new row, a change, and a live state that ended unseen.
    control.hold("WatchGrokBotTranscripts", None, false).open();
    let gate = control.hold("WatchGrokBotTranscripts", None, false);
    control.end_streams(&StreamEnd::Reset);
    host.until("the activity goes with the stream", |host| host.activity(&record).is_none()).await;
    bench.until("no stream", |control| control.open_streams() == 0).await;
    control.say("a", "e2", "二").unwrap();
    control.resay("a", "e1", "一改").unwrap();
    control.set_live("a", "", None);
    gate.open();
    let messages = host.reads_texts(&record, &["一", "二", "一改"]).await;
    assert_eq!(messages[0]["id"], "1:e1", "what was delivered stays");
    assert!(control.count("ListGrokBotTranscriptEntries") > lists, "a reconnect reads in full");
    assert_eq!(host.activity(&record), None);
    host.quit().await;
}

#[tokio::test]
async fn rebuild_after_a_reset() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "旧").unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["旧"]).await;
    let gate = control.hold("ListGrokBotTranscriptEntries", Some("a"), false);
    control.clear("a");
    host.until("the head goes at once", |host| host.records[&record]["head"].is_null()).await;
    // H14: until it is read again.
    assert_eq!(kind(&host.read(&record, json!({})).await), "not_ready");
    gate.open();
    let fresh = control.say("a", "e1", "新").unwrap();
    let messages = host.reads_texts(&record, &["新"]).await;
    assert_eq!(messages[0]["id"], "2:e1");
    assert_eq!(messages[0]["cursor"], format!("2:{}", fresh.updated_seq));
    let old = host.read(&record, json!({"after": "1:1"})).await;
    assert_eq!(kind(&old), "history_reset");
    assert_eq!(old.unwrap_err()["data"]["head"], messages[0]["cursor"]);
    host.quit().await;
}

#[tokio::test]
async fn no_extra_history_read() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    control.say("a", "e2", "二").unwrap();
    host.reads_texts(&record, &["一", "二"]).await;
    control.clear_log();
    for _ in 0..20 {
        host.read(&record, json!({"limit": 1})).await.unwrap();
        host.read(&record, json!({"before": "1:2"})).await.unwrap();
    }
    control.resay("a", "e2", "二改").unwrap();
    host.reads_texts(&record, &["一", "二", "二改"]).await;
    assert_eq!(host.post(&record, "r1", "三").await["state"], "completed");
    host.call("records/list", json!({})).await.unwrap();
    host.reads_texts(&record, &["一", "二", "二改", "三"]).await;
    assert_eq!(control.count("ListGrokBotTranscriptEntries"), 0, "{:?}", control.counts());
    host.quit().await;
}

#[tokio::test]
async fn routines_are_not_mirrored() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let routine = json!({"id": "auto-1", "name": "巡检"});
    let rows = [
        json!({"id": "r1", "kind": "message", "role": "user", "content": "检查一下", "automation": routine}),
        json!({"id": "r2", "kind": "automation-run", "automation": routine}),
        json!({"id": "r3", "kind": "thinking", "content": "想"}),
        json!({"id": "r4", "kind": "tool-call", "tool": "Bash"}),
        json!({"id": "r5", "kind": "send-message", "message": {"type": "text", "content": "一切正常"}, "automationName": "巡检"}),
        json!({"id": "r6", "kind": "message", "role": "user", "content": "谢谢"}),
    ];
    for row in rows {
        control.add("a", row).unwrap();
    }
    let mut host = bench.serve_ready().await;
    let messages = host.reads_texts(&bench.record("a"), &["一切正常", "谢谢"]).await;
    assert!(messages[0]["from"].as_str().unwrap().starts_with("agent:"));
    assert!(messages[1]["from"].as_str().unwrap().starts_with("account:"));
    host.quit().await;
}

#[tokio::test]
async fn h10_the_list_of_bots_is_followed() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let (a, b) = (bench.record("a"), bench.record("b"));
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    let first = host.reads_texts(&a, &["一"]).await;
    control.rename_bot("a", "新名字");
    host.until("the new title", |host| host.records[&a]["title"] == "新名字").await;
    bench.bot("b");
    host.until("the new Bot", |host| host.records.contains_key(&b)).await;
    control.delete_bot("a");
    host.until("a withdrawal", |host| !host.records.contains_key(&a)).await;
    assert_eq!(host.withdrawn, [(a.clone(), "deleted".to_owned())]);
    assert_eq!(kind(&host.read(&a, json!({})).await), "record_not_found");
    assert_eq!(
        kind(
            &host
                .call(
                    "session/post",
                    json!({"record": a, "run": {"id": "r"}, "caller": "c", "requestId": "q", "text": "x"})
                )
                .await
        ),
        "record_not_found"
    );
    control.restore_bot("a");
    host.until("it is back", |host| host.records.contains_key(&a)).await;
    let again = host.reads_texts(&a, &["一"]).await;
    assert_eq!(again, first, "a Bot that comes back has the same ids");
    host.quit().await;
}

#[tokio::test]
async fn h14_not_ready_until_the_first_read_is_in() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    bench.bot("b");
    control.say("a", "e1", "一").unwrap();
    let (a, b) = (bench.record("a"), bench.record("b"));
    let gate = control.hold("ListGrokBotTranscriptEntries", Some("a"), false);
    let mut host = bench.serve().await;
    // One slow Bot holds up nobody.
    host.ready(&b).await;
    assert_eq!(kind(&host.read(&a, json!({})).await), "not_ready");
    assert!(host.records[&a]["head"].is_null());
    // Posts are accepted meanwhile.
    host.begin_post(&a, "r1", "你好", None).await;
    bench.until("it was sent", |control| control.received_messages().len() == 1).await;
    gate.open();
    assert_eq!(host.settle("r1").await["state"], "completed");
    host.reads_texts(&a, &["一", "你好"]).await;
    host.quit().await;
}

#[tokio::test]
async fn h18_an_activity_is_no_message_and_never_moves_the_head() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    control.set_live("a", "", Some(Live::tool("Bash", "运行测试\n第二行", "x")));
    host.until("an activity", |host| host.activity(&record).as_deref() == Some("运行测试")).await;
    assert_eq!(host.records[&record]["activity"]["participant"], "agent:a");
    let listed = host.call("records/list", json!({})).await.unwrap();
    assert_eq!(listed["records"][0]["activity"]["status"], "运行测试");
    host.reads_texts(&record, &["一"]).await;
    // An old settlement beside a busy state clears nothing; being idle does.
    let old = json!({"clientNonce": "n", "outcome": "success", "settledAtMs": "1"});
    control.set_live("a", "", Some(Live::thinking("").with("lastTurnSettlement", old)));
    host.until("thinking", |host| host.activity(&record).as_deref() == Some("Grok 正在思考")).await;
    control.turn_failed("a", "TIMEOUT", "too slow");
    control.set_live("a", "", None);
    host.until("the activity is gone", |host| host.activity(&record).is_none()).await;
    let last = host.log.iter().rfind(|message| message["method"] == "session/activity").unwrap();
    assert!(last["params"]["_meta"]["grok-bot"]["turnFailed"]["code"].as_str().unwrap().ends_with("TIMEOUT"), "{last}");
    assert_eq!(host.head(&record).as_deref(), Some("1:1"));
    host.quit().await;
}

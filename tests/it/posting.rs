//! Posts: what reaches the Bot, and what becomes of the run.

use coda_grok_bot::host::message_id;
use coda_grok_bot::simulate::{Act, Echo, Fault, StreamEnd};
use serde_json::json;

use crate::support::{Bench, kind, texts};

const SEND: &str = "SendGrokBotUserMessage";
const STATUS: &str = "GetGrokBotSendStatus";

#[tokio::test]
async fn derived_post_ids() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    let expected = message_id("user-1", &record, "q1").to_string();
    let mut settled = Vec::new();
    // The same request in two runs: sent twice under one id, which the service takes once.
    for run in ["r1", "r2"] {
        let params =
            json!({"record": record, "run": {"id": run}, "caller": "user-1", "requestId": "q1", "text": "你好"});
        host.call("session/post", params).await.unwrap();
        settled.push(host.settle(run).await["result"].clone());
    }
    assert_eq!(settled[0], settled[1]);
    let sent: Vec<_> = control.requests(SEND).iter().map(|request| request.body["messageId"].clone()).collect();
    assert_eq!(sent, [json!(expected), json!(expected)]);
    assert_eq!(control.received_messages().len(), 1);
    host.reads_texts(&record, &["你好"]).await;
    // Another request is another message.
    assert_eq!(host.post(&record, "r3", "你好").await["state"], "completed");
    assert_eq!(control.received_messages().len(), 2);
    host.quit().await;
}

#[tokio::test]
async fn echo_in_the_stream() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.quirks(|quirks| quirks.echo = Echo::Held);
    let mut host = bench.serve_ready().await;
    // The service has said yes; it is done when the message is there to read.
    host.begin_post(&record, "r1", "你好", None).await;
    bench.until("it was sent", |control| control.received_messages().len() == 1).await;
    host.reads_texts(&record, &[]).await;
    assert!(host.settled.is_empty());
    control.release_echoes();
    let settled = host.settle("r1").await;
    let messages = host.reads_texts(&record, &["你好"]).await;
    assert_eq!(settled["result"]["message"], json!({"id": messages[0]["id"], "cursor": messages[0]["cursor"]}));
    assert!(messages[0]["from"].as_str().unwrap().starts_with("account:"));
    host.quit().await;
}

#[tokio::test]
async fn unknown_results() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.quirks(|quirks| quirks.echo = Echo::Never);
    let mut host = bench.serve_ready().await;
    // Begun before the shutdown: nobody can be sure. The one that waits behind it was not begun.
    control.fault(Fault::next(SEND, Act::Hang));
    host.begin_post(&record, "r1", "一", None).await;
    host.begin_post(&record, "r2", "二", None).await;
    bench.until("the first is out", |control| control.count(SEND) == 1).await;
    let host = host.quit().await;
    assert_eq!((&host.settled["r1"]["reason"], &host.settled["r2"]["reason"]), (&json!("unknown"), &json!("not_sent")));
    assert_eq!(control.count(SEND), 1, "nothing is sent again");

    // After a restart the host's open runs are unknown too, and nothing is resent.
    let mut host = bench.spawn();
    let runs = json!([{"id": "old-1", "record": record}, {"id": "old-2", "record": record}]);
    host.call("initialize", json!({"protocolVersion": "5.7.0", "openRuns": runs})).await.unwrap();
    host.until("a record", |host| host.records.contains_key(&record)).await;
    assert_eq!(host.settled["old-1"]["reason"], "unknown");
    assert_eq!(host.settled["old-2"]["reason"], "unknown");
    // H5: the settles come before the first word on the resource.
    let methods: Vec<_> = host.log.iter().take(3).map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["run/settled", "run/settled", "resource/changed"]);
    host.ready(&record).await;
    host.quit().await;
    assert_eq!(control.count(SEND), 1);
}

#[tokio::test]
async fn widget_answers() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.ask("a", "w1", "部署到哪里？", &[("测试环境", "staging"), ("生产环境", "")]).unwrap();
    let mut host = bench.serve_ready().await;
    let messages = host.reads_texts(&record, &["部署到哪里？\n- 测试环境（staging）\n- 生产环境"]).await;
    assert_eq!(messages[0]["_meta"]["grok-bot"]["widget"]["options"].as_array().unwrap().len(), 2);
    host.begin_post(&record, "r1", " 测试环境 ", Some("1:w1")).await;
    let settled = host.settle("r1").await;
    assert_eq!(settled["result"]["message"]["id"], "1:w1:reply", "{settled}");
    assert_eq!(control.body("a", "w1").unwrap()["respondedValue"], "staging");
    assert_eq!(control.count(SEND), 0);
    let messages = host.reads(&record, "the answer", |messages| messages.len() == 2).await;
    assert_eq!(messages[1]["text"], "测试环境");
    assert_eq!(messages[1]["replyTo"], json!({"message": "1:w1"}));
    assert_eq!(messages[1]["mentions"], json!(["agent:a"]));
    // Answered already.
    host.begin_post(&record, "r2", "生产环境", Some("1:w1")).await;
    assert_eq!(host.settle("r2").await["reason"], "widget_closed");
    // Another text is an ordinary reply.
    host.begin_post(&record, "r3", "为什么？", Some("1:w1")).await;
    assert_eq!(host.settle("r3").await["state"], "completed");
    assert_eq!(control.received_messages()[0].reply_to.as_deref(), Some("w1"));
    let messages = host.reads(&record, "the reply", |messages| messages.len() == 3).await;
    assert_eq!(messages[2]["replyTo"], json!({"message": "1:w1"}));
    host.quit().await;
}

#[tokio::test]
async fn h16_what_refuses_a_request() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    let post = |text: &str, more: (&str, serde_json::Value)| {
        let mut params = json!({"record": record, "run": {"id": "r"}, "caller": "c", "requestId": "q", "text": text});
        params[more.0] = more.1;
        params
    };
    for (params, expected) in [
        (post(" \n", ("draft", json!(false))), "bad_params"),
        (post(&"长".repeat(70_000), ("draft", json!(false))), "bad_params"),
        (post("x", ("replyTo", json!("1:nothing"))), "bad_params"),
        (post("x", ("attachments", json!([{"name": "a.png"}]))), "text_only"),
        (post("x", ("record", json!("grok-bot:x:y"))), "record_not_found"),
    ] {
        assert_eq!(kind(&host.call("session/post", params).await), expected);
    }
    let draft = json!({"record": record, "caller": "c", "requestId": "q", "text": "x", "draft": true});
    assert_eq!(host.call("session/post", draft).await, Ok(json!({"accepted": true})));
    // H17: there is no stop or cancel.
    let cancel = host.call("session/cancel", json!({"run": {"id": "r"}})).await;
    assert_eq!(cancel.unwrap_err()["code"], -32601);
    let host = host.quit().await;
    assert_eq!((bench.control.count(SEND), host.settled.len()), (0, 0));
}

#[tokio::test]
async fn post4_a_refusal_and_a_signed_out_account_say_that_nothing_was_posted() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    control.fault(Fault::next(SEND, Act::error("permission_denied")));
    assert_eq!(host.post(&record, "r1", "一").await["reason"], "refused");
    assert_eq!(control.count(STATUS), 0);
    // An unclear error, and the service knows nothing of it.
    control.fault(Fault::next(SEND, Act::error("internal")));
    assert_eq!(host.post(&record, "r2", "二").await["reason"], "not_sent");
    assert_eq!((control.count(SEND), control.count(STATUS)), (2, 1));
    host.call("resource/signOut", json!({})).await.unwrap();
    host.until("the withdrawal", |host| host.records.is_empty()).await;
    assert_eq!(host.withdrawn, [(record.clone(), "signedOut".to_owned())]);
    assert!(
        !bench.auth_file().exists() || !std::fs::read_to_string(bench.auth_file()).unwrap().contains("accessToken")
    );
    host.quit().await;
    assert!(control.received_messages().is_empty());
}

#[tokio::test]
async fn post3_a_401_renews_the_sign_in_and_sends_once_more() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    control.expire_access_tokens(false);
    assert_eq!(host.post(&record, "r1", "你好").await["state"], "completed");
    assert_eq!((control.count(SEND), control.count("oauth/token")), (2, 1));
    assert_eq!(control.received_messages().len(), 1);
    host.quit().await;
}

#[tokio::test]
async fn a16_a_send_that_landed_is_not_sent_again() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.quirks(|quirks| quirks.echo = Echo::Held);
    control.fault(Fault::next(SEND, Act::Drop).after());
    let mut host = bench.serve_ready().await;
    host.begin_post(&record, "r1", "你好", None).await;
    bench.until("the status is asked", |control| control.count(STATUS) == 1).await;
    // The echo comes with the next stream.
    control.end_streams(&StreamEnd::Reset);
    bench.until("no stream", |control| control.open_streams() == 0).await;
    control.release_echoes();
    assert_eq!(host.settle("r1").await["state"], "completed");
    assert_eq!((control.count(SEND), control.count(STATUS)), (1, 1));
    // A repeated request of the host: the service calls it a duplicate, and that counts as sent.
    let params = json!({"record": record, "run": {"id": "r2"}, "caller": "user-1", "requestId": "r1", "text": "你好"});
    host.call("session/post", params).await.unwrap();
    assert_eq!(host.settle("r2").await["result"], host.settled["r1"]["result"]);
    let messages = host.reads_texts(&record, &["你好"]).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(control.received_messages().len(), 1);
    host.quit().await;
}

#[tokio::test]
async fn a17_an_echo_is_matched_by_its_id_not_by_its_text() {
    let bench = Bench::with_bot().await;
    bench.control.quirks(|quirks| quirks.rewrite_echo = true);
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    let settled = host.post(&record, "r1", "hello <!-- cursor-x -->\n\n\n\n\n\nworld").await;
    assert_eq!(settled["state"], "completed");
    let messages = host.reads_texts(&record, &["hello\n\nworld"]).await;
    assert_eq!(messages[0]["id"], settled["result"]["message"]["id"]);
    host.quit().await;
}

#[tokio::test]
async fn a20_an_answer_to_a_card_that_is_gone() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.ask("a", "w1", "第一张", &[("是", ""), ("否", "")]).unwrap();
    control.ask("a", "w2", "第二张", &[("是", ""), ("否", "")]).unwrap();
    let mut host = bench.serve_ready().await;
    control.fault(Fault::next("RespondGrokBotWidget", Act::error("failed_precondition")));
    host.begin_post(&record, "r1", "是", Some("1:w1")).await;
    let settled = host.settle("r1").await;
    assert_eq!(settled["reason"], "widget_closed");
    assert_eq!(control.count("RespondGrokBotWidget"), 1, "no retry");
    // The other card is untouched, and can be answered.
    host.begin_post(&record, "r2", "否", Some("1:w2")).await;
    assert_eq!(host.settle("r2").await["state"], "completed");
    let messages = host.reads(&record, "one answer", |messages| messages.len() == 3).await;
    assert_eq!(messages[2]["replyTo"], json!({"message": "1:w2"}));
    assert_eq!(control.body("a", "w1").unwrap()["respondedValue"], json!(null));
    host.quit().await;
}

#[tokio::test]
async fn a21_old_rows_dont_stop_sending() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "没有 requestId").unwrap();
    control.add("a", json!({"id": "e2", "kind": "hologram", "shape": "cube"})).unwrap();
    control.add("a", json!({"id": "e3", "kind": "send-message", "message": {"type": "hologram"}})).unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["没有 requestId", "[暂不支持的消息：hologram]"]).await;
    assert_eq!(host.post(&record, "r1", "你好").await["state"], "completed");
    host.quit().await;
}

#[tokio::test]
async fn a24_a_post_is_shown_once_and_the_history_never_as_new() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    for number in 1..=3 {
        control.say("a", &format!("e{number}"), &format!("旧 {number}")).unwrap();
    }
    let mut host = bench.serve_ready().await;
    host.until("the head of the history", |host| host.head(&record).as_deref() == Some("1:3")).await;
    assert_eq!(host.post(&record, "r1", "新").await["state"], "completed");
    let page = host.read(&record, json!({"after": "1:3"})).await.unwrap();
    assert_eq!(texts(page["messages"].as_array().unwrap()), ["新"]);
    host.reads_texts(&record, &["旧 1", "旧 2", "旧 3", "新"]).await;
    let heads = host.log.iter().filter(|message| message["method"] == "session/head").count();
    assert!(heads <= 2, "one for the history at most, one for the post: {heads}");
    host.quit().await;
}

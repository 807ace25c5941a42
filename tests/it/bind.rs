//! The bind view, from the button to what the Bot receives.

use coda_grok_bot::simulate::{Act, Fault};
use serde_json::{Value, json};

use crate::support::{Bench, kind};

fn code(code: &str, addresses: &Value) -> Value {
    json!({"code": code, "expiresAt": "2026-11-30T12:10:00Z", "addresses": addresses})
}

#[tokio::test]
async fn h19_h20_h21_the_bot_is_told_how_to_bind() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    assert!(host.requests.is_empty(), "no code is asked for by itself");
    for opening in ["code-1", "code-2"] {
        let id = host.ask("view/open", json!({"view": "bind", "args": [record]}));
        host.until("a code is asked for", |host| !host.requests.is_empty()).await;
        assert_eq!(host.requests[0]["params"], json!({"record": record}));
        host.reply(code(opening, &json!(["http://100.64.0.1:8080", "http://100.64.0.2:8080"]))).await;
        assert_eq!(host.answer(id).await, Ok(json!({"status": "sent", "text": "已发给 Bot"})));
    }
    let commands = control.bind_commands();
    let expected = ["code-1", "code-2"].map(|code| format!("node coda-bot.mjs bind http://100.64.0.1:8080 {code}"));
    assert_eq!(commands, expected);
    let received = control.received_messages();
    assert_eq!(received.len(), 2);
    let (sentence, command) = received[0].text.split_once('\n').unwrap();
    assert!(sentence.contains("coda-bot.mjs") && !command.contains('\n'), "{}", received[0].text);
    assert_ne!(received[0].message_id, received[1].message_id);
    // It is a message of the account in the record, like any other.
    let messages = host.reads(&record, "both", |messages| messages.len() == 2).await;
    assert!(messages.iter().all(|message| message["from"].as_str().unwrap().starts_with("account:")));
    host.quit().await;
}

#[tokio::test]
async fn h20_without_a_usable_code_nothing_is_sent() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    assert_eq!(
        kind(&host.call("view/open", json!({"view": "bind", "args": ["grok-bot:x:a"]})).await),
        "record_not_found"
    );
    assert_eq!(kind(&host.call("view/open", json!({"view": "other", "args": [record]})).await), "bad_params");
    for answer in [
        code("c", &json!([])),
        code("c; rm -rf /", &json!(["http://100.64.0.1:8080"])),
        code("c", &json!(["http://100.64.0.1:8080/$(id)"])),
        json!({"nothing": true}),
    ] {
        let id = host.ask("view/open", json!({"view": "bind", "args": [record]}));
        host.reply(answer).await;
        assert_eq!(kind(&host.answer(id).await), "remote_unavailable");
    }
    // The host refuses.
    let id = host.ask("view/open", json!({"view": "bind", "args": [record]}));
    host.until("a code is asked for", |host| !host.requests.is_empty()).await;
    let request = host.requests.pop_front().unwrap();
    host.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "no"}}).to_string());
    assert_eq!(kind(&host.answer(id).await), "remote_unavailable");
    host.quit().await;
    assert!(bench.control.received_messages().is_empty());
}

#[tokio::test]
async fn h21_a_refusal_is_told_and_a_shutdown_leaves_it_unconfirmed() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    control.fault(Fault::next("SendGrokBotUserMessage", Act::error("failed_precondition")));
    let open = json!({"view": "bind", "args": [record]});
    let id = host.ask("view/open", open.clone());
    host.reply(code("c", &json!(["http://100.64.0.1:8080"]))).await;
    assert_eq!(kind(&host.answer(id).await), "refused");

    control.fault(Fault::next("SendGrokBotUserMessage", Act::Hang));
    let id = host.ask("view/open", open);
    host.reply(code("c", &json!(["http://100.64.0.1:8080"]))).await;
    bench.until("it is out", |control| control.count("SendGrokBotUserMessage") == 2).await;
    let stop = host.ask("shutdown", json!({}));
    assert_eq!(kind(&host.answer(id).await), "send_unconfirmed");
    assert_eq!(host.answer(stop).await, Ok(Value::Null));
    host.close();
    assert_eq!(host.end().await.code(), Some(0));
}

#[tokio::test]
async fn h3_nobody_signed_in_can_bind() {
    let bench = Bench::new(coda_grok_bot::simulate::Options::default()).await;
    let mut host = bench.serve().await;
    let answer = host.call("view/open", json!({"view": "bind", "args": [bench.record("a")]})).await;
    assert_eq!(kind(&answer), "signed_out");
    assert_eq!(answer.unwrap_err()["code"], -32000);
    host.quit().await;
}

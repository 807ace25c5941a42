//! Records and reading: what a host sees of the account's Bots.

use coda_grok_bot::simulate::{NewBot, Options};
use serde_json::json;

use crate::support::{Bench, digest, kind, texts};

#[tokio::test]
async fn records_after_sign_in() {
    let mut bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    bench.control.add_bot(NewBot::named("小艾").id("agent one/1"));
    bench.control.add_bot(NewBot::named("").id("b"));
    let mut host = bench.serve().await;
    assert_eq!(host.call("resource/status", json!({})).await.unwrap()["state"], "signedOut");
    assert_eq!(host.call("records/list", json!({})).await.unwrap(), json!({"records": []}));

    let link = host.call("resource/signIn", json!({})).await.unwrap();
    assert!(link["url"].as_str().unwrap().starts_with(&bench.simulation.website_url()), "{link}");
    host.until("two records", |host| host.records.len() == 2).await;
    bench.note_secrets();

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
    let host = host.quit().await;
    bench.check_secrets("stderr", &host.stderr());
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

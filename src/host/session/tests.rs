use serde_json::{Value, json};

use super::*;
use crate::host::support::{Host, Rig, account, busy, completed, draw, hello, info, kind, message, post, signed_in};
use crate::host::{Role, Unavailable};
use crate::records::{ActivityNotice, Command, Link, SignInState, Status, Withdrawal};
use crate::rpc::Fault;

fn record(agent: &str) -> Value {
    Value::from(info(agent).id.as_str())
}

async fn said(host: &mut Host) -> String {
    draw(&host.next().await)
}

// ---- JSON-RPC

#[tokio::test(start_paused = true)]
async fn h2_each_fault_of_a_request_has_its_code() {
    let mut rig = Rig::serving().await;
    for (text, id, code) in [
        ("{", Value::Null, -32700),
        ("[]", Value::Null, -32600),
        (r#"{"jsonrpc":"1.0","id":7,"method":"records/list"}"#, json!(7), -32600),
        (r#"{"jsonrpc":"2.0","id":8,"method":"no/such"}"#, json!(8), -32601),
        (r#"{"jsonrpc":"2.0","id":9,"method":"session/cancel"}"#, json!(9), -32601),
        (r#"{"jsonrpc":"2.0","id":10,"method":"session/read"}"#, json!(10), -32602),
        (r#"{"jsonrpc":"2.0","id":11,"method":"records/list","params":[]}"#, json!(11), -32602),
        (r#"{"jsonrpc":"2.0","id":12,"method":"session/read","params":["x"]}"#, json!(12), -32602),
    ] {
        rig.host.send_text(text).await;
        let answer = rig.host.next().await;
        assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&id, Some(code)), "{text}");
    }
    // Notifications and stray responses get nothing.
    rig.host.send_text(r#"{"jsonrpc":"2.0","method":"no/such"}"#).await;
    rig.host.send_text(r#"{"jsonrpc":"2.0","id":99,"result":1}"#).await;
    assert!(rig.host.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn h2_requests_run_side_by_side_and_a_slow_one_blocks_nobody() {
    let mut rig = Rig::serving().await;
    let slow = rig.host.ask("resource/signIn", json!({})).await;
    let unanswered = rig.host.ask("view/open", json!({"view": "bind", "args": [record("a")]})).await;
    assert_eq!(said(&mut rig.host).await, "protocols/remoteCode");
    assert!(rig.host.call("records/list", json!({})).await.is_ok());
    let Command::SignIn(answer) = rig.wish().await else {
        panic!("no sign-in");
    };
    let link = Link { url: "https://example.test/l".into(), expires_at: crate::model::Wall(0) };
    answer.send(Ok(link)).unwrap();
    let expected = json!({"url": "https://example.test/l", "expiresAt": "1970-01-01T00:00:00.000Z"});
    assert_eq!(rig.host.answer(&slow).await.unwrap(), expected);
    let error = rig.host.answer(&unanswered).await.unwrap_err();
    assert_eq!(kind(&error), ("remote_unavailable".into(), -32012));
}

#[tokio::test(start_paused = true)]
async fn h2_what_the_framing_could_not_read_is_answered_and_the_session_goes_on() {
    let (transport, far) = crate::host::pair();
    let (wishes, _commands) = mpsc::channel(1);
    let (handle, _publisher) = records::new(wishes);
    let config = Config { role: Role::Guest, ready: std::future::ready(Ok(handle)), stop: CancellationToken::new() };
    let mut session = JoinSet::new();
    session.spawn(run(transport, config));
    let mut far = far;
    for (fault, code) in [(Fault::TooLong, -32600), (Fault::NotJson, -32700)] {
        far.incoming.send(Incoming::Unreadable(fault)).await.unwrap();
        let answer: Value = serde_json::from_str(&far.outgoing.recv().await.unwrap()).unwrap();
        assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&Value::Null, Some(code)));
    }
}

#[tokio::test(start_paused = true)]
async fn h3_every_error_has_a_stable_word_a_code_and_a_chinese_sentence() {
    let mut rig = Rig::serving().await;
    rig.publisher.put(info("new"));
    let read = |agent: &str, more: Value| {
        let mut params = json!({"record": record(agent)});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("session/read", params)
    };
    for ((method, params), word, code) in [
        (read("gone", json!({})), "record_not_found", -32004),
        (read("a", json!({"after": "2:1"})), "history_reset", -32010),
        (read("new", json!({})), "not_ready", -32011),
        (read("a", json!({"after": "x"})), "bad_cursor", -32602),
        (read("a", json!({"limit": 0})), "bad_params", -32602),
        (("nothing", json!({})), "method_not_found", -32601),
        (("initialize", hello()), "invalid_request", -32600),
        (
            (
                "session/post",
                json!({"record": record("a"), "run": {"id": "r"}, "caller": "c", "requestId": "q", "text": "t", "attachments": [1]}),
            ),
            "text_only",
            -32602,
        ),
    ] {
        let error = rig.host.call(method, params).await.unwrap_err();
        assert_eq!(kind(&error), (word.to_owned(), code));
        let sentence = error["message"].as_str().unwrap();
        assert!(sentence.ends_with('。') && sentence.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)));
        assert_eq!(error["data"].get("head").is_some(), word == "history_reset");
    }
}

// ---- A host that doesn't read

#[tokio::test(start_paused = true)]
async fn h4_past_16_mib_waiting_the_host_is_not_read_until_it_drains() {
    let mut rig = Rig::serving().await;
    let id = info("a").id;
    let text = "x".repeat(1024 * 1024);
    rig.publisher.append(&id, (3..6).map(|number| message(number, &text)).collect::<Vec<_>>(), 5);
    assert_eq!(said(&mut rig.host).await, "head 1:5");
    let params = json!({"record": record("a")});
    let mut asked = vec![];
    let mut refused = 0;
    while refused < 3 {
        match rig.host.try_send("session/read", &params) {
            Some(id) => {
                asked.push(id);
                refused = 0;
            }
            // Either the session has just not run yet, or it has stopped reading.
            None => refused += 1,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(asked.len() < 20, "an endless queue");
    }
    assert!((6..=10).contains(&asked.len()), "{} pages of 3 MiB", asked.len());
    // Meanwhile changes coalesce, and a settle waits its turn.
    for number in 6..500 {
        rig.publisher.append(&id, vec![], number);
        rig.publisher.activity(&id, busy(&number.to_string()));
    }
    for asked in &asked {
        assert_eq!(rig.host.answer(asked).await.unwrap()["messages"].as_array().unwrap().len(), 5);
    }
    let told: Vec<String> = [said(&mut rig.host).await, said(&mut rig.host).await].into();
    assert_eq!(told[..], ["head 1:499", "activity 499"]);
    assert!(rig.host.is_quiet().await);
    assert!(rig.host.call("records/list", json!({})).await.is_ok());
}

/// Asks without reading until the session reads no more, with ids of 100 KiB and next to no params: the ids.
async fn ask_until_unread(rig: &mut Rig, method: &str) -> Vec<Value> {
    let (mut asked, mut refused) = (vec![], 0);
    while refused < 3 {
        let id = Value::from(format!("{}{}", asked.len(), "x".repeat(100 * 1024)));
        if let Some(id) = rig.host.try_send_as(id, method, &json!({})) {
            asked.push(id);
            refused = 0;
        } else {
            // Either the session has just not run yet, or it has stopped reading.
            refused += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(asked.len() < 300, "an endless queue");
    }
    assert!(asked.len() > 100, "{}", asked.len());
    asked
}

#[tokio::test(start_paused = true)]
async fn h4_requests_that_wait_for_the_folder_are_bounded_whatever_they_are_made_of() {
    let (give, given) = oneshot::channel();
    let mut rig = Rig::with(Role::Owner, |_| async { given.await.unwrap() });
    rig.greet().await;
    let asked = ask_until_unread(&mut rig, "records/list").await;
    give.send(Ok(rig.handle.clone())).unwrap();
    for id in &asked {
        assert!(rig.host.answer(id).await.is_ok());
    }
    assert!(rig.host.call("records/list", json!({})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn h4_requests_under_way_are_bounded_and_each_is_answered() {
    let mut rig = Rig::serving().await;
    // The loop doesn't answer: every wish takes its 15 s.
    let asked = ask_until_unread(&mut rig, "resource/cancelSignIn").await;
    for id in &asked {
        assert_eq!(kind(&rig.host.answer(id).await.unwrap_err()).0, "internal");
    }
    assert!(rig.host.call("records/list", json!({})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn h4_settles_never_drop_and_come_behind_their_heads() {
    let mut rig = Rig::serving().await;
    let id = info("a").id;
    for number in 3..7 {
        let run = format!("r{number}");
        rig.host.call("session/post", post(&run, "hi")).await.unwrap();
        let sent = rig.post().await;
        rig.publisher.append(&id, vec![message(number, "hi")], number);
        sent.settle.send(completed(number)).unwrap();
    }
    // Nobody read meanwhile: one head that covers all, then every settle.
    let mut told = vec![];
    for _ in 0..5 {
        told.push(said(&mut rig.host).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let settles: Vec<&String> = told.iter().filter(|line| line.starts_with("settled")).collect();
    assert_eq!(settles.len() + told.iter().filter(|line| line.starts_with("head")).count(), 5);
    let mut head = 2;
    for line in told.iter().chain(&{
        let mut more = vec![];
        while !rig.host.is_quiet().await {
            more.push(said(&mut rig.host).await);
        }
        more
    }) {
        let number: u64 = line.rsplit(':').next().unwrap().parse().unwrap();
        match line.split(' ').next().unwrap() {
            "head" => head = number,
            _ => assert!(number <= head, "{line} before its head"),
        }
    }
    assert_eq!(head, 6);
}

#[tokio::test(start_paused = true)]
async fn h4_no_notice_names_a_record_before_its_put_or_after_its_withdrawal() {
    let mut rig = Rig::serving().await;
    let id = info("c").id;
    rig.publisher.put(info("c"));
    rig.publisher.opened(&id, 1, vec![message(1, "x")], Some(1));
    rig.publisher.activity(&id, busy("x"));
    let mut told = vec![];
    while !rig.host.is_quiet().await {
        told.push(said(&mut rig.host).await);
    }
    assert_eq!(told, ["put C", "head 1:1", "status 3"]);
    rig.publisher.append(&id, vec![], 2);
    rig.publisher.withdraw(&id, Withdrawal::Deleted);
    let mut told = vec![];
    while !rig.host.is_quiet().await {
        told.push(said(&mut rig.host).await);
    }
    assert_eq!(told, ["withdrawn deleted", "status 2"]);
}

// ---- Life cycle

#[tokio::test(start_paused = true)]
async fn h5_initialize_is_first_and_once() {
    let mut rig = Rig::fresh();
    for method in ["records/list", "shutdown", "session/read", "no/such"] {
        assert_eq!(rig.host.refused(method, json!({})).await, ("not_initialized".into(), -32002));
    }
    let result = rig.host.call("initialize", hello()).await.unwrap();
    let expected = json!({
        "plugin": {"id": "grok-bot", "version": "0.5.0"},
        "protocolVersion": "5.7.0",
        "protocols": ["coda/session@1"],
        "views": ["bind"],
    });
    assert_eq!(result, expected);
    assert_eq!(rig.host.refused("initialize", hello()).await, ("invalid_request".into(), -32600));
}

#[tokio::test(start_paused = true)]
async fn h5_another_version_is_refused_with_what_is_supported() {
    let mut rig = Rig::fresh();
    for version in [
        json!("4.9.0"),
        json!("5.6.9"),
        json!("6.0.0"),
        json!("5"),
        json!("5.x"),
        json!(""),
        json!("v5.7.0"),
        json!(5.7),
        json!(null),
    ] {
        let error = rig.host.call("initialize", json!({"protocolVersion": version})).await.unwrap_err();
        assert_eq!(kind(&error), ("bad_params".into(), -32602), "{version}");
        if version.as_str().is_some_and(|version| !version.is_empty()) {
            assert!(error["message"].as_str().unwrap().contains("5.7.0"));
        }
    }
    // A refused greeting leaves the way open for a right one; 5.10 is later than 5.7.
    assert!(rig.host.call("initialize", json!({"protocolVersion": "5.10.1"})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn h5_open_runs_are_settled_unknown_then_the_page_and_the_records_come() {
    let mut rig = Rig::fresh();
    rig.publisher.put(info("a"));
    let mut params = hello();
    params["openRuns"] =
        json!([{"id": "r1", "record": record("a")}, {"id": "r2", "record": "x"}, {"id": "r1", "record": record("a")}]);
    let id = rig.host.ask("initialize", params).await;
    let answer = rig.host.next().await;
    assert_eq!(answer["id"], id);
    let mut told = vec![];
    while !rig.host.is_quiet().await {
        told.push(said(&mut rig.host).await);
    }
    assert_eq!(told, ["settled r1 unknown", "settled r2 unknown", "status 0", "put A", "status 1"]);
    assert!(rig.commands.try_recv().is_err(), "something was sent again");
}

#[tokio::test(start_paused = true)]
async fn h5_requests_are_held_until_the_folder_is_ours() {
    let (give, given) = oneshot::channel();
    let mut rig = Rig::with(Role::Owner, |_| async { given.await.unwrap() });
    let mut params = hello();
    params["openRuns"] = json!([{"id": "r1", "record": "x"}]);
    rig.host.call("initialize", params).await.unwrap();
    let held = rig.host.ask("records/list", json!({})).await;
    assert_eq!(rig.host.refused("session/cancel", json!({})).await.1, -32601);
    assert!(rig.host.is_quiet().await);
    rig.publisher.put(info("a"));
    give.send(Ok(rig.handle.clone())).unwrap();
    assert_eq!(said(&mut rig.host).await, "settled r1 unknown");
    assert_eq!(rig.host.answer(&held).await.unwrap()["records"].as_array().unwrap().len(), 1);
    assert_eq!(said(&mut rig.host).await, "status 0");
}

#[tokio::test(start_paused = true)]
async fn h5_a_folder_given_up_is_told_and_ends_the_session_as_a_failure() {
    let (give, given) = oneshot::channel();
    let mut rig = Rig::with(Role::Owner, |_| async { given.await.unwrap() });
    rig.greet().await;
    let held = rig.host.ask("records/list", json!({})).await;
    assert!(rig.host.is_quiet().await);
    let unavailable = Unavailable { message: "数据文件夹正由进程 42 使用。".into() };
    give.send(Err(unavailable.clone())).unwrap();
    let error = rig.host.answer(&held).await.unwrap_err();
    assert_eq!(error["message"], "数据文件夹正由进程 42 使用。");
    assert_eq!(rig.end().await, End::GivenUp(unavailable));
}

#[tokio::test(start_paused = true)]
async fn h17_open_runs_are_settled_by_a_shutdown_that_comes_before_the_folder_is_ours() {
    let mut rig = Rig::with(Role::Owner, |_| pending());
    let mut params = hello();
    params["openRuns"] = json!([{"id": "r1", "record": "x"}]);
    rig.host.call("initialize", params).await.unwrap();
    let held = rig.host.ask("records/list", json!({})).await;
    let shutdown = rig.host.ask("shutdown", json!({})).await;
    assert_eq!(said(&mut rig.host).await, "settled r1 unknown");
    assert_eq!(rig.host.answer(&held).await.unwrap_err()["data"]["kind"], "not_ready");
    assert_eq!(rig.host.answer(&shutdown).await.unwrap(), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn h5_the_lock_is_not_waited_for_before_initialize_is_answered() {
    let polled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&polled);
    let mut rig = Rig::with(Role::Owner, |handle| async move {
        seen.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(handle)
    });
    assert_eq!(rig.host.refused("records/list", json!({})).await.1, -32002);
    assert!(!polled.load(std::sync::atomic::Ordering::SeqCst));
    rig.greet().await;
    assert_eq!(said(&mut rig.host).await, "status 0");
    assert!(polled.load(std::sync::atomic::Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn h6_shutdown_settles_posts_before_its_answer_and_ends_with_the_input() {
    let mut rig = Rig::serving().await;
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    rig.host.call("session/post", post("r2", "ho")).await.unwrap();
    let (first, second) = (rig.post().await, rig.post().await);
    let asked = rig.host.ask("shutdown", json!({})).await;
    let Command::Shutdown(done) = rig.wish().await else {
        panic!("no stop");
    };
    assert_eq!(rig.host.refused("records/list", json!({})).await, ("invalid_request".into(), -32600));
    assert_eq!(rig.host.refused("shutdown", json!({})).await, ("invalid_request".into(), -32600));
    first.settle.send(Outcome::Failed(records::Failure::Unknown)).unwrap();
    second.settle.send(Outcome::Failed(records::Failure::NotSent)).unwrap();
    done.send(()).unwrap();
    let mut told = vec![said(&mut rig.host).await, said(&mut rig.host).await];
    told.sort();
    assert_eq!(told, ["settled r1 unknown", "settled r2 not_sent"]);
    let answer = rig.host.next().await;
    assert_eq!((&answer["id"], &answer["result"]), (&asked, &Value::Null));
    assert!(rig.host.is_quiet().await);
    rig.host.close();
    assert_eq!(rig.end().await, End::Closed);
}

#[tokio::test(start_paused = true)]
async fn h6_a_loop_that_does_not_stop_keeps_nobody() {
    let mut rig = Rig::serving().await;
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    let sent = rig.post().await;
    let asked = rig.host.ask("shutdown", json!({})).await;
    let stuck = rig.wish().await;
    assert_eq!(rig.host.answer(&asked).await.unwrap(), Value::Null);
    assert_eq!(said(&mut rig.host).await, "settled r1 unknown");
    drop((stuck, sent));
    rig.host.close();
    assert_eq!(rig.end().await, End::Closed);
}

#[tokio::test(start_paused = true)]
async fn h6_the_end_of_input_stops_the_provider_and_settles_too() {
    let mut rig = Rig::serving().await;
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    let sent = rig.post().await;
    rig.host.close();
    let Command::Shutdown(done) = rig.wish().await else {
        panic!("no stop");
    };
    sent.settle.send(Outcome::Failed(records::Failure::Unknown)).unwrap();
    done.send(()).unwrap();
    let rest: Vec<String> = rig.host.rest().await.iter().map(draw).collect();
    assert_eq!(rest, ["settled r1 unknown"]);
    assert_eq!(rig.end().await, End::Closed);
}

#[tokio::test(start_paused = true)]
async fn h6_a_signal_stops_like_shutdown_without_waiting_for_the_host() {
    let mut rig = Rig::serving().await;
    rig.stop.cancel();
    rig.stop_loop().await;
    assert_eq!(rig.end().await, End::Stopped);
}

#[tokio::test(start_paused = true)]
async fn h6_the_end_takes_less_than_two_seconds_even_when_nobody_reads_and_nothing_stops() {
    let mut rig = Rig::serving().await;
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    let _sent = rig.post().await;
    rig.publisher.append(&info("a").id, vec![message(3, "x")], 3);
    let began = Instant::now();
    rig.host.close();
    let _stuck = rig.wish().await;
    assert_eq!(rig.end().await, End::Closed);
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn h6_a_host_that_vanished_stops_the_provider() {
    let mut rig = Rig::serving().await;
    rig.host.vanish();
    rig.stop_loop().await;
    assert_eq!(rig.end().await, End::Closed);
}

#[tokio::test(start_paused = true)]
async fn h6_a_guest_ends_alone() {
    let mut rig = Rig::serving_as(Role::Guest).await;
    assert_eq!(rig.host.call("shutdown", json!({})).await.unwrap(), Value::Null);
    rig.host.close();
    assert_eq!(rig.end().await, End::Closed);
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h6_shutdown_while_the_folder_is_waited_for_needs_no_lock() {
    let mut rig = Rig::with(Role::Owner, |_| pending());
    rig.greet().await;
    let held = rig.host.ask("records/list", json!({})).await;
    assert_eq!(rig.host.call("shutdown", json!({})).await.unwrap(), Value::Null);
    assert_eq!(kind(&rig.host.answer(&held).await.unwrap_err()).0, "not_ready");
    rig.host.close();
    assert_eq!(rig.end().await, End::Closed);
}

// ---- Resource

#[tokio::test(start_paused = true)]
async fn h7_the_resource_page_asks_the_loop() {
    let mut rig = Rig::serving().await;
    let status = rig.host.call("resource/status", json!({})).await.unwrap();
    assert_eq!((&status["state"], status["items"].as_array().unwrap().len()), (&json!("signedIn"), 2));

    let asked = rig.host.ask("resource/signIn", json!({})).await;
    let Command::SignIn(answer) = rig.wish().await else {
        panic!("no sign-in");
    };
    answer.send(Err("磁盘已满".into())).unwrap();
    let error = rig.host.answer(&asked).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("磁盘已满"));

    let asked = rig.host.ask("resource/cancelSignIn", json!({})).await;
    let Command::CancelSignIn(answer) = rig.wish().await else {
        panic!("no cancel");
    };
    answer.send(()).unwrap();
    assert_eq!(rig.host.answer(&asked).await.unwrap(), Value::Null);

    let asked = rig.host.ask("resource/signOut", json!({})).await;
    let Command::SignOut(answer) = rig.wish().await else {
        panic!("no sign-out");
    };
    answer.send(Ok(())).unwrap();
    assert_eq!(rig.host.answer(&asked).await.unwrap(), Value::Null);

    // A loop that doesn't answer, or has stopped, costs one answer and no more.
    let asked = rig.host.ask("resource/signOut", json!({})).await;
    let unanswered = rig.wish().await;
    assert_eq!(kind(&rig.host.answer(&asked).await.unwrap_err()), ("internal".into(), -32603));
    drop(unanswered);
    rig.commands.close();
    assert_eq!(rig.host.refused("resource/signIn", json!({})).await, ("internal".into(), -32603));
}

#[tokio::test(start_paused = true)]
async fn h8_the_page_is_told_when_the_sign_in_or_an_item_changes() {
    let mut rig = Rig::serving().await;
    rig.publisher.status(Status { state: SignInState::SignInAgain, ..signed_in() });
    let changed = rig.host.next().await;
    assert_eq!(changed["params"]["state"], "signInAgain");
    assert_eq!(changed["params"]["account"], json!({"id": account().digest, "name": account().name}));
    assert_eq!(changed["params"]["items"][0]["button"], json!({"text": "绑定", "view": "bind", "args": [record("a")]}));
    let mut renamed = info("a");
    renamed.bot.name = "小白".into();
    rig.publisher.put(renamed);
    assert_eq!(said(&mut rig.host).await, "put 小白");
    assert_eq!(rig.host.next().await["params"]["items"][0]["title"], "小白");
}

// ---- Records and reading

#[tokio::test(start_paused = true)]
async fn h10_records_are_listed_put_and_withdrawn() {
    let mut rig = Rig::serving().await;
    let listed = rig.host.call("records/list", json!({})).await.unwrap();
    let ids: Vec<&Value> = listed["records"].as_array().unwrap().iter().map(|record| &record["id"]).collect();
    assert_eq!(ids, [&record("a"), &record("b")]);
    assert_eq!(listed["records"][0]["head"], "1:2");
    for (reason, word) in
        [(Withdrawal::Deleted, "deleted"), (Withdrawal::Account, "account"), (Withdrawal::SignedOut, "signedOut")]
    {
        rig.publisher.withdraw(&info("a").id, reason);
        assert_eq!(said(&mut rig.host).await, format!("withdrawn {word}"));
        assert_eq!(said(&mut rig.host).await, "status 1");
        rig.publisher.put(info("a"));
        assert_eq!(said(&mut rig.host).await, "put A");
        assert_eq!(said(&mut rig.host).await, "status 2");
    }
}

#[tokio::test(start_paused = true)]
async fn h12_pages_forward_and_backward() {
    let mut rig = Rig::serving().await;
    rig.publisher.append(&info("a").id, (3..=100).map(|number| message(number, "z")).collect::<Vec<_>>(), 100);
    assert_eq!(said(&mut rig.host).await, "head 1:100");
    let mut read = async |more: Value| {
        let mut params = json!({"record": record("a")});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let page = rig.host.call("session/read", params).await.unwrap();
        let messages = page["messages"].as_array().unwrap();
        let end = |message: Option<&Value>| {
            message.map_or(String::new(), |message| message["cursor"].as_str().unwrap().to_owned())
        };
        let more = &page["hasMore"];
        (
            messages.len(),
            end(messages.first()),
            end(messages.last()),
            more["before"].as_bool().unwrap(),
            more["after"].as_bool().unwrap(),
        )
    };
    assert_eq!(read(json!({})).await, (50, "1:51".into(), "1:100".into(), true, false));
    assert_eq!(read(json!({"before": "1:51", "limit": 500})).await, (50, "1:1".into(), "1:50".into(), false, true));
    assert_eq!(read(json!({"after": "1:0", "limit": 2})).await, (2, "1:1".into(), "1:2".into(), false, true));
    assert_eq!(read(json!({"after": "1:100"})).await, (0, String::new(), String::new(), true, false));
    let huge = format!("1:{}", "9".repeat(98));
    assert_eq!(read(json!({"after": huge})).await, (0, String::new(), String::new(), true, false));
    assert_eq!(read(json!({"before": huge, "limit": 1})).await, (1, "1:100".into(), "1:100".into(), true, false));
}

#[tokio::test(start_paused = true)]
async fn h12_wrong_params_of_a_read_are_bad_params() {
    let mut rig = Rig::serving().await;
    let mut wrong = vec![json!({}), json!({"record": 5}), json!({"record": null})];
    for more in [
        json!({"limit": 0}),
        json!({"limit": 501}),
        json!({"limit": -1}),
        json!({"limit": "50"}),
        json!({"limit": 1.5}),
        json!({"limit": 1e30}),
        json!({"after": "1:1", "before": "1:2"}),
        json!({"after": 1}),
        json!({"before": {}}),
        json!({"after": null}),
        json!({"before": null}),
    ] {
        let mut params = json!({"record": record("a")});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wrong.push(params);
    }
    for params in wrong {
        assert_eq!(rig.host.refused("session/read", params.clone()).await, ("bad_params".into(), -32602), "{params}");
    }
    let tolerant = json!({"record": record("a"), "limit": 500, "newer": {"x": 1}});
    assert!(rig.host.call("session/read", tolerant).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn h13_cursors_of_a_host_are_judged() {
    let mut rig = Rig::serving().await;
    let head = async |rig: &mut Rig, after: &str| {
        let error = rig.host.call("session/read", json!({"record": record("a"), "after": after})).await.unwrap_err();
        (kind(&error).0, error["data"]["head"].clone())
    };
    for bad in ["", "1", "01:1", "1:1 ", &format!("1:{}", "9".repeat(99))] {
        assert_eq!(head(&mut rig, bad).await, ("bad_cursor".into(), Value::Null));
    }
    let huge = format!("{}:1", "9".repeat(90));
    for other in ["0:2", "2:2", &huge] {
        assert_eq!(head(&mut rig, other).await, ("history_reset".into(), json!("1:2")));
    }
}

#[tokio::test(start_paused = true)]
async fn h14_a_reset_is_told_at_once_and_posts_are_accepted_meanwhile() {
    let mut rig = Rig::serving().await;
    rig.publisher.reset(&info("a").id, Some(2));
    let told = rig.host.next().await;
    assert_eq!(told["params"], json!({"record": record("a"), "head": null}));
    let params = json!({"record": record("a"), "after": "1:2"});
    let error = rig.host.call("session/read", params).await.unwrap_err();
    assert_eq!((kind(&error).0.as_str(), error["data"].get("head")), ("history_reset", Some(&Value::Null)));
    assert_eq!(rig.host.refused("session/read", json!({"record": record("a")})).await.0, "not_ready");
    assert_eq!(rig.host.call("session/post", post("r", "hi")).await.unwrap(), json!({"accepted": true}));
    rig.post().await;
}

#[tokio::test(start_paused = true)]
async fn h18_heads_and_activities_are_told() {
    let mut rig = Rig::serving().await;
    let id = info("a").id;
    rig.publisher.append(&id, vec![message(3, "x")], 3);
    assert_eq!(rig.host.next().await["params"], json!({"record": record("a"), "head": "1:3"}));
    rig.publisher.activity(&id, busy("看书"));
    let activity = json!({"status": "看书", "participant": "agent:a"});
    assert_eq!(rig.host.next().await["params"], json!({"record": record("a"), "activity": activity}));
    let listed = rig.host.call("records/list", json!({})).await.unwrap();
    assert_eq!(listed["records"][0]["activity"], activity);
    let idle = ActivityNotice { activity: None, failure: None };
    rig.publisher.activity(&id, idle);
    assert_eq!(rig.host.next().await["params"], json!({"record": record("a"), "activity": null}));
}

// ---- Posting

#[tokio::test(start_paused = true)]
async fn h16_a_post_is_accepted_at_once_and_sent_under_its_derived_id() {
    let mut rig = Rig::serving().await;
    let mut params = post("r1", "  hi\r\n there ");
    params["replyTo"] = json!("1:e2");
    assert_eq!(rig.host.call("session/post", params).await.unwrap(), json!({"accepted": true}));
    let Command::Post { record, message_id, text, reply_to, settle } = rig.wish().await else {
        panic!("no post");
    };
    assert_eq!((record.as_str(), &*text), (info("a").id.as_str(), "  hi\r\n there "));
    assert_eq!(message_id, crate::host::message_id("c", info("a").id.as_str(), "r1"));
    assert_eq!(reply_to.unwrap().entry.to_string(), "e2");
    assert!(rig.host.is_quiet().await);
    settle.send(Outcome::Failed(records::Failure::Refused)).unwrap();
    assert_eq!(said(&mut rig.host).await, "settled r1 refused");
}

#[tokio::test(start_paused = true)]
async fn h16_only_these_refuse_a_post() {
    let mut rig = Rig::serving().await;
    let with = |more: Value| {
        let mut params = post("r", "hi");
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let without = |key: &str| {
        let mut params = post("r", "hi");
        params.as_object_mut().unwrap().remove(key);
        params
    };
    for (params, word) in [
        (with(json!({"text": ""})), "bad_params"),
        (with(json!({"text": " \n\t\u{3000}\u{200b}\u{feff}"})), "bad_params"),
        (with(json!({"text": "字".repeat(200 * 1024 / 3 + 1)})), "bad_params"),
        (with(json!({"text": 5})), "bad_params"),
        (with(json!({"replyTo": "1:nobody"})), "bad_params"),
        (with(json!({"replyTo": 5})), "bad_params"),
        (with(json!({"draft": "yes"})), "bad_params"),
        (with(json!({"attachments": "x"})), "bad_params"),
        (with(json!({"run": "r"})), "bad_params"),
        (without("run"), "bad_params"),
        (without("caller"), "bad_params"),
        (without("requestId"), "bad_params"),
        (without("text"), "bad_params"),
        (without("record"), "bad_params"),
        (with(json!({"attachments": [{"name": "a.png"}], "text": ""})), "text_only"),
        (with(json!({"record": "grok-bot:d1:gone"})), "record_not_found"),
    ] {
        assert_eq!(rig.host.refused("session/post", params).await.0, word);
    }
    assert!(rig.commands.try_recv().is_err(), "a refused post was sent");
    let largest = "字".repeat(200 * 1024 / 3) + "xx";
    assert_eq!(largest.len(), 200 * 1024);
    for (run, more) in [
        ("a", json!({"text": largest})),
        ("b", json!({"attachments": []})),
        ("c", json!({"replyTo": null, "draft": false})),
    ] {
        let mut params = with(more);
        params["run"]["id"] = json!(run);
        assert!(rig.host.call("session/post", params).await.is_ok());
        rig.post().await;
    }
}

#[tokio::test(start_paused = true)]
async fn h16_a_draft_does_nothing() {
    let mut rig = Rig::serving().await;
    for params in [
        json!({"record": record("a"), "draft": true}),
        json!({"record": record("a"), "draft": true, "text": "", "caller": "c", "requestId": "q"}),
        json!({"record": record("a"), "draft": true, "text": "hi", "run": {"id": "r"}, "attachments": [1]}),
    ] {
        assert_eq!(rig.host.call("session/post", params).await.unwrap(), json!({"accepted": true}));
    }
    assert!(rig.commands.try_recv().is_err());
    assert!(rig.host.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn h17_a_run_is_settled_once_behind_the_head_that_covers_it() {
    let mut rig = Rig::serving().await;
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    // The same run again before its end: accepted, sent for once, settled once.
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    let sent = rig.post().await;
    // Another head fills the transport, so that head and outcome both wait for room: a settle that took the short way would come first.
    rig.publisher.append(&info("b").id, vec![], 9);
    tokio::time::sleep(Duration::from_millis(1)).await;
    rig.publisher.append(&sent.record, vec![message(3, "hi")], 3);
    sent.settle.send(completed(3)).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(said(&mut rig.host).await, "head 1:9");
    let head = rig.host.next().await;
    assert_eq!(head["params"]["head"], "1:3");
    let settled = rig.host.next().await;
    assert_eq!(
        settled["params"],
        json!({"run": "r1", "state": "completed", "result": {"message": {"id": "1:e3", "cursor": "1:3"}}})
    );
    assert!(rig.host.is_quiet().await);
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h17_a_repeat_that_is_complete_at_once_comes_behind_a_head_too() {
    let mut rig = Rig::serving().await;
    // The head came with the record alone.
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    rig.post().await.settle.send(completed(2)).unwrap();
    assert_eq!(said(&mut rig.host).await, "head 1:2");
    assert_eq!(rig.host.next().await["method"], "run/settled");
    // Told once, it isn't told again.
    rig.host.call("session/post", post("r2", "hi")).await.unwrap();
    rig.post().await.settle.send(completed(2)).unwrap();
    assert_eq!(rig.host.next().await["method"], "run/settled");
}

#[tokio::test(start_paused = true)]
async fn h17_an_outcome_that_was_dropped_is_unknown() {
    let mut rig = Rig::serving().await;
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    drop(rig.post().await);
    let settled = rig.host.next().await;
    assert_eq!(draw(&settled), "settled r1 unknown");
    assert!(settled["params"]["message"].as_str().unwrap().contains("无法确认"));
}

#[tokio::test(start_paused = true)]
async fn post1_a_repeated_request_goes_under_the_same_id_and_both_runs_settle() {
    let mut rig = Rig::serving().await;
    let mut again = post("r2", "hi");
    again["requestId"] = json!("r1");
    rig.host.call("session/post", post("r1", "hi")).await.unwrap();
    rig.host.call("session/post", again).await.unwrap();
    let (first, second) = (rig.post().await, rig.post().await);
    assert_eq!(first.message_id, second.message_id);
    for sent in [first, second] {
        sent.settle.send(completed(2)).unwrap();
    }
    assert_eq!(said(&mut rig.host).await, "head 1:2");
    let mut told = vec![said(&mut rig.host).await, said(&mut rig.host).await];
    told.sort();
    assert_eq!(told, ["settled r1 1:2", "settled r2 1:2"]);
}

/// Nothing is kept of a run once it is settled: that a request comes once is the host's part.
#[tokio::test(start_paused = true)]
async fn h17_a_settled_run_that_comes_again_is_a_run_of_its_own_under_the_same_id() {
    let mut rig = Rig::serving().await;
    let mut ids = vec![];
    for told in [["head 1:2", "settled r1 1:2"].as_slice(), &["settled r1 1:2"]] {
        rig.host.call("session/post", post("r1", "hi")).await.unwrap();
        let sent = rig.post().await;
        ids.push(sent.message_id);
        sent.settle.send(completed(2)).unwrap();
        for told in told {
            assert_eq!(said(&mut rig.host).await, *told);
        }
    }
    assert_eq!(ids[0], ids[1], "the service takes it for the same message");
}

#[tokio::test(start_paused = true)]
async fn post4_a_post_that_the_loop_cannot_take_settles_not_sent() {
    let mut rig = Rig::serving().await;
    rig.commands.close();
    assert!(rig.host.call("session/post", post("r1", "hi")).await.is_ok());
    assert_eq!(said(&mut rig.host).await, "settled r1 not_sent");
}

// ---- The bind view

fn open(agent: &str) -> Value {
    json!({"view": "bind", "args": [record(agent)]})
}

fn code() -> Value {
    json!({"code": "abc-123", "expiresAt": "2026-01-01T00:00:00Z", "addresses": ["http://100.64.0.1:8080", "http://100.64.0.2:8080"]})
}

#[tokio::test(start_paused = true)]
async fn h19_an_opening_sends_one_message_and_tells_the_page() {
    let mut rig = Rig::serving().await;
    let mut ids = vec![];
    for _ in 0..2 {
        let asked = rig.host.ask("view/open", open("a")).await;
        let request = rig.host.next().await;
        assert_eq!(
            (&request["method"], &request["params"]),
            (&json!("protocols/remoteCode"), &json!({"record": record("a")}))
        );
        rig.host.reply(&request, &code()).await;
        let sent = rig.post().await;
        let lines: Vec<&str> = sent.text.split('\n').collect();
        assert_eq!(lines, [texts::BIND_LINE, "node coda-bot.mjs bind http://100.64.0.1:8080 abc-123"]);
        assert_eq!((&sent.record, sent.message_id.get_version_num()), (&info("a").id, 4));
        ids.push(sent.message_id);
        assert!(rig.host.is_quiet().await);
        sent.settle.send(completed(2)).unwrap();
        assert_eq!(rig.host.answer(&asked).await.unwrap(), json!({"status": "sent", "text": "已发给 Bot"}));
    }
    // A second opening asks for a new code and is a message of its own.
    assert_ne!(ids[0], ids[1]);
    assert!(rig.host.is_quiet().await);
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h19_wrong_params_of_an_opening_are_bad_params() {
    let mut rig = Rig::serving().await;
    for params in [
        json!({}),
        json!({"view": "other", "args": [record("a")]}),
        json!({"view": "bind"}),
        json!({"view": "bind", "args": []}),
        json!({"view": "bind", "args": [record("a"), "x"]}),
        json!({"view": "bind", "args": [5]}),
        json!({"view": "bind", "args": record("a")}),
    ] {
        assert_eq!(rig.host.refused("view/open", params).await, ("bad_params".into(), -32602));
    }
    assert!(rig.host.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn h20_the_code_is_asked_for_only_where_the_record_is_a_bot_of_the_account() {
    let mut rig = Rig::serving().await;
    assert_eq!(rig.host.refused("view/open", open("gone")).await, ("record_not_found".into(), -32004));
    let confirming = SignInState::Confirming { url: "https://example.test/".into(), expires_at: crate::model::Wall(0) };
    for (state, account) in
        [(SignInState::SignedOut, None), (SignInState::SignInAgain, Some(account())), (confirming, None)]
    {
        rig.publisher.status(Status { state, account, message: None });
        assert_eq!(said(&mut rig.host).await, "status 2");
        assert_eq!(rig.host.refused("view/open", open("a")).await, ("signed_out".into(), -32000));
    }
    assert!(rig.host.is_quiet().await, "a code was asked for");
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h20_without_a_usable_code_nothing_is_sent() {
    let mut rig = Rig::serving().await;
    for answer in [
        json!({"code": "a", "addresses": []}),
        json!({"code": "a"}),
        json!({"addresses": ["http://100.64.0.1"]}),
        json!({"code": "a b", "addresses": ["http://100.64.0.1"]}),
        json!({"code": "$(id)", "addresses": ["http://100.64.0.1"]}),
        json!({"code": "a", "addresses": ["http://100.64.0.1/path", "http://100.64.0.2"]}),
        json!({"code": "a", "addresses": ["file:///etc"]}),
        json!({"code": "a", "addresses": [5]}),
        json!(null),
        json!([]),
    ] {
        let asked = rig.host.ask("view/open", open("a")).await;
        let request = rig.host.next().await;
        rig.host.reply(&request, &answer).await;
        let error = rig.host.answer(&asked).await.unwrap_err();
        assert_eq!(kind(&error), ("remote_unavailable".into(), -32012), "{answer}");
    }
    let asked = rig.host.ask("view/open", open("a")).await;
    let request = rig.host.next().await;
    let refusal = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -1, "message": "no"}});
    rig.host.send_text(&refusal.to_string()).await;
    assert_eq!(kind(&rig.host.answer(&asked).await.unwrap_err()).0, "remote_unavailable");
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h20_a_code_that_does_not_come_in_15_seconds_is_unavailable_and_useless_later() {
    let mut rig = Rig::serving().await;
    let began = Instant::now();
    let asked = rig.host.ask("view/open", open("a")).await;
    let request = rig.host.next().await;
    assert_eq!(kind(&rig.host.answer(&asked).await.unwrap_err()).0, "remote_unavailable");
    assert_eq!(began.elapsed().as_secs(), 15);
    rig.host.reply(&request, &code()).await;
    assert!(rig.host.is_quiet().await);
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h20_a_bot_that_went_while_the_code_came_gets_nothing() {
    let mut rig = Rig::serving().await;
    let asked = rig.host.ask("view/open", open("a")).await;
    let request = rig.host.next().await;
    rig.publisher.withdraw(&info("a").id, Withdrawal::Deleted);
    rig.host.reply(&request, &code()).await;
    assert_eq!(kind(&rig.host.answer(&asked).await.unwrap_err()).0, "record_not_found");
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn h21_what_came_of_the_message_is_what_the_page_is_told() {
    let mut rig = Rig::serving().await;
    for (outcome, word, number) in [
        (Some(records::Failure::Refused), "refused", -32014),
        (Some(records::Failure::Unknown), "send_unconfirmed", -32013),
        (Some(records::Failure::NotSent), "send_unconfirmed", -32013),
        (Some(records::Failure::SignedOut), "signed_out", -32000),
        (None, "send_unconfirmed", -32013),
    ] {
        let asked = rig.host.ask("view/open", open("a")).await;
        let request = rig.host.next().await;
        rig.host.reply(&request, &code()).await;
        let sent = rig.post().await;
        match outcome {
            Some(failure) => sent.settle.send(Outcome::Failed(failure)).unwrap(),
            None => drop(sent.settle),
        }
        assert_eq!(kind(&rig.host.answer(&asked).await.unwrap_err()), (word.into(), number));
        assert!(rig.commands.try_recv().is_err(), "sent again");
    }
}

#[tokio::test(start_paused = true)]
async fn h21_a_shutdown_in_between_leaves_the_opening_unconfirmed() {
    let mut rig = Rig::serving().await;
    let waiting = rig.host.ask("view/open", open("a")).await;
    assert_eq!(said(&mut rig.host).await, "protocols/remoteCode");
    let sending = rig.host.ask("view/open", open("b")).await;
    let request = rig.host.next().await;
    rig.host.reply(&request, &code()).await;
    let sent = rig.post().await;
    let shutdown = rig.host.ask("shutdown", json!({})).await;
    let Command::Shutdown(done) = rig.wish().await else {
        panic!("no stop");
    };
    sent.settle.send(Outcome::Failed(records::Failure::Unknown)).unwrap();
    done.send(()).unwrap();
    for asked in [waiting, sending] {
        assert_eq!(kind(&rig.host.answer(&asked).await.unwrap_err()).0, "send_unconfirmed");
    }
    assert_eq!(rig.host.answer(&shutdown).await.unwrap(), Value::Null);
}

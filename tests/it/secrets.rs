//! Secrets stay where they belong. Every run of these tests is judged at its end (`support/judge.rs`): here is the proof that the judge sees, and the
//! longest story under the most talkative log.

use std::os::unix::fs::symlink;

use coda_grok_bot::simulate::{Act, Fault, Live, Options, StreamEnd, TokenPolicy};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Bench, Host, write_private};

/// A text of a Bot, as no log would say it.
const SAID: &str = "只有两个人知道的话";

/// A process that prints what it is told to, as the provider would.
fn shell(script: &str, secret: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", secret]).kill_on_drop(true);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    command
}

/// What is found where this was planted. Such a run isn't judged.
async fn planted(plant: impl AsyncFnOnce(&Bench, &str)) -> Vec<String> {
    let mut bench = Bench::with_bot().await;
    bench.judged = false;
    bench.control.say("a", "e1", SAID).unwrap();
    assert_eq!(bench.findings(), Vec::<String>::new());
    let document: Value = serde_json::from_slice(&std::fs::read(bench.auth_file()).unwrap()).unwrap();
    let token = document["refreshToken"].as_str().unwrap().to_owned();
    plant(&bench, &token).await;
    bench.findings()
}

#[tokio::test]
async fn whoever_searches_finds_a_secret_in_every_place() {
    // Only its signature: the rest of a token is no secret.
    let signature = r"${1##*.}";
    for (place, script) in [("stdout", format!("echo {signature}")), ("the log", format!("echo {signature} >&2"))] {
        let found = planted(async |bench, token| drop(bench.finish(shell(&script, token)).await)).await;
        assert!(found.len() == 1 && found[0].starts_with(&format!("{place}: the secret")), "{found:?}");
    }
    // The same from a provider that a host talks with.
    let told = r#"printf '{"jsonrpc":"2.0","method":"%s"}\n' "$1"; echo "$1" >&2; cat >/dev/null"#;
    let found = planted(async |bench, token| {
        let mut host = Host::spawn(shell(told, token), bench.heard());
        host.close();
        while host.stderr().is_empty() || !host.hear() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(found.len(), 2, "{found:?}");
    // In a file, also deeper; not where a link leads.
    let found = planted(async |bench, token| {
        std::fs::create_dir(bench.data().join("deep")).unwrap();
        std::fs::write(bench.data().join("deep/cache"), format!("x{token}")).unwrap();
        symlink(bench.data().join("deep/cache"), bench.data().join("link")).unwrap();
    })
    .await;
    assert!(found.len() == 1 && found[0].starts_with("cache: the secret"), "{found:?}");
}

#[tokio::test]
async fn whoever_searches_finds_a_text_where_none_belongs() {
    let line = |level: &str| format!("2026-01-01T00:00:00.000000Z {level} coda_grok_bot: it says \"{SAID}\"\n");
    for (level, expected) in [("DEBUG", 1), (" INFO", 1), ("ERROR", 1), ("TRACE", 0)] {
        let found = planted(async |bench, _| bench.heard().log().lock().unwrap().push_str(&line(level))).await;
        assert_eq!(found.len(), expected, "{level}: {found:?}");
    }
    let found = planted(async |bench, _| {
        let mut bytes = vec![0xff, 0];
        bytes.extend(SAID.as_bytes());
        std::fs::write(bench.data().join("index.sqlite3"), bytes).unwrap();
    })
    .await;
    assert!(found.len() == 1 && found[0].starts_with("index.sqlite3: "), "{found:?}");
    // To hosts it is said.
    assert!(planted(async |bench, _| bench.heard().printed(SAID)).await.is_empty());
}

#[tokio::test]
async fn whoever_searches_finds_what_was_sent_to_the_wrong_place() {
    let http = || reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    for place in ["address", "headers", "body", "credentials"] {
        let found = planted(async |bench, token| {
            let base = bench.simulation.base_url();
            let call = format!("{base}/aiserver.v1.GrokBotService/ListGrokBotAgents");
            let request = match place {
                "address" => http().get(format!("{base}/auth/poll?uuid=1&refresh={token}")),
                "headers" => http().post(call).header("cookie", format!("session={token}")),
                "body" => http().post(call).body(format!("{{\"token\":\"{token}\"}}")),
                _ => http().get(format!("{base}/sandbox-store/blobs/x")).bearer_auth(token),
            };
            request.send().await.unwrap();
        })
        .await;
        assert!(found.len() == 1 && found[0].contains(&format!("a token in the {place} of ")), "{place}: {found:?}");
    }
    // The verifier belongs into the body of the poll; its address is for services that know no better.
    let found = planted(async |bench, _| {
        let base = bench.simulation.base_url();
        let body = json!({"uuid": "1", "verifier": "a-verifier-that-nobody-may-see"}).to_string();
        http().post(format!("{base}/auth/poll?v=a-verifier-that-nobody-may-see")).body(body).send().await.unwrap();
    })
    .await;
    assert!(found.len() == 1 && found[0].contains("a verifier in the address"), "{found:?}");
}

/// Two sign-ins, a renewal, posts, a card, a binding, a stored body, errors of all kinds, a sign-out, and the commands beside it, all of it traced.
#[tokio::test]
async fn the_longest_story_tells_no_secret() {
    let tokens = TokenPolicy { rotate: true, ..TokenPolicy::default() };
    let bench = Bench::new(Options { tokens, blob_above_bytes: 400, ..Options::default() }).await;
    let (control, record) = (&bench.control, bench.record("a"));
    bench.bot("a");
    control.quirks(|quirks| quirks.poll_only_get = true);
    let mut command = bench.command(&["serve"]);
    command.env("RUST_LOG", "trace");
    let mut host = Host::spawn(command, bench.heard());
    host.initialize().await;
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    bench.until("it is polled", |control| control.count("auth/poll") > 1).await;
    control.confirm(link["url"].as_str().unwrap()).unwrap();
    control.say("a", "e1", SAID).unwrap();
    control.ask("a", "w1", "要走哪条没人知道的路？", &[("走东边的路", "east"), ("走西边的路", "west")]).unwrap();
    control.say("a", "e2", &"很长很长的悄悄话。".repeat(80)).unwrap();
    control.set_live("a", "", Some(Live::thinking("正在想没人知道的事")));
    host.reads(&record, "all three", |messages| messages.len() == 3).await;

    control.expire_access_tokens(true);
    bench.until("a renewal", |control| control.count("oauth/token") == 1 && control.opened_streams() == 2).await;
    assert_eq!(host.post(&record, "r1", "人说的悄悄话").await["state"], "completed");
    host.begin_post(&record, "r2", "走东边的路", Some("1:w1")).await;
    assert_eq!(host.settle("r2").await["state"], "completed");
    let opening = host.ask("view/open", json!({"view": "bind", "args": [record]}));
    let code = json!({"code": "bind-code-of-nobody", "expiresAt": "2026-11-30T12:10:00Z", "addresses": ["http://100.64.0.1:8080"]});
    host.reply(code).await;
    assert!(host.answer(opening).await.is_ok());

    // What goes wrong is told as well, without what it was about.
    let refusals = [
        Act::error("permission_denied"),
        Act::error("internal"),
        Act::html(502),
        Act::garbage(),
        Act::Redirect { to: "http://127.0.0.1:9/".into() },
        Act::Drop,
    ];
    for (number, act) in refusals.into_iter().enumerate() {
        control.fault(Fault::next("SendGrokBotUserMessage", act));
        control.quirks(|quirks| quirks.poll_only_get = false);
        host.begin_post(&record, &format!("f{number}"), &format!("没发出去的悄悄话 {number}"), None).await;
    }
    bench.until("all were tried", |control| control.count("SendGrokBotUserMessage") >= 8).await;
    let opened = control.opened_streams();
    control.inject_bytes(&[1, 0, 0, 0, 3, b'a', b'b', b'c']);
    bench.until("another stream", |control| control.opened_streams() > opened).await;
    control.end_streams(&StreamEnd::Reset);
    control
        .add("a", json!({"id": "e8", "kind": "message", "role": "user", "content": {"text": "不像样的悄悄话"}}))
        .unwrap();
    control.say("a", "e9", "最后的悄悄话").unwrap();
    host.reads(&record, "the last", |messages| messages.iter().any(|message| message["text"] == "最后的悄悄话")).await;

    for args in [
        ["status", "--log", "trace"].as_slice(),
        &["bots", "--log", "trace"],
        &["read", "a", "--log", "trace"],
        &["post", "a", "从终端说的悄悄话", "--log", "trace"],
        &["doctor", "--json", "--log", "trace"],
    ] {
        let ran = bench.run(args).await;
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
    }
    host.call("resource/signOut", json!({})).await.unwrap();
    control.fault(Fault::next("auth/poll", Act::json(403, &json!({"error": "sign_in_policy_violation"}))));
    let ran = bench.run(&["sign-in", "--json", "--log", "trace"]).await;
    assert_eq!(ran.code, Some(1));
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    control.confirm(link["url"].as_str().unwrap()).unwrap();
    host.until("signed in again", |host| host.status["state"] == "signedIn").await;
    let host = host.quit().await;
    // There was something to be found.
    let secrets = control.secrets();
    assert!(secrets.iter().filter(|secret| secret.starts_with("eyJ")).count() >= 6, "{}", secrets.len());
    assert!(secrets.iter().any(|secret| !secret.contains('.') && secret.len() >= 43), "a verifier");
    assert!(control.texts().iter().filter(|text| text.contains("悄悄话")).count() >= 9, "{:?}", control.texts());
    assert!(host.stderr().contains("TRACE"), "{}", host.stderr());
    assert_eq!(bench.findings(), Vec::<String>::new());
}

/// A code that binds a computer is nobody's business but the Bot's.
#[tokio::test]
async fn a_bind_code_is_in_no_log() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    let opening = host.ask("view/open", json!({"view": "bind", "args": [record]}));
    let code = json!({"code": "bind-code-of-nobody", "expiresAt": "2026-11-30T12:10:00Z", "addresses": ["http://100.64.0.1:8080"]});
    host.reply(code).await;
    assert!(host.answer(opening).await.is_ok());
    let host = host.quit().await;
    assert!(!host.stderr().contains("bind-code-of-nobody"), "{}", host.stderr());
}

/// Tokens aren't kept by what takes the place of a sign-in file that is none.
#[tokio::test]
async fn a_file_that_was_set_aside_goes_with_the_sign_in() {
    let bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    let pair = bench.control.issue_tokens();
    write_private(&bench.auth_file(), format!("{{\"accessToken\": \"{}\", \"x", pair.access).as_bytes());
    assert_eq!(bench.run(&["sign-in", "--json"]).await.code, Some(0));
    assert!(bench.data().join("native-auth.json.bad").exists());
    assert_eq!(bench.run(&["sign-out"]).await.code, Some(0));
    let left: Vec<_> = std::fs::read_dir(bench.data()).unwrap().map(|file| file.unwrap().path()).collect();
    let holds = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap().contains(&pair.access);
    assert!(!left.iter().any(holds), "{left:?}");
}

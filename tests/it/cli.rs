//! The commands of a terminal: exit codes, JSON for scripts, and nothing secret in any output.

use coda_grok_bot::simulate::{Act, Fault, NewBot, Options};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Bench, Heard, LIMIT, Running, bare, finish};

#[tokio::test]
async fn exit_code_3_where_nobody_is_signed_in() {
    let bench = Bench::new(Options::default()).await;
    let exits = async |args: &[&str]| {
        let ran = bench.run(args).await;
        assert_eq!(ran.code, Some(3), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("sign-in"), "{}", ran.stderr);
    };
    for args in [["status"].as_slice(), &["bots"], &["read", "a"], &["post", "a", "x"]] {
        exits(args).await;
    }
    let ran = bench.run(&["status", "--json"]).await;
    assert_eq!((ran.code, &ran.json()[0]["state"]), (Some(3), &json!("signedOut")));
    assert_eq!(bench.control.counts().values().sum::<u64>(), 0, "nothing was asked");
    // It looks whether anybody answers.
    exits(&["doctor"]).await;
}

#[tokio::test]
async fn exit_code_2_for_a_wrong_call() {
    let bench = Bench::with_bot().await;
    for args in [
        [].as_slice(),
        &["fly"],
        &["read"],
        &["read", "a", "--limit", "0"],
        &["read", "a", "--limit", "501"],
        &["post", "a"],
        &["post", "a", " "],
        &["read", "nobody"],
    ] {
        let ran = bench.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty());
    }
    for (name, value) in [("GROK_BOT_BACKEND_URL", "http://example.com"), ("GROK_BOT_WEBSITE_URL", "ftp://127.0.0.1")] {
        let mut command = bench.command(&["status"]);
        command.env(name, value);
        let ran = bench.finish(command).await;
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains(name), "{}", ran.stderr);
    }
    for args in [["--help"].as_slice(), &["--version"], &["read", "--help"]] {
        let ran = finish(bare(args)).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(!ran.stdout.is_empty());
    }
}

#[tokio::test]
async fn a_log_level_that_is_none_is_refused_and_of_rust_log_said_once() {
    let bad =
        ["loud", "[[[", "=,=", "garbage===", "nonsense=bogus", "warn,", "", " ", "a::=info", "hyper", "info;debug"];
    for filter in bad {
        let ran = finish(bare(&["status", "--log", filter])).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{filter:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("不是日志级别"), "{filter:?}: {}", ran.stderr);
    }
    let bench = Bench::with_bot().await;
    let status = async |filter: &str, more: &[&str]| {
        let mut command = bench.command(&[&["status"], more].concat());
        command.env("RUST_LOG", filter);
        bench.finish(command).await
    };
    // The variable is other programs' too: it keeps nothing from running.
    for filter in bad.into_iter().filter(|filter| !filter.is_empty()) {
        let ran = status(filter, &[]).await;
        assert_eq!(ran.code, Some(0), "{filter:?}: {}", ran.stderr);
        assert_eq!((ran.stderr.lines().count(), ran.stderr.matches("RUST_LOG").count()), (1, 1), "{}", ran.stderr);
        assert!(status(filter, &["--log", "error"]).await.stderr.is_empty(), "nobody asked for {filter:?}");
    }
    for filter in ["", "warn", "ERROR", "off", "3", "error,coda_grok_bot=warn", "coda_grok_bot::watch = warn , error"] {
        let ran = status(filter, &[]).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{filter:?}");
    }
    let ran = bench.run(&["bots", "--log", "coda_grok_bot=debug,hyper_util=off"]).await;
    assert!(ran.stderr.contains(" coda_grok_bot::"), "{}", ran.stderr);
}

/// Once the command has ended, nothing tries again by itself.
#[tokio::test]
async fn a_command_that_gives_up_promises_no_further_try() {
    let given_up = async |method: &str| {
        let bench = Bench::with_bot().await;
        bench.control.fault(Fault::next(method, Act::error("unavailable")).always());
        let commands = [["bots"].as_slice(), &["read", "a"], &["post", "a", "x"]].map(|args| bench.run(args));
        for ran in join_all(commands).await {
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{method}: {}", ran.stderr);
            let said = ran.stderr.lines().last().unwrap();
            assert!(said.contains("；请检查网络后再试。") && !said.contains("自动"), "{method}: {}", ran.stderr);
        }
        assert!(bench.control.received_messages().is_empty());
    };
    // The account can't be asked for; the list can't.
    tokio::join!(given_up("*"), given_up("ListGrokBotAgents"));
}

#[tokio::test]
async fn bots_read_and_post() {
    let bench = Bench::new(Options::default()).await;
    for (id, name) in [("a-1", "小艾"), ("b-1", "双胞胎"), ("b-2", "双胞胎"), ("c-1", "")] {
        bench.control.add_bot(NewBot::named(name).id(id));
    }
    bench.sign_in();
    let control = &bench.control;
    for number in 1..=3 {
        control.say("a-1", &format!("e{number}"), &format!("第 {number} 句\u{1b}[2J")).unwrap();
    }
    let ran = bench.run(&["bots", "--json"]).await;
    let mut bots = ran.json();
    bots.sort_by_key(|bot| bot["agentId"].to_string());
    let expected = [("a-1", "小艾"), ("b-1", "双胞胎"), ("b-2", "双胞胎"), ("c-1", "未命名 Bot")]
        .map(|(id, title)| json!({"agentId": id, "record": bench.record(id), "title": title}));
    assert_eq!((ran.code, bots), (Some(0), expected.to_vec()));
    let plain = bench.run(&["bots"]).await;
    assert!(plain.stdout.contains("小艾") && plain.stdout.contains("a-1"), "{}", plain.stdout);

    for bot in ["小艾", "a-1", &bench.record("a-1")] {
        let ran = bench.run(&["read", bot, "--json", "--limit", "2"]).await;
        let texts: Vec<Value> = ran.json().iter().map(|message| message["text"].clone()).collect();
        assert_eq!(
            (ran.code, texts),
            (Some(0), vec![json!("第 2 句\u{1b}[2J"), json!("第 3 句\u{1b}[2J")]),
            "{}",
            ran.stderr
        );
        let first = &ran.json()[0];
        assert_eq!((&first["id"], &first["cursor"], &first["from"]), (&json!("1:e2"), &json!("1:2"), &json!("bot")));
    }
    let plain = bench.run(&["read", "小艾"]).await;
    assert_eq!(plain.code, Some(0));
    assert!(plain.stdout.contains("小艾：第 1 句") && !plain.stdout.contains('\u{1b}'), "{:?}", plain.stdout);

    // Two of one name: their ids.
    for args in [["read", "双胞胎"].as_slice(), &["post", "双胞胎", "x"]] {
        let ran = bench.run(args).await;
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("b-1") && ran.stderr.contains("b-2"), "{}", ran.stderr);
    }

    let ran = bench.run(&["post", "小艾", "你好", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let posted = &ran.json()[0];
    assert_eq!((&posted["state"], &posted["message"]["cursor"]), (&json!("completed"), &json!("1:4")));
    assert_eq!(control.received_messages()[0].text, "你好");
    control.fault(Fault::next("SendGrokBotUserMessage", Act::error("permission_denied")));
    let ran = bench.run(&["post", "小艾", "不行", "--json"]).await;
    assert_eq!((ran.code, ran.json()), (Some(1), vec![json!({"state": "failed", "reason": "refused"})]));
    // The commands leave nothing behind but the sign-in.
    let left: Vec<_> = std::fs::read_dir(bench.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("index")), "{left:?}");
}

#[tokio::test]
async fn read_follow_goes_on_beside_a_running_provider() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    control.say("a", "e1", "一").unwrap();
    // It takes no lock.
    let host = bench.serve_ready().await;
    let mut reader = Running::start(bench.command(&["read", "a", "--follow", "--json"]), bench.heard());
    let first: Value = serde_json::from_str(&reader.line("1:e1").await).unwrap();
    assert_eq!(first["text"], "一");
    bench.until("two streams", |control| control.open_streams() == 2).await;
    control.say("a", "e2", "二").unwrap();
    let second: Value = serde_json::from_str(&reader.line("1:e2").await).unwrap();
    assert_eq!((&second["text"], &second["cursor"]), (&json!("二"), &json!("1:2")));
    control.resay("a", "e2", "二改").unwrap();
    let third: Value = serde_json::from_str(&reader.line("edit").await).unwrap();
    assert_eq!(third["about"], json!({"message": "1:e2", "change": "edit"}));
    assert_eq!(reader.signalled("INT").await, Some(0));
    host.quit().await;
}

#[tokio::test]
async fn read_follow_ends_when_nobody_reads_it() {
    let bench = Bench::with_bot().await;
    bench.control.say("a", "e1", "一").unwrap();
    let Running { mut child, mut lines, log: _log, .. } =
        Running::start(bench.command(&["read", "a", "--follow"]), bench.heard());
    assert!(timeout(LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap().contains("一"));
    drop(lines);
    bench.until("the stream", |control| control.open_streams() == 1).await;
    bench.control.say("a", "e2", "二").unwrap();
    assert_eq!(timeout(LIMIT, child.wait()).await.unwrap().unwrap().code(), Some(0));
}

#[tokio::test]
async fn sign_in_status_and_sign_out() {
    let bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    let ran = bench.run(&["sign-in", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines = ran.json();
    assert_eq!((lines.len(), &lines[0]["state"], &lines[1]["state"]), (2, &json!("confirming"), &json!("signedIn")));
    assert!(lines[0]["url"].as_str().unwrap().contains("loginDeepControl"));
    let ran = bench.run(&["status", "--json"]).await;
    assert_eq!(
        (ran.code, ran.json()),
        (Some(0), vec![json!({"state": "signedIn", "account": "Sample Person", "reachable": true})])
    );
    // The service is away: still signed in, and said so.
    bench.control.fault(Fault::next("GetMe", Act::error("unavailable")).always());
    let ran = bench.run(&["status", "--json"]).await;
    assert_eq!((ran.code, &ran.json()[0]["reachable"]), (Some(0), &json!(false)));
    bench.control.clear_faults();

    bench.serve().await.quit().await;
    let ran = bench.run(&["sign-out", "--json"]).await;
    assert_eq!((ran.code, &ran.json()[0]["state"]), (Some(0), &json!("signedOut")));
    assert!(!std::fs::read_to_string(bench.auth_file()).unwrap_or_default().contains("Token"));
    assert_eq!(bench.run(&["status"]).await.code, Some(3));
    // Signing out twice is no failure.
    assert_eq!(bench.run(&["sign-out"]).await.code, Some(0));

    // For a person: the link, a QR code, the tap on the phone.
    let ran = bench.run(&["sign-in"]).await;
    assert_eq!(ran.code, Some(0));
    for part in ["loginDeepControl", "█", "Continue", "已登录：Sample Person"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

#[tokio::test]
async fn a_refused_sign_in_is_exit_code_1_and_stores_nothing() {
    let bench = Bench::new(Options::default()).await;
    bench.control.fault(Fault::next("auth/poll", Act::json(403, &json!({"error": "sign_in_policy_violation"}))));
    let ran = bench.run(&["sign-in"]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("策略"), "{}", ran.stderr);
    assert!(!bench.auth_file().exists());
    // Cancelled by the person.
    let mut waiting = Running::start(bench.command(&["sign-in", "--json"]), bench.heard());
    waiting.line("confirming").await;
    assert_eq!(waiting.signalled("INT").await, Some(1));
    assert!(!bench.auth_file().exists());
}

#[tokio::test]
async fn doctor_says_what_works_without_a_text_or_a_token() {
    let bench = Bench::with_bot().await;
    bench.control.say("a", "e1", "不该出现的话").unwrap();
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let report = &ran.json()[0];
    let names: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["folder", "lock", "index", "signIn", "reach", "clock", "stream"]);
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{report}");
    let provider = &report["provider"];
    assert_eq!(provider["bots"][0]["head"], "1:1");
    assert_eq!(provider["bots"][0]["generation"], 1);
    for field in ["reconnects", "lost", "skipped", "lastFrame", "connected"] {
        assert!(!provider[field].is_null(), "{field}: {report}");
    }
    assert_eq!(report["version"], "0.5.0");
    assert!(!ran.stdout.contains("不该出现的话") && !ran.stderr.contains("不该出现的话"));
    let plain = bench.run(&["doctor"]).await;
    assert_eq!(plain.code, Some(0));
    assert!(plain.stdout.lines().all(|line| line.starts_with('✓') || line.starts_with("  ")), "{}", plain.stdout);

    // A clock that is off, and a folder that others may look into: each with what to do.
    bench.control.set_clock_offset(600_000);
    std::fs::set_permissions(bench.data(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let bad: Vec<Value> = ran.json()[0]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].clone())
        .collect();
    assert_eq!(bad, [json!("folder"), json!("clock")]);
}

#[tokio::test]
async fn simulate_serves_other_clients() {
    let mut service = Running::start(bare(&["simulate"]), Heard::default());
    let backend = service.line("GROK_BOT_BACKEND_URL=").await;
    let website = service.line("GROK_BOT_WEBSITE_URL=").await;
    let folder = tempfile::tempdir().unwrap();
    let command = |args: &[&str]| {
        let mut command = bare(args);
        for line in [&backend, &website] {
            let (name, value) = line.split_once('=').unwrap();
            command.env(name, value);
        }
        command.env("CODA_PLUGIN_DATA", folder.path());
        command
    };
    let ran = finish(command(&["sign-in", "--json"])).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let bots = finish(command(&["bots", "--json"])).await;
    assert!(bots.json().len() >= 3, "{}", bots.stdout);
    assert_eq!(service.signalled("TERM").await, Some(0));
}

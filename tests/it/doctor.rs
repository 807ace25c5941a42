//! `doctor` names what is wrong and nothing else, and the other commands log the cause of what they say.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use coda_grok_bot::simulate::{Act, Fault, Options};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::support::{Bench, LIMIT, Ran, signal};

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The names of the checks with this outcome; null is one that couldn't be made.
fn checks(ran: &Ran, outcome: &Value) -> Vec<String> {
    let report = &ran.json()[0];
    let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["ok"] == *outcome);
    checks.map(|check| check["name"].as_str().unwrap().to_owned()).collect()
}

/// What a check says.
fn says(ran: &Ran, name: &str) -> String {
    let report = &ran.json()[0];
    let check = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
    check["says"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn doctor_names_the_sign_in_where_the_service_has_ended_it() {
    let bench = Bench::with_bot().await;
    bench.control.revoke_tokens();
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!((ran.code, checks(&ran, &false.into())), (Some(3), vec!["signIn".to_owned()]), "{}", ran.stdout);
    assert!(says(&ran, "signIn").contains("sign-in") && says(&ran, "reach").contains("能连上"), "{}", ran.stdout);
}

#[tokio::test]
async fn doctor_and_status_tell_a_service_that_refuses_from_one_out_of_reach() {
    let bench = Bench::with_bot().await;
    for (code, words) in [("permission_denied", "拒绝"), ("unavailable", "不能正常回答"), ("unauthenticated", "登录")]
    {
        bench.control.fault(Fault::next("GetMe", Act::error(code)).always());
        let ran = bench.run(&["doctor", "--json"]).await;
        assert_eq!((ran.code, checks(&ran, &false.into())), (Some(1), vec!["account".to_owned()]), "{}", ran.stdout);
        assert!(says(&ran, "account").contains(words), "{code}: {}", ran.stdout);
        let ran = bench.run(&["status"]).await;
        assert_eq!(ran.code, Some(0), "{code}");
        assert!(ran.stdout.contains(words) && !ran.stdout.contains("连不上"), "{code}: {}", ran.stdout);
        bench.control.clear_faults();
    }
    let mut command = bench.command(&["status"]);
    command.env("GROK_BOT_BACKEND_URL", NOWHERE);
    let ran = bench.finish(command).await;
    assert!(ran.stdout.contains("连不上"), "{}", ran.stdout);
}

#[tokio::test]
async fn doctor_looks_at_reach_and_clock_also_where_nobody_is_signed_in() {
    let bench = Bench::new(Options { clock_offset_ms: 900_000, ..Options::default() }).await;
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!((ran.code, checks(&ran, &false.into())), (Some(3), vec!["signIn".to_owned(), "clock".to_owned()]));
    let mut command = bench.command(&["doctor", "--json"]);
    command.env("GROK_BOT_BACKEND_URL", NOWHERE);
    let ran = bench.finish(command).await;
    assert_eq!((ran.code, checks(&ran, &false.into())), (Some(3), vec!["signIn".to_owned(), "reach".to_owned()]));
}

#[tokio::test]
async fn doctor_says_what_is_wrong_with_the_index() {
    let bench = Bench::with_bot().await;
    let index = bench.data().join("index.sqlite3");
    std::fs::write(&index, [7; 7000]).unwrap();
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!((ran.code, checks(&ran, &Value::Null)), (Some(0), vec!["index".to_owned()]), "{}", ran.stdout);
    assert!(says(&ran, "index").contains("另存"), "{}", ran.stdout);
    assert_eq!(std::fs::read(&index).unwrap(), [7; 7000], "looked at and no more");

    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!((ran.code, checks(&ran, &false.into())), (Some(1), vec!["index".to_owned()]), "{}", ran.stdout);
    assert!(says(&ran, "index").contains("移走"), "{}", ran.stdout);
}

#[tokio::test]
async fn doctor_says_nothing_of_a_sign_in_that_may_not_be_read() {
    let bench = Bench::with_bot().await;
    let folder = bench.data();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = bench.run(&["doctor", "--json"]).await;
    assert_eq!((ran.code, checks(&ran, &false.into())), (Some(1), vec!["folder".to_owned()]), "{}", ran.stdout);
    assert_eq!(checks(&ran, &Value::Null), ["signIn"]);
    assert!(says(&ran, "folder").contains("不可信") && says(&ran, "folder").contains("chmod 700"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("登录已失效"), "{}", ran.stderr);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_sign_in_that_cant_be_used_has_its_cause_in_the_log() {
    let bench = Bench::with_bot().await;
    std::fs::write(bench.auth_file(), "{{{").unwrap();
    for args in [["status"].as_slice(), &["bots"], &["post", "a", "x"], &["doctor"]] {
        let ran = bench.run(args).await;
        assert_eq!(ran.code, Some(3), "{args:?}");
        assert!(ran.stderr.contains("isn't a JSON object"), "{args:?}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn a_link_that_cant_be_asked_about_is_no_secret_of_the_program() {
    let bench = Bench::new(Options::default()).await;
    let mut command = bench.command(&["sign-in", "--json"]);
    command.env("GROK_BOT_BACKEND_URL", NOWHERE).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = async {
        while let Some(line) = log.next_line().await.unwrap() {
            if line.contains("asked again") {
                return;
            }
        }
        panic!("it ended without a word");
    };
    timeout(LIMIT, found).await.unwrap();
    signal(child.id().unwrap(), "INT").await;
    assert_eq!(timeout(LIMIT, child.wait()).await.unwrap().unwrap().code(), Some(1));
}

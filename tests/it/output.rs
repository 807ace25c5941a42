//! What becomes of a command whose output can't be written.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::{Output, Stdio};

use coda_grok_bot::simulate::Options;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{Bench, LIMIT, bare};

/// Runs a command to its end with its output on a disk that is full.
async fn on_a_full_disk(mut command: Command) -> (Option<i32>, String) {
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    finish(command).await
}

async fn finish(mut command: Command) -> (Option<i32>, String) {
    let ran = command.spawn().unwrap().wait_with_output();
    let Output { status, stderr, .. } = timeout(LIMIT, ran).await.expect("the command ends in time").unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[tokio::test]
async fn an_output_that_cant_be_written_is_a_failure_and_said_once() {
    let bench = Bench::with_bot().await;
    bench.control.say("a", "e1", "一").unwrap();
    for args in [
        ["bots"].as_slice(),
        &["bots", "--json"],
        &["read", "a"],
        &["read", "a", "--json"],
        &["read", "a", "--follow"],
        &["status"],
        &["status", "--json"],
        &["post", "a", "你好"],
        &["post", "a", "你好", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["simulate"],
        &["preview"],
        &["preview", "--demo"],
        &["demo"],
        &["--version"],
        &["read", "--help"],
        &["sign-out"],
    ] {
        let (code, said) = on_a_full_disk(bench.command(args)).await;
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{args:?}: {said}");
        assert!(said.starts_with("命令已正常结束，只是输出没有写完（"), "{args:?}: {said}");
    }
    assert_eq!(bench.control.received_messages().len(), 2, "the posts were posted");
}

#[tokio::test]
async fn a_failure_of_the_command_keeps_its_exit_code_when_its_output_cant_be_written() {
    let bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    let (code, said) = on_a_full_disk(bench.command(&["status", "--json"])).await;
    assert_eq!((code, said.lines().count()), (Some(3), 2), "{said}");
    assert!(said.contains("sign-in") && said.contains("输出没有写完") && !said.contains("已正常结束"), "{said}");
    // Nobody has the link: it isn't waited for.
    for args in [["sign-in"].as_slice(), &["sign-in", "--json"]] {
        let (code, said) = on_a_full_disk(bench.command(args)).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("没有保存任何信息") && said.contains("输出没有写完"), "{said}");
    }
    assert!(!bench.auth_file().exists());
}

#[tokio::test]
async fn a_host_that_cant_be_written_to_is_a_failure() {
    let bench = Bench::with_bot().await;
    let mut command = bench.command(&["serve"]);
    command.stdin(Stdio::piped()).stdout(File::options().write(true).open("/dev/full").unwrap());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "5.7.0"}});
    stdin.write_all(format!("{greeting}\n").as_bytes()).await.unwrap();
    let Output { status, stderr, .. } = timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("无法写给宿主："), "{said}");
}

#[tokio::test]
async fn a_reader_that_went_away_is_no_failure() {
    let bench = Bench::with_bot().await;
    bench.control.say("a", "e1", "一").unwrap();
    for args in [["bots"].as_slice(), &["read", "a", "--json"], &["read", "a", "--follow"], &["doctor"], &["status"]] {
        let mut child = bench.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let ran = timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!((ran.status.code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
    let mut child = bare(&["--version"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(timeout(LIMIT, child.wait()).await.unwrap().unwrap().code(), Some(0));
}

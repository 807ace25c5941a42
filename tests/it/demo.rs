//! `demo`: the main job in a terminal.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::support::{Heard, LIMIT, Running, bare};

#[tokio::test]
async fn demo_has_nothing_to_complain_of() {
    let mut demo = bare(&["demo"]).stdin(Stdio::piped()).spawn().unwrap();
    demo.stdin.as_mut().unwrap().write_all(b"/quit\n").await.unwrap();
    let ran = timeout(LIMIT, demo.wait_with_output()).await.unwrap().unwrap();
    assert_eq!((ran.status.code(), String::from_utf8(ran.stderr).unwrap().as_str()), (Some(0), ""));
}

#[tokio::test]
async fn demo_runs_the_main_job_from_a_pipe() {
    // No address, no folder, no account.
    let mut demo = Running::start(bare(&["demo"]), Heard::default());
    demo.line("已登录：").await;
    demo.line("+ /1 ").await;
    demo.line("+ /2 ").await;
    demo.line("：").await;
    demo.say("/1").await;
    demo.say("你好，今天怎么样？").await;
    demo.line("✓ 已发送").await;
    // The Bot is seen at work, and it answers.
    demo.line("  … ").await;
    demo.say("/quit").await;
    assert_eq!(demo.code().await, Some(0));
}

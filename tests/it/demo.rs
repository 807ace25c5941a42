//! `demo`: what is typed, how it ends, and what it leaves behind.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
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

#[tokio::test]
async fn demo_asks_for_no_link_to_be_opened() {
    let mut demo = Running::start(bare(&["demo"]), Heard::default());
    let mut said = String::new();
    while !said.contains("+ /3 ") {
        said += &timeout(LIMIT, demo.next()).await.unwrap().unwrap();
    }
    assert!(!said.contains("请打开链接"), "there is none, and the account confirms itself: {said}");
    demo.say("/quit").await;
    assert_eq!(demo.code().await, Some(0));
}

#[tokio::test]
async fn a_typed_line_that_is_no_utf8_is_said_and_the_next_one_is_read() {
    let mut demo = Running::start(bare(&["demo"]), Heard::default());
    demo.line("+ /1 ").await;
    demo.child.stdin.as_mut().unwrap().write_all(b"\xff\xfe bad\n").await.unwrap();
    demo.line("不是有效的 UTF-8").await;
    demo.say("你好").await;
    demo.line("✓ 已发送").await;
    // A last line without its end counts, too.
    demo.child.stdin.take().unwrap().write_all(b"/quit").await.unwrap();
    assert_eq!(demo.code().await, Some(0));
}

#[tokio::test]
async fn demo_goes_on_when_a_pipe_has_no_more_to_say_and_ends_when_nobody_reads_it() {
    let mut demo = Running::start(bare(&["demo"]), Heard::default());
    drop(demo.child.stdin.take());
    demo.line("+ /3 ").await;
    // The Bots begin to talk by themselves.
    demo.line("  … ").await;
    let Running { mut child, lines, log: _log, .. } = demo;
    drop(lines);
    assert_eq!(timeout(LIMIT, child.wait()).await.unwrap().unwrap().code(), Some(0));
}

/// `script` gives the program a terminal, stderr too, and types Ctrl-D there when its own input ends.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn in_a_terminal_the_demo_has_nothing_to_complain_of_and_ctrl_d_ends_it() {
    let mut command = Command::new("script");
    command.args([
        "--quiet",
        "--return",
        "--command",
        concat!(env!("CARGO_BIN_EXE_coda-grok-bot"), " demo"),
        "/dev/null",
    ]);
    command.env("GROK_BOT_TEST", "1").env("TZ", "UTC").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let mut first = None;
    let shown = async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let last = line.contains("+ /3 ");
            first.get_or_insert(line);
            if last {
                break;
            }
        }
    };
    timeout(LIMIT, shown).await.unwrap();
    assert!(first.as_deref().is_some_and(|line| line.contains("模拟服务和插件都在这个终端里运行")), "{first:?}");
    drop(child.stdin.take());
    let rest = async { while lines.next_line().await.unwrap().is_some() {} };
    timeout(LIMIT, rest).await.expect("it ends");
    assert_eq!(timeout(LIMIT, child.wait()).await.unwrap().unwrap().code(), Some(0));
}

/// The command, with SIGHUP treated so by whoever starts it: a test run itself may be under `nohup`.
#[cfg(target_os = "linux")]
fn with_hangup(how: &str, folder: &std::path::Path, args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg(format!("--{how}-signal=HUP")).arg(env!("CARGO_BIN_EXE_coda-grok-bot")).args(args);
    command.env("GROK_BOT_TEST", "1").env("TZ", "UTC").env("TMPDIR", folder).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_terminal_leaves_no_folder_of_the_demonstration_behind() {
    let folder = tempfile::tempdir().unwrap();
    let left = || std::fs::read_dir(folder.path()).unwrap().count();
    for (args, shown) in [(["demo"].as_slice(), "+ /1 "), (&["preview", "--demo"], "#key=")] {
        for signal in ["HUP", "TERM", "INT"] {
            let mut running = Running::start(with_hangup("default", folder.path(), args), Heard::default());
            running.line(shown).await;
            assert_eq!(left(), 1, "{args:?} has its folder");
            assert_eq!(running.signalled(signal).await, Some(0), "{args:?} {signal}");
            assert_eq!(left(), 0, "{args:?} {signal}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn under_nohup_a_closed_terminal_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Running::start(with_hangup("ignore", folder.path(), &["demo"]), Heard::default());
    demo.line("+ /1 ").await;
    crate::support::signal(demo.child.id().unwrap(), "HUP").await;
    demo.say("你好").await;
    demo.line("✓ 已发送").await;
    demo.say("/quit").await;
    assert_eq!(demo.code().await, Some(0));
}

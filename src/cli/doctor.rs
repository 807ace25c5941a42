//! `doctor`: what works and what doesn't, one line each with what to do; `--json` for a support request.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Outcome, Problem, terminal};
use crate::auth::{SignIn as _, Standing};
use crate::clock;
use crate::config::{Config, FolderLock, LockError};
use crate::records::{Diagnosis, Handle};
use crate::service::{Edges, INDEX, IndexPlace, Provider};

/// How long the stream and the first reads are waited for.
const WATCH: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);
/// A clock that is off by more makes times in the chat look wrong.
const SKEW_MS: i64 = 60_000;

/// One thing that was looked at.
struct Check {
    name: &'static str,
    good: bool,
    /// What was found and, where it isn't good, what to do.
    says: String,
}

pub(super) async fn doctor(config: &Config, json: bool) -> Outcome {
    let mut checks = vec![folder(config)];
    // Looking at the lock mends a folder's mode: only after what was found is good.
    if checks.iter().all(|check| check.good) {
        checks.push(lock(config));
    }
    checks.push(index(config));
    let edges = Edges::new(config)?;
    let standing = edges.keeper.standing();
    checks.push(sign_in(&standing));
    let mut diagnosis = None;
    if matches!(standing, Standing::SignedIn { .. }) {
        let asked = super::sign_in::ask(&edges).await;
        if let Err(error) = &asked {
            tracing::warn!(error, "the service can't be asked");
        }
        checks.push(Check {
            name: "reach",
            good: asked.is_ok(),
            says: match asked {
                Ok(_) => format!("能连上 {}", config.backend.as_str()),
                Err(_) => format!("连不上 {}；请检查网络、代理（HTTPS_PROXY）与系统证书。", config.backend.as_str()),
            },
        });
        edges.keeper.close().await;
        let found = Provider::new(config, IndexPlace::Memory)?.during(watch).await;
        checks.extend([clock_check(&found), stream(&found)]);
        diagnosis = Some(found);
    }
    let good = checks.iter().all(|check| check.good);
    if json {
        terminal::json(&report(config, &checks, diagnosis.as_ref()));
    } else {
        for check in &checks {
            terminal::say(&format!("{} {}", if check.good { "✓" } else { "✗" }, check.says));
        }
        for bot in diagnosis.iter().flat_map(|found| &found.bots) {
            let head = bot.head.map_or_else(|| "空".to_owned(), |head| head.to_string());
            let state = if bot.ready { "可读" } else { "还没有读完" };
            terminal::say(&format!("  {}：{state}，{} 条消息，head {head}", bot.record, bot.messages));
        }
    }
    match (good, standing) {
        (true, _) => Ok(()),
        (false, Standing::SignedIn { .. }) => Err(Problem::Failure("有检查没有通过，请按上面说的处理。".to_owned())),
        (false, _) => Err(Problem::NotSignedIn),
    }
}

fn folder(config: &Config) -> Check {
    let name = "folder";
    let path = config.data_dir.display();
    match std::fs::symlink_metadata(&config.data_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Check { name, good: true, says: format!("数据目录 {path} 还没有创建，登录时会创建。") }
        }
        Err(error) => Check {
            name, good: false, says: format!("数据目录 {path} 无法读取（{error}）；请检查权限。")
        },
        Ok(meta) => {
            let mode = meta.permissions().mode() & 0o777;
            let good = meta.is_dir() && [0o700, 0o500].contains(&mode);
            let says = if good {
                format!("数据目录 {path}（权限 {mode:03o}）")
            } else {
                format!("数据目录 {path} 不是只有本人能用的目录（权限 {mode:03o}）；请运行 chmod 700。")
            };
            Check { name, good, says }
        }
    }
}

fn lock(config: &Config) -> Check {
    let name = "lock";
    if !config.data_dir.is_dir() {
        return Check { name, good: true, says: "没有插件在使用数据目录。".to_owned() };
    }
    match FolderLock::try_acquire(&config.data_dir) {
        Ok(_) => Check { name, good: true, says: "没有插件在使用数据目录。".to_owned() },
        // A running provider is as it should be.
        Err(LockError::Held(Some(holder))) => {
            Check { name, good: true, says: format!("插件正在运行（{holder}）。") }
        }
        Err(LockError::Held(None)) => Check { name, good: true, says: "插件正在运行。".to_owned() },
        Err(error @ LockError::Disk(_)) => Check { name, good: false, says: error.sentence() },
    }
}

fn index(config: &Config) -> Check {
    let path = config.data_dir.join(INDEX);
    let says = match std::fs::metadata(&path) {
        Ok(meta) => format!("索引 {} 字节", meta.len()),
        Err(_) => "还没有索引，第一次读完会话后会创建。".to_owned(),
    };
    Check { name: "index", good: true, says }
}

fn sign_in(standing: &Standing) -> Check {
    let name = "signIn";
    match standing {
        Standing::SignedIn { .. } => Check { name, good: true, says: "已登录。".to_owned() },
        Standing::SignedOut => {
            Check { name, good: false, says: "还没有登录；请运行 coda-grok-bot sign-in。".to_owned() }
        }
        Standing::SignInAgain { .. } => {
            Check { name, good: false, says: "登录已失效；请重新运行 coda-grok-bot sign-in。".to_owned() }
        }
    }
}

fn clock_check(found: &Diagnosis) -> Check {
    let name = "clock";
    match found.clock_skew_ms {
        None => Check { name, good: true, says: "服务没有给出时间，时钟未核对。".to_owned() },
        Some(skew) if skew.abs() <= SKEW_MS => {
            Check { name, good: true, says: format!("本机时钟与服务相差 {} 秒。", skew / 1000) }
        }
        Some(skew) => {
            Check {
                name, good: false, says: format!("本机时钟与服务相差 {} 秒；请校准系统时间。", skew / 1000)
            }
        }
    }
}

fn stream(found: &Diagnosis) -> Check {
    let name = "stream";
    let ready = found.bots.iter().filter(|bot| bot.ready).count();
    let all = found.bots.len();
    let (good, says) = match (found.connected, found.listed, ready == all) {
        (true, _, true) => (true, format!("实时流已连上，{all} 个 Bot 的会话都可读。")),
        (true, _, false) => (false, format!("实时流已连上，但 {all} 个 Bot 里只读完 {ready} 个；请稍后再试。")),
        (false, true, _) => (false, "能读到 Bot 名单，但实时流没有连上；请检查代理是否中断长连接。".to_owned()),
        (false, false, _) => (false, "没有读到 Bot 名单；请检查网络后再试。".to_owned()),
    };
    Check { name, good, says }
}

/// The provider's own state, once the stream is up and every record is open, or after a while.
async fn watch(handle: Handle) -> Diagnosis {
    let mut last = Diagnosis::default();
    let settle = async {
        while let Ok(found) = handle.diagnose().await {
            last = found;
            if last.connected && last.listed && last.bots.iter().all(|bot| bot.ready) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(WATCH, settle).await;
    last
}

fn report(config: &Config, checks: &[Check], found: Option<&Diagnosis>) -> Value {
    let checks: Vec<Value> =
        checks.iter().map(|check| json!({"name": check.name, "ok": check.good, "says": check.says})).collect();
    let provider = found.map(|found| {
        let bots: Vec<Value> = found
            .bots
            .iter()
            .map(|bot| {
                json!({
                    "record": bot.record.as_str(),
                    "generation": bot.generation,
                    "head": bot.head.map(|head| head.to_string()),
                    "messages": bot.messages,
                    "ready": bot.ready,
                })
            })
            .collect();
        json!({
            "connected": found.connected,
            "listed": found.listed,
            "lastFrame": found.last_frame.map(terminal::time),
            "reconnects": found.reconnects,
            "lost": found.lost,
            "skipped": found.skipped,
            "clockSkewMs": found.clock_skew_ms,
            "problem": found.problem,
            "bots": bots,
        })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": "5.7.0",
        "platform": crate::platform::plugin_platform(),
        "at": terminal::time(clock::wall()),
        "backend": config.backend.as_str(),
        "checks": checks,
        "provider": provider,
    })
}

//! `doctor`: what works and what doesn't, one line each with what to do; `--json` for a support request.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::time::Duration;

use serde_json::{Value, json};

use super::sign_in::{ask, signed_in};
use super::{Outcome, Problem, terminal};
use crate::auth::{SignIn as _, Standing};
use crate::clock;
use crate::config::{Config, FolderLock, LockError};
use crate::disk::{DiskError, folder_mode};
use crate::records::{Diagnosis, Handle};
use crate::service::{Edges, INDEX, IndexPlace, Provider};

/// How long the stream and the first reads are waited for.
const WATCH: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);
/// A clock that is off by more makes times in the chat look wrong.
const SKEW_MS: i64 = 60_000;

/// How an SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// One thing that was looked at.
struct Check {
    name: &'static str,
    /// Whether it is as it should be; `None` where that isn't known, or needs nobody.
    good: Option<bool>,
    /// What was found and, where it isn't good, what to do.
    says: String,
}

impl Check {
    fn good(name: &'static str, says: impl Into<String>) -> Self {
        Self { name, good: Some(true), says: says.into() }
    }

    fn bad(name: &'static str, says: impl Into<String>) -> Self {
        Self { name, good: Some(false), says: says.into() }
    }

    fn open(name: &'static str, says: impl Into<String>) -> Self {
        Self { name, good: None, says: says.into() }
    }

    fn mark(&self) -> char {
        match self.good {
            Some(true) => '✓',
            Some(false) => '✗',
            None => '–',
        }
    }
}

pub(super) async fn doctor(config: &Config, json: bool) -> Outcome {
    let folder = folder_mode(&config.data_dir);
    let mut checks = vec![folder_check(config, &folder)];
    // Looking at the lock mends a folder's mode: only after what was found is good.
    if checks.iter().all(|check| check.good == Some(true)) {
        checks.push(lock(config));
    }
    checks.push(index(config));
    let edges = Edges::new(config)?;
    let reached = edges.reach().await;
    let signed_in = match &folder {
        Ok(_) => signed_in(&edges.keeper.standing()),
        // Nothing is read from there.
        Err(_) => false,
    };
    let asked = match (&reached, signed_in) {
        (Ok(_), true) => Some(ask(&edges).await),
        _ => None,
    };
    edges.keeper.close().await;
    // Asking may have shown that the sign-in has ended.
    let standing = edges.keeper.standing();
    checks.push(match &folder {
        Ok(_) => sign_in(&standing),
        Err(_) => Check::open("signIn", "登录信息没有读取；请先处理数据目录。"),
    });
    let backend = config.backend.as_str();
    match &reached {
        Ok(date) => {
            let skew = date.map(|date| date.saturating_sub(clock::wall().0));
            checks.extend([Check::good("reach", format!("能连上 {backend}")), clock_check(skew)]);
        }
        Err(error) => {
            tracing::warn!(error, "the service can't be reached");
            let says = format!("连不上 {backend}；请检查网络、代理（HTTPS_PROXY）与系统证书。");
            checks.push(Check::bad("reach", says));
        }
    }
    let mut diagnosis = None;
    match asked {
        Some(Ok(_)) => {
            let found = Provider::new(config, IndexPlace::Memory)?.during(watch).await;
            checks.push(stream(&found));
            diagnosis = Some(found);
        }
        Some(Err(error)) => {
            tracing::warn!(%error, "the service can't be asked");
            if matches!(standing, Standing::SignedIn { .. }) {
                checks.push(Check::bad("account", error.sentence()));
            }
        }
        None => {}
    }
    let good = checks.iter().all(|check| check.good != Some(false));
    if json {
        terminal::json(&report(config, &checks, diagnosis.as_ref()));
    } else {
        for check in &checks {
            terminal::say(&format!("{} {}", check.mark(), check.says));
        }
        for bot in diagnosis.iter().flat_map(|found| &found.bots) {
            let head = bot.head.map_or_else(|| "空".to_owned(), |head| head.to_string());
            let state = if bot.ready { "可读" } else { "还没有读完" };
            terminal::say(&format!("  {}：{state}，{} 条消息，head {head}", bot.record, bot.messages));
        }
    }
    match (good, standing) {
        (true, _) => Ok(()),
        (false, Standing::SignedOut | Standing::SignInAgain { .. }) if folder.is_ok() => Err(Problem::NotSignedIn),
        (false, _) => Err(Problem::Failure("有检查没有通过，请按上面说的处理。".to_owned())),
    }
}

fn folder_check(config: &Config, mode: &Result<Option<u32>, DiskError>) -> Check {
    let name = "folder";
    let path = config.data_dir.display();
    match mode {
        Ok(None) => Check::good(name, format!("数据目录 {path} 还没有创建，登录时会创建。")),
        Ok(Some(mode @ (0o700 | 0o500))) => Check::good(name, format!("数据目录 {path}（权限 {mode:03o}）")),
        Ok(Some(mode)) => {
            Check::bad(name, format!("数据目录 {path} 不是只有本人能用的目录（权限 {mode:03o}）；请运行 chmod 700。"))
        }
        Err(error) => Check::bad(name, format!("数据目录不能使用：{}", error.sentence())),
    }
}

fn lock(config: &Config) -> Check {
    let name = "lock";
    if !config.data_dir.is_dir() {
        return Check::good(name, "没有插件在使用数据目录。");
    }
    match FolderLock::try_acquire(&config.data_dir) {
        Ok(_) => Check::good(name, "没有插件在使用数据目录。"),
        // A running provider is as it should be.
        Err(LockError::Held(Some(holder))) => Check::good(name, format!("插件正在运行（{holder}）。")),
        Err(LockError::Held(None)) => Check::good(name, "插件正在运行。"),
        Err(error @ LockError::Disk(_)) => Check::bad(name, error.sentence()),
    }
}

/// Looks at the file without opening it as an index: that is the provider's.
fn index(config: &Config) -> Check {
    let name = "index";
    let path = config.data_dir.join(INDEX);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Check::good(name, "还没有索引，第一次读完会话后会创建。");
        }
        Ok(meta) if !meta.is_file() => {
            return Check::bad(name, format!("{INDEX} 不是普通文件（是文件夹或符号链接），新消息不会显示；请移走它。"));
        }
        _ => {}
    }
    let mut header = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(SQLITE.len() as u64).read_to_end(&mut header));
    match (read, fs::metadata(&path)) {
        (Ok(_), Ok(meta)) if header.is_empty() || header == SQLITE => {
            Check::good(name, format!("索引 {} 字节", meta.len()))
        }
        (Ok(_), Ok(_)) => Check::open(name, "索引文件已损坏；插件启动时会把它另存，并建立新的。"),
        (Err(error), _) | (_, Err(error)) => Check::bad(name, format!("{INDEX} 无法读取（{error}）；请检查权限。")),
    }
}

fn sign_in(standing: &Standing) -> Check {
    let name = "signIn";
    match standing {
        Standing::SignedIn { .. } => Check::good(name, "已登录。"),
        Standing::SignedOut => Check::bad(name, "还没有登录；请运行 coda-grok-bot sign-in。"),
        Standing::SignInAgain { .. } => Check::bad(name, "登录已失效；请重新运行 coda-grok-bot sign-in。"),
    }
}

fn clock_check(skew: Option<i64>) -> Check {
    let name = "clock";
    match skew {
        None => Check::open(name, "服务没有给出时间，时钟未核对。"),
        Some(skew) if skew.abs() <= SKEW_MS => Check::good(name, format!("本机时钟与服务相差 {} 秒。", skew / 1000)),
        Some(skew) => Check::bad(name, format!("本机时钟与服务相差 {} 秒；请校准系统时间。", skew / 1000)),
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
    Check { name, good: Some(good), says }
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

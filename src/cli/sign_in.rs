//! `sign-in`, `sign-out`, `status`: beside a running provider, which notices within 30 s.

use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Outcome, Problem, terminal};
use crate::auth::{SignIn as _, SignInError, Standing};
use crate::clock;
use crate::config::Config;
use crate::service::{Edges, INDEX};
use crate::upstream::{Error, ErrorKind, Me};

/// How long a person waits for who is signed in.
const ASK: Duration = Duration::from_secs(10);

pub(super) async fn sign_in(config: &Config, json: bool) -> Outcome {
    config.create_data_dir().map_err(|error| Problem::folder(&error))?;
    let edges = Edges::new(config)?;
    let attempt = edges.keeper.begin().map_err(|error| failed(&error))?;
    // Listened for before the link is shown: who sees it can cancel.
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|error| Problem::Failure(format!("无法接收 Ctrl-C：{error}。")))?;
    if json {
        let expires = terminal::time(attempt.expires_at);
        terminal::json(&json!({"state": "confirming", "url": attempt.url, "expiresAt": expires}));
    } else {
        terminal::say(
            "请在浏览器里打开这个链接并确认登录，或用手机扫描二维码（手机上可能还要再点一次「继续」Continue）：",
        );
        terminal::say(&format!("\n{}\n", attempt.url));
        if let Some(code) = terminal::qr(&attempt.url) {
            terminal::say(&code);
        }
    }
    let spinner = terminal::spinner("");
    let countdown = async {
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        loop {
            tick.tick().await;
            let left = (attempt.expires_at.0 - clock::wall().0).max(0) / 1000;
            spinner.set_message(format!("等待确认，剩余 {}:{:02}（Ctrl-C 取消）", left / 60, left % 60));
            spinner.tick();
        }
    };
    let result = tokio::select! {
        result = edges.keeper.redeem(&attempt) => result,
        result = countdown => result,
        // Dropping the poll stores nothing.
        _ = interrupt.recv() => Err(SignInError::Superseded),
    };
    spinner.finish_and_clear();
    result.map_err(|error| failed(&error))?;
    let me = ask(&edges).await;
    edges.keeper.close().await;
    let name = me.ok().and_then(|me| me.name);
    match (json, name) {
        (true, name) => terminal::json(&json!({"state": "signedIn", "account": name})),
        (false, Some(name)) => terminal::say(&format!("已登录：{}", terminal::name(&name))),
        (false, None) => terminal::say("已登录。"),
    }
    Ok(())
}

pub(super) async fn sign_out(config: &Config, json: bool) -> Outcome {
    let edges = Edges::new(config)?;
    edges.keeper.sign_out().map_err(|error| failed(&error))?;
    edges.keeper.close().await;
    let index = config.data_dir.join(INDEX);
    let left = index.exists();
    if json {
        let left: Vec<String> = left.then(|| index.display().to_string()).into_iter().collect();
        terminal::json(&json!({"state": "signedOut", "left": left}));
        return Ok(());
    }
    terminal::say("已退出登录，登录信息已删除。");
    if left {
        let index = index.display();
        terminal::say(&format!("保留了索引 {index}（只有摘要和序号，没有消息内容）；不再需要时可以删除。"));
    }
    terminal::say("Bot 云电脑上 coda-bot 的绑定不受影响；要解除请在那里运行 node coda-bot.mjs unbind。");
    Ok(())
}

pub(super) async fn status(config: &Config, json: bool) -> Outcome {
    let edges = Edges::new(config)?;
    let me = match edges.keeper.standing() {
        Standing::SignedIn { .. } => Some(ask(&edges).await),
        Standing::SignedOut | Standing::SignInAgain { .. } => None,
    };
    edges.keeper.close().await;
    // Asking may have shown that the sign-in has ended.
    let state = match edges.keeper.standing() {
        Standing::SignedOut => "signedOut",
        Standing::SignedIn { .. } => "signedIn",
        Standing::SignInAgain { .. } => "signInAgain",
    };
    let reachable = me.as_ref().is_some_and(Result::is_ok);
    if let Some(Err(error)) = &me {
        tracing::warn!(error, "the account can't be asked for");
    }
    let name = me.and_then(Result::ok).and_then(|me| me.name);
    if json {
        terminal::json(&json!({"state": state, "account": name, "reachable": reachable}));
    }
    match (state, reachable) {
        ("signedIn", _) if json => Ok(()),
        ("signedIn", true) => {
            terminal::say(&format!("已登录：{}", terminal::name(name.as_deref().unwrap_or("Grok 账号"))));
            Ok(())
        }
        ("signedIn", false) => {
            terminal::say("已登录，但现在连不上 Grok Bot 服务；请检查网络后再试。");
            Ok(())
        }
        _ => Err(Problem::NotSignedIn),
    }
}

/// Who is signed in, asked once; an answer of 401 renews the sign-in first.
pub(super) async fn ask(edges: &Edges) -> Result<Me, String> {
    let call = async {
        let token = edges.keeper.access_token().await.map_err(|error| error.to_string())?;
        match edges.upstream.me(token.clone()).await {
            Err(Error { kind: ErrorKind::Auth, .. }) => {
                let token = edges.keeper.renewed(token).await.map_err(|error| error.to_string())?;
                edges.upstream.me(token).await.map_err(|error| error.to_string())
            }
            other => other.map_err(|error| error.to_string()),
        }
    };
    tokio::time::timeout(ASK, call).await.map_err(|_| "no answer in time".to_owned())?
}

fn failed(error: &SignInError) -> Problem {
    tracing::info!(%error, "signing in or out failed");
    let text = match error {
        SignInError::Expired => "登录链接已过期，请重新运行 sign-in。",
        SignInError::Policy => "所在组织或设备的策略不允许这样登录，请换一个账号或联系管理员。",
        SignInError::Refused(_) => "登录被拒绝，请重新运行 sign-in。",
        SignInError::Superseded => "登录已取消，没有保存任何信息。",
        SignInError::Store(_) => "登录信息无法写入或删除，请检查数据目录的权限与磁盘空间。",
    };
    Problem::Failure(text.to_owned())
}

//! `sign-in`, `sign-out`, `status`: beside a running provider, which notices within 30 s.

use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Outcome, Problem, terminal};
use crate::auth::{SignIn as _, SignInError, Standing, TokenError};
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
    if terminal::over() {
        // Nobody has the link: there is nothing to wait for.
        return Err(failed(&SignInError::Superseded));
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
    let me = if signed_in(&edges.keeper.standing()) { Some(ask(&edges).await) } else { None };
    edges.keeper.close().await;
    let (name, trouble) = match me {
        Some(Ok(me)) => (me.name, None),
        Some(Err(error)) => {
            tracing::warn!(%error, "the account can't be asked for");
            (None, Some(error))
        }
        None => (None, None),
    };
    // Asking may have shown that the sign-in has ended.
    let state = match edges.keeper.standing() {
        Standing::SignedOut => "signedOut",
        Standing::SignedIn { .. } => "signedIn",
        Standing::SignInAgain { .. } => "signInAgain",
    };
    let reachable = state == "signedIn" && trouble.is_none();
    if json {
        terminal::json(&json!({"state": state, "account": name, "reachable": reachable}));
    }
    match (state, trouble) {
        ("signedIn", _) if json => Ok(()),
        ("signedIn", None) => {
            terminal::say(&format!("已登录：{}", terminal::name(name.as_deref().unwrap_or("Grok 账号"))));
            Ok(())
        }
        ("signedIn", Some(trouble)) => {
            terminal::say(&format!("已登录，不过：{}", trouble.sentence()));
            Ok(())
        }
        _ => Err(Problem::NotSignedIn),
    }
}

/// Who is signed in, asked once; an answer of 401 renews the sign-in first.
pub(super) async fn ask(edges: &Edges) -> Result<Me, Unanswered> {
    let call = async {
        let token = edges.keeper.access_token().await?;
        match edges.upstream.me(token.clone()).await {
            Err(Error { kind: ErrorKind::Auth, .. }) => {
                let token = edges.keeper.renewed(token).await?;
                Ok(edges.upstream.me(token).await?)
            }
            other => Ok(other?),
        }
    };
    tokio::time::timeout(ASK, call).await.unwrap_or(Err(Unanswered::Late))
}

/// Why it isn't known who is signed in. Texts are for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("{0}")]
    Token(#[from] TokenError),
    #[error("{0}")]
    Service(#[from] Error),
    #[error("no answer in time")]
    Late,
}

impl Unanswered {
    /// What is wrong and what to do, where the sign-in hasn't ended.
    pub(super) fn sentence(&self) -> &'static str {
        match self {
            Self::Token(_) => {
                "登录现在不能续期，还不能确定它是否失效；请稍后再试，仍然如此请重新运行 coda-grok-bot sign-in。"
            }
            Self::Service(Error { kind: ErrorKind::Auth, .. }) => {
                "服务不接受这次登录；请稍后再试，仍然如此请重新运行 coda-grok-bot sign-in。"
            }
            Self::Service(Error { kind: ErrorKind::NotSent, .. }) => {
                "现在连不上 Grok Bot 服务；请检查网络、代理（HTTPS_PROXY）与系统证书后再试。"
            }
            Self::Service(Error { kind: ErrorKind::Refused | ErrorKind::Stale, .. }) => {
                "服务拒绝了这个账号的请求；请确认它能使用 Grok Bot，或换一个账号登录。"
            }
            Self::Service(_) | Self::Late => "Grok Bot 服务现在不能正常回答；请稍后再试。",
        }
    }
}

/// Whether somebody is signed in; why not is for the log.
pub(super) fn signed_in(standing: &Standing) -> bool {
    if let Standing::SignInAgain { cause, .. } = standing {
        tracing::warn!(cause, "the sign-in can't be used");
    }
    matches!(standing, Standing::SignedIn { .. })
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

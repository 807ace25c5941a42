//! `bots`, `read`, `post`: the same provider for a terminal, with its index in memory and without the folder's lock.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::sign_in::signed_in;
use super::{Outcome, Problem, terminal};
use crate::auth::SignIn as _;
use crate::config::Config;
use crate::model::{Author, Message, Messages, RecordId, Version};
use crate::records::{
    Bound, Failure, Feed, Handle, Notice, Outcome as Posted, Place, PostRequest, ReadError, RecordView, SignInState,
};
use crate::service::{Edges, IndexPlace, Provider};

/// How long a person waits for the Bots, and for a record to open.
const PATIENCE: Duration = Duration::from_secs(45);
/// The same, once the provider says that something is wrong.
const TROUBLE: Duration = Duration::from_secs(10);
/// How long a post may take: its echo is waited for a minute after the answer.
const POST: Duration = Duration::from_secs(150);
/// How often the loop is asked whether the list is in: an empty list is no notice.
const LOOK: Duration = Duration::from_millis(50);

pub(super) async fn list(config: &Config, json: bool) -> Outcome {
    with_provider(config, |handle| async move {
        let bots = listed(&handle).await?;
        for view in &bots {
            let (agent, title) = (view.info.bot.agent_id.as_str(), title(view));
            if json {
                terminal::json(&json!({"agentId": agent, "record": view.info.id.as_str(), "title": title}));
            } else {
                terminal::say(&format!("{}  {}", terminal::name(&title), terminal::name(agent)));
            }
        }
        if bots.is_empty() && !json {
            terminal::say("这个账号还没有 Bot。");
        }
        Ok(())
    })
    .await
}

pub(super) async fn read(config: &Config, bot: &str, follow: bool, limit: u16, json: bool) -> Outcome {
    with_provider(config, |handle| async move {
        let view = find(&listed(&handle).await?, bot)?;
        let mut feed = handle.feed();
        let spinner = terminal::spinner("正在读取会话…");
        spinner.enable_steady_tick(Duration::from_millis(120));
        let page = tokio::time::timeout(PATIENCE, newest(&handle, &mut feed, &view.info.id, limit)).await;
        spinner.finish_and_clear();
        let page = page.map_err(|_| Problem::Failure(why(&handle, "会话还没有读完，请稍后再试。")))??;
        show(&view, page.generation, &page.messages, json);
        if follow {
            let from = Place { generation: u128::from(page.generation), number: page.head.map_or(0, u128::from) };
            tokio::select! {
                done = tail(&handle, &mut feed, &view, from, json) => done,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        } else {
            Ok(())
        }
    })
    .await
}

/// The newest page, once the record can be read.
async fn newest(
    handle: &Handle,
    feed: &mut Feed,
    record: &RecordId,
    limit: u16,
) -> Result<crate::records::Page, Problem> {
    loop {
        match handle.read(record, Bound::Newest, usize::from(limit)) {
            Ok(page) => return Ok(page),
            // The head that says it can be read is a notice.
            Err(ReadError::NotReady) => drop(tokio::time::timeout(Duration::from_secs(1), feed.next()).await),
            Err(_) => return Err(gone()),
        }
    }
}

/// Shows what comes after `place`, until nobody reads it any more.
async fn tail(handle: &Handle, feed: &mut Feed, view: &RecordView, mut place: Place, json: bool) -> Outcome {
    let record = &view.info.id;
    loop {
        match handle.read(record, Bound::After(place), 500) {
            Ok(page) => {
                show(view, page.generation, &page.messages, json);
                if let Some(last) = page.messages.last_number() {
                    place.number = u128::from(last);
                    continue;
                }
            }
            Err(ReadError::HistoryReset { .. }) => {
                if let Ok(page) = handle.read(record, Bound::Newest, 500) {
                    terminal::complain("会话历史已被重置，下面从新的历史开始。");
                    show(view, page.generation, &page.messages, json);
                    let number = page.messages.last_number().map_or(0, u128::from);
                    place = Place { generation: u128::from(page.generation), number };
                    continue;
                }
            }
            Err(ReadError::NotReady) => {}
            Err(ReadError::NotFound) => return Err(gone()),
        }
        if terminal::over() {
            return Ok(());
        }
        match feed.next().await {
            Notice::Activity { record: of, notice, .. } if of == *record && !json => {
                let status = notice.activity.map(|activity| terminal::plain(&activity.status));
                terminal::complain(&format!("… {}", status.as_deref().unwrap_or("空闲")));
            }
            _ => {}
        }
    }
}

pub(super) async fn post(config: &Config, bot: &str, text: &str, json: bool) -> Outcome {
    if text.trim().is_empty() {
        return Err(Problem::Usage("消息不能为空。".to_owned()));
    }
    with_provider(config, |handle| async move {
        let view = find(&listed(&handle).await?, bot)?;
        let request = PostRequest {
            record: view.info.id.clone(),
            message_id: uuid::Uuid::new_v4(),
            text: Arc::from(text),
            reply_to: None,
        };
        let settled = handle.post(request).map_err(|_| gone())?;
        let spinner = terminal::spinner("正在发送，等待确认…");
        spinner.enable_steady_tick(Duration::from_millis(120));
        let outcome = tokio::time::timeout(POST, settled).await;
        spinner.finish_and_clear();
        match outcome {
            Ok(Ok(Posted::Completed { id, cursor })) => {
                if json {
                    let message = json!({"id": id, "cursor": cursor.to_string()});
                    terminal::json(&json!({"state": "completed", "message": message}));
                } else {
                    terminal::say("已发送。");
                }
                Ok(())
            }
            Ok(Ok(Posted::Failed(failure))) => Err(failed(failure, json)),
            Ok(Err(_)) | Err(_) => Err(failed(Failure::Unknown, json)),
        }
    })
    .await
}

/// What a failed post is called and what it means.
pub(super) fn failure_words(failure: Failure) -> (&'static str, &'static str) {
    match failure {
        Failure::Unknown => ("unknown", "不能确定消息是否已发出；请先看会话里有没有它，再决定是否重发。"),
        Failure::Refused => ("refused", "服务拒绝了这条消息，没有发出。"),
        Failure::SignedOut => ("signed_out", "登录已失效，消息没有发出；请重新登录。"),
        Failure::NotSent => ("not_sent", "消息没有发出，请稍后再试。"),
        Failure::WidgetClosed => ("widget_closed", "这张卡片已不能回答，没有发出。"),
    }
}

fn failed(failure: Failure, json: bool) -> Problem {
    let (reason, text) = failure_words(failure);
    if json {
        terminal::json(&json!({"state": "failed", "reason": reason}));
    }
    match failure {
        Failure::SignedOut => Problem::NotSignedIn,
        _ => Problem::Failure(text.to_owned()),
    }
}

fn gone() -> Problem {
    Problem::Failure("这个 Bot 已不在账号里。".to_owned())
}

/// Runs a provider of our own while `work` runs. Nobody signed in ends it at once.
async fn with_provider<F: Future<Output = Outcome>>(config: &Config, work: impl FnOnce(Handle) -> F) -> Outcome {
    if !signed_in(&Edges::new(config)?.keeper.standing()) {
        return Err(Problem::NotSignedIn);
    }
    Provider::new(config, IndexPlace::Memory)?.during(work).await
}

/// The records, once the first list is in.
pub(super) async fn listed(handle: &Handle) -> Result<Vec<RecordView>, Problem> {
    let patient_until = Instant::now() + TROUBLE;
    let wait = async {
        loop {
            let status = handle.status();
            match (status.state, status.message) {
                (SignInState::SignInAgain, _) => return Err(Problem::NotSignedIn),
                (SignInState::SignedIn, Some(trouble)) if Instant::now() >= patient_until => {
                    return Err(Problem::Failure(ended(&trouble)));
                }
                _ if handle.diagnose().await.is_ok_and(|diagnosis| diagnosis.listed) => return Ok(handle.records()),
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(done) => done,
        Err(_) => Err(Problem::Failure(why(handle, "没有等到 Bot 名单，请稍后再试。"))),
    }
}

/// What the provider says is wrong, else `otherwise`.
fn why(handle: &Handle, otherwise: &str) -> String {
    handle.status().message.map_or_else(|| otherwise.to_owned(), |message| ended(&message))
}

/// A sentence of a provider that ends with it: nothing tries again by itself any more.
fn ended(sentence: &str) -> String {
    sentence.replace("，正在自动重试；请检查网络。", "；请检查网络后再试。")
}

/// A Bot by its id, its record's id, or its name.
fn find(bots: &[RecordView], wanted: &str) -> Result<RecordView, Problem> {
    let by_id = |view: &&RecordView| view.info.bot.agent_id.as_str() == wanted || view.info.id.as_str() == wanted;
    if let Some(view) = bots.iter().find(by_id) {
        return Ok(view.clone());
    }
    let named: Vec<&RecordView> = bots.iter().filter(|view| title(view) == wanted).collect();
    match named[..] {
        [view] => Ok(view.clone()),
        [] => Err(Problem::Usage(format!("没有叫「{wanted}」的 Bot；用 bots 查看名单。"))),
        _ => {
            let ids: Vec<&str> = named.iter().map(|view| view.info.bot.agent_id.as_str()).collect();
            Err(Problem::Usage(format!("有 {} 个 Bot 都叫「{wanted}」，请改用 id：{}", ids.len(), ids.join("、"))))
        }
    }
}

/// What a Bot is called.
pub(super) fn title(view: &RecordView) -> String {
    let name = view.info.bot.name.trim();
    if name.is_empty() { "未命名 Bot".to_owned() } else { name.to_owned() }
}

fn show(view: &RecordView, generation: u64, messages: &Messages, json: bool) {
    for message in messages.to_vec() {
        if json {
            terminal::json(&as_json(generation, &message));
        } else {
            terminal::say(&line(view, &message));
        }
    }
}

/// A message as a line (or more) of a terminal.
pub(super) fn line(view: &RecordView, message: &Message) -> String {
    let who = match message.from {
        Author::Account => view.info.account.name.clone(),
        Author::Bot => title(view),
    };
    let what = match message.version {
        Version::Base => terminal::plain(&message.text),
        Version::Edit => format!("（已编辑）{}", terminal::plain(&message.text)),
        Version::Delete => "（已删除）".to_owned(),
    };
    format!("{}  {}：{}", terminal::clock(message.at), terminal::name(&who), what.replace('\n', "\n    "))
}

fn as_json(generation: u64, message: &Message) -> Value {
    let mut value = json!({
        "id": message.id(generation),
        "cursor": format!("{generation}:{}", message.number),
        "from": if message.from == Author::Account { "self" } else { "bot" },
        "at": terminal::time(message.at),
        "text": &*message.text,
    });
    let change = match message.version {
        Version::Base => return value,
        Version::Edit => "edit",
        Version::Delete => "delete",
    };
    value["about"] = json!({"message": message.base(generation), "change": change});
    value
}

//! `demo`: the simulated service, the provider and a small host in one terminal.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bots::{failure_words, line, title};
use super::serve::with_signals;
use super::simulate;
use super::{Outcome, Problem, terminal};
use crate::config::Config;
use crate::host::message_id;
use crate::model::{Message, Meta, Part, RecordId, Version, Widget};
use crate::records::{
    Bound, Feed, Handle, Notice, Outcome as Posted, Place, PostRequest, RecordView, SignInState, Status,
};
use crate::service::{IndexPlace, Provider};
use crate::simulate::Options;

const HELP: &str =
    "输入文字并回车：发给当前 Bot。  /1 /2 …：换一个 Bot。  数字：回答最近的卡片。  /quit 或 Ctrl-D：结束。";
/// How many messages of each Bot are shown at first.
const FIRST: usize = 6;

pub(super) async fn demo() -> Outcome {
    let service = simulate::start(Options::demo()).await?;
    let folder = Folder::new();
    let config = simulate::config(Some(folder.0.clone()), &service)?;
    let outcome = Box::pin(run(&config)).await;
    service.stop().await;
    outcome
}

async fn run(config: &Config) -> Outcome {
    config.create_data_dir().map_err(|error| Problem::folder(&error))?;
    let stop = CancellationToken::new();
    let work = Provider::new(config, IndexPlace::Folder)?.during(|handle| host(handle, stop.clone()));
    Box::pin(with_signals(stop.clone(), work)).await
}

/// Everything that wakes the small host.
enum Event {
    Notice(Notice),
    Typed(Typed),
    Settled(Posted),
    Stop,
}

/// What came from stdin.
enum Typed {
    Line(String),
    /// A line that is no UTF-8.
    Unreadable,
    /// There is no more.
    End,
}

/// Reads what is typed, line by line.
struct Keyboard<I> {
    input: I,
    line: Vec<u8>,
}

impl<I: AsyncBufRead + Unpin> Keyboard<I> {
    /// Cancel-safe: what was taken of a line stays here. A last line without an end counts.
    async fn next(&mut self) -> Typed {
        match self.input.read_until(b'\n', &mut self.line).await {
            Ok(_) if !self.line.is_empty() => {
                String::from_utf8(std::mem::take(&mut self.line)).map_or(Typed::Unreadable, Typed::Line)
            }
            Ok(_) => Typed::End,
            Err(error) => {
                tracing::warn!(%error, "what is typed can't be read any more");
                Typed::End
            }
        }
    }
}

struct Host {
    handle: Handle,
    feed: Feed,
    status: Option<Status>,
    /// In the order of their first appearance: what `/1`, `/2` name.
    records: Vec<RecordId>,
    shown: HashMap<RecordId, Place>,
    current: Option<RecordId>,
    /// The latest open card of each record.
    cards: HashMap<RecordId, (String, Arc<Widget>)>,
    posts: JoinSet<Posted>,
    posted: u64,
}

async fn host(handle: Handle, stop: CancellationToken) -> Outcome {
    terminal::say("模拟服务和插件都在这个终端里运行，不需要账号，也不会连接任何真实服务。");
    terminal::say(HELP);
    terminal::say("正在登录模拟账号…");
    if let Err(reason) = handle.sign_in().await.map_err(|error| error.to_string()).and_then(|link| link) {
        return Err(Problem::Failure(reason));
    }
    let mut host = Host {
        feed: handle.feed(),
        status: None,
        handle,
        records: Vec::new(),
        shown: HashMap::new(),
        current: None,
        cards: HashMap::new(),
        posts: JoinSet::new(),
        posted: 0,
    };
    let mut keyboard = Keyboard { input: BufReader::new(tokio::io::stdin()), line: Vec::new() };
    let mut open = true;
    // Nobody is left to show anything to once nobody reads it.
    while !terminal::over() {
        let event = tokio::select! {
            () = stop.cancelled() => Event::Stop,
            notice = host.feed.next() => Event::Notice(notice),
            Some(Ok(outcome)) = host.posts.join_next() => Event::Settled(outcome),
            typed = keyboard.next(), if open => Event::Typed(typed),
        };
        match event {
            Event::Stop => return Ok(()),
            Event::Notice(notice) => host.notice(notice),
            Event::Settled(outcome) => settled(&outcome),
            // Ctrl-D. A pipe or /dev/null has no more to say, and somebody may still watch the Bots: until a signal comes or nobody reads.
            Event::Typed(Typed::End) if std::io::stdin().is_terminal() => return Ok(()),
            Event::Typed(Typed::End) => open = false,
            Event::Typed(Typed::Unreadable) => terminal::say("这一行不是有效的 UTF-8 文字，没有发送；请重新输入。"),
            Event::Typed(Typed::Line(line)) if line.trim() == "/quit" => return Ok(()),
            Event::Typed(Typed::Line(line)) => host.typed(line.trim()),
        }
    }
    Ok(())
}

impl Host {
    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Status(view) => {
                // Also told with each change of the list of Bots.
                if self.status.as_ref() != Some(&view.status) {
                    self.signed_in(&view.status);
                    self.status = Some(view.status);
                }
            }
            Notice::Put(view) => self.put(&view),
            Notice::Withdrawn { record, .. } => {
                terminal::say(&format!("- 会话已撤下：{}", self.name(&record)));
                self.shown.remove(&record);
                self.cards.remove(&record);
                if self.current.as_ref() == Some(&record) {
                    self.current = None;
                }
            }
            Notice::Head { record, head } => match head {
                None => drop(self.shown.remove(&record)),
                Some(_) => self.show_new(&record),
            },
            Notice::Activity { record, notice, .. } => {
                let status = notice.activity.map(|activity| terminal::plain(&activity.status));
                terminal::say(&format!("  … {}：{}", self.name(&record), status.as_deref().unwrap_or("空闲")));
            }
        }
    }

    fn signed_in(&self, status: &Status) {
        if let (SignInState::SignedIn, Some(account)) = (&status.state, &status.account)
            && self.status.as_ref().is_none_or(|before| before.account != status.account)
        {
            terminal::say(&format!("已登录：{}", terminal::name(&account.name)));
        }
        // The simulated account confirms itself, and there is no link to open.
        if let Some(message) = &status.message
            && !matches!(status.state, SignInState::Confirming { .. })
        {
            terminal::say(&format!("! {message}"));
        }
    }

    fn put(&mut self, view: &RecordView) {
        let record = view.info.id.clone();
        let at = self.records.iter().position(|known| *known == record).unwrap_or_else(|| {
            self.records.push(record.clone());
            self.records.len() - 1
        });
        terminal::say(&format!("+ /{} {}", at + 1, terminal::name(&title(view))));
        self.current.get_or_insert_with(|| record.clone());
        self.show_new(&record);
    }

    /// Shows what came since the last look; at the first look the newest few.
    fn show_new(&mut self, record: &RecordId) {
        let bound = self.shown.get(record).map_or(Bound::Newest, |place| Bound::After(*place));
        let limit = if bound == Bound::Newest { FIRST } else { 500 };
        let Ok(page) = self.handle.read(record, bound, limit) else { return };
        let Some(view) = self.handle.record(record) else { return };
        for message in &page.messages.to_vec() {
            terminal::say(&format!("[{}] {}", terminal::name(&title(&view)), line(&view, message)));
            self.note_card(record, page.generation, message);
        }
        let last = page.messages.last_number().or(page.head);
        if let Some(number) = last {
            let place = Place { generation: u128::from(page.generation), number: u128::from(number) };
            self.shown.insert(record.clone(), place);
        }
    }

    fn note_card(&mut self, record: &RecordId, generation: u64, message: &Message) {
        match (&message.meta, message.part, message.version) {
            (_, Part::Answer, _) | (_, _, Version::Delete) => drop(self.cards.remove(record)),
            (Some(Meta::Widget(widget)), ..) if widget.responded.is_none() && !widget.closed => {
                let options = widget.options.iter().enumerate();
                let options: Vec<String> = options.map(|(at, option)| format!("{}={}", at + 1, option.label)).collect();
                terminal::say(&format!("    输入数字回答：{}", terminal::plain(&options.join("  "))));
                self.cards.insert(record.clone(), (message.id(generation), Arc::clone(widget)));
            }
            _ => {}
        }
    }

    fn typed(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(number) = text.strip_prefix('/').and_then(|number| number.parse::<usize>().ok()) {
            match number.checked_sub(1).and_then(|at| self.records.get(at)).cloned() {
                Some(record) => {
                    terminal::say(&format!("现在对 {} 说话。", self.name(&record)));
                    self.current = Some(record);
                }
                None => terminal::say(HELP),
            }
            return;
        }
        let Some(record) = self.current.clone() else {
            return terminal::say("还没有 Bot，这一行没有发送；请稍候再试。");
        };
        let card = self.cards.get(&record);
        let option = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let chosen = card.and_then(|(id, widget)| Some((id.clone(), widget.options.get(option?)?)));
        let (text, reply_to) = match chosen {
            Some((id, option)) => (Arc::clone(&option.label), Some(id)),
            None => (Arc::from(text), None),
        };
        self.posted += 1;
        let message_id = message_id("demo", record.as_str(), &format!("{}-{}", uuid::Uuid::new_v4(), self.posted));
        match self.handle.post(PostRequest { record, message_id, text, reply_to }) {
            Ok(outcome) => {
                self.posts
                    .spawn(async move { outcome.await.unwrap_or(Posted::Failed(crate::records::Failure::Unknown)) });
            }
            Err(_) => terminal::say("这个 Bot 已不在了，请换一个。"),
        }
    }

    fn name(&self, record: &RecordId) -> String {
        self.handle.record(record).map_or_else(|| "Bot".to_owned(), |view| terminal::name(&title(&view)))
    }
}

fn settled(outcome: &Posted) {
    match outcome {
        Posted::Completed { .. } => terminal::say("  ✓ 已发送"),
        Posted::Failed(failure) => terminal::say(&format!("  ✗ {}", failure_words(*failure).1)),
    }
}

/// A folder of its own for the demo's data, gone with it. Made by whoever resolves the configuration, as every data folder is.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("coda-grok-bot-demo-{}", uuid::Uuid::new_v4())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(Path::new(&self.0))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the demo's folder stays");
        }
    }
}

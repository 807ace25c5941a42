//! The way of a row through the rooms, without the network and the disk: mirror, effects, record. Commits are answered at once.

use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use coda_grok_bot::mirror::{Effect, Input, Mirror, PageQuery, Stored};
use coda_grok_bot::model::{
    Account, AgentId, Bot, Card, Content, Entry, EntryId, Harness, Mono, Now, Role, Row, RowBody, Wall,
};
use coda_grok_bot::records::{self, Handle, Publisher, RecordInfo, record_id};
use tokio::sync::mpsc;

use crate::data::{self, GENERATION, Rng};

/// Rows of a list page.
const PAGE: u64 = 500;
/// Bytes of text in a message.
pub(crate) const TEXT: usize = 300;

/// Some Bots with their records.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) bots: Vec<BotWorld>,
    pub(crate) publisher: Publisher,
    pub(crate) handle: Handle,
    now: Duration,
    /// Bytes of text given to the mirrors that came out as messages, and of their entry ids.
    pub(crate) text: u64,
    pub(crate) ids: u64,
}

/// One Bot.
#[derive(Debug)]
pub(crate) struct BotWorld {
    pub(crate) info: RecordInfo,
    mirror: Mirror,
    rows: u64,
}

/// A message row as the service's converter makes it: every text an allocation of its own.
pub(crate) fn row(bot: usize, seq: u64, number: u64, text: &str) -> Row {
    let mut rng = Rng(((bot as u64) << 40) ^ seq);
    let id = EntryId::from(data::uuid(&mut rng));
    let own = rng.below(3) == 0;
    let text: Arc<str> = Arc::from(text);
    let content =
        if own { Content::Message(text) } else { Content::Sent(Card::Text { content: text, images: Vec::new() }) };
    let entry = Entry {
        id: Some(id.clone()),
        at: Some(Wall(1_790_000_000_000 + i64::try_from(seq).unwrap_or(0) * 1000)),
        nonce: None,
        role: if own { Role::User } else { Role::Other },
        between_bots: false,
        automation: false,
        branched: false,
        has_author: false,
        reply_to: None,
        content,
    };
    Row { seq, number, entry_id: Some(id), body: RowBody::Entry(Box::new(entry)) }
}

/// The text of a row: the same for the same arguments.
pub(crate) fn text(bot: usize, seq: u64, version: u64) -> String {
    data::text(&mut Rng(((bot as u64) << 40) ^ (version << 32) ^ seq), TEXT)
}

impl World {
    /// Bots whose records are empty.
    pub(crate) fn new(bots: usize) -> Self {
        // Nobody listens: commands aren't part of this.
        let (sender, _) = mpsc::channel(1);
        let (handle, publisher) = records::new(sender);
        let account = Account { digest: "0".repeat(64), name: "Sample Person".to_owned() };
        let bot = |bot: usize| {
            let agent_id = AgentId::from(data::agent(bot));
            let id = record_id(&account, &agent_id);
            let bot = Bot { agent_id, name: format!("Bot {bot}"), harness: Harness::Other };
            let info = RecordInfo { id, bot, account: account.clone() };
            publisher.put(info.clone());
            BotWorld { info, mirror: Mirror::new(Harness::Other, Stored::default(), Wall(0)), rows: 0 }
        };
        let bots = (0..bots).map(bot).collect();
        Self { bots, publisher, handle, now: Duration::from_secs(1), text: 0, ids: 0 }
    }

    /// The time now; it stands still but for [`Self::pass`].
    pub(crate) fn now(&self) -> Now {
        let wall = i64::try_from(self.now.as_millis()).unwrap_or(0);
        Now { mono: Mono(self.now), wall: Wall(1_790_000_000_000 + wall) }
    }

    /// Lets time go by.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Applies one input and carries out what follows. Gives the pages that are asked for.
    pub(crate) fn feed(&mut self, bot: usize, input: Input) -> Option<PageQuery> {
        let now = self.now();
        let BotWorld { info, mirror, .. } = &mut self.bots[bot];
        let mut inputs = VecDeque::from([input]);
        let mut asked = None;
        while let Some(input) = inputs.pop_front() {
            for effect in mirror.apply(now, input) {
                match effect {
                    Effect::ReadPage(query) => asked = Some(query),
                    Effect::Commit(batch) => inputs.push_back(Input::Committed { batch: batch.id }),
                    Effect::Opened { generation, messages, head } => {
                        self.publisher.opened(&info.id, generation, messages, head);
                    }
                    Effect::Appended { messages, head } => self.publisher.append(&info.id, messages, head),
                    Effect::Inserted(messages) => self.publisher.insert(&info.id, messages),
                    _ => {}
                }
            }
        }
        asked
    }

    /// Reads a Bot's transcript of `rows` messages in full, page by page from the newest, and opens its record.
    pub(crate) fn fill(&mut self, bot: usize, rows: u64) {
        self.bots[bot].rows = rows;
        let mut query = self.feed(bot, Input::StartRead { live: false, harness: Harness::Other });
        while let Some(PageQuery { read, before, .. }) = query {
            let end =
                before.and_then(|before| u64::try_from(before).ok()).map_or(rows, |before| before.min(rows + 1) - 1);
            let first = end.saturating_sub(PAGE) + 1;
            let page: Vec<Row> = (first..=end)
                .rev()
                .map(|seq| {
                    let text = text(bot, seq, 0);
                    self.text += text.len() as u64;
                    self.ids += 36;
                    row(bot, seq, seq, &text)
                })
                .collect();
            query = self.feed(bot, Input::Page { read, generation: Some(GENERATION), rows: page, malformed: 0 });
        }
        self.pass(Duration::from_secs(2));
        self.feed(bot, Input::Tick);
    }

    /// The number of a Bot's head.
    pub(crate) fn head(&self, bot: usize) -> Option<u64> {
        Some(self.handle.record(&self.bots[bot].info.id)?.head?.number)
    }
}

/// Resident bytes of this process.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

//! A host over the records: follows every notice, reads pages, posts.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::model::{Cursor, Message, RecordId, Version};
use crate::records::{
    Bound, Handle, Notice, Outcome, Place, PostRefusal, PostRequest, ReadError, SignInState, Status, Withdrawal,
};

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) handle: Handle,
    told: Arc<Mutex<Vec<Notice>>>,
    /// Follows the feed as long as the host is there.
    _follower: JoinSet<()>,
}

impl Host {
    pub(super) fn new(handle: Handle) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut follower = JoinSet::new();
        let (mut feed, log) = (handle.feed(), Arc::clone(&told));
        follower.spawn(async move {
            loop {
                let notice = feed.next().await;
                log.lock().unwrap().push(notice);
            }
        });
        Self { handle, told, _follower: follower }
    }

    /// Everything told so far, in order.
    pub(crate) fn told(&self) -> Vec<Notice> {
        self.told.lock().unwrap().clone()
    }

    /// Takes what was told since the last call.
    pub(crate) fn take(&self) -> Vec<Notice> {
        let told = self.told();
        self.told.lock().unwrap().clear();
        told
    }

    pub(crate) fn status(&self) -> Status {
        self.handle.status()
    }

    pub(crate) fn state(&self) -> SignInState {
        self.status().state
    }

    pub(crate) fn message(&self) -> Option<String> {
        self.status().message
    }

    /// The Bots that have a record now.
    pub(crate) fn bots(&self) -> Vec<String> {
        self.handle.records().iter().map(|view| view.info.bot.agent_id.to_string()).collect()
    }

    pub(crate) fn record(&self, bot: &str) -> RecordId {
        self.find(bot).unwrap_or_else(|| panic!("no record of {bot}"))
    }

    fn find(&self, bot: &str) -> Option<RecordId> {
        let records = self.handle.records();
        records.iter().find(|view| view.info.bot.agent_id.as_str() == bot).map(|view| view.info.id.clone())
    }

    pub(crate) fn readable(&self, bot: &str) -> bool {
        self.find(bot).is_some_and(|record| self.handle.read(&record, Bound::Newest, 1).is_ok())
    }

    pub(crate) fn head(&self, bot: &str) -> Option<Cursor> {
        self.handle.record(&self.record(bot)).and_then(|view| view.head)
    }

    /// The generation of a record that can be read.
    pub(crate) fn generation(&self, bot: &str) -> u64 {
        self.handle.read(&self.record(bot), Bound::Newest, 1).unwrap().generation
    }

    /// All messages, oldest first, page by page as a host goes back.
    pub(crate) fn messages(&self, bot: &str) -> Vec<Message> {
        let record = self.record(bot);
        let mut messages = Vec::new();
        let mut bound = Bound::Newest;
        loop {
            let page = match self.handle.read(&record, bound, 100) {
                Ok(page) => page,
                Err(ReadError::NotReady) => return Vec::new(),
                Err(error) => panic!("{error}"),
            };
            let first = page.messages.number(0);
            messages.splice(0..0, page.messages.to_vec());
            match first {
                Some(first) if page.more_before => {
                    bound = Bound::Before(Place { generation: u128::from(page.generation), number: u128::from(first) });
                }
                _ => return messages,
            }
        }
    }

    /// Texts, with a mark where it is an edit (`~`) or a delete (`x`).
    pub(crate) fn texts(&self, bot: &str) -> Vec<String> {
        let text = |message: &Message| match message.version {
            Version::Base => message.text.to_string(),
            Version::Edit => format!("~{}", message.text),
            Version::Delete => format!("x{}", message.entry),
        };
        self.messages(bot).iter().map(text).collect()
    }

    pub(crate) fn activity(&self, bot: &str) -> Option<String> {
        let view = self.handle.record(&self.record(bot));
        view.and_then(|view| view.activity).map(|activity| activity.status.to_string())
    }

    /// Withdrawals told, by Bot record.
    pub(crate) fn withdrawn(&self) -> Vec<Withdrawal> {
        let told = self.told();
        let reasons = told.iter().filter_map(|notice| match notice {
            Notice::Withdrawn { reason, .. } => Some(*reason),
            _ => None,
        });
        reasons.collect()
    }

    /// Heads told of a Bot since its record is there.
    pub(crate) fn heads(&self, bot: &str) -> Vec<Option<Cursor>> {
        let wanted = self.record(bot);
        let mut heads = Vec::new();
        for notice in self.told() {
            match notice {
                Notice::Head { record, head } if record == wanted => heads.push(head),
                Notice::Withdrawn { record, .. } if record == wanted => heads.clear(),
                _ => {}
            }
        }
        heads
    }

    pub(crate) fn post(&self, bot: &str, text: &str) -> Run {
        self.post_as(bot, uuid::Uuid::new_v4(), text, None).unwrap()
    }

    pub(crate) fn reply(&self, bot: &str, text: &str, to: &str) -> Run {
        self.post_as(bot, uuid::Uuid::new_v4(), text, Some(to)).unwrap()
    }

    pub(crate) fn post_as(
        &self,
        bot: &str,
        message_id: uuid::Uuid,
        text: &str,
        to: Option<&str>,
    ) -> Result<Run, PostRefusal> {
        let request = PostRequest {
            record: self.record(bot),
            message_id,
            text: Arc::from(text),
            reply_to: to.map(str::to_owned),
        };
        self.handle.post(request).map(|receiver| Run { message_id, receiver, outcome: None })
    }
}

/// A post under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) message_id: uuid::Uuid,
    receiver: oneshot::Receiver<Outcome>,
    outcome: Option<Outcome>,
}

impl Run {
    /// The outcome, if there is one by now. A sender that was dropped fails the test: every run is settled.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        if self.outcome.is_none() {
            self.outcome = match self.receiver.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(oneshot::error::TryRecvError::Empty) => None,
                Err(oneshot::error::TryRecvError::Closed) => panic!("a run was never settled"),
            };
        }
        self.outcome.clone()
    }

    /// Waits for the outcome.
    pub(crate) async fn settled(&mut self) -> Outcome {
        if self.outcome.is_none() {
            self.outcome = Some((&mut self.receiver).await.unwrap());
        }
        self.outcome.clone().unwrap()
    }
}

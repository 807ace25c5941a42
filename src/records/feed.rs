//! One subscriber's queue of changes, coalescing: what is told is always the state at the moment of telling.
//!
//! The queue holds *what* has changed, never a value, so a host that doesn't read costs a few keys a record. A key keeps its older place when the
//! same thing changes again; the value is looked up when it is told. So a settle that is written once everything queued before it was told comes
//! after the head that covers it ([`Mark`]), however often that head moved meanwhile.

use std::collections::{BTreeMap, HashMap};

use super::provider::State;
use super::{ActivityNotice, RecordView, Status, Withdrawal};
use crate::model::{Activity, AgentId, Cursor, RecordId, TurnFailure};

/// A change to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The sign-in or the list of records on the resource page changed.
    Status(StatusView),
    /// A record is new, or its title or participants changed.
    Put(RecordView),
    /// A record is gone.
    Withdrawn {
        /// Which.
        record: RecordId,
        /// Why.
        reason: Withdrawal,
    },
    /// The head moved, or the record was reset (`None`).
    Head {
        /// Whose.
        record: RecordId,
        /// The head now.
        head: Option<Cursor>,
    },
    /// What a Bot does changed.
    Activity {
        /// Whose.
        record: RecordId,
        /// The Bot.
        agent: AgentId,
        /// What it does now.
        notice: ActivityNotice,
    },
}

/// The resource page: the sign-in and an item a Bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusView {
    /// The sign-in.
    pub status: Status,
    /// Records with the names of their Bots, in the order in which they came.
    pub items: Vec<(RecordId, String)>,
}

/// A place in a feed: everything that was queued before it is told once [`super::Feed::passed`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// What changed. Ordered by its place in the queue.
#[derive(Clone, Debug)]
enum Key {
    Status,
    Put(RecordId),
    Head(RecordId),
    Activity(RecordId),
    Withdrawn(RecordId),
}

/// A head as it was told; `None` inside is the missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head(Option<Cursor>);

/// What is queued of one record, and what its reader has been told.
#[derive(Debug, Default)]
struct Row {
    /// The reader has its put and not its withdrawal.
    known: bool,
    put: Option<u64>,
    head: Option<u64>,
    activity: Option<u64>,
    withdrawn: Option<(u64, Withdrawal)>,
    /// Goes with the next removal of the activity; a newer activity drops it.
    failure: Option<TurnFailure>,
    /// As the resource page last showed it. The page may be told while a name is passing that no put ever told.
    told_name: Option<String>,
    /// As last told by a head notice; a put's head doesn't count, so that a settle never lacks its own.
    told_head: Option<Head>,
    told_activity: Option<Activity>,
}

/// The queue. At most one status, and four keys a record that exists or that the reader still takes to exist.
#[derive(Debug, Default)]
pub(super) struct Queue {
    keys: BTreeMap<u64, Key>,
    status: Option<u64>,
    rows: HashMap<RecordId, Row>,
    next: u64,
}

impl Queue {
    /// The queue of a new subscriber: the status, then every record.
    pub(super) fn snapshot(records: impl Iterator<Item = RecordId>) -> Self {
        let mut queue = Self::default();
        queue.status();
        for record in records {
            queue.put(&record);
        }
        queue
    }

    fn place(&mut self, key: Key) -> u64 {
        let place = self.next;
        self.next += 1;
        self.keys.insert(place, key);
        place
    }

    pub(super) fn status(&mut self) {
        if self.status.is_none() {
            self.status = Some(self.place(Key::Status));
        }
    }

    pub(super) fn put(&mut self, record: &RecordId) {
        if self.rows.get(record).and_then(|row| row.put).is_none() {
            let place = self.place(Key::Put(record.clone()));
            self.rows.entry(record.clone()).or_default().put = Some(place);
        }
    }

    pub(super) fn head(&mut self, record: &RecordId) {
        if self.rows.get(record).and_then(|row| row.head).is_none() {
            let place = self.place(Key::Head(record.clone()));
            self.rows.entry(record.clone()).or_default().head = Some(place);
        }
    }

    pub(super) fn activity(&mut self, record: &RecordId, busy: bool, failure: Option<&TurnFailure>) {
        let place = match self.rows.get(record).and_then(|row| row.activity) {
            Some(place) => place,
            None => self.place(Key::Activity(record.clone())),
        };
        let row = self.rows.entry(record.clone()).or_default();
        row.activity = Some(place);
        if busy {
            row.failure = None;
        } else if let Some(failure) = failure {
            row.failure = Some(failure.clone());
        }
    }

    pub(super) fn withdraw(&mut self, record: &RecordId, reason: Withdrawal) {
        let Some(row) = self.rows.get_mut(record) else {
            return;
        };
        for place in [row.put.take(), row.head.take(), row.activity.take()].into_iter().flatten() {
            self.keys.remove(&place);
        }
        row.failure = None;
        if !row.known {
            // Its put was never told: for this reader it never was.
            self.rows.remove(record);
        } else if row.withdrawn.is_none() {
            let place = self.place(Key::Withdrawn(record.clone()));
            self.rows.entry(record.clone()).or_default().withdrawn = Some((place, reason));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.next)
    }

    pub(super) fn passed(&self, mark: Mark) -> bool {
        self.keys.first_key_value().is_none_or(|(place, _)| *place >= mark.0)
    }

    /// Takes the next change off the queue, with its value as it is now.
    pub(super) fn pop(&mut self, state: &State) -> Option<Notice> {
        while let Some((_, key)) = self.keys.pop_first() {
            let notice = match key {
                Key::Status => Some(self.tell_status(state)),
                Key::Put(record) => self.tell_put(state, &record),
                Key::Head(record) => self.tell_head(state, record),
                Key::Activity(record) => self.tell_activity(state, record),
                Key::Withdrawn(record) => self.tell_withdrawn(record),
            };
            if notice.is_some() {
                return notice;
            }
        }
        None
    }

    /// Names only records whose put was told: the page is a notice like the others.
    fn tell_status(&mut self, state: &State) -> Notice {
        self.status = None;
        let mut view = state.status_view();
        view.items.retain(|(record, name)| {
            let row = self.rows.get_mut(record).filter(|row| row.known);
            row.map(|row| row.told_name = Some(name.clone())).is_some()
        });
        Notice::Status(view)
    }

    fn tell_put(&mut self, state: &State, record: &RecordId) -> Option<Notice> {
        let row = self.rows.get_mut(record)?;
        row.put = None;
        let view = state.view(record)?;
        let renamed = row.told_name.as_deref() != Some(view.info.bot.name.as_str());
        row.known = true;
        row.told_activity.clone_from(&view.activity);
        if renamed {
            self.status();
        }
        Some(Notice::Put(view))
    }

    fn tell_head(&mut self, state: &State, record: RecordId) -> Option<Notice> {
        let row = self.rows.get_mut(&record)?;
        row.head = None;
        let head = state.view(&record)?.head;
        if row.told_head == Some(Head(head)) {
            return None;
        }
        row.told_head = Some(Head(head));
        Some(Notice::Head { record, head })
    }

    fn tell_activity(&mut self, state: &State, record: RecordId) -> Option<Notice> {
        let row = self.rows.get_mut(&record)?;
        row.activity = None;
        let failure = row.failure.take();
        let view = state.view(&record)?;
        // Back to what the reader knows: nothing to tell, but for a turn that failed meanwhile.
        if row.told_activity == view.activity && failure.is_none() {
            return None;
        }
        row.told_activity.clone_from(&view.activity);
        Some(Notice::Activity {
            record,
            agent: view.info.bot.agent_id.clone(),
            notice: ActivityNotice { activity: view.activity, failure },
        })
    }

    fn tell_withdrawn(&mut self, record: RecordId) -> Option<Notice> {
        let row = self.rows.get_mut(&record)?;
        let (_, reason) = row.withdrawn.take()?;
        // What is queued for a record that came back stays; what was told of its former life doesn't count for the new one.
        let back =
            Row { put: row.put, head: row.head, activity: row.activity, failure: row.failure.take(), ..Row::default() };
        if back.put.is_some() {
            *row = back;
        } else {
            self.rows.remove(&record);
        }
        self.status();
        Some(Notice::Withdrawn { record, reason })
    }
}

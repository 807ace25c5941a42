//! From pending to readable: the order, what is late, the commit, the opening of the record.

use super::entries::{Body, Key};
use super::unit::{Exposed, Loose, Pending, Wanted, draft, empty, shown_at};
use super::work::Work;
use super::{BODY_WAIT, BODY_WAIT_OPENING, Batch, Effect, InFlight, LATE_WAIT, Mark, Marks, Mirror, Text};
use crate::model::{Author, CompactId, EntryId, Message, Mono, Now, Part, Pile, Version, Wall};

impl Mirror {
    /// Does what is due at `now`.
    pub(super) fn advance(&mut self, now: Now) {
        self.expire_bodies(now.mono);
        if self.in_flight.is_some() || self.generation.is_none() {
            return;
        }
        self.stage_due(now.mono);
        if self.open() {
            // What the unopened record held back may be due by now.
            self.stage_due(now.mono);
        }
    }

    fn stage_due(&mut self, now: Mono) {
        let mut staged = Staged::default();
        if !self.held() {
            self.stage_in_order(now, &mut staged);
            self.stage_late(now, &mut staged);
        }
        self.commit(staged);
    }

    /// Whether exposures wait for the read under way.
    ///
    /// A read that counts all rows holds everything: rows of its later pages may have any number. A read before the stream holds until the stream has
    /// passed C: up to C an unread page may still hold a change, and only the read or a replay without a gap brings it.
    fn held(&self) -> bool {
        let Some(read) = &self.read else {
            return self.opening.is_some() && self.open_at.is_none();
        };
        let passed = self.unbroken && read.c.is_some() && read.stream_high >= read.c;
        read.live || self.opening.is_some() || !passed
    }

    fn stage_in_order(&mut self, now: Mono, staged: &mut Staged) {
        let mut group: Vec<(Key, Part)> = Vec::new();
        loop {
            let Some(number) = self.next_above() else {
                return;
            };
            if staged.touched.len() >= BATCH {
                // The rest is staged when this is committed.
                return;
            }
            group.clear();
            group.extend(self.order.at(number));
            if group.iter().any(|&(key, part)| !self.stable(key, part, now)) {
                return;
            }
            for &(key, part) in &group {
                self.stage(key, part, number, staged);
            }
            self.staged_head = Some(number);
            staged.first.get_or_insert(number);
        }
    }

    /// The lowest pending number above the head.
    fn next_above(&self) -> Option<u64> {
        self.order.next(self.staged_head.map_or(Some(0), |head| head.checked_add(1))?)
    }

    fn stable(&self, key: Key, part: Part, now: Mono) -> bool {
        !matches!(self.entries.body(key), Body::Waiting { .. })
            && self.entries.pending(key, part).is_none_or(|pending| pending.stable_at <= now)
    }

    /// What is pending at or below the head: it blocks nobody.
    fn behind(&self) -> Vec<(Key, Part)> {
        let head = self.staged_head.filter(|head| self.order.first().is_some_and(|first| first <= *head));
        head.map(|head| self.order.up_to(head).map(|(_, key, part)| (key, part)).collect()).unwrap_or_default()
    }

    /// What became ready only after the head had passed its number shares the next exposure's cursor, or takes head + 1 after a minute.
    fn stage_late(&mut self, now: Mono, staged: &mut Staged) {
        let late: Vec<_> = self.behind().into_iter().filter(|&(key, part)| self.stable(key, part, now)).collect();
        if late.is_empty() {
            return;
        }
        for &(key, _) in &late {
            let work = self.entries.work_mut(key);
            work.set_late_since(work.late_since().or(Some(now)));
        }
        let number = if let Some(shared) = staged.first {
            shared
        } else {
            let oldest = late.iter().filter_map(|&(key, _)| self.entries.work(key)?.late_since()).min();
            let waited = oldest.is_some_and(|since| now >= since.after(LATE_WAIT));
            let Some(next) = self.own_number().filter(|_| waited) else {
                return;
            };
            self.staged_head = Some(next);
            staged.first = Some(next);
            next
        };
        for (key, part) in late {
            if let Some(work) = self.entries.work_if(key) {
                work.set_late_since(None);
            }
            self.stage(key, part, number, staged);
        }
    }

    /// The number that something late takes when no exposure comes: head + 1. `None` while an entry is pending with that very number: then that one
    /// is the next exposure, and is waited for.
    fn own_number(&self) -> Option<u64> {
        let next = self.staged_head?.checked_add(1)?;
        (self.next_above() != Some(next)).then_some(next)
    }

    /// Turns one pending text into a message with the cursor `number`.
    fn stage(&mut self, key: Key, part: Part, number: u64, staged: &mut Staged) {
        let before = self.entries.exposed(key, part);
        let Some(pending) = self.entries.work_if(key).and_then(|work| work.take_pending(part)) else { return };
        let version = match (pending.says(), before.is_some()) {
            (true, false) => Version::Base,
            (true, true) => Version::Edit,
            (false, _) => Version::Delete,
        };
        let author = before.map(|exposed| exposed.author).or_else(|| pending.from()).unwrap_or(Author::Bot);
        let first =
            Exposed { digest: None, first: number, edit: None, delete: None, author, delivered: true, base: true };
        let mut exposed = Exposed { digest: pending.digest, delivered: true, ..before.unwrap_or(first) };
        match version {
            Version::Base => {}
            Version::Edit => exposed.edit = Some(number),
            Version::Delete => exposed.delete = Some(number),
        }
        self.entries.set_exposed(key, part, exposed);
        self.register(key);
        staged.touched.push((exposed.first, key, part));
        let message = match pending.wanted {
            Wanted::Laid { laid, in_tray: true, .. } => {
                let packed = self.tray.laid(laid, number);
                let replies = packed.reply_to().is_some_and(|target| self.is_message(target));
                self.opening.as_mut().unwrap_or(&mut staged.messages).copy(&packed, replies);
                self.tray.remove(laid);
                return;
            }
            Wanted::Laid { laid, in_tray: false, .. } => {
                let target = self.opening.as_ref().and_then(|opening| opening.laid(laid, number).reply_to());
                let replies = target.is_some_and(|target| self.is_message(target));
                if let Some(opening) = &mut self.opening {
                    opening.add(laid, number, replies);
                }
                return;
            }
            Wanted::Loose(loose) => {
                let Loose { text, times } = *loose;
                let at = shown_at(version, part, times);
                self.message(key, part, version, number, at, Some(text))
            }
            Wanted::Gone(seen_at) => self.message(key, part, version, number, seen_at, None),
        };
        match &mut self.opening {
            Some(opening) => opening.push(message),
            None => staged.messages.push(message),
        }
    }

    /// The message that shows `text` of an exposed part, or its removal.
    fn message(&self, key: Key, part: Part, version: Version, number: u64, at: Wall, text: Option<Text>) -> Message {
        // A removal is from the base's author.
        let author = self.entries.exposed(key, part).map_or(Author::Bot, |exposed| exposed.author);
        let (from, text, reply_to, meta) = match text {
            Some(text) => (text.from, text.text, text.reply_to, text.meta),
            None => (author, empty(), None, None),
        };
        let replies = |target: &EntryId| part == Part::Answer || self.is_message(target.compact());
        let reply_to = reply_to.filter(replies);
        let (seq, entry) = (self.entries.seq(key), self.entries.id(key));
        Message { number, seq, entry, part, version, from, at, text, reply_to, meta }
    }

    fn is_message(&self, target: CompactId<'_>) -> bool {
        self.entries.look(target).is_some_and(|key| {
            self.entries.exposed(key, Part::Entry).is_some()
                || self.entries.pending(key, Part::Entry).is_some_and(Pending::says)
        })
    }

    /// Hands the staged exposures to the index; nothing of them is readable before it says so.
    fn commit(&mut self, staged: Staged) {
        let moved = std::mem::take(&mut self.moved);
        if staged.touched.is_empty() && moved.is_empty() && !self.clear_owed {
            return;
        }
        let mut touched = staged.touched;
        for key in moved {
            let parts = [Part::Entry, Part::Answer].into_iter();
            touched.extend(parts.filter_map(|part| Some((self.entries.exposed(key, part)?.first, key, part))));
        }
        // As they lie in the index: so what is new is written from one end of it to the other.
        touched.sort_unstable();
        touched.dedup();
        let mut marks = Marks::default();
        for (_, key, part) in touched {
            if let Some(mark) = self.mark(key, part) {
                marks.push(&mark);
            }
        }
        self.next_batch += 1;
        self.effects.push(Effect::Commit(Batch {
            id: self.next_batch,
            clear: std::mem::take(&mut self.clear_owed),
            generation: self.generation.unwrap_or(0),
            marks,
        }));
        self.in_flight =
            Some(InFlight { batch: self.next_batch, messages: staged.messages.sorted(), head: self.staged_head });
    }

    /// The next commit holds the marks of everything that was exposed. Without them a restart would take what lies below the newest mark for something
    /// late, and show it again under other cursors.
    pub(super) fn mark_again(&mut self) {
        self.moved.extend(self.entries.keys().filter(|&key| self.entries.ever_exposed(key)));
    }

    fn mark(&self, key: Key, part: Part) -> Option<Mark<CompactId<'_>>> {
        let exposed = self.entries.exposed(key, part)?;
        Some(Mark {
            entry: self.entries.compact_id(key),
            part,
            seq: self.entries.seq(key),
            digest: exposed.digest,
            first: exposed.first,
            edit: exposed.edit,
            delete: exposed.delete,
            author: exposed.author,
        })
    }

    pub(super) fn committed(&mut self, batch: u64) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.batch == batch) else {
            return;
        };
        let InFlight { messages, head, .. } = in_flight;
        self.head = head;
        if let Some(head) = head.filter(|_| !messages.is_empty()) {
            self.effects.push(Effect::Appended { messages, head });
        }
    }

    /// Opens the record once the first full read is in and every number up to C is exposed, replaced by a higher one, or lost.
    /// Says whether it did.
    fn open(&mut self) -> bool {
        let Some(c) = self.open_at else { return false };
        if self.opening.is_none() || self.in_flight.is_some() {
            return false;
        }
        if self.next_above().is_some_and(|number| number <= c) {
            return false;
        }
        // Behind the head nobody waits for a body, but after a restart the record doesn't open without the texts that it had.
        if self.waiting.iter().any(|&(_, key)| self.entries.number(key) <= Some(c)) {
            return false;
        }
        let (Some(messages), Some(generation)) = (self.opening.take(), self.generation) else {
            return false;
        };
        // What waits goes on waiting outside of it.
        let waiting: Vec<Key> =
            self.order.iter().filter(|(.., part)| *part == Part::Entry).map(|(_, key, _)| key).collect();
        for key in waiting {
            self.lay_again(key, Some(&messages));
        }
        self.open_at = None;
        self.effects.push(Effect::Opened { generation, messages: messages.sorted(), head: self.head });
        true
    }

    /// Delivers a text again as the index knows it: the base with its first cursor, or the latest revision with its own.
    pub(super) fn restore(&mut self, key: Key, part: Part, text: Text, body_at: Option<Wall>) {
        let at = body_at.unwrap_or(self.process_start);
        let Some(exposed) = self.entries.exposed(key, part) else { return };
        let (version, number) = exposed.latest();
        self.entries.set_exposed(key, part, Exposed { delivered: true, base: version == Version::Base, ..exposed });
        if self.opening.is_some() && part == Part::Entry && text.meta.is_none() {
            // A whole history comes this way after a restart.
            let replies = text.reply_to.as_ref().is_some_and(|id| self.is_message(id.compact()));
            let draft = draft(&self.entries, key, version, at, &text);
            if let Some(opening) = &mut self.opening {
                let laid = opening.lay(&draft);
                opening.add(laid, number, replies);
                return;
            }
        }
        let message = self.message(key, part, version, number, at, Some(text));
        match &mut self.opening {
            Some(opening) => opening.push(message),
            None => self.effects.push(Effect::Inserted(vec![message])),
        }
    }

    /// The message of a delete mark, for a record that opens after a restart.
    pub(super) fn delete_message(&self, key: Key, part: Part, at: Wall) -> Option<Message> {
        let number = self.entries.exposed(key, part)?.delete?;
        Some(self.message(key, part, Version::Delete, number, at, None))
    }

    fn body_wait(&self) -> std::time::Duration {
        if self.opening.is_some() { BODY_WAIT_OPENING } else { BODY_WAIT }
    }

    fn expire_bodies(&mut self, now: Mono) {
        let wait = self.body_wait();
        while let Some(&(since, key)) = self.waiting.first()
            && now >= since.after(wait)
        {
            self.lose(key);
        }
    }

    pub(super) fn body_deadline(&self) -> Option<Mono> {
        let wait = self.body_wait();
        self.waiting.first().map(|(since, _)| since.after(wait))
    }

    /// When the next exposure can be due, as far as time alone decides.
    pub(super) fn expose_deadline(&self) -> Option<Mono> {
        if self.in_flight.is_some() || self.generation.is_none() || self.held() {
            return None;
        }
        let in_order = self.next_above().and_then(|number| {
            // What waits for a body has no moment; nor has what shares its number.
            self.order.at(number).try_fold(None, |latest, (key, part)| match self.entries.body(key) {
                Body::Waiting { .. } => None,
                Body::Known | Body::Lost => Some(latest.max(self.stable_at(key, part))),
            })?
        });
        let late = self.behind().into_iter().filter_map(|(key, part)| {
            match (self.entries.body(key), self.entries.work(key).and_then(Work::late_since)) {
                (Body::Waiting { .. }, _) => None,
                (_, Some(since)) => {
                    self.own_number().and_then(|_| self.stable_at(key, part).max(Some(since.after(LATE_WAIT))))
                }
                (_, None) => self.stable_at(key, part),
            }
        });
        late.chain(in_order).min()
    }

    fn stable_at(&self, key: Key, part: Part) -> Option<Mono> {
        self.entries.pending(key, part).map(|pending| pending.stable_at)
    }
}

/// Exposures that are committed at once, give or take those of one number: a first read may have a million.
const BATCH: usize = 10_000;

/// Exposures of one step.
#[derive(Debug, Default)]
struct Staged {
    messages: Pile,
    /// Each with the number of its first exposure.
    touched: Vec<(u64, Key, Part)>,
    /// The first number staged in order.
    first: Option<u64>,
}

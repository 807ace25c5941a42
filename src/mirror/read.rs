//! Full reads and generations: which answers count, when a read is complete, what its absences prove.

use super::dense::DenseSet;
use super::entries::{Body, Key};
use super::{Effect, Mirror, PageQuery, READ_STARTS, Read, Source};
use crate::model::{Delete, Now, Part, Pile, Row, Tray};

impl Mirror {
    pub(super) fn start_read(&mut self, live: bool, starts: u8, render_again: bool) {
        self.next_read += 1;
        // A superseded read still owes what it was started for.
        let render_again = render_again || self.read.as_ref().is_some_and(|read| read.render_again);
        self.read = Some(Read {
            id: self.next_read,
            live,
            starts,
            known: self.generation,
            generation: None,
            c: None,
            seen: DenseSet::default(),
            touched: DenseSet::default(),
            stream_high: None,
            before: None,
            torn: false,
            render_again,
            stalled: false,
        });
        self.c = None;
        // A live read is begun where the stream goes on from no cursor that we know.
        self.unbroken &= !live;
        self.effects.push(Effect::ReadPage(PageQuery { read: self.next_read, before: None, generation: None }));
    }

    /// One page. It is trusted for nothing: neither to be sorted, nor to keep `limit` or `before`, nor to be of the read's generation.
    pub(super) fn page(&mut self, now: Now, id: u64, generation: Option<u64>, mut rows: Vec<Row>, malformed: usize) {
        let Some(read) = self.read.as_ref().filter(|read| read.id == id && !read.stalled) else {
            return;
        };
        let (live, first, known) = (read.live, read.c.is_none(), read.known);
        let generation = generation.or(read.generation).or(self.generation).unwrap_or(0);
        // The stream told the generation after this was asked: an answer of another one is from before.
        let learned = first && self.generation != known && self.generation != Some(generation);
        if learned || read.generation.is_some_and(|expected| expected != generation) {
            self.disagreed();
            return;
        }
        if first {
            // The newest page's own generation is adopted, even where it is lower (wire reference, section 4).
            self.adopt(now, generation);
        }
        let Some(read) = self.read.as_mut() else { return };
        if first {
            let c = rows.iter().map(|row| row.number).max().unwrap_or(0);
            read.generation = Some(generation);
            read.c = Some(c);
            self.c = Some(c);
        }
        read.torn |= malformed > 0;
        let mut progress = false;
        for row in &rows {
            progress |= read.seen.insert(row.seq);
        }
        let lowest = rows.iter().map(|row| u128::from(row.seq)).min();
        let counts_to = if live { u64::MAX } else { read.c.unwrap_or(0) };
        let above: Vec<Row> = rows.extract_if(.., |row| row.number > counts_to).collect();
        self.apply_ops(now, rows, Vec::new(), Source::Read);
        for row in &above {
            self.recognise(row);
        }

        let Some(read) = self.read.as_mut() else { return };
        // A short page is no end: a server may cap lower than we ask. A page without an unseen row is one, and so is one that went no lower: a
        // server that ignores the bound would be asked for ever.
        let lower = lowest.is_some_and(|lowest| read.before.is_none_or(|before| lowest < before));
        match lowest {
            Some(lowest) if progress && lower && lowest > 0 => {
                read.before = Some(lowest);
                let (read, generation) = (read.id, read.generation);
                self.effects.push(Effect::ReadPage(PageQuery { read, before: Some(lowest), generation }));
            }
            _ => self.read_done(now),
        }
    }

    /// Pages disagree: the read starts again; after the third start it waits.
    fn disagreed(&mut self) {
        let Some(read) = self.read.as_mut() else { return };
        let (live, starts) = (read.live, read.starts + 1);
        if starts < READ_STARTS {
            self.start_read(live, starts, false);
        } else {
            read.stalled = true;
            self.effects.push(Effect::ReadStalled);
        }
    }

    fn read_done(&mut self, now: Now) {
        let Some(read) = self.read.take() else { return };
        let c = read.c.unwrap_or(0);
        if !read.torn {
            let counts_to = if read.live { u64::MAX } else { c };
            let unseen = |seq| !read.seen.contains(seq) && !read.touched.contains(seq);
            let gone: Vec<Key> = (self.entries.keys())
                .filter(|&key| unseen(self.entries.seq(key)) && self.is_something(key))
                .filter(|&key| self.known_number(key).is_some_and(|number| number <= counts_to))
                .collect();
            // Above all that was streamed: the service gave the deletion such a number, which we don't know.
            let number = match self.staged_head {
                Some(head) if head >= c => head.saturating_add(1),
                _ => c,
            };
            for key in gone {
                self.entries.release(self.entries.seq(key), key);
                self.unmessage(now, key, number, Source::Read);
            }
        }
        if self.opening.is_some() && self.open_at.is_none() {
            self.open_at = Some(c);
            self.put_in_order();
        }
        self.unbroken = true;
        self.effects.push(Effect::ReadDone);
    }

    /// Makes `generation` the current one. From none it is learned, from another the Bot is reset.
    pub(super) fn adopt(&mut self, now: Now, generation: u64) {
        match self.generation {
            Some(current) if current == generation => {}
            Some(_) => self.reset(now, generation),
            None => {
                self.generation = Some(generation);
                self.install(generation);
                for (rows, deletes) in std::mem::take(&mut self.early) {
                    self.apply_ops(now, rows, deletes, Source::Stream);
                }
            }
        }
    }

    /// All messages go; a read must follow, or be under way.
    fn reset(&mut self, now: Now, generation: u64) {
        self.epoch += 1;
        self.generation = Some(generation);
        self.entries.clear();
        self.nonces.clear();
        self.order.clear();
        self.waiting.clear();
        self.moved.clear();
        self.early.clear();
        self.staged_head = None;
        self.head = None;
        // What it holds is of the old generation and must not be shown; the index drops it with the clear that follows.
        self.in_flight = None;
        self.clear_owed = true;
        self.opening = Some(Pile::default());
        self.tray = Tray::default();
        self.open_at = None;
        self.c = None;
        self.stream_high = None;
        self.sent_cursor = None;
        self.unbroken = false;
        if let Some(read) = self.read.as_mut() {
            read.seen.clear();
            read.touched.clear();
            read.stream_high = None;
        }
        let notice = self.activity.lose(now.mono);
        self.effects.push(Effect::Reset { generation });
        self.effects.extend(notice.map(Effect::Activity));
    }

    /// A `rows` frame.
    pub(super) fn stream_rows(&mut self, now: Now, generation: Option<u64>, rows: Vec<Row>, deletes: Vec<Delete>) {
        match (generation, self.generation) {
            (Some(new), Some(current)) if new < current => return,
            (Some(new), Some(current)) if new > current => {
                self.reset(now, new);
                self.start_read(true, 0, false);
            }
            (Some(new), None) => self.adopt(now, new),
            (None, None) => {
                // Which generation is the current one is known with the first page; until then the rows wait.
                let held: usize = self.early.iter().map(|(rows, deletes)| rows.len() + deletes.len()).sum();
                if held + rows.len() + deletes.len() > super::EARLY_ROWS {
                    self.early.clear();
                    if self.read.is_some() {
                        self.start_read(true, 0, false);
                    }
                } else {
                    self.early.push((rows, deletes));
                }
                return;
            }
            _ => {}
        }
        self.apply_ops(now, rows, deletes, Source::Stream);
    }

    /// A `cleared` or `cursorTooOld` frame: the Bot is read in full, and where the generation is another one, everything goes first.
    pub(super) fn cleared(&mut self, now: Now, generation: Option<u64>) {
        // Rows that wait for the generation are from before it; the read brings what is left of them.
        self.early.clear();
        if let Some(generation) = generation {
            self.adopt(now, generation);
        }
        self.start_read(true, 0, false);
    }

    /// Takes over what the index held, where it is of this generation.
    fn install(&mut self, generation: u64) {
        let stored = std::mem::take(&mut self.stored);
        if stored.generations.iter().any(|(of, _)| *of != generation) {
            self.clear_owed = true;
        }
        let current = stored.generations.into_iter().find(|(of, _)| *of == generation);
        let marks = current.map(|(_, marks)| marks).unwrap_or_default();
        for mark in marks.iter() {
            let key = self.entries.key_for(mark.entry, mark.seq);
            if self.clear_owed {
                self.moved.insert(key);
            }
            self.staged_head = self.staged_head.max(Some(mark.highest()));
            self.entries.carry(mark.seq, None, key);
            let exposed = super::unit::Exposed {
                digest: mark.digest,
                first: mark.first,
                edit: mark.edit,
                delete: mark.delete,
                author: mark.author,
                delivered: false,
                base: false,
            };
            self.entries.set_exposed(key, mark.part, exposed);
            if mark.delete.is_some() {
                let message = self.delete_message(key, mark.part, self.process_start);
                if let (Some(opening), Some(message)) = (&mut self.opening, message) {
                    opening.push(message);
                }
            }
        }
        self.head = self.staged_head;
    }

    /// Whether a read's silence would say something of it.
    fn is_something(&self, key: Key) -> bool {
        [Part::Entry, Part::Answer].into_iter().any(|part| {
            self.entries.pending(key, part).is_some()
                || self.entries.exposed(key, part).is_some_and(|exposed| exposed.digest.is_some())
        }) || self.entries.body(key) != Body::Known
    }

    /// The highest number known of it, from this process or the index.
    fn known_number(&self, key: Key) -> Option<u64> {
        let marks = [Part::Entry, Part::Answer].into_iter().filter_map(|part| self.entries.exposed(key, part));
        self.entries.number(key).or_else(|| marks.map(|exposed| exposed.highest()).max())
    }
}

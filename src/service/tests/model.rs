//! What a host makes of a record from the JSON alone: it follows the head, reads page by page, and holds what it read against what it knows.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::history::History;
use crate::mirror::Stored;
use crate::model::AgentId;

/// A cursor, compared as two numbers.
pub(super) type Cursor = (u64, u64);

/// Reads a cursor; null is none.
pub(super) fn cursor(value: &Value) -> Option<Cursor> {
    let (generation, number) = value.as_str()?.split_once(':')?;
    Some((generation.parse().unwrap(), number.parse().unwrap()))
}

/// What all hosts of a run know together, over all lives of the provider.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// By record and message id: what it said, and where.
    said: BTreeMap<(String, String), (String, Cursor)>,
    /// The highest head that was told of a record in this life of the provider, and in those before it.
    heads: BTreeMap<String, Cursor>,
    before: BTreeMap<String, Cursor>,
    /// Entries whose body was ever elsewhere, as `bot/entry`.
    elsewhere: HashSet<String>,
    /// Entries that say something for people on some harnesses only, and the Bots that ever moved to another one.
    murmured: HashSet<String>,
    moved: HashSet<String>,
    /// What mirrors began with from the index: the Bot, the entry, and where its text stood.
    marked: HashSet<(String, String, Cursor)>,
}

impl Ledger {
    /// A body lies elsewhere: it may come long after its neighbours.
    pub(super) fn elsewhere(&self, bot: &str, seq: u64) {
        self.0.lock().unwrap().elsewhere.insert(format!("{bot}/e{seq}"));
    }

    /// What this entry says is for people on some harnesses only.
    pub(super) fn murmured(&self, bot: &str, seq: u64) {
        self.0.lock().unwrap().murmured.insert(format!("{bot}/e{seq}"));
    }

    /// A Bot moves to another harness: from the next read on what it murmurs is shown, or isn't.
    pub(super) fn moves(&self, bot: &str) {
        self.0.lock().unwrap().moved.insert(bot.to_owned());
    }

    /// A mirror begins with these marks: each of their texts comes back to its old place, and one whose body can't be had comes back late.
    pub(super) fn begins_with(&self, bot: &AgentId, stored: &Stored) {
        let texts = stored.to_vec().into_iter().filter(|(_, mark)| mark.digest.is_some());
        let marked = texts.map(|(generation, mark)| {
            (bot.to_string(), mark.entry.to_string(), (generation, mark.edit.unwrap_or(mark.first)))
        });
        self.0.lock().unwrap().marked.extend(marked);
    }

    /// Whether a message may appear below the head: a mirror that began anew knew it by its mark, and its body was elsewhere or its row didn't say
    /// it just then. The one exception to "who follows misses nothing".
    fn may_come_back(&self, record: &str, message: &Message) -> bool {
        let (bot, entry) = (bot(record), message.id.split(':').nth(1).unwrap_or_default());
        let inner = self.0.lock().unwrap();
        let row = format!("{bot}/{entry}");
        let unsaid = inner.murmured.contains(&row) && inner.moved.contains(bot);
        (inner.elsewhere.contains(&row) || unsaid)
            && inner.marked.contains(&(bot.to_owned(), entry.to_owned(), message.cursor))
    }

    /// An id means one text at one place, for ever.
    fn said(&self, record: &str, message: &Message, history: &History) {
        let mut inner = self.0.lock().unwrap();
        let key = (record.to_owned(), message.id.clone());
        let now = (message.text.clone(), message.cursor);
        let before = inner.said.entry(key).or_insert_with(|| now.clone()).clone();
        drop(inner);
        history.hold(before == now, || format!("{} was {before:?} and is {now:?} now", message.id));
    }

    /// A head was told.
    pub(super) fn head(&self, record: &str, head: Cursor) {
        let mut inner = self.0.lock().unwrap();
        let highest = inner.heads.entry(record.to_owned()).or_insert(head);
        *highest = head.max(*highest);
    }

    /// The provider begins anew.
    pub(super) fn next_life(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.before = inner.heads.clone();
    }

    /// Below this no head may be any more in the same generation: the provider was stopped since.
    pub(super) fn lowest(&self, record: &str) -> Option<Cursor> {
        self.0.lock().unwrap().before.get(record).copied()
    }
}

/// The Bot of a record, from its id.
pub(super) fn bot(record: &str) -> &str {
    record.rsplit(':').next().unwrap_or_default()
}

/// A message as a host got it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) cursor: Cursor,
    pub(super) text: String,
    pub(super) about: Option<(String, bool)>,
    pub(super) options: Vec<String>,
    /// In which life of the record it was read.
    life: u64,
    /// In which order it was read within its cursor.
    place: usize,
}

/// What a page is for.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// The newest page of a record never read.
    First,
    /// What lies below that.
    Back(Cursor),
    /// What is new.
    After(Cursor),
    /// The whole record again, beside what is known.
    Whole(Option<Cursor>),
    /// A settled run's message: its id, its text, and whether the head that covers it was told.
    Echo { after: Cursor, id: String, texts: Vec<String>, told: bool },
    /// Anything; what it must give is computed from its cursor.
    Odd(super::host::Odd),
}

/// One record.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) listed: bool,
    /// Rises when the provider begins anew with it: a restart, a withdrawal, a reset.
    pub(super) life: u64,
    pub(super) told: Option<Cursor>,
    pub(super) activity: Option<String>,
    /// Everything up to here was read, once what lies below the first page is.
    pub(super) position: Option<Cursor>,
    pub(super) reading_back: bool,
    pub(super) messages: BTreeMap<String, Message>,
    pub(super) following: bool,
    pub(super) dirty: bool,
    pub(super) whole: Option<Whole>,
    places: usize,
}

/// A reading of the whole record.
#[derive(Debug)]
pub(super) struct Whole {
    position: Option<Cursor>,
    life: u64,
    seen: BTreeMap<String, Message>,
}

/// A page, as far as it could be read.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) messages: Vec<Message>,
    pub(super) head: Option<Cursor>,
    pub(super) before: bool,
    pub(super) after: bool,
}

impl Page {
    pub(super) fn read(result: &Value) -> Self {
        let messages = result["messages"].as_array().unwrap().iter();
        let message = |value: &Value| {
            let about = value
                .get("about")
                .map(|about| (about["message"].as_str().unwrap().to_owned(), about["change"] == "delete"));
            let options = value["_meta"]["grok-bot"]["widget"]["options"].as_array();
            let option = |option: &Value| option["label"].as_str().unwrap().to_owned();
            Message {
                id: value["id"].as_str().unwrap().to_owned(),
                cursor: cursor(&value["cursor"]).unwrap(),
                text: value["text"].as_str().unwrap().to_owned(),
                about,
                options: options.map(|options| options.iter().map(option).collect()).unwrap_or_default(),
                life: 0,
                place: 0,
            }
        };
        Self {
            messages: messages.map(message).collect(),
            head: cursor(&result["head"]),
            before: result["hasMore"]["before"].as_bool().unwrap(),
            after: result["hasMore"]["after"].as_bool().unwrap(),
        }
    }

    /// What holds for every page, whatever was asked for.
    pub(super) fn is_sound(&self, limit: usize) -> Result<(), String> {
        let cursors: Vec<Cursor> = self.messages.iter().map(|message| message.cursor).collect();
        if !cursors.is_sorted() {
            return Err(format!("a page isn't ascending: {cursors:?}"));
        }
        let ids: HashSet<&str> = self.messages.iter().map(|message| &*message.id).collect();
        if ids.len() < cursors.len() {
            return Err("a page holds an id twice".to_owned());
        }
        // More than its limit only to keep a cursor whole.
        let split = |from: usize, whole: usize| cursors[from] != cursors[whole];
        let count = cursors.len();
        if count > limit && split(limit - 1, count - 1) && split(count - limit, 0) {
            return Err(format!("{} messages for a limit of {limit}", cursors.len()));
        }
        if cursors.last().copied() > self.head {
            return Err(format!("a message at {:?} past the head {:?}", cursors.last(), self.head));
        }
        Ok(())
    }
}

impl Record {
    /// The provider begins anew with it.
    pub(super) fn begin_anew(&mut self) {
        if self.reading_back {
            // What was to be read back never came, and who follows wouldn't ask for it again.
            self.forget();
        }
        self.life += 1;
        self.told = None;
        self.activity = None;
        self.listed = false;
        self.following = false;
        self.dirty = false;
        self.whole = None;
    }

    /// Its history is another one now.
    pub(super) fn forget(&mut self) {
        self.life += 1;
        self.position = None;
        self.reading_back = false;
        self.messages.clear();
        self.whole = None;
    }

    /// Takes the messages of a page that belong to what is followed.
    pub(super) fn collect(&mut self, name: &str, page: &Page, why: &Why, ledger: &Ledger, history: &History) {
        for message in &page.messages {
            ledger.said(name, message, history);
            match why {
                Why::After(after) => {
                    history.hold(message.cursor > *after, || format!("{} isn't after {after:?}", message.id));
                    let known = self.messages.get(&message.id);
                    history.hold(known.is_none(), || format!("{} came a second time", message.id));
                }
                Why::Back(before) => {
                    history.hold(message.cursor < *before, || format!("{} isn't before {before:?}", message.id));
                }
                _ => {}
            }
            self.keep(message.clone());
        }
    }

    fn keep(&mut self, message: Message) {
        let (life, place) = (self.life, self.places);
        self.places += 1;
        self.messages.insert(message.id.clone(), Message { life, place, ..message });
    }

    pub(super) fn begin_whole(&mut self) {
        self.whole = Some(Whole { position: self.position, life: self.life, seen: BTreeMap::new() });
    }

    /// Takes a page of the whole record. Says whether it goes on: after a reset that the host hasn't heard of yet it can't be held against what was
    /// followed.
    pub(super) fn read_whole(&mut self, name: &str, page: &Page, ledger: &Ledger, history: &History) -> bool {
        for message in &page.messages {
            ledger.said(name, message, history);
        }
        let generation = |cursor: Option<Cursor>| cursor.map(|(generation, _)| generation);
        // (A record that was followed has a head for as long as its generation lasts.)
        self.whole.take_if(|whole| whole.position.is_some() && generation(whole.position) != generation(page.head));
        let Some(whole) = &mut self.whole else { return false };
        whole.seen.extend(page.messages.iter().map(|message| (message.id.clone(), message.clone())));
        true
    }

    /// The whole record was read: what was followed and what is there now are the same, up to where it was followed.
    pub(super) fn judge_whole(&mut self, name: &str, ledger: &Ledger, history: &History) {
        let Some(whole) = self.whole.take().filter(|whole| whole.life == self.life) else { return };
        let Some(position) = whole.position.filter(|position| Some(position.0) == self.position.map(|now| now.0))
        else {
            return;
        };
        let mine = self.messages.values().filter(|mine| mine.life == self.life && mine.cursor <= position);
        let vanished: Vec<&str> =
            mine.filter(|mine| !whole.seen.contains_key(&mine.id)).map(|mine| &*mine.id).collect();
        history.hold(vanished.is_empty(), || format!("{}: {vanished:?} can't be read any more", bot(name)));
        for message in whole.seen.into_values().filter(|message| message.cursor <= position) {
            if self.messages.contains_key(&message.id) {
                continue;
            }
            history.hold(ledger.may_come_back(name, &message), || {
                format!(
                    "{}: {} at {:?} was never seen by who followed to {position:?}",
                    bot(name),
                    message.id,
                    message.cursor
                )
            });
            self.keep(message);
        }
    }

    /// In the order in which they are to be applied.
    fn in_order(&self) -> Vec<&Message> {
        let mut messages: Vec<&Message> = self.messages.values().collect();
        // Within one cursor the pages' own order counts.
        messages.sort_by_key(|message| (message.cursor, message.place));
        messages
    }

    /// What the record says now, by base id: the last text of everything that isn't deleted.
    pub(super) fn readable(&self) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for message in self.in_order() {
            match &message.about {
                None => drop(texts.insert(message.id.clone(), message.text.clone())),
                Some((base, false)) => drop(texts.insert(base.clone(), message.text.clone())),
                Some((base, true)) => drop(texts.remove(base)),
            }
        }
        texts
    }

    /// A message of this life that says just this.
    pub(super) fn saying(&self, text: &str) -> Option<&Message> {
        self.messages.values().find(|message| message.life == self.life && message.text == text)
    }

    /// A change that changes nothing is a message told twice.
    pub(super) fn doubled(&self) -> Vec<String> {
        let mut last: BTreeMap<&str, (&Message, Option<&str>)> = BTreeMap::new();
        let mut doubled = Vec::new();
        for message in self.in_order() {
            let (base, text) = match &message.about {
                None => (&*message.id, Some(&*message.text)),
                Some((base, deleted)) => (&**base, (!deleted).then_some(&*message.text)),
            };
            if let Some((before, said)) = last.insert(base, (message, text))
                && said == text
                && before.life == message.life
            {
                doubled.push(format!("{} after {}", message.id, before.id));
            }
        }
        doubled
    }
}

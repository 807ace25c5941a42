//! What the service holds, and whether a host's history says the same.

use std::collections::{BTreeMap, HashMap};

use super::data::{self, GENERATION, Rng};
use super::http::rows_frame;
use super::row::Row;

/// Bytes of text in a row, on average.
pub(crate) const TEXT: usize = 300;

/// What is known of a row; its text follows from its place and version.
#[derive(Clone, Copy, Debug)]
struct Cell {
    number: u64,
    version: u64,
    gone: bool,
}

/// One Bot's transcript.
#[derive(Debug)]
struct Transcript {
    agent: String,
    rows: Vec<Cell>,
    number: u64,
    /// Places by the number of their last change: what a cursor has missed.
    changes: BTreeMap<u64, usize>,
}

/// All transcripts.
#[derive(Debug)]
pub(crate) struct World {
    bots: Vec<Transcript>,
    places: HashMap<String, usize>,
}

/// A message as a host read it.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl World {
    pub(crate) fn new(bots: usize) -> Self {
        let transcript =
            |bot| Transcript { agent: data::agent(bot), rows: Vec::new(), number: 0, changes: BTreeMap::new() };
        let places = (0..bots).map(|bot| (data::agent(bot), bot)).collect();
        Self { bots: (0..bots).map(transcript).collect(), places }
    }

    pub(crate) fn bots(&self) -> usize {
        self.bots.len()
    }

    /// The Bot of an agent id.
    pub(crate) fn bot(&self, agent: &str) -> Option<usize> {
        self.places.get(agent).copied()
    }

    /// The answer of `ListGrokBotAgents`.
    pub(crate) fn agents(&self) -> String {
        let agent = |(bot, transcript): (usize, &Transcript)| {
            format!(
                r#"{{"id":"row-{bot}","name":"Bot {bot}","agentId":"{}","harness":"temporal","visibility":"GROK_BOT_AGENT_VISIBILITY_OWNER","viewerIsOwner":true,"kind":"GROK_BOT_AGENT_KIND_AGENT"}}"#,
                transcript.agent
            )
        };
        let agents: Vec<String> = self.bots.iter().enumerate().map(agent).collect();
        format!(r#"{{"agents":[{}]}}"#, agents.join(","))
    }

    /// Adds a row: its number.
    pub(crate) fn add(&mut self, bot: usize) -> u64 {
        let transcript = &mut self.bots[bot];
        transcript.rows.push(Cell { number: 0, version: 0, gone: false });
        let place = transcript.rows.len() - 1;
        transcript.touch(place)
    }

    /// Changes one of the last `recent` rows, or deletes it: the change's number; none where there is nothing to change.
    pub(crate) fn change(&mut self, bot: usize, rng: &mut Rng, recent: usize, delete: bool) -> Option<u64> {
        let transcript = &mut self.bots[bot];
        let span = recent.min(transcript.rows.len());
        if span == 0 {
            return None;
        }
        let place = transcript.rows.len() - 1 - rng.below(span);
        let cell = &mut transcript.rows[place];
        if cell.gone {
            return None;
        }
        cell.version += 1;
        cell.gone = delete;
        Some(transcript.touch(place))
    }

    /// Whether a change's row is a message that can be read.
    pub(crate) fn shows(&self, bot: usize, number: u64) -> bool {
        let place = self.bots[bot].changes.get(&number);
        place.is_some_and(|place| !self.bots[bot].rows[*place].gone && self.row(bot, *place).message)
    }

    /// The frame of a change.
    pub(crate) fn frame(&self, bot: usize, number: u64) -> Option<String> {
        let transcript = &self.bots[bot];
        let place = *transcript.changes.get(&number)?;
        let row = self.row(bot, place);
        Some(if transcript.rows[place].gone {
            let (seq, id, agent) = (row.seq, row.id, &transcript.agent);
            format!(
                r#"{{"rows":{{"agentId":"{agent}","generation":{GENERATION},"deletes":[{{"seq":"{seq}","updatedSeq":"{number}","entryId":"{id}"}}]}}}}"#
            )
        } else {
            rows_frame(&transcript.agent, &row.wire())
        })
    }

    /// The frames of what a cursor has missed.
    pub(crate) fn since(&self, bot: usize, number: u64) -> impl Iterator<Item = String> {
        let missed = self.bots[bot].changes.range(number + 1..);
        missed.filter_map(move |(number, _)| self.frame(bot, *number))
    }

    /// A page of the rows that are there below a place, newest first.
    pub(crate) fn page(&self, bot: usize, before: usize, limit: usize) -> String {
        let rows = &self.bots[bot].rows;
        let end = before.saturating_sub(1).min(rows.len());
        let there = (0..end).rev().filter(|place| !rows[*place].gone).take(limit);
        let entries: Vec<String> = there.map(|place| self.row(bot, place).wire()).collect();
        format!(r#"{{"entries":[{}],"generation":{GENERATION}}}"#, entries.join(","))
    }

    fn row(&self, bot: usize, place: usize) -> Row {
        let cell = self.bots[bot].rows[place];
        let mut row = Row::new(bot, place as u64 + 1, cell.number, TEXT);
        if cell.version > 0 {
            let seed = ((bot as u64) << 40) ^ (cell.version << 24) ^ row.seq;
            row.text = format!("{} v{}", data::text(&mut Rng(seed), TEXT), cell.version);
        }
        row
    }

    /// The number that a Bot's head must reach: that of the last change which a message shows.
    pub(crate) fn head(&self, bot: usize) -> u64 {
        let numbers = self.bots[bot].changes.keys().rev();
        numbers.copied().find(|number| self.shows(bot, *number)).unwrap_or(0)
    }

    /// Holds what a host reads of a Bot, from the first message to the last, against what the service holds. `plain`: nothing was ever changed, so
    /// each message must be there once, as itself.
    pub(crate) fn check(&self, bot: usize, messages: &[Read], plain: bool) -> Result<(), String> {
        let mut last = 0;
        // By entry: the text that was shown last; none after a delete.
        let mut shown: HashMap<&str, Option<&str>> = HashMap::new();
        let mut ids = std::collections::HashSet::new();
        for message in messages {
            if message.number < last || !ids.insert(message.id.as_str()) {
                return Err(format!("Bot {bot}: {} is out of order or there twice", message.id));
            }
            last = message.number;
            let mut parts = message.id.split(':').skip(1);
            let (entry, change) = (parts.next().unwrap_or_default(), parts.next());
            let text = (change != Some("delete")).then_some(message.text.as_str());
            if (plain || change.is_none()) && shown.contains_key(entry) {
                return Err(format!("Bot {bot}: the entry of {} was shown before", message.id));
            }
            shown.insert(entry, text);
        }
        for (place, cell) in self.bots[bot].rows.iter().enumerate() {
            let row = self.row(bot, place);
            let held = shown.remove(row.id.as_str()).flatten();
            let wanted = (row.message && !cell.gone).then_some(row.text.as_str());
            if held != wanted {
                let (held, wanted) = (held.map(str::len), wanted.map(str::len));
                return Err(format!(
                    "Bot {bot}: place {}, number {}: a text of {held:?} bytes instead of {wanted:?}",
                    row.seq, cell.number
                ));
            }
        }
        match shown.iter().find(|(_, text)| text.is_some()) {
            Some((entry, _)) => Err(format!("Bot {bot}: nobody sent {entry}")),
            None => Ok(()),
        }
    }
}

impl Transcript {
    /// A row has changed.
    fn touch(&mut self, place: usize) -> u64 {
        self.number += 1;
        let old = std::mem::replace(&mut self.rows[place].number, self.number);
        self.changes.remove(&old);
        self.changes.insert(self.number, place);
        self.number
    }
}

//! Pages and bodies: what waits for its turn, what is under way, what is tried again and when.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::bodies::Fetch;
use super::job::{Failed, Services};
use super::{FETCHES, READS, Watch, why};
use crate::mirror::{Input, PageQuery};
use crate::model::{AgentId, Mono, Now, Row};
use crate::upstream::Page;

/// Tries of one body (wire reference, section 5.3).
const BODY_TRIES: u32 = 5;

impl Watch {
    pub(super) fn queue_page(&mut self, agent: AgentId, query: PageQuery) {
        let Some(bot) = self.bots.get_mut(&agent) else { return };
        bot.read = query.read;
        // A Bot has one read at a time. What waited for a superseded one is moot, and what is under way for it gives its place free: else a slow
        // Bot that is read again and again would take the places of all.
        bot.paging = None;
        let other = |(of, ..): &(AgentId, PageQuery)| *of != agent;
        self.first_pages.retain(other);
        self.later_pages.retain(other);
        self.held_pages.retain(|(_, of, _)| *of != agent);
        // First pages go first: the stream waits for them.
        let queue = if query.before.is_none() { &mut self.first_pages } else { &mut self.later_pages };
        queue.push_back((agent, query));
    }

    pub(super) fn pump_pages(&mut self) {
        while self.reads < READS && self.active() {
            let Some((agent, query)) = self.first_pages.pop_front().or_else(|| self.later_pages.pop_front()) else {
                return;
            };
            let Some(bot) = self.bots.get_mut(&agent) else { continue };
            self.reads += 1;
            let stop = CancellationToken::new();
            self.jobs.spawn(Services::page(self.services.clone(), agent, bot.life, query, stop.clone()));
            bot.paging = Some(stop.drop_guard());
        }
    }

    /// Puts back what has waited long enough after a failure.
    pub(super) fn release_reads(&mut self, now: Now) {
        if self.reads_deadline().is_none_or(|at| at > now.mono) {
            return;
        }
        let (due, held) = std::mem::take(&mut self.held_pages).into_iter().partition(|(at, ..)| *at <= now.mono);
        self.held_pages = held;
        for (_, agent, query) in due {
            self.queue_page(agent, query);
        }
        self.bodies.release(now.mono);
    }

    pub(super) fn page(&mut self, now: Now, agent: &AgentId, life: u64, query: PageQuery, page: Result<Page, Failed>) {
        self.reads -= 1;
        let current = |bot: &&mut super::BotState| bot.life == life && bot.read == query.read;
        let Some(bot) = self.bots.get_mut(agent).filter(current) else { return };
        bot.paging = None;
        match page {
            Ok(page) => {
                bot.page_backoff.reset();
                for (malformed, times) in page.malformed.iter() {
                    self.skip(now, malformed, *times);
                }
                let malformed = page.malformed.count();
                let input = Input::Page { read: query.read, generation: page.generation, rows: page.rows, malformed };
                self.feed(now, agent, Some(life), input);
            }
            Err(error) => {
                let wait = bot.page_backoff.next(error.retry_after(), fastrand::f64());
                // The same page again: what was read so far stays read.
                self.held_pages.push((now.mono.after(wait), agent.clone(), query));
                if matches!(error, Failed::SignedOut) {
                    self.failed_call(now, &error, "ListGrokBotTranscriptEntries");
                } else if self.once_an_hour(now.mono, format!("page/{agent}/{error}")) {
                    tracing::warn!(%agent, error = why(&error), ?wait, "a page couldn't be listed; it is tried again");
                }
            }
        }
    }

    pub(super) fn pump_fetches(&mut self) {
        while self.fetching < FETCHES && self.active() {
            let Some(fetch) = self.bodies.next() else { return };
            if self.bots.get(&fetch.agent).is_none_or(|bot| bot.life != fetch.life) {
                continue;
            }
            self.fetching += 1;
            self.jobs.spawn(Services::body(self.services.clone(), fetch));
        }
    }

    /// A try for a body has ended. It is tried five times, 2 s growing to 30 s apart, with jitter; while it waits, others have its place.
    pub(super) fn body(&mut self, now: Now, mut fetch: Fetch, row: Option<Row>) {
        self.fetching -= 1;
        fetch.tries += 1;
        if row.is_none() && fetch.tries < BODY_TRIES {
            let wait = Duration::from_secs(2 << (fetch.tries - 1)).min(Duration::from_secs(30));
            let at = now.mono.after(wait.mul_f64(0.75 + 0.5 * fastrand::f64()));
            self.bodies.hold(fetch, at);
            return;
        }
        let Fetch { agent, life, query, .. } = fetch;
        self.feed(now, &agent, Some(life), Input::Body { query, row });
    }

    /// When something is to be tried again.
    pub(super) fn reads_deadline(&self) -> Option<Mono> {
        let pages = self.held_pages.iter().map(|(at, ..)| *at);
        pages.chain(self.bodies.deadline()).min()
    }
}

//! The mirrors: what goes in, and what becomes of their effects.

use std::collections::BTreeSet;
use std::time::Duration;

use super::bodies::Fetch;
use super::job::Services;
use super::posts::Next;
use super::{BotState, Watch};
use crate::index;
use crate::mirror::{Effect, Input, Mirror, Stored};
use crate::model::{AgentId, Malformed, Mono, Now};
use crate::records::{ActivityNotice, Failure};

impl BotState {
    /// Echoes that are readable now, the next post, the next deadline.
    fn look_after(&mut self, now: Now, agent: &AgentId, timers: &mut BTreeSet<(Mono, AgentId)>) {
        if let Some(mirror) = self.mirror.as_ref().filter(|_| !self.posts.is_empty()) {
            self.posts.look(mirror, now.mono);
        }
        // Posts wait for the mirror before they wait for anything else.
        let mirror = self
            .mirror
            .as_ref()
            .and_then(|mirror| [mirror.deadline(), self.posts.deadline(now.mono)].into_iter().flatten().min());
        let deadline = mirror.into_iter().chain(self.load_at).min();
        if self.timer != deadline {
            if let Some(old) = self.timer.take() {
                timers.remove(&(old, agent.clone()));
            }
            if let Some(new) = deadline {
                timers.insert((new, agent.clone()));
            }
            self.timer = deadline;
        }
    }
}

impl Watch {
    /// Loads a new Bot's marks from the index, when it is its turn.
    pub(super) fn load(&mut self, agent: AgentId) {
        let Some(bot) = self.bots.get_mut(&agent) else { return };
        bot.load_at = None;
        self.to_load.push_back((agent, bot.life));
        self.pump_loads();
    }

    /// One at a time: each takes a thread, and all of them would wait for the same file.
    fn pump_loads(&mut self) {
        while !self.loading {
            let Some((agent, life)) = self.to_load.pop_front() else { return };
            let Some(account) = &self.account else { continue };
            if self.bots.get(&agent).is_none_or(|bot| bot.life != life) {
                continue;
            }
            self.loading = true;
            let (account, store) = (account.digest.clone(), std::sync::Arc::clone(&self.store));
            self.jobs.spawn_blocking(move || {
                let stored = super::commits::lock(&store).load(&account, &agent);
                super::Done::Loaded { agent, life, stored }
            });
        }
    }

    pub(super) fn loaded(&mut self, now: Now, agent: &AgentId, life: u64, stored: Result<Stored, index::Error>) {
        self.loading = false;
        self.take_set_aside(now);
        let old = std::mem::take(&mut self.loading_old);
        self.pump_loads();
        let live = self.link.live();
        let Some(bot) = self.bots.get_mut(agent).filter(|bot| bot.life == life) else { return };
        match stored {
            Ok(stored) => {
                bot.mirror = Some(Mirror::new(bot.bot.harness, stored, self.process_start));
                if old {
                    self.feed(now, agent, None, Input::IndexRenewed);
                }
                self.disk_passed();
                let preparing = matches!(self.link, super::Link::Preparing { .. });
                if live || preparing {
                    self.start_read(now, agent, live);
                }
                if let Some(states) = &self.live {
                    // The snapshot came before this Bot could take it.
                    let state = states.get(agent).cloned();
                    self.feed(now, agent, None, Input::Live { state, snapshot: true });
                }
                self.pump_posts(now, agent);
            }
            Err(error) => {
                // Without its marks nothing can be shown, so no echo either: better said than waited for.
                bot.posts.drop_all(Failure::NotSent);
                bot.load_at = Some(now.mono.after(Duration::from_secs(5)));
                self.after_change(now, agent);
                self.disk_failed(now, &error);
            }
        }
    }

    /// Begins a full read of a Bot. `live`: the stream is up and names no cursor of it.
    pub(super) fn start_read(&mut self, now: Now, agent: &AgentId, live: bool) {
        let Some(bot) = self.bots.get_mut(agent).filter(|bot| bot.mirror.is_some()) else { return };
        bot.needs_read = false;
        bot.covered |= live;
        let harness = bot.bot.harness;
        self.feed(now, agent, None, Input::StartRead { live, harness });
    }

    /// Gives a Bot's mirror one input and does what follows. With `life`, an answer for another mirror of the Bot is thrown away.
    pub(super) fn feed(&mut self, now: Now, agent: &AgentId, life: Option<u64>, input: Input) {
        let Some(bot) = self.bots.get_mut(agent).filter(|bot| life.is_none_or(|life| life == bot.life)) else { return };
        if matches!(input, Input::Rows { .. }) {
            bot.touched = now.mono;
        }
        let Some(mirror) = bot.mirror.as_mut() else { return };
        let effects = mirror.apply(now, input);
        if effects.is_empty() {
            // As with nearly every row: nothing follows before it has been quiet for a second.
            bot.look_after(now, agent, &mut self.timers);
            return;
        }
        for effect in effects {
            self.effect(now, agent, effect);
        }
        self.after_change(now, agent);
    }

    fn effect(&mut self, now: Now, agent: &AgentId, effect: Effect) {
        let Some(bot) = self.bots.get_mut(agent) else { return };
        let record = &bot.record;
        match effect {
            Effect::ReadPage(query) => self.queue_page(agent.clone(), query),
            Effect::ReadDone => {
                bot.page_backoff.reset();
                bot.stall_backoff.reset();
            }
            Effect::ReadStalled => {
                bot.needs_read = true;
                let wait = bot.stall_backoff.next(None, fastrand::f64());
                // Then the whole of it begins again.
                bot.load_at = Some(now.mono.after(wait));
                tracing::warn!(agent = %agent, ?wait, "the pages of a full read disagree; it waits");
            }
            Effect::Fetch(query) => {
                self.bodies.ask(Fetch { agent: agent.clone(), life: bot.life, query, tries: 0 });
            }
            Effect::Commit(batch) => self.owe(agent, batch),
            Effect::Opened { generation, messages, head } => self.publisher.opened(record, generation, messages, head),
            Effect::Appended { messages, head } => self.publisher.append(record, messages, head),
            Effect::Inserted(messages) => self.publisher.insert(record, messages),
            Effect::Reset { generation } => {
                tracing::info!(agent = %agent, generation, "the history was reset");
                self.publisher.reset(record, Some(generation));
            }
            Effect::Activity(notice) => {
                let notice = ActivityNotice { activity: notice.activity, failure: notice.failure };
                self.publisher.activity(record, notice);
            }
            Effect::Lost { seq } => {
                self.lost += 1;
                tracing::warn!(agent = %agent, seq, "the body of a row couldn't be fetched in time");
            }
            Effect::Skipped(malformed) => self.skip(now, &malformed, 1),
        }
    }

    /// See [`BotState::look_after`].
    pub(super) fn after_change(&mut self, now: Now, agent: &AgentId) {
        if let Some(bot) = self.bots.get_mut(agent) {
            bot.look_after(now, agent, &mut self.timers);
        }
    }

    pub(super) fn due_bots(&mut self, now: Now) {
        // Each Bot once: one whose deadline stays in the past waits for the next turn.
        let due: Vec<AgentId> =
            self.timers.iter().take_while(|(at, _)| *at <= now.mono).map(|(_, agent)| agent.clone()).collect();
        for agent in due {
            self.feed(now, &agent, None, Input::Tick);
            let waiting = |bot: &&mut BotState| bot.load_at.is_some_and(|at| now.mono >= at);
            let Some(bot) = self.bots.get_mut(&agent).filter(waiting) else { continue };
            bot.load_at = None;
            if bot.mirror.is_none() {
                self.load(agent.clone());
            } else {
                let live = self.link.live();
                self.start_read(now, &agent, live);
            }
            self.after_change(now, &agent);
        }
        self.release_reads(now);
        self.pump_pages();
        self.pump_fetches();
    }

    /// Sends what may be sent.
    pub(super) fn pump_posts(&mut self, now: Now, agent: &AgentId) {
        let (active, signed_in) = (self.active(), self.signed_in());
        let Some(bot) = self.bots.get_mut(agent) else { return };
        if !active {
            // While it is asked whose sign-in this is they wait: it may well be the same account's.
            if !signed_in {
                bot.posts.drop_queued(Failure::SignedOut);
            }
            return;
        }
        let Some(mirror) = bot.mirror.as_ref() else { return };
        while let Some(Next::Send(id)) = bot.posts.next(mirror) {
            if let Some(post) = bot.posts.get(id) {
                let job = Services::send(self.services.clone(), agent.clone(), bot.life, post.outgoing(), now.wall);
                self.jobs.spawn(job);
            }
        }
    }

    /// Bodies or records that couldn't be read: counted, logged once a kind and hour.
    pub(super) fn skip(&mut self, now: Now, malformed: &Malformed, times: usize) {
        self.skipped += times as u64;
        if self.once_an_hour(now.mono, format!("malformed/{}", malformed.kind)) {
            tracing::warn!(kind = %malformed.kind, reason = malformed.reason, "something unreadable is skipped");
        }
    }
}

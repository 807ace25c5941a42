//! The one stream of the account: when it opens, what its frames mean, what follows when it ends.

use std::collections::HashMap;
use std::time::Duration;

use oauth2::AccessToken;

use super::backoff::after_clean_end;
use super::job::{Failed, Opened, Services};
use super::{Watch, why};
use crate::mirror::Input;
use crate::model::{AgentId, Cursor, LiveState, Mono, Now};
use crate::upstream::{Error, ErrorKind, Frame, Frames, WatchRequest};

/// How long the stream waits for the first pages: one slow Bot holds up nobody.
const PREPARE: Duration = Duration::from_secs(3);
/// Cursors that one request may name (wire reference, section 5.1).
const CURSORS: usize = 256;
/// A stream without a frame of any kind for this long is broken (heartbeats come every 10 s; wire reference, section 5.3).
pub(super) const STALL: Duration = Duration::from_mins(1);
/// A stream that lived this long was a good run.
const GOOD_RUN: Duration = Duration::from_secs(10);

/// The stream's state.
#[derive(Debug)]
pub(super) enum Link {
    /// None; the next one is prepared at `at`.
    Down { at: Mono },
    /// Full reads have begun; it opens when their first pages are in, at `until` at the latest.
    Preparing { until: Mono },
    /// The request is out, naming these Bots.
    Opening { number: u64 },
    /// Open.
    Up(Up),
    /// Its token was refused in mid-stream and is being renewed.
    Renewing,
}

#[derive(Debug)]
pub(super) struct Up {
    frames: Box<dyn Frames>,
    token: AccessToken,
    opened: Mono,
    last_frame: Now,
    /// The first frame came: from now on the stream is live.
    live: bool,
}

impl Up {
    /// How long nothing came, by the clock that says more: the monotonic one may stand still while the machine sleeps, and a service doesn't wait
    /// for the morning. A wall clock that was set forward looks the same and costs one stream.
    fn silence(&self, now: Now) -> Duration {
        now.mono.since(self.last_frame.mono).max(now.wall.since(self.last_frame.wall))
    }
}

impl Link {
    /// The next frames; never, while no stream is open.
    pub(super) async fn frames(&mut self) -> Result<Option<Vec<Frame>>, Error> {
        match self {
            Self::Up(up) => up.frames.next().await,
            _ => std::future::pending().await,
        }
    }

    pub(super) fn deadline(&self) -> Option<Mono> {
        match self {
            // Whether it may open at all is looked at with each event; `at` only matters while it lies ahead.
            Self::Down { at } => Some(*at).filter(|at| *at != Mono::default()),
            Self::Preparing { until } => Some(*until),
            Self::Up(up) => Some(up.last_frame.mono.after(STALL)),
            Self::Opening { .. } | Self::Renewing => None,
        }
    }

    pub(super) fn live(&self) -> bool {
        matches!(self, Self::Up(up) if up.live)
    }
}

impl Watch {
    /// Opens what may open, ends what is silent.
    pub(super) fn due_link(&mut self, now: Now) {
        match &self.link {
            Link::Down { at } if self.active() && self.listed && now.mono >= *at => self.prepare(now),
            // Reached but not usable now: an event will say when it is.
            Link::Down { at } if now.mono >= *at => self.link = Link::Down { at: Mono::default() },
            Link::Preparing { until } if now.mono >= *until || self.first_pages_in() => self.open_stream(),
            Link::Up(up) if up.silence(now) >= STALL => {
                self.trouble.stream.get_or_insert(now.wall.before(up.silence(now)));
                let error = Error { kind: ErrorKind::Broken, detail: "no frame for a minute".to_owned() };
                self.stream_ended(now, Err(error));
            }
            _ => {}
        }
        if matches!(self.link, Link::Preparing { .. }) && self.first_pages_in() {
            self.open_stream();
        }
    }

    fn prepare(&mut self, now: Now) {
        self.link = Link::Preparing { until: now.mono.after(PREPARE) };
        let agents: Vec<AgentId> =
            self.bots.values().filter(|bot| bot.needs_read).map(|bot| bot.bot.agent_id.clone()).collect();
        for agent in agents {
            self.start_read(now, &agent, false);
        }
    }

    fn first_pages_in(&self) -> bool {
        self.bots
            .values()
            .all(|bot| bot.mirror.as_ref().is_some_and(crate::mirror::Mirror::first_page_in) && !bot.needs_read)
    }

    fn open_stream(&mut self) {
        let mut cursors: Vec<(Mono, AgentId, Cursor)> = Vec::new();
        for (agent, bot) in &mut self.bots {
            bot.covered = false;
            if let Some(cursor) =
                bot.mirror.as_mut().filter(|_| !bot.needs_read).and_then(crate::mirror::Mirror::resume)
            {
                cursors.push((bot.touched, agent.clone(), cursor));
            }
        }
        // The most recently touched are named; the rest are admitted live and read in full.
        cursors.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        cursors.truncate(CURSORS);
        for (_, agent, _) in &cursors {
            if let Some(bot) = self.bots.get_mut(agent) {
                bot.covered = true;
            }
        }
        self.streams += 1;
        self.link = Link::Opening { number: self.streams };
        let request = WatchRequest { cursors: cursors.into_iter().map(|(_, agent, cursor)| (agent, cursor)).collect() };
        self.jobs.spawn(Services::open(self.services.clone(), self.streams, request));
    }

    pub(super) fn opened(&mut self, now: Now, number: u64, opened: Result<Opened, Failed>) {
        if !matches!(self.link, Link::Opening { number: current } if current == number) {
            // Stopped meanwhile: the stream that came is dropped.
            return;
        }
        match opened {
            Ok(Opened { frames, token }) => {
                let up = Up { frames, token, opened: now.mono, last_frame: now, live: false };
                self.link = Link::Up(up);
            }
            Err(error) => self.stream_failed(now, &error),
        }
    }

    pub(super) fn frames(&mut self, now: Now, frames: Result<Option<Vec<Frame>>, Error>) {
        match frames {
            Ok(Some(frames)) => {
                let first = match &mut self.link {
                    Link::Up(up) => {
                        up.last_frame = now;
                        !std::mem::replace(&mut up.live, true)
                    }
                    _ => return,
                };
                self.last_frame = Some(now.wall);
                if first {
                    self.stream_live(now);
                }
                for frame in frames {
                    self.apply_frame(now, frame);
                }
            }
            Ok(None) => self.stream_ended(now, Ok(())),
            Err(error) => self.stream_ended(now, Err(error)),
        }
    }

    /// The stream is up: a Bot that no cursor names gets live rows from now on and is read in full.
    fn stream_live(&mut self, now: Now) {
        self.trouble.stream = None;
        let uncovered: Vec<AgentId> =
            self.bots.iter().filter(|(_, bot)| !bot.covered).map(|(agent, _)| agent.clone()).collect();
        for agent in uncovered {
            self.start_read(now, &agent, true);
        }
    }

    fn apply_frame(&mut self, now: Now, frame: Frame) {
        match frame {
            Frame::Connected { server_time, lifetime } => {
                if let Some(server) = server_time {
                    self.clock_skew_ms = Some(server.0.saturating_sub(now.wall.0));
                }
                tracing::debug!(?lifetime, "the stream is up");
            }
            Frame::Rows { agent_id, generation, rows, deletes, malformed } => {
                for (malformed, times) in malformed.iter() {
                    self.skip(now, malformed, *times);
                }
                self.feed(now, &agent_id, None, Input::Rows { generation, rows, deletes });
            }
            Frame::Cleared { agent_id, generation } => self.feed(now, &agent_id, None, Input::Cleared { generation }),
            Frame::CursorTooOld { agent_id, generation } => {
                tracing::info!(agent = %agent_id, "the service refused a cursor; the Bot is read in full");
                self.feed(now, &agent_id, None, Input::CursorTooOld { generation });
            }
            Frame::AgentState { snapshot, live } => self.live_states(now, snapshot, live),
            Frame::TurnFailed { agent_id, failure } => {
                tracing::warn!(agent = %agent_id, code = %failure.code, "a turn failed");
                self.feed(now, &agent_id, None, Input::TurnFailed(failure));
            }
            Frame::RosterChanged => self.list_bots(now),
            Frame::Heartbeat | Frame::Other { unknown: false, .. } => {}
            Frame::Other { kind, unknown: true } => {
                self.skipped += 1;
                if self.once_an_hour(now.mono, format!("frame/{kind}")) {
                    tracing::warn!(%kind, "a frame of a kind never heard of is skipped");
                }
            }
            Frame::Malformed(malformed) => self.skip(now, &malformed, 1),
        }
    }

    fn live_states(&mut self, now: Now, snapshot: bool, live: Vec<(AgentId, LiveState)>) {
        if snapshot {
            // Complete: a Bot that it doesn't list is idle.
            let states: HashMap<AgentId, LiveState> = live.into_iter().collect();
            for agent in self.agents() {
                let state = states.get(&agent).cloned();
                self.feed(now, &agent, None, Input::Live { state, snapshot: true });
            }
            self.live = Some(states);
        } else {
            for (agent, state) in live {
                if let Some(states) = &mut self.live {
                    states.insert(agent.clone(), state.clone());
                }
                self.feed(now, &agent, None, Input::Live { state: Some(state), snapshot: false });
            }
        }
    }

    /// The open stream ended: cleanly, or broken, refused, silent.
    fn stream_ended(&mut self, now: Now, end: Result<(), Error>) {
        let Link::Up(up) = std::mem::replace(&mut self.link, Link::Down { at: now.mono }) else { return };
        let good = up.live && now.mono.since(up.opened) >= GOOD_RUN;
        self.lose_stream(now);
        if good {
            self.link_backoff.reset();
        }
        match end {
            Ok(()) if good => self.link = Link::Down { at: now.mono.after(after_clean_end(fastrand::f64())) },
            // A clean end this soon would come again and again.
            Ok(()) => self.wait_after(now, None, "the stream ended cleanly, but too soon"),
            Err(Error { kind: ErrorKind::Auth, .. }) => {
                self.link = Link::Renewing;
                self.jobs.spawn(Services::renew(self.services.clone(), up.token));
            }
            Err(error) => self.stream_failed(now, &Failed::Call(error)),
        }
    }

    pub(super) fn renewed(&mut self, now: Now, renewed: Result<(), Failed>) {
        if !matches!(self.link, Link::Renewing) {
            return;
        }
        match renewed {
            // Counted as a failure: a service that refused every token would be asked without end.
            Ok(()) => self.wait_after(now, None, "the stream's token was renewed"),
            Err(error) => self.stream_failed(now, &error),
        }
    }

    fn stream_failed(&mut self, now: Now, error: &Failed) {
        self.trouble.stream.get_or_insert(now.wall);
        self.trouble.last = Some(format!("stream: {}", why(error)));
        if matches!(error, Failed::SignedOut) {
            self.roster_at = now.mono;
        }
        self.wait_after(now, error.retry_after(), &why(error));
    }

    fn wait_after(&mut self, now: Now, retry_after: Option<Duration>, cause: &str) {
        let wait = self.link_backoff.next(retry_after, fastrand::f64());
        self.link = Link::Down { at: now.mono.after(wait) };
        if self.once_an_hour(now.mono, format!("stream/{cause}")) {
            tracing::warn!(cause, ?wait, "the stream is opened again");
        }
    }

    /// What a lost stream means for every Bot: its activity goes, and it is read in full before the next one.
    pub(super) fn lose_stream(&mut self, now: Now) {
        self.live = None;
        for agent in self.agents() {
            if let Some(bot) = self.bots.get_mut(&agent) {
                // A read from before the stream goes on where its first page is in: up to its C it brings everything, and the next stream
                // resumes from no more than that.
                let goes_on = bot
                    .mirror
                    .as_ref()
                    .is_some_and(|mirror| mirror.reading() && !mirror.reading_live() && mirror.first_page_in());
                bot.needs_read |= !goes_on;
                bot.covered = false;
            }
            self.feed(now, &agent, None, Input::StreamLost);
        }
    }
}

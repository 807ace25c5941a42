//! Who is signed in, whose Bots these are, and which Bots there are.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::backoff::Backoff;
use super::job::{Failed, Services};
use super::posts::Posts;
use super::stream::Link;
use super::{BotState, ROSTER_EVERY, ROSTER_SPACING, Trouble, Watch, texts, why};
use crate::auth::Standing;
use crate::model::{Account, AgentId, Bot, Now, Wall};
use crate::records::{Failure, RecordInfo, SignInState, Status, Withdrawal, record_id};
use crate::upstream::{Me, Roster};

impl Watch {
    /// Reads the sign-in anew and lists the Bots: every 30 s, after a sign-in or sign-out, and on `rosterChanged`.
    pub(super) fn check_sign_in(&mut self, now: Now) {
        self.roster_at = now.mono.after(ROSTER_EVERY);
        let standing = self.services.sign_in.standing();
        match &standing {
            Standing::SignedOut => {
                if self.account.is_some() || self.subject.is_some() {
                    self.leave_account(Withdrawal::SignedOut);
                    self.subject = None;
                }
            }
            Standing::SignInAgain { cause, .. } => {
                if !matches!(self.standing, Some(Standing::SignInAgain { .. })) {
                    tracing::warn!(%cause, "the sign-in has ended");
                    self.stop_link(now);
                    for bot in self.bots.values_mut() {
                        bot.posts.drop_all(Failure::SignedOut);
                    }
                }
            }
            Standing::SignedIn { subject, .. } => {
                if self.subject.as_ref() != Some(subject) {
                    // Whose it is isn't known before GetMe answered: nothing of the old account goes on with a token that may be another's.
                    self.subject = Some(subject.clone());
                    self.stop_link(now);
                    self.me_backoff.reset();
                    self.me_at = Some(now.mono);
                    self.identified = false;
                } else if self.identified {
                    self.list_bots(now);
                } else if !self.asking_me && self.me_at.is_none() {
                    // What was asked before the sign-in ended for a while was thrown away.
                    self.me_at = Some(now.mono);
                }
            }
        }
        self.standing = Some(standing);
    }

    pub(super) fn signed_in(&self) -> bool {
        matches!(self.standing, Some(Standing::SignedIn { .. }))
    }

    /// Whether posts and streams may go out: signed in, and as the account whose records these are.
    pub(super) fn active(&self) -> bool {
        self.signed_in() && self.identified && self.account.is_some()
    }

    pub(super) fn ask_me(&mut self) {
        self.me_at = None;
        // One that is under way is judged by its subject when it comes.
        if !self.asking_me && self.signed_in() {
            self.asking_me = true;
            let subject = self.subject.clone().unwrap_or_default();
            self.jobs.spawn(Services::me(self.services.clone(), subject));
        }
    }

    pub(super) fn me(&mut self, now: Now, asked: &str, me: Result<Me, Failed>) {
        self.asking_me = false;
        if !self.signed_in() || self.identified {
            return;
        }
        if self.subject.as_deref() != Some(asked) {
            // The sign-in changed while it was asked: this answer may be another's.
            self.me_at = Some(now.mono);
            return;
        }
        let me = match me {
            Ok(me) => me,
            Err(error) => {
                self.failed_call(now, &error, "GetMe");
                let wait = self.me_backoff.next(error.retry_after(), fastrand::f64());
                self.me_at = Some(now.mono.after(wait));
                return;
            }
        };
        let Some(Standing::SignedIn { subject, auth_id }) = &self.standing else { return };
        // Only a successful answer without a userId falls back to authId.
        let key = me.user_id.or(me.auth_id).or_else(|| auth_id.clone()).unwrap_or_else(|| subject.clone());
        let account = Account { digest: digest(&key), name: me.name.unwrap_or_else(|| "Grok 账号".to_owned()) };
        if self.account.as_ref().is_some_and(|old| old.digest != account.digest) {
            self.leave_account(Withdrawal::Account);
        }
        self.identified = true;
        self.me_backoff.reset();
        self.trouble.list = None;
        self.sign_in_note = None;
        if self.account.as_ref() != Some(&account) {
            self.account = Some(account);
            let bots: Vec<Bot> = self.bots.values().map(|state| state.bot.clone()).collect();
            for bot in bots {
                self.put(&bot);
            }
        }
        for agent in self.agents() {
            self.pump_posts(now, &agent);
        }
        self.list_bots(now);
    }

    /// Lists the Bots, or as soon as the list under way is in and a second has passed since it was asked for.
    pub(super) fn list_bots(&mut self, now: Now) {
        if self.listing {
            self.list_again = true;
            return;
        }
        if !self.active() {
            return;
        }
        self.list_again = false;
        if let Some(soonest) = self.listed_at.map(|at| at.after(ROSTER_SPACING)).filter(|soonest| now.mono < *soonest) {
            self.roster_at = self.roster_at.min(soonest);
            return;
        }
        self.listing = true;
        self.listed_at = Some(now.mono);
        self.jobs.spawn(Services::roster(self.services.clone(), self.subject.clone()));
    }

    pub(super) fn roster(&mut self, now: Now, asked: Option<&str>, roster: Result<Roster, Failed>) {
        self.listing = false;
        if !self.active() {
            return;
        }
        if self.subject.as_deref() != asked {
            // Asked as somebody else: these may be another account's Bots.
            self.list_bots(now);
            return;
        }
        if let Standing::SignedIn { subject, .. } = self.services.sign_in.standing()
            && self.subject.as_ref() != Some(&subject)
        {
            // Another process signed in since the file was read last, and the list may have been asked with its token.
            self.check_sign_in(now);
            return;
        }
        match roster {
            Ok(roster) => {
                self.trouble.list = None;
                self.list_backoff.reset();
                if roster.skipped > 0 && self.once_an_hour(now.mono, "roster".to_owned()) {
                    tracing::warn!(
                        skipped = roster.skipped,
                        "listed agents without an agentId, or unreadable, are left out"
                    );
                }
                if let Some(date) = roster.date {
                    self.clock_skew_ms = Some(date.0.saturating_sub(now.wall.0));
                    self.services.sign_in.heard_date(date);
                }
                self.listed = true;
                self.apply_roster(roster.bots);
            }
            Err(error) => {
                self.failed_call(now, &error, "ListGrokBotAgents");
                // Half a minute without the Bots is long where one answer got lost.
                let wait = self.list_backoff.next(error.retry_after(), fastrand::f64());
                self.roster_at = self.roster_at.min(now.mono.after(wait));
            }
        }
        if self.list_again {
            self.list_bots(now);
        }
    }

    /// A complete list: new Bots come, missing ones go, names and harnesses change.
    fn apply_roster(&mut self, bots: Vec<Bot>) {
        let listed: HashSet<&AgentId> = bots.iter().map(|bot| &bot.agent_id).collect();
        for gone in self.agents().iter().filter(|agent| !listed.contains(agent)) {
            self.drop_bot(gone, Withdrawal::Deleted);
        }
        for bot in bots {
            match self.bots.get_mut(&bot.agent_id) {
                Some(state) => {
                    let renamed = state.bot.name != bot.name;
                    // A changed harness counts from the Bot's next full read.
                    state.bot = bot.clone();
                    if renamed {
                        self.put(&bot);
                    }
                }
                None => self.add_bot(bot),
            }
        }
    }

    fn put(&self, bot: &Bot) {
        if let Some(account) = &self.account {
            self.publisher.put(RecordInfo {
                id: record_id(account, &bot.agent_id),
                bot: bot.clone(),
                account: account.clone(),
            });
        }
    }

    fn add_bot(&mut self, bot: Bot) {
        let Some(account) = &self.account else { return };
        self.put(&bot);
        self.lives += 1;
        let state = BotState {
            record: record_id(account, &bot.agent_id),
            life: self.lives,
            mirror: None,
            load_at: None,
            covered: false,
            needs_read: true,
            touched: crate::model::Mono::default(),
            timer: None,
            read: 0,
            paging: None,
            page_backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(1)),
            stall_backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(1)),
            posts: Posts::default(),
            bot,
        };
        let agent = state.bot.agent_id.clone();
        self.bots.insert(agent.clone(), state);
        self.load(agent);
    }

    pub(super) fn drop_bot(&mut self, agent: &AgentId, reason: Withdrawal) {
        let Some(mut state) = self.bots.remove(agent) else { return };
        state.posts.drop_all(Failure::NotSent);
        if let Some(timer) = state.timer {
            self.timers.remove(&(timer, agent.clone()));
        }
        self.publisher.withdraw(&state.record, reason);
        self.disk_passed();
    }

    /// A failed call of the sign-in or the roster: what it says of the state.
    pub(super) fn failed_call(&mut self, now: Now, error: &Failed, call: &'static str) {
        if matches!(error, Failed::SignedOut) {
            // The file says more than this answer: it is read anew.
            self.roster_at = now.mono.after(Duration::from_secs(1)).min(self.roster_at);
            let standing = self.services.sign_in.standing();
            if Some(&standing) != self.standing.as_ref() {
                self.roster_at = now.mono;
            }
            return;
        }
        self.trouble.list.get_or_insert(now.wall);
        self.trouble.last = Some(format!("{call}: {}", why(error)));
        if self.once_an_hour(now.mono, format!("{call}/{error}")) {
            tracing::warn!(%error, call, "a call failed; it is tried again");
        }
    }

    /// Tells hosts where the sign-in stands, when that changed.
    pub(super) fn publish_status(&mut self) {
        let (state, message) = self.current_state();
        let told = self
            .status
            .as_ref()
            .is_some_and(|told| (&told.state, &told.message, &told.account) == (&state, &message, &self.account));
        if !told {
            let status = Status { state, account: self.account.clone(), message };
            self.status = Some(status.clone());
            self.publisher.status(status);
        }
    }

    /// Asked after every event: it copies nothing where all is well.
    fn current_state(&self) -> (SignInState, Option<String>) {
        if let Some(pending) = &self.attempt {
            let state =
                SignInState::Confirming { url: pending.attempt.url.clone(), expires_at: pending.attempt.expires_at };
            return (state, Some(texts::CONFIRMING.to_owned()));
        }
        let note = self.sign_in_note.map(str::to_owned);
        match &self.standing {
            None | Some(Standing::SignedOut) => (SignInState::SignedOut, note),
            Some(Standing::SignInAgain { .. }) => {
                (SignInState::SignInAgain, note.or_else(|| Some(texts::SIGN_IN_AGAIN.to_owned())))
            }
            Some(Standing::SignedIn { .. }) => (SignInState::SignedIn, self.problem()),
        }
    }

    /// What is wrong while signed in, in one sentence; the disk first, because only a person can mend it.
    fn problem(&self) -> Option<String> {
        let Trouble { list, stream, disk, set_aside, .. } = &self.trouble;
        let since: Option<Wall> = [*list, *stream].into_iter().flatten().min();
        match (disk, since) {
            (Some(since), _) => Some(texts::disk(*since)),
            (None, Some(since)) if self.account.is_none() => Some(texts::no_account(since)),
            (None, Some(since)) => Some(texts::unreachable(since)),
            (None, None) if *set_aside => Some(texts::SET_ASIDE.to_owned()),
            (None, None) => None,
        }
    }

    /// No stream while nobody is (surely) signed in; activities go with it.
    pub(super) fn stop_link(&mut self, now: Now) {
        self.lose_stream(now);
        self.link = Link::Down { at: now.mono };
    }
}

/// Lower-case hex SHA-256.
fn digest(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

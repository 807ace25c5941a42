//! What hosts ask for: posts, the sign-in, facts for `doctor`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::job::{Done, Failed, Sent};
use super::posts::{Next, What, choice};
use super::{Pending, Watch, answer, texts};
use crate::auth::SignInError;
use crate::model::{AgentId, Now, RecordId};
use crate::records::{BotDiagnosis, Command, Diagnosis, Failure, Link, Outcome, ReplyTarget, Withdrawal};
use crate::upstream::{ErrorKind, SendStatus};

impl Watch {
    pub(super) fn command(&mut self, now: Now, command: Command) {
        match command {
            Command::Post { record, message_id, text, reply_to, settle } => {
                self.post(now, &record, message_id, text, reply_to, settle);
            }
            Command::SignIn(reply) => {
                let link = self.begin_sign_in();
                answer(reply, link);
            }
            Command::CancelSignIn(reply) => {
                self.cancel_attempt();
                answer(reply, ());
            }
            Command::SignOut(reply) => {
                self.cancel_attempt();
                let done = self.services.sign_in.sign_out();
                if let Err(error) = &done {
                    tracing::error!(%error, "signing out failed");
                } else {
                    self.leave_account(Withdrawal::SignedOut);
                    self.subject = None;
                    self.sign_in_note = None;
                }
                self.check_sign_in(now);
                answer(reply, done.map_err(|_| texts::SIGN_OUT_FAILED.to_owned()));
            }
            Command::Diagnose(reply) => answer(reply, self.diagnosis()),
            // Taken by the loop itself.
            Command::Shutdown(reply) => answer(reply, ()),
        }
    }

    fn post(
        &mut self,
        now: Now,
        record: &RecordId,
        message_id: uuid::Uuid,
        text: Arc<str>,
        reply_to: Option<ReplyTarget>,
        settle: oneshot::Sender<Outcome>,
    ) {
        let refuse = |settle, failure| answer(settle, Outcome::Failed(failure));
        if !self.active() {
            let failure = if self.signed_in() { Failure::NotSent } else { Failure::SignedOut };
            return refuse(settle, failure);
        }
        let Some(agent) = self.bots.values().find(|bot| bot.record == *record).map(|bot| bot.bot.agent_id.clone())
        else {
            // Withdrawn between the host's look and now.
            return refuse(settle, Failure::NotSent);
        };
        let Some(bot) = self.bots.get_mut(&agent) else { return };
        if bot.load_at.is_some() && bot.mirror.is_none() {
            // The index can't be read: its echo couldn't be shown.
            return refuse(settle, Failure::NotSent);
        }
        let what = match (bot.posts.answering(message_id), bot.mirror.as_ref(), reply_to) {
            (Some(same), ..) => same,
            (None, Some(mirror), Some(target)) => match choice(mirror, &target.entry, &text) {
                Err(failure) => return refuse(settle, failure),
                Ok(Some(value)) => What::Widget { entry: target.entry, value },
                Ok(None) => What::Message { text, reply_to: Some(target.entry) },
            },
            (None, _, target) => What::Message { text, reply_to: target.map(|target| target.entry) },
        };
        bot.posts.push(message_id, what, settle, now.mono);
        self.pump_posts(now, &agent);
        self.after_change(now, &agent);
    }

    pub(super) fn sent(&mut self, now: Now, agent: &AgentId, life: u64, post: u64, outcome: &Result<Sent, Failed>) {
        let Some(bot) = self.bots.get_mut(agent).filter(|bot| bot.life == life) else { return };
        if let Err(error) = outcome {
            tracing::warn!(%agent, %error, "a post wasn't simply accepted");
        }
        let answered = match outcome {
            Err(Failed::Call(error)) => !matches!(error.kind, ErrorKind::Broken),
            _ => false,
        };
        if let Some(Next::AskStatus(id)) = bot.posts.sent(post, outcome, bot.mirror.as_ref(), now.mono)
            && let Some(post) = bot.posts.get(id)
        {
            let message_id = post.message_id.to_string();
            let job =
                super::Services::send_status(self.services.clone(), agent.clone(), life, id, message_id, answered);
            self.jobs.spawn(job);
        }
        if matches!(outcome, Err(Failed::SignedOut)) {
            self.roster_at = now.mono;
        }
        self.pump_posts(now, agent);
        self.after_change(now, agent);
    }

    pub(super) fn send_status(
        &mut self,
        now: Now,
        agent: &AgentId,
        life: u64,
        post: u64,
        answered: bool,
        status: Option<SendStatus>,
    ) {
        let Some(bot) = self.bots.get_mut(agent).filter(|bot| bot.life == life) else { return };
        if let Some(mirror) = bot.mirror.as_ref() {
            bot.posts.status(post, status, answered, mirror);
        }
        self.after_change(now, agent);
    }

    fn begin_sign_in(&mut self) -> Result<Link, String> {
        if let Some(pending) = &self.attempt
            && pending.attempt.expires_at > (self.wall)()
        {
            let attempt = &pending.attempt;
            return Ok(Link { url: attempt.url.clone(), expires_at: attempt.expires_at });
        }
        self.cancel_attempt();
        let attempt = self.services.sign_in.begin().map_err(|error| {
            tracing::error!(%error, "a sign-in can't begin");
            texts::SIGN_IN_STORE.to_owned()
        })?;
        self.attempts += 1;
        let number = self.attempts;
        let redeem = self.services.sign_in.redeem(&attempt);
        let abort = self.jobs.spawn(async move { Done::Redeemed { attempt: number, result: redeem.await } });
        let link = Link { url: attempt.url.clone(), expires_at: attempt.expires_at };
        self.attempt = Some(Pending { number, attempt, abort });
        self.sign_in_note = None;
        Ok(link)
    }

    /// Gives a pending sign-in up. Dropping its poll stores nothing.
    fn cancel_attempt(&mut self) {
        if let Some(pending) = self.attempt.take() {
            pending.abort.abort();
        }
    }

    pub(super) fn redeemed(&mut self, now: Now, number: u64, result: Result<(), SignInError>) {
        if self.attempt.as_ref().is_none_or(|pending| pending.number != number) {
            return;
        }
        self.attempt = None;
        match result {
            Ok(()) => {
                self.sign_in_note = None;
                // GetMe is asked after every sign-in, also of the same account.
                self.subject = None;
                self.check_sign_in(now);
            }
            Err(error) => {
                tracing::warn!(%error, "the sign-in didn't come about");
                self.sign_in_note = Some(match error {
                    SignInError::Policy => texts::SIGN_IN_POLICY,
                    // A sign-out by another process while the link was open ends here, too.
                    SignInError::Superseded | SignInError::Expired => texts::SIGN_IN_EXPIRED,
                    SignInError::Refused(_) => texts::SIGN_IN_REFUSED,
                    SignInError::Store(_) => texts::SIGN_IN_STORE,
                });
            }
        }
    }

    fn diagnosis(&self) -> Diagnosis {
        let mut bots: Vec<BotDiagnosis> = self
            .bots
            .values()
            .map(|bot| BotDiagnosis {
                record: bot.record.clone(),
                generation: bot.mirror.as_ref().and_then(crate::mirror::Mirror::generation),
                head: bot.mirror.as_ref().and_then(crate::mirror::Mirror::head),
                messages: self.publisher.messages(&bot.record),
                ready: bot.mirror.as_ref().is_some_and(crate::mirror::Mirror::ready),
            })
            .collect();
        bots.sort_by(|a, b| a.record.cmp(&b.record));
        Diagnosis {
            listed: self.listed,
            bots,
            connected: self.link.live(),
            last_frame: self.last_frame,
            reconnects: self.streams.saturating_sub(1),
            skipped: self.skipped,
            lost: self.lost,
            clock_skew_ms: self.clock_skew_ms,
            problem: self.trouble.last.clone(),
        }
    }
}

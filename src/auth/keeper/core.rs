//! The file, the endpoints and what this process remembers of them: what a caller gets, and one renewal from its question to the file.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oauth2::{AccessToken, RefreshToken};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

use super::WallClock;
use crate::auth::convert::{self, Grant, Renewal};
use crate::auth::endpoint::Endpoint;
use crate::auth::file::{Credentials, FileError, Saved, Store};
use crate::auth::jwt::{self, Claims};
use crate::auth::renew::{self, Fingerprint, Held, Ledger, Renewed, Verdict};
use crate::auth::{SignInError, Standing, TokenError};
use crate::config::Address;
use crate::model::{Mono, Wall};

/// How long a renewal waits for another process's: longer than one request may take.
const RENEWAL_LOCK_WAIT: Duration = Duration::from_secs(30);
/// How often a renewal starts over because the file changed meanwhile.
const ROUNDS: usize = 3;
/// A token refused before this age was refused fresh.
const FRESH: Duration = Duration::from_hours(1);

/// Why a token is asked for.
#[derive(Clone)]
pub(super) enum Why {
    /// For use; renewed only where it is due.
    Due,
    /// The service answered 401 to this one.
    Rejected(AccessToken),
}

/// What to do for a caller.
pub(super) enum Check {
    /// This token will do.
    Use(AccessToken),
    /// Renew; the stand-in will do meanwhile.
    Renew { stand_in: Option<AccessToken>, credentials: Credentials, refresh: RefreshToken },
}

pub(super) struct Core {
    pub(super) store: Store,
    pub(super) website: Address,
    pub(super) endpoint: Arc<dyn Endpoint>,
    pub(super) wall: WallClock,
    started: Instant,
    pub(super) state: Mutex<State>,
    /// The uuid of the sign-in that may be stored. Locked while it is.
    pub(super) attempt: Mutex<watch::Sender<Option<String>>>,
    pub(super) get_only: AtomicBool,
}

/// What this process remembers.
#[derive(Default)]
pub(super) struct State {
    /// How many milliseconds the service's clock is ahead of ours. Where ours is set right later, this makes one renewal too many, whose answer sets
    /// it right.
    ahead: Option<i64>,
    pub(super) obtained: Option<Obtained>,
    ledger: Ledger,
    /// A renewal that couldn't be written.
    pub(super) unsaved: Option<Unsaved>,
    /// What was said last, for a moment in which the file can't be read.
    last: Option<Standing>,
    /// Whose tokens they were when the file could be read last.
    subject: Option<String>,
}

/// A token that this process obtained.
pub(super) struct Obtained {
    access: Fingerprint,
    at: Mono,
    /// The same moment by the wall clock, which goes on while the machine sleeps; the monotonic one may not.
    wall: Wall,
    /// How long the token lives, by its claims, else by the service's clock.
    life: Option<Duration>,
    /// How many tokens in a row, up to this one, replaced one that was refused fresh.
    refused_before: u32,
}

pub(super) struct Unsaved {
    began: Fingerprint,
    renewed: Renewed,
}

impl Core {
    pub(super) fn new(folder: &Path, website: Address, endpoint: Arc<dyn Endpoint>, wall: WallClock) -> Self {
        Self {
            store: Store::new(folder),
            website,
            endpoint,
            wall,
            started: Instant::now(),
            state: Mutex::default(),
            attempt: Mutex::new(watch::Sender::new(None)),
            get_only: AtomicBool::new(false),
        }
    }

    fn mono(&self) -> Mono {
        Mono(self.started.elapsed())
    }

    /// The service's clock as far as it is known.
    fn now(&self, state: &State) -> Wall {
        Wall((self.wall)().0.saturating_add(state.ahead.unwrap_or(0)))
    }

    pub(super) fn heard_date(&self, date: Option<Wall>) {
        if let Some(date) = date {
            lock(&self.state).ahead = Some(date.0.saturating_sub((self.wall)().0));
        }
    }

    /// What the file says, and over it a renewal that couldn't be written.
    fn view(&self) -> Result<Option<Credentials>, FileError> {
        let read = self.store.load()?;
        let mut state = lock(&self.state);
        let Some(mut credentials) = read else {
            state.unsaved = None;
            return Ok(None);
        };
        match &state.unsaved {
            Some(unsaved) if credentials.refresh_mark() == Some(unsaved.began) => credentials.apply(&unsaved.renewed),
            _ => state.unsaved = None,
        }
        Ok(Some(credentials))
    }

    /// Writes a renewal that couldn't be written before.
    pub(super) fn flush(&self) {
        let mut state = lock(&self.state);
        if let Some(unsaved) = &state.unsaved {
            match self.store.save_renewed(unsaved.began, &unsaved.renewed) {
                Ok(_) => state.unsaved = None,
                Err(error) => tracing::debug!(%error, "the renewed sign-in still can't be written"),
            }
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let view = self.view();
        let mut state = lock(&self.state);
        let standing = match view {
            Ok(None) => Standing::SignedOut,
            Ok(Some(credentials)) => {
                let claims = jwt::claims(credentials.access.secret());
                let subject = subject(&credentials, &claims);
                state.subject = Some(subject.clone());
                // Without a refresh token it is the access token itself that was refused.
                let mark = credentials.refresh_mark().unwrap_or_else(|| Fingerprint::of(credentials.access.secret()));
                match state.ledger.dead(mark).map(str::to_owned) {
                    Some(cause) => Standing::SignInAgain { cause, subject: Some(subject) },
                    None => Standing::SignedIn { subject, auth_id: credentials.auth_id },
                }
            }
            Err(FileError::Unusable(cause)) => Standing::SignInAgain { cause, subject: state.subject.clone() },
            Err(FileError::Passing(error)) => {
                tracing::warn!(%error, "can't read the sign-in file just now");
                let cause = error.to_string();
                state.last.clone().unwrap_or(Standing::SignInAgain { cause, subject: None })
            }
        };
        state.last = Some(standing.clone());
        standing
    }

    /// What to do for a caller, by the file as it is now.
    pub(super) fn check(&self, why: &Why) -> Result<Check, TokenError> {
        let credentials = match self.view() {
            Ok(Some(credentials)) => credentials,
            Ok(None) => return Err(TokenError::SignedOut),
            Err(FileError::Unusable(cause)) => return Err(TokenError::SignInAgain(cause)),
            Err(FileError::Passing(error)) => return Err(transient(error.to_string(), None)),
        };
        let claims = jwt::claims(credentials.access.secret());
        let access = Fingerprint::of(credentials.access.secret());
        let rejected = matches!(why, Why::Rejected(token) if Fingerprint::of(token.secret()) == access);
        let mut state = lock(&self.state);
        let now = self.now(&state);
        let stand_in = (!rejected && !renew::has_ended(&claims, now)).then(|| credentials.access.clone());
        let Some(refresh) = credentials.refresh.clone() else {
            // Only the service's word ends it: a clock of ours may be wrong, and there is nothing to renew with.
            if !rejected {
                return Ok(Check::Use(credentials.access));
            }
            let cause = "the service refused the token, and there is no refresh token";
            state.ledger.bury(access, cause);
            return Err(TokenError::SignInAgain(cause.to_owned()));
        };
        let verdict = state.ledger.verdict(Fingerprint::of(refresh.secret()), stand_in.is_some(), self.mono());
        if let Verdict::Dead(cause) = verdict {
            return Err(TokenError::SignInAgain(cause));
        }
        if !rejected && !renew::is_due(&claims, now, self.held(&state, &credentials, &claims)) {
            return Ok(Check::Use(credentials.access));
        }
        if let Verdict::Wait { left, detail } = verdict {
            return stand_in.map(Check::Use).ok_or_else(|| transient(detail, Some(left)));
        }
        if rejected {
            // A service that refuses what it has just given would have us renew for ever.
            let left = self.refused_too_soon(&state, &credentials, &claims);
            if !left.is_zero() {
                return Err(transient("the service refuses a token that it has just given".to_owned(), Some(left)));
            }
        }
        Ok(Check::Renew { stand_in, credentials, refresh })
    }

    /// How long a refused token must still be borne before another one is asked for. The first one that is refused fresh is replaced at once (a
    /// session can be revoked at any moment), those that replaced it ever more slowly, and one that another process has just obtained after the first
    /// such wait, or two processes would renew in turn.
    fn refused_too_soon(&self, state: &State, credentials: &Credentials, claims: &Claims) -> Duration {
        let access = Fingerprint::of(credentials.access.secret());
        match state.obtained.as_ref().filter(|obtained| obtained.access == access) {
            Some(obtained) if obtained.refused_before == 0 || !obtained.is_fresh(self.mono()) => Duration::ZERO,
            Some(obtained) => renew::backoff(obtained.refused_before).saturating_sub(self.mono().since(obtained.at)),
            None => self
                .held(state, credentials, claims)
                .map_or(Duration::ZERO, |held| renew::backoff(1).saturating_sub(held.age)),
        }
    }

    /// What is known of the stored token, if we obtained it or another process of ours did. Two readings of one clock tell the time between them,
    /// however wrong it is; one that was set back meanwhile tells nothing.
    fn held(&self, state: &State, credentials: &Credentials, claims: &Claims) -> Option<Held> {
        let since = |wall: Wall| u64::try_from((self.wall)().0.saturating_sub(wall.0)).ok().map(Duration::from_millis);
        let access = Fingerprint::of(credentials.access.secret());
        if let Some(obtained) = state.obtained.as_ref().filter(|obtained| obtained.access == access) {
            let age = self.mono().since(obtained.at).max(since(obtained.wall).unwrap_or_default());
            return Some(Held { age, life: obtained.life });
        }
        Some(Held { age: since(credentials.obtained_at?)?, life: renew::life(claims) })
    }

    /// One renewal, under the lock between processes.
    pub(super) async fn renew(&self, why: &Why) -> Result<AccessToken, TokenError> {
        let waited = self.store.renewal_lock(RENEWAL_LOCK_WAIT).await;
        let _lock = waited.map_err(|error| transient(error.to_string(), None))?;
        for _ in 0..ROUNDS {
            // Read anew under the lock: who held it before us may have renewed for us.
            let (credentials, refresh) = match self.check(why)? {
                Check::Use(token) => return Ok(token),
                Check::Renew { credentials, refresh, .. } => (credentials, refresh),
            };
            let began = Fingerprint::of(refresh.secret());
            let mut sent = &refresh;
            let mut outcome = self.ask(sent).await;
            if let (Renewal::Final { policy: false, .. }, Some(previous)) = (&outcome, &credentials.previous)
                && self.is_unchanged(began)
            {
                tracing::info!("the service refused the refresh token, trying the one before it");
                outcome = self.ask(previous).await;
                sent = previous;
            }
            let fallback = sent.secret() != refresh.secret();
            // No await from here to the file: an answer that is here is stored, whoever goes away.
            match outcome {
                Renewal::Renewed { access, refresh: answered } => {
                    if let Some(kept) = self.keep(why, began, &credentials, sent, fallback, access, answered) {
                        return kept;
                    }
                }
                Renewal::Final { cause, .. } if self.is_unchanged(began) => return Err(self.bury(began, &cause)),
                // Somebody renewed, signed in or signed out meanwhile; the refused token was an old one.
                Renewal::Final { .. } => {}
                Renewal::Forbidden => {
                    // Apart: the guard would live to the end of the condition, and the file is read under the same lock.
                    let again_and_again = lock(&self.state).ledger.forbidden(began);
                    if again_and_again && self.is_unchanged(began) {
                        return Err(self.bury(began, "the service refused the renewal again and again (HTTP 403)"));
                    }
                    return Err(self.failed(began, "HTTP 403".to_owned(), None));
                }
                Renewal::Passing { detail, retry_after } => return Err(self.failed(began, detail, retry_after)),
            }
        }
        Err(transient("the sign-in file keeps changing".to_owned(), None))
    }

    async fn ask(&self, refresh: &RefreshToken) -> Renewal {
        match self.endpoint.exchange(refresh).await {
            Ok(answer) => {
                self.heard_date(answer.date);
                convert::renewal(&answer)
            }
            Err(unanswered) => Renewal::Passing { detail: unanswered.0, retry_after: None },
        }
    }

    /// Stores a renewal. `None` where the file holds another sign-in by now.
    #[expect(clippy::too_many_arguments, reason = "the parts of one answer and what it answered")]
    fn keep(
        &self,
        why: &Why,
        began: Fingerprint,
        old: &Credentials,
        sent: &RefreshToken,
        fallback: bool,
        access: AccessToken,
        answered: Option<RefreshToken>,
    ) -> Option<Result<AccessToken, TokenError>> {
        let claims = jwt::claims(access.secret());
        let before = jwt::claims(old.access.secret()).subject;
        if before.is_some() && before != claims.subject {
            return Some(Err(self.bury(began, "the renewed token isn't this account's")));
        }
        let ends = |token: &str| jwt::claims(token).expires;
        let renewed = renew::choose(sent, answered, access, fallback, ends, (self.wall)());
        let saved = self.store.save_renewed(began, &renewed);
        let mut state = lock(&self.state);
        match saved {
            Ok(Saved::Yes) => {}
            Ok(Saved::Gone) => return Some(Err(TokenError::SignedOut)),
            Ok(Saved::Changed) => return None,
            Err(error) => {
                // The old refresh token may be spent, so this one is used from memory until it can be written.
                tracing::warn!(%error, "can't write the renewed sign-in, keeping it in memory");
                state.unsaved = Some(Unsaved { began, renewed: renewed.clone() });
            }
        }
        state.ledger.worked();
        let refused_before = match (&state.obtained, why) {
            (Some(obtained), Why::Rejected(rejected))
                if obtained.access == Fingerprint::of(rejected.secret()) && obtained.is_fresh(self.mono()) =>
            {
                obtained.refused_before + 1
            }
            _ => 0,
        };
        self.obtained(&mut state, &renewed.access, refused_before);
        Some(Ok(renewed.access))
    }

    fn obtained(&self, state: &mut State, access: &AccessToken, refused_before: u32) {
        let claims = jwt::claims(access.secret());
        // Without a time of issue: from now by the service's clock, if that is known. Ours would make it any length.
        let left = claims.expires.zip(state.ahead).and_then(|(expires, _)| {
            u64::try_from(expires.saturating_sub(self.now(state).0.div_euclid(1000))).ok().map(Duration::from_secs)
        });
        state.obtained = Some(Obtained {
            access: Fingerprint::of(access.secret()),
            at: self.mono(),
            wall: (self.wall)(),
            life: renew::life(&claims).or(left),
            refused_before,
        });
    }

    /// Whether the file still holds the refresh token that a renewal began from.
    fn is_unchanged(&self, began: Fingerprint) -> bool {
        matches!(self.view(), Ok(Some(now)) if now.refresh_mark() == Some(began))
    }

    fn bury(&self, refresh: Fingerprint, cause: &str) -> TokenError {
        tracing::warn!(cause, "the sign-in has ended");
        lock(&self.state).ledger.bury(refresh, cause);
        TokenError::SignInAgain(cause.to_owned())
    }

    fn failed(&self, refresh: Fingerprint, detail: String, retry_after: Option<Duration>) -> TokenError {
        let wait = lock(&self.state).ledger.failed(refresh, &detail, retry_after, self.mono());
        tracing::warn!(detail, wait_s = wait.as_secs(), "can't renew the sign-in now");
        transient(detail, Some(wait))
    }

    /// Stores a confirmed sign-in, unless something newer took its place.
    pub(super) fn admit(&self, uuid: &str, grant: &Grant) -> Result<(), SignInError> {
        let attempt = lock(&self.attempt);
        if attempt.borrow().as_deref() != Some(uuid) {
            return Err(SignInError::Superseded);
        }
        let stored = self.store.save_grant(grant, (self.wall)());
        stored.map_err(|error| SignInError::Store(error.to_string()))?;
        attempt.send_replace(None);
        let mut state = lock(&self.state);
        state.unsaved = None;
        state.ledger.worked();
        self.obtained(&mut state, &grant.access, 0);
        Ok(())
    }
}

impl Obtained {
    /// Whether a refusal now can't be its age.
    fn is_fresh(&self, now: Mono) -> bool {
        now.since(self.at) < self.life.map_or(FRESH, |life| FRESH.min(life))
    }
}

/// Whose tokens these are: the token's `sub`, else the file's `authId`, else a mark that at least tells two sign-ins apart.
fn subject(credentials: &Credentials, claims: &Claims) -> String {
    let opaque = || {
        let mark = credentials.refresh_mark().unwrap_or_else(|| Fingerprint::of(credentials.access.secret()));
        format!("unnamed:{}", mark.short())
    };
    claims.subject.clone().or_else(|| credentials.auth_id.clone()).unwrap_or_else(opaque)
}

pub(super) fn transient(detail: String, retry_after: Option<Duration>) -> TokenError {
    TokenError::Transient { detail, retry_after }
}

/// Nothing panics under these locks half-way through a change.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

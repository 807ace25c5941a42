//! The sign-in itself: [`Keeper`] holds the file, the endpoints and what this process remembers of them.
//!
//! Of many callers that need a renewal one asks the service: in this process by sharing the one flight, between processes by the file's lock, under
//! which the file is read anew. A flight runs in a task of the keeper's, so a caller that goes away doesn't stop it between the service's answer and
//! the file; the answer may hold the only refresh token that still works.

mod core;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oauth2::AccessToken;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::core::{Check, Core, Why, lock, transient};
use super::endpoint::Endpoint;
use super::{Attempt, AttemptSecret, SignIn, SignInError, Standing, Task, TokenError, pkce, poll};
use crate::clock;
use crate::config::Address;
use crate::model::Wall;

/// How often a confirmed sign-in is tried to be stored, a second apart: the service gives the tokens only once.
const STORE_TRIES: usize = 5;
const STORE_PACE: Duration = Duration::from_secs(1);

/// Where a keeper reads this machine's clock. It may be wrong; see the `renew` module.
pub type WallClock = fn() -> Wall;

/// The sign-in on `native-auth.json` and the service's endpoints.
///
/// It owns the renewals under way: dropping it aborts them, [`Keeper::close`] waits for them first.
pub struct Keeper {
    core: Arc<Core>,
    flights: Arc<Flights>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("store", &self.core.store).finish_non_exhaustive()
    }
}

impl Keeper {
    /// A keeper of the file in `folder`. Touches nothing yet.
    #[must_use]
    pub fn new(folder: &Path, website: Address, endpoint: Arc<dyn Endpoint>) -> Self {
        Self::with_wall(folder, website, endpoint, clock::wall)
    }

    /// As [`Self::new`], with another wall clock.
    #[must_use]
    pub fn with_wall(folder: &Path, website: Address, endpoint: Arc<dyn Endpoint>, wall: WallClock) -> Self {
        let core = Core::new(folder, website, endpoint, wall);
        Self { core: Arc::new(core), flights: Arc::default() }
    }

    /// Waits for the renewals under way to be stored; their requests end after 15 s at the latest. Dropping the future aborts them.
    pub async fn close(&self) {
        let mut tasks = std::mem::take(&mut lock(&self.flights.inner).tasks);
        while tasks.join_next().await.is_some() {}
    }

    fn token(&self, why: Why) -> Task<Result<AccessToken, TokenError>> {
        let (core, flights) = (Arc::clone(&self.core), Arc::clone(&self.flights));
        Box::pin(async move {
            core.flush();
            loop {
                let stand_in = match core.check(&why)? {
                    Check::Use(token) => return Ok(token),
                    Check::Renew { stand_in, .. } => stand_in,
                };
                return match (flights.renew(&core, why.clone()).await, &why, stand_in) {
                    // The flight was somebody else's, who had no reason to doubt this token. The next one is ours.
                    (Ok(token), Why::Rejected(rejected), _) if token.secret() == rejected.secret() => continue,
                    // A token that is merely due still works.
                    (Err(TokenError::Transient { .. }), _, Some(token)) => Ok(token),
                    (outcome, _, _) => outcome,
                };
            }
        })
    }
}

impl SignIn for Keeper {
    fn standing(&self) -> Standing {
        self.core.flush();
        self.core.standing()
    }

    fn access_token(&self) -> Task<Result<AccessToken, TokenError>> {
        self.token(Why::Due)
    }

    fn renewed(&self, rejected: AccessToken) -> Task<Result<AccessToken, TokenError>> {
        self.token(Why::Rejected(rejected))
    }

    fn begin(&self) -> Result<Attempt, SignInError> {
        self.core.store.prepare().map_err(|error| SignInError::Store(error.to_string()))?;
        let pkce::Fresh { url, uuid, verifier } = pkce::fresh(&self.core.website);
        lock(&self.core.attempt).send_replace(Some(uuid.clone()));
        let lifetime = i64::try_from(poll::LIFETIME.as_millis()).unwrap_or(i64::MAX);
        Ok(Attempt {
            url,
            expires_at: Wall((self.core.wall)().0.saturating_add(lifetime)),
            secret: Arc::new(AttemptSecret { uuid, verifier, begun: Instant::now() }),
        })
    }

    fn redeem(&self, attempt: &Attempt) -> Task<Result<(), SignInError>> {
        let (core, secret) = (Arc::clone(&self.core), Arc::clone(&attempt.secret));
        Box::pin(async move {
            let mut current = lock(&core.attempt).subscribe();
            let superseded = async {
                // Its sender lives as long as the core, which is held here.
                let _ = current.wait_for(|current| current.as_ref() != Some(&secret.uuid)).await;
            };
            let polled = poll::wait(&*core.endpoint, &secret, &core.get_only, |answer| {
                core.heard_date(answer.date);
            });
            let grant = tokio::select! {
                biased;
                () = superseded => return Err(SignInError::Superseded),
                polled = polled => polled?,
            };
            // From here to the file without an await, but for a store that fails: a drop leaves all or nothing.
            let mut tries = 1;
            loop {
                match core.admit(&secret.uuid, &grant) {
                    Err(SignInError::Store(detail)) if tries < STORE_TRIES => {
                        tracing::warn!(detail, "can't store the sign-in, trying again");
                        tries += 1;
                        tokio::time::sleep(STORE_PACE).await;
                    }
                    ended => return ended,
                }
            }
        })
    }

    fn heard_date(&self, date: Wall) {
        self.core.heard_date(Some(date));
    }

    fn sign_out(&self) -> Result<(), SignInError> {
        // Held throughout, so that a sign-in confirmed at this moment is stored before and removed, or not stored at all.
        let attempt = lock(&self.core.attempt);
        attempt.send_replace(None);
        self.core.store.remove().map_err(|error| SignInError::Store(error.to_string()))?;
        let mut state = lock(&self.core.state);
        state.unsaved = None;
        state.obtained = None;
        Ok(())
    }
}

/// The renewals under way: one at most, and the finished ones that nobody looked at yet.
#[derive(Default)]
struct Flights {
    inner: Mutex<FlightsInner>,
}

#[derive(Default)]
struct FlightsInner {
    tasks: JoinSet<()>,
    running: Option<watch::Receiver<Option<Result<AccessToken, TokenError>>>>,
}

impl Flights {
    /// Joins the renewal under way or starts one. Dropping the future leaves it running.
    async fn renew(&self, core: &Arc<Core>, why: Why) -> Result<AccessToken, TokenError> {
        let mut outcome = {
            let mut inner = lock(&self.inner);
            while inner.tasks.try_join_next().is_some() {}
            // A flight whose sender is gone without a word was aborted.
            if let Some(running) =
                inner.running.as_ref().filter(|running| running.borrow().is_none() && running.has_changed().is_ok())
            {
                running.clone()
            } else {
                let (sender, receiver) = watch::channel(None);
                let core = Arc::clone(core);
                inner.tasks.spawn(async move {
                    let outcome = core.renew(&why).await;
                    sender.send_replace(Some(outcome));
                });
                inner.running = Some(receiver.clone());
                receiver
            }
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => Err(transient("the renewal was given up".to_owned(), None)),
        }
    }
}

//! The sign-in: a file that tests rewrite, tokens that name whose they are, renewals counted, attempts that tests confirm.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use oauth2::AccessToken;
use tokio::sync::oneshot;

use super::clock;
use crate::auth::{Attempt, AttemptSecret, SignIn, SignInError, Standing, Task, TokenError};
use crate::model::Wall;

#[derive(Debug)]
pub(crate) struct Desk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    standing: Standing,
    /// Which token of the subject is the newest.
    edition: u64,
    token_error: Option<TokenError>,
    renew_error: Option<TokenError>,
    renewals: u64,
    read: u64,
    attempts: u64,
    redeeming: Option<oneshot::Sender<Result<String, SignInError>>>,
    sign_out_fails: bool,
    cancelled: Arc<Mutex<u64>>,
}

/// Counts polls that were dropped before they ended.
struct Poll(Arc<Mutex<u64>>, bool);

impl Drop for Poll {
    fn drop(&mut self) {
        if !self.1 {
            *self.0.lock().unwrap() += 1;
        }
    }
}

impl Desk {
    fn with(standing: Standing) -> Arc<Self> {
        Arc::new(Self(Arc::new(Mutex::new(State {
            standing,
            edition: 1,
            token_error: None,
            renew_error: None,
            renewals: 0,
            read: 0,
            attempts: 0,
            redeeming: None,
            sign_out_fails: false,
            cancelled: Arc::default(),
        }))))
    }

    pub(crate) fn signed_in(subject: &str) -> Arc<Self> {
        Self::with(signed_in(subject))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Another process writes the file.
    pub(crate) fn write(&self, standing: Standing) {
        self.lock().standing = standing;
    }

    pub(crate) fn sign_in_as(&self, subject: &str) {
        self.write(signed_in(subject));
    }

    pub(crate) fn forget(&self) {
        self.write(Standing::SignedOut);
    }

    /// Renewal failed for good.
    pub(crate) fn end(&self, subject: &str) {
        self.write(Standing::SignInAgain { cause: "scripted".to_owned(), subject: Some(subject.to_owned()) });
    }

    /// What a call for a token gives from now on, but for the error.
    pub(crate) fn no_token(&self, error: Option<TokenError>) {
        self.lock().token_error = error;
    }

    pub(crate) fn no_renewal(&self, error: Option<TokenError>) {
        self.lock().renew_error = error;
    }

    /// The token that is given out now.
    pub(crate) fn current(&self) -> Option<String> {
        self.lock().token().ok().map(|token| token.secret().clone())
    }

    pub(crate) fn renewals(&self) -> u64 {
        self.lock().renewals
    }

    /// How often the file was read.
    pub(crate) fn read(&self) -> u64 {
        self.lock().read
    }

    pub(crate) fn cancelled(&self) -> u64 {
        *self.lock().cancelled.lock().unwrap()
    }

    pub(crate) fn sign_out_fails(&self) {
        self.lock().sign_out_fails = true;
    }

    /// The person confirms (or the service says no).
    pub(crate) fn redeem_with(&self, result: Result<&str, SignInError>) {
        let sender = self.lock().redeeming.take().unwrap();
        sender.send(result.map(str::to_owned)).unwrap();
    }
}

fn signed_in(subject: &str) -> Standing {
    Standing::SignedIn { subject: subject.to_owned(), auth_id: Some(format!("auth|{subject}")) }
}

impl State {
    fn token(&self) -> Result<AccessToken, TokenError> {
        if let Some(error) = &self.token_error {
            return Err(error.clone());
        }
        match &self.standing {
            Standing::SignedIn { subject, .. } => Ok(AccessToken::new(format!("{subject}/{}", self.edition))),
            Standing::SignedOut => Err(TokenError::SignedOut),
            Standing::SignInAgain { cause, .. } => Err(TokenError::SignInAgain(cause.clone())),
        }
    }
}

impl SignIn for Desk {
    fn standing(&self) -> Standing {
        let mut state = self.lock();
        state.read += 1;
        state.standing.clone()
    }

    fn access_token(&self) -> Task<Result<AccessToken, TokenError>> {
        let token = self.lock().token();
        Box::pin(async move { token })
    }

    fn renewed(&self, rejected: AccessToken) -> Task<Result<AccessToken, TokenError>> {
        let mut state = self.lock();
        if let Some(error) = &state.renew_error {
            let error = error.clone();
            return Box::pin(async move { Err(error) });
        }
        if state.token().is_ok_and(|token| token.secret() == rejected.secret()) {
            state.renewals += 1;
            state.edition += 1;
        }
        let token = state.token();
        Box::pin(async move { token })
    }

    fn begin(&self) -> Result<Attempt, SignInError> {
        let mut state = self.lock();
        state.attempts += 1;
        Ok(Attempt {
            url: format!("https://example.test/sign-in/{}", state.attempts),
            expires_at: clock::shown().after(Duration::from_mins(15)),
            secret: Arc::new(AttemptSecret {
                uuid: state.attempts.to_string(),
                verifier: oauth2::PkceCodeVerifier::new("0123456789012345678901234567890123456789012".to_owned()),
                begun: tokio::time::Instant::now(),
            }),
        })
    }

    fn redeem(&self, _: &Attempt) -> Task<Result<(), SignInError>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        state.redeeming = Some(sender);
        let poll = Poll(Arc::clone(&state.cancelled), false);
        drop(state);
        let desk = Arc::clone(&self.0);
        Box::pin(async move {
            // Whole: a copied flag alone would leave the guard behind.
            let mut poll = poll;
            let result = match tokio::time::timeout(Duration::from_mins(15), receiver).await {
                Err(_) => Err(SignInError::Expired),
                Ok(Ok(result)) => result,
                // Superseded: nobody will ever answer.
                Ok(Err(_)) => pending().await,
            };
            poll.1 = true;
            let subject = result?;
            desk.lock().unwrap().standing = signed_in(&subject);
            Ok(())
        })
    }

    fn heard_date(&self, _date: Wall) {}

    fn sign_out(&self) -> Result<(), SignInError> {
        let mut state = self.lock();
        if state.sign_out_fails {
            return Err(SignInError::Store("scripted".to_owned()));
        }
        state.standing = Standing::SignedOut;
        Ok(())
    }
}

//! The service's two sign-in endpoints, as a seam: the real ones are in `http`, tests of the loops implement them in memory.

use std::fmt;
use std::time::Duration;

use oauth2::{PkceCodeVerifier, RefreshToken};

use super::Task;
use crate::model::Wall;

/// How the poll is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollForm {
    /// JSON in the body, so that the verifier stays out of URLs and access logs.
    Post,
    /// The query, for a service that doesn't know the other.
    Get,
}

/// The sign-in endpoints.
///
/// A future must copy what it needs of the secrets; dropping it gives up on the answer.
pub trait Endpoint: Send + Sync + fmt::Debug + 'static {
    /// `/auth/poll`: has the person confirmed?
    fn poll(&self, form: PollForm, uuid: &str, verifier: &PkceCodeVerifier) -> Task<Result<Answer, Unanswered>>;

    /// `/oauth/token`: another access token for this refresh token.
    fn exchange(&self, refresh: &RefreshToken) -> Task<Result<Answer, Unanswered>>;
}

/// An HTTP answer, not yet understood.
#[derive(Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, complete and within its limit. May hold tokens.
    pub body: Vec<u8>,
    /// `Retry-After`, as a wait from now.
    pub retry_after: Option<Duration>,
    /// The service's clock.
    pub date: Option<Wall>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// No answer, or none that can be read to its end. The text holds no URL, no token and nothing of a body.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

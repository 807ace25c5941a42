//! Signing in: the PKCE link, the poll, the credential file, renewal.
//!
//! [`SignIn`] is what the loop needs of it. The real one (`Keeper`) works on `native-auth.json` and the service's sign-in endpoints; tests of the
//! loop implement it in memory.

mod convert;
mod document;
mod endpoint;
mod file;
mod http;
mod jwt;
mod keeper;
mod pkce;
mod poll;
mod renew;
mod wire;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use oauth2::AccessToken;

pub use endpoint::{Answer, Endpoint, PollForm, Unanswered};
pub use http::HttpEndpoint;
pub use keeper::{Keeper, WallClock};

use crate::model::Wall;

/// A boxed future that borrows nothing.
pub type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The sign-in as the loop sees it.
pub trait SignIn: Send + Sync + fmt::Debug + 'static {
    /// Reads the credential file anew and says where things stand. Synchronous and cheap (a small file). Narrows a file mode that is too wide.
    fn standing(&self) -> Standing;

    /// A token that isn't about to expire, renewed first where it is due. Single flight in this process and across processes.
    fn access_token(&self) -> Task<Result<AccessToken, TokenError>>;

    /// A token other than `rejected`, which the service answered 401: the file's, where another process renewed already, else a renewed one.
    fn renewed(&self, rejected: AccessToken) -> Task<Result<AccessToken, TokenError>>;

    /// Begins a sign-in: a fresh verifier, challenge and uuid.
    ///
    /// # Errors
    /// Where the random source or the folder can't be used.
    fn begin(&self) -> Result<Attempt, SignInError>;

    /// Polls until the person confirmed and the credentials are stored, or until it failed for good or 15 minutes are over. Dropping it cancels:
    /// after the drop nothing is stored.
    fn redeem(&self, attempt: &Attempt) -> Task<Result<(), SignInError>>;

    /// The service's own time, from the `Date` of any of its answers: a wrong local clock must not decide when a token is due.
    fn heard_date(&self, date: Wall);

    /// Deletes the tokens. It wins over a renewal in flight, and ends a sign-in that is pending in this process.
    ///
    /// # Errors
    /// Where the file can't be removed.
    fn sign_out(&self) -> Result<(), SignInError>;
}

/// Where the sign-in stands.
#[derive(Clone, PartialEq, Eq)]
pub enum Standing {
    /// No credentials.
    SignedOut,
    /// Credentials that may work.
    SignedIn {
        /// `sub` of the stored access token, or another stable mark of whose it is: when it changes, GetMe is asked again. A renewal of the same
        /// account doesn't change it.
        subject: String,
        /// `authId` of the file.
        auth_id: Option<String>,
    },
    /// Renewal failed for good, or the file can't be read.
    SignInAgain {
        /// Short, for the log.
        cause: String,
        /// `sub` as far as it is known, so that the records of the account stay.
        subject: Option<String>,
    },
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SignedOut => "SignedOut",
            Self::SignedIn { .. } => "SignedIn",
            Self::SignInAgain { .. } => "SignInAgain",
        })
    }
}

/// One sign-in under way. The verifier inside never leaves it but for the poll.
#[derive(Clone)]
pub struct Attempt {
    /// The link for the person. Holds the challenge and the uuid, never the verifier.
    pub url: String,
    /// When it ends (15 minutes after it began).
    pub expires_at: Wall,
    /// The poll's half.
    pub(crate) secret: std::sync::Arc<AttemptSecret>,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// What the poll needs.
pub(crate) struct AttemptSecret {
    /// The attempt's uuid.
    pub(crate) uuid: String,
    /// The PKCE verifier.
    pub(crate) verifier: oauth2::PkceCodeVerifier,
    /// When it began, by the clock that ends it.
    pub(crate) begun: tokio::time::Instant,
}

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    /// Nobody is signed in.
    #[error("not signed in")]
    SignedOut,
    /// Renewal failed for good: the person has to sign in again.
    #[error("the sign-in has ended: {0}")]
    SignInAgain(String),
    /// May pass: the network, a server error, a file that can't be written just now.
    #[error("can't renew the sign-in now: {detail}")]
    Transient {
        /// For the log; never a token.
        detail: String,
        /// The server's Retry-After.
        retry_after: Option<Duration>,
    },
}

/// Why a sign-in didn't come about.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInError {
    /// 15 minutes are over.
    #[error("the link has expired")]
    Expired,
    /// A policy of the organisation or the device forbids it.
    #[error("refused by a sign-in policy")]
    Policy,
    /// Refused for another final reason.
    #[error("refused: {0}")]
    Refused(String),
    /// A newer attempt or a sign-out took its place. Nothing was stored.
    #[error("a newer sign-in or a sign-out took its place")]
    Superseded,
    /// The folder or the file can't be used.
    #[error("can't store the sign-in: {0}")]
    Store(String),
}

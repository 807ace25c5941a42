//! The calls that the loop has under way: each a future in its `JoinSet`, each ending in one [`Done`].

use std::sync::Arc;
use std::time::Duration;

use oauth2::AccessToken;
use tokio_util::sync::CancellationToken;

use super::bodies::Fetch;
use super::posts::{Outgoing, What};
use super::stream::STALL;
use crate::auth::{SignIn, SignInError, TokenError};
use crate::index;
use crate::mirror::{FetchQuery, PageQuery, Stored};
use crate::model::{AgentId, BodyRef, Row, RowBody, Wall};
use crate::upstream::{
    Call, Delivery, Error, ErrorKind, Frames, Me, Page, PageRequest, Roster, SendRequest, SendStatus, Upstream,
    WatchRequest, WidgetAnswer, WidgetRequest,
};

/// Rows asked for in one page: the official client's cap (wire reference, section 4).
pub(super) const PAGE_LIMIT: u32 = 500;

/// How a job ended. `life` names the Bot's mirror that asked: an answer for another one is thrown away.
pub(super) enum Done {
    /// `subject`: whose token it was asked with.
    Me {
        subject: String,
        me: Result<Me, Failed>,
    },
    /// `subject`: as for `Me`.
    Roster {
        subject: Option<String>,
        roster: Result<Roster, Failed>,
    },
    Loaded {
        agent: AgentId,
        life: u64,
        stored: Result<Stored, index::Error>,
    },
    Page {
        agent: AgentId,
        life: u64,
        query: PageQuery,
        page: Result<Page, Failed>,
    },
    /// A page call that nobody waits for any more.
    PageGivenUp,
    /// One try for a body.
    Body {
        fetch: Fetch,
        row: Option<Row>,
    },
    Opened {
        number: u64,
        opened: Result<Opened, Failed>,
    },
    /// The token of a stream that was refused in mid-stream is renewed (or can't be).
    Renewed(Result<(), Failed>),
    Committed {
        commits: Vec<(index::Commit, u64)>,
        result: Result<(), index::Error>,
        set_aside: usize,
    },
    Sent {
        agent: AgentId,
        life: u64,
        post: u64,
        answer: Result<Sent, Failed>,
    },
    Status {
        agent: AgentId,
        life: u64,
        post: u64,
        answered: bool,
        status: Option<SendStatus>,
    },
    Redeemed {
        attempt: u64,
        result: Result<(), SignInError>,
    },
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Me { .. } => "Me",
            Self::Roster { .. } => "Roster",
            Self::Loaded { .. } => "Loaded",
            Self::Page { .. } => "Page",
            Self::PageGivenUp => "PageGivenUp",
            Self::Body { .. } => "Body",
            Self::Opened { .. } => "Opened",
            Self::Renewed(_) => "Renewed",
            Self::Committed { .. } => "Committed",
            Self::Sent { .. } => "Sent",
            Self::Status { .. } => "Status",
            Self::Redeemed { .. } => "Redeemed",
        })
    }
}

/// An open stream and the token it was opened with.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) frames: Box<dyn Frames>,
    pub(super) token: AccessToken,
}

/// The answer to a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Message(Delivery),
    Widget(WidgetAnswer),
}

/// Why a job failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failed {
    /// Nobody is signed in, or not any more.
    #[error("not signed in")]
    SignedOut,
    /// There is no token just now; no call was made.
    #[error("no token: {detail}")]
    Token { detail: String, retry_after: Option<Duration> },
    /// The call failed.
    #[error(transparent)]
    Call(Error),
}

impl Failed {
    /// The server's word on when to come back.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::SignedOut => None,
            Self::Token { retry_after, .. } => *retry_after,
            Self::Call(error) => match error.kind {
                ErrorKind::Transient { retry_after } => retry_after,
                _ => None,
            },
        }
    }
}

impl From<TokenError> for Failed {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::SignedOut | TokenError::SignInAgain(_) => Self::SignedOut,
            TokenError::Transient { detail, retry_after } => Self::Token { detail, retry_after },
        }
    }
}

/// Makes a call with a token. An answer of 401 proves that nothing was done: the sign-in is renewed and the same call made once more.
pub(super) async fn with_token<T>(
    sign_in: &dyn SignIn,
    call: impl Fn(AccessToken) -> Call<T>,
) -> Result<(T, AccessToken), Failed> {
    let token = sign_in.access_token().await?;
    match call(token.clone()).await {
        Err(Error { kind: ErrorKind::Auth, .. }) => {
            let token = sign_in.renewed(token).await?;
            let answer = call(token.clone()).await.map_err(Failed::Call)?;
            Ok((answer, token))
        }
        Ok(answer) => Ok((answer, token)),
        Err(error) => Err(Failed::Call(error)),
    }
}

/// What every job needs.
#[derive(Clone, Debug)]
pub(super) struct Services {
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) sign_in: Arc<dyn SignIn>,
}

impl Services {
    pub(super) async fn me(self, subject: String) -> Done {
        let me = with_token(&*self.sign_in, |token| self.upstream.me(token)).await;
        Done::Me { subject, me: me.map(|(me, _)| me) }
    }

    pub(super) async fn roster(self, subject: Option<String>) -> Done {
        let roster = with_token(&*self.sign_in, |token| self.upstream.agents(token)).await;
        Done::Roster { subject, roster: roster.map(|(roster, _)| roster) }
    }

    /// Lists one page, unless `stop` comes first.
    pub(super) async fn page(self, agent: AgentId, life: u64, query: PageQuery, stop: CancellationToken) -> Done {
        let request = PageRequest {
            agent_id: agent.clone(),
            generation: query.generation,
            before_seq: query.before,
            limit: PAGE_LIMIT,
        };
        let call = with_token(&*self.sign_in, |token| self.upstream.entries(token, request.clone()));
        match stop.run_until_cancelled(call).await {
            Some(page) => Done::Page { agent, life, query, page: page.map(|(page, _)| page) },
            None => Done::PageGivenUp,
        }
    }

    pub(super) async fn open(self, number: u64, request: WatchRequest) -> Done {
        let opening = with_token(&*self.sign_in, |token| self.upstream.watch(token, request.clone()));
        // The stream has no time limit of its own, and its silence is watched only once it is open.
        let opened = tokio::time::timeout(STALL, opening).await.unwrap_or_else(|_| {
            Err(Failed::Call(Error { kind: ErrorKind::Broken, detail: "no response head for a minute".to_owned() }))
        });
        Done::Opened { number, opened: opened.map(|(frames, token)| Opened { frames, token }) }
    }

    pub(super) async fn renew(self, rejected: AccessToken) -> Done {
        Done::Renewed(self.sign_in.renewed(rejected).await.map(|_| ()).map_err(Failed::from))
    }

    /// Sends a post, once.
    pub(super) async fn send(self, agent: AgentId, life: u64, outgoing: Outgoing, sent_at: Wall) -> Done {
        let Outgoing { post, message_id, what } = outgoing;
        let answer = match what {
            What::Message { text, reply_to } => {
                let request = SendRequest { agent_id: agent.clone(), message_id, text, sent_at, reply_to };
                let call = |token| self.upstream.send(token, request.clone());
                with_token(&*self.sign_in, call).await.map(|(delivery, _)| Sent::Message(delivery))
            }
            What::Widget { entry, value } => {
                let request = WidgetRequest { agent_id: agent.clone(), entry_id: entry, value };
                let call = |token| self.upstream.respond_widget(token, request.clone());
                with_token(&*self.sign_in, call).await.map(|(answer, _)| Sent::Widget(answer))
            }
        };
        Done::Sent { agent, life, post, answer }
    }

    pub(super) async fn send_status(
        self,
        agent: AgentId,
        life: u64,
        post: u64,
        message_id: String,
        answered: bool,
    ) -> Done {
        let call = |token| self.upstream.send_status(token, agent.clone(), message_id.clone());
        let status = with_token(&*self.sign_in, call).await.map(|(status, _)| status);
        if let Err(error) = &status {
            tracing::warn!(%agent, %error, "the status of a post couldn't be asked");
        }
        Done::Status { agent, life, post, answered, status: status.ok() }
    }

    /// Tries for a body, once.
    pub(super) async fn body(self, fetch: Fetch) -> Done {
        let row = self.body_once(&fetch.agent, &fetch.query).await.unwrap_or_else(|error| {
            tracing::debug!(%error, seq = fetch.query.seq, "a body couldn't be fetched");
            None
        });
        Done::Body { fetch, row }
    }

    async fn body_once(&self, agent: &AgentId, query: &FetchQuery) -> Result<Option<Row>, Failed> {
        match &query.at {
            BodyRef::Blob(hash) => {
                let call = |token| self.upstream.blob(token, Arc::clone(hash), Arc::clone(&query.kind));
                let (body, _) = with_token(&*self.sign_in, call).await?;
                Ok(body.map(|body| Row {
                    seq: query.seq,
                    number: query.number,
                    entry_id: Some(query.entry_id.clone()),
                    body,
                }))
            }
            BodyRef::Omitted => {
                // Listing one row again is no history read; the row comes with the number that it has now.
                let request = PageRequest {
                    agent_id: agent.clone(),
                    generation: query.generation,
                    before_seq: Some(u128::from(query.seq) + 1),
                    limit: 1,
                };
                let (page, _) =
                    with_token(&*self.sign_in, |token| self.upstream.entries(token, request.clone())).await?;
                if page.generation.is_some() && page.generation != query.generation {
                    return Ok(None);
                }
                let row = page.rows.into_iter().find(|row| row.seq == query.seq);
                Ok(row.filter(|row| !matches!(&row.body, RowBody::Unfetched { at: BodyRef::Omitted, .. })))
            }
        }
    }
}

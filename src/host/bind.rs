//! The bind view: one code from the host, one message to the Bot, one answer to the page.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use url::{Host, Url};
use uuid::Uuid;

use super::failure::Failure;
use super::{methods, texts, wire};
use crate::model::RecordId;
use crate::records::{self, Handle, Outcome, PostRequest, SignInState};
use crate::rpc::ErrorObject;

/// How long the host may take for a code.
const CODE_WAIT: Duration = Duration::from_secs(15);
/// Openings at once, over a connection.
const OPENINGS: usize = 64;
/// The longest code that is passed on, in characters: it has to fit a command line.
const CODE_CHARS: usize = 1024;

/// A request of ours to the host.
pub(super) struct Ask {
    /// The method.
    pub(super) method: &'static str,
    /// Its params.
    pub(super) params: Box<RawValue>,
    /// Where the response goes.
    pub(super) answer: oneshot::Sender<Result<Box<RawValue>, ErrorObject>>,
}

/// Opens bind views over one connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Binder {
    asks: mpsc::Sender<Ask>,
    /// Cancelled when the session begins to stop: nobody waits for a code then.
    stopping: CancellationToken,
    openings: Arc<Semaphore>,
}

impl Binder {
    pub(super) fn new(asks: mpsc::Sender<Ask>, stopping: CancellationToken) -> Self {
        Self { asks, stopping, openings: Arc::new(Semaphore::new(OPENINGS)) }
    }

    /// One opening: sends at most once, and resolves when the page can be told. Dropping it before the code is in sends nothing.
    pub(super) async fn open(self, handle: Handle, record: RecordId) -> Result<wire::ViewOpenResult, Failure> {
        check(&handle, &record)?;
        let Ok(_opening) = self.openings.try_acquire() else {
            return Err(unavailable(texts::TOO_MANY_OPENINGS));
        };
        let command = tokio::select! {
            biased;
            command = self.command(&record) => command?,
            () = self.stopping.cancelled() => return Err(unconfirmed()),
        };
        let outcome = handle.post(PostRequest {
            record,
            message_id: Uuid::new_v4(),
            text: Arc::from(format!("{}\n{command}", texts::BIND_LINE)),
            reply_to: None,
        })?;
        match outcome.await {
            Ok(Outcome::Completed { .. }) => Ok(wire::ViewOpenResult { status: "sent", text: texts::BIND_SENT }),
            Ok(Outcome::Failed(records::Failure::Refused)) => {
                Err(Failure::new(wire::ErrorKind::Refused, texts::BIND_REFUSED))
            }
            // Signed out between the check and the loop's turn: nothing was sent, and the person knows what to do.
            Ok(Outcome::Failed(records::Failure::SignedOut)) => Err(signed_out()),
            Ok(Outcome::Failed(_)) | Err(_) => Err(unconfirmed()),
        }
    }

    /// Asks for a code and makes the line that the Bot is to run.
    async fn command(&self, record: &RecordId) -> Result<String, Failure> {
        let params = wire::RemoteCodeParams { record: record.to_string() };
        let params = serde_json::value::to_raw_value(&params).map_err(|_| Failure::internal())?;
        let (answer, answered) = oneshot::channel();
        let ask = Ask { method: wire::method::REMOTE_CODE, params, answer };
        let code = async {
            self.asks.send(ask).await.ok()?;
            answered.await.ok()?.ok()
        };
        let code = tokio::time::timeout(CODE_WAIT, code).await.ok().flatten();
        let code = code.ok_or_else(|| unavailable(texts::REMOTE_UNAVAILABLE))?;
        let code: wire::RemoteCodeResult =
            methods::parse(Some(&code)).map_err(|_| unavailable(texts::REMOTE_MALFORMED))?;
        let address = code.addresses.first().ok_or_else(|| unavailable(texts::NO_TAILNET))?;
        match (origin(address), is_code(&code.code)) {
            (Some(address), true) => Ok(format!("node coda-bot.mjs bind {address} {}", code.code)),
            _ => Err(unavailable(texts::REMOTE_MALFORMED)),
        }
    }
}

/// Somebody is signed in, and the record is a Bot of theirs now.
fn check(handle: &Handle, record: &RecordId) -> Result<(), Failure> {
    let status = handle.status();
    let nobody = match status.state {
        SignInState::SignedOut | SignInState::SignInAgain => true,
        SignInState::Confirming { .. } => status.account.is_none(),
        SignInState::SignedIn => false,
    };
    if nobody {
        return Err(signed_out());
    }
    handle.record(record).map(|_| ()).ok_or_else(Failure::not_found)
}

/// An http(s) origin and nothing more, made of characters that mean nothing to a shell. A trailing slash is dropped.
fn origin(address: &str) -> Option<&str> {
    let address = address.strip_suffix('/').unwrap_or(address);
    let authority = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"))?;
    // The parser takes more for a host than a shell leaves alone (`$`, `;`, quotes); brackets hold hex digits and colons only.
    let plain = authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let url = Url::parse(address).ok().filter(|_| plain)?;
    let bracketed = authority.starts_with('[');
    let whole = match url.host()? {
        Host::Ipv6(_) => bracketed,
        Host::Ipv4(_) | Host::Domain(_) => !bracketed,
    };
    (whole && url.path() == "/" && url.query().is_none() && url.fragment().is_none()).then_some(address)
}

fn is_code(code: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+/=:-".contains(&byte);
    (1..=CODE_CHARS).contains(&code.len()) && code.bytes().all(plain)
}

fn unavailable(message: &str) -> Failure {
    Failure::new(wire::ErrorKind::RemoteUnavailable, message)
}

fn unconfirmed() -> Failure {
    Failure::new(wire::ErrorKind::SendUnconfirmed, texts::SEND_UNCONFIRMED)
}

fn signed_out() -> Failure {
    Failure::new(wire::ErrorKind::SignedOut, texts::BIND_SIGNED_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h20_only_a_plain_http_origin_is_taken() {
        for good in [
            "http://100.64.0.1:8080",
            "https://host.tail1234.ts.net",
            "http://a-b:1",
            "http://[fd7a:115c:a1e0::1]:8080",
        ] {
            assert_eq!(origin(good), Some(good));
        }
        assert_eq!(origin("http://100.64.0.1:8080/"), Some("http://100.64.0.1:8080"));
        for bad in [
            "",
            "http://",
            "http:///",
            "ftp://100.64.0.1",
            "HTTP://100.64.0.1",
            "100.64.0.1:8080",
            "http://100.64.0.1:8080/x",
            "http://100.64.0.1:8080//",
            "http://100.64.0.1?x",
            "http://100.64.0.1#x",
            "http://user@100.64.0.1",
            "http://u:p@100.64.0.1",
            "http://100.64.0.1:99999",
            "http://100.64.0.1:8080;id",
            "http://$(id)",
            "http://`id`",
            "http://a'b",
            "http://a\"b",
            "http://a b",
            "http://a\nb",
            "http://a&b",
            "http://a|b",
            "http://a*b",
            "http://[::1",
            "http://[]:80",
            "http://小白",
            " http://100.64.0.1",
        ] {
            assert_eq!(origin(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn h20_only_a_code_that_a_shell_leaves_alone_is_taken() {
        for good in ["a", "AZaz09._+/=:-", "abcd-1234"] {
            assert!(is_code(good));
        }
        for bad in ["", "a b", "a;b", "$(id)", "`id`", "a\nb", "a'b", "码", "a&b", "a|b", "a>b", "~a", "a*"] {
            assert!(!is_code(bad), "{bad:?}");
        }
    }
}

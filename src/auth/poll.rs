//! Waiting for the person to confirm.
//!
//! The service has no answer for "expired": an old uuid looks like one that nobody confirmed yet, so the only end is our own deadline. Until then
//! no trouble of the network ends it; a dropped connection in a train must not cost the person the sign-in (sign-in reference, sections 2.2 and 8).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::convert::{self, Grant, Poll};
use super::endpoint::{Answer, Endpoint, PollForm, Unanswered};
use super::{AttemptSecret, SignInError};

/// How long a link is good for.
pub(super) const LIFETIME: Duration = Duration::from_mins(15);
/// The first wait between two polls, and the least one whatever the service asks for.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Each wait is this much longer than the one before …
const GROWTH: f64 = 1.2;
/// … up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Polls until the sign-in is confirmed, refused or out of time. `get_only` remembers for good that the service doesn't know the POST; `seen` is
/// shown every answer, for its clock.
///
/// Dropping the future stops polling. What the service had answered by then is lost, which is what cancelling means.
///
/// # Errors
/// [`SignInError::Expired`] at the deadline, else the service's refusal.
pub(super) async fn wait(
    endpoint: &dyn Endpoint,
    secret: &AttemptSecret,
    get_only: &AtomicBool,
    mut seen: impl FnMut(&Answer),
) -> Result<Grant, SignInError> {
    let deadline = secret.begun + LIFETIME;
    let mut wait = FIRST_WAIT;
    let mut trouble: Option<String> = None;
    loop {
        let form = if get_only.load(Ordering::Relaxed) { PollForm::Get } else { PollForm::Post };
        let asked = endpoint.poll(form, &secret.uuid, &secret.verifier);
        let Ok(answer) = tokio::time::timeout_at(deadline, asked).await else {
            return Err(expired(trouble.as_deref()));
        };
        let read = match answer {
            Ok(answer) => {
                seen(&answer);
                convert::poll(form, &answer)
            }
            Err(Unanswered(detail)) => Poll::Passing { detail, retry_after: None },
        };
        let mut pause = wait;
        match read {
            Poll::Done(grant) => return Ok(grant),
            Poll::Policy => return Err(SignInError::Policy),
            Poll::Refused(detail) => return Err(SignInError::Refused(detail)),
            Poll::UnknownRoute => {
                tracing::warn!(
                    "the service doesn't know the POST of the poll; the verifier goes into a query from now on"
                );
                get_only.store(true, Ordering::Relaxed);
                continue;
            }
            Poll::Pending => trouble = None,
            Poll::Passing { detail, retry_after } => {
                if trouble.as_ref() != Some(&detail) {
                    tracing::warn!(detail, "whether the link was confirmed can't be asked just now; it is asked again");
                }
                trouble = Some(detail);
                if let Some(asked_for) = retry_after {
                    pause = asked_for.max(FIRST_WAIT);
                }
            }
        }
        // Checked, since a Retry-After may be any number.
        match Instant::now().checked_add(pause) {
            Some(next) if next < deadline => tokio::time::sleep_until(next).await,
            _ => {
                tokio::time::sleep_until(deadline).await;
                return Err(expired(trouble.as_deref()));
            }
        }
        wait = wait.mul_f64(GROWTH).min(LONGEST_WAIT);
    }
}

/// The person sees that the time is over; why it may have been is for the log.
fn expired(trouble: Option<&str>) -> SignInError {
    if let Some(detail) = trouble {
        tracing::warn!(detail, "the sign-in link expired while the service couldn't be asked");
    }
    SignInError::Expired
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use oauth2::{PkceCodeVerifier, RefreshToken};

    use super::*;
    use crate::auth::Task;

    /// Answers from a list, the last one again and again; notes when it was asked and how.
    #[derive(Debug, Clone, Default)]
    struct Script(Arc<Mutex<Inner>>);

    type Inner = (VecDeque<Reply>, Vec<(Instant, PollForm)>);

    #[derive(Debug, Clone)]
    enum Reply {
        Status(u16, &'static str),
        RetryAfter(u64),
        Network,
        Never,
    }

    impl Script {
        fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
            Self(Arc::new(Mutex::new((replies.into_iter().collect(), Vec::new()))))
        }

        fn asked(&self) -> Vec<(Instant, PollForm)> {
            self.0.lock().unwrap().1.clone()
        }
    }

    impl Endpoint for Script {
        fn poll(&self, form: PollForm, _: &str, _: &PkceCodeVerifier) -> Task<Result<Answer, Unanswered>> {
            let mut inner = self.0.lock().unwrap();
            inner.1.push((Instant::now(), form));
            let reply = if inner.0.len() > 1 { inner.0.pop_front().unwrap() } else { inner.0[0].clone() };
            Box::pin(async move {
                let (status, body, retry_after) = match reply {
                    Reply::Status(status, body) => (status, body, None),
                    Reply::RetryAfter(seconds) => (429, "", Some(Duration::from_secs(seconds))),
                    Reply::Network => return Err(Unanswered("connection reset".into())),
                    Reply::Never => std::future::pending().await,
                };
                Ok(Answer { status, body: body.as_bytes().to_vec(), retry_after, date: None })
            })
        }

        fn exchange(&self, _: &RefreshToken) -> Task<Result<Answer, Unanswered>> {
            unreachable!("a sign-in renews nothing")
        }
    }

    const DONE: Reply = Reply::Status(200, r#"{"accessToken":"a","refreshToken":"b","authId":"auth0|x"}"#);
    const PENDING: Reply = Reply::Status(404, "Not found");
    const NO_ROUTE: Reply = Reply::Status(404, r#"{"message":"Route POST:/auth/poll not found"}"#);

    async fn run(script: &Script) -> (Result<Grant, SignInError>, Duration) {
        let begun = Instant::now();
        let secret = AttemptSecret { uuid: "u".into(), verifier: PkceCodeVerifier::new("v".into()), begun };
        let ended = wait(script, &secret, &AtomicBool::new(false), |_| {}).await;
        (ended, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn it_asks_at_once_then_more_and_more_slowly_up_to_ten_seconds() {
        let script = Script::new(std::iter::repeat_n(PENDING, 30).chain([DONE]));
        let (ended, _) = run(&script).await;
        assert_eq!(ended.ok().unwrap().auth_id.as_deref(), Some("auth0|x"));
        let asked = script.asked();
        assert_eq!(asked.len(), 31);
        let gaps: Vec<f64> = asked.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()).collect();
        for (n, gap) in gaps.iter().enumerate() {
            let expected = 1.2_f64.powi(i32::try_from(n).unwrap()).min(10.0);
            assert!((gap - expected).abs() < 0.01, "gap {n}: {gap}, not {expected}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_confirms_and_it_ends_after_fifteen_minutes() {
        let script = Script::new([PENDING]);
        let (ended, took) = run(&script).await;
        assert!(matches!(ended, Err(SignInError::Expired)));
        assert!(took >= LIFETIME && took < LIFETIME + Duration::from_secs(1), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_never_answers_ends_at_the_deadline_too() {
        let (ended, took) = run(&Script::new([Reply::Never])).await;
        assert!(matches!(ended, Err(SignInError::Expired)));
        assert!(took >= LIFETIME && took < LIFETIME + Duration::from_secs(1), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_never_ends_it() {
        let trouble = [
            Reply::Network,
            Reply::Status(500, ""),
            Reply::Status(500, ""),
            PENDING,
            Reply::Status(500, ""),
            Reply::Status(502, "<html>"),
            Reply::Status(503, ""),
            Reply::Network,
            Reply::Status(403, "<html>blocked</html>"),
            Reply::Status(302, ""),
            Reply::Status(200, "<html>portal</html>"),
            Reply::Status(200, r#"{"accessToken":"a"}"#),
            Reply::Status(429, ""),
            DONE,
        ];
        let script = Script::new(trouble);
        assert!(run(&script).await.0.is_ok());
        assert_eq!(script.asked().len(), 14);
    }

    #[tokio::test(start_paused = true)]
    async fn a_final_answer_ends_it_at_once() {
        for (reply, expected) in [
            (Reply::Status(403, r#"{"error":"sign_in_policy_violation"}"#), "refused by a sign-in policy"),
            (Reply::Status(403, r#"{"error":"no"}"#), "refused: HTTP 403"),
            (Reply::Status(400, ""), "refused: HTTP 400"),
            (Reply::Status(401, ""), "refused: HTTP 401"),
            (Reply::Status(410, ""), "refused: HTTP 410"),
            (Reply::Status(200, r#"{"error":"denied"}"#), "refused: an error under HTTP 200"),
        ] {
            let script = Script::new([PENDING, reply]);
            assert_eq!(run(&script).await.0.err().unwrap().to_string(), expected);
            assert_eq!(script.asked().len(), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_without_the_post_is_asked_by_get_for_good() {
        let script = Script::new([NO_ROUTE, PENDING, PENDING, NO_ROUTE, DONE]);
        let get_only = AtomicBool::new(false);
        let secret =
            AttemptSecret { uuid: "u".into(), verifier: PkceCodeVerifier::new("v".into()), begun: Instant::now() };
        assert!(wait(&script, &secret, &get_only, |_| {}).await.is_ok());
        let asked = script.asked();
        assert_eq!(asked[0].0, asked[1].0, "the other form is tried at once");
        let forms: Vec<PollForm> = asked.into_iter().map(|(_, form)| form).collect();
        assert_eq!(forms, [PollForm::Post, PollForm::Get, PollForm::Get, PollForm::Get, PollForm::Get]);
        assert!(get_only.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn the_services_retry_after_wins() {
        let script = Script::new([Reply::RetryAfter(42), Reply::RetryAfter(0), DONE]);
        assert!(run(&script).await.0.is_ok());
        let asked = script.asked();
        assert_eq!(asked[1].0 - asked[0].0, Duration::from_secs(42));
        assert!(asked[2].0 - asked[1].0 >= FIRST_WAIT);

        let (ended, took) = run(&Script::new([Reply::RetryAfter(u64::MAX)])).await;
        assert!(matches!(ended, Err(SignInError::Expired)));
        assert!(took < LIFETIME + Duration::from_secs(1), "{took:?}");
    }
}

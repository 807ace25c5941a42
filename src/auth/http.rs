//! The sign-in endpoints over HTTP.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use oauth2::{PkceCodeVerifier, RefreshToken};
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response};

use super::Task;
use super::endpoint::{Answer, Endpoint, PollForm, Unanswered};
use super::wire::{CLIENT_ID, GRANT_REFRESH, PollRequest, TokenRequest};
use crate::clock;
use crate::config::Address;
use crate::connect::Http;
use crate::model::Wall;

/// From the request's start to the end of its body.
const TIMEOUT: Duration = Duration::from_secs(15);
/// A longer body isn't read; a real one has about a kilobyte.
const BODY_LIMIT: usize = 128 * 1024;
const JSON: &str = "application/json";

/// [`Endpoint`] on the service.
#[derive(Debug)]
pub struct HttpEndpoint {
    http: Arc<Http>,
    backend: Address,
}

impl HttpEndpoint {
    /// The clients of `http` follow no redirects: a 307 would hand the verifier or the refresh token to another host. The one that is needed is
    /// built at the first call.
    #[must_use]
    pub fn new(http: Arc<Http>, backend: Address) -> Self {
        Self { http, backend }
    }

    fn client(&self) -> Result<&Client, Unanswered> {
        self.http.client(self.backend.url()).map_err(|error| Unanswered(error.to_string()))
    }

    fn post(&self, path: &str, body: Result<Vec<u8>, serde_json::Error>) -> Task<Result<Answer, Unanswered>> {
        match body {
            Ok(body) => match self.client() {
                Ok(client) => ask(client.post(self.backend.at(path)).body(body)),
                Err(error) => Box::pin(async { Err(error) }),
            },
            // Strings always serialise; said rather than unwrapped.
            Err(_) => Box::pin(async { Err(Unanswered("the request can't be written".to_owned())) }),
        }
    }
}

impl Endpoint for HttpEndpoint {
    fn poll(&self, form: PollForm, uuid: &str, verifier: &PkceCodeVerifier) -> Task<Result<Answer, Unanswered>> {
        const PATH: &str = "/auth/poll";
        let verifier = verifier.secret();
        match form {
            PollForm::Post => self.post(PATH, serde_json::to_vec(&PollRequest { uuid, verifier })),
            PollForm::Get => {
                let mut url = self.backend.at(PATH);
                url.query_pairs_mut().append_pair("uuid", uuid).append_pair("verifier", verifier);
                match self.client() {
                    Ok(client) => ask(client.get(url)),
                    Err(error) => Box::pin(async { Err(error) }),
                }
            }
        }
    }

    fn exchange(&self, refresh: &RefreshToken) -> Task<Result<Answer, Unanswered>> {
        let request = TokenRequest { grant_type: GRANT_REFRESH, client_id: CLIENT_ID, refresh_token: refresh.secret() };
        self.post("/oauth/token", serde_json::to_vec(&request))
    }
}

fn ask(request: RequestBuilder) -> Task<Result<Answer, Unanswered>> {
    let request = request.header(CONTENT_TYPE, JSON).header(ACCEPT, JSON).timeout(TIMEOUT);
    Box::pin(async move {
        let response = request.send().await.map_err(unanswered)?;
        let status = response.status().as_u16();
        let date = header(response.headers(), &DATE).and_then(http_date);
        let retry_after =
            header(response.headers(), &RETRY_AFTER).and_then(|value| wait(value, date.unwrap_or_else(clock::wall)));
        Ok(Answer { status, body: bounded(response).await?, retry_after, date })
    })
}

async fn bounded(mut response: Response) -> Result<Vec<u8>, Unanswered> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        if body.len() + chunk.len() > BODY_LIMIT {
            return Err(Unanswered(format!("a body of more than {BODY_LIMIT} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error's chain without its URL, which holds the verifier where the poll is a GET.
fn unanswered(error: reqwest::Error) -> Unanswered {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    Unanswered(text)
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Seconds, or a date, which is measured by the clock of whoever wrote it.
fn wait(value: &str, now: Wall) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = http_date(value)?;
    Some(Duration::from_millis(u64::try_from(until.0.saturating_sub(now.0)).unwrap_or(0)))
}

fn http_date(value: &str) -> Option<Wall> {
    let since = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Wall)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oauth2::PkceCodeChallenge;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;
    use crate::auth::jwt::tests::token;
    use crate::auth::{Keeper, SignIn as _};
    use crate::connect::Reach;

    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

    /// A service that answers each connection with the next of `replies` (nothing: it hangs up) and gives back what it was asked.
    struct Fake {
        endpoint: HttpEndpoint,
        asked: JoinSet<Vec<String>>,
    }

    impl Fake {
        async fn start(replies: &[&str]) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let base = format!("http://{}/", listener.local_addr().unwrap());
            let replies: Vec<String> = replies.iter().map(|&reply| reply.to_owned()).collect();
            let mut asked = JoinSet::new();
            asked.spawn(async move {
                let mut requests = Vec::new();
                for reply in replies {
                    let (mut socket, _) = listener.accept().await.unwrap();
                    requests.push(read_request(&mut socket).await);
                    // The client may hang up in the middle of a body that it finds too long.
                    let _ = socket.write_all(reply.as_bytes()).await;
                    let _ = socket.shutdown().await;
                }
                requests
            });
            Self {
                endpoint: HttpEndpoint::new(Arc::new(Http::new(Reach::Loopback)), Address::parse(&base, true).unwrap()),
                asked,
            }
        }

        async fn requests(mut self) -> Vec<String> {
            self.asked.join_next().await.unwrap().unwrap()
        }
    }

    async fn read_request(socket: &mut tokio::net::TcpStream) -> String {
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.to_ascii_lowercase().lines().find_map(|line| {
                    line.strip_prefix("content-length:").map(|value| value.trim().parse::<usize>().unwrap())
                });
                if body.len() >= length.unwrap_or(0) {
                    return text;
                }
            }
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0, "the client hung up");
        }
    }

    fn reply(status: &str, headers: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
    }

    fn verifier() -> PkceCodeVerifier {
        PkceCodeVerifier::new(VERIFIER.to_owned())
    }

    #[tokio::test]
    async fn a_post_keeps_the_verifier_out_of_the_url() {
        let fake = Fake::start(&[&reply("404 Not Found", "", "Not found")]).await;
        let answer = fake.endpoint.poll(PollForm::Post, "the-uuid", &verifier()).await.unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (404, b"Not found".as_slice()));
        let request = fake.requests().await.remove(0);
        assert!(request.starts_with("POST /auth/poll HTTP/1.1\r\n"), "{request}");
        assert!(request.to_ascii_lowercase().contains("content-type: application/json\r\n"));
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, format!(r#"{{"uuid":"the-uuid","verifier":"{VERIFIER}"}}"#));
    }

    #[tokio::test]
    async fn a_get_asks_the_same_in_its_query() {
        let fake = Fake::start(&[&reply("200 OK", "date: Tue, 14 Nov 2023 22:13:20 GMT\r\n", "{}")]).await;
        let answer = fake.endpoint.poll(PollForm::Get, "the-uuid", &verifier()).await.unwrap();
        assert_eq!((answer.status, answer.date), (200, Some(Wall(1_700_000_000_000))));
        let request = fake.requests().await.remove(0);
        assert!(
            request.starts_with(&format!("GET /auth/poll?uuid=the-uuid&verifier={VERIFIER} HTTP/1.1\r\n")),
            "{request}"
        );
    }

    #[tokio::test]
    async fn a_renewal_sends_three_strings_and_no_credential_header() {
        let fake = Fake::start(&[&reply("200 OK", "", "{}")]).await;
        fake.endpoint.exchange(&RefreshToken::new("the-refresh".into())).await.unwrap();
        let request = fake.requests().await.remove(0);
        assert!(request.starts_with("POST /oauth/token HTTP/1.1\r\n"), "{request}");
        assert!(!request.to_ascii_lowercase().contains("authorization"));
        let body: serde_json::Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "grant_type": "refresh_token", "client_id": "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB", "refresh_token": "the-refresh"
            })
        );
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_not_followed() {
        let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let location = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
        let fake = Fake::start(&[&reply("307 Temporary Redirect", &location, "")]).await;
        let answer = fake.endpoint.exchange(&RefreshToken::new("r".into())).await.unwrap();
        assert_eq!(answer.status, 307);
        let nobody =
            std::future::poll_fn(|context| std::task::Poll::Ready(elsewhere.poll_accept(context).is_pending()));
        assert!(nobody.await, "the redirect was followed");
    }

    #[tokio::test]
    async fn trouble_names_neither_url_nor_verifier() {
        let fake = Fake::start(&[
            "",
            &reply("200 OK", "", &"x".repeat(BODY_LIMIT + 1)),
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
        ])
        .await;
        for expected in ["", "a body of more than", ""] {
            let error = fake.endpoint.poll(PollForm::Get, "the-uuid", &verifier()).await.unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains(VERIFIER) && !text.contains("the-uuid") && !text.contains("auth/poll"), "{text}");
        }
        let mut gone = fake;
        gone.asked.join_next().await.unwrap().unwrap();
        let error = gone.endpoint.poll(PollForm::Get, "the-uuid", &verifier()).await.unwrap_err();
        assert!(!error.to_string().contains(VERIFIER), "{error}");
    }

    #[tokio::test]
    async fn retry_after_is_seconds_or_a_date_by_the_services_clock() {
        let dated = "date: Tue, 14 Nov 2023 22:13:20 GMT\r\nretry-after: Tue, 14 Nov 2023 22:13:50 GMT\r\n";
        let replies = [reply("429 Too Many Requests", "retry-after: 7\r\n", ""), reply("503 Unavailable", dated, "")];
        let fake = Fake::start(&[&replies[0], &replies[1]]).await;
        for expected in [7, 30] {
            let answer = fake.endpoint.exchange(&RefreshToken::new("r".into())).await.unwrap();
            assert_eq!(answer.retry_after, Some(Duration::from_secs(expected)));
        }
        assert_eq!(wait("soon", Wall(0)), None);
        assert_eq!(wait("Tue, 14 Nov 2023 22:13:50 GMT", Wall(1_800_000_000_000)), Some(Duration::ZERO));
    }

    #[tokio::test]
    async fn a_whole_sign_in_and_a_renewal_over_a_socket() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("data");
        crate::disk::private_folder(&folder).unwrap();
        let session = |n: u32| {
            token(&serde_json::json!({"sub": "auth0|x", "n": n, "exp": 4_000_000_000_u32, "time": "3994816000"}))
        };
        let granted = format!(r#"{{"accessToken":"{}","refreshToken":"r","authId":"auth0|x"}}"#, session(1));
        let renewed = format!(r#"{{"access_token":"{}","shouldLogout":false}}"#, session(2));
        let fake = Fake::start(&[
            &reply("404 Not Found", "", r#"{"message":"Route POST:/auth/poll not found"}"#),
            &reply("200 OK", "", &granted),
            &reply("200 OK", "", &renewed),
        ])
        .await;
        let Fake { endpoint, mut asked } = fake;
        let website = Address::parse("https://cursor.com", false).unwrap();
        let keeper = Keeper::new(&folder, website, Arc::new(endpoint));
        let attempt = keeper.begin().unwrap();
        keeper.redeem(&attempt).await.unwrap();
        let first = keeper.access_token().await.unwrap();
        assert_eq!(first.secret(), &session(1));
        assert_eq!(keeper.renewed(first).await.unwrap().secret(), &session(2));

        // What the service checks: the hash of the verifier that is asked with against the challenge that the link carried.
        let requests = asked.join_next().await.unwrap().unwrap();
        let sent: serde_json::Value = serde_json::from_str(requests[0].split_once("\r\n\r\n").unwrap().1).unwrap();
        let verifier = PkceCodeVerifier::new(sent["verifier"].as_str().unwrap().to_owned());
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
        assert!(attempt.url.contains(&format!(
            "challenge={}&uuid={}",
            challenge.as_str(),
            sent["uuid"].as_str().unwrap()
        )));
        assert!(requests[1].contains(&format!(
            "GET /auth/poll?uuid={}&verifier={} ",
            sent["uuid"].as_str().unwrap(),
            verifier.secret()
        )));
        assert!(requests[2].contains(r#""refresh_token":"r""#));
    }
}

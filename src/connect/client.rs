//! The calls: unary and server stream.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use super::error::{self, Error, ServiceError};
use super::frame::{self, Decoder, Envelopes, MAX_PAYLOAD};
use super::http::{self, BaseUrl, Http, within};

/// The longest unary answer that is read.
const MAX_ANSWER: usize = MAX_PAYLOAD;
/// The longest error body that is read; the status stands without it.
const MAX_ERROR: usize = 256 * 1024;
/// Bytes of a stream beyond which nothing more is waited for before they are given.
const ENOUGH: usize = 64 * 1024;
/// Messages of a stream that are given at once: a payload may be two bytes long.
const AT_ONCE: usize = 256;

/// A Connect client for one backend. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: Arc<Http>,
    base: BaseUrl,
    headers: HeaderMap,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base.to_string()).finish_non_exhaustive()
    }
}

/// A unary answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The JSON of the reply message.
    pub body: Vec<u8>,
    /// The answer's `Date`, in milliseconds since the Unix epoch.
    pub date_ms: Option<i64>,
}

impl fmt::Debug for Answer {
    // The body holds what people wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("bytes", &self.body.len()).field("date_ms", &self.date_ms).finish()
    }
}

impl Client {
    /// A client that sends `headers` with every call, besides Connect's own, a fresh `x-request-id` and the bearer.
    pub fn new(http: Arc<Http>, base: BaseUrl, headers: HeaderMap) -> Self {
        Self { http, base, headers }
    }

    /// The backend's address.
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// The HTTP clients behind this one.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// One unary call: `method` is `<service>/<method>`, `body` the request message as JSON, `limit` covers everything from the connection to the
    /// last byte of the answer. Dropping the future closes the connection; the service may have acted all the same.
    ///
    /// # Errors
    /// Every [`Error`]; [`Error::kind`] says what it proves.
    pub async fn unary(&self, method: &str, bearer: &str, body: Vec<u8>, limit: Duration) -> Result<Answer, Error> {
        let deadline = Instant::now() + limit;
        let mut response = self.send(method, bearer, "application/json", body, deadline).await?;
        let body = within(deadline, http::read_body(&mut response, MAX_ANSWER)).await?;
        Ok(Answer { body, date_ms: error::date_ms(response.headers()) })
    }

    /// Opens a server stream: resolves when the response head is in, for which `limit` counts. The stream itself has no limit: silence on it is
    /// the caller's to judge.
    ///
    /// # Errors
    /// As [`unary`](Self::unary).
    pub async fn stream(&self, method: &str, bearer: &str, body: &[u8], limit: Duration) -> Result<Stream, Error> {
        let deadline = Instant::now() + limit;
        let body = frame::envelope(body);
        let response = self.send(method, bearer, "application/connect+json", body, deadline).await?;
        http::not_compressed(response.headers())?;
        Ok(Stream { state: State::Open(response), decoder: Decoder::default() })
    }

    /// Sends and waits for the head. A head other than 200 is an error.
    async fn send(
        &self,
        method: &str,
        bearer: &str,
        content_type: &'static str,
        body: Vec<u8>,
        deadline: Instant,
    ) -> Result<Response, Error> {
        let url = self.base.join(method);
        let client = self.http.client(&url)?;
        let mut request = Request::new(Method::POST, url);
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert("connect-protocol-version", HeaderValue::from_static("1"));
        headers.insert("x-request-id", text_value(&uuid::Uuid::new_v4().to_string())?);
        let mut authorization = text_value(&format!("Bearer {bearer}"))?;
        authorization.set_sensitive(true);
        headers.insert(AUTHORIZATION, authorization);
        *request.body_mut() = Some(body.into());

        let mut response = within(deadline, async { client.execute(request).await.map_err(Error::from_http) }).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        // The status is known from here on: whatever becomes of the body, it is this error and no broken connection.
        let body = within(deadline, http::read_body(&mut response, MAX_ERROR)).await.unwrap_or_default();
        let error = ServiceError::from_answer(status.as_u16(), response.headers(), &body);
        Err(Error::Service(Box::new(error)))
    }
}

/// A header value; the error doesn't show it.
fn text_value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text)
        .map_err(|_| Error::NotSent("a header value with bytes that no header may hold".to_owned()))
}

/// An open server stream. Dropping it closes the connection.
pub struct Stream {
    state: State,
    decoder: Decoder,
}

enum State {
    Open(Response),
    /// Nothing more comes, for this cause if it has one of its own; what came before still counts.
    Closed(Option<Error>),
    /// How it ended by its end frame: asked again, it says the same.
    Ended(Result<(), Error>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Open(_) => "open",
            State::Ended(Ok(())) => "ended",
            State::Closed(_) | State::Ended(Err(_)) => "failed",
        };
        f.debug_struct("Stream").field("state", &state).finish_non_exhaustive()
    }
}

impl Stream {
    /// The payloads of the next messages, as many as are at hand; `Ok(None)` is a clean end. What follows an end frame isn't read.
    ///
    /// Cancel-safe: bytes that came in are kept in the decoder, and an envelope is consumed only by the call that returns it.
    ///
    /// # Errors
    /// An end frame with an error is [`Error::Service`]; a body that ends without an end frame is [`Error::Broken`].
    pub async fn next(&mut self) -> Result<Option<Vec<&[u8]>>, Error> {
        self.fill().await;
        if let State::Ended(outcome) = &self.state {
            return outcome.clone().map(|()| None);
        }
        let cut = self.decoder.is_cut();
        match self.decoder.take(AT_ONCE)? {
            Some(Envelopes::Messages(payloads)) => Ok(Some(payloads)),
            Some(Envelopes::End(payload)) => {
                let outcome = match ServiceError::from_end(payload) {
                    Ok(None) => Ok(()),
                    Ok(Some(error)) => Err(Error::Service(Box::new(error))),
                    Err(_) => Err(Error::Broken("the end frame can't be read".to_owned())),
                };
                self.state = State::Ended(outcome.clone());
                outcome.map(|()| None)
            }
            None => Err(match &self.state {
                State::Closed(Some(error)) => error.clone(),
                _ if cut => Error::Broken("the stream was cut inside a frame".to_owned()),
                _ => Error::Broken("the stream ended without its end frame".to_owned()),
            }),
        }
    }

    /// Reads until a whole envelope is there and nothing more is at hand, or the stream has ended before.
    ///
    /// What is at hand is taken together: with one message at a time the code of each step drives that of the others out of the processor's caches,
    /// and a flood of rows in frames of their own costs a sixth more.
    async fn fill(&mut self) {
        while let State::Open(response) = &mut self.state {
            // Of a frame that can't be read whoever takes hears.
            let Ok(ready) = self.decoder.ready() else { return };
            let chunk = if !ready {
                response.chunk().await
            } else if self.decoder.held() < ENOUGH
                && let Some(chunk) = at_hand(response.chunk()).await
            {
                chunk
            } else {
                return;
            };
            match chunk {
                Ok(Some(chunk)) => self.decoder.push(chunk),
                Ok(None) => self.state = State::Closed(None),
                Err(error) => self.state = State::Closed(Some(Error::from_http(error))),
            }
        }
    }
}

/// What a future gives without anything new from outside. The connection has a task of its own, which hands over one chunk, and the next one only when
/// it was asked for: so the other tasks get one turn.
async fn at_hand<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut turned = false;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if turned => Poll::Ready(None),
        Poll::Pending => {
            turned = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::super::testing::{Peer, Step, answer, chunk, envelope, http, json, last_chunk, stream_head};
    use super::super::{Code, Kind};
    use super::*;

    const ROOM: Duration = Duration::from_secs(10);

    fn client(peer: &Peer) -> Client {
        let mut headers = HeaderMap::new();
        headers.insert("x-static", HeaderValue::from_static("yes"));
        Client::new(http(), peer.base(), headers)
    }

    async fn unary(script: Vec<Step>) -> Result<Answer, Error> {
        let peer = Peer::start(vec![script]).await;
        client(&peer).unary("a.v1.S/M", "secret-token", b"{}".to_vec(), ROOM).await
    }

    async fn open(script: Vec<Step>) -> (Peer, Result<Stream, Error>) {
        let peer = Peer::start(vec![script]).await;
        let stream = client(&peer).stream("a.v1.S/W", "secret-token", b"{\"x\":1}", ROOM).await;
        (peer, stream)
    }

    fn text(payload: &[u8]) -> String {
        String::from_utf8(payload.to_vec()).unwrap()
    }

    /// Everything that the stream gives, and how it ends.
    async fn drain(script: Vec<Step>) -> (Vec<String>, Result<(), Error>) {
        let (_peer, stream) = open(script).await;
        let mut stream = stream.unwrap();
        let mut messages = Vec::new();
        loop {
            match stream.next().await {
                Ok(Some(payloads)) => messages.extend(payloads.into_iter().map(text)),
                Ok(None) => return (messages, Ok(())),
                Err(error) => {
                    let again = stream.next().await.unwrap_err();
                    assert_eq!(again.to_string(), error.to_string(), "an error stays");
                    return (messages, Err(error));
                }
            }
        }
    }

    fn service(error: Error) -> ServiceError {
        match error {
            Error::Service(error) => *error,
            other => panic!("expected an answer of the service, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_unary_call_sends_what_the_wire_asks_for() {
        let mut peer =
            Peer::start(vec![answer("200 OK", "date: Mon, 30 Nov 2026 10:00:00 GMT\r\n", "{\"a\":1}")]).await;
        let client = client(&peer);
        let answer = client.unary("a.v1.S/M", "secret-token", b"{\"q\":2}".to_vec(), ROOM).await.unwrap();
        assert_eq!(answer.body, b"{\"a\":1}");
        assert_eq!(answer.date_ms, Some(1_796_032_800_000));
        let request = peer.request().await;
        assert_eq!(request.text(), "{\"q\":2}");
        for part in [
            "post /a.v1.s/m http/1.1",
            "\r\nauthorization: bearer secret-token\r\n",
            "\r\ncontent-type: application/json\r\n",
            "\r\nconnect-protocol-version: 1\r\n",
            "\r\nx-static: yes\r\n",
            "\r\nuser-agent: coda-grok-bot/",
        ] {
            assert!(request.head.contains(part), "{part:?} in {}", request.head);
        }
        for part in ["accept-encoding", "cookie", "referer"] {
            assert!(!request.head.contains(part), "{part:?} in {}", request.head);
        }
        client.unary("a.v1.S/M", "secret-token", b"{}".to_vec(), ROOM).await.unwrap();
        let id = |head: &str| head.lines().find(|line| line.starts_with("x-request-id: ")).unwrap().to_owned();
        assert_ne!(id(&request.head), id(&peer.request().await.head), "a fresh id for each request");
        let shown = format!("{client:?} {answer:?}");
        assert!(!shown.contains("secret-token"), "{shown}");
    }

    #[tokio::test]
    async fn a_stream_request_is_one_envelope() {
        let (mut peer, stream) = open(vec![stream_head(), chunk(&envelope(2, "{}")), last_chunk()]).await;
        assert_eq!(stream.unwrap().next().await.unwrap(), None);
        let request = peer.request().await;
        assert_eq!(request.body, envelope(0, "{\"x\":1}"));
        assert!(request.head.contains("\r\ncontent-type: application/connect+json\r\n"), "{}", request.head);
    }

    #[tokio::test]
    async fn error_answers_keep_their_status_whatever_their_body() {
        let html = "<html><title>502 Bad Gateway</title></html>";
        let error =
            unary(answer("502 Bad Gateway", "content-type: text/html\r\nretry-after: 4\r\n", html)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Transient { retry_after: Some(Duration::from_secs(4)) });
        assert_eq!(service(error).status, Some(502));

        let error = unary(answer("401 Unauthorized", "", "")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Auth);

        let error = unary(answer("404 Not Found", "", "nothing here")).await.unwrap_err();
        assert_eq!(service(error).code, Some(Code::Unimplemented));

        let body = r#"{"code":"not_found","message":"Error"}"#;
        let error =
            service(unary(answer("404 Not Found", "x-grok-bot-refusal: box_harness\r\n", body)).await.unwrap_err());
        assert_eq!((error.code, error.refusal.as_deref()), (Some(Code::NotFound), Some("box_harness")));
    }

    #[tokio::test]
    async fn an_error_status_stands_though_its_body_breaks() {
        for script in [
            vec![Step::Send(b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\n{\"code\"".to_vec())],
            vec![Step::Send(b"HTTP/1.1 503 Busy\r\ncontent-length: 99999999999\r\n\r\n".to_vec())],
            vec![Step::Send(b"HTTP/1.1 503 Busy\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\nabc".to_vec())],
        ] {
            let error = unary(script).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Transient { retry_after: None });
        }
        let peer = Peer::start(vec![vec![
            Step::Send(b"HTTP/1.1 401 No\r\ncontent-length: 100\r\n\r\n{".to_vec()),
            Step::Hold,
        ]])
        .await;
        let limit = Duration::from_secs(2);
        let error = client(&peer).unary("a.v1.S/M", "t", b"{}".to_vec(), limit).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Auth, "a stalled body doesn't hide a 401");
    }

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let target = Peer::start(vec![json("{}")]).await;
        let location = format!("location: {}\r\n", target.base().join("stolen"));
        let error = unary(answer("307 Temporary Redirect", &location, "")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Permanent);
        assert!(error.to_string().contains("redirect"), "{error}");
        assert_eq!(target.waiting(), 0, "nobody asked there");
    }

    #[tokio::test]
    async fn answers_are_bounded_and_never_decompressed() {
        let error =
            unary(vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 33554433\r\n\r\n".to_vec()), Step::Hold])
                .await
                .unwrap_err();
        assert!(matches!(error, Error::Unreadable(_)), "{error:?}");
        let error = unary(answer("200 OK", "content-encoding: gzip\r\n", "{}")).await.unwrap_err();
        assert!(matches!(error, Error::Unreadable(_)), "{error:?}");
        let (_peer, stream) =
            open(vec![Step::Send(b"HTTP/1.1 200 OK\r\nconnect-content-encoding: gzip\r\n\r\n".to_vec())]).await;
        assert!(matches!(stream.unwrap_err(), Error::Unreadable(_)));
    }

    #[tokio::test]
    async fn no_connection_proves_that_nothing_was_sent() {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = BaseUrl::parse(&format!("http://{}", free.local_addr().unwrap()), http().reach()).unwrap();
        drop(free);
        let client = Client::new(http(), base, HeaderMap::new());
        let error = client.unary("a.v1.S/M", "secret-token", b"{}".to_vec(), ROOM).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotSent, "{error}");

        // TLS that comes to nothing is no connection either.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = BaseUrl::parse(&format!("https://{}", listener.local_addr().unwrap()), http().reach()).unwrap();
        let tls = Client::new(http(), base, HeaderMap::new());
        let hang_up = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"no TLS here\r\n").await.unwrap();
        };
        let (error, ()) = tokio::join!(tls.unary("a.v1.S/M", "secret-token", b"{}".to_vec(), ROOM), hang_up);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), Kind::NotSent, "{error}");

        let error = client.unary("a.v1.S/M", "bad\ntoken", b"{}".to_vec(), ROOM).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotSent);
        assert!(!error.to_string().contains("token"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_proves_nothing() {
        for script in [
            vec![],
            vec![Step::Reset],
            vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())],
            vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"a\":".to_vec())],
            vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()), Step::Reset],
            vec![Step::Send(b"garbage that is no HTTP\r\n\r\n".to_vec())],
        ] {
            let error = unary(script.clone()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Broken, "{script:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_stalled_head_or_body_ends_with_the_limit() {
        for script in
            [vec![Step::Hold], vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()), Step::Hold]]
        {
            let peer = Peer::start(vec![script]).await;
            let limit = Duration::from_millis(300);
            let error = client(&peer).unary("a.v1.S/M", "t", b"{}".to_vec(), limit).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Broken);
        }
        let peer = Peer::start(vec![vec![Step::Hold]]).await;
        let error = client(&peer).stream("a.v1.S/W", "t", b"{}", Duration::from_millis(300)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Broken, "the head of a stream is bounded, too");
    }

    #[tokio::test]
    async fn a1_a_body_without_an_end_frame_is_a_broken_stream() {
        let message = chunk(&envelope(0, "{\"n\":5}"));
        let cut = envelope(0, "{\"n\":6}");
        for rest in
            [vec![last_chunk()], vec![], vec![chunk(&cut[..3]), last_chunk()], vec![chunk(&cut[..8]), last_chunk()]]
        {
            let mut script = vec![stream_head(), message.clone()];
            script.extend(rest);
            let (messages, end) = drain(script.clone()).await;
            assert_eq!(messages, ["{\"n\":5}"], "once, and nothing of the cut one");
            assert_eq!(end.unwrap_err().kind(), Kind::Broken, "{script:?}");
        }
    }

    #[tokio::test]
    async fn an_end_frame_ends_the_stream_and_what_follows_is_not_read() {
        let mut bytes = envelope(0, "{}");
        bytes.extend(envelope(2, "{}"));
        bytes.extend(envelope(0, "{\"late\":1}"));
        bytes.extend(b"\x01garbage");
        let (messages, end) = drain(vec![stream_head(), chunk(&bytes), Step::Hold]).await;
        assert_eq!(messages, ["{}"]);
        end.unwrap();
    }

    #[tokio::test]
    async fn many_messages_at_hand_are_given_in_their_order_and_never_too_many_at_once() {
        let count = 3 * AT_ONCE + 1;
        let bytes: Vec<u8> = (0..count).flat_map(|n| envelope(0, &n.to_string())).collect();
        // The end is at hand, too: it comes after them.
        let (_peer, stream) = open(vec![stream_head(), chunk(&bytes), chunk(&envelope(2, "{}")), last_chunk()]).await;
        let mut stream = stream.unwrap();
        let mut messages = Vec::new();
        while let Some(payloads) = stream.next().await.unwrap() {
            assert!(payloads.len() <= AT_ONCE);
            messages.extend(payloads.into_iter().map(text));
        }
        assert_eq!(messages, (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(stream.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn at_hand_is_what_the_other_tasks_give_in_one_turn() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            for n in 0..100 {
                sender.send(n).await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        for n in 0..100 {
            assert_eq!(at_hand(receiver.recv()).await, Some(Some(n)));
        }
        assert_eq!(at_hand(receiver.recv()).await, None);
    }

    #[tokio::test]
    async fn errors_of_the_end_frame_come_under_http_200() {
        for (payload, kind) in [
            (r#"{"error":{"code":"unauthenticated","message":"Error"}}"#, Kind::Auth),
            (
                r#"{"error":{"code":"resource_exhausted","message":"Error","details":[]}}"#,
                Kind::Transient { retry_after: None },
            ),
            (r#"{"error":{"code":"permission_denied"}}"#, Kind::Refused),
            ("not json", Kind::Broken),
        ] {
            let (messages, end) = drain(vec![stream_head(), chunk(&envelope(2, payload)), last_chunk()]).await;
            assert!(messages.is_empty());
            assert_eq!(end.unwrap_err().kind(), kind, "{payload}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_refused_is_an_error_answer() {
        let (_peer, stream) =
            open(answer("429 Too Many", "retry-after: 9\r\n", r#"{"code":"resource_exhausted"}"#)).await;
        assert_eq!(stream.unwrap_err().kind(), Kind::Transient { retry_after: Some(Duration::from_secs(9)) });
        let (_peer, stream) = open(answer("401 Unauthorized", "", r#"{"code":"unauthenticated"}"#)).await;
        assert_eq!(stream.unwrap_err().kind(), Kind::Auth);
    }

    #[tokio::test]
    async fn frames_that_cannot_be_read_end_the_stream() {
        for bytes in [
            envelope(1, "zip"),
            envelope(3, "zip"),
            envelope(0x40, "{}"),
            b"<html>captive portal</html>".to_vec(),
            vec![0, 0x02, 0, 0, 1, b'{'],
        ] {
            let mut all = envelope(0, "{}");
            all.extend(&bytes);
            let (messages, end) = drain(vec![stream_head(), chunk(&all), Step::Hold]).await;
            assert_eq!(messages, ["{}"], "what came before counts");
            assert!(matches!(end, Err(Error::Unreadable(_))), "{end:?}");
        }
    }

    #[tokio::test]
    async fn a13_no_limit_of_a_call_ends_a_stream() {
        // The limit is 2 s; the stream lives 3 s and says something every 100 ms.
        let mut script = vec![stream_head()];
        for _ in 0..30 {
            script.push(chunk(&envelope(0, "{}")));
            script.push(Step::Pause(Duration::from_millis(100)));
        }
        script.push(chunk(&envelope(2, "{}")));
        let mut peer = Peer::start(vec![script]).await;
        let mut stream = client(&peer).stream("a.v1.S/W", "t", b"{}", Duration::from_secs(2)).await.unwrap();
        let mut heard = 0;
        while let Some(payloads) = stream.next().await.unwrap() {
            heard += payloads.len();
        }
        assert_eq!(heard, 30);
        peer.request().await;
        assert_eq!(peer.waiting(), 0, "one connection");
    }

    #[tokio::test]
    async fn a18_one_byte_per_chunk() {
        let text = "{\"content\":\"你好🦀\"}";
        let mut bytes = envelope(0, text);
        bytes.extend(envelope(2, "{}"));
        let mut script = vec![stream_head()];
        script.extend(bytes.iter().map(|byte| chunk(&[*byte])));
        script.push(last_chunk());
        let (messages, end) = drain(script).await;
        assert_eq!(messages, [text]);
        end.unwrap();
    }

    #[tokio::test]
    async fn a_reset_after_a_frame_is_a_broken_stream() {
        // The reset waits until the frame was read: it would take what still lies in the socket with it.
        let gate = Arc::new(Notify::new());
        let script = vec![stream_head(), chunk(&envelope(0, "{}")), Step::Gate(Arc::clone(&gate)), Step::Reset];
        let (_peer, stream) = open(script).await;
        let mut stream = stream.unwrap();
        assert_eq!(stream.next().await.unwrap(), Some(vec![&b"{}"[..]]));
        gate.notify_one();
        assert_eq!(stream.next().await.unwrap_err().kind(), Kind::Broken);
    }

    #[tokio::test]
    async fn a_dropped_next_loses_nothing() {
        let bytes = envelope(0, "{\"n\":1}");
        let gate = Arc::new(Notify::new());
        let script = vec![
            stream_head(),
            chunk(&bytes[..7]),
            Step::Gate(Arc::clone(&gate)),
            chunk(&bytes[7..]),
            chunk(&envelope(2, "{}")),
        ];
        let (_peer, stream) = open(script).await;
        let mut stream = stream.unwrap();
        for _ in 0..3 {
            let early = tokio::time::timeout(Duration::from_millis(20), stream.next()).await;
            assert!(early.is_err(), "the frame isn't whole");
        }
        gate.notify_one();
        assert_eq!(stream.next().await.unwrap(), Some(vec![&b"{\"n\":1}"[..]]));
        assert_eq!(stream.next().await.unwrap(), None);
    }
}

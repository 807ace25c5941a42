//! The calls: unary and server stream.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::error::{self, Error, ServiceError};
use super::frame::{self, Decoder, Envelope, MAX_PAYLOAD};
use super::http::{self, BaseUrl, Http};

/// The longest unary answer that is read.
const MAX_ANSWER: usize = MAX_PAYLOAD;
/// The longest error body that is read; the status stands without it.
const MAX_ERROR: usize = 256 * 1024;

/// A Connect client for one backend. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: Arc<Http>,
    base: BaseUrl,
    headers: HeaderMap,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base.to_string())
            .finish_non_exhaustive()
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
        f.debug_struct("Answer")
            .field("bytes", &self.body.len())
            .field("date_ms", &self.date_ms)
            .finish()
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
        Ok(Answer {
            body,
            date_ms: error::date_ms(response.headers()),
        })
    }

    /// Opens a server stream: resolves when the response head is in, for which `limit` counts. The stream itself has no limit: silence on it is
    /// the caller's to judge.
    ///
    /// # Errors
    /// As [`unary`](Self::unary).
    pub async fn stream(&self, method: &str, bearer: &str, body: &[u8], limit: Duration) -> Result<Stream, Error> {
        let deadline = Instant::now() + limit;
        let body = frame::envelope(body);
        let response = self
            .send(method, bearer, "application/connect+json", body, deadline)
            .await?;
        http::not_compressed(response.headers())?;
        Ok(Stream {
            state: State::Open(response),
            decoder: Decoder::default(),
        })
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

        let mut response = within(deadline, async {
            client.execute(request).await.map_err(Error::from_http)
        })
        .await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        // The status is known from here on: whatever becomes of the body, it is this error and no broken connection.
        let body = within(deadline, http::read_body(&mut response, MAX_ERROR))
            .await
            .unwrap_or_default();
        let error = ServiceError::from_answer(status.as_u16(), response.headers(), &body);
        Err(Error::Service(Box::new(error)))
    }
}

/// A header value; the error doesn't show it.
fn text_value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text)
        .map_err(|_| Error::NotSent("a header value with bytes that no header may hold".to_owned()))
}

async fn within<T>(deadline: Instant, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout_at(deadline, call).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::Broken("no answer in time".to_owned())),
    }
}

/// An open server stream. Dropping it closes the connection.
pub struct Stream {
    state: State,
    decoder: Decoder,
}

enum State {
    Open(Response),
    /// How it ended: asked again, it says the same.
    Ended(Result<(), Error>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Open(_) => "open",
            State::Ended(Ok(())) => "ended",
            State::Ended(Err(_)) => "failed",
        };
        f.debug_struct("Stream").field("state", &state).finish_non_exhaustive()
    }
}

impl Stream {
    /// The payload of the next message; `Ok(None)` is a clean end. What follows an end frame isn't read.
    ///
    /// Cancel-safe: bytes that came in are kept in the decoder, and an envelope is consumed only by the call that returns it.
    ///
    /// # Errors
    /// An end frame with an error is [`Error::Service`]; a body that ends without an end frame is [`Error::Broken`].
    pub async fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        if let Err(error) = self.fill().await {
            self.state = State::Ended(Err(error));
        }
        if let State::Ended(outcome) = &self.state {
            return outcome.clone().map(|()| None);
        }
        match self.decoder.take()? {
            Some(Envelope::Message(payload)) => Ok(Some(payload)),
            Some(Envelope::End(payload)) => {
                let outcome = match ServiceError::from_end(payload) {
                    Ok(None) => Ok(()),
                    Ok(Some(error)) => Err(Error::Service(Box::new(error))),
                    Err(_) => Err(Error::Broken("the end frame can't be read".to_owned())),
                };
                self.state = State::Ended(outcome.clone());
                outcome.map(|()| None)
            }
            None => Err(Error::Broken("no frame".to_owned())),
        }
    }

    /// Reads until a whole envelope is there, or the stream has ended before.
    async fn fill(&mut self) -> Result<(), Error> {
        let State::Open(response) = &mut self.state else {
            return Ok(());
        };
        while !self.decoder.ready()? {
            match response.chunk().await.map_err(Error::from_http)? {
                Some(chunk) => self.decoder.push(&chunk),
                None if self.decoder.is_cut() => {
                    return Err(Error::Broken("the stream was cut inside a frame".to_owned()));
                }
                None => return Err(Error::Broken("the stream ended without its end frame".to_owned())),
            }
        }
        Ok(())
    }
}

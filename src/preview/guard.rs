//! Who may talk to the page's server, and what every answer tells the browser.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Key;

/// The header of the page's own requests.
pub(super) const KEY_HEADER: &str = "x-preview-key";
/// The subprotocol of the page's WebSocket.
pub(super) const PROTOCOL: &str = "coda-grok-bot.host";
/// Beside it the page offers one with its key: a browser lets a page set no header of a WebSocket but this one, and a header, unlike an address,
/// is kept in no list of what was visited.
const KEY_PROTOCOL: &str = "key.";

/// Nothing but what is served here: no inline script or style, no other origin, no frame around the page, and no text becomes markup but through
/// the sanitiser.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

const HEADERS: [(header::HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
];

/// The addresses that this server answers to.
#[derive(Clone, Debug)]
pub(super) struct Hosts([String; 2]);

impl Hosts {
    pub(super) fn new(port: u16) -> Self {
        Self([format!("127.0.0.1:{port}"), format!("localhost:{port}")])
    }

    /// Whether the request names this server, and comes from its page or from no page.
    ///
    /// The name guards against one that somebody else bent to 127.0.0.1, the origin against any other page. A request that carries no origin is
    /// either no page's or a plain navigation, which reads nothing.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or(""));
        let Some(host) = text(header::HOST).filter(|host| self.0.iter().any(|own| own == host)) else {
            return false;
        };
        text(header::ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
    }
}

/// Refuses strangers; sets the headers of every answer.
pub(super) async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = if !hosts.admits(request.headers()) {
        StatusCode::FORBIDDEN.into_response()
    } else if matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) {
        next.run(request).await
    } else {
        StatusCode::METHOD_NOT_ALLOWED.into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a request of the page carries the key. It is never without an origin: a browser adds it to what isn't a plain read.
pub(super) fn has_key(headers: &HeaderMap, key: &Key) -> bool {
    headers.get(KEY_HEADER).and_then(|given| given.to_str().ok()).is_some_and(|given| key.is(given))
}

/// Whether the page's WebSocket carries the key and its origin.
pub(super) fn socket_has_key(headers: &HeaderMap, key: &Key) -> bool {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let mut keys = offered.flat_map(|list| list.split(',')).filter_map(|one| one.trim().strip_prefix(KEY_PROTOCOL));
    headers.contains_key(header::ORIGIN) && keys.any(|given| key.is(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_this_address_and_this_origin_are_admitted() {
        let hosts = Hosts::new(4000);
        let (own, other) = ("127.0.0.1:4000", "localhost:4000");
        for good in [
            headers(&[("host", own)]),
            headers(&[("host", other)]),
            headers(&[("host", own), ("origin", "http://127.0.0.1:4000")]),
            headers(&[("host", other), ("origin", "http://localhost:4000")]),
        ] {
            assert!(hosts.admits(&good), "{good:?}");
        }
        for bad in [
            headers(&[]),
            headers(&[("host", "127.0.0.1")]),
            headers(&[("host", "127.0.0.1:4001")]),
            headers(&[("host", "rebound.example:4000")]),
            headers(&[("host", "127.0.0.1:4000.example")]),
            headers(&[("host", own), ("origin", "null")]),
            headers(&[("host", own), ("origin", "https://127.0.0.1:4000")]),
            headers(&[("host", own), ("origin", "http://127.0.0.1:4001")]),
            headers(&[("host", own), ("origin", "http://localhost:4000")]),
            headers(&[("host", own), ("origin", "http://evil.example")]),
        ] {
            assert!(!hosts.admits(&bad), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_looked_for_where_it_belongs() {
        let key = Key::random();
        let offer = format!("{PROTOCOL}, key.{}", key.0);
        let origin = ("origin", "http://127.0.0.1:4000");
        assert!(socket_has_key(&headers(&[origin, ("sec-websocket-protocol", &offer)]), &key));
        assert!(!socket_has_key(&headers(&[("sec-websocket-protocol", &offer)]), &key), "a page always has an origin");
        let short = &offer[..offer.len() - 1];
        assert!(!socket_has_key(&headers(&[origin, ("sec-websocket-protocol", short)]), &key));
        assert!(!socket_has_key(&headers(&[origin]), &key));
        assert!(has_key(&headers(&[("x-preview-key", &key.0)]), &key));
        assert!(!has_key(&headers(&[("x-preview-key", "")]), &key));
        assert!(!has_key(&headers(&[]), &key));
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = Key::random();
        assert!(!format!("{key:?}").contains(&key.0));
        assert_eq!(key.0.len(), 64);
    }
}

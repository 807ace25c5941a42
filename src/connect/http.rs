//! How every HTTP client of this program is built, and where it may connect to.
//!
//! No redirects are followed, no cookies kept, nothing decompressed, nothing retried. TLS is rustls with ring, and the platform's own verifier
//! judges certificates, so that the system's certificates (and `SSL_CERT_FILE`) are honoured. A proxy of the environment is used for https to other
//! machines alone: loopback never goes through one, and plain http, which is only lawful on loopback, neither.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

use super::error::{self, Error, ServiceError};

/// How long a connection may take to come about: DNS, TCP, the proxy's tunnel and TLS. Shorter than the limit of any call, so that a machine
/// without a network gives [`Error::NotSent`] and not a broken call.
const CONNECT: Duration = Duration::from_secs(10);
/// An idle connection is dropped before the usual limits of servers and address translators.
const IDLE: Duration = Duration::from_secs(30);

/// Which addresses may be connected to at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every lawful address.
    Anywhere,
    /// Loopback alone: under test.
    Loopback,
}

impl Reach {
    /// What `GROK_BOT_TEST` says: set and neither empty nor `0`, loopback alone.
    pub fn from_env() -> Self {
        match std::env::var_os("GROK_BOT_TEST") {
            Some(value) if !value.is_empty() && value != "0" => Self::Loopback,
            _ => Self::Anywhere,
        }
    }

    fn check(self, url: &Url) -> Result<(), AddressError> {
        if self == Self::Loopback && !is_loopback(url) {
            return Err(AddressError::Test(origin(url)));
        }
        Ok(())
    }
}

/// Why an address isn't used. Shows an origin at most.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No URL at all.
    #[error("not a URL")]
    Malformed,
    /// Neither https, nor http on loopback.
    #[error("{0} is neither https nor http on loopback")]
    Insecure(String),
    /// Has a user name, a password, a query or a fragment.
    #[error("an address must have no user name, password, query or fragment")]
    Extra,
    /// Another machine, under test.
    #[error("GROK_BOT_TEST is set and {0} isn't loopback")]
    Test(String),
}

/// A backend's address: https anywhere, or http on loopback; no user name, query or fragment. A path is kept as a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Reads and judges an address.
    ///
    /// # Errors
    /// One that isn't lawful, or, under test, isn't loopback.
    pub fn parse(text: &str, reach: Reach) -> Result<Self, AddressError> {
        let url = Url::parse(text.trim()).map_err(|_| AddressError::Malformed)?;
        secure(&url)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(AddressError::Extra);
        }
        reach.check(&url)?;
        Ok(Self(url))
    }

    /// The URL of a path under this address. `path` has no leading slash.
    pub fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let prefix = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{prefix}/{path}"));
        url
    }

    /// On this machine: 127.0.0.0/8, ::1 or `localhost`.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// Judges a URL that the service handed out (a pre-signed one): https, or http on loopback where that is allowed; never with a user name.
///
/// # Errors
/// One that isn't lawful. The error shows an origin at most, never the query.
pub fn handed_out(text: &str, loopback_http: bool) -> Result<Url, AddressError> {
    let url = Url::parse(text).map_err(|_| AddressError::Malformed)?;
    secure(&url)?;
    if url.scheme() == "http" && !loopback_http {
        return Err(AddressError::Insecure(origin(&url)));
    }
    Ok(url)
}

fn secure(url: &Url) -> Result<(), AddressError> {
    let lawful = match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(url),
        _ => false,
    };
    if !lawful {
        return Err(AddressError::Insecure(origin(url)));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Extra);
    }
    Ok(())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Scheme, host and port: what may be shown of a URL.
fn origin(url: &Url) -> String {
    match url.host_str() {
        Some(host) => match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        },
        None => format!("{}:", url.scheme()),
    }
}

/// The HTTP clients of the program, each built when it is first used: reading the system's certificates costs time at the start that a command
/// without network needn't pay.
#[derive(Debug)]
pub struct Http {
    reach: Reach,
    /// http on loopback: needs no certificates, and works on a machine that has none.
    plain: OnceLock<reqwest::Client>,
    /// https on loopback: no proxy.
    local: OnceLock<reqwest::Client>,
    /// https elsewhere: through the environment's proxy, where there is one.
    outside: OnceLock<reqwest::Client>,
}

impl Http {
    /// Clients that connect to what `reach` allows.
    pub fn new(reach: Reach) -> Self {
        Self { reach, plain: OnceLock::new(), local: OnceLock::new(), outside: OnceLock::new() }
    }

    /// Which addresses are allowed.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The client for a URL. It has a limit on connecting and none on a request as a whole: the caller sets that.
    ///
    /// # Errors
    /// [`Error::NotSent`] where the address isn't allowed or the system has no certificates. A failed build is tried again next time.
    pub fn client(&self, url: &Url) -> Result<&reqwest::Client, Error> {
        let refused = |error: AddressError| Error::NotSent(error.to_string());
        secure(url).map_err(refused)?;
        self.reach.check(url).map_err(refused)?;
        let (slot, local) = match (url.scheme(), is_loopback(url)) {
            ("http", _) => (&self.plain, true),
            (_, true) => (&self.local, true),
            (_, false) => (&self.outside, false),
        };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let mut builder = builder();
        if local {
            // Whatever the resolver says, `localhost` is this machine (port 0: the URL's own).
            let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
            builder = builder.no_proxy().resolve_to_addrs("localhost", &here);
        }
        if url.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(Error::from_http)?;
        Ok(slot.get_or_init(|| client))
    }

    /// Whether anything answers at a URL, whatever it says: asked without credentials, and nothing of the answer is read but its `Date` (in milliseconds
    /// since the Unix epoch).
    ///
    /// # Errors
    /// [`Error::NotSent`] and [`Error::Broken`].
    pub async fn probe(&self, url: Url, limit: Duration) -> Result<Option<i64>, Error> {
        let request = self.client(&url)?.get(url);
        let call = async {
            let response = request.send().await.map_err(Error::from_http)?;
            Ok(error::date_ms(response.headers()))
        };
        within(Instant::now() + limit, call).await
    }

    /// Reads a URL that needs no credentials and gets none: no header but the user agent. `Ok(None)` is a 404.
    ///
    /// # Errors
    /// As every call; a status other than 200 and 404 is [`Error::Service`].
    pub async fn get(&self, url: Url, limit: Duration, max: usize) -> Result<Option<Vec<u8>>, Error> {
        let request = self.client(&url)?.get(url);
        let call = async {
            let mut response = request.send().await.map_err(Error::from_http)?;
            match response.status().as_u16() {
                200 => read_body(&mut response, max).await.map(Some),
                404 => Ok(None),
                status => {
                    let error = ServiceError::from_answer(status, response.headers(), &[]);
                    Err(Error::Service(Box::new(error)))
                }
            }
        };
        within(Instant::now() + limit, call).await
    }
}

/// A call that may take until `deadline`.
pub(super) async fn within<T>(deadline: Instant, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout_at(deadline, call).await.unwrap_or_else(|_| Err(Error::Broken("no answer in time".to_owned())))
}

fn builder() -> reqwest::ClientBuilder {
    // Fails where a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("coda-grok-bot/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(4)
}

/// Reads the body of a response up to `limit` bytes. Dropping the future drops the rest of the body.
///
/// # Errors
/// [`Error::Unreadable`] where it is longer or compressed, [`Error::Broken`] where the connection fails before its end.
pub async fn read_body(response: &mut reqwest::Response, limit: usize) -> Result<Vec<u8>, Error> {
    not_compressed(response.headers())?;
    let too_large = || Error::Unreadable(format!("answer of more than {limit} bytes"));
    let announced = response.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced > limit {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(announced);
    while let Some(chunk) = response.chunk().await.map_err(Error::from_http)? {
        if body.len() + chunk.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// No compression was asked for, so a compressed answer comes from something that breaks the rules; it would be read as garbage.
pub(super) fn not_compressed(headers: &HeaderMap) -> Result<(), Error> {
    for name in ["content-encoding", "connect-content-encoding"] {
        if let Some(value) = headers.get(name)
            && !value.as_bytes().eq_ignore_ascii_case(b"identity")
        {
            let value = value.to_str().unwrap_or("unknown");
            return Err(Error::Unreadable(format!("answer in encoding {}", error::presentable(value))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lawful_addresses() {
        for text in [
            "https://api2.cursor.sh",
            "https://192.0.2.7:8443/prefix/",
            "http://127.0.0.1:80",
            "http://127.9.9.9:8080",
            "http://[::1]:9000/",
            "http://localhost:1",
            " https://example.test/ ",
        ] {
            assert!(BaseUrl::parse(text, Reach::Anywhere).is_ok(), "{text}");
        }
        for text in [
            "http://api2.cursor.sh",
            "http://10.0.0.1",
            "http://localhost.example.test",
            "http://0.0.0.0:80",
            "ftp://localhost",
            "file:///etc/hosts",
            "https://user@example.test",
            "https://user:secret@example.test",
            "http://:pw@127.0.0.1",
            "https://example.test/?key=secret",
            "https://example.test/#part",
            "example.test",
            "",
        ] {
            let error = BaseUrl::parse(text, Reach::Anywhere).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn paths_are_joined_below_a_prefix() {
        let join = |base: &str| BaseUrl::parse(base, Reach::Anywhere).unwrap().join("a.v1.S/M").to_string();
        assert_eq!(join("https://example.test"), "https://example.test/a.v1.S/M");
        assert_eq!(join("https://example.test/x/"), "https://example.test/x/a.v1.S/M");
    }

    #[test]
    fn a23_under_test_only_loopback_is_reached() {
        let error = BaseUrl::parse("https://api2.cursor.sh", Reach::Loopback).unwrap_err();
        assert_eq!(error, AddressError::Test("https://api2.cursor.sh".to_owned()));
        assert!(BaseUrl::parse("http://127.0.0.1:1", Reach::Loopback).is_ok());
        // A URL that the service handed out is checked where the client is taken, before a socket opens.
        let url = handed_out("https://store.example.test/blob?sig=secret", false).unwrap();
        let error = Http::new(Reach::Loopback).client(&url).unwrap_err();
        assert!(matches!(&error, Error::NotSent(text) if !text.contains("secret")), "{error}");
    }

    #[test]
    fn handed_out_urls() {
        assert!(handed_out("https://store.example.test/a?sig=1", false).is_ok());
        assert!(handed_out("http://127.0.0.1:9/a?sig=1", true).is_ok());
        for (text, loopback_http) in [
            ("http://127.0.0.1:9/a", false),
            ("http://store.example.test/a", true),
            ("https://u:secret@store.example.test/a", true),
            ("data:text/plain,secret", true),
            ("/relative?secret", true),
        ] {
            let error = handed_out(text, loopback_http).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn loopback_by_http_needs_no_certificates_and_no_proxy() {
        let http = Http::new(Reach::Loopback);
        let url = Url::parse("http://127.0.0.1:9/").unwrap();
        assert!(http.client(&url).is_ok());
        assert!(http.outside.get().is_none(), "built when first used");
    }

    /// The environment of a process can't be changed under other tests, so this one runs itself again in a process of its own.
    #[tokio::test]
    async fn a_proxy_of_the_environment_is_for_https_elsewhere_alone() {
        use super::super::testing::{Peer, answer};

        const CHILD: &str = "CONNECT_PROXY_CHILD";
        const LIMIT: Duration = Duration::from_secs(9);
        if let Ok(peer) = std::env::var(CHILD) {
            let http = Http::new(Reach::Anywhere);
            let elsewhere = Url::parse("https://elsewhere.test/?sig=secret").unwrap();
            let error = http.get(elsewhere, LIMIT, 9).await.unwrap_err();
            assert!(matches!(&error, Error::NotSent(text) if !text.contains("secret")), "{error:?}");
            for url in [peer.clone(), peer.replace("127.0.0.1", "localhost")] {
                let body = http.get(Url::parse(&url).unwrap(), LIMIT, 9).await;
                assert_eq!(body.unwrap().as_deref(), Some(&b"direct"[..]));
            }
            let local = Url::parse(&peer.replace("http:", "https:")).unwrap();
            let brief = Duration::from_millis(300);
            assert!(http.get(local, brief, 9).await.is_err(), "no TLS there");
            return;
        }
        let mut proxy = Peer::start(vec![answer("403 Forbidden", "", "")]).await;
        let peer = Peer::start(vec![answer("200 OK", "", "direct")]).await;
        let address = proxy.base().to_string();
        let output = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "connect::http::tests::a_proxy_of_the_environment_is_for_https_elsewhere_alone"])
            .env(CHILD, peer.base().to_string())
            .envs(["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, address.clone())))
            .envs([("NO_PROXY", ""), ("https_proxy", ""), ("http_proxy", ""), ("no_proxy", "")])
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the child ran this test");
        let request = proxy.request().await.head;
        assert!(request.starts_with("connect elsewhere.test:443 http/1.1"), "{request}");
        assert_eq!(proxy.waiting(), 0, "nothing else went there");
    }
}

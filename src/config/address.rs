//! Base addresses: https anywhere, http on loopback alone.

use std::fmt;

use url::{Host, Url};

/// A base address that was checked: the only thing that credentials are sent to. Holds no user info, query or fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Url);

/// Why an address isn't lawful. The text never repeats user info.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It isn't a URL.
    #[error("not an address")]
    Unreadable,
    /// Neither https nor http.
    #[error("the scheme {0} isn't https")]
    Scheme(String),
    /// Plain http to another machine.
    #[error("plain http is for loopback alone, use https for {0}")]
    PlainHttp(String),
    /// A user name or a password in it.
    #[error("an address must not hold a user name or a password")]
    UserInfo,
    /// A query or a fragment in it.
    #[error("an address must not hold a query or a fragment")]
    Query,
    /// `GROK_BOT_TEST` is set and it isn't loopback.
    #[error("GROK_BOT_TEST is set, and {0} isn't a loopback address")]
    Test(String),
}

/// Whether requests may go to `url`: https to any host, http to loopback; no user info, query or fragment; in a test run loopback alone.
///
/// # Errors
/// [`AddressError`] says what is wrong.
pub fn check_address(url: &Url, test: bool) -> Result<(), AddressError> {
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::UserInfo);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(AddressError::Query);
    }
    let loopback = is_loopback(url);
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        "http" => return Err(AddressError::PlainHttp(url.host_str().unwrap_or_default().to_owned())),
        other => return Err(AddressError::Scheme(other.to_owned())),
    }
    if test && !loopback {
        return Err(AddressError::Test(url.to_string()));
    }
    Ok(())
}

/// `localhost` by name, 127.0.0.0/8 and ::1 by number. Names that merely resolve there don't count: resolving is what a test must not do.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        None => false,
    }
}

impl Address {
    /// Reads and checks an address.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str, test: bool) -> Result<Self, AddressError> {
        let url = Url::parse(text.trim()).map_err(|_| AddressError::Unreadable)?;
        check_address(&url, test)?;
        Ok(Self(url))
    }

    /// The URL of `path` (which begins with a slash) under this address. A path of the address itself stays in front.
    #[must_use]
    pub fn at(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let whole = format!("{}{path}", self.0.path().trim_end_matches('/'));
        url.set_path(&whole);
        url
    }

    /// The address as a URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it is on this machine. Such an address never goes through a proxy.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_goes_anywhere_and_http_stays_on_this_machine() {
        let lawful = [
            "https://api2.cursor.sh",
            "https://example.com:8443/prefix/",
            "http://127.0.0.1:8080",
            "http://127.9.9.9",
            "http://localhost:1",
            "http://LOCALHOST:1",
            "http://[::1]:1",
            "https://[::ffff:127.0.0.1]",
        ];
        for text in lawful {
            assert!(Address::parse(text, false).is_ok(), "{text}");
        }
        let table = [
            ("", AddressError::Unreadable),
            ("api2.cursor.sh", AddressError::Unreadable),
            ("file:///etc/passwd", AddressError::Scheme("file".into())),
            ("ws://127.0.0.1:1", AddressError::Scheme("ws".into())),
            ("http://example.com", AddressError::PlainHttp("example.com".into())),
            ("http://127.0.0.1.example.com", AddressError::PlainHttp("127.0.0.1.example.com".into())),
            ("http://localhost.example.com", AddressError::PlainHttp("localhost.example.com".into())),
            ("http://10.0.0.1", AddressError::PlainHttp("10.0.0.1".into())),
            ("http://0.0.0.0", AddressError::PlainHttp("0.0.0.0".into())),
            ("https://user@example.com", AddressError::UserInfo),
            ("https://user:secret@example.com", AddressError::UserInfo),
            ("http://127.0.0.1@example.com", AddressError::UserInfo),
            ("https://example.com/?a=b", AddressError::Query),
            ("https://example.com/#x", AddressError::Query),
        ];
        for (text, error) in table {
            assert_eq!(Address::parse(text, false), Err(error), "{text}");
        }
        assert!(!AddressError::UserInfo.to_string().contains("secret"));
    }

    #[test]
    fn a23_under_test_only_loopback_is_lawful() {
        for text in ["https://api2.cursor.sh", "https://10.0.0.1", "https://[2001:db8::1]", "https://localhost.example"]
        {
            assert!(matches!(Address::parse(text, true), Err(AddressError::Test(_))), "{text}");
        }
        for text in ["http://127.0.0.1:1", "https://localhost", "http://[::1]:1"] {
            assert!(Address::parse(text, true).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_path_of_the_address_stays_in_front() {
        let at = |base: &str| Address::parse(base, false).unwrap().at("/auth/poll").to_string();
        assert_eq!(at("https://a.example"), "https://a.example/auth/poll");
        assert_eq!(at("https://a.example/x/"), "https://a.example/x/auth/poll");
        assert_eq!(at("https://a.example/x"), "https://a.example/x/auth/poll");
    }
}

//! The preview page: a page in the browser that is a host of the contract, served by the program itself.
//!
//! ```text
//! browser ── GET files ──────────── page (embedded, no build step)
//!         ── WebSocket /host ────── host::ws ── host::session ── records::Handle
//!         ── POST /host/… ───────── hello, qr, remote-code: what a page can't do by itself
//! Bot's computer ── /v1/remote-caller… ── remote (the demonstration alone): Coda's remote entry with sample data
//! ```
//!
//! Over the WebSocket goes the contract and nothing else. `protocols/remoteCode` is answered by the page, as by any host; in the demonstration
//! the page gets the code from the entry that is played here.
//!
//! Who may use it: it binds 127.0.0.1 and nothing else; every request must name this address as its `Host` (a name that was bent to
//! 127.0.0.1 doesn't get in) and come from this origin or from no page at all; everything but the files themselves wants the random key, which
//! stands in the link's fragment and so is never sent in an address. No token of the service ever passes here.

mod files;
mod guard;
mod kept;
mod remote;
mod samples;
mod server;
mod wire;

pub use kept::Kept;
pub use server::{BindError, Options, Preview};

use std::fmt;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// What the page has to show before anything of the provider's is told. 244 random bits, in hexadecimal.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// A fresh one.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// Takes a text that is one.
    fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| Self(text.to_owned()))
    }

    /// Whether this is the key. The time it takes says nothing about how much of it is right.
    fn is(&self, text: &str) -> bool {
        same(&self.0, text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Whether two secrets are the same: by digests, which nobody can steer byte by byte.
fn same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

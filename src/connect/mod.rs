//! A Connect-RPC client for JSON over HTTP/1.1: unary calls and server streams.
//!
//! Bytes of the service become messages here and nothing more: what a message means is `upstream`'s business. [`frame`] splits a stream into
//! envelopes without I/O, [`http`] says how every HTTP client of this program is built and where it may connect to, [`client`] makes the calls,
//! [`error`] tells the ways in which a call can fail apart.
//!
//! Invariant: imports no other room; never retries; no error or `Debug` output holds a token, a body, or a URL with its query.

pub mod client;
pub mod error;
pub mod frame;
pub mod http;
#[cfg(test)]
pub(crate) mod testing;

pub use client::{Answer, Client, Stream};
pub use error::{Code, Error, Kind, ServiceError};
pub use http::{AddressError, BaseUrl, Http, Reach};

//! The contract with the host (Coda): JSON-RPC over stdio or WebSocket, onto the provider's handle.
//!
//! ```text
//! bytes ⇄ stdio | ws ⇄ Transport ⇄ session (one actor a connection) ⇄ methods, bind ⇄ records::Handle
//!                                        wire + convert: the contract's types, domain to wire
//! ```
//!
//! Invariants: framing never answers and never judges; the session never touches a socket; nothing here reads history from the service, and
//! nothing waits for the loop but what is asked of the loop.

mod bind;
pub mod convert;
mod failure;
mod methods;
mod outbox;
mod session;
pub mod stdio;
pub mod texts;
pub mod wire;
pub mod ws;

#[cfg(test)]
mod schemas;
#[cfg(test)]
mod support;

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::FusedFuture as _;
use tokio::sync::mpsc;

pub use convert::message_id;
pub use session::{Config, End, Role, Unavailable, run};

use crate::rpc::Fault;

/// The longest message that is read, in bytes. A longer one is answered and skipped.
pub const MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// How long the last texts may take to leave once the session has ended.
const FLUSH: Duration = Duration::from_millis(300);

/// One message as the framing found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole text.
    Text(String),
    /// Something that can't be read as one: answered, and the connection goes on.
    Unreadable(Fault),
}

/// The session's end of a connection: a pair of channels, whatever the framing outside is. Both hold one message, so that a peer that isn't read
/// or doesn't read is felt at once. The end of `incoming` is the end of the connection.
#[derive(Debug)]
pub struct Transport {
    /// From the host.
    pub incoming: mpsc::Receiver<Incoming>,
    /// To the host.
    pub outgoing: mpsc::Sender<String>,
}

/// The framing's end of a connection.
#[derive(Debug)]
pub struct Far {
    /// To the session.
    pub incoming: mpsc::Sender<Incoming>,
    /// From the session.
    pub outgoing: mpsc::Receiver<String>,
}

/// Both ends of a connection in memory.
#[must_use]
pub fn pair() -> (Transport, Far) {
    let (to_session, incoming) = mpsc::channel(1);
    let (outgoing, from_session) = mpsc::channel(1);
    let far = Far { incoming: to_session, outgoing: from_session };
    (Transport { incoming, outgoing }, far)
}

/// Runs a session between a reader and a writer, all on this task. The reader is dropped when the session ends, the writer may finish.
async fn drive(
    read: impl Future<Output = ()>,
    write: impl Future<Output = ()>,
    session: impl Future<Output = End>,
) -> End {
    let (read, write) = (read.fuse(), write.fuse());
    tokio::pin!(read, write, session);
    // A fused future that has ended is pending for ever, so the two sides may end in any order before the session does.
    let end = loop {
        tokio::select! {
            end = &mut session => break end,
            () = &mut read => {}
            () = &mut write => {}
        }
    };
    if !write.is_terminated() {
        // The session has dropped its sender: the writer ends once it has written, unless the host has stopped reading.
        let _ = tokio::time::timeout(FLUSH, write).await;
    }
    end
}

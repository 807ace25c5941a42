//! WebSocket: one JSON text a text message.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

#[cfg(feature = "preview")]
use axum::extract::ws as axum_ws;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{self, protocol::WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use super::{Config, End, Incoming, MESSAGE_BYTES, Unavailable, drive, pair, run};
use crate::records::Handle;
use crate::rpc::Fault;

/// The longest message that is taken in. One over [`MESSAGE_BYTES`] is answered and the connection goes on; one over this breaks it, since a
/// WebSocket message can't be skipped without being read.
const FRAME_BYTES: usize = 4 * MESSAGE_BYTES;
/// How long a host may take to accept the connection.
const CONNECT: Duration = Duration::from_secs(15);

/// A WebSocket to a host that this program dialled.
pub type HostSocket = WebSocketStream<TcpStream>;

/// Why a host couldn't be dialled.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not an address that is dialled.
    #[error("{0} is refused: a host is dialled at ws:// on loopback only, for example ws://127.0.0.1:8123/")]
    Address(String),
    /// Nobody answered there, or not as a WebSocket.
    #[error("can't connect to the host at {address}: {source}")]
    Dial {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        source: Box<tungstenite::Error>,
    },
    /// It took too long.
    #[error("can't connect to the host at {0}: no answer")]
    Silent(String),
}

/// Dials a host.
///
/// The connection isn't encrypted, so it goes to loopback and nowhere else.
///
/// # Errors
/// See [`ConnectError`]; an address that isn't `ws://` on loopback is refused before a socket opens.
pub async fn connect(url: &str) -> Result<HostSocket, ConnectError> {
    let (url, addresses) = loopback(url).ok_or_else(|| ConnectError::Address(printable(url)))?;
    let address = printable(url.as_str());
    let dial = async {
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        // Small messages that somebody waits for.
        stream.set_nodelay(true)?;
        let (socket, _) = client_async_with_config(url.as_str(), stream, Some(limits())).await?;
        Ok(socket)
    };
    match tokio::time::timeout(CONNECT, dial).await {
        Ok(Ok(socket)) => Ok(socket),
        Ok(Err(error)) => Err(ConnectError::Dial { address, source: Box::new(error) }),
        Err(_) => Err(ConnectError::Silent(address)),
    }
}

fn limits() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(FRAME_BYTES)).max_frame_size(Some(FRAME_BYTES))
}

/// The addresses of a `ws://` URL on loopback. `localhost` is taken for loopback without asking a resolver, which could say otherwise.
fn loopback(url: &str) -> Option<(Url, Vec<SocketAddr>)> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "ws")?;
    if !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    let port = url.port_or_known_default()?;
    let hosts = match url.host()? {
        Host::Ipv4(ip) => vec![std::net::IpAddr::V4(ip)],
        Host::Ipv6(ip) => vec![std::net::IpAddr::V6(ip)],
        Host::Domain("localhost") => vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()],
        Host::Domain(_) => return None,
    };
    let addresses: Vec<SocketAddr> = hosts.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
    let local = addresses.iter().all(|address| address.ip().is_loopback());
    local.then_some((url, addresses))
}

/// A URL without what may be secret in it.
fn printable(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return "an address that is no URL".to_owned();
    };
    // Neither can fail on a URL that has a host; one that has none has no password.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// A message of a WebSocket library, as far as the session needs it.
pub trait SocketMessage: Sized {
    /// A text to send.
    fn text(text: String) -> Self;
    /// What a received one is to the session.
    fn received(self) -> Received;
}

/// What a received message is to the session.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A text message.
    Text(String),
    /// A binary one, which the contract has no use for.
    Binary,
    /// The end.
    Close,
    /// The library's own business.
    Control,
}

impl SocketMessage for tungstenite::Message {
    fn text(text: String) -> Self {
        Self::Text(text.into())
    }

    fn received(self) -> Received {
        match self {
            Self::Text(text) => Received::Text(text.as_str().to_owned()),
            Self::Binary(_) => Received::Binary,
            Self::Close(_) => Received::Close,
            Self::Ping(_) | Self::Pong(_) | Self::Frame(_) => Received::Control,
        }
    }
}

#[cfg(feature = "preview")]
impl SocketMessage for axum_ws::Message {
    fn text(text: String) -> Self {
        Self::Text(text.into())
    }

    fn received(self) -> Received {
        match self {
            Self::Text(text) => Received::Text(text.as_str().to_owned()),
            Self::Binary(_) => Received::Binary,
            Self::Close(_) => Received::Close,
            Self::Ping(_) | Self::Pong(_) => Received::Control,
        }
    }
}

/// Runs a session over a WebSocket of either library until it ends; see [`run`]. The end of the socket is the end of the connection.
pub async fn serve<S, M, E, R>(socket: S, config: Config<R>) -> End
where
    S: Stream<Item = Result<M, E>> + Sink<M, Error = E> + Unpin,
    M: SocketMessage,
    E: std::fmt::Display,
    R: Future<Output = Result<Handle, Unavailable>>,
{
    let (transport, far) = pair();
    let (sink, stream) = socket.split();
    let read = read_messages(stream, far.incoming);
    let write = async {
        if let Err(error) = write_messages(sink, far.outgoing).await {
            tracing::debug!(%error, "can't write to the host");
        }
    };
    drive(read, write, run(transport, config)).await
}

async fn read_messages<S, M, E>(mut stream: S, incoming: mpsc::Sender<Incoming>)
where
    S: Stream<Item = Result<M, E>> + Unpin,
    M: SocketMessage,
    E: std::fmt::Display,
{
    while let Some(message) = stream.next().await {
        let message = match message.map(SocketMessage::received) {
            Ok(Received::Text(text)) if text.len() > MESSAGE_BYTES => Incoming::Unreadable(Fault::TooLong),
            Ok(Received::Text(text)) => Incoming::Text(text),
            Ok(Received::Binary) => Incoming::Unreadable(Fault::NotAMessage),
            Ok(Received::Control) => continue,
            Ok(Received::Close) => return,
            Err(error) => {
                tracing::debug!(%error, "the connection with the host broke");
                return;
            }
        };
        if incoming.send(message).await.is_err() {
            return;
        }
    }
}

async fn write_messages<S, M>(mut sink: S, mut outgoing: mpsc::Receiver<String>) -> Result<(), S::Error>
where
    S: Sink<M> + Unpin,
    M: SocketMessage,
{
    while let Some(text) = outgoing.recv().await {
        sink.send(M::text(text)).await?;
    }
    sink.close().await
}

#[cfg(test)]
mod tests;

//! The standard streams, without a thread between them and the loop where they are what a host gives: pipes, or the sockets that Node takes for pipes.
//!
//! tokio's own standard streams hand every read, write and flush to a thread, since a terminal or a file can't be waited for: four wake-ups a line.
//! Pipes and sockets can be, as libuv does it, too. They are then non-blocking for everybody who shares their open file description, which is nobody but
//! the host's own children, if anybody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Standard input.
pub(super) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    let own = |fd: OwnedFd| -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        match socket(&fd)? {
            Some(socket) => Ok(Box::new(socket)),
            None => Ok(Box::new(pipe::Receiver::from_owned_fd(fd)?)),
        }
    };
    duplicate(&io::stdin()).and_then(own).unwrap_or_else(|_| Box::new(tokio::io::stdin()))
}

/// Standard output. Whatever is written is under way at once: there is no buffer.
pub(super) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let own = |fd: OwnedFd| -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        match socket(&fd)? {
            Some(socket) => Ok(Box::new(socket)),
            None => Ok(Box::new(pipe::Sender::from_owned_fd(fd)?)),
        }
    };
    duplicate(&io::stdout()).and_then(own).unwrap_or_else(|_| Box::new(tokio::io::stdout()))
}

fn duplicate(stream: &impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// The stream as a Unix socket, if it is one.
fn socket(fd: &OwnedFd) -> io::Result<Option<UnixStream>> {
    let socket = Socket::from(fd.try_clone()?);
    if socket.local_addr().is_err() {
        return Ok(None);
    }
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket).map(Some)
}

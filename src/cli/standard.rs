//! The standard streams as a host gives them: pipes, or the sockets that Node takes for pipes. Read and written by the loop itself.
//!
//! tokio's own standard streams hand each read, write and flush to a thread, since a terminal or a file can't be waited for: two wake-ups and two sleeps
//! for a line of output, which is a tenth of what following a busy stream costs. What isn't a pipe or a socket goes that way still.
//!
//! Non-blocking is a property of the pipe's end and not of this process (`O_NONBLOCK` belongs to the open file description), so whoever shares it sees
//! it, too: it is taken back at the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// What can be read without a thread, or with one.
pub(super) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// What can be written so.
pub(super) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The standard streams of this process. Dropped, their ends are as they were found; nothing may be read or written then.
#[derive(Debug, Default)]
pub(super) struct Standard {
    /// Those that were found blocking.
    blocking: Vec<OwnedFd>,
}

impl Standard {
    /// Standard input, for one reader. Needs a runtime.
    pub(super) fn input(&mut self) -> Input {
        self.input_of(&io::stdin()).unwrap_or_else(|_| Box::new(tokio::io::stdin()))
    }

    /// Standard output, for one writer. Needs a runtime.
    pub(super) fn output(&mut self) -> Output {
        self.output_of(&io::stdout()).unwrap_or_else(|_| Box::new(tokio::io::stdout()))
    }

    fn input_of(&mut self, stream: &impl AsFd) -> io::Result<Input> {
        self.remember(stream)?;
        Ok(match socket(stream)? {
            Some(socket) => Box::new(socket),
            None => Box::new(pipe::Receiver::from_owned_fd(duplicate(stream)?)?),
        })
    }

    fn output_of(&mut self, stream: &impl AsFd) -> io::Result<Output> {
        self.remember(stream)?;
        Ok(match socket(stream)? {
            Some(socket) => Box::new(socket),
            None => Box::new(pipe::Sender::from_owned_fd(duplicate(stream)?)?),
        })
    }

    /// Before anything of it is changed. (Of two streams that are one socket, the second is found as the first has made it.)
    fn remember(&mut self, stream: &impl AsFd) -> io::Result<()> {
        if !flags(stream)?.contains(OFlag::O_NONBLOCK) {
            self.blocking.push(duplicate(stream)?);
        }
        Ok(())
    }
}

impl Drop for Standard {
    fn drop(&mut self) {
        for end in &self.blocking {
            // Whatever else somebody changed meanwhile isn't ours to undo. The process ends; there is nobody to tell of an error.
            let _ = flags(end).map(|flags| fcntl(end, FcntlArg::F_SETFL(flags.difference(OFlag::O_NONBLOCK))));
        }
    }
}

fn flags(stream: &impl AsFd) -> io::Result<OFlag> {
    Ok(OFlag::from_bits_retain(fcntl(stream, FcntlArg::F_GETFL)?))
}

fn duplicate(stream: &impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// The stream as a Unix socket; `None` where it is none.
fn socket(stream: &impl AsFd) -> io::Result<Option<UnixStream>> {
    let socket = net::UnixStream::from(duplicate(stream)?);
    if socket.local_addr().is_err() {
        return Ok(None);
    }
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket).map(Some)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn blocks(stream: &impl AsFd) -> bool {
        !flags(stream).unwrap().contains(OFlag::O_NONBLOCK)
    }

    #[tokio::test]
    async fn pipes_are_used_without_a_thread_and_given_back_as_they_were() {
        let (theirs, mut to_us) = io::pipe().unwrap();
        let (mut from_us, ours) = io::pipe().unwrap();
        let mut standard = Standard::default();
        let (mut input, mut output) = (standard.input_of(&theirs).unwrap(), standard.output_of(&ours).unwrap());
        assert!(!blocks(&theirs) && !blocks(&ours));
        to_us.write_all(b"question").unwrap();
        let mut heard = [0; 8];
        input.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"question");
        output.write_all(b"answer").await.unwrap();
        let mut said = [0; 6];
        from_us.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"answer");
        drop(to_us);
        assert_eq!(input.read(&mut heard).await.unwrap(), 0, "the end of the input");
        drop(from_us);
        let gone = output.write_all(b"nobody").await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        drop((input, output, standard));
        assert!(blocks(&theirs) && blocks(&ours));
    }

    #[tokio::test]
    async fn one_socket_may_be_both_streams() {
        let (ours, mut theirs) = net::UnixStream::pair().unwrap();
        let mut standard = Standard::default();
        let (mut input, mut output) = (standard.input_of(&ours).unwrap(), standard.output_of(&ours).unwrap());
        theirs.write_all(b"question").unwrap();
        let mut heard = [0; 8];
        input.read_exact(&mut heard).await.unwrap();
        output.write_all(&heard).await.unwrap();
        let mut said = [0; 8];
        theirs.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"question");
        drop((input, output, standard));
        assert!(blocks(&ours));
    }

    #[tokio::test]
    async fn what_was_found_non_blocking_stays_so() {
        let (ours, _theirs) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut standard = Standard::default();
        drop((standard.input_of(&ours).unwrap(), standard));
        assert!(!blocks(&ours));
    }

    #[tokio::test]
    async fn files_are_left_to_tokio_and_as_they_are() {
        let file = tempfile::tempfile().unwrap();
        let mut standard = Standard::default();
        assert!(standard.input_of(&file).is_err() && standard.output_of(&file).is_err());
        assert!(blocks(&file));
    }
}

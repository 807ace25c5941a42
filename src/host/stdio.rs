//! Stdio: one JSON text a line.

use std::future::Future;
use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::{Config, End, Incoming, MESSAGE_BYTES, Unavailable, drive, pair, run};
use crate::records::Handle;
use crate::rpc::Fault;

/// Runs a session over a pair of byte streams until it ends; see [`run`]. The end of `input` means shutdown.
///
/// Nothing but the protocol is written to `output`.
pub async fn serve<R>(input: impl AsyncRead + Unpin, output: impl AsyncWrite + Unpin, config: Config<R>) -> End
where
    R: Future<Output = Result<Handle, Unavailable>>,
{
    let (transport, far) = pair();
    let read = read_lines(LineReader::new(BufReader::with_capacity(64 * 1024, input)), far.incoming);
    let mut unwritten = None;
    let write = async {
        if let Err(error) = write_lines(output, far.outgoing).await {
            tracing::warn!(%error, "can't write to the host");
            // A pipe that nobody reads is a host that has gone; anything else is a fault of what stands in its place, such as a full disk.
            unwritten = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    };
    let end = drive(read, write, run(transport, config)).await;
    match unwritten {
        Some(error) if end == End::Closed => End::Unwritten(error.to_string()),
        _ => end,
    }
}

async fn read_lines<I: AsyncBufRead + Unpin>(mut lines: LineReader<I>, incoming: mpsc::Sender<Incoming>) {
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                // As good as its end: there is nothing more to come.
                tracing::warn!(%error, "can't read from the host");
                return;
            }
        };
        if incoming.send(line).await.is_err() {
            return;
        }
    }
}

async fn write_lines(mut output: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(mut text) = outgoing.recv().await {
        text.push('\n');
        output.write_all(text.as_bytes()).await?;
        if outgoing.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}

/// Splits bytes into lines, each a message.
///
/// A line over the limit is told at once and then skipped up to its newline, without being kept; empty lines are nothing; `\r\n` ends a line, too; a
/// last line without an end counts.
struct LineReader<I> {
    input: I,
    line: Vec<u8>,
    /// In the rest of a line that was too long.
    skipping: bool,
    limit: usize,
}

impl<I: AsyncBufRead + Unpin> LineReader<I> {
    fn new(input: I) -> Self {
        Self { input, line: vec![], skipping: false, limit: MESSAGE_BYTES }
    }

    /// The next message; `None` at the end. Cancel-safe: the only await is on bytes that aren't taken yet, and the part of a line that was taken is
    /// kept here.
    async fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(if self.skipping { None } else { self.finish() });
            }
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..newline.unwrap_or(bytes.len())];
            let mut too_long = false;
            if !self.skipping {
                // One more than the limit, for the `\r` that doesn't count.
                too_long = self.line.len() + part.len() > self.limit + 1;
                if !too_long {
                    self.line.extend_from_slice(part);
                }
            }
            let taken = part.len() + usize::from(newline.is_some());
            self.input.consume(taken);
            if too_long {
                self.line = vec![];
                self.skipping = newline.is_none();
                return Ok(Some(Incoming::Unreadable(Fault::TooLong)));
            }
            if newline.is_some()
                && !std::mem::take(&mut self.skipping)
                && let Some(message) = self.finish()
            {
                return Ok(Some(message));
            }
        }
    }

    /// The line that is complete now; `None` for an empty one.
    fn finish(&mut self) -> Option<Incoming> {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.len() > self.limit {
            return Some(Incoming::Unreadable(Fault::TooLong));
        }
        if line.is_empty() {
            return None;
        }
        Some(match String::from_utf8(line) {
            Ok(text) => Incoming::Text(text),
            Err(_) => Incoming::Unreadable(Fault::NotJson),
        })
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

//! Envelopes of a Connect stream: one flag byte, four length bytes (big-endian), the payload (wire reference, section 1.3).
//!
//! Pure: bytes in, envelopes out. Where the network cuts the bytes makes no difference, inside the header neither.

use bytes::Bytes;

/// The longest payload that is taken. A `rows` frame may carry many bodies of 256 KiB, so the limit is far above one body and still bounds the buffer.
pub const MAX_PAYLOAD: usize = 32 * 1024 * 1024;

const HEADER: usize = 5;
const COMPRESSED: u8 = 0x01;
const END: u8 = 0x02;
/// A buffer that grew beyond this is given back once it is empty, so that one large frame isn't paid for during the whole life of a stream.
const KEEP: usize = 1024 * 1024;

/// Why the bytes are no envelope that this program reads. What follows in the stream can't be read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The payload is compressed although no compression was asked for.
    #[error("compressed frame")]
    Compressed,
    /// Flags that Connect doesn't define: most likely no Connect stream at all.
    #[error("unknown frame flags {0:#04x}")]
    Flags(u8),
    /// The announced length is over the limit. Nothing of it was buffered.
    #[error("frame of {0} bytes is too large")]
    TooLarge(u32),
}

/// Whole envelopes. Their payloads lie in the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelopes<'a> {
    /// Messages, one at least, in their order.
    Messages(Vec<&'a [u8]>),
    /// The end of the stream, with the JSON that says how it went.
    End(&'a [u8]),
}

/// Splits a byte stream into envelopes. Holds at most one incomplete envelope and what came since envelopes were taken.
///
/// Envelopes that are whole in their chunk are read where they lie; a copy is made only of a cut one, and of the chunk that completes it.
#[derive(Debug, Default)]
pub struct Decoder {
    /// A cut envelope, put together from its chunks, and what came behind it. While it is empty, `chunk` counts.
    buffer: Vec<u8>,
    /// The last chunk, if nothing was cut before it.
    chunk: Bytes,
    /// Where the next envelope starts in the one of the two that counts; what lies before it was taken.
    start: usize,
}

impl Decoder {
    /// Takes the next bytes of the stream. Whoever calls it bounds the buffer: by [`ready`](Self::ready), or by [`held`](Self::held).
    pub fn push(&mut self, chunk: Bytes) {
        self.let_go();
        if self.buffer.is_empty() {
            self.chunk = chunk;
        } else {
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// Keeps what is cut and nothing else. A chunk lies in the connection's own buffer, which is filled again only when no chunk is held any more.
    fn let_go(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        if self.buffer.is_empty() {
            self.buffer.extend_from_slice(&chunk[self.start..]);
        } else {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
    }

    /// The bytes that count.
    fn bytes(&self) -> &[u8] {
        counting(&self.buffer, &self.chunk)
    }

    /// Whether a whole envelope is there.
    ///
    /// # Errors
    /// As soon as the five header bytes are in; the same error again when asked again.
    pub fn ready(&mut self) -> Result<bool, FrameError> {
        let ready = front(&self.bytes()[self.start..])?.is_some();
        if !ready {
            self.let_go();
        }
        Ok(ready)
    }

    /// Bytes that nobody took yet.
    pub fn held(&self) -> usize {
        self.bytes().len() - self.start
    }

    /// The next envelopes, if a whole one is there: so many messages at most, or the end. They are consumed; their payloads stay readable until the
    /// next call.
    ///
    /// # Errors
    /// As [`ready`](Self::ready), of the first of them: what came before one that can't be read counts.
    pub fn take(&mut self, most: usize) -> Result<Option<Envelopes<'_>>, FrameError> {
        // Not by `bytes`: what is taken is borrowed from them, and where the next one starts changes meanwhile.
        let mut rest = &counting(&self.buffer, &self.chunk)[self.start..];
        let mut messages = Vec::new();
        while messages.len() < most {
            match front(rest) {
                Ok(Some(Whole { end: false, payload })) => {
                    self.start += HEADER + payload.len();
                    rest = &rest[HEADER + payload.len()..];
                    messages.push(payload);
                }
                Ok(Some(Whole { end: true, payload })) if messages.is_empty() => {
                    self.start += HEADER + payload.len();
                    return Ok(Some(Envelopes::End(payload)));
                }
                Err(error) if messages.is_empty() => return Err(error),
                // Of an end or an error the next call hears.
                Ok(_) | Err(_) => break,
            }
        }
        Ok(Some(messages).filter(|messages| !messages.is_empty()).map(Envelopes::Messages))
    }

    /// Whether bytes of an incomplete envelope are held: where the body ends now, a frame was cut.
    pub fn is_cut(&self) -> bool {
        self.start < self.bytes().len()
    }
}

/// Which of a decoder's two places counts.
fn counting<'a>(buffer: &'a [u8], chunk: &'a [u8]) -> &'a [u8] {
    if buffer.is_empty() { chunk } else { buffer }
}

/// An envelope that is all there.
struct Whole<'a> {
    end: bool,
    payload: &'a [u8],
}

/// The envelope that the bytes begin with, where it is whole.
fn front(bytes: &[u8]) -> Result<Option<Whole<'_>>, FrameError> {
    let Some((&[flags, a, b, c, d], rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Ok(None);
    };
    if flags & COMPRESSED != 0 {
        return Err(FrameError::Compressed);
    }
    if flags & !END != 0 {
        return Err(FrameError::Flags(flags));
    }
    let length = u32::from_be_bytes([a, b, c, d]);
    match usize::try_from(length) {
        Ok(length) if length <= MAX_PAYLOAD => {
            Ok(rest.get(..length).map(|payload| Whole { end: flags & END != 0, payload }))
        }
        _ => Err(FrameError::TooLarge(length)),
    }
}

/// The request of a stream: the payload in exactly one envelope.
/// A request names at most 256 cursors, so the four bytes of its length always suffice.
pub fn envelope(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.push(0);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzz::{Corpus, Input, fuzz};

    #[derive(Clone, Debug, PartialEq)]
    enum Owned {
        Message(Vec<u8>),
        End(Vec<u8>),
    }

    fn encode(frames: &[Owned]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            let mut one = match frame {
                Owned::Message(payload) | Owned::End(payload) => envelope(payload),
            };
            if matches!(frame, Owned::End(_)) {
                one[0] = END;
            }
            bytes.extend(one);
        }
        bytes
    }

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<Owned>, bool), FrameError> {
        let mut decoder = Decoder::default();
        let mut frames = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while decoder.ready()? {
                frames.extend(owned(decoder.take(2)?));
            }
        }
        Ok((frames, decoder.is_cut()))
    }

    /// What was taken, one at least.
    fn owned(taken: Option<Envelopes<'_>>) -> Vec<Owned> {
        match taken.expect("it was ready") {
            Envelopes::Messages(payloads) => {
                assert!(!payloads.is_empty());
                payloads.into_iter().map(|payload| Owned::Message(payload.to_vec())).collect()
            }
            Envelopes::End(payload) => vec![Owned::End(payload.to_vec())],
        }
    }

    fn frames() -> impl Strategy<Value = Vec<Owned>> {
        let payload = || prop::collection::vec(any::<u8>(), 0..40);
        prop::collection::vec(prop_oneof![payload().prop_map(Owned::Message), payload().prop_map(Owned::End)], 0..8)
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(frames in frames(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
            let bytes = encode(&frames);
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.sort_unstable();
            at.push(bytes.len());
            let mut from = 0;
            let mut chunks = Vec::new();
            for cut in at {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(decode(chunks).unwrap(), (frames, false));
        }

    }

    /// The envelopes of a whole stream, by the definition: nothing of this file but its limits.
    fn model(mut bytes: &[u8]) -> (Vec<Owned>, Result<bool, FrameError>) {
        let mut frames = Vec::new();
        while let Some((header, rest)) = bytes.split_first_chunk::<5>() {
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
            let error = match header[0] {
                flags if flags % 2 == 1 => Some(FrameError::Compressed),
                0 | 2 if length > 32 << 20 => Some(FrameError::TooLarge(length)),
                0 | 2 => None,
                flags => Some(FrameError::Flags(flags)),
            };
            if let Some(error) = error {
                return (frames, Err(error));
            }
            let Some((payload, rest)) = rest.split_at_checked(length as usize) else { break };
            let payload = payload.to_vec();
            frames.push(if header[0] == 0 { Owned::Message(payload) } else { Owned::End(payload) });
            bytes = rest;
        }
        (frames, Ok(!bytes.is_empty()))
    }

    #[test]
    fn any_bytes_in_any_chunks_give_what_one_chunk_gives_and_cost_no_more_than_came() {
        let corpus = Corpus::of("envelopes");
        let check = |bytes: &[u8], sizes: &[usize], most: usize| {
            let (frames, end) = model(bytes);
            let mut decoder = Decoder::default();
            let (mut got, mut rest, mut at) = (Vec::new(), bytes, 0);
            let mut error = None;
            while error.is_none() && !rest.is_empty() {
                let size = sizes.get(at % sizes.len().max(1)).map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
                let (chunk, after) = rest.split_at(size);
                (rest, at) = (after, at + 1);
                decoder.push(Bytes::copy_from_slice(chunk));
                assert!(
                    decoder.buffer.capacity() <= 2 * bytes.len() + 64,
                    "a length that was only announced costs nothing"
                );
                // As the client does it while more is at hand: nothing is taken before enough is held.
                if rest.len() > 100 && decoder.held() < 200 && decoder.ready().is_ok() {
                    continue;
                }
                loop {
                    match decoder.ready() {
                        Ok(false) => break,
                        Ok(true) => {
                            let taken = owned(decoder.take(most).unwrap());
                            assert!(taken.len() <= most);
                            got.extend(taken);
                        }
                        Err(refused) => {
                            assert_eq!(decoder.take(most), Err(refused), "and it stays refused");
                            error = Some(refused);
                            break;
                        }
                    }
                }
            }
            assert_eq!((got, error.map_or(Ok(decoder.is_cut()), Err)), (frames, end));
        };
        corpus.replay(|bytes| {
            check(bytes, &[], 256);
            check(bytes, &[1], 1);
        });
        let sizes = prop::collection::vec(1_usize..50, 0..6);
        fuzz(2000, &(corpus.mutants(), sizes, 1_usize..6), |(Input(bytes), sizes, most)| {
            check(&bytes, &sizes, most);
        });
    }

    #[test]
    fn a18_text_cut_at_every_byte_is_whole() {
        let text = "{\"content\":\"你好🦀\"}".as_bytes();
        let bytes = encode(&[Owned::Message(text.to_vec()), Owned::End(b"{}".to_vec())]);
        let (frames, cut) = decode(bytes.chunks(1)).unwrap();
        assert_eq!(
            frames,
            [Owned::Message(text.to_vec()), Owned::End(b"{}".to_vec())],
            "one byte per chunk, header included"
        );
        assert!(!cut);
    }

    #[test]
    fn a_cut_frame_is_known_as_cut() {
        let bytes = encode(&[Owned::Message(b"{}".to_vec())]);
        for length in 1..bytes.len() {
            let (frames, cut) = decode([&bytes[..length]]).unwrap();
            assert!(frames.is_empty() && cut, "{length} bytes");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_at_its_header() {
        for (header, error) in [
            ([0x01, 0, 0, 0, 2], FrameError::Compressed),
            ([0x03, 0, 0, 0, 2], FrameError::Compressed),
            ([0x80, 0, 0, 0, 2], FrameError::Flags(0x80)),
            ([b'<', b'h', b't', b'm', b'l'], FrameError::Flags(b'<')),
            ([0, 0x02, 0, 0, 1], FrameError::TooLarge(0x0200_0001)),
            ([0, 0xff, 0xff, 0xff, 0xff], FrameError::TooLarge(u32::MAX)),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(Bytes::copy_from_slice(&header[..4]));
            let early = decoder.ready();
            assert_eq!(early, Ok(false), "four bytes say nothing yet");
            decoder.push(Bytes::copy_from_slice(&header[4..]));
            assert_eq!(decoder.ready(), Err(error));
            assert_eq!(decoder.take(1), Err(error), "and stays refused");
        }
        let mut decoder = Decoder::default();
        decoder.push(Bytes::from_static(&[0, 0x02, 0, 0, 0]));
        assert_eq!(decoder.ready(), Ok(false), "32 MiB is allowed");
    }
}

//! Messages that wait.

use super::{CHUNK, Draft, Laid, Packed, Place};

/// Messages that wait until their numbers are settled, packed. What waited in a chunk is given back when the last of it goes.
#[derive(Clone, Debug, Default)]
pub struct Tray {
    chunks: Vec<Waiting>,
    /// The one that is being filled.
    open: Option<u32>,
    /// Those that hold nothing.
    free: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    count: usize,
}

impl Tray {
    /// Packs a message. (A message that waits long keeps a chunk.)
    pub fn lay(&mut self, draft: &Draft<'_>) -> Laid {
        let room = draft.room();
        let Self { chunks, open, free } = self;
        // The first one grows by itself; where one is full, many messages wait.
        let full = open.is_some_and(|open| {
            let held = chunks[open as usize].bytes.len();
            held > 0 && held + room > CHUNK
        });
        let chunk = open.filter(|_| !full).or_else(|| free.pop()).unwrap_or_else(|| {
            chunks.push(Waiting::default());
            // Each holds something that waits.
            u32::try_from(chunks.len() - 1).unwrap_or(u32::MAX)
        });
        *open = Some(chunk);
        let Waiting { bytes, count } = &mut chunks[chunk as usize];
        *count += 1;
        let offset = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes.reserve(if full { room.max(CHUNK) } else { room });
        draft.put(bytes, None);
        Laid(Place { chunk, offset })
    }

    /// Lets go of what was laid, once.
    pub fn remove(&mut self, Laid(place): Laid) {
        let Waiting { bytes, count } = &mut self.chunks[place.chunk as usize];
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        *bytes = Vec::new();
        if self.open != Some(place.chunk) {
            self.free.push(place.chunk);
        }
    }

    /// What was laid, with a number to show it by.
    #[must_use]
    pub fn laid(&self, Laid(place): Laid, number: u64) -> Packed<'_> {
        Packed::read(&self.chunks[place.chunk as usize].bytes[place.offset as usize..], number, false, &[])
    }

    /// Bytes that it keeps.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum()
    }
}

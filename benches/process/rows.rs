//! Numbers of transcripts that were written long ago.

pub(crate) use crate::row::Row;

/// The number of a row of a transcript that was written long ago. Answers stream by overwriting their row, so numbers run ahead of places, and one
/// row in a hundred was edited after everything else.
pub(crate) fn old_number(seq: u64, rows: u64) -> u64 {
    if seq % 100 == 7 { 2 * rows + 2 + seq } else { 2 * seq }
}

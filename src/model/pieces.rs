//! A long list in pieces.

use std::ops::{Index, IndexMut, Range};

/// A list of any length in pieces of the same size: as one that doubles, a long one would be copied whole each time it grows, which takes milliseconds,
/// and would leave a hole of its size behind.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<T, const PIECE: usize> {
    full: Vec<Vec<T>>,
    /// Behind the full ones, and apart from them, so that a short list is one allocation. Only the first one grows by itself.
    last: Vec<T>,
}

impl<T, const PIECE: usize> Default for Pieces<T, PIECE> {
    fn default() -> Self {
        Self { full: Vec::new(), last: Vec::new() }
    }
}

impl<T, const PIECE: usize> Index<usize> for Pieces<T, PIECE> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        match self.full.get(index / PIECE) {
            Some(piece) => &piece[index % PIECE],
            None => &self.last[index - self.full.len() * PIECE],
        }
    }
}

impl<T, const PIECE: usize> IndexMut<usize> for Pieces<T, PIECE> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        let before = self.full.len() * PIECE;
        match self.full.get_mut(index / PIECE) {
            Some(piece) => &mut piece[index % PIECE],
            None => &mut self.last[index - before],
        }
    }
}

impl<T, const PIECE: usize> Pieces<T, PIECE> {
    /// An empty list, with room for so many.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { full: Vec::with_capacity(count.saturating_sub(1) / PIECE), last: Vec::with_capacity(count.min(PIECE)) }
    }

    pub(crate) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.last.len() == PIECE {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(PIECE)));
        }
        self.last.push(item);
    }
}

impl<T: Copy, const PIECE: usize> Pieces<T, PIECE> {
    pub(crate) fn get(&self, index: usize) -> Option<T> {
        (index < self.len()).then(|| self[index])
    }

    pub(crate) fn first(&self) -> Option<T> {
        self.get(0)
    }

    pub(crate) fn last(&self) -> Option<T> {
        self.last.last().copied()
    }

    /// Puts an item at an index that is within bounds or their end; what is behind it moves.
    pub(crate) fn insert(&mut self, index: usize, item: T) {
        let mut moved = item;
        let mut place = index % PIECE;
        for piece in self.full.iter_mut().chain([&mut self.last]).skip(index / PIECE) {
            if piece.len() < PIECE {
                piece.insert(place, moved);
                return;
            }
            // It is full: its last item goes to the front of the next one.
            let Some(last) = piece.pop() else { return };
            piece.insert(place, moved);
            (moved, place) = (last, 0);
        }
        self.push(moved);
    }

    /// The items at a range of indices that is within bounds and one piece.
    pub(crate) fn within(&self, range: Range<usize>) -> &[T] {
        let piece = self.full.get(range.start / PIECE).unwrap_or(&self.last);
        let start = range.start % PIECE;
        &piece[start..start + range.len()]
    }

    /// The items at a range of indices that is within bounds.
    pub(crate) fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = T> {
        range.map(|index| self[index])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECE: usize = 64;

    proptest! {
        #[test]
        fn a_list_in_pieces_is_a_list(length in 0..3 * PIECE, inserts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
            let mut list: Vec<usize> = (0..length).map(|item| 2 * item).collect();
            let mut pieces = Pieces::<_, PIECE>::with_capacity(length / 2);
            for item in &list {
                pieces.push(*item);
            }
            for index in inserts {
                let at = index.index(list.len() + 1);
                let item = if at == 0 { 0 } else { list[at - 1] };
                list.insert(at, item);
                pieces.insert(at, item);
                prop_assert_eq!(pieces.len(), list.len());
            }
            prop_assert_eq!((pieces.first(), pieces.last()), (list.first().copied(), list.last().copied()));
            prop_assert_eq!(pieces.get(list.len()), None);
            for piece in 0..=list.len() / PIECE {
                let within = piece * PIECE..list.len().min((piece + 1) * PIECE);
                prop_assert_eq!(pieces.within(within.clone()), &list[within]);
            }
            prop_assert!((0..list.len()).all(|index| pieces[index] == list[index]));
            let middle = list.len() / 3..list.len();
            prop_assert!(pieces.range(middle.clone()).rev().eq(list[middle].iter().rev().copied()));
            prop_assert!(pieces.range(0..list.len()).eq(list));
        }
    }
}

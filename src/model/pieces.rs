//! A long list in pieces.

use std::ops::{Index, IndexMut, Range};

/// A list of any length in pieces of the same size: as one that doubles, a long one would be copied whole each time it grows, which takes milliseconds,
/// and would leave a hole of its size behind.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<T, const PIECE: usize> {
    /// All full but the last; only the first one grows by itself.
    pieces: Vec<Vec<T>>,
}

impl<T, const PIECE: usize> Default for Pieces<T, PIECE> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T, const PIECE: usize> Index<usize> for Pieces<T, PIECE> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.pieces[index / PIECE][index % PIECE]
    }
}

impl<T, const PIECE: usize> IndexMut<usize> for Pieces<T, PIECE> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pieces[index / PIECE][index % PIECE]
    }
}

impl<T, const PIECE: usize> Pieces<T, PIECE> {
    /// An empty list, with room for so many.
    pub(crate) fn with_capacity(count: usize) -> Self {
        let mut pieces = Vec::with_capacity(count.div_ceil(PIECE));
        if count > 0 {
            pieces.push(Vec::with_capacity(count.min(PIECE)));
        }
        Self { pieces }
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(item),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(item);
                self.pieces.push(piece);
            }
            None => self.pieces.push(vec![item]),
        }
    }
}

impl<T: Copy, const PIECE: usize> Pieces<T, PIECE> {
    pub(crate) fn get(&self, index: usize) -> Option<T> {
        self.pieces.get(index / PIECE)?.get(index % PIECE).copied()
    }

    pub(crate) fn first(&self) -> Option<T> {
        self.get(0)
    }

    pub(crate) fn last(&self) -> Option<T> {
        self.pieces.last()?.last().copied()
    }

    /// Puts an item at an index that is within bounds or their end; what is behind it moves.
    pub(crate) fn insert(&mut self, index: usize, item: T) {
        let mut moved = item;
        let mut place = index % PIECE;
        for piece in &mut self.pieces[index / PIECE..] {
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

    /// Index of the first item of which `before` isn't true; the items of which it is come first.
    pub(crate) fn partition_point(&self, before: impl Fn(T) -> bool) -> usize {
        let piece = self.pieces.partition_point(|piece| piece.first().is_some_and(|first| before(*first)));
        let Some(within) = piece.checked_sub(1) else { return 0 };
        within * PIECE + self.pieces[within].partition_point(|item| before(*item))
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
                prop_assert_eq!(pieces.partition_point(|held| held < item), list.partition_point(|held| *held < item));
            }
            prop_assert_eq!((pieces.first(), pieces.last()), (list.first().copied(), list.last().copied()));
            prop_assert_eq!(pieces.get(list.len()), None);
            prop_assert!((0..list.len()).all(|index| pieces[index] == list[index]));
            let middle = list.len() / 3..list.len();
            prop_assert!(pieces.range(middle.clone()).rev().eq(list[middle].iter().rev().copied()));
            prop_assert!(pieces.range(0..list.len()).eq(list));
        }
    }
}

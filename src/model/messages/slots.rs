//! Where a record's messages lie, sorted.

use std::ops::Range;

use super::{PIECE, Slot};
use crate::model::Pieces;

/// Slots by their messages' order. A search for a number goes by steps first: those lie side by side, while the slots of a long record lie all over the
/// memory, and each look at one of them would be one at memory that isn't in the processor's caches.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Pieces<Slot, PIECE>,
    /// The numbers of the slots at [`STEP`], twice that and so on.
    steps: Vec<u64>,
}

/// Slots of a step. A piece is so many whole ones.
const STEP: usize = 64;

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<Slot> {
        self.slots.get(index)
    }

    pub(super) fn first(&self) -> Option<Slot> {
        self.slots.first()
    }

    pub(super) fn last(&self) -> Option<Slot> {
        self.slots.last()
    }

    /// The slots at a range of indices that is within bounds.
    pub(super) fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = Slot> {
        self.slots.range(range)
    }

    /// Adds one above all others.
    pub(super) fn push(&mut self, slot: Slot) {
        self.slots.push(slot);
        self.add_steps();
    }

    /// Puts one at an index that is within bounds or their end; what is behind it moves.
    pub(super) fn insert(&mut self, index: usize, slot: Slot) {
        self.slots.insert(index, slot);
        // All at the index or behind it are others now.
        self.steps.truncate(index.div_ceil(STEP).saturating_sub(1));
        self.add_steps();
    }

    /// Index of the first slot whose number is at least `number`.
    pub(super) fn first_at_least(&self, number: u128) -> usize {
        // What is wider is above all.
        let Ok(number) = u64::try_from(number) else { return self.len() };
        let start = STEP * self.steps.partition_point(|other| *other < number);
        let step = self.slots.within(start..self.len().min(start + STEP));
        // Each is looked at: so their memory comes at once, and not one look after the other. A page needs most of it next.
        start + step.iter().filter(|slot| slot.number < number).count()
    }

    /// Adds the steps that are missing.
    fn add_steps(&mut self) {
        let Self { slots, steps } = self;
        let next = STEP * (steps.len() + 1);
        if next < slots.len() {
            steps.extend((next..slots.len()).step_by(STEP).map(|index| slots[index].number));
        }
    }
}

impl From<Pieces<Slot, PIECE>> for Slots {
    /// Of slots that are sorted.
    fn from(slots: Pieces<Slot, PIECE>) -> Self {
        let mut slots = Self { slots, steps: Vec::new() };
        slots.add_steps();
        slots
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Place;
    use super::*;

    fn slot(number: u64) -> Slot {
        Slot { number, place: Place { chunk: 0, offset: 0 } }
    }

    proptest! {
        #[test]
        fn a_search_by_steps_finds_what_a_search_of_all_does(
            mut numbers in prop::collection::vec(0..300_u64, 0..5 * STEP),
            inserts in prop::collection::vec(0..300_u64, 0..2 * STEP),
            number in 0..302_u128,
        ) {
            numbers.sort_unstable();
            let mut pile = Pieces::default();
            let mut pushed = Slots::default();
            for number in &numbers {
                pile.push(slot(*number));
                pushed.push(slot(*number));
            }
            for mut slots in [Slots::from(pile), pushed] {
                let mut numbers = numbers.clone();
                for insert in &inserts {
                    let index = numbers.partition_point(|held| held <= insert);
                    prop_assert_eq!(slots.first_at_least(u128::from(*insert) + 1), index);
                    numbers.insert(index, *insert);
                    slots.insert(index, slot(*insert));
                }
                prop_assert_eq!(slots.first_at_least(number), numbers.partition_point(|held| u128::from(*held) < number));
                prop_assert_eq!(slots.first_at_least(u128::MAX), numbers.len());
                prop_assert!(slots.range(0..slots.len()).map(|slot| slot.number).eq(numbers));
                prop_assert!(slots.steps.len() <= slots.len() / STEP);
            }
        }
    }
}

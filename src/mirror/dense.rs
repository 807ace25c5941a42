//! Maps and sets of numbers that mostly lie next to each other: rows of a Bot, keys of its entries.

use hashbrown::HashMap;

/// Numbers of a block.
const BLOCK: usize = 64;

/// The block of a number, and its place in there.
fn split(number: u64) -> (u64, usize) {
    (number / BLOCK as u64, usize::try_from(number % BLOCK as u64).unwrap_or_default())
}

/// A map from numbers to numbers below `u32::MAX`, in blocks: where all of a block are there it takes five bytes for each and one look, mostly into
/// memory that was just in use; where each is alone, some three hundred.
#[derive(Debug, Default)]
pub(super) struct DenseMap {
    blocks: HashMap<u64, Box<Block>>,
}

#[derive(Debug)]
struct Block {
    values: [u32; BLOCK],
    count: u8,
}

/// In the place of a value: there is none.
const NONE: u32 = u32::MAX;

impl DenseMap {
    pub(super) fn get(&self, number: u64) -> Option<u32> {
        let (block, place) = split(number);
        Some(self.blocks.get(&block)?.values[place]).filter(|value| *value != NONE)
    }

    /// Sets a value, in the place of any other.
    pub(super) fn insert(&mut self, number: u64, value: u32) {
        let (block, place) = split(number);
        let empty = || Box::new(Block { values: [NONE; BLOCK], count: 0 });
        let Block { values, count } = &mut **self.blocks.entry(block).or_insert_with(empty);
        *count += u8::from(values[place] == NONE);
        values[place] = value;
    }

    /// All values, in any order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        let values = self.blocks.values_mut().flat_map(|block| &mut block.values);
        values.filter(|value| **value != NONE)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<u32> {
        let (at, place) = split(number);
        let Block { values, count } = &mut **self.blocks.get_mut(&at)?;
        let value = Some(std::mem::replace(&mut values[place], NONE)).filter(|value| *value != NONE)?;
        *count -= 1;
        if *count == 0 {
            self.blocks.remove(&at);
            if self.blocks.capacity() > 64 && self.blocks.len() * 8 < self.blocks.capacity() {
                self.blocks.shrink_to(2 * self.blocks.len());
            }
        }
        Some(value)
    }
}

/// A set of numbers, a bit for each of a block.
#[derive(Debug, Default)]
pub(super) struct DenseSet {
    blocks: HashMap<u64, u64>,
}

impl DenseSet {
    /// Says whether it is new.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let (block, place) = split(number);
        let bits = self.blocks.entry(block).or_default();
        let new = *bits & 1 << place == 0;
        *bits |= 1 << place;
        new
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let (block, place) = split(number);
        self.blocks.get(&block).is_some_and(|bits| bits & 1 << place != 0)
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..200_u64, 1 => u64::MAX - 100..=u64::MAX, 1 => any::<u64>()]
    }

    proptest! {
        #[test]
        fn a_dense_map_is_a_map(steps in prop::collection::vec((number(), prop::option::weighted(0.6, 0..NONE)), 0..200)) {
            let (mut dense, mut model) = (DenseMap::default(), BTreeMap::new());
            for (number, value) in steps {
                if let Some(value) = value {
                    dense.insert(number, value);
                    model.insert(number, value);
                } else {
                    prop_assert_eq!(dense.remove(number), model.remove(&number));
                }
                for known in model.keys().copied().chain([number, 63, 64]) {
                    prop_assert_eq!(dense.get(known), model.get(&known).copied());
                }
            }
            // Nothing is kept of what is gone.
            for number in model.into_keys() {
                dense.remove(number);
            }
            prop_assert_eq!(dense.blocks.len(), 0);
        }

        #[test]
        fn a_dense_set_is_a_set(numbers in prop::collection::vec(number(), 0..100), others in prop::collection::vec(number(), 0..100)) {
            let (mut dense, mut model) = (DenseSet::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(dense.insert(number), model.insert(number));
            }
            for number in others.into_iter().chain(model.iter().copied()) {
                prop_assert_eq!(dense.contains(number), model.contains(&number));
            }
        }
    }

    #[test]
    fn what_a_history_left_is_given_back() {
        let mut dense = DenseMap::default();
        for number in 0..100_000 {
            dense.insert(number, 1);
        }
        for number in 100..100_000 {
            dense.remove(number);
        }
        assert!(dense.blocks.capacity() <= 64, "{}", dense.blocks.capacity());
        assert_eq!((dense.get(99), dense.get(100)), (Some(1), None));
    }
}

//! A hash table of keys that grows a part at a time.

use hashbrown::HashTable;

use super::entries::Key;

/// Keys by a hash that is made of what they stand for: this table knows keys alone.
///
/// One table of a million keys would stand still for tens of milliseconds each time that it doubles, and be half empty behind it. So a long one is
/// in parts, and their shares differ: no two of them are full at the same moment.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Up to [`WHOLE`] keys lie in `first`; more are in `parts`, and it is empty.
    first: HashTable<Key>,
    parts: Vec<HashTable<Key>>,
}

/// How many keys are kept in one part: as many as fill one of `hashbrown`'s sizes.
const WHOLE: usize = 7 * 1024;
/// The parts of a longer table.
const PARTS: usize = 64;

/// The part of a hash. The bits in the middle are taken: `hashbrown` goes by those at both ends.
///
/// A part's share of the hashes grows from three quarters of the mean to three halves: twice as much, as a table grows, and so they are full one
/// after the other.
fn part(hash: u64) -> usize {
    let x = usize::from(u16::try_from(hash >> 32 & 0xffff).unwrap_or_default());
    (x * ((4 << 16) - x) * PARTS / 3) >> 32
}

impl Table {
    fn of(&self, hash: u64) -> &HashTable<Key> {
        if self.parts.is_empty() { &self.first } else { &self.parts[part(hash)] }
    }

    fn of_mut(&mut self, hash: u64) -> &mut HashTable<Key> {
        if self.parts.is_empty() { &mut self.first } else { &mut self.parts[part(hash)] }
    }

    /// The key with a hash of which `is` is true.
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(Key) -> bool) -> Option<Key> {
        self.of(hash).find(hash, |&key| is(key)).copied()
    }

    /// Adds a key that isn't in it; `hash_of` tells the hash of any key.
    pub(super) fn insert(&mut self, hash: u64, key: Key, hash_of: impl Fn(Key) -> u64) {
        if self.parts.is_empty() && self.first.len() >= WHOLE {
            self.divide(2 * WHOLE, &hash_of);
        }
        self.of_mut(hash).insert_unique(hash, key, |&key| hash_of(key));
    }

    /// Takes the key with a hash out of which `is` is true.
    pub(super) fn remove(&mut self, hash: u64, mut is: impl FnMut(Key) -> bool) {
        if let Ok(found) = self.of_mut(hash).find_entry(hash, |&key| is(key)) {
            found.remove();
        }
    }

    /// Makes room for so many keys in all.
    pub(super) fn reserve(&mut self, count: usize, hash_of: impl Fn(Key) -> u64) {
        if count <= WHOLE {
            let more = count.saturating_sub(self.first.len());
            self.first.reserve(more, |&key| hash_of(key));
        } else if self.parts.is_empty() {
            self.divide(count, &hash_of);
        }
    }

    /// Goes on in parts, with room for so many keys.
    fn divide(&mut self, count: usize, hash_of: &impl Fn(Key) -> u64) {
        let mut shares = [0; PARTS];
        for hash in 0..1_u64 << 16 {
            shares[part(hash << 32)] += 1;
        }
        self.parts = shares.map(|share: usize| HashTable::with_capacity(count * share >> 16)).into();
        for key in std::mem::take(&mut self.first) {
            let hash = hash_of(key);
            self.parts[part(hash)].insert_unique(hash, key, |&key| hash_of(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::BuildHasher as _;

    use hashbrown::DefaultHashBuilder;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_hash_has_a_part_and_their_shares_are_between_three_quarters_and_three_halves() {
        let mut shares = [0_usize; PARTS];
        for x in 0..1_u64 << 16 {
            shares[part(x << 32 | 0xffff_0000_ffff_ffff)] += 1;
        }
        let mean = (1 << 16) / PARTS;
        assert!(shares.iter().all(|share| (mean * 3 / 4 - 8..=mean * 3 / 2 + 8).contains(share)), "{shares:?}");
        assert!(shares.is_sorted_by_key(|share| share / 16), "{shares:?}");
    }

    #[test]
    fn a_long_table_grows_in_small_steps_and_is_never_mostly_empty() {
        let hasher = DefaultHashBuilder::default();
        let (mut table, moved) = (Table::default(), Cell::new(0));
        let hash_of = |key: Key| {
            moved.set(moved.get() + 1);
            hasher.hash_one(key)
        };
        for key in 0..400_000 {
            moved.set(0);
            table.insert(hasher.hash_one(key), key, hash_of);
            assert!(moved.get() <= 2 * WHOLE, "{} keys moved when {key} came", moved.get());
            if key > 20_000 && key.is_multiple_of(1000) {
                let room: usize = table.parts.iter().map(HashTable::capacity).sum();
                assert!(key as usize * 100 >= room * 60, "room for {room} with {key}");
            }
        }
        assert!((0..400_000).all(|key| table.find(hasher.hash_one(key), |other| other == key) == Some(key)));
    }

    #[test]
    fn room_is_made_for_as_many_as_are_told() {
        let hasher = DefaultHashBuilder::default();
        for count in [10, WHOLE, 100_000] {
            let mut table = Table::default();
            table.insert(hasher.hash_one(0), 0, |key| hasher.hash_one(key));
            table.reserve(count, |key| hasher.hash_one(key));
            assert_eq!(table.find(hasher.hash_one(0), |key| key == 0), Some(0), "{count}");
            let room: usize = table.parts.iter().map(HashTable::capacity).sum::<usize>() + table.first.capacity();
            assert!((count..=3 * count + 64).contains(&room), "room for {room} of {count}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        // The first key of each test is where a table is still whole, or just before it is divided.
        #[test]
        fn a_table_is_a_set_of_keys(first in prop_oneof![Just(0), Just(WHOLE - 30)], steps in prop::collection::vec((0..60_u32, any::<bool>()), 0..200)) {
            let hasher = DefaultHashBuilder::default();
            let mut table = Table::default();
            let first = Key::try_from(first).unwrap_or(0);
            for key in 0..first {
                table.insert(hasher.hash_one(key), key, |key| hasher.hash_one(key));
            }
            let mut model = std::collections::BTreeSet::new();
            for (key, comes) in steps {
                let key = first + key;
                let hash = hasher.hash_one(key);
                if !comes {
                    table.remove(hash, |other| other == key);
                    model.remove(&key);
                } else if model.insert(key) {
                    table.insert(hash, key, |key| hasher.hash_one(key));
                }
                for key in first..first + 60 {
                    let found = table.find(hasher.hash_one(key), |other| other == key);
                    prop_assert_eq!(found.is_some(), model.contains(&key));
                }
            }
            prop_assert!((0..first).all(|key| table.find(hasher.hash_one(key), |other| other == key) == Some(key)));
        }
    }
}

//! A hash table of keys that grows a part at a time.

use hashbrown::HashTable;

use super::entries::Key;

/// Keys by a hash that is made of what they stand for: this table knows keys alone.
///
/// One table of a million keys would stand still for tens of milliseconds each time that it doubles, be half empty behind it, and leave a hole of its
/// old size in memory. So it is in parts of one size, and one that is full becomes two.
#[derive(Debug, Default)]
pub(super) struct Table {
    parts: Vec<Part>,
    /// The part of each equal section of the places; as many as a power of two, none while the table is empty.
    sections: Vec<u32>,
}

#[derive(Debug, Default)]
struct Part {
    keys: HashTable<Key>,
    /// How often it was divided: it has one of so many halves of halves of all places.
    depth: u32,
}

/// Keys of a part that is full: as many as fill one of `hashbrown`'s sizes. The first part grows up to here by itself.
const FULL: usize = 7 * 512;
/// Bits of a place.
const PLACES: u32 = 16;

/// The place of a hash among all, in which the first places have twice as many hashes as the last ones. So parts aren't full all at the same time,
/// and the table is never mostly empty. The hash's bits in the middle are taken: `hashbrown` goes by those at both ends.
fn place(hash: u64) -> usize {
    let x = usize::from(u16::try_from(hash >> 32 & 0xffff).unwrap_or_default());
    (x * ((1 << 17) + x) / 3) >> PLACES
}

impl Table {
    /// The part of a hash.
    fn part(&self, hash: u64) -> Option<usize> {
        let bits = self.sections.len().checked_ilog2()?;
        Some(self.sections[place(hash) >> (PLACES - bits)] as usize)
    }

    /// The key with a hash of which `is` is true.
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(Key) -> bool) -> Option<Key> {
        self.parts[self.part(hash)?].keys.find(hash, |&key| is(key)).copied()
    }

    /// Adds a key that isn't in it; `hash_of` tells the hash of any key.
    pub(super) fn insert(&mut self, hash: u64, key: Key, hash_of: impl Fn(Key) -> u64) {
        let part = loop {
            let Some(part) = self.part(hash) else {
                self.parts.push(Part::default());
                self.sections.push(0);
                continue;
            };
            if self.parts[part].keys.len() < FULL || self.parts[part].depth == PLACES {
                break part;
            }
            self.divide(part, &hash_of);
        };
        self.parts[part].keys.insert_unique(hash, key, |&key| hash_of(key));
    }

    /// Makes two of a part.
    fn divide(&mut self, part: usize, hash_of: &impl Fn(Key) -> u64) {
        let Part { keys, depth } = &mut self.parts[part];
        if self.sections.len() == 1 << *depth {
            // Each section becomes two of the same part.
            self.sections = self.sections.iter().flat_map(|&part| [part, part]).collect();
        }
        *depth += 1;
        let depth = *depth;
        let old = std::mem::replace(keys, HashTable::with_capacity(FULL));
        let new = self.parts.len();
        self.parts.push(Part { keys: HashTable::with_capacity(FULL), depth });
        // The second half of the part's sections.
        let upper = |place: usize| place >> (PLACES - depth) & 1 == 1;
        let width = PLACES - self.sections.len().ilog2();
        for (section, of) in self.sections.iter_mut().enumerate() {
            if *of as usize == part && upper(section << width) {
                // There are fewer of them than keys.
                *of = u32::try_from(new).unwrap_or(u32::MAX);
            }
        }
        for key in old {
            let hash = hash_of(key);
            let part = if upper(place(hash)) { new } else { part };
            self.parts[part].keys.insert_unique(hash, key, |&key| hash_of(key));
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
    fn the_first_places_have_twice_as_many_hashes_as_the_last() {
        let mut shares = [0_usize; 16];
        for x in 0..1_u64 << 16 {
            shares[place(x << 32 | 0xffff_0000_ffff_ffff) >> 12] += 1;
        }
        assert!(shares.iter().rev().is_sorted(), "{shares:?}");
        let (first, last) = (shares[0], shares[15]);
        assert!((185..=215).contains(&(100 * first / last)), "{shares:?}");
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
            assert!(moved.get() <= 2 * FULL, "{} keys moved when {key} came", moved.get());
            if key > 50_000 && key.is_multiple_of(1000) {
                let room: usize = table.parts.iter().map(|part| part.keys.capacity()).sum();
                assert!(key as usize * 100 >= room * 60, "room for {room} with {key}");
            }
        }
        assert!((0..400_000).all(|key| table.find(hasher.hash_one(key), |other| other == key) == Some(key)));
        assert!(table.parts.iter().all(|part| part.keys.capacity() == FULL));
    }

    #[test]
    fn keys_of_one_hash_are_all_kept() {
        let mut table = Table::default();
        let count = Key::try_from(FULL).unwrap() + 10;
        for key in 0..count {
            table.insert(7, key, |_| 7);
        }
        assert!((0..count).step_by(97).all(|key| table.find(7, |other| other == key) == Some(key)));
        assert_eq!(table.find(7, |key| key == count), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        // The first key of each test is where a table is empty, just before its first part is divided, or where there are some.
        #[test]
        fn a_table_is_a_set_of_keys(
            first in prop_oneof![Just(0), Just(FULL - 30), Just(3 * FULL)],
            keys in prop::collection::btree_set(0..60_u32, 0..60),
        ) {
            let hasher = DefaultHashBuilder::default();
            let mut table = Table::default();
            let first = Key::try_from(first).unwrap();
            for key in (0..first).chain(keys.iter().map(|key| first + key)) {
                table.insert(hasher.hash_one(key), key, |key| hasher.hash_one(key));
            }
            for key in 0..first + 60 {
                let found = table.find(hasher.hash_one(key), |other| other == key);
                prop_assert_eq!(found.is_some(), key < first || keys.contains(&(key - first)));
            }
        }
    }
}

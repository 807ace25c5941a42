//! What is pending, by number.

use std::collections::BTreeSet;

use super::entries::Key;
use crate::model::Part;

/// One pending text: its number, its entry, which of the entry's texts it is.
pub(super) type Pending = (u64, Key, Part);

/// A set of pending texts. A first read's whole history is given to it at once and then only taken from: that part of it is a sorted list, which is
/// small and goes back in one piece. (A tree of a million would leave its holes among what stays.)
#[derive(Debug, Default)]
pub(super) struct Order {
    set: BTreeSet<Pending>,
    /// Sorted, with those that were removed marked; what is before `next` is over.
    backlog: Vec<(u64, Key, Part, bool)>,
    next: usize,
}

impl Order {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Replaces all of it.
    pub(super) fn fill(&mut self, mut pending: Vec<Pending>) {
        pending.sort_unstable();
        pending.dedup();
        let backlog = pending.into_iter().map(|(number, key, part)| (number, key, part, false)).collect();
        *self = Self { set: BTreeSet::new(), backlog, next: 0 };
    }

    pub(super) fn insert(&mut self, pending: Pending) {
        self.set.insert(pending);
    }

    pub(super) fn remove(&mut self, pending: &Pending) {
        self.set.remove(pending);
        let rest = &mut self.backlog[self.next..];
        if let Ok(place) = rest.binary_search_by(|&(number, key, part, _)| (number, key, part).cmp(pending)) {
            rest[place].3 = true;
            self.next += rest.iter().take_while(|(.., removed)| *removed).count();
        }
        if self.next == self.backlog.len() {
            (self.backlog, self.next) = (Vec::new(), 0);
        }
    }

    /// The lowest number.
    pub(super) fn first(&self) -> Option<u64> {
        let (set, backlog) = (self.set.first(), self.backlog.get(self.next));
        set.map(|(number, ..)| *number).into_iter().chain(backlog.map(|(number, ..)| *number)).min()
    }

    /// The lowest number at or above `from`.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        // Nearly always nothing waits below it, and the way to the first one is the shortest; it is asked for with every row.
        self.first().filter(|first| *first >= from).or_else(|| self.from(from).next().map(|(number, ..)| number))
    }

    /// All that has this number, in order.
    pub(super) fn at(&self, number: u64) -> impl Iterator<Item = (Key, Part)> {
        self.from(number).take_while(move |(other, ..)| *other == number).map(|(_, key, part)| (key, part))
    }

    /// All up to this number, in order.
    pub(super) fn up_to(&self, number: u64) -> impl Iterator<Item = Pending> {
        self.iter().take_while(move |(other, ..)| *other <= number)
    }

    /// All of it, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Pending> {
        self.from(0)
    }

    /// All from this number on, in order.
    fn from(&self, from: u64) -> impl Iterator<Item = Pending> {
        let set = self.set.range((from, 0, Part::Entry)..).copied();
        let (mut set, mut backlog) = (set.peekable(), self.backlog_from(from).peekable());
        std::iter::from_fn(move || match (set.peek(), backlog.peek()) {
            (Some(one), Some(other)) if one == other => {
                backlog.next();
                set.next()
            }
            (Some(one), Some(other)) if other < one => backlog.next(),
            (Some(_), _) => set.next(),
            (None, _) => backlog.next(),
        })
    }

    fn backlog_from(&self, from: u64) -> impl Iterator<Item = Pending> {
        let rest = &self.backlog[self.next..];
        let first = if rest.first().is_some_and(|(number, ..)| *number < from) {
            rest.partition_point(|(number, ..)| *number < from)
        } else {
            0
        };
        rest[first..].iter().filter(|(.., removed)| !removed).map(|&(number, key, part, _)| (number, key, part))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pending() -> impl Strategy<Value = Pending> {
        (0..12_u64, 0..4_u32, any::<bool>())
            .prop_map(|(number, key, answer)| (number, key, if answer { Part::Answer } else { Part::Entry }))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Fill(Vec<Pending>),
        Insert(Pending),
        Remove(Pending),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            1 => prop::collection::vec(pending(), 0..30).prop_map(Step::Fill),
            4 => pending().prop_map(Step::Insert),
            8 => pending().prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn an_order_is_a_sorted_set(steps in steps(), from in 0..13_u64) {
            let (mut order, mut model) = (Order::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Fill(all) => {
                        model = all.iter().copied().collect();
                        order.fill(all);
                    }
                    Step::Insert(pending) => {
                        model.insert(pending);
                        order.insert(pending);
                    }
                    Step::Remove(pending) => {
                        model.remove(&pending);
                        order.remove(&pending);
                    }
                }
                prop_assert!(order.iter().eq(model.iter().copied()));
                prop_assert!(order.up_to(from).eq(model.range(..=(from, Key::MAX, Part::Answer)).copied()));
                let number = model.range((from, 0, Part::Entry)..).next().map(|(number, ..)| *number);
                prop_assert_eq!(order.next(from), number);
                prop_assert_eq!(order.first(), model.first().map(|(number, ..)| *number));
                let same = model.iter().filter(|(number, ..)| *number == from).map(|&(_, key, part)| (key, part));
                prop_assert!(order.at(from).eq(same));
            }
        }
    }
}

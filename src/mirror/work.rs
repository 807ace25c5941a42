//! What an entry has while something of it isn't at rest: what is pending, what few entries have at all.

use std::sync::Arc;

use super::dense::DenseMap;
use super::entries::Key;
use super::unit::{Exposed, Pending};
use crate::model::{Mono, Part, Widget};

/// What an entry has while something of it isn't at rest.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Its own text.
    pending: Option<Pending>,
    /// Where that stands in the mirror's order.
    registered: Option<u64>,
    rare: Option<Box<Rare>>,
}

/// What few entries have.
#[derive(Debug, Default)]
struct Rare {
    /// The text of its answer.
    pending: Option<Pending>,
    registered: Option<u64>,
    /// What was exposed of its answer.
    answer: Option<Exposed>,
    widget: Option<Arc<Widget>>,
    /// Since when its body is waited for.
    waiting: Option<Mono>,
    nonce: Option<u128>,
    /// When it was first found ready but late.
    late_since: Option<Mono>,
}

/// A field of [`Rare`]: to set it to nothing doesn't make one.
macro_rules! rare {
    ($($get:ident, $set:ident: $field:ident, $type:ty;)*) => {$(
        pub(super) fn $get(&self) -> Option<$type> {
            self.rare.as_ref()?.$field
        }

        pub(super) fn $set(&mut self, value: Option<$type>) {
            if self.rare.is_some() || value.is_some() {
                self.rare.get_or_insert_default().$field = value;
            }
        }
    )*};
}

impl Work {
    rare! {
        answer, set_answer: answer, Exposed;
        waiting, set_waiting: waiting, Mono;
        nonce, set_nonce: nonce, u128;
        late_since, set_late_since: late_since, Mono;
    }

    pub(super) fn widget(&self) -> Option<&Arc<Widget>> {
        self.rare.as_ref()?.widget.as_ref()
    }

    pub(super) fn set_widget(&mut self, widget: Option<Arc<Widget>>) {
        if self.rare.is_some() || widget.is_some() {
            self.rare.get_or_insert_default().widget = widget;
        }
    }

    /// What waits to be exposed of one of its texts.
    pub(super) fn pending(&self, part: Part) -> Option<&Pending> {
        match part {
            Part::Entry => self.pending.as_ref(),
            Part::Answer => self.rare.as_ref()?.pending.as_ref(),
        }
    }

    pub(super) fn pending_mut(&mut self, part: Part) -> Option<&mut Pending> {
        match part {
            Part::Entry => self.pending.as_mut(),
            Part::Answer => self.rare.as_mut()?.pending.as_mut(),
        }
    }

    pub(super) fn set_pending(&mut self, part: Part, pending: Pending) {
        match part {
            Part::Entry => self.pending = Some(pending),
            Part::Answer => self.rare.get_or_insert_default().pending = Some(pending),
        }
    }

    pub(super) fn take_pending(&mut self, part: Part) -> Option<Pending> {
        match part {
            Part::Entry => self.pending.take(),
            Part::Answer => self.rare.as_mut()?.pending.take(),
        }
    }

    /// What waits of both.
    pub(super) fn all_pending(&mut self) -> impl Iterator<Item = &mut Pending> {
        let Self { pending, rare, .. } = self;
        pending.iter_mut().chain(rare.iter_mut().flat_map(|rare| rare.pending.iter_mut()))
    }

    /// Where a text stands in the mirror's order.
    pub(super) fn registered(&self, part: Part) -> Option<u64> {
        match part {
            Part::Entry => self.registered,
            Part::Answer => self.rare.as_ref()?.registered,
        }
    }

    pub(super) fn set_registered(&mut self, part: Part, number: Option<u64>) {
        match part {
            Part::Entry => self.registered = number,
            Part::Answer => self.rare.get_or_insert_default().registered = number,
        }
    }

    /// Whether nothing is left of it.
    pub(super) fn done(&self) -> bool {
        self.pending.is_none() && self.registered.is_none() && self.rare.as_ref().is_none_or(|rare| rare.is_empty())
    }
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.pending.is_none()
            && self.registered.is_none()
            && (self.answer.is_none() && self.widget.is_none() && self.nonce.is_none())
            && self.waiting.is_none()
            && self.late_since.is_none()
    }
}

/// The work of the entries that have any, in one piece of memory: a first read has some for every entry, and afterwards all of it goes back. (Pieces of
/// it would lie between the texts that stay, and what they leave would be holes.)
#[derive(Debug, Default)]
pub(super) struct Desks {
    places: DenseMap,
    works: Vec<Work>,
    free: Vec<u32>,
}

impl Desks {
    pub(super) fn get(&self, key: Key) -> Option<&Work> {
        self.places.get(key.into()).map(|place| &self.works[place as usize])
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Work> {
        self.places.get(key.into()).map(|place| &mut self.works[place as usize])
    }

    pub(super) fn get_or_default(&mut self, key: Key) -> &mut Work {
        let Self { places, works, free } = self;
        let place = places.get(key.into()).unwrap_or_else(|| {
            let place = free.pop().unwrap_or_else(|| {
                if works.len() == works.capacity() {
                    // Not twice as much: it is the largest thing that there is while a history is read.
                    works.reserve_exact((works.len() / 4).max(4));
                }
                works.push(Work::default());
                // There are no more of them than keys.
                u32::try_from(works.len() - 1).unwrap_or(u32::MAX)
            });
            places.insert(key.into(), place);
            place
        });
        &mut works[place as usize]
    }

    pub(super) fn remove(&mut self, key: Key) {
        let Some(place) = self.places.remove(key.into()) else { return };
        self.works[place as usize] = Work::default();
        self.free.push(place);
        if self.free.len() > 3 * self.count() + SPARE {
            self.tidy();
        }
    }

    /// How many have one.
    fn count(&self) -> usize {
        self.works.len() - self.free.len()
    }

    /// Gives back what is free.
    fn tidy(&mut self) {
        let mut works = Vec::with_capacity(self.count());
        for place in self.places.values_mut() {
            let work = std::mem::take(&mut self.works[*place as usize]);
            *place = u32::try_from(works.len()).unwrap_or(u32::MAX);
            works.push(work);
        }
        (self.works, self.free) = (works, Vec::new());
    }
}

/// Free places that are kept for the next entries.
const SPARE: usize = 256;

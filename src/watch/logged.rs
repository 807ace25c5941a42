//! What repeats is logged once an hour a key. Pure: time comes in as a value.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::Mono;

/// How long a key is silent once it was logged.
const SILENCE: Duration = Duration::from_hours(1);
/// Keys that are remembered: what a peer puts into them must not fill the memory.
const KEYS: usize = 1_000;

/// What was logged, and when.
#[derive(Debug, Default)]
pub(super) struct Logged(BTreeMap<String, Mono>);

impl Logged {
    /// Whether `key` is to be logged now.
    pub(super) fn once_an_hour(&mut self, now: Mono, key: String) -> bool {
        if self.0.get(&key).is_some_and(|at| now.since(*at) < SILENCE) {
            return false;
        }
        if self.0.len() >= KEYS && !self.0.contains_key(&key) {
            self.make_room(now);
        }
        self.0.insert(key, now);
        true
    }

    /// Forgets what may be logged again anyway; where that is nothing, the oldest, so that a flood of new keys doesn't bring back those that are
    /// silent.
    fn make_room(&mut self, now: Mono) {
        self.0.retain(|_, at| now.since(*at) < SILENCE);
        if self.0.len() >= KEYS
            && let Some(oldest) = self.0.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone())
        {
            self.0.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Mono {
        Mono(Duration::from_secs(secs))
    }

    #[test]
    fn a_key_is_logged_once_an_hour() {
        let mut logged = Logged::default();
        let mut log = |secs, key: &str| logged.once_an_hour(at(secs), key.to_owned());
        assert!(log(0, "a") && log(1, "b"));
        assert!(!log(3_599, "a"));
        assert!(log(3_600, "a"));
        assert!(!log(3_600, "b"));
    }

    #[test]
    fn past_the_bound_what_is_over_an_hour_old_is_forgotten_first_and_then_the_oldest() {
        let mut logged = Logged::default();
        let mut log = |secs, key: String| logged.once_an_hour(at(secs), key);
        for n in 0..500_u64 {
            assert!(log(n, format!("old {n}")));
        }
        for n in 0..500_u64 {
            assert!(log(3_600 + n, format!("new {n}")));
        }
        // Full: those older than an hour make room, and nothing else.
        assert!(log(4_200, "more 0".to_owned()));
        assert!((0..500).all(|n| !log(4_200, format!("new {n}"))));
        for n in 1..500 {
            assert!(log(4_201, format!("more {n}")));
        }
        // Full of what is silent: the oldest alone is forgotten.
        assert!(log(4_202, "last".to_owned()));
        assert!((1..500).all(|n| !log(4_202, format!("new {n}"))));
        assert!((0..500).all(|n| !log(4_202, format!("more {n}"))));
        assert!(log(4_202, "new 0".to_owned()));
    }

    #[test]
    fn it_never_holds_more_than_its_bound() {
        let mut logged = Logged::default();
        for n in 0..5_000 {
            assert!(logged.once_an_hour(at(n / 100), n.to_string()));
        }
        assert_eq!(logged.0.len(), KEYS);
    }
}

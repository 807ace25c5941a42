//! How long to wait before the next try. Pure: chance comes in as a number in `0.0..1.0`.

use std::time::Duration;

/// The longest that a server's word may hold us up: a mistake of its must not be for ever.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Waits that grow from a first to a longest one, doubling, with jitter.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// The wait after one more failure. The server's own word goes before ours, but "at once" is no wait: a service that says so to every try
    /// would be asked without end.
    pub(super) fn next(&mut self, retry_after: Option<Duration>, chance: f64) -> Duration {
        let grown = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        // Half of it is fixed, so that waits grow; half is chance, so that many clients don't come back together.
        let ours = grown.mul_f64(0.5 + 0.5 * chance).max(self.first.min(grown));
        retry_after.map_or(ours, |wait| wait.clamp(self.first, LONGEST_RETRY_AFTER))
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The wait after a stream that ended cleanly after a good run: 0.5 to 3 s.
pub(super) fn after_clean_end(chance: f64) -> Duration {
    Duration::from_millis(500) + Duration::from_millis(2500).mul_f64(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_one_second_to_a_minute_and_stay_there() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let waits: Vec<u64> = (0..9).map(|_| (backoff.next(None, 1.0) + Duration::from_millis(1)).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.next(None, 0.0), Duration::from_secs(1), "never below the first");
        assert_eq!(backoff.next(None, 0.0), Duration::from_secs(1));
        assert_eq!(backoff.next(None, 0.0), Duration::from_secs(2));
    }

    #[test]
    fn the_servers_retry_after_goes_before_ours() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        assert_eq!(backoff.next(Some(Duration::from_secs(77)), 0.5), Duration::from_secs(77));
        assert_eq!(backoff.next(Some(Duration::ZERO), 0.5), Duration::from_secs(1));
        assert_eq!(backoff.next(Some(Duration::MAX), 0.5), Duration::from_hours(1));
    }

    #[test]
    fn after_a_clean_end_between_half_a_second_and_three() {
        assert_eq!(after_clean_end(0.0), Duration::from_millis(500));
        assert_eq!(after_clean_end(1.0), Duration::from_secs(3));
    }
}

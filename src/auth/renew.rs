//! When a token is renewed, what is kept of a renewal, and what a failure means for the next one. Pure: time comes in as values.
//!
//! The rules are built so that no clock can make a loop. For a token that we obtained ourselves only durations count: how long we have had it, and
//! how long it lives by its own two times. A wall clock is compared with the service's for tokens alone of which we don't know when they came.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use oauth2::{AccessToken, RefreshToken};
use sha2::{Digest as _, Sha256};

use super::jwt::Claims;
use crate::model::{Mono, Wall};

/// A token is renewed so long before it ends …
const MARGIN: Duration = Duration::from_mins(5);
/// … and once it is so old. Session tokens live about 60 days (sign-in reference, section 3.5); a client that is rarely on would else find its
/// refresh token ended too.
const RIPE: Duration = Duration::from_hours(168);
/// The life of a token that doesn't say when it was issued.
const USUAL_LIFE: Duration = Duration::from_hours(1440);
/// A token whose whole life is so short that this is more isn't renewed before it.
const SHORTEST_SPACING: Duration = Duration::from_secs(10);
/// The first wait after a failure while a token still works, and after a refusal; it doubles …
const FIRST_BACKOFF: Duration = Duration::from_secs(30);
/// The first wait after a failure where no token works: nothing goes on without one.
const FIRST_BACKOFF_WITHOUT: Duration = Duration::from_secs(1);
/// … up to this.
const LONGEST_BACKOFF: Duration = Duration::from_mins(15);
/// A Retry-After beyond this isn't believed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);
/// So many refusals by 403 make it final; single ones come from firewalls too.
const FORBIDDEN_LIMIT: u32 = 3;
/// How many dead refresh tokens are remembered.
const DEAD_LIMIT: usize = 32;

/// A token's hash, to compare and remember it by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Eight hex digits, enough to tell accounts apart and no way back to the token.
    pub(super) fn short(self) -> String {
        let [a, b, c, d, ..] = self.0;
        format!("{a:02x}{b:02x}{c:02x}{d:02x}")
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint")
    }
}

/// What is known of a token that we obtained ourselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// How long ago that was.
    pub(super) age: Duration,
    /// How long it lives from then on, where that is known.
    pub(super) life: Option<Duration>,
}

/// Whether a token is due for renewal at `now` (by the service's clock as far as it is known).
pub(super) fn is_due(claims: &Claims, now: Wall, held: Option<Held>) -> bool {
    match held {
        Some(Held { age, life }) => {
            let ripe = life.map_or(RIPE, |life| RIPE.min(life.saturating_sub(margin(life))));
            age >= ripe.max(SHORTEST_SPACING)
        }
        None => looks_due(claims, now),
    }
}

/// Whether a token looks due by comparing its claims with a clock. One whose end can't be read does.
pub(super) fn looks_due(claims: &Claims, now: Wall) -> bool {
    let Some(expires) = claims.expires else {
        return true;
    };
    let now = now.0.div_euclid(1000);
    let issued = claims.issued.unwrap_or(expires - seconds(USUAL_LIFE));
    let margin = life(claims).map_or(MARGIN, margin);
    now >= expires - seconds(margin) || now >= issued.saturating_add(seconds(RIPE))
}

/// Whether a token has ended at `now`. One whose end can't be read hasn't.
pub(super) fn has_ended(claims: &Claims, now: Wall) -> bool {
    claims.expires.is_some_and(|expires| now.0.div_euclid(1000) >= expires)
}

/// How long the token lives in all, if it says so.
pub(super) fn life(claims: &Claims) -> Option<Duration> {
    let life = claims.expires?.checked_sub(claims.issued?)?;
    u64::try_from(life).ok().filter(|life| *life > 0).map(Duration::from_secs)
}

/// Five minutes, or a fifth of a short life.
fn margin(life: Duration) -> Duration {
    MARGIN.min(life / 5)
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// What to store of a renewal.
#[derive(Clone)]
pub(super) struct Renewed {
    /// The new access token.
    pub(super) access: AccessToken,
    /// What to renew with next time.
    pub(super) refresh: RefreshToken,
    /// What this time worked, kept until `refresh` has.
    pub(super) previous: Option<RefreshToken>,
    /// When, by this machine's clock, right or wrong.
    pub(super) at: Wall,
}

/// Chooses the refresh token to keep (sign-in reference, section 3.7). `sent` is the one that just worked; `fallback` says that it was the previous
/// one, after its successor was refused.
///
/// Usually the service gives no new refresh token, and the old one ends with the sign-in's 60 days. An access token is taken in its place then, the
/// service being reported to accept that, but only where it lives longer, and the one that is known to work is kept until it has worked itself.
pub(super) fn choose(
    sent: &RefreshToken,
    answered: Option<RefreshToken>,
    access: AccessToken,
    fallback: bool,
    ends: impl Fn(&str) -> Option<i64>,
    at: Wall,
) -> Renewed {
    let adopted = || {
        let longer = ends(access.secret())? > ends(sent.secret())?;
        // What was refused once isn't tried the same way again at once.
        (longer && !fallback).then(|| RefreshToken::new(access.secret().clone()))
    };
    let next = answered.or_else(adopted).filter(|next| next.secret() != sent.secret());
    let (refresh, previous) = match next {
        Some(next) => (next, Some(sent.clone())),
        None => (sent.clone(), None),
    };
    Renewed { access, refresh, previous, at }
}

/// What is remembered of failures.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    dead: VecDeque<(Fingerprint, String)>,
    trouble: Option<Trouble>,
}

/// Failures in a row with one refresh token.
#[derive(Debug)]
struct Trouble {
    refresh: Fingerprint,
    failures: u32,
    forbidden: u32,
    /// Not before this while a token still works …
    until: Mono,
    /// … and where none does.
    until_without: Mono,
    detail: String,
}

/// What the ledger says about trying a refresh token now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try.
    Go,
    /// Not yet.
    Wait { left: Duration, detail: String },
    /// Never again.
    Dead(String),
}

impl Ledger {
    /// Whether this refresh token may be tried. `works`: the access token still does.
    pub(super) fn verdict(&self, refresh: Fingerprint, works: bool, now: Mono) -> Verdict {
        if let Some(cause) = self.dead(refresh) {
            return Verdict::Dead(cause.to_owned());
        }
        let Some(trouble) = self.trouble.as_ref().filter(|trouble| trouble.refresh == refresh) else {
            return Verdict::Go;
        };
        let until = if works { trouble.until } else { trouble.until_without };
        if now < until { Verdict::Wait { left: until.since(now), detail: trouble.detail.clone() } } else { Verdict::Go }
    }

    /// Why this refresh token is dead, if it is.
    pub(super) fn dead(&self, refresh: Fingerprint) -> Option<&str> {
        self.dead.iter().find(|(dead, _)| *dead == refresh).map(|(_, cause)| cause.as_str())
    }

    /// Remembers for as long as this process lives that a refresh token is refused for good.
    pub(super) fn bury(&mut self, refresh: Fingerprint, cause: &str) {
        if self.dead(refresh).is_some() {
            return;
        }
        if self.dead.len() == DEAD_LIMIT {
            self.dead.pop_front();
        }
        self.dead.push_back((refresh, cause.to_owned()));
    }

    /// Counts a failure that may pass; gives the wait until the next try where no token works.
    pub(super) fn failed(
        &mut self,
        refresh: Fingerprint,
        detail: &str,
        retry_after: Option<Duration>,
        now: Mono,
    ) -> Duration {
        let trouble = self.trouble_of(refresh);
        trouble.failures = trouble.failures.saturating_add(1);
        let asked = retry_after.map(|asked| asked.min(LONGEST_RETRY_AFTER));
        let wait = asked.unwrap_or_else(|| backoff(trouble.failures));
        let without = match asked {
            // A refusal that may be final is given time: several in one bad minute must not end the sign-in.
            None if trouble.forbidden == 0 => doubled(FIRST_BACKOFF_WITHOUT, trouble.failures),
            _ => wait,
        };
        trouble.until = now.after(wait);
        trouble.until_without = now.after(without);
        detail.clone_into(&mut trouble.detail);
        without
    }

    /// Counts a 403 in the service's own words; true once they are so many that it is final.
    pub(super) fn forbidden(&mut self, refresh: Fingerprint) -> bool {
        let trouble = self.trouble_of(refresh);
        trouble.forbidden = trouble.forbidden.saturating_add(1);
        trouble.forbidden >= FORBIDDEN_LIMIT
    }

    /// A renewal worked.
    pub(super) fn worked(&mut self) {
        self.trouble = None;
    }

    fn trouble_of(&mut self, refresh: Fingerprint) -> &mut Trouble {
        if self.trouble.as_ref().is_none_or(|trouble| trouble.refresh != refresh) {
            self.trouble = None;
        }
        self.trouble.get_or_insert_with(|| Trouble {
            refresh,
            failures: 0,
            forbidden: 0,
            until: Mono::default(),
            until_without: Mono::default(),
            detail: String::new(),
        })
    }
}

/// 30 s, doubling, up to 15 min. `failures` counts from 1.
pub(super) fn backoff(failures: u32) -> Duration {
    doubled(FIRST_BACKOFF, failures)
}

fn doubled(first: Duration, failures: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_BACKOFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 24 * 3600;
    /// "Now" of the tables, in seconds.
    const NOW: i64 = 1_700_000_000;

    fn at(seconds: i64) -> Wall {
        Wall(seconds * 1000)
    }

    fn claims(issued: Option<i64>, expires: Option<i64>) -> Claims {
        Claims { subject: None, expires, issued }
    }

    #[test]
    fn a_token_of_the_file_is_due_before_its_end_and_after_a_week() {
        let table = [
            ("fresh, 60 days left", Some(NOW), Some(NOW + 60 * DAY), false),
            ("53 days left", Some(NOW - 7 * DAY), Some(NOW + 53 * DAY), true),
            ("a minute short of a week", Some(NOW - 7 * DAY + 60), Some(NOW + 53 * DAY + 60), false),
            ("53 days left, issue not told", None, Some(NOW + 53 * DAY), true),
            ("54 days left, issue not told", None, Some(NOW + 54 * DAY), false),
            ("a day left of two", Some(NOW - DAY), Some(NOW + DAY), false),
            ("5 minutes left of an hour", Some(NOW - 3300), Some(NOW + 300), true),
            ("6 minutes left of an hour", Some(NOW - 3240), Some(NOW + 360), false),
            ("ended", Some(NOW - 2 * DAY), Some(NOW - DAY), true),
            ("end not readable", Some(NOW), None, true),
            ("30 s left of a minute", Some(NOW - 30), Some(NOW + 30), false),
            ("10 s left of a minute", Some(NOW - 50), Some(NOW + 10), true),
            ("issued in the future", Some(NOW + DAY), Some(NOW + 61 * DAY), false),
        ];
        for (what, issued, expires, due) in table {
            assert_eq!(is_due(&claims(issued, expires), at(NOW), None), due, "{what}");
        }
    }

    #[test]
    fn a_token_that_we_obtained_is_due_by_how_long_we_have_it() {
        let (day, hour) = (24 * 3600, 3600);
        let table = [
            (Some(60 * day), 0, false),
            (Some(60 * day), 7 * day - 1, false),
            (Some(60 * day), 7 * day, true),
            (Some(hour), hour - 301, false),
            (Some(hour), hour - 300, true),
            (Some(60), 47, false),
            (Some(60), 48, true),
            (Some(0), 9, false),
            (Some(0), 10, true),
            (None, 7 * day - 1, false),
            (None, 7 * day, true),
        ];
        // The clock and the claims say that it ended long ago.
        let (ended, now) = (claims(Some(NOW), Some(NOW + 1)), at(NOW + 3650 * DAY));
        for (life, age, due) in table {
            let held = Held { age: Duration::from_secs(age), life: life.map(Duration::from_secs) };
            assert_eq!(is_due(&ended, now, Some(held)), due, "{held:?}");
        }
    }

    #[test]
    fn backoff_doubles_from_half_a_minute_to_a_quarter_of_an_hour() {
        let waits: Vec<u64> = (1..=7).map(|n| backoff(n).as_secs()).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(backoff(u32::MAX).as_secs(), 900);
    }

    #[test]
    fn failures_hold_for_one_refresh_token() {
        let (one, two) = (Fingerprint::of("one"), Fingerprint::of("two"));
        let mut ledger = Ledger::default();
        let now = Mono(Duration::from_secs(100));
        let wait = |secs| Verdict::Wait { left: Duration::from_secs(secs), detail: "HTTP 500".into() };
        assert_eq!(ledger.failed(one, "HTTP 500", None, now), Duration::from_secs(1));
        assert_eq!((ledger.verdict(one, true, now), ledger.verdict(one, false, now)), (wait(30), wait(1)));
        assert_eq!(ledger.verdict(two, false, now), Verdict::Go, "a new sign-in isn't held up");
        assert_eq!(ledger.verdict(one, false, now.after(Duration::from_secs(1))), Verdict::Go);
        assert_eq!(ledger.verdict(one, true, now.after(Duration::from_secs(30))), Verdict::Go);
        assert_eq!(ledger.failed(one, "HTTP 500", None, now), Duration::from_secs(2));
        assert_eq!(ledger.verdict(one, true, now), wait(60));
        for works in [true, false] {
            assert_eq!(ledger.failed(one, "HTTP 500", Some(Duration::from_secs(7)), now), Duration::from_secs(7));
            assert_eq!(ledger.verdict(one, works, now), wait(7));
        }
        assert_eq!(ledger.failed(one, "x", Some(Duration::MAX), now), Duration::from_hours(1));
        ledger.worked();
        assert_eq!(ledger.failed(one, "x", None, now), Duration::from_secs(1));

        assert!(!ledger.forbidden(one) && !ledger.forbidden(one));
        assert_eq!(ledger.failed(one, "HTTP 403", None, now), Duration::from_mins(1), "after a refusal");
        assert!(ledger.forbidden(one));
        assert!(!ledger.forbidden(two));
        ledger.bury(one, "HTTP 401");
        assert_eq!(ledger.verdict(one, true, now), Verdict::Dead("HTTP 401".into()));
        assert_eq!(ledger.verdict(two, true, now), Verdict::Go);
    }

    #[test]
    fn the_refresh_token_to_keep() {
        // A token's end is its number here: "a60" ends at 60, "opaque" tells none.
        let ends = |token: &str| token.get(1..).and_then(|end| end.parse().ok());
        let table = [
            ("rotated", "r10", Some("r60"), "a60", false, ("r60", Some("r10"))),
            ("the same again", "r10", Some("r10"), "a60", false, ("r10", None)),
            ("none, the access token lives longer", "r10", None, "a60", false, ("a60", Some("r10"))),
            ("none, it doesn't", "r60", None, "a60", false, ("r60", None)),
            ("none, after the adopted one was refused", "r10", None, "a60", true, ("r10", None)),
            ("rotated, after a refusal", "r10", Some("r60"), "a60", true, ("r60", Some("r10"))),
            ("none, ours tells no end", "opaque", None, "a60", false, ("opaque", None)),
            ("none, the new one tells no end", "r10", None, "opaque", false, ("r10", None)),
        ];
        for (what, sent, answered, access, fallback, (refresh, previous)) in table {
            let kept = choose(
                &RefreshToken::new(sent.into()),
                answered.map(|token| RefreshToken::new(token.into())),
                AccessToken::new(access.into()),
                fallback,
                ends,
                at(NOW),
            );
            assert_eq!(kept.refresh.secret(), refresh, "{what}");
            assert_eq!(kept.previous.as_ref().map(|token| token.secret().as_str()), previous, "{what}");
        }
    }

    proptest! {
        /// However wrong the local clock is, even if it is set right in between, and whatever the tokens tell: looking every ten minutes for thirty
        /// days renews now and then, never in a loop.
        #[test]
        fn no_clock_makes_it_renew_in_a_loop(
            wrong_by in prop_oneof![-70 * DAY..70 * DAY, -20 * 365 * DAY..20 * 365 * DAY],
            set_right_after in 0..60 * DAY,
            tells_issue: bool,
            tells_end: bool,
        ) {
            let issue = |now: i64| claims(tells_issue.then_some(now), tells_end.then_some(now + 60 * DAY));
            let mut token = issue(NOW - 3 * DAY);
            let mut obtained: Option<(i64, i64)> = None;
            let mut renewals = 0;
            for step in 0..30 * 24 * 6 {
                let now = NOW + step * 600;
                let wall = now + if now - NOW < set_right_after { wrong_by } else { 0 };
                let held = obtained.map(|(since, wall_since)| Held {
                    // As the keeper measures it.
                    age: Duration::from_secs((now - since).max(wall - wall_since).unsigned_abs()),
                    life: life(&token),
                });
                if is_due(&token, at(wall), held) {
                    renewals += 1;
                    token = issue(now);
                    obtained = Some((now, wall));
                }
            }
            // One at first, one a week, one for the jump.
            prop_assert!(renewals <= 6, "{renewals} renewals");
        }
    }
}

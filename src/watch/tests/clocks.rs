//! Clocks that are set and machines that sleep. On Linux and macOS the monotonic clock stands still while the machine sleeps; `clock::sleep` does that.

use std::time::Duration;

use super::bed::fault::{Fault, Request};
use super::bed::frames::Manner;
use super::bed::{ANN, Bed, clock, rows};
use crate::records::{Failure, Notice, Outcome, SignInState};
use crate::upstream::ErrorKind;

const NIGHT: i64 = 8;

/// Signed in and read, on a stream from which nothing more will come: its service forgets it while the machine sleeps.
async fn evening() -> Bed {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "evening");
    bed.service.next_streams([Manner::Silent]);
    bed.run();
    bed.opened("a").await;
    bed.secs(5).await;
    assert_eq!(bed.host.texts("a"), ["evening"]);
    bed
}

/// What the resource page said, one after the other.
fn said(bed: &Bed) -> Vec<Option<String>> {
    let told = bed.host.told();
    let statuses = told.into_iter().filter_map(|notice| match notice {
        Notice::Status(view) => Some(view.status.message),
        _ => None,
    });
    statuses.collect()
}

#[tokio::test(start_paused = true)]
async fn a_night_asleep_ends_the_stream_and_what_came_meanwhile_is_there_within_half_a_minute() {
    let bed = evening().await;
    bed.host.take();
    let asked = bed.service.count(|_| true);
    clock::sleep(NIGHT);
    bed.service.says("a", "night");
    bed.secs(35).await;
    assert_eq!(bed.host.texts("a"), ["evening", "night"]);
    assert_eq!(bed.service.watches().len(), 2);
    assert_eq!(bed.service.open_streams(), 1);
    // Since the last frame of the evening, and only until the new stream is up.
    let said = said(&bed);
    assert!(said[0].as_ref().unwrap().contains("<t:2026-01-01T00:00:0"), "{said:?}");
    assert_eq!(said[1..], [None]);
    let asked = bed.service.count(|_| true) - asked;
    assert!(asked <= 5, "two lists, a page, a stream: {asked}");
    assert!(bed.host.withdrawn().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_night_asleep_and_no_network_in_the_morning_is_said_since_the_evening_and_makes_no_storm() {
    let bed = evening().await;
    bed.service.fault(|_| true, Fault::error(ErrorKind::NotSent));
    clock::sleep(NIGHT);
    bed.secs(31).await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    let message = bed.host.message().unwrap();
    assert!(message.contains("<t:2026-01-01T00:00:0"), "{message}");
    assert_eq!(bed.host.texts("a"), ["evening"]);
    assert_eq!(bed.host.post("a", "hello").settled().await, Outcome::Failed(Failure::NotSent));
    let turns = clock::turns();
    bed.secs(600).await;
    assert!(clock::turns() - turns < 250, "{}", clock::turns() - turns);
    bed.service.mend();
    bed.service.says("a", "night");
    bed.secs(65).await;
    assert_eq!(bed.host.texts("a"), ["evening", "night"]);
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ended_during_the_night_is_renewed_once_in_the_morning() {
    let bed = evening().await;
    clock::sleep(NIGHT);
    bed.service.reject("sub-ann/1");
    bed.service.says("a", "night");
    bed.secs(35).await;
    assert_eq!(bed.desk.renewals(), 1);
    assert_eq!(bed.host.texts("a"), ["evening", "night"]);
    assert_eq!(bed.service.watches().len(), 2, "the list met the refusal first");
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_that_ended_during_the_night_is_said_in_the_morning_and_the_record_stays() {
    let bed = evening().await;
    clock::sleep(NIGHT);
    bed.desk.end(ANN);
    bed.secs(31).await;
    assert_eq!(bed.host.state(), SignInState::SignInAgain);
    assert!(bed.host.message().unwrap().contains("重新登录"));
    assert_eq!(bed.host.texts("a"), ["evening"]);
    let asked = bed.service.count(|_| true);
    bed.secs(600).await;
    assert_eq!(bed.service.count(|_| true), asked, "nothing is asked until somebody signs in");
}

#[tokio::test(start_paused = true)]
async fn a_post_under_way_when_the_machine_fell_asleep_is_settled_in_the_morning_and_sent_once() {
    let bed = evening().await;
    let mut run = bed.host.post("a", "good night");
    bed.secs(1).await;
    assert_eq!(run.outcome(), None);
    clock::sleep(NIGHT);
    bed.secs(35).await;
    assert!(matches!(run.outcome(), Some(Outcome::Completed { .. })), "{:?}", run.outcome());
    assert_eq!(bed.service.count(Request::is_send), 1);
    assert_eq!(bed.host.texts("a"), ["evening", "good night"]);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_was_open_over_night_gives_way_to_a_new_one() {
    let mut bed = Bed::idle(&["a"]);
    bed.desk.forget();
    bed.run();
    bed.secs(1).await;
    let link = bed.host.handle.sign_in().await.unwrap().unwrap();
    bed.secs(60).await;
    clock::sleep(NIGHT);
    bed.secs(31).await;
    let fresh = bed.host.handle.sign_in().await.unwrap().unwrap();
    assert_ne!(fresh.url, link.url);
    assert!(fresh.expires_at > clock::shown());
    bed.millis(10).await;
    assert_eq!(bed.desk.cancelled(), 1, "the old one isn't asked for any more");
    bed.desk.redeem_with(Ok(ANN));
    bed.up().await;
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn a_monotonic_clock_that_jumps_a_night_makes_no_storm() {
    // A process that was stopped, or a system whose monotonic clock counts the sleep: all that was to be done is due at once.
    let bed = evening().await;
    let (asked, turns) = (bed.service.count(|_| true), clock::turns());
    tokio::time::advance(Duration::from_hours(8)).await;
    bed.service.says("a", "night");
    bed.secs(5).await;
    assert_eq!(bed.host.texts("a"), ["evening", "night"]);
    assert_eq!(bed.service.open_streams(), 1);
    assert_eq!(bed.host.message(), None);
    let asked = bed.service.count(|_| true) - asked;
    assert!(asked <= 4, "a list, a page, a stream: {asked}");
    assert!(clock::turns() - turns < 60, "{}", clock::turns() - turns);
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_forward_by_hours_costs_one_stream_at_most_and_loses_nothing() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "one");
    bed.service.live("a", rows::tool("busy"));
    bed.run();
    bed.up().await;
    bed.secs(20).await;
    let before: Vec<String> = bed.host.messages("a").iter().map(|message| message.id(1)).collect();
    clock::set(5);
    bed.service.says("a", "two");
    bed.secs(300).await;
    assert!(bed.service.watches().len() <= 2, "{:?}", bed.service.watches());
    assert_eq!(bed.host.texts("a"), ["one", "two"]);
    assert_eq!(bed.host.messages("a")[0].id(1), before[0]);
    assert_eq!(bed.host.activity("a").as_deref(), Some("busy"));
    assert_eq!((bed.host.state(), bed.host.message()), (SignInState::SignedIn, None));
    assert!(bed.host.withdrawn().is_empty());
    let facts = bed.host.handle.diagnose().await.unwrap();
    assert_eq!(facts.clock_skew_ms, Some(-5 * clock::HOUR));
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_by_hours_changes_nothing_but_what_it_labels() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "one");
    bed.run();
    bed.up().await;
    bed.secs(20).await;
    clock::set(-5);
    let turns = clock::turns();
    bed.service.says("a", "two");
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["one", "two"]);
    let mut run = bed.host.post("a", "three");
    bed.secs(300).await;
    assert!(matches!(run.outcome(), Some(Outcome::Completed { .. })));
    assert_eq!(bed.host.texts("a"), ["one", "two", "three"]);
    assert_eq!(bed.service.watches().len(), 1);
    assert!(clock::turns() - turns < 100, "{}", clock::turns() - turns);
    let facts = bed.host.handle.diagnose().await.unwrap();
    assert_eq!(facts.clock_skew_ms, Some(5 * clock::HOUR));
    // A stream that falls silent is noticed by the other clock.
    bed.service.next_streams([Manner::Silent]);
    bed.service.end_streams();
    bed.secs(70).await;
    assert_eq!(bed.service.watches().len(), 3);
    assert_eq!(bed.service.open_streams(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_during_an_outage_takes_its_beginning_along() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.says("a", "one");
    bed.secs(2).await;
    bed.shelf.full(true);
    bed.service.says("a", "two");
    bed.secs(8).await;
    let message = |bed: &Bed| bed.host.message().unwrap();
    assert!(message(&bed).contains("磁盘") && message(&bed).contains("<t:2026-01-01T00:00:0"), "{}", message(&bed));
    clock::set(-3);
    bed.secs(60).await;
    assert!(message(&bed).contains("<t:2025-12-31T21:00:0"), "{}", message(&bed));
    bed.shelf.full(false);
    bed.secs(61).await;
    assert_eq!(bed.host.message(), None);

    bed.service.fault(|_| true, Fault::error(ErrorKind::NotSent));
    bed.service.break_streams(ErrorKind::Broken);
    bed.secs(5).await;
    clock::set(-3);
    bed.secs(60).await;
    assert!(message(&bed).contains("<t:2025-12-31T18:02:"), "{}", message(&bed));
    // Set right again: what began in the past stands.
    let told = message(&bed);
    clock::set(6);
    bed.secs(60).await;
    assert_eq!(message(&bed), told);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_while_a_link_is_open_ends_it_no_sooner_and_no_later() {
    let mut bed = Bed::idle(&["a"]);
    bed.desk.forget();
    bed.run();
    bed.secs(1).await;
    let link = bed.host.handle.sign_in().await.unwrap().unwrap();
    clock::set(-5);
    bed.secs(60).await;
    assert_eq!(bed.host.handle.sign_in().await.unwrap().unwrap(), link);
    bed.secs(835).await;
    assert!(matches!(bed.host.state(), SignInState::Confirming { .. }));
    bed.secs(10).await;
    assert_eq!(bed.host.state(), SignInState::SignedOut);
    assert!(bed.host.message().unwrap().contains("已过期"));

    bed.host.handle.sign_in().await.unwrap().unwrap();
    clock::set(5);
    bed.secs(60).await;
    bed.desk.redeem_with(Ok(ANN));
    bed.up().await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
}

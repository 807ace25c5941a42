//! The loop's own life: it doesn't spin, it stops in time, and leaves nothing behind.

use super::bed::fault::{Answer, Fault, Request};
use super::bed::{Bed, clock, rows};
use crate::records::{Gone, SignInState};
use crate::upstream::{Delivery, ErrorKind};
use crate::watch::Quit;

#[tokio::test(start_paused = true)]
async fn an_idle_loop_turns_for_heartbeats_and_the_roster_alone() {
    let names: Vec<String> = (0..30).map(|n| format!("bot{n}")).collect();
    let bots: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bed = Bed::idle(&bots);
    for bot in &bots {
        bed.service.says(bot, "hi");
    }
    bed.service.live("bot3", rows::tool("long work"));
    bed.run();
    bed.up().await;
    bed.secs(60).await;
    let before = clock::turns();
    bed.secs(600).await;
    let turns = clock::turns() - before;
    // Sixty heartbeats; twenty lists, each with its tick and its answer.
    assert!((60..=125).contains(&turns), "{turns}");
}

/// On a real clock, whose timers don't fire at the first look; nothing here waits for it.
#[tokio::test]
async fn the_first_word_of_the_sign_in_is_the_right_one() {
    let mut bed = Bed::idle(&["a"]);
    bed.run();
    // The loop had its first turn; no timer has fired.
    tokio::task::yield_now().await;
    assert_eq!(bed.host.handle.status().state, SignInState::SignedIn);
}

#[tokio::test(start_paused = true)]
async fn a_loop_without_a_network_doesnt_spin() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(|_| true, Fault::error(ErrorKind::NotSent));
    bed.run();
    bed.secs(600).await;
    assert!(clock::turns() < 100, "{}", clock::turns());
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.fault(|_| true, Fault::error(ErrorKind::NotSent));
    bed.service.break_streams(ErrorKind::Broken);
    let before = clock::turns();
    bed.secs(600).await;
    assert!(clock::turns() - before < 250, "{}", clock::turns() - before);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_nobody_is_signed_in_to_doesnt_spin() {
    let mut bed = Bed::idle(&["a"]);
    bed.desk.forget();
    bed.run();
    bed.secs(600).await;
    assert!(clock::turns() <= 25, "{}", clock::turns());
    assert_eq!(bed.service.count(|_| true), 0);
}

#[tokio::test(start_paused = true)]
async fn a_loop_with_a_full_disk_and_waiting_bodies_doesnt_spin() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.shelf.full(true);
    bed.service.append("a", rows::blob("missing"));
    bed.service.says("a", "behind");
    let mut run = bed.host.post("a", "hello");
    let before = clock::turns();
    bed.secs(600).await;
    assert_eq!(run.outcome(), None);
    assert!(clock::turns() - before < 250, "{}", clock::turns() - before);
}

#[tokio::test(start_paused = true)]
async fn h6_a_stop_leaves_no_call_under_way_and_the_index_flushed() {
    let mut bed = Bed::start(&["a", "slow"]);
    bed.up().await;
    bed.service.says("a", "kept");
    bed.millis(1_000).await;
    bed.service.fault(Request::is_list, Fault::hangs());
    bed.service.fault(|r| *r == Request::Agents, Fault::hangs());
    bed.service.clear("slow", 2);
    bed.service.roster_changed();
    bed.secs(1).await;
    assert!(bed.service.calls_now() >= 2);
    let started = clock::millis();
    assert_eq!(bed.stop().await, Quit::Stopped);
    assert!(clock::millis() - started < 2_000);
    assert_eq!(bed.service.calls_now(), 0);
    assert_eq!(bed.service.open_streams(), 0);
    assert!(!bed.shelf.written().is_empty());
    assert_eq!(bed.host.handle.diagnose().await, Err(Gone));
    assert_eq!(bed.host.handle.shutdown().await, Err(Gone));
    assert_eq!(bed.host.texts("a"), ["kept"], "what was shown can still be read");
}

#[tokio::test(start_paused = true)]
async fn h6_a_commit_under_way_is_finished_at_shutdown_and_what_is_owed_is_written() {
    let mut bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.shelf.full(true);
    bed.service.says("a", "one");
    bed.service.says("b", "two");
    bed.secs(5).await;
    assert!(bed.shelf.written().is_empty());
    bed.shelf.full(false);
    bed.host.handle.shutdown().await.unwrap();
    assert_eq!(bed.ended().await, Quit::Stopped);
    assert_eq!(bed.shelf.written().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn h6_a_full_disk_at_shutdown_holds_nobody_up() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    bed.shelf.full(true);
    bed.service.says("a", "one");
    bed.secs(5).await;
    let started = clock::millis();
    assert_eq!(bed.stop().await, Quit::Stopped);
    assert!(clock::millis() - started < 100);
}

#[tokio::test(start_paused = true)]
async fn h6_a_disk_that_hangs_holds_up_the_stop_for_less_than_two_seconds() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    bed.shelf.hang(true);
    bed.service.says("a", "one");
    let step = std::time::Duration::from_millis(10);
    for _ in 0..200 {
        tokio::time::advance(step).await;
        tokio::task::yield_now().await;
    }
    let shelf = bed.shelf.clone();
    let started = clock::millis();
    let ticking = async {
        loop {
            tokio::time::advance(step).await;
            tokio::task::yield_now().await;
        }
    };
    let quit = tokio::select! {
        quit = bed.stop() => quit,
        () = ticking => unreachable!(),
    };
    assert_eq!(quit, Quit::Stopped);
    assert!(clock::millis() - started < 2_000, "{}", clock::millis() - started);
    shelf.hang(false);
}

#[tokio::test(start_paused = true)]
async fn a_loop_whose_handles_are_all_gone_ends() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    bed.abandon();
    assert_eq!(bed.ended().await, Quit::Abandoned);
    assert_eq!(bed.service.calls_now(), 0);
    assert_eq!(bed.service.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_loop_leaves_no_call_and_no_stream() {
    let mut bed = Bed::idle(&["a", "b"]);
    bed.service.fault(Request::is_list, Fault::hangs());
    bed.run();
    bed.secs(10).await;
    assert_eq!(bed.service.open_streams(), 1);
    bed.crash().await;
    assert_eq!(bed.service.calls_now(), 0);
    assert_eq!(bed.service.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "this fault's answer doesn't fit the call")]
async fn a_job_that_panics_ends_the_loop_and_is_not_hidden() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.fault(|r| *r == Request::Agents, Fault::answer(Answer::Delivery(Delivery::Accepted)));
    let _ = tokio::time::timeout(std::time::Duration::from_mins(1), bed.ended()).await;
}

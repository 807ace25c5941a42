//! D1 rows, D2 the quiet second, D3 order, D4 first exposure.

use super::super::{Echo, Input};
use super::bed::{Bed, delete, row};
use crate::model::{Cursor, Harness};

#[test]
fn d1_within_one_frame_changes_apply_in_ascending_number() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).at(3).says("third"), row(1).at(1).says("first"), row(1).at(2).says("second")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @3 bot: third"]);
}

#[test]
fn d1_a_delete_and_a_later_text_of_one_row_in_one_frame() {
    let mut bed = Bed::open([row(1).says("old")]);
    bed.stream([row(1).at(5).says("back"), delete(1).at(4)]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: old", "1:t1:edit:5 @5 bot: back"]);
}

#[test]
fn d1_what_is_not_newer_than_the_row_is_skipped() {
    let mut bed = Bed::open([row(1).at(5).says("five")]);
    bed.frame([row(1).at(4).says("four")]);
    bed.frame([row(1).at(5).says("another five")]);
    bed.frame([delete(1).at(5)]);
    bed.wait(2_000);
    bed.shows(["1:t1 @5 bot: five"]);
}

#[test]
fn d1_a_delete_may_come_before_its_entry() {
    let mut bed = Bed::open([]);
    bed.frame([delete(7).at(9)]);
    bed.frame([row(7).at(8).says("a ghost")]);
    bed.wait(2_000);
    bed.shows([]);
    bed.frame([row(7).at(10).says("alive")]);
    bed.wait(1_000);
    bed.shows(["1:t7 @10 bot: alive"]);
}

#[test]
fn d1_a_row_that_takes_another_entry_deletes_the_old_one() {
    let mut bed = Bed::open([row(1).of("a").says("old")]);
    bed.stream([row(1).of("b").at(2).says("new")]);
    bed.wait(1_000);
    bed.shows(["1:a @1 bot: old", "1:a:delete:2 @2 bot: (gone)", "1:b @2 bot: new"]);
}

#[test]
fn d1_unless_the_same_frame_brings_the_old_entry_in_another_row() {
    for ops in [
        [row(1).of("b").at(2).says("new"), row(4).of("a").at(3).says("old")],
        [row(4).of("a").at(2).says("old"), row(1).of("b").at(3).says("new")],
    ] {
        let mut bed = Bed::open([row(1).of("a").says("old")]);
        let number = if ops[0].seq() == 1 { 2 } else { 3 };
        bed.stream(ops);
        bed.wait(1_000);
        bed.shows(["1:a @1 bot: old", &format!("1:b @{number} bot: new")]);
    }
}

#[test]
fn d1_a_version_that_is_known_to_be_overwritten_brings_no_entry() {
    // The read saw row 1 already as it became after the old entry had passed through it.
    let mut bed = Bed::open([row(2).of("a").says("old"), row(1).of("d").at(6).says("newest")]);
    bed.stream([row(2).of("c").at(4).says("new"), row(1).of("a").at(5).says("old")]);
    bed.wait(70_000);
    let readable: Vec<String> = bed.readable().into_values().collect();
    assert_eq!(readable, ["new", "newest"]);
}

#[test]
fn d1_an_entry_in_two_rows_is_carried_on_by_the_higher_number() {
    let mut bed = Bed::open([row(1).of("a").says("one")]);
    bed.stream([row(5).of("a").at(6).says("two")]);
    bed.wait(1_000);
    // The older row is forgotten: its removal removes nothing, and neither does a later entry in it.
    bed.stream([delete(1).at(7)]);
    bed.wait(1_000);
    bed.stream([row(1).of("c").at(8).says("other")]);
    bed.wait(1_000);
    bed.shows(["1:a @1 bot: one", "1:a:edit:6 @6 bot: two", "1:c @8 bot: other"]);
    bed.stream([delete(5).at(9)]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[3], "1:a:delete:9 @9 bot: (gone)");
}

#[test]
fn d1_an_older_copy_of_an_entry_in_another_row_changes_nothing() {
    let mut bed = Bed::open([row(5).of("a").at(6).says("two")]);
    bed.frame([row(1).of("a").at(3).says("one")]);
    bed.wait(1_000);
    bed.frame([delete(1).at(7)]);
    bed.wait(1_000);
    bed.shows(["1:a @6 bot: two"]);
}

#[test]
fn d1_a_removal_that_names_the_entry_of_a_row_left_behind_keeps_the_entry() {
    let mut bed = Bed::open([row(1).of("a").says("one")]);
    bed.stream([row(5).of("a").at(6).says("one"), delete(1).of("a", 7)]);
    bed.wait(1_000);
    bed.shows(["1:a @1 bot: one"]);
}

#[test]
fn d1_a_colon_in_an_entry_id_is_escaped() {
    let mut bed =
        Bed::open([row(1).of("t1").says("x"), row(2).of("t1:edit:9").says("y"), row(3).of("t1:reply").says("z")]);
    bed.stream([row(1).of("t1").at(9).says("xx")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: x", "1:t1%3Aedit%3A9 @2 bot: y", "1:t1%3Areply @3 bot: z", "1:t1:edit:9 @9 bot: xx"]);
}

#[test]
fn d1_a_nameless_row_is_the_entry_of_its_place() {
    let mut bed = Bed::open([row(4).nameless().says("hello")]);
    bed.stream([row(4).nameless().at(6).says("hello there")]);
    bed.wait(1_000);
    bed.shows(["1:4 @4 bot: hello", "1:4:edit:6 @6 bot: hello there"]);
}

#[test]
fn d1_an_unfetched_version_without_an_id_is_of_the_entry_that_the_row_carries() {
    // The id is the body's and the envelope has none: before the body is known nothing says that the row took another entry.
    let mut bed = Bed::open([row(4).says("hello")]);
    bed.stream([row(4).nameless().at(6).unfetched()]);
    bed.wait(2_000);
    bed.shows(["1:t4 @4 bot: hello"]);
    bed.body(row(4).at(6).says("hello there"));
    bed.wait(1_000);
    bed.shows(["1:t4 @4 bot: hello", "1:t4:edit:6 @6 bot: hello there"]);
}

#[test]
fn d1_an_unfetched_version_without_an_id_that_is_lost_deletes_nothing() {
    let mut bed = Bed::open([row(4).says("hello")]);
    bed.stream([row(4).nameless().at(6).unfetched()]);
    bed.no_body(4);
    bed.wait(120_000);
    bed.shows(["1:t4 @4 bot: hello"]);
}

#[test]
fn d2_a_text_is_delivered_after_one_second_without_change() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).says("h")]);
    bed.wait(999);
    bed.shows([]);
    bed.wait(1);
    bed.shows(["1:t1 @1 bot: h"]);
}

#[test]
fn d2_a_change_of_the_text_starts_the_second_again() {
    let mut bed = Bed::open([]);
    for (number, text) in [(1, "h"), (2, "he"), (3, "hel"), (4, "hello")] {
        bed.stream([row(1).at(number).says(text)]);
        bed.wait(900);
    }
    bed.shows([]);
    bed.wait(100);
    bed.shows(["1:t1 @4 bot: hello"]);
}

#[test]
fn d2_a_higher_number_with_the_same_text_moves_the_number_alone() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).says("hello")]);
    bed.wait(900);
    bed.stream([row(1).at(5).says("hello")]);
    bed.wait(100);
    bed.shows(["1:t1 @5 bot: hello"]);
}

#[test]
fn d2_an_exposed_text_that_comes_again_with_a_higher_number_is_nothing_new() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([row(1).at(5).says("hello")]);
    bed.wait(2_000);
    bed.shows(["1:t1 @1 bot: hello"]);
    assert_eq!(bed.head(), Some(1));
}

#[test]
fn d2_a_row_of_a_read_changes_when_its_text_is_known() {
    let mut bed = Bed::beside([row(1).says("hello")]);
    bed.start();
    bed.wait(999);
    assert!(!bed.host.open);
    bed.wait(1);
    bed.shows(["1:t1 @1 bot: hello"]);
}

#[test]
fn d2_a_row_with_the_indexed_digest_is_stable_at_once() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.restart();
    bed.start();
    bed.shows(["1:t1 @1 bot: hello"]);
}

#[test]
fn d2_for_a_fetched_body_the_second_starts_when_it_is_known() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched()]);
    bed.wait(5_000);
    bed.body(row(1).says("hello"));
    bed.wait(999);
    bed.shows([]);
    bed.wait(1);
    bed.shows(["1:t1 @1 bot: hello"]);
}

#[test]
fn d2_a_text_that_returns_before_it_was_stable_delivers_nothing() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([row(1).at(2).says("oops")]);
    bed.wait(500);
    bed.stream([row(1).at(3).says("hello")]);
    bed.wait(5_000);
    bed.shows(["1:t1 @1 bot: hello"]);
    assert_eq!(bed.mirror.deadline(), None);
}

#[test]
fn d3_the_head_never_passes_an_unstable_earlier_entry() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).at(1).says("slow")]);
    bed.wait(500);
    bed.stream([row(2).at(2).says("quick")]);
    bed.wait(400);
    bed.stream([row(1).at(3).says("slow!")]);
    bed.wait(600);
    // Number 1 moved to 3, so 2 waits for nobody.
    bed.shows(["1:t2 @2 bot: quick"]);
    bed.wait(400);
    bed.shows(["1:t2 @2 bot: quick", "1:t1 @3 bot: slow!"]);
}

#[test]
fn d3_a_stable_entry_waits_for_an_earlier_pending_one() {
    let mut bed = Bed::open([]);
    bed.stream([row(2).at(2).says("first seen")]);
    bed.wait(600);
    bed.frame([row(1).at(1).says("seen later, numbered earlier")]);
    bed.wait(900);
    bed.shows([]);
    bed.wait(100);
    bed.shows(["1:t1 @1 bot: seen later, numbered earlier", "1:t2 @2 bot: first seen"]);
}

#[test]
fn d3_all_that_carries_one_number_is_exposed_in_one_step() {
    let mut bed = Bed::open([row(1).of("a").says("old")]);
    bed.stream([row(1).of("b").at(7).asks("Go?", Some("y"))]);
    bed.wait(999);
    bed.shows(["1:a @1 bot: old"]);
    bed.wait(1);
    bed.shows([
        "1:a @1 bot: old",
        "1:a:delete:7 @7 bot: (gone)",
        "1:b @7 bot: Go?\n- yes（y）\n- no",
        "1:b:reply @7 me: yes >b",
    ]);
}

#[test]
fn d3_inside_one_cursor_deletes_then_entries_then_answers_each_by_place() {
    let mut bed = Bed::open([row(1).says("a"), row(2).says("b")]);
    bed.stream([
        row(9).at(5).asks("nine", Some("no")),
        row(8).at(5).asks("eight", Some("no")),
        delete(2).at(5),
        delete(1).at(5),
    ]);
    bed.wait(1_000);
    let lines = bed.transcript();
    let ids: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ids, ["1:t1", "1:t2", "1:t1:delete:5", "1:t2:delete:5", "1:t8", "1:t9", "1:t8:reply", "1:t9:reply"]);
}

#[test]
fn d4_the_first_exposure_has_the_number_of_its_moment_and_no_edit() {
    // Streamed and finished before the start: place 3, number 40.
    let bed = Bed::open([row(3).at(40).says("finished")]);
    bed.shows(["1:t3 @40 bot: finished"]);
}

#[test]
fn d4_streaming_within_the_second_gives_one_message() {
    let mut bed = Bed::open([]);
    for number in 1..=50 {
        bed.stream([row(1).at(number).says(&"x".repeat(usize::try_from(number).unwrap()))]);
        bed.wait(100);
    }
    bed.wait(900);
    assert_eq!(bed.transcript().len(), 1);
    assert_eq!(bed.head(), Some(50));
}

#[test]
fn a4_a_replay_is_not_delivered_twice() {
    let rows = || [row(1).says("one"), row(2).says("two"), row(3).says("three")];
    let mut bed = Bed::open([]);
    bed.stream(rows());
    bed.frame(rows());
    bed.wait(1_000);
    bed.frame(rows());
    bed.wait(2_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two", "1:t3 @3 bot: three"]);
}

#[test]
fn a8_an_edit_long_after_is_one_revision_and_no_second_base() {
    let mut bed = Bed::open((1..=1_000).map(|seq| row(seq).says(&format!("message {seq}"))));
    bed.wait(3_600_000);
    bed.stream([row(3).at(1_900).says("corrected")]);
    bed.wait(1_000);
    let lines = bed.transcript();
    assert_eq!(lines.len(), 1_001);
    assert_eq!(lines[1_000], "1:t3:edit:1900 @1900 bot: corrected");
    assert_eq!(lines.iter().filter(|line| line.starts_with("1:t3 ")).count(), 1);
}

#[test]
fn a17_an_echo_is_known_by_its_nonce_whatever_it_says() {
    let mut bed = Bed::open([]);
    assert_eq!(bed.echo(7), Echo::None);
    bed.stream([row(1).nonce(7).told("hello\n\nworld")]);
    assert_eq!(bed.echo(7), Echo::Seen);
    bed.wait(1_000);
    let cursor = Cursor { generation: 1, number: 1 };
    assert_eq!(bed.echo(7), Echo::Exposed { id: "1:t1".into(), cursor });
    bed.shows(["1:t1 @1 me: hello\n\nworld"]);
}

#[test]
fn a17_an_echo_stays_readable_while_its_revision_is_committed() {
    let mut bed = Bed::open([row(1).nonce(7).told("hello")]);
    bed.slow_index = true;
    bed.stream([row(1).nonce(7).at(2).told("hello!")]);
    bed.wait(1_000);
    assert!(matches!(bed.echo(7), Echo::Exposed { .. }));
}

#[test]
fn a17_an_echo_that_was_deleted_before_it_was_readable_is_none() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).nonce(7).told("hello")]);
    bed.stream([delete(1).at(2)]);
    assert_eq!(bed.echo(7), Echo::None);
}

#[test]
fn a17_an_echo_that_moved_to_another_entry_is_still_found() {
    // The same send under two entries: the removal of the first says nothing of the second.
    let mut bed = Bed::open([row(1).of("a").nonce(7).told("hello")]);
    bed.stream([row(2).of("b").nonce(7).told("hello")]);
    bed.stream([delete(1).at(3)]);
    bed.wait(1_000);
    assert!(matches!(bed.echo(7), Echo::Exposed { id, .. } if id == "1:b"));
}

#[test]
fn a24_history_is_no_news_and_a_live_message_comes_once() {
    let mut bed = Bed::beside([row(1).told("q"), row(2).says("a"), row(3).told("thanks")]);
    bed.start();
    bed.replay();
    bed.wait(1_000);
    assert_eq!(bed.head(), Some(3));
    bed.stream([row(4).nonce(9).told("again")]);
    bed.frame([row(4).nonce(9).told("again")]);
    bed.wait(1_000);
    bed.frame([row(4).nonce(9).told("again")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 me: q", "1:t2 @2 bot: a", "1:t3 @3 me: thanks", "1:t4 @4 me: again"]);
}

#[test]
fn d3_an_exposure_waits_for_the_commit_and_the_next_one_for_it() {
    let mut bed = Bed::open([]);
    bed.slow_index = true;
    bed.stream([row(1).says("one")]);
    bed.wait(1_000);
    bed.stream([row(2).says("two")]);
    bed.wait(5_000);
    assert_eq!(bed.batches.len(), 1);
    bed.shows([]);
    bed.commit();
    bed.shows(["1:t1 @1 bot: one"]);
    bed.commit();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
    assert!(bed.batches.is_empty());
}

#[test]
fn d3_a_commit_that_was_never_ordered_shows_nothing() {
    let mut bed = Bed::open([]);
    bed.slow_index = true;
    bed.stream([row(1).says("one")]);
    bed.wait(1_000);
    bed.input(Input::Committed { batch: 9_999 });
    bed.shows([]);
    bed.commit();
    bed.shows(["1:t1 @1 bot: one"]);
}

#[test]
fn d3_a_changed_harness_counts_from_the_next_read() {
    let mut bed = Bed::open([row(1).mutters("thinking aloud"), row(2).says("answer")]);
    bed.harness = Harness::Box;
    bed.stream([row(3).mutters("still shown")]);
    bed.wait(1_000);
    bed.reconnect();
    // Its removal is numbered below the head: late.
    bed.wait(61_000);
    assert_eq!(bed.readable().into_values().collect::<Vec<_>>(), ["answer"]);
}

//! D10 generations, and what D7 and D8 say of a change of them.

use super::super::Input;
use super::bed::{Bed, row};

#[test]
fn d10_absence_is_the_current_generation() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.frame_of(None, [row(2).says("two")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
}

#[test]
fn d10_a_lower_generation_in_rows_is_dropped() {
    let mut bed = Bed::open([]);
    bed.forget(5);
    bed.start();
    bed.wait(1_000);
    bed.frame_of(Some(4), [row(1).says("stale")]);
    bed.wait(2_000);
    bed.shows([]);
    assert_eq!(bed.resets, 1);
}

#[test]
fn d10_a_higher_generation_in_rows_resets_and_reads_in_full() {
    let mut bed = Bed::open([row(1).says("old")]);
    bed.forget(2);
    bed.meanwhile([row(1).says("new one")]);
    bed.stream([row(2).says("new two")]);
    assert_eq!(bed.resets, 1);
    assert!(!bed.host.open);
    bed.wait(1_000);
    bed.shows(["2:t1 @1 bot: new one", "2:t2 @2 bot: new two"]);
}

#[test]
fn d10_cleared_adopts_its_generation_even_where_it_is_lower() {
    for generation in [1, 9] {
        let mut bed = Bed::idle();
        bed.forget(5);
        bed.meanwhile([row(1).says("old")]);
        bed.start();
        bed.wait(1_000);
        bed.forget(generation);
        bed.input(Input::Cleared { generation: Some(generation) });
        assert_eq!(bed.mirror.generation(), Some(generation));
        bed.wait(1_000);
        bed.shows([]);
        bed.stream([row(1).says("new")]);
        bed.wait(1_000);
        bed.shows([&format!("{generation}:t1 @1 bot: new")]);
    }
}

#[test]
fn d10_a_refused_cursor_adopts_the_generation_of_the_refusal() {
    let mut bed = Bed::open([row(1).says("old")]);
    bed.forget(7);
    bed.meanwhile([row(1).says("new")]);
    bed.input(Input::CursorTooOld { generation: Some(7) });
    bed.wait(1_000);
    bed.shows(["7:t1 @1 bot: new"]);
}

#[test]
fn d10_an_answer_has_a_generation_of_its_own_even_a_lower_one() {
    let mut bed = Bed::idle();
    bed.forget(5);
    bed.meanwhile([row(1).says("old")]);
    bed.start();
    bed.wait(1_000);
    bed.forget(4);
    bed.meanwhile([row(1).says("new")]);
    bed.reconnect();
    bed.wait(1_000);
    bed.shows(["4:t1 @1 bot: new"]);
}

#[test]
fn d10_an_answer_from_before_a_change_of_generation_is_thrown_away() {
    let mut bed = Bed::open([row(1).says("old")]);
    bed.slow_pages = true;
    bed.start();
    let query = bed.asked.pop_front().unwrap();
    bed.forget(2);
    bed.input(Input::Cleared { generation: Some(2) });
    bed.page_to(&query, Some(1), [row(1).says("old")], 0);
    bed.page(Some(2), []);
    bed.wait(1_000);
    bed.shows([]);
    assert_eq!((bed.mirror.generation(), bed.resets), (Some(2), 1));
}

#[test]
fn d10_an_answer_from_before_the_generation_was_learned_is_thrown_away() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start_live();
    bed.frame_of(Some(5), [row(2).says("live")]);
    bed.page(Some(4), [row(1).says("stale")]);
    // It starts again instead of going back and forth.
    bed.page(Some(5), [row(2).says("live")]);
    bed.page(Some(5), []);
    bed.wait(1_000);
    bed.shows(["5:t2 @2 bot: live"]);
    assert_eq!(bed.resets, 0);
}

#[test]
fn d10_a_read_whose_pages_disagree_starts_again_and_waits_after_three_starts() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start();
    for _ in 0..3 {
        assert_eq!(bed.stalls, 0);
        bed.page(Some(1), [row(5).says("five")]);
        bed.page(Some(2), [row(4).says("four")]);
    }
    assert_eq!(bed.stalls, 1);
    assert!(bed.asked.is_empty() && bed.mirror.reading());
    bed.start();
    bed.page(Some(2), [row(5).says("five")]);
    bed.page(Some(2), []);
    bed.wait(1_000);
    bed.shows(["2:t5 @5 bot: five"]);
}

#[test]
fn d10_rows_from_before_a_clear_are_not_of_the_new_generation() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start_live();
    bed.frame_of(None, [row(1).says("cleared away")]);
    bed.input(Input::Cleared { generation: Some(4) });
    let newest = bed.asked.pop_back().unwrap();
    bed.page_to(&newest, Some(4), [], 0);
    bed.wait(2_000);
    bed.shows([]);
    assert!(bed.host.open);
}

#[test]
fn d7_with_another_generation_all_messages_go() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.forget(2);
    bed.slow_pages = true;
    bed.input(Input::Cleared { generation: Some(2) });
    bed.shows([]);
    assert_eq!(bed.mirror.head(), None);
    assert!(!bed.mirror.ready());
}

#[test]
fn d8_a_change_of_generation_deletes_the_index_rows_in_the_same_commit() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.forget(2);
    bed.slow_index = true;
    bed.meanwhile([row(1).says("new")]);
    bed.input(Input::Cleared { generation: Some(2) });
    bed.wait(1_000);
    while !bed.batches.is_empty() {
        bed.commit();
    }
    assert_eq!(bed.index.marks.keys().map(|(generation, ..)| *generation).collect::<Vec<_>>(), [2]);
}

#[test]
fn d8_at_the_start_the_rows_of_other_generations_go_too() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.forget(2);
    bed.restart();
    bed.start();
    bed.wait(1_000);
    assert!(bed.index.marks.is_empty());
    bed.shows([]);
}

#[test]
fn d8_marks_of_the_current_generation_outlive_those_of_another() {
    let mut bed = Bed::open([row(1).says("one"), row(2).asks("Go?", Some("y"))]);
    let stray = bed.index.marks.values().next().unwrap().clone();
    bed.index.marks.insert((9, "stray".to_owned(), stray.part), stray);
    let before = bed.transcript();
    bed.restart_and_open();
    assert_eq!(bed.transcript(), before);
    assert!(bed.index.marks.keys().all(|(generation, ..)| *generation == 1));
    bed.restart_and_open();
    assert_eq!(bed.transcript(), before);
}

#[test]
fn d8_a_commit_under_way_when_the_generation_changes_shows_nothing() {
    let mut bed = Bed::open([]);
    bed.slow_index = true;
    bed.stream([row(1).says("one")]);
    bed.wait(1_000);
    bed.forget(2);
    bed.input(Input::Cleared { generation: Some(2) });
    bed.commit();
    bed.shows([]);
    while !bed.batches.is_empty() {
        bed.commit();
    }
    bed.wait(1_000);
    assert!(bed.index.marks.is_empty() && bed.host.open);
}

#[test]
fn a7_a_cursor_of_an_old_generation_skips_no_row() {
    let mut bed = Bed::open((1..=50).map(|seq| row(seq).says("old")));
    bed.forget(2);
    bed.meanwhile((1..=60).map(|seq| row(seq).says("new")));
    bed.restart();
    bed.start();
    let sent = bed.replay().unwrap();
    assert_eq!((sent.generation, sent.number), (2, 60));
    bed.wait(1_000);
    let lines = bed.transcript();
    assert_eq!(lines.len(), 60);
    assert!(lines.iter().all(|line| line.starts_with("2:") && line.ends_with("new")));
}

#[test]
fn a7_a_refused_old_cursor_is_sent_once() {
    let mut bed = Bed::open((1..=50).map(|seq| row(seq).says("old")));
    let sent = bed.replay().unwrap();
    bed.forget(2);
    bed.meanwhile((1..=60).map(|seq| row(seq).says("new")));
    bed.input(Input::CursorTooOld { generation: Some(2) });
    bed.wait(1_000);
    assert_eq!(bed.transcript().len(), 60);
    bed.input(Input::StreamLost);
    bed.start();
    assert_ne!(bed.mirror.resume(), Some(sent));
}

#[test]
fn d13_a_body_that_was_asked_for_before_a_reset_is_thrown_away() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched()]);
    bed.forget(2);
    bed.meanwhile([row(1).unfetched()]);
    bed.input(Input::Cleared { generation: Some(2) });
    bed.body(row(1).says("of the old life"));
    bed.wait(500);
    bed.body(row(1).says("of the new life"));
    bed.wait(1_000);
    bed.shows(["2:t1 @1 bot: of the new life"]);
}

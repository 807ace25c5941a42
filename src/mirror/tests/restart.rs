//! D8 the index, D9 restart.

use super::bed::{Bed, delete, row};
use crate::mirror::Echo;
use crate::model::Part;

#[test]
fn d8_the_index_holds_no_text_and_no_pending_entry() {
    let mut bed = Bed::open([row(1).says("exposed words")]);
    bed.stream([row(2).says("pending words")]);
    assert_eq!(bed.index.marks.len(), 1);
    assert!(!format!("{:?}", bed.index).contains("words"));
}

#[test]
fn d8_marks_hold_place_first_cursor_and_latest_changes() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.stream([row(1).at(4).asks("Go now?", Some("y"))]);
    bed.wait(1_000);
    bed.stream([delete(1).at(6)]);
    let main = &bed.index.marks[&(1, "t1".to_owned(), Part::Entry)];
    assert_eq!((main.seq, main.first, main.edit, main.delete, main.digest), (1, 1, Some(4), Some(6), None));
    let answer = &bed.index.marks[&(1, "t1".to_owned(), Part::Answer)];
    assert_eq!((answer.first, answer.edit, answer.delete), (1, None, Some(6)));
}

#[test]
fn d8_the_place_of_a_moved_entry_is_written_so_that_its_delete_is_understood() {
    let mut bed = Bed::open([row(1).of("a").says("text")]);
    bed.stream([row(5).of("a").at(6).says("text"), delete(1).at(7)]);
    bed.wait(1_000);
    bed.restart();
    bed.start();
    bed.wait(1_000);
    bed.stream([delete(5).at(9)]);
    bed.shows(["1:a @1 bot: text", "1:a:delete:9 @9 bot: (gone)"]);
}

#[test]
fn d8_pending_entries_are_ordinary_messages_after_a_restart() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(2).says("tw")]);
    bed.meanwhile([row(2).at(3).says("two")]);
    bed.restart_and_open();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @3 bot: two"]);
}

#[test]
fn d8_what_was_not_committed_was_never_exposed() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.slow_index = true;
    bed.stream([row(2).says("two")]);
    bed.wait(1_000);
    bed.slow_index = false;
    bed.restart_and_open();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
}

#[test]
fn d9_the_same_text_has_its_id_and_first_cursor() {
    let mut bed = Bed::open([row(1).says("one"), row(2).told("two")]);
    // A higher number with the same text moves nothing that was exposed.
    bed.meanwhile([row(1).at(8).says("one")]);
    bed.restart_and_open();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 me: two"]);
    assert_eq!(bed.head(), Some(2));
}

#[test]
fn d9_a_revision_is_delivered_as_that_revision_without_its_base() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(1).at(2).says("one!")]);
    bed.wait(1_000);
    bed.restart_and_open();
    bed.shows(["1:t1:edit:2 @2 bot: one!"]);
}

#[test]
fn d9_another_text_is_a_revision_once_stable() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.meanwhile([row(1).at(5).says("changed")]);
    bed.restart();
    bed.start();
    bed.wait(999);
    assert!(!bed.host.open);
    bed.wait(1);
    bed.shows(["1:t2 @2 bot: two", "1:t1:edit:5 @5 bot: changed"]);
}

#[test]
fn d9_delete_marks_are_shown_again() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y")), row(2).says("two")]);
    bed.stream([delete(1).at(3)]);
    bed.restart_and_open();
    bed.shows(["1:t2 @2 bot: two", "1:t1:delete:3 @3 bot: (gone)", "1:t1:reply:delete:3 @3 me: (gone)"]);
}

#[test]
fn d9_a_text_that_came_after_a_delete_is_shown_beside_the_mark() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([delete(1).at(3)]);
    bed.stream([row(1).at(4).says("again")]);
    bed.wait(1_000);
    bed.restart_and_open();
    bed.shows(["1:t1:delete:3 @3 bot: (gone)", "1:t1:edit:4 @4 bot: again"]);
}

#[test]
fn d9_a_text_that_comes_after_an_indexed_delete_is_a_change() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([delete(1).at(3)]);
    bed.meanwhile([row(1).at(4).says("one")]);
    bed.restart_and_open();
    bed.shows(["1:t1:delete:3 @3 bot: (gone)", "1:t1:edit:4 @4 bot: one"]);
}

#[test]
fn d9_a_delete_that_nobody_watched_is_told() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.service.places.remove(&1);
    bed.restart_and_open();
    bed.shows(["1:t2 @2 bot: two", "1:t1:delete:3 @3 bot: (gone)"]);
}

#[test]
fn d9_the_head_is_never_below_the_index() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(2).says("two")]);
    bed.wait(1_000);
    bed.stream([row(2).at(3).says("two!")]);
    bed.wait(1_000);
    // Its last change can't be read any more.
    bed.service.places.clear();
    bed.meanwhile([row(1).says("one"), row(2).at(3).unfetched()]);
    bed.restart();
    bed.start();
    bed.wait(10_000);
    assert_eq!(bed.head(), Some(3));
    bed.shows(["1:t1 @1 bot: one"]);
}

#[test]
fn d9_an_answer_is_restored_with_its_widget() {
    let mut bed = Bed::open([row(1).asks("Go?", None)]);
    bed.stream([row(1).at(2).asks("Go?", Some("no"))]);
    bed.wait(1_000);
    bed.restart_and_open();
    bed.shows(["1:t1 @1 bot: Go?\n- yes（y）\n- no", "1:t1:reply @2 me: no >t1"]);
}

#[test]
fn d9_a_reply_keeps_its_target() {
    let mut bed = Bed::beside([row(1).says("one"), row(2).replies_to("t1").told("yes")]);
    bed.service.page = 1;
    bed.start();
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 me: yes >t1"]);
    bed.restart_and_open();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 me: yes >t1"]);
}

#[test]
fn d9_after_a_restart_times_are_the_body_s_else_the_start_s() {
    let mut bed =
        Bed::open([row(1).written(5).says("one"), row(2).written(6).asks("Go?", Some("y")), row(3).says("x")]);
    bed.stream([delete(3).at(4)]);
    bed.stream([row(1).written(5).at(5).says("one!")]);
    bed.wait(60_000);
    let start = bed.now.wall.0;
    bed.restart_and_open();
    assert_eq!(bed.at_of("1:t1:edit:5"), 5);
    assert_eq!(bed.at_of("1:t2"), 6);
    assert_eq!(bed.at_of("1:t2:reply"), 6);
    assert_eq!(bed.at_of("1:t3:delete:4"), start);
}

#[test]
fn d9_a_second_restart_shows_the_same() {
    let mut bed = Bed::open([row(1).says("one"), row(2).asks("Go?", Some("y"))]);
    bed.stream([row(1).at(3).says("one!"), delete(2).at(4)]);
    bed.wait(1_000);
    bed.restart_and_open();
    let first = bed.transcript();
    bed.restart_and_open();
    assert_eq!(bed.transcript(), first);
}

#[test]
fn d9_a_change_below_the_indexed_head_is_late() {
    // Number 1 was lost before; the head has passed it long ago.
    let mut bed = Bed::open([row(1).unfetched(), row(2).says("two")].into_iter().take(0));
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.no_body(1);
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two"]);
    bed.service.places.clear();
    bed.meanwhile([row(1).says("one"), row(2).says("two")]);
    bed.restart();
    bed.start();
    bed.wait(2_000);
    bed.shows(["1:t2 @2 bot: two"]);
    bed.wait(60_000);
    bed.shows(["1:t2 @2 bot: two", "1:t1 @3 bot: one"]);
}

#[test]
fn d9_an_answer_that_was_restored_as_a_revision_is_named_as_that() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.stream([row(1).at(5).asks("Go?", Some("no"))]);
    bed.wait(1_000);
    bed.restart_and_open();
    assert_eq!(bed.answer("t1").unwrap(), "1:t1:reply:edit:5 @5");
}

#[test]
fn d9_an_echo_that_was_restored_as_a_revision_is_named_as_that() {
    let mut bed = Bed::open([row(1).nonce(7).told("hello")]);
    bed.stream([row(1).nonce(7).at(2).told("hello!")]);
    bed.wait(1_000);
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1 @1", "this process shows its base");
    bed.restart_and_open();
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1:edit:2 @2");
    bed.slow_index = true;
    bed.stream([row(1).nonce(7).at(3).told("hello?")]);
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1:edit:2 @2");
    bed.wait(1_000);
    assert_eq!(bed.echo(7), Echo::Seen);
    bed.commit();
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1:edit:3 @3");
}

#[test]
fn d9_an_echo_that_changed_while_nobody_watched_is_its_revision() {
    let mut bed = Bed::open([row(1).nonce(7).told("hello")]);
    bed.meanwhile([row(1).nonce(7).at(5).told("changed")]);
    bed.restart_and_open();
    bed.shows(["1:t1:edit:5 @5 me: changed"]);
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1:edit:5 @5");
}

#[test]
fn post2_an_echo_whose_base_was_restored_stays_that_whatever_becomes_of_it() {
    let mut bed = Bed::open([row(1).nonce(7).told("hello")]);
    bed.restart_and_open();
    bed.slow_index = true;
    bed.stream([row(1).nonce(7).at(2).told("hello!")]);
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1 @1");
    bed.wait(1_000);
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1 @1");
    bed.commit();
    assert_eq!(bed.echo_id(7).unwrap(), "1:t1 @1");
}

#[test]
fn d9_a_text_whose_row_lies_above_c_is_there_when_the_record_opens() {
    let mut bed = Bed::open([row(1).says("one"), row(2).asks("Go?", None), row(3).says("three")]);
    bed.stream([row(1).at(4).says("one!")]);
    bed.wait(1_000);
    bed.meanwhile([row(2).at(5).asks("Go?", Some("y"))]);
    // The newest page says that C is 3.
    bed.service.page = 1;
    bed.restart();
    bed.start();
    bed.shows(["1:t2 @2 bot: Go?\n- yes（y）\n- no", "1:t3 @3 bot: three", "1:t1:edit:4 @4 bot: one!"]);
    bed.replay();
    bed.wait(1_000);
    assert_eq!(bed.transcript()[3..], ["1:t2:reply @5 me: yes >t2"]);
    assert_eq!(bed.inserted, 0);
}

#[test]
fn d9_another_text_above_c_comes_with_the_stream() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.meanwhile([row(1).at(3).says("changed")]);
    bed.service.page = 1;
    bed.restart();
    bed.start();
    bed.shows(["1:t2 @2 bot: two"]);
    bed.replay();
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two", "1:t1:edit:3 @3 bot: changed"]);
}

//! D6 deletes, and those that only a read finds (D11, D12).

use super::super::{Echo, Input};
use super::bed::{Bed, START, delete, row};

#[test]
fn d6_a_deleted_pending_entry_is_dropped() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).says("oops")]);
    bed.wait(500);
    bed.stream([delete(1).at(2)]);
    bed.wait(5_000);
    bed.shows([]);
    assert_eq!(bed.head(), None);
}

#[test]
fn d6_a_deleted_exposed_entry_is_told() {
    let mut bed = Bed::open([row(1).told("oops")]);
    bed.stream([delete(1).at(2)]);
    bed.shows(["1:t1 @1 me: oops", "1:t1:delete:2 @2 me: (gone)"]);
    assert_eq!(bed.host.messages[1].text.len(), 0);
}

#[test]
fn d6_an_exposed_answer_goes_with_its_entry() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.stream([delete(1).of("t1", 2)]);
    assert_eq!(bed.transcript()[2..], ["1:t1:delete:2 @2 bot: (gone)", "1:t1:reply:delete:2 @2 me: (gone)"]);
}

#[test]
fn d6_an_answer_that_was_taken_back_is_deleted_alone() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.stream([row(1).at(2).asks("Go?", None)]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[2..], ["1:t1:reply:delete:2 @2 me: (gone)"]);
    bed.stream([row(1).at(3).asks("Go?", Some("y"))]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[3..], ["1:t1:reply:edit:3 @3 me: yes >t1"]);
}

#[test]
fn d6_an_answer_taken_back_before_it_was_exposed_is_nothing() {
    let mut bed = Bed::open([row(1).asks("Go?", None)]);
    bed.stream([row(1).at(2).asks("Go?", Some("y"))]);
    bed.wait(500);
    bed.stream([row(1).at(3).asks("Go?", None)]);
    bed.wait(5_000);
    assert_eq!(bed.transcript().len(), 1);
}

#[test]
fn d6_a_text_after_a_delete_is_a_change_whatever_it_says() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([delete(1).at(2)]);
    bed.stream([row(1).at(3).says("hello")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: hello", "1:t1:delete:2 @2 bot: (gone)", "1:t1:edit:3 @3 bot: hello"]);
    bed.stream([delete(1).at(4)]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[3..], ["1:t1:delete:4 @4 bot: (gone)"]);
}

#[test]
fn d6_an_entry_that_stops_being_a_message_counts_as_deleted() {
    let stops = [row(1).at(2).notices("notice", false), row(1).at(2).nothing(), row(1).at(2).says("  \n ")];
    for op in stops {
        let mut bed = Bed::open([row(1).says("hello")]);
        bed.stream([op]);
        bed.wait(1_000);
        bed.shows(["1:t1 @1 bot: hello", "1:t1:delete:2 @2 bot: (gone)"]);
    }
}

#[test]
fn d6_a_row_without_a_body_and_without_an_id_is_still_its_entry() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([row(1).nameless().at(2).nothing()]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: hello", "1:t1:delete:2 @2 bot: (gone)"]);
}

#[test]
fn d6_a_delete_is_from_the_author_of_the_base() {
    let mut bed = Bed::open([row(1).told("mine")]);
    bed.stream([row(1).at(2).says("not mine")]);
    bed.wait(1_000);
    bed.stream([delete(1).at(3)]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 me: mine", "1:t1:edit:2 @2 bot: not mine", "1:t1:delete:3 @3 me: (gone)"]);
}

#[test]
fn d6_a_deleted_echo_is_no_longer_seen() {
    let mut bed = Bed::open([row(1).nonce(3).told("hi")]);
    bed.stream([delete(1).at(2)]);
    assert_eq!(bed.echo(3), Echo::None);
}

#[test]
fn d6_a_delete_waits_for_what_is_pending_before_it() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([row(2).at(2).says("pending")]);
    bed.stream([delete(1).at(3)]);
    bed.shows(["1:t1 @1 bot: hello"]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: hello", "1:t2 @2 bot: pending", "1:t1:delete:3 @3 bot: (gone)"]);
}

#[test]
fn d6_a_streamed_delete_is_dated_by_when_we_saw_it() {
    let mut bed = Bed::open([row(1).says("hello"), row(2).says("world")]);
    bed.wait(9_000);
    bed.stream([delete(1).at(3)]);
    assert_eq!(bed.at_of("1:t1:delete:3"), START.wall.0 + 10_000);
}

#[test]
fn d6_a_delete_seen_while_the_record_is_not_open_yet_is_dated_by_when_we_saw_it() {
    let mut bed = Bed::open([row(1).says("hello"), row(2).says("world")]);
    bed.wait(9_000);
    bed.restart();
    bed.slow_pages = true;
    bed.start();
    bed.answer_page();
    bed.wait(3_000);
    bed.stream([delete(1).at(3)]);
    bed.answer_page();
    bed.wait(1_000);
    assert_eq!(bed.at_of("1:t1:delete:3"), START.wall.0 + 13_000);
}

#[test]
fn d12_a_delete_found_by_a_read_has_the_number_c_above_the_head() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.service.places.remove(&1);
    bed.meanwhile([row(9).at(9).says("nine")]);
    bed.input(Input::StreamLost);
    bed.start();
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two", "1:t1:delete:9 @9 bot: (gone)", "1:t9 @9 bot: nine"]);
}

#[test]
fn d12_a_delete_found_by_a_read_at_the_head_takes_the_next_number_at_once() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.service.places.remove(&1);
    bed.reconnect();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two", "1:t1:delete:3 @3 bot: (gone)"]);
    // What the service then numbers at or below the head is late, shares the next cursor, and is delivered for all that.
    bed.stream([row(3).at(3).says("three")]);
    bed.wait(2_000);
    assert_eq!(bed.transcript().len(), 3);
    bed.stream([row(4).at(4).says("four")]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[3..], ["1:t3 @4 bot: three", "1:t4 @4 bot: four"]);
}

#[test]
fn d12_several_deletes_found_by_one_read_share_a_number() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two"), row(3).says("three")]);
    bed.service.places.remove(&1);
    bed.service.places.remove(&2);
    bed.reconnect();
    assert_eq!(bed.transcript()[3..], ["1:t1:delete:4 @4 bot: (gone)", "1:t2:delete:4 @4 bot: (gone)"]);
}

#[test]
fn d11_a_torn_read_deletes_nothing() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.slow_pages = true;
    bed.start();
    let query = bed.asked.pop_front().unwrap();
    bed.page_to(&query, Some(1), [row(2).says("two")], 1);
    bed.page(Some(1), []);
    bed.wait(5_000);
    assert_eq!(bed.reads_done, 2);
    assert_eq!(bed.transcript().len(), 2);
}

#[test]
fn d11_an_incomplete_read_deletes_nothing() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.slow_pages = true;
    bed.start();
    bed.page(Some(1), [row(2).says("two")]);
    bed.wait(5_000);
    bed.start();
    assert_eq!(bed.transcript().len(), 2);
}

#[test]
fn d11_a_read_deletes_no_entry_whose_number_is_above_c() {
    let mut bed = Bed::open([row(1).at(1).says("one"), row(5).at(5).says("five")]);
    bed.stream([row(1).at(9).says("edited")]);
    bed.wait(1_000);
    bed.slow_pages = true;
    bed.start();
    // An answer from before that edit, by a server that lags.
    bed.page(Some(1), [row(5).at(5).says("five")]);
    bed.page(Some(1), []);
    bed.wait(2_000);
    bed.shows(["1:t1 @1 bot: one", "1:t5 @5 bot: five", "1:t1:edit:9 @9 bot: edited"]);
}

#[test]
fn d11_a_read_deletes_nothing_that_the_stream_touched_since_it_began() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.slow_pages = true;
    bed.start_live();
    bed.page(Some(1), [row(2).says("two")]);
    bed.frame([row(1).at(3).says("one!")]);
    bed.page(Some(1), []);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two", "1:t1:edit:3 @3 bot: one!"]);
}

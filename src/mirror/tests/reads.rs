//! D7 full reads, D11 read and stream.

use super::super::Input;
use super::bed::{Bed, delete, row};
use crate::model::Cursor;

#[test]
fn d7_a_read_of_the_same_generation_keeps_what_was_delivered() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.slow_pages = true;
    bed.start();
    assert!(bed.mirror.ready());
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
    bed.answer_page();
    bed.answer_page();
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
    assert_eq!((bed.resets, bed.reads_done), (0, 2));
}

#[test]
fn a5_a_read_with_one_edit_gives_one_revision() {
    let mut bed = Bed::beside((1..=500).map(|seq| row(seq).says(&format!("message {seq}"))));
    bed.service.page = 100;
    bed.start();
    bed.wait(1_000);
    bed.meanwhile([row(3).at(501).says("edited")]);
    bed.reconnect();
    bed.wait(1_000);
    let lines = bed.transcript();
    assert_eq!(lines.len(), 501);
    assert_eq!(lines[500], "1:t3:edit:501 @501 bot: edited");
}

#[test]
fn a2_rows_above_two_to_the_53_stay_distinct() {
    const FIRST: u64 = 9_007_199_254_740_994;
    let mut bed = Bed::beside((0..1_203).map(|at| row(FIRST + at).says(&format!("message {at}"))));
    bed.service.page = 37;
    bed.start();
    bed.wait(1_000);
    // 33 pages of rows (the last one is short) and the empty one that proves the end: no page size is trusted.
    assert_eq!(bed.listed, 34);
    let lines = bed.transcript();
    assert_eq!(lines.len(), 1_203);
    assert_eq!(lines[0], "1:t9007199254740994 @9007199254740994 bot: message 0");
    assert_eq!(lines[1_202], "1:t9007199254742196 @9007199254742196 bot: message 1202");
}

#[test]
fn a2_rows_up_to_the_highest_number_there_is() {
    let mut bed = Bed::beside((0..=3).map(|at| row(u64::MAX - at).says("x")));
    bed.service.page = 2;
    bed.start();
    bed.wait(1_000);
    assert_eq!(bed.transcript()[3], "1:t18446744073709551615 @18446744073709551615 bot: x");
    assert_eq!(bed.replay(), Some(Cursor { generation: 1, number: u64::MAX }));
    bed.stream([row(1).at(u64::MAX).says("no number is left")]);
    bed.wait(100_000);
    assert_eq!(bed.transcript().len(), 4);
    assert_eq!(bed.mirror.deadline(), None);
}

#[test]
fn a3_a_server_that_ignores_the_bound_ends_the_read() {
    let mut bed = Bed::beside((1..=50).map(|seq| row(seq).says("x")));
    bed.service.ignores_before = true;
    bed.start();
    bed.wait(1_000);
    assert!(bed.listed <= 3);
    assert_eq!((bed.reads_done, bed.transcript().len()), (1, 50));
}

#[test]
fn a3_a_page_in_any_order_is_read() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start();
    bed.page(Some(1), [row(1).says("one"), row(3).says("three"), row(2).says("two")]);
    assert_eq!(bed.asked[0].before, Some(1));
    bed.page(Some(1), []);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two", "1:t3 @3 bot: three"]);
}

#[test]
fn a3_a_short_page_is_no_end() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start();
    for seq in [3, 2, 1] {
        bed.page(Some(1), [row(seq).says("x")]);
    }
    bed.page(Some(1), []);
    bed.wait(1_000);
    assert_eq!(bed.transcript().len(), 3);
}

#[test]
fn d11_a_later_page_goes_on_with_the_generation_of_the_first() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start();
    assert_eq!(bed.asked[0].generation, None);
    bed.page(Some(4), [row(3).says("x")]);
    assert_eq!(bed.asked[0].generation, Some(4));
}

#[test]
fn a9_an_older_answer_overwrites_nothing_newer() {
    let mut bed = Bed::open([row(7).at(5).says("five")]);
    bed.slow_pages = true;
    bed.start();
    bed.stream([row(7).at(8).says("eight")]);
    bed.wait(2_000);
    bed.page(Some(1), [row(7).at(5).says("five")]);
    bed.page(Some(1), []);
    bed.wait(2_000);
    bed.shows(["1:t7 @5 bot: five", "1:t7:edit:8 @8 bot: eight"]);
}

#[test]
fn d11_the_cursor_is_the_highest_number_of_the_stream_first() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(2).says("two"), row(3).notices("notice", false)]);
    bed.wait(1_000);
    bed.meanwhile([row(9).says("nine")]);
    bed.input(Input::StreamLost);
    bed.start();
    assert_eq!(bed.mirror.resume(), Some(Cursor { generation: 1, number: 3 }));
}

#[test]
fn d11_else_the_highest_of_the_index() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.meanwhile([row(9).says("nine")]);
    bed.restart();
    bed.start();
    assert_eq!(bed.mirror.resume(), Some(Cursor { generation: 1, number: 2 }));
}

#[test]
fn d11_else_c() {
    let mut bed = Bed::beside([row(1).at(9).says("edited"), row(2).says("two")]);
    bed.start();
    assert_eq!(bed.mirror.resume(), Some(Cursor { generation: 1, number: 9 }));
}

#[test]
fn d11_never_above_c() {
    // The newest page is rows 5 and 4; an older row was edited past them. The stream brings that again.
    let mut bed = Bed::beside([row(5).says("five"), row(4).says("four"), row(1).at(9).says("edited")]);
    bed.service.page = 2;
    bed.start();
    bed.replay();
    bed.wait(1_000);
    assert_eq!(bed.head(), Some(9));
    bed.restart();
    bed.start();
    assert_eq!(bed.mirror.resume(), Some(Cursor { generation: 1, number: 5 }));
}

#[test]
fn d11_there_is_no_cursor_before_the_first_page() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.slow_pages = true;
    bed.start();
    assert_eq!(bed.mirror.resume(), None);
    assert!(!bed.mirror.first_page_in());
    bed.answer_page();
    assert!(bed.mirror.first_page_in());
    assert!(bed.mirror.resume().is_some());
}

#[test]
fn d11_rows_above_c_come_with_the_stream() {
    let mut bed = Bed::beside([row(1).says("one"), row(2).says("two")]);
    bed.service.page = 1;
    bed.slow_pages = true;
    bed.start();
    bed.answer_page();
    // While the second page is fetched the first row gets a number above C.
    bed.meanwhile([row(1).at(3).says("one!")]);
    bed.answer_page();
    bed.answer_page();
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two"]);
    bed.replay();
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two", "1:t1 @3 bot: one!"]);
}

#[test]
fn d11_a_delete_during_the_read_comes_with_its_number() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.service.page = 1;
    bed.slow_pages = true;
    bed.input(Input::StreamLost);
    bed.start();
    bed.answer_page();
    bed.meanwhile([delete(1).at(7)]);
    bed.replay();
    bed.answer_page();
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two", "1:t1:delete:7 @7 bot: (gone)"]);
}

#[test]
fn d11_after_a_refused_cursor_the_new_c_takes_its_place() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    let old = bed.replay().unwrap();
    assert_eq!(old.number, 2);
    bed.meanwhile([row(8).says("eight")]);
    bed.input(Input::CursorTooOld { generation: Some(1) });
    assert_eq!(bed.resets, 0);
    bed.wait(1_000);
    assert_eq!(bed.head(), Some(8));
    bed.input(Input::StreamLost);
    bed.start();
    assert_eq!(bed.mirror.resume(), Some(Cursor { generation: 1, number: 8 }));
}

#[test]
fn d11_a_refused_cursor_is_never_sent_again() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    let old = bed.replay();
    assert!(old.is_some());
    // Twice: a second frame of the same refusal must not make us forget which cursor it was.
    bed.input(Input::CursorTooOld { generation: Some(1) });
    bed.input(Input::CursorTooOld { generation: Some(1) });
    bed.wait(1_000);
    for _ in 0..3 {
        bed.input(Input::StreamLost);
        bed.start();
        assert_ne!(bed.mirror.resume(), old);
        bed.start_live();
    }
}

#[test]
fn d11_a_live_read_counts_all_rows_and_shows_nothing_while_it_runs() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.meanwhile([row(3).says("three"), row(1).at(9).says("one!")]);
    bed.service.page = 1;
    bed.slow_pages = true;
    bed.input(Input::CursorTooOld { generation: Some(1) });
    bed.stream([row(4).at(10).says("four")]);
    bed.answer_page();
    bed.wait(5_000);
    assert_eq!(bed.head(), Some(2));
    while !bed.asked.is_empty() {
        bed.answer_page();
    }
    bed.wait(1_000);
    assert_eq!(bed.transcript()[2..], ["1:t3 @3 bot: three", "1:t1:edit:9 @9 bot: one!", "1:t4 @10 bot: four"]);
}

#[test]
fn d11_a_live_read_takes_nothing_that_the_stream_brought_newer() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start_live();
    bed.frame([row(1).at(5).says("five")]);
    bed.page(Some(1), [row(1).at(3).says("three")]);
    bed.page(Some(1), []);
    bed.wait(1_000);
    bed.shows(["1:t1 @5 bot: five"]);
}

#[test]
fn d11_an_entry_that_moved_unseen_outlives_the_removal_of_its_old_row() {
    let mut bed = Bed::open([row(6).of("a").says("text")]);
    bed.slow_pages = true;
    // Unseen: `a` moved to row 1 and another entry took row 6, to be deleted again. The stream brings the removal, the read the rest.
    bed.start_live();
    bed.frame([delete(6).at(9)]);
    bed.page(Some(1), [row(1).of("a").at(7).says("text")]);
    bed.page(Some(1), []);
    bed.wait(2_000);
    bed.shows(["1:a @6 bot: text"]);
}

#[test]
fn d11_an_ordinary_read_holds_back_until_the_stream_has_passed_c() {
    // A change that is numbered below C and stands on a page that isn't in yet must not come after the head.
    let mut bed = Bed::open((1..=4).map(|seq| row(seq).says("x")));
    bed.meanwhile([row(1).at(5).says("edited"), row(6).says("six")]);
    bed.service.page = 2;
    bed.slow_pages = true;
    bed.input(Input::StreamLost);
    bed.start();
    bed.answer_page();
    bed.wait(3_000);
    assert_eq!(bed.head(), Some(4));
    // The replay brings it: nobody waits for the other pages any longer.
    bed.replay();
    bed.wait(1_000);
    assert_eq!(bed.transcript()[4..], ["1:t1:edit:5 @5 bot: edited", "1:t6 @6 bot: six"]);
}

#[test]
fn d11_a_gap_before_the_cursor_holds_until_the_read_is_complete() {
    // After a refused cursor the stream goes on from C alone; when it breaks before the read was complete, the replay closes no gap.
    let mut bed = Bed::open((1..=4).map(|seq| row(seq).says("x")));
    bed.replay();
    bed.meanwhile([row(1).at(5).says("edited"), row(6).says("six")]);
    bed.service.page = 2;
    bed.slow_pages = true;
    bed.input(Input::CursorTooOld { generation: Some(1) });
    bed.asked.clear();
    bed.stream([row(7).says("seven")]);
    bed.input(Input::StreamLost);
    bed.start();
    bed.answer_page();
    bed.replay();
    bed.stream([row(8).says("eight")]);
    bed.wait(2_000);
    assert_eq!(bed.head(), Some(4));
    while !bed.asked.is_empty() {
        bed.answer_page();
    }
    bed.wait(1_000);
    assert_eq!(
        bed.transcript()[4..],
        ["1:t1:edit:5 @5 bot: edited", "1:t6 @6 bot: six", "1:t7 @7 bot: seven", "1:t8 @8 bot: eight"]
    );
}

#[test]
fn d11_rows_without_a_generation_wait_for_the_first_page() {
    let mut bed = Bed::idle();
    bed.service.mute = true;
    bed.slow_pages = true;
    bed.start_live();
    bed.frame([row(2).says("live")]);
    bed.wait(2_000);
    bed.page(Some(3), [row(1).says("listed")]);
    bed.page(Some(3), []);
    bed.wait(1_000);
    bed.shows(["3:t1 @1 bot: listed", "3:t2 @2 bot: live"]);
}

#[test]
fn a_page_of_a_superseded_read_is_thrown_away() {
    let mut bed = Bed::idle();
    bed.slow_pages = true;
    bed.start();
    let old = bed.asked.pop_front().unwrap();
    bed.start();
    bed.page_to(&old, Some(9), [row(1).says("old")], 0);
    bed.page(Some(1), [row(1).says("new")]);
    bed.page(Some(1), []);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: new"]);
}

#[test]
fn h14_a_record_opens_when_all_up_to_c_is_exposed() {
    let mut bed = Bed::beside([row(1).says("one")]);
    bed.start();
    // The stream goes on meanwhile: what is above C holds nobody up.
    for number in 2..=20 {
        bed.stream([row(2).at(number).says(&format!("growing {number}"))]);
        bed.wait(100);
    }
    assert!(bed.host.open);
    bed.shows(["1:t1 @1 bot: one"]);
}

#[test]
fn h14_a_number_that_was_replaced_by_a_higher_one_holds_nobody_up() {
    let mut bed = Bed::beside([row(1).says("one")]);
    bed.start();
    bed.stream([row(1).at(2).says("one!")]);
    bed.shows([]);
    assert!(bed.host.open);
    bed.wait(1_000);
    bed.shows(["1:t1 @2 bot: one!"]);
}

#[test]
fn h14_an_empty_record_opens_with_no_head() {
    let bed = Bed::open([]);
    assert_eq!((bed.head(), bed.mirror.head()), (None, None));
}

#[test]
fn h14_a_record_is_not_ready_before_the_index_has_it_all() {
    let mut bed = Bed::beside([row(1).says("one")]);
    bed.slow_index = true;
    bed.start();
    bed.wait(5_000);
    assert!(!bed.mirror.ready());
    bed.commit();
    assert!(bed.mirror.ready());
    bed.shows(["1:t1 @1 bot: one"]);
}

//! D12 late, D13 bodies, D14 malformed.

use super::super::{BODY_WAIT, BODY_WAIT_OPENING, LATE_WAIT};
use super::bed::{Bed, Op, delete, row};
use crate::model::{BodyRef, RowBody};

fn millis(wait: std::time::Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap()
}

#[test]
fn d13_a_row_that_can_be_no_message_is_never_fetched_and_blocks_nobody() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).nothing(), row(2).says("two")]);
    bed.wait(1_000);
    assert!(bed.fetches.is_empty());
    bed.shows(["1:t2 @2 bot: two"]);
}

#[test]
fn d13_a_row_is_pending_while_its_body_is_fetched() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.wait(30_000);
    bed.shows([]);
    bed.body(row(1).says("one"));
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
}

#[test]
fn d13_a_body_counts_with_the_number_that_came_with_it() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).omitted(), row(2).says("two")]);
    bed.body(row(1).at(5).says("one, edited"));
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two", "1:t1 @5 bot: one, edited"]);
    bed.frame([row(1).at(5).says("one, edited")]);
    bed.wait(1_000);
    assert_eq!(bed.transcript().len(), 2);
}

#[test]
fn d13_a_body_that_is_offloaded_after_all_is_fetched_from_there() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).omitted()]);
    bed.body(row(1).unfetched());
    assert!(matches!(bed.fetches[0].at, BodyRef::Blob(_)));
    bed.body(row(1).says("one"));
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one"]);
    assert!(bed.lost.is_empty());
}

#[test]
fn d13_the_same_answer_without_a_body_is_no_body() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).omitted(), row(2).says("two")]);
    bed.body(row(1).omitted());
    bed.wait(1_000);
    assert_eq!(bed.lost, [1]);
    bed.shows(["1:t2 @2 bot: two"]);
}

#[test]
fn d13_a_row_that_took_another_entry_while_it_was_listed_again() {
    let mut bed = Bed::open([row(1).of("a").says("old")]);
    bed.stream([row(1).of("a").at(2).omitted()]);
    bed.body(row(1).of("b").at(3).unfetched());
    bed.body(row(1).of("b").at(3).says("new"));
    bed.wait(1_000);
    bed.shows(["1:a @1 bot: old", "1:a:delete:3 @3 bot: (gone)", "1:b @3 bot: new"]);
}

#[test]
fn d13_a_row_listed_again_during_a_read_is_not_deleted_by_that_read() {
    let mut bed = Bed::open([]);
    bed.stream([row(4).of("a").omitted()]);
    bed.slow_pages = true;
    bed.start_live();
    // The pages are from before the row took another entry; the row listed again is from after.
    bed.page(Some(1), [row(9).at(2).nothing()]);
    bed.body(row(4).of("b").at(5).says("new"));
    bed.page(Some(1), []);
    bed.frame([row(4).of("b").at(5).says("new")]);
    bed.wait(2_000);
    bed.shows(["1:b @5 bot: new"]);
}

#[test]
fn d13_it_waits_a_minute_from_its_first_version_without_a_body() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(9).says("nine")]);
    bed.wait(40_000);
    bed.stream([row(1).at(2).unfetched()]);
    bed.wait(millis(BODY_WAIT) - 40_001);
    assert_eq!((bed.lost.len(), bed.head()), (0, None));
    bed.wait(1);
    assert_eq!((bed.lost.len(), bed.head()), (1, Some(9)));
    assert_eq!(bed.mirror.counts().lost, 1);
    // A newer version of what was lost holds nobody up again.
    bed.stream([row(1).at(20).unfetched(), row(21).says("later")]);
    bed.wait(1_000);
    assert_eq!(bed.head(), Some(21));
}

#[test]
fn d13_during_the_first_read_it_waits_ten_seconds() {
    let mut bed = Bed::beside([row(1).unfetched(), row(2).says("two")]);
    bed.start();
    bed.wait(millis(BODY_WAIT_OPENING) - 1);
    assert!(!bed.host.open);
    bed.wait(1);
    bed.shows(["1:t2 @2 bot: two"]);
    assert_eq!(bed.lost, [1]);
}

#[test]
fn d13_all_tries_failed_is_lost_at_once() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.wait(2_000);
    bed.no_body(1);
    bed.shows(["1:t2 @2 bot: two"]);
    assert_eq!((bed.lost.as_slice(), bed.mirror.counts().lost), ([1].as_slice(), 1));
}

#[test]
fn d13_a_failure_of_an_older_version_loses_nothing() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched()]);
    bed.stream([row(1).at(2).unfetched()]);
    bed.no_body(1);
    assert!(bed.lost.is_empty());
    bed.body(row(1).at(2).says("two"));
    bed.wait(1_000);
    bed.shows(["1:t1 @2 bot: two"]);
}

#[test]
fn d13_an_edit_without_a_body_leaves_the_text_that_was_exposed() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(1).at(2).unfetched(), row(3).says("three")]);
    bed.no_body(1);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: one", "1:t3 @3 bot: three"]);
}

#[test]
fn d13_a_delete_ends_the_wait_for_a_body() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.stream([delete(1).at(3)]);
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two"]);
    bed.body(row(1).says("too late"));
    bed.wait(120_000);
    bed.shows(["1:t2 @2 bot: two"]);
    assert!(bed.lost.is_empty());
}

#[test]
fn d13_after_a_restart_the_record_waits_for_its_bodies_too() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.service.places.clear();
    bed.meanwhile([row(1).unfetched(), row(2).says("two")]);
    bed.restart();
    bed.start();
    bed.wait(5_000);
    assert!(!bed.host.open);
    bed.body(row(1).says("one"));
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
    assert_eq!(bed.inserted, 0);
}

#[test]
fn d13_a_lost_body_of_an_indexed_text_comes_back_under_its_old_cursor() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.service.places.clear();
    bed.meanwhile([row(1).unfetched(), row(2).says("two")]);
    bed.restart();
    bed.start();
    bed.wait(10_000);
    bed.shows(["1:t2 @2 bot: two"]);
    bed.body(row(1).says("one"));
    bed.shows(["1:t1 @1 bot: one", "1:t2 @2 bot: two"]);
    assert_eq!((bed.inserted, bed.head()), (1, Some(2)));
}

#[test]
fn d13_a_lost_body_is_asked_for_again_with_the_next_read() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.no_body(1);
    bed.wait(1_000);
    bed.reconnect();
    bed.body(row(1).says("one"));
    bed.stream([row(3).says("three")]);
    bed.wait(1_000);
    assert_eq!(bed.readable().len(), 3);
}

#[test]
fn d12_a_late_body_shares_the_cursor_of_the_next_exposure() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.wait(millis(BODY_WAIT));
    assert_eq!(bed.head(), Some(2));
    bed.body(row(1).says("one"));
    bed.wait(30_000);
    assert_eq!(bed.head(), Some(2));
    bed.stream([row(7).says("seven")]);
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two", "1:t1 @7 bot: one", "1:t7 @7 bot: seven"]);
}

#[test]
fn d12_a_late_body_takes_the_next_number_after_a_minute() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.no_body(1);
    bed.wait(1_000);
    let query = row(1).says("one");
    // The fetch that failed is followed by one of the next read.
    bed.reconnect();
    bed.body(query);
    bed.wait(1_000 + millis(LATE_WAIT) - 1);
    assert_eq!(bed.head(), Some(2));
    bed.wait(1);
    bed.shows(["1:t2 @2 bot: two", "1:t1 @3 bot: one"]);
}

#[test]
fn d12_a_late_text_must_be_stable_before_it_shares_a_cursor() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.wait(millis(BODY_WAIT));
    bed.stream([row(7).says("seven")]);
    bed.wait(500);
    bed.body(row(1).says("one"));
    bed.wait(500);
    bed.shows(["1:t2 @2 bot: two", "1:t7 @7 bot: seven"]);
    bed.wait(500 + millis(LATE_WAIT));
    bed.shows(["1:t2 @2 bot: two", "1:t7 @7 bot: seven", "1:t1 @8 bot: one"]);
}

#[test]
fn d12_a_late_revision_has_the_shared_number_in_its_id() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(1).at(2).unfetched(), row(3).says("three")]);
    bed.wait(millis(BODY_WAIT));
    bed.body(row(1).at(2).says("one!"));
    bed.wait(2_000);
    bed.stream([delete(3).at(9)]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[2..], ["1:t3:delete:9 @9 bot: (gone)", "1:t1:edit:9 @9 bot: one!"]);
}

#[test]
fn d12_what_comes_at_or_below_a_made_up_head_is_late_too() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.wait(millis(BODY_WAIT));
    bed.body(row(1).says("one"));
    bed.wait(1_000 + millis(LATE_WAIT));
    assert_eq!(bed.head(), Some(3));
    bed.stream([row(3).says("the real three")]);
    bed.wait(2_000);
    assert_eq!(bed.head(), Some(3));
    bed.wait(millis(LATE_WAIT));
    assert_eq!(bed.transcript()[2], "1:t3 @4 bot: the real three");
}

#[test]
fn d12_a_late_text_with_a_pending_neighbour_waits_for_that_one() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.wait(millis(BODY_WAIT));
    bed.body(row(1).says("one"));
    bed.wait(30_000);
    bed.stream([row(3).unfetched()]);
    bed.wait(50_000);
    assert_eq!(bed.head(), Some(2));
    bed.body(row(3).says("three"));
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two", "1:t1 @3 bot: one", "1:t3 @3 bot: three"]);
}

#[test]
fn d14_a_malformed_body_is_skipped_and_counted() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).malformed(), row(2).says("two")]);
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two"]);
    assert_eq!((bed.skipped.len(), bed.mirror.counts().skipped), (1, 1));
    assert_eq!(&*bed.skipped[0].kind, "send-message");
}

#[test]
fn d14_a_malformed_version_changes_nothing_that_was_exposed() {
    let mut bed = Bed::open([row(1).says("one")]);
    bed.stream([row(1).at(2).malformed()]);
    bed.wait(2_000);
    bed.shows(["1:t1 @1 bot: one"]);
    bed.stream([row(1).at(3).says("fine again")]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[1], "1:t1:edit:3 @3 bot: fine again");
}

#[test]
fn d14_a_malformed_row_of_a_read_is_there_and_deletes_nothing() {
    let mut bed = Bed::open([row(1).says("one"), row(2).says("two")]);
    bed.meanwhile([row(1).at(3).malformed()]);
    bed.reconnect();
    bed.wait(2_000);
    assert_eq!(bed.transcript().len(), 2);
    bed.restart_and_open();
    bed.shows(["1:t2 @2 bot: two"]);
}

#[test]
fn d14_a_fetched_body_that_is_malformed_holds_nobody_up() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).unfetched(), row(2).says("two")]);
    bed.body(row(1).malformed());
    bed.wait(1_000);
    bed.shows(["1:t2 @2 bot: two"]);
    assert_eq!((bed.skipped.len(), bed.lost.len()), (1, 1));
}

#[test]
fn d14_an_unknown_kind_is_skipped_and_counted() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).notices("hologram", true), row(2).notices("notice", false)]);
    bed.wait(1_000);
    bed.shows([]);
    assert_eq!(bed.skipped.len(), 1);
    assert_eq!((&*bed.skipped[0].kind, bed.mirror.counts().skipped), ("hologram", 1));
}

#[test]
fn d13_many_bodies_are_waited_for_without_a_scan_each() {
    // Quadratic work would take minutes here.
    let rows = (1..=20_000).map(|seq| row(seq).unfetched());
    let mut bed = Bed::beside(rows);
    bed.start();
    let queries = std::mem::take(&mut bed.fetches);
    assert_eq!(queries.len(), 20_000);
    for query in queries {
        let Op::Row(body) = row(query.seq).says("x") else { unreachable!() };
        assert!(matches!(body.body, RowBody::Entry(_)));
        bed.input(super::super::Input::Body { query, row: Some(body) });
    }
    bed.wait(1_000);
    assert_eq!(bed.mirror.head().map(|head| head.number), Some(20_000));
}

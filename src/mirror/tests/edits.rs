//! D5 revisions, and the answers of widgets.

use super::bed::{Bed, START, row};

#[test]
fn d5_a_changed_text_is_a_revision_of_the_whole_text() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([row(1).at(2).says("hello there")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: hello", "1:t1:edit:2 @2 bot: hello there"]);
}

#[test]
fn d5_a_revision_is_delivered_when_it_is_stable() {
    let mut bed = Bed::open([row(1).says("hello")]);
    bed.stream([row(1).at(2).says("hello t")]);
    bed.wait(700);
    bed.stream([row(1).at(3).says("hello there")]);
    bed.wait(999);
    assert_eq!(bed.head(), Some(1));
    bed.wait(1);
    bed.shows(["1:t1 @1 bot: hello", "1:t1:edit:3 @3 bot: hello there"]);
}

#[test]
fn d5_a_pause_of_over_a_second_gives_a_message_and_a_revision() {
    let mut bed = Bed::open([]);
    bed.stream([row(1).says("wait")]);
    bed.wait(1_500);
    bed.stream([row(1).at(2).says("wait, done")]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: wait", "1:t1:edit:2 @2 bot: wait, done"]);
}

#[test]
fn d5_revisions_follow_one_another_and_the_base_stays() {
    let mut bed = Bed::open([row(1).says("a")]);
    for (number, text) in [(2, "b"), (3, "a"), (4, "c")] {
        bed.stream([row(1).at(number).says(text)]);
        bed.wait(1_000);
    }
    bed.shows(["1:t1 @1 bot: a", "1:t1:edit:2 @2 bot: b", "1:t1:edit:3 @3 bot: a", "1:t1:edit:4 @4 bot: c"]);
}

#[test]
fn d5_an_answer_has_its_own_second_and_the_number_when_it_appeared() {
    let mut bed = Bed::open([row(1).asks("Go?", None)]);
    bed.stream([row(1).at(5).asks("Go?", Some("y"))]);
    bed.wait(999);
    assert_eq!(bed.head(), Some(1));
    bed.wait(1);
    bed.shows(["1:t1 @1 bot: Go?\n- yes（y）\n- no", "1:t1:reply @5 me: yes >t1"]);
    let state = bed.widget("t1").unwrap();
    assert_eq!(state.answer.unwrap().0, "1:t1:reply");
}

#[test]
fn d5_an_answer_has_revisions_of_its_own() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.stream([row(1).at(5).asks("Go?", Some("no"))]);
    bed.wait(1_000);
    bed.shows(["1:t1 @1 bot: Go?\n- yes（y）\n- no", "1:t1:reply @1 me: yes >t1", "1:t1:reply:edit:5 @5 me: no >t1"]);
}

#[test]
fn d5_a_changed_question_leaves_its_answer() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.stream([row(1).at(5).asks("Go now?", Some("y"))]);
    bed.wait(1_000);
    assert_eq!(bed.transcript()[2], "1:t1:edit:5 @5 bot: Go now?\n- yes（y）\n- no");
    assert_eq!(bed.transcript().len(), 3);
}

#[test]
fn d5_an_edit_and_an_answer_are_dated_by_when_we_saw_them() {
    let mut bed = Bed::open([row(1).written(77).asks("Go?", None)]);
    assert_eq!(bed.at_of("1:t1"), 77);
    bed.wait(9_000);
    bed.stream([row(1).written(77).at(2).asks("Go now?", Some("y"))]);
    bed.wait(1_000);
    let seen = START.wall.0 + 10_000;
    assert_eq!(bed.at_of("1:t1:edit:2"), seen);
    assert_eq!(bed.at_of("1:t1:reply"), seen);
}

#[test]
fn post6_an_old_answer_isnt_given_while_the_one_that_is_given_now_is_pending() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.slow_index = true;
    bed.stream([row(1).at(5).asks("Go?", Some("no"))]);
    assert_eq!(bed.answer("t1"), None);
    bed.wait(1_000);
    assert_eq!(bed.answer("t1"), None, "not before the host can read it");
    bed.commit();
    assert_eq!(bed.answer("t1").unwrap(), "1:t1:reply:edit:5 @5");
}

#[test]
fn post6_an_answer_that_was_taken_back_and_given_again_is_named_as_it_is_now() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    // What is pending before it holds the removal back.
    bed.stream([row(2).says("wait"), row(1).at(3).asks("Go?", None)]);
    assert_eq!(bed.answer("t1"), None);
    bed.wait(1_000);
    bed.stream([row(1).at(4).asks("Go?", Some("y"))]);
    assert_eq!(bed.answer("t1"), None);
    bed.wait(1_000);
    assert_eq!(bed.answer("t1").unwrap(), "1:t1:reply:edit:4 @4");
}

#[test]
fn post6_an_answer_that_never_changed_is_its_base() {
    let mut bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    bed.slow_index = true;
    // The question is another text.
    bed.stream([row(1).at(2).asks("Go now?", Some("y"))]);
    assert_eq!(bed.answer("t1").unwrap(), "1:t1:reply @1");
}

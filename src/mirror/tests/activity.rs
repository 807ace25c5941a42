//! ACT1 to ACT6, and A6 of the field.

use super::super::Input;
use super::bed::{Bed, busy, row, running};
use crate::model::{LiveActivity, LiveState};

/// A Bot whose stream has just sent its snapshot: idle.
fn idle() -> Bed {
    let mut bed = Bed::open([]);
    bed.snapshot(None);
    bed
}

fn awaiting() -> LiveState {
    LiveState { awaiting: true, ..LiveState::default() }
}

#[test]
fn act1_the_text_by_kind() {
    let cases = [
        (("tool", "Shell", "Listing files"), "Listing files"),
        (("tool", "Shell", ""), "Shell"),
        (("tool", "Shell", " \u{200b}\n\t"), "Shell"),
        (("thinking", "ignored", "Comparing options"), "Comparing options"),
        (("thinking", "Shell", ""), "Grok 正在思考"),
        (("thinking", "", "\u{feff}\u{2060}"), "Grok 正在思考"),
        (("tool", "", "\n \u{200d}\n  second line  \nthird"), "second line"),
        (("tool", "", "a\rb"), "a"),
        (("tool", "", "👩‍👩‍👧 family"), "👩‍👩‍👧 family"),
    ];
    for ((kind, tool, detail), status) in cases {
        let mut bed = idle();
        bed.live(busy(kind, tool, detail));
        assert_eq!(bed.told(), [status], "{kind} {tool:?} {detail:?}");
    }
}

#[test]
fn act1_at_most_200_scalar_values() {
    let mut bed = idle();
    bed.live(busy("tool", "", &"界".repeat(300)));
    assert_eq!(bed.told()[0], "界".repeat(200));
}

#[test]
fn act1_a_tool_with_neither_and_another_kind_keep_the_status() {
    for state in [busy("tool", "", " "), busy("dreaming", "Shell", "of sheep"), busy("", "", "")] {
        let mut bed = idle();
        bed.live(busy("tool", "Shell", ""));
        bed.wait(1_000);
        bed.live(state);
        bed.wait(1_000);
        assert_eq!(bed.told(), ["Shell"]);
    }
}

#[test]
fn act2_each_sign_of_busy_keeps_the_status() {
    let cases = [
        running(),
        LiveState { composing: true, ..LiveState::default() },
        LiveState { retrying: true, ..LiveState::default() },
        LiveState { activity: Some(LiveActivity::default()), ..LiveState::default() },
        awaiting(),
    ];
    for state in cases {
        let mut bed = idle();
        bed.live(busy("tool", "Shell", ""));
        bed.wait(1_000);
        bed.live(state);
        bed.wait(1_000);
        assert_eq!(bed.told(), ["Shell"]);
    }
}

#[test]
fn act2_busy_without_an_activity_shows_nothing_by_itself() {
    let mut bed = idle();
    bed.live(running());
    bed.wait(1_000);
    assert!(bed.told().is_empty());
}

#[test]
fn act3_not_busy_removes_the_activity() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    bed.live(LiveState::default());
    assert_eq!(bed.told(), ["Shell", "-"]);
}

#[test]
fn act3_a_failed_turn_goes_with_the_removal() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    bed.turn_failed("TIMEOUT");
    assert_eq!(bed.told(), ["Shell"]);
    bed.live(LiveState::default());
    assert_eq!(bed.told(), ["- (TIMEOUT)"]);
    bed.wait(1_000);
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    bed.live(LiveState::default());
    assert_eq!(bed.told(), ["Shell", "-"]);
    bed.shows([]);
}

#[test]
fn act3_a_failed_turn_without_an_activity_is_no_notice_and_not_the_next_turn_s() {
    let mut bed = idle();
    bed.turn_failed("TIMEOUT");
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    bed.live(LiveState::default());
    assert_eq!(bed.told(), ["Shell", "-"]);
}

#[test]
fn act4_an_increment_replaces_the_state_whole() {
    let mut bed = idle();
    bed.live(LiveState { awaiting: true, ..busy("tool", "Shell", "") });
    bed.wait(1_000);
    // Running is absent, so it is false; nothing of the earlier state stays.
    bed.live(LiveState::default());
    assert_eq!(bed.told(), ["Shell", "-"]);
}

#[test]
fn act4_a_bot_missing_from_a_snapshot_is_idle() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    bed.snapshot(None);
    assert_eq!(bed.told(), ["Shell", "-"]);
}

#[test]
fn act4_a_snapshot_may_show_an_activity() {
    let mut bed = Bed::open([]);
    bed.snapshot(Some(busy("thinking", "", "")));
    assert_eq!(bed.told(), ["Grok 正在思考"]);
}

#[test]
fn act4_a_bot_that_is_new_in_the_roster_shows_its_first_increment() {
    // The stream's snapshot came before the Bot; there is no other one until the stream breaks.
    let mut bed = Bed::open([]);
    bed.live(busy("tool", "Shell", ""));
    assert_eq!(bed.told(), ["Shell"]);
}

#[test]
fn act5_time_and_silence_decide_nothing() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.wait(24 * 3_600_000);
    assert_eq!(bed.told(), ["Shell"]);
    assert_eq!(bed.mirror.deadline(), None);
}

#[test]
fn act5_a_lost_stream_removes_the_activity_at_once_and_waits_for_a_snapshot() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.input(Input::StreamLost);
    assert_eq!(bed.told(), ["Shell", "-"]);
    bed.live(busy("tool", "Late", ""));
    bed.wait(1_000);
    assert!(bed.told().is_empty());
    bed.snapshot(Some(busy("tool", "Shell", "")));
    assert_eq!(bed.told(), ["Shell"]);
}

#[test]
fn act5_a_reset_removes_the_activity_at_once() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.forget(2);
    bed.input(Input::Cleared { generation: Some(2) });
    assert_eq!(bed.told(), ["Shell", "-"]);
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    assert!(bed.told().is_empty());
}

#[test]
fn act5_a_lost_stream_without_an_activity_is_no_notice() {
    let mut bed = idle();
    bed.input(Input::StreamLost);
    assert!(bed.told().is_empty());
}

#[test]
fn act6_the_same_activity_is_told_once() {
    let mut bed = idle();
    for _ in 0..5 {
        bed.live(busy("tool", "Shell", ""));
        bed.wait(1_000);
    }
    assert_eq!(bed.told(), ["Shell"]);
}

#[test]
fn act6_notices_are_250_ms_apart_and_the_latest_wins() {
    let mut bed = idle();
    for step in ["a", "b", "c", "d"] {
        bed.live(busy("tool", step, ""));
        bed.wait(60);
    }
    assert_eq!(bed.told(), ["a"]);
    bed.wait(10);
    assert_eq!(bed.told(), ["d"]);
}

#[test]
fn act6_what_returns_to_what_was_told_is_no_notice() {
    let mut bed = idle();
    bed.live(busy("tool", "a", ""));
    bed.live(LiveState::default());
    bed.live(busy("tool", "a", ""));
    bed.wait(1_000);
    assert_eq!(bed.told(), ["a"]);
}

#[test]
fn act6_an_activity_moves_no_head_and_is_no_message() {
    let mut bed = idle();
    bed.live(busy("tool", "a", ""));
    bed.wait(1_000);
    bed.shows([]);
    assert_eq!(bed.head(), None);
}

#[test]
fn a6_not_busy_is_gone_at_once_and_a_finished_row_changes_nothing() {
    let mut bed = idle();
    bed.live(busy("tool", "Shell", ""));
    bed.wait(1_000);
    bed.stream([row(1).says("a progress message")]);
    bed.wait(1_000);
    assert_eq!(bed.told(), ["Shell"]);
    bed.live(LiveState::default());
    assert_eq!(bed.told(), ["-"]);
}

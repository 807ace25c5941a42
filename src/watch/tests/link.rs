//! The one stream: when it opens, from where, what follows when it ends (D11, ACT4, ACT5).

use std::time::Duration;

use super::bed::fault::{Fault, Request, transient};
use super::bed::frames::Manner;
use super::bed::{Bed, rows};
use crate::model::{AgentId, TurnFailure};
use crate::upstream::{ErrorKind, Frame};

fn gaps(times: &[i64]) -> Vec<i64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn d11_the_read_comes_before_the_stream_which_resumes_from_c() {
    let mut bed = Bed::idle(&["a", "b"]);
    for n in 0..3 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.run();
    bed.up().await;
    let order: Vec<bool> = bed.service.log(|r| r.is_list() || r.is_watch()).iter().map(|(_, r)| r.is_watch()).collect();
    let first_watch = order.iter().position(|watch| *watch).unwrap();
    assert!(first_watch >= 2, "both first pages were asked for before: {order:?}");
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 3), ("b".into(), 1, 0)]);
    assert_eq!(bed.service.count(Request::is_list), 3, "a full page and the empty one behind it for a, one for b");
}

#[tokio::test(start_paused = true)]
async fn d11_a_reconnect_resumes_from_the_highest_number_of_the_stream() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    for n in 0..5 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.secs(20).await;
    bed.service.end_streams();
    // Nobody hears of these two before the stream is up again.
    bed.service.says("a", "5");
    bed.service.says("a", "6");
    bed.secs(10).await;
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 5)]);
    assert_eq!(bed.host.texts("a"), ["0", "1", "2", "3", "4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn d11_a_restart_resumes_from_the_index_and_never_above_c() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    let seq = bed.service.says("a", "one");
    bed.service.says("a", "two");
    bed.secs(5).await;
    bed.crash().await;
    bed.service.overwrite("a", seq, rows::said("one, edited"));
    bed.run();
    bed.up().await;
    bed.secs(2).await;
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 2)], "the highest of the index");
    // The overwritten base isn't invented: what is left of it is the edit.
    assert_eq!(bed.host.texts("a"), ["two", "~one, edited"]);
}

#[tokio::test(start_paused = true)]
async fn d11_a_request_names_at_most_256_cursors_and_the_others_are_read_after_connected() {
    let names: Vec<String> = (0..300).map(|n| format!("bot{n:03}")).collect();
    let bots: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bed = Bed::idle(&bots);
    for bot in &bots {
        bed.service.says(bot, "hi");
    }
    bed.run();
    bed.secs(5).await;
    assert_eq!(bed.service.cursors().len(), 256);
    assert!(bots.iter().all(|bot| bed.host.readable(bot)));
    let calls = bed.service.log(|r| r.is_list() || r.is_watch());
    let after = calls.iter().skip_while(|(_, r)| !r.is_watch()).filter(|(_, r)| r.is_list()).count();
    assert!(after >= 44, "{after}");
    assert!(bed.service.most_lists() <= 4);
    // The most recently touched are named first.
    bed.service.says("bot299", "more");
    bed.secs(20).await;
    assert_eq!(bed.host.texts("bot299"), ["hi", "more"]);
    bed.service.end_streams();
    bed.secs(10).await;
    assert!(bed.service.cursors().iter().any(|(bot, ..)| bot == "bot299"));
}

#[tokio::test(start_paused = true)]
async fn d11_a_bot_without_a_first_page_within_3_s_is_admitted_live_and_read_after_connected() {
    let mut bed = Bed::idle(&["a", "slow"]);
    bed.service.says("a", "quick");
    bed.service.says("slow", "old");
    bed.service.fault(|r| r.is_list() && r.agent() == Some("slow"), Fault::slow(Duration::from_secs(8)).times(2));
    bed.run();
    bed.secs(4).await;
    let opened = bed.service.watches();
    assert_eq!(opened.len(), 1);
    assert!((3_000..3_200).contains(&opened[0]), "{opened:?}");
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 1)]);
    assert_eq!(bed.host.texts("a"), ["quick"]);
    assert!(!bed.host.readable("slow"));
    bed.service.says("slow", "live");
    bed.secs(30).await;
    assert_eq!(bed.host.texts("slow"), ["old", "live"]);
    assert_eq!(bed.service.watches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn d7_reads_and_heads_and_echoes_cost_no_list_call() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.secs(1).await;
    let lists = bed.service.count(Request::is_list);
    for n in 0..20 {
        bed.service.says("a", &format!("{n}"));
        let mut run = bed.host.post("a", "and?");
        run.settled().await;
        assert!(!bed.host.messages("a").is_empty());
    }
    bed.secs(60).await;
    assert_eq!(bed.host.messages("a").len(), 40);
    assert_eq!(bed.service.count(Request::is_list), lists);
}

#[tokio::test(start_paused = true)]
async fn reconnects_half_a_second_to_three_after_a_clean_end() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let mut starts = Vec::new();
    for _ in 0..8 {
        bed.secs(15).await;
        let ended = super::bed::clock::millis();
        bed.service.end_streams();
        bed.secs(5).await;
        starts.push(bed.service.watches().last().unwrap() - ended);
    }
    assert!(starts.iter().all(|wait| (500..=3_050).contains(wait)), "{starts:?}");
    assert!(bed.host.message().is_none());
}

#[tokio::test(start_paused = true)]
async fn a14_a_clean_end_at_once_gives_no_reconnect_storm() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.next_streams(std::iter::repeat_n(Manner::EndsAtOnce, 1000));
    bed.run();
    bed.secs(10).await;
    let watches = bed.service.watches();
    assert!(watches.len() <= 8, "{watches:?}");
    assert!(watches.len() >= 3, "{watches:?}");
    bed.secs(600).await;
    let waits = gaps(&bed.service.watches());
    assert!(waits[..4].iter().zip(&waits[4..8]).all(|(early, late)| early < late), "{waits:?}");
    assert!(waits.iter().all(|wait| (1_000..=61_000).contains(wait)), "{waits:?}");
    let late = &waits[8..];
    assert!(late.windows(2).any(|pair| pair[0] != pair[1]), "with jitter: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_grow_after_errors_and_are_reset_only_by_a_stream_that_lived_10_s() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(Request::is_watch, Fault::error(ErrorKind::Broken).times(7));
    bed.service.next_streams([Manner::Lives(Duration::from_secs(9)), Manner::Lives(Duration::from_secs(11))]);
    bed.run();
    bed.secs(600).await;
    let watches = bed.service.watches();
    let waits = gaps(&watches);
    assert!(waits[..7].iter().all(|wait| (1_000..=61_000).contains(wait)), "{waits:?}");
    assert!(waits[6] >= 29_000, "{waits:?}");
    // Eight streams were asked for; the eighth lived 9 s: no good run, so the wait stays long.
    assert!(waits[7] >= 9_000 + 29_000, "{waits:?}");
    assert!((11_500..=14_100).contains(&waits[8]), "a clean end after a good run: {waits:?}");
    assert_eq!(watches.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_servers_retry_after_goes_before_ours() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(Request::is_watch, Fault::error(transient(Some(77))).once());
    bed.service.fault(Request::is_watch, Fault::error(transient(Some(0))).times(5));
    bed.run();
    bed.secs(200).await;
    let waits = gaps(&bed.service.watches());
    assert!((77_000..77_100).contains(&waits[0]), "{waits:?}");
    assert!(waits[1..].iter().all(|wait| *wait >= 1_000), "at once is no wait: {waits:?}");
    assert_eq!(bed.service.open_streams(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endless_retry_after_holds_up_an_hour_at_most() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(Request::is_watch, Fault::error(transient(Some(u64::MAX))).once());
    bed.run();
    bed.secs(3_700).await;
    assert_eq!(bed.service.open_streams(), 1);
}

#[tokio::test(start_paused = true)]
async fn a12_a_stream_without_a_frame_for_60_s_is_broken() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.live("a", rows::tool("busy"));
    bed.run();
    bed.up().await;
    bed.secs(20).await;
    assert_eq!(bed.host.activity("a").as_deref(), Some("busy"));
    bed.service.next_streams([Manner::Silent]);
    bed.service.end_streams();
    bed.secs(5).await;
    let silent = *bed.service.watches().last().unwrap();
    bed.secs(54).await;
    assert_eq!(bed.service.watches().len(), 2);
    bed.secs(7).await;
    let watches = bed.service.watches();
    assert_eq!(watches.len(), 3);
    assert!((60_000..=65_000).contains(&(watches[2] - silent)), "{watches:?}");
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a12_the_page_says_since_when_the_service_is_silent_and_no_activity_is_shown() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.live("a", rows::tool("busy"));
    bed.service.next_streams([Manner::Normal, Manner::Mute, Manner::Mute]);
    bed.run();
    bed.up().await;
    bed.secs(10).await;
    bed.service.end_streams();
    bed.millis(10).await;
    assert_eq!(bed.host.activity("a"), None, "the activity goes with the stream, at once");
    bed.secs(64).await;
    assert_eq!(bed.service.watches().len(), 3);
    assert!(bed.host.message().unwrap().contains("<t:2026-01-01T00:00:1"), "{:?}", bed.host.message());
    bed.secs(70).await;
    assert_eq!(bed.host.message(), None);
    assert_eq!(bed.host.activity("a").as_deref(), Some("busy"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_response_head_never_comes_is_given_up() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(Request::is_watch, Fault::hangs().once());
    bed.run();
    bed.secs(70).await;
    assert_eq!(bed.service.open_streams(), 1);
}

#[tokio::test(start_paused = true)]
async fn a1_an_end_without_an_end_frame_is_a_broken_stream() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    for n in 1..=5 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.service.break_streams(ErrorKind::Broken);
    bed.millis(10).await;
    assert!(bed.host.message().is_some());
    bed.secs(10).await;
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 5)]);
    assert_eq!(bed.host.texts("a"), ["1", "2", "3", "4", "5"]);
    assert!(bed.host.message().is_none());
}

#[tokio::test(start_paused = true)]
async fn a7_a_refused_cursor_is_sent_once_and_the_new_generation_read_whole() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    for n in 0..50 {
        bed.service.says("a", &format!("old {n}"));
    }
    bed.secs(20).await;
    assert_eq!(bed.host.messages("a").len(), 50);
    bed.crash().await;
    bed.service.clear_silently("a", 2);
    for n in 0..60 {
        bed.service.says("a", &format!("new {n}"));
    }
    bed.run();
    bed.up().await;
    bed.secs(10).await;
    let texts = bed.host.texts("a");
    assert_eq!(texts.len(), 60);
    assert!(texts.iter().all(|text| text.starts_with("new")));
    for _ in 0..3 {
        bed.service.end_streams();
        bed.secs(20).await;
    }
    let stale = |r: &Request| match r {
        Request::Watch(watch) => watch.cursors.iter().any(|(_, c)| c.generation == 1 && c.number == 50),
        _ => false,
    };
    assert!(bed.service.count(stale) <= 1);
    assert_eq!(bed.host.messages("a").len(), 60);
}

#[tokio::test(start_paused = true)]
async fn a7_a_refused_cursor_of_the_same_generation_is_never_sent_again() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    for n in 0..5 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.secs(20).await;
    bed.service.end_streams();
    let seq = bed.service.says("a", "5");
    bed.service.delete("a", seq);
    bed.service.forget_changes("a");
    bed.secs(20).await;
    assert_eq!(bed.service.watches().len(), 2);
    assert_eq!(bed.service.cursors(), [("a".into(), 1, 5)]);
    bed.service.says("a", "6");
    bed.secs(20).await;
    assert_eq!(bed.host.texts("a"), ["0", "1", "2", "3", "4", "6"]);
    bed.service.end_streams();
    bed.secs(20).await;
    assert_ne!(bed.service.cursors(), [("a".into(), 1, 5)]);
    assert_eq!(bed.service.open_streams(), 1);
    bed.service.says("a", "7");
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a").last().unwrap(), "7");
}

#[tokio::test(start_paused = true)]
async fn a_token_refused_in_mid_stream_is_renewed_once_and_the_stream_goes_on() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.secs(20).await;
    bed.service.reject("sub-ann/1");
    bed.service.break_streams(ErrorKind::Auth);
    bed.service.says("a", "meanwhile");
    bed.secs(5).await;
    assert_eq!(bed.desk.renewals(), 1);
    assert_eq!(bed.service.open_streams(), 1);
    assert_eq!(bed.host.texts("a"), ["meanwhile"]);
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_refuses_every_token_is_not_asked_without_end() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.fault(Request::is_watch, Fault::error(ErrorKind::Auth));
    bed.service.break_streams(ErrorKind::Auth);
    bed.secs(120).await;
    let asked = bed.service.watches().len();
    assert!(asked < 25, "{asked}");
    assert_eq!(bed.host.bots(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn act4_a_snapshot_replaces_all_and_one_without_live_means_that_all_are_idle() {
    let bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.service.live("a", rows::tool("one"));
    bed.service.live("b", rows::tool("two"));
    bed.secs(1).await;
    assert_eq!(bed.host.activity("a").as_deref(), Some("one"));
    assert_eq!(bed.host.activity("b").as_deref(), Some("two"));
    bed.service.push(Frame::AgentState { snapshot: true, live: vec![(AgentId::from("b"), rows::tool("three"))] });
    bed.secs(1).await;
    assert_eq!(bed.host.activity("a"), None);
    assert_eq!(bed.host.activity("b").as_deref(), Some("three"));
    bed.service.push(Frame::Other { kind: "agentStateChanged".into(), unknown: false });
    bed.secs(1).await;
    assert_eq!(bed.host.activity("b").as_deref(), Some("three"), "no live state");
    bed.service.push(Frame::AgentState { snapshot: true, live: vec![] });
    bed.secs(1).await;
    assert_eq!(bed.host.activity("b"), None);
}

#[tokio::test(start_paused = true)]
async fn act5_silence_decides_nothing_but_a_lost_stream_removes_the_activity_at_once() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.live("a", rows::tool("long work"));
    bed.secs(1_800).await;
    assert_eq!(bed.host.activity("a").as_deref(), Some("long work"));
    bed.service.break_streams(ErrorKind::Broken);
    bed.millis(1).await;
    assert_eq!(bed.host.activity("a"), None);
    bed.secs(5).await;
    assert_eq!(bed.host.activity("a").as_deref(), Some("long work"), "the next snapshot brings it");
}

#[tokio::test(start_paused = true)]
async fn act6_activities_of_one_bot_are_told_250_ms_apart_and_the_latest_wins() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.host.take();
    for n in 0..100 {
        bed.service.live("a", rows::tool(&format!("step {n}")));
        bed.millis(10).await;
        bed.host.told();
    }
    bed.secs(1).await;
    let told = bed.host.told().iter().filter(|n| matches!(n, crate::records::Notice::Activity { .. })).count();
    assert!((4..=6).contains(&told), "{told}");
    assert_eq!(bed.host.activity("a").as_deref(), Some("step 99"));
}

#[tokio::test(start_paused = true)]
async fn act3_a_failed_turn_is_told_with_the_removal_of_the_activity() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.live("a", rows::tool("trying"));
    bed.secs(1).await;
    let failure = TurnFailure { code: "TIMEOUT".into(), summary: "took too long".into() };
    bed.host.take();
    bed.service.push(Frame::TurnFailed { agent_id: AgentId::from("a"), failure: failure.clone() });
    bed.service.live("a", rows::idle());
    bed.secs(1).await;
    let told = bed.host.told();
    let removal = told.iter().any(|notice| match notice {
        crate::records::Notice::Activity { notice, .. } => {
            notice.activity.is_none() && notice.failure.as_ref() == Some(&failure)
        }
        _ => false,
    });
    assert!(removal, "{told:?}");
    assert!(bed.host.messages("a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a19_unknown_and_unreadable_frames_are_counted_and_the_stream_lives_on() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.push(Frame::Other { kind: "newKind".into(), unknown: true });
    bed.service.push(Frame::Other { kind: "boxState".into(), unknown: false });
    let malformed = crate::model::Malformed { kind: "rows".into(), reason: "not an object" };
    bed.service.push(Frame::Malformed(malformed));
    let elsewhere = super::bed::service::rows_frame("nobody's", 1, vec![], vec![]);
    bed.service.push(elsewhere);
    bed.service.says("a", "still here");
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["still here"]);
    assert_eq!(bed.service.watches().len(), 1);
    let facts = bed.host.handle.diagnose().await.unwrap();
    assert_eq!(facts.skipped, 2);
    assert!(facts.connected);
}

#[tokio::test(start_paused = true)]
async fn a9_a_page_that_lands_after_a_newer_row_of_the_stream_changes_nothing() {
    let mut bed = Bed::idle(&["a"]);
    let seq = bed.service.says("a", "older");
    bed.service.fault(Request::is_list, Fault::late(Duration::from_secs(5)).times(2));
    bed.run();
    bed.secs(4).await;
    bed.service.overwrite("a", seq, rows::said("newer"));
    bed.secs(20).await;
    assert_eq!(bed.host.texts("a"), ["newer"]);
}

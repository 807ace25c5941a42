//! Full reads and bodies (D7, D10, D11, D13).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::bed::fault::{Fault, Gate, Request, transient};
use super::bed::{Bed, clock, rows};
use crate::model::{Row, RowBody};
use crate::upstream::ErrorKind;

fn lists_of(bot: &'static str) -> impl Fn(&Request) -> bool + Send + 'static {
    move |request: &Request| request.is_list() && request.agent() == Some(bot)
}

#[tokio::test(start_paused = true)]
async fn d11_reads_run_four_at_a_time() {
    let names: Vec<String> = (0..20).map(|n| format!("bot{n}")).collect();
    let bots: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bed = Bed::idle(&bots);
    bed.service.fault(Request::is_list, Fault::late(Duration::from_millis(100)));
    bed.run();
    bed.up().await;
    assert_eq!(bed.service.most_lists(), 4);
}

#[tokio::test(start_paused = true)]
async fn d11_one_slow_bot_holds_up_nobody() {
    let mut bed = Bed::idle(&["a", "b", "slow"]);
    bed.service.says("a", "one");
    bed.service.says("b", "two");
    bed.service.fault(lists_of("slow"), Fault::hangs());
    bed.run();
    bed.secs(5).await;
    assert_eq!((bed.host.texts("a"), bed.host.texts("b")), (vec!["one".to_owned()], vec!["two".to_owned()]));
    // However often the stream comes again, its abandoned reads take no place away.
    for n in 0..10 {
        bed.service.break_streams(ErrorKind::Broken);
        bed.secs(80).await;
        bed.service.says("a", &format!("again {n}"));
        bed.secs(2).await;
        assert_eq!(bed.host.texts("a").len(), 2 + n);
    }
    assert!(bed.service.most_lists() <= 4);
    assert!(bed.service.calls_now() <= 1, "{}", bed.service.calls_now());
}

#[tokio::test(start_paused = true)]
async fn d7_after_every_reconnect_a_full_read_and_what_was_delivered_is_served_meanwhile() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let first = bed.service.says("a", "one");
    bed.service.says("a", "two");
    bed.secs(20).await;
    let gate = Gate::new();
    bed.service.fault(Request::is_list, Fault::held(&gate));
    bed.service.end_streams();
    bed.service.overwrite("a", first, rows::said("one, edited"));
    bed.service.says("a", "three");
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["one", "two"]);
    gate.open();
    bed.secs(10).await;
    assert_eq!(bed.host.texts("a"), ["one", "two", "~one, edited", "three"]);
    assert!(bed.host.heads("a").windows(2).all(|pair| pair[0] < pair[1]), "{:?}", bed.host.heads("a"));
}

#[tokio::test(start_paused = true)]
async fn a5_a_reconnect_after_a_long_history_gives_one_revision_and_no_second_base() {
    let mut bed = Bed::idle(&["a"]);
    for n in 0..500 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.service.page_limit(37);
    bed.run();
    bed.up().await;
    bed.secs(20).await;
    assert_eq!(bed.host.messages("a").len(), 500);
    bed.service.end_streams();
    bed.service.overwrite("a", 3, rows::said("edited"));
    bed.secs(20).await;
    let texts = bed.host.texts("a");
    assert_eq!(texts.len(), 501);
    assert_eq!(texts.last().unwrap(), "~edited");
}

#[tokio::test(start_paused = true)]
async fn a3_a_server_that_ignores_its_bounds_ends_the_read() {
    let mut bed = Bed::idle(&["a"]);
    for n in 0..30 {
        bed.service.says("a", &format!("{n}"));
    }
    // Every answer holds every row.
    let all: Arc<std::sync::Mutex<Vec<Row>>> = Arc::default();
    let change = move |mut page: crate::upstream::Page| {
        let mut all = all.lock().unwrap();
        if all.is_empty() {
            all.clone_from(&page.rows);
        }
        page.rows.clone_from(&all);
        page
    };
    bed.service.fault(Request::is_list, Fault::page(change));
    bed.run();
    bed.up().await;
    bed.secs(60).await;
    assert_eq!(bed.host.messages("a").len(), 30);
    assert!(bed.service.count(Request::is_list) <= 3);
}

#[tokio::test(start_paused = true)]
async fn d10_pages_that_disagree_start_the_read_anew_and_after_three_starts_it_waits_longer_and_longer() {
    let mut bed = Bed::idle(&["a"]);
    for n in 0..4 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.service.page_limit(2);
    let flip = AtomicU64::new(0);
    let change = move |mut page: crate::upstream::Page| {
        page.generation = Some(5 + flip.fetch_add(1, Ordering::Relaxed));
        page
    };
    bed.service.fault(Request::is_list, Fault::page(change));
    bed.run();
    bed.secs(300).await;
    assert!(!bed.host.readable("a"));
    let lists = bed.service.count(Request::is_list);
    // Three starts of two pages each before every wait, and the waits grow to a minute.
    assert!((30..=90).contains(&lists), "{lists}");
    bed.service.mend();
    bed.secs(70).await;
    assert_eq!(bed.host.texts("a"), ["0", "1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn d7_a_failed_page_is_asked_for_again_and_the_pages_before_it_are_not() {
    let mut bed = Bed::idle(&["a"]);
    for n in 0..6 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.service.page_limit(2);
    let second = |r: &Request| matches!(r, Request::Entries(page) if page.before_seq == Some(5));
    bed.service.fault(second, Fault::error(transient(Some(7))).once());
    bed.run();
    bed.secs(6).await;
    assert!(!bed.host.readable("a"));
    bed.secs(5).await;
    assert_eq!(bed.host.messages("a").len(), 6);
    assert_eq!(bed.service.count(Request::is_list), 5, "four pages and one again");
    let at: Vec<i64> = bed.service.log(second).into_iter().map(|(at, _)| at).collect();
    assert!((7_000..7_100).contains(&(at[1] - at[0])), "the server's Retry-After: {at:?}");
}

#[tokio::test(start_paused = true)]
async fn d7_a_failed_page_of_a_superseded_read_never_stops_the_current_one() {
    let mut bed = Bed::idle(&["a"]);
    for n in 0..6 {
        bed.service.says("a", &format!("{n}"));
    }
    bed.service.page_limit(2);
    // The first read's page fails after the stream is up; the second read's failed before that, with a longer wait.
    let late = Fault::error(transient(Some(2))).and_late(Duration::from_secs(5));
    bed.service.fault(Request::is_list, late.once());
    bed.service.fault(Request::is_list, Fault::error(transient(Some(9))).once());
    bed.run();
    bed.secs(60).await;
    assert_eq!(bed.host.messages("a").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn d10_cleared_resets_at_once_and_the_new_generation_is_read() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.says("a", "old");
    bed.secs(2).await;
    let gate = Gate::new();
    bed.service.fault(Request::is_list, Fault::held(&gate));
    bed.host.take();
    bed.service.clear("a", 2);
    bed.service.says("a", "new");
    bed.millis(100).await;
    assert_eq!(bed.host.heads("a"), [None]);
    assert!(!bed.host.readable("a"));
    gate.open();
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["new"]);
    assert_eq!(bed.host.messages("a")[0].id(2), "2:e1");
    assert_eq!(bed.service.watches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn d10_rows_of_a_higher_generation_reset_the_bot_and_lower_ones_are_dropped() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.says("a", "old");
    bed.secs(2).await;
    bed.service.clear_silently("a", 4);
    bed.service.says("a", "new");
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["new"]);
    let stale = Row { seq: 9, number: 900, entry_id: None, body: rows::said("stale") };
    bed.service.push(super::bed::service::rows_frame("a", 1, vec![stale], vec![]));
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn d13_omitted_and_offloaded_bodies_are_fetched() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "plain");
    bed.service.append("a", rows::blob("hash-1"));
    bed.service.store_blob("hash-1", rows::said("from the store"));
    bed.service.append_omitted("a", rows::said("listed again"));
    // Omitted in the frame, and offloaded when it is listed again.
    bed.service.append_omitted("a", rows::blob("hash-2"));
    bed.service.store_blob("hash-2", rows::said("both"));
    bed.run();
    bed.up().await;
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["plain", "from the store", "listed again", "both"]);
    bed.service.append_omitted("a", rows::said("live"));
    bed.service.says("a", "after it");
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a")[4..], ["live", "after it"]);
}

#[tokio::test(start_paused = true)]
async fn d13_a_body_is_tried_five_times_and_then_lost_and_no_longer_in_the_way() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.append("a", rows::blob("missing"));
    bed.service.says("a", "behind it");
    bed.secs(10).await;
    assert!(bed.host.texts("a").is_empty(), "it holds up what comes after it");
    bed.secs(50).await;
    let tries: Vec<i64> = bed.service.log(|r| matches!(r, Request::Blob(_))).into_iter().map(|(at, _)| at).collect();
    assert_eq!(tries.len(), 5, "{tries:?}");
    let gaps: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.iter()
            .zip([2_000, 4_000, 8_000, 16_000])
            .all(|(gap, mean)| (mean * 3 / 4..=mean * 5 / 4 + 1).contains(gap)),
        "{gaps:?}"
    );
    assert_eq!(bed.host.texts("a"), ["behind it"]);
    assert_eq!(bed.host.handle.diagnose().await.unwrap().lost, 1);
}

#[tokio::test(start_paused = true)]
async fn h14_a_record_opens_after_10_s_without_a_body_that_cant_be_fetched() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "one");
    bed.service.append("a", rows::blob("missing"));
    bed.service.says("a", "two");
    bed.run();
    bed.secs(9).await;
    assert!(!bed.host.readable("a"));
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["one", "two"]);
    // It comes late after all, with the next exposure's cursor.
    bed.service.store_blob("missing", rows::said("late"));
    bed.secs(30).await;
    bed.service.says("a", "three");
    bed.secs(3).await;
    let texts = bed.host.texts("a");
    assert!(texts.contains(&"late".to_owned()), "{texts:?}");
    assert!(bed.host.heads("a").windows(2).all(|pair| pair[0] <= pair[1]));
}

#[tokio::test(start_paused = true)]
async fn d13_missing_bodies_of_one_bot_dont_hold_up_those_of_another() {
    let mut bed = Bed::idle(&["a", "b"]);
    for n in 0..40 {
        bed.service.append("a", rows::blob(&format!("missing {n}")));
    }
    bed.service.append("b", rows::blob("there"));
    bed.service.store_blob("there", rows::said("here it is"));
    bed.run();
    bed.secs(4).await;
    assert_eq!(bed.host.texts("b"), ["here it is"]);
    bed.secs(10).await;
    assert!(bed.host.readable("a"));
}

#[tokio::test(start_paused = true)]
async fn d13_at_most_eight_bodies_are_fetched_at_once() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.fault(|r| matches!(r, Request::Blob(_)), Fault::slow(Duration::from_secs(1)));
    for n in 0..20 {
        let hash = format!("hash {n}");
        bed.service.store_blob(&hash, rows::said(&hash));
        bed.service.append("a", rows::blob(&hash));
    }
    bed.millis(500).await;
    assert_eq!(bed.service.calls_now(), 8);
    bed.secs(10).await;
    assert_eq!(bed.host.messages("a").len(), 20);
}

#[tokio::test(start_paused = true)]
async fn d13_a_row_that_is_overwritten_while_bodies_are_slow_waits_once() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let gate = Gate::new();
    bed.service.fault(|r| matches!(r, Request::Blob(_)), Fault::held(&gate));
    bed.service.store_blob("hash 0", rows::said("part 0"));
    let seq = bed.service.append("a", rows::blob("hash 0"));
    for part in 1..=400 {
        let hash = format!("hash {part}");
        bed.service.store_blob(&hash, rows::said(&format!("part {part}")));
        bed.service.overwrite("a", seq, rows::blob(&hash));
        bed.millis(20).await;
    }
    gate.open();
    bed.secs(5).await;
    assert_eq!(bed.host.texts("a"), ["part 400"]);
    let asked = bed.service.count(|r| matches!(r, Request::Blob(_)));
    assert_eq!(asked, 9, "eight that were under way, and the newest");
}

#[tokio::test(start_paused = true)]
async fn d13_a_newer_version_doesnt_wait_for_the_next_try_of_the_one_before_it() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let seq = bed.service.append("a", rows::blob("missing"));
    // Two tries, and the third is seconds away.
    bed.secs(4).await;
    bed.service.store_blob("there", rows::said("here it is"));
    bed.service.overwrite("a", seq, rows::blob("there"));
    bed.millis(1_500).await;
    assert_eq!(bed.host.texts("a"), ["here it is"]);
}

#[tokio::test(start_paused = true)]
async fn d14_an_unreadable_body_is_skipped_and_counted_and_the_read_goes_on() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "one");
    let malformed = crate::model::Malformed { kind: Arc::from("message"), reason: "no JSON" };
    bed.service.append("a", RowBody::Malformed(malformed));
    bed.service.append("a", RowBody::Nothing);
    bed.service.append("a", rows::routine("every morning"));
    bed.service.says("a", "two");
    bed.run();
    bed.up().await;
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["one", "two"]);
    assert_eq!(bed.host.handle.diagnose().await.unwrap().skipped, 1);
    // Who asks after the head misses nothing: rows that are no message move no head.
    assert_eq!(bed.host.head("a").unwrap().number, 5);
}

#[tokio::test(start_paused = true)]
async fn d2_a_streamed_answer_is_delivered_a_second_after_its_last_change() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let seq = bed.service.says("a", "I");
    for n in 0..30 {
        bed.millis(100).await;
        bed.service.overwrite("a", seq, rows::said(&format!("I say {n}")));
    }
    let finished = clock::millis();
    assert!(bed.host.texts("a").is_empty());
    bed.until("it is delivered", |bed| !bed.host.texts("a").is_empty()).await;
    assert!((1_000..=1_020).contains(&(clock::millis() - finished)));
    assert_eq!(bed.host.texts("a"), ["I say 29"]);
}

#[tokio::test(start_paused = true)]
async fn a24_a_loaded_conversation_and_one_post_give_four_messages() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.append("a", rows::asked("hi"));
    bed.service.says("a", "hello");
    bed.service.says("a", "what is it?");
    bed.run();
    bed.up().await;
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["hi", "hello", "what is it?"]);
    let mut run = bed.host.post("a", "this");
    run.settled().await;
    bed.secs(30).await;
    bed.service.end_streams();
    bed.secs(10).await;
    assert_eq!(bed.host.texts("a"), ["hi", "hello", "what is it?", "this"]);
    let heads = bed.host.heads("a");
    assert!(heads.windows(2).all(|pair| pair[0] < pair[1]), "{heads:?}");
}

#[tokio::test(start_paused = true)]
async fn a4_a_replay_is_not_delivered_twice() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let mut all = Vec::new();
    for n in 1..=3 {
        let seq = bed.service.says("a", &format!("{n}"));
        all.push(Row {
            seq,
            number: bed.service.number("a"),
            entry_id: Some(super::bed::service::entry_of(seq)),
            body: rows::said(&format!("{n}")),
        });
    }
    bed.service.push(super::bed::service::rows_frame("a", 1, all, vec![]));
    bed.secs(5).await;
    assert_eq!(bed.host.texts("a"), ["1", "2", "3"]);
}

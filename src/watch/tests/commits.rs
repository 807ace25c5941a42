//! The index and the disk under it (D8, D9).

use super::bed::fault::Request;
use super::bed::{ANN, Bed, rows};
use crate::records::{Failure, Outcome, SignInState};

#[tokio::test(start_paused = true)]
async fn d8_nothing_is_exposed_that_the_index_could_not_record_and_the_page_says_so_once() {
    let bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.service.says("a", "before");
    bed.secs(2).await;
    bed.shelf.full(true);
    bed.host.take();
    bed.service.says("a", "one");
    bed.service.says("b", "two");
    bed.secs(300).await;
    assert_eq!(bed.host.texts("a"), ["before"]);
    assert!(bed.host.texts("b").is_empty());
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    let message = bed.host.message().unwrap();
    assert!(message.contains("<t:2026-01-01T00:00:0") && message.contains("磁盘"), "{message}");
    let said = bed.host.told().iter().filter(|n| matches!(n, crate::records::Notice::Status(_))).count();
    assert_eq!(said, 1, "said once");
    let tries = bed.shelf.tries();
    assert!((5..30).contains(&tries), "{tries}");
    bed.shelf.full(false);
    bed.secs(61).await;
    assert_eq!((bed.host.texts("a"), bed.host.texts("b")), (vec!["before".into(), "one".into()], vec!["two".into()]));
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn d8_batches_are_written_in_the_order_in_which_they_were_given() {
    let mut bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.service.says("a", "one");
    bed.secs(2).await;
    bed.shelf.full(true);
    bed.service.says("a", "two");
    bed.secs(2).await;
    bed.service.says("b", "other");
    bed.secs(2).await;
    bed.service.clear("a", 2);
    bed.service.says("a", "new life");
    bed.secs(5).await;
    bed.shelf.full(false);
    bed.secs(70).await;
    assert_eq!(bed.host.texts("a"), ["new life"]);
    let of = |bot: &str| -> Vec<u64> {
        bed.shelf.written().iter().filter(|(agent, _)| agent.as_str() == bot).map(|(_, id)| *id).collect()
    };
    assert!(of("a").windows(2).all(|pair| pair[0] < pair[1]), "{:?}", of("a"));
    // After a restart nothing of the old life is left.
    bed.crash().await;
    bed.run();
    bed.up().await;
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["new life"]);
}

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Eight Bots that are up and quiet, and the commits so far.
async fn eight() -> (Bed, u64) {
    let bed = Bed::start(&EIGHT);
    bed.up().await;
    bed.secs(3).await;
    let before = bed.shelf.tries();
    (bed, before)
}

/// The messages of a Bot as a host tells them apart: id, number, text.
fn shown(bed: &Bed, bot: &str) -> Vec<(String, u64, String)> {
    bed.host.messages(bot).iter().map(|m| (m.id(1), m.number, m.text.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn d8_what_falls_due_together_is_one_commit_however_many_bots_it_is_of() {
    let (bed, before) = eight().await;
    for round in 0..5 {
        for bot in EIGHT {
            bed.service.says(bot, &format!("{round}"));
        }
        bed.secs(3).await;
    }
    assert_eq!(bed.shelf.written().len(), 5 * EIGHT.len());
    // The first Bot's batch is written alone where the others' frames come a moment later; those come up meanwhile and are one.
    let commits = bed.shelf.tries() - before;
    assert!(commits <= 2 * 5, "{commits} commits");
}

#[tokio::test(start_paused = true)]
async fn d8_a_flood_of_many_bots_is_gathered_and_shown_all_the_same() {
    let (bed, before) = eight().await;
    let step = std::time::Duration::from_millis(5);
    for round in 0..20 {
        for bot in EIGHT {
            for n in 0..80 {
                bed.service.says(bot, &format!("{round}/{n}"));
            }
        }
        tokio::time::sleep(step).await;
    }
    // The last of it is due in a second, and is gathered for no longer than the twentieth of one.
    bed.secs(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let expected: Vec<String> = (0..20).flat_map(|round| (0..80).map(move |n| format!("{round}/{n}"))).collect();
    for bot in EIGHT {
        assert_eq!(bed.host.texts(bot), expected, "{bot}");
    }
    // One for each round without gathering.
    let commits = bed.shelf.tries() - before;
    assert!(commits <= 10, "{commits} commits");
}

#[tokio::test(start_paused = true)]
async fn d8_a_slow_disk_delays_exposures_and_nothing_else() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.shelf.hang(true);
    bed.service.says("a", "one");
    // While a write hangs, tokio's paused clock moves only where it is told to.
    for _ in 0..300 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        tokio::task::yield_now().await;
    }
    bed.service.says("a", "two");
    bed.service.live("a", rows::tool("still watching"));
    for _ in 0..300 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        tokio::task::yield_now().await;
    }
    assert!(bed.host.texts("a").is_empty());
    assert_eq!(bed.host.activity("a").as_deref(), Some("still watching"));
    bed.shelf.hang(false);
    bed.secs(3).await;
    assert_eq!(bed.host.texts("a"), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn d8_marks_that_cant_be_loaded_are_tried_again_and_nothing_is_shown_meanwhile() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "one");
    bed.shelf.unreadable(true);
    bed.run();
    bed.secs(60).await;
    assert_eq!(bed.host.bots(), ["a"]);
    assert!(!bed.host.readable("a"));
    assert!(bed.host.message().unwrap().contains("数据目录"));
    assert_eq!(bed.service.open_streams(), 1, "the stream waits for nobody");
    assert_eq!(bed.host.post("a", "hello").settled().await, Outcome::Failed(Failure::NotSent));
    bed.shelf.unreadable(false);
    bed.secs(10).await;
    assert_eq!(bed.host.texts("a"), ["one"]);
    assert_eq!(bed.host.message(), None);
    let mut run = bed.host.post("a", "hello");
    bed.secs(3).await;
    assert!(matches!(run.outcome(), Some(Outcome::Completed { .. })));
}

#[tokio::test(start_paused = true)]
async fn d8_a_disk_that_works_again_is_no_trouble_even_with_nothing_to_write() {
    let mut bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.service.says("a", "one");
    bed.secs(2).await;
    bed.crash().await;
    // All that there is was written before: after this start nothing is.
    bed.shelf.unreadable(true);
    bed.run();
    bed.secs(10).await;
    assert!(bed.host.message().unwrap().contains("数据目录"));
    bed.shelf.unreadable(false);
    bed.secs(10).await;
    assert_eq!(bed.host.texts("a"), ["one"]);
    assert_eq!(bed.host.message(), None);
    // A Bot whose marks couldn't be read goes: nobody will read them again.
    bed.shelf.unreadable(true);
    bed.service.add_bot(ANN, "late");
    bed.service.roster_changed();
    bed.secs(10).await;
    assert!(bed.host.message().unwrap().contains("数据目录"));
    bed.service.remove_bot("late");
    bed.service.roster_changed();
    bed.secs(10).await;
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn a_post_waits_for_its_echo_while_the_disk_is_full_and_completes_when_it_works_again() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.shelf.full(true);
    let mut run = bed.host.post("a", "hello");
    bed.secs(120).await;
    assert_eq!(run.outcome(), None, "its echo was seen");
    bed.shelf.full(false);
    bed.secs(61).await;
    assert!(matches!(run.outcome(), Some(Outcome::Completed { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_index_that_was_set_aside_is_told() {
    let mut bed = Bed::idle(&["a"]);
    bed.shelf.set_aside();
    bed.run();
    bed.up().await;
    assert!(bed.host.message().unwrap().contains("另存"));
    assert!(bed.host.readable("a"));
}

#[tokio::test(start_paused = true)]
async fn d9_marks_outlive_an_index_that_was_set_aside_while_the_provider_runs() {
    let mut bed = Bed::start(&["a", "b"]);
    bed.up().await;
    for n in 0..40 {
        bed.service.says("a", &format!("{n}"));
    }
    let seq = bed.service.says("a", "first");
    bed.secs(3).await;
    bed.service.overwrite("a", seq, rows::said("edited"));
    bed.service.delete("a", 3);
    bed.secs(3).await;
    bed.shelf.damage();
    // Noticed by another Bot's commit.
    bed.service.says("b", "noticed");
    bed.secs(3).await;
    assert!(bed.host.message().unwrap().contains("另存"));
    bed.service.says("a", "after");
    bed.secs(3).await;
    let before = shown(&bed, "a");
    assert_eq!(before.len(), 44);
    bed.crash().await;
    bed.run();
    bed.up().await;
    bed.secs(3).await;
    // As after any restart: a base that was revised or deleted isn't invented again, and the rest is as it was.
    let after = shown(&bed, "a");
    assert!(after.iter().all(|message| before.contains(message)), "{after:?}");
    let [edited, deleted] = ["first", "2"].map(|text| before.iter().position(|(.., shown)| shown == text).unwrap());
    let expected: Vec<_> =
        before.iter().enumerate().filter(|(n, _)| ![edited, deleted].contains(n)).map(|(_, m)| m).collect();
    assert_eq!(after.iter().collect::<Vec<_>>(), expected);
    assert!(bed.host.texts("b").contains(&"noticed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn d9_after_a_crash_ids_and_cursors_are_as_the_host_had_seen_them() {
    let mut bed = Bed::start(&["a"]);
    bed.up().await;
    let mut seen: Vec<(String, u64, String)> = Vec::new();
    for round in 0..20 {
        for n in 0..5 {
            bed.service.says("a", &format!("{round}.{n}"));
        }
        // Somewhere in the quiet second, the commit, or after it.
        bed.millis(900 + 17 * round).await;
        let before = shown(&bed, "a");
        assert!(before.starts_with(&seen) || seen.is_empty());
        bed.crash().await;
        bed.run();
        bed.up().await;
        bed.secs(3).await;
        seen = shown(&bed, "a");
        assert!(seen.starts_with(&before), "{before:?} / {seen:?}");
        assert_eq!(seen.len() as u64, 5 * (round + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn d8_marks_of_one_account_are_nothing_to_another() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.account("sub-ben", "2002");
    bed.service.add_bot("sub-ben", "a");
    bed.service.says("a", "one");
    bed.run();
    bed.up().await;
    bed.secs(2).await;
    let record = bed.host.record("a");
    bed.desk.sign_in_as("sub-ben");
    bed.secs(35).await;
    assert_ne!(bed.host.record("a"), record);
    bed.desk.sign_in_as(ANN);
    bed.secs(35).await;
    assert_eq!(bed.host.record("a"), record);
    assert!(bed.service.count(Request::is_list) > 0);
}

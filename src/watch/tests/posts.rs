//! What becomes of a post (POST2–POST5, H16, H17).

use std::time::Duration;

use super::bed::fault::{Answer, Fault, Gate, Request, transient};
use super::bed::frames::Manner;
use super::bed::host::Run;
use super::bed::{ANN, BEN, Bed, clock};
use crate::auth::TokenError;
use crate::records::{Failure, Notice, Outcome};
use crate::upstream::{Delivery, ErrorKind, SendStatus};

fn failed(failure: Failure) -> Outcome {
    Outcome::Failed(failure)
}

async fn ready() -> Bed {
    let bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed
}

/// The id of the message that completed it.
fn completed(run: &mut Run) -> String {
    match run.outcome() {
        Some(Outcome::Completed { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn post2_an_echo_of_the_stream_completes_the_run_after_its_head() {
    let bed = ready().await;
    let mut run = bed.host.post("a", "hello");
    bed.host.take();
    bed.millis(900).await;
    assert_eq!(run.outcome(), None, "not before it is readable");
    let outcome = run.settled().await;
    let message = bed.host.messages("a").pop().unwrap();
    assert_eq!(&*message.text, "hello");
    let Outcome::Completed { id, cursor } = outcome else { panic!("{outcome:?}") };
    assert_eq!((id, cursor.number), (message.id(1), message.number));
    bed.millis(1).await;
    let told = bed.host.told();
    assert!(told.iter().any(|n| matches!(n, Notice::Head { head: Some(head), .. } if *head == cursor)), "{told:?}");
    assert_eq!(bed.service.count(Request::is_status), 0);
}

#[tokio::test(start_paused = true)]
async fn post2_an_echo_before_the_answer_completes_the_run() {
    let bed = ready().await;
    bed.service.fault(Request::is_send, Fault::late(Duration::from_secs(10)));
    let mut run = bed.host.post("a", "hello");
    let mut next = bed.host.post("a", "next");
    bed.secs(2).await;
    completed(&mut run);
    assert_eq!(bed.service.count(Request::is_send), 1, "the next one still waits for the answer");
    bed.secs(20).await;
    completed(&mut next);
    // Whatever the answer says then.
    bed.service.mend();
    bed.service.fault(Request::is_send, Fault::done_but(ErrorKind::Refused).and_late(Duration::from_secs(5)));
    let mut run = bed.host.post("a", "again");
    bed.secs(2).await;
    completed(&mut run);
    bed.secs(20).await;
}

#[tokio::test(start_paused = true)]
async fn post2_an_echo_that_was_seen_goes_before_an_answer_that_says_no() {
    let bed = ready().await;
    bed.service.fault(Request::is_send, Fault::done_but(ErrorKind::Refused).and_late(Duration::from_millis(500)));
    let mut run = bed.host.post("a", "hello");
    bed.secs(3).await;
    completed(&mut run);
}

#[tokio::test(start_paused = true)]
async fn post2_an_echo_of_a_full_read_completes_the_run() {
    let bed = ready().await;
    bed.service.no_echo(true);
    bed.secs(20).await;
    let mut run = bed.host.post("a", "hello");
    bed.secs(1).await;
    // The stream breaks before the row is there, and the next one replays nothing: only the read brings it.
    bed.service.next_streams([Manner::NoReplay]);
    bed.service.end_streams();
    bed.service.echo("a", run.message_id, "hello");
    bed.secs(6).await;
    completed(&mut run);
}

#[tokio::test(start_paused = true)]
async fn post2_a_repeat_whose_echo_is_there_already_is_sent_with_the_same_id_and_settles_with_the_same_message() {
    let bed = ready().await;
    let mut first = bed.host.post("a", "hello");
    first.settled().await;
    let mut again = bed.host.post_as("a", first.message_id, "hello", None).unwrap();
    bed.secs(2).await;
    assert_eq!(completed(&mut again), completed(&mut first));
    assert_eq!(bed.service.count(Request::is_send), 2);
    assert_eq!(bed.service.sends_in("a"), 1);
    // Both at once, too.
    let mut one = bed.host.post("a", "twice");
    let mut two = bed.host.post_as("a", one.message_id, "twice", None).unwrap();
    bed.secs(3).await;
    assert_eq!(completed(&mut one), completed(&mut two));
    assert_eq!(bed.service.sends_in("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn post3_without_an_echo_60_s_after_the_answer_it_is_unknown() {
    let bed = ready().await;
    bed.service.no_echo(true);
    bed.service.fault(Request::is_send, Fault::late(Duration::from_secs(5)));
    let started = clock::millis();
    let mut run = bed.host.post("a", "hello");
    assert_eq!(run.settled().await, failed(Failure::Unknown));
    let took = clock::millis() - started;
    assert!((65_000..65_100).contains(&took), "{took}");
    assert_eq!(bed.service.count(Request::is_send), 1);
    assert_eq!(bed.service.count(Request::is_status), 0);
}

#[tokio::test(start_paused = true)]
async fn post3_an_echo_at_the_59th_second_waits_for_its_exposure() {
    let bed = ready().await;
    bed.service.no_echo(true);
    let mut run = bed.host.post("a", "hello");
    bed.millis(59_500).await;
    bed.service.echo("a", run.message_id, "hello");
    bed.millis(700).await;
    assert_eq!(run.outcome(), None, "seen, so the minute doesn't end it");
    bed.secs(1).await;
    completed(&mut run);
}

#[tokio::test(start_paused = true)]
async fn post3_an_echo_that_is_deleted_before_its_exposure_lets_the_minute_go_on() {
    let bed = ready().await;
    bed.service.no_echo(true);
    let started = clock::millis();
    let mut run = bed.host.post("a", "hello");
    bed.secs(10).await;
    let seq = bed.service.echo("a", run.message_id, "hello");
    bed.millis(500).await;
    bed.service.delete("a", seq);
    assert_eq!(run.settled().await, failed(Failure::Unknown));
    assert!((60_000..60_100).contains(&(clock::millis() - started)));
}

#[tokio::test(start_paused = true)]
async fn post3_an_echo_that_is_reset_away_lets_the_minute_go_on() {
    let bed = ready().await;
    bed.service.no_echo(true);
    let mut run = bed.host.post("a", "hello");
    bed.secs(59).await;
    bed.service.echo("a", run.message_id, "hello");
    bed.millis(500).await;
    bed.service.clear("a", 2);
    bed.secs(1).await;
    assert_eq!(run.outcome(), Some(failed(Failure::Unknown)));
}

#[tokio::test(start_paused = true)]
async fn a16_a_send_that_landed_before_the_connection_broke_is_not_sent_again() {
    let bed = ready().await;
    bed.service.fault(Request::is_send, Fault::done_but(ErrorKind::Broken).once());
    let mut run = bed.host.post("a", "hello");
    bed.secs(5).await;
    completed(&mut run);
    assert_eq!(bed.service.count(Request::is_send), 1);
    assert_eq!(bed.service.count(Request::is_status), 1);
    assert_eq!(bed.service.sends_in("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a16_without_an_echo_a_broken_send_is_unknown_after_60_s_and_its_status_asked_once() {
    for status in [SendStatus::NotFound, SendStatus::Other] {
        let bed = ready().await;
        bed.service.no_echo(true);
        bed.service.fault(Request::is_send, Fault::error(ErrorKind::Broken));
        bed.service.fault(Request::is_status, Fault::answer(Answer::Status(status)));
        let started = clock::millis();
        let mut run = bed.host.post("a", "hello");
        assert_eq!(run.settled().await, failed(Failure::Unknown), "{status:?}");
        assert!((60_000..60_100).contains(&(clock::millis() - started)));
        assert_eq!((bed.service.count(Request::is_send), bed.service.count(Request::is_status)), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn post3_not_found_after_an_answered_error_is_not_sent_and_rejected_is_refused() {
    for (kind, status, outcome) in [
        (transient(None), SendStatus::NotFound, Failure::NotSent),
        (ErrorKind::Permanent, SendStatus::NotFound, Failure::NotSent),
        (ErrorKind::Permanent, SendStatus::Rejected, Failure::Refused),
        (ErrorKind::Broken, SendStatus::Rejected, Failure::Refused),
        (transient(Some(3)), SendStatus::Other, Failure::Unknown),
    ] {
        let bed = ready().await;
        bed.service.fault(Request::is_send, Fault::error(kind.clone()));
        bed.service.fault(Request::is_status, Fault::answer(Answer::Status(status)));
        let mut run = bed.host.post("a", "hello");
        assert_eq!(run.settled().await, failed(outcome), "{kind} {status:?}");
        assert_eq!((bed.service.count(Request::is_send), bed.service.count(Request::is_status)), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn post3_a_status_that_cant_be_asked_leaves_the_run_waiting() {
    let bed = ready().await;
    bed.service.fault(Request::is_send, Fault::done_but(ErrorKind::Permanent));
    bed.service.fault(Request::is_status, Fault::error(ErrorKind::Broken));
    bed.service.no_echo(true);
    let mut run = bed.host.post("a", "hello");
    bed.secs(30).await;
    assert_eq!(run.outcome(), None);
    bed.service.echo("a", run.message_id, "hello");
    bed.secs(2).await;
    completed(&mut run);
    assert_eq!(bed.service.count(Request::is_status), 1);
}

#[tokio::test(start_paused = true)]
async fn post3_a_401_proves_that_nothing_was_posted_so_the_same_request_goes_once_more() {
    let bed = ready().await;
    bed.service.reject("sub-ann/1");
    let mut run = bed.host.post("a", "hello");
    bed.secs(3).await;
    completed(&mut run);
    let sends = bed.service.log(Request::is_send);
    assert_eq!(sends.len(), 2);
    assert_eq!(sends[0].1, sends[1].1, "the same request");
    assert_eq!(bed.desk.renewals(), 1);

    bed.service.fault(Request::is_send, Fault::error(ErrorKind::Auth));
    let mut run = bed.host.post("a", "hello again");
    bed.secs(3).await;
    assert_eq!(run.outcome(), Some(failed(Failure::SignedOut)));
    assert_eq!(bed.service.count(Request::is_send), 4, "once more, and no third time");
    assert_eq!(bed.service.count(Request::is_status), 0);
}

#[tokio::test(start_paused = true)]
async fn post3_a_401_whose_renewal_fails_in_passing_is_not_sent() {
    let bed = ready().await;
    bed.service.fault(Request::is_send, Fault::error(ErrorKind::Auth));
    bed.desk.no_renewal(Some(TokenError::Transient { detail: "no network".to_owned(), retry_after: None }));
    assert_eq!(bed.host.post("a", "hello").settled().await, failed(Failure::NotSent));
    bed.desk.no_renewal(Some(TokenError::SignInAgain("revoked".to_owned())));
    assert_eq!(bed.host.post("a", "hello").settled().await, failed(Failure::SignedOut));
}

#[tokio::test(start_paused = true)]
async fn post4_every_kind_of_error_has_its_outcome() {
    for (fault, outcome) in [
        (Fault::answer(Answer::Delivery(Delivery::Refused { code: "sessions".to_owned() })), Failure::Refused),
        (Fault::error(ErrorKind::Refused), Failure::Refused),
        (Fault::error(ErrorKind::Stale), Failure::Refused),
        (Fault::error(ErrorKind::NotSent), Failure::NotSent),
        // Asked for its status: the service doesn't know it.
        (Fault::error(ErrorKind::Permanent), Failure::NotSent),
        (Fault::error(transient(Some(1))), Failure::NotSent),
        (Fault::error(ErrorKind::Broken), Failure::Unknown),
        (Fault::answer(Answer::Delivery(Delivery::Unclear)), Failure::Unknown),
        (Fault::answer(Answer::Delivery(Delivery::Accepted)), Failure::Unknown),
    ] {
        let bed = ready().await;
        let name = format!("{fault:?}");
        bed.service.fault(Request::is_send, fault);
        let mut run = bed.host.post("a", "hello");
        assert_eq!(run.settled().await, failed(outcome), "{name}");
        assert_eq!(bed.service.count(Request::is_send), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn post4_no_token_is_not_sent_and_nobody_signed_in_is_signed_out() {
    let bed = ready().await;
    bed.desk.no_token(Some(TokenError::Transient { detail: "no network".to_owned(), retry_after: None }));
    assert_eq!(bed.host.post("a", "hello").settled().await, failed(Failure::NotSent));
    bed.desk.no_token(None);
    bed.desk.end(ANN);
    assert_eq!(bed.host.post("a", "hello").settled().await, failed(Failure::SignedOut));
    bed.secs(1).await;
    assert_eq!(bed.host.post("a", "hello").settled().await, failed(Failure::SignedOut));
    assert_eq!(bed.service.count(Request::is_send), 0);
}

#[tokio::test(start_paused = true)]
async fn post4_at_shutdown_begun_is_unknown_and_not_begun_is_not_sent() {
    let mut bed = ready().await;
    bed.service.no_echo(true);
    let held = Gate::new();
    let mut accepted = bed.host.post("b", "zero");
    bed.secs(1).await;
    bed.service.fault(Request::is_send, Fault::held(&held));
    let (mut begun, mut waiting) = (bed.host.post("a", "one"), bed.host.post("a", "two"));
    bed.millis(10).await;
    bed.host.handle.shutdown().await.unwrap();
    assert_eq!(accepted.outcome(), Some(failed(Failure::Unknown)));
    assert_eq!(begun.outcome(), Some(failed(Failure::Unknown)));
    assert_eq!(waiting.outcome(), Some(failed(Failure::NotSent)));
    bed.ended().await;
    assert_eq!(bed.host.post("a", "after the end").outcome(), Some(failed(Failure::NotSent)));
}

#[tokio::test(start_paused = true)]
async fn post4_posts_that_the_loop_never_saw_are_not_sent_at_shutdown() {
    let mut bed = ready().await;
    // Both are in the queue before the loop runs again.
    let stopping = bed.host.handle.clone();
    let mut runs: Vec<Run> = (0..20).map(|n| bed.host.post("a", &format!("{n}"))).collect();
    bed.stop().await;
    drop(stopping);
    for run in &mut runs {
        assert!(matches!(run.outcome(), Some(Outcome::Failed(Failure::NotSent | Failure::Unknown))));
    }
}

#[tokio::test(start_paused = true)]
async fn post4_at_sign_out_begun_is_unknown_and_not_begun_is_not_sent() {
    let bed = ready().await;
    bed.service.no_echo(true);
    let held = Gate::new();
    bed.service.fault(Request::is_send, Fault::held(&held));
    let (mut begun, mut waiting) = (bed.host.post("a", "one"), bed.host.post("a", "two"));
    bed.millis(10).await;
    bed.host.handle.sign_out().await.unwrap().unwrap();
    assert_eq!(begun.outcome(), Some(failed(Failure::Unknown)));
    assert_eq!(waiting.outcome(), Some(failed(Failure::NotSent)));
}

#[tokio::test(start_paused = true)]
async fn post4_what_waits_while_get_me_is_asked_goes_on_for_the_same_account_and_is_dropped_for_another() {
    for (subject, user, sent) in [("sub-ann-2", "1001", true), (BEN, "2002", false)] {
        let bed = ready().await;
        bed.service.account(subject, user);
        bed.service.add_bot(subject, "a");
        let (held, me) = (Gate::new(), Gate::new());
        bed.service.fault(Request::is_send, Fault::answer_held(&held).once());
        let (mut begun, mut waiting) = (bed.host.post("a", "one"), bed.host.post("a", "two"));
        bed.secs(2).await;
        completed(&mut begun);
        bed.service.fault(|r| *r == Request::Me, Fault::held(&me));
        bed.desk.sign_in_as(subject);
        bed.secs(30).await;
        held.open();
        bed.secs(1).await;
        assert_eq!(waiting.outcome(), None, "nobody knows yet whose sign-in it is");
        assert_eq!(bed.service.count(Request::is_send), 1);
        me.open();
        bed.secs(5).await;
        assert_eq!(bed.service.count(Request::is_send), if sent { 2 } else { 1 });
        if !sent {
            assert_eq!(waiting.outcome(), Some(failed(Failure::NotSent)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn post5_posts_to_one_bot_go_in_order_each_when_the_one_before_was_answered_or_failed() {
    let bed = ready().await;
    let held = Gate::new();
    bed.service.fault(Request::is_send, Fault::answer_held(&held).times(2));
    bed.service.fault(Request::is_send, Fault::error(ErrorKind::Refused).once());
    let mut runs: Vec<Run> = ["1", "2", "3", "4"].iter().map(|text| bed.host.post("a", text)).collect();
    bed.secs(5).await;
    assert_eq!(bed.service.count(Request::is_send), 1);
    let mut other = bed.host.post("b", "meanwhile");
    bed.secs(2).await;
    completed(&mut other);
    assert_eq!(bed.service.count(Request::is_send), 2, "another Bot waits for nobody");
    held.open();
    bed.secs(5).await;
    let texts: Vec<String> = bed
        .service
        .log(|r| r.is_send() && r.agent() == Some("a"))
        .into_iter()
        .filter_map(|(_, r)| match r {
            Request::Send(send) => Some(send.text.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["1", "2", "3", "4"]);
    assert!(runs.iter_mut().all(|run| run.outcome().is_some()));
}

#[tokio::test(start_paused = true)]
async fn post5_64_may_wait_and_more_are_not_sent() {
    let bed = ready().await;
    bed.service.fault(Request::is_send, Fault::slow(Duration::from_secs(3)).once());
    let mut runs: Vec<Run> = (0..70).map(|n| bed.host.post("a", &format!("{n}"))).collect();
    bed.secs(1).await;
    let refused = runs.iter_mut().filter_map(Run::outcome).filter(|o| *o == failed(Failure::NotSent)).count();
    assert_eq!(refused, 5, "one is being sent and 64 wait");
    bed.secs(60).await;
    let done = runs.iter_mut().filter_map(Run::outcome).filter(|o| matches!(o, Outcome::Completed { .. })).count();
    assert_eq!(done, 65);
    assert_eq!(bed.service.sends_in("a"), 65);
}

#[tokio::test(start_paused = true)]
async fn a17_an_echo_that_the_server_rewrote_is_matched_by_its_message_id() {
    let bed = ready().await;
    bed.service.rewrite(|_| "hello\n\nworld".to_owned());
    let mut run = bed.host.post("a", "hello <!-- cursor-x -->\n\n\n\n\n\nworld");
    bed.secs(3).await;
    completed(&mut run);
    assert_eq!(bed.host.texts("a"), ["hello\n\nworld"]);
}

#[tokio::test(start_paused = true)]
async fn h14_posts_are_accepted_before_the_record_opens() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(Request::is_list, Fault::slow(Duration::from_secs(20)));
    bed.run();
    bed.until("the record is there", |bed| !bed.host.bots().is_empty()).await;
    let mut run = bed.host.post("a", "early");
    bed.secs(5).await;
    assert!(!bed.host.readable("a"));
    assert_eq!(bed.service.count(Request::is_send), 1);
    assert_eq!(run.outcome(), None);
    bed.secs(100).await;
    completed(&mut run);
}

#[tokio::test(start_paused = true)]
async fn h16_a_reply_to_an_ordinary_message_carries_the_native_id() {
    let bed = ready().await;
    let seq = bed.service.says("a", "question");
    bed.secs(2).await;
    let mut run = bed.host.reply("a", "answer", &super::bed::service::message_of(seq));
    bed.secs(3).await;
    completed(&mut run);
    let message = bed.host.messages("a").pop().unwrap();
    assert_eq!(message.reply_to, Some(super::bed::service::entry_of(seq)));
}

//! Who is signed in, and which Bots there are (H8, H9).

use std::time::Duration;

use super::bed::fault::{Answer, Fault, Gate, Request, transient};
use super::bed::{ANN, BEN, Bed, rows};
use crate::auth::{SignInError, TokenError};
use crate::records::{Failure, Notice, Outcome, SignInState, Withdrawal};
use crate::upstream::{ErrorKind, Me};

fn is_me(request: &Request) -> bool {
    *request == Request::Me
}

fn is_agents(request: &Request) -> bool {
    *request == Request::Agents
}

/// Ben has an account with the Bot `b`; the Bots named belong to Ann.
fn two_accounts(bots: &[&str]) -> Bed {
    let bed = Bed::idle(bots);
    bed.service.account(BEN, "2002");
    bed.service.add_bot(BEN, "b");
    bed
}

#[tokio::test(start_paused = true)]
async fn h9_records_come_after_the_sign_in_and_open_after_their_first_read() {
    let mut bed = Bed::idle(&["a", "b"]);
    bed.service.says("a", "hello");
    bed.service.says("b", "there");
    bed.run();
    bed.up().await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    assert_eq!(bed.host.message(), None);
    assert_eq!(bed.host.bots(), ["a", "b"]);
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["hello"]);
    assert_eq!(bed.host.texts("b"), ["there"]);
}

#[tokio::test(start_paused = true)]
async fn h9_every_30_s_the_sign_in_is_read_anew_and_the_roster_listed() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let read = bed.desk.read();
    bed.secs(300).await;
    let lists: Vec<i64> = bed.service.log(is_agents).into_iter().map(|(at, _)| at).collect();
    assert_eq!(lists.len(), 11, "{lists:?}");
    assert!(lists.windows(2).all(|pair| pair[1] - pair[0] == 30_000), "{lists:?}");
    assert!((10..=25).contains(&(bed.desk.read() - read)), "{}", bed.desk.read() - read);
    assert_eq!(bed.service.count(is_me), 1, "GetMe is asked after a sign-in alone");
}

#[tokio::test(start_paused = true)]
async fn h9_at_once_on_roster_changed() {
    let bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.secs(2).await;
    bed.service.add_bot(ANN, "c");
    bed.service.remove_bot("b");
    bed.service.rename_bot("a", "新名字");
    bed.host.take();
    bed.service.roster_changed();
    bed.millis(100).await;
    assert_eq!(bed.host.bots(), ["a", "c"]);
    assert_eq!(bed.host.withdrawn(), [Withdrawal::Deleted]);
    let put = |notice: &Notice| matches!(notice, Notice::Put(view) if view.info.bot.name == "新名字");
    assert!(bed.host.told().iter().any(put));
    // A Bot that is new in the roster is read in full and brought by the stream that is up.
    bed.opened("c").await;
    bed.service.says("c", "new here");
    bed.secs(2).await;
    assert_eq!(bed.host.texts("c"), ["new here"]);
    assert_eq!(bed.service.watches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn h9_get_me_is_asked_again_when_the_subject_changed_but_not_after_a_renewal() {
    let bed = two_accounts(&["a"]);
    let mut bed = bed;
    bed.run();
    bed.up().await;
    bed.service.reject("sub-ann/1");
    bed.secs(60).await;
    assert_eq!(bed.desk.renewals(), 1);
    assert_eq!(bed.service.count(is_me), 1);
    bed.desk.sign_in_as(BEN);
    bed.secs(31).await;
    assert_eq!(bed.service.count(is_me), 2);
    assert_eq!(bed.host.bots(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn h9_only_a_successful_answer_without_a_user_id_falls_back_to_auth_id() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.fault(is_me, Fault::error(transient(None)).times(3));
    bed.run();
    bed.millis(500).await;
    assert!(bed.host.bots().is_empty(), "no record before GetMe succeeded");
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    assert!(bed.host.message().unwrap().contains("<t:2026-01-01T00:00:00.000Z>"), "{:?}", bed.host.message());
    bed.up().await;
    let by_user_id = bed.host.record("a");
    bed.stop().await;

    let mut bed = Bed::idle(&["a"]);
    bed.service.me_is(ANN, Me { user_id: None, auth_id: Some("auth|ann".to_owned()), name: None });
    bed.run();
    bed.up().await;
    assert_ne!(bed.host.record("a"), by_user_id);

    let record = bed.host.record("a").to_string();
    assert_eq!(record.len(), "grok-bot::a".len() + 64);
    assert!(!record.contains("auth"), "{record}");
    assert_eq!(bed.host.status().account.unwrap().name, "Grok 账号");
}

#[tokio::test(start_paused = true)]
async fn h9_another_account_withdraws_the_records_and_drops_what_was_begun() {
    let mut bed = two_accounts(&["a"]);
    bed.service.no_echo(true);
    bed.run();
    bed.up().await;
    let held = Gate::new();
    bed.service.fault(Request::is_send, Fault::answer_held(&held));
    let (mut sending, mut waiting) = (bed.host.post("a", "one"), bed.host.post("a", "two"));
    bed.millis(10).await;
    bed.desk.sign_in_as(BEN);
    bed.secs(31).await;
    assert_eq!(bed.host.bots(), ["b"]);
    assert_eq!(bed.host.withdrawn(), [Withdrawal::Account]);
    assert_eq!(sending.outcome(), Some(Outcome::Failed(Failure::Unknown)));
    assert_eq!(waiting.outcome(), Some(Outcome::Failed(Failure::NotSent)));
    assert_eq!(bed.host.status().account.unwrap().name, "Name of sub-ben");
    held.open();
    bed.secs(60).await;
    assert_eq!(bed.service.count(Request::is_send), 1, "what waited for Ann isn't sent as Ben");
}

#[tokio::test(start_paused = true)]
async fn h9_a_list_that_was_asked_as_one_account_never_becomes_anothers() {
    let mut bed = two_accounts(&["a"]);
    bed.run();
    bed.up().await;
    let held = Gate::new();
    bed.service.fault(is_agents, Fault::answer_held(&held).once());
    bed.service.roster_changed();
    bed.millis(10).await;
    bed.desk.sign_in_as(BEN);
    bed.secs(31).await;
    bed.host.take();
    held.open();
    bed.secs(31).await;
    assert_eq!(bed.host.bots(), ["b"]);
    let told = bed.host.told();
    let of_ann = |notice: &&Notice| matches!(notice, Notice::Put(view) if view.info.bot.agent_id.as_str() == "a");
    assert_eq!(told.iter().filter(of_ann).count(), 0, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn h9_a_changed_file_is_noticed_before_a_list_of_the_new_account_is_taken_for_the_old_one() {
    let mut bed = two_accounts(&["a"]);
    bed.run();
    bed.up().await;
    bed.desk.sign_in_as(BEN);
    bed.host.take();
    bed.service.roster_changed();
    bed.secs(2).await;
    assert_eq!(bed.host.bots(), ["b"]);
    assert_eq!(bed.host.withdrawn(), [Withdrawal::Account], "withdrawn for the account, not as deleted Bots");
}

#[tokio::test(start_paused = true)]
async fn h9_sign_out_withdraws_and_the_next_sign_in_brings_all_back_under_the_same_ids() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "kept");
    bed.run();
    bed.up().await;
    let record = bed.host.record("a");
    assert_eq!(bed.host.handle.sign_out().await, Ok(Ok(())));
    assert_eq!(bed.host.state(), SignInState::SignedOut);
    assert!(bed.host.bots().is_empty());
    bed.millis(10).await;
    assert_eq!(bed.service.open_streams(), 0);
    assert_eq!(bed.host.withdrawn(), [Withdrawal::SignedOut]);
    bed.secs(120).await;
    assert_eq!(bed.service.count(is_agents), 1, "nothing is asked while nobody is signed in");

    let link = bed.host.handle.sign_in().await.unwrap().unwrap();
    assert_eq!(bed.host.state(), SignInState::Confirming { url: link.url.clone(), expires_at: link.expires_at });
    assert_eq!(bed.host.handle.sign_in().await.unwrap().unwrap(), link, "the same link while it is pending");
    bed.desk.redeem_with(Ok(ANN));
    bed.up().await;
    assert_eq!(bed.host.record("a"), record);
    assert_eq!(bed.host.texts("a"), ["kept"]);
    assert_eq!(bed.service.count(is_me), 2);
}

#[tokio::test(start_paused = true)]
async fn h9_a_sign_out_in_another_process_is_noticed_within_30_s() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.desk.forget();
    bed.secs(31).await;
    assert!(bed.host.bots().is_empty());
    assert_eq!(bed.host.state(), SignInState::SignedOut);
    assert_eq!(bed.service.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn h8_a_failed_sign_out_says_so_and_leaves_all_as_it_was() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.desk.sign_out_fails();
    assert!(bed.host.handle.sign_out().await.unwrap().is_err());
    assert_eq!(bed.host.bots(), ["a"]);
    assert_eq!(bed.host.state(), SignInState::SignedIn);
}

#[tokio::test(start_paused = true)]
async fn h8_cancel_and_expiry_return_to_the_state_before() {
    let mut bed = Bed::idle(&["a"]);
    bed.desk.forget();
    bed.run();
    bed.secs(1).await;
    bed.host.handle.sign_in().await.unwrap().unwrap();
    bed.host.handle.cancel_sign_in().await.unwrap();
    bed.millis(10).await;
    assert_eq!(bed.host.state(), SignInState::SignedOut);
    assert_eq!(bed.desk.cancelled(), 1, "the poll is dropped");

    bed.host.handle.sign_in().await.unwrap().unwrap();
    bed.secs(901).await;
    assert_eq!(bed.host.state(), SignInState::SignedOut);
    assert!(bed.host.message().unwrap().contains("已过期"));

    bed.host.handle.sign_in().await.unwrap().unwrap();
    bed.desk.redeem_with(Err(SignInError::Policy));
    bed.millis(10).await;
    assert!(bed.host.message().unwrap().contains("策略"));
    bed.desk.sign_in_as(ANN);
    bed.up().await;
    assert_eq!(bed.host.message(), None);
    assert_eq!(bed.desk.cancelled(), 1);

    // While somebody is signed in, account and records stay.
    bed.host.handle.sign_in().await.unwrap().unwrap();
    assert!(matches!(bed.host.state(), SignInState::Confirming { .. }));
    assert_eq!(bed.host.bots(), ["a"]);
    assert!(bed.host.status().account.is_some());
    bed.host.handle.cancel_sign_in().await.unwrap();
    assert_eq!(bed.host.state(), SignInState::SignedIn);
}

#[tokio::test(start_paused = true)]
async fn h8_sign_in_again_keeps_records_readable_shows_no_activity_and_posts_settle_signed_out() {
    let mut bed = Bed::idle(&["a"]);
    bed.service.says("a", "kept");
    bed.run();
    bed.up().await;
    bed.service.live("a", rows::tool("looking"));
    bed.secs(2).await;
    assert_eq!(bed.host.activity("a").as_deref(), Some("looking"));
    let held = Gate::new();
    bed.service.no_echo(true);
    bed.service.fault(Request::is_send, Fault::answer_held(&held));
    let (mut sending, mut waiting) = (bed.host.post("a", "one"), bed.host.post("a", "two"));
    bed.millis(10).await;
    bed.desk.end(ANN);
    bed.secs(31).await;
    assert_eq!(bed.host.state(), SignInState::SignInAgain);
    assert!(bed.host.message().unwrap().contains("重新登录"));
    assert_eq!(bed.host.texts("a"), ["kept"]);
    assert_eq!(bed.host.activity("a"), None);
    assert!(bed.host.status().account.is_some());
    assert_eq!(sending.outcome(), Some(Outcome::Failed(Failure::Unknown)), "it may have arrived");
    assert_eq!(waiting.outcome(), Some(Outcome::Failed(Failure::SignedOut)));
    assert_eq!(bed.host.post("a", "three").settled().await, Outcome::Failed(Failure::SignedOut));
    let watches = bed.service.watches().len();
    bed.secs(300).await;
    assert_eq!(bed.service.watches().len(), watches, "no stream while nobody is surely signed in");
    held.open();
    bed.desk.sign_in_as(ANN);
    bed.secs(40).await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    assert_eq!(bed.service.open_streams(), 1);
    assert!(bed.host.withdrawn().is_empty());
}

#[tokio::test(start_paused = true)]
async fn h8_a_sign_in_that_ended_while_get_me_was_asked_comes_back() {
    let mut bed = Bed::idle(&["a"]);
    let held = Gate::new();
    bed.service.fault(is_me, Fault::answer_held(&held).once());
    bed.run();
    bed.secs(1).await;
    bed.desk.end(ANN);
    bed.secs(30).await;
    held.open();
    bed.secs(5).await;
    assert_eq!(bed.host.state(), SignInState::SignInAgain);
    bed.desk.sign_in_as(ANN);
    bed.secs(35).await;
    assert_eq!(bed.host.bots(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn h8_a_passing_network_failure_keeps_signed_in_and_says_since_when() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.fault(is_agents, Fault::error(ErrorKind::NotSent));
    bed.secs(100).await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    let message = bed.host.message().unwrap();
    assert!(message.contains("<t:2026-01-01T00:00:30.000Z>"), "since the first failure: {message}");
    assert_eq!(bed.host.bots(), ["a"], "a failed list withdraws nothing");
    bed.service.mend();
    bed.secs(31).await;
    assert_eq!(bed.host.message(), None);

    let detail = "no network".to_owned();
    bed.desk.no_token(Some(TokenError::Transient { detail, retry_after: None }));
    bed.secs(31).await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    assert!(bed.host.message().is_some());
    bed.desk.no_token(None);
    bed.secs(31).await;
    assert_eq!(bed.host.message(), None);
}

#[tokio::test(start_paused = true)]
async fn h9_a_bot_that_comes_back_has_the_same_ids() {
    let bed = Bed::start(&["a", "b"]);
    bed.up().await;
    bed.service.says("b", "once");
    bed.secs(2).await;
    let before = bed.host.messages("b");
    bed.service.remove_bot("b");
    bed.service.roster_changed();
    bed.secs(1).await;
    assert_eq!(bed.host.bots(), ["a"]);
    bed.service.add_bot(ANN, "b");
    bed.service.roster_changed();
    bed.secs(1).await;
    bed.opened("b").await;
    let after = bed.host.messages("b");
    assert_eq!(after.len(), 1);
    assert_eq!((after[0].id(1), after[0].number), (before[0].id(1), before[0].number));
}

#[tokio::test(start_paused = true)]
async fn h9_an_empty_roster_is_an_answer_and_a_stream_stays_up() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let empty = Answer::Roster(crate::upstream::Roster::default());
    bed.service.fault(is_agents, Fault::answer(empty).once());
    bed.secs(30).await;
    assert!(bed.host.bots().is_empty());
    assert_eq!(bed.service.open_streams(), 1);
    bed.secs(30).await;
    assert_eq!(bed.host.bots(), ["a"]);
    bed.pass(Duration::from_secs(2)).await;
    assert!(bed.host.readable("a"));
}

#[tokio::test(start_paused = true)]
async fn act5_a_bot_that_is_new_on_a_running_stream_shows_what_it_does() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.add_bot(ANN, "b");
    bed.service.live("b", rows::tool("first steps"));
    bed.service.roster_changed();
    bed.secs(2).await;
    assert_eq!(bed.host.activity("b").as_deref(), Some("first steps"));
    bed.service.live("b", rows::tool("second steps"));
    bed.secs(1).await;
    assert_eq!(bed.host.activity("b").as_deref(), Some("second steps"));
    bed.service.live("b", rows::idle());
    bed.secs(1).await;
    assert_eq!(bed.host.activity("b"), None);
}

#[tokio::test(start_paused = true)]
async fn h9_a_service_that_reports_changes_without_end_is_listed_once_a_second() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.secs(5).await;
    let before = bed.service.count(is_agents);
    for _ in 0..1_000 {
        bed.service.roster_changed();
        bed.millis(10).await;
    }
    let lists = bed.service.count(is_agents) - before;
    assert!((9..=11).contains(&lists), "{lists}");
    bed.service.rename_bot("a", "the last name");
    bed.service.roster_changed();
    bed.millis(1_100).await;
    assert_eq!(bed.host.handle.records()[0].info.bot.name, "the last name");
}

#[tokio::test(start_paused = true)]
async fn h9_a_new_sign_in_of_the_same_account_keeps_its_records() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.says("a", "kept");
    bed.secs(2).await;
    bed.host.handle.sign_in().await.unwrap().unwrap();
    bed.desk.redeem_with(Ok(ANN));
    bed.secs(5).await;
    assert_eq!(bed.service.count(is_me), 2, "GetMe is asked after every sign-in");
    assert!(bed.host.withdrawn().is_empty());
    assert_eq!(bed.host.texts("a"), ["kept"]);
    assert_eq!(bed.service.open_streams(), 1);
    assert_eq!(bed.host.state(), SignInState::SignedIn);
}

#[tokio::test(start_paused = true)]
async fn a_changed_harness_counts_from_the_next_full_read() {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    bed.service.append("a", rows::murmured("to itself"));
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["to itself"]);
    bed.service.moves_to("a", crate::model::Harness::Box);
    bed.secs(35).await;
    assert_eq!(bed.host.texts("a"), ["to itself"]);
    bed.service.end_streams();
    // The head has passed its number: it waits a minute for another exposure to share a cursor with.
    bed.secs(70).await;
    assert_eq!(bed.host.texts("a"), ["to itself", "xe1"]);
    bed.service.append("a", rows::murmured("again"));
    bed.secs(2).await;
    assert_eq!(bed.host.messages("a").len(), 2);
}

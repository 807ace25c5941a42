use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tokio::sync::mpsc;

use super::*;
use crate::model::{Account, Activity, AgentId, Author, Cursor, EntryId, Harness, Message, TurnFailure, Version, Wall};

fn account() -> Account {
    Account { digest: "d1".into(), name: "小明".into() }
}

fn info(agent: &str, name: &str) -> RecordInfo {
    let agent_id = AgentId::from(agent);
    RecordInfo {
        id: record_id(&account(), &agent_id),
        bot: Bot { agent_id, name: name.into(), harness: Harness::Other },
        account: account(),
    }
}

fn message(number: u64) -> Message {
    Message {
        number,
        seq: number,
        entry: EntryId::from(format!("e{number}")),
        part: Part::Entry,
        version: Version::Base,
        from: Author::Bot,
        at: Wall(0),
        text: Arc::from("x"),
        reply_to: None,
        meta: None,
    }
}

fn busy(status: &str) -> ActivityNotice {
    ActivityNotice { activity: Some(Activity { status: Arc::from(status) }), failure: None }
}

fn idle(failed: bool) -> ActivityNotice {
    ActivityNotice {
        activity: None,
        failure: failed.then(|| TurnFailure { code: Arc::from("TIMEOUT"), summary: Arc::from("s") }),
    }
}

fn after(generation: u128, number: u128) -> Bound {
    Bound::After(Place { generation, number })
}

fn drain(feed: &mut Feed) -> Vec<Notice> {
    std::iter::from_fn(|| feed.try_next()).collect()
}

fn sides() -> (Handle, Publisher, mpsc::Receiver<Command>) {
    let (commands, wishes) = mpsc::channel(4);
    let (handle, publisher) = new(commands);
    (handle, publisher, wishes)
}

/// One line a notice, so that a test shows the order at a glance.
fn draw(notices: &[Notice]) -> Vec<String> {
    let head = |head: &Option<Cursor>| head.map_or("null".to_owned(), |head| head.to_string());
    let line = |notice: &Notice| match notice {
        Notice::Status(view) => format!("status {}", view.items.len()),
        Notice::Put(view) => format!("put {} {}", view.info.bot.name, head(&view.head)),
        Notice::Withdrawn { reason, .. } => format!("withdrawn {reason:?}"),
        Notice::Head { head: at, .. } => format!("head {}", head(at)),
        Notice::Activity { notice, .. } => format!(
            "activity {}{}",
            notice.activity.as_ref().map_or("null", |activity| &activity.status),
            if notice.failure.is_some() { " failed" } else { "" }
        ),
    };
    notices.iter().map(line).collect()
}

#[test]
fn h14_a_record_is_not_ready_until_it_was_opened_and_again_after_a_reset() {
    let (handle, publisher, _wishes) = sides();
    let record = info("a", "A");
    let id = record.id.clone();
    assert_eq!(handle.read(&id, Bound::Newest, 50), Err(ReadError::NotFound));
    publisher.put(record);
    assert_eq!(handle.read(&id, Bound::Newest, 50), Err(ReadError::NotReady));
    assert_eq!(handle.read(&id, after(1, 1), 50), Err(ReadError::NotReady));
    publisher.opened(&id, 3, vec![message(5)], Some(5));
    assert_eq!(handle.read(&id, Bound::Newest, 50).unwrap().messages.to_vec(), [message(5)]);
    publisher.reset(&id, Some(4));
    assert_eq!(handle.read(&id, Bound::Newest, 50), Err(ReadError::NotReady));
    assert_eq!(handle.read(&id, after(3, 5), 50), Err(ReadError::HistoryReset { head: None }));
    assert_eq!(handle.read(&id, after(4, 0), 50), Err(ReadError::NotReady));
    publisher.reset(&id, None);
    assert_eq!(handle.read(&id, after(3, 5), 50), Err(ReadError::NotReady));
}

#[test]
fn h13_cursor_of_another_generation_is_history_reset() {
    let (handle, publisher, _wishes) = sides();
    let id = info("a", "A").id;
    publisher.put(info("a", "A"));
    publisher.opened(&id, 3, vec![message(5)], Some(5));
    let head = Some(Cursor { generation: 3, number: 5 });
    for generation in [0, 2, 4, u128::MAX] {
        assert_eq!(handle.read(&id, after(generation, 5), 50), Err(ReadError::HistoryReset { head }));
    }
    assert!(handle.read(&id, after(3, u128::MAX), 50).unwrap().messages.is_empty());
}

#[test]
fn h4_heads_and_activities_coalesce_in_their_older_place_with_the_newer_value() {
    let (handle, publisher, _wishes) = sides();
    let (a, b) = (info("a", "A").id, info("b", "B").id);
    publisher.put(info("a", "A"));
    publisher.put(info("b", "B"));
    publisher.opened(&a, 1, vec![], None);
    publisher.opened(&b, 1, vec![], None);
    let mut feed = handle.feed();
    assert_eq!(draw(&drain(&mut feed)), ["status 0", "put A null", "put B null", "head null", "head null", "status 2"]);
    publisher.append(&a, vec![message(1)], 1);
    publisher.activity(&a, busy("one"));
    publisher.append(&b, vec![message(1)], 1);
    for number in 2..1000 {
        publisher.append(&a, vec![message(number)], number);
        publisher.activity(&a, busy("two"));
    }
    assert_eq!(feed.len(), 3);
    assert_eq!(draw(&drain(&mut feed)), ["head 1:999", "activity two", "head 1:1"]);
}

#[test]
fn h18_an_empty_record_says_so_to_a_host_that_may_hold_messages_of_its_old_life() {
    let (handle, publisher, _wishes) = sides();
    let id = info("a", "A").id;
    let mut early = handle.feed();
    publisher.put(info("a", "A"));
    assert_eq!(draw(&drain(&mut early)), ["status 0", "put A null", "status 1"]);
    // Not readable yet: nothing is said, because it may well have what the host holds.
    assert_eq!(draw(&drain(&mut handle.feed())), ["status 0", "put A null", "status 1"]);
    // The history was cleared while this program didn't run: no reset is told, and no head will come.
    publisher.opened(&id, 2, vec![], None);
    assert_eq!(draw(&drain(&mut early)), ["head null"]);
    // A host that comes later is in the same place.
    assert_eq!(draw(&drain(&mut handle.feed())), ["status 0", "put A null", "head null", "status 1"]);
    // It was reset while it ran: said once.
    publisher.append(&id, vec![message(1)], 1);
    assert_eq!(draw(&drain(&mut early)), ["head 2:1"]);
    publisher.reset(&id, Some(3));
    assert_eq!(draw(&drain(&mut early)), ["head null"]);
    publisher.opened(&id, 3, vec![], None);
    assert_eq!(draw(&drain(&mut early)), [""; 0]);
}

#[test]
fn h8_a_name_that_the_page_alone_showed_in_passing_doesnt_stay_on_it() {
    let (handle, publisher, _wishes) = sides();
    let mut feed = handle.feed();
    drain(&mut feed);
    publisher.put(info("a", "A"));
    assert_eq!(draw(&feed.try_next().into_iter().collect::<Vec<_>>()), ["put A null"]);
    publisher.put(info("a", "B"));
    assert_eq!(feed.try_next(), Some(Notice::Status(handle.status_view())), "the page, with the name of the moment");
    publisher.put(info("a", "A"));
    assert_eq!(drain(&mut feed).last(), Some(&Notice::Status(handle.status_view())), "the page again");
}

#[test]
fn h4_a_withdrawal_drops_what_was_queued_and_a_put_never_told() {
    let (handle, publisher, _wishes) = sides();
    let id = info("a", "A").id;
    let mut feed = handle.feed();
    drain(&mut feed);
    publisher.put(info("a", "A"));
    publisher.opened(&id, 1, vec![message(1)], Some(1));
    publisher.withdraw(&id, Withdrawal::Deleted);
    assert_eq!(drain(&mut feed), []);
    publisher.put(info("a", "A"));
    assert_eq!(draw(&drain(&mut feed)), ["put A null", "status 1"]);
    publisher.opened(&id, 1, vec![message(1)], Some(1));
    publisher.activity(&id, busy("x"));
    publisher.put(info("a", "A2"));
    publisher.withdraw(&id, Withdrawal::Account);
    publisher.put(info("a", "A3"));
    assert_eq!(draw(&drain(&mut feed)), ["withdrawn Account", "put A3 null", "status 1"]);
}

#[test]
fn h14_a_reset_tells_the_missing_head_at_once() {
    let (handle, publisher, _wishes) = sides();
    let id = info("a", "A").id;
    publisher.put(info("a", "A"));
    publisher.opened(&id, 1, vec![message(1)], Some(1));
    let mut feed = handle.feed();
    assert_eq!(draw(&drain(&mut feed)), ["status 0", "put A 1:1", "status 1"]);
    publisher.reset(&id, Some(2));
    assert_eq!(draw(&drain(&mut feed)), ["head null"]);
    publisher.opened(&id, 2, vec![message(3)], Some(3));
    assert_eq!(draw(&drain(&mut feed)), ["head 2:3"]);
}

#[test]
fn act6_an_activity_is_told_only_when_it_differs_from_the_last_one_told() {
    let (handle, publisher, _wishes) = sides();
    let id = info("a", "A").id;
    publisher.put(info("a", "A"));
    publisher.activity(&id, busy("x"));
    let mut feed = handle.feed();
    let first = drain(&mut feed);
    assert!(matches!(&first[1], Notice::Put(view) if view.activity == busy("x").activity));
    publisher.activity(&id, busy("y"));
    publisher.activity(&id, busy("x"));
    assert_eq!(drain(&mut feed), []);
    publisher.activity(&id, idle(true));
    assert_eq!(draw(&drain(&mut feed)), ["activity null failed"]);
    // The turn failed, and a new one began before anybody was told: the latest wins.
    publisher.activity(&id, busy("z"));
    publisher.activity(&id, idle(true));
    publisher.activity(&id, busy("w"));
    assert_eq!(draw(&drain(&mut feed)), ["activity w"]);
}

#[test]
fn h10_a_put_is_told_only_where_the_title_or_a_participant_changed() {
    let (handle, publisher, _wishes) = sides();
    publisher.put(info("a", "A"));
    let mut feed = handle.feed();
    drain(&mut feed);
    let mut moved = info("a", "A");
    moved.bot.harness = Harness::Box;
    publisher.put(moved.clone());
    assert_eq!(drain(&mut feed), []);
    assert_eq!(handle.record(&moved.id).unwrap().info.bot.harness, Harness::Box);
    publisher.put(info("a", "B"));
    assert_eq!(draw(&drain(&mut feed)), ["put B null", "status 1"]);
}

#[test]
fn h17_a_mark_is_passed_once_the_heads_queued_before_it_are_told() {
    let (handle, publisher, _wishes) = sides();
    let id = info("a", "A").id;
    publisher.put(info("a", "A"));
    publisher.opened(&id, 1, vec![], None);
    let mut feed = handle.feed();
    drain(&mut feed);
    publisher.append(&id, vec![message(1)], 1);
    let mark = feed.mark();
    // A head that keeps moving keeps its place, so the settle behind the mark can't starve.
    publisher.append(&id, vec![message(2)], 2);
    assert!(!feed.passed(mark));
    assert_eq!(draw(&feed.try_next().into_iter().collect::<Vec<_>>()), ["head 1:2"]);
    publisher.append(&id, vec![message(3)], 3);
    assert!(feed.passed(mark));
}

#[test]
fn h16_replies_resolve_against_the_messages_held() {
    let (handle, publisher, mut wishes) = sides();
    let id = info("a", "A").id;
    let request = |record: &RecordId, reply_to: Option<&str>| PostRequest {
        record: record.clone(),
        message_id: uuid::Uuid::nil(),
        text: Arc::from("hi"),
        reply_to: reply_to.map(str::to_owned),
    };
    assert_eq!(handle.post(request(&id, None)).unwrap_err(), PostRefusal::RecordNotFound);
    publisher.put(info("a", "A"));
    assert_eq!(handle.post(request(&id, Some("1:e1"))).unwrap_err(), PostRefusal::UnknownReply);
    publisher.opened(&id, 1, vec![message(1)], Some(1));
    assert_eq!(handle.post(request(&id, Some("2:e1"))).unwrap_err(), PostRefusal::UnknownReply);
    let _outcome = handle.post(request(&id, Some("1:e1"))).unwrap();
    let Some(Command::Post { reply_to, .. }) = wishes.try_recv().ok() else {
        panic!("no post came");
    };
    let entry = EntryId::from("e1");
    assert_eq!(reply_to, Some(ReplyTarget { entry, part: Part::Entry }));
}

#[test]
fn post4_a_post_that_the_loop_cannot_take_is_not_sent() {
    let (handle, publisher, wishes) = sides();
    publisher.put(info("a", "A"));
    let request =
        PostRequest { record: info("a", "A").id, message_id: uuid::Uuid::nil(), text: Arc::from("hi"), reply_to: None };
    let mut taken: Vec<_> = (0..4).map(|_| handle.post(request.clone()).unwrap()).collect();
    assert!(taken.iter_mut().all(|outcome| outcome.try_recv().is_err()));
    let mut full = handle.post(request.clone()).unwrap();
    assert_eq!(full.try_recv(), Ok(Outcome::Failed(Failure::NotSent)));
    drop(wishes);
    let mut stopped = handle.post(request).unwrap();
    assert_eq!(stopped.try_recv(), Ok(Outcome::Failed(Failure::NotSent)));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_next_loses_no_change() {
    let (handle, publisher, _wishes) = sides();
    let mut feed = handle.feed();
    assert_eq!(draw(&[feed.next().await]), ["status 0"]);
    let wait = std::time::Duration::from_secs(1);
    assert!(tokio::time::timeout(wait, feed.next()).await.is_err());
    publisher.put(info("a", "A"));
    assert!(tokio::time::timeout(wait, feed.ready()).await.is_ok());
    assert_eq!(draw(&[feed.next().await]), ["put A null"]);
}

#[test]
fn a_dropped_feed_costs_nothing_more() {
    let (handle, publisher, _wishes) = sides();
    let (first, mut second) = (handle.feed(), handle.feed());
    drop(first);
    publisher.put(info("a", "A"));
    assert_eq!(draw(&drain(&mut second)), ["status 0", "put A null", "status 1"]);
}

/// What the loop or a reader does, over three Bots.
#[derive(Clone, Debug)]
enum Step {
    Put(usize, u8),
    Withdraw(usize),
    Open(usize),
    Append(usize),
    Late(usize),
    Reset(usize),
    Busy(usize, u8),
    Idle(usize, bool),
    Status(u8),
    Read(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3usize, 0..3u8).prop_map(|(bot, name)| Step::Put(bot, name)),
        (0..3usize).prop_map(Step::Withdraw),
        (0..3usize).prop_map(Step::Open),
        (0..3usize).prop_map(Step::Append),
        (0..3usize).prop_map(Step::Late),
        (0..3usize).prop_map(Step::Reset),
        (0..3usize, 0..3u8).prop_map(|(bot, status)| Step::Busy(bot, status)),
        (0..3usize, any::<bool>()).prop_map(|(bot, failed)| Step::Idle(bot, failed)),
        (0..3u8).prop_map(Step::Status),
        (1..6u8).prop_map(Step::Read),
    ]
}

/// A host that believes what it is told, and checks that it may.
#[derive(Default)]
struct Reader {
    records: BTreeMap<RecordId, RecordView>,
    status: Option<StatusView>,
}

impl Reader {
    fn take(&mut self, notice: Notice) -> Result<(), TestCaseError> {
        match notice {
            Notice::Status(view) => {
                for (record, _) in &view.items {
                    prop_assert!(self.records.contains_key(record), "a status names a record before its put");
                }
                self.status = Some(view);
            }
            Notice::Put(view) => {
                self.records.insert(view.info.id.clone(), view);
            }
            Notice::Withdrawn { record, .. } => {
                prop_assert!(self.records.remove(&record).is_some(), "a withdrawal of nothing");
            }
            Notice::Head { record, head } => {
                let Some(view) = self.records.get_mut(&record) else {
                    return Err(TestCaseError::fail("a head of a record that isn't there"));
                };
                if let (Some(old), Some(new)) = (view.head, head) {
                    prop_assert!(old <= new, "a head went back");
                }
                view.head = head;
            }
            Notice::Activity { record, notice, .. } => {
                let Some(view) = self.records.get_mut(&record) else {
                    return Err(TestCaseError::fail("an activity of a record that isn't there"));
                };
                prop_assert!(notice.failure.is_some() || view.activity != notice.activity, "nothing new");
                view.activity = notice.activity;
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn h4_whatever_a_reader_missed_it_ends_with_the_state(steps in prop::collection::vec(step(), 0..80)) {
        let (handle, publisher, _wishes) = sides();
        let mut feed = handle.feed();
        let mut reader = Reader::default();
        let mut number = 1;
        let ids = ["a", "b", "c"].map(|agent| info(agent, "").id);
        for step in steps {
            number += 2;
            match step {
                Step::Put(bot, name) => publisher.put(info(["a", "b", "c"][bot], &format!("N{name}"))),
                Step::Withdraw(bot) => publisher.withdraw(&ids[bot], Withdrawal::Deleted),
                Step::Open(bot) => publisher.opened(&ids[bot], number, vec![message(number)], Some(number)),
                Step::Append(bot) => publisher.append(&ids[bot], vec![message(number)], number),
                Step::Late(bot) => publisher.insert(&ids[bot], vec![message(1)]),
                Step::Reset(bot) => publisher.reset(&ids[bot], Some(number)),
                Step::Busy(bot, status) => publisher.activity(&ids[bot], busy(&status.to_string())),
                Step::Idle(bot, failed) => publisher.activity(&ids[bot], idle(failed)),
                Step::Status(message) => publisher.status(Status {
                    state: SignInState::SignedIn,
                    account: Some(account()),
                    message: Some(message.to_string()),
                }),
                Step::Read(count) => {
                    for _ in 0..count {
                        if let Some(notice) = feed.try_next() {
                            reader.take(notice)?;
                        }
                    }
                }
            }
            prop_assert!(feed.len() <= 4 * 3 + 1, "the queue grows");
        }
        while let Some(notice) = feed.try_next() {
            reader.take(notice)?;
        }
        let state: BTreeMap<_, _> = handle.records().into_iter().map(|view| (view.info.id.clone(), view)).collect();
        prop_assert_eq!(&reader.records, &state);
        prop_assert_eq!(reader.status, Some(handle.status_view()));
    }
}

//! Answers to widgets (POST6).

use std::time::Duration;

use super::bed::fault::{Answer, Fault, Gate, Request, transient};
use super::bed::host::Run;
use super::bed::service::{entry_of, message_of};
use super::bed::{Bed, rows};
use crate::model::Part;
use crate::records::{Failure, Outcome, PostRefusal};
use crate::upstream::{ErrorKind, WidgetAnswer};

const OPTIONS: &[(&str, &str)] = &[("Yes", "deploy"), ("No", "stop"), ("stop", "later"), ("Yes", "again")];

/// A Bot whose widget is readable; with its row.
async fn asking() -> (Bed, u64) {
    let bed = Bed::start(&["a"]);
    bed.up().await;
    let seq = bed.service.append("a", rows::question("Deploy?", OPTIONS));
    bed.secs(2).await;
    assert_eq!(bed.host.messages("a").len(), 1);
    (bed, seq)
}

fn values(bed: &Bed) -> Vec<String> {
    let log = bed.service.log(Request::is_widget);
    let value = |(_, request)| match request {
        Request::Widget(widget) => widget.value.to_string(),
        other => panic!("{other:?}"),
    };
    log.into_iter().map(value).collect()
}

fn completed(run: &mut Run) -> String {
    match run.outcome() {
        Some(Outcome::Completed { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

const CLOSED: Outcome = Outcome::Failed(Failure::WidgetClosed);
const UNKNOWN: Outcome = Outcome::Failed(Failure::Unknown);

#[tokio::test(start_paused = true)]
async fn post6_a_label_answers_the_widget_and_the_run_settles_with_the_answers_message() {
    let (bed, seq) = asking().await;
    let mut run = bed.host.reply("a", "  Yes\n", &message_of(seq));
    bed.secs(3).await;
    assert_eq!(values(&bed), ["deploy"], "the first option of that label");
    assert_eq!(bed.service.count(Request::is_send), 0);
    assert_eq!(completed(&mut run), format!("1:e{seq}:reply"));
    let answer = bed.host.messages("a").pop().unwrap();
    assert_eq!((answer.part, &*answer.text, answer.reply_to), (Part::Answer, "Yes", Some(entry_of(seq))));
}

#[tokio::test(start_paused = true)]
async fn post6_labels_go_before_values() {
    for (text, value) in [("stop", "later"), ("deploy", "deploy"), ("No", "stop"), ("again", "again")] {
        let (bed, seq) = asking().await;
        let mut run = bed.host.reply("a", text, &message_of(seq));
        bed.secs(3).await;
        assert_eq!(values(&bed), [value], "{text}");
        completed(&mut run);
    }
}

#[tokio::test(start_paused = true)]
async fn post6_a_revision_of_the_widget_or_its_answer_names_it_too() {
    let (bed, seq) = asking().await;
    bed.service.overwrite("a", seq, rows::question("Deploy now?", OPTIONS));
    bed.secs(2).await;
    let revision = bed.host.messages("a").pop().unwrap().id(1);
    assert!(revision.contains(":edit:"));
    let mut run = bed.host.reply("a", "No", &revision);
    bed.secs(3).await;
    assert_eq!(values(&bed), ["stop"]);
    let answer = completed(&mut run);
    // Answered by now.
    assert_eq!(bed.host.reply("a", "Yes", &answer).settled().await, CLOSED);
    assert_eq!(values(&bed).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn post6_any_other_reply_goes_as_a_message_with_the_native_reply_id() {
    let (bed, seq) = asking().await;
    let mut run = bed.host.reply("a", "why?", &message_of(seq));
    bed.secs(3).await;
    completed(&mut run);
    assert!(values(&bed).is_empty());
    match &bed.service.log(Request::is_send)[0].1 {
        Request::Send(send) => assert_eq!(send.reply_to, Some(entry_of(seq))),
        other => panic!("{other:?}"),
    }
    let unknown = bed.host.post_as("a", uuid::Uuid::new_v4(), "Yes", Some("1:nothing"));
    assert_eq!(unknown.unwrap_err(), PostRefusal::UnknownReply);
}

#[tokio::test(start_paused = true)]
async fn post6_an_answered_or_dismissed_widget_is_closed() {
    for (responded, closed) in [(Some("stop"), false), (None, true)] {
        let (bed, seq) = asking().await;
        bed.service.overwrite("a", seq, rows::widget("Deploy?", OPTIONS, responded, closed));
        bed.secs(2).await;
        assert_eq!(bed.host.reply("a", "Yes", &message_of(seq)).settled().await, CLOSED);
        assert!(values(&bed).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn post6_another_value_than_ours_closes_it() {
    let (bed, seq) = asking().await;
    let held = Gate::new();
    bed.service.fault(Request::is_widget, Fault::held(&held));
    let mut run = bed.host.reply("a", "Yes", &message_of(seq));
    bed.secs(1).await;
    bed.service.overwrite("a", seq, rows::widget("Deploy?", OPTIONS, Some("stop"), false));
    bed.secs(1).await;
    assert_eq!(run.outcome(), Some(CLOSED));
    held.open();
    bed.secs(5).await;
    assert_eq!(values(&bed), ["deploy"]);
}

#[tokio::test(start_paused = true)]
async fn post6_a_dismissal_after_an_unclear_answer_closes_it() {
    let (bed, seq) = asking().await;
    bed.service.fault(Request::is_widget, Fault::answer(Answer::Widget(WidgetAnswer::Unclear)));
    let mut run = bed.host.reply("a", "Yes", &message_of(seq));
    bed.secs(1).await;
    bed.service.overwrite("a", seq, rows::widget("Deploy?", OPTIONS, None, true));
    bed.secs(1).await;
    assert_eq!(run.outcome(), Some(CLOSED));
}

#[tokio::test(start_paused = true)]
async fn post6_an_empty_answer_or_a_broken_connection_waits_a_minute_and_is_never_repeated() {
    for fault in [
        Fault::answer(Answer::Widget(WidgetAnswer::Unclear)),
        Fault::error(ErrorKind::Broken),
        Fault::error(ErrorKind::Permanent),
        Fault::error(transient(Some(1))),
    ] {
        let (bed, seq) = asking().await;
        let name = format!("{fault:?}");
        bed.service.fault(Request::is_widget, fault);
        let mut run = bed.host.reply("a", "Yes", &message_of(seq));
        bed.secs(59).await;
        assert_eq!(run.outcome(), None, "{name}");
        bed.secs(2).await;
        assert_eq!(run.outcome(), Some(UNKNOWN), "{name}");
        assert_eq!((values(&bed).len(), bed.service.count(Request::is_status)), (1, 0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn post6_an_answer_that_landed_completes_the_run_whatever_its_call_says() {
    for fault in [
        Fault::done_answering(Answer::Widget(WidgetAnswer::Unclear)),
        Fault::done_but(ErrorKind::Broken),
        // The row is there before the answer.
        Fault::done_but(ErrorKind::Refused).and_late(Duration::from_millis(100)),
    ] {
        let (bed, seq) = asking().await;
        let name = format!("{fault:?}");
        bed.service.fault(Request::is_widget, fault);
        let mut run = bed.host.reply("a", "Yes", &message_of(seq));
        bed.secs(5).await;
        assert!(matches!(run.outcome(), Some(Outcome::Completed { .. })), "{name}: {:?}", run.outcome());
    }
}

#[tokio::test(start_paused = true)]
async fn a20_an_answer_to_a_card_that_is_gone_closes_it_and_leaves_another_untouched() {
    for fault in [
        Fault::error(ErrorKind::Stale),
        Fault::answer(Answer::Widget(WidgetAnswer::Refused { code: "stale".to_owned() })),
    ] {
        let (bed, seq) = asking().await;
        let other = bed.service.append("a", rows::question("And this?", OPTIONS));
        bed.secs(2).await;
        bed.service.fault(Request::is_widget, fault.once());
        assert_eq!(bed.host.reply("a", "Yes", &message_of(seq)).settled().await, CLOSED);
        bed.secs(90).await;
        assert_eq!(values(&bed).len(), 1, "no retry");
        let mut run = bed.host.reply("a", "No", &message_of(other));
        bed.secs(3).await;
        completed(&mut run);
    }
}

#[tokio::test(start_paused = true)]
async fn post6_a_widget_that_closed_while_its_answer_waited_isnt_answered() {
    let (bed, seq) = asking().await;
    let held = Gate::new();
    bed.service.fault(Request::is_send, Fault::answer_held(&held));
    let mut first = bed.host.post("a", "one moment");
    let mut run = bed.host.reply("a", "Yes", &message_of(seq));
    bed.secs(1).await;
    bed.service.overwrite("a", seq, rows::widget("Deploy?", OPTIONS, None, true));
    bed.secs(2).await;
    held.open();
    bed.secs(1).await;
    completed(&mut first);
    assert_eq!(run.outcome(), Some(CLOSED));
    assert!(values(&bed).is_empty());
}

#[tokio::test(start_paused = true)]
async fn post6_a_401_renews_and_asks_the_same_once_more() {
    let (bed, seq) = asking().await;
    bed.service.reject("sub-ann/1");
    let mut run = bed.host.reply("a", "Yes", &message_of(seq));
    bed.secs(3).await;
    completed(&mut run);
    assert_eq!(values(&bed), ["deploy", "deploy"]);
}

#[tokio::test(start_paused = true)]
async fn post5_repeats_of_an_answer_dont_pile_up() {
    let (bed, seq) = asking().await;
    bed.service.fault(Request::is_widget, Fault::hangs());
    let mut first = bed.host.reply("a", "Yes", &message_of(seq));
    bed.millis(100).await;
    let again = || bed.host.post_as("a", first.message_id, "Yes", Some(&message_of(seq))).unwrap();
    let mut repeats: Vec<Run> = (0..200).map(|_| again()).collect();
    bed.millis(100).await;
    let settled: Vec<Outcome> = repeats.iter_mut().filter_map(Run::outcome).collect();
    assert_eq!(settled, vec![UNKNOWN; 136], "64 wait with the first");
    assert_eq!(first.outcome(), None);
    assert_eq!(values(&bed).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn post1_a_repeat_of_an_answer_under_way_settles_with_the_same_message_and_isnt_sent_again() {
    let (bed, seq) = asking().await;
    bed.service.fault(Request::is_widget, Fault::late(Duration::from_secs(2)));
    let mut first = bed.host.reply("a", "Yes", &message_of(seq));
    bed.millis(500).await;
    // The answer shows by now, and isn't readable yet.
    let mut again = bed.host.post_as("a", first.message_id, "Yes", Some(&message_of(seq))).unwrap();
    bed.secs(5).await;
    assert_eq!(completed(&mut first), completed(&mut again));
    assert_eq!(values(&bed).len(), 1);

    let (bed, seq) = asking().await;
    bed.service.fault(Request::is_widget, Fault::error(ErrorKind::Stale).and_late(Duration::from_secs(2)));
    let mut first = bed.host.reply("a", "Yes", &message_of(seq));
    bed.millis(500).await;
    let mut again = bed.host.post_as("a", first.message_id, "Yes", Some(&message_of(seq))).unwrap();
    bed.secs(5).await;
    assert_eq!((first.outcome(), again.outcome()), (Some(CLOSED), Some(CLOSED)));
}

#[tokio::test(start_paused = true)]
async fn post4_an_answer_that_is_never_allowed_is_refused_not_closed() {
    for fault in [
        Fault::error(ErrorKind::Refused),
        Fault::answer(Answer::Widget(WidgetAnswer::Refused { code: "policy".to_owned() })),
    ] {
        let (bed, seq) = asking().await;
        bed.service.fault(Request::is_widget, fault.once());
        let outcome = bed.host.reply("a", "Yes", &message_of(seq)).settled().await;
        assert_eq!(outcome, Outcome::Failed(Failure::Refused));
    }
}

#[tokio::test(start_paused = true)]
async fn post6_a_run_settles_with_the_answer_that_was_given_and_not_with_an_older_one() {
    let (bed, seq) = asking().await;
    let answered = |responded| rows::widget("Deploy?", OPTIONS, responded, false);
    bed.service.overwrite("a", seq, answered(Some("stop")));
    bed.secs(2).await;
    // What is pending before it holds the removal of the old answer back.
    bed.service.says("a", "wait");
    bed.service.overwrite("a", seq, answered(None));
    bed.millis(100).await;
    let mut run = bed.host.reply("a", "Yes", &message_of(seq));
    bed.millis(500).await;
    assert_eq!(values(&bed), ["deploy"]);
    assert_eq!(run.outcome(), None, "the old answer says nothing of ours");
    bed.secs(5).await;
    let id = completed(&mut run);
    let answer = bed.host.messages("a").into_iter().find(|message| message.id(1) == id).unwrap();
    assert_eq!((answer.part, &*answer.text), (Part::Answer, "Yes"));
}

#[tokio::test(start_paused = true)]
async fn d9_a_run_settles_with_a_message_that_can_be_read_after_a_restart() {
    let (mut bed, seq) = asking().await;
    for responded in [Some("stop"), Some("deploy"), None] {
        bed.service.overwrite("a", seq, rows::widget("Deploy?", OPTIONS, responded, false));
        bed.secs(2).await;
    }
    bed.crash().await;
    bed.run();
    bed.up().await;
    bed.secs(2).await;
    let mut run = bed.host.reply("a", "Yes", &message_of(seq));
    bed.secs(5).await;
    let id = completed(&mut run);
    let answer = bed.host.messages("a").into_iter().find(|message| message.id(1) == id);
    assert_eq!(answer.map(|answer| answer.text.to_string()).as_deref(), Some("Yes"), "{id}");
}

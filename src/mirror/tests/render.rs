//! The message table, a test a row.

use std::sync::Arc;

use super::super::{Rendered, render};
use super::bed::{Bed, attachment, entry, image, row, widget};
use crate::model::{Author, Card, Content, Entry, EntryId, Harness, Meta, Role, Widget, WidgetOption};

fn message(role: Role, text: &str) -> Entry {
    Entry { role, ..entry(Content::Message(text.into())) }
}

fn sent(card: Card) -> Entry {
    entry(Content::Sent(card))
}

fn text_card(text: &str) -> Card {
    Card::Text { content: text.into(), images: Vec::new() }
}

fn shown(entry: &Entry) -> Rendered {
    render(entry, Harness::Other)
}

#[track_caller]
fn says(entry: &Entry, from: Author, text: &str) {
    let main = shown(entry).main.expect("it is a message");
    assert_eq!((main.from, &*main.text), (from, text));
}

#[track_caller]
fn nothing(entry: &Entry) {
    assert_eq!(shown(entry), Rendered::default());
}

#[test]
fn table_a_user_message_is_from_self() {
    says(&message(Role::User, "hi\n\n  there "), Author::Account, "hi\n\n  there ");
}

#[test]
fn table_a_row_with_a_client_nonce_is_an_echo_whatever_its_kind() {
    let nonce = Some(Arc::from("33333333-3333-4333-8333-333333333333"));
    let kinds = [
        message(Role::User, "hi"),
        message(Role::Other, "hi"),
        sent(text_card("hi")),
        entry(Content::Other { kind: "note".into(), content: Some("hi".into()), unknown: true }),
    ];
    for kind in kinds {
        let echo = Entry { nonce: nonce.clone(), ..kind };
        says(&echo, Author::Account, "hi");
        assert_eq!(shown(&echo).nonce, nonce);
    }
}

#[test]
fn table_an_assistant_row_or_one_with_an_author_is_no_echo() {
    let nonce = Some(Arc::from("33333333-3333-4333-8333-333333333333"));
    let assistant = Entry { nonce: nonce.clone(), ..message(Role::Assistant, "hi") };
    says(&assistant, Author::Bot, "hi");
    let authored = Entry { nonce, has_author: true, ..sent(text_card("hi")) };
    says(&authored, Author::Bot, "hi");
    assert_eq!((shown(&assistant).nonce, shown(&authored).nonce), (None, None));
    // Without a nonce nothing is an echo.
    assert_eq!(shown(&message(Role::User, "hi")).nonce, None);
}

#[test]
fn table_a_text_card_with_its_images() {
    let images = vec![
        image(Some("a chart"), "https://x.test/1.png"),
        image(Some(" "), "https://x.test/2.png"),
        image(None, "u"),
    ];
    let card = Card::Text { content: "Look:".into(), images: images.clone() };
    says(&sent(card), Author::Bot, "Look:\n[图片] a chart\n[图片] https://x.test/2.png\n[图片] u");
    let card = Card::Text { content: "".into(), images: images[..1].to_vec() };
    says(&sent(card), Author::Bot, "[图片] a chart");
}

#[test]
fn table_a_widget_with_help_and_options() {
    let question = Widget { help: Some("Takes five minutes".into()), ..widget("Deploy?", None) };
    let rendered = shown(&sent(Card::Widget(Arc::new(question.clone()))));
    let main = rendered.main.unwrap();
    assert_eq!((main.from, &*main.text), (Author::Bot, "Deploy?\nTakes five minutes\n- yes（y）\n- no"));
    assert_eq!(main.meta, Some(Meta::Widget(Arc::new(question))));
    assert_eq!(rendered.answer, None);
}

#[test]
fn table_an_answer_is_the_chosen_option_s_label_else_the_value() {
    let empty_label = WidgetOption { label: "".into(), value: "v".into() };
    for (responded, answer) in [
        ("y", Some("yes")),
        ("no", Some("no")),
        ("yes", Some("yes")),
        ("of my own", Some("of my own")),
        ("v", Some("v")),
        ("", None),
    ] {
        let mut question = widget("Go?", Some(responded));
        question.options.push(empty_label.clone());
        let rendered = shown(&sent(Card::Widget(Arc::new(question))));
        assert_eq!(rendered.answer.as_deref(), answer, "{responded:?}");
    }
}

#[test]
fn table_an_answer_is_from_self_and_replies_to_its_widget() {
    let bed = Bed::open([row(1).asks("Go?", Some("y"))]);
    assert_eq!(bed.transcript()[1], "1:t1:reply @1 me: yes >t1");
}

#[test]
fn table_an_assistant_row_is_the_bot_s_unless_it_runs_on_the_box() {
    let assistant = message(Role::Assistant, "hm");
    says(&assistant, Author::Bot, "hm");
    assert_eq!(render(&assistant, Harness::Box), Rendered::default());
    nothing(&message(Role::Assistant, " \n"));
    // The box changes nothing else.
    assert!(render(&sent(text_card("hm")), Harness::Box).main.is_some());
    assert!(render(&message(Role::User, "hm"), Harness::Box).main.is_some());
}

#[test]
fn table_an_attachment_is_its_file_name() {
    let file = attachment("brief.pdf", 1_024);
    let theirs = entry(Content::UserAttachment(file.clone()));
    says(&theirs, Author::Account, "[附件] brief.pdf");
    assert_eq!(shown(&theirs).main.unwrap().meta, Some(Meta::Attachment(file.clone())));
    let bots = sent(Card::Attachment(file));
    says(&bots, Author::Bot, "[附件] brief.pdf");
}

#[test]
fn table_a_card_of_another_type_is_one_line() {
    let card = Card::Handled { asks: "请求批准：Run\na script".into() };
    says(&sent(card), Author::Bot, "请求批准：Run a script，请在 Grok Bot 里处理");
}

#[test]
fn table_an_unknown_card_names_its_type() {
    says(&sent(Card::Unknown { kind: "hologram".into() }), Author::Bot, "[暂不支持的消息：hologram]");
}

#[test]
fn table_a_native_reply_to_a_message_is_a_reply() {
    let reply = Entry { reply_to: Some(EntryId::from("t1")), ..message(Role::User, "yes") };
    assert_eq!(shown(&reply).main.unwrap().reply_to, Some(EntryId::from("t1")));
    let bed = Bed::open([
        row(1).says("one"),
        row(2).notices("notice", false),
        row(3).replies_to("t1").told("to a message"),
        row(4).replies_to("t2").told("to a notice"),
        row(5).replies_to("t99").told("to nothing"),
    ]);
    assert_eq!(
        bed.transcript()[1..],
        ["1:t3 @3 me: to a message >t1", "1:t4 @4 me: to a notice", "1:t5 @5 me: to nothing"]
    );
}

#[test]
fn table_a_routine_s_prompt_is_nothing() {
    nothing(&Entry { automation: true, ..message(Role::User, "every morning") });
    let nonce = Some(Arc::from("33333333-3333-4333-8333-333333333333"));
    nothing(&Entry { automation: true, nonce, ..message(Role::User, "every morning") });
}

#[test]
fn table_a_routine_s_conclusion_is_an_ordinary_message() {
    says(&Entry { automation: true, ..sent(text_card("The weather is fine.")) }, Author::Bot, "The weather is fine.");
}

#[test]
fn table_rows_between_bots_and_branched_rows_are_nothing() {
    for hidden in [message(Role::User, "x"), message(Role::Assistant, "x"), sent(text_card("x"))] {
        nothing(&Entry { between_bots: true, ..hidden.clone() });
        nothing(&Entry { branched: true, ..hidden });
    }
}

#[test]
fn table_other_kinds_and_roles_are_nothing() {
    for kind in ["tool-call", "notice", "event", "feedback", "voice-call", "spend-initiation", "error"] {
        nothing(&entry(Content::Other { kind: kind.into(), content: Some("noise".into()), unknown: false }));
    }
    nothing(&message(Role::Other, "who?"));
    nothing(&message(Role::User, ""));
}

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::fuzz::{Corpus, Input, fuzz};
use crate::model::{
    Activity, AgentId, Attachment, Cursor, EntryId, Harness, Message, TurnFailure, Widget, WidgetOption,
};
use crate::records::{RecordInfo, Status, record_id};

fn account() -> Account {
    Account { digest: "d1".into(), name: "小明".into() }
}

fn bot(name: &str) -> Bot {
    Bot { agent_id: AgentId::from("a/1"), name: name.into(), harness: Harness::Other }
}

fn view(name: &str) -> RecordView {
    RecordView {
        info: Arc::new(RecordInfo {
            id: record_id(&account(), &AgentId::from("a/1")),
            bot: bot(name),
            account: account(),
        }),
        head: None,
        activity: None,
    }
}

fn json(value: impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn post1_message_ids_are_the_same_everywhere_and_for_ever() {
    // Made with Python's uuid.uuid5 from the namespace and the length-prefixed parts.
    for (caller, record, request, id) in [
        ("coda", "grok-bot:d1:a", "r1", "89aa9711-c71a-546a-b938-90da245092f1"),
        ("", "", "", "4f7de381-6d1c-5eec-9cfa-b1b41e9e08ec"),
        ("调用方", "grok-bot:d1:%E5%B0%8F", "请求-1", "74d482d6-79d5-5e88-8207-eedc3329aae0"),
    ] {
        assert_eq!(message_id(caller, record, request).to_string(), id);
    }
}

#[test]
fn post1_no_two_triples_collide_by_moving_a_boundary() {
    let ids = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("", "abc", "d"), ("abcd", "", "")]
        .map(|(caller, record, request)| message_id(caller, record, request));
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[..index].contains(id));
    }
}

#[test]
fn h13_only_two_plain_decimal_integers_are_a_cursor() {
    for text in [
        "", ":", "1", "1:", ":1", "1:2:3", "01:1", "1:01", "00:1", "+1:1", "-1:1", "1:-0", "1.0:1", "1e3:1", " 1:1",
        "1:1 ", "1:１", "a:b", "0x1:1", "1_0:1", "1\n:1",
    ] {
        assert_eq!(parse_cursor(text), None, "{text:?}");
    }
    let place = |generation, number| Some(Place { generation, number });
    assert_eq!(parse_cursor("0:0"), place(0, 0));
    assert_eq!(parse_cursor("10:18446744073709551615"), place(10, u128::from(u64::MAX)));
    assert_eq!(parse_cursor("1:18446744073709551616"), place(1, u128::from(u64::MAX) + 1));
    let longest = format!("1:{}", "9".repeat(98));
    assert_eq!(parse_cursor(&longest), place(1, u128::MAX));
    assert_eq!(parse_cursor(&format!("{longest}9")), None);
}

proptest! {
    #[test]
    fn h13_cursors_compare_as_true_integers(digits in "0|[1-9][0-9]{0,60}", held in any::<u64>()) {
        let place = parse_cursor(&format!("1:{digits}")).unwrap();
        let truth: BigUint = digits.parse().unwrap();
        prop_assert_eq!(u128::from(held).cmp(&place.number), BigUint::from(held).cmp(&truth));
    }

    #[test]
    fn h13_our_own_cursors_come_back_exactly(generation in any::<u64>(), number in any::<u64>()) {
        let text = cursor(Cursor { generation, number }).0;
        let place = Place { generation: u128::from(generation), number: u128::from(number) };
        prop_assert_eq!(parse_cursor(&text), Some(place));
    }
}

/// Cursors by their definition, on texts and numbers of any size.
fn by_definition(text: &str) -> Option<(BigUint, BigUint)> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
        (plain && (digits.len() == 1 || !digits.starts_with('0'))).then(|| digits.parse().unwrap())
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [generation, number_text] if text.len() <= 100 => Some((number(generation)?, number(number_text)?)),
        _ => None,
    }
}

#[test]
fn h13_any_text_is_a_cursor_or_a_bad_one_and_their_order_is_that_of_the_numbers() {
    let corpus = Corpus::of("cursors");
    let check = |a: &[u8], b: &[u8], held: Cursor| {
        let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
        let (place, truth) = (parse_cursor(&a), by_definition(&a));
        assert_eq!(place.is_some(), truth.is_some(), "{a:?}");
        let (Some(place), Some(truth)) = (place, truth) else { return };
        let fits = |number: &BigUint| u128::try_from(number).ok();
        for (saturated, true_number) in [(place.generation, &truth.0), (place.number, &truth.1)] {
            assert_eq!(saturated, fits(true_number).unwrap_or(u128::MAX));
        }
        // Against what we hold the order is exact, whatever was written.
        let ours = (u128::from(held.generation), u128::from(held.number));
        let ours_truth = (BigUint::from(held.generation), BigUint::from(held.number));
        assert_eq!(ours.cmp(&(place.generation, place.number)), ours_truth.cmp(&truth), "{held} and {a:?}");
        if let (Some(other), Some(other_truth)) = (parse_cursor(&b), by_definition(&b)) {
            // Between two of a host it never turns round.
            let (order, truly) = ((place.number.cmp(&other.number)), truth.1.cmp(&other_truth.1));
            assert!(order == truly || order.is_eq(), "{a:?} and {b:?}");
        }
    };
    let ours = |generation, number| Cursor { generation, number };
    corpus.replay(|bytes| check(bytes, bytes, ours(1, u64::MAX)));
    let values = (corpus.mutants(), corpus.mutants(), any::<u64>(), any::<u64>());
    fuzz(4000, &values, |(Input(a), Input(b), generation, number)| check(&a, &b, ours(generation, number)));
}

#[test]
fn h15_times_are_rfc_3339_in_utc_with_milliseconds() {
    for (at, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (i64::MAX, "9999-12-31T23:59:59.999Z"),
        (i64::MIN, "0000-01-01T00:00:00.000Z"),
    ] {
        assert_eq!(time(Wall(at)).0, text);
    }
}

#[test]
fn h11_a_record_names_the_account_and_the_bot() {
    let expected = serde_json::json!({
        "id": "grok-bot:d1:a%2F1",
        "protocol": "coda/session@1",
        "title": "小白",
        "container": {"id": "grok-bot:d1", "title": "小明"},
        "participants": [
            {"id": "account:d1", "name": "小明", "kind": "person", "self": true},
            {"id": "agent:a%2F1", "name": "小白", "kind": "agent"},
        ],
        "head": null,
        "actions": ["read", "post"],
        "views": ["bind"],
    });
    assert_eq!(json(record(&view("小白"))), expected);
    let busy = RecordView {
        head: Some(Cursor { generation: 2, number: 9 }),
        activity: Some(Activity { status: Arc::from("看书") }),
        ..view("小白")
    };
    let busy = json(record(&busy));
    assert_eq!(busy["head"], "2:9");
    assert_eq!(busy["activity"], serde_json::json!({"status": "看书", "participant": "agent:a%2F1"}));
}

#[test]
fn h11_a_bot_without_a_name_is_called_so() {
    for name in ["", "  "] {
        let record = record(&view(name));
        assert_eq!((record.title.as_str(), record.participants[1].name.as_str()), ("未命名 Bot", "未命名 Bot"));
    }
}

#[test]
fn h8_each_state_says_what_a_person_needs() {
    let shown = |state, message: Option<&str>| {
        json(status(StatusView {
            status: Status { state, account: Some(account()), message: message.map(str::to_owned) },
            items: vec![(RecordId::from("r"), String::new())],
        }))
    };
    let confirming = SignInState::Confirming { url: "https://example.test/x".into(), expires_at: Wall(0) };
    let confirming = shown(confirming, None);
    assert_eq!(confirming["state"], "confirming");
    assert_eq!(confirming["url"], "https://example.test/x");
    assert_eq!(confirming["expiresAt"], "1970-01-01T00:00:00.000Z");
    assert!(confirming["message"].as_str().unwrap().contains("Continue"));
    assert!(shown(SignInState::SignInAgain, None)["message"].as_str().unwrap().contains("重新登录"));
    let in_trouble = shown(SignInState::SignedIn, Some("自 <t:2026-01-01T00:00:00Z> 起连不上"));
    let expected = serde_json::json!({
        "state": "signedIn",
        "account": {"id": "d1", "name": "小明"},
        "message": "自 <t:2026-01-01T00:00:00Z> 起连不上",
        "items": [{"record": "r", "title": "未命名 Bot", "button": {"text": "绑定", "view": "bind", "args": ["r"]}}],
    });
    assert_eq!(in_trouble, expected);
    let nobody =
        StatusView { status: Status { state: SignInState::SignedOut, account: None, message: None }, items: vec![] };
    assert_eq!(json(status(nobody)), serde_json::json!({"state": "signedOut", "items": []}));
}

#[test]
fn h15_messages_carry_what_they_answer_and_change() {
    let base = Message {
        number: 9,
        seq: 3,
        entry: EntryId::from("e:1"),
        part: Part::Entry,
        version: Version::Base,
        from: Author::Bot,
        at: Wall(1),
        text: Arc::from("问"),
        reply_to: Some(EntryId::from("e0")),
        meta: Some(Meta::Widget(Arc::new(Widget {
            prompt: Arc::from("问"),
            help: None,
            options: vec![WidgetOption { label: Arc::from("好"), value: Arc::from("yes") }],
            responded: None,
            closed: false,
        }))),
    };
    let answer = Message {
        part: Part::Answer,
        from: Author::Account,
        reply_to: Some(EntryId::from("e:1")),
        meta: None,
        ..base.clone()
    };
    let edit = Message { version: Version::Edit, meta: None, reply_to: None, ..base.clone() };
    let delete = Message { version: Version::Delete, text: Arc::from(""), reply_to: None, ..answer.clone() };
    let file = Message {
        meta: Some(Meta::Attachment(Attachment { name: Arc::from("a.txt"), size: Some(5) })),
        ..edit.clone()
    };
    let messages = vec![delete, base, edit, file, answer];
    let page =
        records::Page { generation: 7, messages: messages.into(), head: Some(9), more_before: true, more_after: false };
    let page = json(super::page(&page, &Speakers::of(&account(), &bot("B"))));
    assert_eq!(page["head"], "7:9");
    assert_eq!(page["hasMore"], serde_json::json!({"before": true, "after": false}));
    let at = "1970-01-01T00:00:00.001Z";
    assert_eq!(
        page["messages"],
        serde_json::json!([
            {"id": "7:e%3A1:reply:delete:9", "cursor": "7:9", "from": "account:d1", "at": at, "text": "",
             "about": {"message": "7:e%3A1:reply", "change": "delete"}},
            {"id": "7:e%3A1", "cursor": "7:9", "from": "agent:a%2F1", "at": at, "text": "问", "replyTo": {"message": "7:e0"},
             "_meta": {"grok-bot": {"widget": {"prompt": "问", "options": [{"label": "好", "value": "yes"}]}}}},
            {"id": "7:e%3A1:edit:9", "cursor": "7:9", "from": "agent:a%2F1", "at": at, "text": "问",
             "about": {"message": "7:e%3A1", "change": "edit"}},
            {"id": "7:e%3A1:edit:9", "cursor": "7:9", "from": "agent:a%2F1", "at": at, "text": "问",
             "about": {"message": "7:e%3A1", "change": "edit"},
             "_meta": {"grok-bot": {"attachment": {"name": "a.txt", "size": 5}}}},
            {"id": "7:e%3A1:reply", "cursor": "7:9", "from": "account:d1", "at": at, "text": "问", "replyTo": {"message": "7:e%3A1"},
             "mentions": ["agent:a%2F1"]},
        ])
    );
}

#[test]
fn act3_a_failed_turn_goes_with_the_removal() {
    let notice = ActivityNotice {
        activity: None,
        failure: Some(TurnFailure { code: Arc::from("TIMEOUT"), summary: Arc::from("s") }),
    };
    assert_eq!(
        json(activity_changed(&RecordId::from("r"), &AgentId::from("a"), notice)),
        serde_json::json!({"record": "r", "activity": null, "_meta": {"grok-bot": {"turnFailed": {"code": "TIMEOUT", "summary": "s"}}}})
    );
}

#[test]
fn h17_settles_say_where_it_is_or_why_not() {
    let completed = Outcome::Completed { id: "1:e".into(), cursor: Cursor { generation: 1, number: 4 } };
    assert_eq!(
        json(settled("r".into(), completed)),
        serde_json::json!({"run": "r", "state": "completed", "result": {"message": {"id": "1:e", "cursor": "1:4"}}})
    );
    for (failure, reason) in [
        (Failure::Unknown, "unknown"),
        (Failure::Refused, "refused"),
        (Failure::SignedOut, "signed_out"),
        (Failure::NotSent, "not_sent"),
        (Failure::WidgetClosed, "widget_closed"),
    ] {
        assert_eq!(
            json(settled("r".into(), Outcome::Failed(failure))),
            serde_json::json!({"run": "r", "state": "failed", "reason": reason, "message": texts::failure(failure)})
        );
    }
}

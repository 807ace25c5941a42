use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::from_blob;
use crate::model::{
    AgentId, Attachment, BodyRef, Bot, Card, Content, Cursor, Delete, Entry, EntryId, Harness, Image, LiveActivity,
    LiveState, Role, RowBody, Wall, Widget, WidgetOption,
};
use crate::upstream::{
    Delivery, Frame, Me, Page, PageRequest, Roster, SendRequest, SendStatus, WatchRequest, WidgetAnswer, WidgetRequest,
};

const AGENT: &str = "11111111-1111-4111-8111-111111111111";

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// The body of a recorded HTTP answer.
fn recorded(name: &str) -> Vec<u8> {
    let all = std::fs::read(format!("{}/tests/recorded/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let at = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    all[at + 4..].to_vec()
}

fn frames(payload: &[u8]) -> Vec<Frame> {
    super::frames(&[payload], &mut super::Bodies::default())
}

fn one_frame(value: &Value) -> Frame {
    let mut all = frames(&bytes(value));
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn is_malformed(frame: &Frame, kind: &str) -> bool {
    matches!(frame, Frame::Malformed(odd) if &*odd.kind == kind)
}

fn page_of(rows: &Value) -> Page {
    super::page(&bytes(&json!({ "entries": rows, "generation": 3 }))).unwrap()
}

fn body_of(value: &Value) -> RowBody {
    from_blob(&bytes(value), "")
}

fn entry_of(value: &Value) -> Entry {
    match body_of(value) {
        RowBody::Entry(entry) => *entry,
        other => panic!("{value}: {other:?}"),
    }
}

fn card_of(message: &Value) -> Card {
    match entry_of(&json!({ "id": "e", "kind": "send-message", "message": message })).content {
        Content::Sent(card) => card,
        other => panic!("{message}: {other:?}"),
    }
}

fn reason_of(value: &Value) -> &'static str {
    match body_of(value) {
        RowBody::Malformed(odd) => odd.reason,
        other => panic!("{value}: {other:?}"),
    }
}

fn agent() -> AgentId {
    AgentId::from(AGENT)
}

// Account and Bots.

#[test]
fn the_account() {
    let sample = json!({"authId":"auth0|user_SAMPLE","userId":1234,"email":"person@example.test","firstName":"Sam","lastName":"Ple","createdAt":"2026-01-01T00:00:00.000Z","teamId":77,"teamName":"Sample Team"});
    let me = super::me(&bytes(&sample)).unwrap();
    assert_eq!(me.user_id.as_deref(), Some("1234"));
    assert_eq!(me.auth_id.as_deref(), Some("auth0|user_SAMPLE"));
    assert_eq!(me.name.as_deref(), Some("Sam Ple"));
    for (user_id, expected) in [
        (json!("1234"), Some("1234")),
        (json!("001234"), Some("1234")),
        (json!(9_007_199_254_740_993_u64), Some("9007199254740993")),
        (json!("user-7"), Some("user-7")),
        (json!(0), None),
        (json!("0"), None),
        (json!(""), None),
        (json!(null), None),
    ] {
        let me = super::me(&bytes(&json!({ "userId": user_id, "email": "a@example.test" }))).unwrap();
        assert_eq!(me.user_id.as_deref(), expected, "{user_id}");
        assert_eq!(me.name.as_deref(), Some("a@example.test"));
    }
    for odd in [json!({"userId":5.5}), json!({"userId":-1}), json!({"userId":{}}), json!([]), json!("x")] {
        assert!(super::me(&bytes(&odd)).is_err(), "{odd}: another account must not come of it");
    }
    let me = super::me(br#"{"firstName":"Cut \ud83e","lastName":""}"#).unwrap();
    assert_eq!(me.name.as_deref(), Some("Cut \u{fffd}"));
    assert_eq!(super::me(b"{}").unwrap(), Me { user_id: None, auth_id: None, name: None });
}

fn listed(agents: &Value) -> (Vec<String>, u64) {
    let roster = super::roster(&bytes(&json!({ "agents": agents })), None).unwrap();
    (roster.bots.into_iter().map(|bot| bot.agent_id.to_string()).collect(), roster.skipped)
}

#[test]
fn the_listed_bots() {
    let sample = json!({"agents":[
        {"id":"row-101","legacyAgentId":AGENT,"name":"Sample Bot","title":"Helper","agentId":AGENT,"harness":"temporal","visibility":"GROK_BOT_AGENT_VISIBILITY_OWNER","viewerIsOwner":true,"kind":"GROK_BOT_AGENT_KIND_AGENT"},
        {"id":"row-102","name":"Sample Room","agentId":"22222222-2222-4222-8222-222222222222","harness":"temporal","viewerIsOwner":true,"kind":"GROK_BOT_AGENT_KIND_ROOM","memberAgentIds":[AGENT]},
        {"id":"row-103","name":"盒子","agentId":"b","harness":"box"}
    ],"slackConnections":[]});
    let roster = super::roster(&bytes(&sample), Some(Wall(7))).unwrap();
    let bot = |id: &str, name: &str, harness| Bot { agent_id: AgentId::from(id), name: name.to_owned(), harness };
    assert_eq!(
        roster,
        Roster {
            bots: vec![bot(AGENT, "Sample Bot", Harness::Other), bot("b", "盒子", Harness::Box)],
            skipped: 0,
            date: Some(Wall(7)),
        }
    );
    assert_eq!(super::roster(b"{}", None).unwrap(), Roster::default(), "an account without Bots");
    for odd in ["", "[]", "null", r#"{"agents":5}"#, r#"{"agents":{}}"#, "<html>"] {
        assert!(super::roster(odd.as_bytes(), None).is_err(), "{odd:?} is no list and must withdraw nothing");
    }
}

#[test]
fn a19_new_enum_values_and_odd_agents_cost_nobody_else() {
    let (bots, skipped) = listed(&json!([
        {"agentId":"a","kind":"GROK_BOT_KIND_NEW","newField":{"deep":[1,2]}},
        {"agentId":"b","kind":99},
        {"agentId":"c","kind":{},"visibility":[],"viewerIsOwner":"yes","name":7,"harness":3}
    ]));
    assert_eq!((bots.len(), skipped), (3, 0));
    let (bots, skipped) = listed(&json!([5, null, "x", [], {}, {"agentId":""}, {"agentId":7}, {"agentId":"d"}]));
    assert_eq!((bots, skipped), (vec!["d".to_owned()], 7));
    let text = br#"{"agents":[{"agentId":"a","agentId":"b"},{"agentId":"c","name":1e999},{"agentId":"d","name":"\ud83e"},{"agentId":"e"}]}"#;
    let roster = super::roster(text, None).unwrap();
    let ids: Vec<&str> = roster.bots.iter().map(|bot| bot.agent_id.as_str()).collect();
    assert_eq!((ids, roster.skipped), (vec!["d", "e"], 2));
}

#[test]
fn a22_nothing_but_agent_id_names_a_bot() {
    let (bots, skipped) = listed(&json!([
        {"id":"record-1","agentId":"a","legacyAgentId":"wrong"},
        {"id":"record-2","legacyAgentId":"wrong"}
    ]));
    assert_eq!((bots, skipped), (vec!["a".to_owned()], 1));
}

#[test]
fn rooms_and_other_peoples_agents_are_left_out() {
    for (fields, ours) in [
        (json!({}), true),
        (json!({"kind":"AGENT"}), true),
        (json!({"kind":1}), true),
        (json!({"kind":0}), true),
        (json!({"kind":"GROK_BOT_AGENT_KIND_UNSPECIFIED"}), true),
        (json!({"kind":"ROOM"}), false),
        (json!({"kind":2}), false),
        (json!({"kind":"2"}), false),
        (json!({"kind":"SOME_NEW_PREFIX_ROOM"}), false),
        (json!({"visibility":"GROK_BOT_AGENT_VISIBILITY_TEAM"}), false),
        (json!({"visibility":"TEAM"}), false),
        (json!({"visibility":"GROK_BOT_AGENT_VISIBILITY_TEAM","viewerIsOwner":true}), true),
        (json!({"visibility":"GROK_BOT_AGENT_VISIBILITY_OWNER","viewerIsOwner":false}), false),
        (json!({"viewerIsOwner":false}), false),
    ] {
        let mut agent = fields.clone();
        agent["agentId"] = json!("a");
        let (bots, skipped) = listed(&json!([agent]));
        assert_eq!((bots.len() == 1, skipped), (ours, 0), "{fields}");
    }
    let (bots, skipped) = listed(&json!([{"agentId":"a","name":"1"},{"agentId":"a","name":"2"}]));
    assert_eq!((bots.len(), skipped), (1, 0), "the first of two counts");
}

// Pages and rows.

#[test]
fn a_page_of_the_reference() {
    let page = super::page(
        br#"{"entries":[{"seq":"39","entryKind":"send-message","body":"eyJpZCI6InQ5czAifQ==","updatedSeq":"57","entryId":"t9s0"}],"generation":3}"#,
    )
    .unwrap();
    assert_eq!(page.generation, Some(3));
    let row = &page.rows[0];
    assert_eq!((row.seq, row.number, row.id().to_string()), (39, 57, "t9s0".to_owned()));
    assert!(matches!(&row.body, RowBody::Malformed(odd) if &*odd.kind == "send-message"), "no message in it: {row:?}");
}

#[test]
fn a2_numbers_are_exact_as_text_and_as_number() {
    for number in [9_007_199_254_740_994_u64, 9_007_199_254_740_993, u64::MAX] {
        for value in [json!(number), json!(number.to_string())] {
            let page = page_of(&json!([{ "seq": value, "updatedSeq": value }]));
            assert_eq!((page.rows[0].seq, page.rows[0].number), (number, number), "{value}");
        }
    }
    for odd in [
        json!(5.0),
        json!(-5),
        json!("5.0"),
        json!("-5"),
        json!("+5"),
        json!("5e3"),
        json!("18446744073709551616"),
        json!(" 5"),
        json!("five"),
        json!([5]),
        json!(true),
    ] {
        let page = page_of(
            &json!([{"seq": odd, "entryKind":"message"}, {"seq":"1","updatedSeq": odd}, {"seq":"7","updatedSeq":"8"}]),
        );
        assert_eq!(page.rows.len(), 1, "{odd}: the good row stays");
        assert_eq!(page.malformed.count(), 2, "{odd}");
        assert!(page.malformed.iter().any(|(odd, _)| &*odd.kind == "message"));
    }
    let page = super::page(br#"{"entries":[{"seq":18446744073709551616},{"seq":1e2},{"seq":5}]}"#).unwrap();
    assert_eq!((page.rows.len(), page.malformed.count()), (1, 2));
}

#[test]
fn defaults_left_out_and_written_out_are_the_same() {
    let short = page_of(&json!([{"entryKind":"message"}]));
    let long = page_of(
        &json!([{"seq":0,"entryKind":"message","body":"","blobHash":null,"updatedSeq":"","entryId":"","bodyOmitted":false}]),
    );
    let spelled = page_of(
        &json!([{"seq":null,"entryKind":"message","body":false,"blobHash":"","updatedSeq":"0","entryId":null,"bodyOmitted":""}]),
    );
    assert_eq!((short.rows[0].seq, short.rows[0].number), (0, 0));
    assert_eq!(short.rows[0].body, RowBody::Nothing);
    assert_eq!(short, long);
    assert_eq!(short, spelled);
    for empty in [&br"{}"[..], br#"{"entries":null,"generation":0}"#, br#"{"entries":"","generation":"0"}"#] {
        assert_eq!(super::page(empty).unwrap(), Page::default());
    }
    for odd in [&br#"{"entries":{}}"#[..], br#"{"entries":5}"#, br#"{"generation":1.5}"#, b"[]", b"", b"\xff{}"] {
        assert!(super::page(odd).is_err());
    }
}

#[test]
fn a3_pages_are_sorted_whatever_the_order() {
    let page = page_of(&json!([{"seq":"1"},{"seq":"18446744073709551615"},{"seq":"2"}]));
    let seqs: Vec<u64> = page.rows.iter().map(|row| row.seq).collect();
    assert_eq!(seqs, [u64::MAX, 2, 1]);
}

#[test]
fn an_odd_row_costs_nobody_else() {
    let page = page_of(&json!([5, null, [], "x", {"seq":"1"}, {"seq":"2","body":7,"entryKind":"message"}]));
    assert_eq!((page.rows.len(), page.malformed.count()), (2, 4));
    assert!(matches!(page.rows[0].body, RowBody::Malformed(_)), "an odd body is a row all the same");
    let page = super::page(br#"{"entries":[{"seq":"1","seq":"2"},{"seq":1e999},{"seq":"3"}],"generation":1}"#).unwrap();
    assert_eq!((page.rows.len(), page.malformed.count()), (1, 2));
}

#[test]
fn d13_absent_bodies_by_kind() {
    let hash = "0123456789abcdef0123456789abcdef";
    let body = |mut row: Value| {
        row["seq"] = json!("1");
        page_of(&json!([row])).rows.remove(0).body
    };
    for kind in ["message", "send-message", "user-attachment", "", "brand-new"] {
        let unfetched = |at| RowBody::Unfetched { at, kind: kind.into() };
        let blob = unfetched(BodyRef::Blob(hash.into()));
        assert_eq!(body(json!({"entryKind":kind,"blobHash":hash})), blob, "{kind}");
        assert_eq!(body(json!({"entryKind":kind,"blobHash":hash,"bodyOmitted":true})), blob, "{kind}");
        assert_eq!(body(json!({"entryKind":kind,"bodyOmitted":true})), unfetched(BodyRef::Omitted), "{kind}");
        assert_eq!(body(json!({"entryKind":kind})), RowBody::Nothing, "{kind}");
        assert!(matches!(body(json!({"entryKind":kind,"blobHash":5})), RowBody::Malformed(_)), "{kind}");
    }
    for kind in ["tool-call", "notice", "event", "feedback", "voice-call", "spend-initiation", "error"] {
        assert_eq!(body(json!({"entryKind":kind,"blobHash":hash})), RowBody::Nothing, "{kind}");
        assert_eq!(body(json!({"entryKind":kind,"bodyOmitted":true})), RowBody::Nothing, "{kind}");
    }
}

#[test]
fn d14_bodies_that_cannot_be_read() {
    let body = |body: &str| page_of(&json!([{"seq":"1","entryKind":"message","body":body}])).rows.remove(0).body;
    let text = r#"{"id":"e","kind":"message","role":"user","content":"你好"}"#;
    for encoded in [STANDARD.encode(text), STANDARD_NO_PAD.encode(text)] {
        assert!(matches!(body(&encoded), RowBody::Entry(_)), "padding or not");
    }
    for (raw, reason) in [
        (&b"\xff\xfe"[..], "the body isn't UTF-8"),
        (b"no json", "the body isn't a JSON object that can be read"),
        (b"[]", "the body isn't a JSON object that can be read"),
        (b"null", "the body isn't a JSON object that can be read"),
        (b"{\"kind\":\"message\"", "the body isn't a JSON object that can be read"),
        (b"{\"kind\":\"message\",\"content\":5}", "content isn't text"),
        (b"{}", "content isn't text"),
    ] {
        let RowBody::Malformed(odd) = body(&STANDARD.encode(raw)) else { panic!("{raw:?}") };
        assert_eq!((&*odd.kind, odd.reason), ("message", reason));
    }
    let RowBody::Malformed(odd) = body("*not base64*") else { panic!() };
    assert_eq!(odd.reason, "the body isn't base64");
    for (value, reason) in [
        (json!({"kind":"send-message"}), "message isn't an object"),
        (json!({"kind":"send-message","message":"text"}), "message isn't an object"),
        (json!({"kind":"send-message","message":{}}), "message has no type"),
        (json!({"kind":"send-message","message":{"type":5}}), "message has no type"),
        (json!({"kind":"send-message","message":{"type":"text"}}), "content isn't text"),
        (json!({"kind":"send-message","message":{"type":"text","content":{}}}), "content isn't text"),
        (json!({"kind":"send-message","message":{"type":"widget"}}), "widget isn't an object"),
        (json!({"kind":"send-message","message":{"type":"widget","widget":[]}}), "widget isn't an object"),
        (json!({"kind":"send-message","message":{"type":"widget","widget":{"prompt":5}}}), "prompt isn't text"),
        (json!({"kind":"send-message","message":{"type":"widget","widget":{"options":"x"}}}), "options isn't a list"),
        (json!({"kind":"send-message","message":{"type":"attachment"}}), "the file has neither a name nor a place"),
        (json!({"kind":"user-attachment"}), "the file has neither a name nor a place"),
    ] {
        assert_eq!(reason_of(&value), reason, "{value}");
    }
    let RowBody::Malformed(odd) = from_blob(b"[]", &"x".repeat(5000)) else { panic!() };
    assert!(odd.kind.len() < 100, "a kind of any length goes to the log");
}

// Bodies.

#[test]
fn the_message_examples_of_the_reference() {
    let echo = entry_of(
        &json!({"id":"t10u","kind":"message","role":"user","content":"Please check the build","timestampMs":1_790_000_000_000_u64,"clientNonce":"33333333-3333-4333-8333-333333333333","requestId":"req-10"}),
    );
    assert_eq!(
        echo,
        Entry {
            id: Some("t10u".into()),
            at: Some(Wall(1_790_000_000_000)),
            nonce: Some("33333333-3333-4333-8333-333333333333".into()),
            role: Role::User,
            between_bots: false,
            automation: false,
            branched: false,
            has_author: false,
            reply_to: None,
            content: Content::Message("Please check the build".into()),
        }
    );
    let streamed = entry_of(
        &json!({"id":"t10a","kind":"message","role":"assistant","content":"Working on it","timestampMs":1_790_000_001_000_u64,"requestId":"req-10","isStreaming":true}),
    );
    assert_eq!((streamed.role, streamed.nonce), (Role::Assistant, None));
    let other = entry_of(
        &json!({"id":"t10p","kind":"message","role":"assistant","content":"Can you look at this?","toAgent":{"id":"4","name":"Other Bot","kind":"agent"}}),
    );
    assert!(other.between_bots);
}

#[test]
fn marks_beside_the_content() {
    let with = |key: &str, value: Value| {
        let mut body = json!({"id":"e","kind":"message","role":"user","content":"x"});
        body[key] = value;
        entry_of(&body)
    };
    let plain = entry_of(&json!({"id":"e","kind":"message","role":"user","content":"x"}));
    for absent in [json!(null), json!(false), json!("")] {
        for key in
            ["fromAgent", "toAgent", "author", "automationName", "branched", "clientNonce", "replyToId", "replyTo"]
        {
            assert_eq!(with(key, absent.clone()), plain, "{key}: {absent}");
        }
    }
    for key in ["fromAgent", "toAgent"] {
        assert!(with(key, json!({"id":"b"})).between_bots, "{key}");
    }
    assert!(with("author", json!({"id":"b","name":"Member"})).has_author);
    for key in ["automation", "automationName", "automationId", "automation_run"] {
        assert!(with(key, json!("daily")).automation, "{key}");
        assert!(with(key, json!({"id":"r"})).automation, "{key}");
    }
    let quoted = entry_of(
        &json!({"kind":"message","content":"the key \"automationName\" is a word","nested":{"automationName":"x"}}),
    );
    assert!(!quoted.automation, "only a field of the root counts");
    for up in [json!(true), json!(1)] {
        assert!(with("branched", up).branched);
    }
    assert!(!with("branched", json!(0)).branched);
    for role in [json!("system"), json!(5), json!(null)] {
        assert_eq!(with("role", role).role, Role::Other);
    }
    assert_eq!(with("clientNonce", json!(5)).nonce, None);
    for at in [json!("1790000000000"), json!(1_790_000_000_000_u64)] {
        assert_eq!(with("timestampMs", at).at, Some(Wall(1_790_000_000_000)));
    }
    for at in [json!(-1), json!("soon"), json!(u64::MAX), json!({})] {
        assert_eq!(with("timestampMs", at).at, None);
    }
}

#[test]
fn native_replies() {
    let reply = |body: Value| {
        let mut whole = json!({"id":"e","kind":"send-message","message":{"type":"text","content":"x"}});
        for (key, value) in body.as_object().unwrap() {
            if key == "message" {
                for (key, value) in value.as_object().unwrap() {
                    whole["message"][key] = value.clone();
                }
            } else {
                whole[key] = value.clone();
            }
        }
        entry_of(&whole).reply_to.map(|id| id.to_string())
    };
    for body in [
        json!({"replyToId":"t1"}),
        json!({"replyTo":"t1"}),
        json!({"replyTo":{"id":"t1"}}),
        json!({"replyTo":{"entryId":"t1","content":"quoted"}}),
        json!({"message":{"replyToId":"t1"}}),
        json!({"message":{"replyTo":{"id":"t1"}}}),
        json!({"replyToId":"t1","message":{"replyToId":"t2"}}),
        json!({"replyToId":null,"replyTo":"","message":{"replyTo":"t1"}}),
    ] {
        assert_eq!(reply(body.clone()).as_deref(), Some("t1"), "{body}");
    }
    for body in [json!({}), json!({"replyTo":{}}), json!({"replyTo":5}), json!({"replyTo":[]})] {
        assert_eq!(reply(body.clone()), None, "{body}");
    }
}

#[test]
fn text_cards() {
    assert_eq!(
        card_of(&json!({"type":"text","content":"The build is green."})),
        Card::Text { content: "The build is green.".into(), images: vec![] }
    );
    let card = card_of(&json!({"type":"text","content":"","images":[
        {"url":"https://example.test/a.png","alt":"chart"}, {"url":"https://example.test/b.png"}, {"alt":"only words"},
        {}, 5, {"url":7}, {"url":"data:image/png;base64,AAAA"}
    ]}));
    let image = |alt: Option<&str>, url: &str| Image { alt: alt.map(Into::into), url: url.into() };
    assert_eq!(
        card,
        Card::Text {
            content: "".into(),
            images: vec![
                image(Some("chart"), "https://example.test/a.png"),
                image(None, "https://example.test/b.png"),
                image(Some("only words"), ""),
                image(None, "data:image/png;base64"),
            ],
        }
    );
}

fn widget(body: &Value) -> Widget {
    let mut whole =
        json!({"id":"e","kind":"send-message","message":{"type":"widget","widget":{"prompt":"Deploy now?"}}});
    for (key, value) in body.as_object().unwrap() {
        if key == "message" || key == "widget" {
            let target = if key == "message" { &mut whole["message"] } else { &mut whole["message"]["widget"] };
            for (key, value) in value.as_object().unwrap() {
                target[key] = value.clone();
            }
        } else {
            whole[key] = value.clone();
        }
    }
    match entry_of(&whole).content {
        Content::Sent(Card::Widget(widget)) => (*widget).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn widgets() {
    let option = |label: &str, value: &str| WidgetOption { label: label.into(), value: value.into() };
    let answered = widget(&json!({
        "widget":{"helpText":"Takes five minutes","options":[{"label":"Deploy","value":"Yes, deploy","style":"primary"},{"label":"Wait"}],"allowCustom":true},
        "respondedValue":"Yes, deploy"
    }));
    assert_eq!(
        answered,
        Widget {
            prompt: "Deploy now?".into(),
            help: Some("Takes five minutes".into()),
            options: vec![option("Deploy", "Yes, deploy"), option("Wait", "Wait")],
            responded: Some("Yes, deploy".into()),
            closed: false,
        }
    );
    let odd = widget(
        &json!({"widget":{"options":[5, null, "plain", {}, {"value":"v"}, {"label":""}, {"label":"A","value":5}, {"label":"B","value":""}]}}),
    );
    assert_eq!(odd.options, [option("B", "B")], "options that can't be read are skipped");
    let empty = widget(&json!({"widget":{"prompt":null}}));
    assert_eq!((&*empty.prompt, empty.options.len()), ("", 0), "a widget all the same");
    for (state, responded, closed) in [
        (json!({}), None, false),
        (json!({"respondedValue":""}), None, false),
        (json!({"respondedValue":null}), None, false),
        (json!({"respondedValue":"x"}), Some("x"), false),
        (json!({"message":{"respondedValue":"x"}}), Some("x"), false),
        (json!({"respondedValue":"root","message":{"respondedValue":"x"}}), Some("root"), false),
        (json!({"widgetDismissed":true}), None, true),
        (json!({"widgetSkipped":true}), None, true),
        (json!({"message":{"widgetDismissed":true}}), None, true),
        (json!({"message":{"widgetSkipped":true}}), None, true),
        (json!({"widgetDismissed":false,"widgetSkipped":null}), None, false),
    ] {
        let widget = widget(&state);
        assert_eq!((widget.responded.as_deref(), widget.closed), (responded, closed), "{state}");
    }
}

#[test]
fn attachments_show_a_name_and_never_a_place() {
    let of = |body: &Value| match entry_of(body).content {
        Content::UserAttachment(file) | Content::Sent(Card::Attachment(file)) => file,
        other => panic!("{other:?}"),
    };
    let file = |name: &str, size| Attachment { name: name.into(), size };
    for (body, expected) in [
        (
            json!({"kind":"user-attachment","file_path":"attachments/brief.pdf","file_name":"brief.pdf","byteSize":1024}),
            file("brief.pdf", Some(1024)),
        ),
        (
            json!({"kind":"user-attachment","file_path":"/home/person/attachments/a b.pdf","byteSize":"9007199254740993"}),
            file("a b.pdf", Some(9_007_199_254_740_993)),
        ),
        (json!({"kind":"user-attachment","fileName":"x/y/z.txt","byteSize":-1}), file("z.txt", None)),
        (
            json!({"kind":"send-message","message":{"type":"attachment","url":"attachments/chart.png","name":"chart.png","byteSize":20480}}),
            file("chart.png", Some(20480)),
        ),
        (
            json!({"kind":"send-message","message":{"type":"attachment","url":"https://store.example.test/u/%E5%9B%BE.png?sig=secret"}}),
            file("图.png", None),
        ),
        (json!({"kind":"send-message","message":{"type":"attachment","path":"a/b.bin"}}), file("b.bin", None)),
        (
            json!({"kind":"send-message","message":{"type":"attachment","url":"https://store.example.test"}}),
            file("附件", None),
        ),
    ] {
        assert_eq!(of(&body), expected, "{body}");
    }
}

#[test]
fn cards_that_are_handled_in_grok_bot_say_what_they_ask_for() {
    for (message, asks) in [
        (
            json!({"type":"auto-review-approval","approval":{"requestId":"r-1","summary":"Run a script","status":"pending"}}),
            "请求批准：Run a script",
        ),
        (json!({"type":"auto-review-approval"}), "请求批准"),
        (json!({"type":"auto-review-approval","approval":{"summary":"two\nlines"}}), "请求批准：two lines"),
        (
            json!({"type":"local-tool-permission","ask":{"requestId":"r-2","action":"write","target":"notes.txt","status":"pending"}}),
            "请求权限：write notes.txt",
        ),
        (json!({"type":"local-tool-permission","ask":5}), "请求权限"),
        (
            json!({"type":"secret-request","secretRequest":{"requestId":"r-3","label":"API token","target":{"kind":"box-env","name":"SAMPLE_TOKEN"}}}),
            "请求保密信息：API token",
        ),
        (
            json!({"type":"secret-request","secretRequest":{"target":{"kind":"box-env","name":"SAMPLE_TOKEN"}}}),
            "请求保密信息：SAMPLE_TOKEN",
        ),
        (json!({"type":"connector"}), "请求连接服务"),
        (json!({"type":"cursor-agent","bcId":"bc-55555555-5555-4555-8555-555555555555"}), "查看 Cursor 代理的任务"),
        (
            json!({"type":"email-draft","draft":{"id":"d-1","to":["a@example.test"],"subject":"Hi","body":"Hello","status":"editable"}}),
            "邮件草稿：Hi",
        ),
        (json!({"type":"slack-draft","draft":{"body":"Hello"}}), "Slack 草稿"),
        (json!({"type":"virtual-card"}), "请求使用虚拟卡"),
        (json!({"type":"user-form","form":{"title":"Trip"}}), "请求填写表单：Trip"),
    ] {
        assert_eq!(card_of(&message), Card::Handled { asks: asks.into() }, "{message}");
    }
    assert_eq!(card_of(&json!({"type":"hologram","x":1})), Card::Unknown { kind: "hologram".into() });
}

#[test]
fn kinds_that_are_no_messages_by_themselves() {
    for (body, unknown) in [
        (json!({"id":"t10c0","kind":"tool-call","name":"Shell","status":"completed","summary":"Listed files"}), false),
        (json!({"id":"n1","kind":"notice","text":"The computer restarted."}), false),
        (json!({"id":"e1","kind":"event","event":{"type":"agent-renamed"}}), false),
        (json!({"id":"f1","kind":"feedback","requestId":"req-10"}), false),
        (json!({"id":"v1","kind":"voice-call","call":{"callId":"vc-1"}}), false),
        (json!({"id":"sp1","kind":"spend-initiation"}), false),
        (json!({"id":"x","kind":"error","content":"internal"}), false),
        (json!({"id":"x","kind":"brand-new","content":"text","clientNonce":"n"}), true),
    ] {
        let entry = entry_of(&body);
        let Content::Other { kind, content, unknown: is_unknown } = entry.content else { panic!("{body}") };
        assert_eq!((&*kind, is_unknown), (body["kind"].as_str().unwrap(), unknown));
        assert_eq!(content.as_deref(), body["content"].as_str());
        assert_eq!(entry.nonce.as_deref(), body["clientNonce"].as_str());
    }
    let RowBody::Entry(entry) = from_blob(br#"{"content":"x"}"#, "message") else { panic!() };
    assert_eq!(entry.content, Content::Message("x".into()), "the envelope's kind where the body has none");
    let RowBody::Entry(entry) = from_blob(br#"{"kind":"notice"}"#, "message") else { panic!() };
    assert!(matches!(entry.content, Content::Other { .. }), "the body's own goes first");
}

#[test]
fn a21_old_rows_and_new_kinds_are_kept() {
    let body = |value: &Value| STANDARD.encode(bytes(value));
    let page = page_of(&json!([
        {"seq":"2","updatedSeq":"2","entryKind":"send-message","body":body(&json!({"id":"a","kind":"send-message","message":{"type":"text","content":"old"}}))},
        {"seq":"1","updatedSeq":"1","entryKind":"never-seen","body":body(&json!({"id":"b","kind":"never-seen"}))}
    ]));
    assert_eq!((page.rows.len(), page.malformed.count()), (2, 0));
    assert!(page.rows.iter().all(|row| matches!(row.body, RowBody::Entry(_))));
}

#[test]
fn half_a_character_costs_no_message() {
    let RowBody::Entry(entry) = from_blob(br#"{"kind":"message","role":"user","content":"cut \ud83e"}"#, "message")
    else {
        panic!()
    };
    assert_eq!(entry.content, Content::Message("cut \u{fffd}".into()));
}

// Frames.

#[test]
fn the_row_frames_of_the_reference() {
    assert_eq!(
        one_frame(
            &json!({"connected":{"streamId":"s-1","serverTimeMs":"1790000000000","absoluteLifetimeMs":"1200000"}})
        ),
        Frame::Connected { server_time: Some(Wall(1_790_000_000_000)), lifetime: Some(Duration::from_mins(20)) }
    );
    assert_eq!(one_frame(&json!({"connected":{}})), Frame::Connected { server_time: None, lifetime: None });
    let frame = one_frame(
        &json!({"rows":{"agentId":AGENT,"generation":3,"entries":[{"seq":"40","entryKind":"message","body":"eyJpZCI6InQxMHUifQ==","updatedSeq":"58","entryId":"t10u"}],"deletes":[{"seq":"12","updatedSeq":"59","entryId":"t3s1"},{"seq":13,"updatedSeq":60},{"seq":"x"},5],"replay":true}}),
    );
    let Frame::Rows { agent_id, generation, rows, deletes, malformed } = frame else { panic!("{frame:?}") };
    assert_eq!((agent_id, generation), (agent(), Some(3)));
    assert_eq!((rows[0].seq, rows[0].number, rows[0].id().to_string()), (40, 58, "t10u".to_owned()));
    let delete = |seq, number, id: Option<&str>| Delete { seq, number, entry_id: id.map(EntryId::from) };
    assert_eq!(deletes, [delete(12, 59, Some("t3s1")), delete(13, 60, None)]);
    assert_eq!(malformed.count(), 2);
    assert_eq!(one_frame(&json!({"heartbeat":{"serverTimeMs":"1790000010000"}})), Frame::Heartbeat);
    assert_eq!(one_frame(&json!({"heartbeat":{}})), Frame::Heartbeat);
}

#[test]
fn d10_generations_in_frames() {
    let cleared = |fields: Value| {
        let mut reset = fields;
        reset["agentId"] = json!(AGENT);
        one_frame(&json!({ "cleared": reset }))
    };
    let at = |generation| Frame::Cleared { agent_id: agent(), generation };
    assert_eq!(cleared(json!({"newGeneration":4})), at(Some(4)));
    assert_eq!(cleared(json!({"newGeneration":"4","generation":9})), at(Some(4)));
    assert_eq!(cleared(json!({"generation":9})), at(Some(9)), "one server writes it so");
    assert_eq!(cleared(json!({})), at(None));
    assert_eq!(cleared(json!({"newGeneration":0})), at(None));
    assert!(is_malformed(&cleared(json!({"newGeneration":1.5})), "cleared"));
    assert_eq!(
        one_frame(&json!({"cursorTooOld":{"agentId":AGENT,"generation":4}})),
        Frame::CursorTooOld { agent_id: agent(), generation: Some(4) }
    );
    for generation in [json!(0), json!(null), json!("0")] {
        let frame = one_frame(&json!({"rows":{"agentId":AGENT,"generation":generation}}));
        assert!(matches!(frame, Frame::Rows { generation: None, .. }), "{frame:?}");
    }
}

#[test]
fn d1_other_sessions_are_left_out() {
    let other = |kind: &str| Frame::Other { kind: kind.into(), unknown: false };
    for kind in ["rows", "cleared", "cursorTooOld", "turnFailed"] {
        let with = |session: Value| one_frame(&json!({ kind: {"agentId":AGENT,"sessionId":session} }));
        assert_eq!(with(json!("group:room")), other(kind));
        for main in [json!(""), json!(null), json!(false)] {
            assert_ne!(with(main.clone()), other(kind), "{kind} {main}");
        }
        assert!(is_malformed(&with(json!(5)), kind), "a session that can't be read isn't the main one");
    }
    let frame = one_frame(&json!({"agentState":{"live":[
        {"agentId":AGENT,"sessionId":"group:room","isRunning":true},
        {"agentId":AGENT,"isRunning":true}
    ]}}));
    let Frame::AgentState { live, .. } = frame else { panic!() };
    assert_eq!(live.len(), 1);
}

#[test]
fn act4_live_states_of_the_reference() {
    let live = |value: Value| match one_frame(&json!({ "agentState": value })) {
        Frame::AgentState { snapshot, live } => (snapshot, live),
        other => panic!("{other:?}"),
    };
    let (snapshot, states) = live(
        json!({"live":[{"agentId":AGENT,"isRunning":true,"activity":{"kind":"tool","tool":"Shell","detail":"Listing files","target":"/tmp","callId":"call-1"},"updatedAtMs":"1790000000000","staleAfterMs":"90000"}],"snapshot":true,"client":[{"agentId":AGENT,"unreadCount":2,"lastMessagePreview":"Done"}]}),
    );
    let activity = LiveActivity { kind: "tool".into(), tool: "Shell".into(), detail: "Listing files".into() };
    let running = LiveState { running: true, activity: Some(activity), ..LiveState::default() };
    assert_eq!((snapshot, states), (true, vec![(agent(), running)]));
    let (snapshot, states) = live(json!({"live":[{"agentId":AGENT,"isRunning":true,"isComposingMessage":true}]}));
    assert!(!snapshot);
    assert_eq!(states[0].1, LiveState { running: true, composing: true, ..LiveState::default() });
    let (_, states) = live(
        json!({"live":[{"agentId":AGENT,"awaiting":{"tabId":"widget","reason":"ask","sinceMs":"1790000005000"}}]}),
    );
    assert_eq!(states[0].1, LiveState { awaiting: true, ..LiveState::default() });
    assert_eq!(live(json!({"snapshot":true})), (true, vec![]), "the idle snapshot");
    let (_, states) = live(
        json!({"live":[{"agentId":AGENT,"isRunning":false,"isComposingMessage":false,"isRetrying":false,"activity":null,"awaiting":null,"hasRunningSubagents":true,"lastTurnSettlement":{"outcome":"success"},"sessionId":""}],"snapshot":false}),
    );
    assert_eq!(
        states,
        [(agent(), LiveState::default())],
        "false is written out by some, and nothing else makes a Bot busy"
    );
    for absent in [json!(null), json!(false), json!("")] {
        let (_, states) =
            live(json!({"live":[{"agentId":AGENT,"activity":absent,"awaiting":absent,"isRunning":absent}]}));
        assert_eq!(states[0].1, LiveState::default(), "{absent}");
    }
    let (_, states) = live(json!({"live":[{"agentId":AGENT,"activity":{}}]}));
    assert_eq!(states[0].1.activity, Some(LiveActivity::default()));
}

#[test]
fn an_odd_live_state_costs_nobody_else() {
    let all = frames(&bytes(&json!({"agentState":{"snapshot":true,"live":[
        5, null, {}, {"agentId":""}, {"agentId":"x","isRunning":"perhaps"}, {"agentId":"x","activity":"busy"}, {"agentId":"x","sessionId":7},
        {"agentId":AGENT,"isRunning":true}
    ]}})));
    let odd = all.iter().filter(|frame| is_malformed(frame, "agentState.live")).count();
    assert_eq!(odd, 7, "{all:?}");
    let Some(Frame::AgentState { snapshot: true, live }) = all.last() else { panic!("{all:?}") };
    assert_eq!(live.len(), 1);
    let cut = br#"{"agentState":{"live":[{"agentId":"a","activity":{"kind":"thinking","detail":"cut \ud83e"}}]}}"#;
    let all = frames(cut);
    let [Frame::AgentState { live, .. }] = &all[..] else { panic!("{all:?}") };
    assert_eq!(&*live[0].1.activity.as_ref().unwrap().detail, "cut \u{fffd}");
}

#[test]
fn the_other_frames() {
    let failed = |fields: Value| match one_frame(&json!({ "turnFailed": fields })) {
        Frame::TurnFailed { failure, .. } => (failure.code.to_string(), failure.summary.to_string()),
        other => panic!("{other:?}"),
    };
    let named = json!({"agentId":AGENT,"turnId":"turn-7","code":"GROK_BOT_TURN_FAILURE_CODE_USAGE_LIMIT","summary":"Usage limit reached","failedAtMs":"1790000001000"});
    assert_eq!(failed(named), ("GROK_BOT_TURN_FAILURE_CODE_USAGE_LIMIT".to_owned(), "Usage limit reached".to_owned()));
    assert_eq!(failed(json!({"agentId":AGENT,"failureCode":3})).0, "3");
    assert_eq!(failed(json!({"agentId":AGENT})).0, "");
    assert_eq!(
        one_frame(&json!({"rosterChanged":{"kind":"GROK_BOT_ROSTER_CHANGE_KIND_AGENT_DELETED","agentId":AGENT}})),
        Frame::RosterChanged
    );
    for (kind, value) in [
        ("computerActions", json!({"actions":[{"agentId":AGENT,"type":"click","x":120,"y":48.5}]})),
        ("agentStateChanged", json!({"agentId":AGENT,"families":["automations"]})),
        ("boxState", json!({"state":{"runState":"SAND_BOX_RUN_STATE_RUNNING"},"snapshot":true})),
    ] {
        assert_eq!(one_frame(&json!({ kind: value })), Frame::Other { kind: kind.into(), unknown: false });
    }
}

#[test]
fn frames_of_newer_and_of_broken_servers() {
    assert_eq!(one_frame(&json!({"hologram":{"x":1}})), Frame::Other { kind: "hologram".into(), unknown: true });
    assert_eq!(one_frame(&json!({})), Frame::Other { kind: "".into(), unknown: true });
    assert_eq!(one_frame(&json!({"heartbeat":{},"traceId":"t"})), Frame::Heartbeat, "a new field beside the case");
    assert_eq!(one_frame(&json!({"heartbeat":{},"rows":null})), Frame::Heartbeat);
    assert!(is_malformed(&one_frame(&json!({"heartbeat":{},"rosterChanged":{}})), "frame"));
    for odd in [
        json!({"rows":5}),
        json!({"rows":{}}),
        json!({"rows":{"agentId":5}}),
        json!({"rows":{"agentId":AGENT,"entries":{}}}),
        json!({"rows":{"agentId":AGENT,"generation":-1}}),
    ] {
        assert!(is_malformed(&one_frame(&odd), "rows"), "{odd}");
    }
    for odd in [&b"[]"[..], b"5", b"", b"{", b"\xff", br#"{"rows":{"agentId":"a","agentId":"b"}}"#] {
        let all = frames(odd);
        assert!(all.len() == 1 && is_malformed(&all[0], "frame"), "{odd:?}: {all:?}");
    }
}

// Actions.

#[test]
fn post4_deliveries() {
    let refused = |code: &str| Delivery::Refused { code: code.to_owned() };
    for (answer, expected) in [
        (
            json!({"dispatched":true,"mode":"GROK_BOT_TEMPORAL_HARNESS_MODE_LIVE","workflowId":"wf-1","delivery":"GROK_BOT_USER_MESSAGE_DELIVERY_ACCEPTED_TEMPORAL"}),
            Delivery::Accepted,
        ),
        (json!({"delivery":"ACCEPTED_BOX"}), Delivery::Accepted),
        (json!({"delivery":"DUPLICATE"}), Delivery::Accepted),
        (json!({"delivery":1}), Delivery::Accepted),
        (json!({"delivery":2}), Delivery::Accepted),
        (json!({"delivery":"3"}), Delivery::Accepted),
        (json!({"dispatched":true}), Delivery::Accepted),
        (
            json!({"delivery":"GROK_BOT_USER_MESSAGE_DELIVERY_REFUSED","refusal":{"failureCode":"sessions_unsupported_on_box","message":"Synthetic"}}),
            refused("sessions_unsupported_on_box"),
        ),
        (json!({"delivery":4}), refused("")),
        (json!({"dispatched":true,"delivery":"REFUSED","refusal":5}), refused("")),
        (json!({}), Delivery::Unclear),
        (json!({"dispatched":false}), Delivery::Unclear),
        (json!({"delivery":"BRAND_NEW","dispatched":true}), Delivery::Unclear),
        (json!({"delivery":0,"dispatched":true}), Delivery::Unclear),
        (json!({"delivery":[]}), Delivery::Unclear),
    ] {
        assert_eq!(super::delivery(&bytes(&answer)), Ok(expected), "{answer}");
    }
    assert!(super::delivery(b"<html>").is_err());
}

#[test]
fn post3_statuses() {
    for (answer, expected) in [
        (json!({"status":"GROK_BOT_SEND_STATUS_ACCEPTED","echoEntryId":"t10u"}), SendStatus::Other),
        (json!({"status":"GROK_BOT_SEND_STATUS_NOT_FOUND"}), SendStatus::NotFound),
        (json!({"status":"NOT_FOUND"}), SendStatus::NotFound),
        (json!({"status":1}), SendStatus::NotFound),
        (json!({"status":"REJECTED"}), SendStatus::Rejected),
        (json!({"status":3}), SendStatus::Rejected),
        (json!({"status":"PENDING"}), SendStatus::Other),
        (json!({"status":5}), SendStatus::Other),
        (json!({"status":"BRAND_NEW"}), SendStatus::Other),
        (json!({}), SendStatus::Other),
    ] {
        assert_eq!(super::send_status(&bytes(&answer)), Ok(expected), "{answer}");
    }
}

#[test]
fn post6_widget_answers() {
    for (answer, expected) in [
        (json!({"accepted":true}), WidgetAnswer::Accepted),
        (
            json!({"refusal":{"failureCode":"user-form/stale"}}),
            WidgetAnswer::Refused { code: "user-form/stale".to_owned() },
        ),
        (json!({"accepted":false,"refusal":{}}), WidgetAnswer::Refused { code: String::new() }),
        (json!({}), WidgetAnswer::Unclear),
        (json!({"accepted":"perhaps","refusal":null}), WidgetAnswer::Unclear),
    ] {
        assert_eq!(super::widget_answer(&bytes(&answer)), Ok(expected), "{answer}");
    }
}

#[test]
fn requests_as_the_service_reads_them() {
    let read = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let page = |generation, before_seq| {
        read(super::page_request(&PageRequest { agent_id: agent(), generation, before_seq, limit: 500 }))
    };
    assert_eq!(page(None, None), json!({"agentId":AGENT,"limit":500}));
    assert_eq!(page(Some(3), Some(40)), json!({"agentId":AGENT,"generation":3,"beforeSeq":"40","limit":500}));
    assert_eq!(page(None, Some(u128::from(u64::MAX)))["beforeSeq"], json!("18446744073709551615"));
    assert_eq!(page(None, Some(u128::from(u64::MAX) + 1)), json!({"agentId":AGENT,"limit":500}), "no bound");
    let cursor = Cursor { generation: 3, number: u64::MAX };
    assert_eq!(
        read(super::watch_request(&WatchRequest { cursors: vec![(agent(), cursor)] })),
        json!({"cursors":[{"agentId":AGENT,"generation":3,"afterUpdatedSeq":"18446744073709551615","sessionId":""}],"includeUnlistedAgents":true,"inlineBodyMaxBytes":262_144})
    );
    let send = |reply_to: Option<&str>| {
        read(super::send_request(&SendRequest {
            agent_id: agent(),
            message_id: "33333333-3333-4333-8333-333333333333".to_owned(),
            text: "Please check the build".into(),
            sent_at: Wall(1_790_000_000_000),
            reply_to: reply_to.map(EntryId::from),
        }))
    };
    let plain = json!({"agentId":AGENT,"messageId":"33333333-3333-4333-8333-333333333333","text":"Please check the build","sentAtMs":"1790000000000","source":"GROK_BOT_CLIENT_SURFACE_DESKTOP","sessionId":""});
    assert_eq!(send(None), plain);
    assert_eq!(send(Some("t9s0"))["replyToId"], json!("t9s0"));
    assert_eq!(
        read(super::respond_request(&WidgetRequest {
            agent_id: agent(),
            entry_id: "t11s0".into(),
            value: "Yes, deploy".into()
        })),
        json!({"agentId":AGENT,"entryId":"t11s0","value":"Yes, deploy"}),
        "no session for the default one"
    );
    assert_eq!(read(super::status_request(&agent(), "m")), json!({"agentId":AGENT,"messageId":"m","sessionId":""}));
}

// What another implementation sent.

#[test]
fn the_recorded_answers() {
    let roster = super::roster(&recorded("02-list-agents.http"), None).unwrap();
    let [bot] = &roster.bots[..] else { panic!("{roster:?}") };
    assert_eq!((bot.agent_id.as_str(), &*bot.name, bot.harness), ("bridge-agent-local", "Bridge Bot", Harness::Box));
    let empty = super::page(&recorded("03-list-entries-empty.http")).unwrap();
    assert_eq!((empty.rows.len(), empty.generation), (0, Some(1)));
    let page = super::page(&recorded("09-list-entries.http")).unwrap();
    let seen: Vec<_> = page.rows.iter().map(|row| (row.seq, row.number)).collect();
    assert_eq!((seen, page.malformed.count()), (vec![(2, 2), (1, 1)], 0), "newest first though it came oldest first");
    let RowBody::Entry(echo) = &page.rows[1].body else { panic!() };
    assert_eq!((echo.nonce.as_deref(), echo.role), (Some("m-1"), Role::User));
    assert_eq!(echo.content, Content::Message("hello".into()));
    assert_eq!(super::page(&recorded("10-list-entries-before.http")).unwrap(), page, "it ignores its bounds");
    for name in ["07-send.http", "08-send-retry.http"] {
        assert_eq!(super::delivery(&recorded(name)), Ok(Delivery::Accepted), "{name}");
    }
    assert_eq!(super::widget_answer(&recorded("11-widget.http")), Ok(WidgetAnswer::Unclear));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = frames(&bytes);
        let _ = super::page(&bytes);
        let _ = from_blob(&bytes, "message");
    }

    #[test]
    fn no_json_panics(value in json_value(), kind in "(message|send-message|user-attachment|x)") {
        let mut body = value.clone();
        if let Value::Object(body) = &mut body {
            body.insert("kind".to_owned(), json!(kind));
        }
        let _ = from_blob(&bytes(&body), "message");
        for key in ["rows", "agentState", "cleared", "turnFailed", "connected", "live"] {
            let all = frames(&bytes(&json!({ key: value })));
            prop_assert!(!all.is_empty());
        }
        let _ = super::roster(&bytes(&json!({ "agents": [value] })), None);
        let page = super::page(&bytes(&json!({ "entries": [value, {"seq":"7"}] }))).unwrap();
        prop_assert!(page.rows.iter().any(|row| row.seq == 7), "its neighbour is there");
    }
}

/// JSON whose keys are those of the wire, with values of any type.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9你🦀/.?]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop::sample::select(vec![
            "agentId",
            "sessionId",
            "generation",
            "entries",
            "deletes",
            "live",
            "seq",
            "updatedSeq",
            "body",
            "entryId",
            "entryKind",
            "message",
            "type",
            "content",
            "widget",
            "options",
            "label",
            "value",
            "replyTo",
            "id",
            "activity",
            "automationName",
            "file_path",
            "images",
            "url",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key, inner, 0..8)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

//! What a broken or hostile service may write. An odd record never costs a neighbour anything, is counted once, and leaves no text behind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::fuzz::Corpus;
use crate::model::{Malformed, Row, RowBody};
use crate::upstream::{Frame, Page};

const AGENT: &str = "11111111-1111-4111-8111-111111111111";

fn good(seq: u64) -> String {
    let id = format!("good-{seq}");
    let body =
        json!({"kind": "send-message", "id": id, "message": {"type": "text", "content": format!("第 {seq} 条")}});
    let row = json!({
        "seq": seq.to_string(), "updatedSeq": (seq + 100).to_string(), "entryKind": "send-message", "entryId": id,
        "body": STANDARD.encode(body.to_string()),
    });
    row.to_string()
}

/// A page whose rows are written as they are.
fn page_of(rows: &[&str]) -> Page {
    super::page(format!(r#"{{"entries":[{}],"generation":3}}"#, rows.join(",")).as_bytes()).unwrap()
}

fn frames(payload: &[u8]) -> Vec<Frame> {
    super::frames(&[payload], &mut super::Bodies::default())
}

/// One frame, and nothing besides.
fn frame_of(text: &str) -> Frame {
    let mut all = frames(text.as_bytes());
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// A reason is written in the source, and a kind is a short name on one line.
fn is_discreet(odd: &Malformed) {
    assert!(odd.kind.chars().count() <= 65, "{odd:?}");
    assert!(!odd.kind.chars().any(char::is_control), "{odd:?}");
}

fn rows_are_discreet(rows: &[Row]) {
    for row in rows {
        if let RowBody::Malformed(odd) = &row.body {
            is_discreet(odd);
        }
    }
}

/// The bytes as one JSON value, where they are one.
fn as_json(bytes: &[u8]) -> Option<&str> {
    serde_json::from_slice::<&RawValue>(bytes).ok().map(RawValue::get)
}

/// A row between two good ones: they are read, and it is a row or is counted.
fn row_between(row: &str) {
    let (first, last) = (good(1), good(2));
    let expected = page_of(&[&first, &last]).rows;
    let page = page_of(&[&first, row, &last]);
    assert_eq!(page.rows.len() + page.malformed.count(), 3);
    assert!(expected.iter().all(|good| page.rows.contains(good)), "{page:?}");
    assert!(page.rows.is_sorted_by(|a, b| a.seq >= b.seq));
    page.malformed.iter().for_each(|(odd, _)| is_discreet(odd));
    rows_are_discreet(&page.rows);
    let delete = |seq: u64| format!(r#"{{"seq":{seq},"updatedSeq":9,"entryId":"d"}}"#);
    let frame = frame_of(&format!(
        r#"{{"rows":{{"agentId":"{AGENT}","entries":[{first},{row},{last}],"deletes":[{},{row},{}]}}}}"#,
        delete(5),
        delete(6),
    ));
    let Frame::Rows { rows, deletes, malformed, .. } = frame else { panic!("{frame:?}") };
    assert_eq!(rows.len() + deletes.len() + malformed.count(), 6);
    assert!(expected.iter().all(|good| rows.contains(good)), "{rows:?}");
    assert!(
        [5, 6].into_iter().all(|seq| deletes.iter().any(|delete| (delete.seq, delete.number) == (seq, 9))),
        "{deletes:?}"
    );
}

#[test]
fn an_odd_body_is_one_odd_row() {
    Corpus::of("bodies").fuzz(1000, |bytes| {
        let row = json!({
            "seq": "9", "updatedSeq": "10", "entryKind": "send-message", "entryId": "odd", "body": STANDARD.encode(bytes)
        });
        row_between(&row.to_string());
        let page = page_of(&[&row.to_string()]);
        let [row] = page.rows.as_slice() else { panic!("{page:?}") };
        assert_eq!(page.malformed.count(), 0);
        match &row.body {
            RowBody::Malformed(odd) if serde_json::from_slice::<Value>(bytes).is_err() => {
                // Read as a whole or not at all: nothing in it names it.
                let named = as_json(bytes).is_some_and(|text| text.starts_with('{'));
                assert!(named || &*odd.kind == "send-message", "{odd:?}");
            }
            // What came isn't asked for again. (No bytes are no body.)
            body => assert!(bytes.is_empty() || !matches!(body, RowBody::Unfetched { .. }), "{body:?}"),
        }
        if !bytes.is_empty() {
            assert_eq!(row.body, super::from_blob(bytes, "send-message"), "in the row or in the store");
        }
    });
}

#[test]
fn a_body_is_what_it_is_alone_whatever_lies_beside_it() {
    let row = |seq: usize, body: &[u8]| {
        json!({"seq": seq, "updatedSeq": 1, "entryKind": "send-message", "body": STANDARD.encode(body)}).to_string()
    };
    let check = |bodies: &[&[u8]]| {
        let rows: Vec<String> = bodies.iter().enumerate().map(|(seq, body)| row(seq, body)).collect();
        let page = page_of(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(page.rows.len(), bodies.len());
        for (row, body) in page.rows.iter().rev().zip(bodies) {
            assert_eq!(row.body, super::from_blob(body, "send-message"), "{}", String::from_utf8_lossy(body));
        }
    };
    let odd: &[&[u8]] = &[
        br#"{"kind":"message","content":"a\nb \"c\""}"#,
        br#" {"kind":"message","content":"a"}"#,
        b"{\"kind\":\"message\",\"content\":\"a\"}\n",
        br#"{"kind":"message","content":"a"}{"kind":"message","content":"b"}"#,
        // Each lacks what another begins with.
        br#"{"kind":"message","content":"a"#,
        br#"{"kind":"message","content":"a","x":"#,
        br#"{"kind":"message","content":"a","x":["#,
        br#"{"kind":"message","content":"a""#,
        br"}",
        br#","y":1}"#,
        br#""}"#,
        br"1]}",
        b"\"\xe4\xbd",
        b"\xa0\"}",
        br#"{"kind":"message","content":"a","kind":"message"}"#,
        br#"{"kind":"message","content":"\ud83e"}"#,
        br#"{"kind":"message","content":"\udd80"}"#,
        br#"[{"kind":"message","content":"a"}]"#,
        b"5",
        b"{}",
    ];
    let deep = format!(r#"{{"kind":"message","content":"a","message":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    let odd = [odd, &[deep.as_bytes()]].concat();
    for first in &odd {
        for second in &odd {
            check(&[first, second, odd[0], second, first]);
        }
    }
    check(&odd.iter().cycle().take(500).copied().collect::<Vec<_>>());
    Corpus::of("bodies").fuzz(200, |bytes| {
        if !bytes.is_empty() {
            check(&[odd[0], bytes, odd[0], bytes, bytes]);
        }
    });
}

#[test]
fn an_odd_row_or_delete_costs_no_neighbour() {
    Corpus::of("rows").fuzz(1000, |bytes| {
        if let Some(row) = as_json(bytes) {
            row_between(row);
        }
    });
}

#[test]
fn an_odd_bot_or_live_state_costs_no_neighbour() {
    Corpus::of("rows").fuzz(500, |bytes| {
        let Some(odd) = as_json(bytes) else { return };
        let bot = |id: &str| format!(r#"{{"agentId":"{id}","name":"N","viewerIsOwner":true}}"#);
        let roster =
            super::roster(format!(r#"{{"agents":[{},{odd},{}]}}"#, bot("a"), bot("b")).as_bytes(), None).unwrap();
        let named: Vec<&str> = roster.bots.iter().map(|bot| bot.agent_id.as_str()).collect();
        assert!(named.contains(&"a") && named.contains(&"b"), "{roster:?}");
        assert!(roster.bots.len() as u64 + roster.skipped <= 3);
        let live = |id: &str| format!(r#"{{"agentId":"{id}","isRunning":true}}"#);
        let mut all = frames(format!(r#"{{"agentState":{{"live":[{},{odd},{}]}}}}"#, live("a"), live("b")).as_bytes());
        let Some(Frame::AgentState { live, .. }) = all.pop() else { panic!("{all:?}") };
        let named = |id: &str| live.iter().any(|(agent, state)| agent.as_str() == id && state.running);
        assert!(named("a") && named("b") && live.len() + all.len() <= 3, "{live:?} {all:?}");
    });
}

#[test]
fn any_answer_and_any_frame_is_read_or_refused_as_a_whole() {
    Corpus::of("answers").fuzz(1000, |bytes| {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let listed = |list: &Value| list.as_array().map_or(0, Vec::len);
        // The same row without a body, twice in a row, is there once.
        let may_repeat = |rows: &[Row]| rows.iter().any(|row| row.body == RowBody::Nothing);
        if let Ok(page) = super::page(bytes) {
            if value.is_object() {
                let all = page.rows.len() + page.malformed.count();
                assert!(
                    all <= listed(&value["entries"]) && (all == listed(&value["entries"]) || may_repeat(&page.rows))
                );
            }
            assert!(page.rows.is_sorted_by(|a, b| a.seq >= b.seq) && page.generation != Some(0));
            rows_are_discreet(&page.rows);
        }
        if let Ok(roster) = super::roster(bytes, None) {
            let mut ids: Vec<&str> = roster.bots.iter().map(|bot| bot.agent_id.as_str()).collect();
            ids.sort_unstable();
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]) && ids.iter().all(|id| !id.is_empty()), "{ids:?}");
        }
        if let Ok(me) = super::me(bytes) {
            assert!(!["0", ""].map(Some).contains(&me.user_id.as_deref()), "{me:?}");
        }
        let all = frames(bytes);
        assert!(!all.is_empty(), "each frame comes to something");
        for frame in all {
            match frame {
                Frame::Rows { agent_id, generation, rows, deletes, malformed } => {
                    assert!(!agent_id.as_str().is_empty() && generation != Some(0));
                    if value.is_object() {
                        let listed = listed(&value["rows"]["entries"]) + listed(&value["rows"]["deletes"]);
                        let all = rows.len() + deletes.len() + malformed.count();
                        assert!(all <= listed && (all == listed || may_repeat(&rows) || !deletes.is_empty()));
                    }
                    rows_are_discreet(&rows);
                }
                Frame::Malformed(odd) => is_discreet(&odd),
                _ => {}
            }
        }
        let _ = (super::delivery(bytes), super::send_status(bytes), super::widget_answer(bytes));
        if let Ok(Some(url)) = super::presigned(bytes, "blobs/x") {
            assert!(String::from_utf8_lossy(bytes).contains("rel"), "{url}");
        }
    });
}

#[test]
fn frames_that_came_together_are_what_each_is_alone() {
    let rows = |agent: &str, session: &str, rows: &[String]| {
        format!(
            r#"{{"rows":{{"agentId":{agent},"sessionId":"{session}","entries":[{}],"deletes":[5]}}}}"#,
            rows.join(",")
        )
        .into_bytes()
    };
    let some = |from: u64, count: u64| (from..from + count).map(good).collect::<Vec<_>>();
    let odd = r#"{"seq":"x"}"#.to_owned();
    let own = [
        rows(r#""a""#, "", &some(1, 3)),
        // What can't be read as a frame, or is another session's, takes nothing from its neighbours and gives them nothing.
        rows("7", "", &some(10, 2)),
        rows(r#""b""#, "side", &some(20, 2)),
        rows(r#""b""#, "", &[good(30), odd.clone(), good(31)]),
        rows(r#""b""#, "", &[]),
        b"\xff".to_vec(),
        br#"{"heartbeat":{}}"#.to_vec(),
        br#"{"agentState":{"live":[5,{"agentId":"a"},6]}}"#.to_vec(),
        // Read on its own for its length; after it more than are read together.
        rows(r#""a""#, "", &some(100, 1100)),
        rows(r#""a""#, "", &some(2000, 700)),
        rows(r#""c""#, "", &some(3000, 700)),
        rows(r#""c""#, "", &[odd, good(4000)]),
    ];
    let check = |payloads: &[&[u8]]| {
        let alone: Vec<Frame> = payloads.iter().flat_map(|payload| frames(payload)).collect();
        assert_eq!(super::frames(payloads, &mut super::Bodies::default()), alone);
    };
    let mut payloads: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
    for _ in 0..own.len() {
        check(&payloads);
        payloads.rotate_left(1);
    }
    payloads.reverse();
    check(&payloads);
    Corpus::of("answers").fuzz(300, |bytes| check(&[&own[0], bytes, &own[3], bytes]));
}

#[test]
fn a_heap_of_tiny_records_is_counted_and_not_kept() {
    const HEAP: usize = 100_000;
    let good = good(7);
    let heap = |tiny: &str| format!("{tiny},").repeat(HEAP);
    for (tiny, rows, odd) in [("{}", 3, 0), ("0", 1, 2 * HEAP), ("[]", 1, 2 * HEAP), (r#"{"seq":"x"}"#, 1, 2 * HEAP)] {
        let heap = heap(tiny);
        let page = super::page(format!(r#"{{"entries":[{heap}{good},{heap}{good}]}}"#).as_bytes()).unwrap();
        // The good row is there twice: what differs is never taken for one.
        assert_eq!((page.rows.len(), page.malformed.count()), (rows + 1, odd), "{tiny}");
        assert!(page.malformed.iter().count() <= 2, "{tiny}");
        let payload = format!(
            r#"{{"rows":{{"agentId":"a","entries":[{heap}{good},{heap}{{}}],"deletes":[{heap}{{"seq":5}}]}}}}"#
        );
        let Frame::Rows { rows, deletes, malformed, .. } = frame_of(&payload) else { panic!("{tiny}") };
        assert!(rows.len() <= 3 && deletes.len() <= 2 && malformed.iter().count() <= 3, "{tiny}");
        assert!(rows.iter().any(|row| row.seq == 7) && deletes.iter().any(|delete| delete.seq == 5));
        let all = frames(format!(r#"{{"agentState":{{"live":[{heap}{{"agentId":"a"}}]}}}}"#).as_bytes());
        assert!(all.len() <= 1001, "{tiny}");
        assert!(matches!(all.last(), Some(Frame::AgentState { live, .. }) if live.len() == 1), "{tiny}");
    }
}

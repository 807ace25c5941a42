use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::{Author, EntryId, Wall};

fn message(number: u64, seq: u64, text: &str) -> Message {
    Message {
        number,
        seq,
        entry: EntryId::from(format!("e{seq}")),
        part: Part::Entry,
        version: Version::Base,
        from: Author::Bot,
        at: Wall(0),
        text: Arc::from(text),
        reply_to: None,
        meta: None,
    }
}

fn filled(numbers: &[u64]) -> Transcript {
    let messages: Vec<Message> = numbers.iter().zip(0..).map(|(number, seq)| message(*number, seq, "x")).collect();
    Transcript::new(7, messages, None)
}

fn numbers(page: &Page) -> Vec<u64> {
    page.messages.iter().map(|message| message.number()).collect()
}

#[test]
fn h12_newest_after_and_before_take_what_lies_next_to_their_bound() {
    let transcript = filled(&[2, 4, 6, 8, 10]);
    for (span, expected, before, after) in [
        (Span::Newest, vec![8, 10], true, false),
        (Span::After(0), vec![2, 4], false, true),
        (Span::After(4), vec![6, 8], true, true),
        (Span::After(8), vec![10], true, false),
        (Span::After(10), vec![], true, false),
        (Span::After(u128::MAX), vec![], true, false),
        (Span::Before(2), vec![], false, true),
        (Span::Before(5), vec![2, 4], false, true),
        (Span::Before(8), vec![4, 6], true, true),
        (Span::Before(u128::MAX), vec![8, 10], true, false),
    ] {
        let page = transcript.page(span, 2);
        assert_eq!((numbers(&page), page.more_before, page.more_after), (expected, before, after), "{span:?}");
    }
}

#[test]
fn h12_an_empty_record_has_nothing_on_either_side() {
    let page = Transcript::new(7, vec![], Some(12)).page(Span::Newest, 50);
    assert_eq!((page.messages.len(), page.more_before, page.more_after, page.head), (0, false, false, Some(12)));
}

#[test]
fn h12_one_cursors_messages_are_never_split() {
    let transcript = filled(&[1, 2, 2, 2, 3]);
    assert_eq!(numbers(&transcript.page(Span::After(0), 2)), [1, 2, 2, 2]);
    assert_eq!(numbers(&transcript.page(Span::Before(3), 1)), [2, 2, 2]);
    assert_eq!(numbers(&transcript.page(Span::Newest, 2)), [2, 2, 2, 3]);
}

#[test]
fn h12_a_page_ends_before_four_mebibytes_but_holds_one_cursors_messages() {
    let half = "啊".repeat(PAGE_BYTES / 6);
    let whole = "x".repeat(PAGE_BYTES);
    let messages = vec![message(1, 1, &half), message(2, 2, &half), message(3, 3, &half), message(4, 4, &whole)];
    let transcript = Transcript::new(7, messages, None);
    let page = transcript.page(Span::After(0), 50);
    assert_eq!(numbers(&page), [1, 2]);
    assert!(page.more_after);
    assert_eq!(numbers(&transcript.page(Span::After(3), 50)), [4]);
    assert_eq!(numbers(&transcript.page(Span::Newest, 50)), [4]);
    assert_eq!(numbers(&transcript.page(Span::Before(4), 50)), [2, 3]);
}

#[test]
fn a2_numbers_up_to_the_largest_u64_keep_their_places() {
    let transcript = filled(&[9_007_199_254_740_993, 9_007_199_254_740_994, u64::MAX]);
    assert_eq!(numbers(&transcript.page(Span::After(9_007_199_254_740_993), 1)), [9_007_199_254_740_994]);
    assert_eq!(numbers(&transcript.page(Span::Before(u128::from(u64::MAX) + 1), 1)), [u64::MAX]);
    assert_eq!(numbers(&transcript.page(Span::Before(u128::from(u64::MAX)), 1)), [9_007_199_254_740_994]);
    assert!(transcript.page(Span::After(u128::from(u64::MAX)), 1).messages.is_empty());
}

#[test]
fn d12_a_late_message_below_the_head_takes_its_place_and_leaves_the_head() {
    let mut transcript = filled(&[1, 5]);
    transcript.insert(vec![message(3, 9, "late")]);
    assert_eq!(numbers(&transcript.page(Span::Newest, 50)), [1, 3, 5]);
    assert_eq!(transcript.head(), Some(5));
}

#[test]
fn h18_a_head_never_goes_back() {
    let mut transcript = Transcript::new(7, vec![message(4, 1, "x")], Some(9));
    assert_eq!(transcript.head(), Some(9));
    transcript.append(vec![], 5);
    assert_eq!(transcript.head(), Some(9));
    transcript.append(vec![message(10, 2, "x")], 10);
    assert_eq!(transcript.head(), Some(10));
}

#[test]
fn d3_inside_one_cursor_deletes_come_first_then_entries_then_answers() {
    let answer = Message { part: Part::Answer, ..message(5, 1, "a") };
    let delete = Message { version: Version::Delete, ..message(5, 9, "") };
    let mut transcript = filled(&[]);
    transcript.append(vec![answer.clone(), message(5, 2, "e"), message(5, 1, "e"), delete.clone()], 5);
    let page = transcript.page(Span::Newest, 1);
    assert_eq!(page.messages.to_vec(), [delete, message(5, 1, "e"), message(5, 2, "e"), answer]);
}

#[test]
fn every_message_is_found_by_its_own_id_and_by_no_other() {
    let mut messages = vec![];
    for (seq, entry) in ["plain", "a:b", "edit", "delete", "reply", "a:reply", "9", "小", ""].into_iter().enumerate() {
        for part in [Part::Entry, Part::Answer] {
            for version in [Version::Base, Version::Edit, Version::Delete] {
                let number = 100 + u64::try_from(messages.len()).unwrap();
                let entry = EntryId::from(entry);
                messages.push(Message { entry, part, version, ..message(number, seq as u64, "x") });
            }
        }
    }
    let transcript = Transcript::new(7, messages.clone(), None);
    for message in &messages {
        assert_eq!(transcript.find(&message.id(7)), Some(message.clone()));
        assert_eq!(transcript.find(&message.id(8)), None);
    }
    for id in [
        "",
        "7",
        ":",
        "7:plain:",
        "7:plain:edit",
        "7:plain:edit:0101",
        "7:plain:edit:+101",
        "7:nobody",
        "+7:plain",
        "7:plain:reply:x",
    ] {
        assert_eq!(transcript.find(id), None, "{id}");
    }
}

/// The rule of H12, written down without thought for cost.
fn naive(all: &[Message], span: Span, limit: usize) -> (Vec<Message>, bool, bool) {
    let fits = |message: &Message| match span {
        Span::Newest => true,
        Span::After(number) => u128::from(message.number) > number,
        Span::Before(number) => u128::from(message.number) < number,
    };
    let mut candidates: Vec<u64> = all.iter().filter(|m| fits(m)).map(|m| m.number).collect();
    candidates.dedup();
    if !matches!(span, Span::After(_)) {
        candidates.reverse();
    }
    let mut page: Vec<Message> = vec![];
    for number in candidates {
        let group: Vec<Message> = all.iter().filter(|m| m.number == number).cloned().collect();
        let bytes: usize = page.iter().chain(&group).map(|m| m.text.len()).sum();
        if page.len() >= limit || (!page.is_empty() && bytes >= PAGE_BYTES) {
            break;
        }
        page.extend(group);
    }
    page.sort_by_key(Message::order);
    let below = |m: &Message| match page.first() {
        Some(first) => m.number < first.number,
        None => !matches!(span, Span::Before(number) if u128::from(m.number) >= number),
    };
    let above = |m: &Message| match page.last() {
        Some(last) => m.number > last.number,
        None => matches!(span, Span::Before(number) if u128::from(m.number) >= number),
    };
    let (before, after) = (all.iter().any(below), all.iter().any(above));
    (page, before, after)
}

proptest! {
    #[test]
    fn h12_pages_are_those_of_the_naive_model(
        rows in prop::collection::vec((0u64..40, 0u64..6, 0usize..3), 0..40),
        bound in 0u128..44,
        kind in 0usize..3,
        limit in 1usize..8,
        split in 0usize..40,
    ) {
        let big: Arc<str> = Arc::from("x".repeat(PAGE_BYTES / 3));
        let messages: Vec<Message> = rows
            .into_iter()
            .map(|(number, seq, size)| {
                let text = if size == 0 { Arc::clone(&big) } else { Arc::from("y") };
                Message { text, ..message(number, seq, "") }
            })
            .collect();
        let split = split.min(messages.len());
        let mut transcript = Transcript::new(7, messages[..split].to_vec(), None);
        transcript.insert(messages[split..].to_vec());
        let mut sorted = messages;
        sorted.sort_by_key(Message::order);
        let span = [Span::Newest, Span::After(bound), Span::Before(bound)][kind];
        let page = transcript.page(span, limit);
        prop_assert_eq!((page.messages.to_vec(), page.more_before, page.more_after), naive(&sorted, span, limit));
    }

    #[test]
    fn h12_following_after_to_the_end_gives_every_message_once(
        rows in prop::collection::vec((0u64..60, 0u64..6), 1..60),
        limit in 1usize..8,
    ) {
        let messages: Vec<Message> = rows.into_iter().map(|(number, seq)| message(number, seq, "x")).collect();
        let transcript = Transcript::new(7, messages, None);
        let whole = transcript.page(Span::Newest, 500).messages.to_vec();
        let mut forward = transcript.page(Span::Before(1), 500).messages.to_vec();
        let mut at = forward.last().map_or(0, |m| u128::from(m.number));
        loop {
            let page = transcript.page(Span::After(at), limit);
            let Some(last) = page.messages.last_number() else { break };
            at = u128::from(last);
            prop_assert_eq!(page.more_after, at < u128::from(whole.last().unwrap().number));
            forward.extend(page.messages.to_vec());
        }
        prop_assert_eq!(&forward, &whole);
        let mut backward = vec![];
        let mut below = u128::MAX;
        loop {
            let mut page = transcript.page(Span::Before(below), limit).messages.to_vec();
            let Some(first) = page.first() else { break };
            below = u128::from(first.number);
            page.extend(backward);
            backward = page;
        }
        prop_assert_eq!(backward, whole);
    }
}

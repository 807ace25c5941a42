use proptest::prelude::*;

use super::*;
use crate::model::{Attachment, Author, EntryId, Part, Version, Wall};

fn message() -> impl Strategy<Value = Message> {
    // Long ones fill chunks, so that some are taken over as they are.
    let size = prop_oneof![8 => 0usize..40, 1 => 20_000usize..90_000];
    let id =
        prop_oneof!["[a-c:]{0,3}".boxed(), (0u128..4).prop_map(|id| uuid::Uuid::from_u128(id).to_string()).boxed()];
    let version = prop_oneof![Just(Version::Base), Just(Version::Edit), Just(Version::Delete)];
    let rest = (prop::option::of(id.clone()), prop::option::weighted(0.1, ".{0,4}"), any::<bool>(), any::<bool>());
    (any::<u16>(), id, version, size, any::<i64>(), rest).prop_map(
        |(seq, id, version, size, at, (reply_to, file, answer, bot))| Message {
            number: 0,
            seq: seq.into(),
            entry: EntryId::from(id),
            part: if answer { Part::Answer } else { Part::Entry },
            version,
            from: if bot { Author::Bot } else { Author::Account },
            at: Wall(at),
            text: "字".repeat(size).into(),
            reply_to: reply_to.map(EntryId::from),
            meta: file.map(|name| Meta::Attachment(Attachment { name: name.into(), size: None })),
        },
    )
}

/// Messages as a mirror exposes them: each waits in a tray and may be replaced while it does, some lose their target, a few have a meta.
fn exposed(batch: &[(Message, bool)], number: &mut u64, tray: &mut Tray) -> (Vec<Message>, Messages) {
    let (mut plain, mut pile) = (Vec::new(), Pile::default());
    let laid: Vec<Option<Laid>> = batch
        .iter()
        .map(|(message, again)| {
            if message.meta.is_some() {
                return None;
            }
            if *again {
                let old = tray.lay(&Draft { text: "what it said before", ..Draft::of(message) });
                tray.remove(old);
            }
            Some(tray.lay(&Draft::of(message)))
        })
        .collect();
    for ((message, replies), laid) in batch.iter().zip(laid) {
        *number += 1;
        let mut message = Message { number: *number, ..message.clone() };
        match laid {
            Some(laid) => {
                pile.copy(&tray.laid(laid, *number), *replies);
                tray.remove(laid);
                message.reply_to = message.reply_to.filter(|_| *replies);
            }
            None => pile.push(message.clone()),
        }
        plain.push(message);
    }
    (plain, pile.sorted())
}

fn some_message(number: u64) -> Message {
    Message {
        number,
        seq: 1,
        entry: EntryId::from("e"),
        part: Part::Entry,
        version: Version::Base,
        from: Author::Bot,
        at: Wall(0),
        text: "t".into(),
        reply_to: None,
        meta: None,
    }
}

fn long_message(number: u64) -> Message {
    Message { text: "t".repeat(1000).into(), ..some_message(number) }
}

fn five_hundred() -> Messages {
    let mut messages = Messages::default();
    for number in 0..500 {
        messages.insert(long_message(number));
    }
    messages
}

#[test]
fn a_page_holds_full_chunks_as_they_are_and_lets_the_last_one_grow() {
    let mut messages = five_hundred();
    let chunks = messages.shelf.full.len();
    let (old, newest) = (messages.some(0..50), messages.some(450..500));
    assert!(old.shelf.full.iter().any(|chunk| messages.shelf.full.iter().any(|held| Arc::ptr_eq(chunk, held))));
    assert_eq!((old.to_vec().len(), newest.to_vec().len()), (50, 50));
    messages.insert(long_message(500));
    assert_eq!(messages.shelf.full.len(), chunks, "a page took the last chunk's room");
    assert_eq!(newest.last_number(), Some(499));
}

#[test]
fn a_chunk_that_another_follows_gives_back_the_room_that_it_has_left() {
    let mut messages = five_hundred();
    let room = |messages: &Messages| messages.shelf.open.capacity() - messages.shelf.open.len();
    while room(&messages) < CHUNK / 2 {
        messages.insert(long_message(500));
    }
    let open = messages.shelf.open.len();
    let long = Message { text: "t".repeat(CHUNK).into(), ..some_message(501) };
    messages.append(Messages::from(vec![long]));
    let [.., closed, whole] = &messages.shelf.full[..] else { panic!("a chunk wasn't taken over") };
    assert_eq!((closed.len(), whole.len() > CHUNK), (open, true));
    assert!(closed.capacity() < open + CHUNK / 8, "{}", closed.capacity());
    messages.insert(long_message(502));
    assert_eq!(messages.iter().map(|message| message.number()).max(), Some(502));
    assert!(messages.iter().all(|message| message.size() == if message.number() == 501 { CHUNK } else { 1000 }));
}

proptest! {
    #[test]
    fn what_waited_and_was_appended_is_what_was_put(
        batches in prop::collection::vec(prop::collection::vec((message(), any::<bool>()), 0..12), 0..6),
        page in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let (mut tray, mut number) = (Tray::default(), 0);
        let (mut plain, mut messages, mut pages) = (Vec::new(), Messages::default(), Vec::new());
        for batch in &batches {
            let (more, batch) = exposed(batch, &mut number, &mut tray);
            plain.extend(more);
            messages.append(batch);
            let ends = [page.0.index(plain.len() + 1), page.1.index(plain.len() + 1)];
            let page = ends[0].min(ends[1])..ends[0].max(ends[1]);
            pages.push((page.clone(), messages.some(page)));
        }
        prop_assert_eq!(tray.size(), 0);
        prop_assert_eq!(messages.to_vec(), &plain[..]);
        // A page stays as it is, whatever comes after it, and can be added to like any other list.
        for (range, mut page) in pages {
            prop_assert_eq!(page.to_vec(), &plain[range]);
            let more = some_message(number + 1);
            page.insert(more.clone());
            prop_assert_eq!(page.to_vec().pop(), Some(more));
        }
        prop_assert_eq!(messages.to_vec(), &plain[..]);
    }

    #[test]
    fn what_is_appended_below_others_goes_where_it_belongs(numbers in prop::collection::vec(0u64..30, 0..20), split in any::<prop::sample::Index>()) {
        let message = |(seq, number): (usize, &u64)| Message { seq: seq as u64, ..some_message(*number) };
        let mut all: Vec<Message> = numbers.iter().enumerate().map(message).collect();
        let (first, second) = all.split_at(split.index(all.len() + 1));
        let mut messages = Messages::from(first.to_vec());
        messages.append(Messages::from(second.to_vec()));
        all.sort_by_key(Message::order);
        prop_assert_eq!(messages.to_vec(), all);
    }
}

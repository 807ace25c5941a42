//! Marks in blocks, as they lie in the table: a row for each takes about three times as long to write and to load, and half as much room again.
//!
//! A block is neighbours in the order of their first exposures, one behind the other in the bytes of [`Marks`]; `low` is the place of its first one, and
//! a block holds whatever lies from there to the next block's. A first exposure never changes, and new ones are the highest: so what is new lies
//! together, in a Bot's last block and behind it. (In the order of ids, which are as good as random, ten thousand marks touched nearly every page of a
//! large index.)
//!
//! Each block carries a sum, for SQLite keeps none of its pages: a bit that flipped on the disk would make another cursor of one, or an edit that nobody
//! made, and a host would be told.

use rusqlite::types::Type;
use rusqlite::{OptionalExtension as _, Transaction, params};
use sha2::{Digest as _, Sha256};

use crate::mirror::{Marks, PackedMark, Stored};
use crate::model::{CompactId, Part};

pub(super) const TABLE: &str = "CREATE TABLE block (
  bot INTEGER NOT NULL, generation INTEGER NOT NULL, low BLOB NOT NULL, marks BLOB NOT NULL,
  PRIMARY KEY (bot, generation, low)
) WITHOUT ROWID";
/// A row longer than some 1,000 bytes would lie in pages of its own, for SQLite wants four to a page of such a table.
const MOST: usize = 930;
/// New blocks are filled up to here: the marks in them grow a little when they are revised.
const FILL: usize = 840;

/// The place of a mark among those of its generation, as bytes that SQLite puts in the same order as [`order`] does.
fn low(packed: &PackedMark<'_>) -> Vec<u8> {
    let (first, part, entry) = order(packed);
    let kind = u8::from(matches!(entry, CompactId::Text(_)));
    [&first.to_be_bytes()[..], &[u8::from(part == Part::Answer), kind], entry.key()].concat()
}

fn order<'a>(packed: &PackedMark<'a>) -> (u64, Part, CompactId<'a>) {
    (packed.mark.first, packed.mark.part, packed.mark.entry)
}

/// Bytes of a block's sum, which lies before its marks.
const SUM: usize = 4;

/// Says whether these marks were written as these, of this Bot and this generation. It is against mishaps; whoever may write the file may write anything.
fn sum(bot: i64, generation: i64, marks: &[u8]) -> [u8; SUM] {
    let whole =
        Sha256::new().chain_update(bot.to_be_bytes()).chain_update(generation.to_be_bytes()).chain_update(marks);
    whole.finalize().first_chunk().copied().unwrap_or_default()
}

/// A block of these marks, as it lies in the table.
pub(super) fn summed(bot: i64, generation: i64, marks: &[u8]) -> Vec<u8> {
    [&sum(bot, generation, marks)[..], marks].concat()
}

/// The marks of a block. What none of ours can be is an error, never a guess: a guessed cursor would be told to hosts.
fn read<'a>(bot: i64, generation: i64, low_of: &[u8], block: &'a [u8]) -> rusqlite::Result<Vec<PackedMark<'a>>> {
    match block.split_first_chunk() {
        Some((written, marks)) if *written == sum(bot, generation, marks) => read_unsummed(low_of, marks),
        _ => Err(no_marks()),
    }
}

/// The same of a block of the schema before, which had no sum.
pub(super) fn read_unsummed<'a>(low_of: &[u8], marks: &'a [u8]) -> rusqlite::Result<Vec<PackedMark<'a>>> {
    let all = Marks::unpack(marks).filter(|all| {
        let rises = all.is_sorted_by(|one, two| order(one) < order(two));
        rises && all.first().is_some_and(|first| low(first) == low_of)
    });
    all.ok_or_else(no_marks)
}

fn no_marks() -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, "no marks of ours".into())
}

/// Marks in their order, each once: of two versions of one, what comes later.
fn sorted(mut all: Vec<PackedMark<'_>>) -> Vec<PackedMark<'_>> {
    all.sort_by(|one, two| order(one).cmp(&order(two)));
    all.dedup_by(|later, earlier| {
        let same = order(later) == order(earlier);
        if same {
            *earlier = *later;
        }
        same
    });
    all
}

/// Sorted marks in pieces that are blocks.
fn pieces<'a, 'b>(mut rest: &'b [PackedMark<'a>]) -> Vec<&'b [PackedMark<'a>]> {
    let size = |marks: &[PackedMark<'_>]| marks.iter().map(|mark| mark.bytes.len()).sum::<usize>();
    let (mut pieces, mut left) = (Vec::new(), size(rest));
    while !rest.is_empty() {
        let mut filled = 0;
        let fits = rest.iter().take_while(|mark| {
            filled += mark.bytes.len();
            filled <= FILL
        });
        // One that is longer than a block is one of its own.
        let count = if left <= MOST { rest.len() } else { fits.count().max(1) };
        let (piece, more) = rest.split_at(count);
        pieces.push(piece);
        left -= size(piece);
        rest = more;
    }
    pieces
}

/// Adds all of a Bot's marks to `stored`.
pub(super) fn load(connection: &rusqlite::Connection, bot: i64, stored: &mut Stored) -> rusqlite::Result<()> {
    let mut query = connection.prepare_cached("SELECT generation, low, marks FROM block WHERE bot = ?1")?;
    let mut rows = query.query([bot])?;
    let mut last: Option<(i64, Vec<u8>)> = None;
    while let Some(row) = rows.next()? {
        let (generation, place) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
        let marks = read(bot, generation, place, row.get_ref(2)?.as_blob()?)?;
        // In the order of the table's key. A mark that lies in two blocks was written by nobody.
        if last.is_some_and(|(of, last)| of == generation && *last >= *place) {
            return Err(no_marks());
        }
        last = marks.last().map(|mark| (generation, low(mark)));
        stored.extend(generation.cast_unsigned(), &marks);
    }
    Ok(())
}

/// Puts marks of a Bot's generation where they belong; one that is there already gives way.
pub(super) fn write(transaction: &Transaction<'_>, bot: i64, generation: u64, marks: &Marks) -> rusqlite::Result<()> {
    // SQLite's integers are signed: the bits are kept, the order isn't needed there.
    let generation = generation.cast_signed();
    let mut at = transaction.prepare_cached(
        "SELECT low, marks FROM block WHERE bot = ?1 AND generation = ?2 AND low <= ?3 ORDER BY low DESC LIMIT 1",
    )?;
    let mut behind = transaction
        .prepare_cached("SELECT low FROM block WHERE bot = ?1 AND generation = ?2 AND low > ?3 ORDER BY low LIMIT 1")?;
    let mut put = transaction
        .prepare_cached("INSERT OR REPLACE INTO block (bot, generation, low, marks) VALUES (?1, ?2, ?3, ?4)")?;
    let all = sorted(marks.packed().collect());
    let mut rest = &all[..];
    while let Some(lowest) = rest.first() {
        let place = params![bot, generation, low(lowest)];
        let held: Option<(Vec<u8>, Vec<u8>)> = at.query_row(place, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let next: Option<Vec<u8>> = behind.query_row(place, |row| row.get(0)).optional()?;
        // The block holds what lies below the next one. The lowest does; where a damaged file says otherwise, this still comes to an end.
        let count = next.map_or(rest.len(), |next| rest.partition_point(|mark| low(mark) < next).max(1));
        let (here, later) = rest.split_at(count);
        rest = later;
        let before =
            held.as_ref().map(|(low, block)| read(bot, generation, low, block)).transpose()?.unwrap_or_default();
        for piece in pieces(&sorted([&before, here].concat())) {
            let bytes = piece.iter().map(|mark| mark.bytes).collect::<Vec<_>>().concat();
            // A block that was full already stays as it is.
            if held.as_ref().is_none_or(|(_, block)| block[SUM..] != bytes) {
                put.execute(params![bot, generation, low(&piece[0]), summed(bot, generation, &bytes)])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::hostile;
    use super::*;
    use crate::index::{Commit, Sqlite, Store as _};
    use crate::mirror::{Batch, Digest, Mark, testing};
    use crate::model::{AgentId, Author, EntryId};

    fn ids() -> impl Strategy<Value = String> {
        let uuid = (0_u128..300).prop_map(|id| uuid::Uuid::from_u128(id << 120 | id).to_string());
        let text = prop_oneof!["[a-c\u{0}]{0,3}".boxed(), "a{200,1200}".boxed()];
        prop_oneof![8 => uuid.boxed(), 1 => text.boxed()]
    }

    fn marks() -> impl Strategy<Value = Mark> {
        testing::marks(ids(), prop_oneof![8 => (0..60_u64).boxed(), 1 => any::<u64>().boxed()])
    }

    fn commit(generation: u64, clear: bool, marks: Vec<Mark>) -> Commit {
        let batch = Batch { id: 1, clear, generation, marks: marks.into_iter().collect() };
        Commit { account: "a".to_owned(), agent: AgentId::from("bot"), batch }
    }

    proptest! {
        #[test]
        fn the_blocks_hold_what_a_map_would(
            batches in prop::collection::vec((0..2_u64, prop::bool::weighted(0.05), prop::collection::vec(marks(), 1..120)), 1..12),
        ) {
            let mut index = Sqlite::in_memory();
            let mut model = BTreeMap::new();
            for (generation, clear, marks) in batches {
                if clear {
                    model.clear();
                }
                for mark in &marks {
                    let part = u8::from(mark.part == Part::Answer);
                    model.insert((generation, mark.first, part, mark.entry.clone()), mark.clone());
                }
                index.commit(&[commit(generation, clear, marks)]).expect("commits");
                let mut held = index.load("a", &AgentId::from("bot")).expect("loads").to_vec();
                held.sort_by_key(|(generation, mark)| {
                    (*generation, mark.first, u8::from(mark.part == Part::Answer), mark.entry.clone())
                });
                let modelled: Vec<(u64, Mark)> =
                    model.iter().map(|((generation, ..), mark)| (*generation, mark.clone())).collect();
                prop_assert_eq!(held, modelled);
            }
        }

        #[test]
        fn the_bytes_of_places_are_in_the_order_of_the_places(marks in prop::collection::vec(marks(), 2..40)) {
            let marks: Marks = marks.into_iter().collect();
            let all: Vec<PackedMark<'_>> = marks.packed().collect();
            for (one, two) in all.iter().zip(&all[1..]) {
                prop_assert_eq!(low(one).cmp(&low(two)), order(one).cmp(&order(two)));
            }
        }
    }

    /// Of each byte of a block each bit.
    #[test]
    fn a_bit_that_flipped_in_a_block_is_noticed() {
        let marks: Vec<Mark> = (1..40).map(|number| hostile::mark(&format!("entry-{number}"), number)).collect();
        let mut index = Sqlite::in_memory();
        index.commit(&[commit(1, false, marks)]).expect("commits");
        let connection = index.opened().expect("opens");
        let mut query = connection.prepare("SELECT bot, generation, low, marks FROM block").expect("prepares");
        let blocks = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        let blocks: Vec<(i64, i64, Vec<u8>, Vec<u8>)> = blocks.and_then(Iterator::collect).expect("reads");
        assert!(blocks.len() > 1, "{}", blocks.len());
        for (bot, generation, low, mut block) in blocks {
            assert!(read(bot, generation, &low, &block).is_ok());
            assert!(read(bot + 1, generation, &low, &block).is_err(), "another Bot's");
            assert!(read(bot, generation + 1, &low, &block).is_err(), "another generation's");
            for bit in 0..block.len() * 8 {
                block[bit / 8] ^= 1 << (bit % 8);
                assert!(read(bot, generation, &low, &block).is_err(), "bit {bit}");
                block[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    /// What a message takes stays small however its mark came: all at once, one by one, and after each was revised.
    #[test]
    fn blocks_stay_well_filled() {
        let mark = |number: u64, edit| Mark {
            entry: EntryId::from(uuid::Uuid::from_u128(u128::from(number) << 64 | 7).to_string()),
            part: Part::Entry,
            seq: number,
            digest: Some(Digest([1; 16])),
            first: number,
            edit,
            delete: None,
            author: Author::Bot,
        };
        let rows = |index: &mut Sqlite| -> (i64, i64) {
            let connection = index.opened().expect("opens");
            let sql = "SELECT count(*), max(length(marks)) FROM block";
            connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("counts")
        };
        let (mut at_once, mut one_by_one) = (Sqlite::in_memory(), Sqlite::in_memory());
        at_once.commit(&[commit(1, false, (0..600).map(|number| mark(number, None)).collect())]).expect("commits");
        for number in 0..600 {
            one_by_one.commit(&[commit(1, false, vec![mark(number, None)])]).expect("commits");
        }
        for index in [&mut at_once, &mut one_by_one] {
            let (fresh, longest) = rows(index);
            assert!(fresh <= 600 / 20, "{fresh} blocks");
            assert!(longest <= 934);
            for number in 0..600 {
                index.commit(&[commit(1, false, vec![mark(number, Some(5000))])]).expect("commits");
            }
            let (revised, longest) = rows(index);
            assert!(revised <= fresh * 2, "{revised} blocks after {fresh}");
            assert!(longest <= 934);
            assert_eq!(index.load("a", &AgentId::from("bot")).expect("loads").len(), 600);
        }
    }
}

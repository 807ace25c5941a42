//! Hostile input by mutation: seeds of a committed corpus, changed as values of JSON and as bytes, with proptest choosing and shrinking the changes.
//!
//! Every file of the corpus is tried as it is first, so an input that once did harm is put there, under a name that says what it was, and stays
//! tried. `PROPTEST_CASES` makes a run as long as wanted.

mod json;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Bytes for a parser. They are shown as a literal that can be pasted.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Input(pub(crate) Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// The seeds of one target.
#[derive(Clone)]
pub(crate) struct Corpus(Arc<Vec<(String, Vec<u8>)>>);

impl Corpus {
    /// The files under `tests/corpus/TARGET`, by name.
    pub(crate) fn of(target: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
        let mut seeds: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
            .collect();
        assert!(!seeds.is_empty(), "{target} has no corpus");
        seeds.sort();
        Self(Arc::new(seeds))
    }

    /// Tries each file as it is.
    pub(crate) fn replay(&self, check: impl Fn(&[u8])) {
        for (name, bytes) in self.0.iter() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(bytes))) {
                eprintln!("the corpus file {name}");
                resume_unwind(panic);
            }
        }
    }

    /// Replays the corpus, then tries its mutants: `cases` of them, or `PROPTEST_CASES`.
    pub(crate) fn fuzz(&self, cases: u32, check: impl Fn(&[u8])) {
        self.replay(&check);
        fuzz(cases, &self.mutants(), |Input(bytes)| check(&bytes));
    }

    /// Seeds with a few changes, as JSON where they are JSON, as bytes, or both.
    pub(crate) fn mutants(&self) -> impl Strategy<Value = Input> + use<> {
        let corpus = self.clone();
        let json = || prop::collection::vec(json::step(), 0..5);
        let bytes = || prop::collection::vec(step(), 1..4);
        let steps = prop_oneof![
            3 => json().prop_map(|json| (json, vec![])),
            1 => (Just(vec![]), bytes()),
            1 => (json(), bytes()),
        ];
        (any::<Index>(), steps).prop_map(move |(seed, (json, bytes))| {
            let mut input = json::mutated(corpus.pick(seed), &json);
            for step in bytes {
                step.apply(&mut input, &corpus);
            }
            Input(input)
        })
    }

    fn pick(&self, seed: Index) -> &[u8] {
        &seed.get(&self.0).1
    }
}

/// Tries `cases` values, or as many as `PROPTEST_CASES` says. A failure shows the smallest value that was found for it.
pub(crate) fn fuzz<S: Strategy>(cases: u32, values: &S, check: impl Fn(S::Value)) {
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4096, ..Config::default() };
    let outcome = TestRunner::new(config).run(values, |value| {
        check(value);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// What parsers trip over.
const ODD: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"-",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x02\x00\x00\x00\x00",
    b"\x00\x00\x00\x00\x00",
    b"\x00\x02\x00\x00\x01",
    b"{\"a\":1,\"a\":2}",
];

/// One change of bytes.
#[derive(Clone, Debug)]
enum Step {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Index),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    /// The end goes.
    Cut(Index),
    /// From here on it is another seed, from there on.
    Splice(Index, Index, Index),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), 0_u8..8).prop_map(|(at, bit)| Step::Flip(at, bit)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Step::Set(at, byte)),
        4 => (at(), at()).prop_map(|(at, odd)| Step::Insert(at, odd)),
        2 => (at(), 1_usize..40).prop_map(|(at, length)| Step::Remove(at, length)),
        1 => (at(), 1_usize..40, 1_usize..60).prop_map(|(at, length, times)| Step::Repeat(at, length, times)),
        2 => at().prop_map(Step::Cut),
        1 => (at(), at(), at()).prop_map(|(at, seed, from)| Step::Splice(at, seed, from)),
    ]
}

impl Step {
    fn apply(self, input: &mut Vec<u8>, corpus: &Corpus) {
        let length = input.len();
        let place = |at: Index| at.index(length + 1);
        match self {
            Self::Flip(at, bit) if length > 0 => input[at.index(length)] ^= 1 << bit,
            Self::Set(at, byte) if length > 0 => input[at.index(length)] = byte,
            Self::Flip(..) | Self::Set(..) => {}
            Self::Insert(at, odd) => drop(input.splice(place(at)..place(at), odd.get(ODD).iter().copied())),
            Self::Remove(at, count) => drop(input.drain(place(at)..(place(at) + count).min(length))),
            Self::Repeat(at, count, times) => {
                let part = input[place(at)..(place(at) + count).min(length)].repeat(times);
                drop(input.splice(place(at)..place(at), part));
            }
            Self::Cut(at) => input.truncate(place(at)),
            Self::Splice(at, seed, from) => {
                let other = corpus.pick(seed);
                input.truncate(place(at));
                input.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
        }
    }
}

//! The durable index: commits, their size on the disk, and its load.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use coda_grok_bot::index::{Commit, Sqlite, Store};
use coda_grok_bot::mirror::{Batch, Digest, Mark, Mirror};
use coda_grok_bot::model::{AgentId, Author, EntryId, Harness, Part, Wall};
use coda_grok_bot::service::INDEX;

use crate::data::{self, GENERATION, Rng};
use crate::stats::{Clock, Table, Values, float, say, verdict};
use crate::world::resident;
use crate::{Figures, Options, Result, figure, run};

const ACCOUNT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const BOTS: u64 = 20;
/// Exposures of the large commits.
const MANY: u64 = 10_000;
/// Single exposures that are timed.
const SINGLES: usize = 300;

/// The index in a folder, as the program opens it.
fn store(folder: &Path) -> impl Store {
    Sqlite::at(folder.join(INDEX))
}

/// The mark of the `n`th exposure of all.
fn mark(n: u64) -> Mark {
    let mut rng = Rng(n);
    Mark {
        entry: EntryId::from(data::uuid(&mut rng)),
        part: Part::Entry,
        seq: n / BOTS + 1,
        digest: Some(Digest::of(&n.to_string())),
        first: n / BOTS + 1,
        edit: None,
        delete: None,
        author: if rng.below(3) == 0 { Author::Account } else { Author::Bot },
    }
}

/// Commits of the marks from `first` on, `count` of them, spread over the Bots as they come.
fn commits(first: u64, count: u64) -> Vec<Commit> {
    let batch = |bot: u64| {
        let marks: Vec<Mark> = (first..first + count).filter(|n| n % BOTS == bot).map(mark).collect();
        let agent = AgentId::from(data::agent(usize::try_from(bot).unwrap_or(0)));
        let batch = Batch { id: first, clear: false, generation: GENERATION, marks: marks.into_iter().collect() };
        Commit { account: ACCOUNT.to_owned(), agent, batch }
    };
    (0..BOTS).map(batch).filter(|commit| !commit.batch.marks.is_empty()).collect()
}

/// Loads an index as a start does: marks of every Bot, each into its mirror.
pub(crate) fn child(folder: &str) -> Result<()> {
    let mut store = store(Path::new(folder));
    let (empty, start) = (resident(), Clock::now());
    let mut mirrors = Vec::new();
    let mut marks = 0;
    for bot in 0..usize::try_from(BOTS)? {
        let stored = store.load(ACCOUNT, &AgentId::from(data::agent(bot)))?;
        marks += stored.len() as u64;
        mirrors.push(Mirror::new(Harness::Other, stored, Wall(0)));
    }
    let time = Clock::now().saturating_sub(start);
    say(&format!("load {}", time.as_secs_f64()));
    say(&format!("resident {}", float(resident().saturating_sub(empty)) / float(marks)));
    drop(mirrors);
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Clock::now();
    work()?;
    Ok(Clock::now().saturating_sub(start).as_secs_f64() * 1000.0)
}

/// Bytes of the files of an index.
fn size(folder: &Path) -> Result<u64> {
    let sizes = fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len()));
    sizes.sum()
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    let (mut first, mut full, mut bare, mut one, mut bytes) = <(Values, Values, Values, Values, Values)>::default();
    let mut figures = Figures::new();
    for _ in 0..options.rounds {
        let (folder, beside) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let mut index = store(folder.path());
        // Opened, and its tables there.
        index.load(ACCOUNT, &AgentId::from(data::agent(0)))?;
        let mut next = 0;
        while next < options.messages {
            let batches = commits(next, MANY);
            let time = timed(|| Ok(index.commit(&batches)?))?;
            next += MANY;
            if next == MANY {
                first.add(time);
            } else if next == options.messages {
                full.add(time);
            }
        }
        // Closed, so that nothing waits beside it.
        drop(index);
        bytes.add(float(size(folder.path())?) / float(options.messages));
        let path = folder.path().to_str().ok_or("a path that isn't UTF-8")?;
        run(&mut figures, "", &["load", path])?;

        // A bare write as long as a mark, made durable, in turn with an exposure: what the disk does falls on both.
        let mut index = store(folder.path());
        let mut file = File::create(beside.path().join("bare"))?;
        let (mut single, mut write) = (Values::default(), Values::default());
        for n in 0..SINGLES {
            let batches = commits(next + n as u64, 1);
            single.add(timed(|| Ok(index.commit(&batches)?))?);
            write.add(timed(|| {
                file.write_all(&[7; 100])?;
                Ok(file.sync_data()?)
            })?);
        }
        one.add(single.median());
        bare.add(write.median());
    }
    let mut table = Table::new(&["index", "must be", "measured", ""]);
    let mut row = |what: &str, most: f64, unit: &str, values: &Values| {
        let measured = if most < 10.0 { format!("{values:.2}{unit}") } else { format!("{values:.1}{unit}") };
        table.row(&[what, &format!("≤ {most}{unit}"), &measured, verdict(values.median(), most)]);
    };
    row("10,000 exposures durable in one commit, the first", 120.0, " ms", &first);
    row(&format!("10,000 exposures durable in one commit, the last of {}", options.messages), 120.0, " ms", &full);
    row("one exposure, over a bare write and fdatasync", 1.6, " ×", &one.over(&bare));
    row("its file, a message", 100.0, " bytes", &bytes);
    row(&format!("the load of {} messages", options.messages), 1.5, " s", figure(&figures, "load")?);
    row("resident after the load, a row", 130.0, " bytes", figure(&figures, "resident")?);
    table.print("The durable index");
    say(&format!("\nOne exposure takes {one:.3} ms, a bare write and fdatasync {bare:.3} ms."));
    Ok(())
}
